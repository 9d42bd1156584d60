"""A streamed answer of raw text that is split: as any other, and what stands beside the text goes with it.

Knows when the fates of a part's characters are known. What they mean for its frame is the protocol's.
"""

from __future__ import annotations

from gateway.exchange.stream import StreamInspection
from gateway.integrity.outlet import Piece
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.raw import RawPipeline
from gateway.protocols.protocol import Fate, Message, NotThisProtocol, Part, Said
from gateway.protocols.raw_text import RawText


class RawStream(StreamInspection):
    """As `StreamInspection`."""

    def _read(self, message: Message) -> dict[int, list[Said]]:
        theirs = [part.content for part in message.parts]
        for part in message.parts:
            part.content = part.content if part.marked is None else part.marked
        pieces = super()._read(message)
        for part, content in zip(message.parts, theirs, strict=True):
            part.content = content
            if type(part.index) is int:
                part.fates = self._fates(part.index)
        return self._raw.placed(message, pieces)

    def _pipeline(self, part: Part) -> Pipeline | None:
        pipeline = super()._pipeline(part)
        if pipeline is None and self._reading.hidden:  # its text would show the thought
            raise NotThisProtocol("choice index")
        return pipeline

    def _texts(self, index: int, pieces: list[Piece]) -> list[bytes]:
        self._raw.ended(index, self._fates(index) or ())
        return super()._texts(index, pieces)

    @property
    def _raw(self) -> RawText:
        assert isinstance(self._protocol, RawText), "it splits"
        return self._protocol

    def _fates(self, index: int) -> list[Fate] | None:
        pipeline = self._pipelines.get(index)
        return pipeline.take_fates() if isinstance(pipeline, RawPipeline) else None
