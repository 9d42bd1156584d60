"""Calls written as JSON: an object that names a tool and its arguments, an array of those, or the arguments alone.

Owns which members make a call. Values are passed on in the characters they came in; the grammar inside them is
`json_value`'s.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from gateway.streams.calls.bounded import bounded
from gateway.streams.calls.call import NAME_CAP, Call, Status
from gateway.streams.calls.json_value import JsonValue
from gateway.streams.calls.scan import past_space

_METADATA: Final = frozenset({"id", "type", "index", "tool_call_id"})  # members that are no argument under another name
_FUNCTION: Final = "function"  # the member of an OpenAI tool call that holds name and arguments

# How a body begins, and every beginning of that. A name comes first in an object: `{}` is no call.
_LEAD: Final = re.compile(r'(?:\[[ \t\n\r]*+)?\{[ \t\n\r]*+"|\[[ \t\n\r]*+\]')
_LEAD_BEGUN: Final = re.compile(r"(?:\[[ \t\n\r]*+)?(?:\{[ \t\n\r]*+)?")
_OBJECT: Final = re.compile(r'\{[ \t\n\r]*+["}]')
_OBJECT_BEGUN: Final = re.compile(r"(?:\{[ \t\n\r]*+)?")
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class _Wanted(Enum):
    """What comes next in the objects that hold calls."""

    BODY = auto()
    CALL_OR_END = auto()
    CALL = auto()
    MEMBER_OR_END = auto()
    MEMBER = auto()
    COLON = auto()
    VALUE = auto()
    COMMA_OR_END = auto()


_W = _Wanted
_CHARS: Final = {
    _W.BODY: "{[",
    _W.CALL_OR_END: "{]",
    _W.CALL: "{",
    _W.MEMBER_OR_END: '"}',
    _W.MEMBER: '"',
    _W.COLON: ":",
}


@dataclass(frozen=True, slots=True)
class JsonBody:
    """`{"name": …, "arguments": …}`, or an array of such objects.

    `name`, `arguments`: what the two members are called; each must come at most once under any of its names, so that
    no reader of the same text can take another value. Other members are skipped, but one called `function` that holds
    an object is looked into. A call without arguments has none. `keyed`: the object is `{NAME: {ARGUMENTS}}` instead.
    """

    name: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments",)
    keyed: bool = False

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """See `Body`."""
        found = bounded(_LEAD, _LEAD_BEGUN, text, at, final=final)
        return None if found is None else bool(found)

    def open(self, *, until: tuple[str, ...]) -> JsonReader:
        """See `Body`."""
        return JsonReader(self)


@dataclass(frozen=True, slots=True)
class ArgumentsBody:
    """A JSON object that is the arguments of a call; its name stands in front of the body and is the region's."""

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """See `Body`."""
        found = bounded(_OBJECT, _OBJECT_BEGUN, text, at, final=final)
        return None if found is None else bool(found)

    def open(self, *, until: tuple[str, ...]) -> ArgumentsReader:
        """See `Body`."""
        return ArgumentsReader()


class ArgumentsReader:
    """Reads an `ArgumentsBody`: one nameless call."""

    __slots__ = ("_value", "calls", "status")

    def __init__(self) -> None:
        self.calls = [Call("", json=[])]
        self.status = Status.OPEN
        self._value = JsonValue()

    @property
    def complete(self) -> bool:
        """See `BodyReader`. An object has no outer closer."""
        return self.status is Status.DONE

    def read(self, text: str, at: int, *, final: bool) -> int:
        """See `BodyReader`."""
        call = self.calls[0]
        at = read_into(self._value, call.json, text, at, final=final)
        self.status = self._value.status
        call.closed = self.complete
        return at


