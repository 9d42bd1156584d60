"""What a client's connection must look like before its request is looked at.

Owns the timer aiohttp's server lacks (a request head that never ends), the refusals its parser does not make, and the
error page of those it makes: aiohttp's own echoes the offending bytes. Must not know routes, bodies, answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from itertools import islice
from typing import Any, cast

from aiohttp import StreamReader, hdrs, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from gateway.errors import ClientFault, IntegrityError
from gateway.protocols import PROTOCOLS
from gateway.server import logs
from gateway.server.headers import response_head, values_of
from gateway.server.relay import Relay
from gateway.server.wire import Field, Head

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

KEEP_ALIVE_SECONDS = 75.0
"""An idle client connection; longer than the 60 s of common load balancers, so that they close first."""
LINGER_SECONDS = 2.0
"""How long the unread rest of a refused body is read, so that the client sees the refusal instead of a reset."""


OPENAI = PROTOCOLS["/v1/chat/completions"]
"""Whose error shape is used where no protocol was asked for."""


class Refused(ClientFault):
    """A request that is not looked at. `reason` is its label in metrics."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Crowded(Refused):
    """Too many connections are open."""

    code = "integrity_too_many_connections"
    retryable = True


def refusal(request: web.BaseRequest) -> Refused | None:
    """Why the framing or the start line of `request` is not acceptable, beyond what the parser refuses (RFC 9112)."""
    version = request.version
    coding, host = (values_of(request.raw_headers, name) for name in (b"transfer-encoding", b"host"))
    if version not in ((1, 0), (1, 1)):
        return Refused(505, "version", "this gateway speaks HTTP/1.1 and HTTP/1.0")
    if request.method in (hdrs.METH_CONNECT, hdrs.METH_TRACE):
        return Refused(405, "method", "CONNECT and TRACE are not served")
    if not request.raw_path.startswith("/"):
        return Refused(400, "target", "the request target must be a path")
    if any(not value or b"@" in value for value in host):
        return Refused(400, "host", "a Host header with a host in it is expected")
    if coding and version == (1, 0):  # RFC 9112 section 6.1: treated as faulty framing
        return Refused(400, "framing", "a transfer coding is of HTTP/1.1")
    if coding and [value.strip().lower() for value in coding] != [b"chunked"]:
        return Refused(501, "framing", "the only transfer coding understood is chunked")
    if request.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
        return Refused(417, "expect", "the only expectation understood is 100-continue")
    return None


def error_head(error: IntegrityError) -> Head:
    """The head of an answer of the gateway's own, without its framing."""
    fields: list[Field] = [
        (b"Content-Type", b"application/json"),
        (b"Date", formatdate(usegmt=True).encode()),
        (b"Server", b"integrity-gateway"),
    ]
    if error.status == 503:
        fields.append((b"Retry-After", b"1"))
    return Head(minor=1, status=error.status, reason=b"", fields=fields)


