"""Does any engine answer: what `/readyz` asks about the other side; and which engine is down, for the log.

`/readyz` is about the gateway, not about a route: it says yes while any engine of any route answers, so that one engine
that is down does not take the others' requests away. Which one is down stands in the log.

`GET /health` is light on vLLM and SGLang (SGLang's `/health_generate` runs a generation: never asked). An engine
without that route answers 404 and is there. Must not know the drain, metrics, clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from gateway.errors import EngineFault
from gateway.server import logs
from gateway.server.connection import Ask, Call, Target
from gateway.server.upstream import Upstreams
from gateway.server.wire import Head

PROBE_SECONDS = 2.0
"""Shorter than the usual probe timeout multiplied by its failure threshold."""
REMEMBERED_SECONDS = 1.0
"""Probes of several watchers cost an engine one request."""


QUIET_SECONDS = 1.0
"""An engine that comes and goes more often gets no line for each time."""


class Reach:
    """Says once when an engine cannot be connected to any more, and once when it can again."""

    def __init__(self) -> None:
        self._said: dict[Target, tuple[bool, float]] = {}

    def heard(self, target: Target, why: str | None) -> None:
        """A try to connect ended. `why` it failed; None: it did not."""
        now = asyncio.get_running_loop().time()
        down, since = self._said.get(target, (False, -QUIET_SECONDS))
        if down is (why is not None) or now - since < QUIET_SECONDS:
            return
        self._said[target] = (not down, now)
        engine = f"{target.host}:{target.port}"
        if why is None:
            logs.say("engine_reachable", engine=engine)
        else:
            logs.say("engine_unreachable", level=logging.WARNING, engine=engine, why=why.strip(": "))


class Health:
    """Asks the engines in use at most once in a while. `upstreams` is a pool of its own: probes are no traffic."""

    def __init__(self, engines: Callable[[], Sequence[Target]], upstreams: Upstreams) -> None:
        self._engines, self._upstreams = engines, upstreams
        self._known_until = 0.0
        self._alive = False
        self._lock = asyncio.Lock()

    async def alive(self) -> bool:
        """True where at least one engine answers with a status below 500."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._known_until:
                answers = await asyncio.gather(*(self._answers(engine) for engine in self._engines()))
                self._alive = any(answers)
                self._known_until = loop.time() + REMEMBERED_SECONDS
            return self._alive

    async def _answers(self, engine: Target) -> bool:
        seen = _Status()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._upstreams.run(Call(Ask(method="GET", target=b"/health", fields=()), seen), [engine])
        except TimeoutError:
            return False
        return 0 < seen.status < 500


class _Status:
    """A sink that keeps the status and drops the rest."""

    status = 0

    def head(self, head: Head) -> None:
        self.status = head.status

    def data(self, body: bytes) -> None: ...

    def end(self) -> None: ...

    def broken(self, fault: EngineFault) -> None: ...
