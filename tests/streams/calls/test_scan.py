"""Literals of a call's text: what is known, and what only more text can tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.calls.scan import find, past_space, startswith_any

PAIR = ("</a>", "</ab>")


@pytest.mark.parametrize(
    ("text", "literals", "at", "final", "expected"),
    [
        ("x</a>y", PAIR, 0, False, (1, 5)),
        ("x</ab>y</a>", PAIR, 0, False, (1, 6)),
        ("</a></a>", PAIR, 1, False, (4, 8)),
        ("x</a", PAIR, 0, False, 1),
        ("x</a", PAIR, 0, True, 4),
        ("x<y", PAIR, 0, False, 3),
        ("", PAIR, 0, False, 0),
        ("x[E]", ("[E]", "[E] "), 0, False, 1),  # a longer one may still come
        ("x[E]", ("[E]", "[E] "), 0, True, (1, 4)),
        ("x[E] ", ("[E]", "[E] "), 0, False, (1, 5)),
        ("x[E]", (), 0, False, 4),
    ],
)
def test_the_next_literal_is_the_leftmost_then_the_longest_and_a_possible_beginning_is_held(
    text: str, literals: tuple[str, ...], at: int, final: bool, expected: tuple[int, int] | int
) -> None:
    assert find(text, literals, at, final=final) == expected


@pytest.mark.parametrize(
    ("text", "literals", "at", "final", "expected"),
    [
        ("</a>y", PAIR, 0, False, 4),
        ("x</ab>", PAIR, 1, False, 6),
        ("x</a>", PAIR, 0, False, False),
        ("</", PAIR, 0, False, None),
        ("</", PAIR, 0, True, False),
        ("", PAIR, 0, False, None),
        ("", PAIR, 0, True, False),
        ("[E]", ("[E]", "[E] "), 0, False, None),
        ("[E]", ("[E]", "[E] "), 0, True, 3),
        ("[E]x", ("[E]", "[E] "), 0, False, 3),
        ("</ax", PAIR, 0, False, False),
        ("x", ("", "[ARGS]"), 0, False, 0),
        ("[A", ("", "[ARGS]"), 0, False, None),
        ("[ARGS]", ("", "[ARGS]"), 0, False, 6),
        ("x", (), 0, False, False),
    ],
)
def test_what_begins_here_is_told_as_soon_as_it_is_known(
    text: str, literals: tuple[str, ...], at: int, final: bool, expected: int | None
) -> None:
    found = startswith_any(text, literals, at, final=final)
    assert found == expected and type(found) is type(expected)


@given(st.text("<a>/", max_size=12), st.lists(st.text("<a>/", min_size=1, max_size=4), max_size=3), st.text("<a>/"))
def test_what_was_told_of_a_text_stays_true_with_more_behind_it(text: str, literals: list[str], more: str) -> None:
    wanted = tuple(literals)
    begins = startswith_any(text, wanted, 0, final=False)
    if begins is not None:
        assert startswith_any(text + more, wanted, 0, final=True) == begins
    found = find(text, wanted, 0, final=False)
    later = find(text + more, wanted, 0, final=True)
    if isinstance(found, tuple):
        assert later == found
    else:
        assert len(text) - found < max(map(len, wanted), default=1)
        assert not isinstance(later, tuple) or later[0] >= found


@pytest.mark.parametrize(
    ("text", "at", "expected"), [(" \t\r\nx ", 0, 4), ("x y", 0, 0), ("x  ", 1, 3), ("", 0, 0), ("\u3000\x0bx", 0, 0)]
)
def test_white_space_between_parts_is_what_json_calls_so(text: str, at: int, expected: int) -> None:
    assert past_space(text, at) == expected
