"""Chat answers of which the gateway matches the stop strings, streamed and plain.

What is pinned: a stop string counts in the content, across deltas, and nowhere else; the answer says `stop` and which
string it was, and ends there; usage is what the engine had counted.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.exchange import Overrides, RouteRules
from tests.exchange.driver import CALL, DONE, Answer, chunk, delta, message, plain, route, streamed

STOPS = {"stop": ["END", "###"]}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}


def rules(**changes: Any) -> RouteRules:
    return replace(route(stop="gateway", **changes), engine="vllm")


def ending(answer: Answer, index: int = 0) -> tuple[Any, Any]:
    """Finish and stop reason of a choice."""
    values = [json.loads(answer.body)] if answer.body.startswith(b"{") else answer.events
    choices = [choice for value in values if value != "[DONE]" for choice in value["choices"]]
    ends = [choice for choice in choices if choice["index"] == index and choice.get("finish_reason")]
    assert len(ends) == 1
    return ends[0]["finish_reason"], ends[0].get("stop_reason")


def both(*deltas: dict[str, str], finish: str = "stop", made: RouteRules | None = None) -> tuple[Answer, Answer]:
    """The answer streamed and plain."""
    said = {name: "".join([each.get(name, "") for each in deltas]) for name in ("reasoning", "content")}
    frames = [*(delta(**each) for each in deltas), delta(finish=finish), DONE]
    made = made or rules()
    return streamed(frames, made, request=STOPS), plain(message(finish, **said), made, request=STOPS)


@pytest.mark.parametrize(
    ("texts", "content", "stop"),
    [
        (["yes EN", "D no"], "yes ", "END"),
        (["a###b"], "a", "###"),
        (["a##", "#END"], "a", "###"),
        (["END"], "", "END"),
        (["a EN", "d"], "a ENd", None),
        (["a", "b EN"], "ab EN", None),
    ],
)
def test_a_stop_string_in_the_content_ends_the_answer(texts: list[str], content: str, stop: str | None) -> None:
    for answer in both({"reasoning": "END is no end"}, *({"content": text} for text in texts)):
        assert (answer.said, answer.complete) == (("END is no end", content), True)
        assert ending(answer) == ("stop", stop)
        assert answer.exchange.over is (stop is not None and not answer.body.startswith(b"{"))


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_however_the_engine_ended_a_stopped_answer_was_stopped(finish: str) -> None:
    frames = [delta(content="a"), delta(content="ENDx", finish=finish), DONE]
    for answer in (
        streamed(frames, rules(), request=STOPS),
        plain(message(finish, content="aENDx"), rules(), request=STOPS),
    ):
        assert (answer.said, ending(answer)) == (("", "a"), ("stop", "END"))
        assert not answer.findings


def test_what_comes_behind_goes_nowhere_and_the_stream_ends_at_once() -> None:
    frames = [delta(content="aEND"), delta(content="b"), delta(tool_calls=CALL), delta(finish="tool_calls"), DONE]
    answer = streamed(frames, rules(), request=STOPS)
    assert answer.events[-1] == "[DONE]" and answer.events.count("[DONE]") == 1
    assert (answer.said, ending(answer), len(answer.events)) == (("", "a"), ("stop", "END"), 2)
    whole = plain(message("tool_calls", content="aEND", tool_calls=CALL), rules(), request=STOPS)
    assert (whole.said, ending(whole), b"tool_calls" in whole.body) == (("", "a"), ("stop", "END"), False)


def test_a_call_is_no_content_and_its_arguments_stop_nothing() -> None:
    call = [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "END"}'}}]
    frames = [delta(content="so"), delta(tool_calls=call), delta(finish="tool_calls"), DONE]
    answer = streamed(frames, rules(), request=STOPS)
    assert (answer.said[1], ending(answer), b"END" in answer.body) == ("so", ("tool_calls", None), True)


def test_each_choice_ends_by_itself_and_the_answer_with_the_last() -> None:
    frames = [
        delta(content="aEND"), delta(content="b", index=1), delta(content="x"), delta(content="cEND", index=1),
        delta(content="y", index=1), DONE,
    ]  # fmt: skip
    answer = streamed(frames, rules(), request=STOPS | {"n": 2})
    assert (answer.told(0), answer.told(1)) == (("", "a"), ("", "bc"))
    assert (ending(answer, 0), ending(answer, 1)) == (("stop", "END"), ("stop", "END"))
    assert answer.events[-1] == "[DONE]" and answer.exchange.over


def test_choices_that_share_a_chunk_are_ended_apart() -> None:
    both_ = [{"index": 0, "delta": {"content": "aEND"}, "finish_reason": None},
             {"index": 1, "delta": {"content": "b"}, "finish_reason": None}]  # fmt: skip
    later = [{"index": 0, "delta": {"content": "no"}, "finish_reason": None},
             {"index": 1, "delta": {"content": "c"}, "finish_reason": "stop"}]  # fmt: skip
    answer = streamed([chunk(both_), chunk(later), DONE], rules(), request=STOPS | {"n": 2})
    assert (answer.told(0), answer.told(1)) == (("", "a"), ("", "bc"))
    assert (ending(answer, 0), ending(answer, 1)) == (("stop", "END"), ("stop", None))


def test_usage_is_what_the_engine_had_counted_and_no_chunk_tells_it_before() -> None:
    choice = {"index": 0, "delta": {"content": "aEND"}, "finish_reason": None}
    counted = [chunk([choice | {"delta": {"content": "so "}}], usage={"completion_tokens": 1}),
               chunk([choice], usage={"completion_tokens": 2})]  # fmt: skip
    answer = streamed(counted, rules(), request=STOPS | USAGE)
    assert [event["usage"] for event in answer.events[:-1] if event.get("usage")] == [{"completion_tokens": 2}]
    assert answer.events[-2]["choices"] == [] and not answer.findings
    each = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    told = streamed(counted, rules(), request=STOPS | each)
    assert [event["usage"]["completion_tokens"] for event in told.events[:-1] if event.get("usage")] == [1, 2]
    silent = streamed([chunk([choice])], rules(), request=STOPS | USAGE)
    assert silent.findings == {"usage_missing/flagged": 1}


def test_an_answer_that_never_stops_keeps_its_bytes() -> None:
    frames = [delta(role="assistant", content=""), delta(content="yes"), delta(content="", finish="stop"), DONE]
    answer = streamed(frames, rules(), request=STOPS)
    assert answer.body == b"".join(frames)
    whole = message(content="yes")
    assert plain(whole, rules(), request=STOPS).body == whole


def test_the_report_stands_before_the_end() -> None:
    answer = streamed(
        [delta(content="aEND"), delta(content="b")], rules(), request=STOPS, overrides=Overrides(report=True)
    )
    assert "integrity" in answer.events[-2] and answer.events[-1] == "[DONE]"


def test_a_stream_that_breaks_off_before_a_stop_ends_in_an_error_and_loses_nothing() -> None:
    answer = streamed([delta(content="a EN")], rules(), request=STOPS)
    assert (answer.said, answer.complete) == (("", "a EN"), False)


def test_bytes_that_are_no_chunk_go_on() -> None:
    answer = streamed(
        [b": ping\n\n", b"data: x\n\n", delta(content="a"), delta(finish="stop"), DONE], rules(), request=STOPS
    )
    assert b": ping\n\n" in answer.body and b"data: x\n\n" in answer.body


@given(st.lists(st.sampled_from(["a", "E", "N", "D", "END", "#", "##", " "]), min_size=1, max_size=8), st.booleans())
def test_the_answer_ends_at_the_same_place_however_it_is_cut(texts: list[str], thought: bool) -> None:
    before = [{"reasoning": "t"}] if thought else []
    one, whole = both(*before, *({"content": text} for text in texts))
    joined = "".join(texts)
    ends = [(joined.find(stop) + len(stop), joined.find(stop), stop) for stop in STOPS["stop"] if stop in joined]
    content, stop = (joined[: min(ends)[1]], min(ends)[2]) if ends else (joined, None)
    for answer in (one, whole):
        assert (answer.said[1], ending(answer)) == (content, ("stop", stop))
