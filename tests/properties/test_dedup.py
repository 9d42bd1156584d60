"""What holds for every stream where repeats are suppressed (reader_spec 5.3): nothing lost, one verdict at any cut."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from gateway.integrity.dedup import Dedup
from tests.support.reader import cut_at

LETTERS = st.text("ab \n", max_size=12)
TURNS = st.lists(
    st.tuples(st.sampled_from(["reasoning", "content"]), st.text("ab \n", min_size=1, max_size=4)), max_size=12
)
BLANKS = st.sampled_from(["", "\n", " \n"])


def stage(*, hold: bool, trim: bool, cap: int = 1 << 20) -> Dedup:
    return Dedup(hold=hold, trim=trim, min_length=1, cap=cap, counts=Counter())


def played(dedup: Dedup, turns: list[tuple[str, str]], *, stopped: bool) -> tuple[str, int]:
    """All that goes out, and the characters suppressed."""
    out: list[str] = []
    for field, text in turns:
        if field == "reasoning":
            dedup.reasoning(text)
        else:
            out += dedup.content(text)
    rest, suppressed = dedup.settle(stopped=stopped)
    return "".join([*out, *rest]), suppressed


def the(field: str, turns: list[tuple[str, str]]) -> str:
    return "".join(text for kind, text in turns if kind == field)


@given(turns=TURNS, hold=st.booleans(), trim=st.booleans(), stopped=st.booleans(), cap=st.integers(1, 30))
def test_all_goes_out_or_an_exact_repeat_that_was_wanted_is_suppressed_whole(
    turns: list[tuple[str, str]], hold: bool, trim: bool, stopped: bool, cap: int
) -> None:
    out, suppressed = played(stage(hold=hold, trim=trim, cap=cap), turns, stopped=stopped)
    reasoning, content = the("reasoning", turns), the("content", turns)
    if not suppressed:
        assert out == content
        return
    assert (out, suppressed) == ("", len(content))
    assert hold and stopped and content.strip() and max(len(content), len(reasoning)) <= cap
    assert content.strip() == reasoning.strip() if trim else content == reasoning


@given(reasoning=LETTERS, blanks=BLANKS, trim=st.booleans(), places=st.lists(st.integers(0, 16)))
def test_a_repeat_behind_its_reasoning_is_always_found(
    reasoning: str, blanks: str, trim: bool, places: list[int]
) -> None:
    content = blanks + reasoning
    pieces = cut_at(content, (min(place, len(content)) for place in places))
    turns = [("reasoning", reasoning), *(("content", piece) for piece in pieces)]
    _, suppressed = played(stage(hold=True, trim=trim), turns, stopped=True)
    found = bool(reasoning.strip()) and (trim or not blanks)
    assert suppressed == (len(content) if found else 0)


@given(turns=TURNS, trim=st.booleans(), stopped=st.booleans())
def test_output_and_verdict_are_the_same_however_the_content_is_cut(
    turns: list[tuple[str, str]], trim: bool, stopped: bool
) -> None:
    runs = [(field, "".join(text for _, text in run)) for field, run in groupby(turns, key=itemgetter(0))]
    single = [(field, character) for field, text in runs for character in text]
    results = [played(stage(hold=True, trim=trim), played_as, stopped=stopped) for played_as in (turns, runs, single)]
    assert results[0] == results[1] == results[2]


@given(turns=TURNS, trim=st.booleans())
def test_where_nothing_can_be_suppressed_nothing_is_late(turns: list[tuple[str, str]], trim: bool) -> None:
    dedup = stage(hold=False, trim=trim)
    for field, text in turns:
        if field == "reasoning":
            dedup.reasoning(text)
        else:
            assert dedup.content(text) == [text]


@given(turns=TURNS, trim=st.booleans())
def test_a_stream_that_breaks_off_loses_nothing(turns: list[tuple[str, str]], trim: bool) -> None:
    dedup = stage(hold=True, trim=trim)
    out: list[str] = []
    for field, text in turns:
        if field == "reasoning":
            dedup.reasoning(text)
        else:
            out += dedup.content(text)
    assert "".join([*out, *dedup.release()]) == the("content", turns)


class Counting(Dedup):
    """Counts the characters that are handed to the comparison."""

    compared = 0

    def _match(self, text: str) -> bool:
        self.compared += len(text)
        return super()._match(text)


def compared(size: int, *, returns: int) -> int:
    """Characters compared for a repeat that comes in single characters, the reasoning in `returns` + 1 parts."""
    dedup = Counting(hold=True, trim=True, min_length=1, cap=1 << 20, counts=Counter())
    part = "word " * size
    turns = [("reasoning", part), *(("content", character) for character in part)] * (returns + 1)
    assert played(dedup, turns, stopped=True) == ("", len(part) * (returns + 1))
    return dedup.compared


def test_each_character_of_a_repeat_is_compared_once() -> None:
    assert compared(200, returns=0) == len("word ") * 200


def test_twice_the_repeat_is_at_most_twice_the_work_and_a_little_when_the_reasoning_returns() -> None:
    assert compared(200, returns=8) <= 2.6 * compared(100, returns=8)
