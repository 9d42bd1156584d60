"""Stored Responses, chat batches and unread text over sockets: the real routes and the real `openai` SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI

from tests.support.gateways import Gateway, gateway
from tests.support.http import connected, fetch, get, post
from tests.support.responses import Piece, body, events_of, stream, told
from tests.support.upstream import LAST_CHUNK, SSE, Engine, Script, Talk, chunk, engine, plain, saying

OSLO = '{"city": "Oslo"}'
MARKUP = f'<tool_call>\n{{"name": "f", "arguments": {OSLO}}}\n</tool_call>'
TOOLS: Any = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}]
ROUTE: dict[str, Any] = {"engine": "vllm", "dialect": {"reasoning": "qwen3", "tools": "hermes"}, "source": "fields"}
Said = tuple[str, str, list[tuple[str, str]]]
CASES: dict[str, tuple[list[Piece], Said]] = {
    "clean": ([("reasoning", "a b"), ("content", "c d")], ("a b", "c d", [])),
    "thought in the answer": ([("content", "<think>a b</thi"), ("content", "nk>c d")], ("a b", "c d", [])),
    "broken call": ([("reasoning", "a"), ("call", ("c1", "f", [OSLO, "}"]))], ("a", "", [("f", OSLO)])),
    "dropped progress": ([("commentary", "Hm."), ("content", "c<|im_end|>")], ("", "c", [])),
}
LEAK = CASES["thought in the answer"][0]


def keeping(pieces: list[Piece]) -> Script:
    """An engine that makes an answer and keeps it, as vLLM does: a response repeats the tools of its request."""
    whole = json.loads(body(pieces)) | {"tools": TOOLS}
    frames = [
        frame.replace(b'"object":"response"', b'"object":"response","tools":%b' % _json(TOOLS))
        for frame in stream(pieces)
    ]

    async def script(talk: Talk) -> None:
        wants = (
            json.loads(talk.request.body).get("stream") if talk.request.body else "stream=true" in talk.request.target
        )
        if wants:
            await saying(SSE, *map(chunk, frames), LAST_CHUNK)(talk)
        else:
            await talk.say(plain(_json(whole)))

    return script


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@asynccontextmanager
async def served(script: Script, **config: Any) -> AsyncIterator[tuple[Gateway, Engine]]:
    """A gateway before an engine."""
    async with (
        engine(script) as upstream,
        gateway("", routes=[{"upstream": upstream.url, **ROUTE}], **config) as front,
    ):
        yield front, upstream


# ---------------------------------------------------------------------- stored responses


@pytest.mark.parametrize(("pieces", "wanted"), CASES.values(), ids=CASES.keys())
async def test_the_sdk_reads_the_same_answer_when_it_is_made_and_when_it_is_fetched(
    pieces: list[Piece], wanted: Said
) -> None:
    async with (
        served(keeping(pieces), policy={"phase_commentary": "drop"}) as (front, upstream),
        AsyncOpenAI(base_url=f"{front.url}/v1", api_key="unused", max_retries=0, timeout=30) as client,
    ):
        made = await client.responses.create(model="m", input="hi", tools=TOOLS)
        fetched = await client.responses.retrieve("resp_1")
        assert fetched == made
        assert told(fetched.model_dump(mode="json")["output"]) == wanted
        assert upstream.last.start == "GET /v1/responses/resp_1 HTTP/1.1"
        events = [event async for event in await client.responses.retrieve("resp_1", stream=True)]
        assert "".join([event.delta for event in events if event.type == "response.output_text.delta"]) == wanted[1]
        last = events[-1]
        assert last.type == "response.completed"
        assert told(last.response.model_dump(mode="json")["output"]) == wanted


async def test_a_call_that_was_left_as_text_is_made_one_only_where_its_request_is_known() -> None:
    async with (
        served(keeping([("content", MARKUP)])) as (front, _),
        AsyncOpenAI(base_url=f"{front.url}/v1", api_key="unused", max_retries=0, timeout=30) as client,
    ):
        made = await client.responses.create(model="m", input="hi", tools=TOOLS)
        fetched = await client.responses.retrieve("resp_1")
    assert told(made.model_dump(mode="json")["output"]) == ("", "", [("f", OSLO)])
    assert told(fetched.model_dump(mode="json")["output"]) == ("", MARKUP, [])


async def test_what_a_cancel_answers_is_read() -> None:
    cancelled = body(LEAK, status="cancelled")
    async with (
        served(saying(plain(cancelled))) as (front, upstream),
        AsyncOpenAI(base_url=f"{front.url}/v1", api_key="unused", max_retries=0, timeout=30) as client,
    ):
        answer = await client.responses.cancel("resp_1")
        assert told(answer.model_dump(mode="json")["output"]) == ("a b", "c d", [])
        assert (answer.status, upstream.last.target) == ("cancelled", "/v1/responses/resp_1/cancel")


async def test_a_fetched_answer_is_counted_apart_under_the_model_that_it_names() -> None:
    config = {"match": {"models": ["m", "*"]}}
    async with (
        engine(keeping(LEAK)) as upstream,
        gateway("", routes=[{"upstream": upstream.url, **ROUTE, **config}]) as front,
    ):
        answer = await fetch(front.url, get("/prefix/v1/responses/resp_1"))
        assert answer.get("X-Integrity-Findings") == "reasoning_leak=1,boundary_token=2"
        labels = {"model": "m", "protocol": "stored_responses"}
        assert await front.counted("responses_total", **labels, stream="false")
        assert await front.counted("any_leak_responses_total", **labels)
        assert await front.counted("http_requests_total", route="stored_responses", code="200")


async def test_no_model_is_known_when_the_route_is_chosen() -> None:
    async with engine(keeping(LEAK)) as one, engine(saying(plain(body(LEAK)))) as other:
        routes = [{"match": {"models": ["m"]}, "upstream": one.url, **ROUTE}, {"upstream": other.url, **ROUTE}]
        async with gateway("", routes=routes) as front:
            assert (await fetch(front.url, get("/v1/responses/resp_1"))).status == 200
            assert (len(one.seen), len(other.seen)) == (0, 1)


async def test_the_events_of_an_answer_that_runs_come_as_they_are_made() -> None:
    frames = stream([("content", "one"), ("content", "two")])
    more = asyncio.Event()

    async def script(talk: Talk) -> None:
        await saying(SSE, *map(chunk, frames[:5]))(talk)
        await more.wait()
        await saying(*map(chunk, frames[5:]), LAST_CHUNK)(talk)

    async with served(script) as (front, _), connected(front.url) as client:
        client.send(get("/v1/responses/resp_1?stream=true"))
        await client.head()
        await client.reader.readuntil(b'"delta":"one"')
        more.set()
        await client.reader.readuntil(b"response.completed")


@pytest.mark.parametrize("target", ["/v1/responses/resp_1/input_items", "/v1/responses", "/v1/responses/a/b"])
async def test_other_routes_beside_it_pass_as_they_are(target: str) -> None:
    sent = body(LEAK)
    async with served(saying(plain(sent))) as (front, _):
        answer = await fetch(front.url, get(target))
        assert (answer.body, answer.get("X-Integrity-Findings")) == (sent, None)


async def test_a_response_that_is_not_there_is_the_engines_to_say() -> None:
    error = b'{"error":{"message":"Response with id resp_1 not found.","code":404}}'
    head = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\n"
    async with served(saying(plain(error, head)), policy={"reasoning_field": "none"}) as (front, _):
        answer = await fetch(front.url, get("/v1/responses/resp_1"))
        assert (answer.status, answer.body) == (404, error)


async def test_a_stream_from_the_middle_passes_as_it_is_and_is_counted() -> None:
    frames = stream(LEAK)[3:]
    async with served(saying(SSE, *map(chunk, frames), LAST_CHUNK)) as (front, _):
        answer = await fetch(front.url, get("/v1/responses/resp_1?stream=true&starting_after=2"))
        assert answer.body == b"".join(frames)
        assert await front.counted("passthrough_fallbacks_total", reason="stored_middle")


HIDES = {"policy": {"reasoning_field": "none"}}


async def test_hidden_reasoning_stays_hidden_when_it_is_fetched() -> None:
    pieces: list[Piece] = [("reasoning", "secret"), ("content", "<think>secret</think>b")]
    async with served(keeping(pieces), **HIDES) as (front, _):
        for target in ("/v1/responses/resp_1", "/v1/responses/resp_1?stream=true"):
            answer = await fetch(front.url, get(target))
            assert (answer.status, b"secret" in answer.body) == (200, False)
    async with served(saying(SSE, *map(chunk, stream(pieces)[3:]), LAST_CHUNK), **HIDES) as (front, _):
        async with AsyncOpenAI(base_url=f"{front.url}/v1", api_key="unused", max_retries=0, timeout=30) as client:
            with pytest.raises(APIError, match="could not read"):
                async for _ in await client.responses.retrieve("resp_1", stream=True, starting_after=2):
                    pass
        answer = await fetch(front.url, get("/v1/responses/resp_1?stream=true"))
        assert (b"secret" in answer.body, len(events_of(answer.body))) == (False, 1)


DISGUISED = [
    "GET /v1/responses/resp_1/",
    "GET /v1/responses//resp_1",
    "GET /v1/%72esponses/resp_1",
    "GET /v1/responses/resp_1/input_items/..",
    "GET /v1/responses%2Fresp_1",
    "GET /V1/Responses/resp_1",
    "GET /v1/responses/resp_1#x",
    "POST /v1/responses/resp_1%2Fcancel",
    "POST /v1/responses/resp_1/cancel/",
    "POST /v1/responses/resp_1/cancel;x",
    "POST /v1/chat/completions/batch/",
]


@pytest.mark.parametrize("start", DISGUISED)
async def test_a_path_that_only_looks_uninspected_is_refused_where_reasoning_is_hidden(start: str) -> None:
    request = f"{start} HTTP/1.1\r\nHost: h\r\n\r\n".encode()
    async with engine(saying(plain(b"{}"))) as upstream:
        async with gateway(upstream.url, **HIDES) as front:
            answer = await fetch(front.url, request)
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "integrity_path_disguised")
        async with gateway(upstream.url) as front:
            assert (await fetch(front.url, request)).status == 200


async def test_no_tunnel_leads_to_a_stored_answer_where_reasoning_is_hidden() -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: websocket")
    async with engine(saying(plain(body(LEAK)))) as upstream, gateway(upstream.url, **HIDES) as front:
        answer = await fetch(front.url, get("/v1/responses/resp_1", *upgrade))
        assert (answer.status, len(upstream.seen)) == (400, 0)


# ---------------------------------------------------------------------- chat batches


async def test_every_answer_of_a_batch_is_read() -> None:
    """One choice for each conversation, of whatever it leaks (vLLM's OpenAIServingChatBatch)."""
    contents = ["<think>a</think>b", "c", "d<|im_end|>"]
    choices = [
        {"index": n, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for n, text in enumerate(contents)
    ]
    answer_body = _json({"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": choices})
    request = _json({"model": "m", "messages": [[{"role": "user", "content": "hi"}]] * 3})
    async with served(saying(plain(answer_body))) as (front, upstream):
        answer = await fetch(front.url, post(request, target="/v1/chat/completions/batch"))
        assert upstream.last.body == request
        messages = [choice["message"] for choice in json.loads(answer.body)["choices"]]
        assert [(each.get("reasoning"), each["content"]) for each in messages] == [("a", "b"), (None, "c"), (None, "d")]
        assert await front.counted("responses_total", model="other", protocol="chat", stream="false")


async def test_the_history_of_a_batch_is_shaped_in_full() -> None:
    said = {"role": "assistant", "content": "<think>a</think>b"}
    request = {"model": "m", "messages": [[said], [{"role": "user", "content": "hi"}, said]]}
    async with served(saying(plain(b'{"choices":[]}')), profile="full") as (front, upstream):
        await fetch(front.url, post(_json(request), target="/v1/chat/completions/batch"))
    talks = json.loads(upstream.last.body)["messages"]
    assert [talk[-1]["content"] for talk in talks] == ["b", "b"]


# ---------------------------------------------------------------------- text that nobody reads


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/v1beta/models/gemini-pro:generateContent", "gemini"),
        ("/v1/models/org/m:streamGenerateContent?alt=sse", "gemini"),
        ("/api/chat", "ollama"),
        ("/cohere/v2/chat", "cohere"),
    ],
)
async def test_text_of_other_shapes_passes_as_it_is_and_is_counted(target: str, reason: str) -> None:
    request, sent = b'{"contents":[]}', b'{"candidates":[{"content":{"parts":[{"text":"<think>a</think>b"}]}}]}'
    async with engine(saying(plain(sent))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, post(request, target=target))
        assert (upstream.last.body, upstream.last.target, answer.body) == (request, target, sent)
        assert front.count("passthrough_fallbacks_total", reason=reason) == 1
        await fetch(front.url, post(b"{}", target="/v1beta/models/gemini-pro:countTokens"))
        assert front.count("passthrough_fallbacks_total", reason=reason) == 1
