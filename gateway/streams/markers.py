"""The scanner: which marker comes next in a text that arrives in pieces, and what must be held meanwhile.

One rule (reader_spec S1): search the live set leftmost, then longest; accept a hit only if it starts left of the *cut*,
the smallest index from which the buffer is a proper prefix of some live marker. Left of both is released, from the cut
on is held. So prefix pairs and overlaps read the same at every chunking.

Plans are immutable and shared; the cursor and the held text belong to the caller. Knows nothing of states or guards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Generic, TypeVar

Rule = TypeVar("Rule")


class Plan(Generic[Rule]):
    """One live set, compiled. `rules` maps each literal to whatever the caller wants to know about it.

    `leads`: the first characters of the markers; a chunk without any, and nothing held, needs no search (S9).
    `span`: the most characters `cut` ever holds back.
    """

    __slots__ = ("_prefixes", "_search", "leads", "rules", "span")

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        if "" in rules:
            raise ValueError("a marker must not be empty")
        self.rules = dict(rules)
        self.leads, self._prefixes, self._search = _compiled(frozenset(rules))
        self.span = max((len(text) for text in rules), default=1) - 1

    def cut(self, text: str, start: int) -> int:
        """Smallest index >= `start` from which `text` is a proper prefix of a live marker, else its length."""
        best = len(text)
        floor = max(start, best - self.span)
        for lead in self.leads:
            at = text.find(lead, floor, best)
            while at != -1:
                if text[at:] in self._prefixes:
                    best = at
                    break
                at = text.find(lead, at + 1, best)
        return best

    def next(self, text: str, start: int, *, final: bool) -> tuple[int, int, int]:
        """The next accepted hit from `start`: `(begin, end, cut)`; `begin` is -1 when there is none.

        `final`: no more text will come, so nothing is undecided and the cut is the text's length (S4). A hit that ends
        more than a span before the end of the text lies left of any cut, which is then not computed.
        """
        size = len(text)
        hit = self._search(text, start) if self._search else None
        if hit is not None and (final or hit.end() < size - self.span):
            return hit.start(), hit.end(), size
        cut = size if final else self.cut(text, start)
        if hit is None or hit.start() >= cut:
            return -1, -1, cut
        return hit.start(), hit.end(), cut


@lru_cache(maxsize=4096)
def _compiled(markers: frozenset[str]):  # type: ignore[no-untyped-def]
    """Leads, proper prefixes and search of a marker set, whatever its order (S6)."""
    leads = tuple(sorted({marker[0] for marker in markers}))
    prefixes = frozenset(marker[:size] for marker in markers for size in range(1, len(marker)))
    longest_first = sorted(markers, key=lambda marker: (-len(marker), marker))
    search = re.compile("|".join(map(re.escape, longest_first))).search if markers else None
    return leads, prefixes, search
