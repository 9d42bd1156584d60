"""Calls written as `call:NAME{key:<|"|>text<|"|>,n:3,o:{k:[1,true]}}`: objects in braces with strings in a literal.

Owns where keys and values end, and writes nested values as JSON. A string ends at its own literal and nowhere else,
and nothing is escaped in it. A bare word inside a container is what JSON makes of it, or else a string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.streams.calls.bounded import bounded
from gateway.streams.calls.call import Argument, Call, Status
from gateway.streams.calls.scan import find, past_space, startswith_any
from gateway.streams.jsonscan import encode_string

DEPTH_CAP: Final = 128

# Each with every beginning of it.
_HEAD: Final = re.compile(r"""([^\s{}\[\]()<>|,"'\udfff]+)[ \t\n\r]*\{""")
_HEAD_BEGUN: Final = re.compile(r"""(?:[^\s{}\[\]()<>|,"'\udfff]+[ \t\n\r]*)?""")
_KEY: Final = re.compile(r"([^:{}\[\]<>,\udfff]+):")
_KEY_BEGUN: Final = re.compile(r"[^:{}\[\]<>,\udfff]*")
# A word holds nothing that a literal or a container begins with: a missing brace must not swallow the next call.
_WORD_BEGINS: Final = re.compile(r"[^{}\[\]<>,\udfff]")
_WORD: Final = re.compile(r"[^{}\[\]<>,\udfff]*")
_JSON: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_CLOSERS: Final = {"[": "]", "{": "}"}
_COMMA: Final = ", "


@dataclass(frozen=True, slots=True, init=False)
class BracesBody:
    """One of `open`, a name, and the arguments in braces. `quote`: literals that open a string, which the same closes.

    An argument is `string` where it stands in a literal, `json` where it is a container, a number or a constant, and
    of no kind where it is another word: only the tool's schema can tell what that is.
    """

    begin: tuple[str, ...]
    quote: tuple[str, ...]

    def __init__(self, open: tuple[str, ...], quote: tuple[str, ...]) -> None:
        # Written out, since a field cannot be called `open` in a class that has a method of this name.
        object.__setattr__(self, "begin", open)
        object.__setattr__(self, "quote", quote)

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """See `Body`."""
        begins = startswith_any(text, self.begin, at, final=final)
        return None if begins is None else begins is not False

    def open(self, *, until: tuple[str, ...]) -> BracesReader:
        """See `Body`."""
        return BracesReader(self)


class BracesReader:
    """Reads a `BracesBody`; its call is there from the brace on, an argument in it from its end on."""

    __slots__ = ("_body", "_closers", "_in_key", "_key", "_parts", "_pieces", "_quote", "_step", "calls", "status")

    def __init__(self, body: BracesBody) -> None:
        self.calls: list[Call] = []
        self.status = Status.OPEN
        self._body = body
        self._step: Callable[[str, int], int] = self._begin
        self._closers: list[str] = []  # of the containers that are open, the brace of all arguments first
        self._key = ""  # of the argument that is being read
        self._pieces: list[str] = []  # its JSON
        self._quote: tuple[str, ...] = ()  # of the string that is being read
        self._in_key = False  # that string is a key
        self._parts: list[str] = []  # of the string or word that is being read

    @property
    def complete(self) -> bool:
        """See `BodyReader`: the call has ended, or an argument did last, with a literal or bracket of its own."""
        if self.status is not Status.OPEN or self._step != self._behind or len(self._closers) > 1:
            return self.status is Status.DONE
        last = self.calls[0].arguments[-1]
        return last.kind == "string" or (last.kind == "json" and last.text[-1] in "]}")

    def read(self, text: str, at: int, *, final: bool) -> int:
        """See `BodyReader`. What is not over at the end of the text stays open, so `final` changes nothing."""
        while self.status is Status.OPEN and at < len(text):
            step, begun = self._step, at
            at = step(text, at)
            if at == begun and step == self._step:
                break
        return at

    def _end(self, status: Status, at: int) -> int:
        self.status = status
        return at

    def _then(self, step: Callable[[str, int], int], at: int) -> int:
        self._step = step
        return at

    def _begin(self, text: str, at: int) -> int:
        end = startswith_any(text, self._body.begin, at, final=False)
        if end is False:
            return self._end(Status.BROKEN, at)
        return at if end is None else self._then(self._head, end)

    def _head(self, text: str, at: int) -> int:
        """The name and the brace."""
        at = past_space(text, at)
        found = bounded(_HEAD, _HEAD_BEGUN, text, at, final=False)
        if not found:
            return at if found is None else self._end(Status.BROKEN, at)
        self.calls.append(Call(found[1]))
        self._closers.append("}")
        return self._then(self._pair, found.end())

    def _pair(self, text: str, at: int) -> int:
        """In front of a key, or of the brace that ends the object."""
        at = past_space(text, at)
        if text.startswith("}", at):
            return self._close(at)
        end = startswith_any(text, self._body.quote, at, final=False)
        if end:
            return self._open_string(text[at:end], end, in_key=True)
        found = bounded(_KEY, _KEY_BEGUN, text, at, final=False)
        if found:
            self._take_key(found[1].strip())
            return self._then(self._value, found.end())
        return at if end is None or found is None else self._end(Status.BROKEN, at)

    def _colon(self, text: str, at: int) -> int:
        at = past_space(text, at)
        if text.startswith(":", at):
            return self._then(self._value, at + 1)
        return at if at == len(text) else self._end(Status.BROKEN, at)

    def _value(self, text: str, at: int) -> int:
        """In front of a value, or of the bracket that ends an array."""
        at = past_space(text, at)
        end = startswith_any(text, self._body.quote, at, final=False)
        if end:
            return self._open_string(text[at:end], end, in_key=False)
        char = text[at : at + 1]
        if char in _CLOSERS and len(self._closers) <= DEPTH_CAP:
            self._closers.append(_CLOSERS[char])
            self._pieces.append(char)
            return self._then(self._pair if char == "{" else self._value, at + 1)
        if char == "]" == self._closers[-1]:
            return self._close(at)
        if end is None:
            return at
        self._parts = []
        return self._then(self._word, at) if _WORD_BEGINS.match(char) else self._end(Status.BROKEN, at)

    def _open_string(self, quote: str, at: int, *, in_key: bool) -> int:
        self._quote, self._in_key, self._parts = (quote,), in_key, []
        return self._then(self._string, at)

    def _string(self, text: str, at: int) -> int:
        found = find(text, self._quote, at, final=False)
        begin, end = found if isinstance(found, tuple) else (found, found)
        self._parts.append(text[at:begin])
        if end == begin:
            return begin
        string = "".join(self._parts)
        if self._in_key:
            self._take_key(string)
            return self._then(self._colon, end)
        return self._ended(string, "string", end)

    def _word(self, text: str, at: int) -> int:
        """Inside a word, which a comma or bracket ends."""
        match = _WORD.match(text, at)
        assert match, "matches anything"
        self._parts.append(match[0])
        if match.end() == len(text):
            return match.end()
        word = "".join(self._parts).rstrip()
        return self._ended(word, "json" if _JSON.fullmatch(word) else None, match.end())

    def _take_key(self, key: str) -> None:
        if len(self._closers) == 1:
            self._key = key
        else:
            self._pieces.append(_encoded(key) + ": ")

    def _ended(self, value: str, kind: str | None, at: int) -> int:
        """A value ended at `at`: an argument, or a part of one."""
        if len(self._closers) == 1:
            self.calls[0].arguments.append(Argument(self._key, value, kind))
        else:
            self._pieces.append(value if kind == "json" else _encoded(value))
        return self._then(self._behind, at)

    def _behind(self, text: str, at: int) -> int:
        """Behind a value."""
        at = past_space(text, at)
        if text.startswith(",", at):
            if len(self._closers) > 1:
                self._pieces.append(_COMMA)
            return self._then(self._pair if self._closers[-1] == "}" else self._value, at + 1)
        if text.startswith(self._closers[-1], at):
            return self._close(at)
        return at if at == len(text) else self._end(Status.BROKEN, at)

    def _close(self, at: int) -> int:
        """The bracket that ends the innermost container, at `at`."""
        closer = self._closers.pop()
        if not self._closers:
            self.calls[0].closed = True
            return self._end(Status.DONE, at + 1)
        if self._pieces[-1] == _COMMA:
            self._pieces.pop()
        self._pieces.append(closer)
        if len(self._closers) > 1:
            return self._then(self._behind, at + 1)
        value, self._pieces = "".join(self._pieces), []
        return self._ended(value, "json", at + 1)


def _encoded(text: str) -> str:
    return encode_string(text).decode()
