"""Raw text of an endpoint that engines never split: where reading starts, and what became of each character."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.integrity.outlet import Piece
from gateway.integrity.raw import RawPipeline
from gateway.integrity.setting import Setting
from gateway.integrity.tally import Tally
from gateway.policy import Mode, Profile
from gateway.rulebook.compile import compile_dialect
from tests.integrity.settings import C, R, setting
from tests.support.atoms import dialects, texts

DIALECTS = dialects()
STOP: dict[str, bool] = dict(stopped=True, length=False, promotable=True, stop_string=False, looped=False)
CUT = STOP | {"stopped": False, "length": True, "promotable": False}


class Run:
    """One choice. `sent`: what its client has, as it came where the pipeline says so; `fates`: so far."""

    def __init__(self, given: Setting | None = None, *, echo: str | None = "", watches: bool = False) -> None:
        given = given or setting(raw=True)
        self.tally = Tally(given.policy)
        self.pipeline = RawPipeline(given, self.tally, echo=echo, watches=watches)
        self.sent: list[Piece] = []
        self.as_came: list[bool] = []
        self.fates: list[tuple[int, bool]] = []

    def push(self, *contents: str) -> Run:
        for content in contents:
            pieces = self.pipeline.push("", content)
            self.as_came.append(pieces is None)
            self.take([(C, content)] if pieces is None else pieces)
        return self

    def take(self, pieces: list[Piece]) -> Run:
        self.sent += pieces
        self.fates += self.pipeline.take_fates()
        return self

    def finish(self, ending: dict[str, bool] = STOP) -> Run:
        return self.take(self.pipeline.finish(**ending))

    @property
    def said(self) -> tuple[str, str]:
        texts = ["".join([str(t) for c, t in self.sent if (c == R) is thinks]) for thinks in (True, False)]
        return texts[0], texts[1]

    @property
    def counted(self) -> dict[str, int]:
        return {f"{row.finding}/{row.action}": count for row, count in self.tally.findings}


def text_of(text: str, fates: list[tuple[int, bool]]) -> str:
    """The characters of `text` that are said to be text of the answer."""
    out, at = "", 0
    for count, stays in fates:
        out += text[at : at + count] if stays else ""
        at += count
    return out


# ---------------------------------------------------------------------- fates


def test_thought_and_markers_are_told_from_text() -> None:
    run = Run().push("<think>hm</think>", "Hi").finish()
    assert run.said == ("hm", "Hi")
    assert run.fates == [(7, False), (2, False), (8, False), (2, True)]
    assert run.pipeline.take_fates() == []


def test_what_is_held_has_no_fate_yet() -> None:
    run = Run().push("a <")
    assert (run.fates, run.pipeline.holding) == ([(2, True)], "marker")
    run.push("b")
    assert run.fates == [(2, True), (2, True)]


def test_what_is_released_is_text() -> None:
    run = Run().push("a <")
    run.take(run.pipeline.release(read=True))
    assert (run.said, run.fates) == (("", "a <"), [(2, True), (1, True)])


def test_a_closer_without_a_thought_is_text_where_it_is_only_observed() -> None:
    given = setting(raw=True, findings={"boundary_token": Mode.OBSERVE})
    run = Run(given).push("</think>a").finish()
    assert (run.said, run.fates) == (("", "</think>a"), [(8, True), (1, True)])
    assert Run().push("</think>a").finish().fates == [(8, False), (1, True)]


def test_a_marker_that_is_text_has_the_fate_of_text() -> None:
    text = "the tag `<think>` is"
    run = Run().push(text).finish()
    assert (run.said, text_of(text, run.fates)) == (("", text), text)


def test_another_role_behind_the_end_of_the_turn_is_no_text() -> None:
    text = "a<|im_end|>\n<|im_start|>user\nb"
    run = Run().push(text).finish()
    assert run.said == ("", "a\n")
    assert text_of(text, run.fates) == "a\n"
    kept = Run(setting(raw=True, findings={"role_token": Mode.OBSERVE})).push(text).finish()
    assert kept.said[1].endswith("b") and text_of(text, kept.fates).endswith("b")


def test_an_answer_that_is_sent_again_has_the_fate_of_the_thought() -> None:
    text = "Reply.<|close|>response<|sep|>"
    run = Run(setting("kimi_k3", raw=True, starts_open=True)).push(text).finish()
    assert run.said == ("Reply.", "Reply.")
    assert (text_of(text, run.fates), sum(count for count, _ in run.fates)) == ("", len(text))
    assert Run(setting("kimi_k3", raw=True, starts_open=True)).push(text).finish(CUT).said == ("Reply.", "")


def test_of_fields_only_the_content_has_fates() -> None:
    run = Run()
    run.take(run.pipeline.push("already split", "<think>a</think>b") or [])
    assert run.fates == [(7, False), (1, False), (8, False), (1, True)]


@given(st.data())
def test_every_character_has_one_fate_and_those_of_the_text_are_the_text(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(DIALECTS)))
    text = "".join([each for each in data.draw(texts(DIALECTS[name], size=10)) if not "\ud800" <= each <= "\udfff"])
    read_as = setting(raw=True, starts_open=data.draw(st.booleans()))
    size = data.draw(st.integers(1, 9))
    run = Run(replace(read_as, grammar=compile_dialect(DIALECTS[name])))
    run.push(*[text[at : at + size] for at in range(0, len(text), size)])
    run.finish(data.draw(st.sampled_from([STOP, CUT])))
    replayed = "".join([str(each) for channel, each in run.sent if channel == "replay"])
    assert sum(count for count, _ in run.fates) == len(text)
    assert sorted(text_of(text, run.fates) + replayed) == sorted(run.said[1])
    assert replayed or text_of(text, run.fates) == run.said[1]


# ---------------------------------------------------------------------- the echoed prompt

PROMPT = "Say <think>x</think> and a </think>"


@pytest.mark.parametrize("size", [1, 3, len(PROMPT), 100])
def test_the_echoed_prompt_is_not_read(size: int) -> None:
    text = PROMPT + "<think>hm</think>Hi"
    run = Run(echo=PROMPT).push(*[text[at : at + size] for at in range(0, len(text), size)]).finish()
    assert run.said == ("hm", PROMPT + "Hi")
    assert text_of(text, run.fates) == PROMPT + "Hi"
    assert run.counted == {}


def test_a_delta_of_the_prompt_alone_goes_out_as_it_came() -> None:
    assert Run(echo="ab").push("a", "b", "<think>").as_came == [True, True, False]


def test_a_delta_with_the_border_in_it_says_the_same_where_nothing_changes() -> None:
    assert Run(echo="ab").push("abc").said == ("", "abc")


@pytest.mark.parametrize("echo", [None, "the prompt"])
def test_where_the_border_is_not_to_be_told_nothing_is_read(echo: str | None) -> None:
    text = "the answer <think>hm</think>\n</think> <"
    run = Run(echo=echo).push(text, "\ud83d").finish()
    assert (run.said, run.as_came) == (("", text + "\ud83d"), [True] * 2)
    assert text_of(text + "\ud83d", run.fates) == text + "\ud83d"
    assert (run.counted, dict(run.tally.uninspected)) == ({}, {"echo": 1})
    assert run.pipeline.join("", "\ud83d") == ("", "\ud83d")
    assert run.pipeline.release(read=True) == []


def test_where_reasoning_is_hidden_everything_is_read_instead() -> None:
    read_as = setting(raw=True, hidden=True)
    assert Run(read_as, echo=None).push("<think>hm</think>Hi").finish().said == ("hm", "Hi")
    run = Run(read_as, echo="ab").push("<think>hm</think>Hi").finish()
    assert (run.said, dict(run.tally.uninspected)) == (("hm", "Hi"), {})


# ---------------------------------------------------------------------- watched


@pytest.mark.parametrize("size", [1, 5, 100])
def test_what_is_watched_goes_out_as_it_came_and_is_counted(size: int) -> None:
    read_as = setting(profile=Profile.OBSERVE)
    text = "<think>hm</think>Hi <"
    run = Run(read_as, watches=True).push(*[text[at : at + size] for at in range(0, len(text), size)])
    assert (run.as_came, run.pipeline.holding) == ([True] * len(run.as_came), None)
    run.finish()
    assert (run.said, run.fates) == (("", text), [])
    assert run.counted == {"reasoning_leak/would_move": 1, "boundary_token/would_strip": 1}


def test_a_watched_answer_that_breaks_off_lets_nothing_more_out() -> None:
    run = Run(setting(profile=Profile.OBSERVE), watches=True).push("a <")
    assert run.pipeline.release(read=True) == []
    assert run.pipeline.join("\ud83d", "a") == ("\ud83d", "a")


def test_halves_of_a_character_are_joined_where_it_is_read() -> None:
    run = Run()
    assert run.pipeline.join("", "a\ud83d") == ("", "a")
    assert run.pipeline.join("", "\ude00") == ("", "\U0001f600")
