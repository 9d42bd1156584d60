"""Answers read from their tokens over sockets: what the engine is asked, what it answers, what the client gets.

The engine's bytes are recordings of vLLM 0.32 whose stop string made it lose text (vLLM #51641): their script is the
truth.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.support.gateways import Gateway, eventually, gateway
from tests.support.http import fetch, post
from tests.support.upstream import LAST_CHUNK, SSE, Engine, Script, chunk, engine, plain, saying
from tests.support.vocabulary import tiny, unpacked
from tests.traces.recordings import Recording, recordings

NAMES = {f"r1-raw-chat-stop-{means}-{mode}" for means in ("logprobs", "token-ids") for mode in ("stream", "full")}
RECORDED = [each for each in recordings() if each.name in NAMES and each.server == "vllm-0.32.0"]
SAID = ("Let me think about it.", "The answer is 42.")
ASKED_BY_THE_RECORDER = ("logprobs", "top_logprobs", "return_token_ids")
REFUSED = b'{"error":{"message":"unknown field","type":"BadRequestError","param":null,"code":400}}'


def tokenize(question: Mapping[str, Any]) -> object:
    """The `/tokenize` of the engine of the recordings, as far as markers go."""
    found = tiny().markers([question["prompt"]]).ids
    return {"tokens": list(found) or [1, 2], "count": 1}


ABOUT = {
    "/v1/models": {"data": [{"id": "tiny", "owned_by": "vllm", "root": "tiny"}]},
    "/version": {"version": "0.32.0"},
    "/tokenize": tokenize,
}


def answer(recording: Recording) -> Script:
    """The engine of a recording."""
    if recording.stream:
        return saying(SSE, *map(chunk, recording.reads), LAST_CHUNK)
    return saying(plain(recording.body))


def request_of(recording: Recording) -> dict[str, Any]:
    """What the client of it asks, that has no use for tokens."""
    return {name: value for name, value in recording.request.items() if name not in ASKED_BY_THE_RECORDER}


def route(upstream: Engine, **keys: Any) -> dict[str, Any]:
    return {"upstream": upstream.url, "dialect": {"reasoning": "deepseek_r1"}, "source": "tokens", **keys}


def said(body: bytes) -> tuple[str, str]:
    """Reasoning and content of an answer, streamed or plain."""
    if body.startswith(b"{"):
        message = json.loads(body)["choices"][0]["message"]
        return message["reasoning"], message["content"]
    events = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    return "".join(each.get("reasoning") or "" for each in deltas), "".join(
        each.get("content") or "" for each in deltas
    )


async def known(proxy: Gateway) -> bool:
    """True as soon as the gateway has learned which engine it is, and which markers are tokens."""
    return await eventually(lambda: bool(proxy.server._standing.config.routes[0].rules.markers.ids))


@pytest.mark.parametrize("recording", RECORDED, ids=str)
async def test_what_the_engine_lost_is_in_its_tokens(recording: Recording, tmp_path: Path) -> None:
    file = "ids" in recording.name  # ids are text only where something can spell them
    keys = {"tokenizer": str(unpacked(tmp_path)), "engine": "vllm"} if file else {}
    async with (
        engine(answer(recording), about=ABOUT) as upstream,
        gateway("", profile="full", routes=[route(upstream, **keys)]) as proxy,
    ):
        assert await known(proxy)
        asked = request_of(recording)
        got = await fetch(proxy.url, post(json.dumps(asked).encode()))
        sent = json.loads(upstream.last.body)
    wanted = {"return_token_ids": True} if file else {"return_token_ids": True, "logprobs": True}
    assert sent == asked | wanted
    assert said(got.body) == SAID
    assert b'"logprobs":{' not in got.body and b'"token_ids":[' not in got.body
    assert b'"prompt_token_ids":[' not in got.body and b"END-OF-THE-ANSWER" in got.body  # as stop_reason only
    assert "END-OF" not in "".join(said(got.body))


@pytest.mark.parametrize("status", [b"400 Bad Request", b"422 Unprocessable Content"])
async def test_an_engine_that_refuses_is_asked_again_as_the_client_asked(status: bytes) -> None:
    recording = next(each for each in RECORDED if each.name.endswith("ids-full"))
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\n" % status
    async with (
        engine(saying(plain(REFUSED, head)), answer(recording), about=ABOUT) as upstream,
        gateway("", profile="full", routes=[route(upstream, engine="vllm")]) as proxy,
    ):
        asked = json.dumps(request_of(recording)).encode()
        got = await fetch(proxy.url, post(asked))
        assert await proxy.counted("passthrough_fallbacks_total", reason="request_refused")
    assert (got.status, said(got.body)) == (200, SAID)  # the engine's own split, which is right in a plain answer
    assert [json.loads(each.body).get("logprobs") for each in upstream.seen] == [True, None]
    assert upstream.seen[1].body == asked


async def test_an_error_that_is_the_clients_own_is_told_as_it_came() -> None:
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
    async with (
        engine(saying(plain(REFUSED, head))) as upstream,
        gateway("", profile="full", routes=[route(upstream, engine="vllm")]) as proxy,
    ):
        got = await fetch(proxy.url, post(b'{"messages":[],"logprobs":7}'))
    assert (got.status, got.body, len(upstream.seen)) == (400, REFUSED, 2)


async def test_text_whose_tokens_did_not_come_stays_as_the_engine_split_it() -> None:
    choice = {"index": 0, "message": {"content": "so", "reasoning": "hm</think>"}, "finish_reason": "stop"}
    async with (
        engine(saying(plain(json.dumps({"choices": [choice]}).encode()))) as upstream,
        gateway("", profile="full", routes=[route(upstream, engine="vllm")]) as proxy,
    ):
        got = await fetch(proxy.url, post(b'{"messages":[]}'))
        assert await proxy.counted("passthrough_fallbacks_total", reason="tokens_missing")
    assert said(got.body) == ("hm", "so")


PLAIN_IDS = next(each for each in RECORDED if each.name.endswith("ids-full"))


CUT = {"role": "assistant", "reasoning": "Let me th", "content": "answer is 42."}
"""What an engine makes of it that loses text as streams do."""


def written(ids: list[int]) -> str:
    """What vLLM's `/detokenize` says: `decode` of the model's tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        return str(Tokenizer.from_file(str(unpacked(Path(folder)))).decode(ids, skip_special_tokens=False))


