"""Calls written as a name and pairs: `NAME <key>k</key> <value>v</value> …`.

Owns how far the name, a key, a value and a call go. Inside a value only the value's own closer is live. Knows no
family: what the tags look like is the format's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.streams.calls.call import NAME_CAP, Argument, BodyReader, Call, Status
from gateway.streams.calls.json_body import JsonBody
from gateway.streams.calls.scan import find, past_space, startswith_any
from gateway.streams.calls.steps import ArgumentSteps
from gateway.streams.grammar import TAIL

Pair = tuple[str, str]  # an opening and a closing tag

# A name, and then something that no name goes on with.
_NAME: Final = re.compile(r"""[^\s<>{}\[\]()"'`,;\udfff]+""")
_LEAD: Final = re.compile(rf"(?P<name>{_NAME.pattern})(?:\s*(?P<sure>[<>{{}}\[\]()\"'`,;\udfff])?)")
_SUFFIX: Final = re.compile(rf"[0-9A-Za-z_-]{{0,{TAIL}}}")
_JSON: Final = JsonBody(arguments=("arguments", "parameters"))


@dataclass(frozen=True, slots=True, init=False)
class PairsBody:
    """[one of `open`] NAME [one of `separator`] (`key` [`type`] `value`)* [one of `close`], white space between them.

    Without `close` the call ends at the region's closer, which is not read. Literals begin with a character that no
    name holds. `types`: a written type, up to a `[` and in small letters, -> `string` or `json`. `json`: JSON may stand
    in place of name and pairs. `suffixed`: a checkpoint may put `:SUFFIX` before the last character of each literal of
    a call, the same in all of them.

    A value that lacks its opening tag is read up to its closing tag, and the call is a repaired one. A value that holds
    the opening tags of another pair has lost its closer, and where it ends nobody knows: the body is none.
    """

    begin: tuple[str, ...]
    separator: tuple[str, ...]
    key: Pair
    value: Pair
    type: Pair | None
    close: tuple[str, ...]
    types: Mapping[str, str] = field(hash=False)
    json: bool
    suffixed: bool

    def __init__(
        self,
        open: tuple[str, ...],
        separator: tuple[str, ...],
        key: Pair,
        value: Pair,
        type: Pair | None = None,
        close: tuple[str, ...] = (),
        types: Mapping[str, str] | None = None,
        json: bool = False,
        suffixed: bool = False,
    ) -> None:
        # Written out, since a field cannot be called `open` in a class that has a method of this name.
        fields: dict[str, object] = {"begin": open, "separator": separator, "key": key, "value": value, "type": type}
        fields |= {"close": close, "types": types or {}, "json": json, "suffixed": suffixed}
        for name, given in fields.items():
            object.__setattr__(self, name, given)

    @property
    def openers(self) -> tuple[str, ...]:
        """What a body begins with. One that ends in `:` goes on with a suffix."""
        return self.begin + tuple(f"{literal[:-1]}:" for literal in self.begin if self.suffixed)

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """See `Body`. Without `open` it is the name that tells, and that no other word follows it."""
        if self.begin:
            found = startswith_any(text, self.openers, at, final=final)
            return None if found is None else found is not False
        if at == len(text):
            return False if final else None
        if self.json and text[at] in "{[":
            return _JSON.lead(text, at, final=final)
        limit = at + NAME_CAP
        begun = _LEAD.match(text, at, limit)
        if begun is None or begun["sure"]:
            return begun is not None
        return None if begun.end() == len(text) < limit and not final else False

    def open(self, *, until: tuple[str, ...]) -> BodyReader:
        """See `Body`. A region's closer that stands for the call's own ends the call and is not read."""
        return _Reader(self, until)

    def with_suffix(self, suffix: str) -> PairsBody:
        """The same body with `suffix` in every literal."""

        def tag(literal: str) -> str:
            return f"{literal[:-1]}{suffix}{literal[-1]}"

        def pair(tags: Pair) -> Pair:
            return tag(tags[0]), tag(tags[1])

        return PairsBody(
            open=tuple(map(tag, self.begin)),
            separator=tuple(map(tag, self.separator)),
            key=pair(self.key),
            value=pair(self.value),
            type=self.type and pair(self.type),
            close=tuple(map(tag, self.close)),
            types=self.types,
            json=self.json,
        )


