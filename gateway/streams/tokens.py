"""Text from tokens, with the tokens that are markers told apart from text that only spells one.

A marker is structure where the model gave its own token, and text where ordinary tokens spell it (reference/vllm.md 5).
The reader reads text, so a token that is a marker is written with `STRUCTURAL` before it, and a grammar that is
compiled for such text has that character in its literals (`gateway.rulebook.compile`). A lone surrogate: no text that
was decoded from UTF-8 can hold it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

STRUCTURAL: Final = "\udfff"
_ESCAPED: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\udfff")

Run = tuple[int, ...]
"""Ids of one output that are made text together. A tokenizer drops the space before the first word of a text: where a
marker stands before it, the marker belongs to the run."""
Spell = Callable[[int], str]
"""The text that the ids of one output have come to since the last one: a character comes with its last id."""


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token. `ident`: its id, None where the engine does not tell. `data`: its bytes; a character may be
    cut between two tokens.
    """

    ident: int | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Markers:
    """What of a dialect's literals a vocabulary has as one token. `texts`: those; `ids`: the text of each id."""

    texts: frozenset[str] = frozenset()
    ids: Mapping[int, str] = field(default_factory=dict, hash=False)

    def has(self, token: Token) -> bool:
        """True for a token that is a marker: by its id, or where there is none by its text."""
        if token.ident is not None:
            return token.ident in self.ids
        return token.data.decode(errors="replace") in self.texts


UNLEARNED: Final = Markers()


def are_ids(value: Any) -> TypeGuard[list[int]]:
    """True for a list of token ids."""
    return isinstance(value, list) and all(type(each) is int for each in value)


def spelled(ids: Iterable[int], spell: Spell, markers: Markers) -> Iterator[Token]:
    """Tokens of which only the ids are known."""
    for ident in ids:
        text, marker = spell(ident), markers.ids.get(ident)
        if marker is not None and text.endswith(marker):  # what stands before it is left of a broken character
            yield Token(None, text.removesuffix(marker).encode())
            yield Token(ident, marker.encode())
        else:
            yield Token(ident if marker is None else None, text.encode())


def runs_of(ids: Sequence[int], markers: Markers) -> list[Run]:
    """The ids in runs that begin with a marker each, but for the first: a text whose head may depend on what stands
    before it (`Run`)."""
    runs: list[list[int]] = []
    for ident in ids:
        if not runs or ident in markers.ids:
            runs.append([])
        runs[-1].append(ident)
    return [tuple(run) for run in runs]


def told(ids: Sequence[int], texts: Mapping[Run, str], markers: Markers) -> list[Token]:
    """Tokens of which only the ids are known, of an output whose runs are spelled; empty where one is not."""
    tokens: list[Token] = []
    for run in runs_of(ids, markers):
        marker = markers.ids.get(run[0], "")
        text = marker if run[1:] == () and marker else texts.get(run)
        if text is None or not text.startswith(marker):
            return []
        tokens += [Token(run[0], marker.encode())] if marker else []
        # With an id: text that spells a marker is none.
        tokens += [Token(run[-1], text.removeprefix(marker).encode("utf-8", "replace"))] if text != marker else []
    return tokens


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


def plain_json(text: str) -> str:
    """As `plain`, of JSON in whose strings it may be escaped."""
    text = plain(text)
    return _ESCAPED.sub(r"\1", text) if "udfff" in text else text


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
