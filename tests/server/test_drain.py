"""The way down: settling, refusing, cutting, and coming back (rows F01 to F06)."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.server import config
from gateway.server.drain import Drain, State
from tests.support.gateways import Gateway, eventually, gateway
from tests.support.http import connected, fetch, get, post
from tests.support.upstream import LAST_CHUNK, SSE, Talk, chunk, engine, plain, saying

STREAM = post(b'{"messages":[],"stream":true}')
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Slow:
    """A script that streams one event, and the rest when the test says so."""

    def __init__(self) -> None:
        self.more = asyncio.Event()

    async def __call__(self, talk: Talk) -> None:
        await talk.say(SSE + chunk(EVENT))
        await self.more.wait()
        await talk.say(chunk(END) + LAST_CHUNK)


def pauses(settle: float, timeout: float) -> dict[str, float]:
    return {"settle_seconds": settle, "timeout_seconds": timeout}


async def ready(front: Gateway) -> int:
    return (await fetch(front.admin, get("/readyz"))).status


# ---------------------------------------------------------------- the states


async def test_an_idle_gateway_drains_in_its_pause_and_no_longer() -> None:
    heard: list[bool] = []
    drain = Drain(config.Drain(settle_seconds=0.1, timeout_seconds=30), changed=heard.append)
    before = asyncio.get_running_loop().time()
    drain.terminate()
    assert (drain.state, heard) == (State.SETTLING, [True])
    assert await asyncio.wait_for(drain.drained(), 5)
    assert asyncio.get_running_loop().time() - before > 0.09
    assert drain.state is State.REFUSING


async def test_a_second_signal_ends_the_pause() -> None:
    """F04"""
    drain = Drain(config.Drain(settle_seconds=30, timeout_seconds=30), changed=lambda _: None)
    drain.terminate()
    drain.terminate()
    assert drain.state is State.REFUSING
    assert await asyncio.wait_for(drain.drained(), 1)


async def test_what_runs_is_waited_for_until_the_timeout() -> None:
    cut: list[str] = []
    drain = Drain(config.Drain(settle_seconds=0, timeout_seconds=0.1), changed=lambda _: None)
    with drain.running(lambda: cut.append("one")), drain.running(lambda: cut.append("two")):
        drain.terminate()
        assert not await asyncio.wait_for(drain.drained(), 5)
        assert (drain.in_flight, cut) == (2, [])
        drain.cut()
        assert sorted(cut) == ["one", "two"]
    assert drain.in_flight == 0
    assert await drain.idle(0.1)


async def test_a_drain_that_was_only_asked_for_undoes_itself() -> None:
    heard: list[bool] = []
    drain = Drain(config.Drain(settle_seconds=0, timeout_seconds=0.05), changed=heard.append)
    drain.begin()
    drain.begin()
    assert await drain.drained()
    assert await eventually(lambda: drain.state is State.READY)
    assert heard == [True, False]
    drain.begin()
    assert (drain.state, heard) == (State.SETTLING, [True, False, True])


async def test_a_signal_makes_a_drain_final_without_another_pause() -> None:
    drain = Drain(config.Drain(settle_seconds=0.05, timeout_seconds=0.2), changed=lambda _: None)
    drain.begin()
    assert await drain.drained()
    drain.terminate()
    assert drain.state is State.REFUSING
    assert await asyncio.wait_for(drain.drained(), 0.05)
    await asyncio.sleep(0.3)  # longer than the drain that was asked for would last
    assert drain.state is State.REFUSING


# ---------------------------------------------------------------- on the wire


async def test_while_it_settles_the_gateway_serves_and_is_not_ready() -> None:
    """F02"""
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, drain=pauses(30, 30)) as front,
        connected(front.url) as client,
    ):
        assert ((await client.ask(get())).get("connection"), await ready(front)) == (None, 200)
        front.server.terminate()
        assert (await ready(front), front.count("draining")) == (503, 1)
        answer = await client.ask(get())
        assert (answer.status, answer.get("connection")) == (200, "close")
        assert await client.closed()
        assert (await fetch(front.url, post(b'{"messages":[]}'))).status == 200


async def test_after_it_new_requests_are_refused_and_running_answers_end_whole() -> None:
    """F02, B12"""
    slow = Slow()
    async with (
        engine(slow) as upstream,
        gateway(upstream.url, drain=pauses(0, 30)) as front,
        connected(front.url) as client,
    ):
        client.send(STREAM)
        await client.head()
        await client.reader.readuntil(b"hi")
        front.server.terminate()
        await asyncio.sleep(0.01)  # the pause is 0
        for request in (get(), STREAM):
            answer = await fetch(front.url, request)
            assert (answer.status, answer.get("connection"), answer.get("retry-after")) == (503, "close", "1")
            assert json.loads(answer.body)["error"]["code"] == "integrity_draining"
        assert front.count("rejected_requests_total", reason="draining") == 2
        slow.more.set()
        assert (await asyncio.wait_for(client.reader.read(), 5)).endswith(LAST_CHUNK)
        await asyncio.wait_for(front.server.wait_closed(), 2)


async def test_at_the_timeout_running_answers_end_with_an_error_event() -> None:
    """F03"""
    async with (
        engine(Slow()) as upstream,
        gateway(upstream.url, drain=pauses(0, 0.1)) as front,
        connected(front.url) as client,
    ):
        client.send(STREAM)
        await client.head()
        await client.reader.readuntil(b"hi")
        front.server.terminate()
        rest = await asyncio.wait_for(client.reader.read(), 5)
        assert b'"code":"integrity_draining"' in rest
        assert not rest.endswith(LAST_CHUNK)
        await asyncio.wait_for(front.server.wait_closed(), 2)
        assert front.count("upstream_requests_total", attempt="1", outcome="cancelled") == 1


async def test_at_the_timeout_whatever_has_no_answer_yet_ends_too() -> None:
    async def script(talk: Talk) -> None:
        await talk.until_left()

    async with (
        engine(script) as upstream,
        gateway(upstream.url, drain=pauses(0, 0.1)) as front,
        connected(front.url) as waiting,
        connected(front.url) as sending,
    ):
        waiting.send(STREAM)
        sending.send(STREAM[:-1])
        assert await eventually(lambda: front.count("http_requests_in_flight", route="chat") == 2)
        front.server.terminate()
        assert (await waiting.answer()).status == 503
        assert await sending.closed()
        await asyncio.wait_for(front.server.wait_closed(), 2)


async def test_stopping_cuts_at_once() -> None:
    async with engine(Slow()) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(STREAM)
        await client.head()
        await asyncio.wait_for(front.server.stop(), 2)
        assert b"integrity_draining" in await asyncio.wait_for(client.reader.read(), 5)
        with pytest.raises(ConnectionError):
            await fetch(front.url, get())


# ---------------------------------------------------------------- asked for by a hook


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_hook_waits_for_what_runs_and_is_not_counted(method: str) -> None:
    """F06"""
    slow = Slow()
    async with (
        engine(slow) as upstream,
        gateway(upstream.url, drain=pauses(0, 30)) as front,
        connected(front.url) as client,
    ):
        client.send(STREAM)
        await client.head()
        ask = f"{method} /drain HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n".encode()
        hooks = [asyncio.ensure_future(fetch(front.admin, ask)) for _ in range(3)]
        assert await eventually(lambda: front.count("draining") == 1)
        assert not any(hook.done() for hook in hooks)
        slow.more.set()
        answers = await asyncio.wait_for(asyncio.gather(*hooks), 5)
        assert [(answer.status, answer.body) for answer in answers] == [(200, b"drained\n")] * 3
        assert await ready(front) == 503


async def test_a_hook_that_waits_too_long_says_so_cuts_nothing_and_is_undone() -> None:
    slow = Slow()
    async with (
        engine(slow, saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, drain=pauses(0, 0.1)) as front,
        connected(front.url) as client,
    ):
        client.send(STREAM)
        await client.head()
        answer = await fetch(front.admin, get("/drain"))
        assert (answer.status, answer.body) == (503, b"1 still running\n")
        assert await eventually(lambda: front.count("draining") == 0)
        assert ((await fetch(front.url, get())).status, await ready(front)) == (200, 200)
        slow.more.set()
        assert (await asyncio.wait_for(client.reader.readuntil(LAST_CHUNK), 5)).endswith(LAST_CHUNK)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([], 401),
        (["Authorization: Bearer wrong"], 401),
        (["Authorization: token"], 401),
        (["Authorization: Bearer token"], 200),
    ],
)
async def test_a_token_guards_the_hook(fields: list[str], status: int) -> None:
    async with (
        engine(saying(plain(b"{}"))) as upstream,
        gateway(upstream.url, drain={**pauses(0, 30), "token": "token"}) as front,
    ):
        assert (await fetch(front.admin, get("/drain", *fields))).status == status
        assert await ready(front) == (503 if status == 200 else 200)
