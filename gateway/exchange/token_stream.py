"""A streamed answer that is read from its tokens: as any other, once the text of the tokens stands in its frames."""

from __future__ import annotations

from gateway.exchange.framing import framed
from gateway.exchange.reading import ExchangeReading
from gateway.exchange.stream import StreamInspection
from gateway.protocols.chat_tokens import ChatTokens
from gateway.protocols.protocol import Message, Said
from gateway.streams.sse import Frame


class TokenStream(StreamInspection):
    """As `StreamInspection`."""

    def __init__(self, reading: ExchangeReading, *, report: bool) -> None:
        super().__init__(reading, report=report)
        assert reading.asking.tokens, "they were asked for"
        self._tokens = ChatTokens(reading.asking.tokens)
        self._split: set[object] = set()  # choices without tokens
        self._told: dict[int, str] = {}  # the text of the tokens of this frame, by place

    def _frame(self, frame: Frame) -> bytes:
        self._told = {}
        if frame.data is not None and frame.data != self._protocol.done:
            data, self._told = self._tokens.event(frame.data)
            if data is not frame.data:
                frame = Frame(framed(frame, data), data, frame.event)
        return super()._frame(frame)

    def _read(self, message: Message) -> dict[int, list[Said]]:
        for part in message.parts:
            part.content = self._told.get(part.place, part.content)
            if part.index in self._tokens.missing - self._split:
                self._split.add(part.index)
                self._pipelines[part.index] = self._reading.split_pipeline()
        pieces = super()._read(message)
        for part in message.parts:
            if part.place in self._told and not (part.content or part.finish):
                pieces.setdefault(part.place, [])  # of a frame that told of tokens only nothing is left
        return pieces
