"""The `explain` command: what the reader makes of a raw output, decision by decision. Knows no server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.errors import ConfigError
from gateway.events import CONTENT, REPLAY, TOOL, Decision, Segment
from gateway.reading import Reader, Reading, reading_of
from gateway.streams.utf8 import Utf8Decoder

SHOWN: Final = 60  # characters of a piece of text in the table; the result below is whole
_BLOCK: Final = 64 * 1024


def main(argv: list[str]) -> int:
    """Prints the table of regions and decisions, then the result. Returns 0; 2 for a bad file or dialect."""
    args = _arguments(argv)
    try:
        text = _read(args.file)
        reader = Reader(dialect=args.dialect, starts_in=args.starts_in)
    except (OSError, ConfigError, ValueError) as error:
        print(f"explain: {error}", file=sys.stderr)
        return 2
    segments = [*reader.feed(text), *reader.finish(stopped=args.stopped)]
    print("\n".join([*_table(segments), "", *_result(reading_of(segments), segments)]))
    return 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="integrity-gateway explain",
        description="Reads raw model text and prints each region and marker, what was decided and why, and the result.",
    )
    parser.add_argument("file", metavar="FILE", help="a text file, or - for standard input")
    parser.add_argument("--dialect", required=True, metavar="NAME", help="a family (`integrity-gateway dialects list`)")
    parser.add_argument(
        "--starts-in",
        choices=("auto", "content", "reasoning"),
        default="auto",
        help="where the text begins: `reasoning` when the prompt already opened the thought",
    )
    parser.add_argument(
        "--stopped",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the model ended by itself; --no-stopped: cut by length",
    )
    return parser.parse_args(argv)


def _read(name: str) -> str:
    """UTF-8, with U+FFFD for what is none; line ends as they are."""
    decoder, parts = Utf8Decoder(), []
    with Path(name).open("rb") if name != "-" else sys.stdin.buffer as source:
        while block := source.read(_BLOCK):
            parts.append(decoder.feed(block))
    return "".join([*parts, decoder.finish()])


def _table(segments: list[Segment]) -> Iterator[str]:
    yield f"{'at':>7}  {'region':<10} {'what':<8} text, and why"
    at = 0
    for channel, item in segments:
        if isinstance(item, Decision):
            at = item.at
            yield f"{at:>7}  {item.region:<10} {item.effect:<8} {item.text!r}: {item.reason} ({item.group})"
            if item.effect == "drop":
                at += len(item.text)
        elif channel == REPLAY:
            yield f"{'':>7}  {CONTENT:<10} {'replay':<8} {_short(item)}"
        else:
            yield f"{at:>7}  {channel:<10} {'tool' if channel == TOOL else 'text':<8} {_short(item)}"
            at += len(item)


def _short(text: str) -> str:
    return repr(text) if len(text) <= SHOWN else f"{text[: SHOWN - 1]!r}… ({len(text)} characters)"


def _result(reading: Reading, segments: list[Segment]) -> Iterator[str]:
    calls = "".join(str(text) for channel, text in segments if channel == TOOL)
    for name, text in (
        ("reasoning", reading.reasoning),
        ("content", reading.content),
        ("tool text, part of the content", calls),
        ("suppressed", reading.suppressed),
    ):
        if text or name in ("reasoning", "content"):
            yield f"{name}, {len(text)} characters:"
            yield from (f"  {line}" for line in text.split("\n") if text)
