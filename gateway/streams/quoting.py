"""Is this place in an answer quoted? Markdown fences and inline code, independent of chunking.

Rules: a fence opens with three or more backticks or tildes that stand first on their line and closes with as many or
more of the same alone on a line (CommonMark 4.5; any indentation and `>` or list marks are allowed before it, since
answers nest). Inline code runs from a run of backticks to the next run of the same length and never across a line
break (contract rule 3). A run that is still open at a place counts as quoting it: what follows is not known there, and
must not change the reading. Block quotes and quotation marks (`gateway.streams.citing`) are another matter: `cited`.

Text is only kept until somebody asks; then it is folded into a few integers. Knows no marker.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.streams.citing import Citing

_TOKEN: Final = re.compile(r"\n|`+|~+")
_LINE_OPENING: Final = re.compile(r"[\s>*+\-\d.)]*\Z")  # white space, quote and list marks: a fence may still open here
_CLOSING_QUOTE: Final = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“"}
_SENTENCE_ENDS: Final = ".!?…。！？"
_BEFORE_A_MENTION: Final = " \t\"'(“‘«„[*_"
_JOINING: Final = ",;:/=|<，、；：／｜（《「『【"  # a mention may follow at once
_UNSPACED: Final = "\u0e00"  # from Thai on: scripts whose words stand side by side, so that a letter tells nothing


class Quoting:
    """State after all text put into `pieces` so far, which costs one append; `fold` empties it."""

    __slots__ = (
        "_blank", "_citing", "_code", "_fence", "_fence_closing", "_fence_line", "_last", "_opening", "_run", "pieces",
    )  # fmt: skip

    def __init__(self) -> None:
        self.pieces: list[str] = []  # released text, appended by the reader
        self._run = ""  # backticks or tildes at the very end of the folded text: more may follow
        self._fence = ""  # the run that opened the fence we are in
        self._fence_line = False  # the fence opened on this line: a second backtick run would make it inline code
        self._fence_closing = False  # this line, inside a fence, is a closing run and nothing else so far
        self._code = 0  # length of the inline-code run that is open on this line
        self._opening = True  # only white space, quote and list marks on this line: a fence may open
        self._blank = True  # only white space on this line
        self._last = ""  # the last character
        self._citing = Citing()

    @property
    def quoted(self) -> bool:
        """True inside a fence or an open inline-code run."""
        self.fold()
        if self._run:  # the place ends the run: look at the state as if it were complete
            probe = self._copy()
            probe._take_run(self._run)
            return bool(probe._fence or probe._code)
        return bool(self._fence or self._code)

    @property
    def cited(self) -> bool:
        """True inside a block quote, or where a quotation is open on this line."""
        self.fold()
        return self._citing.cited

    @property
    def line_start(self) -> bool:
        """True where only white space stands before this place on its line."""
        self.fold()
        return self._blank and not self._run

    @property
    def mid_sentence(self) -> bool:
        """True behind a blank, a bracket or a quotation mark that is not the start of a line: a mention, not an end."""
        self.fold()
        return bool(self._last) and self._last in _BEFORE_A_MENTION and not self.line_start

    @property
    def word_end(self) -> bool:
        """True right behind a word or a sentence, at a place where no mention would begin."""
        self.fold()
        last = self._last
        apart = self.mid_sentence or last in _JOINING or (last.isalpha() and last >= _UNSPACED)
        return bool(last) and not last.isspace() and not apart

    @property
    def open_quote(self) -> str:
        """The quotation mark that closes the one right before this place; empty where none stands there."""
        self.fold()
        return _CLOSING_QUOTE.get(self._last, "")

    @property
    def sentence_end(self) -> bool:
        """True right behind a sign that ends a sentence."""
        self.fold()
        return bool(self._last) and self._last in _SENTENCE_ENDS

    def _copy(self) -> Quoting:
        other = Quoting()
        other._fence, other._code, other._opening, other._blank = self._fence, self._code, self._opening, self._blank
        other._fence_line, other._fence_closing = self._fence_line, self._fence_closing
        return other

    def fold(self) -> None:
        """Bring the state up to date with all text so far."""
        if not self.pieces:
            return
        text = self._run + "".join(self.pieces)
        self._last = text[-1:] or self._last
        self.pieces.clear()
        self._run = ""
        if "`" not in text and "~" not in text:  # the common case: only the last line matters
            line_break = text.rfind("\n")
            if line_break != -1:
                self._take_plain(text[: text.index("\n")])  # a closing fence is alone on its line
                self._line_break()
            self._take_plain(text[line_break + 1 :])
            return
        at = 0
        for token in _TOKEN.finditer(text):
            self._take_plain(text[at : token.start()])
            at = token.end()
            if token.group() == "\n":
                self._line_break()
            elif at == len(text):
                self._run = token.group()
            else:
                self._take_run(token.group())
        self._take_plain(text[at:])

    def _take_plain(self, text: str) -> None:
        if text and not self._fence and not self._code:
            self._citing.take(text)
        if not text or text.isspace():
            return
        self._blank = self._fence_closing = False
        if self._opening and not _LINE_OPENING.match(text):
            self._opening = False

    def _take_run(self, run: str) -> None:
        opening, blank = self._opening, self._blank
        self._opening = self._blank = False
        self._citing.take(run)
        if self._fence_line and run[0] == self._fence[0] == "`":
            self._code, self._fence, self._fence_line = len(self._fence), "", False
        if self._fence:
            self._fence_closing = (opening or blank) and run[0] == self._fence[0] and len(run) >= len(self._fence)
        elif opening and len(run) >= 3:
            self._fence, self._fence_line = run, True
        elif run[0] == "`":
            if not self._code:
                self._code = len(run)
            elif self._code == len(run):
                self._code = 0

    def _line_break(self) -> None:
        if self._fence_closing:
            self._fence = ""
        self._fence_closing = self._fence_line = False
        self._code = 0
        self._opening = self._blank = True
        self._citing.line_break()


UNQUOTED: Final = Quoting()
"""The state at a place where nothing is quoted: the beginning of a text. Never told of any."""
