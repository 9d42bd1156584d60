"""One JSON value in a text that arrives in pieces: where it ends, and where it stopped being JSON.

Owns the grammar of RFC 8259 as a table, one character or one run of characters a step, nothing ever read twice. Knows
nothing of calls.

Checked: everything but what a backslash may stand before. Two things pass that strict JSON refuses, because models
write them and the end of the value is certain all the same: control characters in a string as they are (a line break),
and any character behind a backslash. So a value that ended still has to be parsed by whoever uses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from gateway.streams.calls.call import Status

DEPTH_CAP: Final = 128


class _State(Enum):
    """What may come. `KEY_OR_END` and `ITEM_OR_END`: right behind the opening bracket."""

    VALUE = auto()
    ITEM_OR_END = auto()
    KEY_OR_END = auto()
    KEY = auto()
    COLON = auto()
    BEHIND = auto()  # a value inside a container
    IN_KEY = auto()
    KEY_ESCAPE = auto()
    IN_STRING = auto()
    ESCAPE = auto()
    MINUS = auto()
    ZERO = auto()
    INTEGER = auto()
    POINT = auto()
    FRACTION = auto()
    E = auto()
    SIGN = auto()
    EXPONENT = auto()


class _Act(Enum):
    """What a character does besides leading to a state."""

    DOWN = auto()  # a container begins
    UP = auto()  # the innermost container ends, and this is the bracket that must do it
    MORE = auto()  # a comma: what follows depends on the container
    END = auto()  # a value that is no container ends


_S = _State
_NONZERO: Final = dict.fromkeys("123456789", _S.INTEGER)
_FRACTIONAL: Final = {".": _S.POINT, "e": _S.E, "E": _S.E}
_BEGIN: Final[Mapping[str, _State | _Act | str]] = {
    "{": _Act.DOWN,
    "[": _Act.DOWN,
    '"': _S.IN_STRING,
    "-": _S.MINUS,
    "0": _S.ZERO,
    **_NONZERO,
    "t": "rue",
    "f": "alse",
    "n": "ull",
}
"""A text: what is left of the word."""

_STEPS: Final[Mapping[_State, Mapping[str, _State | _Act | str]]] = {
    _S.VALUE: _BEGIN,
    _S.ITEM_OR_END: {**_BEGIN, "]": _Act.UP},
    _S.KEY_OR_END: {'"': _S.IN_KEY, "}": _Act.UP},
    _S.KEY: {'"': _S.IN_KEY},
    _S.COLON: {":": _S.VALUE},
    _S.BEHIND: {",": _Act.MORE, "}": _Act.UP, "]": _Act.UP},
    _S.IN_KEY: {'"': _S.COLON, "\\": _S.KEY_ESCAPE},
    _S.IN_STRING: {'"': _Act.END, "\\": _S.ESCAPE},
    _S.MINUS: {"0": _S.ZERO, **_NONZERO},
    _S.ZERO: _FRACTIONAL,
    _S.INTEGER: _FRACTIONAL,
    _S.POINT: dict.fromkeys("0123456789", _S.FRACTION),
    _S.FRACTION: {"e": _S.E, "E": _S.E},
    _S.E: {"+": _S.SIGN, "-": _S.SIGN, **dict.fromkeys("0123456789", _S.EXPONENT)},
    _S.SIGN: dict.fromkeys("0123456789", _S.EXPONENT),
    _S.EXPONENT: {},
}
_ESCAPED: Final = {_S.KEY_ESCAPE: _S.IN_KEY, _S.ESCAPE: _S.IN_STRING}
_NUMBER: Final = frozenset({_S.ZERO, _S.INTEGER, _S.FRACTION, _S.EXPONENT})
"""States in which a number may be over: nothing but the next character tells."""

_SPACE: Final = re.compile(r"[ \t\n\r]*+")
_DIGITS: Final = re.compile(r"[0-9]*+")
# The lookahead fails before anything is consumed: Python before 3.11.5 goes on from where a possessive group failed.
_PLAIN: Final = re.compile(r'(?:[^"\\]++|(?=\\.)..)*+', re.DOTALL)
_RUNS: Final[Mapping[_State | str, re.Pattern[str]]] = {
    **dict.fromkeys((_S.VALUE, _S.ITEM_OR_END, _S.KEY_OR_END, _S.KEY, _S.COLON, _S.BEHIND), _SPACE),
    **dict.fromkeys((_S.INTEGER, _S.FRACTION, _S.EXPONENT), _DIGITS),
    **dict.fromkeys((_S.IN_KEY, _S.IN_STRING), _PLAIN),
}
"""Characters that change nothing, as many as there are."""


class JsonValue:
    """Reads one JSON value, white space in front of it included. `status` is DONE right behind its last character."""

    __slots__ = ("_closers", "_state", "status")

    def __init__(self) -> None:
        self.status = Status.OPEN
        self._state: _State | str = _S.VALUE
        self._closers: list[str] = []

    def read(self, text: str, at: int, *, final: bool) -> int:
        """Read on from `at`; returns the place up to which it was read: at OPEN always the text's end.

        At DONE it is the value's end, at BROKEN the character that cannot stand there. `final`: no more will come,
        which ends a number and nothing else.
        """
        while self.status is Status.OPEN and at < len(text):
            run = _RUNS.get(self._state)
            if run and (match := run.match(text, at)):
                at = match.end()
            if at < len(text):
                at += self._step(text[at])
        if final and self.status is Status.OPEN and not self._closers and self._state in _NUMBER:
            self.status = Status.DONE
        return at

    def _step(self, char: str) -> int:
        """Take one character; returns how many were taken."""
        state = self._state
        following: _State | _Act | str | None
        if isinstance(state, str):
            following = (state[1:] or _Act.END) if char == state[0] else None
        else:
            following = _ESCAPED.get(state) or _STEPS[state].get(char)
        if following is None and state in _NUMBER:
            self._ended()
        elif following is None:
            self.status = Status.BROKEN
        elif isinstance(following, _Act):
            return self._act(following, char)
        else:
            self._state = following
            return 1
        return 0

    def _act(self, act: _Act, char: str) -> int:
        """Take a character that is more than a step; returns how many were taken."""
        closers = self._closers
        if (act is _Act.DOWN and len(closers) == DEPTH_CAP) or (act is _Act.UP and closers[-1] != char):
            self.status = Status.BROKEN
            return 0
        if act is _Act.DOWN:
            closers.append("}" if char == "{" else "]")
            self._state = _S.KEY_OR_END if char == "{" else _S.ITEM_OR_END
        elif act is _Act.MORE:
            self._state = _S.KEY if closers[-1] == "}" else _S.VALUE
        else:
            if act is _Act.UP:
                closers.pop()
            self._ended()
        return 1

    def _ended(self) -> None:
        """A value ended, maybe the one that is read."""
        if self._closers:
            self._state = _S.BEHIND
        else:
            self.status = Status.DONE
