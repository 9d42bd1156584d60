"""What the demo's client makes of a stream, and of an engine that fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from gateway.cli.streamed_answer import Answer, Found, ask
from gateway.scripted_engine import Script, ScriptedEngine

HELLO = Script(
    name="hello",
    title="t",
    dialect="think",
    note="n",
    deltas=({"reasoning": "a"}, {"content": "b"}),
    expect_reasoning="a",
    expect_content="b",
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'


def event(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


async def asked(url: str, model: str) -> tuple[Answer, int]:
    answer, changes = Answer(), 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    async with aiohttp.ClientSession() as session:
        await ask(session, url, {"model": model, "messages": [], "stream": True}, answer, changed)
    return answer, changes


def test_the_fields_of_the_deltas_add_up_under_their_own_names() -> None:
    answer = Answer()
    answer.take(event(choices=[{"delta": {"role": "assistant", "content": None, "reasoning_content": "a"}}]))
    answer.take(event(choices=[{"delta": {"content": "b", "reasoning_content": "c"}}]))
    assert answer.fields == {"content": "b", "reasoning": "", "reasoning_content": "ac"}
    assert (answer.reasoning, answer.content, answer.ended) == ("ac", "b", False)


def test_the_pieces_of_a_call_add_up_by_its_index() -> None:
    answer = Answer()
    for index, function in ((1, {"name": "g", "arguments": ""}), (0, {"name": "f"}), (1, {"arguments": "{}"})):
        answer.take(event(choices=[{"delta": {"tool_calls": [{"index": index, "function": function}]}}]))
    answer.take(event(choices=[{"delta": {"tool_calls": None}, "finish_reason": "tool_calls"}]))
    answer.take(event(choices=[{"delta": {}, "finish_reason": None}]))
    assert (answer.calls, answer.finish) == (("f()", "g({})"), "tool_calls")


def test_done_ends_the_answer() -> None:
    answer = Answer()
    answer.take(b"[DONE]")
    assert answer.ended


def test_an_error_event_is_kept_as_its_message() -> None:
    answer = Answer()
    answer.take(event(error={"message": "Internal server error", "code": 500}))
    assert (answer.error, answer.ended) == ("Internal server error", False)


def test_the_report_is_added_up_by_finding() -> None:
    lines = [
        {"finding": "boundary_token", "action": "stripped", "count": 1, "marker": "<think>"},
        {"finding": "boundary_token", "action": "would_strip", "count": 2, "marker": "</think>"},
        {"finding": "boundary_token", "action": "stripped", "count": 1, "marker": "<think>", "where": "content"},
        {"finding": "truncated", "action": "flagged", "count": 1},
    ]
    answer = Answer()
    answer.take(event(choices=[], integrity={"profile": "repair", "findings": lines}))
    assert answer.findings == {
        "boundary_token": Found(count=4, delivered=2, markers=["<think>", "</think>"]),
        "truncated": Found(count=1, delivered=1),
    }


async def test_an_answer_is_read_to_its_end() -> None:
    engine = ScriptedEngine([HELLO])
    answer, changes = await asked(await engine.start(), "hello")
    await engine.stop()
    assert (answer.reasoning, answer.content, answer.ended, answer.error) == ("a", "b", True, "")
    assert changes > 0


async def test_a_refusal_is_an_error_with_its_status() -> None:
    engine = ScriptedEngine([HELLO])
    answer, _ = await asked(await engine.start(), "nobody")
    await engine.stop()
    assert (answer.error, answer.ended) == ("HTTP 404", False)


async def test_an_engine_that_is_gone_is_an_error() -> None:
    engine = ScriptedEngine([HELLO])
    url = await engine.start()
    await engine.stop()
    answer, changes = await asked(url, "hello")
    assert (answer.error, changes) == ("ClientConnectorError", 0)


@pytest.mark.parametrize("sent", [STREAM_HEAD, STREAM_HEAD + b"%x\r\n%s\r\n" % (len(EVENT), EVENT)])
async def test_a_stream_that_breaks_keeps_what_came(sent: bytes) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(break_off, "127.0.0.1", 0)
    async with server:
        answer, _ = await asked(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "hello")
    assert (answer.error, answer.ended) == ("ClientPayloadError", False)
    assert answer.content == ("half" if EVENT in sent else "")
