"""Inspected answers on the wire: when the head leaves, how a body is framed, what a client may wish, bugs of ours."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from openai import AsyncOpenAI

from gateway import __version__
from gateway.exchange import Exchange
from gateway.exchange.stream import StreamInspection
from gateway.server.runner import chosen
from tests.support.gateways import Gateway, eventually, gateway
from tests.support.http import Message, connected, fetch, get, post
from tests.support.upstream import JSON, LAST_CHUNK, SSE, Talk, chunk, closing, engine, plain, saying

ASK = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
STREAM = post(json.dumps({**ASK, "stream": True}).encode())
WHOLE = post(json.dumps(ASK).encode())
CHAT_ERROR = {"message", "type", "param", "code"}


def event(finish: str | None = None, **delta: str) -> bytes:
    """One chat chunk, spelt as vLLM spells it."""
    value = {"id": "c", "object": "chat.completion.chunk", "model": "m"}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({**value, "choices": [choice]}, separators=(",", ":")).encode()


def body(content: str, **message: str) -> bytes:
    """One plain chat answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    return json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}, separators=(",", ":")).encode()


DONE = b"data: [DONE]\n\n"
CLEAN = [event(role="assistant", content=""), event(content="Hello"), event(content=" world"), event("stop"), DONE]


def texts(raw: bytes, field: str) -> str:
    """What a client reads of one field of a stream."""
    events = [json.loads(line[6:]) for line in raw.split(b"\n\n") if line.startswith(b"data: {")]
    return "".join(c["delta"].get(field) or "" for e in events for c in e.get("choices", []))


# ---------------------------------------------------------------- streams


async def test_a_clean_stream_passes_byte_for_byte_one_write_a_read() -> None:
    turns = [asyncio.Event() for _ in CLEAN]

    async def script(talk: Talk) -> None:
        await talk.say(SSE)
        for turn, data in zip(turns, CLEAN, strict=True):
            await turn.wait()
            await talk.say(chunk(data))
        await talk.say(LAST_CHUNK)

    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(STREAM)
        head = None
        for turn, data in zip(turns, CLEAN, strict=True):
            turn.set()
            head = head or await client.head()
            assert await client.reader.readexactly(len(chunk(data))) == chunk(data)
        assert await client.reader.readexactly(len(LAST_CHUNK)) == LAST_CHUNK
        assert head is not None
        assert head.fields == [
            ("content-type", "text/event-stream; charset=utf-8"),
            ("X-Integrity-Via", __version__),
            ("Transfer-Encoding", "chunked"),
        ]


async def test_events_of_one_read_leave_in_one_write() -> None:
    script = saying(SSE + b"".join(map(chunk, CLEAN)) + LAST_CHUNK)
    async with engine(script) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, STREAM)
        assert (answer.body, answer.chunks, answer.complete) == (b"".join(CLEAN), (b"".join(CLEAN),), True)


async def test_a_leak_is_repaired_on_its_way() -> None:
    leak = [event(content="<think>a"), event(content="b</think>c"), event("stop"), DONE]
    async with (
        engine(saying(SSE + b"".join(map(chunk, leak)) + LAST_CHUNK)) as upstream,
        gateway(upstream.url) as front,
    ):
        answer = await fetch(front.url, STREAM)
        assert (texts(answer.body, "content"), texts(answer.body, "reasoning")) == ("c", "ab")
        labels = {"model": "other", "protocol": "chat"}
        assert await front.counted("responses_total", stream="true", **labels)
        assert front.count("any_leak_responses_total", **labels) == 1
        assert front.count("leaky_responses_total", rule="reasoning_leak", **labels) == 1
        assert front.count("delivered_leaks_total", rule="reasoning_leak", **labels) == 0


async def test_observe_changes_no_byte_and_counts_what_was_delivered() -> None:
    leak = [event(content="<think>a"), event(content="b</think>c"), event("stop"), DONE]
    async with (
        engine(saying(SSE + b"".join(map(chunk, leak)) + LAST_CHUNK)) as upstream,
        gateway(upstream.url, profile="observe") as front,
    ):
        answer = await fetch(front.url, STREAM)
        assert (answer.body, upstream.last.body) == (b"".join(leak), STREAM.partition(b"\r\n\r\n")[2])
        labels = {"model": "other", "protocol": "chat", "rule": "reasoning_leak"}
        assert await front.counted("delivered_leaks_total", **labels)


