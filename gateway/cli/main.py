"""Floor 6: which command runs, and what its failure looks like to a shell. Knows no command's options.

Exit codes (contract section 2): 0 fine, 1 findings or an output that takes no more, 2 usage, config or rule error,
3 engine unreachable, 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Mapping, Sequence

from gateway import __version__
from gateway.errors import ConfigError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "serve": ("gateway.cli.serve", "run the proxy"),
    "demo": ("gateway.cli.demo", "show leaking engine output before and after, without an engine"),
    "check": ("gateway.cli.check", "validate a config file and the rules"),
    "explain": ("gateway.cli.explain", "read raw model text and print every decision with its reason"),
    "scan": ("gateway.cli.scan", "read written-down answers and print findings and the leak rate"),
    "dialects": ("gateway.cli.dialects", "list, show and test the rulebook"),
}
"""Command name to its module and one line of help. Each module has `main(argv: list[str]) -> int`."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a full disk says to a write. No command writes anywhere but to its standard output."""


def _parser(commands: Mapping[str, tuple[str, str]]) -> argparse.ArgumentParser:
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {summary}" for name, (_, summary) in commands.items()]
    parser = argparse.ArgumentParser(
        prog="integrity-gateway",
        usage="integrity-gateway [--version] COMMAND ...",
        description="Repairs reasoning, markers and fields that leak from vLLM and SGLang.",
        epilog="\n".join(["commands:", *lines, "", "`integrity-gateway COMMAND --help` tells each one's options."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"integrity-gateway {__version__}")
    parser.add_argument("command", choices=list(commands), metavar="COMMAND", help=argparse.SUPPRESS)
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    rest.required = False  # else argparse names it beside COMMAND when both are missing
    return parser


def _run(argv: Sequence[str] | None, commands: Mapping[str, tuple[str, str]]) -> int:
    try:
        parsed = _parser(commands).parse_args(argv)
        # Imported here: `explain` must not pay for aiohttp, and `--version` for nothing.
        code: int = importlib.import_module(commands[parsed.command][0]).main(parsed.arguments)
        return code
    finally:
        # Here, where a failure has a handler; Python's own flush at exit only prints a traceback.
        sys.stdout.flush()


def _abandon_output() -> None:
    """Python flushes stdout once more at exit and would fail again: let it go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None, *, commands: Mapping[str, tuple[str, str]] = COMMANDS) -> int:
    """Run one command and return its exit code.

    `argv` without the program name; None takes `sys.argv`.
    A usage error leaves as `SystemExit(2)`, its message on stderr.
    """
    try:
        return _run(argv, commands)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader (`| head`) has left
        _abandon_output()
        return 1
    except OSError as error:
        if error.errno not in _FULL:
            raise
        print(f"integrity-gateway: standard output: {error.strerror}", file=sys.stderr)
        _abandon_output()
        return 1
