"""Characters that arrive in two halves: UTF-16 halves from JSON escapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.utf8 import SurrogateJoiner


def joined(*pieces: str) -> list[str]:
    """What comes of each piece, and at the end."""
    joiner = SurrogateJoiner()
    return [*map(joiner.feed, pieces), joiner.finish()]


@pytest.mark.parametrize(
    ("pieces", "out"),
    [
        (("a", ""), ["a", "", ""]),
        (("a\ud83d", "\ude00b"), ["a", "😀b", ""]),
        (("\ud83d", "\ude00"), ["", "😀", ""]),
        (("\ud83d", "", "\ude00"), ["", "", "😀", ""]),
        (("\ud83d", "\ude00\ud83d", "\ude01"), ["", "😀", "😁", ""]),
        (("\ud800", "\udc00"), ["", "\U00010000", ""]),
        (("\udbff", "\udfff"), ["", "\U0010ffff", ""]),
        (("a\ud83d",), ["a", "\ufffd"]),
        (("\ud83d", "b"), ["", "\ud83db", ""]),
        (("\ud83d", "\ud83d", "\ude00"), ["", "\ud83d", "😀", ""]),
        (("a\ud83db", "c"), ["a\ud83db", "c", ""]),
        (("\ude00", "a"), ["\ude00", "a", ""]),
        (("\ud7ff", "\ue000"), ["\ud7ff", "\ue000", ""]),
    ],
)
def test_only_a_high_half_at_the_end_waits_for_its_low_half(pieces: tuple[str, ...], out: list[str]) -> None:
    assert joined(*pieces) == out


@pytest.mark.parametrize("text", ["", "plain", "é😀", "a\ud83db"])
def test_text_that_needs_nothing_is_the_same_object(text: str) -> None:
    assert SurrogateJoiner().feed(text) is text


def test_after_the_end_nothing_is_held() -> None:
    joiner = SurrogateJoiner()
    joiner.feed("\ud83d")
    assert [joiner.finish(), joiner.finish()] == ["\ufffd", ""]


@given(st.text(alphabet="aé😀\U00010000\U0010ffff"), st.data())
def test_text_cut_between_any_utf16_units_comes_back_whole(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(units) // 2))))
    spans = zip([0, *cuts], [*cuts, len(units) // 2], strict=True)
    assert "".join(joined(*(units[2 * a : 2 * b].decode("utf-16-le", "surrogatepass") for a, b in spans))) == text
