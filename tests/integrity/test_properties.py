"""What holds for every answer of an engine that splits fields: nothing lost, nothing invented (contract rule 2)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.integrity.setting import Setting
from gateway.limits import Limits
from gateway.policy import Profile, policy_for
from gateway.rulebook.compile import compile_dialect
from gateway.streams.grammar import Take, Takes
from tests.integrity.settings import LIMITS, Run, tooling
from tests.support.atoms import dialects, texts

DIALECTS = dialects()
FINISH = st.sampled_from(["stop", "length", "tool_calls", "content_filter"])
TAKES = [Takes(), *(Takes(content=take, control=take, thought=take) for take in (Take.WATCH, Take.HOLD))]
TOOLING = [None, tooling("not_in_any_answer"), tooling("f", choice="none")]
TIGHT = Limits(promote=7, unknown_start=9, dedup=11, channel_text=13, tool_region=17)


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """A dialect's name, and deltas of `(reasoning, content)` in any order, some of both."""
    name = draw(st.sampled_from(sorted(DIALECTS)))
    piece = texts(DIALECTS[name], size=3)
    pairs = st.lists(st.one_of(st.tuples(piece, st.just("")), st.tuples(st.just(""), piece), st.tuples(piece, piece)))
    return name, [pair for pair in draw(pairs) if any(pair)]


_FLAGS = ("starts_open", "thinking_off", "wanted", "hidden", "unsent")


@st.composite
def settings(draw: st.DrawFn, name: str, profile: Profile) -> Setting:
    """Any setting of a split answer in that dialect."""
    flags: dict[str, Any] = {flag: draw(st.booleans()) for flag in _FLAGS}
    return Setting(
        grammar=compile_dialect(DIALECTS[name]),
        raw=False,
        promotable=DIALECTS[name].promote,
        policy=policy_for(profile),
        limits=draw(st.sampled_from([LIMITS, TIGHT])),
        openings=(),
        end_strings=(),
        unmarked=(),
        takes=draw(st.sampled_from(TAKES[:2] if profile is Profile.OBSERVE else TAKES)),
        tooling=draw(st.sampled_from(TOOLING)),
        stop_window=None,
        **flags,
    )


def finished(given_: Setting, deltas: list[tuple[str, str]], finish: str, *, calls: bool) -> Run:
    """The deltas, a tool call in the middle where asked for, then the end."""
    run = Run(given_).push(*deltas[: len(deltas) // 2])
    if calls:
        run.take(run.pipeline.tool_call())
    return run.push(*deltas[len(deltas) // 2 :]).finish(finish)


@given(st.data(), answers(), FINISH, st.booleans())
def test_every_character_is_sent_or_part_of_a_counted_marker_or_suppression(
    data: st.DataObject, answer: tuple[str, list[tuple[str, str]]], finish: str, calls: bool
) -> None:
    name, deltas = answer
    run = finished(data.draw(settings(name, Profile.FULL)), deltas, finish, calls=calls)
    came = Counter("".join([reasoning + content for reasoning, content in deltas]))
    sent = Counter("".join([text for channel, text in run.sent if channel != "replay"]))
    stripped = Counter("".join([(row.marker or "") * n for row, n in run.tally.findings if row.action == "stripped"]))
    assert sent + stripped <= came
    assert (came - sent - stripped).total() == run.tally.characters_suppressed


@given(st.data(), answers(), FINISH, st.booleans())
def test_observe_sends_what_came_in_each_field(
    data: st.DataObject, answer: tuple[str, list[tuple[str, str]]], finish: str, calls: bool
) -> None:
    name, deltas = answer
    run = finished(data.draw(settings(name, Profile.OBSERVE)), deltas, finish, calls=calls)
    assert run.said == ("".join([reasoning for reasoning, _ in deltas]), "".join([content for _, content in deltas]))
    assert run.tally.characters_suppressed == 0
    flags = ("flagged", "kept", "capped", "left")
    assert not [row for row in run.tally.rows if not row.action.startswith("would_") and row.action not in flags]


@given(st.data(), answers())
def test_an_answer_that_breaks_off_loses_nothing_and_suppresses_no_repeat(
    data: st.DataObject, answer: tuple[str, list[tuple[str, str]]]
) -> None:
    name, deltas = answer
    run = Run(data.draw(settings(name, Profile.FULL))).push(*deltas)
    run.take(run.pipeline.release(read=data.draw(st.booleans())))
    came = Counter("".join([reasoning + content for reasoning, content in deltas]))
    sent = Counter("".join([text for channel, text in run.sent if channel != "replay"]))
    stripped = Counter("".join([(row.marker or "") * n for row, n in run.tally.findings if row.action == "stripped"]))
    foreign = run.tally.characters_suppressed
    assert (came - sent - stripped).total() == foreign
    assert "duplicate_suppressed/suppressed" not in run.counted


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_text_without_a_marker_is_never_made_again(name: str) -> None:
    run = Run(Setting(
        grammar=compile_dialect(DIALECTS[name]), raw=False, starts_open=False, thinking_off=False, wanted=False,
        hidden=False, unsent=False, promotable=True, policy=policy_for(Profile.FULL), limits=LIMITS, openings=(),
        end_strings=(), unmarked=(), takes=TAKES[-1], tooling=None, stop_window=None,
    ))  # fmt: skip
    deltas = [("So", ""), (" I add", ""), ("", "Ok"), ("", ": 4."), ("", "\n\nDone.")]
    assert [run.pipeline.push(*delta) for delta in deltas] == [None] * len(deltas)
