"""WebSocket upgrades pass byte for byte; other upgrades are ignored (row A19)."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from tests.support.gateways import gateway
from tests.support.http import connected, fetch, get, post
from tests.support.upstream import Talk, engine, plain, saying

ASK = get("/v1/realtime?model=m", "Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k")
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\n"
)


async def echo(talk: Talk) -> None:
    """Switches, greets, and says every byte back until the other side leaves."""
    await talk.say(SWITCH + b"hello")
    while data := await talk.reader.read(65536):
        await talk.say(data)
    talk.close()


async def test_bytes_pass_both_ways() -> None:
    async with engine(echo) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(ASK)
        head = await client.head()
        assert (head.status, head.get("upgrade"), head.get("connection")) == (101, "websocket", "Upgrade")
        assert (head.get("sec-websocket-accept"), head.get("transfer-encoding")) == ("a", None)
        assert await client.reader.readexactly(5) == b"hello"
        assert upstream.last.target == "/v1/realtime?model=m"
        assert upstream.last.all("connection") == ["Upgrade"]
        assert upstream.last.all("upgrade") == ["websocket"]
        for data in (bytes(range(256)), b"\x81\x85\x00\x00\x00\x00hello", b"x" * 300_000):
            client.send(data)
            assert await asyncio.wait_for(client.reader.readexactly(len(data)), 5) == data


async def test_bytes_sent_before_the_switch_are_not_lost() -> None:
    async with engine(echo) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(ASK + b"early")
        await client.head()
        assert await asyncio.wait_for(client.reader.readexactly(10), 5) == b"helloearly"


async def test_the_engine_ends_the_tunnel() -> None:
    async def script(talk: Talk) -> None:
        await talk.say(SWITCH + b"bye")
        talk.close()

    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(ASK)
        await client.head()
        assert await asyncio.wait_for(client.reader.read(), 5) == b"bye"
        assert await front.counted("http_requests_total", route="other", code="101")


async def test_the_client_ends_the_tunnel() -> None:
    left = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(SWITCH)
        await talk.until_left()
        left.set()

    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(ASK)
        await client.head()
        client.leave()
        await asyncio.wait_for(left.wait(), 1)


async def test_an_engine_that_takes_nothing_stops_the_client() -> None:
    taken = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(SWITCH)
        await taken.wait()
        await talk.until_left()

    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(ASK)
        await client.head()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                for _ in range(1000):
                    client.send(b"x" * 100_000)
                    await client.writer.drain()
        taken.set()
        await asyncio.wait_for(client.writer.drain(), 10)


async def test_a_refused_upgrade_is_an_ordinary_answer() -> None:
    refusal = plain(b"no", b"HTTP/1.1 403 Forbidden\r\n")
    async with (
        engine(saying(refusal), saying(plain(b"fine"))) as upstream,
        gateway(upstream.url) as front,
        connected(front.url) as client,
    ):
        answer = await client.ask(ASK)
        assert (answer.status, answer.body) == (403, b"no")
        assert (await client.ask(get())).body == b"fine"


async def test_an_engine_that_breaks_before_the_switch_is_a_502() -> None:
    async def script(talk: Talk) -> None:
        talk.close()

    async with engine(script) as upstream, gateway(upstream.url) as front:
        assert (await fetch(front.url, ASK)).status == 502


@pytest.mark.parametrize(
    ("connection", "upgrade"), [("Upgrade", "h2c"), ("keep-alive", "websocket"), ("Upgrade", "TLS/1.0")]
)
async def test_what_is_no_websocket_handshake_is_an_ordinary_request(connection: str, upgrade: str) -> None:
    async with engine(saying(plain(b"fine"))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, get("/x", f"Connection: {connection}", f"Upgrade: {upgrade}"))
        assert (answer.body, upstream.last.get("upgrade"), upstream.last.get("connection")) == (b"fine", None, None)


async def test_a_body_behind_an_upgrade_is_a_body() -> None:
    """CVE-2026-69243: it must not be read as another request."""
    smuggled = get("/smuggled")
    async with (
        engine(saying(plain(b"fine"))) as upstream,
        gateway(upstream.url) as front,
        connected(front.url) as client,
    ):
        fields = ["Connection: Upgrade", "Upgrade: websocket"]
        answer = await client.ask(post(smuggled, *fields, target="/v1/embeddings"))
        assert (answer.body, upstream.last.body, len(upstream.seen)) == (b"fine", smuggled, 1)


async def test_tunnels_obey_the_passthrough_policy() -> None:
    async with engine(echo) as upstream, gateway(upstream.url, passthrough=["/x"]) as front:
        assert (await fetch(front.url, ASK)).status == 404
        assert upstream.seen == []


async def test_a_real_websocket_client_talks_to_a_real_server() -> None:
    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data[::-1])
        return socket

    app = web.Application()
    app.router.add_get("/v1/realtime", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    upstream = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with (
        gateway(upstream) as front,
        aiohttp.ClientSession() as session,
        session.ws_connect(front.url + "/v1/realtime", compress=15) as socket,
    ):
        for text in ("hello", "x" * 100_000 + "y"):
            await socket.send_str(text)
            assert await socket.receive_str(timeout=5) == text[::-1]
    await runner.cleanup()
