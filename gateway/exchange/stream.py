"""A streamed answer: bytes in, bytes out, one frame at a time; untouched frames keep their bytes.

Joins a protocol (wire shapes) and one pipeline per choice (what to do). Held text always has a place to go: before a
tool call, a finish event, an error, or the end.
"""

from __future__ import annotations

from typing import Final

from gateway.errors import EngineFault, EngineTruncated, IntegrityError
from gateway.events import REASONING
from gateway.exchange.calls import STOP
from gateway.exchange.framing import BOM, framed
from gateway.exchange.reading import ExchangeReading, reason_of
from gateway.exchange.stream_calls import Asked, StreamCalls
from gateway.exchange.structured import StructuredFrames
from gateway.exchange.withheld import Withheld
from gateway.findings import Finding
from gateway.integrity.outlet import Piece, came
from gateway.integrity.pipeline import Pipeline
from gateway.protocols.protocol import Framed, Message, NotThisProtocol, NumberedCall, Part, Said
from gateway.streams.sse import Frame, SSEReader

_UNSAID_ENDING: Final = dict.fromkeys(("stopped", "length", "promotable", "stop_string", "looped"), False)
_NOTHING_ASKED: Final = Asked()
_NO_DATA: Final = (b":", b"\n", b"\r", b"event:", b"id:", b"retry:")  # how a frame without data may start
_NAMES: Final = (b"data:", *_NO_DATA)


