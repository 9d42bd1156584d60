"""The tool calls of a streamed answer: those of each choice, the frames that wait for them, what they ask of a frame.

Knows when a call is looked at. What is right about one, and how a frame is written, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from gateway.events import CALL
from gateway.exchange.calls import ChoiceCalls
from gateway.exchange.queue import Entry, FrameQueue
from gateway.exchange.reading import ExchangeReading
from gateway.integrity.outlet import Piece
from gateway.integrity.pipeline import Pipeline
from gateway.protocols.protocol import CallChange, Message, Part, Said, WireProtocol


@dataclass(slots=True)
class Asked:
    """What the calls and the endings of its choices ask of one frame: by place, but for `entries`."""

    entries: list[Entry] = field(default_factory=list)
    changes: dict[int, dict[int, CallChange]] = field(default_factory=dict)
    finishes: dict[int, str] = field(default_factory=dict)

    @property
    def edits(self) -> bool:
        """True where the frame is written again."""
        return bool(self.changes or self.finishes)


class StreamCalls:
    """`protocol`: that of the stream. `pipelines`: those of the choices, as they come. `queue`: frames that wait for a
    call. `asked`: what is asked of the frame that is being read, None where nothing is; who writes the frame takes it.
    """

    __slots__ = ("_choices", "_pipelines", "_protocol", "_rules", "asked", "queue")

    def __init__(self, reading: ExchangeReading, protocol: WireProtocol, pipelines: Mapping[int, Pipeline]) -> None:
        self._protocol = protocol
        self._rules = reading.calls
        self._pipelines = pipelines
        self._choices: dict[int, ChoiceCalls] = {}  # those that have calls, or have ended
        self.asked: Asked | None = None
        self.queue = FrameQueue(protocol, cap=reading.limits.tool_region)

    def own(self, part: Part, message: Message) -> list[Piece] | None:
        """The engine's own calls of a part: what goes out before them; None where none goes out."""
        if not part.tools:
            return None
        calls = self._of(part.index)
        fragments = self._protocol.fragments(message, part)
        refused = bool(fragments) and self._rules.refuses
        before = None if refused else self._pipelines[part.index].tool_call()
        calls.others = calls.others or not fragments
        asked = self.asked = self.asked or Asked()
        for fragment in fragments:
            call, number, change = calls.take(fragment)
            if change is not None:
                asked.changes.setdefault(part.place, {})[fragment.place] = change
            if self._rules.holds and not call.over and not message.error:
                asked.entries.append(Entry(part.place, fragment.place, call, number))
        return before

    def past(self, message: Message) -> None:
        """Text of a choice is behind its calls."""
        for part in message.parts:
            text = part.reasoning or part.content
            calls = self._choices.get(part.index) if text and type(part.index) is int else None
            if calls:
                calls.past()

    def settle(self, index: int, *, stopped: bool) -> None:
        """A choice has ended; before its pipeline is finished. `stopped`: by itself."""
        self._of(index).settle(stopped=stopped)

    def ended(self, part: Part) -> None:
        """The finish reason of a part, behind what its choice had to say."""
        word = self.word(part.index, part.finish)
        if word:
            self.asked = self.asked or Asked()
            self.asked.finishes[part.place] = word

    def word(self, index: int, finish: str | None) -> str | None:
        """Another word for a finish reason, or None."""
        return self._of(index).ending(finish)

    def numbered(self, index: int, pieces: list[Piece], like: Message | None) -> list[Said]:
        """The pieces with a number for every call. `like`: a frame of this answer."""
        one = len(pieces) == 1 and pieces[0][0] != CALL  # nearly always, and this is asked for every delta that changes
        if not one and any(channel == CALL for channel, _ in pieces):
            return self._of(index).numbered(pieces, self._protocol.answer_id(like) if like else "")
        return cast("list[Said]", pieces)

    def _of(self, index: int) -> ChoiceCalls:
        known = self._choices.get(index)
        if known is None:
            known = self._choices[index] = ChoiceCalls(self._rules, self._pipelines[index], index, stream=True)
        return known
