"""Drive a region reader over a text in pieces, and put what comes of it into one comparable form.

Owns no expectation: what a text means stands in the tests.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter

from gateway.events import CALLS, CONTENT, MARKER, REASONING, REPLAY, TOOL, Call, Segment, ToolText
from gateway.limits import Limits
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.load import load_rulebook
from gateway.streams.grammar import Grammar, Takes
from gateway.streams.regions import RegionReader

NOTHING = Takes()
CHUNK_SIZES = (1, 2, 3, 5, 7, 11, 23, 64)


def dialect(name: str | dict[str, str]) -> Dialect:
    """A shipped dialect, as the configuration names it."""
    found = load_rulebook().resolve(name, engine=None).dialect
    assert found is not None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a reader is made. The caps are those of `gateway.limits` unless a test is about them."""

    grammar: Grammar = field(repr=False)
    starts_open: bool = False
    split: bool = False
    header_cap: int = 96
    run_cap: int = 64
    replay_cap: int = 1 << 20
    region_cap: int = 1 << 20
    takes: Takes = NOTHING

    def reader(self) -> RegionReader:
        return RegionReader(
            self.grammar,
            starts_open=self.starts_open,
            split=self.split,
            takes=self.takes,
            limits=Limits(
                header=self.header_cap,
                marker_run=self.run_cap,
                channel_text=self.replay_cap,
                tool_region=self.region_cap,
            ),
        )


def setup(name: str, **settings: bool | int | Takes) -> Setup:
    """A `Setup` of a shipped dialect."""
    return Setup(grammar=compile_dialect(dialect(name)), **settings)


def read(made: Setup, pieces: Iterable[str], *, stopped: bool) -> list[Segment]:
    """Feed the pieces, finish, and join what came."""
    reader = made.reader()
    segments = [segment for piece in pieces for segment in reader.feed(piece)]
    return joined([*segments, *reader.finish(stopped=stopped)])


def joined(segments: Iterable[Segment]) -> list[Segment]:
    """Neighbouring text of one channel as one, across deliveries. Decisions and replayed pieces stay as they are."""
    out: list[Segment] = []
    for channel, run in groupby(segments, key=itemgetter(0)):
        if channel in (MARKER, REPLAY, CALLS):
            out.extend(run)
        else:
            out.append((channel, "".join(str(text) for _, text in run)))
    return out


def comparable(segments: Iterable[Segment]) -> list[tuple[str, object]]:
    """Segments of two readings are equal where these are: a region with its calls, their JSON in one piece."""
    return [(channel, _region(item) if isinstance(item, ToolText) else item) for channel, item in segments]


def _region(found: ToolText) -> tuple[object, ...]:
    calls = [(_call(call), call.repaired, call.closed, call.begin, call.end) for call in found.calls]
    return found.text, calls, found.closed, found.complete, found.broken, found.thought, found.rest, found.control


def _call(call: Call) -> tuple[object, ...]:
    json = None if call.json is None else "".join(call.json)
    return call.name, call.ident, json, [(one.key, one.text, one.kind) for one in call.arguments]


def text_of(segments: Iterable[Segment], *channels: str) -> str:
    """The text of the given channels, in order."""
    return "".join(str(text) for channel, text in segments if channel in channels)


def answer(segments: Sequence[Segment]) -> tuple[str, str]:
    """What a client sees: reasoning, and content with tool regions and replays in it."""
    return text_of(segments, REASONING), text_of(segments, CONTENT, TOOL, REPLAY)


def cut(text: str, size: int) -> list[str]:
    """Pieces of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def cut_at(text: str, places: Iterable[int]) -> list[str]:
    """Pieces that end at the given offsets; an offset given twice makes an empty piece."""
    return [text[start:end] for start, end in pairwise([0, *sorted(places), len(text)])]


def cuttings(text: str, *, seed: int, randomly: int = 3) -> Iterator[list[str]]:
    """The whole text, every fixed size, and some random cuttings with empty pieces in them."""
    yield [text]
    for size in CHUNK_SIZES:
        yield cut(text, size)
    chance = random.Random(seed)
    for _ in range(randomly):
        yield cut_at(text, chance.choices(range(len(text) + 1), k=chance.randint(1, 12)))
