"""What is known about one answer before it comes, as the pipeline takes it: from route, request and protocol.

Owns which of the three decides. Must not know frames, pipelines or what becomes of the answer.
"""

from __future__ import annotations

from typing import Final

from gateway.exchange.route import RouteRules
from gateway.exchange.tooling import takes_of, tooling_of
from gateway.exchange.turns import INSIDE, Thinking
from gateway.findings import Finding
from gateway.integrity.end_string import spellings
from gateway.integrity.setting import Setting, StopWindow
from gateway.policy import Policy, ReasoningField
from gateway.protocols.protocol import RequestFacts
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.faults import STOP_DESYNC
from gateway.rulebook.in_step import in_step
from gateway.rulebook.openings import Opening
from gateway.streams.grammar import Takes

_KEEP_NOTHING_BACK: Final = ("sglang", "openai", "anthropic")  # engines whose split never lags behind a stop string


def thinking_of(facts: RequestFacts, rules: RouteRules) -> Thinking:
    """Whether the model thinks in a turn that it begins: the request says it, else the route (contract section 3)."""
    if facts.thinking != "unknown" or rules.thinking_default == "auto":
        return facts.thinking, facts.thinking_why
    return rules.thinking_default, f"the route's thinking_default is {rules.thinking_default}"


def late_parser(facts: RequestFacts, rules: RouteRules, *, endpoint: str, asked: bool, unread: bool) -> str | None:
    """The engine's parser, where it is known to cut a stream with stop strings at the wrong place.

    `endpoint`: as a protocol calls itself. `asked`: thinking was asked for. `unread`: its split is not what is read.
    """
    if not (facts.stops and facts.stream) or facts.keeps_stop or unread:
        return None
    met = rules.faults_met(endpoint=endpoint, stream=True, asked=asked, conditions=("stop",))
    return rules.parser.rpartition("/")[2] if any(fault.lint == STOP_DESYNC for fault in met) else None


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


def setting_of(
    facts: RequestFacts,
    rules: RouteRules,
    policy: Policy,
    *,
    body: bytes,
    thinking: Thinking,
    raw_text: bool,
    raw: bool,
    atoms: frozenset[str],
    late: str | None,
) -> Setting:
    """`raw_text`: engines never split the text, which is read as a field that may leak where it is left as it is.
    `raw`: the content is what the model wrote. `atoms`: literals that are marked where they are tokens. `late`: as
    `late_parser` has it."""
    hidden = policy.reasoning_field is ReasoningField.NONE
    dialect, off = rules.dialect, thinking[0] == "off"
    raw = hidden or policy.raw_text == "split" if raw_text else raw
    if facts.unsplit and not hidden:
        dialect = None
    takes, tooling = Takes(), None  # no call can be written into raw text
    if not raw_text:
        tooling = tooling_of(facts.tools, dialect=dialect, body=body)
        takes = takes_of(facts.tools, dialect=dialect, policy=policy, raw=raw, stream=facts.stream)
    return Setting(
        grammar=compile_dialect(dialect, atoms) if dialect else None,
        raw=raw,
        starts_open=thinking is INSIDE or (_starts_in(rules, dialect, raw=raw or raw_text) == "reasoning" and not off),
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
        stop_window=None if raw or raw_text else _stop_window(facts, rules, desync=late is not None and not off),
    )


def _starts_in(rules: RouteRules, dialect: Dialect | None, *, raw: bool) -> str:
    """Where the text starts: as the route says, else, where it is raw, the family."""
    asks = rules.starts_in == "auto" and raw
    return dialect.starts_in if asks and dialect else rules.starts_in


def _openings(facts: RequestFacts, rules: RouteRules) -> tuple[Opening, ...]:
    """The beginnings that are looked for; a preamble stands before structured output only."""
    return tuple(o for o in rules.openings if facts.structured or o.finding is not Finding.PREAMBLE)


def _closers(dialect: Dialect) -> list[str]:
    return [text for thought in dialect.thoughts for text in thought.close]
