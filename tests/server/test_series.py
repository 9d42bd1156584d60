"""Which series a configuration rules out, and that nothing is counted under a label that was not foreseen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.findings import Finding
from gateway.rulebook.dialect import Dialect, Kind, Thought
from gateway.server.catalogue import ACTIONS
from gateway.server.config import Route, config_from_mapping
from gateway.server.series import findings_of, holds_of, remedies_of

MARKERS = {"reasoning_leak", "boundary_token", "special_token", "role_token"}
RESCUED = {"tool_rescued"}
OFF = {"content": "off", "reasoning": "off", "markerless": "off"}
PARSERS = {"reasoning": "qwen3", "tools": "hermes"}


def route(*, profile: str = "repair", **keys: Any) -> Route:
    data = {"profile": profile, "routes": [{"upstream": "http://127.0.0.1:1", "dialect": PARSERS, **keys}]}
    return config_from_mapping(data, source="test").routes[0]


@pytest.mark.parametrize(
    ("keys", "missing"),
    [
        ({}, set()),
        ({"profile": "full"}, set()),
        ({"dialect": {"reasoning": "qwen3"}}, RESCUED),
        ({"policy": {"tool_rescue": OFF}}, RESCUED),
        ({"policy": {"tool_rescue": {**OFF, "reasoning": "observe"}}}, set()),
        ({"dialect": "none"}, MARKERS | RESCUED),  # the engine's own calls are checked on every route
        ({"policy": {"findings": {"truncated": "off"}}}, {"truncated"}),
        ({"policy": {"findings": {"truncated": "observe"}}}, set()),
    ],
)
def test_a_finding_that_is_off_or_has_nothing_to_be_found_in_is_not_foreseen(
    keys: dict[str, Any], missing: set[str]
) -> None:
    assert set(Finding) - findings_of(route(**keys)) == missing


def test_a_remedy_is_foreseen_for_each_finding_and_action() -> None:
    found = {(rule, action) for rule, action, outcome in remedies_of(route(profile="full")) if outcome == "ok"}
    assert {(str(finding), action) for finding, actions in ACTIONS.items() for action in actions} <= found


# Members of an answer that spell its text: of both engines, of SGLang (sglang.md 3.1), of vLLM (vllm.md 3.5).
TOKENS = ("logprobs", "token_ids", "response_token_ids", "meta_info", "hidden_states", "sglext", "output_messages")


@pytest.mark.parametrize(
    ("profile", "dialect", "rest"),
    [
        ("repair", "think", {(name, "withheld", "ok") for name in TOKENS}),
        ("observe", "think", set()),
        ("observe", "kimi_k3", {("answer_in_reasoning", "replayed", "capped")}),
        ("observe", "none", set()),
    ],
)
def test_requests_hidden_tokens_and_replays_have_remedies_of_their_own(
    profile: str, dialect: str, rest: set[tuple[str, str, str]]
) -> None:
    usual = {(str(finding), action, "ok") for finding, actions in ACTIONS.items() for action in actions}
    assert remedies_of(route(profile=profile, dialect=dialect)) - usual == rest


def test_only_a_route_that_shapes_requests_has_changes_of_its_history() -> None:
    changes = {action for rule, action, _ in remedies_of(route(profile="full")) if rule == "history"}
    assert changes == {"history_renamed", "history_stripped", "history_split", "history_repeat_dropped"}
    usual = {rule: action for rule, action, _ in remedies_of(route())}
    assert "history" not in usual and "emptied" not in usual.values()


AS_THEY_COME = {"tool_rescue": {"stream": "incremental"}}
UNCHECKED = {"findings": {"tool_args_repaired": "observe", "tool_name_repaired": "off"}}
USUAL = {"marker", "quoted_end", "header", "tool_region", "dedup", "promote", "unknown_start", "stop"}


@pytest.mark.parametrize(
    ("keys", "causes"),
    [
        ({}, USUAL),
        # analysis is never the answer, and no last turn tells where an answer goes on
        ({"dialect": "harmony"}, USUAL - {"promote", "unknown_start", "stop"}),
        ({"dialect": {"reasoning": "qwen3"}}, USUAL),  # the engine's own calls are held until they are checked
        ({"dialect": "none"}, {"dedup", "tool_region"}),
        ({"dialect": {"reasoning": "qwen3"}, "policy": AS_THEY_COME}, USUAL - {"tool_region"}),
        ({"dialect": {"reasoning": "qwen3"}, "policy": UNCHECKED}, USUAL - {"tool_region"}),
        ({"policy": UNCHECKED}, USUAL),
        ({"profile": "observe"}, set()),
        ({"reasoning_end_string": "Time is up."}, USUAL | {"end_string"}),
        ({"starts_in": "reasoning", "dialect": "harmony"}, USUAL - {"promote", "stop"}),
        ({"source": "text"}, USUAL - {"unknown_start", "stop"}),
        ({"engine": "sglang"}, USUAL - {"stop"}),
        ({"policy": {"findings": {"reasoning_leak": "observe"}}}, USUAL - {"stop"}),
        ({"policy": {"dedup": {"enabled": False}}}, USUAL - {"dedup"}),
        ({"policy": {"findings": {"duplicate_suppressed": "observe"}}}, USUAL - {"dedup"}),
        ({"policy": {"promote_reasoning": "never"}}, USUAL - {"promote"}),
        ({"policy": {"findings": {"answer_in_reasoning": "off"}}}, USUAL - {"promote"}),
        ({"policy": {"reasoning_field": "none"}}, USUAL - {"dedup", "promote"}),
    ],
)
def test_a_hold_is_foreseen_where_text_may_wait(keys: dict[str, Any], causes: set[str]) -> None:
    assert holds_of(route(**keys)) == causes


def test_no_late_seam_is_foreseen_of_a_parser_that_was_seen_to_cut_in_time() -> None:
    known = route(engine="vllm", dialect={"reasoning": "qwen3"})
    assert "stop" in holds_of(known)  # of which version it is has not been told
    assert "stop" not in holds_of(replace(known, rules=replace(known.rules, engine_version="0.32.0")))


def test_no_header_and_no_call_is_waited_for_where_the_dialect_has_none() -> None:
    thought = Thought(open=("<t>",), close=("</t>",))
    headless = Dialect(name="headless", summary="", kind=Kind.TAG, aliases={}, thoughts=(thought,))
    made = route(policy=AS_THEY_COME)
    assert holds_of(replace(made, rules=replace(made.rules, dialect=headless))) == USUAL - {"header", "tool_region"}


def test_a_route_that_reads_models_in_two_ways_foresees_both() -> None:
    harmony, none = route(dialect="harmony"), route(dialect="none")
    both = replace(none, by_model={"m": harmony})
    assert holds_of(both) == holds_of(harmony)
    assert findings_of(both) == findings_of(harmony)
