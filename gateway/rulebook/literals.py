"""A regular expression that is only a list of literals in disguise, as that list.

Checkpoints write `</think>\\s*` or `<\\|im_end\\|>|$` where a marker is meant. Owns which patterns those are; every
other pattern has no list. Knows no dialect and no file format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

MOST: Final = 64  # literals of one pattern

_BLANKS: Final = "\0"  # stands for white space of any length
_END: Final = "\1"  # stands for the end of the output
_MARKS: Final = {"blanks": _BLANKS, "end": _END}
_NAMED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_TOKEN: Final = re.compile(
    r"(?P<operator>\(\?:|[)|?])|(?P<blanks>\\s[*?])|(?P<end>\$|\\Z)|\\(?P<escaped>[^0-9A-Za-z]|[nrt])"
    r"|(?P<plain>[^\\()\[\]{}.*+?^$|\0\1])",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Literals:
    """`texts`: what the pattern matches, the preferred first. `blanks`: white space beside some of them is part of the
    match. `at_end`: the end of the output matches as well.
    """

    texts: tuple[str, ...]
    blanks: bool = False
    at_end: bool = False


def literals(pattern: str) -> Literals | None:
    """The literals that `pattern` stands for; None where it matches anything else, or not the longest of them first.

    Understood are plain and escaped characters, `\\n`, `\\r`, `\\t`, `|`, `(?:…)`, `?`, white space (`\\s*`, `\\s?`) at
    either end, and the end of the output (`$`, `\\Z`) as an alternative of its own.
    """
    try:
        re.compile(pattern)
        raw = _alternatives([*_tokens(pattern)][::-1])
    except (re.error, _NoList):
        return None
    texts = tuple(dict.fromkeys(text.strip(_BLANKS) for text in raw if text.strip(_BLANKS + _END)))
    inside = any(mark in text for text in texts for mark in (_BLANKS, _END))
    shortest_first = any(later.startswith(earlier) for earlier, later in combinations(texts, 2))
    if inside or shortest_first or "" in raw or _BLANKS in raw:
        return None
    return Literals(texts, any(_BLANKS in text for text in raw), any(_END in text for text in raw))


class _NoList(Exception):
    """The pattern matches more than a list says."""


def _tokens(pattern: str) -> Iterator[str]:
    """Operators, and characters behind a `=`."""
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise _NoList
        kind, text = token.lastgroup, token[token.lastgroup or 0]
        at = token.end()
        if kind == "operator":
            yield text
        elif kind == "escaped":
            yield f"={_NAMED.get(text, text)}"
        else:
            yield f"={_MARKS.get(kind or '', text)}"


def _alternatives(tokens: list[str]) -> list[str]:
    found = _sequence(tokens)
    while tokens and tokens[-1] == "|":
        tokens.pop()
        found += _sequence(tokens)
    return found


def _sequence(tokens: list[str]) -> list[str]:
    texts = [""]
    while tokens and tokens[-1] not in ("|", ")"):
        atom = _atom(tokens)
        if tokens and tokens[-1] == "?":
            tokens.pop()
            atom = [*atom, ""]
        texts = [head + tail for head in texts for tail in atom]
        if len(texts) > MOST:
            raise _NoList
    return texts


def _atom(tokens: list[str]) -> list[str]:
    token = tokens.pop()
    if token.startswith("="):
        return [token[1:]]
    if token == "?":  # behind another quantifier: the shorter one is preferred
        raise _NoList
    inner = _alternatives(tokens)
    tokens.pop()
    return inner
