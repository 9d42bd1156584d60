"""The public reader: raw model text to reasoning, answer and tool calls, for applications and offline generation.

`Reader` streams, `read_whole` reads once; both are the same machine, so they cannot disagree. Imports no aiohttp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gateway.events import CONTENT, FOREIGN, REASONING, REPLAY, TOOL, Decision, Segment, ToolCall, ToolText
from gateway.integrity.arguments import arguments_of
from gateway.limits import Limits
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.load import Rulebook, load_rulebook
from gateway.streams.grammar import Take, Takes
from gateway.streams.regions import RegionReader

_LIMITS = Limits()
_TAKES = Takes(content=Take.HOLD, control=Take.HOLD, thought=Take.HOLD, markerless=Take.HOLD)


@cache  # a library user's rules do not change while the process lives
def _rulebook(rules_dir: Path | None) -> Rulebook:
    return load_rulebook([] if rules_dir is None else [rules_dir])


@dataclass(frozen=True, slots=True)
class Reading:
    """What one output says.

    `calls`: whole tool calls, in order; values that the format leaves untyped are strings, since no schema is known
    here. No request is known either: whether a tool is declared, and whether the text only repeats what the model was
    told, is the caller's to judge. Markup that is no whole call is part of `content`, or of `reasoning` where it stands
    in the thought; white space behind a call is part of `content` where other text follows it. `segments` has every
    piece and decision in order.
    """

    reasoning: str
    content: str
    calls: tuple[ToolCall, ...]
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
    ones, read once in the life of the process. `feed` and `finish` return `(channel, text)` segments; with the channel
    `marker` comes a `Decision` instead of text, with `calls` a `ToolText`. Raises `gateway.errors.ConfigError` for an
    unknown dialect or a bad rule.
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
            takes=_TAKES if found.reads_calls else Takes(),
            limits=_LIMITS,
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
    calls = [call for _, item in segments if isinstance(item, ToolText) for call in calls_of(item)]
    return Reading(text_of(segments, REASONING), _content(segments), tuple(calls), tuple(segments))


def calls_of(region: ToolText) -> Iterator[ToolCall]:
    """The whole calls of a region."""
    for call in region.calls if not region.broken else ():
        arguments = arguments_of(call, None)
        if call.closed and call.name and arguments.valid:
            yield ToolCall(name=call.name, arguments=arguments.text, ident=call.ident)


def text_of(segments: Sequence[Segment], *channels: str) -> str:
    """The joined text of the given channels; a tool region without a whole call is text of the field it stands in."""
    return "".join(text for channel, text in map(_told, segments) if channel in channels)


def _content(segments: Sequence[Segment]) -> str:
    out: list[str] = []
    blanks: list[str] = []
    behind = False  # nothing but white space since a call
    for segment in segments:
        channel, text = _told(segment)
        if isinstance(segment[1], ToolText) and any(calls_of(segment[1])):
            behind = True
        elif channel not in (CONTENT, TOOL, REPLAY) or not text:
            continue
        elif behind and text.isspace():
            blanks.append(text)
        else:
            out += [*blanks, text]
            blanks.clear()
            behind = False
    return "".join(out)


def _told(segment: Segment) -> tuple[str, str]:
    channel, item = segment
    if isinstance(item, ToolText):
        said = "" if any(calls_of(item)) else item.text
        return REASONING if item.thought else CONTENT, said
    return channel, item if isinstance(item, str) else ""
