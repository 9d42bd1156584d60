"""A WebSocket upgrade: once the engine answers 101, bytes pass both ways as they come.

Owns the client-to-engine direction, read from under aiohttp's parser, and its back-pressure; the other direction is the
relay's. Frames are not read: extensions and masks are between the two ends. Must not know routes, the pool, metrics.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, cast

from aiohttp import web

from gateway.server.relay import Relay, Untouched, relay_head
from gateway.server.wire import Head

HELD_BYTES = 64 * 1024
"""Client bytes the engine has not taken; past it the client's socket is not read."""


def asks_for_tunnel(request: web.BaseRequest) -> bool:
    """True for a WebSocket handshake. Any other upgrade is ignored, as RFC 9110 section 7.8 allows."""
    options = [option.strip().lower() for option in request.headers.get("Connection", "").split(",")]
    wanted = request.headers.get("Upgrade", "").lower() == "websocket" and "upgrade" in options
    return wanted and request.method == "GET" and not request.body_exists


class Tunnel(Untouched):
    """Sink of the engine's side, source of the client's side (`pieces`), parser of the client's connection."""

    def __init__(self, request: web.BaseRequest, relay: Relay) -> None:
        super().__init__(relay)
        self._request = request
        self._held: deque[bytes] = deque()
        self._size = 0
        self._more = asyncio.Event()
        self._paused = False

    # ------------------------------------------------------------------ engine to client

    def head(self, head: Head) -> None:
        if head.status != 101:
            relay_head(self._relay, head)
            return
        self._relay.open_tunnel(head)
        # The place of aiohttp's own WebSocket reader: from here on the connection's bytes come to `feed_data`.
        self._request.protocol.set_parser(cast(Any, self))

    # ------------------------------------------------------------------ client to engine

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Called by aiohttp for every read. Returns (end of the connection wanted, bytes left over)."""
        self._held.append(data)
        self._size += len(data)
        self._more.set()
        self._slow()
        return False, b""

    def feed_eof(self) -> None:
        """Called by aiohttp when the client is gone: the handler is cancelled, which closes the engine's side."""

    async def pieces(self) -> AsyncIterator[bytes]:
        """The client's bytes, without an end."""
        while True:
            await self._more.wait()
            while self._held:
                piece = self._held.popleft()
                self._size -= len(piece)
                yield piece
                self._slow()
            self._more.clear()

    def _slow(self) -> None:
        paused, transport = self._size > HELD_BYTES, self._request.transport
        if transport is None or transport.is_closing() or paused is self._paused:
            return
        self._paused = paused
        if paused:
            transport.pause_reading()
        else:
            transport.resume_reading()