async def test_the_head_waits_for_the_first_byte_that_is_let_go() -> None:
    """Until then an error of the engine can still become an HTTP status."""

    async def script(talk: Talk) -> None:
        await talk.say(SSE)
        await talk.until_left()

    async with engine(script) as upstream, gateway(upstream.url, timeouts={"idle": 0.1}) as front:
        answer = await fetch(front.url, STREAM)
        assert answer.start == "HTTP/1.1 200 OK"  # the error event of the timeout is the first byte
        assert (answer.complete, b"integrity_upstream_timeout" in answer.body) == (False, True)


@pytest.mark.parametrize("end", [LAST_CHUNK, b""], ids=["clean end", "cut connection"])
async def test_a_stream_without_its_terminal_event_does_not_look_complete(end: bytes) -> None:
    script = closing(SSE + chunk(event(content="Hel")) + end)
    async with engine(script) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, STREAM)
        assert (answer.complete, texts(answer.body, "content")) == (False, "Hel")
        assert set(json.loads(answer.body.split(b"data: ")[-1])["error"]) == CHAT_ERROR
        assert b"[DONE]" not in answer.body


async def test_a_stream_with_a_length_is_framed_anew() -> None:
    raw = b"".join(CLEAN)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    async with engine(saying(plain(raw, head))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, STREAM)
        assert (answer.body, answer.all("content-length"), answer.complete) == (raw, [], True)


async def test_an_http_1_0_client_gets_its_stream_unframed() -> None:
    script = saying(SSE + b"".join(map(chunk, CLEAN)) + LAST_CHUNK)
    async with engine(script) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, STREAM.replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert (answer.body, answer.all("transfer-encoding")) == (b"".join(CLEAN), [])


# ---------------------------------------------------------------- whole answers


async def test_a_clean_answer_passes_byte_for_byte() -> None:
    async with engine(saying(plain(body("Hello")))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, WHOLE)
        assert (answer.body, answer.get("x-integrity-findings")) == (body("Hello"), None)
        assert await front.counted("responses_total", model="other", protocol="chat", stream="false")


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_repaired_answer_has_the_length_it_has_now(framing: str) -> None:
    raw = body("<think>a</think>b")
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    script = saying(plain(raw) if framing == "length" else head + chunk(raw[:20]) + chunk(raw[20:]) + LAST_CHUNK)
    async with engine(script) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, WHOLE)
        message = json.loads(answer.body)["choices"][0]["message"]
        assert (message["content"], message["reasoning"]) == ("b", "a")
        assert answer.all("content-length") == [str(len(answer.body))]
        assert answer.all("transfer-encoding") == []
        assert re.fullmatch(r"[a-z_]+=\d+(,[a-z_]+=\d+)*", answer.get("x-integrity-findings") or "")


async def test_an_answer_that_breaks_off_is_no_answer() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n"
    async with engine(closing(head + body("Hello")[:40])) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, WHOLE)
        assert answer.status == 502 or not answer.complete


async def test_an_answer_past_its_cap_is_forwarded_as_it_comes() -> None:
    raw = body("<think>a</think>" + "b" * 300_000)
    async with engine(saying(plain(raw))) as upstream, gateway(upstream.url, limits={"response_body": 1000}) as front:
        answer = await fetch(front.url, WHOLE)
        assert (answer.body, answer.complete) == (raw, True)
        assert await front.counted("passthrough_fallbacks_total", reason="response_body_cap")


