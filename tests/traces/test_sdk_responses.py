"""The `openai` SDK reads Responses through the gateway over sockets: by its streaming helper, streamed and plain.

The helper builds the response from the events and fails on events that do not fit.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI
from openai.types.responses import Response

from tests.support.gateways import gateway
from tests.support.responses import Piece, body, stream, told
from tests.support.upstream import answering, engine
from tests.traces.recordings import recordings

OSLO = '{"city": "Oslo"}'
MARKUP = f'<tool_call>\n{{"name": "f", "arguments": {OSLO}}}\n</tool_call>'
TOOLS: Any = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}]
CASES: dict[str, tuple[list[Piece], tuple[str, str, list[tuple[str, str]]]]] = {
    "clean": ([("reasoning", "a b"), ("content", "c d")], ("a b", "c d", [])),
    "clean call": ([("reasoning", "a"), ("call", ("c1", "f", ['{"city": ', '"Oslo"}']))], ("a", "", [("f", OSLO)])),
    "thought in the answer": ([("content", "<think>a b</thi"), ("content", "nk>c d")], ("a b", "c d", [])),
    "more of a thought": ([("reasoning", "a"), ("content", "<think>b</think>c")], ("ab", "c", [])),
    "call in the answer": ([("reasoning", "a"), ("content", f"b\n{MARKUP}")], ("a", "b\n", [("f", OSLO)])),
    "broken call": ([("call", ("c1", "f", [OSLO, OSLO]))], ("", "", [("f", OSLO)])),
    "dropped progress": ([("commentary", "Hm."), ("content", "c")], ("", "c", [])),
    "everything": (
        [("commentary", "x"), ("reasoning", "a"), ("content", "</think>c"), ("call", ("c", "f", [OSLO + "}"]))],
        ("a", "c", [("f", OSLO)]),
    ),
}


@asynccontextmanager
async def sdk(frames: list[bytes], whole: bytes) -> AsyncIterator[AsyncOpenAI]:
    """A client of a gateway before an engine that always answers so."""

    async with engine(answering(frames, whole)) as upstream:
        route = {
            "upstream": upstream.url,
            "dialect": {"reasoning": "qwen3", "tools": "hermes"},
            "source": "fields",
        }
        async with (
            gateway(upstream.url, routes=[route], policy={"phase_commentary": "drop"}) as front,
            AsyncOpenAI(base_url=f"{front.url}/v1", api_key="unused", max_retries=0, timeout=30) as client,
        ):
            yield client


def said(response: Response) -> tuple[str, str, list[tuple[str, str]]]:
    """What the SDK's response says."""
    return told(json.loads(response.model_dump_json())["output"])


@pytest.mark.parametrize("shape", [{}, {"summary": True}, {"tokens": True}], ids=str)
@pytest.mark.parametrize(("pieces", "wanted"), CASES.values(), ids=CASES.keys())
async def test_the_sdk_reads_every_shape_of_an_answer(
    pieces: list[Piece], wanted: tuple[str, str, list[tuple[str, str]]], shape: dict[str, bool]
) -> None:
    async with sdk(stream(pieces, **shape), body(pieces)) as client:
        async with client.responses.stream(model="m", input="hi", tools=TOOLS) as events:
            texts = [event.delta async for event in events if event.type == "response.output_text.delta"]
            final = await events.get_final_response()
        assert (said(final), "".join(texts), final.output_text) == (wanted, wanted[1], wanted[1])
        plain = await client.responses.create(model="m", input="hi", tools=TOOLS)
        assert said(plain) == wanted
        kinds = [event.type async for event in await client.responses.create(model="m", input="hi", stream=True)]
        assert kinds[-1] == "response.completed"


async def test_the_sdk_reads_recorded_answers() -> None:
    for recording in recordings("responses"):
        if recording.status == 200 and recording.stream and "length" not in recording.name:
            async with sdk(list(recording.reads), b"{}") as client:
                async with client.responses.stream(model="m", input="hi") as events:
                    final = await events.get_final_response()
                assert final.status == "completed"


async def test_the_sdk_raises_where_the_engine_broke_off() -> None:
    frames = stream([("reasoning", "a"), ("content", "b c")])
    for end in (1, 4, 8, len(frames) - 1):
        async with sdk(frames[:end], b"{}") as client:
            with pytest.raises(APIError, match="terminal event"):
                async with client.responses.stream(model="m", input="hi") as events:
                    await events.get_final_response()
