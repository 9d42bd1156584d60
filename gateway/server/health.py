"""Does any engine answer: what `/readyz` asks about the other side.

`GET /health` is light on vLLM and SGLang (SGLang's `/health_generate` runs a generation: never asked). An engine
without that route answers 404 and is there. Must not know the drain, metrics, clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.errors import EngineFault
from gateway.server.connection import Ask, Call, Target
from gateway.server.upstream import Upstreams
from gateway.server.wire import Head

PROBE_SECONDS = 2.0
"""Shorter than the usual probe timeout multiplied by its failure threshold."""
REMEMBERED_SECONDS = 1.0
"""Probes of several watchers cost an engine one request."""


class Health:
    """Asks `engines` at most once in a while. `upstreams` is a pool of its own: probes are no traffic."""

    def __init__(self, engines: Sequence[Target], upstreams: Upstreams) -> None:
        self._engines, self._upstreams = engines, upstreams
        self._known_until = 0.0
        self._alive = False
        self._lock = asyncio.Lock()

    async def alive(self) -> bool:
        """True where at least one engine answers with a status below 500."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._known_until:
                answers = await asyncio.gather(*(self._answers(engine) for engine in self._engines))
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
