"""Sends a recorded answer through the exchange, without a socket: bytes as they arrived, bytes as they would go out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from gateway.exchange import Overrides, RouteRules, open_exchange, peek_request
from gateway.integrity.tally import Tally
from gateway.limits import Limits
from gateway.policy import Profile, policy_for
from gateway.protocols import protocol_for
from gateway.rulebook.dialect import CallFormat, Dialect
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.select import with_calls
from tests.traces.recordings import Recording
from tests.traces.routes import Known

AS_ASKED: dict[str, object] = {"stop": "engine", "tokens": "never"}  # the engine was asked nothing else
CHAT = protocol_for("/v1/chat/completions")


@dataclass(frozen=True, slots=True)
class Sent:
    """What left the gateway, and what it counted."""

    body: bytes
    complete: bool
    tally: Tally


@cache
def dialect(route: Known) -> Dialect:
    """What the route reads: a shipped family, with the calls of a parser where the route names one."""
    rulebook = load_rulebook()
    family = rulebook.dialects[route.dialect]
    if not route.tools:
        return family
    called = rulebook.meanings("tools", f"vllm/{route.tools}")["vllm"]
    assert isinstance(called, CallFormat)
    return with_calls(family, called)


def rules_of(route: Known, profile: Profile, **policy: object) -> RouteRules:
    """The route that its operator would write. `policy`: keys of its policy, laid over the profile's."""
    return RouteRules(
        name="recorded",
        dialect=dialect(route),
        source=route.source,
        starts_in=route.starts_in,
        thinking_default=route.thinking_default,
        policy=policy_for(profile, **{**AS_ASKED, **policy}),
        limits=Limits(),
        parser=route.parser,
        engine_version=route.version,
        faults=load_rulebook().faults,
    )


def send(
    recording: Recording, route: Known, profile: Profile, *, reads: Iterable[bytes] | None = None, **policy: object
) -> Sent:
    """The answer of `recording` through a gateway with `route`. `reads`: the body cut otherwise than it arrived.

    `policy`: keys of the route's policy, laid over the profile's.
    """
    rules = rules_of(route, profile, **policy)
    assert CHAT
    body = recording.request_body
    facts = peek_request(CHAT, body)
    exchange = open_exchange(protocol=CHAT, body=body, facts=facts, rules=rules, overrides=Overrides())
    exchange.head(status=recording.status, content_type=recording.content_type, content_encoding=None)
    out = b"".join([exchange.data(read) for read in (recording.reads if reads is None else reads)])
    ending = exchange.end()
    assert exchange.fault is None
    return Sent(out + ending.data, ending.complete, exchange.tally)


def cut(body: bytes, size: int) -> list[bytes]:
    """`body` in reads of `size` bytes."""
    return [body[at : at + size] for at in range(0, len(body), size)]
