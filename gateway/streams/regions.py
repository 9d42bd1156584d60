"""The one reader: raw text to reasoning, answer and tool regions, at any chunking, in linear time.

How it works. The reader stands in a `State`; the grammar gives that state's live markers. Text left of the next marker
is released into the state's channel; a marker is asked what it means here (`_ON`, one method a group) and is dropped,
forwarded, or found to be text. What cannot be decided yet stays in `_held`. Streaming is `feed` many times; a whole
text is `feed` once; both end with `finish`. reader_spec sections 3 and 4 and contract rule 3 are the rules.

What it must not know: model families, fields, findings, policies. It says what is there; others decide what to do.

`split=True` reads one field of an answer that the engine has already split: the thought starts open in the reasoning
field, guards against quoted markers apply inside it too, and an answer is never reopened by a control token.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Final

from gateway.events import CONTENT, FOREIGN, MARKER, REASONING, REPLAY, TOOL, Decision, Effect, Group, Segment
from gateway.streams.grammar import ANY, FIELD, TAIL, Grammar, Rule, State
from gateway.streams.quoting import Quoting

FOLD_EVERY: Final = 1024  # characters after which the quoting state is brought up to date: bounds what it keeps
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
    State.ARGUMENT: TOOL,
    State.FOREIGN: FOREIGN,
}
_THINKING: Final = (State.THINK_START, State.THINK)
_BLANK: Final = (State.START, State.AFTER_CLOSER, State.AFTER_TURN)  # only white space so far
# States in which released text changes nothing, and its channel.
_THOUGHT: Final = REASONING
_SETTLED: Final = {State.THINK: _THOUGHT, State.ANSWER: CONTENT, State.OPENABLE: CONTENT}

# A verdict: effect, reason, next state (None: stay), next index. None instead of a verdict: undecided, hold.
Verdict = tuple[Effect, str, State | None, int]


class RegionReader:
    """Reads one output. `starts_open`: the thought is already open (the prompt, or the field, opened it).

    `feed` and `finish` return segments (`gateway.events.Segment`) in order. `held` is what waits for a decision.
    `header_cap` and `run_cap` bound what may wait, `replay_cap` what is kept for a replay, all in characters.
    """

    __slots__ = (
        "_at", "_begin", "_end", "_fold_at", "_grammar", "_guards_thought", "_header_cap", "_held", "_index", "_kept",
        "_kept_size", "_leads", "_noted", "_opener_seen", "_pair_seen", "_plan", "_pristine", "_quote", "_quoting",
        "_replay_cap", "_run_cap", "_settled", "_split", "_state", "_stopped", "replay_capped",
    )  # fmt: skip

    def __init__(
        self, grammar: Grammar, *, starts_open: bool, split: bool, header_cap: int, run_cap: int, replay_cap: int
    ) -> None:
        self._grammar = grammar
        self._split = split
        self._guards_thought = split and starts_open  # the engine says it thinks: a closer it did not see may be quoted
        self._opener_seen = False  # as text: the next closer belongs to it
        self._pair_seen = False  # the same for an end of turn that looks like a closing tag
        self._header_cap = header_cap
        self._run_cap = run_cap
        self._replay_cap = replay_cap
        self._held = ""
        self._at = 0  # characters decided on so far
        self._fold_at = FOLD_EVERY
        self._pristine = True  # nothing released yet: a control-token closer at offset 0 counts
        self._noted = False  # an answer closer was the channel's last word
        self._stopped = False
        self._kept: list[str] = []
        self._kept_size = 0
        self.replay_capped = False
        self._new_quoting()
        self._state = State.START
        self._enter(State.THINK_START if starts_open else State.START, ANY)

    def __repr__(self) -> str:
        return f"<RegionReader {self._grammar.name} in {self._state} at {self._at}, {len(self._held)} held>"

    @property
    def state(self) -> State:
        """Where the reader stands."""
        return self._state

    @property
    def held(self) -> str:
        """Text fed and not yet decided on."""
        return self._held

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
        if not self._held:
            return []
        out: list[Segment] = []
        self._read(self._held, out, final=True)
        return _joined(out)

    def leave(self, *, to_tools: bool) -> list[Segment]:
        """The reasoning field ends because content or a tool call follows it: the channel had its exit (K2, K3)."""
        out = self.settle()
        if to_tools and self._state in _THINKING:
            self._replay(out)
        self._noted = False
        self._kept.clear()
        return out

    def finish(self, *, stopped: bool) -> list[Segment]:
        """The output has ended. `stopped`: by itself, so that an answer written into a skipped thought is replayed."""
        self._stopped = stopped
        out: list[Segment] = []
        self._read(self._held, out, final=True)
        if self._state in _THINKING and stopped:
            self._replay(out)
        self._kept.clear()
        return _joined(out)

    # ------------------------------------------------------------------ the loop

    def _quiet(self, text: str) -> bool:
        """True when `text` neither holds a marker nor ends in what may become one."""
        begin, _, cut = self._plan.next(text, 0, final=False)
        return begin < 0 and cut == len(text)

    def _read(self, text: str, out: list[Segment], *, final: bool) -> None:
        base, at, size = self._at, 0, len(text)
        while True:
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
            at = self._end
            self._apply(rule.group, text[begin:at], verdict, base + begin, out)
        self._held = "" if at == size else text[at:]
        self._at = base + at
        self._fold()

    def _judge(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        """What the marker that ends at `end` means here. A marker that turns out to be longer moves `_end`."""
        if rule.tail and self._grammar.tail:
            whole = self._grammar.tail.match(text, end)
            if whole is None:
                return None if not final and _TAIL_SO_FAR.match(text, end) else (Effect.TEXT, "not this tag", None, ANY)
            end = self._end = whole.end()
        return _ON[rule.group](self, rule, text, end, final)

    def _apply(self, group: Group, literal: str, verdict: Verdict, at: int, out: list[Segment]) -> None:
        effect, reason, state, index = verdict
        out.append((MARKER, Decision(literal, group, effect, _CHANNEL[self._state], reason, at)))
        self._at = at + len(literal)
        if effect is Effect.TEXT:
            self._release(literal, out, partial=False)
        if state is not None:
            if state is State.TOOLS and self._state in _THINKING:
                self._replay(out)
            self._enter(state, index)
        if effect is Effect.FORWARD:
            out.append((TOOL, literal))
            self._pristine = False

    def _enter(self, state: State, index: int) -> None:
        was_thinking, thinks = self._state in _THINKING, state in _THINKING
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
        self._settled = _SETTLED.get(state)
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
        state = self._state
        out.append((_CHANNEL[state], text))
        self._pristine = False
        blank = text.isspace()
        if state in _THINKING:
            if self._guards_thought:
                self._quote(text)
            if self._grammar.replays and not partial:
                self._keep(text)
            if state is State.THINK_START and not blank:
                self._enter(State.THINK, FIELD if self._guards_thought and self._index == ANY else self._index)
        elif _CHANNEL[state] is CONTENT:
            self._quote(text)
            if not blank and state in _BLANK:
                openable = not self._grammar.tags and not self._split
                self._enter(State.OPENABLE if openable else State.ANSWER, ANY)

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

    # ------------------------------------------------------------------ guards

    def _guarded(self) -> bool:
        """Inside a thought of raw text the first closer wins; everywhere else quoting counts."""
        return self._state not in _THINKING or self._guards_thought

    def _ending(self, text: str, end: int, final: bool) -> bool | None:
        """True when from `end` to the end of the output only white space and closers stand; None: not known yet."""
        at = end
        while at < len(text):
            if at - end >= self._run_cap:
                return False
            if text[at].isspace():
                at += 1
                continue
            ender = self._grammar.enders.match(text, at) if self._grammar.enders else None
            if ender is None:
                short = not final and len(text) - end < self._run_cap
                return None if short and text[at:] in self._grammar.ender_prefixes else False
            at = ender.end()
        return True if final else None if len(text) - end < self._run_cap else False

    def _structure_follows(self, text: str, end: int, final: bool) -> bool | None:
        """True where the next thing is another marker, or the end of the output; None: not known yet."""
        at = end
        while at < len(text) and text[at].isspace():
            at += 1
            if at - end >= self._run_cap:
                return False
        if at == len(text):
            return True if final else None
        structure = self._grammar.structure
        if structure and structure.match(text, at):
            return True
        rest = text[at : at + self._grammar.longest]
        return None if not final and rest in self._grammar.structure_prefixes else False

    def _mention(self, text: str, end: int, final: bool) -> bool | None:
        """True where a control token is only talked about; None: not known yet.

        Raw text: in quotation marks. A field that the engine split holds no structure of its own: there a token in the
        middle of a sentence, with nothing of the format behind it, is prose.
        """
        if self._grammar.tags or not self._guarded():
            return False
        closing = self._quoting.open_quote
        if closing and (end < len(text) or not final):
            return text[end] == closing if end < len(text) else None
        if not (self._split and self._quoting.mid_sentence):
            return False
        structural = _either(self._line_end(text, end, final), self._structure_follows(text, end, final))
        return None if structural is None else not structural

    def _line_start(self, text: str) -> bool:
        """True where the marker stands first on its line, the line break being part of it or not."""
        return text[self._begin] in "\r\n" or self._quoting.line_start

    @staticmethod
    def _line_end(text: str, end: int, final: bool) -> bool | None:
        if text[end - 1] in "\r\n":
            return True
        if end < len(text):
            return text[end] in "\r\n"
        return True if final else None

    def _quoted_ender(self, text: str, end: int, final: bool) -> Verdict | None:
        """A closer where a quote is open: text, unless nothing but closers follows until the model stopped."""
        ending = self._ending(text, end, final)
        if ending is None:
            return None
        if ending and self._stopped:
            return Effect.DROP, "the output ends here, so the open quote was none", None, ANY
        return Effect.TEXT, "quoted", None, ANY

    # ------------------------------------------------------------------ one method a group

    def _on_think_open(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        state = self._state
        if state is State.THINK_START:
            return Effect.DROP, "an opener at the start of an open thought", State.THINK_START, rule.index
        if state is State.START:
            return Effect.DROP, "opens the thought at the start of the output", State.THINK_START, rule.index
        if state is State.THINK:
            self._opener_seen = True
            return Effect.TEXT, "an opener in the middle of the thought", None, ANY
        if self._quoting.quoted:
            self._opener_seen = True
            return Effect.TEXT, "quoted", None, ANY
        if state is State.AFTER_TURN and not self._grammar.tags:
            return Effect.DROP, "opens the thought of the next message", State.THINK_START, rule.index
        if state in _BLANK and self._grammar.reopen_closer:
            return Effect.DROP, "reopens the thought right after a closer", State.THINK_START, rule.index
        if state is State.OPENABLE:
            return Effect.DROP, "a control-token opener before the answer", State.THINK_START, rule.index
        if self._grammar.reopen_lines and self._line_start(text):
            return Effect.DROP, "opens a thought at a line start", State.THINK_START, rule.index
        self._opener_seen = True
        return Effect.TEXT, "an opener in the middle of the answer", None, ANY

    def _on_think_close(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        after = State.AFTER_CLOSER if self._grammar.tags else State.ANSWER
        if self._state in _THINKING:
            return self._close_thought(text, end, final, after)
        if not self._grammar.tags:
            if self._pristine:
                return Effect.DROP, "a closer before anything else", State.ANSWER, ANY
            return Effect.TEXT, "a closer outside a thought", None, ANY
        if self._state is not State.ANSWER:
            return Effect.DROP, "a closer before the answer's first word", State.AFTER_CLOSER, ANY
        if self._quoting.quoted:
            verdict = self._quoted_ender(text, end, final)
            self._opener_seen = self._opener_seen and verdict is None
            return verdict
        if self._opener_seen:
            self._opener_seen = False
            return Effect.TEXT, "closes an opener that is text", None, ANY
        if self._line_start(text):
            return Effect.DROP, "a closer at a line start", State.AFTER_CLOSER, ANY
        ends = self._line_end(text, end, final)
        if ends is None:
            return None
        if ends:
            return Effect.DROP, "a closer at a line end", State.AFTER_CLOSER, ANY
        if self._unpaired():
            return Effect.DROP, "a closer that no opener goes with, at the end of a sentence", State.AFTER_CLOSER, ANY
        return Effect.TEXT, "a closer in the middle of a line", None, ANY

    def _unpaired(self) -> bool:
        """In a field that the engine split: the closer is glued to a sentence's end, and its opener was not seen."""
        return self._split and self._grammar.reopen_lines and self._quoting.sentence_end

    def _close_thought(self, text: str, end: int, final: bool, after: State) -> Verdict | None:
        if not self._guards_thought or self._state is State.THINK_START:
            return Effect.DROP, "closes the thought", after, ANY
        if self._quoting.quoted:
            return Effect.TEXT, "quoted", None, ANY
        if self._opener_seen:
            self._opener_seen = False
            return Effect.TEXT, "closes what the thought itself opened", None, ANY
        if self._quoting.mid_sentence and not self._grammar.sentences and text[self._begin] not in "\r\n":
            ends = self._line_end(text, end, final)
            if not ends:
                return None if ends is None else (Effect.TEXT, "a closer in the middle of a sentence", None, ANY)
        return Effect.DROP, "closes the thought", after, ANY

    def _on_answer_open(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._guarded() and self._quoting.quoted:
            return Effect.TEXT, "quoted", None, ANY
        if self._grammar.tags and self._state not in (*_BLANK, State.THINK_START):
            return Effect.TEXT, "an answer's opener in the middle of the text", None, ANY
        return self._unless_mentioned((Effect.DROP, "opens the answer", State.ANSWER, ANY), text, end, final)

    def _on_answer_close(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._guarded() and self._quoting.quoted:
            verdict = self._quoted_ender(text, end, final)
            if verdict is None or verdict[0] is Effect.TEXT:
                return verdict
        if self._state in _THINKING and self._grammar.tags and not self._grammar.replays:
            return self._quoted_ender(text, end, final)
        mentioned = self._mention(text, end, final)
        if mentioned is not False:
            return None if mentioned is None else (Effect.TEXT, "only mentioned", None, ANY)
        if self._state in _THINKING:
            self._noted = True
            return Effect.DROP, "the answer's closer inside the thought: its channel may have been skipped", None, ANY
        ends = not self._grammar.tags or self._ends_line(text, end, final)
        if ends is None:
            return None
        if ends:
            return Effect.DROP, "closes the answer", None, ANY
        return Effect.TEXT, "an answer's closer in the middle of a line", None, ANY

    def _on_framing(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._state is State.TOOLS:
            return Effect.DROP, "ends an unclosed tool region", State.ANSWER, ANY
        if self._guarded() and self._quoting.quoted:
            return self._quoted_ender(text, end, final)
        return self._unless_mentioned((Effect.DROP, "framing", None, ANY), text, end, final)

    def _unless_mentioned(self, verdict: Verdict, text: str, end: int, final: bool) -> Verdict | None:
        mentioned = self._mention(text, end, final)
        return None if mentioned is None else (Effect.TEXT, "only mentioned", None, ANY) if mentioned else verdict

    def _on_message_close(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._guarded() and self._quoting.quoted:
            return self._quoted_ender(text, end, final)
        if self._guarded() and self._state not in (*_BLANK, State.THINK_START):
            ends = _either(self._line_end(text, end, final), self._structure_follows(text, end, final))
            if not ends:
                return None if ends is None else (Effect.TEXT, "the message goes on", None, ANY)
        return Effect.DROP, "ends the message", State.AFTER_TURN, ANY

    def _on_pair_open(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        self._pair_seen = True
        return Effect.TEXT, "an opening tag", None, ANY

    def _on_end_of_turn(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if not self._grammar.tags:
            return self._on_message_close(rule, text, end, final)
        if self._state in _THINKING or self._quoting.quoted:
            return self._quoted_ender(text, end, final)
        if text.startswith("</", self._begin) and self._state not in _BLANK:  # markup of the answer looks the same
            if self._pair_seen:
                self._pair_seen = False
                return Effect.TEXT, "closes a tag of the answer", None, ANY
            ends = _either(self._ending(text, end, final), self._turn_opens(text, end, final))
        else:
            ends = self._ends_line(text, end, final)
        if ends is None:
            return None
        if not ends:
            return Effect.TEXT, "an end-of-turn token in the middle of a line", None, ANY
        if text[self._begin : end] in self._grammar.header_opens:
            return self._on_header(rule, text, end, final)
        return Effect.DROP, "ends the turn", State.AFTER_TURN, ANY

    def _ends_line(self, text: str, end: int, final: bool) -> bool | None:
        """True where an ender of an answer of tags is none of its words: nothing stands before it, or behind it."""
        ends = self._state in _BLANK or self._line_start(text) or self._line_end(text, end, final)
        if ends is not False:
            return ends
        return _either(self._ending(text, end, final), self._turn_opens(text, end, final))

    def _turn_opens(self, text: str, end: int, final: bool) -> bool | None:
        """True when the next turn's header follows at once; None: not known yet."""
        openers = self._grammar.header_opens
        if any(text.startswith(opener, end) for opener in openers):
            return True
        rest = text[end : end + self._grammar.longest]
        return None if not final and any(opener.startswith(rest) for opener in openers) else False

    def _on_special(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._guarded() and self._quoting.quoted:
            return Effect.TEXT, "quoted", None, ANY
        return Effect.DROP, "a token that is never text", None, ANY

    def _on_header(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        header = self._grammar.header
        assert header is not None
        if self._guarded() and self._quoting.quoted:
            return Effect.TEXT, "quoted", None, ANY
        limit = end + self._header_cap + len(header.close)
        close = text.find(header.close, end, limit)
        words = text[end : close if close >= 0 else limit]
        for within in header.within:
            words = words.replace(within, " ")
        if "\n" in words or self._marker_in(words):
            return self._no_header()
        if close < 0 and not final:
            return None if len(text) < limit else self._no_header()
        if close < 0 and not self._grammar.tags:
            return self._no_header()
        stop = close if close >= 0 else len(text)
        target = next((to for pattern, to in header.rules if pattern.fullmatch(text, end, stop)), None)
        unled = self._state is not State.AFTER_TURN and rule.group is Group.HEADER
        if target is None or (unled and target == "foreign"):  # no end of turn has come before another role's header
            return self._no_header()
        mentioned = self._mention(text, stop + len(header.close), final)
        if mentioned is not False:
            return None if mentioned is None else self._no_header()
        self._end = stop + len(header.close) if close >= 0 else stop
        if target == "tool":
            return Effect.FORWARD, "a message to a tool", State.TOOLS, header.tool_region
        starts = self._grammar.tags and target == "answer"  # the turn may begin with a thought
        return Effect.DROP, f"a header: {target}", State.START if starts else _TARGET[target], ANY

    def _marker_in(self, words: str) -> bool:
        enders = self._grammar.enders
        return bool(enders and enders.search(words)) or any(text in words for text in self._grammar.header_opens)

    def _no_header(self) -> Verdict:
        """Behind an end of turn a header's opener is a control token whatever follows it; elsewhere it is text."""
        if self._state is State.AFTER_TURN and self._grammar.tags:
            return Effect.DROP, "opens a turn that says nothing", None, ANY
        return Effect.TEXT, "no header follows", None, ANY

    def _on_tool_open(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._guarded() and self._quoting.quoted:
            return Effect.TEXT, "quoted", None, ANY
        if self._guards_thought and self._state in _THINKING:
            return Effect.TEXT, "the engine says that this is still the thought", None, ANY
        if self._quoting.mid_sentence:  # a call's body follows its opener, never a blank or a full stop
            if end == len(text) and not final:
                return None
            if text[end : end + 1] in _AFTER_A_MENTION:
                return Effect.TEXT, "only mentioned", None, ANY
        return Effect.FORWARD, "opens a tool region", State.TOOLS, rule.index

    def _on_tool_close(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        by_header = self._grammar.header is not None and rule.index == self._grammar.header.tool_region
        return Effect.FORWARD, "closes the tool region", State.AFTER_TURN if by_header else State.ANSWER, ANY

    def _on_argument_open(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        return Effect.FORWARD, "opens an argument: nothing in it is a marker but its closer", State.ARGUMENT, rule.index

    def _on_argument_close(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        return Effect.FORWARD, "closes the argument", State.TOOLS, rule.index


_TAIL_SO_FAR: Final = re.compile(rf"[0-9A-Za-z_-]{{0,{TAIL}}}\Z")  # a tag's suffix that has not ended yet
_AFTER_A_MENTION: Final = tuple(" .,;:!?)]\"'”’»，。、；：！？")
_TARGET: Final = {"reasoning": State.THINK_START, "answer": State.ANSWER, "foreign": State.FOREIGN}

_ON: Final[dict[Group, Callable[[RegionReader, Rule, str, int, bool], Verdict | None]]] = {
    Group.THINK_OPEN: RegionReader._on_think_open,
    Group.THINK_CLOSE: RegionReader._on_think_close,
    Group.ANSWER_OPEN: RegionReader._on_answer_open,
    Group.ANSWER_CLOSE: RegionReader._on_answer_close,
    Group.FRAMING: RegionReader._on_framing,
    Group.MESSAGE_CLOSE: RegionReader._on_message_close,
    Group.END_OF_TURN: RegionReader._on_end_of_turn,
    Group.SPECIAL: RegionReader._on_special,
    Group.PAIR_OPEN: RegionReader._on_pair_open,
    Group.HEADER: RegionReader._on_header,
    Group.TOOL_OPEN: RegionReader._on_tool_open,
    Group.TOOL_CLOSE: RegionReader._on_tool_close,
    Group.ARGUMENT_OPEN: RegionReader._on_argument_open,
    Group.ARGUMENT_CLOSE: RegionReader._on_argument_close,
}


def _either(one: bool | None, other: bool | None) -> bool | None:
    """True when one of two questions is answered yes, None while one that could be is open."""
    if one or other:
        return True
    return None if one is None or other is None else False


def _joined(segments: list[Segment]) -> list[Segment]:
    """Neighbouring text of one channel as one segment (R5). Replay pieces stay as they were cut."""
    if len(segments) < 2:
        return segments
    out: list[Segment] = []
    for channel, run in groupby(segments, key=itemgetter(0)):
        if channel in (MARKER, REPLAY):
            out.extend(run)
        else:
            out.append((channel, "".join([str(text) for _, text in run])))
    return out
