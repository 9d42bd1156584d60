"""The arrays beside raw text (log probabilities, token ids): cut in tokens, kept in step with the text.

What is taken out of the text takes its tokens with it, so that no thought shows in them (contract section 5, issue of
the protocols). A token goes out with the first of its characters that is text. Several tokens whose characters cannot
be told apart go out once all of those are decided on, and only if all are text.

Knows counts and columns. Must not know fields, protocols or markers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.protocols.protocol import Fate

Column = tuple[str, ...]
"""Where an array stands: member names from the choice on."""


class Columns:
    """The arrays beside the text of one event. `counts`: how long each is. `read`: the items of one, as they are
    written: asked for only where a token leaves the frame it came in, or its frame is made anew.
    """

    __slots__ = ("_items", "_read", "counts")

    def __init__(self, counts: Mapping[Column, int], read: Callable[[Column], list[bytes]]) -> None:
        self.counts = counts
        self._read = read
        self._items: dict[Column, list[bytes]] = {}

    def items(self, column: Column) -> list[bytes]:
        """The items of one column."""
        known = self._items.get(column)
        if known is None:
            known = self._items[column] = self._read(column)
        return known


@dataclass(slots=True, eq=False)
class Token:
    """So many characters of the text, and what stands beside them: one item of each column, the one at `place`, or
    all, where it is not told which belongs to what.

    `offsets`: the place of each in the text as the engine told it; `at`: the place in the answer's text, known once it
    is decided that the token stays. `left`: characters that are not decided on, `whole`: all others are text.
    """

    size: int
    columns: Columns | None = None
    place: int | None = None
    offsets: Sequence[int] = ()
    at: int = -1
    left: int = field(init=False)
    whole: bool = True

    def __post_init__(self) -> None:
        self.left = self.size

    @property
    def single(self) -> bool:
        """True where it is one token, or none."""
        return self.columns is None or self.place is not None or all(n <= 1 for n in self.columns.counts.values())

    @property
    def items(self) -> dict[Column, list[bytes]]:
        """What stands beside it, as it is written."""
        if self.columns is None:
            return {}
        chosen = slice(None) if self.place is None else slice(self.place, self.place + 1)
        return {column: self.columns.items(column)[chosen] for column in self.columns.counts}


def cut(
    text: str, columns: Columns | None, *, spelled: Sequence[object] = (), offsets: Sequence[int] = ()
) -> list[Token]:
    """The tokens of `text`. `spelled`: how the engine writes each, if it does; `offsets`: as it told them."""
    if columns is None:
        return [Token(len(text))] if text else []
    count = len(spelled)
    same = all(each == count for each in columns.counts.values())
    sizes = _sizes(text, spelled) if count and same else None
    if sizes is None:
        return [Token(len(text), columns, None, offsets)]
    return [Token(size, columns, place, offsets[place : place + 1]) for place, size in enumerate(sizes)]


def _sizes(text: str, spelled: Iterable[object]) -> list[int] | None:
    """How many characters each token has in the text: none for one that is not shown. None where they do not fit."""
    sizes: list[int] = []
    at = 0
    for token in spelled:
        shown = isinstance(token, str) and text.startswith(token, at)
        sizes.append(len(str(token)) if shown else 0)
        at += sizes[-1]
    return sizes if at == len(text) else None


class Beside:
    """The tokens of one choice. `length`: characters of the answer's text so far. `lost`: some token was taken out.

    `blind`: characters do not count here as they did in the engine: every token goes.
    """

    __slots__ = ("_base", "_stays", "_waiting", "blind", "length", "lost")

    def __init__(self) -> None:
        self._waiting: deque[Token] = deque()
        self._stays = True  # the last character was text
        self._base: int | None = None  # where the engine begins to count
        self.length = 0
        self.lost = False
        self.blind = False

    @property
    def waiting(self) -> bool:
        """True where tokens are not decided on."""
        return bool(self._waiting)

    def decide(self, tokens: Iterable[Token], fates: Iterable[Fate], *, final: bool) -> list[Token]:
        """Those that stay, of `tokens` and the ones before them, as far as `fates` says. `final`: nothing follows."""
        self._waiting.extend(tokens)
        if self._base is None:
            self._base = next((token.offsets[0] for token in self._waiting if token.offsets), None)
        kept: list[Token] = []
        for count, stays in fates:
            self._take(count, stays, kept)
        while self._waiting and (final or not self._waiting[0].left):
            self._settle(self._waiting.popleft(), kept)
        return kept

    def places(self, tokens: Iterable[Token]) -> list[int]:
        """Their places in the text of the answer, counted from where the engine began."""
        moved = ((token, (self._base or 0) + token.at - token.offsets[0]) for token in tokens if token.offsets)
        return [offset + by for token, by in moved for offset in token.offsets]

    def _take(self, count: int, stays: bool, kept: list[Token]) -> None:
        while count and self._waiting:
            token = self._waiting[0]
            if not token.left:
                self._settle(self._waiting.popleft(), kept)
                continue
            taken = min(count, token.left)
            token.left -= taken
            count -= taken
            self._stays = stays
            if not stays:
                token.whole = False
            else:
                self._show(token, kept)
                self.length += taken
            if not token.left:
                self._settle(self._waiting.popleft(), kept)

    def _show(self, token: Token, kept: list[Token]) -> None:
        """Text of a token goes out."""
        if token.at < 0:
            token.at = self.length
            if token.single and not self.blind:
                kept.append(token)

    def _settle(self, token: Token, kept: list[Token]) -> None:
        """All of a token is decided on; one without characters goes with the text before it."""
        if not token.size and self._stays:
            self._show(token, kept)
        stays = token.at >= 0 and not self.blind
        if stays and not token.single and token.whole:
            kept.append(token)
        elif not stays or not token.single:
            self.lost = True
