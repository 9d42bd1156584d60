"""Stop strings over sockets: the engine is left where the gateway's match ends the answer, in step its end is cut."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI

from tests.exchange.driver import DONE, chunk, delta
from tests.support.gateways import gateway
from tests.support.http import fetch, post
from tests.support.upstream import JSON, LAST_CHUNK, SSE, Talk, engine, plain, saying
from tests.support.upstream import chunk as coded

ROUTE: dict[str, Any] = {"dialect": {"reasoning": "deepseek_r1"}, "engine": "vllm"}


def route(url: str, stop: str) -> list[dict[str, Any]]:
    return [{**ROUTE, "upstream": url, "policy": {"request": {"stop": stop}}}]


async def test_the_engine_is_left_as_soon_as_the_answer_has_ended() -> None:
    left = asyncio.Event()

    async def endless(talk: Talk) -> None:
        await saying(SSE, *map(coded, (delta(content="yes EN"), delta(content="D no"))))(talk)
        await talk.until_left()
        left.set()

    async with (
        engine(endless) as upstream,
        gateway("", profile="full", routes=route(upstream.url, "gateway")) as proxy,
        AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="unused", max_retries=0, timeout=10) as client,
    ):
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True, stop=["END"]
        )
        choices = [choice async for each in stream for choice in each.choices]
        async with asyncio.timeout(5):
            await left.wait()
        assert "stop" not in json.loads(upstream.last.body)
        assert await proxy.counted("upstream_requests_total", attempt="1", outcome="cancelled")
        assert proxy.count("passthrough_fallbacks_total", reason="server_fault") == 0
    assert "".join(choice.delta.content or "" for choice in choices) == "yes "
    assert [(choice.finish_reason, choice.model_extra) for choice in choices if choice.finish_reason] == [
        ("stop", {"stop_reason": "END", "token_ids": None})
    ]


async def test_a_connection_of_an_answer_that_the_engine_ended_is_used_again() -> None:
    whole = saying(SSE, coded(delta(content="yes")), coded(delta(finish="stop")), coded(DONE), LAST_CHUNK)
    body = b'{"model":"m","messages":[],"stream":true,"stop":["END"]}'
    async with (
        engine(whole) as upstream,
        gateway("", profile="full", routes=route(upstream.url, "gateway")) as proxy,
    ):
        answers = [await fetch(proxy.url, post(body)) for _ in range(2)]
    assert [answer.complete for answer in answers] == [True, True]
    assert upstream.connections == 1


async def test_in_step_the_engine_leaves_the_string_in_and_the_gateway_takes_it_off() -> None:
    frames = [delta(reasoning="hm"), delta(content="yes"), delta(content="EN"), delta(content="D")]
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}
    script = saying(SSE, *map(coded, frames), coded(chunk([choice])), coded(DONE), LAST_CHUNK)
    async with (
        engine(script) as upstream,
        gateway("", profile="full", routes=route(upstream.url, "in_step")) as proxy,
    ):
        got = await fetch(proxy.url, post(b'{"model":"m","messages":[],"stream":true,"stop":["END"]}'))
        assert json.loads(upstream.last.body)["include_stop_str_in_output"] is True
    events = [json.loads(line[6:]) for line in got.body.decode().splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    assert "".join(each.get("content") or "" for each in deltas) == "yes"
    assert "".join(each.get("reasoning") or "" for each in deltas) == "hm"
    assert events[-1]["choices"][0]["stop_reason"] == "END"


async def test_a_plain_answer_is_cut_at_the_same_place() -> None:
    message = {"role": "assistant", "content": "yes END no"}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}).encode()
    async with (
        engine(saying(plain(body, JSON))) as upstream,
        gateway("", profile="full", routes=route(upstream.url, "gateway")) as proxy,
    ):
        got = await fetch(proxy.url, post(b'{"model":"m","messages":[],"stop":["END"]}'))
    choice = json.loads(got.body)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"], choice["stop_reason"]) == ("yes ", "stop", "END")
