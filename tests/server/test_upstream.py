"""Engines that cannot be reached, break off or talk nonsense (rows D), and the one safe retry."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest

from gateway.errors import EngineFault
from gateway.server import health
from gateway.server.config import Timeouts
from gateway.server.connection import STALE_SECONDS, Ask, Call, target_of
from gateway.server.upstream import Upstreams
from gateway.server.wire import Head
from tests.support.gateways import gateway
from tests.support.http import Message, connected, fetch, get, post
from tests.support.upstream import (
    JSON,
    LAST_CHUNK,
    SSE,
    Script,
    Talk,
    chunk,
    closing,
    engine,
    plain,
    resetting,
    saying,
    stalling,
)

CHAT = post(b'{"messages":[],"stream":true}')
REQUESTS = {"inspected": CHAT, "uninspected": get("/v1/models"), "streamed": post(b"x" * 100_000, target="/upload")}
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'


def error_of(answer: Message) -> tuple[int, str]:
    """Status and code of an error of the gateway, in OpenAI's shape."""
    error = json.loads(answer.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.get("server") == "integrity-gateway"
    return answer.status, error["code"]


@pytest.fixture
def unused() -> str:
    """A URL nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


# ---------------------------------------------------------------- before the head


@pytest.mark.parametrize("kind", REQUESTS)
async def test_an_engine_that_refuses_connections_is_a_502(kind: str, unused: str) -> None:
    """D01"""
    async with gateway(unused) as front:
        answer = await fetch(front.url, REQUESTS[kind])
        assert error_of(answer) == (502, "integrity_upstream_unreachable")
        assert unused.removeprefix("http://").encode() not in answer.body
        assert await front.counted("upstream_requests_total", attempt="1", outcome="connect_error")


async def test_an_engine_whose_name_is_unknown_is_a_502() -> None:
    async with gateway("http://no-such-engine.invalid:1") as front:
        answer = await fetch(front.url, CHAT)
        assert error_of(answer) == (502, "integrity_upstream_unreachable")
        assert b"name is not known" in answer.body
        assert b"no-such-engine" not in answer.body


async def test_an_engine_that_speaks_no_tls_is_a_502() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(plain(b"no TLS here"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, gateway(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}") as front:
        answer = await fetch(front.url, CHAT)
        assert error_of(answer) == (502, "integrity_upstream_unreachable")
        assert b"TLS failed" in answer.body


async def test_an_engine_that_accepts_nothing_is_a_502_at_the_connect_timeout() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        address = sock.getsockname()
        with socket.create_connection(address), socket.socket() as filler:
            filler.setblocking(False)
            filler.connect_ex(address)  # the backlog is full now: the next SYN is dropped
            url = f"http://127.0.0.1:{address[1]}"
            async with gateway(url, timeouts={"connect": 0.1}) as front:
                assert error_of(await fetch(front.url, CHAT)) == (502, "integrity_upstream_unreachable")


@pytest.mark.parametrize("kind", REQUESTS)
async def test_an_engine_that_does_not_begin_to_answer_is_a_504(kind: str) -> None:
    """D02"""
    async with engine(stalling) as upstream, gateway(upstream.url, timeouts={"first_byte": 0.1}) as front:
        assert error_of(await fetch(front.url, REQUESTS[kind])) == (504, "integrity_upstream_timeout")
        assert await front.counted("upstream_requests_total", attempt="1", outcome="timeout_first_byte")


async def test_a_head_that_trickles_is_waited_for() -> None:
    """Silence is what is timed, not the whole."""
    head = SSE + chunk(EVENT) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK

    async def script(talk: Talk) -> None:
        for start in range(0, len(head), 20):
            await talk.say(head[start : start + 20])
            await asyncio.sleep(0.03)

    async with engine(script) as upstream, gateway(upstream.url, timeouts={"first_byte": 0.15, "idle": 0.15}) as front:
        assert (await fetch(front.url, CHAT)).complete


BROKEN_HEADS: dict[str, tuple[bytes, str]] = {
    "D04 nothing": (b"", "integrity_upstream_unreachable"),
    "D05 half a status line": (b"HTTP/1.1 20", "integrity_upstream_unreachable"),
    "D05 garbage": (b"\x16\x03\x01 secret\r\n\r\n", "integrity_upstream_error"),
    "D06 status 099": (b"HTTP/1.1 099 secret\r\n\r\n", "integrity_upstream_error"),
    "D06 status 999": (b"HTTP/1.1 999 secret\r\n\r\n", "integrity_upstream_error"),
    "D06 status 101": (b"HTTP/1.1 101 secret\r\n\r\n", "integrity_upstream_error"),
    "D09 two framings": (
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        "integrity_upstream_error",
    ),
    "D09 NUL": (b"HTTP/1.1 200 OK\r\nx: secret\x00\r\n\r\n", "integrity_upstream_error"),
    "D09 long header": (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000, "integrity_upstream_error"),
    "D11 bare CR in a value": (b"HTTP/1.1 200 OK\r\nx: secret\rSet-Cookie: a=1\r\n\r\n", "integrity_upstream_error"),
}


@pytest.mark.parametrize("case", BROKEN_HEADS)
@pytest.mark.parametrize("kind", REQUESTS)
async def test_a_head_that_cannot_be_read_is_a_502_and_is_not_quoted(case: str, kind: str) -> None:
    raw, code = BROKEN_HEADS[case]
    async with engine(closing(raw)) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, REQUESTS[kind])
        assert error_of(answer) == (502, code)
        assert b"secret" not in answer.body
        assert upstream.connections == 1


async def test_interim_answers_are_swallowed() -> None:
    """D07"""
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with engine(saying(interim + plain(b"fine"))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, get())
        assert (answer.status, answer.body, answer.get("link")) == (200, b"fine", None)


# ---------------------------------------------------------------- after the head


async def test_a_silent_engine_is_cut_at_the_idle_timeout() -> None:
    """E14"""

    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(EVENT))
        await talk.until_left()

    async with engine(script) as upstream, gateway(upstream.url, timeouts={"idle": 0.1}) as front:
        answer = await fetch(front.url, CHAT)
        assert (answer.complete, answer.body.startswith(EVENT)) == (False, True)
        assert b"integrity_upstream_timeout" in answer.body
        assert await front.counted("upstream_requests_total", attempt="1", outcome="timeout_idle")


TRUNCATED = {
    "short length": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart",
    "no last chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"part"),
    "inside a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\npart",
    "bad chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"part") + b"bogus\r\n",
}


@pytest.mark.parametrize("case", TRUNCATED)
async def test_an_answer_that_breaks_off_does_not_look_complete(case: str) -> None:
    async with engine(closing(TRUNCATED[case])) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, get())
        assert (answer.status, answer.body, answer.complete) == (200, b"part", False)
        outcome = "bad_framing" if case == "bad chunk" else "truncated"
        assert await front.counted("upstream_requests_total", attempt="1", outcome=outcome)


async def test_an_answer_without_length_that_ends_by_a_reset_does_not_look_complete() -> None:
    """aiohttp's client takes it for complete (operations, fact 9)."""
    arrived = asyncio.Event()
    async with (
        engine(resetting(b"HTTP/1.1 200 OK\r\n\r\npart", when=arrived)) as upstream,
        gateway(upstream.url) as front,
        connected(front.url) as client,
    ):
        client.send(get())
        await client.head()
        await client.reader.readuntil(b"part")
        arrived.set()
        assert b"0\r\n\r\n" not in await asyncio.wait_for(client.reader.read(), 5)


@pytest.mark.parametrize("case", TRUNCATED)
async def test_a_cut_answer_to_http_1_0_ends_by_a_reset(case: str) -> None:
    """Where only the close ends a body, a close says that it is complete."""
    async with (
        engine(closing(TRUNCATED[case])) as upstream,
        gateway(upstream.url) as front,
        connected(front.url) as client,
    ):
        client.send(b"GET /x HTTP/1.0\r\nHost: h\r\n\r\n")
        if case == "short length":  # its length says that it is not complete
            assert not (await client.answer()).complete
            return
        with pytest.raises(ConnectionResetError):
            while await asyncio.wait_for(client.reader.read(65536), 5):
                pass


async def test_surplus_bytes_are_dropped_with_the_connection() -> None:
    """D08, D10"""
    surplus = b"HTTP/1.1 200 OK\r\n\r\nsmuggled"
    scripts = [saying(plain(b"one") + surplus), saying(b"HTTP/1.1 204 No Content\r\n\r\nbody"), saying(plain(b"three"))]
    async with engine(*scripts) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        assert [(await client.ask(get())).body for _ in range(3)] == [b"one", b"", b"three"]
        assert upstream.connections == 3


async def test_bytes_on_an_idle_connection_end_it() -> None:
    later = asyncio.Event()
    said = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(plain(b"one"))
        await later.wait()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nsmuggled")
        await talk.until_left()
        said.set()

    async with (
        engine(script, saying(plain(b"two"))) as upstream,
        gateway(upstream.url) as front,
        connected(front.url) as client,
    ):
        assert (await client.ask(get())).body == b"one"
        later.set()
        await asyncio.wait_for(said.wait(), 1)
        assert (await client.ask(get())).body == b"two"


# ---------------------------------------------------------------- re-use and the retry


async def test_a_connection_is_used_again() -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        for _ in range(5):
            assert (await fetch(front.url, CHAT)).status == 200
        assert upstream.connections == 1


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nconnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
async def test_a_connection_the_engine_means_to_close_is_not_used_again(head: bytes) -> None:
    async with engine(saying(plain(b"{}", head))) as upstream, gateway(upstream.url) as front:
        for _ in range(2):
            assert (await fetch(front.url, CHAT)).status == 200
        assert upstream.connections == 2


async def test_a_connection_is_not_kept_longer_than_engines_keep_theirs() -> None:
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, timeouts={"keepalive_upstream": 0.05}) as front,
    ):
        await fetch(front.url, CHAT)
        await asyncio.sleep(0.1)  # the age is what is tested
        await fetch(front.url, CHAT)
        assert upstream.connections == 2


