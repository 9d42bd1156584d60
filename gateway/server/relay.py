"""The client's end of one answer: a head and a framed body written from the socket callback of the engine.

Owns the framing towards the client (RFC 9112), back-pressure in both directions, the write-stall cut, and which bytes
an answer gives for what the engine sent. Written past aiohttp's `StreamResponse`: its `write` costs a coroutine and two
copies an event, and its head adds fields of its own. Must not know routes, the pool, metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from gateway.errors import EngineFault, IntegrityError
from gateway.exchange import Delivery, Exchange
from gateway.server.connection import Call, GivenUp
from gateway.server.headers import UPGRADE, for_client, response_head
from gateway.server.wire import Field, Head

NO_BODY = frozenset({204, 304})


class Written(web.StreamResponse):
    """What a handler returns when the bytes of the answer already went to the transport."""

    def __init__(self, *, status: int, keep_alive: bool) -> None:
        super().__init__(status=status)
        self._kept = keep_alive

    @property
    def keep_alive(self) -> bool:
        return self._kept

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing: the head went out."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing: the body went out."""


class Relay:
    """Writes one answer to the client of `request`.

    `open` says the head, which leaves with the first byte of the body or at `finish`. `sent`: any byte left. `status`:
    of the answer, 0 before `open`. `complete`: `finish` was called. `size`: body bytes. `close_after`: say so in the
    head.
    """

    def __init__(self, request: web.BaseRequest, *, write_stall: float) -> None:
        assert request.transport is not None
        self._transport = request.transport
        self._loop = asyncio.get_running_loop()
        self._method, self._minor = request.method, request.version[1]
        self._stall_seconds = write_stall
        self._stall: asyncio.TimerHandle | None = None
        self._flushed: asyncio.Future[None] | None = None
        self._head = b""
        self._chunked = False
        self.call: Call | None = None
        self.keep_alive = request.keep_alive
        self.close_after = False
        self.sent = self.complete = self.stalled = False
        self.status = self.size = 0

    # ------------------------------------------------------------------ the answer

    def open(self, head: Head, *, fields: Sequence[Field] = (), length: int | None) -> None:
        """Say the head: the engine's, with `fields` added. `length`: of the body; None: it ends when `finish` says
        so."""
        self.status = head.status
        self._head = response_head(head.status, head.reason, self._lines(head, fields, length), minor=self._minor)

    def open_tunnel(self, head: Head) -> None:
        """Say a 101 and send it: what follows has no framing, and the connection is nobody else's afterwards."""
        self.status, self.keep_alive = head.status, False
        self._put(response_head(head.status, head.reason, [*for_client(head.fields), *UPGRADE], minor=1))

    def _lines(self, head: Head, fields: Sequence[Field], length: int | None) -> list[Field]:
        lines = [*for_client(head.fields), *fields]
        if self._method == "HEAD" or head.status in NO_BODY:
            lines += [(b"Content-Length", value) for value in head.all(b"content-length")[:1] if head.status != 204]
        elif length is not None:
            lines.append((b"Content-Length", b"%d" % length))
        elif self._minor == 1:
            self._chunked = True
            lines.append((b"Transfer-Encoding", b"chunked"))
        else:
            self.keep_alive = False
        self.keep_alive = self.keep_alive and not self.close_after
        if self.keep_alive is (self._minor == 0):
            lines.append((b"Connection", b"keep-alive" if self.keep_alive else b"close"))
        return lines

    def write(self, body: bytes) -> None:
        """Bytes of the body, not empty. Never blocks: `flow` tells when the client is slow."""
        self.size += len(body)
        data = b"%x\r\n%b\r\n" % (len(body), body) if self._chunked else body
        if self._head:
            data, self._head = self._head + data, b""
        self._put(data)

    def flush_head(self) -> None:
        """Send the head now, before any byte of the body."""
        if self._head:
            data, self._head = self._head, b""
            self._put(data)

    def finish(self) -> None:
        """The answer is complete."""
        end = b"0\r\n\r\n" if self._chunked else b""
        data, self._head = self._head + end, b""
        self.complete = True
        if data:
            self._put(data)

    def cut(self) -> None:
        """The answer ends here and must not look complete: no last chunk, and the connection is closed after it."""
        self.flush_head()
        self.keep_alive = False

    def _put(self, data: bytes) -> None:
        self.sent = True
        if not self._transport.is_closing():
            self._transport.write(data)

    # ------------------------------------------------------------------ a slow client

    def flow(self, paused: bool) -> None:
        """The transport's buffer is full (True) or has drained: the engine waits as long."""
        if self.call is not None:
            self.call.pause(paused)
        if paused:
            self._flushed = self._loop.create_future()
            self._stall = self._loop.call_later(self._stall_seconds, self._give_up)
            return
        if self._stall is not None:
            self._stall.cancel()
        if self._flushed is not None and not self._flushed.done():
            self._flushed.set_result(None)

    def close(self) -> None:
        """The exchange is over: nothing may come back to this object."""
        if self._stall is not None:
            self._stall.cancel()

    async def flushed(self) -> None:
        """Returns when the client has taken all but the transport's low-water mark."""
        if self._flushed is not None and not self._transport.is_closing():
            await self._flushed

    def _give_up(self) -> None:
        self.stalled = True
        self._transport.abort()


