"""What spells a thought out a second time, where the thought does not go out: which of it is taken out of a frame.

Log probabilities and token ids stand beside a text that may be hidden, moved or stripped. What a protocol calls them is
its own; here is only decided beside which text they go out. When in doubt they do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.exchange.reading import ExchangeReading, content_of
from gateway.protocols.protocol import Message, Part, Said, WireProtocol


class Withheld:
    """Of one answer. Asked for every frame of it, in order, where some thought is `secret`."""

    __slots__ = ("_protocol", "_reading", "_taken", "_thinking")

    def __init__(self, reading: ExchangeReading, protocol: WireProtocol) -> None:
        self._reading = reading
        self._protocol = protocol
        self._thinking: dict[int, bool] = {}  # by choice: its last text was a thought, or became one
        self._taken = reading.hidden  # members about the whole answer spell something that does not go out

    def message(self, message: Message, pieces: Mapping[int, Sequence[Said]]) -> Message:
        """The message without what may spell out a thought that it does not show; the same object when nothing does.

        `pieces`: what parts say in stead of their own text, by place; a part without them says what it said.
        """
        places = [part.place for part in message.parts if self._spells(part, pieces.get(part.place))]
        self._taken = self._taken or bool(places)
        message, taken = self._protocol.without_tokens(message, places, whole=self._taken)
        self._reading.tally.withheld.update(taken)
        return message

    def _spells(self, part: Part, pieces: Sequence[Said] | None) -> bool:
        """True where the tokens beside a part may spell out a thought. Tokens without text may be anything.

        Behind a thought they are looked at: the tokens of one step stand beside the end of the thought and beside what
        follows it (SGLang), and an engine that was asked for no reasoning leaves out its text only (vLLM, plain).
        """
        shown = part.content if pieces is None else content_of(pieces)
        changed = shown != part.content
        if not self._reading.hidden:
            return changed
        choice = part.index if type(part.index) is int else part.place
        if part.reasoning or changed:
            self._thinking[choice] = True
            return True
        if self._thinking.get(choice, self._reading.unsent):
            self._thinking[choice] = not (shown or part.tools)
            return not (shown and self._protocol.spells(part, shown))
        return not (shown or part.tools or part.finish)
