"""The engine's own calls: what a name and arguments should have been, where what was sent says so itself.

Pure: one whole call in, one verdict out. A value is never edited; what is not certain stays as it came. Must not know
how a call travels, nor whether anything is done about it.

What engines send (the issues are cited in `corpus/bugs.jsonl`): an object instead of its text, or nothing; the text
encoded twice; the whole object again at the end; a broken copy and then a whole one; markup in front of or behind the
object; the last brackets missing; a family's own string delimiters inside the strings; raw line breaks in strings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.integrity.arguments import problems, repair_values
from gateway.streams.calls.call import Status
from gateway.streams.calls.json_value import JsonValue
from gateway.streams.jsonscan import encode_string, loads

NOT_JSON: Final = "not_json"
SCHEMA: Final = "schema"
NAME: Final = "name"
_OBJECTS: Final = 64  # objects in a row that are read, and the different ones that are held against a schema: so that
_COPIES: Final = 8  # the work stays linear; also later copies of broken arguments that are looked at
_NO_VALUE: Final = object()

_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING_OR_BRACKET: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\]]', re.DOTALL)
_MARKUP: Final = re.compile(r"\A(?:\s*+(?:<[^<>{}\"\s][^<>{}\"]*+>|```\w*+|\[[A-Z_]+\]))*+\s*+")
_FIRST_KEY: Final = re.compile(r'\s*+\{\s*+("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:', re.DOTALL)
_OF_MEMBERS: Final = frozenset('":,{')
_CLOSES: Final[Mapping[str, str]] = {"{": "}", "[": "]"}
_STRAY: Final = re.compile(r"<[^<>]*+>?+|\[[A-Z_]+\]|\s++")  # what a name never holds: tokens, tags, white space
_NUMBERED: Final = re.compile(r":\d+\Z")
_NAMESPACE: Final = "functions."


@dataclass(frozen=True, slots=True)
class Checked:
    """One call as it should be. `renamed`, `repaired`: name or arguments are not as sent, or were sent as no text.

    `invalid`: why it cannot be used as it is: a rule of the finding `tool_args_invalid`; None: nothing is known
    against it. `empty`: its arguments are an object without members.
    """

    name: str
    arguments: str
    renamed: bool
    repaired: bool
    invalid: str | None
    empty: bool

    @property
    def clean(self) -> bool:
        """True where nothing is wrong with the call as it was sent."""
        return not (self.renamed or self.repaired or self.invalid)


def check_call(
    name: str,
    arguments: str,
    *,
    text: bool,
    schemas: Mapping[str, Any],
    quotes: tuple[str, ...],
    stopped: bool,
) -> Checked:
    """The verdict on a call that is over.

    `text`: the arguments were sent as a string, or not at all; else `arguments` is the JSON of what was sent.
    `schemas`: the declared tools, empty where the request has none. `quotes`: string delimiters of the family.
    `stopped`: the model ended by itself; what was cut off is never completed, and no news.
    """
    declared = _declared(name, schemas)
    schema = schemas.get(declared)
    found = _object(arguments, schema, stopped=stopped)
    whole = arguments if found is None else found
    if found is not None:
        whole, _ = repair_values(_unquoted(found, quotes), schema)
    invalid = None
    if found is None:
        invalid = NOT_JSON if stopped else None
    elif problems(whole, schema):
        invalid = SCHEMA
    elif schemas and declared not in schemas and (not declared or _STRAY.search(declared)):
        invalid = NAME
    return Checked(
        name=declared,
        arguments=whole,
        renamed=declared != name,
        repaired=whole != arguments or not (text or found is None),
        invalid=invalid,
        empty=_value(whole) == {},
    )


# ---------------------------------------------------------------------- names


def _declared(name: str, schemas: Mapping[str, Any]) -> str:
    """The one declared tool that a damaged name can mean, else the name as it is."""
    if not schemas or name in schemas:
        return name
    repeated = name[: (name + name).find(name, 1)]  # an engine that sends the name with every piece
    written = (name, repeated, _STRAY.sub("", name), _STRAY.split(name.strip(), maxsplit=1)[0])
    forms = {form for each in written for form in (each, _NUMBERED.sub("", each))}
    found = {form for each in forms for form in (each, each.removeprefix(_NAMESPACE)) if form in schemas}
    return found.pop() if len(found) == 1 else name


# ---------------------------------------------------------------------- arguments


def _object(text: str, schema: Any, *, stopped: bool) -> str | None:
    """The one JSON object that the text is or was meant to be; None where that is not certain."""
    value = _value(text)
    if isinstance(value, dict):
        return text
    if value is None or not text.strip():
        return "{}"
    if isinstance(value, str):
        return value if isinstance(_value(value), dict) else None
    if value is not _NO_VALUE:
        return None
    text, _ = repair_values(_MARKUP.sub("", text, count=1), schema)
    if isinstance(_value(text), dict):
        return text
    if _object_end(text, 0) is not None:
        return _one_of(_objects(text), schema)
    return _later_copy(text, schema) or (_closed(text, schema) if stopped else None)


def _value(text: str) -> object:
    """The value of JSON text; what is none is `_NO_VALUE`. Lone surrogates are characters like others."""
    try:
        return loads(text.encode("utf-8", "replace"))
    except ValueError:
        return _NO_VALUE


def _one_of(objects: list[str], schema: Any) -> str | None:
    """The object that all of them are; else the one that holds something and satisfies the schema."""
    distinct = {str(_value(each)): each for each in reversed(objects)}  # of equal ones the first
    found = [each for value, each in distinct.items() if value != "{}"] or objects[:1]
    if 1 < len(found) <= _COPIES:
        found = [each for each in found if not problems(each, schema)]
    return found[0] if len(found) == 1 else None


def _objects(text: str) -> list[str]:
    """The objects that stand one behind the other; none where something else stands there too."""
    found: list[str] = []
    at = 0
    while at < len(text):
        end = _object_end(text, at) if len(found) < _OBJECTS else None
        if end is None:  # the beginning of a copy is nothing new
            return found if found[0].startswith(text[at:].rstrip()) else []
        found.append(text[at:end])
        at = text.find("{", end)
        at = len(text) if at < 0 else at
        if not _idle(text[end:at], found[0]):
            return []
    return found


def _idle(text: str, whole: str) -> bool:
    """True for text behind a whole object that cannot be a part of its members, or is its end once more."""
    return not set(text) & _OF_MEMBERS or whole.endswith(text.strip())


def _object_end(text: str, at: int) -> int | None:
    """Where the object that starts at `at` ends; None where it does not, or is none."""
    value = JsonValue()
    end = value.read(text, at, final=True)
    return end if value.status is Status.DONE and isinstance(_value(text[at:end]), dict) else None


def _later_copy(text: str, schema: Any) -> str | None:
    """The whole object that follows a broken copy of itself, and ends the text."""
    key = _FIRST_KEY.match(text)
    if key is None:
        return None
    again = re.compile(r"\{\s*+" + re.escape(key[1]) + r"\s*+:")
    for number, found in enumerate(again.finditer(text, key.end())):
        if number == _COPIES:
            break
        end = _object_end(text, found.start())
        nested = text[: found.start()].rstrip().endswith((":", ",", "["))
        if end is not None and not nested and _idle(text[end:], text[found.start() : end]):
            copy = text[found.start() : end]
            return copy if not problems(copy, schema) else None
    return None


def _closed(text: str, schema: Any) -> str | None:
    """The text with its last brackets, where nothing else is missing."""
    missing: list[str] = []
    for found in _STRING_OR_BRACKET.finditer(text):
        token = found[0]
        if token in _CLOSES:
            missing.append(_CLOSES[token])
        elif missing and token == missing[-1]:
            missing.pop()
    whole = text.rstrip() + "".join(reversed(missing))
    return whole if isinstance(_value(whole), dict) and not problems(whole, schema) else None


def _unquoted(text: str, quotes: tuple[str, ...]) -> str:
    """Strings of the JSON `text` without the delimiters that the family writes around its own."""
    for quote in quotes:
        mark = encode_string(quote).decode()[1:-1]
        if mark in text:
            text = _STRING.sub(lambda found, mark=mark: _bare(found[0], mark), text)  # type: ignore[misc]
    return text


def _bare(token: str, mark: str) -> str:
    inside = token[1:-1]
    if len(inside) < 2 * len(mark) or not (inside.startswith(mark) and inside.endswith(mark)):
        return token
    inside = inside[len(mark) : -len(mark)]
    return token if mark in inside else f'"{inside}"'
