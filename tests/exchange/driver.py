"""Drives an exchange without a socket: the engine's bytes in, the client's bytes and what was counted out.

`delta` writes chunks as vLLM 0.33 does (reference/vllm.md 3.1), so that an untouched one can be told by its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from gateway.exchange import Exchange, Overrides, RouteRules, StoredExchange, open_exchange, peek_request
from gateway.limits import Limits
from gateway.policy import Profile, policy_for
from gateway.protocols import protocol_for
from gateway.protocols.protocol import WireProtocol
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.load import load_rulebook
from tests.support.legal import body_stays_legal, stays_legal

DONE = b"data: [DONE]\n\n"
BOTH = ("reasoning", "reasoning_content")
OFF = {"chat_template_kwargs": {"enable_thinking": False}}
WANTED = {"include_reasoning": True}
# reference/vllm.md 3.1: a call, and row 7, an error in mid-stream
CALL = [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
ENGINE_ERROR = (
    b'data: {"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}}\n\n'
)
LIMITS = Limits()
NO_OVERRIDES = Overrides()


def chat() -> WireProtocol:
    """The chat protocol."""
    found = protocol_for("/v1/chat/completions")
    assert found is not None
    return found


@cache
def dialect(name: str) -> Dialect | None:
    """A shipped dialect; None for `none`."""
    return load_rulebook().resolve(name, engine="vllm").dialect


def route(
    name: str = "think",
    *,
    profile: Profile = Profile.FULL,
    source: str = "auto",
    starts_in: str = "auto",
    thinking_default: str = "auto",
    limits: Limits = LIMITS,
    read_as: Dialect | None = None,
    **policy: object,
) -> RouteRules:
    """A route of the dialect called `name`, or of `read_as`. `policy` goes over the defaults of the profile."""
    return RouteRules(
        name="route",
        dialect=read_as or dialect(name),
        source=source,
        starts_in=starts_in,
        thinking_default=thinking_default,
        policy=policy_for(profile, **policy),
        limits=limits,
        faults=load_rulebook().faults,
    )


def delta(*, index: int = 0, finish: str | None = None, **fields: object) -> bytes:
    """One chunk of vLLM 0.33 that says `fields`."""
    choice: dict[str, Any] = {"index": index, "delta": fields, "logprobs": None, "finish_reason": finish}
    if finish is not None:
        choice["stop_reason"] = None
    return chunk([choice | {"token_ids": None}])


def chunk(choices: list[dict[str, Any]], **top: object) -> bytes:
    """One chunk with these choices."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    value = {**head, "choices": choices, **top, "kv_transfer_params": None}
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def message(finish: str | None = "stop", **fields: object) -> bytes:
    """A plain body of vLLM 0.33 (reference/vllm.md 3.2) with one choice."""
    choice = {"index": 0, "message": {"role": "assistant", **fields}, "logprobs": None, "finish_reason": finish}
    value = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return json.dumps(value, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client got. `complete`: the body ended as HTTP says it should."""

    body: bytes
    complete: bool
    headers: dict[str, str]
    exchange: Exchange

    @property
    def events(self) -> list[Any]:
        """The JSON of every event, `[DONE]` as text."""
        frames = [frame[6:].rstrip() for frame in self.body.decode().split("\n\n") if frame.startswith("data: ")]
        return [frame if frame == "[DONE]" else json.loads(frame) for frame in frames]

    @property
    def deltas(self) -> list[dict[str, Any]]:
        """The deltas of all choices in order, without role and empty ones."""
        choices = [choice for event in self.events if event != "[DONE]" for choice in event.get("choices", ())]
        deltas = [choice.get("delta") or {} for choice in choices]
        kept = [{name: text for name, text in each.items() if name != "role" and text} for each in deltas]
        return [each for each in kept if each]

    @property
    def said(self) -> tuple[str, str]:
        """Reasoning and content of the first choice, as a client joins them."""
        if not self.body.startswith(b"{"):
            return self.told(0)
        fields = json.loads(self.body)["choices"][0]["message"]
        return fields.get("reasoning") or fields.get("reasoning_content") or "", fields.get("content") or ""

    def told(self, index: int) -> tuple[str, str]:
        """Reasoning and content of one streamed choice."""
        choices = [c for event in self.events if event != "[DONE]" for c in event.get("choices", ())]
        mine = [choice["delta"] for choice in choices if choice["index"] == index]
        reasoning = [each.get("reasoning") or each.get("reasoning_content") or "" for each in mine]
        return "".join(reasoning), "".join([each.get("content") or "" for each in mine])

    @property
    def findings(self) -> dict[str, int]:
        """`finding/action` to its count."""
        return findings(self.exchange)

    @property
    def uninspected(self) -> dict[str, int]:
        """Why bytes went out unread."""
        return dict(self.exchange.tally.uninspected)


def findings(exchange: Exchange | StoredExchange) -> dict[str, int]:
    """`finding/action` to its count."""
    counts: dict[str, int] = {}
    for row, count in exchange.tally.findings:
        key = f"{row.finding}/{row.action}"
        counts[key] = counts.get(key, 0) + count
    return counts


def opened(request: dict[str, Any] | bytes, rules: RouteRules, overrides: Overrides = NO_OVERRIDES) -> Exchange:
    """An exchange for a request."""
    body = request if isinstance(request, bytes) else json.dumps({"model": "m", **request}).encode()
    facts = peek_request(chat(), body)
    return open_exchange(protocol=chat(), body=body, facts=facts, rules=rules, overrides=overrides)


def streamed(
    reads: Iterable[bytes],
    rules: RouteRules | None = None,
    *,
    request: dict[str, Any] | bytes = b"{}",
    overrides: Overrides = NO_OVERRIDES,
) -> Answer:
    """A streamed answer that ends cleanly after `reads`."""
    exchange, sent = opened(request, rules or route(), overrides), list(reads)
    exchange.head(status=200, content_type="text/event-stream; charset=utf-8", content_encoding=None)
    out = b"".join([exchange.data(read) for read in sent])
    ending = exchange.end()
    stays_legal("chat", b"".join(sent), out + ending.data)
    return Answer(out + ending.data, ending.complete, dict(ending.headers), exchange)


def plain(
    body: bytes,
    rules: RouteRules | None = None,
    *,
    request: dict[str, Any] | bytes = b"{}",
    overrides: Overrides = NO_OVERRIDES,
) -> Answer:
    """A plain answer."""
    exchange = opened(request, rules or route(), overrides)
    exchange.head(status=200, content_type="application/json", content_encoding=None)
    out = exchange.data(body)
    ending = exchange.end()
    body_stays_legal("chat", body, out + ending.data)
    return Answer(out + ending.data, ending.complete, dict(ending.headers), exchange)
