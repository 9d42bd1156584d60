"""The string forced at the end of the thinking budget (vLLM #39697): out where it closes the thought, else text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.integrity.end_string import EndString, spellings

TEXTS = ("Time is up.",)
RUN_CAP = 8


def told(*deltas: str) -> tuple[str, str]:
    """What a reasoning of these deltas says, and what was taken out at its end."""
    stage = EndString(TEXTS, run_cap=RUN_CAP)
    said = "".join([stage.reasoning(delta) for delta in deltas]) + stage.end_reasoning()
    assert not stage.waiting
    return said, stage.take_found()


def answered(*deltas: str) -> tuple[str, str]:
    """What a content of these deltas says, and what was taken out at its beginning."""
    stage = EndString(TEXTS, run_cap=RUN_CAP)
    said = "".join([stage.content(delta) for delta in deltas]) + stage.end_content()
    assert not stage.waiting
    return said, stage.take_found()


@pytest.mark.parametrize(
    ("text", "closers", "found"),
    [
        (None, ["</think>"], ()),
        ("</think>", ["</think>"], ("</think>",)),
        ("Time is up.</think>\n\n", ["</think>"], ("Time is up.</think>", "Time is up.")),
        ("</think:opensource>", ["</think>", "</think:opensource>"], ("</think:opensource>",)),
        ("Done", ["</think>"], ("Done",)),
        (" ", [], ()),
    ],
)
def test_the_string_may_come_with_or_without_its_closers(
    text: str | None, closers: list[str], found: tuple[str, ...]
) -> None:
    assert spellings(text, closers) == found


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ("I add. Time is up.", "I add. ", "Time is up."),
        ("I add. Time is up.\n\n", "I add. ", "Time is up.\n\n"),
        ("Time is up.", "", "Time is up."),
        ("Time is up. But wait", "Time is up. But wait", ""),  # the model went on
        ("I add. Time is", "I add. Time is", ""),
        ("Time is up." + "\n" * RUN_CAP, "Time is up." + "\n" * RUN_CAP, ""),
        ("", "", ""),
    ],
)
def test_the_last_words_of_the_reasoning_are_taken_out_when_they_are_the_string(
    text: str, said: str, found: str
) -> None:
    assert told(text) == told(*text) == (said, found)


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ("Time is up.\n\n42", "\n\n42", "Time is up."),
        ("\nTime is up.42", "42", "\nTime is up."),
        ("Time is money.", "Time is money.", ""),
        ("So: Time is up.", "So: Time is up.", ""),
        ("Time is", "Time is", ""),
        ("\n" * RUN_CAP + "Time is up.", "\n" * RUN_CAP + "Time is up.", ""),
        ("", "", ""),
    ],
)
def test_the_first_words_of_the_content_are_taken_out_when_they_are_the_string(
    text: str, said: str, found: str
) -> None:
    assert answered(text) == answered(*text) == (said, found)


def test_only_the_first_words_count() -> None:
    assert answered("Time is up.", "Time is up.") == ("Time is up.", "Time is up.")


def test_what_may_become_the_string_waits_and_can_be_had_back() -> None:
    stage = EndString(TEXTS, run_cap=RUN_CAP)
    assert (stage.reasoning("I add. Time"), stage.waiting, stage.release_reasoning()) == ("I add. ", True, "Time")
    assert (stage.waiting, stage.content("Ti"), stage.waiting) == (False, "", True)


@given(st.text(alphabet="Time sup.\n"), st.lists(st.integers(0, 30)))
def test_nothing_is_lost_at_any_cut(text: str, cuts: list[int]) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    deltas = [text[a:b] for a, b in pairwise(places)]
    assert told(*deltas) == told(text)
    assert "".join(told(*deltas)) == text
    assert answered(*deltas) == answered(text)