class Untouched:
    """The sink of an answer that nobody inspects: the engine's bytes, its head at once."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.fault: IntegrityError | None = None

    def head(self, head: Head) -> None:
        relay_head(self._relay, head)

    def data(self, body: bytes) -> None:
        self._relay.write(body)

    def end(self) -> None:
        self._relay.finish()

    def broken(self, fault: EngineFault) -> None:
        self.fault = fault
        if self._relay.sent:
            self._relay.cut()


def relay_head(relay: Relay, head: Head) -> None:
    """The engine's head with the framing of its own body, sent at once: a body may be long in coming."""
    length = head.text(b"content-length")
    relay.open(head, length=int(length) if length is not None and length.isdecimal() else None)
    relay.flush_head()


class Inspected:
    """The sink of an inspected answer. `fault`: what ended it early. `bug`: the exception of our own code that did."""

    def __init__(self, relay: Relay, exchange: Exchange) -> None:
        self._relay, self.exchange = relay, exchange
        self._head: Head | None = None
        self._read = exchange.data
        self.delivery: Delivery | None = None
        self.fault: IntegrityError | None = None
        self.bug: Exception | None = None

    @property
    def streamed(self) -> bool:
        """True for an answer that came as a stream of events."""
        return self.delivery is Delivery.STREAM

    def head(self, head: Head) -> None:
        try:
            self.delivery = self.exchange.head(
                status=head.status,
                content_type=head.text(b"content-type") or "",
                content_encoding=head.text(b"content-encoding"),
            )
        except Exception as error:
            self._give_up(error)
            return
        self._head, self._read = head, self.exchange.data  # `head` may have put another method in its place
        if self.delivery is Delivery.RELAY:
            relay_head(self._relay, head)
            self.data = self._relay.write  # type: ignore[method-assign]
        elif self.delivery is Delivery.STREAM:
            self._relay.open(head, length=None)

    def data(self, body: bytes) -> None:
        try:
            out = self._read(body)
        except Exception as error:
            self._give_up(error)
            return
        if out:
            if not self._relay.status and self._head is not None:
                self._relay.open(self._head, length=None)  # a whole body that passed its cap
            self._relay.write(out)

    def end(self) -> None:
        if self.fault is None:
            self._close(None)

    def broken(self, fault: EngineFault) -> None:
        if self.fault is None:
            self.fault = fault
            if self._head is not None:
                self._close(fault)

    def _close(self, fault: EngineFault | None) -> None:
        try:
            ending = self.exchange.end() if fault is None else self.exchange.broken(fault)
        except Exception as error:
            self._failed(error)
            return
        relay = self._relay
        if not relay.status and self._head is not None and (ending.data or ending.complete):
            extra = [(name.encode(), value.encode()) for name, value in ending.headers]
            relay.open(self._head, fields=extra, length=len(ending.data) if ending.complete else None)
        if ending.data:
            relay.write(ending.data)
        if ending.complete:
            relay.finish()
        elif relay.status:
            relay.cut()

    def _give_up(self, error: Exception) -> None:
        self._failed(error)
        self._read = _nothing
        if self._relay.call is not None:
            self._relay.call.fail(GivenUp("the gateway failed"))

    def _failed(self, error: Exception) -> None:
        """The exchange may not let the answer go out (an IntegrityError), or our code has a bug."""
        if isinstance(error, IntegrityError):
            self.fault = error
        else:
            self.bug, self.fault = error, IntegrityError("the gateway failed")
        if self._relay.sent:
            self._relay.cut()


def _nothing(chunk: bytes) -> bytes:
    return b""
