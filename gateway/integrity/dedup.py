"""Suppression of an answer that only repeats the reasoning (reader_spec section 5).

Content is held while it continues a prefix of the reasoning; the first difference lets everything go and ends the stage
for good. Each delta is compared once, at a cursor, and the held chunks are kept by reference, so that the work is
linear and what comes back is what came in. Knows no protocol and no marker.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

MAX_REMATCHES: Final = 32  # returns to the reasoning after content has begun; each costs the length of the answer


class Dedup:
    """One choice. `hold`: a repeat may be suppressed, so content is held; otherwise the comparison only counts (D0).

    `trim`: compare modulo white space at both ends. `min_length`: shorter repeats are never suppressed. `cap`:
    characters held, and characters of reasoning kept; past either the stage is off. `counts` receives the counters of
    D13.
    """

    __slots__ = (
        "_cap", "_core", "_cursor", "_held", "_held_size", "_min", "_parts", "_rematches", "_size", "_stale", "_trim",
        "counts", "hold", "on",
    )  # fmt: skip

    def __init__(self, *, hold: bool, trim: bool, min_length: int, cap: int, counts: Counter[str]) -> None:
        self.hold = hold
        self.on = True
        self.counts = counts
        self._trim = trim
        self._min = min_length
        self._cap = cap
        self._parts: list[str] = []
        self._size = 0
        self._core: str | None = None  # the reasoning as it is compared; None until content comes
        self._stale = False  # reasoning came after content was matched
        self._cursor = 0  # characters of the core matched
        self._held: list[str] = []
        self._held_size = 0
        self._rematches = 0

    @property
    def waiting(self) -> bool:
        """True where content is held."""
        return self.hold and bool(self._held)

    def reasoning(self, text: str) -> None:
        """More reasoning was shown to the client."""
        if not self.on or not text:
            return
        self._parts.append(text)
        self._size += len(text)
        if self._size > self._cap:
            self.counts["capped"] += 1
            self._off()  # D7: a cut copy proves nothing. Nothing of it is held unless content has come
        self._stale = self._core is not None

    def content(self, text: str) -> list[str]:
        """More content; returns what may go out now, in order."""
        if not text:
            return []
        if not self.on:
            return [*self.release(), text]
        if self._core is None:
            if not self._parts:
                self._off()  # D6: content before any reasoning
                return [text]
            self._core = self._compared("".join(self._parts))
            self.counts["checked"] += 1
        self._held.append(text)
        self._held_size += len(text)
        if self._held_size > self._cap:
            self.counts["capped"] += 1
            return self._let_go()
        if not (self._rematch() if self._stale else self._match(text)):
            self.counts["diverged"] += 1
            return self._let_go()
        return [] if self.hold else [text]

    def settle(self, *, stopped: bool) -> tuple[list[str], int]:
        """The end of the answer, or a tool call. Returns what goes out, and the characters suppressed."""
        equal = self.on and self._core is not None and self._equal()
        held = self.release()
        if equal and stopped and self.hold:
            self._off()
            self.counts["suppressed"] += 1
            self.counts["chars_suppressed"] += sum(map(len, held))
            return [], sum(map(len, held))
        if held:
            reason = "released_prefix" if not equal else "released_cut"
            self.counts[reason] += 1
        elif equal:
            self.counts["released_unwanted"] += 1
        self._off()
        return held, 0

    @property
    def repeats(self) -> bool:
        """True while the content so far is exactly the reasoning (asked before `settle`)."""
        return self.on and self._core is not None and self._equal()

    def release(self) -> list[str]:
        """What is held goes out; nothing is suppressed (failure path, D5)."""
        if not self.hold:
            return []  # the chunks went out as they came
        held, self._held = self._held, []
        return held

    def off(self) -> None:
        """The stage no longer looks at this answer (D9, D10)."""
        self._off()

    def _off(self) -> None:
        self.on = False
        self._parts.clear()

    def _let_go(self) -> list[str]:
        held = self._held if self.hold else self._held[-1:]
        self._held = []
        self._off()
        return held

    def _compared(self, text: str) -> str:
        return text.strip() if self._trim else text

    def _match(self, text: str) -> bool:
        core = self._core or ""
        if self._trim and self._cursor == 0:
            text = text.lstrip()
        size = min(len(text), len(core) - self._cursor)
        if not core.startswith(text[:size], self._cursor):
            return False
        self._cursor += size
        rest = text[size:]
        return not rest or (self._trim and rest.isspace())

    def _rematch(self) -> bool:
        """Late reasoning: compare all that is held with the longer reasoning, a bounded number of times."""
        self._rematches += 1
        if self._rematches > MAX_REMATCHES:
            return False
        self._core = self._compared("".join(self._parts))
        self._stale = False
        self._cursor = 0
        return self._match("".join(self._held))

    def _equal(self) -> bool:
        if self._stale and not self._rematch():
            return False
        core = self._core or ""
        if not core.strip() or len(core) < self._min:
            return False
        return self._compared("".join(self._held)) == core
