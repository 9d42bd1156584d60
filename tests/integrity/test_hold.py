"""The small holds (contract rules 4 and 8): what they keep, until when, and that they give back what they took."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.events import CONTENT, REASONING, Segment
from gateway.integrity.hold import Promotion, UnknownStart, UnmarkedThought
from gateway.integrity.stages import reader_of
from tests.integrity.settings import setting
from tests.support.tagged import EVERYTHING


def start(name: str = "think", *, cap: int) -> UnknownStart:
    """A window before the thought."""
    probe = reader_of(setting(name), starts_open=True, split=False)
    assert probe
    return UnknownStart(probe, cap=cap)


def text_of(segments: list[Segment], channel: str) -> str:
    """The text of one channel."""
    return "".join([str(item) for where, item in segments if where == channel])


# ---------------------------------------------------------------------- promotion


@given(st.lists(st.text(min_size=1)), st.integers(min_value=0, max_value=20))
def test_promotion_gives_back_exactly_what_it_took(texts: list[str], cap: int) -> None:
    promotion = Promotion(cap=cap, hold=True)
    out: list[str] = []
    for text in texts:
        out += promotion.take(text) if promotion.on else [text]
    assert "".join([*out, *promotion.release()]) == "".join(texts)
    assert promotion.on is False


def test_promotion_holds_up_to_its_cap_and_lets_go_past_it() -> None:
    promotion = Promotion(cap=3, hold=True)
    assert [promotion.take("ab"), promotion.take("c")] == [[], []]
    assert promotion.on
    assert promotion.take("d") == ["ab", "c", "d"]
    assert not promotion.on


def test_promotion_that_only_counts_is_never_late() -> None:
    promotion = Promotion(cap=3, hold=False)
    assert [promotion.take("ab"), promotion.take("cd")] == [["ab"], ["cd"]]
    assert not promotion.on
    assert promotion.release() == []


@pytest.mark.parametrize("hold", [True, False])
def test_white_space_alone_is_nothing_to_promote(hold: bool) -> None:
    promotion = Promotion(cap=9, hold=hold)
    promotion.take("\n ")
    assert not promotion.spoken
    promotion.take(" a")
    promotion.take(" ")
    assert promotion.spoken


# ---------------------------------------------------------------------- content before the thought


def test_a_closer_within_the_cap_decides_for_the_thought() -> None:
    window = start(cap=10)
    assert window.take("t</thi") == (None, "")
    segments, rest = window.take("nk>a")
    assert segments is not None
    assert (text_of(segments, REASONING), text_of(segments, CONTENT), rest) == ("t", "a", "")
    assert not window.on
    assert text_of(window.reader.feed("b"), CONTENT) == "b"


def test_past_the_cap_everything_is_content_to_be_read_from_its_start() -> None:
    window = start(cap=10)
    assert window.take("12345678</") == (None, "")
    assert window.on
    assert window.take("think>a") == (None, "12345678</think>a")
    assert not window.on


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
@pytest.mark.parametrize(
    ("name", "text", "leaves"),
    [
        ("think", "a</think><think>b", True),
        ("think", "a <think> b", False),
        ("kimi_k3", "a<|close|>response<|sep|>b", False),  # an answer closer inside the thought is only noted
        ("kimi_k3", "a<|open|>response<|sep|>b", True),
        ("kimi_k3", "a<|open|>tools<|sep|>b", True),
        ("harmony", "a<|end|>", True),
        ("harmony", "a<|channel|>analysis<|message|>b", False),
        ("harmony", "a<|channel|>final<|message|>b", True),
        ("think", "a<|im_end|> b", False),
    ],
)
def test_the_thought_is_left_at_the_same_character_at_every_cut(name: str, text: str, leaves: bool, size: int) -> None:
    window = start(name, cap=200)
    given = [text[at : at + size] for at in range(0, len(text), size)]
    taken = [window.take(piece) for piece in given if window.on]
    assert (taken[-1][0] is not None) is leaves
    assert window.on is not leaves


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ('a<|call|>{"name": "f"} so', True),
        ('a<tool_call>{"name": "f"}</tool_call>', False),  # a candidate in a thought ends none
        ("a<|call|>no", True),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 64])
def test_a_held_call_leaves_the_thought_where_its_opener_ends_one(text: str, leaves: bool, size: int) -> None:
    probe = reader_of(setting("tagged", takes=EVERYTHING), starts_open=True, split=False)
    assert probe
    window = UnknownStart(probe, cap=200)
    for at in range(0, len(text), size):
        segments, _ = window.take(text[at : at + size])
        if segments:
            assert text_of(segments, REASONING) == "a"
            break
    assert window.on is not leaves


@given(st.lists(st.text(alphabet="ab\n<>", min_size=1)), st.integers(min_value=0, max_value=12))
def test_without_a_closer_the_window_gives_back_exactly_what_it_took(texts: list[str], cap: int) -> None:
    window = start(cap=cap)
    out = ""
    for text in texts:
        segments, rest = window.take(text) if window.on else (None, text)
        assert segments is None
        out += rest
    segments, rest = window.settle(length=False)
    assert segments is None
    assert out + rest == "".join(texts)
    assert window.on is False


def test_a_length_cut_decides_for_the_thought() -> None:
    window = start(cap=10)
    window.take("a</thi")
    segments, rest = window.settle(length=True)
    assert segments is not None
    assert (text_of(segments, REASONING), text_of(segments, CONTENT), rest) == ("a</thi", "", "")


def test_the_cost_of_a_long_window_does_not_grow_with_its_square() -> None:
    class Counting(list[Segment]):
        """Segments that count how often they are looked through."""

        looks = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            type(self).looks += len(self)
            return super().__iter__()

    window = start(cap=4000)
    window._segments = Counting()
    for _ in range(2000):
        window.take("a")
    assert Counting.looks == 0


def test_a_hold_waits_from_the_first_text_to_the_decision() -> None:
    promotion, window = Promotion(cap=3, hold=True), start(cap=9)
    assert (promotion.waiting, window.waiting) == (False, False)
    promotion.take("a")
    window.take("t")
    assert (promotion.waiting, window.waiting) == (True, True)
    promotion.release()
    window.release()
    assert (promotion.waiting, window.waiting) == (False, False)


# ---------------------------------------------------------------------- a thought without markers


LABELS = ("thought\n", "think\n")


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_a_thought_without_its_markers_is_held_until_the_engines_own_call_comes(size: int) -> None:
    window = UnmarkedThought(LABELS, cap=40)
    for at in range(0, 20, size):
        assert window.take("thought\nI look it up"[at : at + size]) == (None, "")
    assert (window.on, window.waiting, window.thought) == (True, True, "I look it up")


@pytest.mark.parametrize("size", [1, 2, 3, 64])
@pytest.mark.parametrize("text", ["thoughts are free", "Thought\nx", "thi", "thought\n" + "x" * 33, "x"])
def test_what_is_no_such_thought_or_too_long_a_one_comes_back_as_it_was(text: str, size: int) -> None:
    window = UnmarkedThought(LABELS, cap=40)
    out = ""
    for at in range(0, len(text), size):
        piece = text[at : at + size]
        out += window.take(piece)[1] if window.on else piece
        assert window.on or not window.waiting
    assert window.on is (text == "thi")
    segments, rest = window.settle(length=False)
    assert (segments, out + rest, window.on) == (None, text, False)


@pytest.mark.parametrize("length", [True, False])
def test_without_a_call_it_was_content_however_it_ended(length: bool) -> None:
    window = UnmarkedThought(LABELS, cap=40)
    window.take("think\nso")
    assert (window.settle(length=length), window.on, window.waiting) == ((None, "think\nso"), False, False)


def test_a_label_alone_is_no_thought() -> None:
    window = UnmarkedThought(LABELS, cap=40)
    assert (window.waiting, window.thought) == (False, "")
    window.take("thought")
    assert (window.waiting, window.thought) == (True, "")
