"""Calls written as elements: a tag that names the call, an element for each argument, a closer.

Owns how far a tag, a value and a call go. Inside a value only the value's own closer is live. Knows no family: what the
tags look like is the format's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from gateway.streams.calls.call import NAME_CAP, Argument, BodyReader, Call, Status
from gateway.streams.calls.json_body import ArgumentsBody
from gateway.streams.calls.scan import find, past_space, startswith_any
from gateway.streams.calls.steps import ArgumentSteps

_CDATA: Final = ("<![CDATA[",)
_CDATA_END: Final = ("]]>",)


class Opening(NamedTuple):
    """What a tag says. `end`: the place behind it. `empty`: it closes itself."""

    end: int
    name: str
    type: str | None
    empty: bool


@dataclass(frozen=True, slots=True)
class Tag:
    """An opening tag: one of the literals `open`, attributes, the literal `end`.

    `words`: a regular expression that the attributes match entirely, white space around them left out; groups `name`
    and, where the format has one, `type`. `entities`: what attributes are escaped with, and what it stands for.
    """

    open: tuple[str, ...]
    end: str
    words: str
    entities: Mapping[str, str] = field(default_factory=dict)

    def read(self, text: str, at: int) -> Opening | Literal[False] | None:
        """The tag whose attributes begin at `at`; False: there is none; None: more text decides.

        An `end` between quotation marks ends nothing, unless the attributes are complete there.
        """
        stop = at + NAME_CAP
        end = text.find(self.end, at, stop)
        while end >= 0:
            attributes = text[at:end]
            opening = self._opening(attributes.strip(), end + len(self.end))
            if opening or (self.open[0] + attributes).count('"') % 2 == 0:
                return opening or False
            end = text.find(self.end, end + 1, stop)
        return None if len(text) < stop else False

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """True where such a tag begins at `at`; None: not known yet."""
        found = startswith_any(text, self.open, at, final=final)
        return None if found is None else found is not False

    def within(self, text: str) -> bool:
        """True where a whole tag of this kind stands in `text`."""
        found = find(text, self.open, 0, final=True)
        while isinstance(found, tuple):
            if self.read(text, found[1]):
                return True
            found = find(text, self.open, found[1], final=True)
        return False

    def _opening(self, attributes: str, end: int) -> Opening | None:
        empty = attributes.endswith("/")
        said = _expression(self.words).fullmatch(attributes.removesuffix("/").rstrip())
        if not said or not said["name"]:
            return None
        return Opening(end, decoded(said["name"], self.entities), said.groupdict().get("type"), empty)


@dataclass(frozen=True, slots=True)
class ElementsBody:
    """A `call` tag, arguments, one of `close`; an argument is a tag, a value, and one of `argument_close`.

    A call tag that ends in `/` is a call without arguments. A value that holds a whole argument tag has lost its own
    closer, and where it ends nobody knows: the body is none, unless such tags are `opaque` (control tokens, which are
    not lost). `types`: a tag's type word -> `string` or `json`.
    `newlines`: one line break right behind an argument's tag and one right before its closer are markup. `json`: one
    JSON object may stand in place of the elements. `cdata`: the marks of CDATA sections that are a whole value are
    markup, and such a value holds what it likes. `entities`: what a value is escaped with, and what it stands for; a
    value with a `&` or `<` that is not escaped was not written so and stays as it is.
    """

    call: Tag
    close: tuple[str, ...]
    argument: Tag
    argument_close: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    newlines: bool = False
    json: bool = False
    cdata: bool = False
    opaque: bool = False
    entities: Mapping[str, str] = field(default_factory=dict)

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """See `Body`."""
        return self.call.lead(text, at, final=final)

    def open(self, *, until: tuple[str, ...]) -> BodyReader:
        """See `Body`. A region's closer that stands for the call's own ends the call and is not read."""
        return _Reader(self, until)


class _Reader(ArgumentSteps):
    """The state of one body. `_step`: what reads on; it stays where it is when it needs more text."""

    __slots__ = (
        "_body", "_key", "_kind", "_object", "_pieces", "_tail", "_until",
    )  # fmt: skip

    def __init__(self, body: ElementsBody, until: tuple[str, ...]) -> None:
        super().__init__(_Reader._open)
        self._body = body
        self._until = until
        self._key = ""
        self._kind: str | None = None
        self._pieces: list[str] = []  # of the value at hand
        self._tail: list[str] = []  # of a CDATA section, behind a mark that may end it
        self._object: BodyReader = ArgumentsBody().open(until=())

    def _open(self, text: str, at: int, final: bool) -> int:
        found = startswith_any(text, self._body.call.open, at, final=False)
        if found is None:
            return at
        if found is False:
            return self._broken(at)
        self._step = _Reader._named
        return found

    def _named(self, text: str, at: int, final: bool) -> int:
        opening = self._body.call.read(text, at)
        if not opening:
            return at if opening is None else self._broken(at)
        self.calls.append(Call(opening.name))
        if opening.empty:
            return self._done(opening.end)
        self._step = _Reader._between
        return opening.end

    def _between(self, text: str, at: int, final: bool) -> int:
        """Between arguments: a closer, or the next one."""
        at = past_space(text, at)
        call, body = self.calls[0], self._body
        if at == len(text):
            return at
        if body.json and text[at] == "{" and not call.arguments and call.json is None:
            call.json = self._object.calls[0].json
            self._step = _Reader._in_object
            return at
        closers, openers = (*body.close, *self._until), body.argument.open if call.json is None else ()
        closes = startswith_any(text, closers, at, final=False)
        opens = startswith_any(text, openers, at, final=False)
        if closes is None or opens is None:
            return self._at_end(text, at, closers, begun=opens is None) if final else at
        if closes:
            return self._closed(text, at, closes)
        if not opens:
            return self._broken(at)
        self._step = _Reader._argument
        return opens

    def _at_end(self, text: str, at: int, closers: tuple[str, ...], *, begun: bool) -> int:
        """The text ends inside a literal. `begun`: it may be one that opens an argument."""
        closes = startswith_any(text, closers, at, final=True)
        if closes:
            return self._closed(text, at, closes)
        self._whole = not begun
        return at if begun else len(text)

    def _closed(self, text: str, at: int, end: int) -> int:
        if text[at:end] in self._body.close:
            return self._done(end)
        self.calls[0].repaired = True
        return self._done(at)

    def _in_object(self, text: str, at: int, final: bool) -> int:
        at = self._object.read(text, at, final=final)
        if self._object.status is Status.BROKEN:
            return self._broken(at)
        if self._object.status is Status.DONE:
            self._step = _Reader._between
            self._whole = True
        return at

    def _argument(self, text: str, at: int, final: bool) -> int:
        opening = self._body.argument.read(text, at)
        if opening is None:
            return at
        if opening is False or opening.empty:
            return self._broken(at)
        self._key = opening.name
        self._kind = self._body.types.get(opening.type or "")
        self._step = _Reader._before if self._body.cdata else _Reader._value
        return opening.end

    def _value(self, text: str, at: int, final: bool) -> int:
        found = find(text, self._body.argument_close, at, final=final)
        if isinstance(found, int):
            self._pieces.append(text[at:found])
            return found
        self._pieces.append(text[at : found[0]])
        value = "".join(self._pieces)
        if not self._body.opaque and self._body.argument.within(value):
            return self._broken(found[0])
        if self._body.newlines:
            value = value.removeprefix("\n").removesuffix("\n")
        return self._take(decoded(value, self._body.entities, unescaped="&<"), found[1])

    def _before(self, text: str, at: int, final: bool) -> int:
        """At the beginning of a value that may be CDATA."""
        end = past_space(text, at)
        found = startswith_any(text, _CDATA, end, final=final)
        self._pieces.append(text[at:end])
        if found is None:
            return end
        if found is False:
            self._step = _Reader._value
            return end
        self._pieces.clear()
        self._step = _Reader._section
        return found

    def _section(self, text: str, at: int, final: bool) -> int:
        found = find(text, _CDATA_END, at, final=final)
        if isinstance(found, int):
            self._pieces.append(text[at:found])
            return found
        self._pieces.append(text[at : found[0]])
        self._tail = [text[slice(*found)]]
        self._step = _Reader._behind
        return found[1]

    def _behind(self, text: str, at: int, final: bool) -> int:
        """Behind what ends a CDATA section, if the value's closer or another section follows; else it is text."""
        end = past_space(text, at)
        closes = startswith_any(text, self._body.argument_close, end, final=final)
        joins = startswith_any(text, _CDATA, end, final=final)
        self._tail.append(text[at:end])
        if closes is None or joins is None:
            return end
        if closes is not False:
            return self._take("".join(self._pieces), closes)
        self._step = _Reader._section
        if joins is not False:
            return joins
        self._pieces += self._tail
        return end

    def _take(self, value: str, at: int) -> int:
        """An argument has ended."""
        self.calls[0].arguments.append(Argument(self._key, value, self._kind))
        self._pieces.clear()
        self._step = _Reader._between
        self._whole = True
        return at


def decoded(text: str, entities: Mapping[str, str], *, unescaped: str = "") -> str:
    """`text` with its `entities` read. With one of the characters `unescaped` in the rest of it: as it is."""
    if "&" not in text or not entities:
        return text
    references = _expression("|".join(map(re.escape, entities)))
    rest = references.sub("", text) if unescaped else ""
    if any(character in rest for character in unescaped):
        return text
    return references.sub(lambda found: entities[found[0]], text)


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