class JsonReader:
    """Reads a `JsonBody`. A call is there from its first bracket on, without a name until that has been read."""

    __slots__ = (
        "_body",
        "_closers",
        "_has_arguments",
        "_key",
        "_other",
        "_sink",
        "_value",
        "_wanted",
        "calls",
        "status",
    )

    def __init__(self, body: JsonBody) -> None:
        self.calls: list[Call] = []
        self.status = Status.OPEN
        self._body = body
        self._wanted = _W.BODY
        self._closers: list[str] = []  # of the containers that are open, the values of members aside
        self._key = ""  # of the member that is read
        self._has_arguments = False  # has the call that is read
        self._other = False  # the call has a member that means nothing here
        self._value: JsonValue | None = None
        self._sink: list[str] | None = None  # where the open value goes

    @property
    def complete(self) -> bool:
        """See `BodyReader`. Only the end of an array may be missing: a call that lacks its own bracket is no JSON."""
        return bool(self.calls) and self.calls[-1].closed

    def read(self, text: str, at: int, *, final: bool) -> int:
        """See `BodyReader`."""
        while self.status is Status.OPEN:
            if self._value is not None:
                at = read_into(self._value, self._sink, text, at, final=final)
                if self._value.status is Status.OPEN:
                    break
                self._value_ended(self._value)
                continue
            at = past_space(text, at)
            moved = self._step(text, at) if at < len(text) else None
            if moved is None:
                break
            at = moved
        return at

    def _value_ended(self, value: JsonValue) -> None:
        """A member's value ended, well or not."""
        if value.status is Status.BROKEN:
            self.status = Status.BROKEN
        self._value = None
        self._wanted = _W.COMMA_OR_END

    def _step(self, text: str, at: int) -> int | None:
        """Read on from a character that is no white space; None: more text decides."""
        char = text[at]
        if self._wanted is _W.VALUE:
            return self._begin_value(text, at)
        if char not in (_CHARS.get(self._wanted) or f",{self._closers[-1]}"):
            return self._broken(at)
        if char == '"':
            return self._member(text, at)
        if char == "{":
            self.calls.append(Call("", json=[]))
            self._has_arguments = self._other = False
            self._enter("}", _W.MEMBER_OR_END)
        elif char == "[":
            self._enter("]", _W.CALL_OR_END)
        elif char == ":":
            self._wanted = _W.VALUE
        elif char == ",":
            self._wanted = _W.CALL if self._closers[-1] == "]" else _W.MEMBER
        else:
            return self._leave(at)
        return at + 1

    def _enter(self, closer: str, wanted: _Wanted) -> None:
        self._closers.append(closer)
        self._wanted = wanted

    def _leave(self, at: int) -> int:
        """A container ends: the array, a call, or what is inside a call."""
        closer = self._closers.pop()
        if closer == "}" and "}" not in self._closers:
            call = self.calls[-1]
            if not call.name or (self._other and not self._has_arguments):
                return self._broken(at)
            call.closed = True
        self._wanted = _W.COMMA_OR_END
        if not self._closers:
            self.status = Status.DONE
        return at + 1

    def _member(self, text: str, at: int) -> int | None:
        """The name of a member."""
        end, key = _short_string(text, at)
        if end is None:
            return None
        call, body = self.calls[-1], self._body
        names = body.keyed or key in body.name
        again = call.name if names else self._has_arguments and key in body.arguments
        if key is None or again:
            return self._broken(at)
        if body.keyed:
            call.name = key
        self._key = key
        self._wanted = _W.COLON
        return end

    def _begin_value(self, text: str, at: int) -> int | None:
        """The value of a member begins."""
        key, body = self._key, self._body
        is_object = text[at] == "{"
        if body.keyed and not is_object:
            return self._broken(at)
        if not body.keyed and key == _FUNCTION and is_object and self._closers.count("}") == 1:
            self._enter("}", _W.MEMBER_OR_END)
            return at + 1
        if not body.keyed and key in body.name:
            return self._name(text, at)
        self._value = JsonValue()
        self._sink = None
        if body.keyed or key in body.arguments:
            self._sink = self.calls[-1].json
            self._has_arguments = True
        elif key not in _METADATA:
            self._other = True
        return at

    def _name(self, text: str, at: int) -> int | None:
        """The call's name."""
        end, name = _short_string(text, at)
        if end is None:
            return None
        if name is None:
            return self._broken(at)
        self.calls[-1].name = name
        self._wanted = _W.COMMA_OR_END
        return end

    def _broken(self, at: int) -> int:
        self.status = Status.BROKEN
        return at


def read_into(value: JsonValue, sink: list[str] | None, text: str, at: int, *, final: bool) -> int:
    """Read on in `value`, and pass its characters on to `sink`; returns the place up to which it was read."""
    end = value.read(text, at, final=final)
    if sink is not None and end > at:
        sink.append(text[at:end])
    return end


def _short_string(text: str, at: int) -> tuple[int | None, str | None]:
    """The end and the content of the JSON string at `at`.

    No end: more text decides. No content: it is no string, no JSON, or longer than `NAME_CAP` characters.
    """
    match = _STRING.match(text, at, at + NAME_CAP)
    if match is None:
        waits = text[at] == '"' and len(text) - at < NAME_CAP
        return None if waits else at, None
    try:
        return match.end(), str(json.loads(match[0], strict=False))
    except ValueError:
        return at, None
