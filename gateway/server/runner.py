"""One request from its head to the last byte of its answer.

Owns the order of things, the second fence (a bug answers 500 and is counted; the first is in the exchange), and what is
counted and logged once an exchange. Must not know bytes of HTTP, text, or how a decision is made.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from aiohttp import web

from gateway.errors import Draining, EngineFault, EngineTruncated, IntegrityError
from gateway.exchange import Exchange, Overrides, StoredExchange, open_exchange, peek_request
from gateway.policy import Profile, ReasoningField
from gateway.protocols import STORED, unread_text
from gateway.protocols.protocol import RequestFacts, WireProtocol
from gateway.server import drain, logs
from gateway.server.config import Route
from gateway.server.connection import Ask, Call, CutByDrain
from gateway.server.engines import Engines
from gateway.server.guard import OPENAI, Door, Refused, error_head, refusal
from gateway.server.headers import for_engine
from gateway.server.inforce import InForce, Standing
from gateway.server.inspected import Inspected
from gateway.server.intake import Intake, crowded, overrides_of
from gateway.server.metrics import Metrics
from gateway.server.relay import Relay, Untouched, Written
from gateway.server.routing import Choice
from gateway.server.tunnel import Tunnel, asks_for_tunnel
from gateway.server.upstream import Upstreams
from gateway.server.wire import Field

REPLAYABLE_BYTES = 64 * 1024
"""A body up to this size that nobody inspects is read whole, so that it can be sent again on a fresh connection."""
REQUEST_ID_CHARACTERS = 128
"""What is read of a client's `X-Request-Id`."""
CLIENT_LEFT = 499
"""nginx's status for a client that left before an answer began; in logs and metrics only."""


@dataclass(slots=True)
class Visit:
    """One request while it runs, and what is said about it at its end.

    `standing`: the configuration it began with, which it keeps. `model`: what the request names, None where it is not
    known. `busy`: seconds of our own before the engine was asked.
    """

    request: web.BaseRequest
    id: str
    standing: Standing
    relay: Relay
    path: str
    protocol: WireProtocol | None
    began: float
    phase: str = "request"
    outcome: str = "complete"
    status: int = 0
    route_name: str | None = None
    model: str | None = None
    busy: float | None = None
    sink: Inspected | None = None
    call: Call | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def route(self) -> str:
        """Label of the inspected route, or `other`."""
        return self.protocol.name if self.protocol is not None else "other"

    @property
    def target(self) -> bytes:
        """The raw request target."""
        return self.request.raw_path.encode("utf-8", "surrogateescape")


