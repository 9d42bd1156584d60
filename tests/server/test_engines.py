"""What an engine is asked about itself, what of its answer counts, and what becomes of a request's model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.server.auto import EngineFacts, Served
from gateway.server.config import Timeouts
from gateway.server.connection import Target, target_of
from gateway.server.engines import ANSWER_BYTES, MODELS, NAME_CHARACTERS, Engines
from gateway.server.upstream import Upstreams
from tests.support.gateways import eventually, gateway
from tests.support.http import fetch, get, post
from tests.support.upstream import engine, plain, saying, stalling

LISTED = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm", "root": "Qwen/Qwen3-8B"}]}
VLLM = {"/v1/models": LISTED, "/version": {"version": "0.32.0"}}


async def asked(about: Mapping[str, Any], strings: tuple[str, ...] = ()) -> EngineFacts | None:
    """What is known of an engine that answers `about`, with the tokens of `strings`."""
    heard: list[Mapping[Target, EngineFacts]] = []
    async with engine(stalling, about=about) as upstream:
        pool = Upstreams(Timeouts(), observe=lambda attempt, outcome: None)
        target = target_of(upstream.url)
        engines = Engines(lambda: [target], pool, learned=heard.append, strings=lambda asked: strings)
        complete = await engines.ask()
        pool.close()
        assert upstream.seen == []
    assert complete is (target in heard[0])
    return heard[-1].get(target)


async def test_vllm_is_known_by_its_version_route() -> None:
    assert await asked(VLLM) == EngineFacts(
        engine="vllm", version="0.32.0", models=(Served(id="m", names=("m", "Qwen/Qwen3-8B")),)
    )


async def test_sglang_tells_the_parsers_it_runs_and_where_its_model_came_from() -> None:
    listed = {"data": [{"id": "m", "owned_by": "sglang", "root": "m"}]}
    said = {
        "version": "0.5.6",
        "model_path": "Qwen/Qwen3-8B",
        "reasoning_parser": "qwen3",
        "tool_call_parser": None,
        "api_key": "secret",
    }
    assert await asked({"/v1/models": listed, "/get_server_info": said}) == EngineFacts(
        engine="sglang",
        version="0.5.6",
        models=(Served(id="m", names=("m", "Qwen/Qwen3-8B")),),
        parsers=(("reasoning", "qwen3"),),
    )


async def test_sglang_without_its_server_info_still_names_its_model() -> None:
    about = {"/v1/models": {"data": [{"id": "m"}]}, "/get_model_info": {"model_path": "openai/gpt-oss-20b"}}
    known = await asked(about)
    assert known == EngineFacts(
        engine="sglang", version="", models=(Served(id="m", names=("m", "openai/gpt-oss-20b")),)
    )


async def test_an_adapter_goes_by_the_names_of_the_model_it_stands_on() -> None:
    listed = {"data": [{"id": "base", "root": "Qwen/Qwen3-8B"}, {"id": "ada", "root": "/lora/ada", "parent": "base"}]}
    known = await asked({**VLLM, "/v1/models": listed})
    assert known is not None
    assert known.models[1].names == ("ada", "/lora/ada", "base", "Qwen/Qwen3-8B")


async def test_another_server_with_a_model_list_is_other() -> None:
    known = await asked({"/v1/models": {"data": [{"id": "m", "owned_by": "somebody"}]}})
    assert known == EngineFacts(engine="other", version="", models=(Served(id="m", names=("m",)),))


@pytest.mark.parametrize(
    "listed",
    [
        None,
        [],
        "text",
        {},
        {"data": None},
        {"data": []},
        {"data": ["m"]},
        {"data": [{"id": 5}]},
        {"data": [{"id": ""}]},
        {"data": [{"id": "m" * (NAME_CHARACTERS + 1)}]},
        {"data": [{"id": "m"}], "padding": " " * ANSWER_BYTES},
    ],
)
async def test_an_answer_that_is_no_model_list_says_nothing(listed: Any) -> None:
    assert await asked({**VLLM, "/v1/models": listed}) is None


@pytest.mark.parametrize("version", [None, 5, "", "a b", "1\n2", "x" * 65])
async def test_a_version_that_is_none_is_left_out(version: Any) -> None:
    known = await asked({**VLLM, "/version": {"version": version}})
    assert known is not None
    assert (known.engine, known.version) == ("vllm", "")


async def test_no_more_models_are_remembered_than_the_cap_allows() -> None:
    known = await asked({**VLLM, "/v1/models": {"data": [{"id": f"m{number}"} for number in range(MODELS + 5)]}})
    assert known is not None
    assert len(known.models) == MODELS


async def test_an_engine_that_is_silent_or_away_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.engines.ASK_SECONDS", 0.05)

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    target = target_of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    heard: list[Mapping[Target, EngineFacts]] = []
    pool = Upstreams(Timeouts(), observe=lambda attempt, outcome: None)
    engines = Engines(lambda: [target], pool, learned=heard.append, strings=lambda asked: ())
    assert not await engines.ask()
    server.close()
    await server.wait_closed()
    assert not await engines.ask()
    assert heard == [{}, {}]


def tokenizing(*whole: str) -> Mapping[str, Any]:
    """An engine with a vocabulary in which `whole` are tokens, numbered from 100; others are of two."""

    def tokenize(question: Mapping[str, Any]) -> object:
        assert (question["model"], question["add_special_tokens"]) == ("m", False)
        text = question["prompt"]
        return {"count": 1, "tokens": [100 + whole.index(text)] if text in whole else [1, 2]}

    return {**VLLM, "/tokenize": tokenize}


async def test_of_each_string_that_matters_it_is_asked_whether_it_is_one_token() -> None:
    facts = await asked(tokenizing("</think>", "<think>"), strings=("<think>", "</think>", "</other>"))
    assert facts is not None
    assert facts.tokens == {"<think>": 101, "</think>": 100}


@pytest.mark.parametrize("said", [None, {}, {"tokens": "5"}, {"tokens": [True]}, {"tokens": [[5]]}, {"tokens": []}])
async def test_where_an_engine_does_not_tell_nothing_is_a_token(said: object) -> None:
    facts = await asked({**VLLM, "/tokenize": said}, strings=("<think>",))
    assert facts is not None
    assert facts.tokens == {}


async def test_tokens_are_asked_for_again_only_when_the_engine_serves_others_or_other_strings_matter() -> None:
    about = dict(tokenizing("<a>", "<b>"))
    strings = ["<a>"]
    heard: list[Mapping[Target, EngineFacts]] = []
    async with engine(stalling, about=about) as upstream:
        pool = Upstreams(Timeouts(), observe=lambda attempt, outcome: None)
        target = target_of(upstream.url)
        engines = Engines(lambda: [target], pool, learned=heard.append, strings=lambda asked: strings)
        questions = []
        for change in (None, None, "<b>"):
            if change:
                strings.append(change)
            await engines.ask()
            questions.append(upstream.questions)
        pool.close()
    assert [later - earlier for earlier, later in zip([0, *questions], questions, strict=False)] == [3, 2, 4]
    assert heard[-1][target].tokens == {"<a>": 100, "<b>": 101}


# ---------------------------------------------------------------- in a running gateway


def leaky(content: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice]}).encode()


async def test_an_engine_that_comes_up_later_is_learned_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.engines.UNKNOWN_SECONDS", 0.01)
    about: dict[str, Any] = {}
    async with (
        engine(saying(plain(b"{}")), about=about) as upstream,
        gateway("", routes=[{"upstream": upstream.url}]) as front,
    ):
        labels = {"engine": "vllm", "version": "0.32.0", "model": "m"}
        assert front.count("upstream_info", **labels) == 0
        about |= VLLM
        assert await front.counted("upstream_info", **labels)
        route = json.loads((await fetch(front.admin, get("/rules"))).body)["routes"][0]
        assert route["dialect"] == "qwen"


async def test_an_engine_that_goes_away_stays_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.engines.KNOWN_SECONDS", 0.01)
    monkeypatch.setattr("gateway.server.engines.UNKNOWN_SECONDS", 0.01)
    about: dict[str, Any] = dict(VLLM)
    async with (
        engine(saying(plain(b"{}")), about=about) as upstream,
        gateway("", routes=[{"upstream": upstream.url}]) as front,
    ):
        about.clear()
        before = upstream.questions
        assert await eventually(lambda: upstream.questions > before + 5)
        assert front.count("upstream_info", engine="vllm", version="0.32.0", model="m") == 1


@pytest.mark.parametrize(("model", "label"), [("m", "m"), ("spelt", "spelt"), ("x", "other"), (None, "other")])
async def test_the_model_label_is_a_served_or_configured_name(model: str | None, label: str) -> None:
    """C16: a client's string never becomes a label."""
    request = post(json.dumps({"model": model, "messages": []}).encode())
    async with engine(saying(plain(leaky("hi"))), about=VLLM) as upstream:
        routes = [{"match": {"models": ["spelt", "*"]}, "upstream": upstream.url}]
        async with gateway("", routes=routes) as front:
            await fetch(front.url, request)
            assert await front.counted("responses_total", model=label, protocol="chat", stream="false")


@pytest.mark.parametrize(("model", "read"), [("openai/gpt-oss-20b", True), ("not-served", False)])
async def test_what_a_request_calls_its_model_only_chooses_among_those_served(model: str, read: bool) -> None:
    served = {"data": [{"id": "openai/gpt-oss-20b"}, {"id": "assistant"}]} if read else {"data": [{"id": "assistant"}]}
    raw = leaky("<|channel|>analysis<|message|>thought<|end|><|start|>assistant<|channel|>final<|message|>answer")
    request = post(json.dumps({"model": "openai/gpt-oss-20b" if read else model, "messages": []}).encode())
    async with (
        engine(saying(plain(raw)), about={**VLLM, "/v1/models": served}) as upstream,
        gateway("", routes=[{"upstream": upstream.url}]) as front,
    ):
        message = json.loads((await fetch(front.url, request)).body)["choices"][0]["message"]
        assert (message.get("reasoning") == "thought") is read
