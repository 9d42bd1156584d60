"""A streamed answer that is only observed: the engine's own bytes, and the same inspection beside them.

The one thing it may add is the report, where the client asked for it: then the bytes go out frame by frame, so that the
report has a place before the terminal event, or in the one that takes it.
"""

from __future__ import annotations

from gateway.errors import EngineFault, IntegrityError
from gateway.exchange.framing import framed
from gateway.exchange.reading import ExchangeReading
from gateway.exchange.stream import StreamInspection
from gateway.protocols.protocol import NotThisProtocol
from gateway.streams.sse import Frame, SSEReader


class ObservedStream:
    """The same calls as `StreamInspection`. `report`: send the report before the terminal event, or at a clean end."""

    def __init__(self, reading: ExchangeReading, *, report: bool) -> None:
        limits = reading.limits
        self._reading = reading
        self._inspection = StreamInspection(reading, report=False)
        self._protocol = reading.protocol.stream(rewrites=False)
        self._sse = SSEReader(max_line=limits.sse_line, max_event=limits.sse_event) if report else None

    def data(self, chunk: bytes) -> bytes:
        """The bytes that came; while a report is to be sent, those of whole frames."""
        self._inspection.data(chunk)
        if self._sse is None:
            return chunk
        try:
            frames = self._sse.feed(chunk)
        except EngineFault:  # the inspection has the same caps, and counts it
            return self._rest(self._sse)
        raw = [frame.raw for frame in frames]
        for place, frame in enumerate(frames):
            reported = self._reported(frame)
            if reported is not None:
                return b"".join([*raw[:place], reported, *raw[place + 1 :], self._rest(self._sse)])
        return b"".join(raw)

    def end(self) -> tuple[bytes, bool]:
        """The upstream body ended cleanly: what is left of its bytes. It ends as the engine ended it."""
        self._inspection.end()
        if self._sse is None:
            return b"", True
        return self._rest(self._sse) or self._report(), True

    def broken(self, error: IntegrityError) -> tuple[bytes, bool]:
        """The upstream broke off, and so does this."""
        self._inspection.broken(error)
        return self._rest(self._sse) if self._sse else b"", False

    def _rest(self, reader: SSEReader) -> bytes:
        """The bytes that belong to no whole frame; from here on every byte goes out as it comes."""
        self._sse = None
        return reader.take_pending()

    def _reported(self, frame: Frame) -> bytes | None:
        """A frame with the report before it, or in it; None where it does not belong."""
        protocol = self._protocol
        if frame.data == protocol.done:
            return self._report() + frame.raw
        if not protocol.framed or frame.data is None:
            return None
        try:
            message = protocol.decode_event(frame.data)
        except NotThisProtocol:
            return None
        if not message.takes_report:
            return None
        return framed(frame, protocol.add_report(message.data, self._reading.report()))

    def _report(self) -> bytes:
        protocol = self._inspection.protocol
        return protocol.frame(protocol.report_event(self._inspection.like, self._reading.report()))
