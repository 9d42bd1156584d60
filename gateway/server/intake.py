"""What a client sends: its body, piece by piece or whole, and its `X-Integrity-*` wishes.

Owns the body's cap and timer and `Expect: 100-continue`. Must not know what a body means, or where it goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from gateway.exchange import Overrides
from gateway.policy import Profile, ReasoningField
from gateway.server.guard import Refused

_FIELDS = {field.value: field for field in ReasoningField}

CROWDED_BYTES = 1024 * 1024
CROWDED_VALUES = 500_000
"""A body over so many bytes that holds more JSON values than this is forwarded unread, as one over its cap: parsing it
would stop every other exchange for long, and take many times its size. 64 MB of `{}` are 20 million."""
_SLICE_BYTES = 256 * 1024


class Intake:
    """The body of one request. `silence`: seconds a client may send nothing while its body is not complete."""

    def __init__(self, request: web.BaseRequest, *, silence: float) -> None:
        self._request, self._silence = request, silence
        self._continue = hdrs.EXPECT in request.headers and request.version == (1, 1)

    async def piece(self) -> bytes:
        """The next bytes, empty at the end. Raises Refused (400, 408)."""
        if self._continue and self._request.transport is not None:
            self._request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._continue = False
        content = self._request.content
        try:
            if content.is_eof():  # it came with the head: no timer
                return content.read_nowait()
            async with asyncio.timeout(self._silence):
                return await content.readany()
        except TimeoutError as error:
            message = f"no byte of the request body came for {self._silence:g} seconds"
            raise Refused(408, "body_timeout", message) from error
        except (web.RequestPayloadError, HttpProcessingError) as error:
            raise Refused(400, "framing", "the request body is not well-formed HTTP/1.1") from error

    async def read(self, limit: int) -> tuple[bytes, bool]:
        """The body, and whether that is all of it: reading stops once more than `limit` bytes have come."""
        pieces: list[bytes] = []
        size = 0
        while piece := await self.piece():
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                return b"".join(pieces), False
        return b"".join(pieces), True

    async def rest(self, first: bytes) -> AsyncIterator[bytes]:
        """`first`, which was read already, and what follows it."""
        if first:
            yield first
        while piece := await self.piece():
            yield piece


def crowded(body: bytes) -> bool:
    """True where `body` would be too much work to parse. Counts what begins or separates values, inside strings too;
    ends early, so that it never costs more than a few milliseconds."""
    if len(body) <= CROWDED_BYTES:
        return False
    values = 0
    for start in range(0, len(body), _SLICE_BYTES):
        piece = body[start : start + _SLICE_BYTES]
        values += piece.count(b"{") + piece.count(b"[") + piece.count(b",")
        if values > CROWDED_VALUES:
            return True
    return False


def overrides_of(request: web.BaseRequest, *, allowed: Collection[str], observe: bool) -> Overrides:
    """The wishes of `X-Integrity-Report`, `-Reasoning-Field` and `-Profile` that `request_overrides` allows.

    A value that is not understood is no wish. `observe`: the exchange is observed whatever the client wishes.
    """

    def wish(name: str) -> str:
        header = "X-Integrity-" + name.replace("_", "-")
        return request.headers.get(header, "").strip().lower() if name in allowed else ""

    return Overrides(
        report=wish("report") in ("1", "true"),
        reasoning_field=_FIELDS.get(wish("reasoning_field")),
        observe=observe or wish("profile") == Profile.OBSERVE,
    )
