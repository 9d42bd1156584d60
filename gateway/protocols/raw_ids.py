"""Raw text read from its token ids: the text that they are, with the tokens that are markers told apart.

SGLang sends `output_ids` beside the text of every `/generate` answer (reference/sglang.md 3.4). They hold the markers
that it leaves out of the text as special tokens, the token that ended the answer, and the stop string. Must not know
where a frame has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.streams.tokens import Markers, Spell, TokenText, are_ids, spelled

TextAndIds = tuple[str, list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsRead:
    """`markers`: what of the dialect's literals is one token. `spelling`: makes text of the ids of one output.

    `unshown`: tokens that the engine leaves out of the text; markers among them are read all the same. `keeps_end`: the
    token that ends an answer stays in the text.
    """

    markers: Markers
    spelling: Callable[[], Spell]
    unshown: frozenset[int]
    keeps_end: bool


class IdText:
    """The text of one answer: `feed` it the ids in order."""

    __slots__ = ("_read", "_spell", "_text")

    def __init__(self, read: IdsRead) -> None:
        self._read = read
        self._spell = read.spelling()
        self._text = TokenText(read.markers)

    def feed(self, ids: Sequence[int], *, matched: object) -> str:
        """The text of more ids. `matched`: what ended the answer with them, as the engine says: a token, a string."""
        read = self._read
        if ids and type(matched) is int and ids[-1] == matched and not read.keeps_end:
            ids = ids[:-1]
        shown = [each for each in ids if each in read.markers.ids or each not in read.unshown]
        return self._text.feed(spelled(shown, self._spell, read.markers))


def opened(read: IdsRead | None, ids: object) -> IdText | None:
    """What reads an answer whose first event has `ids`; None where they are not read, or are none."""
    return IdText(read) if read and are_ids(ids) else None


def is_cumulative(now: TextAndIds, *, before: TextAndIds, count: object) -> bool | None:
    """Whether an event is all of the answer; None where that would be the same as the next piece of it.

    The tokens tell: they begin with the earlier ones, and are as many as the engine counts (`count`). Text tells where
    there are no tokens.
    """
    (text, ids), (old_text, old_ids) = now, before
    if not old_ids and not old_text:
        return None
    if ids[: len(old_ids)] != old_ids:
        return False
    if ids and len(ids) == count:
        return True  # whatever was trimmed off the text
    return text.startswith(old_text) and len(ids) + len(old_ids) != count
