"""Texts made of a dialect's own markers: what breaks a reader is rarely found in prose.

Whole markers, starts of markers, quotes, fences, line breaks, words of several scripts, in any order.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from gateway.rulebook.checks import markers_of
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.load import load_rulebook

FILLER = (
    *("a", "word ", "End.", " ", "\n", "\n\n", "\r\n", "\t", "漢字", "😀", "\u2028", "<", "<|", "[", "◁", "x < y"),
    *("`", "``", "```", "```py\n", "\n```\n", "~~~", "\n~~~\n", "> ", "- ", '"', "("),
)
SUFFIXES = (":", ":6124c78e>", ":no suffix>")
HEADERS = ("analysis", "final", "commentary", "commentary to=f ", "assistant", "user", "assistant to=f")


def dialects() -> dict[str, Dialect]:
    """Every shipped dialect, and one that has every shipped tool region besides."""
    book = load_rulebook()
    regions = tuple(dict.fromkeys(region for call in book.calls.values() for region in call.regions))
    return {**book.dialects, "think with calls": replace(book.dialects["think"], regions=regions)}


def markers(dialect: Dialect) -> tuple[str, ...]:
    """Every literal the dialect declares."""
    return tuple(dict.fromkeys(literal for _, literal in markers_of(dialect)))


def texts(dialect: Dialect, *, size: int = 24) -> st.SearchStrategy[str]:
    """Concatenations of at most `size` atoms."""
    literals = markers(dialect)
    starts = sorted({marker[:end] for marker in literals for end in range(1, len(marker))})
    atoms = st.one_of(
        st.sampled_from(literals),
        st.sampled_from(literals),
        st.sampled_from(starts),
        st.sampled_from(FILLER + (HEADERS if dialect.headers else ()) + (SUFFIXES if dialect.suffixed else ())),
        st.characters(),
    )
    return st.lists(atoms, max_size=size).map("".join)