async def test_an_empty_answer_is_an_empty_answer() -> None:
    async with engine(saying(plain(b""))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, WHOLE)
        assert (answer.status, answer.all("content-length"), answer.body) == (200, ["0"], b"")


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n", "content_encoding"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n", "content_type"),
        (b"HTTP/1.1 200 OK\r\n", "content_type"),
    ],
)
async def test_what_cannot_be_read_is_relayed_and_counted(head: bytes, reason: str) -> None:
    async with engine(saying(plain(b"\x1f\x8b<think>", head))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, WHOLE)
        assert (answer.body, answer.all("content-type")) == (
            b"\x1f\x8b<think>",
            re.findall(r"[a-z]+/[a-z]+", head.decode()),
        )
        assert await front.counted("passthrough_fallbacks_total", reason=reason)


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b'{"a":', b'{"model":1}', b"[" * 10_000, b'{"n":1e999,"n":2}'])
async def test_a_body_that_is_no_request_is_the_engines_to_judge(raw: bytes) -> None:
    async with (
        engine(saying(plain(b"no", b"HTTP/1.1 400 Bad Request\r\n"))) as upstream,
        gateway(upstream.url) as front,
    ):
        answer = await fetch(front.url, post(raw))
        assert (answer.status, answer.body, upstream.last.body) == (400, b"no", raw)


@pytest.mark.parametrize("profile", ["observe", "repair"])
async def test_a_request_is_never_changed(profile: str) -> None:
    raw = b'{ "model":"m", "messages":[], "n": 1.0, "unknown": {"b":1, "a":[ ]}, "stream":false }'
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url, profile=profile) as front:
        await fetch(front.url, post(raw))
        assert upstream.last.body == raw


@pytest.mark.parametrize(("size", "inspected"), [(0, True), (1, False), (300_000, False)])
async def test_a_request_past_its_cap_is_forwarded_uninspected(size: int, inspected: bool) -> None:
    cap = 1024
    raw = json.dumps({**ASK, "stream": True}).encode()
    raw += b" " * (cap + size - len(raw))
    script = saying(SSE + chunk(event(content="<think>a</think>b")) + chunk(event("stop")) + chunk(DONE) + LAST_CHUNK)
    async with engine(script) as upstream, gateway(upstream.url, limits={"request_body": cap}) as front:
        answer = await fetch(front.url, post(raw))
        assert upstream.last.body == raw
        assert (b"<think>" not in answer.body) is inspected
        assert front.count("passthrough_fallbacks_total", reason="request_body_cap") == (not inspected)


async def test_a_thought_is_hidden_whatever_the_size_of_the_request() -> None:
    raw = json.dumps({**ASK, "stream": True}).encode() + b" " * 5000
    split = saying(
        SSE + chunk(event(reasoning="hidden")) + chunk(event(content="b")) + chunk(event("stop")) + chunk(DONE)
    )
    config = {"policy": {"reasoning_field": "none"}, "limits": {"request_body": 1024}}
    async with engine(split) as upstream, gateway(upstream.url, **config) as front, connected(front.url) as client:
        client.send(post(raw))
        await client.head()
        assert b"hidden" not in await asyncio.wait_for(client.reader.readuntil(b"[DONE]"), 5)
        assert upstream.last.body == raw


LEAK = saying(SSE + chunk(event(content="<think>a</think>b")) + chunk(event("stop")) + chunk(DONE) + LAST_CHUNK)


@pytest.mark.parametrize(
    ("allowed", "header", "report", "leaked", "field"),
    [
        (["report"], "X-Integrity-Report: 1", True, False, "both"),
        (["report"], "X-Integrity-Report: 0", False, False, "both"),
        ([], "X-Integrity-Report: 1", False, False, "both"),
        (["profile"], "X-Integrity-Profile: observe", False, True, None),
        (["profile"], "X-Integrity-Profile: full", False, False, "both"),
        ([], "X-Integrity-Profile: observe", False, False, "both"),
        (["reasoning_field"], "X-Integrity-Reasoning-Field: reasoning", False, False, "reasoning"),
        (["reasoning_field"], "X-Integrity-Reasoning-Field: nonsense", False, False, "both"),
        ([], "X-Integrity-Reasoning-Field: reasoning", False, False, "both"),
    ],
)
async def test_a_client_gets_the_wishes_that_are_allowed(
    allowed: list[str], header: str, report: bool, leaked: bool, field: str | None
) -> None:
    async with engine(LEAK) as upstream, gateway(upstream.url, request_overrides=allowed) as front:
        answer = await fetch(front.url, STREAM.replace(b"Host:", header.encode() + b"\r\nHost:"))
        assert (b'"integrity":' in answer.body) is report
        assert ("<think>" in texts(answer.body, "content")) is leaked
        names = {name for name in ("reasoning", "reasoning_content") if texts(answer.body, name)}
        assert names == {None: set(), "both": {"reasoning", "reasoning_content"}, "reasoning": {"reasoning"}}[field]
        assert not [name for name, _ in upstream.last.fields if name.lower().startswith("x-integrity")]


