"""Text completions and `/generate` over sockets: the real routes and the real `openai` SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.support.gateways import gateway
from tests.support.http import fetch, post
from tests.support.raw_text import DONE, WIRES, Completions, Wire, cut, values
from tests.support.upstream import LAST_CHUNK, SSE, Script, chunk, engine, plain, saying

LEAKING = "<think>Let me think.</think>The answer is 42."
SPLIT = ("Let me think.", "The answer is 42.")
CLEAN = "The answer is 42."
wires = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES.keys())


def config(**policy: Any) -> dict[str, Any]:
    """The keys of a configuration with one route."""
    return {"dialect": "think", "policy": {"raw_text": "split", **policy}}


def streaming(*events: bytes) -> Script:
    """An engine that streams these events."""
    return saying(SSE, *[chunk(event) for event in events], LAST_CHUNK)


# ---------------------------------------------------------------------- the SDK


@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize(("text", "said"), [(LEAKING, SPLIT), (CLEAN, ("", CLEAN))])
async def test_the_sdk_reads_a_streamed_completion(text: str, said: tuple[str, str], size: int) -> None:
    wire = Completions(logprobs=True, ids=True)
    async with (
        engine(streaming(*wire.events(cut(text, size)), DONE)) as upstream,
        gateway("", routes=[{"upstream": upstream.url, **config()}]) as proxy,
        AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="unused", max_retries=0, timeout=30) as client,
    ):
        stream = await client.completions.create(model="m", prompt="hi", stream=True, logprobs=1)
        choices = [choice async for each in stream for choice in each.choices]
    assert "".join([choice.text for choice in choices]) == said[1]
    assert "".join([getattr(choice, "reasoning", None) or "" for choice in choices]) == said[0]
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    tokens = [token for choice in choices if choice.logprobs for token in choice.logprobs.tokens or []]
    assert "".join(tokens).endswith(said[1])


@pytest.mark.parametrize(("text", "said"), [(LEAKING, SPLIT), (CLEAN, ("", CLEAN))])
async def test_the_sdk_reads_a_plain_completion(text: str, said: tuple[str, str]) -> None:
    body = Completions(logprobs=True, ids=True).body(cut(text, 5), cut(text, 7))
    async with (
        engine(saying(plain(body))) as upstream,
        gateway("", routes=[{"upstream": upstream.url, **config()}]) as proxy,
        AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="unused", max_retries=0, timeout=30) as client,
    ):
        answer = await client.completions.create(model="m", prompt=["a", "b"], logprobs=1)
    assert [(choice.index, choice.text) for choice in answer.choices] == [(0, said[1]), (1, said[1])]
    assert [getattr(choice, "reasoning", None) or "" for choice in answer.choices] == [said[0]] * 2
    assert all(choice.logprobs and choice.logprobs.tokens for choice in answer.choices)


async def test_the_sdk_is_told_of_a_stream_that_breaks_off() -> None:
    events = Completions().events([["a"], ["<"]], finish=None)
    async with (
        engine(streaming(*events)) as upstream,
        gateway("", routes=[{"upstream": upstream.url, **config()}]) as proxy,
        AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="unused", max_retries=0, timeout=30) as client,
    ):
        stream = await client.completions.create(model="m", prompt="hi", stream=True)
        said = []
        with pytest.raises(Exception, match="terminal event"):
            async for each in stream:
                said += [choice.text for choice in each.choices]
    assert said == ["a", "<"]


# ---------------------------------------------------------------------- the real routes


async def asked(wire: Wire, script: Script, request: dict[str, Any], **policy: Any) -> Any:
    """The answer of a gateway's route."""
    body = json.dumps(request).encode()
    async with (
        engine(script) as upstream,
        gateway("", profile="full", routes=[{"upstream": upstream.url, **config(**policy)}]) as proxy,
    ):
        answer = await fetch(proxy.url, post(body, target=wire.path))
        assert upstream.last.body == body
    return answer


@wires
async def test_text_is_left_unless_the_route_says_otherwise(wire: Wire) -> None:
    events = [*wire.events(cut(LEAKING, 5)), DONE]
    answer = await asked(wire, streaming(*events), {"stream": True}, raw_text="leave")
    assert answer.body == b"".join(events)
    body = wire.body(cut(LEAKING, 5))
    answer = await asked(wire, saying(plain(body)), {}, raw_text="leave")
    assert answer.body == body
    assert answer.get("X-Integrity-Findings") == "reasoning_leak=1,boundary_token=2"


@wires
async def test_an_error_of_the_gateway_has_the_shape_of_the_route(wire: Wire) -> None:
    async with gateway("", routes=[{"upstream": "http://127.0.0.1:1", **config()}]) as proxy:
        answer = await fetch(proxy.url, post(b"{}", target=wire.path))
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"][:10], "message" in error) == (502, "integrity_", True)
    assert ("param" in error) is (wire.path != "/generate")


async def test_other_routes_that_end_alike_pass_as_they_are() -> None:
    wire = WIRES["generate"]
    events = [*wire.events(cut(LEAKING, 5)), DONE]
    async with (
        engine(streaming(*events)) as upstream,
        gateway("", routes=[{"upstream": upstream.url, **config()}]) as proxy,
    ):
        answer = await fetch(proxy.url, post(b"{}", target="/inference/v1/generate"))
        assert answer.body == b"".join(events)
        answer = await fetch(proxy.url, post(b"{}", target="/generate"))
    assert values(answer.body)[-1]["reasoning"] == SPLIT[0]
