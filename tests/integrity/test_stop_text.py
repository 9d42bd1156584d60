"""Stop strings at the end of a text and in the midst of it, at every cut; the expected places are vLLM's own rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.integrity.stop_text import StopMatch, StopTail

STOPS = st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3).map(tuple)
PIECES = st.lists(st.text("abc\n", max_size=5), max_size=8)


def ended(stops: tuple[str, ...], *pieces: str, fired: bool = True, keep: bool = False) -> tuple[str, str]:
    """What of a text goes out, and what is cut from it at its end."""
    tail = StopTail(stops)
    out = "".join([tail.feed(piece) for piece in pieces])
    rest, cut = tail.end(fired=fired, keep=keep)
    assert not tail.waiting
    return out + rest, cut


def matched(stops: tuple[str, ...], *pieces: str) -> tuple[str, str | None, int]:
    """What of a text goes out, what has matched, and how much came behind it."""
    match = StopMatch(stops)
    out = "".join([match.feed(piece) for piece in pieces]) + match.end()
    assert not match.waiting
    return out, match.fired, match.dropped


# ------------------------------------------------------------------ at the end


@pytest.mark.parametrize(
    ("stops", "pieces", "out", "cut"),
    [
        (("END",), ["42.", "END"], "42.", "END"),
        (("END",), ["42.E", "ND"], "42.", "END"),
        (("END",), ["4END2.END"], "4END2.", "END"),  # of a whole answer the engine cuts behind the one that fired
        (("END",), ["4END", "2.", "END"], "4END2.", "END"),  # the first one did not fire: `min_tokens`
        (("END",), ["42.", "END", ""], "42.", "END"),  # an event without text says nothing
        (("b", "ab"), ["xa", "b"], "xa", "b"),  # they end together: the first in the list
        (("ab", "b"), ["xa", "b"], "x", "ab"),
        (("ab", "abc"), ["ab", "c"], "", "abc"),  # the short one was followed by more text
        (("END", "}"), ["a}", "b END;}"], "a}b END;", "}"),
        (("END",), ["42.", "END of"], "42.", "END of"),  # an engine that does not cut behind it
        (("END", "N"), ["42.", "END of"], "42.E", "ND of"),  # N ends first
        (("END",), ["42.EN"], "42.EN", ""),  # it fired somewhere else
        (("</think>",), ["Let me"], "Let me", ""),
        ((), ["Let me"], "Let me", ""),
    ],
)
def test_the_stop_string_that_fired_is_cut_from_the_end(
    stops: tuple[str, ...], pieces: list[str], out: str, cut: str
) -> None:
    assert ended(stops, *pieces) == (out, cut)


@pytest.mark.parametrize(
    ("pieces", "out", "cut"), [(["42.END"], "42.END", ""), (["42.", "END of"], "42.END", " of"), (["42."], "42.", "")]
)
def test_a_stop_string_that_the_client_asked_for_stays_and_what_follows_it_does_not(
    pieces: list[str], out: str, cut: str
) -> None:
    assert ended(("END",), *pieces, keep=True) == (out, cut)


def test_nothing_is_cut_where_no_stop_string_fired() -> None:
    assert ended(("END",), "42.", "END", fired=False) == ("42.END", "")


def test_a_stop_string_waits_until_more_text_follows() -> None:
    tail = StopTail(("END",))
    assert [tail.feed(piece) for piece in ("42.E", "ND", " of", " E", "n")] == ["42.", "", "END of", " ", "En"]


def test_what_is_held_is_released_as_it_came() -> None:
    tail = StopTail(("END",))
    assert (tail.feed("42.EN"), tail.waiting, tail.release(), tail.waiting) == ("42.", True, "EN", False)


@given(stops=STOPS, pieces=PIECES, fired=st.booleans(), keep=st.booleans())
def test_what_goes_out_and_what_is_cut_are_the_text(
    stops: tuple[str, ...], pieces: list[str], fired: bool, keep: bool
) -> None:
    out, cut = ended(stops, *pieces, fired=fired, keep=keep)
    assert out + cut == "".join(pieces)
    assert fired or not cut


@given(stops=STOPS, pieces=PIECES, data=st.data())
def test_a_text_that_the_engine_cut_behind_the_stop_string_ends_alike_at_every_cut(
    stops: tuple[str, ...], pieces: list[str], data: st.DataObject
) -> None:
    last = data.draw(st.sampled_from(stops))
    text = "".join(pieces) + last
    first = next(stop for stop in stops if text.endswith(stop))
    assert ended(stops, text) == ended(stops, *text) == ended(stops, *pieces, last) == (text[: -len(first)], first)


@given(stops=STOPS, pieces=PIECES)
def test_only_what_may_be_a_stop_string_waits(stops: tuple[str, ...], pieces: list[str]) -> None:
    tail = StopTail(stops)
    came = told = ""
    for piece in filter(None, pieces):
        came += piece
        told += tail.feed(piece)
        held = came[len(told) :]
        assert not held or any(held.startswith(stop) or stop.startswith(held) for stop in stops)


# ------------------------------------------------------------------ in the midst


@pytest.mark.parametrize(
    ("stops", "text", "out", "fired", "dropped"),
    [
        (("END",), "42.END of", "42.", "END", 3),
        (("END",), "42.EN", "42.EN", None, 0),
        (("abcd", "bc"), "xabcd", "xa", "bc", 1),  # ends first
        (("b", "ab"), "xab.", "xa", "b", 1),  # they end together: the first in the list
        (("ab", "b"), "xab.", "x", "ab", 1),
        (("is", "a"), "The user is a", "The user ", "is", 2),  # the example of vLLM PR 49391
        (("\n\n",), "\n\n\n", "", "\n\n", 1),
        ((), "42", "42", None, 0),
    ],
)
def test_the_text_ends_before_the_stop_string_that_ends_first(
    stops: tuple[str, ...], text: str, out: str, fired: str | None, dropped: int
) -> None:
    assert matched(stops, text) == matched(stops, *text) == (out, fired, dropped)


def test_only_the_beginning_of_a_stop_string_waits() -> None:
    match = StopMatch(("END",))
    assert [match.feed(piece) for piece in ("4E", "N", "x", "2.")] == ["4", "", "ENx", "2."]
    assert (match.feed("E"), match.waiting) == ("", True)


def test_a_stop_string_does_not_span_an_end_of_the_text() -> None:
    match = StopMatch(("END",))
    assert (match.feed("4E"), match.end(), match.feed("ND"), match.fired) == ("4", "E", "ND", None)


@given(stops=STOPS, pieces=PIECES)
def test_the_same_text_stops_at_the_same_place_at_every_cut(stops: tuple[str, ...], pieces: list[str]) -> None:
    text = "".join(pieces)
    ends = [(at, place) for at in range(len(text) + 1) for place, stop in enumerate(stops) if text[:at].endswith(stop)]
    first = min(ends, default=None)  # by hand: the earliest end, then the list's order
    wanted: tuple[str, str | None, int] = (text, None, 0)
    if first is not None:
        end, fired = first[0], stops[first[1]]
        wanted = (text[: end - len(fired)], fired, len(text) - end)
    assert matched(stops, text) == matched(stops, *text) == matched(stops, *pieces) == wanted