class _Reader(ArgumentSteps):
    """The state of one body. `_step`: what reads on; it stays where it is when it needs more text."""

    __slots__ = (
        "_body", "_key", "_kind", "_name", "_object", "_pieces", "_until",
    )  # fmt: skip

    def __init__(self, body: PairsBody, until: tuple[str, ...]) -> None:
        super().__init__(_Reader._open if body.begin else _Reader._named)
        self._body = body
        self._until = until
        self._name = ""  # a name that nothing has followed yet
        self._key = ""
        self._kind: str | None = None
        self._pieces: list[str] = []  # of the value at hand
        self._object = _JSON.open(until=())

    def _open(self, text: str, at: int, final: bool) -> int:
        found = startswith_any(text, self._body.openers, at, final=False)
        if not found:
            return at if found is None else self._broken(at)
        self._step = _Reader._suffix if text[found - 1] == ":" else _Reader._named
        return found

    def _suffix(self, text: str, at: int, final: bool) -> int:
        suffix = _SUFFIX.match(text, at)
        assert suffix, "matches anything"
        end = suffix.end()
        if end == len(text):
            return at
        if end == at or text[end] not in {literal[-1] for literal in self._body.begin}:
            return self._broken(at)
        self._body = self._body.with_suffix(f":{suffix[0]}")
        self._step = _Reader._named
        return end + 1

    def _named(self, text: str, at: int, final: bool) -> int:
        at = past_space(text, at)
        if at == len(text):
            return at
        if self._body.json and text[at] in "{[":
            self.calls = self._object.calls
            self._step = _Reader._in_object
            return at
        name = _NAME.match(text, at, at + NAME_CAP + 1)
        if name is None or name.end() - at > NAME_CAP:
            return self._broken(at)
        if name.end() == len(text):
            return at
        self._name = name[0]
        self._step = _Reader._between
        return name.end()

    def _in_object(self, text: str, at: int, final: bool) -> int:
        at = self._object.read(text, at, final=final)
        if self._object.status is Status.BROKEN:
            return self._broken(at)
        if self._object.status is Status.DONE:
            self._step = _Reader._between
            self._whole = True
        return at

    def _between(self, text: str, at: int, final: bool) -> int:
        """Behind the name, JSON or an argument: what may follow it, or a closer."""
        at = past_space(text, at)
        if at == len(text):
            return at
        closers = (*self._body.close, *self._until)
        separators = self._body.separator if self._name else ()
        keys = (self._body.key[0],) if self._object.status is Status.OPEN else ()
        closes = startswith_any(text, closers, at, final=False)
        separates = startswith_any(text, separators, at, final=False)
        opens = startswith_any(text, keys, at, final=False)
        if closes is None or separates is None or opens is None:
            begun = separates is None or opens is None
            return self._at_end(text, at, closers, begun=begun) if final else at
        if not (closes or separates or opens):
            return self._broken(at)
        self._enter()
        if closes:
            return self._closed(text, at, closes)
        if opens:
            self._step = _Reader._in_key
        return opens or separates

    def _enter(self) -> None:
        """The name was one: the call is there."""
        if self._name:
            self.calls.append(Call(self._name))
            self._name = ""

    def _at_end(self, text: str, at: int, closers: tuple[str, ...], *, begun: bool) -> int:
        """The text ends inside a literal. `begun`: it may be one that begins an argument, or goes before them."""
        closes = startswith_any(text, closers, at, final=True)
        self._whole = not begun
        if begun and not closes:
            return at
        self._enter()
        return self._closed(text, at, closes) if closes else len(text)

    def _closed(self, text: str, at: int, end: int) -> int:
        own = text[at:end] in self._body.close
        for call in self.calls:
            call.closed = True
            call.repaired |= bool(self._body.close) and not own
        self.status = Status.DONE
        return end if own else at

    def _in_key(self, text: str, at: int, final: bool) -> int:
        end, self._key = _short(text, self._body.key[1], at)
        if end is None:
            return at
        if not self._key:
            return self._broken(at)
        self._kind = None
        self._step = _Reader._behind_key
        return end

    def _behind_key(self, text: str, at: int, final: bool) -> int:
        at = past_space(text, at)
        types = startswith_any(text, self._body.type[:1] if self._body.type else (), at, final=False)
        if not types:
            return at if types is None else self._behind_type(text, at, final)
        self._step = _Reader._in_type
        return types

    def _in_type(self, text: str, at: int, final: bool) -> int:
        assert self._body.type, "is what led here"
        end, written = _short(text, self._body.type[1], at)
        if end is None:
            return at
        if not written:
            return self._broken(at)
        self._kind = self._body.types.get(written.partition("[")[0].strip().lower())
        self._step = _Reader._behind_type
        return end

    def _behind_type(self, text: str, at: int, final: bool) -> int:
        at = past_space(text, at)
        opens = startswith_any(text, self._body.value[:1], at, final=False)
        if opens is None:
            return at
        self._step = _Reader._in_value if opens else _Reader._in_bare_value
        return opens or at

    def _in_value(self, text: str, at: int, final: bool) -> int:
        found = find(text, self._body.value[1:], at, final=final)
        if isinstance(found, int):
            self._pieces.append(text[at:found])
            return found
        self._pieces.append(text[at : found[0]])
        return self._take(*found)

    def _in_bare_value(self, text: str, at: int, final: bool) -> int:
        """A value without an opening tag: no other tag may come before its closing one."""
        body = self._body
        found = find(text, (*body.value, *body.key, *body.close, *self._until), at, final=final)
        if isinstance(found, int):
            self._pieces.append(text[at:found])
            return found
        if text[slice(*found)] != body.value[1]:
            return self._broken(found[0])
        self.calls[0].repaired = True
        self._pieces.append(text[at : found[0]])
        return self._take(*found)

    def _take(self, begin: int, end: int) -> int:
        """A value has ended: at `begin`, its closer at `end`."""
        value = "".join(self._pieces)
        if self._body.key[0] in value and self._body.value[0] in value:
            return self._broken(begin)
        self.calls[0].arguments.append(Argument(self._key, value, self._kind))
        self._pieces.clear()
        self._whole = True
        self._step = _Reader._between
        return end


def _short(text: str, closer: str, at: int) -> tuple[int | None, str]:
    """The end of the tag at `at`, and what is written before its `closer`.

    No end: more text decides. Nothing written: nothing, or more than `NAME_CAP` characters.
    """
    end = text.find(closer, at, at + NAME_CAP)
    if end < 0:
        return None if len(text) - at < NAME_CAP else at, ""
    return end + len(closer), text[at:end].strip()
