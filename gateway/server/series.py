"""Which findings, actions and holds a route can show: their series are there, at zero, before anything was counted.

Owns what a configuration rules out. Must not know the registry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.exchange.route import RouteRules
from gateway.exchange.settings import may_lag
from gateway.findings import Finding
from gateway.integrity.stages import moves_thought
from gateway.policy import Mode, Policy, Profile, ReasoningField
from gateway.rulebook.compile import compile_dialect
from gateway.server.catalogue import ACTIONS, ASKED, CAPPED, HISTORY, WITHHELD
from gateway.server.config import Route

Remedy = tuple[str, str, str]
"""Rule (a finding, or the part that was changed), action, outcome: labels of the families of remediations."""

HISTORY_RULE: Final = "history"
REQUEST_RULE: Final = "request"
_OF_MARKERS: Final = frozenset(
    {Finding.REASONING_LEAK, Finding.BOUNDARY_TOKEN, Finding.SPECIAL_TOKEN, Finding.ROLE_TOKEN}
)
_PLACES: Final = ("content", "reasoning", "markerless")  # where a call can be left as text
_OF_REQUESTS: Final = "emptied"  # what is done about arguments in earlier turns; those of an answer are only flagged


def findings_of(route: Route) -> set[Finding]:
    """The findings that the route's exchanges can show."""
    policy = route.rules.policy
    found = {finding for finding in Finding if policy.mode(finding) is not Mode.OFF}
    dialects = [rules.dialect for rules in _variants(route) if rules.dialect is not None]
    found -= frozenset() if dialects else _OF_MARKERS
    rescues = any(policy.rescue(place) is not Mode.OFF for place in _PLACES)
    reads = any(dialect.reads_calls and dialect.regions for dialect in dialects)
    return found if rescues and reads else found - {Finding.TOOL_RESCUED}


def remedies_of(route: Route) -> set[Remedy]:
    """What can be done in the route's requests and answers."""
    found = findings_of(route)
    remedies: set[Remedy] = {
        (str(finding), action, "ok")
        for finding in found
        for action in ACTIONS.get(finding, ())
        if action != _OF_REQUESTS or _shapes(route.rules.policy)
    }
    if _replays(route) and Finding.ANSWER_IN_REASONING in found:
        remedies.add((str(Finding.ANSWER_IN_REASONING), CAPPED, "capped"))
    if _shapes(route.rules.policy):
        remedies |= {request_remedy(name) for name in HISTORY}
    remedies |= {request_remedy(name) for name in _asked(route.rules.policy)}
    if route.rules.policy.profile is not Profile.OBSERVE:
        remedies |= {withheld_remedy(name) for name in WITHHELD}
    return remedies


def request_remedy(name: str) -> Remedy:
    """A change of a request, or of an earlier turn in one, by its name in `Tally.request`."""
    rule = REQUEST_RULE if name in ASKED else HISTORY_RULE
    return rule, f"{rule}_{name}", "ok"


def withheld_remedy(name: str) -> Remedy:
    """A member of an answer that was taken out, by its name in `Tally.withheld`."""
    return name, "withheld", "ok"


def holds_of(route: Route) -> set[str]:
    """For which windows (`gateway.integrity.holds`) the route's streams can be late."""
    return {cause for rules in _variants(route) for cause in _holds(rules)}


def _holds(rules: RouteRules) -> Iterator[str]:
    policy, dialect = rules.policy, rules.dialect
    if policy.profile is Profile.OBSERVE:
        return
    shown = policy.reasoning_field is not ReasoningField.NONE
    if policy.dedup.enabled and policy.enforces(Finding.DUPLICATE_SUPPRESSED) and shown:
        yield "dedup"
    checks = policy.enforces(Finding.TOOL_ARGS_REPAIRED) or policy.enforces(Finding.TOOL_NAME_REPAIRED)
    if checks and policy.tool_rescue.stream == "complete":
        yield "tool_region"
    if dialect is None:
        return
    yield from ("marker", "quoted_end")
    if compile_dialect(dialect).header_opens:
        yield "header"
    if dialect.reads_calls and dialect.regions:
        yield "tool_region"
    if rules.reasoning_end_string:
        yield "end_string"
    if rules.source != "text" and (rules.starts_in == "reasoning" or not dialect.message_close):
        yield "unknown_start"  # without the key too: a request may go on with a turn that ends in its thought
    if may_lag(rules) and moves_thought(policy):
        yield "stop"
    promotes = dialect.promote and policy.promote_reasoning == "thinking_off" and shown
    if promotes and policy.enforces(Finding.ANSWER_IN_REASONING):
        yield "promote"


def _variants(route: Route) -> list[RouteRules]:
    return [route.rules, *(variant.rules for variant in route.by_model.values())]


def _replays(route: Route) -> bool:
    return any(rules.dialect is not None and rules.dialect.replay for rules in _variants(route))


def _asked(policy: Policy) -> Iterator[str]:
    """How the engine may be asked otherwise (`gateway.exchange.asking`)."""
    if policy.profile is Profile.FULL:
        yield from ("tokens_asked",) if policy.tokens != "never" else ()
        yield from ("stop_in_step",) if policy.stop in ("auto", "in_step") else ()
        yield from ("stop_removed",) if policy.stop in ("auto", "gateway") else ()


def _shapes(policy: Policy) -> bool:
    """True where requests are changed (`gateway.exchange.request`)."""
    return policy.profile is Profile.FULL and policy.history != "leave"
