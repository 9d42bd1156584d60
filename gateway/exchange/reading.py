"""What the two shapes of an answer (streamed, whole) share: settings, pipelines, the report, what a fault leads to."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from gateway.errors import EngineFault
from gateway.events import REASONING
from gateway.exchange.asking import NOTHING, Asking, ids_read
from gateway.exchange.calls import CallRules, call_rules, quotes_of
from gateway.exchange.prompts import Prompts
from gateway.exchange.request import ENGINE_FIELD
from gateway.exchange.route import Overrides, RouteRules
from gateway.exchange.settings import late_parser, setting_of, thinking_of
from gateway.exchange.turns import turn_says
from gateway.findings import Finding
from gateway.integrity.echoed import EchoedPipeline
from gateway.integrity.lint import lint
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.raw import RawPipeline
from gateway.integrity.raw_tokens import RawTokenPipeline
from gateway.integrity.stop_pipeline import InStepPipeline, ResyncPipeline, StoppingPipeline
from gateway.integrity.tally import Tally
from gateway.integrity.tokens import TokenPipeline
from gateway.policy import Mode, Policy, Profile, ReasoningField, policy_for
from gateway.protocols.generate import Generate
from gateway.protocols.protocol import UNSAID, NotThisProtocol, Part, RequestFacts, Said, Tools, WireProtocol
from gateway.protocols.raw_ids import IdsRead
from gateway.protocols.raw_text import RawText

_NAMES: Final[dict[ReasoningField, tuple[str, ...] | None]] = {
    ReasoningField.BOTH: ("reasoning", "reasoning_content"),
    ReasoningField.REASONING: ("reasoning",),
    ReasoningField.REASONING_CONTENT: ("reasoning_content",),
    ReasoningField.NONE: (),
    ReasoningField.AS_UPSTREAM: None,
}
_NEVER_ECHO: Final = ("sglang",)  # of chats: reference/sglang.md 3.1 has no such member
_HIDES: Final = (Finding.REASONING_LEAK, Finding.BOUNDARY_TOKEN)  # what keeps a thought out of the content
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


STOPPED: Final = {"stopped": True, "length": False, "promotable": False, "stop_string": True, "looped": False}
"""How a choice ends that a stop string ended: the keywords of `Pipeline.finish`."""


class ExchangeReading:
    """Everything that is fixed before the first byte of the answer.

    `names`: the reasoning fields to write, None: as the engine names them. `engine_names`: those of the route's engine,
    for an answer that shows none. `observe`: the engine's own bytes go out. `hidden`: no reasoning goes out, whatever
    happens. `unsent`: the client asked the engine for none. `secret`: some thought does not go out, so that what spells
    it out a second time must not either.
    `wants_usage`: the client asked a stream for its usage. `calls`: what is done with the engine's own tool calls.
    `adds_no_thought`: as `RequestFacts`, where the engine splits; a route's raw text is split on every endpoint alike
    (contract rule 1). `splits`: raw text is split; on a raw-text route that leaves it, what comes is
    only counted. `fault`: where our own code failed, if it did.
    """

    fault: str | None

    def __init__(
        self,
        *,
        protocol: WireProtocol,
        body: bytes,
        facts: RequestFacts,
        rules: RouteRules,
        policy: Policy,
        asking: Asking = NOTHING,
    ) -> None:
        self.protocol = protocol.without_commentary() if policy.phase_commentary == "drop" else protocol
        self.limits, self._profile = rules.limits, policy.profile
        raw_text = isinstance(protocol, RawText)
        # Of a request that hides the reasoning the tokens are asked for all the same: it is ours to hide then.
        hidden = policy.reasoning_field is ReasoningField.NONE or (bool(asking.tokens) and facts.hides_reasoning)
        watches = raw_text and not hidden and (policy.raw_text == "leave" or policy.profile is Profile.OBSERVE)
        self.splits = raw_text and not watches
        if watches:
            policy = replace(policy, profile=Profile.OBSERVE)
        self.policy, self.tally = policy, Tally(policy)
        self.tally.offered = facts.tools is not None and not raw_text
        self.names = None if watches else _NAMES[policy.reasoning_field]
        self.engine_names = (ENGINE_FIELD.get(rules.engine, "reasoning"),)
        self.hidden, self.fault = hidden, None
        self.observe = self._profile is Profile.OBSERVE and not hidden
        self.wants_usage = facts.wants_usage
        self.asking, self._rules, self._raw_text = asking, rules, raw_text
        self._ids = self._ids_read(facts)
        self._stops, self._keeps_stop = facts.stops, facts.keeps_stop
        self._thinking = turn_says(facts, rules) or thinking_of(facts, rules)
        late = self._late(facts)
        made = partial(setting_of, facts, rules, policy, body=body, thinking=self._thinking, raw_text=raw_text)
        self._setting = made(raw=rules.source == "text" or bool(asking.tokens), atoms=self._atoms(), late=late)
        self._split = partial(made, raw=False, atoms=frozenset(), late=late)  # how the engine's own split is read
        self.adds_no_thought = facts.adds_no_thought and not self.observe and not self._setting.raw
        self._prompts = self._prompts_of(facts)
        self.unsent = self._setting.unsent
        self.secret = self.hidden or (self.unsent and not self.observe)
        self.calls = self._calls(None if raw_text else facts.tools)
        self._lint(facts, late)

    def _ids_read(self, facts: RequestFacts) -> IdsRead | None:
        """How raw text is read from its token ids; None: it is not."""
        found = ids_read(facts, self._rules, self.policy, protocol=self.protocol.name) if self.splits else None
        self.protocol = Generate(found) if found else self.protocol
        return found

    def _atoms(self) -> frozenset[str]:
        """The literals that are marked where they are tokens."""
        read = self.asking.tokens or self._ids
        return read.markers.texts if read else frozenset()

    def _prompts_of(self, facts: RequestFacts) -> Prompts | None:
        rules, asks = self._rules, self._raw_text and self._rules.starts_in == "auto"
        tells = self._raw_text or (facts.echo and rules.engine not in _NEVER_ECHO)
        return Prompts(facts, self._setting, rules.dialect, asks=asks) if tells else None

    def _late(self, facts: RequestFacts) -> str | None:
        unread = self._rules.source == "text" or bool(self.asking.tokens) or self._raw_text
        asked = self._thinking[0] == "on"
        return late_parser(facts, self._rules, endpoint=self.protocol.name, asked=asked, unread=unread)

    def _calls(self, tools: Tools | None) -> CallRules:
        quotes, cap = quotes_of(self._rules.dialect), self._rules.limits.tool_region
        return call_rules(tools, quotes=quotes, cap=cap, policy=self.policy, tally=self.tally)

    def _lint(self, facts: RequestFacts, late: str | None) -> None:
        if not self._setting.thinking_off:
            for rule in lint(facts.stops, self._setting.grammar, desync=late):
                self.tally.add(Finding.REQUEST_LINT, "flagged", rule=rule, where="request")

    def pipeline(self, index: object = 0, *, by_ids: bool = False) -> Pipeline:
        """A pipeline for choice `index`. `by_ids`: its raw text is told by its token ids."""
        prompts = self._prompts
        asking, stops = self.asking, self.asking.stops
        if asking.tokens:
            return TokenPipeline(self._setting, self.tally, stops=stops, keeps=self._keeps_stop)
        if asking.stop == "gateway":
            return StoppingPipeline(self._setting, self.tally, stops=stops)
        if asking.stop == "in_step":
            return InStepPipeline(self._setting, self.tally, stops=stops, keep=False)
        if prompts is None:
            return (ResyncPipeline if self._setting.stop_window else Pipeline)(self._setting, self.tally)
        setting, echo = prompts.setting(index), prompts.echo(index)
        if not self._raw_text:
            return EchoedPipeline(setting, self.tally, echo=echo)
        if self._ids and by_ids:
            return RawTokenPipeline(setting, self.tally, stops=self._stops, keeps=self._keeps_stop)
        if self._ids:
            self.tally.uninspected["tokens_missing"] += 1
            setting = replace(setting, grammar=self._split().grammar)
        return RawPipeline(setting, self.tally, echo=echo, watches=not self.splits)

    def split_pipeline(self) -> Pipeline:
        """A pipeline for a choice whose tokens were asked for and did not come: it is as the engine split it."""
        self.tally.uninspected["tokens_missing"] += 1
        return Pipeline(self._split(), self.tally)

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
            "source": self._source(),
            "thinking": self._thinking[0],
            "why": {"dialect": self._rules.dialect_why, "thinking": self._thinking[1], **self._asked_why()},
            "attempts": 1,
            "findings": self.tally.report(),
        }

    def _asked_why(self) -> dict[str, str]:
        """Why the engine was asked otherwise than the client asked, where `auto` decided it."""
        faults = self.asking.why
        return {"request": f"known faults of the engine: {', '.join(faults)}"} if faults else {}

    def _source(self) -> str:
        if self.asking.tokens or self._ids:
            return "tokens"
        return "text" if self._setting.raw or self._raw_text else "fields"

    def note_fault(self, fault: Exception) -> None:
        """Keep where our own fault happened, for the log: file, line and type, never a value."""
        last = traceback.extract_tb(fault.__traceback__)[-1]
        self.fault = f"{type(fault).__name__} at {last.filename.rpartition('/')[2]}:{last.lineno}"


def content_of(pieces: Iterable[Said]) -> str:
    """The text of an answer's pieces that is no reasoning."""
    return "".join([text for channel, text in pieces if channel != REASONING and isinstance(text, str)])


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
