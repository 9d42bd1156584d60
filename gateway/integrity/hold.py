"""Two small holds: reasoning while thinking is off, and content before the thought that the route promises.

Both wait for one fact, both have a cap, and both give back exactly what they took.
"""

from __future__ import annotations

from typing import Final

from gateway.events import CONTENT, TOOL, Decision, Effect, Group, Segment, ToolText
from gateway.streams.regions import RegionReader

_EXITS: Final = (Group.THINK_CLOSE, Group.ANSWER_OPEN, Group.MESSAGE_CLOSE)  # dropped inside a thought, they end it


class Promotion:
    """Thinking is off and only reasoning comes: it is the answer if nothing else follows (contract rule 4).

    `hold` False: nothing is held, it is only found out whether the answer would have been promoted. `take` returns
    what goes out as reasoning now; `release` gives back what is held, to be sent in either channel. `spoken`: more
    than white space was taken.
    """

    __slots__ = ("_cap", "_held", "_size", "hold", "on", "spoken")

    def __init__(self, *, cap: int, hold: bool) -> None:
        self.hold = hold
        self.on = True
        self.spoken = False
        self._cap = cap
        self._size = 0
        self._held: list[str] = []

    @property
    def waiting(self) -> bool:
        """True where reasoning is held."""
        return bool(self._held)

    def take(self, text: str) -> list[str]:
        """Hold reasoning; past the cap all of it goes out as reasoning."""
        self._held.append(text)
        self._size += len(text)
        self.spoken = self.spoken or not text.isspace()
        if self._size > self._cap:
            return self.release()
        if self.hold:
            return []
        self._held.clear()
        return [text]

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

    __slots__ = ("_cap", "_probe", "_read", "_segments", "_size", "on")

    def __init__(self, probe: RegionReader, *, cap: int) -> None:
        self.on = True
        self._probe = probe
        self._cap = cap
        self._size = 0
        self._read: list[str] = []  # what was taken, as it came
        self._segments: list[Segment] = []

    def take(self, text: str) -> tuple[list[Segment] | None, str]:
        """`(segments, rest)`: segments of the thought and what follows once a closer came, else None.

        `rest`: text to be read as content from the start, because the cap was passed.
        """
        room = self._cap - self._size
        self._size += len(text)
        self._read.append(text)
        new = self._probe.feed(text[:room])
        self._segments += new
        if any(map(_leaves, new)):
            self.on = False
            return self._segments + self._probe.feed(text[room:]), ""
        return None, self.release() if len(text) > room else ""

    @property
    def waiting(self) -> bool:
        """True where something was taken and nothing is decided."""
        return self.on and bool(self._read)

    @property
    def reader(self) -> RegionReader:
        """The reader that goes on with the content once the thought was decided."""
        return self._probe

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


class UnmarkedThought:
    """Content that begins as a thought without its markers does: it is one if the engine's own tool call ends it.

    The same interface as `UnknownStart`; `thought` is what it was, once the call has come.
    """

    __slots__ = ("_cap", "_labels", "_text", "on")

    def __init__(self, labels: tuple[str, ...], *, cap: int) -> None:
        self.on = True
        self._labels = labels
        self._cap = cap
        self._text = ""

    def take(self, text: str) -> tuple[None, str]:
        """Hold content while it may be the thought; the second item is what is to be read as content."""
        self._text += text
        begins = any(self._text.startswith(label) or label.startswith(self._text) for label in self._labels)
        return None, "" if begins and len(self._text) <= self._cap else self.release()

    @property
    def waiting(self) -> bool:
        """True where something was taken and nothing is decided."""
        return self.on and bool(self._text)

    @property
    def thought(self) -> str:
        """The text behind the label; empty where there is none."""
        return next((self._text[len(label) :] for label in self._labels if self._text.startswith(label)), "")

    def release(self) -> str:
        """It is content: what was taken, to be read from the start."""
        self.on = False
        text, self._text = self._text, ""
        return text

    def settle(self, *, length: bool) -> tuple[None, str]:
        """The end, and no call has come: content, however it ended."""
        return None, self.release()


def _leaves(segment: Segment) -> bool:
    """True for a segment that shows that the thought has ended, wherever the text is cut."""
    channel, item = segment
    if isinstance(item, Decision):
        return item.effect is Effect.DROP and item.group in _EXITS
    return channel in (CONTENT, TOOL) or (isinstance(item, ToolText) and not item.thought)
