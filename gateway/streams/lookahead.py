"""What stands behind a marker: yes, no, or not known yet.

Every question is asked of the text from `end` on, as far as it has come; `final`: no more will come. None: what comes
may still change the answer. None waits for more than a cap of characters. Knows no state and no quoting.
"""

from __future__ import annotations

from gateway.streams.grammar import Grammar


class Lookahead:
    """Questions about the text behind a marker of one grammar. `cap`: characters that may wait for an answer."""

    __slots__ = ("_cap", "_grammar")

    def __init__(self, grammar: Grammar, *, cap: int) -> None:
        self._grammar = grammar
        self._cap = cap

    def ending(self, text: str, end: int, final: bool) -> bool | None:
        """True when from `end` to the end of the output only white space and closers stand."""
        grammar, at = self._grammar, end
        while at < len(text):
            if at - end >= self._cap:
                return False
            if text[at].isspace():
                at += 1
                continue
            ender = grammar.enders.match(text, at) if grammar.enders else None
            if ender is None:
                short = not final and len(text) - end < self._cap
                return None if short and text[at:] in grammar.ender_prefixes else False
            at = ender.end()
        return True if final else None if len(text) - end < self._cap else False

    def structure(self, text: str, end: int, final: bool) -> bool | None:
        """True where the next thing is another marker, or the end of the output."""
        at = self._word(text, end)
        if at is None:
            return False
        if at == len(text):
            return True if final else None
        structure = self._grammar.structure
        if structure and structure.match(text, at):
            return True
        rest = text[at : at + self._grammar.longest]
        return None if not final and rest in self._grammar.structure_prefixes else False

    def turn_opens(self, text: str, end: int, final: bool, *, blanks: bool) -> bool | None:
        """True when the next turn's header follows. `blanks`: white space may stand before it."""
        at = self._word(text, end) if blanks else end
        if at is None:
            return False
        openers = self._grammar.header_opens
        if any(text.startswith(opener, at) for opener in openers):
            return True
        rest = text[at : at + self._grammar.longest]
        return None if not final and any(opener.startswith(rest) for opener in openers) else False

    def marker_in(self, words: str) -> bool:
        """True for words that hold a closer, framing, an end of turn or the beginning of a header."""
        enders = self._grammar.enders
        return bool(enders and enders.search(words)) or any(text in words for text in self._grammar.header_opens)

    def _word(self, text: str, end: int) -> int | None:
        """Where the white space behind `end` is over, None where that is not within the cap."""
        at = end
        while at < len(text) and text[at].isspace():
            at += 1
            if at - end >= self._cap:
                return None
        return at


def line_end(text: str, end: int, final: bool) -> bool | None:
    """True where a line break follows or is the marker's own last character, or the output ends."""
    if text[end - 1] in "\r\n":
        return True
    if end < len(text):
        return text[end] in "\r\n"
    return True if final else None


def either(one: bool | None, other: bool | None) -> bool | None:
    """True when one of two questions is answered yes, None while one that could be is open."""
    if one or other:
        return True
    return None if one is None or other is None else False
