"""Is this place of a line said by somebody else: in a block quote, or inside quotation marks that are open?

Rules: a block quote is a line whose first sign is `>`, list marks aside (CommonMark 5.1, without lazy continuation). A
straight quotation mark opens where no ASCII letter or digit stands before it (5" is a measure), the next one closes,
and `\\"` is neither, as in a JSON string. Typographic marks close by kind, or by a straight one. Nothing reaches across
a line break: there every quotation ends. Only calls ask for this: it tells one from one that is talked about.

Knows no marker. Takes the text of one line in any pieces, code left out.
"""

from __future__ import annotations

import re
from typing import Final

_LIST_MARKS: Final = r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*"
_BLOCK: Final = re.compile(_LIST_MARKS + ">")
_BLOCK_SO_FAR: Final = re.compile(_LIST_MARKS + r"(?:[-*+]|\d{1,9}[.)]?)?")
_BLOCK_CAP: Final = 32  # characters of a line in which its block quote begins
_MARK: Final = re.compile(r'\\(?:.|\Z)|["“”„«»「」『』]')
_CLOSERS: Final = {'"': '"”', "“": '”"', "„": '“”"', "«": '»"', "「": "」", "『": "』"}


class Citing:
    """State after the text of a line so far."""

    __slots__ = ("_before", "_block", "_closers", "_escaped", "_opening")

    def __init__(self) -> None:
        self.line_break()

    def line_break(self) -> None:
        """A new line begins."""
        self._opening: str | None = ""  # the line so far, while a block quote may still begin in it
        self._block = False
        self._closers = ""  # what closes the quotation that is open
        self._before = ""  # the last character
        self._escaped = False  # the last character is a backslash that goes with the next one

    @property
    def cited(self) -> bool:
        """True inside a block quote, or an open quotation."""
        return self._block or bool(self._closers)

    def take(self, text: str) -> None:
        """More text of the line, at least one character."""
        if self._opening is not None:
            line = (self._opening + text)[:_BLOCK_CAP]
            self._block = _BLOCK.match(line) is not None
            undecided = len(line) < _BLOCK_CAP and _BLOCK_SO_FAR.fullmatch(line)
            self._opening = line if undecided else None
        start, self._escaped = int(self._escaped), False
        for mark in _MARK.finditer(text, start):
            if mark[0].startswith("\\"):
                self._escaped = mark[0] == "\\"
            else:
                self._take_mark(mark[0], text[mark.start() - 1] if mark.start() else self._before)
        self._before = text[-1]

    def _take_mark(self, mark: str, before: str) -> None:
        if self._closers:
            self._closers = "" if mark in self._closers else self._closers
        elif mark != '"' or not (before.isascii() and before.isalnum()):
            self._closers = _CLOSERS.get(mark, "")
