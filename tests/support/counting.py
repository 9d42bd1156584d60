"""Count the characters that a reader looks at, and that it hands to the readers of calls: never time.

Owns no expectation: how much work a text may cost stands in the tests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from gateway.streams.calls.call import Body, Status
from gateway.streams.grammar import Grammar
from tests.support.reader import Setup, cut


class Watched(str):
    """A text that counts the characters its readers look at; a piece cut from it is plain again."""

    counts: Counter[str]

    def __radd__(self, held: str) -> Watched:
        return watched(str.__add__(held, self), self.counts)

    def __getitem__(self, key: Any) -> str:
        found = str.__getitem__(self, key)
        self.counts["looked"] += len(found)
        return found

    def __contains__(self, part: Any) -> bool:
        self.counts["looked"] += len(self)
        return str.__contains__(self, part)

    def find(self, part: str, start: int = 0, end: int | None = None) -> int:
        found = str.find(self, part, start, len(self) if end is None else end)
        self.counts["looked"] += (found if found >= 0 else min(len(self), len(self) if end is None else end)) - start
        return found

    def index(self, part: str, start: int = 0) -> int:
        found = str.index(self, part, start)
        self.counts["looked"] += found - start
        return found


def watched(text: str, counts: Counter[str]) -> Watched:
    made = Watched(text)
    made.counts = counts
    return made


class CountingPlan:
    """A plan that counts the characters offered to its search."""

    def __init__(self, plan: Any, counts: Counter[str]) -> None:
        self._plan, self._counts = plan, counts
        self.rules, self.leads = plan.rules, plan.leads

    def next(self, text: str, start: int, *, final: bool) -> tuple[int, int, int]:
        begin, end, stop = self._plan.next(text, start, final=final)
        self._counts["looked"] += (end if begin >= 0 else len(text)) - start
        return begin, end, stop

    def cut(self, text: str, start: int) -> int:
        self._counts["looked"] += min(len(text) - start, self._plan.span)
        return self._plan.cut(text, start)


class CountingPattern:
    """An expression that counts what it is offered: all of it in a search, the longest marker in a match."""

    def __init__(self, pattern: Any, counts: Counter[str], longest: int) -> None:
        self._pattern, self._counts, self._longest = pattern, counts, longest

    def match(self, text: str, at: int) -> Any:
        self._counts["looked"] += self._longest
        return self._pattern.match(text, at)

    def search(self, text: str) -> Any:
        self._counts["looked"] += len(text)
        return self._pattern.search(text)


class CountingBody:
    """A body that counts the characters offered to its readers, those that were not read each time again."""

    def __init__(self, body: Body, counts: Counter[str]) -> None:
        self._body, self._counts = body, counts

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        return self._body.lead(text, at, final=final)

    def open(self, *, until: tuple[str, ...]) -> CountingCalls:
        return CountingCalls(self._body.open(until=until), self._counts)


class CountingCalls:
    """The reader of such a body."""

    def __init__(self, reader: Any, counts: Counter[str]) -> None:
        self._reader, self._counts = reader, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read(self, text: str, at: int, *, final: bool) -> int:
        stop: int = self._reader.read(text, at, final=final)
        ended = self._reader.status is not Status.OPEN  # then it did not look at what is behind its end
        self._counts["offered"] += (stop if ended else len(text)) - at
        return stop


def counting(grammar: Grammar, counts: Counter[str]) -> Grammar:
    plans: Any = {place: CountingPlan(plan, counts) for place, plan in grammar.plans.items()}
    enders: Any = CountingPattern(grammar.enders, counts, grammar.longest)
    regions = tuple(
        replace(region, bodies=tuple(CountingBody(body, counts) for body in region.bodies))
        for region in grammar.regions
    )
    return replace(grammar, plans=plans, enders=enders, regions=regions)


def work(made: Setup, text: str, size: int | None) -> Counter[str]:
    """`looked`: characters looked at for `text` in pieces of `size`. `offered`: to the readers of calls."""
    counts: Counter[str] = Counter()
    reader = replace(made, grammar=counting(made.grammar, counts)).reader()
    for piece in [text] if size is None else cut(text, size):
        reader.feed(watched(piece, counts))
    reader.finish(stopped=True)
    return counts
