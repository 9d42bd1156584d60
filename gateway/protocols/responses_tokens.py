"""The tokens (`logprobs`) beside text of a Responses stream, kept until their text goes out.

A token goes with the text that it spells; where that cannot be told, or the text goes elsewhere, it is left out, so
that no thought shows in it. Knows text and spans only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from gateway.streams.jsonscan import Changes, items, member

_AROUND: Final = ("response", "item", "part")  # members with an object in which a text may stand
_LISTS: Final = ("output", "content")  # and those with a list of such
WAITING: Final = 64 * 1024
"""Characters whose tokens wait; beyond it they are left out."""


class Tokens:
    """Tokens of text that has not gone out. `gaps`: nobody tells of text that does not go out, so that what stands
    twice in what came may be of that.
    """

    __slots__ = ("_base", "_gaps", "_spans", "_text")

    def __init__(self, *, gaps: bool) -> None:
        self._gaps = gaps
        self._text = ""
        self._base = 0  # the place of its first character in all the text
        self._spans: deque[tuple[int, int, bytes]] = deque()

    def feed(self, text: str, tokens: Iterable[tuple[str, bytes]]) -> None:
        """More text with its tokens, each with its own text and its JSON."""
        at, end = self._base + len(self._text), 0
        for said, token in tokens:
            if said and text.startswith(said, end):  # what spells nothing that is in the text belongs to no place
                self._spans.append((at + end, at + end + len(said), token))
                end += len(said)
        if self._spans:
            self._text += text
        if len(self._text) > WAITING:
            self.forget()

    def take(self, text: str) -> list[bytes]:
        """The tokens that spell parts of `text`, which goes out; those before it are forgotten."""
        found = self._text.find(text) if text and self._spans else -1
        if found < 0:
            return []
        if self._gaps and self._text.find(text, found + 1) >= 0:
            self.forget()
            return []
        begin = self._base + found
        end = begin + len(text)
        taken: list[bytes] = []
        while self._spans and self._spans[0][0] < end:
            start, stop, token = self._spans.popleft()
            if begin <= start and stop <= end:
                taken.append(token)
        self._base, self._text = end, self._text[found + len(text) :]
        return taken

    def forget(self) -> None:
        """None of it goes out."""
        self._base += len(self._text)
        self._text = ""
        self._spans.clear()


def own_tokens(text: str, tokens: Sequence[tuple[str, bytes]]) -> list[bytes]:
    """Of the tokens of a whole output those that spell `text`, which ends it; none where that cannot be told."""
    ends = list(accumulate(len(said) for said, _ in tokens))
    begin = "".join([said for said, _ in tokens]).rfind(text)
    places = {0, *ends}
    if begin < 0 or begin not in places or begin + len(text) not in places:
        return []
    own = zip(ends, tokens, strict=True)
    return [raw for end, (said, raw) in own if said and begin < end <= begin + len(text)]


def only_own(value: Mapping[str, Any], data: bytes, path: tuple[str | int, ...] = ()) -> Changes:
    """What to change so that beside each whole text of a message stand only tokens that spell it.

    `value`: the object at `path` of `data`: a response, one of its events, an item, a part.
    """
    changes: dict[str | int, bytes | Changes] = {}
    text = value.get("text")
    if isinstance(text, str) and value.get("logprobs"):
        span = member(data, path)
        tokens = spelt(value, data[slice(*span)] if span else b"")
        own = own_tokens(text, tokens)
        if not own or len(own) < len(tokens):
            changes["logprobs"] = b"[%b]" % b",".join(own)
    for name in _AROUND:
        inner = value.get(name)
        if isinstance(inner, dict) and (found := only_own(inner, data, (*path, name))):
            changes[name] = found
    for name in _LISTS:
        listed = value.get(name)
        each = enumerate(listed) if isinstance(listed, list) else ()
        inside = {n: only_own(item, data, (*path, name, n)) for n, item in each if isinstance(item, dict)}
        if any(inside.values()):
            changes[name] = {n: found for n, found in inside.items() if found}
    return changes


def spelt(value: Mapping[str, Any], data: bytes) -> list[tuple[str, bytes]]:
    """The tokens beside the text of an object, each with its own text and its JSON; none where they have another shape.

    `data`: the object as it is written.
    """
    tokens = value.get("logprobs")
    if not tokens or not isinstance(tokens, list) or not all(isinstance(token, dict) for token in tokens):
        return []
    return [(str(token.get("token")), raw) for token, raw in zip(tokens, items(data, ("logprobs",)), strict=True)]
