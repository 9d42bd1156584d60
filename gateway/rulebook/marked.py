"""A dialect for text that was made of tokens, where each marker that is one token says so (`gateway.streams.tokens`).

Owns which strings of a dialect are literals, and which pieces of them a vocabulary may have as one token.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Final

from gateway.rulebook.dialect import Dialect, Header, Thought, ToolRegion
from gateway.streams.tokens import marked

LONGEST: Final = 64  # characters; no vocabulary has a longer marker as one token
_PIECE: Final = re.compile(r"<[^<>\s]+>|\[[A-Z/_]+\]|[｜◁][^｜▷\s]+[｜▷]")  # what looks like a token inside a literal
_LISTS: Final = (
    "answer_open", "answer_close", "message_close", "framing", "end_of_turn", "special", "dangling",
)  # fmt: skip

_Mark = Callable[[str], str]


@lru_cache(maxsize=512)
def atoms_of(dialect: Dialect) -> tuple[str, ...]:
    """What of the dialect's literals may be one token: the literals themselves, and tags inside them.

    Nothing of a dialect whose tags a checkpoint may suffix: which suffix is not to be known.
    """
    if dialect.suffixed:
        return ()
    pieces = (text for literal in _literals(dialect) for text in (literal.strip(), *_PIECE.findall(literal)))
    return tuple(dict.fromkeys(filter(_may_be_a_token, pieces)))


def mark(dialect: Dialect, atoms: Collection[str]) -> Dialect:
    """The dialect whose literals are as they come where each of `atoms` is a token of its own.

    What the engine's parser writes itself (`invented`) does not come at all.
    """
    return _changed(dialect, lambda text: marked(text, atoms))


def _may_be_a_token(text: str) -> bool:
    """False for words and beginnings of tags, which a vocabulary has for other reasons, or never."""
    ends = (text[:1], text[-1:])
    worded = any(each.isalnum() or each in "=\"'" for each in ends)
    return 1 < len(text) <= LONGEST and not worded and not any(map(str.isspace, text))


def _literals(dialect: Dialect) -> Iterator[str]:
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _changed(dialect, note)
    yield from found


def _changed(dialect: Dialect, change: _Mark) -> Dialect:
    """The dialect with `change` made in every literal, and in nothing else."""

    def all_of(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(change, texts))

    def header(each: Header) -> Header:
        parts: dict[str, Any] = {name: all_of(getattr(each, name)) for name in ("open", "within", "first")}
        return replace(each, close=change(each.close), **parts)

    def region(each: ToolRegion) -> ToolRegion:
        parts: dict[str, Any] = {name: all_of(getattr(each, name)) for name in ("open", "close", "between", "ended_by")}
        return replace(each, bodies=tuple(_body(body, change) for body in each.bodies), **parts)

    lists: dict[str, Any] = {name: all_of(getattr(dialect, name)) for name in _LISTS}
    return replace(
        dialect,
        **lists,
        thoughts=tuple(Thought(open=all_of(each.open), close=all_of(each.close)) for each in dialect.thoughts),
        headers=tuple(map(header, dialect.headers)),
        regions=tuple(map(region, dialect.regions)),
        invented=(),
    )


def _body(value: Any, change: _Mark) -> Any:
    """A body, or a part of one, with its strings changed. Not through `replace`: two bodies name their fields otherwise
    than their arguments. Expressions stay: they say what a name or an attribute is.
    """
    if isinstance(value, str):
        return value if "(?" in value else change(value)
    if isinstance(value, tuple):
        return tuple(_body(each, change) for each in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = copy.copy(value)
    for each in fields(value):
        object.__setattr__(changed, each.name, _body(getattr(value, each.name), change))
    return changed
