"""Floor 1: JSON values found and spliced inside their own bytes, so that what nobody changed keeps its bytes.

Owns the one JSON reader of the gateway (`loads`), the spans of members, and edits. The only module of this floor that
uses orjson. Must not know which members a protocol has.

Every scan here runs on bytes that `loads` has accepted, so it looks for ends only and checks no grammar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

import orjson

MAX_DEPTH: Final = 512
"""Nesting that the standard parser is asked to follow: it recurses. orjson stops at 1,024 by itself."""


class Drop(Enum):
    """The type of `DROP`."""

    DROP = "drop"


DROP: Final = Drop.DROP
"""In `Changes`: the member is taken out."""

Changes = Mapping[str | int, "bytes | Drop | Changes"]
"""What to do to an object (names) or an array (indexes): a new value's JSON, `DROP`, or changes inside the value."""

# A member or an item: its name or index, where its name starts (an item: its value), and its value's span.
_Child = tuple[str | int, int, int, int]
_Splice = tuple[int, int, bytes]  # from, to, what stands there instead

_BACKSLASH: Final = 0x5C
_STEP: Final[Mapping[int, type]] = {0x7B: str, 0x5B: int}  # what leads into an object, into an array
_NESTING: Final = {0x7B: 1, 0x5B: 1, 0x7D: -1, 0x5D: -1}
# Possessive: no way back is kept, so that a string of a million escapes costs no memory. Python before 3.11.5 goes on
# from where a possessive group failed half-way (CPython issues 100061, 106052). Here one fails only where a container
# is nested too deep, before an opening bracket, and nothing that follows the group begins with one.
_WS: Final = rb"[ \t\n\r]*+"
_STR: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_PLAIN: Final = rb'[^"{}\[\]]*+'
_PLAIN_OR_STR: Final = _PLAIN + b"(?:" + _STR + _PLAIN + b")*+"
_SCALAR: Final = rb"[^ \t\n\r,{}\[\]]++"


def _shallow(levels: int) -> bytes:
    """A pattern for a container of at most so many levels: what an engine's frame is made of, skipped in one match."""
    inner = b"(?:" + _shallow(levels - 1) + _PLAIN_OR_STR + b")*+" if levels > 1 else b""
    return rb"[{\[]" + _PLAIN_OR_STR + inner + rb"[}\]]"


# A name (1) if there is one, then a value (2) and its comma; a container beyond `_shallow` is no value here.
_VALUE: Final = b"|".join((_STR, _shallow(4), _SCALAR))
_CHILD: Final = re.compile(
    b"(?:(" + _STR + b")" + _WS + b":" + _WS + b")?(?:(" + _VALUE + b")" + _WS + b",?" + _WS + b")?"
)
_ANY_VALUE: Final = re.compile(_VALUE)
_TO_BRACKET: Final = re.compile(_PLAIN_OR_STR + rb"[{}\[\]]")
_SPACE: Final = re.compile(_WS)
_COLON: Final = re.compile(_WS + b":" + _WS)
_COMMA: Final = re.compile(_WS + b",?" + _WS)
_STRING: Final = re.compile(_STR)


