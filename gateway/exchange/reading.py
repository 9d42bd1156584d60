"""What the two shapes of an answer (streamed, whole) share: settings, pipelines, the report, what a fault leads to."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import Any, Final

from gateway.errors import EngineFault
from gateway.events import CONTENT, REASONING
from gateway.exchange.request import ENGINE_FIELD
from gateway.exchange.route import Overrides, RouteRules
from gateway.findings import Finding
from gateway.integrity.end_string import spellings
from gateway.integrity.lint import lint
from gateway.integrity.outlet import Piece
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.setting import Setting
from gateway.integrity.tally import Tally
from gateway.policy import Mode, Policy, Profile, ReasoningField, policy_for
from gateway.protocols.protocol import UNSAID, NotThisProtocol, Part, RequestFacts, WireProtocol
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.openings import Opening

_NAMES: Final[dict[ReasoningField, tuple[str, ...] | None]] = {
    ReasoningField.BOTH: ("reasoning", "reasoning_content"),
    ReasoningField.REASONING: ("reasoning",),
    ReasoningField.REASONING_CONTENT: ("reasoning_content",),
    ReasoningField.NONE: (),
    ReasoningField.AS_UPSTREAM: None,
}
_HIDES: Final = (Finding.REASONING_LEAK, Finding.BOUNDARY_TOKEN)  # what keeps a thought out of the content
_LOOPED: Final = "repetition"  # vLLM's own detection of it (reference/vllm.md 7)
_STOPPED: Final = ("stop", "tool_calls", "function_call")  # reader_spec section 3: the model ended by itself
NOTHING_SAID: Final = RequestFacts(
    model=None,
    stream=False,
    thinking="unknown",
    wants_reasoning=False,
    hides_reasoning=False,
    unsplit=False,
    constrained=False,
    structured=False,
    stops=(),
    wants_usage=False,
)
"""The facts of a request that cannot be read."""


class ExchangeReading:
    """Everything that is fixed before the first byte of the answer.

    `names`: the reasoning fields to write, None: as the engine names them. `engine_names`: those of the route's engine,
    for an answer that shows none. `observe`: the engine's own bytes go out. `hidden`: no reasoning goes out, whatever
    happens. `secret`: some thought does not go out, so that what spells it out a second time must not either.
    `wants_usage`: the client asked a stream for its usage.
    """

    def __init__(self, *, protocol: WireProtocol, facts: RequestFacts, rules: RouteRules, policy: Policy) -> None:
        self.protocol = protocol
        self.limits = rules.limits
        self.policy = policy
        self.tally = Tally(policy)
        self.names = _NAMES[policy.reasoning_field]
        self.engine_names = (ENGINE_FIELD.get(rules.engine, "reasoning"),)
        self.hidden = policy.reasoning_field is ReasoningField.NONE
        self.observe = policy.profile is Profile.OBSERVE and not self.hidden
        self.wants_usage = facts.wants_usage
        self.fault: str | None = None
        self._rules = rules
        self._stops = facts.stops
        self._setting = _setting(facts, rules, policy)
        self.secret = self.hidden or (self._setting.unsent and not self.observe)
        if not self._setting.thinking_off:
            for rule in lint(facts.stops, self._setting.grammar):
                self.tally.add(Finding.REQUEST_LINT, "flagged", rule=rule, where="request")

    def pipeline(self) -> Pipeline:
        """A pipeline for one choice."""
        return Pipeline(self._setting, self.tally)

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

    def withholds(self, part: Part, pieces: list[Piece] | None) -> bool:
        """True where the tokens beside a part may spell out a thought that its `pieces` (None: as it came) do not show.

        Asked where something is `secret`. Tokens without text of their own may be anything.
        """
        shown = part.content if pieces is None else "".join([text for channel, text in pieces if channel != REASONING])
        if not self.hidden:
            return shown != part.content
        return bool(part.reasoning) or shown != part.content or not (shown or part.tools or part.finish)

    def may_pass(self, *, internal: bool) -> bool:
        """True when bytes that were not read may go out (contract rule 7). `internal`: because our own code failed."""
        return not self.hidden and not (internal and self.policy.on_internal_error == "error")

    def report(self) -> dict[str, Any]:
        """The `integrity` object of the report. Never model text."""
        return {
            "profile": str(self.policy.profile),
            "dialect": self._rules.dialect.name if self._rules.dialect else "none",
            "source": "text" if self._setting.raw else "fields",
            "attempts": 1,
            "findings": self.tally.report(),
        }

    def note_fault(self, fault: Exception) -> None:
        """Keep where our own fault happened, for the log: file, line and type, never a value."""
        last = traceback.extract_tb(fault.__traceback__)[-1]
        self.fault = f"{type(fault).__name__} at {last.filename.rpartition('/')[2]}:{last.lineno}"


def came(reasoning: str, content: str) -> list[Piece]:
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
            return replace(policy, findings=findings, history="leave")
        return policy_for(Profile.OBSERVE, findings=policy.findings, dedup=policy.dedup)
    return policy if field is None or hidden or policy.profile is Profile.OBSERVE else policy.with_field(field)


def _setting(facts: RequestFacts, rules: RouteRules, policy: Policy) -> Setting:
    dialect, raw = rules.dialect, rules.source == "text"
    off = facts.thinking == "off" or (facts.thinking == "unknown" and rules.thinking_default == "off")
    hidden = policy.reasoning_field is ReasoningField.NONE
    if facts.unsplit and not hidden:
        dialect = None
    starts_in = rules.starts_in
    if starts_in == "auto" and raw and dialect:
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
    )


def _openings(facts: RequestFacts, rules: RouteRules) -> tuple[Opening, ...]:
    """The beginnings that are looked for; a preamble stands before structured output only."""
    return tuple(o for o in rules.openings if facts.structured or o.finding is not Finding.PREAMBLE)


def _closers(dialect: Dialect) -> list[str]:
    return [text for thought in dialect.thoughts for text in thought.close]
