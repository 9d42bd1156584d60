"""The `explain` command: what is made of a raw output, decision by decision, or of a request. Knows no server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.cli.side_by_side import visible
from gateway.errors import ConfigError
from gateway.events import CONTENT, REASONING, REPLAY, TOOL, Decision, Effect, Segment, ToolText
from gateway.protocols.chat_request import thinking
from gateway.reading import Reader, Reading, calls_of, reading_of
from gateway.rulebook.template import load_template
from gateway.streams.jsonscan import loads

SHOWN: Final = 60  # characters of a piece of text in the table; the result below is whole


def main(argv: list[str]) -> int:
    """Prints the table of regions and decisions, then the result. Returns 0; 2 for a bad file or dialect.

    With `--request` it prints the thinking decision of a chat request instead.
    """
    args = _arguments(argv)
    try:
        if args.request is not None:
            print(_thinking(Path(args.request).read_bytes()))
            return 0
        text = _read(args.file)
        reader = _reader(args)
    except OSError as error:
        print(f"explain: {error.filename or args.file}: {error.strerror}", file=sys.stderr)
        return 2
    except (ConfigError, ValueError) as error:
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
    parser.add_argument("file", metavar="FILE", nargs="?", help="a text file, or - for standard input")
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help="a family (`integrity-gateway dialects list`), or vllm/NAME or sglang/NAME with a --reasoning-parser name",
    )
    parser.add_argument(
        "--response-template",
        metavar="FILE",
        type=Path,
        help="the checkpoint's own grammar instead of --dialect: its tokenizer_config.json",
    )
    tools = "a --tool-call-parser name; --dialect is then a --reasoning-parser name, or left out"
    parser.add_argument("--tools", metavar="NAME", help=tools)
    parser.add_argument("--rules", metavar="DIR", help="a folder of rules beside the shipped ones")
    parser.add_argument("--request", metavar="FILE", help="a chat request (JSON): is thinking on or off, and why")
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
    args = parser.parse_args(argv)
    named = args.dialect is not None or args.tools is not None
    if args.request is None and (args.file is None or named is (args.response_template is not None)):
        parser.error("FILE and one of --dialect, --tools and --response-template are needed, or --request FILE")
    return args


def _reader(args: argparse.Namespace) -> Reader:
    """A reader of what is to be explained; what is left of a response template is told on standard error."""
    if args.response_template is None:
        halves = {half: name for half, name in (("reasoning", args.dialect), ("tools", args.tools)) if name is not None}
        dialect = args.dialect if args.tools is None else halves
        return Reader(dialect=dialect, starts_in=args.starts_in, rules_dir=args.rules)
    found = load_template(args.response_template)
    for warning in found.warnings:
        print(f"explain: {warning}", file=sys.stderr)
    assert found.dialect is not None
    return Reader(dialect=found.dialect, starts_in=args.starts_in)


def _thinking(body: bytes) -> str:
    """One line. Raises ValueError for what is no JSON object."""
    request = loads(body)
    if not isinstance(request, dict):
        raise ValueError("the request is no JSON object")
    decision, reason = thinking(request)
    return f"thinking: {decision} ({reason})"


def _read(name: str) -> str:
    """UTF-8, with U+FFFD for what is none, which is told on standard error; line ends as they are."""
    raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    wrong = len(raw) - len(raw.decode(errors="ignore").encode())
    if wrong:
        print(f"explain: {wrong} of {len(raw)} bytes are no UTF-8; U+FFFD stands for them", file=sys.stderr)
    return raw.decode(errors="replace")


def _table(segments: list[Segment]) -> Iterator[str]:
    yield f"{'at':>7}  {'region':<10} {'what':<8} text, and why"
    at, why = 0, ""  # why: of the marker that the next text begins with
    for channel, item in segments:
        if isinstance(item, Decision):
            at, reason = item.at, f"{item.text!r}: {item.reason} ({item.group})"
            if item.effect is Effect.TEXT:
                why = f"  {reason}"
            else:
                yield f"{at:>7}  {item.region:<10} {item.effect:<8} {reason}"
            if item.effect is Effect.DROP:
                at += len(item.text)
        elif isinstance(item, ToolText):
            yield from _region(item, at)
            at += len(item.text)
        elif channel == REPLAY:
            yield f"{'':>7}  {CONTENT:<10} {'replay':<8} {_short(item)}"
        else:
            yield f"{at:>7}  {channel:<10} {'tool' if channel == TOOL else 'text':<8} {_short(item)}{why}"
            at, why = at + len(item), ""


def _region(region: ToolText, at: int) -> Iterator[str]:
    """A tool region: its calls, or why there is none."""
    where = REASONING if region.thought else CONTENT
    calls = [f"{call.name}({_short(call.arguments)})" for call in calls_of(region)]
    if region.broken:
        yield f"{at:>7}  {where:<10} {'text':<8} what follows began like a call, and is none"
    elif not calls:
        yield f"{at:>7}  {where:<10} {'text':<8} {_short(region.text)}  no whole call"
    for call in calls:
        yield f"{at:>7}  {where:<10} {'call':<8} {call}"


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
            yield from (f"  {visible(line)}" for line in text.split("\n") if text)
    if reading.calls:
        yield "tool calls:"
        yield from (f"  {call.name}({visible(call.arguments)})" for call in reading.calls)
