"""The admin listener: what it answers, what it does not, and what it never shows."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.gateways import gateway
from tests.support.http import fetch, get, post
from tests.support.upstream import engine, plain, saying, stalling


async def test_alive_whatever_the_engine_does() -> None:
    async with engine(stalling) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.admin, get("/livez"))
        assert (answer.status, answer.body, upstream.seen) == (200, b"ok\n", [])


@pytest.mark.parametrize(("status", "is_ready"), [(200, True), (404, True), (401, True), (500, False), (503, False)])
async def test_ready_when_an_engine_answers(status: int, is_ready: bool) -> None:
    async with engine(saying(plain(b"", b"HTTP/1.1 %d X\r\n" % status))) as upstream, gateway(upstream.url) as front:
        assert (await fetch(front.admin, get("/readyz"))).status == (200 if is_ready else 503)
        assert upstream.last.start == "GET /health HTTP/1.1"
        assert front.count("upstream_requests_total", attempt="1", outcome="ok") == 0


async def test_not_ready_without_an_engine() -> None:
    async with engine(saying(plain(b""))) as upstream:
        url = upstream.url
    async with gateway(url) as front:
        answer = await fetch(front.admin, get("/readyz"))
        assert (answer.status, answer.body) == (503, b"no engine answers\n")


async def test_not_ready_when_the_engine_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.health.PROBE_SECONDS", 0.05)
    async with engine(stalling) as upstream, gateway(upstream.url) as front:
        assert (await fetch(front.admin, get("/readyz"))).status == 503


async def test_ready_when_one_of_several_engines_answers() -> None:
    async with (
        engine(saying(plain(b"", b"HTTP/1.1 503 X\r\n"))) as one,
        engine(saying(plain(b""))) as two,
        gateway([one.url, two.url]) as front,
    ):
        assert (await fetch(front.admin, get("/readyz"))).status == 200


async def test_many_probes_cost_the_engine_one_request() -> None:
    async with engine(saying(plain(b""))) as upstream, gateway(upstream.url) as front:
        answers = await asyncio.gather(*(fetch(front.admin, get("/readyz")) for _ in range(10)))
        assert ({answer.status for answer in answers}, len(upstream.seen)) == ({200}, 1)


async def test_readiness_follows_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """D19"""
    monkeypatch.setattr("gateway.server.health.REMEMBERED_SECONDS", 0)
    sick = saying(plain(b"", b"HTTP/1.1 503 X\r\n"))
    async with engine(saying(plain(b"")), sick, saying(plain(b""))) as upstream, gateway(upstream.url) as front:
        assert [(await fetch(front.admin, get("/readyz"))).status for _ in range(3)] == [200, 503, 200]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version="),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text; version=1.0.0"),
    ],
)
async def test_metrics_come_in_the_format_that_is_accepted(accept: str, kind: str) -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        await fetch(front.url, get())
        answer = await fetch(front.admin, get("/metrics", f"Accept: {accept}"))
        assert (answer.get("content-type") or "").startswith(kind)
        assert b'integrity_http_requests_total{code="200",route="other"} 1.0' in answer.body
        assert b"integrity_draining 0.0" in answer.body
        assert b"process_open_fds" in answer.body


async def test_rules_say_what_each_route_reads_and_why() -> None:
    routes = [
        {"match": {"models": ["a"]}, "upstream": "http://127.0.0.1:1", "dialect": "think"},
        {"match": {"models": ["b"]}, "upstream": "http://127.0.0.2:1", "dialect": "none"},
    ]
    async with gateway("", routes=routes, profile="observe") as front:
        shown = json.loads((await fetch(front.admin, get("/rules"))).body)
        assert [(row["route"], row["dialect"], row["profile"]) for row in shown["routes"]] == [
            ("a", "think", "observe"),
            ("b", "none", "observe"),
        ]
        assert all(row["why"] for row in shown["routes"])
        assert set(shown) == {"version", "rules_digest", "routes", "engines"}


async def test_rules_say_what_auto_chose_for_each_model_and_which_engine_said_so() -> None:
    models = [{"id": "a", "root": "Qwen/Qwen3-8B"}, {"id": "b", "root": "openai/gpt-oss-20b"}]
    about = {"/v1/models": {"data": models}, "/version": {"version": "0.32.0"}}
    async with (
        engine(saying(plain(b"{}")), about=about) as upstream,
        gateway("", routes=[{"upstream": upstream.url}]) as front,
    ):
        shown = json.loads((await fetch(front.admin, get("/rules"))).body)
        assert shown["engines"] == [{"engine": "vllm", "version": "0.32.0", "models": ["a", "b"]}]
        (route,) = shown["routes"]
        assert (route["dialect"], route["engine"]) == ("generic", "vllm")
        assert route["models"]["b"]["dialect"] == "harmony"
        assert "openai/gpt-oss-20b" in route["models"]["b"]["why"]


async def test_rules_name_the_known_faults_of_each_route_s_engine_as_it_runs() -> None:
    about = {"/v1/models": {"data": [{"id": "m"}]}, "/version": {"version": "0.28.0"}}
    async with engine(saying(plain(b"{}")), about=about) as upstream:
        routes = [
            {"match": {"models": ["a"]}, "upstream": upstream.url, "dialect": {"reasoning": "kimi_k3"}},
            {"match": {"models": ["b"]}, "upstream": upstream.url, "dialect": {"tools": "qwen3_xml"}},
            {
                "match": {"models": ["c"]},
                "upstream": "http://127.0.0.3:1",
                "engine": "sglang",
                "dialect": {"reasoning": "kimi_k3"},
            },
            {"upstream": "http://127.0.0.4:1", "engine": "other", "dialect": "think"},
        ]
        async with gateway("", routes=routes) as front:
            shown = json.loads((await fetch(front.admin, get("/rules"))).body)["routes"]
    assert [route["faults"] for route in shown] == [
        ["stop-desync-kimi-k3", "stop-in-thought", "mixed-chunk"],
        ["stop-in-thought", "tool-parser-eats-closer", "mixed-chunk"],
        ["sglang-kimi-k3-replay"],
        [],
    ]


async def test_rules_name_the_known_faults_of_each_model_of_an_engine() -> None:
    models = [{"id": "a", "root": "Qwen/Qwen3-8B"}, {"id": "b", "root": "openai/gpt-oss-20b"}]
    about = {"/v1/models": {"data": models}, "/version": {"version": "0.32.0"}}
    async with (
        engine(saying(plain(b"{}")), about=about) as upstream,
        gateway("", routes=[{"upstream": upstream.url}]) as front,
    ):
        (route,) = json.loads((await fetch(front.admin, get("/rules"))).body)["routes"]
    assert {model: shown["faults"] for model, shown in route["models"].items()} == {
        "a": ["stop-in-thought", "mixed-chunk"],
        "b": ["stop-in-thought", "mixed-chunk"],
    }
    assert [shown["asks"] for shown in route["models"].values()] == [{}, {}]


@pytest.mark.parametrize(
    ("changes", "r1", "xonly"),
    [
        ({"profile": "full"}, {"stop-desync": "in_step"}, {"tool-parser-eats-closer": "tokens"}),
        ({"profile": "repair"}, {}, {}),
        ({"profile": "observe"}, {}, {}),
        ({"profile": "full", "policy": {"request": {"stop": "engine"}}}, {}, {"tool-parser-eats-closer": "tokens"}),
        ({"profile": "full", "policy": {"request": {"tokens": "never"}}}, {"stop-desync": "in_step"}, {}),
    ],
)
async def test_rules_say_for_which_faults_auto_asks_the_engine_otherwise(
    changes: dict[str, Any], r1: dict[str, str], xonly: dict[str, str]
) -> None:
    about = {"/v1/models": {"data": [{"id": "m"}]}, "/version": {"version": "0.28.0"}}
    async with engine(saying(plain(b"{}")), about=about) as upstream:
        routes = [
            {"match": {"models": ["a"]}, "upstream": upstream.url, "dialect": {"reasoning": "deepseek_r1"}},
            {"match": {"models": ["b"]}, "upstream": upstream.url, "dialect": {"tools": "qwen3_xml"}},
        ]
        async with gateway("", routes=routes, **changes) as front:
            shown = json.loads((await fetch(front.admin, get("/rules"))).body)["routes"]
    assert [route["asks"] for route in shown] == [r1, xonly]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), 404),
        (get("/v1/models"), 404),
        (get("/metrics/"), 404),
        (post(b"", target="/metrics"), 405),
        (post(b"", target="/readyz"), 405),
        (b"DELETE /drain HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        (b"HEAD /drain HTTP/1.1\r\nHost: h\r\n\r\n", 405),
    ],
)
async def test_nothing_else_is_there(request_bytes: bytes, status: int) -> None:
    """F16"""
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        assert (await fetch(front.admin, request_bytes)).status == status
        assert upstream.seen == []