def once(*, then: Script) -> list[Script]:
    """An answer, then a second request that is read and answered by closing, then `then`."""
    return [saying(plain(b"first")), closing(), then]


@pytest.mark.parametrize("kind", ["inspected", "uninspected"])
async def test_a_stale_connection_is_replaced_once(kind: str) -> None:
    """D03: no byte of an answer came, so the engine did not read the request."""
    async with engine(*once(then=saying(plain(b"second")))) as upstream, gateway(upstream.url) as front:
        assert (await fetch(front.url, get())).body == b"first"
        answer = await fetch(front.url, REQUESTS[kind])
        assert (answer.body, upstream.connections) == (b"second", 2)
        assert upstream.seen[1].body == upstream.seen[2].body
        assert await front.counted("upstream_requests_total", attempt="1", outcome="stale")
        assert await front.counted("upstream_requests_total", attempt="2", outcome="ok")


async def late(talk: Talk) -> None:
    """Reads a request, works on it for longer than a crossing close takes, and breaks."""
    await asyncio.sleep(3 * STALE_SECONDS)
    talk.close()


@pytest.mark.parametrize("kind", ["inspected", "uninspected"])
async def test_a_request_that_an_engine_may_have_worked_on_is_not_sent_again(kind: str) -> None:
    async with (
        engine(saying(plain(b"first")), late, saying(plain(b"second"))) as upstream,
        engine(saying(plain(b"other"))) as other,
        gateway([other.url, upstream.url]) as front,
    ):
        assert (await fetch(front.url, get())).body == b"first"
        assert (await fetch(front.url, get())).body == b"other"
        answer = await fetch(front.url, REQUESTS[kind])
        assert error_of(answer) == (502, "integrity_upstream_unreachable")
        assert (len(upstream.seen), len(other.seen)) == (2, 1)


