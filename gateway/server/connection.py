"""One connection to an engine: how a request leaves, how its answer is pushed into a `Sink`, every failure a fault.

Owns silence timeouts, the upload beside the answer, and whether the connection can be used again. The answer is pushed
from the socket callback, without a task switch a read. Must not know the pool, routes, protocols, or the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, cast
from urllib.parse import urlsplit

from gateway.errors import Draining, EngineFault, EngineTimeout, EngineTruncated, EngineUnreachable
from gateway.server.config import Timeouts
from gateway.server.headers import request_head
from gateway.server.wire import Field, Head, ResponseReader


class CutByDrain(Draining, EngineFault):
    """The gateway's own end reached a running answer."""


class GivenUp(EngineFault):
    """The gateway does not want the answer any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a base URL leads. `prefix`: its path, put before every request target. `authority`: the `Host` to send."""

    host: str
    port: int
    tls: bool
    authority: bytes
    prefix: bytes


@lru_cache(maxsize=1024)
def target_of(url: str) -> Target:
    """The target of a base URL that the configuration has checked."""
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    return Target(
        host=parts.hostname or "",
        port=parts.port or (443 if tls else 80),
        tls=tls,
        authority=parts.netloc.encode(),
        prefix=parts.path.rstrip("/").encode(),
    )


class Sink(Protocol):
    """Takes one answer: `head` once, `data` as often as it comes, then `end` or `broken`; `broken` may come first.

    They run inside the socket callback: they neither block nor raise.
    """

    def head(self, head: Head) -> None: ...
    def data(self, body: bytes) -> None: ...
    def end(self) -> None: ...
    def broken(self, fault: EngineFault) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One upstream request. `target`: raw path and query. `fields`: without `Host` and framing.

    `body`: bytes, or pieces for a body that is streamed; `length` is then its length, None for chunked.
    `upgrade`: a 101 is an answer.
    """

    method: str
    target: bytes
    fields: Sequence[Field]
    body: bytes | AsyncIterator[bytes] = b""
    length: int | None = None
    upgrade: bool = False

    def head(self, target: Target) -> bytes:
        """The bytes of the request's head for `target`."""
        fields: list[Field] = [(b"Host", target.authority), *self.fields]
        size = len(self.body) if isinstance(self.body, bytes) else self.length
        if size is None:
            fields.append((b"Transfer-Encoding", b"chunked"))
        elif size or self.method in _WITH_BODY:
            fields.append((b"Content-Length", b"%d" % size))
        return request_head(self.method, target.prefix + self.target, fields)


STALE_SECONDS = 0.05
"""A used connection that ends this soon after a request was sent was closed already: the close crossed the request. An
engine that reads a request first and then breaks takes longer, and must not be asked twice."""

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose empty body is said to be empty: RFC 9110 section 8.6."""


class Call:
    """A request on its way: what the client's side may do to it while it runs."""

    __slots__ = ("ask", "connection", "sink")

    def __init__(self, ask: Ask, sink: Sink) -> None:
        self.ask, self.sink = ask, sink
        self.connection: Connection | None = None

    def pause(self, paused: bool) -> None:
        """Stop (True) or resume reading the answer; TCP then slows the engine."""
        if self.connection is not None:
            self.connection.pause(paused)

    def fail(self, fault: EngineFault) -> bool:
        """End the answer as if the engine had broken. False where no engine is connected yet."""
        if self.connection is None:
            return False
        self.connection.fail(fault)
        return True


