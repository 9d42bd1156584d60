"""What the two shapes of an answer (streamed, whole) share: settings, pipelines, the report, what a fault leads to."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from gateway.errors import EngineFault
from gateway.events import CONTENT, REASONING
from gateway.exchange.calls import call_rules, quotes_of
from gateway.exchange.prompts import Prompts
from gateway.exchange.request import ENGINE_FIELD
from gateway.exchange.route import Overrides, RouteRules
from gateway.exchange.tooling import takes_of, tooling_of
from gateway.findings import Finding
from gateway.integrity.end_string import spellings
from gateway.integrity.lint import lint
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.raw import RawPipeline
from gateway.integrity.setting import Setting, StopWindow
from gateway.integrity.stop_pipeline import ResyncPipeline
from gateway.integrity.tally import Tally
from gateway.policy import Mode, Policy, Profile, ReasoningField, policy_for
from gateway.protocols.protocol import UNSAID, NotThisProtocol, Part, RequestFacts, Said, WireProtocol
from gateway.protocols.raw_text import RawText
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.engines import in_step, stop_desync
from gateway.rulebook.openings import Opening
from gateway.streams.grammar import Takes

_NAMES: Final[dict[ReasoningField, tuple[str, ...] | None]] = {
    ReasoningField.BOTH: ("reasoning", "reasoning_content"),
    ReasoningField.REASONING: ("reasoning",),
    ReasoningField.REASONING_CONTENT: ("reasoning_content",),
    ReasoningField.NONE: (),
    ReasoningField.AS_UPSTREAM: None,
}
_HIDES: Final = (Finding.REASONING_LEAK, Finding.BOUNDARY_TOKEN)  # what keeps a thought out of the content
_KEEP_NOTHING_BACK: Final = ("sglang", "openai", "anthropic")  # engines whose split never lags behind a stop string
_LOOPED: Final = "repetition"  # vLLM's own detection of it (reference/vllm.md 7)
_STOPPED: Final = ("stop", "tool_calls", "function_call")  # reader_spec section 3: the model ended by itself
NOTHING_SAID: Final = RequestFacts(
    model=None,
    stream=False,
    thinking="unknown",
    thinking_why="no member says it",
    wants_reasoning=False,
    hides_reasoning=False,
    unsplit=False,
    constrained=False,
    structured=False,
    stops=(),
    keeps_stop=False,
    wants_usage=False,
    tools=None,
)
"""The facts of a request that cannot be read."""


class ExchangeReading:
    """Everything that is fixed before the first byte of the answer.

    `names`: the reasoning fields to write, None: as the engine names them. `engine_names`: those of the route's engine,
    for an answer that shows none. `observe`: the engine's own bytes go out. `hidden`: no reasoning goes out, whatever
    happens. `secret`: some thought does not go out, so that what spells it out a second time must not either.
    `wants_usage`: the client asked a stream for its usage. `calls`: what is done with the engine's own tool calls.
    `adds_no_thought`: as `RequestFacts`, where the engine splits; a route's raw text is split on every endpoint alike
    (contract rule 1). `splits`: raw text is split; on a raw-text route that leaves it, what comes is
    only counted.
    """

    def __init__(
        self, *, protocol: WireProtocol, body: bytes, facts: RequestFacts, rules: RouteRules, policy: Policy
    ) -> None:
        self.protocol = protocol.without_commentary() if policy.phase_commentary == "drop" else protocol
        self.limits = rules.limits
        self._profile = policy.profile
        raw_text = isinstance(protocol, RawText)
        hidden = policy.reasoning_field is ReasoningField.NONE
        watches = raw_text and not hidden and (policy.raw_text == "leave" or policy.profile is Profile.OBSERVE)
        self.splits = raw_text and not watches
        if watches:
            policy = replace(policy, profile=Profile.OBSERVE)
        self.policy = policy
        self.tally = Tally(policy)
        self.tally.offered = facts.tools is not None and not raw_text
        self.names = None if watches else _NAMES[policy.reasoning_field]
        self.engine_names = (ENGINE_FIELD.get(rules.engine, "reasoning"),)
        self.hidden = hidden
        self.observe = self._profile is Profile.OBSERVE and not hidden
        self.wants_usage = facts.wants_usage
        self.fault: str | None = None
        self._rules = rules
        self._stops = facts.stops
        self._thinking, self._thinking_why = _thinking(facts, rules)
        desync = _desync(facts, rules, thinking=self._thinking, raw_text=raw_text)
        self._setting = _setting(
            facts, rules, policy, body=body, thinking=self._thinking, raw_text=raw_text, desync=desync is not None
        )
        self.adds_no_thought = facts.adds_no_thought and not self.observe and not self._setting.raw
        self._prompts: Prompts | None = None
        if raw_text:
            asks = rules.starts_in == "auto"
            self._prompts = Prompts(facts, self._setting, rules.dialect, asks=asks)
        self.secret = self.hidden or (self._setting.unsent and not self.observe)
        quotes, cap = quotes_of(rules.dialect), rules.limits.tool_region
        tools = None if raw_text else facts.tools
        self.calls = call_rules(tools, quotes=quotes, cap=cap, policy=policy, tally=self.tally)
        if not self._setting.thinking_off:
            for rule in lint(facts.stops, self._setting.grammar, desync=desync):
                self.tally.add(Finding.REQUEST_LINT, "flagged", rule=rule, where="request")

    def pipeline(self, index: object = 0) -> Pipeline:
        """A pipeline for choice `index`."""
        prompts = self._prompts
        if prompts is None:
            return (ResyncPipeline if self._setting.stop_window else Pipeline)(self._setting, self.tally)
        return RawPipeline(prompts.setting(index), self.tally, echo=prompts.echo(index), watches=not self.splits)

    def ending(self, part: Part) -> dict[str, bool]:
        """How a choice ended: the keywords of `Pipeline.finish`."""
        by_string = isinstance(part.stop_reason, str) or (part.stop_reason is UNSAID and bool(self._stops))
        return {
            "stopped": part.finish in _STOPPED,
            "length": part.finish == "length",
            "promotable": part.finish == "stop" and not isinstance(part.stop_reason, str),
            "stop_string": part.finish == "stop" and by_string,
            "looped": part.finish == _LOOPED,
        }

    def withholds(self, part: Part, pieces: list[Said] | None) -> bool:
        """True where the tokens beside a part may spell out a thought that its `pieces` (None: as it came) do not show.

        Asked where something is `secret`. Tokens without text of their own may be anything.
        """
        shown = part.content if pieces is None else content_of(pieces)
        if not self.hidden:
            return shown != part.content
        return bool(part.reasoning) or shown != part.content or not (shown or part.tools or part.finish)

    def without_thought(self, pieces: Iterable[Said]) -> list[Said]:
        """The pieces without reasoning, which is counted as suppressed."""
        kept: list[Said] = []
        for channel, said in pieces:
            if channel == REASONING and isinstance(said, str):
                self.tally.characters_suppressed += len(said)
            else:
                kept.append((channel, said))
        return kept

    def may_pass(self, *, internal: bool) -> bool:
        """True when bytes that were not read may go out (contract rule 7). `internal`: because our own code failed."""
        return not self.hidden and not (internal and self.policy.on_internal_error == "error")

    def report(self) -> dict[str, Any]:
        """The `integrity` object of the report. Never model text."""
        return {
            "profile": str(self._profile),
            "dialect": self._rules.dialect.name if self._rules.dialect else "none",
            "source": "text" if self._setting.raw or self._prompts else "fields",
            "thinking": self._thinking,
            "why": {"dialect": self._rules.dialect_why, "thinking": self._thinking_why},
            "attempts": 1,
            "findings": self.tally.report(),
        }

    def note_fault(self, fault: Exception) -> None:
        """Keep where our own fault happened, for the log: file, line and type, never a value."""
        last = traceback.extract_tb(fault.__traceback__)[-1]
        self.fault = f"{type(fault).__name__} at {last.filename.rpartition('/')[2]}:{last.lineno}"


def content_of(pieces: Iterable[Said]) -> str:
    """The text of an answer's pieces that is no reasoning."""
    return "".join([text for channel, text in pieces if channel != REASONING and isinstance(text, str)])