async def test_no_other_engine_is_asked_once_bytes_were_sent() -> None:
    """The engine closes for good while the request crosses: another engine could answer, and would do it twice."""
    async with engine(saying(plain(b"other"))) as other:
        served = asyncio.Event()

        async def once_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(plain(b"first"))
            await reader.readuntil(b"\r\n\r\n")
            server.close()
            writer.close()
            served.set()

        server = await asyncio.start_server(once_only, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        pool = Upstreams(Timeouts(), observe=lambda attempt, outcome: None)
        targets = [target_of(other.url), target_of(url)]
        bodies = []
        for _ in range(3):
            answer = Kept()
            await asyncio.wait_for(pool.run(Call(Ask(method="GET", target=b"/", fields=()), answer), targets), 5)
            bodies.append(answer.body)
        assert served.is_set()
        assert (bodies, len(other.seen)) == ([b"first", b"other", b""], 1)
        pool.close()


class Kept:
    """A sink that keeps the body."""

    body = b""

    def head(self, head: Head) -> None: ...

    def data(self, body: bytes) -> None:
        self.body += body

    def end(self) -> None: ...

    def broken(self, fault: EngineFault) -> None: ...


async def test_a_name_that_idna_refuses_is_a_name_that_is_not_known() -> None:
    """The configuration refuses it; a label can still be too long only with what a search domain adds."""
    answer = Broken()
    pool = Upstreams(Timeouts(), observe=lambda attempt, outcome: None)
    await pool.run(Call(Ask(method="GET", target=b"/", fields=()), answer), [target_of("http://a..b:1")])
    assert answer.fault is not None
    assert (answer.fault.status, "name is not known" in str(answer.fault)) == (502, True)


class Broken(Kept):
    """A sink that keeps the fault."""

    fault: EngineFault | None = None

    def broken(self, fault: EngineFault) -> None:
        self.fault = fault


async def test_an_engine_that_goes_and_comes_back_gets_one_line_each(
    unused: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "QUIET_SECONDS", 0.0)
    caplog.set_level("INFO", "gateway")
    async with gateway(unused) as front:
        for _ in range(3):
            assert (await fetch(front.url, get())).status == 502
        server = await asyncio.start_server(answering, "127.0.0.1", int(unused.rpartition(":")[2]))
        async with server:
            for _ in range(3):
                assert (await fetch(front.url, get())).status == 200
    told = [(record.msg, record.levelname) for record in caplog.records if record.msg.startswith("engine_")]
    assert told == [("engine_unreachable", "WARNING"), ("engine_reachable", "INFO")]


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(plain(b"{}", JSON + b"connection: close\r\n"))
    writer.close()


async def test_the_retry_does_not_take_another_connection_as_old() -> None:
    both = asyncio.Barrier(2)

    async def together(talk: Talk) -> None:
        await both.wait()
        await talk.say(plain(b"first"))

    async with (
        engine(together, together, closing(), saying(plain(b"second"))) as upstream,
        gateway(upstream.url) as front,
    ):
        await asyncio.gather(fetch(front.url, get()), fetch(front.url, get()))
        assert (await fetch(front.url, CHAT)).body == b"second"
        assert upstream.connections == 3


async def test_a_fresh_connection_that_dies_is_not_retried() -> None:
    """D04: the engine may have begun to work."""
    async with engine(*once(then=closing())) as upstream, gateway(upstream.url) as front:
        await fetch(front.url, get())
        assert error_of(await fetch(front.url, CHAT)) == (502, "integrity_upstream_unreachable")
        assert upstream.connections == 2


async def test_a_connection_that_dies_inside_a_head_is_not_retried() -> None:
    async with (
        engine(saying(plain(b"first")), closing(b"HTTP"), saying(plain(b"second"))) as upstream,
        gateway(upstream.url) as front,
    ):
        await fetch(front.url, get())
        assert error_of(await fetch(front.url, CHAT)) == (502, "integrity_upstream_unreachable")
        assert upstream.connections == 1


async def test_a_body_that_is_streamed_cannot_be_sent_again() -> None:
    async with engine(*once(then=saying(plain(b"second")))) as upstream, gateway(upstream.url) as front:
        await fetch(front.url, get())
        assert error_of(await fetch(front.url, REQUESTS["streamed"])) == (502, "integrity_upstream_unreachable")
        assert upstream.connections == 1


async def test_engines_take_turns() -> None:
    async with (
        engine(saying(plain(b"one"))) as one,
        engine(saying(plain(b"two"))) as two,
        gateway([one.url, two.url]) as front,
    ):
        bodies = [(await fetch(front.url, get())).body for _ in range(4)]
        assert sorted(bodies) == [b"one", b"one", b"two", b"two"]


async def test_an_engine_that_is_down_is_left_for_the_next(unused: str) -> None:
    async with engine(saying(plain(b"fine"))) as upstream, gateway([unused, upstream.url]) as front:
        for _ in range(4):
            assert (await fetch(front.url, CHAT)).body == b"fine"
        assert await front.counted("upstream_requests_total", 2, attempt="1", outcome="connect_error")
        assert await front.counted("upstream_requests_total", 2, attempt="2", outcome="ok")


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "authority", "prefix"),
    [
        ("http://engine", "engine", 80, False, b"engine", b""),
        ("https://engine", "engine", 443, True, b"engine", b""),
        ("http://engine:8000/a/b", "engine", 8000, False, b"engine:8000", b"/a/b"),
        ("http://[::1]:8000", "::1", 8000, False, b"[::1]:8000", b""),
    ],
)
def test_a_base_url_is_taken_apart(url: str, host: str, port: int, tls: bool, authority: bytes, prefix: bytes) -> None:
    target = target_of(url)
    assert (target.host, target.port, target.tls) == (host, port, tls)
    assert (target.authority, target.prefix) == (authority, prefix)
