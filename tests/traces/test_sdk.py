"""The `openai` SDK before the gateway before recorded answers, all over sockets: it reads either field name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion_chunk import ChoiceDelta

from gateway import scripted_engine
from gateway.scripted_engine import ScriptedEngine
from gateway.server.app import GatewayServer
from gateway.server.config import config_from_mapping
from tests.traces.recordings import Recording, recordings
from tests.traces.routes import Known, route_of

THOUGHT, ANSWER = "Let me think about it.", "The answer is 42."
RECORDED = {
    "vllm-0.32.0/q3h-chat-token-ids": (THOUGHT, ANSWER),  # split by the engine, under `reasoning`
    "llama.cpp-b11434/qwen-think-answer": (THOUGHT, ANSWER),  # split by the engine, under `reasoning_content`
    "vllm-0.32.0/q3h-chat-off-but-thinks": (THOUGHT, ANSWER),  # the block in content
    "vllm-0.32.0/none-chat-token-ids": (THOUGHT, ANSWER),  # raw text
    "vllm-0.32.0/step3-chat-think-answer": (THOUGHT, ANSWER),  # the opener in the thought
    "vllm-0.32.0/kimi-k3-chat-skipped-channel": (ANSWER, ANSWER),  # in the thought: both (reader_spec 4.1)
    "vllm-0.32.0/m2-chat-off-plain": ("", ANSWER),  # thinking off, and the plain answer in reasoning
}
"""Pair of recordings to the reasoning and the content that its script says."""

NAMES = ("reasoning", "reasoning_content")
SHOWN = {"both": NAMES, "reasoning": NAMES[:1], "reasoning_content": NAMES[1:]}
"""`policy.reasoning_field` to the names a client finds."""


def recorded(pair: str, mode: str) -> Recording:
    return next(recording for recording in recordings() if str(recording) == f"{pair}-{mode}")


def as_case(pair: str) -> scripted_engine.Recording:
    """The pair as a model of the scripted engine, which replays its bytes."""
    stream, whole = (_exchange(recorded(pair, mode)) for mode in ("stream", "full"))
    reasoning, content = RECORDED[pair]
    return scripted_engine.Recording(
        name=pair,
        title=pair,
        dialect=_route(pair).dialect,
        note="",
        expect_reasoning=reasoning,
        expect_content=content,
        stream=stream,
        whole=whole,
    )


def _exchange(recording: Recording) -> scripted_engine.Exchange:
    heads = (("Content-Type", recording.content_type),)
    return scripted_engine.Exchange(
        status=recording.status, headers=heads, chunks=recording.reads, request={}, emitted=recording.emitted(0) or ""
    )


def _route(pair: str) -> Known:
    known = route_of(recorded(pair, "full"))
    assert known
    return known


def config(engine: str, reasoning_field: str) -> dict[str, object]:
    """One route a pair, by its model."""
    routes = [
        {
            "match": {"models": [pair]},
            "upstream": engine,
            "dialect": _route(pair).dialect,
            "source": _route(pair).source,
            "starts_in": _route(pair).starts_in,
        }
        for pair in RECORDED
    ]
    anywhere = {"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0"}
    return {**anywhere, "profile": "full", "routes": routes, "policy": {"reasoning_field": reasoning_field}}


@asynccontextmanager
async def sdk(reasoning_field: str) -> AsyncIterator[AsyncOpenAI]:
    """A client of a gateway of its own, with an engine of its own."""
    engine = ScriptedEngine((), [as_case(pair) for pair in RECORDED])
    gateway = GatewayServer(config_from_mapping(config(await engine.start(), reasoning_field), source="test"))
    try:
        listen, _ = await gateway.start()
        async with AsyncOpenAI(base_url=f"{listen}/v1", api_key="unused", max_retries=0, timeout=30) as client:
            yield client
    finally:
        await gateway.stop()
        await engine.stop()


async def said(client: AsyncOpenAI, pair: str, *, stream: bool) -> list[ChatCompletionMessage | ChoiceDelta]:
    """What the SDK gives of the answer: one message, or every delta."""
    asked = recorded(pair, "full").request
    thinking = {name: asked[name] for name in ("chat_template_kwargs",) if name in asked}
    create = client.chat.completions.create
    if not stream:
        whole = await create(model=pair, messages=asked["messages"], extra_body=thinking)
        return [choice.message for choice in whole.choices]
    chunks = await create(model=pair, messages=asked["messages"], extra_body=thinking, stream=True)
    return [choice.delta async for chunk in chunks for choice in chunk.choices]


def text(parts: list[ChatCompletionMessage | ChoiceDelta], name: str) -> str:
    return "".join(getattr(part, name, None) or "" for part in parts)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("reasoning_field", SHOWN)
async def test_the_sdk_reads_the_thought_by_the_names_of_the_route(reasoning_field: str, stream: bool) -> None:
    async with sdk(reasoning_field) as client:
        for pair, (reasoning, content) in RECORDED.items():
            parts = await said(client, pair, stream=stream)
            shown = SHOWN[reasoning_field]
            wanted = {name: reasoning if name in shown else "" for name in NAMES} | {"content": content}
            assert {name: text(parts, name) for name in wanted} == wanted, pair
