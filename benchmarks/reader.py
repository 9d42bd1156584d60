"""What reading costs: the public reader on tokens and on whole texts, against a reader that does nothing, and against
the cheapest searches over the same text. CPU time of this process, the best of several interleaved passes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from benchmarks.report import Figure
from gateway.limits import Limits
from gateway.reading import read_whole
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.load import load_rulebook
from gateway.streams.grammar import Takes
from gateway.streams.regions import RegionReader

DIALECT = "kimi_k3"
MARKERS = (
    "<|open|>think<|sep|>",
    "<|close|>think<|sep|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "<|open|>message<|sep|>",
    "<|close|>message<|sep|>",
    "<|end_of_msg|>",
)
PROSE = "The median of the three is the one that neither of the others can move, so it is kept, and the rest is noise. "
RICH = 'for (i = 0; i < n; i++) { out << "<li>" << item[i] << "</li>"; } '
TOKEN = 4
WHOLE = 460_000


class Nothing:
    """The floor: the least a reader of this interface can do."""

    def feed(self, text: str) -> list[tuple[str, str]]:
        """One segment, unread."""
        return [("content", text)]


def _tokens(sample: str, count: int) -> list[str]:
    text = sample * (count * TOKEN // len(sample) + 1)
    return [text[at : at + TOKEN] for at in range(0, count * TOKEN, TOKEN)]


def _feeding(feed: Callable[[str], object], tokens: list[str]) -> Callable[[], None]:
    def run() -> None:
        for token in tokens:
            feed(token)

    return run


def _opened(*, thought: bool) -> Callable[[str], object]:
    """The reader of the hot path, past its first word, which is read with more care than the rest."""
    grammar = compile_dialect(load_rulebook().dialects[DIALECT])
    reader = RegionReader(
        grammar,
        starts_open=thought,
        split=False,
        takes=Takes(),
        limits=Limits(),
    )
    reader.feed("So. ")
    return reader.feed


def best(runs: dict[str, Callable[[], object]], *, passes: int) -> dict[str, float]:
    """Least CPU nanoseconds of each run. Interleaved, so that a slow moment of the machine hits all alike."""
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(passes):
        for name, run in runs.items():
            start = time.process_time_ns()
            run()
            least[name] = min(least[name], time.process_time_ns() - start)
    return least


def streamed(*, count: int, passes: int) -> list[Figure]:
    """Nanoseconds a four-character token, and how many times the floor that is.

    The bar is 300 ns a token without a marker on the machine whose floor is 50 ns, so six times the floor on any. The
    prototype of reader_spec 6.6, which had no quoting state and no regions, stood at 2.5 and, on `<`-rich text, at 4.5.
    """
    prose, rich = _tokens(PROSE, count), _tokens(RICH, count)
    least = best(
        {
            "floor": _feeding(Nothing().feed, prose),
            "content": _feeding(_opened(thought=False), prose),
            "thought": _feeding(_opened(thought=True), prose),
            "`<`-rich content": _feeding(_opened(thought=False), rich),
        },
        passes=passes,
    )
    figures = [Figure(what="token, floor", value=least["floor"] / count, unit="ns")]
    for name, limit, guide in (("content", 6, 300), ("thought", 6, 300), ("`<`-rich content", None, 500)):
        figures.append(Figure(what=f"token, {name}", value=least[name] / count, unit="ns", guide=guide))
        figures.append(Figure(what=f"token, {name}", value=least[name] / least["floor"], unit="x floor", limit=limit))
    return figures


def whole(*, passes: int) -> list[Figure]:
    """Milliseconds for 460,000 characters without a marker, and ratios to two searches over them.

    The bar is 0.3 ms where one `str.find` over the text takes 0.083 ms and one search of the alternation 0.115 ms.
    """
    text = (PROSE * (WHOLE // len(PROSE) + 1))[:WHOLE]
    alternation = re.compile("|".join(map(re.escape, MARKERS)))
    least = best(
        {
            "read": lambda: read_whole(text, dialect=DIALECT, starts_in="content", stopped=True),
            "find": lambda: text.find(MARKERS[0]),
            "search": lambda: alternation.search(text),
        },
        passes=passes,
    )
    return [
        Figure(what="460,000 characters at once", value=least["read"] / 1e6, unit="ms", guide=0.3),
        Figure(what="460,000 characters at once", value=least["read"] / least["find"], unit="x find", limit=3.6),
        Figure(what="460,000 characters at once", value=least["read"] / least["search"], unit="x search", limit=2.6),
    ]


def doubling(*, passes: int) -> list[Figure]:
    """Twice the input must cost about twice as much, whatever stands in it."""

    def reading(text: str) -> Callable[[], object]:
        return lambda: read_whole(text, dialect=DIALECT, starts_in="content", stopped=True)

    samples = {
        "prose": PROSE * 8_000,
        "`<`-rich text": RICH * 4_000,
        "markers only": "".join(MARKERS) * 1_000,
        "openers that never end": "<|open|>thi" * 10_000,
        "open quotes and closers": "`<|close|>response<|sep|>" * 8_000,
    }
    figures = []
    for name, text in samples.items():
        least = best({"once": reading(text), "twice": reading(text * 2)}, passes=passes)
        figures.append(
            Figure(what=f"twice the input: {name}", value=least["twice"] / least["once"], unit="x", limit=2.6)
        )
    return figures


def measure(*, quick: bool) -> list[Figure]:
    """Every figure of the reader. `quick`: fewer passes over less text, to see that it runs."""
    passes = 3 if quick else 15
    return [*streamed(count=2_000 if quick else 20_000, passes=passes), *whole(passes=passes), *doubling(passes=passes)]