@pytest.mark.parametrize(("percent", "leaked"), [(0, True), (100, False)])
async def test_enforce_percent_is_the_share_that_is_repaired(percent: int, leaked: bool) -> None:
    async with engine(LEAK) as upstream, gateway(upstream.url, enforce_percent=percent) as front:
        for _ in range(3):
            assert (b"<think>" in (await fetch(front.url, STREAM)).body) is leaked


def asking(number: int) -> bytes:
    return STREAM.replace(b"Host:", b"X-Request-Id: id-%d\r\nHost:" % number)


async def test_an_id_has_the_same_fate_each_time_and_keeps_being_repaired_when_the_share_grows() -> None:
    repaired: dict[int, set[int]] = {}
    async with engine(LEAK) as upstream:
        for percent in (20, 60):
            async with gateway(upstream.url, enforce_percent=percent) as front, connected(front.url) as client:
                rounds = [
                    {number for number in range(60) if b"<think>" not in (await client.ask(asking(number))).body}
                    for _ in range(2)
                ]
            assert rounds[0] == rounds[1]
            repaired[percent] = rounds[0]
    assert repaired[20] < repaired[60]


@pytest.mark.parametrize("percent", [0, 0.5, 10, 50, 99, 100])
def test_the_share_of_ids_that_is_chosen_is_the_percentage(percent: float) -> None:
    share = sum(chosen(f"request-{number}", percent) for number in range(10_000)) / 100
    assert share == pytest.approx(percent, abs=0 if percent in (0, 100) else 1.5)


async def test_what_is_repaired_and_what_is_observed_can_be_told_apart_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "gateway")
    async with engine(LEAK) as upstream:
        for percent in (0, 100):
            async with gateway(upstream.url, enforce_percent=percent) as front:
                await fetch(front.url, STREAM)
    lines = [record.fields for record in caplog.records if record.msg == "exchange"]
    assert [line["profile"] for line in lines] == ["observe", "repair"]


UNREADABLE = {
    "content coding": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n",
    "content type": b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n",
    "no JSON": JSON,
}


# ---------------------------------------------------------------- a gateway behind a gateway


