"""Text from tokens, with the tokens that are markers told apart from text that only spells one.

A marker is structure where the model gave its own token, and text where ordinary tokens spell it (reference/vllm.md 5).
The reader reads text, so a token that is a marker is written with `STRUCTURAL` before it, and a grammar that is
compiled for such text has that character in its literals (`gateway.rulebook.compile`). A lone surrogate: no text that
was decoded from UTF-8 can hold it.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

STRUCTURAL: Final = "\udfff"


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token. `ident`: its id, None where the engine does not tell. `data`: its bytes; a character may be
    cut between two tokens.
    """

    ident: int | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Markers:
    """What of a dialect's literals the model's vocabulary has as one token. `texts`: those; `ids`: their ids."""

    texts: frozenset[str] = frozenset()
    ids: frozenset[int] = frozenset()

    def has(self, token: Token) -> bool:
        """True for a token that is a marker: by its id, or where there is none by its text."""
        if token.ident is not None:
            return token.ident in self.ids
        return token.data.decode(errors="replace") in self.texts


class TokenText:
    """The text of one output. `feed` tokens in order, then `end` once."""

    __slots__ = ("_decoder", "_markers")

    def __init__(self, markers: Markers) -> None:
        self._markers = markers
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, tokens: Iterable[Token]) -> str:
        """The text that is whole so far: a character that two tokens share comes with the second one."""
        return "".join([self._text(token) for token in tokens])

    def end(self) -> str:
        """What is left of a character that never came whole: U+FFFD, or nothing."""
        return self._decoder.decode(b"", final=True)

    def _text(self, token: Token) -> str:
        if not self._markers.has(token):
            return self._decoder.decode(token.data)
        return self.end() + STRUCTURAL + token.data.decode(errors="replace")


def plain(text: str) -> str:
    """The text without what tells structure apart."""
    return text.replace(STRUCTURAL, "") if STRUCTURAL in text else text


def marked(text: str, atoms: Collection[str]) -> str:
    """A literal as it comes where each of `atoms` is one token; at one place the longest of them counts.

    The literal of an atom inside a longer one stays with the longer.
    """
    out, at = [], 0
    while at < len(text):
        atom = max((each for each in atoms if text.startswith(each, at)), key=len, default="")
        out.append(STRUCTURAL + atom if atom else text[at])
        at += len(atom) or 1
    return "".join(out)
