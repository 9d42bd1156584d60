"""One text as the engine of each endpoint writes it, and what a client of that endpoint makes of an answer.

`thought` is the engine's own reasoning field, `content` its text; raw text has only the one. Written as vLLM 0.33 and
SGLang 0.5.23 do (the modules of each protocol beside this one name the sections).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.exchange import Exchange, Overrides, RouteRules, open_exchange, peek_request
from gateway.protocols import protocol_for
from tests.exchange.driver import DONE, chunk, delta, message
from tests.support import messages, raw_text, responses

Written = tuple[list[bytes], bytes]
"""The frames of a stream with its terminal event, and the plain body."""
Said = tuple[str, str]
"""Reasoning and content, as a client joins them."""


def chat(channel: str, pieces: Sequence[str]) -> Written:
    """Chunks with their role, finish and usage chunks."""
    field = {"content": "content", "thought": "reasoning"}[channel]
    frames = [delta(role="assistant", content=""), *(delta(**{field: piece}) for piece in pieces), delta(finish="stop")]
    return [*frames, chunk([], usage={"prompt_tokens": 3}), DONE], message(**{field: "".join(pieces)})


def said_by_chat(body: bytes, *, stream: bool) -> Said:
    """Chunks, or a message."""
    values = raw_text.values(body) if stream else [json.loads(body)]
    fields = [choice["delta" if stream else "message"] for value in values for choice in value.get("choices", ())]
    thoughts = [each.get("reasoning") or each.get("reasoning_content") or "" for each in fields]
    return "".join(thoughts), "".join([each.get("content") or "" for each in fields])


def blocks(channel: str, pieces: Sequence[str]) -> Written:
    """Events of Messages."""
    said = [({"content": "text", "thought": "thinking"}[channel], piece) for piece in pieces]
    return messages.events(said), messages.body(said)


def said_by_blocks(body: bytes, *, stream: bool) -> Said:
    """Deltas, or blocks."""
    values = [value for _, value in messages.frames(body)] if stream else json.loads(body)["content"]
    told = [value["delta"] for value in values if value["type"] == "content_block_delta"] if stream else values
    return "".join([each.get("thinking", "") for each in told]), "".join([each.get("text", "") for each in told])


def items(channel: str, pieces: Sequence[str]) -> Written:
    """Events of Responses."""
    said = [({"content": "content", "thought": "reasoning"}[channel], piece) for piece in pieces]
    return responses.stream(said), responses.body(said)


def said_by_items(body: bytes, *, stream: bool) -> Said:
    """Deltas, or items."""
    if not stream:
        return responses.told(json.loads(body)["output"])[:2]
    return responses.heard([value for _, value in responses.events_of(body)])[:2]


def raw(wire: raw_text.Wire) -> Callable[[str, Sequence[str]], Written]:
    """Events of raw text."""

    def written(channel: str, pieces: Sequence[str]) -> Written:
        tokens = [[piece] for piece in pieces]
        return [*wire.events(tokens), DONE], wire.body(tokens)

    return written


def said_by_raw(wire: raw_text.Wire) -> Callable[..., Said]:
    """Text, and the thought beside it."""

    def said(body: bytes, *, stream: bool) -> Said:
        return (wire.streamed if stream else wire.plain)(body)[0].said

    return said


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`written`: pieces of one text, by its channel. `said`: of a body, with the keyword `stream`."""

    path: str
    written: Callable[[str, Sequence[str]], Written]
    said: Callable[..., Said]


def _raw(wire: raw_text.Wire) -> Endpoint:
    return Endpoint(wire.path, raw(wire), said_by_raw(wire))


ENDPOINTS = {
    "chat": Endpoint("/v1/chat/completions", chat, said_by_chat),
    "messages": Endpoint("/v1/messages", blocks, said_by_blocks),
    "responses": Endpoint("/v1/responses", items, said_by_items),
    "completions": _raw(raw_text.Completions(logprobs=True, ids=True)),
    "generate": _raw(raw_text.Generate(logprobs=True)),
    "generate in pieces": _raw(raw_text.Generate(logprobs=True, pieces=True)),
}
RAW = ("completions", "generate", "generate in pieces")


def answered(
    path: str,
    reads: Sequence[bytes],
    rules: RouteRules,
    *,
    stream: bool,
    request: dict[str, Any] | None = None,
    report: bool = False,
) -> tuple[bytes, Exchange]:
    """What the client of a route gets for `reads`, which are all that the engine says."""
    protocol = protocol_for(path)
    assert protocol is not None
    sent = json.dumps({"model": "m", "stream": stream, **(request or {})}).encode()
    facts = peek_request(protocol, sent)
    overrides = Overrides(report=report)
    exchange = open_exchange(protocol=protocol, body=sent, facts=facts, rules=rules, overrides=overrides)
    kind = "text/event-stream" if stream else "application/json"
    exchange.head(status=200, content_type=kind, content_encoding=None)
    out = b"".join([exchange.data(read) for read in reads]) + exchange.end().data
    assert exchange.fault is None, exchange.fault
    return out, exchange
