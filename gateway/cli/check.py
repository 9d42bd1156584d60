"""The `check` command: is this configuration, and are these rules, usable?

Owns that everything wrong is told in one run, where a start stops at the first kind of error. What is wrong, and its
words, come from below.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gateway.errors import ConfigError
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.yamlpos import KeyPath, load_yaml_with_lines
from gateway.server.config import Config, load_config
from gateway.server.config_check import Places, Problem, schema_problems
from gateway.server.config_routes import find_dialects

ROUTE_PROFILE = "unknown key; the profile is the top-level `profile`, what one route does otherwise its `policy`"

# What is wrong in a route whose dialect cannot be looked up.
_UNREADABLE = ((), ("dialect",), ("dialect_options",), ("engine",))


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
            print("\n".join(_summary(_config(args.config, folders))))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _config(path: Path, folders: Sequence[Path]) -> Config:
    try:
        return load_config(path, environ=os.environ, rules=folders)
    except ConfigError as error:
        try:
            data, lines = load_yaml_with_lines(path.read_text("utf-8"), source=str(path))
        except (OSError, ValueError, ConfigError):  # of what cannot be read nothing else can be told
            raise error from None
        places = Places(source=str(path), lines=lines)
        told = _everything(str(error).splitlines(), data, places, folder=path.parent, folders=folders)
        raise ConfigError("\n".join(told)) from None


def _everything(
    told: Sequence[str], data: Any, places: Places, *, folder: Path, folders: Sequence[Path]
) -> Iterator[str]:
    """The lines `told` by loading, which stops at the schema, with those of the rules and the dialects."""
    wrong = schema_problems(data)
    dialects, rules = _behind_the_schema(data, wrong, folder, folders)
    advised = [(path, ROUTE_PROFILE if _is_route_profile(path) else text) for path, text in wrong]
    lines = places.all_at([*advised, *dialects])
    known = {*lines, *places.all_at(wrong)}
    yield from lines
    yield from (line for line in (*told, *rules) if line not in known)


def _is_route_profile(path: KeyPath) -> bool:
    return path[:1] == ("routes",) and path[2:] == ("profile",)


def _behind_the_schema(
    data: Any, wrong: Sequence[Problem], folder: Path, folders: Sequence[Path]
) -> tuple[list[Problem], list[str]]:
    """What is wrong with the dialects of the routes that the schema lets pass, and with the rules."""
    keys = data if isinstance(data, dict) else {}
    routes, rules_dir = keys.get("routes"), keys.get("rules_dir")
    own = [folder / rules_dir] if isinstance(rules_dir, str) and (folder / rules_dir).is_dir() else []
    try:
        rulebook = load_rulebook([*own, *folders])
    except ConfigError as error:
        return [], str(error).splitlines()
    unusable = {path[:2] for path, _ in wrong if path[2:3] in _UNREADABLE}
    readable = [
        {} if ("routes", index) in unusable else route
        for index, route in enumerate(routes if isinstance(routes, list) else [])
    ]
    return find_dialects(readable, rulebook, folder)[1], []


def _summary(config: Config) -> Iterator[str]:
    for route in config.routes:
        rules = route.rules
        yield f"route {rules.name}: {', '.join(route.upstream)}"
        yield f"  dialect {route.dialect_name}: {route.dialect_why}"
        yield f"  profile {rules.policy.profile}, reasoning field {rules.policy.reasoning_field}, source {rules.source}"
    yield from (f"warning: {warning}" for warning in config.warnings)
    yield f"OK: {config.source}: routes: {len(config.routes)}, warnings: {len(config.warnings)}, rules: {config.digest}"
