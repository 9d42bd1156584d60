"""A client that leaves: its engine call ends at once, whatever the exchange was doing (rows B06 to B10)."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from tests.support.gateways import gateway
from tests.support.http import Client, connected, get, post
from tests.support.upstream import SSE, Script, Talk, chunk, engine, plain

BODY = b'{"messages":[],"stream":true}'
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
REQUESTS = {"inspected": post(BODY), "uninspected": get("/v1/responses/resp_1/input_items")}


class Watched:
    """A script that says a few bytes and waits for the gateway to leave."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.asked, self.left = asyncio.Event(), asyncio.Event()

    async def __call__(self, talk: Talk) -> None:
        for piece in self._pieces:
            await talk.say(piece)
        self.asked.set()
        await talk.until_left()
        self.left.set()


def reset(client: Client) -> None:
    client.leave()


def finish(client: Client) -> None:
    client.writer.close()


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("leave", [reset, finish])
async def test_a_client_that_leaves_before_the_head_ends_the_call(
    kind: str, leave: type[None], caplog: pytest.LogCaptureFixture
) -> None:
    script = Watched()
    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(REQUESTS[kind])
        await asyncio.wait_for(script.asked.wait(), 5)
        leave(client)
        await asyncio.wait_for(script.left.wait(), 1)
        assert await front.counted("client_disconnects_total", phase="head")
        assert await front.counted("upstream_requests_total", attempt="1", outcome="cancelled")
        route = "chat" if kind == "inspected" else "other"
        assert await front.counted("http_requests_total", route=route, code="499")
        assert front.count("http_requests_in_flight", route=route) == 0
    assert [record for record in caplog.records if record.exc_info or record.levelno > logging.INFO] == []


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("leave", [reset, finish])
async def test_a_client_that_leaves_mid_stream_ends_the_call(
    kind: str, leave: type[None], caplog: pytest.LogCaptureFixture
) -> None:
    script = Watched(SSE + chunk(EVENT))
    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(REQUESTS[kind])
        await client.head()
        await client.reader.readuntil(b"hi")
        leave(client)
        await asyncio.wait_for(script.left.wait(), 1)
        assert await front.counted("client_disconnects_total", phase="body")
        assert await front.counted("http_requests_total", route="chat" if kind == "inspected" else "other", code="200")
    assert [record for record in caplog.records if record.exc_info or record.levelno > logging.INFO] == []


async def test_half_closing_is_leaving() -> None:
    """B06: a client that has said its last byte cannot be told apart from one that has left."""
    script = Watched()
    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(REQUESTS["inspected"])
        await asyncio.wait_for(script.asked.wait(), 5)
        client.writer.write_eof()
        await asyncio.wait_for(script.left.wait(), 1)


async def test_a_client_that_leaves_while_its_answer_is_held_ends_the_call() -> None:
    """B09, B10: a plain body is held to its end, and nothing was written yet."""
    script = Watched(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(post(b'{"messages":[]}'))
        await asyncio.wait_for(script.asked.wait(), 5)
        client.leave()
        await asyncio.wait_for(script.left.wait(), 1)
        assert await front.counted("client_disconnects_total", phase="head")


@pytest.mark.parametrize("request_line", [b"POST /v1/chat/completions", b"POST /v1/embeddings"])
async def test_a_client_that_leaves_inside_its_body_asks_nothing(request_line: bytes) -> None:
    async with engine(Watched()) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(request_line + b" HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{")
        route = "chat" if b"chat" in request_line else "other"
        assert await front.counted("http_requests_in_flight", route=route)
        client.leave()
        assert await front.counted("client_disconnects_total", phase="request")
        assert upstream.seen == []


async def test_a_client_that_leaves_while_it_uploads_ends_the_call() -> None:
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"begun")
        begun.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        left.set()
        writer.close()

    begun = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, gateway(f"http://127.0.0.1:{port}") as front, connected(front.url) as client:
        client.send(b"PUT /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nbegun")
        await asyncio.wait_for(begun.wait(), 5)
        client.leave()
        await asyncio.wait_for(left.wait(), 1)


async def test_a_client_that_leaves_harms_no_other() -> None:
    script = Watched()
    scripts: list[Script] = [script, Talker()]
    async with (
        engine(*scripts) as upstream,
        gateway(upstream.url) as front,
        connected(front.url) as first,
        connected(front.url) as second,
    ):
        first.send(get("/one"))
        await asyncio.wait_for(script.asked.wait(), 5)
        first.leave()
        assert (await second.ask(get("/two"))).body == b"fine"


class Talker:
    """A script that answers."""

    async def __call__(self, talk: Talk) -> None:
        await talk.say(plain(b"fine"))
