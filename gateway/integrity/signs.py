"""Signs that something is wrong with the text itself: counted at the end of an answer, never acted on.

A `Trail` notes the text of one channel as the client gets it; noting costs one append, and what is kept is bounded.
`Growth` looks at the deltas as the engine sent them.
Knows no field and no protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gateway.events import CONTENT, REASONING
from gateway.findings import Finding
from gateway.rulebook.openings import LOOK, Opening

FOLD_EVERY: Final = 1024  # characters noted after which the trails are folded
REPEATS: Final = 8  # times that a period stands at the end of a cut text before it is endless
CUMULATIVE: Final = 3  # deltas that each begin with all before them
_REPLACEMENT: Final = "\ufffd"

Sign = tuple[Finding, str, str | None]  # finding, channel, rule


class Trail:
    """One channel of one answer. `pieces` takes its text; `fold` empties it and brings the rest up to date.

    `head`: its beginning without white space. `tail`: its last `cap` characters. `replaced`: U+FFFD stood in it.
    """

    __slots__ = ("_cap", "head", "pieces", "replaced", "tail")

    def __init__(self, cap: int) -> None:
        self.pieces: list[str] = []
        self.head = ""
        self.tail = ""
        self.replaced = False
        self._cap = cap

    def fold(self) -> None:
        """Bring everything up to date with the pieces noted so far."""
        if not self.pieces:
            return
        text = "".join(self.pieces)
        self.pieces.clear()
        self.replaced = self.replaced or _REPLACEMENT in text
        if len(self.head) < LOOK:
            self.head = (self.head + text).lstrip()[:LOOK]
        self.tail = (self.tail + text)[-self._cap :]

    @property
    def repeats(self) -> bool:
        """True when the text ends in the same few words or lines over and over: at least `cap` characters of them.

        A text of one repeated character is a ruler or a blank, not a loop.
        """
        size = len(self.tail)
        if size < self._cap or self.tail == self.tail[0] * size:
            return False
        return any(self.tail.startswith(self.tail[period:]) for period in range(2, size // REPEATS + 1))


class Growth:
    """Whether the engine's deltas each begin with all before them: the text of an engine that sends it cumulative."""

    __slots__ = ("_count", "_last")

    def __init__(self) -> None:
        self._count = 0
        self._last = ""

    def take(self, delta: str) -> bool:
        """The next delta, never empty; False once one did not, and then nothing has to be asked again."""
        if len(delta) <= len(self._last) or not delta.startswith(self._last):
            return False
        self._last = delta
        self._count += 1
        return True

    @property
    def cumulative(self) -> bool:
        """True when it may not be chance. Blanks that grow are only blanks."""
        return self._count >= CUMULATIVE and not self._last.isspace()


def signs_of(
    reasoning: Trail,
    content: Trail,
    *,
    cut: bool,
    looped: bool,
    bounded: bool,
    cumulative: bool,
    openings: Iterable[Opening],
) -> Iterator[Sign]:
    """What an answer that has ended shows.

    `cut`: by the token limit. `looped`: the engine says that it repeated itself. `bounded`: a thought's marker was
    seen. `cumulative`: `Growth.cumulative` of the deltas of content. `openings`: those that are looked for.
    """
    reasoning.fold()
    content.fold()
    for channel, trail in ((REASONING, reasoning), (CONTENT, content)):
        if trail.replaced:
            yield Finding.UNICODE_REPLACEMENT, channel, None
    last, channel = (content, CONTENT) if content.head else (reasoning, REASONING)
    if looped or (cut and last.repeats):
        yield Finding.DEGENERATE, channel, None
    if cumulative:
        yield Finding.DUPLICATE_SUSPECT, CONTENT, "cumulative"
    for opening in openings:
        thinks = opening.finding is Finding.SUSPECT_REASONING
        if not (thinks and (bounded or reasoning.head)) and opening.begins(content.head):
            yield opening.finding, CONTENT, opening.name
