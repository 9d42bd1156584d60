"""What the two shapes of an answer (streamed, whole) share: settings, pipelines, the report."""

from __future__ import annotations

import traceback
from typing import Any, Final

from gateway.exchange.route import Overrides, RouteRules
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.setting import Setting
from gateway.integrity.tally import Tally
from gateway.policy import Policy, Profile, ReasoningField, policy_for
from gateway.protocols.protocol import Part, RequestFacts, WireProtocol
from gateway.rulebook.compile import compile_dialect

_NAMES: Final[dict[ReasoningField, tuple[str, ...] | None]] = {
    ReasoningField.BOTH: ("reasoning", "reasoning_content"),
    ReasoningField.REASONING: ("reasoning",),
    ReasoningField.REASONING_CONTENT: ("reasoning_content",),
    ReasoningField.NONE: (),
    ReasoningField.AS_UPSTREAM: None,
}
_STOPPED: Final = ("stop", "tool_calls", "function_call")  # reader_spec section 3: the model ended by itself


class ExchangeReading:
    """Everything that is fixed before the first byte of the answer. `names` None: as the engine names the field."""

    def __init__(
        self, *, protocol: WireProtocol, facts: RequestFacts, rules: RouteRules, policy: Policy
    ) -> None:
        self.protocol = protocol
        self.limits = rules.limits
        self.policy = policy
        self.tally = Tally(policy)
        self.names = _NAMES[policy.reasoning_field]
        self.hidden = policy.reasoning_field is ReasoningField.NONE
        self.fault: str | None = None
        self._rules = rules
        self._setting = _setting(facts, rules, policy)

    def pipeline(self) -> Pipeline:
        """A pipeline for one choice."""
        return Pipeline(self._setting, self.tally)

    @staticmethod
    def ending(part: Part) -> dict[str, Any]:
        """How a choice ended: the keywords of `Pipeline.finish`."""
        return {
            "stopped": part.finish in _STOPPED,
            "length": part.finish == "length",
            "promotable": part.finish == "stop" and not isinstance(part.stop_reason, str) and not part.refusal,
        }

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


def effective_policy(policy: Policy, overrides: Overrides) -> Policy:
    """The route's policy as the request's headers narrow it; `reasoning_field: none` cannot be lifted."""
    field = overrides.reasoning_field
    if overrides.observe and policy.profile is not Profile.OBSERVE:
        policy = policy_for(Profile.OBSERVE, findings=policy.findings, dedup=policy.dedup)
    if field is None or policy.reasoning_field is ReasoningField.NONE or policy.profile is Profile.OBSERVE:
        return policy
    return policy.with_field(field)


def _setting(facts: RequestFacts, rules: RouteRules, policy: Policy) -> Setting:
    dialect, raw = rules.dialect, rules.source == "text"
    off = facts.thinking == "off" or (facts.thinking == "unknown" and rules.thinking_default == "off")
    starts_in = rules.starts_in
    if starts_in == "auto" and raw and dialect and not off:
        starts_in = dialect.starts_in
    hidden = policy.reasoning_field is ReasoningField.NONE or facts.hides_reasoning
    return Setting(
        grammar=compile_dialect(dialect) if dialect else None,
        raw=raw,
        starts_open=starts_in == "reasoning",
        thinking_off=off,
        wanted=facts.wants_reasoning and not facts.constrained,
        hidden=hidden,
        promotable=dialect is None or dialect.promote,
        policy=policy,
        limits=rules.limits,
    )
