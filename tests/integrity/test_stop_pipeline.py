"""A choice whose stop strings the gateway trims or matches: what its client gets, at every cut, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.findings import Finding
from gateway.integrity.setting import Setting, StopWindow
from gateway.integrity.stop_pipeline import InStepPipeline, ResyncPipeline, StoppingPipeline
from gateway.policy import Mode, Profile
from tests.integrity.settings import C, R, Run, setting, tooling
from tests.support.tagged import EVERYTHING

CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
PLAIN = setting("none")
Deltas = list[tuple[str, str]]
DELTAS = st.lists(st.tuples(st.text("aEND", max_size=5), st.text("bEND", max_size=5)), max_size=6)


def in_step(given: Setting = PLAIN, *, stops: tuple[str, ...] = ("END",), keep: bool = False) -> Run:
    return Run(given, partial(InStepPipeline, stops=stops, keep=keep))


def stopping(given: Setting = PLAIN, *, stops: tuple[str, ...] = ("END",)) -> Run:
    return Run(given, partial(StoppingPipeline, stops=stops))


def fired(run: Run) -> tuple[str | None, int]:
    """What has matched, and how many characters behind it did not go out."""
    assert isinstance(run.pipeline, StoppingPipeline)
    return run.pipeline.fired, run.pipeline.dropped


def one_by_one(deltas: Deltas) -> Deltas:
    """The same fields, a character an event."""
    return [pair for r, c in deltas for pair in [*((each, "") for each in r), *(("", each) for each in c)]]


# ------------------------------------------------------------------ resync

LONG = StopWindow(longest=12, closers=("</think>",), openers=("<think>",), desync=False)
LATE = replace(LONG, desync=True)
END = "boundary_token/stripped"
BOTH = {"reasoning_leak/moved": 1, END: 1}
WOULD = {"reasoning_leak/would_move": 1, "boundary_token/would_strip": 1}


def resync(window: StopWindow | None = LONG, **given_: Any) -> Run:
    return Run(setting(stop_window=window, **given_), ResyncPipeline)


@pytest.mark.parametrize(
    ("window", "deltas", "said", "counted"),
    [
        # vLLM 51671 (STP-02), 38789 (STP-03), 38499 (STP-06), and reference/vllm.md 4.1
        (LONG, [("plan ", ""), ("<", ""), ("", "/think> Hello")], ("plan ", " Hello"), {END: 1}),
        (LONG, [("look it ", ""), ("", "up first.</think>"), ("", "\n\n9.")], ("look it up first.", "\n\n9."), BOTH),
        (LONG, [("Let me", ""), (" think", "")], ("Let me think", ""), {}),
        (LATE, [("step b", ""), ("", "ow.</think>The answer is 4.")], ("step bow.", "The answer is 4."), BOTH),
        (LATE, [("", "abc</think>42.")], ("abc", "42."), BOTH),
        (LONG, [("plan ", ""), ("", "42.")], ("plan ", "42."), {}),
        (LONG, [("plan <", "/think>42.")], ("plan ", "42."), {END: 1, "mixed_chunk_split/split": 1}),
        (LONG, [("a", ""), ("", "b"), ("c", ""), ("", "d</think>e")], ("ac", "bd</think>e"), {}),  # it thinks on
        (LONG, [("a", ""), ("", "b"), ("c", "d")], ("ac", "bd"), {"mixed_chunk_split/split": 1}),
        (LONG, [("", "abc</think>42.")], ("", "abc</think>42."), {}),  # nothing is known of the engine
        (None, [("a", ""), ("", "b</think>c")], ("a", "b</think>c"), {}),
    ],
)  # fmt: skip
def test_the_seam_behind_the_reasoning_is_set_right(
    window: StopWindow | None, deltas: Deltas, said: tuple[str, str], counted: dict[str, int]
) -> None:
    run = resync(window).push(*deltas).finish()
    counted = {**counted} if said[1] else {**counted, "empty_response/flagged": 1}
    assert (run.said, run.counted) == (said, counted)
    assert resync(window).push(*one_by_one(deltas)).finish().said == said


def test_what_an_observed_or_unenforced_leak_would_be_is_counted_and_not_done() -> None:
    for deltas in ([("plan ", ""), ("", "it.</think>42.")], [("plan ", "it.</think>42.")]):
        run = resync(profile=Profile.OBSERVE).push(*deltas).finish()
        assert run.said == ("plan ", "it.</think>42.")
        assert {key: run.counted[key] for key in WOULD} == WOULD
    run = resync(findings={Finding.REASONING_LEAK: Mode.OBSERVE}).push(("plan ", ""), ("", "it</think>b")).finish()
    assert (run.said, run.counted) == (("plan ", "it</think>b"), {})


def test_a_late_thought_is_not_shown_to_a_client_that_wants_none() -> None:
    run = resync(LATE, unsent=True, hidden=True).push(("", "it.</think>42.")).finish()
    assert (run.said, run.tally.suppressed) == (("", "42."), 3)
    assert run.counted == {"reasoning_leak/hidden": 1, END: 1}
    assert resync(LATE, unsent=True, hidden=True).push(("", "nk>42.")).finish().said == ("", "nk>42.")


def test_a_thought_that_ended_is_not_promoted() -> None:
    run = resync(thinking_off=True).push(("plan", ""), ("", " it</think>")).finish()
    assert run.said == ("plan it", "")


def test_a_clean_answer_is_late_by_no_more_than_the_longest_stop_string() -> None:
    pipeline = resync(replace(LONG, longest=3)).pipeline
    assert [pipeline.push(*delta) for delta in [("a", ""), ("b<", ""), ("", "c")]] == [None, [(R, "b")], []]
    assert pipeline.holding == "stop"
    assert pipeline.push("", "def") == [(R, "<"), (C, "cdef")]
    assert (pipeline.holding, pipeline.push("", "g")) == (None, None)


@pytest.mark.parametrize("deltas", [[("a <", "")], [("a", ""), ("", "b </thi")], [("a <", ""), ("", "/thi")]])
def test_what_waits_at_the_seam_goes_out_before_a_call_and_when_the_answer_breaks_off(deltas: Deltas) -> None:
    came = tuple("".join(field) for field in zip(*deltas, strict=True))
    for read in (True, False):
        run = resync().push(*deltas)
        assert run.take(run.pipeline.release(read=read)).said == came
        assert run.take(run.pipeline.release(read=read)).said == came
    run = resync().push(*deltas)
    assert run.take(run.pipeline.tool_call()).said == came
    assert run.take(run.pipeline.tool_call()).finish("tool_calls").said == came


@given(deltas=st.lists(st.tuples(st.text("a</think>", max_size=5), st.text("b</think>", max_size=5)), max_size=6))
def test_at_the_seam_only_counted_markers_are_lost(deltas: Deltas) -> None:
    run = resync(LATE).push(*deltas).finish()
    markers = sum(len(row.marker or "") * count for row, count in run.tally.findings if row.action == "stripped")
    assert sum(map(len, run.said)) + markers == sum(len(r) + len(c) for r, c in deltas)
    assert resync(LATE).push(*one_by_one(deltas)).finish().said == run.said


# ------------------------------------------------------------------ in step


@pytest.mark.parametrize(
    ("deltas", "said"),
    [
        ([("Let me.", ""), ("", "42."), ("", "END")], ("Let me.", "42.")),
        ([("", "42.E"), ("", "ND")], ("", "42.")),
        ([("Let me.", "42.END")], ("Let me.", "42.")),
        ([("Let me END", "")], ("Let me ", "")),  # it fired inside the thought
        ([("Let END", ""), ("", "42.END")], ("Let END", "42.")),  # the thought went on: it had not
        ([("Let EN", ""), ("", "D 42.")], ("Let EN", "D 42.")),  # not in one field
        ([("", "4E"), ("so", ""), ("", "2.END")], ("so", "4E2.")),
    ],
)
def test_the_stop_string_is_taken_off_the_field_that_spoke_last(deltas: Deltas, said: tuple[str, str]) -> None:
    for cut in (deltas, one_by_one(deltas)):
        run = in_step().push(*cut).finish(stop_string=True)
        assert run.said == said
        assert not run.tally.suppressed


def test_a_stop_string_that_the_client_asked_for_stays() -> None:
    assert in_step(keep=True).push(("", "42.END")).finish(stop_string=True).said == ("", "42.END")


def test_nothing_is_taken_where_no_stop_string_ended_the_answer() -> None:
    assert in_step().push(("", "42.END")).finish("length").said == ("", "42.END")


def test_what_is_read_begins_with_the_text_that_has_no_stop_string() -> None:
    run = in_step(setting(), stops=("</think>",)).push(("Let me.", ""), ("</think>", ""))
    assert (run.finish(stop_string=True).said, run.counted) == (
        ("Let me.", ""),
        {"empty_response/flagged": 1, "stop_in_reasoning/flagged": 1},
    )


def test_text_that_cannot_be_a_stop_string_goes_out_as_it_came() -> None:
    pipeline = in_step().pipeline
    deltas = [("Let me.", ""), ("", "4"), ("", "2.")]
    assert [pipeline.push(*delta) for delta in deltas] == [None] * 3
    assert (pipeline.push("", "E"), pipeline.holding) == ([], "stop")
    assert (pipeline.push("", "x"), pipeline.holding) == ([(C, "Ex")], None)


def test_fields_that_came_in_one_event_are_one_event_and_others_are_not() -> None:
    mixed = "mixed_chunk_split/split"
    assert in_step().push(("Let EN", "42.")).finish().counted == {mixed: 1}
    assert in_step().push(("Let EN", ""), ("", "42.")).finish().counted == {}


def test_what_waits_goes_out_before_a_call_of_the_engine() -> None:
    run = in_step().push(("", "42.END"))
    run.take(run.pipeline.tool_call())
    assert run.sent == [(C, "42."), (C, "END")]
    assert run.finish(stop_string=True).said == ("", "42.END")


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize(
    ("delta", "said"), [(("Let EN", ""), ("Let EN", "")), (("", "42.END"), ("", "42.END")), (("", "4"), ("", "4"))]
)
def test_an_answer_that_breaks_off_in_step_loses_nothing(
    delta: tuple[str, str], said: tuple[str, str], read: bool
) -> None:
    run = in_step().push(delta)
    assert run.take(run.pipeline.release(read=read)).said == said


@given(deltas=DELTAS)
def test_in_step_every_character_goes_out_but_the_stop_string_at_the_end(deltas: Deltas) -> None:
    thought, answer = ("".join([delta[field] for delta in deltas]) for field in (0, 1))
    ends = [*deltas, ("", "END")]
    for cut in (ends, one_by_one(ends)):
        assert in_step().push(*cut).finish(stop_string=True).said == (thought, answer)
        assert in_step().push(*cut).finish().said == (thought, answer + "END")


# ------------------------------------------------------------------ stopping


@pytest.mark.parametrize(
    ("deltas", "said", "stop", "dropped"),
    [
        ([("Let END me.", ""), ("", "42.END so")], ("Let END me.", "42."), "END", 3),
        ([("", "42.EN"), ("", "D")], ("", "42."), "END", 0),
        ([("", "42.END"), ("Wait", "43.")], ("", "42."), "END", 7),
        ([("Let me.", "42.END so")], ("Let me.", "42."), "END", 3),
        ([("", "42.EN")], ("", "42.EN"), None, 0),
        ([("", "4E"), ("so", ""), ("", "ND")], ("so", "4END"), None, 0),  # more thought is between
        ([("", "END")], ("", ""), "END", 0),
        ([("Let END", "")], ("Let END", ""), None, 0),
    ],
)
def test_the_content_ends_before_the_stop_string(
    deltas: Deltas, said: tuple[str, str], stop: str | None, dropped: int
) -> None:
    for cut in (deltas, one_by_one(deltas)):
        run = stopping().push(*cut).finish()
        assert (run.said, fired(run)) == (said, (stop, dropped))
        assert not run.tally.suppressed


def test_the_order_of_what_goes_out_is_that_of_what_came() -> None:
    run = stopping().push(("", "4E"), ("so", ""))
    assert run.sent == [(C, "4"), (C, "E"), (R, "so")]


def test_text_that_cannot_be_a_stop_string_passes_as_it_came() -> None:
    pipeline = stopping().pipeline
    assert [pipeline.push(*delta) for delta in [("END", ""), ("", "4"), ("", "2.")]] == [None] * 3
    assert (pipeline.push("", "E"), pipeline.holding) == ([], "stop")
    assert (pipeline.push("", "x"), pipeline.holding) == ([(C, "Ex")], None)
    assert (pipeline.push("", "END"), pipeline.push("", "<thi"), pipeline.holding) == ([], [], None)


def test_what_was_moved_out_of_the_content_is_not_matched() -> None:
    given_ = setting(starts_open=True)
    run = stopping(given_).push(("", "Let END me.</think>42.END so")).finish()
    assert (run.said, fired(run)) == (("Let END me.", "42."), ("END", 3))


def test_a_call_behind_the_stop_string_is_none_and_not_counted() -> None:
    calls = setting("tagged", takes=EVERYTHING, tooling=tooling("f"))
    run = stopping(calls).push(("", f"42.END\n{CALL}")).finish()
    assert (run.said, run.calls, run.counted) == (("", "42."), [], {})
    raw = setting("tagged", raw=True, takes=EVERYTHING, tooling=tooling("f"))
    run = stopping(raw).push(("", f"42.END\n{CALL}")).finish()
    assert (run.said, run.calls, fired(run)) == (("", "42."), [], ("END", 1))


def test_a_stop_string_in_a_call_is_no_stop_string() -> None:
    calls = setting("tagged", takes=EVERYTHING, tooling=tooling("f"))
    run = stopping(calls, stops=('"f"',)).push(("", f"Sure.\n{CALL}")).finish()
    assert (run.said, len(run.calls), fired(run)) == (("", "Sure.\n"), 1, (None, 0))


def test_what_waits_goes_out_before_an_engines_call_and_nothing_does_behind_the_stop_string() -> None:
    run = stopping().push(("", "4E"))
    assert run.pipeline.tool_call() == [(C, "E")]
    run.push(("", "END"))
    assert (run.pipeline.tool_call(), run.finish("tool_calls").said) == ([], ("", "4"))


def test_a_refusal_lets_the_thought_go_on() -> None:
    run = stopping(setting("none", thinking_off=True)).push(("No.", ""))
    assert (run.sent, run.pipeline.refusal()) == ([], [(R, "No.")])


@pytest.mark.parametrize("read", [True, False])
def test_an_answer_that_breaks_off_loses_nothing_before_its_stop_string(read: bool) -> None:
    run = stopping().push(("", "42.EN"))
    assert run.take(run.pipeline.release(read=read)).said == ("", "42.EN")
    run = stopping().push(("", "42.END"), ("", "43."))
    assert (run.take(run.pipeline.release(read=read)).said, run.pipeline.holding) == (("", "42."), None)


def test_a_stop_string_in_what_was_held_to_the_end_counts() -> None:
    run = stopping(setting()).push(("Let me.", ""), ("", "42. <th"), ("", "ink"))
    assert (run.said, run.finish().said) == (("Let me.", "42. "), ("Let me.", "42. <think"))
    run = stopping(setting(), stops=("<th",)).push(("Let me.", ""), ("", "42. <th"))
    assert (run.finish().said, fired(run)) == (("Let me.", "42. "), ("<th", 0))


def test_an_answer_that_was_stopped_is_not_truncated_or_a_repeat() -> None:
    run = stopping(setting(wanted=True)).push(("42.", ""), ("", "42.so END")).finish("length")
    assert (run.said, run.counted) == (("42.", "42.so "), {})


def test_replayed_content_is_content_and_its_pieces_do_not_grow() -> None:  # reader_spec section 4: at most 4,096
    answer = "a" * 4095 + "E" + "b" * 4095 + "END"
    run = stopping(setting("kimi_k3", starts_open=True)).push((answer + "<|close|>response<|sep|>", "")).finish()
    assert run.said == (answer, answer.removesuffix("END"))
    assert fired(run) == ("END", 0)
    assert max(len(str(text)) for channel, text in run.sent if channel == "replay") <= 4096


@given(deltas=DELTAS, stops=st.lists(st.text("bEND", min_size=1, max_size=3), min_size=1, max_size=2).map(tuple))
def test_nothing_is_lost_but_the_stop_string_and_what_is_behind_it(deltas: Deltas, stops: tuple[str, ...]) -> None:
    whole, cut = (stopping(stops=stops).push(*each).finish() for each in (deltas, one_by_one(deltas)))
    assert (whole.said, fired(whole)) == (cut.said, fired(cut))
    stop, dropped = fired(whole)
    assert sum(map(len, [*whole.said, stop or ""])) + dropped == sum(len(r) + len(c) for r, c in deltas)
