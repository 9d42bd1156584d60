"""`serve`: the proxy as a process.

Owns the command line, signals, the event loop and the exit code. Must not know what a gateway does.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import uvloop

from gateway.policy import Profile, ReasoningField
from gateway.server import logs
from gateway.server.app import GatewayServer
from gateway.server.config import Config, config_from_flags, load_config

_OF_UPSTREAM = {
    "--listen": "listen",
    "--admin-listen": "admin_listen",
    "--dialect": "dialect",
    "--reasoning-field": "reasoning_field",
    "--profile": "profile",
}
"""Flags that stand for a configuration file, with the names argparse gives them."""
COLLECT_EVERY = 20_000
"""Objects between two collections of cycles: an event makes a dozen that die with it, so 700 is far too eager."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT. Returns 0; 2 where a listener cannot be bound. ConfigError comes through."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.config is not None and (flags := [flag for flag, key in _OF_UPSTREAM.items() if vars(options)[key]]):
        parser.error(f"{', '.join(flags)}: not allowed with --config; write it in the file")
    for number in SIGNALS:
        signal.signal(number, _leave)  # until the loop runs: reading the rules must not make the process deaf
    config = _config(options)
    logs.log_to(sys.stderr)
    gc.freeze()  # rules and modules live as long as the process: no collection needs to walk them
    gc.set_threshold(COLLECT_EVERY)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(config, load=partial(_config, options)))


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="integrity-gateway serve", description="Run the proxy.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", type=Path, metavar="FILE", help="YAML configuration (docs/config.md)")
    source.add_argument("--upstream", metavar="URL", help="base URL of the engine; one route for everything")
    parser.add_argument("--listen", metavar="HOST:PORT", help="default 0.0.0.0:8080; port 0 takes a free one")
    parser.add_argument("--admin-listen", metavar="HOST:PORT", help="default 0.0.0.0:9090")
    parser.add_argument("--dialect", metavar="NAME", help="a family of `integrity-gateway dialects list`")
    parser.add_argument("--reasoning-field", choices=[*ReasoningField], help="where clients get the reasoning")
    parser.add_argument("--profile", choices=[*Profile], help="default repair")
    return parser


def _config(options: argparse.Namespace) -> Config:
    if options.config is not None:
        return load_config(options.config, environ=os.environ)
    return config_from_flags(
        upstream=options.upstream,
        listen=options.listen,
        admin_listen=options.admin_listen,
        dialect=options.dialect,
        reasoning_field=options.reasoning_field,
        profile=options.profile,
        environ=os.environ,
    )


async def _serve(config: Config, *, load: Callable[[], Config]) -> int:
    server = GatewayServer(config, load=load)
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, server.terminate)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.reload)
    try:
        await server.start()
    except OSError as error:
        print(f"integrity-gateway serve: cannot listen: {error}", file=sys.stderr)
        return 2
    for warning in config.warnings:
        logs.say("warning", message=warning)
    await server.wait_closed()
    return 0
