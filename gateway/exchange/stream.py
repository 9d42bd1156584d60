"""A streamed answer: bytes in, bytes out, one frame at a time; untouched frames keep their bytes.

Joins a protocol (wire shapes) and one pipeline per choice (what to do). Held text always has a place to go: before a
tool call, a finish event, an error, or the end.
"""

from __future__ import annotations

from gateway.errors import EngineFault, EngineTruncated, IntegrityError
from gateway.events import CONTENT, REASONING
from gateway.exchange.reading import ExchangeReading
from gateway.findings import Finding
from gateway.integrity.pipeline import Piece, Pipeline
from gateway.protocols.protocol import Message, NotThisProtocol, Part
from gateway.streams import sse
from gateway.streams.sse import Frame, SSEReader


class StreamInspection:
    """One streamed answer. `data` for every read, then `end` or `broken` once.

    `report`: send the report before the terminal event. `failed_open`: inspection has ended, bytes are relayed.
    """

    def __init__(self, reading: ExchangeReading, *, report: bool) -> None:
        self._reading = reading
        self._protocol = reading.protocol
        self._tally = reading.tally
        self._report = report
        self._sse = SSEReader(max_line=reading.limits.sse_line, max_event=reading.limits.sse_event)
        self._pipelines: dict[int, Pipeline] = {}
        self._open: set[int] = set()  # choices that have begun and not finished
        self._like: Message | None = None  # a chunk of this answer, for the head of chunks of our own
        self._names = reading.names or ("reasoning",)
        self._error_seen = False
        self._done = False
        self.failed_open = False

    # ------------------------------------------------------------------ bytes

    def data(self, chunk: bytes) -> bytes:
        """What goes out for one read of the upstream. Never raises: a fault ends the inspection (contract rule 7)."""
        if self.failed_open:
            return chunk
        try:
            frames = self._sse.feed(chunk)
        except EngineFault as fault:
            return self._fail_open(fault.code.removeprefix("integrity_"), b"") + self._sse.take_pending()
        out: list[bytes] = []
        for place, frame in enumerate(frames):
            try:
                out.append(self._frame(frame))
            except Exception as fault:  # the fence: whatever it is, the answer goes on
                self._reading.note_fault(fault)
                rest = b"".join(frame.raw for frame in frames[place:]) + self._sse.take_pending()
                return b"".join(out) + self._fail_open("internal", rest)
        return out[0] if len(out) == 1 else b"".join(out)

    def end(self) -> tuple[bytes, bool]:
        """The upstream body ended cleanly: last bytes, and whether the answer is complete."""
        if self.failed_open:
            return b"", True
        out = self.data(b"\n\n") if self._sse.pending else b""  # an event whose blank line never came
        if self._done or self._error_seen or (self._pipelines and not self._open):
            return out + (b"" if self._done else self._report_event()), True
        rest, _ = self.broken(EngineTruncated("the engine's stream ended without its terminal event"))
        return out + rest, False

    def broken(self, error: IntegrityError) -> tuple[bytes, bool]:
        """The upstream broke off: what is held goes out, then the error (contract rule 6)."""
        return self._release() + self._sse.take_pending() + self._protocol.error_event(error), False

    # ------------------------------------------------------------------ frames

    def _frame(self, frame: Frame) -> bytes:
        data = frame.data
        if data is None:
            return frame.raw
        if data == self._protocol.done:
            return self._terminal() + frame.raw
        try:
            message = self._protocol.decode_event(data)
        except NotThisProtocol as error:
            self._tally.uninspected[str(error).replace(" ", "_")] += 1
            return frame.raw
        self._tally.events += 1
        if message.error:
            self._error_seen = True
            return self._release() + frame.raw
        if not message.parts:
            return frame.raw
        self._like = message
        pieces = self._read(message)
        if pieces:
            return b"".join([sse.encode(data) for data in self._protocol.rewrite(message, pieces, self._names)])
        return self._renamed(message, frame)

    def _read(self, message: Message) -> dict[int, list[Piece]]:
        """The parts that do not go out as they came, by place."""
        changed: dict[int, list[Piece]] = {}
        for part in message.parts:
            pipeline = self._pipeline(part)
            if pipeline is None:
                continue  # too many choices, or an index that is none: as it came
            reasoning, content = part.reasoning, part.content
            if message.odd:
                reasoning, content = pipeline.join(REASONING, reasoning), pipeline.join(CONTENT, content)
            pieces = pipeline.push(reasoning, content) if reasoning or content else None
            if part.tools or part.finish or message.odd:
                pieces = self._beyond_text(pipeline, part, pieces, reasoning, content)
            if self._reading.hidden and (reasoning or pieces):
                pieces = [p for p in (pieces or came(reasoning, content)) if p[0] != REASONING]
            if pieces is not None:
                changed[part.place] = pieces
        return changed

    def _beyond_text(
        self, pipeline: Pipeline, part: Part, pieces: list[Piece] | None, reasoning: str, content: str
    ) -> list[Piece] | None:
        """A delta that carries more than text: what a tool call or the end of the choice lets go comes before it."""
        more: list[Piece] = []
        if part.tools:
            more += pipeline.tool_call()
        if part.finish:
            self._open.discard(part.index)
            more += pipeline.finish(**self._reading.ending(part))
        if more:
            return [*(came(reasoning, content) if pieces is None else pieces), *more]
        joined_otherwise = (reasoning, content) != (part.reasoning, part.content)
        return came(reasoning, content) if pieces is None and joined_otherwise else pieces

    def _pipeline(self, part: Part) -> Pipeline | None:
        known = self._pipelines.get(part.index)
        if known is not None:
            return known
        if type(part.index) is not int or len(self._pipelines) == self._reading.limits.choices:
            self._tally.uninspected["choice_index"] += 1
            return None
        self._open.add(part.index)
        self._pipelines[part.index] = pipeline = self._reading.pipeline()
        return pipeline

    def _renamed(self, message: Message, frame: Frame) -> bytes:
        names = self._reading.names
        for part in message.parts:
            if part.names:
                if names is None:
                    self._names = part.names
                    return frame.raw
                data = self._protocol.rename(message, names)
                return frame.raw if data is None else b"data: " + data + b"\n\n"
        return frame.raw

    # ------------------------------------------------------------------ endings

    def _terminal(self) -> bytes:
        """Before the terminal event: choices without a finish reason, then the report."""
        self._done = True
        out: list[bytes] = []
        for index in sorted(self._open) if not self._error_seen else ():
            pieces = self._pipelines[index].finish(stopped=False, length=False, promotable=False)
            out += self._texts(index, pieces)
            self._tally.add(Finding.FINISH_REASON_FIXED, "added")
            if self._reading.policy.enforces(Finding.FINISH_REASON_FIXED):
                out.append(self._protocol.finish_event(self._like, index, "stop"))
        self._open.clear()
        return b"".join([sse.encode(data) for data in out]) + self._report_event()

    def _report_event(self) -> bytes:
        return sse.encode(self._protocol.report_event(self._like, self._reading.report())) if self._report else b""

    def _release(self) -> bytes:
        out: list[bytes] = []
        for index in sorted(self._open):
            out += self._texts(index, self._pipelines[index].release())
        return b"".join([sse.encode(data) for data in out])

    def _texts(self, index: int, pieces: list[Piece]) -> list[bytes]:
        shown = [p for p in pieces if not (self._reading.hidden and p[0] == REASONING)]
        return [self._protocol.text_event(self._like, index, channel, text, self._names) for channel, text in shown]

    def _fail_open(self, reason: str, rest: bytes) -> bytes:
        """Stop inspecting: what is held, then everything else as it came; or an error, where the policy says so."""
        self.failed_open = True
        self._tally.uninspected[reason] += 1
        return self._release() + rest


def came(reasoning: str, content: str) -> list[Piece]:
    """A delta as pieces, unchanged."""
    return [piece for piece in ((REASONING, reasoning), (CONTENT, content)) if piece[1]]
