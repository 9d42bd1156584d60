"""Two small holds: reasoning while thinking is off, and content before the thought that the route promises.

Both wait for one fact, both have a cap, and both give back exactly what they took.
"""

from __future__ import annotations

from gateway.events import CONTENT, MARKER, Segment
from gateway.streams.regions import RegionReader


class Promotion:
    """Thinking is off and only reasoning comes: it is the answer if nothing else follows (contract rule 4).

    `take` returns what goes out as reasoning now; `release` gives back what is held, to be sent in either channel.
    """

    __slots__ = ("_cap", "_held", "_size", "on")

    def __init__(self, *, cap: int) -> None:
        self.on = True
        self._cap = cap
        self._size = 0
        self._held: list[str] = []

    def take(self, text: str) -> list[str]:
        """Hold reasoning; past the cap all of it goes out as reasoning."""
        self._held.append(text)
        self._size += len(text)
        return self.release() if self._size > self._cap else []

    def release(self) -> list[str]:
        """Everything held, in order; nothing is held after it."""
        self.on = False
        held, self._held = self._held, []
        return held


class UnknownStart:
    """Content before any reasoning, on a route whose thought comes first: is it the thought without its opener?

    `probe` reads it as an open thought. A closer within the cap decides for the thought; the cap or a natural stop for
    content; a length cut for the thought. The decision depends on characters, not on chunks.
    """

    __slots__ = ("_cap", "_probe", "_read", "_segments", "on")

    def __init__(self, probe: RegionReader, *, cap: int) -> None:
        self.on = True
        self._probe = probe
        self._cap = cap
        self._read: list[str] = []  # what was taken, as it came
        self._segments: list[Segment] = []

    def take(self, text: str) -> tuple[list[Segment] | None, str]:
        """`(segments, rest)`: segments of the thought and what follows once a closer came, else None.

        `rest`: text to be read as content from the start, because the cap was passed.
        """
        room = self._cap - sum(map(len, self._read))
        self._read.append(text)
        self._segments += self._probe.feed(text[:room])
        if any(channel == CONTENT for channel, _ in self._segments) or self._closed:
            self.on = False
            return self._segments + self._probe.feed(text[room:]), ""
        return None, self.release() if len(text) > room else ""

    @property
    def reader(self) -> RegionReader:
        """The reader that goes on with the content once the thought was decided."""
        return self._probe

    @property
    def _closed(self) -> bool:
        return any(channel == MARKER for channel, _ in self._segments) and self._probe.state not in ("think", "think_start")

    def release(self) -> str:
        """It is content: what was taken, to be read from the start."""
        self.on = False
        text = "".join(self._read)
        self._read.clear()
        return text

    def settle(self, *, length: bool) -> tuple[list[Segment] | None, str]:
        """The end: a thought cut by length, else content. As `take`."""
        if not length:
            return None, self.release()
        self.on = False
        return self._segments + self._probe.settle(), ""
