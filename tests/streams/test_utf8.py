"""Characters that arrive in two halves: UTF-16 halves from JSON escapes, and UTF-8 bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.utf8 import SurrogateJoiner, Utf8Decoder


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


def decoded(*pieces: bytes) -> str:
    decoder = Utf8Decoder()
    return "".join([*map(decoder.feed, pieces), decoder.finish()])


# Unicode 15, table 3-8 to 3-11 (U+FFFD per maximal subpart), which WHATWG Encoding follows.
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "aé€😀"),
        (b"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82A", "\ufffd" * 8 + "A"),
        (b"\xed\xa0\x80\xed\xbf\xbf\xed\xafA", "\ufffd" * 8 + "A"),
        (b"\xf4\x91\x92\x93\xffA\x80\xbfB", "\ufffd" * 5 + "A" + "\ufffd" * 2 + "B"),
        (b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA", "\ufffd" * 4 + "A"),
        (b"a\xf0\x9f\x98", "a\ufffd"),
        (b"\xef\xbb\xbfa", "\ufeffa"),
    ],
)
def test_ill_formed_bytes_are_replaced_as_the_standard_says_at_every_cut(data: bytes, text: str) -> None:
    assert decoded(data) == text
    assert decoded(*(data[i : i + 1] for i in range(len(data)))) == text
    for cut in range(len(data) + 1):
        assert decoded(data[:cut], data[cut:]) == text


def test_characters_come_as_soon_as_they_are_complete() -> None:
    decoder = Utf8Decoder()
    assert [decoder.feed(b"a\xc3"), decoder.feed(b"\xa9"), decoder.finish()] == ["a", "é", ""]
