"""The layout of `demo`: columns, marks and the table, at the width that is asked for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.side_by_side import LEAK, RESET, LeakRow, Part, Style, leak_table, leaked_parts, side_by_side, wrap

PLAIN = Style(width=41, colour=False)  # 19 columns a side
COLOUR = Style(width=41, colour=True)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
TITLES = ("left", "right")


def part(text: str, expected: str | None = None, label: str = "content") -> Part:
    return Part(label=label, text=text, expected=text if expected is None else expected)


@pytest.mark.parametrize(
    ("text", "expected", "parts"),
    [
        ("</think>yes", "yes", ("</think>", "")),
        ("yes<|return|>", "yes", ("", "<|return|>")),
        ("<think>4</think>4", "4", ("<think>4</think>", "")),
        ("all of it", "", ("all of it", "")),
        ("something else", "yes", ("something else", "")),
        ("yes", "yes", ("", "")),
        ("", "yes", ("", "")),
    ],
)
def test_what_stands_around_the_expected_text_leaked(text: str, expected: str, parts: tuple[str, str]) -> None:
    assert leaked_parts(text, expected) == parts


def test_two_answers_stand_beside_each_other() -> None:
    lines = side_by_side(
        TITLES,
        [part("", label="reasoning"), part("<think>Two and two</think>\n\n4", "4")],
        [part("Two and two", label="reasoning"), part("4")],
        PLAIN,
    )
    assert lines == [
        "left                | right",
        "--------------------+--------------------",
        "reasoning           | reasoning",
        "  (nothing)         |   Two and two",
        "content             | content",
        "  <think>Two and    |   4",
        "  two</think>\\n\\n4  |",
    ]


def test_leaked_text_is_marked_and_nothing_else_is() -> None:
    lines = side_by_side(TITLES, [part("</think>four", "four")], [part("four")], COLOUR)
    assert lines[-1].startswith(f"  {LEAK}</think>{RESET}four")
    assert lines[-1].count(LEAK) == 1


def test_without_colour_there_is_no_escape_sequence() -> None:
    rows = [LeakRow(case="a", finding="b", leaked="\x1b[31m", direct=1, through=0)]
    text = "\n".join([*side_by_side(TITLES, [part("\x1b[31mx", "x")], [part("x")], PLAIN), *leak_table(rows, PLAIN)])
    assert "\x1b" not in text and "\\x1b[31m" in text


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), min_size=1, max_size=3), st.integers(41, 120))
def test_colour_changes_no_text_and_no_line_is_too_wide(texts: list[tuple[str, str]], width: int) -> None:
    left, right = [part(one, other) for one, other in texts], [part(other) for _, other in texts]
    plain = side_by_side(TITLES, left, right, Style(width=width, colour=False))
    coloured = side_by_side(TITLES, left, right, Style(width=width, colour=True))
    assert [ESCAPE.sub("", line).rstrip() for line in coloured] == plain
    assert max(map(len, plain)) <= width


@given(st.text(alphabet="ab \\", max_size=60), st.integers(1, 12))
def test_wrapping_loses_no_character_and_fills_no_line_over(text: str, width: int) -> None:
    lines = ["".join(shown for shown, _ in line) for line in wrap([(char, False) for char in text], width)]
    assert "".join(lines) == text
    assert all(0 < len(line) <= width for line in lines)


def test_a_line_breaks_behind_a_space_or_in_a_word_that_is_too_long() -> None:
    lines = ["".join(shown for shown, _ in line) for line in wrap([(char, False) for char in "ab cdefghij k"], 5)]
    assert lines == ["ab ", "cdefg", "hij k"]


def test_a_line_narrower_than_an_escape_still_holds_it() -> None:
    assert list(wrap([("\\x1b", True), ("a", False)], 2)) == [[("\\x1b", True)], [("a", False)]]


def test_the_leak_table_names_a_case_once_and_clips_what_leaked() -> None:
    rows = [
        LeakRow(case="k3", finding="boundary_token", leaked="<|close|>response<|sep|>", direct=2, through=0),
        LeakRow(case="k3", finding="truncated", leaked="\n", direct=1, through=1),
        LeakRow(case="clean", finding="-", leaked="(no leak)", direct=0, through=0),
    ]
    assert leak_table(rows, Style(width=50, colour=False)) == [
        "case  finding        what leaked    direct gateway",
        "-" * 50,
        "k3    boundary_token <|close|>res..      2       0",
        "      truncated      \\n                  1       1",
        "clean -              (no leak)           0       0",
    ]
