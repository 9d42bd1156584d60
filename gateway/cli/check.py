"""The `check` command: is this configuration, and are these rules, usable? Knows no key; errors come from below."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from gateway.errors import ConfigError
from gateway.rulebook.load import load_rulebook
from gateway.server.config import Config, load_config


def main(argv: list[str]) -> int:
    """Prints what a configuration means, with its warnings, or every error in it. Returns 0, or 2 on any error."""
    parser = argparse.ArgumentParser(
        prog="integrity-gateway check", description="Validates a config file and the rules."
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration; without it only rules are read")
    parser.add_argument("--rules", type=Path, metavar="DIR", help="a folder of rules beside the shipped ones")
    args = parser.parse_args(argv)
    folders = [] if args.rules is None else [args.rules]
    try:
        if args.rules is not None and not args.rules.is_dir():
            raise ConfigError(f"{args.rules}: --rules: is no folder, expected a folder of rules")
        if args.config is None:
            rulebook = load_rulebook(folders)
            print(f"OK: dialects: {len(rulebook.dialects)}, calls: {len(rulebook.calls)}, rules: {rulebook.digest}")
        else:
            print("\n".join(_summary(load_config(args.config, environ=os.environ, rules=folders))))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _summary(config: Config) -> Iterator[str]:
    for route in config.routes:
        rules = route.rules
        yield f"route {rules.name}: {', '.join(route.upstream)}"
        yield f"  dialect {route.dialect_name}: {route.dialect_why}"
        yield f"  profile {rules.policy.profile}, reasoning field {rules.policy.reasoning_field}, source {rules.source}"
    yield from (f"warning: {warning}" for warning in config.warnings)
    yield f"OK: {config.source}: routes: {len(config.routes)}, warnings: {len(config.warnings)}, rules: {config.digest}"
