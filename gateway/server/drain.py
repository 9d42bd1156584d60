"""Shutting down without cutting answers: ready, settling, refusing.

    ready      the only state in which `/readyz` says so
    settling   not ready, still serving: time for load balancers to notice
    refusing   new requests get 503; running answers have what is left of the timeout

Owns the states, the running exchanges and the clock of both pauses. Must not know signals, sockets, what is cut or how.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from gateway.server import config


class State(StrEnum):
    """Where the gateway stands."""

    READY = "ready"
    SETTLING = "settling"
    REFUSING = "refusing"


class Drain:
    """One gateway's way down. `changed(draining)` hears when it leaves and when it comes back to `ready`.

    `begin` alone (a `preStop` hook asked) undoes itself when the timeout has passed; `terminate` makes it final.
    `pauses` may be replaced; a drain that has begun keeps its own.
    """

    def __init__(self, pauses: config.Drain, *, changed: Callable[[bool], None]) -> None:
        self.pauses, self._changed = pauses, changed
        self._running: set[Callable[[], None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._refusing = asyncio.Event()
        self._ends = 0.0
        self._final = False
        self.state = State.READY

    @contextmanager
    def running(self, cut: Callable[[], None]) -> Iterator[None]:
        """An exchange runs; `cut` ends it early."""
        self._running.add(cut)
        self._idle.clear()
        try:
            yield
        finally:
            self._running.discard(cut)
            if not self._running:
                self._idle.set()

    @property
    def in_flight(self) -> int:
        """Exchanges that run."""
        return len(self._running)

    def begin(self) -> None:
        """Stop being ready. Again: nothing."""
        if self.state is not State.READY:
            return
        loop = asyncio.get_running_loop()
        self.state = State.SETTLING
        self._ends = loop.time() + self.pauses.settle_seconds + self.pauses.timeout_seconds
        loop.call_later(self.pauses.settle_seconds, self.skip_settling)
        loop.call_at(self._ends, self._undo)
        self._changed(True)

    def skip_settling(self) -> None:
        """End the pause now."""
        if self.state is State.SETTLING:
            self.state = State.REFUSING
            self._refusing.set()

    def terminate(self) -> None:
        """Drain for good. A second call ends the pause."""
        if self._final:
            self.skip_settling()
        self._final = True
        self.begin()

    async def drained(self) -> bool:
        """Returns when nothing runs any more (True) or the timeout has passed (False); the pause is waited for
        first."""
        await self._refusing.wait()
        return await self.idle(self._ends - asyncio.get_running_loop().time())

    async def idle(self, seconds: float) -> bool:
        """Returns True when nothing runs any more, False when `seconds` have passed before."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def cut(self) -> None:
        """End every exchange that still runs."""
        for cut in tuple(self._running):
            cut()

    def _undo(self) -> None:
        if not self._final:
            self.state = State.READY
            self._refusing.clear()
            self._changed(False)
