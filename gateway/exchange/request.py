"""The request as the engine gets it: only in profile full, each change counted (contract section 5, requests)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gateway.exchange.asking import Asking, asked
from gateway.exchange.route import RouteRules
from gateway.findings import Finding
from gateway.integrity.tally import Tally
from gateway.policy import Policy, Profile
from gateway.protocols.protocol import HistoryRule, WireProtocol
from gateway.rulebook.compile import compile_dialect

ENGINE_FIELD: Final[Mapping[str, str]] = {"vllm": "reasoning", "sglang": "reasoning_content"}
"""The member an engine's templates read in an assistant turn: vLLM >= 0.16, SGLang 0.5 (reference/vllm.md 3.3)."""


def shaped_request(
    body: bytes, *, protocol: WireProtocol, rules: RouteRules, policy: Policy, asking: Asking, tally: Tally
) -> bytes:
    """The body to send; the same object when nothing is changed. A fault of ours leaves the request as it came."""
    if policy.profile is not Profile.FULL:
        return body
    shaped, done = body, Counter[str]()
    try:
        if policy.history != "leave":
            shaped, done = protocol.shape_history(body, _rule(rules, policy))
        shaped, more = asked(shaped, asking, rules)
    except Exception:  # the fence (contract rule 7): the engine answers what the client sent
        tally.uninspected["request_internal"] += 1
        return body
    for _ in range(done.pop("arguments_invalid", 0)):
        tally.add(Finding.TOOL_ARGS_INVALID, "emptied", where="request")
    tally.request.update(+done + more)
    return shaped


def _rule(rules: RouteRules, policy: Policy) -> HistoryRule:
    """`auto` is the family's rule; a family without one leaves its reasoning."""
    dialect = rules.dialect
    if dialect and dialect.invented:  # what the engine's parser writes of its own is taken out of every answer
        dialect = replace(dialect, invented=())
    family = dialect.history if dialect else "leave"
    return HistoryRule(
        keep=family if policy.history == "auto" else policy.history,
        field=ENGINE_FIELD.get(rules.engine),
        grammar=compile_dialect(dialect) if dialect else None,
        repair_arguments=policy.enforces(Finding.TOOL_ARGS_INVALID),
        limits=rules.limits,
    )
