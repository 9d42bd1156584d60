"""The arguments of a tool call as one JSON text: typed by the format that wrote them, else by the tool's schema.

Owns typing and what can be repaired exactly. JSON is spliced as it was written, so that numbers keep their digits; only
text that is no JSON is encoded, as a string. Knows no format and no protocol.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.events import Argument, Call
from gateway.integrity.tool_schema import NO_OBJECT, Declared, kinds, problems, value_of
from gateway.streams.jsonscan import edit, encode_string

__all__ = ["Typed", "arguments_of", "problems", "repair_values"]

_SPACE: Final = " \t\n\r"
_CONTAINERS: Final = frozenset({"array", "object"})
_NOT_YES_OR_NO: Final = frozenset({"integer", "number", "string"})
_YES_OR_NO: Final = {"1": "true", "0": "false"}
_LONGEST_CONSTANT: Final = 5
_CONTROL: Final = re.compile("[\x00-\x1f]")
# To the end where the quote is missing, so that no character is looked at from more than one string.
_STRING: Final = re.compile(r'"(?:[^"\\]++|(?=\\.)..)*+"?', re.DOTALL)
_IN_STRING: Final = re.compile("\\\\.|[\x00-\x1f]", re.DOTALL)
_ESCAPES: Final = {chr(code): encode_string(chr(code)).decode()[1:-1] for code in range(0x20)}


@dataclass(frozen=True, slots=True)
class Typed:
    """Arguments to be sent. `text`: one JSON object; where not `valid`, what was written.

    `repaired`: more than the types of values was not as it should be. `problem`: why it is not valid; no model text.
    """

    text: str
    repaired: bool
    valid: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class _Json:
    """JSON text, its value, and whether control characters had to be escaped to make it JSON."""

    text: str
    value: object
    escaped: bool


def arguments_of(call: Call, schema: object) -> Typed:
    """The arguments of `call`, typed by `schema`: the declared parameters of its tool, None where there are none.

    Kinds are those of `Argument`, and `tree`: JSON whose strings are texts of no kind. The format's word holds, unless
    the schema rules it out and the text is what the schema asks for. Of arguments of one name the last counts, in the
    place of the first. One JSON text stays as it is written, double names too.
    """
    if call.json is not None:
        written = "".join(call.json)
        whole = _object(written)
        if whole is None:
            return Typed(written, repaired=call.repaired, valid=False, problem=NO_OBJECT)
        text, repaired = whole
    else:
        declared = Declared(schema, [schema])
        members = {argument.key: _value(argument, declared.member(argument.key)) for argument in call.arguments}
        text = "{" + ", ".join(f"{_encoded(key)}: {value}" for key, (value, _) in members.items()) + "}"
        repaired = any(changed for _, changed in members.values())
    text, unwrapped = repair_values(text, schema)
    return Typed(text, repaired=call.repaired or repaired or unwrapped, valid=True, problem=None)


def repair_values(arguments: str, schema: object) -> tuple[str, bool]:
    """`arguments` with the arrays and objects that it holds as JSON text in a string, and whether that changed it.

    A value is unwrapped where the schema wants such a container and allows no string. Control characters that stand in
    strings as they are become escapes. What is no JSON object is left alone.
    """
    whole = _json(arguments)
    if whole is None or not isinstance(whole.value, dict):
        return arguments, False
    declared = Declared(schema, [schema])
    changes: dict[str | int, bytes] = {}
    for key, value in whole.value.items():
        types = declared.member(key).types() if isinstance(value, str) else frozenset()
        inner = None if "string" in types else _as_declared(value, types & _CONTAINERS)
        if inner is not None:
            changes[key] = inner.text.encode()
    if not changes:
        return (whole.text, True) if whole.escaped else (arguments, False)
    return edit(whole.text.encode(), changes).decode(), True


def _object(text: str) -> tuple[str, bool] | None:
    """The JSON object that `text` is or holds as a string, and whether it was repaired; None: there is none."""
    if not text.strip(_SPACE):
        return "{}", False
    outer = _json(text)
    wrapped = outer is not None and isinstance(outer.value, str)
    whole = _json(str(outer.value).strip(_SPACE) or "{}") if outer is not None and wrapped else outer
    if whole is None:
        return None
    if whole.value is None:
        return "{}", True
    return (whole.text, wrapped or whole.escaped) if isinstance(whole.value, dict) else None


def _value(argument: Argument, declared: Declared) -> tuple[str, bool]:
    """One argument as JSON, and whether it was repaired."""
    written, types = argument.text, declared.types()
    if argument.kind == "string":
        found = None if "string" in types else _as_declared(written, types)
        return (found.text, True) if found else (_encoded(written), False)
    found = _json(written) if argument.kind else None
    if found is None:
        return _typed(written, types)
    if argument.kind == "tree":
        return _tree(found.value, declared), False
    scalar = not kinds(found.value) & (_CONTAINERS | types)
    return (_encoded(found.text), True) if scalar and "string" in types else (found.text, found.escaped)


def _tree(value: object, declared: Declared) -> str:
    """JSON whose strings are texts of no kind."""
    if isinstance(value, dict):
        members = (f"{_encoded(key)}: {_tree(inner, declared.member(key))}" for key, inner in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_tree(inner, declared.item()) for inner in value) + "]"
    return _typed(str(value), declared.types())[0]


def _typed(written: str, types: frozenset[str]) -> tuple[str, bool]:
    """A text of no kind as JSON, and whether it was repaired."""
    strict = bool(types) and "string" not in types
    found = _as_declared(written, types) or (_json(written) if strict else None)
    if found:
        return found.text, found.escaped
    inner = _json(f'"{written}"') if strict else None  # JSON with the escapes that it would need inside a string
    found = _as_declared(inner.value, types & _CONTAINERS) if inner and isinstance(inner.value, str) else None
    return (found.text, True) if found else (_encoded(written), False)


def _as_declared(text: str, types: frozenset[str]) -> _Json | None:
    """What `text` is as one of the types other than a string."""
    wanted = types - {"string"}
    if not wanted:
        return None
    constant = _constant(text.strip(_SPACE), types)
    if constant:
        return _Json(constant, None, escaped=False)
    found = _json(text)
    return found if found and kinds(found.value) & wanted else None


def _constant(word: str, types: frozenset[str]) -> str | None:
    """A constant in another spelling (Python's, capitals, 1 and 0), where nothing else that is declared looks so."""
    alone = "string" not in types
    lower = word.lower() if alone and len(word) <= _LONGEST_CONSTANT else word
    if "null" in types and (lower == "null" or (alone and lower == "none")):
        return "null"
    if "boolean" not in types:
        return None
    if lower in _YES_OR_NO.values():
        return lower
    return None if types & _NOT_YES_OR_NO else _YES_OR_NO.get(word)


def _json(text: str) -> _Json | None:
    """`text` as JSON that every parser takes; lone surrogates become escapes. None: it is none."""
    for escaped in (False, True):
        if escaped and not _CONTROL.search(text):
            break
        written = _STRING.sub(_escape_controls, text) if escaped else text
        raw = written.strip(_SPACE).encode("utf-8", "backslashreplace")
        try:
            value = value_of(raw)
        except ValueError:
            continue
        return _Json(raw.decode(), value, escaped)
    return None


def _escape_controls(string: re.Match[str]) -> str:
    return _IN_STRING.sub(lambda found: _ESCAPES.get(found[0], found[0]), string[0])


def _encoded(text: str) -> str:
    return encode_string(text).decode()
