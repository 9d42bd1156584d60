"""One reader behind every way out (reader_spec 4.2): an answer is the same pair streamed, at any cut, and plain.

What the engine gives is the raw text here (`source: text`), or its own split, with the closers left in a field.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.test_truth_table import ME, OFF, RE, TRUTH_TABLE
from tests.support.chat import SHOWS_REASONING, Delta, Route, streamed, text, whole
from tests.support.reader import cut

FIELDS = Route("kimi_k3")
FINISH = {True: "stop", False: "length"}


@pytest.mark.parametrize(("row", "raw", "thinking", "endings", "reasoning", "content"), TRUTH_TABLE)
def test_the_truth_table_holds_streamed_and_plain(
    row: int, raw: str, thinking: bool, endings: tuple[bool, ...], reasoning: str, content: str
) -> None:
    route = Route({"reasoning": "kimi_k3"}, source="text", starts_in="content" if thinking is OFF else "reasoning")
    for stopped in endings:
        finish = FINISH[stopped]
        assert whole(route, {"content": raw}, finish=finish) == (reasoning, content), (row, finish)
        for size in (5, len(raw)) if len(raw) < 2_000 else (1_000,):
            got = streamed(route, [(0, {"content": piece}) for piece in cut(raw, size)], finish=finish)[0]
            assert (text(got, "reasoning"), text(got, "content")) == (reasoning, content), (row, finish, size)


@pytest.mark.parametrize("route", [FIELDS, Route("kimi_k3", source="text", starts_in="reasoning")])
def test_a_replay_is_no_repeat(route: Route) -> None:  # D9
    field = "content" if route.source == "text" else "reasoning"
    deltas = [(0, {field: piece}) for piece in ("Reply.", RE, ME)]
    got = streamed(route, deltas, finish="stop", request=SHOWS_REASONING)[0]
    assert (text(got, "reasoning"), text(got, "content")) == ("Reply.", "Reply.")
    assert whole(route, {field: f"Reply.{RE}{ME}"}, finish="stop", request=SHOWS_REASONING) == ("Reply.", "Reply.")


THINK = Route("think")
REPEAT: list[tuple[int, Delta]] = [(0, {"reasoning": "So be it."}), (0, {"content": "So be"}), (0, {"content": " it."})]
JSON = {"response_format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("request_", "finish", "suppressed"),
    [
        (SHOWS_REASONING, "stop", True),
        ({"thinking": {"type": "enabled"}}, "stop", True),
        (SHOWS_REASONING, "length", False),
        ({}, "stop", False),
        ({"include_reasoning": False}, "stop", False),
        ({"reasoning_effort": "none"}, "stop", False),
        (SHOWS_REASONING | JSON, "stop", False),
        (SHOWS_REASONING | {"tool_choice": "required"}, "stop", False),
    ],
)
def test_a_repeat_is_suppressed_only_where_its_reasoning_was_asked_for_and_nothing_else_was(
    request_: dict[str, Any], finish: str, suppressed: bool
) -> None:
    content = "" if suppressed else "So be it."
    assert text(streamed(THINK, REPEAT, finish=finish, request=request_)[0], "content") == content
    message = {"reasoning": "So be it.", "content": "So be it."}
    assert whole(THINK, message, finish=finish, request=request_)[1] == content


CALLED = (0, {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})


@pytest.mark.parametrize(("content", "visible"), [("So be", "So be"), ("So be it.", "")])
def test_a_tool_call_decides_whether_the_answer_before_it_is_a_repeat(content: str, visible: str) -> None:  # D10
    deltas = [REPEAT[0], (0, {"content": content}), CALLED, (0, {"content": "x"})]
    got = streamed(THINK, deltas, finish="tool_calls", request=SHOWS_REASONING)[0]
    assert text(got, "content") == f"{visible}x"
    assert [field for field, _ in got].count("tool_calls") == 1


def test_each_choice_is_compared_with_its_own_reasoning() -> None:
    deltas = [
        *((0, {"reasoning": "a"}), (1, {"reasoning": "b"})),
        *((0, {"content": "b"}), (1, {"content": "b"})),
    ]
    got = streamed(THINK, deltas, finish="stop", request=SHOWS_REASONING)
    assert [text(got[index], "content") for index in (0, 1)] == ["b", ""]


def test_reasoning_around_dropped_framing_goes_out_in_one_piece() -> None:  # truth table, row 28
    got = streamed(FIELDS, [(0, {"reasoning": "aa<|end_of_msg|>bb"})], finish="stop")[0]
    assert got == [("reasoning", "aabb")]
