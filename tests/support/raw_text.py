"""Answers of the two raw-text routes as engines write them, and what a client makes of them.

Shapes: vLLM 0.33 text completions (reference/vllm.md 3.4), SGLang 0.5.23 `/generate` (reference/sglang.md 3.4) with the
whole text in every event or with pieces. Independent of `gateway.protocols`, whose output it reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.exchange import Exchange, Overrides, RouteRules, open_exchange, peek_request
from gateway.protocols import protocol_for
from tests.exchange.driver import NO_OVERRIDES, findings, route
from tests.support.legal import body_stays_legal, stays_legal

DONE = b"data: [DONE]\n\n"
Events = Sequence[Sequence[str]]
"""The tokens of each event."""
ENDINGS: dict[str, tuple[str | None, Any]] = {
    "end": ("stop", None),
    "stop string": ("stop", "END"),
    "stop token": ("stop", 151645),
    "length": ("length", None),
    "abort": ("abort", None),
    "missing": (None, None),
}
"""How an answer may end: the finish reason and the stop reason."""


@dataclass(slots=True)
class Told:
    """What a client has of one choice. `tokens`, `ids`, `offsets`: from the arrays beside the text."""

    text: str = ""
    reasoning: str = ""
    finishes: list[Any] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    @property
    def said(self) -> tuple[str, str]:
        return self.reasoning, self.text


def frame(value: object) -> bytes:
    """One event."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def values(body: bytes) -> list[Any]:
    """The JSON of every event but `[DONE]`."""
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """`logprobs`, `ids`: with the arrays. Every token is told apart by its number as id and as log probability."""

    logprobs: bool = False
    ids: bool = False
    path = "/v1/completions"

    def choice(self, tokens: Sequence[str], *, first: int, at: int, finish: str | None, reason: Any, index: int) -> Any:
        """One choice of a chunk, or of a body. `first`: the number of its first token; `at`: where its text begins."""
        numbers = range(first, first + len(tokens))
        offsets = [at + sum(map(len, tokens[:place])) for place in range(len(tokens))]
        probabilities = {
            "text_offset": offsets,
            "token_logprobs": [-number - 0.5 for number in numbers],
            "tokens": list(tokens),
            "top_logprobs": [{token: -0.5} for token in tokens],
        }
        return {
            "index": index,
            "text": "".join(tokens),
            "logprobs": probabilities if self.logprobs and tokens else None,
            "finish_reason": finish,
            "stop_reason": reason,
            "token_ids": list(numbers) if self.ids else None,
        }

    def top(self, choices: list[Any]) -> dict[str, Any]:
        return {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": choices}

    def events(self, tokens: Events, *, finish: str | None = "stop", reason: Any = None, index: int = 0) -> list[bytes]:
        """The chunks of one choice, without `[DONE]`."""
        out, first, at = [], 0, 0
        for each in tokens:
            choice = self.choice(each, first=first, at=at, finish=None, reason=None, index=index)
            out.append(frame(self.top([choice])))
            first, at = first + len(each), at + len("".join(each))
        if finish is not None:
            out.append(frame(self.top([self.choice([], first=0, at=0, finish=finish, reason=reason, index=index)])))
        return out

    def body(self, *answers: Events, finish: str | None = "stop", reason: Any = None) -> bytes:
        """A plain body with one choice for each answer."""
        rows = [[token for each in tokens for token in each] for tokens in answers]
        choices = [
            self.choice(row, first=0, at=0, finish=finish, reason=reason, index=index) for index, row in enumerate(rows)
        ]
        return json.dumps(self.top(choices), separators=(",", ":")).encode()

    def streamed(self, body: bytes) -> dict[int, Told]:
        """What a client joins from a stream, by choice."""
        told: dict[int, Told] = {}
        for value in values(body):
            for choice in value.get("choices", ()):
                self._add(told.setdefault(choice["index"], Told()), choice)
        return told

    def plain(self, body: bytes) -> dict[int, Told]:
        """What a client reads in a plain body, by choice."""
        told: dict[int, Told] = {}
        for choice in json.loads(body)["choices"]:
            self._add(told.setdefault(choice["index"], Told()), choice)
        return told

    @staticmethod
    def _add(told: Told, choice: Any) -> None:
        assert choice.get("reasoning") == choice.get("reasoning_content")
        told.text += choice["text"]
        told.reasoning += choice.get("reasoning") or ""
        told.finishes += [choice["finish_reason"]] if choice["finish_reason"] else []
        told.ids += choice.get("token_ids") or []
        if choice.get("logprobs"):
            told.tokens += choice["logprobs"]["tokens"]
            told.offsets += choice["logprobs"]["text_offset"]
            assert len({len(array) for array in choice["logprobs"].values()}) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """`pieces`: events carry what is new, not all. `logprobs`: with log probabilities. `ids` are always there."""

    pieces: bool = False
    logprobs: bool = False
    ids: bool = True
    path = "/generate"

    def event(
        self, tokens: Sequence[str], *, first: int, count: int, finish: str | None, reason: Any
    ) -> dict[str, Any]:
        """One event. `first`: the number of its first token, `count`: of all tokens so far."""
        numbers = range(first, first + len(tokens))
        ended: dict[str, Any] | None = None
        if finish is not None:
            ended = {"type": finish, "length": count} if finish == "length" else {"type": finish, "matched": reason}
        meta: dict[str, Any] = {"id": "g1", "finish_reason": ended, "prompt_tokens": 3, "completion_tokens": count}
        if self.logprobs:
            rows = zip(numbers, tokens, strict=True)
            meta["output_token_logprobs"] = [[-number - 0.5, number, token] for number, token in rows]
            meta["output_token_logprobs_length"] = len(tokens)
        return {"text": "".join(tokens), "output_ids": list(numbers), "meta_info": meta}

    def events(self, tokens: Events, *, finish: str | None = "stop", reason: Any = None, index: int = 0) -> list[bytes]:
        """The events of one answer, without `[DONE]`; the last one says how it ended."""
        out, so_far = [], []
        rows = [*tokens] if finish is None else [*tokens, []]
        for place, each in enumerate(rows):
            so_far += each
            shown = each if self.pieces else so_far
            ends = finish if place == len(rows) - 1 else None
            event = self.event(shown, first=len(so_far) - len(shown), count=len(so_far), finish=ends, reason=reason)
            out.append(frame(event | {"index": index} if index else event))
        return out

    def body(self, *answers: Events, finish: str | None = "stop", reason: Any = None) -> bytes:
        """A plain body; of several answers a list."""
        rows = [[token for each in tokens for token in each] for tokens in answers]
        found = [self.event(row, first=0, count=len(row), finish=finish, reason=reason) for row in rows]
        several = [event | {"index": index} for index, event in enumerate(found)]
        return json.dumps(several if len(found) > 1 else found[0], separators=(",", ":")).encode()

    def streamed(self, body: bytes) -> dict[int, Told]:
        """What a client makes of a stream, by index."""
        told: dict[int, Told] = {}
        for value in values(body):
            if "text" not in value:
                continue
            old, new = told.get(value.get("index", 0), Told()), self._told(value)
            if self.pieces:
                new = replace(new, text=old.text + new.text, reasoning=old.reasoning + new.reasoning)
                new = replace(new, tokens=old.tokens + new.tokens, ids=old.ids + new.ids)
            else:
                assert new.text.startswith(old.text) and new.reasoning.startswith(old.reasoning)
                assert new.ids[: len(old.ids)] == old.ids
            told[value.get("index", 0)] = replace(new, finishes=new.finishes or old.finishes)
        return told

    def plain(self, body: bytes) -> dict[int, Told]:
        """What a client reads in a plain body, by index."""
        found = json.loads(body)
        events = found if isinstance(found, list) else [found]
        return {event.get("index", 0): self._told(event) for event in events}

    def _told(self, event: dict[str, Any]) -> Told:
        assert event.get("reasoning") == event.get("reasoning_content")
        meta = event["meta_info"]
        rows = meta.get("output_token_logprobs", [])
        assert meta.get("output_token_logprobs_length", 0) == len(rows)
        if self.logprobs:
            assert [row[1] for row in rows] == event["output_ids"]
        return Told(
            text=event["text"],
            reasoning=event.get("reasoning") or "",
            finishes=[meta["finish_reason"]["type"]] if meta["finish_reason"] else [],
            tokens=[row[2] for row in rows],
            ids=event["output_ids"],
        )


Wire = Completions | Generate
WIRES: dict[str, Wire] = {
    "completions": Completions(),
    "generate": Generate(),
    "generate, pieces": Generate(pieces=True),
}


# ---------------------------------------------------------------------- through the exchange


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client got of an answer in the shape of `wire`. `complete`: the body ended as HTTP says it should."""

    wire: Wire
    body: bytes
    complete: bool
    stream: bool
    headers: dict[str, str]
    exchange: Exchange

    @property
    def choices(self) -> dict[int, Told]:
        return self.wire.streamed(self.body) if self.stream else self.wire.plain(self.body)

    @property
    def said(self) -> tuple[str, str]:
        """Reasoning and text of the first choice."""
        return self.choices.get(0, Told()).said

    @property
    def findings(self) -> dict[str, int]:
        return findings(self.exchange)


def split_route(name: str = "think", **settings: Any) -> RouteRules:
    """A route that splits raw text."""
    return route(name, raw_text="split", **settings)


def opened(wire: Wire, rules: RouteRules, request: dict[str, Any], overrides: Overrides = NO_OVERRIDES) -> Exchange:
    """An exchange of the wire's route."""
    protocol = protocol_for(wire.path)
    assert protocol is not None
    body = json.dumps({"model": "m", **request}).encode()
    facts = peek_request(protocol, body)
    return open_exchange(protocol=protocol, body=body, facts=facts, rules=rules, overrides=overrides)


def stream(
    wire: Wire,
    reads: Iterable[bytes],
    rules: RouteRules | None = None,
    *,
    request: dict[str, Any] | None = None,
    overrides: Overrides = NO_OVERRIDES,
) -> Answer:
    """A streamed answer that ends cleanly after `reads`."""
    exchange, sent = opened(wire, rules or split_route(), request or {}, overrides), list(reads)
    exchange.head(status=200, content_type="text/event-stream; charset=utf-8", content_encoding=None)
    out = b"".join([exchange.data(read) for read in sent])
    ending = exchange.end()
    assert exchange.fault is None
    stays_legal(exchange.protocol.name, b"".join(sent), out + ending.data)
    return Answer(wire, out + ending.data, ending.complete, True, dict(ending.headers), exchange)


def plain(
    wire: Wire,
    body: bytes,
    rules: RouteRules | None = None,
    *,
    request: dict[str, Any] | None = None,
    overrides: Overrides = NO_OVERRIDES,
) -> Answer:
    """A plain answer."""
    exchange = opened(wire, rules or split_route(), request or {}, overrides)
    exchange.head(status=200, content_type="application/json", content_encoding=None)
    out = exchange.data(body)
    ending = exchange.end()
    assert exchange.fault is None
    body_stays_legal(exchange.protocol.name, body, out + ending.data)
    return Answer(wire, out + ending.data, ending.complete, False, dict(ending.headers), exchange)


def cut(text: str, size: int) -> list[list[str]]:
    """`text` as tokens of `size` characters, one an event."""
    return [[text[at : at + size]] for at in range(0, len(text), size)]
