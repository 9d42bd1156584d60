"""Calls written as a tree: every tag behind a prefix, one element for each argument, elements in it for what it holds.

Owns how the tree is read and what JSON it is. An element that holds elements is an object, or an array where all of
them have the item's name; several of one name are an array in an object. Knows no family and no schema: every leaf of a
tree is a string as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.streams.calls.call import NAME_CAP, Argument, BodyReader, Call
from gateway.streams.calls.element_body import Tag
from gateway.streams.calls.scan import find, past_space, startswith_any
from gateway.streams.calls.steps import ArgumentSteps

DEPTH_CAP: Final = 128

Value: TypeAlias = str | dict[str, "Value"] | list["Value"]


@dataclass(frozen=True, slots=True)
class NestedBody:
    """The tag `call`, elements, one of `close`. `prefix` stands before every tag; the literals are without it.

    White space may stand between a prefix and its tag. `item`: the name of an array's elements. Behind a prefix inside
    a value only the value's own closer and a nested element are live; a prefix before anything else is text.
    """

    prefix: str
    call: Tag
    close: tuple[str, ...]
    item: str = "item"

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """See `Body`."""
        behind = startswith_any(text, (self.prefix,), at, final=final)
        if not behind:
            return None if behind is None else False
        tag = past_space(text, behind)
        if tag - behind > NAME_CAP:
            return False
        return self.call.lead(text, tag, final=final)

    def open(self, *, until: tuple[str, ...]) -> BodyReader:
        """See `Body`. A region's closer that stands for the call's own ends the call and is not read."""
        return _Reader(self, until)


@dataclass(slots=True)
class _Element:
    """An element that is open. `closer`: its closing tag. A tree has no text but white space."""

    closer: str
    key: str
    text: list[str] = field(default_factory=list)
    children: list[tuple[str, Value]] = field(default_factory=list)

    @property
    def blank(self) -> bool:
        """True where nothing but white space has been written in it."""
        return all(past_space(piece, 0) == len(piece) for piece in self.text)


class _Reader(ArgumentSteps):
    """The state of one body. `_step`: what reads on; it stays where it is when it needs more text."""

    __slots__ = ("_body", "_elements", "_mark", "_until")

    def __init__(self, body: NestedBody, until: tuple[str, ...]) -> None:
        super().__init__(_Reader._open)
        self._body = body
        self._until = until
        self._elements: list[_Element] = []
        self._mark: list[str] = []  # a prefix in a value and the white space behind it: of a tag, or text

    def _open(self, text: str, at: int, final: bool) -> int:
        return self._past(text, (self._body.prefix,), at, _Reader._call)

    def _call(self, text: str, at: int, final: bool) -> int:
        return self._past(text, self._body.call.open, past_space(text, at), _Reader._named)

    def _past(
        self, text: str, literals: tuple[str, ...], at: int, step: Callable[[_Reader, str, int, bool], int]
    ) -> int:
        """One of `literals` must stand here."""
        found = startswith_any(text, literals, at, final=False)
        if not found:
            return at if found is None else self._broken(at)
        self._step = step
        return found

    def _named(self, text: str, at: int, final: bool) -> int:
        opening = self._body.call.read(text, at)
        if not opening:
            return at if opening is None else self._broken(at)
        self.calls.append(Call(opening.name))
        self._step = _Reader._between
        return self._done(opening.end) if opening.empty else opening.end

    def _between(self, text: str, at: int, final: bool) -> int:
        """Between arguments."""
        at = past_space(text, at)
        if at == len(text):
            return at
        ended = startswith_any(text, self._until, at, final=final)
        marked = startswith_any(text, (self._body.prefix,), at, final=False)
        if ended:
            self.calls[0].repaired = True
            return self._done(at)
        if ended is None or marked is None:
            self._whole = self._whole and not final
            return at
        if not marked:
            return self._broken(at)
        self._step = _Reader._tag
        return marked

    def _tag(self, text: str, at: int, final: bool) -> int:
        """Behind the prefix of a tag that is in no argument."""
        at = past_space(text, at)
        closes = startswith_any(text, self._body.close, at, final=False)
        if closes:
            return self._done(closes)
        if closes is False or not final:
            return at if closes is None else self._element(text, at)
        if text.startswith("</", at):
            self._whole = True
            self._step = _Reader._between
            return len(text)
        return at

    def _element(self, text: str, at: int) -> int:
        """An element must begin here."""
        name = _name(text, at)
        if name is None:
            return at
        if not name or len(self._elements) == DEPTH_CAP:
            return self._broken(at)
        self._elements.append(_Element(f"</{name}>", name.strip()))
        self._step = _Reader._inside
        return at + len(name) + 2

    def _inside(self, text: str, at: int, final: bool) -> int:
        """In an element, up to the next prefix. Behind a child there is no text."""
        element = self._elements[-1]
        found = find(text, (self._body.prefix,), at, final=final)
        end = found if isinstance(found, int) else found[0]
        if element.children:
            text_begins = past_space(text, at)
            if text_begins < end:
                return self._broken(text_begins)
        else:
            element.text.append(text[at:end])
        if isinstance(found, int):
            return end
        self._mark = [self._body.prefix]
        self._step = _Reader._marked
        return found[1]

    def _marked(self, text: str, at: int, final: bool) -> int:
        """Behind a prefix in an element."""
        element = self._elements[-1]
        tag = past_space(text, at)
        if tag == len(text):
            self._mark.append(text[at:])
            return tag
        closes = startswith_any(text, (element.closer,), tag, final=False)
        if closes:
            return self._close(closes)
        if text[tag] == "<":
            self._mark.append(text[at:tag])
            return tag if closes is None else self._child(element, text, tag)
        if element.children:
            return self._broken(tag)
        element.text += [*self._mark, text[at:tag]]
        self._step = _Reader._inside
        return tag

    def _child(self, element: _Element, text: str, at: int) -> int:
        if not element.children and not element.blank:
            return self._broken(at)
        return self._element(text, at)

    def _close(self, at: int) -> int:
        """The innermost element has ended."""
        element = self._elements.pop()
        written = "".join(element.text)
        tree = _tree(element.children, self._body.item) if element.children else None
        if self._elements:
            self._elements[-1].children.append((element.key, written if tree is None else tree))
            self._step = _Reader._inside
            return at
        text, kind = (written, None) if tree is None else (json.dumps(tree, ensure_ascii=False), "tree")
        self.calls[0].arguments.append(Argument(element.key, text, kind))
        self._whole = True
        self._step = _Reader._between
        return at


def _name(text: str, at: int) -> str | None:
    """What is written in the tag that opens at `at`; empty: none does; None: more text decides."""
    if text.startswith("</", at) or not text.startswith("<", at):
        return ""
    end = text.find(">", at, at + NAME_CAP)
    if end < 0:
        return None if len(text) - at < NAME_CAP else ""
    name = text[at + 1 : end]
    return name if name.strip() and "<" not in name else ""


def _tree(children: list[tuple[str, Value]], item: str) -> Value:
    """The JSON value of an element that holds `children`."""
    if all(name == item for name, _ in children):
        return [value for _, value in children]
    named: dict[str, list[Value]] = {}
    for name, value in children:
        named.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in named.items()}
