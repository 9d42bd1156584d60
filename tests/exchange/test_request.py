"""Requests are changed in profile full only, each change counted (contract sections 3 and 5)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.exchange import Overrides
from gateway.exchange.asking import NOTHING
from gateway.exchange.request import shaped_request
from gateway.findings import Finding
from gateway.integrity.tally import Tally
from gateway.policy import Mode, Profile
from tests.exchange.driver import chat, dialect, findings, opened, route

BROKEN = {"id": "c", "type": "function", "function": {"name": "w", "arguments": "{"}}
EMPTIED = BROKEN | {"function": {"name": "w", "arguments": "{}"}}
FIRST = {"role": "assistant", "content": "one", "reasoning": "r1"}
LAST = {"role": "assistant", "content": None, "reasoning": "r2", "tool_calls": [BROKEN]}
REQUEST = {"messages": [FIRST, {"role": "user", "content": "go on"}, LAST]}


def sent(name: str = "think", engine: str = "vllm", **policy: Any) -> list[dict[str, Any]]:
    """The assistant turns of `REQUEST` as the engine gets them."""
    exchange = opened(REQUEST, replace(route(name, **policy), engine=engine))
    return [turn for turn in json.loads(exchange.upstream_body)["messages"] if turn["role"] == "assistant"]


def reasoning(turns: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Their reasoning members."""
    return [{name: turn[name] for name in ("reasoning", "reasoning_content") if name in turn} for turn in turns]


@pytest.mark.parametrize(
    ("history", "name", "kept"),
    [
        ("auto", "harmony", [{}, {"reasoning": "r2"}]),  # gpt-oss: behind the last final answer
        ("auto", "kimi_k3", [{"reasoning": "r1"}, {"reasoning": "r2"}]),
        ("auto", "generic", [{"reasoning": "r1"}, {"reasoning": "r2"}]),  # no rule is known
        ("auto", "none", [{"reasoning": "r1"}, {"reasoning": "r2"}]),
        ("keep", "harmony", [{"reasoning": "r1"}, {"reasoning": "r2"}]),
        ("strip", "kimi_k3", [{}, {}]),
        ("tool_loop", "think", [{}, {"reasoning": "r2"}]),
        ("leave", "harmony", [{"reasoning": "r1"}, {"reasoning": "r2"}]),
    ],
)
def test_the_rule_is_the_familys_unless_the_policy_names_one(
    history: str, name: str, kept: list[dict[str, str]]
) -> None:
    assert reasoning(sent(name, history=history)) == kept


def turn(**members: str) -> dict[str, str]:
    return {"role": "assistant", **members}


THOUGHT, REPEAT = turn(content="<think>r</think>a"), turn(content="a", reasoning="a")
SPLIT = [turn(content="a", reasoning_content="r"), turn(content="a")]


@pytest.mark.parametrize(
    ("name", "history", "wanted"),
    [
        ("generic", "auto", [THOUGHT, turn(content="a", reasoning_content="a")]),
        ("qwen", "auto", SPLIT),
        ("generic", "keep", SPLIT),
        ("minimax_append", "auto", SPLIT),
    ],
)
def test_a_family_without_a_rule_has_its_reasoning_renamed_and_nothing_else(
    name: str, history: str, wanted: list[dict[str, Any]]
) -> None:
    request = {"messages": [THOUGHT, {"role": "user", "content": "go on"}, REPEAT]}
    exchange = opened(request, replace(route(name, history=history), engine="sglang"))
    assert [turn for turn in json.loads(exchange.upstream_body)["messages"] if turn["role"] == "assistant"] == wanted


@pytest.mark.parametrize(
    ("engine", "field"), [("vllm", "reasoning"), ("sglang", "reasoning_content"), ("auto", "reasoning")]
)
def test_the_name_is_the_engines_where_the_engine_is_known(engine: str, field: str) -> None:
    assert reasoning(sent(engine=engine)) == [{field: "r1"}, {field: "r2"}]


def test_a_leave_changes_nothing_at_all() -> None:
    exchange = opened(REQUEST, route(history="leave"))
    assert json.loads(exchange.upstream_body) == {"model": "m", **REQUEST}
    assert (findings(exchange), dict(exchange.tally.request)) == ({}, {})


@pytest.mark.parametrize("profile", [Profile.OBSERVE, Profile.REPAIR])
def test_below_full_no_request_is_changed(profile: Profile) -> None:
    body = json.dumps(REQUEST).encode()
    exchange = opened(body, route(profile=profile, history="strip"))
    assert exchange.upstream_body is body
    assert opened(body, route(history="strip"), Overrides(observe=True)).upstream_body is body


def test_every_change_is_counted() -> None:
    exchange = opened(REQUEST, replace(route(history="tool_loop"), engine="sglang"))
    assert dict(exchange.tally.request) == {"stripped": 1, "renamed": 1}
    assert exchange.tally.report() == [
        {"finding": "tool_args_invalid", "action": "emptied", "count": 1, "where": "request"}
    ]


@pytest.mark.parametrize(
    ("mode", "calls", "counted"),
    [
        (Mode.ENFORCE, EMPTIED, {"tool_args_invalid/emptied": 1}),
        (Mode.OBSERVE, BROKEN, {"tool_args_invalid/would_empty": 1}),
        (Mode.OFF, BROKEN, {}),
    ],
)
def test_broken_arguments_follow_the_mode_of_their_finding(mode: Mode, calls: Any, counted: dict[str, int]) -> None:
    exchange = opened(REQUEST, route(findings={Finding.TOOL_ARGS_INVALID: mode}))
    assert json.loads(exchange.upstream_body)["messages"][2]["tool_calls"] == [calls]
    assert findings(exchange) == counted


def test_a_fault_of_ours_sends_what_the_client_sent() -> None:
    body = b"no JSON"
    rules = route(read_as=dialect("think"))
    tally = Tally(rules.policy)
    assert shaped_request(body, protocol=chat(), rules=rules, policy=rules.policy, asking=NOTHING, tally=tally) is body
    assert dict(tally.uninspected) == {"request_internal": 1}
