"""A streamed answer: bytes in, bytes out, one frame at a time; untouched frames keep their bytes.

Joins a protocol (wire shapes) and one pipeline per choice (what to do). Held text always has a place to go: before a
tool call, a finish event, an error, or the end.
"""

from __future__ import annotations

from typing import Final

from gateway.errors import EngineFault, EngineTruncated, IntegrityError
from gateway.events import REASONING
from gateway.exchange.framing import framed
from gateway.exchange.reading import ExchangeReading, came, reason_of
from gateway.findings import Finding
from gateway.integrity.outlet import Piece
from gateway.integrity.pipeline import Pipeline
from gateway.protocols.protocol import Message, NotThisProtocol, Part
from gateway.streams import sse
from gateway.streams.sse import Frame, SSEReader

_UNSAID_ENDING: Final = dict.fromkeys(("stopped", "length", "promotable", "stop_string", "looped"), False)
_NO_DATA: Final = (b":", b"\n", b"\r", b"event:", b"id:", b"retry:")  # how a frame without data may start


class StreamInspection:
    """One streamed answer. `data` for every read, then `end` or `broken` once.

    `report`: send the report before the terminal event. `failed_open`: inspection has ended; bytes are relayed, or
    dropped where an error of ours has ended the answer. `like`: the last chunk of this answer, for the head of chunks
    of our own.
    """

    def __init__(self, reading: ExchangeReading, *, report: bool) -> None:
        self._reading = reading
        self._protocol = reading.protocol
        self._tally = reading.tally
        self._report = report
        self._sse = SSEReader(max_line=reading.limits.sse_line, max_event=reading.limits.sse_event)
        self._pipelines: dict[int, Pipeline] = {}
        self._open: set[int] = set()  # choices that have begun and not finished
        self.like: Message | None = None
        self._names = reading.names if reading.names is not None else reading.engine_names
        self._names_used = False  # the engine has written reasoning, so that its name for it is known
        self._names_vary = not reading.names  # hidden, or as the engine names it
        self._strange = False  # something came that is no event of this protocol
        self._error_seen = False
        self._usage_owed = reading.wants_usage
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
            if not self._done:
                self._note_usage()
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

    @property
    def holding(self) -> str | None:
        """Why text waits, of the first choice whose text does (`Pipeline.holding`)."""
        return next(filter(None, (pipeline.holding for pipeline in self._pipelines.values())), None)

    @property
    def between_frames(self) -> bool:
        """True where what went out so far ends with a whole frame, so that a comment can follow."""
        return not (self.failed_open or self._strange)

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
        held = b""
        if message.error:
            self._error_seen = True
            held = self._release()
        if not message.parts:
            self._usage_owed = self._usage_owed and not self._protocol.has_usage(message)
            return held + frame.raw
        self.like = message
        pieces = self._read(message)
        if self._reading.secret:
            message = self._without_tokens(message, pieces)
        if not pieces:
            return held + self._renamed(message, frame)
        if len(message.parts) > 1 and not self._names_vary:  # a frame that is written again has our names in every part
            renamed = self._protocol.rename(message, self._names)
            message = self._protocol.decode_event(renamed) if renamed else message
        own, data = self._protocol.rewrite(message, pieces, self._names)
        last = b"" if data is None else framed(frame, data)
        return held + b"".join([sse.encode(each) for each in own]) + last

    def _unread(self, fault: NotThisProtocol, raw: bytes) -> bytes:
        """Bytes that are no event of this protocol go on as they came, behind what is held.

        Raises `fault` where bytes may not go unread.
        """
        if not self._reading.may_pass(internal=False):
            raise fault
        self._strange = True
        self._tally.uninspected[reason_of(fault)] += 1
        return self._release() + raw

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
            elif part.tools or part.finish or part.refusal or message.odd or message.error or pipeline.joins:
                self._usage_owed = self._usage_owed and not self._protocol.has_usage(message)
                pieces = self._beyond_text(pipeline, part, message)
            elif part.reasoning or part.content:
                pieces = pipeline.push(part.reasoning, part.content)
            if self._names_vary:
                pieces = self._named(part, pieces)
            if pieces is not None:
                changed[part.place] = pieces
        return changed

    def _beyond_text(self, pipeline: Pipeline, part: Part, message: Message) -> list[Piece] | None:
        """A delta that is more than plain text: what a call, a refusal or the choice's end lets go comes before it."""
        reasoning, content = part.reasoning, part.content
        if message.odd or pipeline.joins:
            reasoning, content = pipeline.join(reasoning, content)
        pieces: list[Piece] | None = None
        more: list[Piece] = []
        if reasoning and content and not part.reasoning:  # the half of a thought that is over: the delta is not mixed
            pieces = _pushed(pipeline, reasoning, "") + _pushed(pipeline, "", content)
        elif reasoning or content:
            pieces = pipeline.push(reasoning, content)
        apart = part.tools and bool(part.reasoning)
        if part.refusal:
            more += pipeline.refusal()
        if part.tools:
            more += pipeline.tool_call()
        if apart:
            self._tally.add(Finding.MIXED_CHUNK_SPLIT, "split")
            apart = self._reading.policy.enforces(Finding.MIXED_CHUNK_SPLIT)
        if message.error:
            more += pipeline.release(read=True)
        elif part.finish and part.index in self._open:
            self._open.discard(part.index)
            more += pipeline.finish(**self._reading.ending(part))
        if not more and not apart and (reasoning, content) == (part.reasoning, part.content):
            return pieces
        return [*(came(reasoning, content) if pieces is None else pieces), *more]

    def _named(self, part: Part, pieces: list[Piece] | None) -> list[Piece] | None:
        """The pieces of a part where the reasoning is hidden, or goes out under the engine's own name."""
        if not self._reading.hidden:
            if part.names or not self._names_used:
                self._names = part.names or self._protocol.names_shown(part) or self._names
                self._names_used = bool(part.names)
            return pieces
        if pieces is None and not part.reasoning:
            return None
        kept = came(part.reasoning, part.content) if pieces is None else pieces
        return [piece for piece in kept if piece[0] != REASONING]

    def _without_tokens(self, message: Message, pieces: dict[int, list[Piece]]) -> Message:
        """The message without what spells out a thought that does not go out."""
        withholds = self._reading.withholds
        places = [part.place for part in message.parts if withholds(part, pieces.get(part.place))]
        message, taken = self._protocol.without_tokens(message, places)
        self._tally.withheld.update(taken)
        return message

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
        data = message.data
        for part in message.parts:
            if part.no_calls or (part.names and names is not None):
                data = self._protocol.rename(message, names) or data
                break
        return frame.raw if data is frame.data else framed(frame, data)

    # ------------------------------------------------------------------ endings

    def _terminal(self) -> bytes:
        """Before the terminal event: choices without a finish reason, then the report."""
        self._done = True
        out: list[bytes] = []
        # What went unread may have been the end of a choice.
        for index in sorted(self._open) if not (self._error_seen or self._strange) else ():
            pieces = self._pipelines[index].finish(**_UNSAID_ENDING)
            out += self._texts(index, pieces)
            self._tally.add(Finding.FINISH_REASON_FIXED, "added")
            if self._reading.policy.enforces(Finding.FINISH_REASON_FIXED):
                out.append(self._protocol.finish_event(self.like, index, "stop"))
        self._open.clear()
        self._note_usage()
        return b"".join([sse.encode(data) for data in out]) + self._release() + self._report_event()

    def _note_usage(self) -> None:
        if self._usage_owed and not self._error_seen:
            self._tally.add(Finding.USAGE_MISSING, "flagged")

    def _report_event(self) -> bytes:
        return sse.encode(self._protocol.report_event(self.like, self._reading.report())) if self._report else b""

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
        return [self._protocol.text_event(self.like, index, channel, text, self._names) for channel, text in shown]

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


def _pushed(pipeline: Pipeline, reasoning: str, content: str) -> list[Piece]:
    out = pipeline.push(reasoning, content)
    return came(reasoning, content) if out is None else out
