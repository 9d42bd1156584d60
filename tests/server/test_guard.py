"""Requests that are refused before they are looked at: rows A of the reliability reference, as raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from gateway.server.guard import GuardedServer, Refused
from gateway.server.intake import Intake
from tests.support.gateways import Gateway, eventually, gateway
from tests.support.http import connected, fetch, get, post
from tests.support.upstream import LAST_CHUNK, SSE, chunk, engine, plain, saying

CHAT = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
LINE = 16 * 1024  # limits.http_line
BODY = b'{"messages":[]}'

REFUSED = {
    "A01 length and coding": (CHAT + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "A02 two equal lengths": (CHAT + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    "A02 two lengths": (CHAT + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    "A03 signed length": (CHAT + "Content-Length: +2\r\n\r\n{}", 400),
    "A03 list of lengths": (CHAT + "Content-Length: 2, 2\r\n\r\n{}", 400),
    "A03 underscored length": (CHAT + "Content-Length: 0_2\r\n\r\n{}", 400),
    "A03 negative length": (CHAT + "Content-Length: -1\r\n\r\n{}", 400),
    "A04 gzip, chunked": (CHAT + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "A04 identity last": (CHAT + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
    "A04 unknown": (CHAT + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "A05 coding on 1.0, kept": (
        "POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "A05 coding on 1.0": ("POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "A06 HTTP/1.2": ("GET / HTTP/1.2\r\nHost: h\r\n\r\n", 400),
    "A06 HTTP/2 preface": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "A06 TLS hello": ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "A07 folded line": (CHAT + "X-A: 1\r\n folded\r\n\r\n", 400),
    "A07 bare LF": ("GET / HTTP/1.1\nHost: h\n\n", 400),
    "A07 bare CR": (CHAT + "X-A: secret\rcr\r\n\r\n", 400),
    "A07 NUL": (CHAT + "X-A: secret\x00nul\r\n\r\n", 400),
    "A07 space before colon": (CHAT + "X-A : 1\r\n\r\n", 400),
    "A08 long header": (CHAT + f"X-A: {'a' * (LINE + 1)}\r\n\r\n", 431),
    "A08 many headers": (CHAT + "X-A: 1\r\n" * 200 + "\r\n", 431),
    "A08 long target": (f"GET /{'a' * LINE} HTTP/1.1\r\nHost: h\r\n\r\n", 431),
    "A09 no Host": ("GET / HTTP/1.1\r\n\r\n", 400),
    "A09 two Hosts": ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "A09 empty Host": ("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
    "A09 userinfo in Host": ("GET / HTTP/1.1\r\nHost: user@h\r\n\r\n", 400),
    "A10 absolute form": ("GET http://elsewhere/v1/models HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "A10 asterisk form": ("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "A11 CONNECT": ("CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", 405),
    "A11 TRACE": ("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n", 405),
    "A11 lower case method": ("get / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "A11 unknown method": ("BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "A12 prefixed chunk size": (CHAT + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", 400),
    "A12 chunk size overflow": (CHAT + "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\na", 400),
    "A12 LF in extension": (CHAT + "Transfer-Encoding: chunked\r\n\r\n2;\nx\r\nhi\r\n0\r\n\r\n", 400),
    "A12 no CRLF after chunk": (CHAT + "Transfer-Encoding: chunked\r\n\r\n2\r\nhixx0\r\n\r\n", 400),
    "A18 unknown expectation": (CHAT + "Expect: tea\r\nContent-Length: 2\r\n\r\n{}", 417),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_malformed_request_is_refused_and_its_connection_closed(case: str) -> None:
    raw, status = REFUSED[case]
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(raw.encode("latin-1") + get())  # A14: what follows is not another request
        answer = await client.answer()
        assert answer.status == status
        assert json.loads(answer.body)["error"]["code"] == "integrity_bad_request"
        assert b"secret" not in answer.body
        assert await client.closed()
        assert upstream.seen == []
        assert sum(front.count("rejected_requests_total", reason=reason) for reason in REASONS) == 1


REASONS = ("version", "method", "target", "host", "framing", "expect")


async def test_http_0_9_is_refused() -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(b"GET /\r\n\r\n")
        assert b" 505 HTTP Version Not Supported\r\n" in await asyncio.wait_for(client.reader.read(), 5)
        assert upstream.seen == []


async def test_headers_of_exactly_the_cap_pass() -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        value = "a" * LINE
        assert (await fetch(front.url, get("/", f"X-A: {value}"))).status == 200
        assert upstream.last.get("x-a") == value


async def test_the_cap_of_a_line_is_configured() -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url, limits={"http_line": 1024}) as front:
        assert (await fetch(front.url, get("/" + "a" * 1000))).status == 200
        assert (await fetch(front.url, get("/" + "a" * 1100))).status == 431


async def test_chunk_extensions_and_trailers_of_a_request_are_dropped() -> None:
    head = CHAT.encode() + b"Transfer-Encoding: chunked\r\n\r\n"
    trailers = b"0\r\nAuthorization: Bearer t\r\nX-A: 1\r\n\r\n"
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        for raw in (head + b"f;x=y\r\n" + BODY + b"\r\n" + LAST_CHUNK, head + chunk(BODY) + trailers):
            assert (await client.ask(raw)).status == 200
            assert upstream.last.body == BODY
            assert [upstream.last.get(name) for name in ("authorization", "x-a")] == [None, None]


async def test_pipelined_requests_are_answered_in_order() -> None:
    scripts = [saying(plain(b"%d" % number)) for number in range(40)]
    async with engine(*scripts) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(b"".join(get(f"/{number}") for number in range(40)))
        for number in range(40):
            assert (await client.answer()).body == b"%d" % number
        assert [seen.target for seen in upstream.seen] == [f"/{number}" for number in range(40)]


async def test_expect_100_is_answered_once_and_stays_here() -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        head, body = post(BODY, "Expect: 100-continue").split(b"\r\n\r\n")
        client.send(head + b"\r\n\r\n")
        assert (await client.head()).start == "HTTP/1.1 100 Continue"
        answer = await client.ask(body)
        assert (answer.status, upstream.last.body, upstream.last.get("expect")) == (200, BODY, None)


async def test_a_refused_request_gets_no_100() -> None:
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, passthrough=["/x"]) as front,
        connected(front.url) as client,
    ):
        client.send(b"PUT /y HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert (await client.head()).status == 404


# ---------------------------------------------------------------- slow clients


async def test_a_head_that_never_ends_is_given_up() -> None:
    """B01: the timer counts from the first byte, not from the last."""
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, timeouts={"header": 0.2}) as front,
        connected(front.url) as client,
    ):
        client.send(b"GET / HTTP/1.1\r\nX-A: ")
        closed = asyncio.ensure_future(client.closed())
        while not closed.done():
            client.send(b"T")
            await asyncio.wait({closed}, timeout=0.05)
        assert closed.result()
        assert front.count("rejected_requests_total", reason="header_timeout") == 1


async def test_a_connection_is_not_given_up_between_requests_or_while_it_is_served() -> None:
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, timeouts={"header": 0.05}) as front,
        connected(front.url) as client,
    ):
        for _ in range(3):
            assert (await client.ask(get())).status == 200
            await asyncio.sleep(0.1)  # the time that must pass is what is tested
        head, body = post(BODY).split(b"\r\n\r\n")
        client.send(head + b"\r\n\r\n")
        await asyncio.sleep(0.1)
        assert (await client.ask(body)).status == 200
        assert front.count("rejected_requests_total", reason="header_timeout") == 0


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/embeddings"])
async def test_a_body_that_stalls_is_given_up(target: str) -> None:
    """B02"""
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, timeouts={"request_body": 0.1}) as front,
        connected(front.url) as client,
    ):
        client.send(post(BODY, target=target)[:-1])
        answer = await client.answer()
        assert (answer.status, answer.all("connection"), upstream.seen) == (408, ["close"], [])
        assert front.count("rejected_requests_total", reason="body_timeout") == 1


async def test_a_streamed_body_that_stalls_is_given_up() -> None:
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, timeouts={"request_body": 0.1}) as front,
        connected(front.url) as client,
    ):
        client.send(b"PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nbegun")
        assert (await client.answer()).status == 408
        assert await front.counted("upstream_requests_total", attempt="1", outcome="cancelled")


async def test_a_body_that_turns_out_malformed_never_becomes_a_request() -> None:
    """aiohttp's parser tells nobody that it has given up a body."""
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(CHAT.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b'{"a":'))
        assert await eventually(lambda: front.count("http_requests_in_flight", route="chat") == 1)
        client.send(b"bogus\r\n1}\r\n" + LAST_CHUNK)
        assert (await client.answer()).status == 400
        assert await client.closed()
        assert upstream.seen == []


