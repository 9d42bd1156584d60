"""What each marker means where it stands: the guards of contract rule 3, and one method a group of markers.

Owns the decision about one marker; `gateway.streams.regions` finds markers and carries decisions out. Knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gateway.events import Effect, Group
from gateway.streams.calls.region import RegionRules
from gateway.streams.grammar import ANY, FIRST, TAIL, Grammar, Rule, State, Take, Takes
from gateway.streams.lookahead import Lookahead, either, line_end
from gateway.streams.quoting import UNQUOTED, Quoting
from gateway.streams.tokens import STRUCTURAL, plain

# A verdict: effect, reason, next state (None: stay), next index. None instead of a verdict: undecided, hold.
Verdict = tuple[Effect, str, State | None, int]
THINKING: Final = (State.THINK_START, State.THINK)
BLANK: Final = (State.START, State.AFTER_CLOSER, State.AFTER_TURN)  # only white space so far
FAILURES: Final = 32  # regions that turned out to be none, after which tool openers are text: reading stays linear
_TAIL_SO_FAR: Final = re.compile(rf"[0-9A-Za-z_-]{{0,{TAIL}}}\Z")  # a tag's suffix that has not ended yet
_AFTER_A_MENTION: Final = tuple(" .,;:!?)]\"'”’»，。、；：！？")
_TARGET: Final = {"reasoning": State.THINK_START, "answer": State.ANSWER, "foreign": State.FOREIGN}


class Verdicts:
    """The state of a reader that decisions rest on. `_begin` and `_end`: the marker's place in the text at hand.

    `_guards_thought`: the field says that this is a thought, so that a closer in it may be quoted. `_opener_seen`: an
    opener was text, and the next closer belongs to it; `_pair_seen` the same for an end of turn that looks like a
    closing tag. `_pristine`: nothing was released yet. `_noted`: an answer closer was the channel's last word.
    """

    __slots__ = (
        "_ahead", "_begin", "_end", "_failed", "_grammar", "_guards_thought", "_header_cap", "_noted", "_opener_seen",
        "_pair_seen", "_pristine", "_quoting", "_run_cap", "_split", "_state", "_stopped", "_takes",
    )  # fmt: skip

    def __init__(
        self, grammar: Grammar, *, starts_open: bool, split: bool, takes: Takes, header_cap: int, run_cap: int
    ) -> None:
        self._grammar = grammar
        self._split = split
        self._takes = takes
        self._guards_thought = split and starts_open
        self._header_cap = header_cap
        self._run_cap = run_cap
        self._ahead = Lookahead(grammar, cap=run_cap)
        self._opener_seen = False
        self._pair_seen = False
        self._pristine = True
        self._noted = False
        self._stopped = False
        self._failed = 0
        self._begin = self._end = 0
        self._state = State.START
        self._quoting = Quoting()

    def _judge(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        """What the marker that ends at `end` means here. A marker that turns out to be longer moves `_end`."""
        if rule.tail and self._grammar.tail:
            whole = self._grammar.tail.match(text, end)
            if whole is None:
                return None if not final and _TAIL_SO_FAR.match(text, end) else (Effect.TEXT, "not this tag", None, ANY)
            end = self._end = whole.end()
        if text.find(STRUCTURAL, self._begin, end) < 0:
            return _ON[rule.group](self, rule, text, end, final)
        quoting, self._quoting = self._quoting, UNQUOTED  # a token of its own is never a quotation of itself
        try:
            return _ON[rule.group](self, rule, text, end, final)
        finally:
            self._quoting = quoting

    # ------------------------------------------------------------------ guards

    def _guarded(self) -> bool:
        """Inside a thought of raw text the first closer wins; everywhere else quoting counts, but not for tokens."""
        return self._quoting is not UNQUOTED and (self._state not in THINKING or self._guards_thought)

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
        structural = either(line_end(text, end, final), self._ahead.structure(text, end, final))
        return None if structural is None else not structural

    def _line_start(self, text: str) -> bool:
        """True where the marker stands first on its line, the line break being part of it or not."""
        return text[self._begin] in "\r\n" or self._quoting.line_start

    def _quoted_ender(self, text: str, end: int, final: bool) -> Verdict | None:
        """A closer where a quote is open: text, unless nothing but closers follows until the model stopped."""
        ending = self._ahead.ending(text, end, final)
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
        if state in BLANK and self._grammar.reopen_closer:
            return Effect.DROP, "reopens the thought right after a closer", State.THINK_START, rule.index
        if state is State.OPENABLE:
            return Effect.DROP, "a control-token opener before the answer", State.THINK_START, rule.index
        if self._grammar.reopen_lines and self._line_start(text):
            return Effect.DROP, "opens a thought at a line start", State.THINK_START, rule.index
        self._opener_seen = True
        return Effect.TEXT, "an opener in the middle of the answer", None, ANY

    def _on_think_close(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        after = State.AFTER_CLOSER if self._grammar.tags or self._grammar.reopen_closer else State.ANSWER
        if self._state in THINKING:
            return self._close_thought(text, end, final, after)
        if not self._grammar.tags:
            if self._pristine or self._state is State.AFTER_CLOSER or self._quoting is UNQUOTED:
                return Effect.DROP, "a closer before the answer's first word", after, ANY
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
        ends = line_end(text, end, final)
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
            ends = line_end(text, end, final)
            if not ends:
                return None if ends is None else (Effect.TEXT, "a closer in the middle of a sentence", None, ANY)
        return Effect.DROP, "closes the thought", after, ANY

    def _on_answer_open(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._guarded() and self._quoting.quoted:
            return Effect.TEXT, "quoted", None, ANY
        if self._grammar.tags and self._state not in (*BLANK, State.THINK_START):
            return Effect.TEXT, "an answer's opener in the middle of the text", None, ANY
        return self._unless_mentioned((Effect.DROP, "opens the answer", State.ANSWER, ANY), text, end, final)

    def _on_answer_close(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._guarded() and self._quoting.quoted:
            verdict = self._quoted_ender(text, end, final)
            if verdict is None or verdict[0] is Effect.TEXT:
                return verdict
        if self._state in THINKING and self._grammar.tags and not self._grammar.replays:
            return self._quoted_ender(text, end, final)
        mentioned = self._mention(text, end, final)
        if mentioned is not False:
            return None if mentioned is None else (Effect.TEXT, "only mentioned", None, ANY)
        if self._state in THINKING:
            self._noted = True
            return Effect.DROP, "the answer's closer inside the thought: its channel may have been skipped", None, ANY
        ends = not self._grammar.tags or self._ends_line(text, end, final)
        if ends is None:
            return None
        if ends:
            return Effect.DROP, "closes the answer", None, ANY
        return Effect.TEXT, "an answer's closer in the middle of a line", None, ANY

    def _on_framing(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if rule.index == FIRST:
            return Effect.DROP, "the engine's parser writes it first, whatever the model said", self._state, ANY
        if self._guarded() and self._quoting.quoted:
            return self._quoted_ender(text, end, final)
        return self._unless_mentioned((Effect.DROP, "framing", None, ANY), text, end, final)

    def _unless_mentioned(self, verdict: Verdict, text: str, end: int, final: bool) -> Verdict | None:
        mentioned = self._mention(text, end, final)
        return None if mentioned is None else (Effect.TEXT, "only mentioned", None, ANY) if mentioned else verdict

    def _on_message_close(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._guarded() and self._quoting.quoted:
            return self._quoted_ender(text, end, final)
        if self._guarded() and self._state not in (*BLANK, State.THINK_START) and not self._turns(rule):
            ends = either(line_end(text, end, final), self._ahead.structure(text, end, final))
            if not ends:
                return None if ends is None else (Effect.TEXT, "the message goes on", None, ANY)
        if rule.index != ANY:
            return self._on_header(rule, text, end, final)
        return Effect.DROP, "ends the message", State.AFTER_TURN, ANY

    def _on_pair_open(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        self._pair_seen = True
        return Effect.TEXT, "an opening tag", None, ANY

    def _on_end_of_turn(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if not self._grammar.tags:
            return self._on_message_close(rule, text, end, final)
        if self._state in THINKING or self._quoting.quoted:
            return self._quoted_ender(text, end, final)
        if text.startswith("</", self._begin) and self._state not in BLANK:  # markup of the answer looks the same
            if self._pair_seen:
                self._pair_seen = False
                return Effect.TEXT, "closes a tag of the answer", None, ANY
            ends = self._turn_over(text, end, final)
        else:
            ends = self._turns(rule) or self._ends_line(text, end, final)
        if ends is None:
            return None
        if not ends:
            return Effect.TEXT, "an end-of-turn token in the middle of a line", None, ANY
        if rule.index != ANY:
            return self._on_header(rule, text, end, final)
        return Effect.DROP, "ends the turn", State.AFTER_TURN, ANY

    def _ends_line(self, text: str, end: int, final: bool) -> bool | None:
        """True where an ender of an answer of tags is none of its words: nothing stands before it, or behind it."""
        ends = self._state in BLANK or self._line_start(text) or line_end(text, end, final)
        if ends is not False:
            return ends
        return self._turn_over(text, end, final)

    def _turn_over(self, text: str, end: int, final: bool) -> bool | None:
        """True where only closers follow, or the next turn: behind blanks only where no sentence mentions both."""
        opens = self._ahead.turn_opens(text, end, final, blanks=not self._quoting.mid_sentence)
        return either(self._ahead.ending(text, end, final), opens)

    def _turns(self, rule: Rule) -> bool:
        """True where an end of turn is the next one's role token as well, and stands right behind a word or a sentence:
        it needs no line break (GLM 4.7 and later, Gemma 4).
        """
        return rule.index != ANY and self._quoting.word_end and not self._quoting.cited

    def _on_special(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        if self._guarded() and self._quoting.quoted:
            return Effect.TEXT, "quoted", None, ANY
        return Effect.DROP, "a token that is never text", None, ANY

    def _on_dangling(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        rest = text[end : end + self._run_cap]
        if self._guarded() and self._quoting.quoted:
            return Effect.TEXT, "quoted", None, ANY
        if rest.strip() or len(rest) == self._run_cap:
            return Effect.TEXT, "something follows it", None, ANY
        return (Effect.DROP, "markup that never came", None, ANY) if final else None

    def _on_header(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        header = self._grammar.headers[rule.index]
        if self._guarded() and self._quoting.quoted:
            return Effect.TEXT, "quoted", None, ANY
        limit = end + self._header_cap + len(header.close)
        close = text.find(header.close, end, limit)
        words = text[end : close if close >= 0 else limit]
        for within in header.within:
            words = words.replace(within, " ")
        if "\n" in words or self._ahead.marker_in(words):
            return self._no_header()
        if close < 0 and not final:
            return None if len(text) < limit else self._no_header()
        if close < 0 and not self._grammar.tags:
            return self._no_header()
        stop = close if close >= 0 else len(text)
        opener, said = plain(text[self._begin : end]), plain(text[self._begin : stop])  # a rule may look behind
        target = next((to for pattern, to in header.rules if pattern.fullmatch(said, len(opener))), None)
        led = self._state is State.AFTER_TURN or rule.group is Group.END_OF_TURN
        if target is None or (target == "foreign" and not led):  # no end of turn has come before another role's header
            return self._no_header()
        if self._state is State.ANSWER and not led and (target != "tool" or self._takes.control is Take.NO):
            return self._no_header()  # an answer goes on, but a call may follow it
        if target == "tool" and self._guarded() and self._quoting.cited:
            return self._no_header()
        mentioned = self._mention(text, stop + len(header.close), final)
        if mentioned is None:
            return None
        self._end = stop + len(header.close) if close >= 0 else stop
        if mentioned:
            return self._no_header()  # all of it: what stands in it opens nothing
        if target == "tool" and self._state in THINKING and self._guards_thought:
            return self._on_candidate(Rule(rule.group, self._grammar.message_region))
        if target == "tool":
            return Effect.FORWARD, "a message to a tool", State.TOOLS, self._grammar.message_region
        starts = self._grammar.tags and target == "answer"  # the turn may begin with a thought
        return Effect.DROP, f"a header: {target}", State.START if starts else _TARGET[target], ANY

    def _no_header(self) -> Verdict:
        """Behind an end of turn a header's opener is a control token whatever follows it; elsewhere it is text."""
        if self._state is State.AFTER_TURN and self._grammar.tags:
            return Effect.DROP, "opens a turn that says nothing", None, ANY
        return Effect.TEXT, "no header follows", None, ANY

    def _on_tool_open(self, rule: Rule, text: str, end: int, final: bool) -> Verdict | None:
        region = self._grammar.regions[rule.index]
        if self._guarded() and (self._quoting.quoted or self._quoting.cited):
            return Effect.TEXT, "quoted", None, ANY
        if self._failed >= FAILURES:
            return Effect.TEXT, "too much that looked like calls was none", None, ANY
        if region.markerless and (self._takes.markerless is Take.NO or not self._line_start(text)):
            return Effect.TEXT, "no call begins here", None, ANY
        if self._state in THINKING and (self._guards_thought or not region.ends_thought):
            return self._on_candidate(rule)
        if self._quoting.mid_sentence:  # a call's body follows its opener, never a full stop
            if end == len(text) and not final:
                return None
            told = region.bodies and self._take(region, thought=False) is Take.HOLD  # what follows a blank will tell
            if end == len(text) or (text[end] in _AFTER_A_MENTION and not (told and text[end] == " ")):
                return Effect.TEXT, "only mentioned", None, ANY
        return Effect.FORWARD, "opens a tool region", State.TOOLS, rule.index

    def _take(self, region: RegionRules, *, thought: bool) -> Take:
        """What is done with calls of such a region."""
        if region.markerless:
            return self._takes.markerless
        return self._takes.thought if thought else self._takes.control if region.control else self._takes.content

    def _on_candidate(self, rule: Rule) -> Verdict:
        """A call inside a thought is one only if the output ends with it (contract rule 5)."""
        if self._takes.thought is Take.HOLD:
            return Effect.FORWARD, "may be a call, if the output ends with it", None, rule.index
        if self._takes.thought is Take.WATCH:
            return Effect.TEXT, "may be a call, if the output ends with it: only watched", None, rule.index
        return Effect.TEXT, "still the thought", None, ANY


_ON: Final[dict[Group, Callable[[Verdicts, Rule, str, int, bool], Verdict | None]]] = {
    Group.THINK_OPEN: Verdicts._on_think_open,
    Group.THINK_CLOSE: Verdicts._on_think_close,
    Group.ANSWER_OPEN: Verdicts._on_answer_open,
    Group.ANSWER_CLOSE: Verdicts._on_answer_close,
    Group.FRAMING: Verdicts._on_framing,
    Group.MESSAGE_CLOSE: Verdicts._on_message_close,
    Group.END_OF_TURN: Verdicts._on_end_of_turn,
    Group.SPECIAL: Verdicts._on_special,
    Group.PAIR_OPEN: Verdicts._on_pair_open,
    Group.DANGLING: Verdicts._on_dangling,
    Group.HEADER: Verdicts._on_header,
    Group.TOOL_OPEN: Verdicts._on_tool_open,
}
