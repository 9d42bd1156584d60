"""Checks a configuration against `config_schema.json` and words what is wrong.

Owns: the text of every schema error and its place, the nearest known key, which keys ask for something that has no
effect yet. Must not know what a key means; that is `gateway.server.config`. The schema's own annotations (`x-expected`,
`x-not-yet`, `x-no-effect`, `x-secret`) are explained in its `$comment`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator, ValidationError

from gateway.errors import ConfigError
from gateway.rulebook.schema import nearest
from gateway.rulebook.yamlpos import KeyPath, Lines, key_text, line_of

Problem = tuple[KeyPath, str]
Schema = Mapping[str, Any]

SCHEMA: Schema = json.loads(Path(__file__).with_name("config_schema.json").read_text("utf-8"))

_VALIDATOR = Draft202012Validator(SCHEMA)
_SHOWN_MAX = 60
_USERINFO = re.compile(r"//[^/\s@]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the keys of one configuration stand.

    `lines` is None where there is no file. `names`: keys that the user wrote under another name (command line flags).
    """

    source: str
    lines: Lines | None = None
    names: Mapping[KeyPath, str] = field(default_factory=dict)

    def at(self, path: KeyPath, text: str) -> str:
        """`FILE:LINE: key.path: text`, without the line where there is none."""
        line = "" if self.lines is None else f":{line_of(self.lines, path)}"
        return f"{self.source}{line}: {self.names.get(path) or key_text(path)}: {text}"

    def all_at(self, problems: Iterable[Problem]) -> tuple[str, ...]:
        """Each of `problems` once, in the order of the file."""
        lines = self.lines or {}
        ordered = sorted(dict.fromkeys(problems), key=lambda problem: line_of(lines, problem[0]))
        return tuple(self.at(path, text) for path, text in ordered)

    def refuse(self, problems: Iterable[Problem]) -> None:
        """Raises ConfigError with all of `problems`, one a line, when there is any."""
        if texts := self.all_at(problems):
            raise ConfigError("\n".join(texts))


def schema_problems(data: object) -> list[Problem]:
    """Everything in `data` that the schema refuses, each with the path of its key."""
    return [problem for error in _VALIDATOR.iter_errors(data) for problem in _worded(error)]


def without_effect(data: Mapping[str, Any], schema: Schema = SCHEMA, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The keys of valid `data` that ask for something which this version accepts and does not do."""
    for key, value in data.items():
        below = resolved(schema["properties"].get(key, {}))  # names of headers are no properties
        if below.get("x-no-effect") and value != below["default"]:
            yield (*path, key)
        elif "properties" in below and isinstance(value, dict):
            yield from without_effect(value, below, (*path, key))
        elif "properties" in (item := resolved(below.get("items", {}))):
            for index, entry in enumerate(value):
                yield from without_effect(entry, item, (*path, key, index))


def resolved(schema: Schema) -> Schema:
    """`schema` with its reference into `$defs` merged in; what stands beside the reference wins."""
    name = schema.get("$ref")
    return schema if name is None else {**SCHEMA["$defs"][name.rpartition("/")[2]], **schema}


def expected(schema: Schema) -> str:
    """What `schema` accepts, in words."""
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    return str(schema.get("x-expected", "a mapping"))


def shown(value: object) -> str:
    """`value` for an error text: short, on one line, without the password of a URL."""
    if isinstance(value, (dict, list)):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    text = _USERINFO.sub("//…@", json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"


def _worded(error: ValidationError) -> Iterator[Problem]:
    path, value, schema = tuple(error.absolute_path), cast(Any, error.instance), cast(Schema, error.schema)
    if error.validator == "additionalProperties":
        known = schema["properties"]
        for key in (key for key in value if key not in known):
            close = nearest(key, list(known))
            hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(known)}"
            yield (*path, key), f"unknown key, {hint}"
    elif error.validator == "required":
        for key in (key for key in schema["required"] if key not in value):
            yield (*path, key), f"missing, expected {expected(resolved(schema['properties'][key]))}"
    elif error.validator in ("not", "const"):
        what = shown(value) if isinstance(value, (str, int)) else "this"
        yield path, f"{what} is not available in this version; remove it or {schema['x-not-yet']}"
    else:
        what = "something else" if "x-secret" in schema else shown(value)
        yield path, f"got {what}, expected {expected(schema)}"