class Runner:
    """The handler of every request on the proxy's port."""

    def __init__(
        self, in_force: InForce, *, upstreams: Upstreams, engines: Engines, drained: drain.Drain, metrics: Metrics
    ) -> None:
        self._in_force, self._engines = in_force, engines
        self._upstreams, self._drain, self._metrics = upstreams, drained, metrics

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. Raises only CancelledError: the client has left."""
        visit = self._visit(request)
        task = asyncio.current_task()
        assert task is not None
        self._metrics.started(visit.route)
        with self._drain.running(partial(_cut, visit, task)):
            try:
                response = await self._answer(visit)
            except asyncio.CancelledError:
                self._left(visit)
                raise
            finally:
                visit.relay.close()
                self._tell(visit)
        return response

    def _visit(self, request: web.BaseRequest) -> Visit:
        standing = self._in_force.now
        path = request.raw_path.partition("?")[0]
        relay = Relay(request, write_stall=standing.config.timeouts.write_stall)
        relay.close_after = self._drain.state is not drain.State.READY
        cast(Door, request.protocol).relay = relay
        return Visit(
            request=request,
            id=_request_id(request),
            standing=standing,
            relay=relay,
            path=path,
            protocol=standing.routing.inspected(method=request.method, path=path),
            began=time.monotonic(),
        )

    async def _answer(self, visit: Visit) -> web.StreamResponse:
        """The fence: a failure before the first byte becomes an answer in the protocol's shape, a later one a cut."""
        try:
            await self._serve(visit)
        except IntegrityError as error:
            self._fail(visit, error)
        except Exception as bug:
            visit.details["bug"] = logs.where(bug)
            self._metrics.fallback("server_fault")
            self._fail(visit, IntegrityError("the gateway failed"))
        relay = visit.relay
        visit.status = relay.status
        if not relay.complete:
            visit.outcome = "cut"
        await relay.flushed()
        return Written(status=relay.status, keep_alive=relay.keep_alive and relay.complete)

    async def _serve(self, visit: Visit) -> None:
        refused = refusal(visit.request)
        if refused is not None:
            raise refused
        if self._drain.state is drain.State.REFUSING:
            raise Draining("this gateway is shutting down")
        if asks_for_tunnel(visit.request):
            visit.standing.routing.check_forwarded(method=visit.request.method, path=visit.path)
            await self._tunnel(visit)
        elif visit.protocol is None:
            visit.standing.routing.check_forwarded(method=visit.request.method, path=visit.path)
            await self._pass_through(visit)
        else:
            await self._inspect(visit, visit.protocol)

    # ------------------------------------------------------------------ three ways

    async def _inspect(self, visit: Visit, protocol: WireProtocol) -> None:
        config, request = visit.standing.config, visit.request
        intake = Intake(request, silence=config.timeouts.request_body)
        body, whole = await intake.read(config.limits.request_body)
        read = time.perf_counter()
        legible = whole and not crowded(body)
        facts = peek_request(protocol, body) if legible else None
        visit.model = facts.model if facts is not None else None
        choice = self._choose(visit, visit.model)
        if choice.route is None:
            self._metrics.fallback("no_route")
            await self._forward(visit, intake, body, whole=whole, choice=choice)
            return
        rules = choice.route.rules
        overrides = overrides_of(
            request, allowed=config.request_overrides, observe=not chosen(visit.id, config.enforce_percent)
        )
        reads_only = overrides.observe or rules.policy.profile is Profile.OBSERVE
        visit.details["profile"] = Profile.OBSERVE if reads_only else rules.policy.profile
        hides = rules.policy.reasoning_field is ReasoningField.NONE
        fields = for_engine(request.raw_headers, identity=hides or not reads_only, upgrade=False)
        for asks in (True, False):
            exchange = _opened(protocol, body, facts, choice.route, overrides, asks=asks)
            if not legible:
                exchange.tally.uninspected.clear()  # it says what a missing request means otherwise: no JSON
                exchange.tally.uninspected["request_body_cap"] += 1
            visit.sink = sink = Inspected(
                visit.relay, exchange, acts=not reads_only, hides=hides, heartbeat=config.timeouts.heartbeat
            )
            visit.busy = time.perf_counter() - read
            await self._ask(visit, fields, exchange.upstream_body if whole else intake.rest(body), sink, choice)
            if not sink.refused:
                return

    async def _pass_through(self, visit: Visit) -> None:
        """A route nobody inspects. Its body is read first only where it names the engine, or is small."""
        request, config = visit.request, visit.standing.config
        unread = unread_text(request.method, visit.path)
        if unread is not None:
            self._metrics.fallback(unread)
        intake = Intake(request, silence=config.timeouts.request_body)
        names_engine = visit.standing.routing.by_model and request.content_type == "application/json"
        limit = config.limits.request_body if names_engine else REPLAYABLE_BYTES
        body, whole = b"", not request.body_exists
        if not whole and (names_engine or (request.content_length or limit + 1) <= limit):
            body, whole = await intake.read(limit)
        facts = peek_request(OPENAI, body) if names_engine and whole and not crowded(body) else None
        choice = self._choose(visit, facts.model if facts is not None else None)
        await self._forward(visit, intake, body, whole=whole, choice=choice)

    async def _tunnel(self, visit: Visit) -> None:
        sink = Tunnel(visit.request, visit.relay)
        fields = for_engine(visit.request.raw_headers, identity=False, upgrade=True)
        ask = Ask(method="GET", target=visit.target, fields=fields, body=sink.pieces(), length=0, upgrade=True)
        await self._run(visit, ask, sink, self._choose(visit, None))

    async def _forward(self, visit: Visit, intake: Intake, body: bytes, *, whole: bool, choice: Choice) -> None:
        fields = for_engine(visit.request.raw_headers, identity=False, upgrade=False)
        await self._ask(visit, fields, body if whole else intake.rest(body), Untouched(visit.relay), choice)

    # ------------------------------------------------------------------ steps

    async def _ask(
        self,
        visit: Visit,
        fields: Sequence[Field],
        body: bytes | AsyncIterator[bytes],
        sink: Inspected | Untouched,
        choice: Choice,
    ) -> None:
        """Have the answer to the client's request, with these fields and this body."""
        request = visit.request
        length = request.content_length
        ask = Ask(method=request.method, target=visit.target, fields=fields, body=body, length=length)
        await self._run(visit, ask, sink, choice)

    async def _run(self, visit: Visit, ask: Ask, sink: Inspected | Untouched | Tunnel, choice: Choice) -> None:
        """Have the answer. Raises what ended it early, where nothing was sent to the client yet.

        Nothing is said of an answer that has to be asked for again (`Inspected.refused`).
        """
        visit.phase = "head"
        visit.call = visit.relay.call = Call(ask, sink)
        try:
            await self._upstreams.run(visit.call, choice.targets)
        except IntegrityError as error:  # the client's own, of a body that was streamed
            sink.broken(error)
        if isinstance(sink, Inspected):
            if sink.refused:
                return
            await sink.settle(partial(self._engines.spell, choice.targets, model=visit.model))
        if sink.fault is not None:
            visit.details["fault"] = sink.fault.code
        if not visit.relay.sent:
            raise sink.fault or EngineTruncated("the engine gave no answer")

    def _choose(self, visit: Visit, model: str | None) -> Choice:
        choice = visit.standing.routing.choose(
            path=visit.path, model=model, headers=visit.request.headers, inspected=visit.protocol is not None
        )
        visit.route_name = choice.route.rules.name if choice.route is not None else None
        return choice

    def _fail(self, visit: Visit, error: IntegrityError) -> None:
        """End the answer with `error`; where it has begun a second head would be read as its body."""
        visit.details.setdefault("fault", error.code)
        if visit.relay.sent:
            visit.relay.cut()
            return
        visit.outcome = "error"
        reason = error.reason if isinstance(error, Refused) else error.code.removeprefix("integrity_")
        if not isinstance(error, EngineFault):
            self._metrics.rejected(reason)
        body = (visit.protocol or OPENAI).error_body(error)
        visit.relay.say(error_head(error), body, close=isinstance(error, Refused | Draining))

    def _left(self, visit: Visit) -> None:
        phase = "body" if visit.relay.sent else visit.phase
        self._metrics.disconnected("stalled" if visit.relay.stalled else phase)
        visit.outcome = "disconnected"
        visit.status = visit.relay.status if visit.relay.sent else CLIENT_LEFT

    def _tell(self, visit: Visit) -> None:
        """Metrics and the log line. A fault in either must not reach an answer that was given."""
        seconds = time.monotonic() - visit.began
        try:
            self._metrics.ended(visit.route, code=visit.status, seconds=seconds)
            if visit.sink is not None and visit.sink.settled:
                self._add_up(visit, visit.sink)
            logs.say(
                "exchange",
                id=visit.id,
                method=visit.request.method,
                path=visit.path if visit.path.startswith("/") else None,  # an authority may hold a password
                route=visit.route_name,
                model=self._metrics.model_label(visit.model) if visit.model is not None else None,
                protocol=visit.route,
                status=visit.status,
                outcome=visit.outcome,
                seconds=round(seconds, 4),
                bytes=visit.relay.size,
                first_byte=round(visit.relay.first - visit.began, 4) if visit.relay.first else None,
                stream=visit.sink.streamed if visit.sink is not None else None,
                **visit.details,
            )
        except Exception as bug:
            logs.say("bug", level=logging.ERROR, error=logs.where(bug))

    def _add_up(self, visit: Visit, sink: Inspected) -> None:
        exchange = sink.exchange
        visit.model = exchange.model or visit.model  # of a stored answer known only now
        tally = exchange.tally
        for reason, count in tally.uninspected.items():
            self._metrics.fallback(reason, count)
        self._metrics.latency(
            route=visit.route,
            first=visit.relay.first - visit.began if visit.relay.first and visit.outcome != "error" else None,
            stages={"request": visit.busy, "event": sink.slowest, "finish": sink.finishing},
        )
        if sink.chained:
            self._metrics.chained(visit.route)
        for hold in sink.holds:
            self._metrics.held(hold)
        self._metrics.remedied(tally, model=visit.model, protocol=visit.route)
        if exchange.inspected:
            self._metrics.inspected(tally, model=visit.model, protocol=visit.route, stream=sink.streamed)
        if sink.bug is not None:
            self._metrics.fallback("server_fault")
        bug = logs.where(sink.bug) if sink.bug is not None else exchange.fault
        visit.details |= {"bug": bug} if bug else {}
        visit.details |= {"findings": tally.header()} if tally.findings else {}