@pytest.mark.parametrize(
    ("inner", "outer", "leaked", "via", "chained"),
    [
        ("repair", "repair", False, [__version__], 1),
        ("observe", "repair", False, [__version__], 0),
        ("repair", "observe", False, [__version__], 1),
        ("observe", "observe", True, [], 0),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_answer_is_repaired_once(
    streamed: bool, inner: str, outer: str, leaked: bool, via: list[str], chained: int
) -> None:
    script, ask = (LEAK, STREAM) if streamed else (saying(plain(body("<think>a</think>b"))), WHOLE)
    async with (
        engine(script) as upstream,
        gateway(upstream.url, profile=inner, policy={"reasoning_field": "reasoning"}) as behind,
        gateway(behind.url, profile=outer) as front,
    ):
        answer = await fetch(front.url, ask)
        assert (answer.complete, b"<think>" in answer.body, answer.all("x-integrity-via")) == (True, leaked, via)
        assert await front.counted("chained_responses_total", chained, protocol="chat")
        assert not chained or b"reasoning_content" not in answer.body
        stream = str(streamed).lower()
        assert await front.counted("responses_total", 1 - chained, model="other", protocol="chat", stream=stream)
        assert front.count("passthrough_fallbacks_total", reason="content_type") == 0


async def test_what_is_hidden_here_is_hidden_whoever_has_read_the_answer() -> None:
    async with (
        engine(LEAK) as upstream,
        gateway(upstream.url) as behind,
        gateway(behind.url, policy={"reasoning_field": "none"}) as front,
    ):
        answer = await fetch(front.url, STREAM)
        assert (texts(answer.body, "content"), b"reasoning" in answer.body) == ("b", False)
        assert front.count("chained_responses_total", protocol="chat") == 0


async def test_a_chained_answer_that_breaks_off_is_not_complete() -> None:
    cut = closing(SSE[:-2] + b"x-integrity-via: 9\r\n\r\n" + chunk(event(content="Hel")))
    async with engine(cut) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, STREAM)
        assert (answer.complete, answer.body) == (False, event(content="Hel"))


@pytest.mark.parametrize("head", [b"HTTP/1.1 400 X\r\ncontent-type: application/json\r\n", UNREADABLE["content type"]])
async def test_what_was_not_inspected_does_not_say_so(head: bytes) -> None:
    async with engine(saying(plain(b"{}", head))) as upstream, gateway(upstream.url) as front:
        assert (await fetch(front.url, WHOLE)).all("x-integrity-via") == []


# ---------------------------------------------------------------- silence


BEAT = b": keep-alive\n\n"


async def test_a_client_hears_comments_while_the_engine_is_silent_and_none_inside_the_text() -> None:
    """E14, E15"""
    more = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(SSE)
        await more.wait()
        await talk.say(chunk(CLEAN[0]) + chunk(CLEAN[1][:20]))
        more.clear()
        await more.wait()
        await talk.say(chunk(CLEAN[1][20:]) + b"".join(map(chunk, CLEAN[2:])) + LAST_CHUNK)

    async with engine(script) as upstream, gateway(upstream.url, timeouts={"heartbeat": 0.02}) as front:
        async with connected(front.url) as client:
            client.send(STREAM)
            assert (await client.head()).status == 200
            for _ in range(3):
                assert await client.reader.readexactly(len(chunk(BEAT))) == chunk(BEAT)
            more.set()
            before = await asyncio.wait_for(client.reader.readuntil(CLEAN[0] + b"\r\n"), 5)
            assert await asyncio.wait_for(client.reader.readuntil(chunk(BEAT)), 5) == chunk(BEAT)
            more.set()
            rest = await asyncio.wait_for(client.reader.readuntil(LAST_CHUNK), 5)
        assert unchunked(before + rest).replace(BEAT, b"") == b"".join(CLEAN)
        assert texts(unchunked(before + rest), "content") == "Hello world"
        assert await front.counted("responses_total", model="other", protocol="chat", stream="true")


def unchunked(raw: bytes) -> bytes:
    return b"".join(re.findall(rb"[0-9a-f]+\r\n((?:data|:).*?\n\n)\r\n", raw, re.DOTALL))


@pytest.mark.parametrize(
    "config",
    [{"profile": "observe", "timeouts": {"heartbeat": 0.01}}, {"timeouts": {"heartbeat": 0}}],
    ids=["observe", "switched off"],
)
async def test_nothing_is_added_to_a_stream_that_is_observed_or_where_it_is_switched_off(
    config: dict[str, Any],
) -> None:
    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(CLEAN[0]))
        await asyncio.sleep(0.1)  # the silence
        await talk.say(b"".join(map(chunk, CLEAN[1:])) + LAST_CHUNK)

    async with engine(script) as upstream, gateway(upstream.url, **config) as front:
        assert (await fetch(front.url, STREAM)).body == b"".join(CLEAN)


async def test_nothing_is_added_where_the_bytes_are_no_longer_read() -> None:
    """Past its cap a frame is forwarded as it comes: a comment could stand in the middle of it."""

    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(CLEAN[0]) + chunk(b'data: {"x":"' + b"y" * 200))
        await asyncio.sleep(0.1)  # the silence
        await talk.say(chunk(b'"}\n\n') + LAST_CHUNK)

    config = {"timeouts": {"heartbeat": 0.01}, "limits": {"sse_line": 160, "sse_event": 160}}
    async with engine(script) as upstream, gateway(upstream.url, **config) as front:
        assert BEAT not in (await fetch(front.url, STREAM)).body


