"""The pool of connections to engines: connecting, re-use, taking turns, the one safe retry.

Must not know routes, protocols, metrics, or the client's connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence

from gateway.errors import EngineFault, EngineUnreachable
from gateway.server.config import Timeouts
from gateway.server.connection import Call, Connection, Target


class _NotAsked(EngineUnreachable):
    """No connection: no byte was sent."""


class _Stale(EngineUnreachable):
    """A used connection was closed while the request was sent."""


class Upstreams:
    """The pool. `observe(attempt, outcome)` hears how each attempt ended; attempts of one exchange count from 1.

    `reached(target, why)` hears of every try to connect: `why` it failed, None where it did not.
    """

    def __init__(
        self,
        timeouts: Timeouts,
        *,
        observe: Callable[[int, str], None],
        reached: Callable[[Target, str | None], None] = lambda target, why: None,
    ) -> None:
        self._timeouts, self._observe, self._reached = timeouts, observe, reached
        self._idle: dict[Target, list[Connection]] = {}
        self._active = self._turn = 0
        self._tls: ssl.SSLContext | None = None

    async def run(self, call: Call, targets: Sequence[Target]) -> None:
        """Carry `call` to one of `targets`, which take turns; returns when its sink heard `end` or `broken`.

        A target that cannot be connected to is left for the next one, since nothing was sent. Once bytes were sent no
        other target is asked: a stale connection (`Connection.carry`) is replaced by a fresh one to the same target,
        once, where the body can be sent again. Any other end without an answer is the sink's to hear: a generation is
        not idempotent (RFC 9110 section 9.2.2), whether to ask again is the client's to decide.
        """
        self._turn += 1
        first = self._turn % len(targets)
        fault: EngineFault | None = None
        for attempt, target in enumerate([*targets[first:], *targets[:first]], 1):
            fault = await self._ask(call, target, attempt=attempt, fresh=False)
            if not isinstance(fault, _NotAsked):
                break
        if isinstance(fault, _Stale) and isinstance(call.ask.body, bytes):
            fault = await self._ask(call, target, attempt=attempt + 1, fresh=True)
        if fault is not None:
            call.sink.broken(fault)

    async def _ask(self, call: Call, target: Target, *, attempt: int, fresh: bool) -> EngineFault | None:
        """One attempt. None where the sink has heard how it ended."""
        try:
            connection = await self._open(target, fresh=fresh)
        except _NotAsked as unreachable:
            self._observe(attempt, "connect_error")
            return unreachable
        if await self._carry(connection, call, target, attempt=attempt) != "stale":
            return None
        return _Stale("the engine closed the connection while the request was sent")

    @property
    def active(self) -> int:
        """Connections that carry an exchange."""
        return self._active

    @property
    def idle(self) -> int:
        """Connections that wait for one."""
        return sum(map(len, self._idle.values()))

    def retime(self, timeouts: Timeouts) -> None:
        """Other timeouts, for exchanges that begin from now on."""
        if timeouts != self._timeouts:
            self._timeouts = timeouts
            self.close()  # a waiting connection has the timeouts it was made with

    def close(self) -> None:
        """Drop every connection that waits."""
        for connection in [each for pool in self._idle.values() for each in pool]:
            connection.transport.abort()
        self._idle.clear()

    async def _carry(self, connection: Connection, call: Call, target: Target, *, attempt: int) -> str:
        outcome = "cancelled"
        self._active += 1
        try:
            outcome = await connection.carry(call, call.ask.head(target))
        finally:
            self._active -= 1
            self._observe(attempt, outcome)
        if connection.idle:
            connection.expires = asyncio.get_running_loop().time() + self._timeouts.keepalive_upstream
            self._idle.setdefault(target, []).append(connection)
        return outcome

    async def _open(self, target: Target, *, fresh: bool) -> Connection:
        """A connection to `target`: the one used last, or a new one. Raises _NotAsked."""
        now = asyncio.get_running_loop().time()
        pool = self._idle.get(target, [])
        while pool and not (pool[0].idle and pool[0].expires > now):
            pool.pop(0).transport.abort()
        while pool and not fresh:
            connection = pool.pop()
            if connection.idle:
                connection.reused = True
                return connection
        return await self._connect(target)

    async def _connect(self, target: Target) -> Connection:
        loop = asyncio.get_running_loop()
        if target.tls and self._tls is None:
            self._tls = ssl.create_default_context()
        try:
            async with asyncio.timeout(self._timeouts.connect):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._timeouts), target.host, target.port, ssl=self._tls if target.tls else None
                )
        except (OSError, UnicodeError) as error:  # a TimeoutError is an OSError
            why = _why(error, seconds=self._timeouts.connect)
            self._reached(target, why)
            raise _NotAsked(f"no connection to the engine{why}") from error
        self._reached(target, None)
        return connection


def _why(error: OSError | UnicodeError, *, seconds: float) -> str:
    """The reason without the address: the message reaches clients. UnicodeError: a name that IDNA refuses."""
    if isinstance(error, socket.gaierror | UnicodeError):
        return ": its name is not known"
    if isinstance(error, TimeoutError) and not error.errno:
        return f" within {seconds:g} seconds"
    return ": TLS failed" if isinstance(error, ssl.SSLError) else f": {os.strerror(error.errno or 0)}"