def came(reasoning: str, content: str) -> list[tuple[str, Any]]:
    """A delta as pieces, unchanged."""
    return [piece for piece in ((REASONING, reasoning), (CONTENT, content)) if piece[1]]


def reason_of(fault: Exception) -> str:
    """Under which name bytes are counted that went unread because of `fault`."""
    if isinstance(fault, NotThisProtocol):
        return str(fault).replace(" ", "_")
    return fault.code.removeprefix("integrity_") if isinstance(fault, EngineFault) else "internal"


def effective_policy(policy: Policy, overrides: Overrides) -> Policy:
    """The route's policy as the request's headers narrow it; `reasoning_field: none` cannot be lifted.

    An answer that is only observed keeps what moves thought out of content where reasoning is hidden.
    """
    field, hidden = overrides.reasoning_field, policy.reasoning_field is ReasoningField.NONE
    if overrides.observe and policy.profile is not Profile.OBSERVE:
        if hidden:
            watched = {finding: Mode.OBSERVE for finding in Finding if policy.enforces(finding)}
            findings = {**policy.findings, **watched, **{finding: policy.mode(finding) for finding in _HIDES}}
            return replace(policy, findings=findings, history="leave", phase_commentary="keep")
        kept = {name: getattr(policy, name) for name in ("findings", "dedup", "tool_rescue", "raw_text")}
        return policy_for(Profile.OBSERVE, **kept)
    return policy if field is None or hidden or policy.profile is Profile.OBSERVE else policy.with_field(field)


