"""What route, request and protocol come to: whether the model thinks, where text starts, who may cut a thought late.

Facts of parsers: reference/vllm.md 4.1 and `rules/engines`. What the pipeline makes of a setting: `test_reading.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.exchange import RouteRules
from gateway.exchange.settings import late_parser, may_lag, setting_of, thinking_of
from gateway.findings import Finding
from gateway.integrity.setting import Setting, StopWindow
from gateway.policy import ReasoningField
from gateway.rulebook.load import load_rulebook
from tests.exchange.driver import chat, route

FAULTS = load_rulebook().faults
STOPS = {"stop": ["Observation:"], "stream": True}


def rules(parser: str = "deepseek_r1", *, engine: str = "vllm", version: str = "0.32.0", **keys: Any) -> RouteRules:
    """A route of an engine that is known."""
    return replace(route(**keys), parser=parser, engine=engine, engine_version=version, faults=FAULTS)


def setting(
    made: RouteRules, *, raw_text: bool = False, raw: bool = False, late: str | None = None, **request: Any
) -> Setting:
    facts = chat().facts(request)
    thinking = thinking_of(facts, made)
    return setting_of(
        facts,
        made,
        made.policy,
        body=b"{}",
        thinking=thinking,
        raw_text=raw_text,
        raw=raw,
        atoms=frozenset(),
        late=late,
    )


@pytest.mark.parametrize(
    ("default", "request_", "thinking"),
    [
        ("auto", {}, ("unknown", "no member says it")),
        ("on", {}, ("on", "the route's thinking_default is on")),
        ("on", {"reasoning_effort": "none"}, ("off", "reasoning_effort is none")),
    ],
)
def test_the_request_says_whether_the_model_thinks_and_else_the_route(
    default: str, request_: dict[str, Any], thinking: tuple[str, str]
) -> None:
    assert thinking_of(chat().facts(request_), route(thinking_default=default)) == thinking


@pytest.mark.parametrize(
    ("made", "request_", "endpoint", "found"),
    [
        (rules(), STOPS, "chat", "deepseek_r1"),
        (rules("vllm/deepseek_r1", engine="auto"), STOPS, "responses", "deepseek_r1"),
        (rules(), STOPS | {"stream": False}, "chat", None),  # a plain answer is cut right
        (rules(), {"stream": True}, "chat", None),
        (rules(), STOPS | {"include_stop_str_in_output": True}, "chat", None),
        (rules(), STOPS, "completions", None),
        (rules("qwen3"), STOPS, "chat", None),
        (rules(version="9.9.0"), STOPS, "chat", None),
    ],
)
def test_a_parser_that_cuts_late_is_told_where_the_request_invites_it(
    made: RouteRules, request_: dict[str, Any], endpoint: str, found: str | None
) -> None:
    facts = chat().facts(request_)
    assert late_parser(facts, made, endpoint=endpoint, asked=False, unread=False) == found
    assert late_parser(facts, made, endpoint=endpoint, asked=False, unread=True) is None


@pytest.mark.parametrize(
    ("made", "lags"),
    [
        (rules(), True),
        (rules("", version=""), True),  # which parser runs is not known
        (rules("qwen3"), False),
        (rules("qwen3", version=""), True),
        (rules(engine="sglang"), False),
        (rules(source="text"), False),
        (replace(rules(), dialect=None), False),
    ],
)
def test_an_engine_may_lag_unless_it_is_known_not_to(made: RouteRules, lags: bool) -> None:
    assert may_lag(made) is lags


def test_the_window_is_that_of_the_longest_stop_string() -> None:
    window = setting(rules(), late="deepseek_r1", stop=["ab", "Observation:"]).stop_window
    assert window == StopWindow(longest=12, closers=("</think>",), openers=("<think>",), desync=True)
    for request in ({"stop": "."}, {"stop": "ab", "include_stop_str_in_output": True}):
        assert setting(rules(), **request).stop_window is None
    assert setting(rules(), raw=True, stop="ab").stop_window is None
    off = setting(rules(), late="deepseek_r1", stop="ab", reasoning_effort="none").stop_window
    assert off is not None and not off.desync


@pytest.mark.parametrize(
    ("starts_in", "family", "raw", "raw_text", "open_"),
    [
        ("reasoning", "think", True, False, True),
        ("content", "think", True, False, False),
        ("auto", "mm", True, False, True),  # the family's own start, of raw text
        ("auto", "mm", False, True, True),
        ("auto", "mm", False, False, False),
    ],
)
def test_raw_text_starts_where_the_route_says_and_else_where_the_family_does(
    starts_in: str, family: str, raw: bool, raw_text: bool, open_: bool
) -> None:
    made = rules(starts_in=starts_in)
    assert made.dialect
    if family == "mm":
        made = replace(made, dialect=replace(made.dialect, starts_in="reasoning"))
    assert setting(made, raw=raw, raw_text=raw_text).starts_open is open_


def test_text_that_the_client_wants_whole_is_not_read_unless_reasoning_is_hidden() -> None:
    whole = {"separate_reasoning": False}
    assert setting(rules(), **whole).grammar is None
    assert setting(rules(reasoning_field=ReasoningField.NONE), **whole).grammar is not None


def test_a_preamble_is_looked_for_before_structured_output_only() -> None:
    made = replace(rules(), openings=load_rulebook().openings)
    asked: dict[str, Any] = {"response_format": {"type": "json_object"}}
    for request, found in (({}, False), (asked, True)):
        openings = setting(made, **request).openings
        assert any(opening.finding is Finding.PREAMBLE for opening in openings) is found
