"""Frames of a protocol with structure around its text: each is written by what went out before it, once it goes out.

Joins the codec of one stream and the queue of frames that wait for a call. Knows when, never how, a frame is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gateway.exchange.framing import framed
from gateway.exchange.queue import FrameQueue
from gateway.exchange.stream_calls import Asked
from gateway.protocols.protocol import CallChange, CallChanges, Framed, Message, Said
from gateway.streams.sse import Frame

Pieces = Mapping[int, Sequence[Said]]


class StructuredFrames:
    """`report`: makes the report, None where none is sent."""

    __slots__ = ("_codec", "_queue", "_report")

    def __init__(self, codec: Framed, queue: FrameQueue, *, report: Callable[[], object] | None) -> None:
        self._codec = codec
        self._queue = queue
        self._report = report

    def send(self, message: Message, frame: Frame, pieces: Pieces, asked: Asked, names: tuple[str, ...]) -> bytes:
        """What goes out now. `pieces`, by place: what parts say in stead of their own text; none: it stays."""
        message.raw = frame.raw
        if not (pieces or asked.entries or asked.changes or asked.finishes or self._queue.held or self._report):
            return self._relayed(message, frame)  # nearly every frame
        said = b""
        if asked.entries and any(pieces.values()):  # what is said before a call does not wait for it
            before, pieces = pieces, dict.fromkeys(pieces, ())
            said = self._put(frame, asked=None, write=lambda _: self._said(message, before, names))

        def write(late: CallChanges) -> bytes:
            return self._written(message, frame, pieces, asked, _merged(asked.changes, late), names)

        return said + self._put(frame, asked=asked, write=write)

    def _relayed(self, message: Message, frame: Frame) -> bytes:
        data = self._codec.relay(message)
        kept = self._codec.kept()
        if data is None:
            return kept + frame.raw
        return kept + framed(frame, data) if data else kept

    def _put(self, frame: Frame, *, asked: Asked | None, write: Callable[[CallChanges], bytes]) -> bytes:
        entries = tuple(asked.entries) if asked else ()
        if entries or self._queue.held:
            return self._queue.put(frame.raw, entries, write)
        return write({})

    def _said(self, message: Message, pieces: Pieces, names: tuple[str, ...]) -> bytes:
        codec, out = self._codec, b""
        for place, each in pieces.items():
            index = message.parts[place].index
            for channel, said in each:
                if isinstance(said, str):
                    events = [codec.text_event(message, index, channel, said, names)]
                else:
                    events = codec.call_events(message, index, said)
                out += codec.kept() + b"".join([codec.frame(data) for data in events])
        return out

    def _written(
        self,
        message: Message,
        frame: Frame,
        pieces: Pieces,
        asked: Asked,
        changes: CallChanges,
        names: tuple[str, ...],
    ) -> bytes:
        codec = self._codec
        own: list[bytes] = []
        data: bytes | None
        if pieces or asked.finishes or changes:
            own, data = codec.written(message, pieces, names, asked.finishes, changes)
        else:
            data = codec.relay(message)
            data = message.data if data is None else data or None
        if self._report and message.takes_report:
            if data is not None:
                data = codec.add_report(data, self._report())
            else:  # an event of another kind has taken its place
                own[-1:] = [codec.add_report(each, self._report()) for each in own[-1:]]
        before = codec.kept() + b"".join([codec.frame(each) for each in own])
        if data is None:
            return before
        return before + (frame.raw if data is message.data else framed(frame, data))


def _merged(early: CallChanges, late: CallChanges) -> CallChanges:
    """Both changes of every entry; the later one counts."""
    if not early or not late:
        return early or late
    out: dict[int, dict[int, CallChange]] = {place: dict(changes) for place, changes in early.items()}
    for place, changes in late.items():
        out.setdefault(place, {}).update(changes)
    return out
