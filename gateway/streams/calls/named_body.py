"""Calls written as a name, something between, and a JSON object of arguments.

Owns where the name ends and what it says. The object is `json_value`'s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.streams.calls.call import NAME_CAP, Call, Status
from gateway.streams.calls.json_body import read_into
from gateway.streams.calls.json_value import JsonValue
from gateway.streams.calls.scan import find, past_space, startswith_any
from gateway.streams.calls.steps import Steps


@dataclass(frozen=True, slots=True, init=False)
class NamedBody:
    """[one of `open`] NAME, one of `separator`, a JSON object, [one of `close`].

    White space between the parts is free, so a literal counts without the white space around it. Without `open` or
    without `close` there is no such part; an empty separator is the object's own bracket. `name`: a regular
    expression for all of the written name, with a group `name` and maybe `ident`. Where `name` takes no part in the
    match the call has no name; where `ident` does, the whole written name is the call's id. A written name has at
    most `NAME_CAP` characters and no white space in it. An object without its `close` ends the body all the same,
    as a repaired call: where an object ends is certain.
    """

    begin: tuple[str, ...]
    name: re.Pattern[str]
    separator: tuple[str, ...]
    close: tuple[str, ...]

    def __init__(
        self, *, name: str, separator: tuple[str, ...], open: tuple[str, ...] = (), close: tuple[str, ...] = ()
    ) -> None:
        # Written out, since a field cannot be called `open` in a class that has a method of this name.
        assign = object.__setattr__
        assign(self, "begin", _bare(open))
        assign(self, "name", re.compile(name))
        assign(self, "separator", _bare(separator))
        assign(self, "close", _bare(close))

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """See `Body`. Without `open` it is the name, and what comes behind it, that tells."""
        if self.begin:
            begins = startswith_any(text, self.begin, at, final=final)
            return None if begins is None else begins is not False
        written = self.written(text, at, final=final)
        return None if written is None else bool(written)

    def open(self, *, until: tuple[str, ...]) -> NamedReader:
        """See `Body`."""
        return NamedReader(self)

    def written(self, text: str, at: int, *, final: bool) -> tuple[re.Match[str], int] | tuple[()] | None:
        """The name at `at`, and where what separates it from the object ends; empty: no name is written here.

        None: more text decides.
        """
        stops = tuple(literal or "{" for literal in self.separator)
        window = text[at : at + NAME_CAP + 1 + max(map(len, stops))]
        found = find(window, stops, 0, final=final)
        begin, end = found if isinstance(found, tuple) else (found, -1)
        written = window[:begin].split()
        if begin > NAME_CAP or len(written) > 1 or (end < 0 and final):
            return ()
        if end < 0:
            return None
        match = self.name.fullmatch("".join(written))
        if match is None:
            return ()
        return match, at + (end if window[begin:end] in self.separator else begin)


class NamedReader(Steps):
    """Reads a `NamedBody`. The call is there as soon as its name is known. The end of all text ends no part of it."""

    __slots__ = ("_body", "_value")

    def __init__(self, body: NamedBody) -> None:
        super().__init__(NamedReader._open if body.begin else NamedReader._name)
        self._body = body
        self._value = JsonValue()

    @property
    def complete(self) -> bool:
        """See `BodyReader`."""
        return self._value.status is Status.DONE

    def _open(self, text: str, at: int, final: bool) -> int:
        end = startswith_any(text, self._body.begin, at, final=False)
        if end is None:
            return at
        if end is False:
            return self._broken(at)
        self._step = NamedReader._name
        return end

    def _name(self, text: str, at: int, final: bool) -> int:
        written = self._body.written(text, at, final=False)
        if written is None:
            return at
        if not written:
            return self._broken(at)
        match, end = written
        groups = match.groupdict()
        ident = None if groups.get("ident") is None else match[0]
        self.calls.append(Call(groups["name"] or "", ident=ident, json=[]))
        self._step = NamedReader._bracket
        return end

    def _bracket(self, text: str, at: int, final: bool) -> int:
        at = past_space(text, at)
        if at == len(text):
            return at
        if text[at] != "{":
            return self._broken(at)
        self._step = NamedReader._object
        return at

    def _object(self, text: str, at: int, final: bool) -> int:
        at = read_into(self._value, self.calls[0].json, text, at, final=False)
        if self._value.status is Status.BROKEN:
            return self._broken(at)
        if self.complete:
            self._step = NamedReader._close
        return at

    def _close(self, text: str, at: int, final: bool) -> int:
        if not self._body.close:
            return self._done(at)
        at = past_space(text, at)
        end = startswith_any(text, self._body.close, at, final=False)
        if end is None:
            return at
        if end is False:
            self.calls[0].repaired = True
            return self._done(at)
        return self._done(end)


def _bare(literals: tuple[str, ...]) -> tuple[str, ...]:
    """The literals without the white space around them: between two parts it is free."""
    return tuple(literal.strip() for literal in literals)
