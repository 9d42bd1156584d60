"""The client's end of one answer: a head and a framed body written from the socket callback of the engine.

Owns the framing towards the client (RFC 9112), back-pressure in both directions, and the write-stall cut. Written past
aiohttp's `StreamResponse`: its `write` costs a coroutine and two copies an event, and its head adds fields of its own.
Must not know routes, the pool, metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic

from aiohttp import web

from gateway.errors import IntegrityError
from gateway.server.connection import Call
from gateway.server.headers import UPGRADE, for_client, response_head
from gateway.server.wire import Field, Head

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: what was not sent is dropped and the close is a reset (socket(7))."""
NO_BODY = frozenset({204, 304})
HEARTBEAT = b": keep-alive\n\n"
"""A comment, as vLLM spells its own: WHATWG HTML section 9.2.6 has clients ignore it."""


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
    of the answer, 0 before `open`. `complete`: `finish` was called. `size`: body bytes. `first`: when the first of them
    was written. `close_after`: say so in the head.
    """

    def __init__(self, request: web.BaseRequest, *, write_stall: float) -> None:
        assert request.transport is not None
        self._transport = request.transport
        self._loop = asyncio.get_running_loop()
        self._method, self._minor = request.method, int(request.version >= (1, 1))
        self._stall_seconds = write_stall
        self._stall: asyncio.TimerHandle | None = None
        self._flushed: asyncio.Future[None] | None = None
        self._put_bytes = self._taken = 0
        self._beat: asyncio.TimerHandle | None = None
        self._head = b""
        self._chunked = self._to_the_close = self._reset = False
        self.call: Call | None = None
        self.keep_alive = request.keep_alive
        self.close_after = False
        self.sent = self.complete = self.stalled = False
        self.status = self.size = 0
        self.first = 0.0

    # ------------------------------------------------------------------ the answer

    def open(self, head: Head, *, fields: Sequence[Field] = (), length: int | None) -> None:
        """Say the head: the engine's, with `fields` added. `length`: of the body; None: it ends when `finish` says
        so."""
        self.status, self._chunked = head.status, False
        self._head = response_head(head.status, head.reason, self._lines(head, fields, length), minor=self._minor)

    def say(self, head: Head, body: bytes, *, close: bool) -> None:
        """An answer of the gateway's own, whole. `close`: the connection ends with it."""
        self.keep_alive = self.keep_alive and not close
        said = (*head.fields, (b"Content-Length", b"%d" % len(body)))
        self.open(replace(head, fields=said), length=len(body))
        if self._method != "HEAD":
            self.write(body)
        self.finish()

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
            self.keep_alive, self._to_the_close = False, True
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
        if not self.first:
            self.first = monotonic()
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
        self._end_beat()
        if data:
            self._put(data)

    def cut(self) -> None:
        """The answer ends here and must not look complete: no last chunk, and the connection is closed after it; with a
        reset where a close is what would complete it (HTTP/1.0)."""
        self.flush_head()
        self.keep_alive = False
        self._reset = self._to_the_close
        self._end_beat()

    def keep_warm(self, seconds: float, *, allowed: Callable[[], bool]) -> None:
        """Say a comment before the client has heard nothing for `seconds`, until the answer ends; 0: never.

        `allowed` is asked each time. Two looks a period, so that an event costs no clock.
        """

        def look(size: int) -> None:
            silent = size == self.size and (self._flushed is None or self._flushed.done())
            if silent and allowed():
                self.flush_head()
                self._put(b"%x\r\n%b\r\n" % (len(HEARTBEAT), HEARTBEAT) if self._chunked else HEARTBEAT)
                self._beat = self._loop.call_later(seconds, look, self.size)
            else:
                self._beat = self._loop.call_later(seconds / 2, look, self.size)

        if seconds:
            self._beat = self._loop.call_later(seconds / 2, look, self.size)

    def _end_beat(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _put(self, data: bytes) -> None:
        self.sent = True
        self._put_bytes += len(data)
        if not self._transport.is_closing():
            self._transport.write(data)

    # ------------------------------------------------------------------ a slow client

    def flow(self, paused: bool) -> None:
        """The transport's buffer is full (True) or has drained: the engine waits as long."""
        if self.call is not None:
            self.call.pause(paused)
        if paused:
            self._flushed = self._loop.create_future()
            self._taken = self._left_us()
            self._stall = self._loop.call_later(self._stall_seconds, self._look)
            return
        if self._stall is not None:
            self._stall.cancel()
        if self._flushed is not None and not self._flushed.done():
            self._flushed.set_result(None)

    def close(self) -> None:
        """The exchange is over: nothing may come back to this object."""
        self._end_beat()
        if self._stall is not None:
            self._stall.cancel()

    async def flushed(self) -> None:
        """Returns when the last byte was handed to the kernel: what waits longer would go down with the process."""
        transport = self._transport
        if transport.get_write_buffer_size() and not transport.is_closing():
            transport.set_write_buffer_limits(0)  # paused now, until the buffer is empty
            if self._flushed is not None:
                await self._flushed
            if not transport.is_closing():
                transport.set_write_buffer_limits()
        if self._reset and not transport.is_closing():
            self._abort()

    def _abort(self) -> None:
        """Reset the connection: a close would leave what was not taken in the kernel as long as the client likes."""
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def _look(self) -> None:
        """The client has been slow for the stall's seconds: given up where it took nothing in all of them."""
        taken = self._left_us()
        if taken <= self._taken:
            self.stalled = True
            self._abort()
            return
        self._taken = taken
        self._stall = self._loop.call_later(self._stall_seconds, self._look)

    def _left_us(self) -> int:
        """Bytes of the answer that the client's side has acknowledged, where the system tells; else those handed to
        the kernel, whose own buffer moves on in steps of megabytes."""
        waiting = array("i", [0])
        with contextlib.suppress(OSError, ValueError):
            fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, waiting)
        return self._put_bytes - self._transport.get_write_buffer_size() - waiting[0]


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

    def broken(self, fault: IntegrityError) -> None:
        self.fault = fault
        if self._relay.sent:
            self._relay.cut()


def relay_head(relay: Relay, head: Head) -> None:
    """The engine's head with the framing of its own body, sent at once: a body may be long in coming."""
    length = head.text(b"content-length")
    relay.open(head, length=int(length) if length is not None and length.isdecimal() else None)
    relay.flush_head()