class Door(RequestHandler):
    """One client connection. `relay` hears when its buffer fills and drains."""

    __slots__ = ("_body", "_busy", "_head_timer", "_house", "_partial", "relay")

    def __init__(self, house: GuardedServer, **options: Any) -> None:
        super().__init__(house, **options)
        self._house = house
        self._busy = self._partial = False
        self._body: StreamReader = EMPTY_PAYLOAD
        self._head_timer: asyncio.TimerHandle | None = None
        self.relay: Relay | None = None

    def data_received(self, data: bytes) -> None:
        before = len(self._messages)
        super().data_received(data)
        for message, body in islice(self._messages, before, None):
            if isinstance(message, _ErrInfo) and not self._body.is_eof():
                self._break_body()
            self._body = body
        if data:
            self._partial = self._ends_in_a_head(data)
            self._time_head()

    def _break_body(self) -> None:
        """The parser has given up inside a body and tells nobody: whoever reads it hears it now."""
        self._body.set_exception(web.RequestPayloadError())
        self._body.feed_eof()  # no rest of it is waited for

    def _ends_in_a_head(self, data: bytes) -> bool:
        """True where the last bytes of `data` begin a request: they belong to no head that is complete and no body."""
        came = getattr(self._body, "_buffer", None)  # there is none where a request has no body
        last = came[-1] if came else b""
        whole = data.endswith(b"\r\n\r\n") or (last and data.endswith(last))
        return not whole and self._body.is_eof()

    def _time_head(self) -> None:
        if self._partial and not self._busy and not self._messages and self._head_timer is None:
            self._head_timer = self._loop.call_later(self._house.header_seconds, self._give_up)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        self._house.open -= 1
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.relay is not None:
            self.relay.flow(True)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.relay is not None:
            self.relay.flow(False)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The parser refused the request, or the handler raised. Bytes, message and exception stay here."""
        fault: IntegrityError
        if isinstance(exc, HttpProcessingError):
            too_long = isinstance(exc, LineTooLong) or "Too many headers" in exc.message
            fault = Refused(431 if too_long else 400, "framing", "the request is not well-formed HTTP/1.1")
            self._house.rejected("framing")
        else:
            fault = IntegrityError("the gateway failed")
            logs.say("bug", level=logging.ERROR, error=logs.where(exc) if exc is not None else None)
        # aiohttp writes it, and closes: without a timer, where the client reads nothing.
        self._stop_timer()
        if self.transport is not None:
            self._head_timer = self._loop.call_later(self._house.header_seconds, self.transport.abort)
        head, body = error_head(fault), OPENAI.error_body(fault)
        response = web.Response(status=head.status, body=body)
        response.headers.update({name.decode(): value.decode() for name, value in head.fields})
        response.force_close()
        return response

    def begin(self) -> None:
        """A request head is complete, its handler runs."""
        self._busy = True
        self._stop_timer()

    def rest(self) -> None:
        """The handler has ended. A head that began behind its request is timed from now on."""
        self._busy = False
        self.relay = None
        self._time_head()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        self._house.rejected("header_timeout")
        self.force_close()


class Full(asyncio.Protocol):
    """A connection past the cap: told so, and closed before anything of it is read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        fault = Crowded(503, "connections", "this gateway has too many open connections")
        body = OPENAI.error_body(fault)
        fields = (
            (b"Content-Type", b"application/json"),
            (b"Content-Length", b"%d" % len(body)),
            (b"Retry-After", b"1"),
            (b"Connection", b"close"),
        )
        speaker = cast(asyncio.Transport, transport)  # uvloop's are not subclasses
        speaker.write(response_head(503, b"", fields, minor=1) + body)
        speaker.close()


class GuardedServer(web.Server):
    """aiohttp's low-level server with guarded connections. `rejected(reason)` hears every refusal made here.

    `header_seconds`: from the first byte of a request head to its end. `line_bytes`: cap of the request line and of
    each header field. `connections`: cap of those open at once.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        header_seconds: float,
        line_bytes: int,
        connections: int,
        rejected: Callable[[str], None],
    ) -> None:
        self._serve = handler
        self.rejected = rejected
        self.open = 0
        self.limit(header_seconds=header_seconds, line_bytes=line_bytes, connections=connections)
        super().__init__(self._guarded, handler_cancellation=True)

    def limit(self, *, header_seconds: float, line_bytes: int, connections: int) -> None:
        """Other limits, for connections that are accepted from now on."""
        self.header_seconds = header_seconds
        self._cap = connections
        self._options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": KEEP_ALIVE_SECONDS,
            "lingering_time": LINGER_SECONDS,
            "max_field_size": line_bytes,
            "max_line_size": line_bytes,
        }

    def __call__(self) -> asyncio.Protocol:  # type: ignore[override]  # past the cap it is no RequestHandler
        """The protocol of one accepted connection."""
        if self.open >= self._cap:
            self.rejected("connections")
            return Full()
        self.open += 1
        return Door(self, loop=self._loop, **self._options)

    async def _guarded(self, request: web.BaseRequest) -> web.StreamResponse:
        door = cast(Door, request.protocol)
        door.begin()
        try:
            return await self._serve(request)
        finally:
            door.rest()