def _opened(
    protocol: WireProtocol, body: bytes, facts: RequestFacts | None, route: Route, overrides: Overrides, *, asks: bool
) -> Exchange | StoredExchange:
    """The exchange; of a stored answer, whose request is not known, one that learns from it what it was.

    `asks`: as `open_exchange` has it.
    """
    if protocol is not STORED:
        return open_exchange(
            protocol=protocol, body=body, facts=facts, rules=route.rules, overrides=overrides, asks=asks
        )
    by_model = {model: variant.rules for model, variant in route.by_model.items()}
    return StoredExchange(protocol=protocol, body=body, rules=route.rules, by_model=by_model, overrides=overrides)


def _request_id(request: web.BaseRequest) -> str:
    """The client's id for the request, else one of our own; it goes no further than the log and `chosen`."""
    return request.headers.get("X-Request-Id", "")[:REQUEST_ID_CHARACTERS] or uuid.uuid4().hex


def chosen(request_id: str, percent: float) -> bool:
    """True for `percent` of all ids. The same id is chosen again, and stays chosen when the share grows."""
    drawn = int.from_bytes(hashlib.sha256(request_id.encode("utf-8", "surrogateescape")).digest()[:8])
    return drawn * 100 < percent * 2**64


def _cut(visit: Visit, task: asyncio.Task[object]) -> None:
    """The drain's timeout has passed: a running answer ends with an error event, anything else just ends."""
    if visit.call is None or not visit.call.fail(CutByDrain("this gateway is shutting down")):
        task.cancel()
