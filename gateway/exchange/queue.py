"""Frames of a stream that wait for a tool call to be whole, and everything behind them (contract rule 8).

Owns the order and the bytes of what waits, and its cap. What a call becomes is decided elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from gateway.exchange.framing import framed
from gateway.exchange.own_call import OwnCall
from gateway.protocols.protocol import CallChange, CallChanges, WireProtocol
from gateway.streams.sse import Frame, SSEReader

FRAME: Final = 64
"""Bytes that frames may take for each character of a call: those of vLLM are 250 with the four of a token in them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Fragment `number` of a call, and where it stands in its frame: the part's place and the entry's."""

    part: int
    place: int
    call: OwnCall
    number: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """One frame, or several of our own: `raw` is how it goes out if its calls stay as they are.

    `write`: of a protocol with structure, what makes the frame of the changes of its calls, once it goes out; then only
    the size of `raw` counts.
    """

    raw: bytes
    entries: tuple[Entry, ...]
    write: Callable[[CallChanges], bytes] | None = None

    @property
    def ready(self) -> bool:
        return not any(entry.call.waits(entry.number) for entry in self.entries)


class FrameQueue:
    """`held`: what waits, in order; always the same object. `cap`: characters of a call."""

    __slots__ = ("_cap", "_protocol", "_size", "held")

    def __init__(self, protocol: WireProtocol, *, cap: int) -> None:
        self._protocol = protocol
        self._cap = cap * FRAME
        self.held: deque[Waiting] = deque()
        self._size = 0

    def put(
        self, raw: bytes, entries: tuple[Entry, ...] = (), write: Callable[[CallChanges], bytes] | None = None
    ) -> bytes:
        """A frame goes behind what waits; returns what may go out now: past the cap all of it, as it came."""
        self.held.append(Waiting(raw, entries, write))
        self._size += len(raw)
        return self.ready() if self._size <= self._cap else self.ready() + self.release()

    def ready(self) -> bytes:
        """What waits no more."""
        ready = list(takewhile(lambda each: each.ready, self.held))
        out = b"".join([self._written(each) for each in ready])
        for each in ready:
            self.held.popleft()
            self._size -= len(each.raw)
        return out

    def release(self, *, read: bool = True) -> bytes:
        """All of it, as it came; its calls are not looked at any more. `read` False: because the writing has failed."""
        out = b"".join([each.write({}) if each.write and read else each.raw for each in self.held])
        for each in self.held:
            for entry in each.entries:
                entry.call.give_up()
        self.held.clear()
        self._size = 0
        return out

    def _written(self, waiting: Waiting) -> bytes:
        """A frame with its calls as they are to be."""
        changes: dict[int, dict[int, CallChange]] = {}
        for entry in waiting.entries:
            change = entry.call.change(entry.number)
            if change is not None:
                changes.setdefault(entry.part, {})[entry.place] = change
        if waiting.write:
            return waiting.write(changes)
        if not changes:
            return waiting.raw
        frame = _frame(waiting.raw)
        data = self._protocol.change_calls(self._protocol.decode_event(frame.data or b""), changes)
        return b"" if data is None else framed(frame, data)


def _frame(raw: bytes) -> Frame:
    """The frame that was read from these bytes before."""
    [frame] = SSEReader(max_line=len(raw), max_event=len(raw)).feed(raw)
    return frame
