"""Calls written as Python: `[f(a="x", n=1), g()]`, or one call after the other without the brackets.

Owns the literals that may be arguments, and writes them as JSON: strings in one pair of quotes, numbers, the three
constants (in JSON's spelling too), lists, tuples, sets, dicts. Nothing is evaluated. Numbers keep their digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.streams.calls.bounded import bounded
from gateway.streams.calls.call import NAME_CAP, Argument, Call, Status
from gateway.streams.calls.scan import past_space
from gateway.streams.jsonscan import encode_string

DEPTH_CAP: Final = 128

_SPACE: Final = r"[ \t\n\r]*"
_NAME: Final = r"[^\W\d][\w.\-]*"
# Each with every beginning of it: they must match to the end of a text that may still become the first.
_HEAD: Final = re.compile(rf"({_NAME}){_SPACE}\(")
_HEAD_BEGUN: Final = re.compile(rf"(?:{_NAME}{_SPACE})?")
_KEY: Final = re.compile(rf"({_NAME}){_SPACE}=")
_FIRST: Final = rf"(?:\)|{_NAME}{_SPACE}=)"
_FIRST_BEGUN: Final = rf"(?:{_NAME}{_SPACE}(?:\({_SPACE}(?:{_NAME}{_SPACE})?)?)?"
_LEAD: Final = re.compile(rf"{_NAME}{_SPACE}\({_SPACE}{_FIRST}")
_LEAD_BEGUN: Final = re.compile(_FIRST_BEGUN)
_LIST_LEAD: Final = re.compile(rf"\[{_SPACE}{_NAME}{_SPACE}\({_SPACE}{_FIRST}")
_LIST_LEAD_BEGUN: Final = re.compile(rf"(?:\[{_SPACE}{_FIRST_BEGUN})?")

_IN_WORD: Final = re.compile(r"[\w.+\-]")
_WORD: Final = re.compile(r"[\w.+\-]*")
_WORDS: Final = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_DECIMAL: Final = re.compile(r"([+-]?)([0-9](?:_?[0-9])*)?(?:\.([0-9](?:_?[0-9])*)?)?([eE][+-]?[0-9]+)?")
_OTHER_BASE: Final = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")

_PLAIN: Final = {"'": re.compile(r"[^'\\]*"), '"': re.compile(r'[^"\\]*')}
_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]{0,2}|u[0-9a-fA-F]{0,4}|U[0-9a-fA-F]{0,8}|[0-7]{1,3}|.)?", re.DOTALL)
_OCTAL: Final = "01234567"
_WIDTH: Final = {"x": 4, "u": 6, "U": 10, **dict.fromkeys(_OCTAL, 4)}  # the most characters of an escape; else 2
_SIMPLE: Final = {
    **{char: char for char in "\\'\""}, **dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)), "\n": "",
}  # fmt: skip

_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}
_COMMA: Final = ", "


@dataclass(frozen=True, slots=True)
class PythonBody:
    """`brackets`: the calls stand in one list; otherwise a body is one call, or several with commas between them."""

    brackets: bool = True

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """See `Body`: a call with `)` or `KEY=` behind its bracket, so that a note in brackets is none."""
        whole, begun = (_LIST_LEAD, _LIST_LEAD_BEGUN) if self.brackets else (_LEAD, _LEAD_BEGUN)
        found = bounded(whole, begun, text, at, final=final)
        return None if found is None else bool(found)

    def open(self, *, until: tuple[str, ...]) -> PythonReader:
        """See `Body`."""
        return PythonReader(brackets=self.brackets)


@dataclass(slots=True)
class _Container:
    """A list, tuple, set or dict that is open. `opened`, `item`: the places of its bracket and of its last item in the
    argument's pieces. `many`: it has a comma. `keyed`: its last item has a key. `pairs`: it is a dict; None: not known.
    """

    closer: str
    opened: int
    item: int
    many: bool = False
    keyed: bool = False
    pairs: bool | None = None


class PythonReader:
    """Reads a `PythonBody`; a call stands in `calls` from its bracket on, an argument in its call from its end on."""

    __slots__ = ("_brackets", "_containers", "_key", "_parts", "_pieces", "_quote", "_step", "calls", "status")

    def __init__(self, *, brackets: bool) -> None:
        self.calls: list[Call] = []
        self.status = Status.OPEN
        self._brackets = brackets
        self._step: Callable[[str, int], int] = self._list if brackets else self._call
        self._key = ""
        self._pieces: list[str] = []  # the JSON of the argument that is being read
        self._containers: list[_Container] = []
        self._quote = ""
        self._parts: list[str] = []  # of the word or string that is being read

    @property
    def complete(self) -> bool:
        """See `BodyReader`: a call was the last to end, or an argument with a bracket or quote of its own."""
        if self.status is not Status.OPEN:
            return self.status is Status.DONE
        if self._step == self._behind:
            return not self._containers and self.calls[-1].arguments[-1].text[-1] in '"]}'
        return self._step == self._behind_call

    def read(self, text: str, at: int, *, final: bool) -> int:
        """See `BodyReader`."""
        while self.status is Status.OPEN and at < len(text):
            step, begun = self._step, at
            at = step(text, at)
            if at == begun and step == self._step:
                break
        if final and self._step == self._behind_call and not self._brackets:
            self.status = Status.DONE
        return at

    def _end(self, status: Status, at: int) -> int:
        self.status = status
        return at

    def _list(self, text: str, at: int) -> int:
        """The list's bracket."""
        if text[at] != "[":
            return self._end(Status.BROKEN, at)
        self._step = self._call
        return at + 1

    def _call(self, text: str, at: int) -> int:
        """In front of a call, or behind the comma of the last one."""
        at = past_space(text, at)
        found = bounded(_HEAD, _HEAD_BEGUN, text, at, final=False)
        if found:
            self.calls.append(Call(found[1]))
            self._step = self._argument
            return found.end()
        if found is False and self.calls:
            return self._last(text, at)
        return self._end(Status.BROKEN, at) if found is False else at

    def _behind_call(self, text: str, at: int) -> int:
        at = past_space(text, at)
        if text.startswith(",", at):
            self._step = self._call
            return at + 1
        return at if at == len(text) else self._last(text, at)

    def _last(self, text: str, at: int) -> int:
        """No call follows the last one."""
        if not self._brackets:
            return self._end(Status.DONE, at)
        return self._end(Status.DONE, at + 1) if text[at] == "]" else self._end(Status.BROKEN, at)

    def _argument(self, text: str, at: int) -> int:
        """In front of an argument, or of the call's closing bracket."""
        at = past_space(text, at)
        if text.startswith(")", at):
            return self._call_ended(at + 1)
        found = bounded(_KEY, _HEAD_BEGUN, text, at, final=False)
        if found:
            self._key = found[1]
            self._step = self._value
            return found.end()
        return self._end(Status.BROKEN, at) if found is False else at

    def _call_ended(self, at: int) -> int:
        self.calls[-1].closed = True
        self._step = self._behind_call
        return at

    def _value(self, text: str, at: int) -> int:
        """In front of a value, or of a container's bracket where no value has to come."""
        at = past_space(text, at)
        if at == len(text):
            return at
        char, top = text[at], self._containers[-1] if self._containers else None
        if top and not top.keyed and char == top.closer:
            return self._close(at)
        if top:
            top.item = len(self._pieces)
        self._parts = []
        if char in _PLAIN:
            self._quote, self._step = char, self._string
        elif char in _CLOSERS and len(self._containers) < DEPTH_CAP:
            self._containers.append(_Container(_CLOSERS[char], opened=len(self._pieces), item=0))
            self._pieces.append("{" if char == "{" else "[")
        elif _IN_WORD.match(char):
            self._step = self._word
            return at
        else:
            return self._end(Status.BROKEN, at)
        return at + 1

    def _word(self, text: str, at: int) -> int:
        """Inside a constant or a number, which the first other character ends."""
        word = _WORD.match(text, at)
        assert word, "matches anything"
        self._parts.append(word[0])
        if word.end() == len(text):
            return word.end()
        value = _constant("".join(self._parts))
        if value is None:
            return self._end(Status.BROKEN, word.end())
        return self._ended(value, word.end())

    def _string(self, text: str, at: int) -> int:
        """Inside a string. A line break is part of it, as every other character but the quote and the backslash."""
        plain = _PLAIN[self._quote].match(text, at)
        assert plain, "matches anything"
        self._parts.append(plain[0])
        at = plain.end()
        escape = _ESCAPE.match(text, at)
        if escape:
            short = len(escape[0]) < _WIDTH.get(escape[0][1:2], 2)
            if short and escape.end() == len(text):
                return at
            self._parts.append(_unescaped(escape[0]))
            return escape.end()
        if at == len(text):
            return at
        return self._ended(encode_string("".join(self._parts)).decode(), at + 1)

    def _ended(self, value: str, at: int) -> int:
        """A value that is no container ended at `at`."""
        self._pieces.append(value)
        return self._value_ended(at)

    def _value_ended(self, at: int) -> int:
        self._step = self._behind
        if not self._containers:
            self.calls[-1].arguments.append(Argument(self._key, "".join(self._pieces), "json"))
            self._pieces = []
        return at

    def _behind(self, text: str, at: int) -> int:
        """Behind a value."""
        at = past_space(text, at)
        if at == len(text):
            return at
        char, top = text[at], self._containers[-1] if self._containers else None
        if top is None and char in ",)":
            self._step = self._argument
            return at + (char == ",")
        if top and char == top.closer:
            return self._close(at)
        if top and ((char == ":" and self._make_key(top)) or (char == "," and self._make_item(top))):
            self._step = self._value
            return at + 1
        return self._end(Status.BROKEN, at)

    def _make_key(self, top: _Container) -> bool:
        """Behind a value comes a colon: False where it cannot be a key."""
        if top.closer != "}" or top.keyed or top.pairs is False or top.item != len(self._pieces) - 1:
            return False
        if not self._pieces[-1].startswith('"'):
            self._pieces[-1] = f'"{self._pieces[-1]}"'
        self._pieces.append(": ")
        top.keyed = top.pairs = True
        return True

    def _make_item(self, top: _Container) -> bool:
        """Behind a value comes a comma: False where a key has no value."""
        if top.pairs and not top.keyed:
            return False
        if top.closer == "}" and top.pairs is None:
            top.pairs = False
            self._pieces[top.opened] = "["
        self._pieces.append(_COMMA)
        top.keyed, top.many = False, True
        return True

    def _close(self, at: int) -> int:
        """The innermost container's bracket, at `at`: brackets around a single value are none, and a set is a list."""
        top, pieces = self._containers.pop(), self._pieces
        behind_comma = pieces[-1] == _COMMA
        if behind_comma:
            pieces.pop()
        elif top.pairs and not top.keyed:
            return self._end(Status.BROKEN, at)
        single = not top.many and len(pieces) - 1 > top.opened
        if single and top.closer == ")":
            pieces[top.opened] = ""
            return self._value_ended(at + 1)
        if single and not top.pairs:
            pieces[top.opened] = "["
        pieces.append("}" if pieces[top.opened] == "{" else "]")
        return self._value_ended(at + 1)


def _unescaped(escape: str) -> str:
    """What an escape stands for; one that Python does not know, or that is cut short, stands for itself."""
    kind = escape[1:2]
    if kind in _OCTAL:
        return chr(int(escape[1:], 8)) if kind else escape
    if len(escape) != _WIDTH.get(kind):
        return _SIMPLE.get(kind, escape)
    code = int(escape[2:], 16)
    return chr(code) if code <= 0x10FFFF else escape


def _constant(word: str) -> str | None:
    """A constant or a number as JSON; None: it is neither. Only what JSON does not allow is written differently."""
    if word in _WORDS:
        return _WORDS[word]
    if _OTHER_BASE.fullmatch(word):
        return str(int(word, 0)) if len(word) < NAME_CAP else None
    number = _DECIMAL.fullmatch(word)
    if not number or not (number[2] or number[3]):
        return None
    whole, fraction = ((number[group] or "0").replace("_", "") for group in (2, 3))
    point = "." + fraction if "." in word else ""
    return number[1].replace("+", "") + (whole.lstrip("0") or "0") + point + (number[4] or "")
