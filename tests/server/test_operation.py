"""What an operator sees of a running gateway: where a request went, what waited, what was done and why."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.integrity.holds import HOLDS
from tests.server.test_inspected import DONE, event
from tests.support.gateways import eventually, gateway
from tests.support.http import connected, fetch, get, post
from tests.support.upstream import LAST_CHUNK, SSE, Talk, chunk, engine, plain, saying

ASK = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
VLLM = {"/v1/models": {"data": [{"id": "m", "root": "Qwen/Qwen3-8B"}]}, "/version": {"version": "0.32.0"}}


def asking(*fields: str, target: str = "/v1/chat/completions", **members: Any) -> bytes:
    return post(json.dumps({**ASK, **members}).encode(), *fields, target=target)


# ---------------------------------------------------------------- which deployment


MATCHES: dict[str, dict[str, Any]] = {
    "model": {"models": ["qwen*", "exact"]},
    "path": {"paths": ["/team-*/v1/chat/completions"]},
    "header": {"headers": {"X-Team": "blue-*"}},
    "key": {"keys": ["alice"]},
    "rest": {},
}


@pytest.mark.parametrize(
    ("request_", "reached"),
    [
        (asking(model="qwen3-8b"), "model"),
        (asking(model="exact"), "model"),
        (asking(model="exactly"), "rest"),
        (asking(target="/team-a/v1/chat/completions"), "path"),
        (asking("x-team: blue-1"), "header"),
        (asking("x-team: red-1"), "rest"),
        (asking("Authorization: Bearer sk-alice"), "key"),
        (asking("X-Api-Key: sk-alice"), "key"),
        (asking("Authorization: Bearer sk-eve"), "rest"),
        (asking("Authorization: Bearer sk-alice", model="qwen"), "model"),  # the first route that accepts wins
        (asking(), "rest"),
    ],
)
async def test_a_request_reaches_the_deployment_whose_match_accepts_it(request_: bytes, reached: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        routes = []
        for name, match in MATCHES.items():
            upstream = await stack.enter_async_context(engine(saying(plain(b'{"who":"%b"}' % name.encode()))))
            routes.append({"match": match, "upstream": upstream.url, "dialect": "think"})
        keys = {"alice": hashlib.sha256(b"sk-alice").hexdigest()}
        front = await stack.enter_async_context(gateway("", routes=routes, auth={"keys": keys}))
        assert json.loads((await fetch(front.url, request_)).body) == {"who": reached}


# ---------------------------------------------------------------- what waited


HERMES = {"reasoning": "qwen3", "tools": "hermes"}
TOOLS = {"tools": [{"type": "function", "function": {"name": "f"}}]}


def own(arguments: str) -> dict[str, Any]:
    """A piece of the engine's own call."""
    return {
        "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}]
    }


HELD: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, str]], dict[str, str]]] = {
    # cause: keys of the route, members of the request, deltas of which the last waits, the delta that lets it go
    "marker": ({}, {}, [{"content": "a\n"}, {"content": "</thi"}], {"content": "s"}),
    "header": ({"dialect": "harmony"}, {}, [{"content": "<|channel|>fin"}], {"content": "al<|message|>a"}),
    "quoted_end": ({}, {}, [{"content": "a `"}, {"content": "</think>"}], {"content": "`"}),
    "dedup": ({}, {"include_reasoning": True}, [{"reasoning": "ab"}, {"content": "a"}], {"content": "c"}),
    "promote": ({}, {"reasoning_effort": "none"}, [{"reasoning": "a"}], {"content": "c"}),
    "unknown_start": ({"starts_in": "reasoning"}, {}, [{"content": "a"}], {"reasoning": "r"}),
    "end_string": ({"reasoning_end_string": "Time is up."}, {}, [{"reasoning": "Time"}], {"reasoning": "s"}),
    "stop": ({}, {"stop": ["END"]}, [{"reasoning": "a"}, {"content": "a"}], {"content": "nswer"}),
    "tool_region": ({"dialect": HERMES}, TOOLS, [{"content": "<tool_call>"}], {"content": "x"}),
    "tool_region, of the engine": ({}, TOOLS, [own('{"n": 1')], own("}")),
}


@pytest.mark.parametrize("cause", HELD)
async def test_a_hold_is_counted_under_its_own_cause(cause: str) -> None:
    route, members, deltas, last = HELD[cause]
    cause = cause.partition(",")[0]
    turns: asyncio.Queue[bytes] = asyncio.Queue()

    async def script(talk: Talk) -> None:
        await talk.say(SSE)
        while True:
            await talk.say(await turns.get())

    async with engine(script) as upstream, contextlib.AsyncExitStack() as stack:
        routes = [{"upstream": upstream.url, "dialect": "think", **route}]
        front = await stack.enter_async_context(gateway("", routes=routes))
        client = await stack.enter_async_context(connected(front.url))
        client.send(asking(stream=True, **members))
        assert await eventually(lambda: bool(upstream.seen))
        for delta in deltas:
            turns.put_nowait(chunk(event(**delta)))
            for _ in range(2):  # by its answer the loop has read every socket: each delta is a read of its own
                await fetch(front.admin, get("/livez"))
        turns.put_nowait(chunk(event(**last)) + chunk(event("stop")) + chunk(DONE) + LAST_CHUNK)
        assert b"[DONE]" in (await client.answer()).body
        assert await front.counted("hold_releases_total", cause=cause)
        assert front.count("held_seconds_count", cause=cause) == 1
        others = [front.count("hold_releases_total", cause=hold.cause) for hold in HOLDS if hold.cause != cause]
        assert others == [0] * (len(HOLDS) - 1)


