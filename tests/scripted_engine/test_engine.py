"""The scripted engine over a real socket."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from gateway.scripted_engine import Playback, Script, ScriptedEngine, load_recordings

RECORDINGS = {recording.name: recording for recording in load_recordings()}
HELLO = Script(
    name="hello",
    title="t",
    dialect="think",
    note="n",
    deltas=({"reasoning": "abc"}, {"content": "défg"}),
    expect_reasoning="abc",
    expect_content="défg",
)
CHAT = "/v1/chat/completions"


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    engine = ScriptedEngine([HELLO], RECORDINGS.values())
    async with aiohttp.ClientSession(await engine.start()) as session:
        yield session
    await engine.stop()


def asking(model: str = "hello", **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}


async def chunks(response: aiohttp.ClientResponse) -> list[bytes]:
    """The HTTP chunks of a body, put together again where a read cut one."""
    pieces, part = [], b""
    async for data, ends in response.content.iter_chunks():
        part += data
        if ends and part:
            pieces.append(part)
            part = b""
    return pieces


def deltas_of(raw: list[bytes]) -> list[dict[str, Any]]:
    events = b"".join(raw).removesuffix(b"data: [DONE]\n\n").split(b"\n\n")[:-1]
    choices = [choice for event in events for choice in json.loads(event[len(b"data: ") :])["choices"]]
    return [choice["delta"] for choice in choices[1:] if choice["delta"]]


async def test_a_script_is_streamed_in_its_own_deltas(client: aiohttp.ClientSession) -> None:
    async with client.post(CHAT, json=asking(stream=True)) as response:
        assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
        raw = await chunks(response)
    assert deltas_of(raw) == [{"reasoning": "abc"}, {"content": "défg"}]
    assert raw[-1] == b"data: [DONE]\n\n"


async def test_a_script_is_cut_as_the_request_says(client: aiohttp.ClientSession) -> None:
    async with client.post(CHAT, json=asking(stream=True, vllm_xargs={"characters": 2})) as response:
        raw = await chunks(response)
    assert deltas_of(raw) == [{"reasoning": "ab"}, {"reasoning": "c"}, {"content": "dé"}, {"content": "fg"}]


async def test_a_script_is_answered_whole_with_its_length(client: aiohttp.ClientSession) -> None:
    async with client.post(CHAT, json=asking(n=2)) as response:
        body = await response.read()
        assert response.headers["Content-Type"] == "application/json"
        assert int(response.headers["Content-Length"]) == len(body)
    messages = [choice["message"] for choice in json.loads(body)["choices"]]
    assert [(message["reasoning"], message["content"]) for message in messages] == [("abc", "défg")] * 2


async def test_usage_comes_only_when_it_is_asked_for(client: aiohttp.ClientSession) -> None:
    async with client.post(CHAT, json=asking(stream=True)) as response:
        assert b'"usage"' not in await response.read()
    async with client.post(CHAT, json=asking(stream=True, stream_options={"include_usage": True})) as response:
        assert (await response.read()).count(b'"usage"') == 1


async def test_reasoning_is_hidden_on_request(client: aiohttp.ClientSession) -> None:
    async with client.post(CHAT, json=asking(stream=True, include_reasoning=False)) as response:
        assert deltas_of(await chunks(response)) == [{"content": "défg"}]


@pytest.mark.parametrize("name", RECORDINGS)
async def test_a_recording_is_replayed_byte_for_byte_and_chunk_by_chunk(
    client: aiohttp.ClientSession, name: str
) -> None:
    recording = RECORDINGS[name]
    async with client.post(CHAT, json=asking(name, stream=True)) as response:
        assert tuple(await chunks(response)) == recording.stream.chunks
        assert response.headers["Server"] == "uvicorn"
    async with client.post(CHAT, json=asking(name)) as response:
        if recording.whole:
            assert await response.read() == b"".join(recording.whole.chunks)
        else:
            assert response.status == 404


async def test_a_body_is_cut_into_writes_of_the_size_asked_for(client: aiohttp.ClientSession) -> None:
    request = asking("recorded/k3-skipped", stream=True, vllm_xargs={"bytes_per_write": 7})
    async with client.post(CHAT, json=request) as response:
        *pieces, last = await chunks(response)
    assert {len(piece) for piece in pieces} == {7} and len(last) <= 7
    assert b"".join([*pieces, last]) == b"".join(RECORDINGS["recorded/k3-skipped"].stream.chunks)


async def test_a_pace_spreads_the_events(client: aiohttp.ClientSession) -> None:
    started = time.monotonic()
    async with client.post(CHAT, json=asking(stream=True, vllm_xargs={"events_per_second": 50})) as response:
        assert len(await chunks(response)) == 5
    assert time.monotonic() - started >= 5 / 50


async def test_a_client_that_leaves_ends_the_answer_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    engine = ScriptedEngine([HELLO], playback=Playback(characters=1, events_per_second=100))
    async with aiohttp.ClientSession(await engine.start()) as session:
        response = await session.post(CHAT, json=asking(stream=True))
        await response.content.readany()
        response.close()
    await engine.stop()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "JSON decode error"),
        (b"[]", 400, "Input should be a valid dictionary"),
        (json.dumps(asking(n=0.5)).encode(), 400, "n must be at least 1, got 0.5."),
        (json.dumps(asking(vllm_xargs=[1])).encode(), 400, "vllm_xargs: expected an object"),
        (json.dumps(asking("nope")).encode(), 404, "The model `nope` does not exist."),
    ],
)
async def test_a_request_that_cannot_be_served_gets_vllms_error_object(
    client: aiohttp.ClientSession, body: bytes, status: int, message: str
) -> None:
    async with client.post(CHAT, data=body) as response:
        error = (await response.json())["error"]
    assert (response.status, error["code"], error["message"]) == (status, status, message)


async def test_the_other_routes_answer(client: aiohttp.ClientSession) -> None:
    async with client.get("/health") as response:
        assert (response.status, await response.read()) == (200, b"")
    async with client.get("/version") as response:
        assert await response.read() == b'{"version":"0.32.0"}'
    async with client.get("/v1/models") as response:
        assert [model["id"] for model in (await response.json())["data"]] == ["hello", *RECORDINGS]
    async with client.put("/v1/some//where?x=1", data=b"anything") as response:
        assert (response.status, (await response.json())["object"]) == (200, "scripted_engine")


async def test_stopping_closes_the_socket() -> None:
    engine = ScriptedEngine([HELLO])
    url = await engine.start()
    await engine.stop()
    await engine.stop()
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url + "/health")


def test_two_cases_with_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two cases are named hello"):
        ScriptedEngine([HELLO, HELLO])
