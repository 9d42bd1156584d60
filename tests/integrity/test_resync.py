"""The seam behind the reasoning of an engine that kept text back: the table of the module, row by row, at every cut.

The engine of these tests is the rule of reference/vllm.md 4.1: the last B characters of thought and closer come late.
"""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.integrity.resync import Resync, Seam
from gateway.integrity.setting import StopWindow

CLOSER, OPENER, K3 = "</think>", "<think>", "<|close|>think<|sep|>"


def window(longest: int, *, desync: bool, closers: tuple[str, ...] = (CLOSER,)) -> StopWindow:
    return StopWindow(longest=longest, closers=closers, openers=(OPENER,), desync=desync)


def read(given_: StopWindow, reasoning: str, *contents: str) -> tuple[str, str, str]:
    """Thought, closer and answer of these fields; the reasoning a character at a time."""
    stage = Resync(given_)
    told = "".join([stage.reasoning(character) for character in reasoning])
    for place, content in enumerate(contents):
        seam = stage.content(content)
        if seam:
            assert seam.reasoning + seam.content == seam.thought + seam.closer + seam.answer
            return told + seam.thought, seam.closer, seam.answer + "".join(contents[place + 1 :])
        assert stage.waiting
    seam = stage.settle()
    return told + seam.thought, seam.closer, seam.answer


def at_every_cut(given_: StopWindow, reasoning: str, content: str) -> tuple[str, str, str]:
    """As `read`, where every way to cut the content agrees."""
    found = {read(given_, reasoning, *cut) for cut in ([content], list(content), [content[:3], content[3:]])}
    assert len(found) == 1
    return found.pop()


KNOWN, UNKNOWN = True, False
TABLE = {
    # the closer over the border of the fields
    "STP-02": (4, UNKNOWN, "plan <", "/think> Hello", ("plan ", CLOSER, " Hello")),
    "the longest start counts": (4, UNKNOWN, "a <</thi", "nk>b", ("a <", CLOSER, "b")),
    "no rest of a closer": (4, UNKNOWN, "a <", "b> c", ("a <", "", "b> c")),
    "no more than a start": (4, UNKNOWN, "a <", "/thi", ("a <", "", "/thi")),
    # exactly the last B characters
    "B = 2": (3, KNOWN, "Let me.", "k>42.", ("Let me.", "k>", "42.")),
    "B = 2, not known": (3, UNKNOWN, "Let me.", "k>42.", ("Let me.", "", "k>42.")),
    "B = 2, no reasoning came": (3, KNOWN, "", "k>42.", ("", "k>", "42.")),
    "B = 1": (2, KNOWN, "Let me.", ">42.", ("Let me.", ">", "42.")),
    "B = 1, not known: a block quote": (2, UNKNOWN, "Let me.", "> 42.", ("Let me.", "", "> 42.")),
    "B = 1, no reasoning came": (2, KNOWN, "", "> 42.", ("", "", "> 42.")),
    "B = 2, a block quote": (3, KNOWN, "Let me.", "> 42.", ("Let me.", "", "> 42.")),
    "B = 7": (8, KNOWN, "abc def ghi ", "/think>The answer ", ("abc def ghi ", "/think>", "The answer ")),
    # text, then a closer
    "B = 11": (12, KNOWN, "step b", "ow.</think>The answer is 4.", ("step bow.", CLOSER, "The answer is 4.")),
    "STP-03": (12, UNKNOWN, "look it ", "up first.</think>\n\n9.", ("look it up first.", CLOSER, "\n\n9.")),
    "a short thought": (19, KNOWN, "", "abc</think>answer", ("abc", CLOSER, "answer")),
    "a short thought, not known": (19, UNKNOWN, "", "abc</think>answer", ("", "", "abc</think>answer")),
    "as far as the longest stop string": (4, UNKNOWN, "a ", "bcde</think>f", ("a bcde", CLOSER, "f")),
    "behind it": (4, UNKNOWN, "a ", "bcdef</think>g", ("a ", "", "bcdef</think>g")),
    "quoted": (12, UNKNOWN, "So.", "a `</think>` tag", ("So.", "", "a `</think>` tag")),
    "quoted, then not": (12, UNKNOWN, "So", "`</think>`</think>a", ("So`</think>`", CLOSER, "a")),
    "quoted, and where B says": (11, KNOWN, "So `a", " `</think>b", ("So `a `", CLOSER, "b")),
    "cut": (12, UNKNOWN, "So ", "on.</thi", ("So ", "", "on.</thi")),
    # what the reader knows itself
    "a closer first": (12, KNOWN, "So.", "\n</think>b", ("So.", "", "\n</think>b")),
    "an opener first": (12, UNKNOWN, "So.", "<think>b</think>c", ("So.", "", "<think>b</think>c")),
    "nothing of all that": (4, KNOWN, "Let me.", "The answer is 42.", ("Let me.", "", "The answer is 42.")),
}


