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


class Upstreams:
    """The pool. `observe(attempt, outcome)` hears how each attempt ended; attempts of one exchange count from 1."""

    def __init__(self, timeouts: Timeouts, *, observe: Callable[[int, str], None]) -> None:
        self._timeouts, self._observe = timeouts, observe
        self._idle: dict[Target, list[Connection]] = {}
        self._turn = 0
        self._tls: ssl.SSLContext | None = None

    async def run(self, call: Call, targets: Sequence[Target]) -> None:
        """Carry `call` to one of `targets`, which take turns; returns when its sink heard `end` or `broken`.

        A target that cannot be connected to is left for the next one, since nothing was sent. A stale connection is
        replaced by a fresh one, once, where the body can be sent again.
        """
        self._turn += 1
        first = self._turn % len(targets)
        attempt = 0
        fault: EngineFault = EngineUnreachable("the engine closed the connection while the request was sent")
        for target in [*targets[first:], *targets[:first]]:
            for fresh in (False, True):
                attempt += 1
                try:
                    connection = await self._open(target, fresh=fresh)
                except EngineUnreachable as unreachable:
                    self._observe(attempt, "connect_error")
                    fault = unreachable
                    break
                if await self._carry(connection, call, target, attempt=attempt) != "stale":
                    return
                if not isinstance(call.ask.body, bytes):
                    call.sink.broken(fault)
                    return
        call.sink.broken(fault)

    def close(self) -> None:
        """Drop every connection that waits."""
        for connection in [each for pool in self._idle.values() for each in pool]:
            connection.transport.abort()
        self._idle.clear()

    async def _carry(self, connection: Connection, call: Call, target: Target, *, attempt: int) -> str:
        outcome = "cancelled"
        try:
            outcome = await connection.carry(call, call.ask.head(target))
        finally:
            self._observe(attempt, outcome)
        if connection.idle:
            connection.expires = asyncio.get_running_loop().time() + self._timeouts.keepalive_upstream
            self._idle.setdefault(target, []).append(connection)
        return outcome

    async def _open(self, target: Target, *, fresh: bool) -> Connection:
        """A connection to `target`: the one used last, or a new one. Raises EngineUnreachable."""
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
        except TimeoutError as error:
            raise EngineUnreachable(f"no connection to the engine within {self._timeouts.connect:g} seconds") from error
        except OSError as error:
            raise EngineUnreachable(f"no connection to the engine: {_why(error)}") from error
        return connection


def _why(error: OSError) -> str:
    """The reason without the address: the message reaches clients."""
    if isinstance(error, socket.gaierror):
        return "its name is not known"
    return "TLS failed" if isinstance(error, ssl.SSLError) else os.strerror(error.errno or 0)
