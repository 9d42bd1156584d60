"""The `scan` command: how often answers that were written down leak, and by which rule. Changes none of them.

Owns how an answer is judged: the gateway's own exchange in profile observe, and the checkers of the protocols. What
files may hold is `transcripts`, how the result looks `scan_report`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from gateway.cli.scan_report import FORMATS, Judged, Scan
from gateway.cli.transcripts import KINDS, Transcript, transcripts
from gateway.errors import ConfigError
from gateway.exchange import Overrides, RouteRules, open_exchange, peek_request
from gateway.limits import Limits
from gateway.policy import Profile, policy_for
from gateway.protocols.legal import CHECKERS
from gateway.protocols.legal.bodies import body_violations
from gateway.rulebook.load import load_rulebook

DESCRIPTION: Final = """\
Reads answers that were written down and prints what is wrong with them, by rule, and the leak rate: answers with a leak
of those that could be read. Never prints text of an answer."""
EPILOG: Final = """\
FILE holds an answer of chat completions, text completions, Responses, Messages or /generate as JSON, one a line as
JSONL, or its event stream; or the text that a client saw. {"request": ..., "response": ...} is an answer with its
request, which tells tools and thinking. Exit code 0: nothing found; 1: findings, or protocol violations; 2: a FILE
is none of these."""


def main(argv: list[str]) -> int:
    """Prints the result. Returns 0, 1 where anything was found; raises ConfigError for a bad file or dialect."""
    args = _arguments(argv)
    rules = _rules(args)
    scan = Scan([_judged(each, rules) for each in _transcripts(args.files, args.kind, sys.stderr)])
    print(FORMATS[args.format](scan))
    return int(bool(scan.found))


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="integrity-gateway scan",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file, or - for standard input")
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help="a family (`integrity-gateway dialects list`), or vllm/NAME or sglang/NAME with a --reasoning-parser "
        "name; without this and --tools: generic",
    )
    tools = "a --tool-call-parser name; --dialect is then a --reasoning-parser name, or left out"
    parser.add_argument("--tools", metavar="NAME", help=tools)
    parser.add_argument("--rules", metavar="DIR", type=Path, help="a folder of rules beside the shipped ones")
    parser.add_argument(
        "--starts-in",
        choices=("auto", "content", "reasoning"),
        default="auto",
        help="where text begins that no engine has split: `reasoning` when the prompt already opened the thought",
    )
    parser.add_argument(
        "--as", dest="kind", choices=KINDS, default="auto", help="what the files hold; auto: told by how each begins"
    )
    parser.add_argument("--format", choices=tuple(FORMATS), default="table", help="default: table")
    return parser.parse_args(argv)


def _rules(args: argparse.Namespace) -> RouteRules:
    """A route that only observes."""
    rulebook = load_rulebook([] if args.rules is None else [args.rules])
    halves = {half: name for half, name in (("reasoning", args.dialect), ("tools", args.tools)) if name is not None}
    try:
        found = rulebook.resolve(halves if args.tools else args.dialect or "generic", engine=None)
    except ConfigError as error:
        raise ConfigError(f"scan: {error}") from None
    return RouteRules(
        name="scan",
        dialect=found.dialect,
        dialect_why=found.why,
        source="auto",
        starts_in=args.starts_in,
        thinking_default="auto",
        policy=policy_for(Profile.OBSERVE),
        limits=Limits(),
        openings=rulebook.openings,
    )


def _transcripts(files: list[str], kind: str, progress: TextIO) -> Iterator[Transcript]:
    """The answers of all files. `progress`: told which file is read, where it is a terminal."""
    shown = progress.isatty()
    for number, file in enumerate(files, start=1):
        if shown:
            progress.write(f"\r\x1b[Kscan: file {number} of {len(files)}")
            progress.flush()
        try:
            raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            yield from transcripts(file, raw, kind=kind)
        except OSError as error:
            raise ConfigError(f"scan: {file}: {error.strerror}") from None
        except ConfigError as error:
            raise ConfigError(f"scan: {error}") from None
        finally:
            if shown:
                progress.write("\r\x1b[K")
                progress.flush()


def _judged(answer: Transcript, rules: RouteRules) -> Judged:
    """An answer as the gateway sees it in observe, and what is not legal in it."""
    protocol = answer.protocol
    if protocol is None:
        return Judged(answer, unread=answer.why)
    exchange = open_exchange(
        protocol=protocol,
        body=answer.request,
        facts=peek_request(protocol, answer.request),
        rules=rules,
        overrides=Overrides(),
    )
    kind = "text/event-stream" if answer.stream else "application/json"
    exchange.head(status=200, content_type=kind, content_encoding=None)
    exchange.data(answer.body)
    exchange.end()
    wrong: list[str] = []
    if not answer.raw:
        legal = CHECKERS[protocol.name] if answer.stream else partial(body_violations, protocol.name)
        wrong = legal(answer.body)
    unread = "" if exchange.inspected else ", ".join(exchange.tally.uninspected) or "nothing in it"
    return Judged(answer, tally=exchange.tally, violations=tuple(wrong), unread=exchange.fault or unread)
