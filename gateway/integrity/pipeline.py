"""One choice of one answer: fields in, fields out, findings tallied.

Order (DESIGN 4, reader_spec 7): reader → findings of markers → moved or kept → the outlet's stages. Each delta is
pushed once; `push` returns None when the delta goes out as it came. Observe runs the same code with nothing enforced:
what comes out is what came in, cut otherwise.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Final

from gateway.events import CALL, CONTENT, FOREIGN, REASONING, REPLAY, TOOL, Decision, Effect, Group, Segment, ToolText
from gateway.findings import Finding
from gateway.integrity.hold import UnknownStart, UnmarkedThought
from gateway.integrity.outlet import Outlet, Piece
from gateway.integrity.setting import Setting
from gateway.integrity.signs import FOLD_EVERY
from gateway.integrity.stages import reader_of, unknown_start_of
from gateway.integrity.tally import Tally
from gateway.integrity.tools import ToolStage
from gateway.streams.utf8 import SurrogateJoiner
from gateway.streams.verdicts import THINKING

# Every other dropped marker is a boundary token.
_FINDING: Final = {Group.END_OF_TURN: Finding.SPECIAL_TOKEN, Group.SPECIAL: Finding.SPECIAL_TOKEN}
_TAG_FINDING: Final = {**_FINDING, Group.HEADER: Finding.SPECIAL_TOKEN}  # the header of a turn, not of a channel
_THOUGHT_MARKERS: Final = (Group.THINK_OPEN, Group.THINK_CLOSE, Group.HEADER)
_CHANNEL_MARKERS: Final = (*_THOUGHT_MARKERS, Group.ANSWER_OPEN, Group.ANSWER_CLOSE)


class Pipeline:
    """State of one choice. `push` deltas, `tool_call` before an engine's own call, then `finish` or `release` once.

    `joins`: surrogate halves have come, so every delta goes through `join` first.
    """

    __slots__ = (
        "_closed", "_content", "_findings", "_joiners", "_leaking", "_left", "_marked", "_outlet", "_plain",
        "_reasoning", "_setting", "_stage", "_start", "_tally", "_tools", "joins",
    )  # fmt: skip

    def __init__(self, setting: Setting, tally: Tally) -> None:
        self._setting = setting
        self._tally = tally
        raw = setting.raw
        self._content = reader_of(setting, starts_open=raw and setting.starts_open, split=not raw)
        self._reasoning = None if raw else reader_of(setting, starts_open=True, split=True)
        self._start = unknown_start_of(setting)
        self._outlet = Outlet(setting, tally)
        self._stage = ToolStage(setting, tally, self._outlet)
        self._joiners = {REASONING: SurrogateJoiner(), CONTENT: SurrogateJoiner()}
        self.joins = False
        self._leaking = False  # inside a run of moved reasoning: counted once
        self._closed = False  # a thought's closer was found
        self._marked = False  # a marker was found: the engine said something
        self._tools = False
        self._left = raw  # content has come: the reasoning field's channel has ended
        self._plain = not raw and setting.grammar is not None and self._outlet.plain
        self._findings = _TAG_FINDING if setting.grammar and setting.grammar.tags else _FINDING

    @property
    def holding(self) -> str | None:
        """Why something waits: a cause of `gateway.integrity.holds`; None where nothing does."""
        if self._start and self._start.waiting:
            return "unknown_start"
        if self._stage.holds:
            return "tool_region"
        readers = (reader.waits_for for reader in (self._reasoning, self._content) if reader)
        return self._outlet.holding or next(filter(None, readers), None)

    @property
    def call_broken(self) -> bool:
        """True where a call went out while it was read, and never came right."""
        return self._stage.broken

    # ------------------------------------------------------------------ the answer, piece by piece

    def push(self, reasoning: str, content: str) -> list[Piece] | None:
        """One delta, its reasoning before its content; returns what goes out, None: the delta as it came."""
        outlet = self._outlet
        if content and outlet.growth and not outlet.growth.take(content):
            outlet.growth = None
        if self._plain and not outlet.promotion and not self._start:
            if not content and self._reasoning and not (self._content and self._content.held):
                self._left = False
                segments = self._reasoning.feed(reasoning)
                if len(segments) == 1 and segments[0][1] is reasoning and segments[0][0] == REASONING:
                    outlet.show_reasoning(reasoning)
                    return None
                out: list[Piece] = []
                self._take(segments, REASONING, out)
                return self._unless_same(out, reasoning, content)
            if not reasoning and self._content and self._left and not outlet.dedup.on and not self._stage.waiting:
                segments = self._content.feed(content)
                if outlet.said and len(segments) == 1 and segments[0][1] is content and segments[0][0] == CONTENT:
                    self._leaking = False
                    outlet.note_content(content)
                    outlet.noted += len(content)
                    if outlet.noted > FOLD_EVERY:
                        outlet.fold()
                    return None
                out = []
                self._take(segments, CONTENT, out)
                return self._unless_same(out, reasoning, content)
        return self._push(reasoning, content)

    def _push(self, reasoning: str, content: str) -> list[Piece] | None:
        """Every case; `push` takes the two common ones a shorter way."""
        out: list[Piece] = []
        if reasoning:
            self._push_reasoning(reasoning, out)
        if content:
            self._push_content(content, out)
        if not (reasoning and content):
            return self._unless_same(out, reasoning, content)
        self._tally.add(Finding.MIXED_CHUNK_SPLIT, "split")
        out = joined(out)
        same = out == [(REASONING, reasoning), (CONTENT, content)]
        return None if same and not self._setting.policy.enforces(Finding.MIXED_CHUNK_SPLIT) else out

    def _unless_same(self, out: list[Piece], reasoning: str, content: str) -> list[Piece] | None:
        out = joined(out)
        came = (REASONING, reasoning) if reasoning else (CONTENT, content)
        return None if out == [came] else out

    def join(self, reasoning: str, content: str) -> tuple[str, str]:
        """The delta with the surrogate halves joined that were cut between two deltas of one field (S10)."""
        self.joins = True
        reasoning = self._joiners[REASONING].feed(reasoning)
        if content:  # the half of a thought that is over waits for nothing
            reasoning += self._joiners[REASONING].finish()
        return reasoning, self._joiners[CONTENT].feed(content)

    def refusal(self) -> list[Piece]:
        """The client is told a refusal: the reasoning is not the answer, and the answer is not empty."""
        out: list[Piece] = []
        self._outlet.said = True
        self._outlet.keep_as_reasoning(out)
        return out

    def tool_call(self) -> list[Piece]:
        """The engine's own tool call is next: everything held goes out before it, in its channel."""
        out: list[Piece] = []
        self._tools = True
        self._end_halves(out)
        self._end_lost_thought(out)
        self._end_start(out, length=False)
        self._settle_fields(out)
        if self._reasoning and not self._left:
            self._take(self._reasoning.leave(to_tools=True), REASONING, out)
        self._outlet.before_tools(out)
        return joined(out)

    def engine_call(self, name: str, arguments: str) -> None:
        """One of the engine's own calls is whole: the same call left as text is only its markup."""
        self._stage.engine_call(name, arguments)

    def finish(self, *, stopped: bool, length: bool, promotable: bool, stop_string: bool, looped: bool) -> list[Piece]:
        """The answer has ended; called once, before its finish event is written.

        `stopped`: by itself. `length`: by the token limit. `promotable`: no stop string, filter or abort ended it.
        `stop_string`: one of the request's did. `looped`: the engine says that the model only repeated itself.
        """
        out: list[Piece] = []
        self._end_halves(out)
        self._end_start(out, length=length)
        for reader, origin in ((self._reasoning, REASONING), (self._content, CONTENT)):
            if reader:
                self._take(reader.finish(stopped=stopped), origin, out, cut=length)
        self._stage.finish(out, ended=stopped or length)
        self._outlet.finish(out, stopped=stopped, promotable=promotable and not self._stage.seen)
        natural = stopped and promotable and not stop_string
        self._conclude(stopped=stopped, natural=natural, length=length, stop_string=stop_string, looped=looped)
        return joined(out)

    def release(self, *, read: bool) -> list[Piece]:
        """The answer broke off: what is held goes out in its channel; nothing is suppressed (contract rule 6).

        `read` False: as it came, because the reading has failed; the pipeline is of no use afterwards.
        """
        out: list[Piece] = []
        if read:
            self._end_halves(out)
            self._end_start(out, length=False)
            self._settle_fields(out)
        self._stage.release(out)
        self._outlet.release(out, read=read)
        return joined(out if read else [*out, *self._as_it_came()])

    # ------------------------------------------------------------------ fields

    def _push_reasoning(self, text: str, out: list[Piece]) -> None:
        if self._start:
            start, self._start = self._start, None
            self._read_content(start.release(), out)
        if self._content and self._content.held:
            self._take(self._content.settle(), CONTENT, out)
        self._left = self._setting.raw
        if self._reasoning is None:
            self._outlet.send(REASONING, text, out)
        else:
            self._take(self._reasoning.feed(text), REASONING, out)

    def _push_content(self, text: str, out: list[Piece]) -> None:
        if self._reasoning and not self._left:
            self._take(self._reasoning.leave(to_tools=False), REASONING, out)
            self._left = True
        if self._start:
            self._started(*self._start.take(text), out)
        else:
            self._read_content(text, out)

    def _read_content(self, text: str, out: list[Piece]) -> None:
        if self._content is None:
            self._say(CONTENT, text, out)
        elif text:
            self._take(self._content.feed(text), CONTENT, out)

    def _started(self, segments: list[Segment] | None, rest: str, out: list[Piece]) -> None:
        """What the window before the thought decided; while it has not, nothing goes out."""
        start = self._start
        if start is None or start.on:
            return
        self._start = None
        if segments is not None and isinstance(start, UnknownStart):
            self._content = start.reader
            self._take(segments, CONTENT, out)
        else:
            self._read_content(rest, out)

    def _end_halves(self, out: list[Piece]) -> None:
        """A surrogate half that waits for its other half waits no more."""
        if half := self._joiners[REASONING].finish():
            self._push_reasoning(half, out)
        if half := self._joiners[CONTENT].finish():
            self._push_content(half, out)

    def _end_lost_thought(self, out: list[Piece]) -> None:
        """The engine's own call ends a thought that has lost its markers."""
        start = self._start
        if not isinstance(start, UnmarkedThought) or not start.thought:
            return
        self._start = None
        self._tally.add(Finding.REASONING_LEAK, "moved", where=CONTENT, rule="unmarked")
        if self._setting.policy.enforces(Finding.REASONING_LEAK):
            self._moved(REASONING, start.thought, out)
        else:
            self._read_content(start.release(), out)

    def _end_start(self, out: list[Piece], *, length: bool) -> None:
        if self._start:
            self._started(*self._start.settle(length=length), out)

    def _as_it_came(self) -> list[Piece]:
        reasoning = self._reasoning.held if self._reasoning else ""
        content = self._content.held if self._content else ""
        start = self._start.release() if self._start else ""
        return [piece for piece in ((REASONING, reasoning), (CONTENT, content + start)) if piece[1]]

    def _settle_fields(self, out: list[Piece]) -> None:
        for reader, origin in ((self._reasoning, REASONING), (self._content, CONTENT)):
            if reader:
                self._take(reader.settle(), origin, out)

    # ------------------------------------------------------------------ what a reader found in a field

    def _take(self, segments: list[Segment], origin: str, out: list[Piece], *, cut: bool = False) -> None:
        """Route the segments a reader made of the field `origin`. `cut`: the token limit ended the output."""
        for channel, item in segments:
            if isinstance(item, Decision):
                self._on_marker(item, origin, out)
            elif isinstance(item, ToolText):
                self._stage.region(item, origin, out, cut=cut)
            elif channel == origin:
                self._leaking = self._leaking and origin == REASONING
                self._say(channel, item, out)
            elif channel == TOOL:
                self._on_tool_text(item, origin, out)
            elif self._setting.raw:
                self._on_raw(channel, item, out)
            else:
                self._on_leak(channel, item, origin, out)

    def _say(self, channel: str, text: str, out: list[Piece]) -> None:
        """Text goes on in its channel; content decides whether a call before it was the answer's end."""
        waits = channel == CONTENT and self._stage.waiting and self._stage.before_text(text, out)
        if not waits:
            self._outlet.send(channel, text, out)

    def _on_raw(self, channel: str, text: str, out: list[Piece]) -> None:
        """Raw text: the dialect's own structure is no finding (contract rule 10)."""
        if channel == REPLAY:
            self._replay(text, out)
        elif channel == FOREIGN:
            self._foreign(text, CONTENT, out)
        else:
            self._moved(channel, text, out)

    def _on_leak(self, channel: str, text: str, origin: str, out: list[Piece]) -> None:
        """Text that stands in the wrong field of an answer that the engine split."""
        if channel == REPLAY:
            self._replay(text, out)
            return
        if channel == FOREIGN:
            self._foreign(text, origin, out)
            return
        finding = Finding.REASONING_LEAK if origin == CONTENT else Finding.ANSWER_IN_REASONING
        if not self._leaking and not text.isspace():
            self._leaking = True
            hides = channel == REASONING and self._setting.hidden
            self._tally.add(finding, "hidden" if hides else "moved", where=origin)
        if self._setting.policy.enforces(finding):
            self._moved(channel, text, out)
        else:
            self._say(origin, text, out)

    def _moved(self, channel: str, text: str, out: list[Piece]) -> None:
        """Text in another field than it came in. A thought is not shown to a client that asked the engine for none."""
        if channel == REASONING and self._setting.unsent:
            self._tally.characters_suppressed += len(text)
        else:
            self._say(channel, text, out)

    def _on_marker(self, decision: Decision, origin: str, out: list[Piece]) -> None:
        if decision.effect is not Effect.DROP:
            return
        self._marked = True
        self._closed = self._closed or decision.group is Group.THINK_CLOSE
        finding = self._findings.get(decision.group, Finding.BOUNDARY_TOKEN)
        bounds = finding is Finding.BOUNDARY_TOKEN
        if bounds and decision.group in _CHANNEL_MARKERS:
            self._outlet.bounded = True
            self._outlet.keep_as_reasoning(out)
        if self._setting.raw and not (decision.group is Group.THINK_CLOSE and decision.region == CONTENT):
            return  # the dialect's own structure (contract rule 10); a closer without a thought is none
        self._tally.add(finding, "stripped", marker=decision.text, where=origin)
        moved = Finding.REASONING_LEAK if origin == CONTENT else Finding.ANSWER_IN_REASONING
        enforces = self._setting.policy.enforces
        if not enforces(finding) or (bounds and decision.group in _THOUGHT_MARKERS and not enforces(moved)):
            self._outlet.send(origin, decision.text, out)

    def _on_tool_text(self, text: str, origin: str, out: list[Piece]) -> None:
        """A tool region stays in its field (contract rule 5); in content it is never compared with the reasoning."""
        if origin == CONTENT and self._outlet.dedup.on:
            self._outlet.settle_dedup(out, stopped=True)
        self._outlet.send(origin, text, out)

    def _replay(self, text: str, out: list[Piece]) -> None:
        if not self._leaking:
            self._leaking = True
            self._tally.add(Finding.ANSWER_IN_REASONING, "replayed", where=REASONING)
        if self._setting.policy.enforces(Finding.ANSWER_IN_REASONING):
            self._outlet.replay(text, out)

    def _foreign(self, text: str, origin: str, out: list[Piece]) -> None:
        if not self._leaking:
            self._leaking = True
            self._tally.add(Finding.ROLE_TOKEN, "suppressed", where=origin)
        if self._setting.policy.enforces(Finding.ROLE_TOKEN):
            self._tally.characters_suppressed += len(text)
        else:
            self._outlet.send(origin, text, out)

    # ------------------------------------------------------------------ the end

    def _conclude(self, *, stopped: bool, natural: bool, length: bool, stop_string: bool, looped: bool) -> None:
        said = self._outlet.said
        nothing = stopped and not said and not self._tools
        if self._reasoning and self._reasoning.replay_capped:
            self._tally.add(Finding.ANSWER_IN_REASONING, "capped", where=REASONING)
        if length:
            self._tally.add(Finding.TRUNCATED, "flagged", where=CONTENT if said else REASONING)
        elif nothing:
            self._tally.add(Finding.EMPTY_RESPONSE, "flagged")
            if natural and self._swallowed():
                self._tally.add(Finding.ANSWER_IN_REASONING, "replayed", where=REASONING, rule="unclosed", done=False)
            if natural and not (self._marked or self._outlet.thought):  # nothing came that could be repaired
                self._tally.add(Finding.REGEN_WANTED, "flagged", rule="empty_response")
        self._outlet.count_signs(stop_string=stop_string and nothing, length=length, looped=looped)

    def _swallowed(self) -> bool:
        """Raw text: one thought, opened by a marker, is all there is: its closer may have been lost (vLLM #51679)."""
        reader = self._content
        unclosed = reader is not None and reader.state in THINKING and self._outlet.bounded and not self._closed
        return unclosed and self._setting.raw and self._setting.promotable


def joined(pieces: list[Piece]) -> list[Piece]:
    """Neighbouring pieces of one channel as one; replayed pieces stay as they were cut."""
    if len(pieces) < 2:
        return pieces
    out: list[Piece] = []
    for channel, run in groupby(pieces, key=itemgetter(0)):
        if channel in (REPLAY, CALL):
            out.extend(run)
        else:
            out.append((channel, "".join([str(text) for _, text in run])))
    return out
