"""Which stages a setting calls for (contract rules 4, 8, 9) and which of them may make an answer late."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gateway.events import CONTENT, REASONING
from gateway.integrity.hold import UnknownStart, UnmarkedThought
from gateway.integrity.setting import StopWindow
from gateway.integrity.stages import (
    dedup_of,
    end_string_of,
    moves_thought,
    promotion_of,
    reader_of,
    resync_of,
    suppressible,
    unknown_start_of,
)
from gateway.limits import Limits
from gateway.policy import Dedup, Mode, Profile
from tests.integrity.settings import setting, tooling

OBSERVE = Profile.OBSERVE
OFF, SEEN = Mode.OFF, Mode.OBSERVE


def test_a_reader_has_the_caps_of_the_route() -> None:
    reader = reader_of(setting("kimi_k3", limits=Limits(channel_text=3)), starts_open=True, split=True)
    assert reader is not None
    assert reader.feed("text") == [(REASONING, "text")]
    assert reader.replay_capped


def test_a_reader_starts_where_it_is_told() -> None:
    for starts_open, channel in ((True, REASONING), (False, CONTENT)):
        reader = reader_of(setting(), starts_open=starts_open, split=False)
        assert reader is not None
        assert reader.feed("text") == [(channel, "text")]


@pytest.mark.parametrize(
    ("given", "window"),
    [
        ({"tooling": tooling("f")}, UnmarkedThought),
        ({}, type(None)),  # no call of the engine's own can come
        ({"tooling": tooling("f"), "raw": True}, type(None)),
        ({"tooling": tooling("f"), "starts_open": True}, UnknownStart),
        ({"tooling": tooling("f"), "starts_open": True, "thinking_off": True}, UnmarkedThought),
        ({"tooling": tooling("f"), "findings": {"reasoning_leak": OFF}}, type(None)),
    ],
)
def test_a_thought_that_has_lost_its_markers_is_looked_for_where_the_engine_may_call(
    given: dict[str, Any], window: type
) -> None:
    assert isinstance(unknown_start_of(setting("gemma4", unmarked=("thought\n",), **given)), window)


def test_without_a_grammar_there_is_no_reader_and_no_window() -> None:
    nothing = setting("none", starts_open=True)
    assert (reader_of(nothing, starts_open=False, split=True), unknown_start_of(nothing)) == (None, None)


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ({}, True),
        ({"profile": Profile.REPAIR}, True),
        ({"starts_open": False}, False),
        ({"raw": True}, False),  # raw text starts in the thought: nothing is unknown
        ({"thinking_off": True}, False),
        ({"findings": {"reasoning_leak": SEEN}}, False),
        ({"findings": {"boundary_token": OFF}}, False),
        ({"profile": OBSERVE}, True),  # the engine's bytes go out meanwhile
        ({"profile": OBSERVE, "hidden": True}, False),
    ],
)
def test_content_waits_for_the_promised_thought_where_it_would_be_moved(given: dict[str, Any], waits: bool) -> None:
    assert (unknown_start_of(setting(**{"starts_open": True, **given})) is not None) is waits


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ({}, True),
        ({"profile": OBSERVE}, False),
        ({"findings": {"answer_in_reasoning": SEEN}}, False),
        ({"findings": {"answer_in_reasoning": OFF}}, None),
        ({"thinking_off": False}, None),
        ({"hidden": True}, None),
        ({"promotable": False}, None),
        ({"promote_reasoning": "never"}, None),
    ],
)
def test_reasoning_is_held_for_promotion_only_where_it_may_be_promoted(
    given: dict[str, Any], holds: bool | None
) -> None:
    promotion = promotion_of(setting(**{"thinking_off": True, **given}))
    assert (promotion and promotion.hold) is holds


@pytest.mark.parametrize(
    ("given", "would", "holds"),
    [
        ({}, True, True),
        ({"profile": OBSERVE}, True, False),
        ({"findings": {"duplicate_suppressed": SEEN}}, True, False),
        ({"findings": {"duplicate_suppressed": OFF}}, False, False),
        ({"wanted": False}, False, False),
        ({"hidden": True}, False, False),
        ({"dedup": Dedup(enabled=False)}, False, False),
    ],
)
def test_a_repeat_is_held_only_where_it_would_be_suppressed(given: dict[str, Any], would: bool, holds: bool) -> None:
    chosen = setting(**{"wanted": True, **given})
    assert (suppressible(chosen), dedup_of(chosen, Counter()).hold) == (would, holds)


def test_the_comparison_follows_the_policy() -> None:
    counts: Counter[str] = Counter()
    for dedup, suppressed in ((Dedup(), 3), (Dedup(match="exact"), 0), (Dedup(min_length=2), 0)):
        stage = dedup_of(setting(wanted=True, dedup=dedup), counts)
        stage.reasoning("r")
        stage.content("\nr\n")
        assert stage.settle(stopped=True)[1] == suppressed
    assert counts["checked"] == 3


def test_the_end_string_is_looked_for_where_the_route_names_one() -> None:
    assert end_string_of(setting()) is None
    stage = end_string_of(setting(end_string="Done.</think>", limits=Limits(marker_run=2)))
    assert stage is not None
    assert (stage.reasoning("a Done. "), stage.reasoning(" ")) == ("a ", "Done.  ")  # two blanks are the cap


def test_an_engine_that_was_asked_for_no_reasoning_sends_none_before_the_content() -> None:
    assert unknown_start_of(setting(starts_open=True)) is not None
    assert unknown_start_of(setting(starts_open=True, unsent=True, hidden=True)) is None


WINDOW = StopWindow(longest=4, closers=("</think>",), openers=("<think>",), desync=False)


@pytest.mark.parametrize(
    ("given", "waits", "moves"),
    [
        ({}, True, True),
        ({"stop_window": None}, False, True),
        ({"raw": True}, False, True),
        ({"findings": {"reasoning_leak": SEEN}}, False, False),
        ({"findings": {"boundary_token": OFF}}, False, False),
        ({"profile": OBSERVE}, True, False),
        ({"profile": OBSERVE, "hidden": True}, False, False),
    ],
)
def test_content_behind_the_reasoning_waits_where_a_late_thought_would_be_moved(
    given: dict[str, Any], waits: bool, moves: bool
) -> None:
    chosen = setting(**{"stop_window": WINDOW, **given})
    assert (resync_of(chosen) is not None, moves_thought(chosen.policy)) == (waits, moves)
