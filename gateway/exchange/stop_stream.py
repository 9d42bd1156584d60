"""A streamed answer of which the gateway matches the stop strings: it ends where one has matched in the content.

The engine knows of none of them. The frame in which one matches ends its choice; what the engine says of the choice
afterwards goes nowhere. Once every choice has ended the answer is `over`, and the engine may be left.
"""

from __future__ import annotations

from typing import Final

from gateway.exchange.framing import framed
from gateway.exchange.reading import STOPPED, ExchangeReading
from gateway.exchange.stream import StreamInspection
from gateway.integrity.stop_pipeline import StoppingPipeline
from gateway.protocols.chat_stop import stopped_at, usage_event, usage_of, without_choices, without_usage
from gateway.protocols.protocol import Message, NotThisProtocol, Said
from gateway.streams.sse import Frame

_END: Final = b"data: [DONE]\n\n"


class StopStream(StreamInspection):
    """As `StreamInspection`. `over`: nothing more of the engine's answer is wanted, and the client's has ended."""

    def __init__(self, reading: ExchangeReading, *, report: bool) -> None:
        super().__init__(reading, report=report)
        self._stopped: dict[int, str] = {}
        self._usage: bytes | None = None
        self.over = False

    def data(self, chunk: bytes) -> bytes:
        """As `StreamInspection.data`."""
        return b"" if self.over else super().data(chunk)

    def end(self) -> tuple[bytes, bool]:
        """As `StreamInspection.end`."""
        return (b"", True) if self.over else super().end()

    def _frame(self, frame: Frame) -> bytes:
        if self.over:
            return b""
        wanted = self._wanted(frame)
        out = super()._frame(wanted) if wanted else b""
        if self._stopped and len(self._pipelines) - len(self._open) >= self._reading.asking.choices:
            out += self._last()
        return out

    def _wanted(self, frame: Frame) -> Frame | None:
        """The frame without the choices that have ended, and without usage that the client did not ask for."""
        if frame.data is None or frame.data == self._protocol.done or not (self._stopped or self._reading.asking.usage):
            return frame
        try:
            message = self._protocol.decode_event(frame.data)
        except NotThisProtocol:
            return frame
        data = frame.data
        if self._reading.asking.usage and message.parts and (usage := usage_of(message)):
            self._usage = usage
            data = without_usage(data)
        gone = [part.place for part in message.parts if part.index in self._stopped]
        if gone and len(gone) == len(message.parts):
            return None
        data = without_choices(data, gone) if gone else data
        return frame if data is frame.data else Frame(framed(frame, data), data, frame.event)

    def _read(self, message: Message) -> dict[int, list[Said]]:
        pieces = super()._read(message)
        ended: dict[int, str] = {}
        for part in message.parts:
            pipeline = self._pipelines.get(part.index)
            if isinstance(pipeline, StoppingPipeline) and pipeline.fired is not None:
                ended[part.place] = self._stopped[part.index] = pipeline.fired
                if part.index in self._open:
                    self._open.discard(part.index)
                    more = self._calls.numbered(part.index, pipeline.finish(**STOPPED), message)
                    pieces.setdefault(part.place, []).extend(more)
                part.finish = "stop"
                part.choice |= {"finish_reason": "stop", "stop_reason": pipeline.fired}
        if ended:
            message.data = stopped_at(message.data, ended)
        return pieces

    def _last(self) -> bytes:
        """The end of an answer that the engine has not ended."""
        self.over = True
        usage = b""
        if self._usage_owed and self._usage:
            self._usage_owed = False
            usage = self._protocol.frame(usage_event(self.like, self._usage))
        return usage + self._terminal() + _END