@pytest.mark.parametrize("row", TABLE)
def test_the_seam_is_set_right_where_something_shows_it(row: str) -> None:
    longest, desync, reasoning, content, wanted = TABLE[row]
    assert at_every_cut(window(longest, desync=desync), reasoning, content) == wanted


def test_a_closer_longer_than_what_was_kept_back_loses_its_beginning() -> None:  # the recorded kimi-k3-chat-stop-long
    known = window(len("<END-OF-THE-ANSWER>"), desync=True, closers=(K3,))
    assert at_every_cut(known, "Let me think.", "lose|>think<|sep|>The") == (
        "Let me think.",
        "lose|>think<|sep|>",
        "The",
    )


def test_no_more_waits_than_the_longest_stop_string_and_the_start_of_a_closer() -> None:
    stage = Resync(window(4, desync=False))
    assert (stage.reasoning("a <"), stage.waiting, stage.begun) == ("a ", True, False)
    assert [stage.content(piece) for piece in ("1", "2", "3", "4")] == [None] * 4
    assert stage.begun
    assert stage.content("5") == Seam("<", "12345", "<", "", "12345")
    stage = Resync(window(4, desync=False))
    stage.reasoning("a")
    assert [stage.content(piece) for piece in ("1234</thi", "n")] == [None] * 2
    assert stage.content("x") is not None


def test_before_any_reasoning_nothing_waits_where_the_engine_is_not_known_to_cut_late() -> None:
    stage = Resync(window(9, desync=False))
    assert (stage.waiting, stage.content("a")) == (False, Seam("", "a", "", "", "a"))


def test_what_is_released_is_as_it_came() -> None:
    stage = Resync(window(12, desync=True))
    stage.reasoning("a <")
    stage.content("/thi")
    assert astuple(stage.release()) == ("<", "/thi", "<", "", "/thi")


@given(
    thought=st.text("ab .", min_size=1, max_size=30),
    answer=st.text("cd .", min_size=1, max_size=30),
    longest=st.integers(2, 24),
)
def test_what_an_engine_cuts_late_comes_out_without_marker_and_in_its_field(
    thought: str, answer: str, longest: int
) -> None:
    back = longest - 1
    late = (thought + CLOSER)[-back:]
    early = thought[: max(0, len(thought) - back)]  # what had gone out before the closer's step; the rest is lost
    said, closer, answered = at_every_cut(window(longest, desync=True), early, late + answer)
    head = late.removesuffix(CLOSER)
    if head != late and not head.strip():  # the closer is the first thing: left to the reader
        assert (said, closer, answered) == (early, "", late + answer)
    elif early or back > 1:
        assert (said, closer, answered) == (early + late.removesuffix(closer), closer, answer)
        assert CLOSER.endswith(closer) and closer


@given(
    reasoning=st.text("a</think> `", max_size=12),
    content=st.text("a</think> `", min_size=1, max_size=40),
    longest=st.integers(2, 12),
    desync=st.booleans(),
)
def test_fields_read_the_same_at_every_cut_and_lose_nothing(
    reasoning: str, content: str, longest: int, desync: bool
) -> None:
    assert "".join(at_every_cut(window(longest, desync=desync), reasoning, content)) == reasoning + content
