"""Rule files to a `Rulebook`: finds, reads, checks and builds them; every problem of every file in one error.

A rules directory holds `dialects/NAME.yaml`, `calls/NAME.yaml`, `leaks/NAME.yaml` and `engines/NAME.yaml`. Knows no
stream, no protocol and no route.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.errors import ConfigError
from gateway.rulebook.checks import RuleData, alias_problems, file_problems, repeated_faults, spelling_problems
from gateway.rulebook.dialect import (
    CallFormat,
    Dialect,
    Header,
    HeaderRule,
    Kind,
    Reopen,
    Sample,
    Target,
    Thought,
)
from gateway.rulebook.faults import fault_problems, make_faults
from gateway.rulebook.formats import make_call_format
from gateway.rulebook.openings import example_problems, make_opening
from gateway.rulebook.schema import schema_problems
from gateway.rulebook.select import Resolved, Rulebook, UnknownDialect
from gateway.rulebook.yamlpos import KeyPath, load_yaml_with_lines

__all__ = ["Resolved", "Rulebook", "UnknownDialect", "kind_of", "load_rulebook", "shipped_rules"]

_SCHEMAS = {
    "dialects": "schema_dialect.json",
    "calls": "schema_calls.json",
    "leaks": "schema_leaks.json",
    "engines": "schema_engines.json",
}
_TRIED: Mapping[str, Callable[[Any], Iterable[tuple[KeyPath, str]]]] = {
    "leaks": example_problems,
    "engines": fault_problems,
}
"""What is looked for in files of these kinds once the schema finds nothing wrong."""


@dataclass(frozen=True, slots=True, order=True)
class RuleFile:
    """One rule file as bytes. `kind`: a key of `_SCHEMAS`."""

    kind: str
    stem: str
    source: str
    raw: bytes


def load_rulebook(dirs: Sequence[Path] = (), *, extra: Path | None = None) -> Rulebook:
    """The shipped rules with those of `dirs` laid over them: a file with an earlier file's name replaces it.

    `extra`: one more file, laid over all; its kind is as `kind_of` says.
    Files are read each time, and built again only when a byte of them changed. Raises ConfigError with one
    `FILE:LINE: key: reason` a line for everything that is wrong in any file.
    """
    files = {(file.kind, file.stem): file for path in (shipped_rules(), *dirs) for file in _directory(path)}
    if extra is not None:
        files[kind_of(extra), extra.stem] = _read(kind_of(extra), extra)
    return _built(tuple(files.values()))


def kind_of(path: Path) -> str:
    """`calls`, `leaks` or `engines` for a file in a directory of that name, else `dialects`."""
    folder = path.absolute().parent.name
    return folder if folder in _SCHEMAS else "dialects"


def shipped_rules() -> Path:
    """Where the shipped rules are: inside the installed package, or `rules/` of the checkout."""
    package = Path(__file__).parent.parent
    return package / "_rules" if (package / "_rules").is_dir() else package.parent / "rules"


def _directory(path: Path) -> list[RuleFile]:
    files = [_read(kind, file) for kind in _SCHEMAS for file in sorted((path / kind).glob("*.yaml"))]
    if not files:
        raise ConfigError(f"{path}: no rule files; expected NAME.yaml in {', '.join(_SCHEMAS)}")
    return files


def _read(kind: str, path: Path) -> RuleFile:
    try:
        return RuleFile(kind, path.stem, str(path), path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


@lru_cache(maxsize=8)
def _built(files: tuple[RuleFile, ...]) -> Rulebook:
    problems: list[str] = []
    parsed = [_parsed(file, problems) for file in files]
    call_data = {file.stem: file for file in parsed if file.kind == "calls"}
    for file in parsed:
        schema = _schema(file.kind)
        if file.data is not _UNREADABLE:
            wrong = schema_problems(file.data, schema=schema, source=file.source, lines=file.lines)
            problems += [*wrong, *file_problems(file, call_data)]
            if file.kind in _TRIED and not wrong:
                problems += [file.problem(path, reason) for path, reason in _TRIED[file.kind](file.data)]
    problems += [*alias_problems(parsed), *repeated_faults(parsed)]
    if problems:
        raise ConfigError("\n".join(problems))
    calls = {file.stem: make_call_format(file.data) for file in parsed if file.kind == "calls"}
    dialects = {file.stem: _dialect(file.data, calls) for file in parsed if file.kind == "dialects"}
    problems = [*spelling_problems(parsed, calls, dialects)]
    if problems:
        raise ConfigError("\n".join(problems))
    openings = tuple(make_opening(file.data) for file in parsed if file.kind == "leaks")
    return Rulebook(
        dialects=MappingProxyType(dialects),
        calls=MappingProxyType(calls),
        openings=openings,
        faults=tuple(fault for file in parsed if file.kind == "engines" for fault in make_faults(file.data)),
        digest=_digest(files),
    )


_UNREADABLE: Any = ()  # stands for the data of a file that is no YAML: named by others, but with nothing to check


def _parsed(file: RuleFile, problems: list[str]) -> RuleData:
    try:
        data, lines = load_yaml_with_lines(file.raw.decode(), source=file.source)
    except UnicodeDecodeError as error:
        problems.append(f"{file.source}:{file.raw[: error.start].count(10) + 1}: not UTF-8")
        data, lines = _UNREADABLE, {}
    except ConfigError as error:
        problems.append(str(error))
        data, lines = _UNREADABLE, {}
    return RuleData(file.kind, file.stem, file.source, data, lines)


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    schema: dict[str, Any] = json.loads((Path(__file__).parent / _SCHEMAS[kind]).read_bytes())
    return schema


def _digest(files: Iterable[RuleFile]) -> str:
    """Twelve hex digits that change with any name or byte, and with nothing else (not with where a file lies)."""
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file.kind}/{file.stem}.yaml\0{len(file.raw)}\0".encode() + file.raw)
    return total.hexdigest()[:12]


def _dialect(data: Mapping[str, Any], calls: Mapping[str, CallFormat]) -> Dialect:
    values = {_NAMES.get(key, key): _FIELDS.get(key, _plain)(value) for key, value in data.items() if key != "answer"}
    values |= {f"answer_{key}": tuple(value) for key, value in data.get("answer", {}).items()}
    formats = [calls[name] for name in data.get("calls", ())]
    ident = next((each.ident for each in formats if each.ident), None)
    return Dialect(**values, regions=tuple(region for each in formats for region in each.regions), ident=ident)


def _header(data: Mapping[str, Any]) -> Header:
    values = {key: _plain(value) for key, value in data.items() if key != "rules"}
    return Header(**values, rules=tuple(HeaderRule(text=rule["text"], to=Target(rule["to"])) for rule in data["rules"]))


def _thought(data: Mapping[str, Any]) -> Thought:
    return Thought(open=tuple(data["open"]), close=tuple(data["close"]))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_NAMES: Mapping[str, str] = {"header": "headers"}  # one of them needs no list in YAML

# The YAML keys whose values are more than text, a flag or a list of text. A key that is left out has the value model's
# default, so that no default is written twice.
_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "kind": Kind,
    "reopen": Reopen,
    "aliases": lambda value: MappingProxyType({engine: tuple(names) for engine, names in value.items()}),
    "thoughts": lambda value: tuple(map(_thought, value)),
    "header": lambda value: tuple(map(_header, value if isinstance(value, list) else [value])),
    "samples": lambda value: tuple(Sample(**sample) for sample in value),
}
