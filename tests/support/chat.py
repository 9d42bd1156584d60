"""One chat exchange without a server: what the engine sends, and what its client would read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gateway.exchange import Overrides, RouteRules, open_exchange, peek_request
from gateway.limits import Limits
from gateway.policy import Profile, ReasoningField, policy_for
from gateway.protocols import protocol_for
from tests.support.reader import dialect

SHOWS_REASONING = {"include_reasoning": True}  # the client asks to see it: a repeat of it may be suppressed
Delta = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Route:
    """A route of profile `repair` that writes the reasoning as `reasoning`. `dialect`: as a configuration names it."""

    dialect: str | dict[str, str]
    source: str = "fields"
    starts_in: str = "content"


def _exchange(route: Route, request: dict[str, Any]) -> Any:
    protocol = protocol_for("/v1/chat/completions")
    assert protocol is not None
    body = json.dumps(request).encode()
    rules = RouteRules(
        name="r",
        dialect=dialect(route.dialect),
        source=route.source,
        starts_in=route.starts_in,
        thinking_default="auto",
        policy=policy_for(Profile.REPAIR, reasoning_field=ReasoningField.REASONING),
        limits=Limits(),
    )
    facts = peek_request(protocol, body)
    return open_exchange(protocol=protocol, body=body, facts=facts, rules=rules, overrides=Overrides())


def _event(index: int, delta: Delta, finish: str | None) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    chunk = {"object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def streamed(
    route: Route, deltas: Iterable[tuple[int, Delta]], *, finish: str, request: dict[str, Any] | None = None
) -> dict[int, list[tuple[str, Any]]]:
    """The deltas of a streamed answer, by choice: `(field, value)` in the order in which the client gets them."""
    deltas = list(deltas)
    exchange = _exchange(route, request or {})
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    sent = b"".join([exchange.data(_event(index, delta, None)) for index, delta in deltas])
    sent += b"".join([exchange.data(_event(index, {}, finish)) for index in sorted({index for index, _ in deltas})])
    sent += exchange.data(b"data: [DONE]\n\n") + exchange.end().data
    assert exchange.fault is None
    got: dict[int, list[tuple[str, Any]]] = {index: [] for index, _ in deltas}
    for line in sent.decode().splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                got[choice["index"]] += [(field, value) for field, value in choice["delta"].items() if value]
    return got


def whole(
    route: Route, message: dict[str, Any], *, finish: str, request: dict[str, Any] | None = None
) -> tuple[str, str]:
    """Reasoning and content of a plain answer."""
    exchange = _exchange(route, request or {})
    exchange.head(status=200, content_type="application/json", content_encoding=None)
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    exchange.data(json.dumps({"object": "chat.completion", "model": "m", "choices": [choice]}).encode())
    answer = json.loads(exchange.end().data)["choices"][0]["message"]
    assert exchange.fault is None
    return answer.get("reasoning") or "", answer.get("content") or ""


def text(deltas: Iterable[tuple[str, Any]], field: str) -> str:
    """The joined text of one field."""
    return "".join(value for name, value in deltas if name == field)
