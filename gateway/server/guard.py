"""What a client's connection must look like before its request is looked at.

Owns the timer aiohttp's server lacks (a request head that never ends), the refusals its parser does not make, and the
error page of those it makes: aiohttp's own echoes the offending bytes. Must not know routes, bodies, answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from gateway.errors import ClientFault, IntegrityError
from gateway.protocols import PROTOCOLS
from gateway.server import logs
from gateway.server.headers import values_of
from gateway.server.relay import Relay

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
    if coding and [value.strip().lower() for value in coding] != [b"chunked"]:
        return Refused(501, "framing", "the only transfer coding understood is chunked")
    if request.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
        return Refused(417, "expect", "the only expectation understood is 100-continue")
    return None


def error_response(error: IntegrityError, body: bytes, *, close: bool) -> web.Response:
    """An answer of the gateway's own. `body`: the error in the shape of the protocol asked for."""
    headers = {"Server": "integrity-gateway"}
    if error.status == 503:
        headers["Retry-After"] = "1"
    response = web.Response(status=error.status, body=body, content_type="application/json", headers=headers)
    if close:
        response.force_close()
    return response


class Door(RequestHandler):
    """One client connection. `relay` hears when its buffer fills and drains."""

    __slots__ = ("_busy", "_head_timer", "_house", "relay")

    def __init__(self, house: GuardedServer, **options: Any) -> None:
        super().__init__(house, **options)
        self._house = house
        self._busy = False
        self._head_timer: asyncio.TimerHandle | None = None
        self.relay: Relay | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if data and not self._busy and self._head_timer is None:
            # Either the beginning of a head, or a whole one, whose handler `begin`s before this timer fires.
            self._head_timer = self._loop.call_later(self._house.header_seconds, self._give_up)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
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
        return error_response(fault, OPENAI.error_body(fault), close=True)

    def begin(self) -> None:
        """A request head is complete, its handler runs."""
        self._busy = True
        self._stop_timer()

    def rest(self) -> None:
        """The handler has ended."""
        self._busy = False
        self.relay = None

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        self._house.rejected("header_timeout")
        self.force_close()


class GuardedServer(web.Server):
    """aiohttp's low-level server with guarded connections. `rejected(reason)` hears every refusal made here.

    `header_seconds`: from the first byte of a request head to its end. `line_bytes`: cap of the request line and of
    each header field.
    """

    def __init__(
        self, handler: Handler, *, header_seconds: float, line_bytes: int, rejected: Callable[[str], None]
    ) -> None:
        self._serve = handler
        self.header_seconds = header_seconds
        self.rejected = rejected
        self._options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": KEEP_ALIVE_SECONDS,
            "lingering_time": LINGER_SECONDS,
            "max_field_size": line_bytes,
            "max_line_size": line_bytes,
        }
        super().__init__(self._guarded, handler_cancellation=True)

    def __call__(self) -> Door:
        """The protocol of one accepted connection."""
        return Door(self, loop=self._loop, **self._options)

    async def _guarded(self, request: web.BaseRequest) -> web.StreamResponse:
        door = cast(Door, request.protocol)
        door.begin()
        try:
            return await self._serve(request)
        finally:
            door.rest()
