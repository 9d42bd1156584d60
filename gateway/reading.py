"""The public reader: raw model text to reasoning and answer, for applications and offline generation.

`Reader` streams, `read_whole` reads once; both are the same machine, so they cannot disagree. Imports no aiohttp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gateway.events import CONTENT, FOREIGN, MARKER, REASONING, REPLAY, TOOL, Decision, Segment
from gateway.limits import Limits
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.load import Rulebook, load_rulebook
from gateway.streams.regions import RegionReader

_LIMITS = Limits()


@cache  # a library user's rules do not change while the process lives
def _rulebook(rules_dir: Path | None) -> Rulebook:
    return load_rulebook([] if rules_dir is None else [rules_dir])


@dataclass(frozen=True, slots=True)
class Reading:
    """What one output says.

    `content` includes tool regions as text; `segments` has every piece and decision in order.
    """

    reasoning: str
    content: str
    segments: tuple[Segment, ...]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Every marker that was found, and how it was read."""
        return tuple(item for _, item in self.segments if isinstance(item, Decision))

    @property
    def suppressed(self) -> str:
        """Text of another role behind the end of the turn."""
        return text_of(self.segments, FOREIGN)


class Reader:
    """Reads one output as it comes.

    `dialect`: what a route's `dialect` key takes: a family, `{"reasoning": NAME, "tools": NAME}` with the engines' own
    parser names, `vllm/NAME` or `sglang/NAME` for a reasoning parser alone; or a `Dialect`. `starts_in`: `content`,
    `reasoning`, or `auto` for what the dialect says of raw text. `rules_dir`: a folder of rules laid over the shipped
    ones, read once in the life of the process. `feed` and `finish` return `(channel, text)` segments; a segment whose
    channel is `marker` carries a `Decision` instead of text. Raises `gateway.errors.ConfigError` for an unknown dialect
    or a bad rule.
    """

    def __init__(
        self,
        *,
        dialect: str | Mapping[str, str] | Dialect,
        starts_in: str = "auto",
        rules_dir: str | Path | None = None,
    ) -> None:
        if isinstance(dialect, Dialect):
            found: Dialect | None = dialect
        else:
            rulebook = _rulebook(None if rules_dir is None else Path(rules_dir))
            found = rulebook.resolve(dialect, engine=None).dialect
        if found is None:
            raise ValueError("dialect `none` reads nothing")
        if starts_in not in ("auto", "content", "reasoning"):
            raise ValueError(f"starts_in: got {starts_in!r}, expected auto, content or reasoning")
        start = found.starts_in if starts_in == "auto" else starts_in
        self._reader = RegionReader(
            compile_dialect(found),
            starts_open=start == "reasoning",
            split=False,
            header_cap=_LIMITS.header,
            run_cap=_LIMITS.marker_run,
            replay_cap=_LIMITS.channel_text,
        )

    def feed(self, text: str) -> list[Segment]:
        """Read more text; returns what is decided, in order."""
        return self._reader.feed(text)

    def finish(self, *, stopped: bool) -> list[Segment]:
        """The output has ended. `stopped`: the model ended by itself (not by length, abort or a lost connection)."""
        return self._reader.finish(stopped=stopped)


def read_whole(
    text: str,
    *,
    dialect: str | Mapping[str, str] | Dialect,
    starts_in: str = "auto",
    rules_dir: str | Path | None = None,
    stopped: bool,
) -> Reading:
    """Read a whole output: `Reader` fed once, then finished."""
    reader = Reader(dialect=dialect, starts_in=starts_in, rules_dir=rules_dir)
    return reading_of([*reader.feed(text), *reader.finish(stopped=stopped)])


def reading_of(segments: Sequence[Segment]) -> Reading:
    """Join segments into what a client would see."""
    return Reading(text_of(segments, REASONING), text_of(segments, CONTENT, TOOL, REPLAY), tuple(segments))


def text_of(segments: Sequence[Segment], *channels: str) -> str:
    """The joined text of the given channels."""
    return "".join(str(text) for channel, text in segments if channel in channels and channel != MARKER)
