"""The tool calls of one choice on their way out: the engine's own, checked, and those that the gateway writes.

Owns the numbers, ids and finish reasons of calls (contract rules 4 and 5). Knows no wire shape: a protocol reads and
writes the entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.events import ToolCall
from gateway.exchange.own_call import OwnCall
from gateway.findings import Finding
from gateway.integrity.engine_calls import NOT_JSON, Checked, check_call
from gateway.integrity.outlet import Piece
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.tally import Tally
from gateway.policy import Mode, Policy, Profile
from gateway.protocols.protocol import CallChange, Fragment, NumberedCall, Said, Tools
from gateway.rulebook.dialect import Dialect
from gateway.streams.calls.brace_body import BracesBody

ID_DIGITS: Final = 24
STOP: Final = "stop"
CALLED: Final = "tool_calls"
BROKEN: Final = "error"  # vLLM's word for an answer that failed on its way


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """What a request and a route say of the engine's own calls.

    `schemas`: the declared tools. `named`: the client asked for a certain one. `unwanted`: it asked for none;
    `refuses`: then none goes out. `quotes`: string delimiters of the family. `holds`: a stream's call waits until it is
    whole. `cap`: characters of one call that are read.
    """

    schemas: Mapping[str, Any]
    named: bool
    unwanted: bool
    refuses: bool
    quotes: tuple[str, ...]
    holds: bool
    cap: int
    policy: Policy
    tally: Tally


def call_rules(tools: Tools | None, *, quotes: tuple[str, ...], cap: int, policy: Policy, tally: Tally) -> CallRules:
    """The rules of one exchange."""
    unwanted = tools is not None and tools.choice == "none"
    acts = policy.profile is not Profile.OBSERVE and policy.mode(Finding.TOOL_MARKUP_LEAK) is not Mode.OFF
    repairs = policy.enforces(Finding.TOOL_ARGS_REPAIRED) or policy.enforces(Finding.TOOL_NAME_REPAIRED)
    return CallRules(
        schemas=tools.schemas if tools else {},
        named=tools is not None and tools.choice == "named",
        unwanted=unwanted,
        refuses=unwanted and acts,
        quotes=quotes,
        holds=repairs and policy.tool_rescue.stream == "complete",
        cap=cap,
        policy=policy,
        tally=tally,
    )


def quotes_of(dialect: Dialect | None) -> tuple[str, ...]:
    """The literals that a family writes around the strings of its calls."""
    bodies = [body for region in dialect.regions for body in region.bodies] if dialect else []
    return tuple(dict.fromkeys(quote for body in bodies if isinstance(body, BracesBody) for quote in body.quote))


class ChoiceCalls:
    """The calls of one choice. `pipeline` is told of every one of the engine's that is whole.

    `own`: the engine's that go out; `others`: there are some of another shape. `rescued`, `dropped`: how many the
    gateway wrote, and took out. `stream`: they come in pieces.
    """

    __slots__ = (
        "_acts", "_choice", "_idents", "_last", "_latest", "_next", "_numbers", "_ours", "_pipeline", "_ripe",
        "_rules", "_written", "dropped", "others", "own", "rescued",
    )  # fmt: skip

    def __init__(self, rules: CallRules, pipeline: Pipeline, choice: int, *, stream: bool) -> None:
        self._rules = rules
        self._pipeline = pipeline
        self._choice = choice
        self._acts = rules.holds or not stream
        self._latest: dict[int, OwnCall] = {}  # by the index as sent
        self._last: OwnCall | None = None
        self._ripe: dict[int, OwnCall] = {}  # undecided, and whole: looked at once the answer goes on
        self._idents: set[str] = set()
        self._numbers: set[int] = set()
        self._ours: set[int] = set()  # those of the calls that the gateway wrote
        self._next = 0  # the first number behind them
        self._written = 0  # the number of the call that the gateway wrote last
        self.own: list[OwnCall] = []
        self.others = False
        self.rescued = 0
        self.dropped = 0

    # ------------------------------------------------------------------ the engine's own

    def take(self, fragment: Fragment) -> tuple[OwnCall, int, CallChange | None]:
        """A fragment's call, its number there, and what becomes of it at once."""
        call = self._last if fragment.index is None else self._latest.get(fragment.index)
        if call is None or _begins(fragment, call):
            call = self._begin(fragment)
        self._last = call
        number = call.take(fragment)
        self._idents.add(fragment.ident or "")
        if self._rules.refuses:
            return call, number, CallChange(gone=True)
        if call.length > self._rules.cap:
            call.give_up()
        if not call.over and call.whole:
            self._try(call)
        if fragment.index == call.index:
            return call, number, None
        if call.displaced:
            return call, number, CallChange(index=call.index)
        if not call.moved:
            call.moved = True
            self._rules.tally.add(Finding.TOOL_ARGS_REPAIRED, "repaired", rule="index")
        moves = self._rules.policy.enforces(Finding.TOOL_ARGS_REPAIRED)
        return call, number, CallChange(index=call.index) if moves else None

    def take_all(self, fragments: Iterable[Fragment], *, stopped: bool) -> dict[int, CallChange]:
        """Whole calls of a choice that has ended: what does not stay as it came, by its place. `stopped`: by itself."""
        taken = [(fragment.place, *self.take(fragment)) for fragment in fragments]
        self.settle(stopped=stopped)
        changes = [(place, change or call.change(number)) for place, call, number, change in taken]
        return {place: change for place, change in changes if change is not None}

    def _begin(self, fragment: Fragment) -> OwnCall:
        self.past()
        index = fragment.index
        if index is None or index in self._numbers:
            index = self._next
        self._take_number(index)
        call = OwnCall(index, displaced=fragment.index in self._ours)
        if fragment.index is not None:
            self._latest[fragment.index] = call
        if self._rules.unwanted:
            rule, done = "tool_choice_none", self._rules.refuses
            self._rules.tally.add(Finding.TOOL_MARKUP_LEAK, "removed", rule=rule, done=done)
        if self._rules.refuses:
            self.dropped += 1
            call.give_up()
        else:
            self.own.append(call)
            self._rules.tally.calls["engine"] += 1
        return call

    def _try(self, call: OwnCall) -> None:
        """A call that is whole and clean goes out at once. An empty object may be a beginning: more may follow it."""
        if not call.tried:
            call.tried = True
            checked = self._check(call, stopped=True)
            if checked.clean and not checked.empty and call.as_came:
                call.send()
                self._pipeline.engine_call(call.name, checked.arguments)
        if call.undecided:
            self._ripe[call.index] = call

    def past(self) -> None:
        """The answer goes on behind its calls: those that are whole get nothing more."""
        ripe, self._ripe = self._ripe, {}
        for call in ripe.values():
            if call.undecided:
                self._settle(call, stopped=True)

    def settle(self, *, stopped: bool) -> None:
        """The choice has ended. `stopped`: by itself."""
        self._ripe = {}
        for call in self.own:
            if call.undecided:
                self._settle(call, stopped=stopped)
            call.over = True

    def _check(self, call: OwnCall, *, stopped: bool) -> Checked:
        rules = self._rules
        return check_call(
            call.name, call.arguments, text=call.text, schemas=rules.schemas, quotes=rules.quotes, stopped=stopped
        )

    def _settle(self, call: OwnCall, *, stopped: bool) -> None:
        self._rules.tally.calls["cut"] += not (stopped or call.whole)
        checked = self._check(call, stopped=stopped)
        name, arguments = call.name, call.arguments
        if not call.went_out_as(checked.arguments):
            self._invalid(NOT_JSON, stopped=stopped)
            call.give_up()
            return
        same = call.as_came
        if checked.renamed and self._done(Finding.TOOL_NAME_REPAIRED):
            name, same = checked.name, False
        if checked.repaired and self._done(Finding.TOOL_ARGS_REPAIRED):
            arguments, same = checked.arguments, False
        if checked.invalid:
            self._invalid(checked.invalid, stopped=stopped)
        if call.sent is None:
            self._pipeline.engine_call(name, arguments)
        if same or not self._acts:
            call.give_up()
        else:
            call.settle(name, arguments)

    def _done(self, finding: Finding) -> bool:
        """Count a repair; True where it is made. It is not where the calls of a stream go out as they come."""
        enforced = self._rules.policy.enforces(finding)
        self._rules.tally.add(finding, "kept" if enforced and not self._acts else "repaired")
        return enforced and self._acts

    def _invalid(self, rule: str, *, stopped: bool) -> None:
        self._rules.tally.add(Finding.TOOL_ARGS_INVALID, "flagged", rule=rule)
        if stopped:
            self._rules.tally.add(Finding.REGEN_WANTED, "flagged", rule=str(Finding.TOOL_ARGS_INVALID))

    # ------------------------------------------------------------------ the gateway's

    def numbered(self, pieces: Iterable[Piece | Said], answer: str) -> list[Said]:
        """The pieces with an index and an id for every call. `answer`: the id of the answer."""
        out: list[Said] = []
        for channel, said in pieces:
            out.append((channel, self._number(said, answer) if isinstance(said, ToolCall) else said))
        return out

    def _number(self, call: ToolCall, answer: str) -> NumberedCall:
        if call.more:
            return NumberedCall(self._written, "", "", call.arguments, more=True)
        index = self._written = self._next
        ident = call.ident
        if ident is None or ident in self._idents:
            digest = hashlib.sha256(f"{answer}\n{self._choice}\n{index}".encode("utf-8", "replace")).hexdigest()
            ident = f"call_{digest[:ID_DIGITS]}"
        self._idents.add(ident)
        self._take_number(index)
        self._ours.add(index)
        self.rescued += 1
        self._rules.tally.calls["rescued"] += 1
        return NumberedCall(index, ident, call.name, call.arguments)

    def _take_number(self, index: int) -> None:
        self._numbers.add(index)
        self._next = max(self._next, index + 1)

    def ending(self, finish: str | None) -> str | None:
        """Another word for the finish reason `finish`, or None (contract rules 4 and 5).

        The change is part of a rescue, and of a refusal; else it is a finding of its own.
        """
        if self._pipeline.call_broken:
            return BROKEN
        calls = bool(self.own or self.rescued or self.others)
        if finish == STOP and calls and not self.others and not self._rules.named:
            return CALLED if self.rescued or self._fixes() else None
        if finish == CALLED and not calls:
            return STOP if self.dropped or self._fixes() else None
        return None

    def _fixes(self) -> bool:
        self._rules.tally.add(Finding.FINISH_REASON_FIXED, "repaired")
        return self._rules.policy.enforces(Finding.FINISH_REASON_FIXED)


def _begins(fragment: Fragment, latest: OwnCall) -> bool:
    """True where a fragment is no more of the call before it: engines repeat an index, or leave it out."""
    if fragment.ident and latest.ident:
        return fragment.ident != latest.ident
    if fragment.index is not None or fragment.name is None:
        return False
    return latest.whole or fragment.name != latest.name
