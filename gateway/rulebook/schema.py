"""What a JSON Schema (draft 2020-12) finds wrong with a YAML file, as one `source:line: key: reason` a problem.

Owns the wording of schema errors for rule files and the config file. Knows neither of the two schemas.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from gateway.rulebook.yamlpos import KeyPath, Lines, key_text, line_of

_KINDS = {"object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number", "number": "a number",
          "boolean": "true or false", "null": "nothing"}  # fmt: skip
_SHOWN = 60  # characters of a wrong value that an error repeats


def schema_problems(data: object, *, schema: Mapping[str, Any], source: str, lines: Lines | None) -> list[str]:
    """Every problem of `data`, ordered by line; empty when it is valid. `lines`: None where lines are not known.

    `description` beside a failed `pattern`, `minItems`, `format`, … becomes the text of what was expected.
    """
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    found = {
        (line_of(lines or {}, path), f"{key_text(path)}: {reason}")
        for error in validator.iter_errors(data)
        for path, reason in _REASONS.get(error.validator, _expected)(error)
    }
    return [f"{source}: {text}" if lines is None else f"{source}:{line}: {text}" for line, text in sorted(found)]


def shown(value: object) -> str:
    """A wrong value as an error repeats it, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def nearest(name: str, known: Iterator[str] | list[str]) -> tuple[str, ...]:
    """Up to three known names that look like `name`, best first."""
    return tuple(difflib.get_close_matches(name, list(known), n=3))


def _unknown_keys(error: Any) -> Iterator[tuple[KeyPath, str]]:
    known = list(error.schema.get("properties", ()))
    for key in error.instance:
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
            yield (*error.absolute_path, key), f"unknown key, {hint}"


def _missing_keys(error: Any) -> Iterator[tuple[KeyPath, str]]:
    for key in error.validator_value:
        if key not in error.instance:
            yield tuple(error.absolute_path), f"{key} is missing"


def _wrong_type(error: Any) -> Iterator[tuple[KeyPath, str]]:
    wanted = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
    yield tuple(error.absolute_path), f"got {shown(error.instance)}, expected {' or '.join(_KINDS[w] for w in wanted)}"


def _not_listed(error: Any) -> Iterator[tuple[KeyPath, str]]:
    choices = ", ".join(str(choice) for choice in error.validator_value)
    yield tuple(error.absolute_path), f"got {shown(error.instance)}, expected one of {choices}"


def _expected(error: Any) -> Iterator[tuple[KeyPath, str]]:
    expected = error.schema.get("description")
    reason = f"got {shown(error.instance)}, expected {expected}" if expected else error.message
    cause = f" ({error.cause})" if error.cause else ""
    yield tuple(error.absolute_path), reason + cause


_REASONS: dict[object, Callable[[Any], Iterator[tuple[KeyPath, str]]]] = {
    "additionalProperties": _unknown_keys,
    "required": _missing_keys,
    "type": _wrong_type,
    "enum": _not_listed,
}
