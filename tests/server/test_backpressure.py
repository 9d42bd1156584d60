"""A client that reads slowly slows its own engine, and nobody buffers (row B05)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from urllib.parse import urlsplit

import pytest

from gateway.errors import EngineFault
from gateway.server.config import Timeouts
from gateway.server.connection import Ask, Call, target_of
from gateway.server.upstream import Upstreams
from gateway.server.wire import Head
from tests.support.gateways import eventually, gateway
from tests.support.http import Client, connected, get, post
from tests.support.upstream import LAST_CHUNK, SSE, Talk, chunk, engine, plain, saying

PIECE = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (b"x" * 4000)
PIECES = 10_000  # 40 MB: far more than the kernel's socket buffers on the way
REQUESTS = {"inspected": post(b'{"messages":[],"stream":true}'), "uninspected": get("/v1/responses/resp_1/input_items")}


class Flood:
    """A script that says as much as it can and counts what it got rid of."""

    def __init__(self) -> None:
        self.sent = 0
        self.left = asyncio.Event()

    async def __call__(self, talk: Talk) -> None:
        await talk.say(SSE)
        try:
            for _ in range(PIECES):
                await talk.say(chunk(PIECE))
                self.sent += 1
            await talk.say(chunk(b"data: [DONE]\n\n") + LAST_CHUNK)
        except ConnectionError:
            self.left.set()


async def stuck(flood: Flood) -> None:
    """Returns when the engine could not get rid of anything for a while."""
    before = -1
    while flood.sent != before:
        before = flood.sent
        await asyncio.sleep(0.15)  # no progress is what is waited for


async def read_all(client: Client) -> int:
    """Bytes of the body until its last chunk."""
    size = 0
    while length := int(await client.reader.readuntil(b"\r\n"), 16):
        size += len(await client.reader.readexactly(length))
        await client.reader.readexactly(2)
    return size


@pytest.mark.parametrize("kind", REQUESTS)
async def test_a_slow_client_stops_the_engine_and_loses_nothing(kind: str) -> None:
    flood = Flood()
    async with engine(flood) as upstream, gateway(upstream.url) as front, connected(front.url, limit=4096) as client:
        client.send(REQUESTS[kind])
        await client.head()
        await stuck(flood)
        assert 0 < flood.sent < PIECES / 2
        assert await asyncio.wait_for(read_all(client), 30) >= PIECES * len(PIECE)
        assert flood.sent == PIECES


async def test_a_client_that_reads_nothing_is_cut() -> None:
    flood = Flood()
    async with (
        engine(flood) as upstream,
        gateway(upstream.url, timeouts={"write_stall": 0.2}) as front,
        connected(front.url, limit=4096) as client,
    ):
        client.send(REQUESTS["inspected"])
        await client.head()
        await asyncio.wait_for(flood.left.wait(), 5)
        assert await front.counted("client_disconnects_total", phase="stalled")
        assert await eventually(lambda: front.count("http_requests_in_flight", route="chat") == 0)


async def test_a_slow_client_is_not_taken_for_a_silent_engine() -> None:
    flood = Flood()
    async with (
        engine(flood) as upstream,
        gateway(upstream.url, timeouts={"idle": 0.1}) as front,
        connected(front.url, limit=4096) as client,
    ):
        client.send(REQUESTS["inspected"])
        await client.head()
        await stuck(flood)
        assert await asyncio.wait_for(read_all(client), 30) >= PIECES * len(PIECE)


async def test_a_tail_that_the_client_has_not_taken_counts_as_running() -> None:
    """The engine has ended, the transport's buffer has not: a drain must wait for it."""
    answer = b'{"choices":[{"index":0,"message":{"content":"%b"},"finish_reason":"stop"}]}' % (b"x" * 16_000_000)
    async with (
        engine(saying(plain(answer))) as upstream,
        gateway(upstream.url) as front,
        connected(front.url, limit=4096) as client,
    ):
        client.send(post(b'{"messages":[]}'))
        await client.head()
        assert await front.counted("upstream_requests_total", attempt="1", outcome="ok")
        await asyncio.sleep(0.1)  # that it does not end is what is waited for
        assert front.count("http_requests_in_flight", route="chat") == 1
        assert await client.reader.readexactly(len(answer)) == answer
        assert await front.counted("http_requests_total", route="chat", code="200")


async def test_a_client_that_reads_slowly_but_reads_is_not_cut() -> None:
    """The stall is no progress, not slowness: a tenth of the answer comes in each of the pauses."""
    answer = b'{"choices":[{"index":0,"message":{"content":"%b"},"finish_reason":"stop"}]}' % (b"x" * 16_000_000)
    async with (
        engine(saying(plain(answer))) as upstream,
        gateway(upstream.url, timeouts={"write_stall": 0.3}) as front,
        connected(front.url, limit=4096) as client,
    ):
        client.send(post(b'{"messages":[]}'))
        await client.head()
        size = 0
        while size < len(answer):
            size += len(await client.reader.readexactly(min(1_600_000, len(answer) - size)))
            await asyncio.sleep(0.1)  # a client that is slow
        assert await front.counted("http_requests_total", route="chat", code="200")


async def test_a_tail_below_the_high_water_mark_that_nobody_takes_is_cut_too() -> None:
    """Closing the connection would wait for it without an end."""
    body = b"x" * 60_000  # less than the transport's high-water mark of 64 KiB, once the kernel's buffers are full
    async with engine(saying(plain(body))) as upstream, gateway(upstream.url, timeouts={"write_stall": 0.3}) as front:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        parts = urlsplit(front.url)
        sock.connect((parts.hostname, parts.port))
        sock.sendall(get("/x") * 200)  # more than the kernel takes, one after the other
        with contextlib.closing(sock):
            assert await front.counted("client_disconnects_total", phase="stalled")
            assert await eventually(lambda: front.count("http_requests_in_flight", route="other") == 0)


class Pausing:
    """A sink whose client is slow at the very last byte."""

    def __init__(self) -> None:
        self.call = Call(Ask(method="GET", target=b"/", fields=()), self)
        self.body = b""

    def head(self, head: Head) -> None: ...

    def data(self, body: bytes) -> None:
        self.body += body
        self.call.pause(True)

    def end(self) -> None: ...

    def broken(self, fault: EngineFault) -> None:
        raise AssertionError(fault)


async def test_a_connection_that_was_paused_at_its_end_is_read_again() -> None:
    async with engine(saying(plain(b"fine"))) as upstream:
        pool = Upstreams(Timeouts(), observe=lambda attempt, outcome: None)
        for _ in range(2):
            sink = Pausing()
            await asyncio.wait_for(pool.run(sink.call, [target_of(upstream.url)]), 2)
            assert sink.body == b"fine"
        assert upstream.connections == 1
        pool.close()
