"""A short pattern at a place: there, not there, or not known yet."""

from __future__ import annotations

import re

import pytest

from gateway.streams.calls.bounded import bounded
from gateway.streams.calls.call import NAME_CAP

WHOLE, BEGUN = re.compile(r"(\w+) *\("), re.compile(r"(?:\w+ *)?")


@pytest.mark.parametrize(
    ("text", "at", "final", "expected"),
    [
        ("f(x", 0, False, "f("),
        ("..f  (", 2, False, "f  ("),
        ("f ", 0, False, None),
        ("f ", 0, True, False),
        ("", 0, False, None),
        ("", 0, True, False),
        ("f)", 0, False, False),
        ("(", 0, False, False),
        ("n" * (NAME_CAP - 1) + "(", 0, False, "n" * (NAME_CAP - 1) + "("),
        ("n" * (NAME_CAP - 1), 0, False, None),
        ("n" * NAME_CAP, 0, False, False),
        ("n" * NAME_CAP + "(", 0, False, False),
    ],
)
def test_a_pattern_is_known_as_soon_as_the_text_decides_and_never_longer_than_the_cap(
    text: str, at: int, final: bool, expected: str | bool | None
) -> None:
    found = bounded(WHOLE, BEGUN, text, at, final=final)
    assert (found[0] if found else found) == expected