class Connection(asyncio.Protocol):
    """One connection to an engine. `carry` is one exchange; between two of them it waits in the pool."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._call: Call | None = None
        self._reader = ResponseReader(method="")
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._began = self._last_byte = 0.0
        self._announced = self._paused = False
        self.reused = False
        self.expires = 0.0
        self.transport: asyncio.Transport

    # ------------------------------------------------------------------ one exchange

    async def carry(self, call: Call, head: bytes) -> str:
        """Send the call's request and push its answer into the sink. Returns the outcome, a label for metrics.

        `stale`: a re-used connection ended before any byte of an answer, and either at once (`STALE_SECONDS`) or before
        the whole request was written: the engine has not acted on it. Only then has the sink heard nothing.
        Cancelled: the connection is gone at once. What reading a streamed body raises comes through.
        """
        ask = call.ask
        self._reader = ResponseReader(method=ask.method, upgrade=ask.upgrade)
        self._call, call.connection = call, self
        self._done = self._loop.create_future()
        self._announced = False
        self._began = self._last_byte = self._loop.time()
        self._check_silence()
        try:
            if isinstance(ask.body, bytes):
                self.transport.write(head + ask.body)
                await self._done
            else:
                self.transport.write(head)
                await self._upload_beside_the_answer(ask.body, chunked=ask.length is None)
            return self._outcome()
        finally:
            if self._silence is not None:
                self._silence.cancel()
            self._call = call.connection = None
            if self.idle:
                self.pause(False)
            else:
                self.transport.abort()

    @property
    def idle(self) -> bool:
        """True where the connection can carry another exchange."""
        return self._reader.ended and self._reader.reusable and not self.transport.is_closing()

    def pause(self, paused: bool) -> None:
        """Stop or resume reading; meanwhile silence is not the engine's."""
        if paused is self._paused or self.transport.is_closing():
            return
        self._paused = paused
        self._last_byte = self._loop.time()
        if paused:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def fail(self, fault: EngineFault) -> None:
        """Give the exchange up: the sink hears `fault`, the connection is gone."""
        self._reader.fault = fault
        self.transport.abort()
        if self._call is not None and not self._done.done():
            self._done.set_result(None)
            self._call.sink.broken(fault)

    def _outcome(self) -> str:
        reader = self._reader
        if reader.fault is not None:
            silent = "timeout_idle" if self._announced else "timeout_first_byte"
            return _OUTCOMES.get(type(reader.fault), silent)
        if reader.head is None:
            return "stale"
        return "ok" if reader.head.status < 400 else f"status_{reader.head.status // 100}xx"

    # ------------------------------------------------------------------ the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are not subclasses

    def data_received(self, data: bytes) -> None:
        call, reader = self._call, self._reader
        if call is None:
            self.transport.abort()  # an answer without a request
            return
        self._last_byte = self._loop.time()
        body = reader.feed(data)
        if not self._announced and reader.head is not None:
            self._announce(call, reader.head)
        if body:
            call.sink.data(body)
        if reader.fault is not None:
            self.fail(reader.fault)
        elif reader.ended:
            self._finish(call)

    def connection_lost(self, exc: Exception | None) -> None:
        unsent = self._drained is not None
        self.resume_writing()
        if self._call is None or self._done.done():
            return
        at_once = unsent or self._loop.time() - self._began <= STALE_SECONDS
        if self.reused and at_once and not self._reader.received:
            self._done.set_result(None)
            return
        self._reader.close(broken=exc is not None)
        if self._reader.fault is not None:
            self.fail(self._reader.fault)
        else:
            self._finish(self._call)

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    # ------------------------------------------------------------------ inside

    def _announce(self, call: Call, head: Head) -> None:
        self._announced = True
        self._check_silence()  # the limit is another one now
        call.sink.head(head)

    def _finish(self, call: Call) -> None:
        if not self._done.done():
            self._done.set_result(None)
            call.sink.end()

    def _check_silence(self) -> None:
        """The exchange's only timer: it looks when the last byte was, and sleeps for what is left."""
        if self._silence is not None:
            self._silence.cancel()
        limit = self._timeouts.idle if self._announced else self._timeouts.first_byte
        left = limit if self._paused else self._last_byte + limit - self._loop.time()
        if left > 0:
            self._silence = self._loop.call_later(left, self._check_silence)
            return
        what = "sent nothing more" if self._announced else "did not begin to answer"
        self.fail(EngineTimeout(f"the engine {what} for {limit:g} seconds"))

    async def _upload_beside_the_answer(self, body: AsyncIterator[bytes], *, chunked: bool) -> None:
        """An engine may answer before it has read the whole body; the rest is then not sent, the connection not
        re-used."""
        upload = asyncio.ensure_future(self._upload(body, chunked=chunked))
        try:
            await asyncio.wait({upload, self._done}, return_when=asyncio.FIRST_COMPLETED)
            if upload.done():
                upload.result()
                await self._done
            else:
                self._reader.reusable = False
        finally:
            upload.cancel()

    async def _upload(self, body: AsyncIterator[bytes], *, chunked: bool) -> None:
        async for piece in body:
            self.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            self._last_byte = self._loop.time()
            if self._drained is not None:
                await self._drained
        if chunked:
            self.transport.write(b"0\r\n\r\n")


_OUTCOMES: dict[type[EngineFault], str] = {
    EngineFault: "bad_framing",
    EngineTruncated: "truncated",
    EngineUnreachable: "connect_error",
    CutByDrain: "cancelled",
    GivenUp: "cancelled",
}
