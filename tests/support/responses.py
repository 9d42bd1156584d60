"""One exchange of Responses without a socket: the engine's events in, what its client has out.

`stream` writes events as vLLM 0.32 does (reference/vllm.md 3.5), `body` a plain answer, both from pieces that stand in
no protocol: `(kind, text)` with kind `reasoning`, `content`, `commentary` or `refusal`, neighbours of one kind in one
item; `("call", (call id, name, pieces of the arguments))`; `("other", item)`: one of another type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from gateway.errors import EngineTruncated
from gateway.exchange import Exchange, Overrides, RouteRules, open_exchange, peek_request
from gateway.protocols import protocol_for
from gateway.protocols.legal.responses import ENDS, violations
from gateway.protocols.protocol import WireProtocol
from tests.exchange import driver
from tests.support.legal import body_stays_legal, stays_legal

Piece = tuple[str, Any]
TEXT = {"reasoning": "reasoning_text", "content": "output_text", "commentary": "output_text", "refusal": "refusal"}


def responses() -> WireProtocol:
    """The protocol."""
    found = protocol_for("/v1/responses")
    assert found is not None
    return found


# ---------------------------------------------------------------------- the engine


def event(value: dict[str, Any]) -> bytes:
    """One frame."""
    return f"event: {value['type']}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


@dataclass
class Engine:
    """An engine that writes one answer. `old`: as vLLM 0.28 names the parts of a thought. `summary`: as SGLang does
    where a summary is asked for. `tokens`: with log probabilities. `bare`: without the events that end text and items.
    """

    old: bool = False
    summary: bool = False
    tokens: bool = False
    bare: bool = False
    frames: list[bytes] = field(default_factory=list)
    output: list[dict[str, Any]] = field(default_factory=list)

    def send(self, kind: str, **members: Any) -> None:
        """The next event, numbered."""
        self.frames.append(event({"type": f"response.{kind}", **members, "sequence_number": len(self.frames)}))

    def begin(self) -> None:
        """What every stream begins with."""
        for kind in ("created", "in_progress"):
            self.send(kind, response=response([], "in_progress"))

    def item(self, kind: str, texts: Sequence[Any]) -> None:
        """One item, from its announcement to its end."""
        index = len(self.output)
        if kind == "call":
            self.call(index, *texts[0])
        elif kind == "other":
            self.output.append(texts[0])
            self.send("output_item.added", output_index=index, item={**texts[0], "status": "in_progress"})
            self.send("output_item.done", output_index=index, item=texts[0])
        else:
            self.text(kind, index, texts)

    def text(self, kind: str, index: int, texts: Sequence[str]) -> None:
        """An item of text with one part."""
        summary = self.summary and kind == "reasoning"
        item, part = text_item(kind, index, "".join(texts), summary=summary)
        self.output.append(item)
        name = "reasoning_summary_text" if summary else TEXT[kind]
        around = {True: "reasoning_summary_part"}.get(summary, "content_part")
        if self.old and kind == "reasoning":
            around = "reasoning_part"
        where = {"item_id": item["id"], "output_index": index, "summary_index" if summary else "content_index": 0}
        said = "refusal" if kind == "refusal" else "text"
        empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"content": None, "summary": []}
        self.send("output_item.added", output_index=index, item={**item, **empty, "status": "in_progress"})
        self.send(f"{around}.added", **where, part={**part, said: ""})
        for text in texts:
            more = {"logprobs": spelt(text) if self.tokens else []} if name == "output_text" else {}
            self.send(f"{name}.delta", **where, delta=text, **more)
        if not self.bare:
            more = {"logprobs": spelt(texts[-1]) if self.tokens else []} if name == "output_text" else {}
            self.send(f"{name}.done", **where, **{said: part[said]}, **more)
            self.send(f"{around}.done", **where, part=part)
            self.send("output_item.done", output_index=index, item=item)

    def call(self, index: int, ident: str, name: str, pieces: Sequence[str]) -> None:
        """A call of a function."""
        item = call_item(index, ident, name, "".join(pieces))
        self.output.append(item)
        where = {"item_id": item["id"], "output_index": index}
        self.send("output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"})
        for piece in pieces:
            self.send("function_call_arguments.delta", **where, delta=piece)
        if not self.bare:
            self.send("function_call_arguments.done", **where, arguments=item["arguments"], name=name)
            self.send("output_item.done", output_index=index, item=item)

    def end(self, status: str) -> None:
        """The terminal event."""
        self.send(status, response=response(self.output, status))


def stream(pieces: Iterable[Piece], *, status: str = "completed", **shape: bool) -> list[bytes]:
    """The frames of a whole stream. `shape`: fields of `Engine`."""
    engine = Engine(**shape)
    engine.begin()
    for kind, texts in grouped(pieces):
        engine.item(kind, texts)
    engine.end(status)
    return engine.frames


def body(pieces: Iterable[Piece], *, status: str = "completed", tokens: bool = False, summary: bool = False) -> bytes:
    """The same answer as a plain body."""
    output: list[dict[str, Any]] = []
    for index, (kind, texts) in enumerate(grouped(pieces)):
        if kind == "call":
            ident, name, arguments = texts[0]
            output.append(call_item(index, ident, name, "".join(arguments)))
        elif kind == "other":
            output.append(texts[0])
        else:
            item, part = text_item(kind, index, "".join(texts), summary=summary and kind == "reasoning")
            if tokens and kind == "content":
                part["logprobs"] = [token for text in texts for token in spelt(text)]
            output.append(item)
    return json.dumps(response(output, status), separators=(",", ":")).encode()


def grouped(pieces: Iterable[Piece]) -> Iterator[tuple[str, list[Any]]]:
    """Runs of one kind; each call and each other item for itself."""
    for (kind, _), run in groupby(
        enumerate(pieces), key=lambda p: (p[1][0], p[0] if p[1][0] in ("call", "other") else 0)
    ):
        yield kind, [piece[1] for _, piece in run]


def response(output: list[dict[str, Any]], status: str) -> dict[str, Any]:
    """The response of an event, or a plain body."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": status,
        "output": output,
        "error": {"code": "server_error", "message": "it broke"} if status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "temperature": 0.0,
        "usage": None if status == "in_progress" else {"input_tokens": 3, "output_tokens": 7, "total_tokens": 10},
    }