async def test_a_silent_engine_is_given_up_although_the_client_heard_comments() -> None:
    async def script(talk: Talk) -> None:
        await talk.say(SSE)
        await talk.until_left()

    async with (
        engine(script) as upstream,
        gateway(upstream.url, timeouts={"heartbeat": 0.02, "idle": 0.15}) as front,
    ):
        answer = await fetch(front.url, STREAM)
        assert answer.body.startswith(BEAT)
        assert (answer.complete, b"integrity_upstream_timeout" in answer.body) == (False, True)


@pytest.mark.parametrize(("field", "asked"), [("none", ["identity"]), ("both", ["gzip"])])
async def test_an_answer_that_hides_the_thought_must_be_readable_even_where_it_is_observed(
    field: str, asked: list[str]
) -> None:
    request = STREAM.replace(b"Host:", b"X-Integrity-Profile: observe\r\nAccept-Encoding: gzip\r\nHost:")
    config = {"policy": {"reasoning_field": field}, "request_overrides": ["profile"]}
    async with engine(LEAK) as upstream, gateway(upstream.url, **config) as front:
        await fetch(front.url, request)
        assert upstream.last.all("accept-encoding") == asked


# ---------------------------------------------------------------- what it cost


async def test_a_hold_is_measured_from_the_read_that_gave_nothing_to_the_one_that_gives() -> None:
    turn = asyncio.Event()
    pieces = [event(content="</thi"), event(content="n"), event(content="g> of it"), event("stop"), DONE]

    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(event(content="a\n")))
        for piece in pieces:
            await turn.wait()
            turn.clear()
            await talk.say(chunk(piece))
        await talk.say(LAST_CHUNK)

    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(STREAM)
        await client.reader.readuntil(b"\n\n")
        read = front.server.metrics.registry.get_sample_value
        for _ in pieces:
            turn.set()
            assert await eventually(lambda: not turn.is_set())
            await asyncio.sleep(0.05)  # time is what is measured
        assert await front.counted("hold_releases_total", cause="marker")
        assert 0.05 < (read("integrity_held_seconds_sum", {"cause": "marker"}) or 0) < 1
        assert read("integrity_held_back_bytes_sum") == sum(len(piece) for piece in pieces[:2])


async def test_a_stream_that_holds_nothing_has_no_hold() -> None:
    script = saying(SSE + b"".join(map(chunk, CLEAN)) + LAST_CHUNK)
    async with engine(script) as upstream, gateway(upstream.url) as front:
        await fetch(front.url, STREAM)
        assert await front.counted("responses_total", model="other", protocol="chat", stream="true")
        assert front.count("held_back_bytes_count") == 0


async def test_every_stage_of_an_answer_is_timed_once() -> None:
    script = saying(SSE + b"".join(map(chunk, CLEAN)) + LAST_CHUNK)
    async with engine(script) as upstream, gateway(upstream.url) as front:
        await fetch(front.url, STREAM)
        assert await front.counted("first_event_seconds_count", route="chat")
        assert [front.count("added_latency_seconds_count", stage=s) for s in ("request", "event", "finish")] == [1] * 3


async def test_a_hold_at_the_end_of_a_stream_ends_there() -> None:
    leak = [event(content="a\n"), event(content="</thi")]
    more = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(leak[0]))
        await more.wait()
        await talk.say(chunk(leak[1]))
        talk.close()

    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(STREAM)
        await client.reader.readuntil(b"\n\n")
        more.set()
        assert b"</thi" in await asyncio.wait_for(client.reader.read(), 5)
        assert await front.counted("hold_releases_total", cause="marker")


# ---------------------------------------------------------------- our own bugs


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("secret prompt text")


@pytest.mark.parametrize("step", ["head", "end"])
async def test_a_bug_before_the_first_byte_is_a_500_in_the_protocols_shape(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gateway")
    monkeypatch.setattr(Exchange, step, broken)
    async with engine(saying(plain(body("Hello")))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, WHOLE)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "integrity_internal")
        assert b"secret" not in answer.body
        assert await front.counted("passthrough_fallbacks_total", reason="server_fault")
        lines = [record.fields for record in caplog.records if record.msg == "exchange"]
        assert re.fullmatch(r"RuntimeError at test_inspected.py:\d+ in broken", lines[0]["bug"])
        assert "secret" not in caplog.text