@pytest.mark.parametrize(
    ("detokenize", "text"),
    [
        (lambda question: {"prompt": written(question["tokens"])}, SAID),
        (lambda question: {"prompt": 3}, (CUT["reasoning"], CUT["content"])),
        (lambda question: {}, (CUT["reasoning"], CUT["content"])),
        (None, (CUT["reasoning"], CUT["content"])),
    ],
)
async def test_the_engine_is_asked_to_spell_the_ids_of_a_whole_answer(detokenize: Any, text: tuple[str, str]) -> None:
    asked: list[Mapping[str, Any]] = []

    def spelled(question: Mapping[str, Any]) -> object:
        asked.append(question)
        return detokenize(question)

    body = json.loads(PLAIN_IDS.body)
    body["choices"][0]["message"] = CUT
    about = ABOUT | ({"/detokenize": spelled} if detokenize else {})
    policy = {"request": {"tokens": "ids"}}
    async with (
        engine(saying(plain(json.dumps(body).encode())), about=about) as upstream,
        gateway("", profile="full", routes=[route(upstream, engine="vllm")], policy=policy) as proxy,
    ):
        assert await known(proxy)
        request = request_of(PLAIN_IDS)
        got = await fetch(proxy.url, post(json.dumps(request).encode()))
        sent = json.loads(upstream.last.body)
        assert await proxy.counted("passthrough_fallbacks_total", float(text != SAID), reason="tokens_missing")
    assert sent == request | {"return_token_ids": True}
    assert said(got.body) == text
    assert b'"token_ids":[' not in got.body
    if detokenize:
        told = [ident for question in asked for ident in question["tokens"]]
        assert {question["model"] for question in asked} == {request["model"]}
        assert body["choices"][0]["token_ids"][-len(told) :] == told  # each once, and none that is a marker alone


async def test_a_generate_answer_is_read_from_its_ids(tmp_path: Path) -> None:
    ids = [4035, 43, 317, 392, 1094, 982, 464, 13, 4036, 4004, 926, 744, 301, 939, 17, 13, 4002]
    told = {
        "text": "<think>Let me think about it.</think>The answer is 42.",  # 4004, <|channel|>, is not shown
        "output_ids": ids,
        "meta_info": {"id": "g", "finish_reason": {"type": "stop", "matched": 4002}, "completion_tokens": len(ids)},
    }
    asked = b'{"text":"What?","sampling_params":{"stop":["END"]}}'
    keys = {"tokenizer": str(unpacked(tmp_path)), "engine": "sglang"}
    async with (
        engine(saying(plain(json.dumps(told).encode()))) as upstream,
        gateway("", profile="full", routes=[route(upstream, **keys)], policy={"raw_text": "split"}) as proxy,
    ):
        got = await fetch(proxy.url, post(asked, target="/generate"))
        assert upstream.last.body == asked
    value = json.loads(got.body)
    assert (value["reasoning"], value["text"]) == SAID
