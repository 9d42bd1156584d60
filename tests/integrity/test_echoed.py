"""An answer that repeats a piece of its prompt first: that piece is not read, and nothing of the answer is lost."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.integrity.echoed import EchoedPipeline
from gateway.integrity.outlet import Piece
from gateway.integrity.setting import Setting
from gateway.integrity.tally import Tally
from tests.integrity.settings import C, R, setting

STOP: dict[str, bool] = dict(stopped=True, length=False, promotable=True, stop_string=False, looped=False)
ECHO = "Say <think>x</think> and a </think>"


class Run:
    """One choice. `sent`: what its client has; `as_came`: whether each delta went out as it came."""

    def __init__(self, given: Setting | None = None, *, echo: str | None = ECHO) -> None:
        given = given or setting()
        self.tally = Tally(given.policy)
        self.pipeline = EchoedPipeline(given, self.tally, echo=echo)
        self.sent: list[Piece] = []
        self.as_came: list[bool] = []

    def push(self, *deltas: tuple[str, str]) -> Run:
        for reasoning, content in deltas:
            pieces = self.pipeline.push(reasoning, content)
            self.as_came.append(pieces is None)
            came: list[Piece] = [piece for piece in ((R, reasoning), (C, content)) if piece[1]]
            self.sent += came if pieces is None else pieces
        return self

    def finish(self) -> Run:
        self.sent += self.pipeline.finish(**STOP)
        return self

    @property
    def said(self) -> tuple[str, str]:
        texts = ["".join([str(t) for c, t in self.sent if (c == R) is thinks]) for thinks in (True, False)]
        return texts[0], texts[1]

    @property
    def counted(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for row, count in self.tally.findings:
            counts[f"{row.finding}/{row.action}"] += count
        return dict(counts)


def contents(text: str, size: int) -> list[tuple[str, str]]:
    return [("", text[at : at + size]) for at in range(0, len(text), size)]


@given(st.integers(1, 60))
def test_reading_starts_behind_the_echo_at_every_cut(size: int) -> None:
    run = Run().push(*contents(ECHO + "<think>hm</think>Hi", size)).finish()
    assert run.said == ("hm", ECHO + "Hi")
    assert run.counted == {"reasoning_leak/moved": 1, "boundary_token/stripped": 2}


def test_a_delta_of_the_echo_alone_goes_out_as_it_came() -> None:
    assert Run(echo="ab").push(("", "a"), ("", "b"), ("", "<think>")).as_came == [True, True, False]
    assert Run(echo="ab").push(("", "abc")).said == ("", "abc")


def test_the_thought_beside_the_echo_is_read_too() -> None:
    run = Run(setting(thinking_off=True), echo="ab").push(("the answer", "ab")).finish()
    assert run.said == ("", "abthe answer")
    assert run.counted == {"answer_in_reasoning/promoted": 1}
    assert Run(echo="ab").push(("a thought", "ab")).as_came == [True]


@pytest.mark.parametrize("echo", [None, "the prompt"])
def test_where_the_border_is_not_to_be_told_nothing_is_read(echo: str | None) -> None:
    text = "the answer <think>hm</think>\n</think> <"
    run = Run(echo=echo).push(("", text), ("", "\ud83d")).finish()
    assert (run.said, run.as_came) == (("", text + "\ud83d"), [True] * 2)
    assert (run.counted, dict(run.tally.uninspected)) == ({}, {"echo": 1})
    pipeline = run.pipeline
    assert pipeline.join("r", "\ud83d") == ("r", "\ud83d")
    assert [pipeline.release(read=True), pipeline.tool_call(), pipeline.refusal()] == [[], [], []]
    assert pipeline.holding is None


def test_what_was_held_of_the_thought_goes_out_where_the_border_is_lost() -> None:
    run = Run(setting(thinking_off=True), echo="the prompt").push(("a thought <", ""), ("", "another")).finish()
    assert run.sent == [(R, "a thought <"), (C, "another")]
    both = Run(setting(thinking_off=True), echo="the prompt").push(("a thought", ""), (" and", "another")).finish()
    assert both.said == ("a thought and", "another")


def test_where_reasoning_is_hidden_everything_is_read_instead() -> None:
    read_as = setting(raw=True, hidden=True)
    assert Run(read_as, echo=None).push(("", "<think>hm</think>Hi")).finish().said == ("hm", "Hi")
    run = Run(read_as, echo="ab").push(("", "<think>hm</think>Hi")).finish()
    assert (run.said, dict(run.tally.uninspected)) == (("hm", "Hi"), {})


def test_behind_the_echo_it_is_as_any_other_pipeline() -> None:
    run = Run(echo="ab").push(("", "abc <"))
    assert (run.pipeline.holding, run.pipeline.join("", "\ud83d")) == ("marker", ("", ""))
    assert run.pipeline.join("", "\ude00") == ("", "\U0001f600")
    assert run.pipeline.tool_call() == [(C, "<")]
    assert Run(setting(thinking_off=True), echo="ab").push(("no", "ab")).pipeline.refusal() == [(R, "no")]
    assert Run(echo="ab").push(("", "ab <")).pipeline.release(read=True) == [(C, "<")]
