"""A streamed answer: bytes in, bytes out, one frame at a time; untouched frames keep their bytes.

Joins a protocol (wire shapes) and one pipeline per choice (what to do). Held text always has a place to go: before a
tool call, a finish event, an error, or the end.
"""

from __future__ import annotations

from typing import Final

from gateway.errors import EngineFault, EngineTruncated, IntegrityError
from gateway.events import REASONING
from gateway.exchange.reading import ExchangeReading, came, reason_of
from gateway.findings import Finding
from gateway.integrity.pipeline import Piece, Pipeline
from gateway.protocols.protocol import Message, NotThisProtocol, Part
from gateway.streams import sse
from gateway.streams.sse import Frame, SSEReader

_NO_DATA: Final = (b":", b"\n", b"\r", b"event:", b"id:", b"retry:")  # how a frame without data may start


class StreamInspection:
    """One streamed answer. `data` for every read, then `end` or `broken` once.

    `report`: send the report before the terminal event. `failed_open`: inspection has ended; bytes are relayed, or
    dropped where an error of ours has ended the answer.
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
        self._names_vary = not reading.names  # hidden, or as the engine names it
        self._strange = False  # something came that is no event of this protocol
        self._error_seen = False
        self._done = False
        self._ending = False  # the upstream has ended: what is left is all there is
        self._cut = False  # an error of ours has ended the answer
        self.failed_open = False

    # ------------------------------------------------------------------ bytes

    def data(self, chunk: bytes) -> bytes:
        """What goes out for one read of the upstream. Never raises: a fault ends the inspection (contract rule 7)."""
        if self.failed_open:
            return b"" if self._cut else chunk
        try:
            frames = self._sse.feed(chunk)
        except EngineFault as fault:
            return self._fail(fault, self._sse.take_pending())
        out: list[bytes] = []
        for place, frame in enumerate(frames):
            try:
                out.append(self._frame(frame))
            except Exception as fault:  # the fence: whatever it is, the answer goes on
                rest = b"".join([left.raw for left in frames[place:]]) + self._sse.take_pending()
                return b"".join(out) + self._fail(fault, rest)
        return out[0] if len(out) == 1 else b"".join(out)

    def end(self) -> tuple[bytes, bool]:
        """The upstream body ended cleanly: last bytes, and whether the answer is complete."""
        out = self._unfinished()
        nothing_read = self._strange and not self._tally.events and not self._done
        if self.failed_open or nothing_read:  # nothing is known of how this answer ends
            return out, not self._cut
        if self._done or self._error_seen or (self._pipelines and not self._open):
            return out + self._release() + (b"" if self._done else self._report_event()), True
        rest, _ = self.broken(EngineTruncated("the engine's stream ended without its terminal event"))
        return out + rest, False

    def broken(self, error: IntegrityError) -> tuple[bytes, bool]:
        """The upstream broke off: what is held goes out, then the error (contract rule 6)."""
        out = self._unfinished()
        if self._cut:
            return out, False
        gap = b"\n\n" if self.failed_open or self._strange else b""  # what was relayed may end anywhere
        return out + self._release() + gap + self._protocol.error_event(error), False

    # ------------------------------------------------------------------ frames

    def _frame(self, frame: Frame) -> bytes:
        data = frame.data
        if data is None:
            known = frame.raw.startswith(_NO_DATA)
            return frame.raw if known else self._unread(NotThisProtocol("no event"), frame.raw)
        if data == self._protocol.done:
            return self._terminal() + frame.raw
        try:
            message = self._protocol.decode_event(data)
        except NotThisProtocol as fault:
            return b"" if self._ending else self._unread(fault, frame.raw)
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

    def _unread(self, fault: NotThisProtocol, raw: bytes) -> bytes:
        """Bytes that are no event of this protocol go on as they came. Raises `fault` where bytes may not go unread."""
        if not self._reading.may_pass(internal=False):
            raise fault
        self._strange = True
        self._tally.uninspected[reason_of(fault)] += 1
        return raw

    def _unfinished(self) -> bytes:
        """What came after the last whole frame, at the end.

        An event that only lacks its blank line is read. Half an event is none (WHATWG HTML 9.2.6) and is left out, so
        that an error can follow. Anything else goes on as it came.
        """
        pending = self._sse.pending
        self._ending = True
        if not pending:
            return b""
        if b"data:" in pending or pending.startswith(_NO_DATA):
            return self.data(b"\n\n")
        try:
            return self._unread(NotThisProtocol("no event"), self._sse.take_pending())
        except NotThisProtocol as fault:
            return self._fail(fault, b"")

    def _read(self, message: Message) -> dict[int, list[Piece]]:
        """The parts that do not go out as they came, by place."""
        changed: dict[int, list[Piece]] = {}
        for part in message.parts:
            pipeline = self._pipeline(part)
            pieces: list[Piece] | None = None
            if pipeline is None:  # too many choices, or an index that is none: as it came
                pass
            elif part.tools or part.finish or part.refusal or message.odd or pipeline.joins:
                pieces = self._beyond_text(pipeline, part, odd=message.odd or pipeline.joins)
            elif part.reasoning or part.content:
                pieces = pipeline.push(part.reasoning, part.content)
            if self._names_vary:
                pieces = self._named(part, pieces)
            if pieces is not None:
                changed[part.place] = pieces
        if changed and len(message.parts) > 1 and not self._names_vary:
            for part in message.parts:
                if part.names:  # in a frame that is written again every part is written with our names
                    changed.setdefault(part.place, came(part.reasoning, part.content))
        return changed

    def _beyond_text(self, pipeline: Pipeline, part: Part, *, odd: bool) -> list[Piece] | None:
        """A delta that is more than plain text: what a call, a refusal or the choice's end lets go comes before it."""
        reasoning, content = pipeline.join(part.reasoning, part.content) if odd else (part.reasoning, part.content)
        pieces = pipeline.push(reasoning, content) if reasoning or content else None
        more: list[Piece] = []
        apart = part.tools and bool(part.reasoning)
        if part.refusal:
            more += pipeline.refusal()
        if part.tools:
            more += pipeline.tool_call()
        if apart:
            self._tally.add(Finding.MIXED_CHUNK_SPLIT, "split")
            apart = self._reading.policy.enforces(Finding.MIXED_CHUNK_SPLIT)
        if part.finish and part.index in self._open:
            self._open.discard(part.index)
            more += pipeline.finish(**self._reading.ending(part))
        if not more and not apart and (reasoning, content) == (part.reasoning, part.content):
            return pieces
        return [*(came(reasoning, content) if pieces is None else pieces), *more]

    def _named(self, part: Part, pieces: list[Piece] | None) -> list[Piece] | None:
        """The pieces of a part where the reasoning is hidden, or goes out under the engine's own name."""
        if not self._reading.hidden:
            self._names = part.names or self._names
            return pieces
        if pieces is None and not part.reasoning:
            return None
        kept = came(part.reasoning, part.content) if pieces is None else pieces
        return [piece for piece in kept if piece[0] != REASONING]

    def _pipeline(self, part: Part) -> Pipeline | None:
        index = part.index
        if type(index) is int:
            known = self._pipelines.get(index)
            if known is not None:
                return known
            if len(self._pipelines) < self._reading.limits.choices:
                self._open.add(index)
                self._pipelines[index] = pipeline = self._reading.pipeline()
                return pipeline
        self._tally.uninspected["choice_index"] += 1
        return None

    def _renamed(self, message: Message, frame: Frame) -> bytes:
        names = self._reading.names
        for part in message.parts:
            if part.names and names is not None:
                data = self._protocol.rename(message, names)
                if data is None:
                    return frame.raw
                return b"data: " + data + b"\n\n" if b"\n" not in data else sse.encode(data)
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
        return b"".join([sse.encode(data) for data in out]) + self._release() + self._report_event()

    def _report_event(self) -> bytes:
        return sse.encode(self._protocol.report_event(self._like, self._reading.report())) if self._report else b""

    def _release(self, *, read: bool = True) -> bytes:
        """Everything that is held, of finished choices too: an engine may go on after a finish reason."""
        out: list[bytes] = []
        for index, pipeline in sorted(self._pipelines.items()):
            try:
                pieces = pipeline.release(read=read)
            except Exception as fault:  # a part of the fence
                self._reading.note_fault(fault)
                pieces = pipeline.release(read=False)
            out += self._texts(index, pieces)
        return b"".join([sse.encode(data) for data in out])

    def _texts(self, index: int, pieces: list[Piece]) -> list[bytes]:
        shown = [p for p in pieces if not (self._reading.hidden and p[0] == REASONING)]
        return [self._protocol.text_event(self._like, index, channel, text, self._names) for channel, text in shown]

    def _fail(self, fault: Exception, rest: bytes) -> bytes:
        """Inspection ends: what is held, then everything else as it came; or an error, where that may not go out."""
        self.failed_open = True
        self._tally.uninspected[reason_of(fault)] += 1
        internal = not isinstance(fault, EngineFault | NotThisProtocol)
        if internal:
            self._reading.note_fault(fault)
        held = self._release(read=not internal)
        self._pipelines.clear()
        if self._reading.may_pass(internal=internal):
            return held + rest
        self._cut = True
        return held + self._protocol.error_event(IntegrityError("the gateway could not read the answer"))