STALLS = {"request_body": 0.2}
UPLOAD = b"PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
BEGUN = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"part")


class Early:
    """An engine that begins to answer when it has read a request's head."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.begun)
            while await reader.read(65536):
                pass
        writer.close()

    def __init__(self, begun: bytes) -> None:
        self.begun = begun


@contextlib.asynccontextmanager
async def early(begun: bytes) -> AsyncIterator[str]:
    """URL of such an engine."""
    server = await asyncio.start_server(Early(begun), "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("rest", [b"", b"bogus\r\n"], ids=["stalls", "malformed"])
async def test_an_upload_that_fails_while_its_answer_runs_cuts_the_answer_and_says_no_second_head(rest: bytes) -> None:
    async with (
        early(BEGUN) as url,
        gateway(url, timeouts={"request_body": 0.1}) as front,
        connected(front.url) as client,
    ):
        client.send(UPLOAD + chunk(b"hello"))
        assert (await client.head()).status == 200
        client.send(rest)
        assert await asyncio.wait_for(client.reader.read(), 5) == chunk(b"part")


async def test_an_upload_over_its_cap_that_fails_ends_a_stream_that_is_read_with_an_error_event() -> None:
    event = b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
    async with (
        early(SSE + chunk(event)) as url,
        gateway(url, timeouts=STALLS, limits={"request_body": 10}, policy={"reasoning_field": "none"}) as front,
        connected(front.url) as client,
    ):
        client.send(CHAT.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b'{"stream":true,"messages":['))
        assert (await client.head()).status == 200
        rest = await asyncio.wait_for(client.reader.read(), 5)
        assert b'"code":"integrity_bad_request"' in rest
        assert b"HTTP/1.1" not in rest
        assert not rest.endswith(LAST_CHUNK)


async def test_a_head_that_begins_behind_a_request_is_timed_from_its_answer() -> None:
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, timeouts={"header": 0.1}) as front,
        connected(front.url) as client,
    ):
        assert (await client.ask(post(BODY) + b"GET /y HTTP/1.1\r\nHo")).status == 200
        assert await client.closed()
        assert front.count("rejected_requests_total", reason="header_timeout") == 1


@pytest.mark.parametrize(
    "request_", [get(), post(BODY), CHAT.encode() + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
)
async def test_a_connection_whose_requests_are_complete_is_not_timed(request_: bytes) -> None:
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, timeouts={"header": 0.05}) as front,
        connected(front.url) as client,
    ):
        for _ in range(2):
            assert (await client.ask(request_)).status == 200
            await asyncio.sleep(0.1)  # the time that must pass is what is tested
        assert front.count("rejected_requests_total", reason="header_timeout") == 0


async def test_the_unread_rest_of_a_refused_body_is_no_head() -> None:
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, passthrough=["/x"], timeouts={"header": 0.05}) as front,
        connected(front.url) as client,
    ):
        client.send(b"PUT /y HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello")
        assert (await client.answer()).status == 404
        client.send(b"wo")
        await asyncio.sleep(0.1)  # the time that must pass is what is tested
        client.send(b"rld")
        assert (await client.ask(get("/x"))).status == 200
        assert front.count("rejected_requests_total", reason="header_timeout") == 0


async def test_the_authority_of_an_absolute_target_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gateway")
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        assert (await fetch(front.url, b"GET http://u:secret@h/v1/models HTTP/1.1\r\nHost: h\r\n\r\n")).status == 400
    told = [record for record in caplog.records if record.msg == "exchange"]
    assert len(told) == 1
    assert "secret" not in repr(told[0].__dict__)


async def test_an_error_for_a_head_request_has_no_body() -> None:
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, passthrough=["/x"]) as front,
        connected(front.url) as client,
    ):
        refused = await client.ask(b"HEAD /y HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (refused.status, int(refused.get("content-length") or 0) > 0) == (404, True)
        assert (await client.ask(get("/x"))).body == b"{}"


async def test_a_payload_that_the_parser_calls_broken_is_refused() -> None:
    """aiohttp's Python parser, used where it has no compiled one, says so on the payload."""
    payload = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1024)
    payload.set_exception(web.RequestPayloadError())
    intake = Intake(make_mocked_request("POST", "/", payload=payload), silence=1)
    with pytest.raises(Refused) as refused:
        await intake.read(1024)
    assert (refused.value.status, refused.value.reason) == (400, "framing")