@pytest.mark.parametrize("step", ["data", "end"])
async def test_a_bug_inside_a_stream_does_not_end_it_as_if_complete(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    more = asyncio.Event()
    method = getattr(StreamInspection, step)

    def breaking(self: StreamInspection, *arguments: bytes) -> object:
        return broken() if more.is_set() else method(self, *arguments)

    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(event(content="Hel")))
        await more.wait()
        await talk.say(chunk(event(content="lo")) + chunk(DONE) + LAST_CHUNK)
        await talk.until_left()

    monkeypatch.setattr(StreamInspection, step, breaking)
    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(STREAM)
        await client.head()
        await client.reader.readuntil(b"Hel")
        more.set()
        rest = await asyncio.wait_for(client.reader.read(), 5)
        assert not rest.endswith(LAST_CHUNK)
        assert await front.counted("passthrough_fallbacks_total", reason="server_fault")


@pytest.mark.parametrize("case", UNREADABLE)
async def test_what_cannot_be_read_is_not_shown_where_the_thought_is_hidden(case: str) -> None:
    """Contract rule 7: it fails open, except for what the operator was promised."""
    policy = {"reasoning_field": "none"}
    script = saying(plain(b"the hidden thought", UNREADABLE[case]))
    async with (
        engine(script) as upstream,
        gateway(upstream.url, policy=policy) as front,
        connected(front.url) as client,
    ):
        for _ in range(2):
            answer = await client.ask(WHOLE)
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "integrity_internal")
            assert b"thought" not in answer.body
        assert front.count("passthrough_fallbacks_total", reason="server_fault") == 0


async def test_a_bug_in_the_server_is_a_500(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.routing.Routing.choose", broken)
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        for request in (WHOLE, STREAM):
            assert (await client.ask(request)).status == 500
        assert front.count("passthrough_fallbacks_total", reason="server_fault") == 2
        assert upstream.seen == []


async def test_a_bug_in_the_metrics_harms_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """F14"""
    monkeypatch.setattr("gateway.server.metrics.Metrics.ended", broken)
    async with (
        engine(saying(plain(body("Hello")))) as upstream,
        gateway(upstream.url) as front,
        connected(front.url) as client,
    ):
        for _ in range(2):
            assert (await client.ask(WHOLE)).body == body("Hello")


async def test_a_fault_of_the_engine_that_the_exchange_cannot_end_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exchange, "broken", broken)
    async with engine(closing(SSE + chunk(event(content="Hel")))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, STREAM)
        assert (answer.complete, texts(answer.body, "content")) == (False, "Hel")
        assert await eventually(lambda: front.count("passthrough_fallbacks_total", reason="server_fault") == 1)


async def test_the_log_line_of_an_exchange_says_whose_it_was_and_when_its_first_byte_went(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "gateway")
    routes = [{"match": {"models": ["m"]}}, {}]
    async with (
        engine(saying(plain(b'{"choices":[]}'))) as upstream,
        gateway("", routes=[{**route, "upstream": upstream.url} for route in routes]) as front,
    ):
        for model in ("m", "secret"):
            assert (await fetch(front.url, post(b'{"model":"%b"}' % model.encode()))).status == 200
    known, unknown = [record.fields for record in caplog.records if record.msg == "exchange"]
    assert (known["route"], known["model"], known["profile"], known["stream"]) == ("m", "m", "repair", False)
    assert 0 < known["first_byte"] <= known["seconds"] + 0.001
    assert (unknown["route"], unknown["model"]) == ("*", "other")
    assert "secret" not in repr(unknown)


async def slowest_livez(front: Gateway, work: asyncio.Future[Message]) -> float:
    """The share of the time of `work` that the slowest of the probes took which were answered while it ran."""
    slowest, loop = 0.0, asyncio.get_running_loop()
    start = loop.time()
    while not work.done():
        began = loop.time()
        assert (await fetch(front.admin, get("/livez"))).status == 200
        slowest = max(slowest, loop.time() - began)
    return slowest / (loop.time() - start)


