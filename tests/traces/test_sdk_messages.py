"""The `anthropic` SDK reads Messages through the gateway over sockets: its streaming helper, its stream, its body.

The helper joins the message from the events and fails on events that do not fit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anthropic import APIStatusError, AsyncAnthropic
from anthropic.types import Message

from tests.support.gateways import gateway
from tests.support.messages import END, ERROR, HEAD, OFF, Piece, blocks, body, events
from tests.support.upstream import answering, engine
from tests.traces.recordings import recordings

MARKUP = '<tool_call>\n{"name": "f", "arguments": {"city": "Oslo"}}\n</tool_call>'
OSLO = ("f", {"city": "Oslo"})
TOOLS: Any = [{"name": "f", "input_schema": {"type": "object"}}]
THINKS: Any = {"type": "enabled", "budget_tokens": 1024}
Said = tuple[list[str], str, str, list[tuple[str, Any]], str | None]

CASES: dict[str, tuple[list[Piece], Said]] = {
    "clean": ([("thinking", "a b"), ("text", "c d")], (["thinking", "text"], "a b", "c d", [], "end_turn")),
    "clean call": (
        [("thinking", "a"), ("tool_use", ("t", "f", ['{"city": ', '"Oslo"}']))],
        (["thinking", "tool_use"], "a", "", [OSLO], "tool_use"),
    ),
    "call without input": ([("tool_use", ("t", "f", []))], (["tool_use"], "", "", [("f", {})], "tool_use")),
    "thought in the text": (
        [("text", "<think>a b</thi"), ("text", "nk>c d")],
        (["thinking", "text"], "a b", "c d", [], "end_turn"),
    ),
    "more of a thought": (
        [("thinking", "a"), ("text", "<think>b</think>c")],
        (["thinking", "thinking", "text"], "ab", "c", [], "end_turn"),
    ),
    "answer in the thought": (
        [("thinking", "a</think>b"), ("text", "c")],
        (["thinking", "text", "text"], "a", "bc", [], "end_turn"),
    ),
    "call in the text": (
        [("thinking", "a"), ("text", f"b\n{MARKUP}")],
        (["thinking", "text", "tool_use"], "a", "b\n", [OSLO], "tool_use"),
    ),
    "broken call": ([("tool_use", ("t", "f", ['{"city": ', '"Oslo"']))], (["tool_use"], "", "", [OSLO], "tool_use")),
}


@asynccontextmanager
async def sdk(frames: list[bytes], whole: bytes) -> AsyncIterator[AsyncAnthropic]:
    """A client of a gateway before an engine that always answers so."""

    async with engine(answering(frames, whole)) as upstream:
        route = {
            "upstream": upstream.url,
            "dialect": {"reasoning": "qwen3", "tools": "hermes"},
            "source": "fields",
        }
        async with (
            gateway(upstream.url, routes=[route], profile="full") as front,
            AsyncAnthropic(base_url=front.url, api_key="unused", max_retries=0, timeout=30) as client,
        ):
            yield client


def said(message: Message) -> Said:
    """What the SDK's message says."""
    content = message.content
    return (
        [block.type for block in content],
        "".join([block.thinking for block in content if block.type == "thinking"]),
        "".join([block.text for block in content if block.type == "text"]),
        [(block.name, block.input) for block in content if block.type == "tool_use"],
        message.stop_reason,
    )


def asked(**more: Any) -> Any:
    return {"model": "m", "max_tokens": 2048, "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **more}


@pytest.mark.parametrize("name", CASES)
async def test_the_sdk_reads_every_shape_of_an_answer(name: str) -> None:
    pieces, wanted = CASES[name]
    reason = "tool_use" if any(kind == "tool_use" for kind, _ in pieces) else "end_turn"
    async with sdk(events(pieces, reason=reason), body(pieces, reason=reason)) as client:
        heard: dict[str, str] = {"text": "", "thinking": ""}
        async with client.messages.stream(**asked(thinking=THINKS)) as stream:
            async for event in stream:
                if event.type == "text":
                    heard["text"] += event.text
                elif event.type == "thinking":
                    heard["thinking"] += event.thinking
            assert said(await stream.get_final_message()) == wanted
        assert (heard["thinking"], heard["text"]) == wanted[1:3]
        plain = await client.messages.create(**asked(thinking=THINKS))
        assert said(plain)[1:] == wanted[1:]
        raw = await client.messages.create(**asked(), stream=True)
        kinds = [event.type async for event in raw]
        assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])


async def test_the_report_that_was_asked_for_is_read_with_the_end() -> None:
    pieces, wanted = CASES["thought in the text"]
    async with sdk(events(pieces), body(pieces)) as client:
        headers = {"X-Integrity-Report": "1"}
        async with client.messages.stream(**asked(), extra_headers=headers) as stream:
            reports = [event.to_dict().get("integrity") async for event in stream if event.type == "message_delta"]
            assert said(await stream.get_final_message()) == wanted
        assert [bool(report) for report in reports] == [True]
        whole = await client.messages.create(**asked(), extra_headers=headers)
        assert "integrity" in whole.to_dict()


async def test_thinking_that_is_off_has_no_block() -> None:
    pieces, _ = CASES["thought in the text"]
    async with sdk(events(pieces), body(pieces)) as client, client.messages.stream(**asked(**OFF)) as stream:
        assert said(await stream.get_final_message()) == (["text"], "", "c d", [], "end_turn")


@pytest.mark.parametrize("cut", ["frame", "error"])
async def test_an_answer_that_breaks_off_is_an_error_to_the_sdk_behind_all_of_its_text(cut: str) -> None:
    frames = [HEAD, *blocks([("text", "a <")])][:-1] + ([ERROR] if cut == "error" else [])
    async with sdk(frames, b"") as client, client.messages.stream(**asked()) as stream:
        heard = ""
        with pytest.raises(APIStatusError):
            async for event in stream:
                heard += event.text if event.type == "text" else ""
        assert heard == "a <"


@pytest.mark.parametrize("recording", [r for r in recordings("messages") if r.stream], ids=str)
async def test_the_sdk_reads_recorded_streams(recording: Any) -> None:
    async with sdk(list(recording.reads), b"") as client, client.messages.stream(**asked()) as stream:
        message = await stream.get_final_message()
    assert message.usage.output_tokens > 0 and message.stop_reason is not None


async def test_an_engine_that_forgets_the_reason_is_read_with_one() -> None:
    async with (
        sdk([HEAD, *blocks([("text", "a")]), END], b"") as client,
        client.messages.stream(**asked()) as stream,
    ):
        assert said(await stream.get_final_message()) == (["text"], "", "a", [], "end_turn")
