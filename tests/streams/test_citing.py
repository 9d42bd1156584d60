"""Block quotes and quotation marks of a line: CommonMark 0.31.2 section 5.1, JSON's strings (RFC 8259), typography."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.citing import Citing
from tests.support.reader import CHUNK_SIZES, cut_at
from tests.support.reader import cut as pieces


def cited(parts: list[str]) -> bool:
    line = Citing()
    for part in parts:
        line.take(part)
    return line.cited


ROWS = [
    ("> ", True, "CommonMark 228: a block quote"),
    (">", True, "229: without a blank behind its sign"),
    ("   > ", True, "230: behind up to three blanks"),
    ("          > ", True, "or more: answers nest"),
    ("a > b ", False, "it stands first"),
    ("- > ", True, "a quote in a list"),
    ("1. - > x", True, "in a nested one"),
    ("12) > x", True, "in an ordered one"),
    ("-> x", False, "an arrow is no list mark"),
    ("1.> x", False, "nor is a number without a blank behind it"),
    ("> > x", True, "one in another"),
    (" " * 40 + "> x", False, "too far in"),
    ('say "', True, "a quotation is open"),
    ('say "x', True, "and stays so"),
    ('say "x"', False, "until it is closed"),
    ('say "x" and "', True, "the next one opens"),
    ('a 5" disk ', False, "a measure opens nothing"),
    ('the "5" disk ', False, "but closes"),
    ('他说"', True, "no letter of another script is in the way"),
    ('{"a": "b ', True, "a string of a JSON object"),
    ('{"a": "b \\" ', True, "an escaped mark does not end it"),
    ('{"a": "b \\\\" ', False, "an escaped backslash in front of the mark does not escape it"),
    ('{"a": "b"} ', False, "the object is over"),
    ("“x", True, "typographic"),
    ("“x”", False, "closed"),
    ('“x"', False, "closed by a straight one"),
    ("„x“", False, "German"),
    ("«x»", False, "French"),
    ("「x", True, "Chinese and Japanese"),
    ("「x」", False, "closed"),
    ("『「x」", True, "one of the other kind does not close it"),
    ("x” ", False, "a closing mark opens nothing"),
    ("it's an 'x", False, "apostrophes are none"),
    ("", False, "an empty line"),
]


@pytest.mark.parametrize(("line", "wanted", "rule"), ROWS)
def test_a_place_is_cited_where_the_quotation_is_open(line: str, wanted: bool, rule: str) -> None:
    for size in (*CHUNK_SIZES, len(line) or 1):
        assert cited(pieces(line, size)) is wanted, (rule, size)


def test_a_line_break_ends_every_quotation() -> None:
    for text in ("> ", "“", '"\\'):
        line = Citing()
        line.take(text)
        assert line.cited
        line.line_break()
        assert not line.cited
        line.take('"')  # neither escaped nor closing
        assert line.cited


@given(st.text(st.sampled_from('>"“”「」„\\- 1.5a京\t'), max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_the_cuts_change_nothing(line: str, places: list[int]) -> None:
    parts = [part for part in cut_at(line, [min(place, len(line)) for place in places]) if part]
    assert cited(parts) is cited([line] if line else [])
