"""The one reader: raw text to reasoning, answer and tool calls, at any chunking, in linear time.

How it works. The reader stands in a `State`; the grammar gives that state's live markers. Text left of the next marker
is released into the state's channel; a marker is asked what it means here (`gateway.streams.verdicts`) and is dropped,
forwarded, or found to be text. What cannot be decided yet stays in `_held`. Streaming is `feed` many times; a whole
text is `feed` once; both end with `finish`. reader_spec sections 3 and 4 and contract rule 3 are the rules.

A tool region is read by a `CallRegion`. Where calls are taken, its text is kept back until it has ended: then it is one
`ToolText`, or, where it turns out to be none, its opener is text and everything behind it is read again.

What it must not know: model families, fields, findings, policies. It says what is there; others decide what to do.

`split=True` reads one field of an answer that the engine has already split: the thought starts open in the reasoning
field, guards against quoted markers apply inside it too, and an answer is never reopened by a control token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Final

from gateway.events import (
    CALLS,
    CONTENT,
    FOREIGN,
    MARKER,
    REASONING,
    REPLAY,
    TOOL,
    Call,
    Decision,
    Effect,
    Group,
    Segment,
    ToolText,
)  # fmt: skip
from gateway.limits import Limits
from gateway.streams.calls.call import Status
from gateway.streams.calls.region import CallRegion, RegionRules
from gateway.streams.calls.watch import Watch
from gateway.streams.grammar import ANY, FIELD, FIRST, Grammar, Rule, State, Take, Takes
from gateway.streams.quoting import Quoting
from gateway.streams.verdicts import BLANK, THINKING, Verdict, Verdicts

FOLD_EVERY: Final = 1024  # characters after which the quoting state is brought up to date: bounds what it keeps
WINDOW: Final = 512  # characters of a region read first where more than its cap is there; then twice as many
REPLAY_PIECE: Final = 4096  # characters of one replayed content event (reader_spec section 4)

_CHANNEL: Final = {
    State.START: CONTENT,
    State.OPENABLE: CONTENT,
    State.ANSWER: CONTENT,
    State.AFTER_CLOSER: CONTENT,
    State.AFTER_TURN: CONTENT,
    State.THINK_START: REASONING,
    State.THINK: REASONING,
    State.TOOLS: TOOL,
    State.FOREIGN: FOREIGN,
}
# States in which released text changes nothing, and its channel.
_THOUGHT: Final = REASONING
_SETTLED: Final = {State.THINK: _THOUGHT, State.ANSWER: CONTENT, State.OPENABLE: CONTENT}
_ENDS_OUTPUT: Final = (Group.END_OF_TURN, Group.MESSAGE_CLOSE, Group.FRAMING)  # a call before it still ends the output


@dataclass(slots=True)
class _Open:
    """A tool region that is being read. `text`: its text so far, kept where it is held. `index`: its rules' place.

    `thought`: a candidate inside a thought. `back`: the state and index to go back to where it is none. `begin`: where
    it stands in all text, `opener`: how long the marker is that opened it, `size`: of its text.
    """

    rules: RegionRules
    reader: CallRegion
    take: Take
    thought: bool
    index: int
    back: tuple[State, int]
    begin: int
    opener: int
    size: int
    text: list[str] = field(default_factory=list)


class RegionReader(Verdicts):
    """Reads one output. `starts_open`: the thought is already open (the prompt, or the field, opened it).

    `feed` and `finish` return segments (`gateway.events.Segment`) in order. `held` is what waits for a decision.
    `takes`: what is done with calls. `limits`: `header`, `marker_run` and `tool_region` bound what may wait,
    `channel_text` what is kept for a replay.
    """

    __slots__ = (
        "_at", "_fold_at", "_held", "_index", "_kept", "_kept_size", "_leads", "_open", "_over", "_parked",
        "_parked_size", "_plan", "_quote", "_region_cap", "_replay_cap", "_settled", "_watch", "replay_capped",
    )  # fmt: skip

    def __init__(
        self,
        grammar: Grammar,
        *,
        starts_open: bool,
        split: bool,
        takes: Takes,
        limits: Limits,
    ) -> None:
        super().__init__(
            grammar,
            starts_open=starts_open,
            split=split,
            takes=takes,
            header_cap=limits.header,
            run_cap=limits.marker_run,
        )
        self._replay_cap = limits.channel_text
        self._region_cap = limits.tool_region
        self._held = ""
        self._at = 0  # characters decided on so far
        self._fold_at = FOLD_EVERY
        self._kept: list[str] = []
        self._kept_size = 0
        self._open: _Open | None = None
        self._over = False  # the output has ended
        self._settled: str | None = None  # the channel, in a state in which released text changes nothing
        self._parked: list[ToolText | str] = []  # calls that end the thought so far, and the white space behind them
        self._parked_size = 0
        self._watch: Watch | None = None  # a region inside text that goes out as it comes
        self.replay_capped = False
        self._new_quoting()
        self._enter(State.THINK_START if starts_open else State.START, ANY if split else FIRST)

    def __repr__(self) -> str:
        return f"<RegionReader {self._grammar.name} in {self._state} at {self._at}, {len(self._held)} held>"

    @property
    def state(self) -> State:
        """Where the reader stands."""
        return self._state

    @property
    def held(self) -> str:
        """Text fed and not yet decided on, in order."""
        parked = [item if isinstance(item, str) else item.text for item in self._parked]
        return "".join([*parked, *(self._open.text if self._open else ()), self._held])

    @property
    def waits_for(self) -> str:
        """What decides on the held text: the end of a `tool_region`, the rest of a `marker`, of a `header`, or what
        follows a whole marker (`quoted_end`). Empty where nothing is held. Searches anew: not for every token.
        """
        if self._parked or (self._open and self._open.take is Take.HOLD):
            return "tool_region"
        if not self._held:
            return ""
        begin, end, _ = self._plan.next(self._held, 0, final=False)
        literal = self._held[begin:end]
        if self._open or begin < 0 or self._plan.rules[literal].tail:
            return "marker"
        return "header" if literal in self._grammar.header_opens else "quoted_end"

    def feed(self, text: str) -> list[Segment]:
        """Read more text; returns what is decided."""
        if not text:
            return []
        if self._settled and not self._held:
            for lead in self._leads:  # unrolled from a helper: this is the path of nearly every token
                if lead in text and not self._quiet(text):
                    break
            else:
                self._at += len(text)
                if self._settled is not _THOUGHT or self._guards_thought:
                    self._quote(text)
                    if self._at > self._fold_at:
                        self._fold()
                if self._grammar.replays and self._settled is _THOUGHT:
                    self._keep(text)
                return [(self._settled, text)]
        out: list[Segment] = []
        self._read(self._held + text, out, final=False)
        return _joined(out)

    def settle(self) -> list[Segment]:
        """The field ends here but the output does not: what is held is text of the current state."""
        if not (self._held or self._open or self._parked or self._watch):
            return []
        out: list[Segment] = []
        self._read(self._held, out, final=True)
        self._unpark(out)
        self._unwatch()
        return _joined(out)

    def leave(self, *, to_tools: bool) -> list[Segment]:
        """The reasoning field ends because content or a tool call follows it: the channel had its exit (K2, K3)."""
        out = self.settle()
        if to_tools and self._state in THINKING:
            self._replay(out)
        self._noted = False
        self._kept.clear()
        return out

    def finish(self, *, stopped: bool) -> list[Segment]:
        """The output has ended. `stopped`: by itself, so that an answer written into a skipped thought is replayed."""
        self._stopped = stopped
        self._over = True
        out: list[Segment] = []
        self._read(self._held, out, final=True)
        if stopped:
            parked, self._parked = self._parked, []
            out.extend((REASONING, item) if isinstance(item, str) else (CALLS, item) for item in parked)
            if self._watch and (calls := self._watch.finish()):
                out.append((CALLS, _seen(calls, thought=self._state in THINKING)))
        self._unpark(out)
        if self._state in THINKING and stopped:
            self._replay(out)
        self._kept.clear()
        return _joined(out)

    # ------------------------------------------------------------------ the loop

    def _quiet(self, text: str) -> bool:
        """True when `text` neither holds a marker nor ends in what may become one."""
        begin, _, cut = self._plan.next(text, 0, final=False)
        return begin < 0 and cut == len(text)

    def _read(self, text: str, out: list[Segment], *, final: bool) -> None:
        at = 0
        while True:
            if self._open is not None:
                text, at = self._read_region(text, at, out, final=final)
                if self._open is not None:
                    break
            base = self._at - at
            begin, end, cut = self._plan.next(text, at, final=final)
            plan = self._plan
            stop = cut if begin < 0 else begin
            if stop > at:
                self._at = base + stop
                tail = plan.cut(text, at) if final and begin < 0 else stop
                self._release(text[at:tail], out, partial=False)
                self._release(text[tail:stop], out, partial=True)
                at = stop
                if self._plan is not plan:  # the first words of a region change what is live
                    continue
            if begin < 0:
                break
            rule = plan.rules[text[begin:end]]
            self._begin, self._end = begin, end
            verdict = self._judge(rule, text, end, final)
            if verdict is None:
                break
            self._apply(rule, text[begin : self._end], verdict, base + begin, out)
            at = self._resume(begin)
            self._at = base + at
        self._held = "" if at == len(text) else text[at:]
        self._fold()

    def _resume(self, begin: int) -> int:
        """Where reading goes on behind a marker: at its beginning, where that is the beginning of a call as well."""
        return begin if self._open is not None and not self._open.size else self._end

    def _apply(self, rule: Rule, literal: str, verdict: Verdict, at: int, out: list[Segment]) -> None:
        effect, reason, state, index = verdict
        if effect is Effect.TEXT or (effect is Effect.DROP and rule.group not in _ENDS_OUTPUT):
            self._unpark(out)
            self._unwatch()
        out.append((MARKER, Decision(literal, rule.group, effect, _CHANNEL[self._state], reason, at)))
        self._at = at + len(literal)
        if effect is Effect.TEXT:
            self._release(literal, out, partial=False)
            if rule.group is Group.TOOL_OPEN and index != ANY:
                self._watch = Watch(self._grammar.regions[index], opener=literal, cap=self._region_cap)
                self._settled = None
        elif effect is Effect.FORWARD:
            self._open_region(literal, state, index, at, out)
            return
        if state is not None:
            self._enter(state, index)

    # ------------------------------------------------------------------ tool regions

    def _open_region(self, literal: str, state: State | None, index: int, at: int, out: list[Segment]) -> None:
        """A tool region begins. `state` None: a candidate, and the thought goes on around it."""
        rules = self._grammar.regions[index]
        take = self._take(rules, thought=state is None)
        size = 0 if literal in rules.inside else len(literal)
        back = State.ANSWER if self._state in THINKING and state else self._state
        self._open = _Open(
            rules=rules,
            reader=CallRegion(rules, head=literal, begin=size, lenient=take is not Take.HOLD),
            take=take,
            thought=state is None,
            index=index,
            back=(back, self._index if back is self._state else ANY),
            begin=at,
            opener=len(literal),
            size=size,
        )
        if state is not None:
            if self._state in THINKING:
                self._replay(out)
            self._enter(state, ANY)
        if size:
            self._region_text(self._open, literal, out)
        self._settled = None
        self._pristine = False

    @staticmethod
    def _region_text(region: _Open, text: str, out: list[Segment]) -> None:
        if region.take is Take.HOLD:
            region.text.append(text)
        elif text:
            out.append((TOOL, text))

    def _read_region(self, text: str, at: int, out: list[Segment], *, final: bool) -> tuple[str, int]:
        """Read on in the open region; returns the text and the place where reading goes on.

        Past the cap it is none; the decision depends on characters, not on chunks.
        """
        region = self._open
        assert region is not None
        capped = len(text) - at > self._region_cap - region.size
        stop = self._read_capped(region, text, at) if capped else region.reader.read(text, at, final=final)
        region.size += stop - at
        self._at += stop - at
        self._region_text(region, text[at:stop], out)
        status = region.reader.status
        if self._takes.early and region.take is Take.HOLD and not region.thought and status is not Status.DONE:
            self._tell(region, out)
        if status is Status.OPEN and not (capped or final):
            return text, stop
        self._open = None
        if status is Status.DONE:
            self._close_region(region, out, closed=region.reader.closed)
            return text, stop
        if status is Status.OPEN and not capped and self._ends_here(region):
            self._at += len(text) - stop
            self._region_text(region, text[stop:], out)
            if not (self._stopped or region.rules.section):
                region.reader.cut()
            self._close_region(region, out, closed=False)
            return text, len(text)
        return self._no_region(region, text, stop, out)

    def _read_capped(self, region: _Open, text: str, at: int) -> int:
        """Read up to the cap, in pieces: a copy of all that is left would be made for every region of a long text."""
        end = at + self._region_cap - region.size
        stop, size = at, WINDOW
        while region.reader.status is Status.OPEN and stop < end:
            stop = min(at + size, end)
            at += region.reader.read(text[at:stop], 0, final=False)
            size *= 2
        return at

    @staticmethod
    def _tell(region: _Open, out: list[Segment]) -> None:
        """Tell of a held region while it is read."""
        if calls := region.reader.begun_calls:
            out.append((CALLS, _open_text(calls, region)))

    def _ends_here(self, region: _Open) -> bool:
        """The text ended inside the region: that is how a call may end, or how a limit cuts one."""
        complete = region.reader.complete
        if region.take is not Take.HOLD:
            return True
        if region.thought:
            return complete and self._over and self._stopped
        empty = region.rules.control and not region.reader.begun
        return complete or (self._over and (empty or not self._stopped))

    def _close_region(self, region: _Open, out: list[Segment], *, closed: bool) -> None:
        found = _tool_text(region, closed=closed, broken=False)
        if region.thought:
            self._park(found, len(found.text), out)
            return
        if region.take is not Take.NO:
            out.append((CALLS, found))
        message = region.index == self._grammar.message_region and region.reader.status is Status.DONE
        self._enter(State.AFTER_TURN if message else State.ANSWER, ANY)

    def _no_region(self, region: _Open, text: str, stop: int, out: list[Segment]) -> tuple[str, int]:
        """The region was none. What was held of it is read again; its opener is text."""
        if region.take is not Take.NO and (region.reader.begun or region.rules.control):
            out.append((CALLS, _tool_text(region, closed=False, broken=True)))
        if not region.thought:
            self._enter(*region.back)
        if region.take is not Take.HOLD:
            opener = stop + max(0, region.opener - region.size)  # one that is the beginning of a body was not read yet
            self._at += opener - stop
            self._release(text[stop:opener], out, partial=False)
            return text, opener
        self._failed += 1
        text = "".join(region.text) + text[stop:]
        self._at = region.begin + region.opener
        self._release(text[: region.opener], out, partial=False)
        return text, region.opener

    def _park(self, item: ToolText | str, size: int, out: list[Segment]) -> None:
        """What may end the output as calls waits; past the cap of a region all of it is the thought's text."""
        self._parked.append(item)
        self._parked_size += size
        if self._parked_size > self._region_cap:
            self._unpark(out)

    def _unpark(self, out: list[Segment]) -> None:
        """Something follows what could have been a call: it is the thought's text."""
        if self._parked:
            text = "".join([item if isinstance(item, str) else item.text for item in self._parked])
            self._parked.clear()
            self._parked_size = 0
            self._settled = _SETTLED.get(self._state)
            self._release(text, out, partial=False)

    def _unwatch(self) -> None:
        if self._watch:
            self._watch = None
            self._settled = _SETTLED.get(self._state)

    # ------------------------------------------------------------------ states

    def _enter(self, state: State, index: int) -> None:
        was_thinking, thinks = self._state in THINKING, state in THINKING
        if was_thinking is not thinks:
            self._opener_seen = False
        if was_thinking and not thinks:
            self._kept.clear()
            if self._guards_thought:
                self._new_quoting()  # the thought's quotes do not reach into the answer
        elif thinks and not was_thinking:
            self._noted, self._kept_size, self.replay_capped = False, 0, False
        self._state, self._index = state, index
        self._pristine = self._pristine and state is State.START
        self._settled = None if self._parked or self._watch else _SETTLED.get(state)
        self._plan = self._grammar.plan(state, index)
        self._leads = self._plan.leads

    def _new_quoting(self) -> None:
        self._quoting = Quoting()
        self._quote = self._quoting.pieces.append

    def _fold(self) -> None:
        """Bring the quoting state up to date now and then, so that it keeps no more than a few pieces of text."""
        if self._at > self._fold_at:
            self._quoting.fold()
            self._fold_at = self._at + FOLD_EVERY

    def _release(self, text: str, out: list[Segment], *, partial: bool) -> None:
        """Let `text` go as text of the current state. `partial`: held at the end of the output, never a marker."""
        if not text:
            return
        blank = text.isspace()
        if self._parked:
            if blank:
                self._park(text, len(text), out)
                return
            self._unpark(out)
        if self._watch and not self._watch.take(text):
            self._unwatch()
        state = self._state
        out.append((_CHANNEL[state], text))
        self._pristine = False
        if state in THINKING:
            if self._guards_thought:
                self._quote(text)
            if self._grammar.replays and not partial:
                self._keep(text)
            if state is State.THINK_START and not blank:
                self._enter(State.THINK, FIELD if self._guards_thought and self._index == ANY else self._index)
        elif _CHANNEL[state] is CONTENT:
            self._quote(text)
            if not blank and state in BLANK:
                openable = not self._grammar.tags and not self._split and state is not State.AFTER_CLOSER
                self._enter(State.OPENABLE if openable else State.ANSWER, ANY)
            elif self._index == FIRST:
                self._enter(state, ANY)

    def _keep(self, text: str) -> None:
        self._noted = self._noted and text.isspace()
        if self.replay_capped:
            return
        self._kept_size += len(text)
        if self._kept_size > self._replay_cap:
            self.replay_capped = True
            self._kept.clear()
        else:
            self._kept.append(text)

    def _replay(self, out: list[Segment]) -> None:
        """Send a skipped channel again as content (K1 to K3): only when an answer closer was its last word."""
        if self._noted and not self.replay_capped:
            text = "".join(self._kept)
            out.extend((REPLAY, text[i : i + REPLAY_PIECE]) for i in range(0, len(text), REPLAY_PIECE))


