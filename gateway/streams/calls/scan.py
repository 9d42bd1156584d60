"""Literals in the text of a call: the next one, the one that stands here, and white space between them.

Owns what every body reader needs of a text that may go on in the next piece. Knows no format.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from gateway.streams.markers import Plan

# JSON's white space, so that it means the same in front of a value and inside one.
_SPACE: Final = re.compile(r"[ \t\n\r]*+")


def find(text: str, literals: tuple[str, ...], at: int, *, final: bool) -> tuple[int, int] | int:
    """`(begin, end)` of the next of `literals` from `at`: leftmost, then longest.

    Where there is none, the place up to which there can be none: what is behind it may be the beginning of one, is
    shorter than the longest literal, and must be given again with more behind it. `final`: no more will come, so that
    place is the text's end. Without literals it is always the text's end.
    """
    begin, end, hold = _plan(literals).next(text, at, final=final)
    return hold if begin < 0 else (begin, end)


def startswith_any(text: str, literals: tuple[str, ...], at: int, *, final: bool) -> int | Literal[False] | None:
    """The end of the longest of `literals` that begins at `at`; False: none does; None: more text decides.

    Compare with `is`: an end may be 0, since an empty literal begins everywhere.
    """
    for literal in _longest_first(literals):
        if text.startswith(literal, at):
            return at + len(literal)
        if not final and len(text) - at < len(literal) and literal.startswith(text[at:]):
            return None
    return False


def past_space(text: str, at: int) -> int:
    """The first place from `at` without white space; the text's length where there is none."""
    match = _SPACE.match(text, at)
    assert match, "matches anything"
    return match.end()


@lru_cache(maxsize=4096)
def _plan(literals: tuple[str, ...]) -> Plan[None]:
    return Plan(dict.fromkeys(literals))


@lru_cache(maxsize=4096)
def _longest_first(literals: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(literals, key=len, reverse=True))