# ---------------------------------------------------------------- what was done beside the text


async def test_changes_of_a_request_are_counted_although_its_engine_refuses_it() -> None:
    turn = {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"}
    request = asking(messages=[{"role": "user", "content": "q"}, turn, {"role": "user", "content": "r"}])
    refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
    async with engine(saying(plain(b'{"error":{}}', refusal)), about=VLLM) as upstream:
        policy = {"request": {"history": "strip"}}
        routes = [{"upstream": upstream.url, "dialect": "think", "policy": policy}]
        async with gateway("", routes=routes, profile="full") as front:
            labels = {"model": "m", "protocol": "chat", "action": "history_stripped", "outcome": "ok"}
            assert front.server.metrics.registry.get_sample_value("integrity_remediations_total", labels) == 0
            assert (await fetch(front.url, request)).status == 400
            assert b"2 and 2" not in upstream.last.body
            assert await front.counted("remediations_total", **labels)
            assert front.count("remediation_rules_total", rule="history", action="history_stripped") == 1


async def test_tokens_that_spell_out_a_hidden_thought_are_counted_by_name() -> None:
    choice = {"index": 0, "message": {"content": "<think>t</think>a"}, "token_ids": [1, 2], "finish_reason": "stop"}
    answer = plain(json.dumps({"choices": [choice]}).encode())
    async with engine(saying(answer), about=VLLM) as upstream, gateway(upstream.url) as front:
        body = (await fetch(front.url, asking(include_reasoning=False))).body
        assert json.loads(body)["choices"][0]["message"]["content"] == "a"
        labels = {"model": "m", "protocol": "chat", "action": "withheld", "outcome": "ok"}
        assert await front.counted("remediations_total", **labels)
        assert front.count("remediation_rules_total", rule="token_ids", action="withheld") == 1
        assert front.count("suppressed_characters_total") == len("t")


# ---------------------------------------------------------------- why


async def explained(front_routes: list[dict[str, Any]], **members: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The report a client gets of a clean answer, and the route on `/rules`."""
    async with gateway("", routes=front_routes) as front:
        shown = json.loads((await fetch(front.admin, get("/rules"))).body)["routes"][0]
        answer = await fetch(front.url, asking("X-Integrity-Report: 1", **members))
        said = [json.loads(line[6:]) for line in answer.body.split(b"\n\n") if line.startswith(b'data: {"')]
        return said[-1]["integrity"], shown


CLEAN = SSE + b"".join(map(chunk, [event(content="a"), event("stop"), DONE])) + LAST_CHUNK


async def test_the_report_and_the_rules_page_say_the_same_of_what_auto_chose() -> None:
    async with engine(saying(CLEAN), about=VLLM) as upstream:
        report, shown = await explained([{"upstream": upstream.url}], stream=True, reasoning_effort="none")
    assert (report["dialect"], report["why"]["dialect"]) == (shown["dialect"], shown["why"])
    assert "m from Qwen/Qwen3-8B" in report["why"]["dialect"]
    assert (report["thinking"], report["why"]["thinking"]) == ("off", "reasoning_effort is none")


@pytest.mark.parametrize(("version", "rules"), [("0.32.0", ["stop_desync:deepseek_r1"]), ("0.34.0", []), (None, [])])
async def test_what_the_engine_says_of_itself_decides_whether_a_request_invites_its_known_bug(
    version: str | None, rules: list[str]
) -> None:
    about = {**VLLM, "/version": {"version": version}} if version else {}
    async with engine(saying(CLEAN), about=about) as upstream:
        routes = [{"upstream": upstream.url, "dialect": {"reasoning": "deepseek_r1"}}]
        report, _ = await explained(routes, stream=True, stop=["####"])
    assert [row["rule"] for row in report["findings"]] == rules


async def test_an_engine_that_was_replaced_is_known_by_its_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.engines.KNOWN_SECONDS", 0.01)
    about: dict[str, Any] = dict(VLLM)
    labels = {"engine": "vllm", "model": "m"}
    async with engine(saying(plain(b"{}")), about=about) as upstream, gateway(upstream.url) as front:
        assert front.count("upstream_info", version="0.32.0", **labels) == 1
        about["/version"] = {"version": "0.33.0"}
        assert await front.counted("upstream_info", version="0.33.0", **labels)
        assert (
            front.server.metrics.registry.get_sample_value("integrity_upstream_info", {"version": "0.32.0", **labels})
            is None
        )