@pytest.mark.parametrize("item", [b"{}", b'{"a":[1]}', b"1"])
async def test_a_body_of_millions_of_values_is_forwarded_unread_and_stops_nobody(item: bytes) -> None:
    body = b'{"model":"m","messages":[%b]}' % b",".join([item] * (20_000_000 // len(item)))
    async with engine(saying(plain(b'{"choices":[]}'))) as upstream, gateway(upstream.url) as front:
        work = asyncio.ensure_future(fetch(front.url, post(body)))
        assert await slowest_livez(front, work) < 0.75  # in the loop it would be nearly all of it
        assert (work.result().status, upstream.last.body == body) == (200, True)
        assert front.count("passthrough_fallbacks_total", reason="request_body_cap") == 1
        assert front.count("passthrough_fallbacks_total", reason="request_not_json") == 0


async def test_a_long_text_is_read_however_long() -> None:
    body = b'{"model":"m","messages":[{"content":"%b"}]}' % (b"word " * 1_000_000)
    async with engine(saying(plain(b'{"choices":[]}'))) as upstream, gateway(upstream.url) as front:
        assert (await fetch(front.url, post(body))).status == 200
        assert front.count("passthrough_fallbacks_total", reason="request_body_cap") == 0


async def test_a_long_plain_answer_is_repaired_beside_the_loop() -> None:
    text = "<b>1</b> " * 1_000_000
    answer = json.dumps({"choices": [choice(text + "\n</think>\n\n42")]}).encode()
    async with engine(saying(plain(answer))) as upstream, gateway(upstream.url) as front:
        work = asyncio.ensure_future(fetch(front.url, post(b'{"messages":[]}')))
        assert await slowest_livez(front, work) < 0.75  # in the loop it would be nearly all of it
        content = json.loads(work.result().body)["choices"][0]["message"]["content"]
        assert ("</think>" in content, content.endswith("42")) == (False, True)
        assert await front.counted("http_requests_total", route="chat", code="200")


def choice(content: str) -> dict[str, object]:
    return {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}


async def test_a_client_that_leaves_while_its_long_answer_is_read_is_counted_once() -> None:
    answer = json.dumps({"choices": [choice("word " * 2_000_000)]}).encode()
    async with engine(saying(plain(answer))) as upstream, gateway(upstream.url) as front:
        async with connected(front.url) as client:
            client.send(post(b'{"messages":[]}'))
            assert await front.counted("upstream_requests_total", attempt="1", outcome="ok")
            client.leave()
            assert await front.counted("http_requests_in_flight", 0, route="chat")
        assert (await fetch(front.url, get())).status == 200


# ---------------------------------------------------------------- answers that go on with a turn

PREFILL = "Step by step.\n<think>"
GOES_ON = {"continue_final_message": True, "add_generation_prompt": False, "echo": True}
TURNS: Any = [{"role": "user", "content": "q"}, {"role": "assistant", "content": PREFILL}]


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_the_sdk_reads_an_answer_that_goes_on_with_an_open_thought(size: int) -> None:
    text = "Okay</think>42."
    cut = [event(content=text[at : at + size]) for at in range(0, len(text), size)]
    events = [event(role="assistant", content=""), event(content=PREFILL), *cut, event("stop"), DONE]
    streams = saying(SSE, *[chunk(each) for each in events], LAST_CHUNK)
    async with (
        engine(streams, saying(plain(body(PREFILL + text)))) as upstream,
        gateway(upstream.url) as proxy,
        AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="unused", max_retries=0, timeout=30) as client,
    ):
        create = client.chat.completions.create
        stream = await create(model="m", messages=TURNS, stream=True, extra_body=GOES_ON)
        deltas = [choice.delta async for each in stream for choice in each.choices]
        whole = (await create(model="m", messages=TURNS, extra_body=GOES_ON)).choices[0].message
    streamed = ["".join([getattr(each, name, None) or "" for each in deltas]) for name in ("reasoning", "content")]
    assert streamed == ["Okay", PREFILL + "42."]
    assert [getattr(whole, "reasoning", None), whole.content] == streamed