class StreamInspection:
    """One streamed answer. `data` for every read, then `end` or `broken` once.

    `report`: send the report before the terminal event. `failed_open`: inspection has ended; bytes are relayed, or
    dropped where an error of ours has ended the answer. `protocol`: that of this stream. `like`: the last chunk of this
    answer, for the head of chunks of our own.
    """

    def __init__(self, reading: ExchangeReading, *, report: bool) -> None:
        self._reading = reading
        self.protocol = self._protocol = reading.protocol.stream(rewrites=reading.hidden)
        self._codec = self._protocol if isinstance(self._protocol, Framed) else None
        self._tally = reading.tally
        self._report = report
        self._sse = SSEReader(max_line=reading.limits.sse_line, max_event=reading.limits.sse_event)
        self._pipelines: dict[int, Pipeline] = {}
        self._calls = StreamCalls(reading, self._protocol, self._pipelines)
        self._queue = self._calls.queue
        self._structured: StructuredFrames | None = None
        if self._codec:
            self._structured = StructuredFrames(self._codec, self._queue, report=reading.report if report else None)
        self._waiting = self._queue.held
        self._withheld = Withheld(reading, self._protocol) if reading.secret else None
        self._open: set[int] = set()  # choices that have begun and not finished
        self.like: Message | None = None
        self._names = reading.names if reading.names is not None else reading.engine_names
        self._names_used = False  # the engine has written reasoning, so that its name for it is known
        self._names_vary = not reading.names or reading.adds_no_thought  # hidden, or as the engine names it
        self._thinks = False  # the engine has shown a thought
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
        if self._done or self._error_seen or (self._pipelines and not self._open and not self._codec):
            if not self._done:
                self._note_usage()
            return out + self._release() + (b"" if self._done else self._report_event()), True
        rest, _ = self.broken(EngineTruncated("the engine's stream ended without its terminal event"))
        return out + rest, False

    def broken(self, error: IntegrityError) -> tuple[bytes, bool]:
        """The upstream broke off: what is held goes out, then the error (contract rule 6); none behind the end."""
        out = self._unfinished()
        if self._cut:
            return out, False
        if self._done or self._error_seen:
            return out + self._release(), False
        gap = b"\n\n" if self.failed_open or self._strange else b""  # what was relayed may end anywhere
        return out + self._release() + gap + self._protocol.error_event(error), False

    @property
    def holding(self) -> str | None:
        """Why text waits, of the first choice whose text does (`Pipeline.holding`)."""
        if self._waiting:
            return "tool_region"
        return next(filter(None, (pipeline.holding for pipeline in self._pipelines.values())), None)

    @property
    def between_frames(self) -> bool:
        """True where what went out so far ends with a whole frame, so that a comment can follow."""
        return not (self.failed_open or self._strange)

    # ------------------------------------------------------------------ frames

    def _frame(self, frame: Frame) -> bytes:
        data = frame.data
        if data is None:
            known = frame.raw.removeprefix(BOM).startswith(_NO_DATA)
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
        self._done = self._done or message.terminal
        if not message.parts:
            message, frame = self._withheld_in(message, frame, {})
            self._usage_owed = self._usage_owed and not self._protocol.has_usage(message)
            before = self._terminal() if message.terminal else b""
            if self._structured:
                return held + before + self._structured.send(message, frame, {}, _NOTHING_ASKED, self._names)
            return held + before + (self._queue.put(frame.raw) if self._waiting else frame.raw)
        self.like = message
        if self._waiting:
            self._calls.past(message)
        pieces = self._read(message)
        asked = self._calls.asked
        message, frame = self._withheld_in(message, frame, pieces)
        if self._structured:
            self._calls.asked = None
            return held + self._structured.send(message, frame, pieces, asked or _NOTHING_ASKED, self._names)
        if asked is None and not self._waiting:
            if not pieces:
                return held + self._renamed(message, frame)
            own, last = self._rewritten(message, frame, pieces, _NOTHING_ASKED)
            return held + own + last
        self._calls.asked = None
        return held + self._sent(message, frame, pieces, asked or _NOTHING_ASKED)

    def _sent(self, message: Message, frame: Frame, pieces: dict[int, list[Said]], asked: Asked) -> bytes:
        """What goes out now of a frame with calls, or behind one that waits."""
        if pieces or asked.edits:
            own, last = self._rewritten(message, frame, pieces, asked)
        else:
            own, last = b"", self._renamed(message, frame)
        if not self._waiting and not asked.entries:
            return own + last
        before = self._queue.put(own) if own and self._waiting else own
        return before + self._queue.put(last, tuple(asked.entries))

    def _rewritten(
        self, message: Message, frame: Frame, pieces: dict[int, list[Said]], asked: Asked
    ) -> tuple[bytes, bytes]:
        """Events of our own, and the frame written again."""
        if (len(message.parts) > 1 or not pieces) and not self._names_vary:  # then our names stand in every part of it
            renamed = self._protocol.rename(message, self._names)
            message = self._protocol.decode_event(renamed) if renamed else message
        own, data = self._protocol.rewrite(message, pieces, self._names, asked.finishes)
        if data is not None and asked.changes:
            data = self._protocol.change_calls(self._protocol.decode_event(data), asked.changes)
        return b"".join([self._protocol.frame(each) for each in own]), b"" if data is None else framed(frame, data)

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
        pending = self._sse.pending.removeprefix(BOM)
        self._ending = True
        if not pending:
            return b""
        if b"data:" in pending or pending.startswith(_NO_DATA):
            return self.data(b"\n\n")
        if any(name.startswith(pending) for name in _NAMES):  # the name of a field was cut
            self._sse.take_pending()
            return b""
        try:
            return self._unread(NotThisProtocol("no event"), self._sse.take_pending())
        except NotThisProtocol as fault:
            return self._fail(fault, b"")

    def _read(self, message: Message) -> dict[int, list[Said]]:
        """The parts that do not go out as they came, by place."""
        changed: dict[int, list[Said]] = {}
        for part in message.parts:
            pipeline = self._pipeline(part)
            pieces: list[Said] | None = None
            if pipeline is None:  # too many choices, or an index that is none: as it came
                pass
            elif part.tools or part.finish or part.refusal or message.odd or message.error or pipeline.joins:
                self._usage_owed = self._usage_owed and not self._protocol.has_usage(message)
                pieces = self._beyond_text(pipeline, part, message)
            elif part.reasoning or part.content:
                pushed = pipeline.push(part.reasoning, part.content)
                pieces = None if pushed is None else self._calls.numbered(part.index, pushed, message)
            if self._names_vary:
                pieces = self._named(part, pieces)
            if pieces is not None:
                changed[part.place] = pieces
        return changed

    def _beyond_text(self, pipeline: Pipeline, part: Part, message: Message) -> list[Said] | None:
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
        if part.refusal:
            more += pipeline.refusal()
        before = self._calls.own(part, message)
        more += before or ()
        apart = before is not None and bool(part.reasoning)
        if apart:
            self._tally.add(Finding.MIXED_CHUNK_SPLIT, "split")
            apart = self._reading.policy.enforces(Finding.MIXED_CHUNK_SPLIT)
        ends = bool(part.finish) and part.index in self._open and not message.error
        if message.error:
            more += pipeline.release(read=True)
        elif ends:
            self._open.discard(part.index)
            ending = self._reading.ending(part)
            self._calls.settle(part.index, stopped=ending["stopped"])
            more += pipeline.finish(**ending)
        same = not more and not apart and (reasoning, content) == (part.reasoning, part.content)
        if not same:
            pieces = [*(came(reasoning, content) if pieces is None else pieces), *more]
        said = None if pieces is None else self._calls.numbered(part.index, pieces, message)
        if ends:
            self._calls.ended(part)
        return said

    def _named(self, part: Part, pieces: list[Said] | None) -> list[Said] | None:
        """The pieces of a part where the reasoning is hidden, or goes out under the engine's own name."""
        if not self._reading.hidden:
            if part.names or not self._names_used:
                self._names = part.names or self._protocol.names_shown(part) or self._names
                self._names_used = bool(part.names)
            self._thinks = self._thinks or bool(part.reasoning)
            if pieces is None or self._thinks or not self._reading.adds_no_thought:
                return pieces
            return self._reading.without_thought(pieces)
        if pieces is None and not part.reasoning:
            return None
        kept = came(part.reasoning, part.content) if pieces is None else pieces
        return [piece for piece in kept if piece[0] != REASONING]

    def _withheld_in(self, message: Message, frame: Frame, pieces: dict[int, list[Said]]) -> tuple[Message, Frame]:
        """Both without what spells out a thought that does not go out."""
        if self._withheld is None:
            return message, frame
        kept = self._withheld.message(message, pieces)
        return kept, frame if kept is message else Frame(framed(frame, kept.data), kept.data, frame.event)

    def _pipeline(self, part: Part) -> Pipeline | None:
        index = part.index
        if type(index) is int:
            known = self._pipelines.get(index)
            if known is not None:
                return known
            if len(self._pipelines) < self._reading.limits.choices:
                self._open.add(index)
                self._pipelines[index] = pipeline = self._reading.pipeline(index, by_ids=part.marked is not None)
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
        # What went unread may have been the end of a choice.
        unended = sorted(self._open) if not (self._error_seen or self._strange) else ()
        for index in unended:
            self._calls.settle(index, stopped=False)
        frames = self._queue.ready()
        out: list[bytes] = []
        for index in unended:
            out += self._texts(index, self._pipelines[index].finish(**_UNSAID_ENDING))
            self._tally.add(Finding.FINISH_REASON_FIXED, "added")
            if self._reading.policy.enforces(Finding.FINISH_REASON_FIXED):
                out.append(self._finish_event(index))
        self._open.clear()
        self._note_usage()
        frames += b"".join([self._protocol.frame(data) for data in out])
        return frames + self._release() + self._report_event()

    def _finish_event(self, index: int) -> bytes:
        data = self._protocol.finish_event(self.like, index, self._calls.word(index, STOP) or STOP)
        if self._codec is None or not self._report:
            return data
        before, gap, last = data.rpartition(b"\n")  # of several events the last one ends the answer
        return before + gap + self._codec.add_report(last, self._reading.report())

    def _note_usage(self) -> None:
        if self._usage_owed and not self._error_seen:
            self._tally.add(Finding.USAGE_MISSING, "flagged")

    def _report_event(self) -> bytes:
        if self._codec or not self._report:
            return b""
        return self._protocol.frame(self._protocol.report_event(self.like, self._reading.report()))

    def _release(self, *, read: bool = True) -> bytes:
        """Everything that is held, of finished choices too: an engine may go on after a finish reason."""
        frames = self._queue.release(read=read)
        out: list[bytes] = []
        for index, pipeline in sorted(self._pipelines.items()):
            try:
                pieces = pipeline.release(read=read)
            except Exception as fault:  # a part of the fence
                self._reading.note_fault(fault)
                pieces = pipeline.release(read=False)
            out += self._texts(index, pieces)
        kept = self._codec.release() if self._codec else b""
        return frames + b"".join([self._protocol.frame(data) for data in out]) + kept

    def _texts(self, index: int, pieces: list[Piece]) -> list[bytes]:
        """Events of our own that say `pieces`."""
        out: list[bytes] = []
        for channel, said in self._calls.numbered(index, pieces, self.like):
            if isinstance(said, NumberedCall):
                out += self._protocol.call_events(self.like, index, said)
            elif not (self._reading.hidden and channel == REASONING):
                out.append(self._protocol.text_event(self.like, index, channel, said, self._names))
        return out

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
    pieces = pipeline.push(reasoning, content)
    return came(reasoning, content) if pieces is None else pieces