def loads(raw: bytes) -> object:
    """The value of UTF-8 JSON text.

    orjson first; the standard parser for what orjson refuses and engines send: escapes of a lone surrogate, NaN and
    Infinity, numbers beyond a double. An integer beyond 64 bits comes as a float: take digits from the span, not from
    here. Raises ValueError, also for nesting beyond the caps.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        text = raw.decode("utf-8")
        _refuse_depth(raw)
        return json.loads(text)


def encode_string(text: str) -> bytes:
    """`text` as a JSON string in UTF-8; lone surrogates, which UTF-8 has no bytes for, as `\\ud83d` escapes."""
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace")


def member(raw: bytes, path: tuple[str | int, ...]) -> tuple[int, int] | None:
    """The span of the value at `path`, None when it is not there; of members with one name, the last.

    Raises ValueError on malformed JSON.
    """
    loads(raw)
    _, at, end, _ = _child(raw, _past(_SPACE, raw, 0))
    for step in path:
        span = None
        for name, _, value, value_end in _children(raw, at):
            if name == step:
                span = value, value_end
        if span is None:
            return None
        at, end = span
    return at, end


def items(raw: bytes, path: tuple[str | int, ...]) -> list[bytes]:
    """The items of the array at `path`, each as it is written; none where there is no array.

    Raises ValueError on malformed JSON.
    """
    span = member(raw, path)
    if span is None or raw[span[0]] not in b"[":
        return []
    return [raw[value:end] for _, _, value, end in _children(raw, span[0])]


def edit(raw: bytes, changes: Changes) -> bytes:
    """`raw` with `changes` made and every other byte kept: digits, white space, escapes, unknown members.

    A value's new bytes must be JSON; they are written as they are. An absent name is appended to its object. Of
    members with one name the last is edited, since parsers take the last; DROP takes out all of them, and an absent
    name is dropped already. Returns the same object when nothing changes.
    Raises ValueError on malformed JSON, on a step into what is no container of that kind or is absent.
    """
    loads(raw)
    splices: list[_Splice] = []
    todo: list[tuple[int, Changes]] = [(_past(_SPACE, raw, 0), changes)]
    while todo:
        at, wanted = todo.pop()
        todo += _plan(raw, at, wanted, splices)
    if not splices:
        return raw
    pieces: list[bytes] = []
    done = 0
    for start, end, new in sorted(splices):
        pieces += (raw[done:start], new)
        done = end
    pieces.append(raw[done:])
    return b"".join(pieces)


def only_member(raw: bytes, key: bytes) -> tuple[int, int, int] | None:
    """Where the one member called `key` of all of `raw` stands: start of its name, its value's span.

    Hot path: `raw` is JSON that `loads` has accepted, it is not parsed again. None when `"key"` does not stand exactly
    once as a member's name or when its value is no string: `member` and `edit` decide then.
    """
    found = _only_name(raw, key)
    string = _STRING.match(raw, found[1]) if found else None
    return (found[0], found[1], string.end()) if found and string else None


def swap(raw: bytes, values: Mapping[bytes, bytes]) -> bytes | None:
    """`raw` with other values for members, whatever they are inside of; hot path with the demands of `only_member`.

    None where one of the names does not stand exactly once, or a value is nested deeper than an engine's are.
    """
    splices: list[_Splice] = []
    for key, value in values.items():
        found = _only_name(raw, key)
        span = _ANY_VALUE.match(raw, found[1]) if found else None
        if span is None:
            return None
        splices.append((*span.span(), value))
    pieces: list[bytes] = []
    done = 0
    for start, end, value in sorted(splices):
        if start < done:
            return None  # one of them is inside another one's value
        pieces += (raw[done:start], value)
        done = end
    pieces.append(raw[done:])
    return b"".join(pieces)


def _only_name(raw: bytes, key: bytes) -> tuple[int, int] | None:
    """Where the one member called `key` of all of `raw` begins, and where its value does."""
    token = b'"' + key + b'"'
    name, value = -1, 0
    at = raw.find(token)
    while at >= 0:
        # A quote after a backslash opens no string: it is inside one that ends with these bytes.
        if raw[at - 1] != _BACKSLASH and (colon := _COLON.match(raw, at + len(token))):
            if name >= 0:
                return None
            name, value = at, colon.end()
        at = raw.find(token, at + 1)
    return (name, value) if name >= 0 else None


def copy_member(raw: bytes, key: bytes, new_key: bytes) -> bytes | None:
    """`raw` with a second name for a string: `,"new_key":<the same bytes>` right after the value of `key`.

    Hot path with the demands of `only_member`. None where that is None, and when `"new_key"` stands anywhere.
    """
    name = b'"' + new_key + b'":'
    found = None if name[:-1] in raw else only_member(raw, key)
    if found is None:
        return None
    _, value, end = found
    return b"".join((raw[:end], b",", name, raw[value:end], raw[end:]))


def _plan(raw: bytes, at: int, changes: Changes, splices: list[_Splice]) -> list[tuple[int, Changes]]:
    """Add to `splices` what `changes` asks of the container at `at`; return the changes inside its values."""
    kind = _STEP.get(raw[at])
    children = _children(raw, at)
    last = {name: (value, end) for name, _, value, end in children}
    inside: list[tuple[int, Changes]] = []
    added: list[tuple[str, bytes]] = []
    dropped: set[str | int] = set()
    for name, change in changes.items():
        span = last.get(name)
        if not kind or not isinstance(name, kind):
            raise ValueError("a path leads into a value that is no container of that kind")
        if isinstance(change, Drop) and (span or isinstance(name, str)):
            dropped.add(name)
        elif isinstance(change, bytes) and span:
            splices.append((*span, change))
        elif isinstance(change, bytes) and isinstance(name, str):
            added.append((name, change))
        elif isinstance(change, Mapping) and span:
            inside.append((span[0], change))
        else:
            raise ValueError("a path leads to a value that is not there")
    if dropped:
        splices += _removals(children, dropped)
    if added:
        kept = [end for name, _, _, end in children if name not in dropped]
        text = b",".join(encode_string(name) + b":" + value for name, value in added)
        splices.append((kept[-1], kept[-1], b"," + text) if kept else (at + 1, at + 1, text))
    return inside


def _removals(children: list[_Child], dropped: set[str | int]) -> list[_Splice]:
    """Takes out the dropped children, each with one comma."""
    removals: list[_Splice] = []
    after_kept = False
    for number, (name, start, _, end) in enumerate(children):
        if name not in dropped:
            after_kept = True
        elif after_kept:
            removals.append((children[number - 1][3], end, b""))
        else:
            following = children[number + 1 : number + 2]
            removals.append((start, following[0][1] if following else end, b""))
    return removals


def _children(raw: bytes, at: int) -> list[_Child]:
    """The members of the object or the items of the array at `at`, in order; of any other value none."""
    children: list[_Child] = []
    if raw[at] not in _STEP:
        return children
    named = _STEP[raw[at]] is str
    at = _past(_SPACE, raw, at + 1)
    while raw[at] not in b"}]":
        token, value, end, following = _child(raw, at)
        children.append((str(loads(token)) if named else len(children), at, value, end))
        at = following
    return children


def _child(raw: bytes, at: int) -> tuple[bytes, int, int, int]:
    """Of the member or item at `at`: its name as it is written, its value's span, and where the next one starts."""
    match = _CHILD.match(raw, at)
    assert match, "matches anything"
    if match[2]:
        return match[1], match.start(2), match.end(2), match.end()
    end = match.end() + 1
    depth = 1
    while depth:  # counted, so that nesting costs no stack
        end = _past(_TO_BRACKET, raw, end)
        depth += _NESTING[raw[end - 1]]
    return match[1], match.end(), end, _past(_COMMA, raw, end)


def _past(pattern: re.Pattern[bytes], raw: bytes, at: int) -> int:
    """Where `pattern` ends when it starts at `at`."""
    match = pattern.match(raw, at)
    assert match, "only called on JSON that `loads` has accepted"
    return match.end()


def _refuse_depth(raw: bytes) -> None:
    """Raise ValueError when the standard parser would have to nest deeper than MAX_DEPTH."""
    depth = at = 0
    while bracket := _TO_BRACKET.match(raw, at):
        at = bracket.end()
        depth += _NESTING[raw[at - 1]]
        if depth > MAX_DEPTH:
            raise ValueError(f"JSON is nested deeper than {MAX_DEPTH}")