def text_item(kind: str, index: int, text: str, *, summary: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """An item and its one part."""
    if kind == "reasoning":
        part: dict[str, Any] = {"type": "summary_text" if summary else "reasoning_text", "text": text}
        held = {"summary": [part], "content": None} if summary else {"summary": [], "content": [part]}
        return {
            "id": f"rs_{index}",
            "type": "reasoning",
            **held,
            "encrypted_content": None,
            "status": "completed",
        }, part
    part = {"annotations": [], "text": text, "type": "output_text", "logprobs": None}
    if kind == "refusal":
        part = {"type": "refusal", "refusal": text}
    phase = "commentary" if kind == "commentary" else None
    head = {"id": f"msg_{index}", "content": [part], "role": "assistant", "status": "completed"}
    return {**head, "type": "message", "phase": phase}, part


def call_item(index: int, ident: str, name: str, arguments: str) -> dict[str, Any]:
    """An item that calls a function."""
    said = {"arguments": arguments, "call_id": ident, "name": name, "type": "function_call"}
    return {**said, "id": f"fc_{index}", "status": "completed"}


def spelt(text: str) -> list[dict[str, Any]]:
    """A token for each word (reference/vllm.md 3.5)."""
    words = text.replace(" ", "\0 ").split("\0")
    return [{"token": word, "logprob": -0.5, "top_logprobs": []} for word in words if word]


# ---------------------------------------------------------------------- the client


def events_of(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Event name and data of every event; `[DONE]` is none."""
    found: list[tuple[str, dict[str, Any]]] = []
    for block in body.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line for line in block.split("\n") if line]
        name = next((line[6:].strip() for line in lines if line.startswith("event:")), "")
        data = "\n".join(line[5:].removeprefix(" ") for line in lines if line.startswith("data:"))
        if data and data != "[DONE]":
            found.append((name, json.loads(data)))
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client got. `complete`: the body ended as HTTP says it should."""

    body: bytes
    complete: bool
    exchange: Exchange

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every event of a stream."""
        return [value for _, value in events_of(self.body)]

    @property
    def response(self) -> dict[str, Any]:
        """The response: that of the terminal event, or the plain body."""
        value: dict[str, Any] = json.loads(self.body) if self.body.startswith(b"{") else self.events[-1]["response"]
        return value

    @property
    def said(self) -> tuple[str, str, list[tuple[str, str]]]:
        """Reasoning, content and calls; of a stream by its deltas."""
        return told(self.response["output"]) if self.body.startswith(b"{") else heard(self.events)

    @property
    def kinds(self) -> list[str]:
        """The types of the items."""
        return [item["type"] for item in self.response["output"]]

    @property
    def findings(self) -> dict[str, int]:
        """`finding/action` to its count."""
        return driver.findings(self.exchange)

    def legal(self, *, ended: bool = True, ids: bool = True) -> Answer:
        """The answer, whose stream must be legal. `ended`: with its terminal event, not with an error."""
        assert violations(self.body, ids=ids) == []
        assert not ended or self.events[-1]["type"] in ENDS
        return self


def told(output: list[dict[str, Any]]) -> tuple[str, str, list[tuple[str, str]]]:
    """What whole items say; progress messages are no answer."""
    texts = {"reasoning": "", "message": ""}
    for item in output:
        parts = [*(item.get("content") or ()), *(item.get("summary") or ())]
        if item["type"] in texts and item.get("phase") != "commentary":
            texts[item["type"]] += "".join(part.get("text", "") for part in parts)
    calls = [(item["name"], item["arguments"]) for item in output if item["type"] == "function_call"]
    return texts["reasoning"], texts["message"], calls


def heard(events: list[dict[str, Any]]) -> tuple[str, str, list[tuple[str, str]]]:
    """What the deltas say."""
    texts, calls, silent = {"reasoning": "", "content": ""}, {}, set()
    for value in events:
        kind, index = value["type"], value.get("output_index", -1)
        if kind == "response.output_item.added":
            silent |= {index} if value["item"].get("phase") == "commentary" else set()
            if value["item"]["type"] == "function_call":
                calls[index] = (value["item"]["name"], "")
        elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            texts["reasoning"] += value["delta"]
        elif kind == "response.output_text.delta" and index not in silent:
            texts["content"] += value["delta"]
        elif kind == "response.function_call_arguments.delta":
            calls[index] = (calls[index][0], calls[index][1] + value["delta"])
    return texts["reasoning"], texts["content"], [calls[index] for index in sorted(calls)]


def opened(request: dict[str, Any], rules: RouteRules, overrides: Overrides = driver.NO_OVERRIDES) -> Exchange:
    """An exchange for a request."""
    sent = json.dumps({"model": "m", "input": "hi", **request}).encode()
    facts = peek_request(responses(), sent)
    return open_exchange(protocol=responses(), body=sent, facts=facts, rules=rules, overrides=overrides)


def streamed(
    reads: Iterable[bytes],
    rules: RouteRules | None = None,
    *,
    request: dict[str, Any] | None = None,
    overrides: Overrides = driver.NO_OVERRIDES,
    broken: bool = False,
) -> Answer:
    """A streamed answer that ends after `reads`: cleanly, or broken off."""
    exchange, sent = opened({"stream": True, **(request or {})}, rules or driver.route(), overrides), list(reads)
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = b"".join([exchange.data(read) for read in sent])
    ending = exchange.broken(EngineTruncated("it broke off")) if broken else exchange.end()
    assert exchange.fault is None, exchange.fault
    stays_legal("responses", b"".join(sent), out + ending.data)
    return Answer(out + ending.data, ending.complete, exchange)


def plain(
    sent: bytes,
    rules: RouteRules | None = None,
    *,
    request: dict[str, Any] | None = None,
    overrides: Overrides = driver.NO_OVERRIDES,
) -> Answer:
    """A plain answer."""
    exchange = opened(request or {}, rules or driver.route(), overrides)
    exchange.head(status=200, content_type="application/json", content_encoding=None)
    out = exchange.data(sent)
    ending = exchange.end()
    assert exchange.fault is None, exchange.fault
    body_stays_legal("responses", sent, out + ending.data)
    return Answer(out + ending.data, ending.complete, exchange)