def _joined(segments: list[Segment]) -> list[Segment]:
    """Neighbouring text of one channel as one segment (R5). Replay pieces stay as they were cut."""
    if len(segments) < 2:
        return segments
    out: list[Segment] = []
    for channel, run in groupby(segments, key=itemgetter(0)):
        if channel in (MARKER, REPLAY, CALLS):
            out.extend(run)
        else:
            out.append((channel, "".join([str(text) for _, text in run])))
    return out


def _tool_text(region: _Open, *, closed: bool, broken: bool) -> ToolText:
    reader = region.reader
    complete = not broken and (closed or reader.complete or reader.status is Status.DONE)
    calls = tuple(reader.finish())
    complete = complete and (closed or not calls or any(call.closed for call in calls))
    return ToolText(
        text="" if broken else "".join(region.text),
        calls=calls,
        closed=closed,
        complete=complete,
        broken=broken,
        thought=region.thought,
        rest=reader.rest,
        control=region.rules.control,
        known=bool(region.rules.bodies),
    )


def _seen(calls: tuple[Call, ...], *, thought: bool) -> ToolText:
    """Calls in text that went out as it came."""
    return ToolText(
        text="", calls=calls, closed=True, complete=True, broken=False, thought=thought, rest=False, control=False
    )


def _open_text(calls: tuple[Call, ...], region: _Open) -> ToolText:
    return ToolText(
        text="",
        calls=calls,
        closed=False,
        complete=False,
        broken=False,
        thought=False,
        rest=False,
        control=region.rules.control,
        so_far=lambda: "".join(region.text),
    )
