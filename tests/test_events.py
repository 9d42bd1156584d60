"""The vocabulary of a reader."""

from __future__ import annotations

import dataclasses

import pytest

from gateway import events
from gateway.events import Decision, Effect, Group


def test_every_channel_has_a_name_of_its_own() -> None:
    names = [value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)]
    assert len(names) == len(set(names)) == 8


def test_a_decision_is_a_value() -> None:
    one, other = (Decision("<think>", Group.THINK_OPEN, Effect.DROP, "content", "opens", 3) for _ in range(2))
    assert one == other
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.at = 4  # type: ignore[misc]


def test_what_can_be_done_with_a_marker_is_a_closed_list() -> None:
    assert {str(effect) for effect in Effect} == {"drop", "forward", "text"}
