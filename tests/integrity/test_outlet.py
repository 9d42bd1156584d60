"""What a choice says: end string, promotion, dedup and signs in their order; each also has its own tests."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.events import CONTENT, REASONING, REPLAY
from gateway.findings import Finding
from gateway.integrity.outlet import Outlet, Piece
from gateway.integrity.signs import FOLD_EVERY
from gateway.integrity.tally import Tally
from gateway.limits import Limits
from gateway.policy import Mode
from tests.integrity.settings import C, R, setting

END = "Time is up.</think>"


class Said:
    """An outlet, and what it let go."""

    def __init__(self, **given: Any) -> None:
        made = setting(**given)
        self.tally = Tally(made.policy)
        self.outlet = Outlet(made, self.tally)
        self.out: list[Piece] = []

    def send(self, *pieces: Piece) -> Said:
        """Text of the channels."""
        for channel, text in pieces:
            self.outlet.send(channel, text, self.out)
        return self

    def finish(self, *, stopped: bool = True, promotable: bool = True, **ending: bool) -> Said:
        """The end."""
        self.outlet.finish(self.out, stopped=stopped, promotable=promotable)
        self.outlet.count_signs(**dict.fromkeys(("stop_string", "length", "looped"), False) | ending)
        return self

    @property
    def counted(self) -> list[tuple[str, str, str | None]]:
        """Finding, action and rule or place."""
        return [(str(row.finding), row.action, row.rule or row.where) for row in self.tally.rows]


# ---------------------------------------------------------------------- the string at the end of the thinking budget


@pytest.mark.parametrize("last", [(), ((C, "42"),)])
def test_the_end_string_is_taken_out_of_the_end_of_the_reasoning(last: tuple[Piece, ...]) -> None:
    said = Said(end_string=END).send((R, "I add. "), (R, "Time is up."), *last).finish()
    assert said.out == [(R, "I add. "), *last]
    assert said.counted == [("boundary_token", "stripped", "reasoning_end_string")]


def test_the_end_string_is_taken_out_of_the_head_of_the_content() -> None:
    said = Said(end_string=END).send((R, "I add."), (C, "Time is"), (C, " up."), (C, "\n\n42")).finish()
    assert said.out == [(R, "I add."), (C, "\n\n42")]
    assert said.counted == [("boundary_token", "stripped", "reasoning_end_string")]


def test_where_markers_are_only_observed_the_end_string_stays() -> None:
    said = Said(end_string=END, findings={Finding.BOUNDARY_TOKEN: Mode.OBSERVE})
    said.send((R, "I add. Time is up."), (C, "Time is up.42")).finish()
    assert said.out == [(R, "I add. "), (R, "Time is up."), (C, "Time is up.42")]
    assert said.counted == [("boundary_token", "would_strip", "reasoning_end_string")] * 2  # one a channel


def test_a_tool_call_ends_the_reasoning_too() -> None:
    said = Said(end_string=END).send((R, "Time is up."))
    said.outlet.before_tools(said.out)
    assert (said.out, said.outlet.dedup.on) == ([], False)


def test_only_the_end_string_looks_at_every_delta() -> None:
    assert (Said().outlet.plain, Said(end_string=END).outlet.plain) == (True, False)


def test_half_an_end_string_goes_out_as_it_came() -> None:
    assert Said(end_string=END).send((R, "a Time"), (C, "Time")).finish().out == [(R, "a "), (R, "Time"), (C, "Time")]


@pytest.mark.parametrize("read", [True, False])
def test_what_is_held_for_the_end_string_is_released_as_it_came(read: bool) -> None:
    for piece in ((R, "Time"), (C, "Ti")):
        said = Said(end_string=END).send(piece)
        assert (said.out, said.outlet.holding) == ([], "end_string")
        said.outlet.release(said.out, read=read)
        assert said.out == [piece]


# ---------------------------------------------------------------------- promotion, dedup, replay


def test_reasoning_waits_for_content_while_thinking_is_off() -> None:
    said = Said(thinking_off=True).send((R, "t"))
    assert (said.out, said.outlet.holding) == ([], "promote")
    assert said.send((C, "a")).out == [(R, "t"), (C, "a")]
    assert said.outlet.holding is None


def test_reasoning_alone_is_promoted_at_a_natural_end() -> None:
    said = Said(thinking_off=True).send((R, "42.")).finish()
    assert (said.out, said.outlet.said) == ([(C, "42.")], True)
    assert said.counted == [("answer_in_reasoning", "promoted", "reasoning")]


@pytest.mark.parametrize(("stopped", "promotable"), [(False, False), (True, False)])
def test_reasoning_is_not_promoted_at_any_other_end(stopped: bool, promotable: bool) -> None:
    said = Said(thinking_off=True).send((R, "42.")).finish(stopped=stopped, promotable=promotable)
    assert said.out == [(R, "42.")]


def test_past_the_cap_nothing_waits_for_promotion() -> None:
    said = Said(thinking_off=True, limits=Limits(promote=1)).send((R, "t"), (R, "u"), (R, "v"))
    assert said.out == [(R, "t"), (R, "u"), (R, "v")]


@pytest.mark.parametrize(
    ("wanted", "out", "counted"),
    [
        (True, [(R, "Hi.")], [("duplicate_suppressed", "suppressed", "content")]),
        (False, [(R, "Hi."), (C, "Hi.")], [("duplicate_suspect", "kept", "content")]),
    ],
)
def test_a_repeat_is_suppressed_where_the_reasoning_was_asked_for(
    wanted: bool, out: list[Piece], counted: list[tuple[str, str, str]]
) -> None:
    said = Said(wanted=wanted).send((R, "Hi."), (C, "Hi."))
    assert said.outlet.holding == ("dedup" if wanted else None)
    assert (said.finish().out, said.counted) == (out, counted)


def test_where_a_repeat_is_only_observed_it_is_counted_as_one() -> None:
    said = Said(wanted=True, findings={Finding.DUPLICATE_SUPPRESSED: Mode.OBSERVE}).send((R, "Hi."), (C, "Hi."))
    assert said.finish().counted == [("duplicate_suppressed", "would_suppress", "content")]


def test_a_tool_call_ends_the_comparison_once() -> None:
    said = Said(wanted=True).send((R, "Hi."), (C, "Hi"))
    said.outlet.before_tools(said.out)
    said.outlet.before_tools(said.out)
    assert said.out == [(R, "Hi."), (C, "Hi")]


def test_a_replayed_answer_is_not_compared_and_lets_go_what_was() -> None:
    said = Said(wanted=True).send((R, "Hi."), (C, "Hi"))
    said.outlet.replay("Hi.", said.out)
    assert said.out == [(R, "Hi."), (C, "Hi"), (REPLAY, "Hi.")]
    assert (said.outlet.said, said.finish().counted) == (True, [])


# ---------------------------------------------------------------------- signs


def test_signs_are_counted_at_the_end() -> None:
    flagged = ("unicode_replacement", "flagged")
    assert Said().send((R, "\ufffd"), (C, "a\ufffd")).finish().counted == [(*flagged, R), (*flagged, C)]


def test_a_stop_string_fired_in_the_reasoning_when_there_was_some() -> None:
    assert Said().send((R, "t")).finish(stop_string=True).counted == [("stop_in_reasoning", "flagged", "reasoning")]
    assert Said().finish(stop_string=True).counted == []


@pytest.mark.parametrize("channel", [REASONING, CONTENT])
def test_no_more_text_is_kept_than_declared(channel: str) -> None:
    said = Said(limits=Limits(repetition=10)).send(*[(channel, "abcd")] * FOLD_EVERY)
    noted = said.outlet._reasoning if channel == REASONING else said.outlet._content
    assert len(noted.pieces) <= FOLD_EVERY // 4 + 1
    assert noted.tail == "cdabcdabcd"


# ---------------------------------------------------------------------- what was said


@pytest.mark.parametrize(
    ("pieces", "thought"),
    [((), False), (((R, " \n"),), False), (((R, "\n"), (R, "a")), True), (((C, "a"),), False)],
)
def test_white_space_alone_is_no_thought(pieces: tuple[Piece, ...], thought: bool) -> None:
    assert Said().send(*pieces).outlet.thought is thought