def _thinking(facts: RequestFacts, rules: RouteRules) -> tuple[str, str]:
    """`on`, `off` or `unknown`, and what decided: the request, else the route (contract section 3)."""
    if facts.thinking != "unknown" or rules.thinking_default == "auto":
        return facts.thinking, facts.thinking_why
    return rules.thinking_default, f"the route's thinking_default is {rules.thinking_default}"


def _desync(facts: RequestFacts, rules: RouteRules, *, thinking: str, raw_text: bool) -> str | None:
    """The engine's parser, where it is known to cut a stream with stop strings at the wrong place."""
    unread = rules.source == "text" or raw_text
    if not (facts.stops and facts.stream) or facts.keeps_stop or unread:
        return None
    return stop_desync(rules.parser, engine=rules.engine, version=rules.engine_version, asked=thinking == "on")


def may_lag(rules: RouteRules) -> bool:
    """True where the engine may keep text back for a stop string and cut the thought late."""
    splits = rules.source != "text" and rules.dialect is not None and bool(_closers(rules.dialect))
    if not splits or rules.engine in _KEEP_NOTHING_BACK:
        return False
    return not in_step(rules.parser, engine=rules.engine, version=rules.engine_version)


def _stop_window(facts: RequestFacts, rules: RouteRules, *, desync: bool) -> StopWindow | None:
    """The window of a request; nothing is kept back for one character, or for a string that stays."""
    longest = max(map(len, facts.stops), default=0)
    dialect = rules.dialect
    if dialect is None or longest < 2 or facts.keeps_stop or not may_lag(rules):
        return None
    openers = tuple(text for thought in dialect.thoughts for text in thought.open)
    return StopWindow(longest=longest, closers=tuple(_closers(dialect)), openers=openers, desync=desync)


def _setting(
    facts: RequestFacts, rules: RouteRules, policy: Policy, *, body: bytes, thinking: str, raw_text: bool, desync: bool
) -> Setting:
    """`raw_text`: engines never split the text, which is read as a field that may leak where it is left as it is.

    `desync`: the engine is known to cut this answer at the wrong place.
    """
    hidden = policy.reasoning_field is ReasoningField.NONE
    dialect, off = rules.dialect, thinking == "off"
    raw = hidden or policy.raw_text == "split" if raw_text else rules.source == "text"
    if facts.unsplit and not hidden:
        dialect = None
    takes, tooling = Takes(), None  # no call can be written into raw text
    if not raw_text:
        takes = takes_of(facts.tools, dialect=dialect, policy=policy, raw=raw, stream=facts.stream)
        tooling = tooling_of(facts.tools, dialect=dialect, body=body)
    starts_in = rules.starts_in
    if starts_in == "auto" and (raw or raw_text) and dialect:
        starts_in = dialect.starts_in
    return Setting(
        grammar=compile_dialect(dialect) if dialect else None,
        raw=raw,
        starts_open=starts_in == "reasoning" and not off,
        thinking_off=off,
        wanted=facts.wants_reasoning and not facts.constrained,
        hidden=hidden or facts.hides_reasoning,
        unsent=facts.hides_reasoning,
        promotable=dialect is not None and dialect.promote,
        policy=policy,
        limits=rules.limits,
        openings=_openings(facts, rules) if dialect else (),
        end_strings=spellings(rules.reasoning_end_string, _closers(dialect)) if dialect else (),
        unmarked=dialect.unmarked if dialect else (),
        takes=takes,
        tooling=tooling,
        stop_window=None if raw or raw_text else _stop_window(facts, rules, desync=desync and not off),
    )


def _openings(facts: RequestFacts, rules: RouteRules) -> tuple[Opening, ...]:
    """The beginnings that are looked for; a preamble stands before structured output only."""
    return tuple(o for o in rules.openings if facts.structured or o.finding is not Finding.PREAMBLE)


def _closers(dialect: Dialect) -> list[str]:
    return [text for thought in dialect.thoughts for text in thought.close]
