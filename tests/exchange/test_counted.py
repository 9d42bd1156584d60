"""What is only counted: the same findings streamed and plain, in full and in observe (contract section 4)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.exchange import Overrides
from gateway.findings import Finding
from gateway.policy import Mode, Profile
from gateway.rulebook.load import load_rulebook
from tests.exchange.driver import DONE, Answer, chunk, delta, message, plain, route, streamed

OPENINGS = load_rulebook().openings
JSON_WANTED = {"response_format": {"type": "json_object"}}
USAGE = {"total_tokens": 7, "prompt_tokens": 3, "completion_tokens": 4}
USAGE_ASKED = {"stream": True, "stream_options": {"include_usage": True}}
LOOP = "I must check it again.\n" * 200


def answers(
    request: dict[str, Any],
    finish: str = "stop",
    *,
    profile: Profile = Profile.REPAIR,
    policy: Any = None,
    **fields: str,
) -> list[Answer]:
    """The answer that says `fields`: whole, and streamed a few characters at a time."""
    rules = replace(route("think", profile=profile, **(policy or {})), openings=OPENINGS)
    cut = [(name, text[at : at + 5]) for name, text in fields.items() for at in range(0, len(text), 5)]
    reads = [*(delta(**{name: text}) for name, text in cut), delta(finish=finish), DONE]
    whole = plain(message(finish, **fields), rules, request=request)
    return [whole, streamed(reads, rules, request=request)]


COUNTED: list[tuple[dict[str, Any], str, dict[str, str], dict[str, str]]] = [
    ({}, "stop", {"content": "a\ufffd\ufffdb"}, {"finding": "unicode_replacement", "where": "content"}),
    ({}, "stop", {"reasoning": "\ufffd", "content": "b"}, {"finding": "unicode_replacement", "where": "reasoning"}),
    (
        {}, "stop", {"content": "Okay, so the user is asking for a poem. Roses are red."},
        {"finding": "suspect_reasoning", "where": "content", "rule": "thought_en"},
    ),
    (
        JSON_WANTED, "stop", {"reasoning": "t", "content": "Sure, here is the JSON: {}"},
        {"finding": "preamble", "where": "content", "rule": "preamble_en"},
    ),
    (
        {"stop": ["\n\n"]}, "stop", {"content": "a"},
        {"finding": "request_lint", "where": "request", "rule": "stop_white_space"},
    ),
    (
        {"stop": "think>"}, "stop", {"content": "a"},
        {"finding": "request_lint", "where": "request", "rule": "stop_in_marker"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("profile", [Profile.FULL, Profile.REPAIR, Profile.OBSERVE])
@pytest.mark.parametrize(("request_", "finish", "fields", "row"), COUNTED)
def test_a_sign_is_flagged_and_changes_nothing(
    request_: dict[str, Any], finish: str, fields: dict[str, str], row: dict[str, str], profile: Profile
) -> None:
    for answer in answers(request_, finish, profile=profile, **fields):
        assert answer.exchange.tally.report() == [{"action": "flagged", "count": 1, **row}]
        assert answer.said == (fields.get("reasoning", ""), fields["content"])


@pytest.mark.parametrize(("request_", "finish", "fields", "row"), COUNTED)
def test_a_sign_that_is_off_is_not_counted(
    request_: dict[str, Any], finish: str, fields: dict[str, str], row: dict[str, str]
) -> None:
    policy = {"findings": {Finding(row["finding"]): Mode.OFF}}
    for answer in answers(request_, finish, profile=Profile.FULL, policy=policy, **fields):
        assert answer.findings == {}


@pytest.mark.parametrize("where", ["reasoning", "content"])
def test_an_answer_that_ends_in_a_loop_is_truncated_and_degenerate(where: str) -> None:
    for answer in answers({}, "length", **{where: LOOP}):
        rows = {row["finding"]: row["where"] for row in answer.exchange.tally.report()}
        assert rows == {"truncated": where, "degenerate": where}


def test_cumulative_text_goes_out_as_it_came_and_is_suspect() -> None:
    texts = ["New", "New York", "New York is in", "New York is in the US."]  # NVIDIA/TensorRT-LLM #3280
    answer = streamed([*(delta(content=text) for text in texts), delta(finish="stop"), DONE])
    assert answer.said == ("", "".join(texts))
    assert answer.exchange.tally.report() == [
        {"finding": "duplicate_suspect", "action": "flagged", "count": 1, "where": "content", "rule": "cumulative"}
    ]


@pytest.mark.parametrize(
    ("request_", "content"),
    [
        ({}, "Sure, here is the JSON: {}"),  # no structure was promised
        (JSON_WANTED, '{"sure": 1}'),
        ({}, "Okay, here is the poem."),
        ({"separate_reasoning": False}, "Okay, so the user is asking."),  # the client asked for the thought in the text
        ({"stop": ["\n\n"], "reasoning_effort": "none"}, "a"),  # there is no thought to stop in
        ({"stop": ["Observation:"]}, "a"),
    ],
)
def test_what_is_no_sign_is_not_counted(request_: dict[str, Any], content: str) -> None:
    for answer in answers(request_, profile=Profile.FULL, content=content):
        assert answer.findings == {}


# ---------------------------------------------------------------------- usage


STREAM = [delta(content="a"), delta(finish="stop")]
TOLD = chunk([], usage=USAGE)


@pytest.mark.parametrize(
    ("reads", "missing"),
    [
        ([*STREAM, DONE], True),
        ([*STREAM], True),  # an engine that sends no [DONE]
        ([*STREAM, chunk([], usage=None), DONE], True),
        ([*STREAM, TOLD, DONE], False),
        ([delta(content="a"), chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}], usage=USAGE), DONE], False),
        ([delta(content="a"), b'data: {"error":{"message":"m"}}\n\n', DONE], False),  # it did not end normally
    ],
)
def test_usage_that_was_asked_for_and_never_came_is_missing(reads: list[bytes], missing: bool) -> None:
    answer = streamed(reads, request=USAGE_ASKED)
    assert ("usage_missing/flagged" in answer.findings) is missing
    assert "usage_missing/flagged" not in streamed(reads, request={"stream": True}).findings


def test_a_stream_that_broke_off_owes_no_usage() -> None:
    assert "usage_missing/flagged" not in streamed([delta(content="a")], request=USAGE_ASKED).findings


def test_the_report_before_the_terminal_event_has_it() -> None:
    answer = streamed([*STREAM, DONE], request=USAGE_ASKED, overrides=Overrides(report=True))
    assert [row["finding"] for row in answer.events[-2]["integrity"]["findings"]] == ["usage_missing"]


# ---------------------------------------------------------------------- an empty list of tool calls (openclaw #61534)


@pytest.mark.parametrize(("profile", "kept"), [(Profile.FULL, False), (Profile.REPAIR, False), (Profile.OBSERVE, True)])
@pytest.mark.parametrize("field", [{}, {"reasoning_field": "as_upstream"}])
def test_an_empty_list_of_tool_calls_is_left_out_without_a_finding(
    profile: Profile, kept: bool, field: dict[str, str]
) -> None:
    fields: dict[str, Any] = {"reasoning": "r", "content": "4", "tool_calls": []}
    whole = plain(message(**fields), route(profile=profile, **field))
    stream = streamed([delta(**fields), delta(finish="stop", tool_calls=[]), DONE], route(profile=profile, **field))
    assert ("tool_calls" in json.loads(whole.body)["choices"][0]["message"]) is kept
    assert (b"tool_calls" in stream.body) is kept
    assert whole.said == stream.said == ("r", "4")
    assert whole.findings == {}


# ---------------------------------------------------------------------- a client that asked for no reasoning


def test_a_thought_in_the_content_is_hidden_from_a_client_that_asked_for_none() -> None:
    for answer in answers({"include_reasoning": False}, content="<think>t</think>4"):
        assert answer.said == ("", "4")
        assert answer.findings == {"reasoning_leak/hidden": 1, "boundary_token/stripped": 2}


def test_a_content_that_comes_first_is_not_held_for_a_client_that_asked_for_no_reasoning() -> None:
    rules = route(starts_in="reasoning")
    body = delta(content="Hi.")
    for request, out in (({"include_reasoning": False}, body), ({}, b"")):
        exchange = streamed([], rules, request=request).exchange
        exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
        assert exchange.data(body) == out


# ---------------------------------------------------------------------- stop strings, the end of the budget


@pytest.mark.parametrize("member", ["stop_reason", "matched_stop"])
def test_a_stop_string_that_fired_in_the_thought_is_told(member: str) -> None:
    end = chunk([{"index": 0, "delta": {}, "finish_reason": "stop", member: "END"}])
    answer = streamed([delta(reasoning="t"), end, DONE], request={"stop": ["END"]})
    assert answer.findings == {"empty_response/flagged": 1, "stop_in_reasoning/flagged": 1}
    assert streamed([delta(content="a"), end, DONE], request={"stop": ["END"]}).findings == {}


def test_the_end_string_of_the_route_is_no_text_at_the_boundary() -> None:
    rules = replace(route("think"), reasoning_end_string="Time is up.</think>")
    for split in (["I add. Time is", " up."], list("I add. Time is up.")):
        reads = [*(delta(reasoning=text) for text in split), delta(content="42"), delta(finish="stop"), DONE]
        answer = streamed(reads, rules)
        assert (answer.said, answer.findings) == (("I add. ", "42"), {"boundary_token/stripped": 1})
    assert plain(message(reasoning="I add. Time is up.", content="42"), rules).said == ("I add. ", "42")


def test_the_text_of_the_end_string_inside_the_reasoning_is_the_models() -> None:
    rules = replace(route("think"), reasoning_end_string="Time is up.</think>")
    said = "Time is up. No, wait.", "42"
    assert plain(message(reasoning=said[0], content=said[1]), rules).said == said
