"""One answer of a model in the words of every protocol that has words for it, and through the exchange of each.

An answer stands here as the deltas of chat, a finish reason, and a request of chat.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gateway.errors import EngineTruncated
from gateway.exchange import Exchange, Overrides, RouteRules, open_exchange, peek_request
from gateway.protocols import protocol_for
from tests.exchange import driver
from tests.support import messages, raw_text, responses

Delta = dict[str, Any]
STATUS = {"length": "incomplete"}
TEXTS = {"reasoning": "reasoning", "reasoning_content": "reasoning", "content": "content"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a model said, and the route on which it is read."""

    deltas: list[Delta]
    rules: RouteRules
    finish: str = "stop"
    request: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """What a client got. `complete`: the body ended as HTTP says it should."""

    body: bytes
    complete: bool
    exchange: Exchange


# ---------------------------------------------------------------------- the engine


def _chat(said: Said) -> list[bytes] | None:
    indices = sorted({delta.get("index", 0) for delta in said.deltas} or {0})
    heads = [driver.delta(index=index, role="assistant", content="") for index in indices]
    ends = [driver.delta(index=index, finish=said.finish) for index in indices]
    return [*heads, *(driver.delta(**delta) for delta in said.deltas), *ends, driver.DONE]


def _messages(said: Said) -> list[bytes] | None:
    if not (one_choice(said) and has_whole_calls(said)):
        return None
    reason = messages.STOP_REASONS.get(said.finish, "end_turn")
    return messages.events(messages.pieces_of(said.deltas), reason=reason)


def _responses(said: Said) -> list[bytes] | None:
    if not (one_choice(said) and has_whole_calls(said)):
        return None
    words = {"thinking": "reasoning", "text": "content", "tool_use": "call"}
    pieces = [(words[kind], text) for kind, text in messages.pieces_of(said.deltas)]
    return responses.stream(pieces, status=STATUS.get(said.finish, "completed"))


def _raw(wire: raw_text.Wire) -> Callable[[Said], list[bytes] | None]:
    def frames(said: Said) -> list[bytes] | None:
        if any(set(delta) != {"content"} for delta in said.deltas):
            return None
        tokens = [[delta["content"] or ""] for delta in said.deltas]
        return [*wire.events(tokens, finish="length" if said.finish == "length" else "stop"), raw_text.DONE]

    return frames


FRAMES: dict[str, Callable[[Said], list[bytes] | None]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
    **{name: _raw(wire) for name, wire in raw_text.WIRES.items()},
}
"""By the name of a protocol, `/generate` in both of its ways: the stream of an engine; None: it has no words for it."""

PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    **{name: wire.path for name, wire in raw_text.WIRES.items()},
}


def one_choice(said: Said) -> bool:
    """Is there one answer?"""
    return said.request.get("n", 1) == 1 and not any("index" in delta for delta in said.deltas)


def has_whole_calls(said: Said) -> bool:
    """Has each call one id, a name, and arguments in pieces of text? In chat an engine can send others."""
    calls: dict[int, list[dict[str, Any]]] = {}
    for delta in said.deltas:
        for part in delta.get("tool_calls") or ():
            calls.setdefault(part.get("index", 0), []).append(part)
    return all(_whole(parts) for parts in calls.values())


def _whole(parts: list[dict[str, Any]]) -> bool:
    functions = [part.get("function") or {} for part in parts]
    texts = all(isinstance(each.get("arguments") or "", str) for each in functions)
    return (
        texts and any(each.get("name") for each in functions) and len({part.get("id") for part in parts} - {None}) < 2
    )


# ---------------------------------------------------------------------- the client


def request_of(name: str, request: dict[str, Any]) -> dict[str, Any]:
    """A request of chat in the words of a protocol."""
    if name == "chat":
        return request
    if name == "messages":
        return {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **messages.as_request(request)}
    if name == "responses":
        kept = {key: request[key] for key in ("chat_template_kwargs", "tool_choice") if key in request}
        if isinstance(kept.get("tool_choice"), dict):
            kept["tool_choice"] = {"type": "function", "name": kept["tool_choice"]["function"]["name"]}
        tools = [{"type": "function", **tool["function"]} for tool in request.get("tools") or ()]
        return {"input": "hi", **kept, **({"tools": tools} if tools else {})}
    return {}


def send(name: str, reads: Iterable[bytes], said: Said, *, report: bool = False, broken: bool = False) -> Sent:
    """The answer through a gateway, read by read. `broken`: the upstream broke off behind it."""
    protocol = protocol_for(PATHS[name])
    assert protocol
    body = json.dumps({"model": "m", "stream": True, **request_of(name, said.request)}).encode()
    facts, overrides = peek_request(protocol, body), Overrides(report=report)
    exchange = open_exchange(protocol=protocol, body=body, facts=facts, rules=said.rules, overrides=overrides)
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = b"".join([exchange.data(read) for read in reads])
    ending = exchange.broken(EngineTruncated("it broke off")) if broken else exchange.end()
    assert exchange.fault is None, exchange.fault
    return Sent(out + ending.data, ending.complete, exchange)


def recut(deltas: Iterable[Delta], size: int) -> list[Delta]:
    """Neighbouring text of one field joined and cut into pieces of `size` characters."""
    runs: list[list[Any]] = []
    for delta in deltas:
        [kind, *more] = delta
        if not more and kind in TEXTS and isinstance(delta[kind], str):
            if runs and runs[-1][0] == kind:
                runs[-1][1] += delta[kind]
            else:
                runs.append([kind, delta[kind]])
        else:
            runs.append(["", delta])
    cut: list[Delta] = []
    for kind, value in runs:
        cut += [{kind: value[at : at + size]} for at in range(0, len(value), size)] if kind else [value]
    return cut