async def test_a_handler_that_raises_is_a_500_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    async def raising(request: web.BaseRequest) -> web.StreamResponse:
        raise RuntimeError("secret prompt text")

    server = GuardedServer(raising, header_seconds=1, line_bytes=1024, connections=9, rejected=lambda reason: None)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    async with listener, connected(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}") as client:
        answer = await client.ask(get())
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "integrity_internal")
        assert await client.closed()
    assert [record.msg for record in caplog.records] == ["bug"]
    assert "secret" not in caplog.text + repr(caplog.records[0].__dict__)


# ---------------------------------------------------------------- too many connections


async def test_connections_past_the_cap_are_told_so_and_the_admin_listener_still_answers() -> None:
    """B04"""
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, limits={"connections": 3}) as front,
        contextlib.AsyncExitStack() as stack,
    ):
        idle = [await stack.enter_async_context(connected(front.url)) for _ in range(3)]
        assert [(await client.ask(get())).status for client in idle] == [200] * 3
        for _ in range(20):
            async with connected(front.url) as late:
                answer = await late.answer()
                assert (answer.status, answer.get("retry-after"), answer.get("connection")) == (503, "1", "close")
                assert json.loads(answer.body)["error"]["code"] == "integrity_too_many_connections"
                assert await late.closed()
        assert front.count("rejected_requests_total", reason="connections") == 20
        assert (await fetch(front.admin, get("/readyz"))).status == 200
        assert (await idle[0].ask(get())).status == 200
        idle[1].leave()
        assert await eventually(lambda: open_connections(front) == 2)
        assert (await fetch(front.url, get())).status == 200


def open_connections(front: Gateway) -> int:
    server = front.server._server
    assert server is not None
    return server.open
