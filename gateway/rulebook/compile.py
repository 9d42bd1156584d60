"""Dialect to grammar: which markers are live in which state (reader_spec section 3, contract rule 3), as one table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from gateway.events import Group
from gateway.rulebook.dialect import Dialect, Kind, Reopen, ToolRegion
from gateway.streams.grammar import ANY, Grammar, HeaderGrammar, Rule, State
from gateway.streams.markers import Plan

# Groups that are live in every state of the same name; openers, closers and regions are added per pair below.
_ENDERS = (Group.ANSWER_CLOSE, Group.FRAMING, Group.END_OF_TURN)
_LIVE: dict[tuple[Kind, State], tuple[Group, ...]] = {
    (Kind.TAG, State.START): (Group.THINK_OPEN, Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ENDERS, Group.TOOL_OPEN),
    (Kind.TAG, State.AFTER_CLOSER): (Group.THINK_OPEN, Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ENDERS, Group.TOOL_OPEN),
    (Kind.TAG, State.ANSWER): (Group.THINK_OPEN, Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ENDERS, Group.TOOL_OPEN),
    (Kind.TAG, State.THINK_START): (Group.THINK_OPEN, Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ENDERS),
    (Kind.TAG, State.THINK): (Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ENDERS),
    (Kind.CONTROL, State.START): (
        Group.THINK_OPEN, Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ENDERS, Group.MESSAGE_CLOSE, Group.HEADER, Group.TOOL_OPEN,
    ),
    (Kind.CONTROL, State.OPENABLE): (
        Group.THINK_OPEN, Group.ANSWER_OPEN, *_ENDERS, Group.MESSAGE_CLOSE, Group.HEADER, Group.TOOL_OPEN,
    ),
    (Kind.CONTROL, State.ANSWER): (Group.ANSWER_OPEN, *_ENDERS, Group.MESSAGE_CLOSE, Group.TOOL_OPEN),
    (Kind.CONTROL, State.THINK_START): (
        Group.THINK_OPEN, Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ENDERS, Group.MESSAGE_CLOSE, Group.HEADER, Group.TOOL_OPEN,
    ),
    (Kind.CONTROL, State.THINK): (
        Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ENDERS, Group.MESSAGE_CLOSE, Group.HEADER, Group.TOOL_OPEN,
    ),
}
_THINKING = (State.THINK_START, State.THINK)


@lru_cache(maxsize=512)
def compile_dialect(dialect: Dialect) -> Grammar:
    """The grammar of `dialect`; the same object for an equal dialect."""
    regions = _regions(dialect)
    plans: dict[tuple[State, int], Plan[Rule]] = {}
    for (kind, state), groups in _LIVE.items():
        if kind is dialect.kind:
            pairs = range(ANY, len(dialect.thoughts)) if state in _THINKING else range(ANY, 0)
            for pair in pairs:
                plans[state, pair] = Plan(dict(_live(dialect, regions, state, groups, pair)))
    for index, region in enumerate(regions):
        plans[State.TOOLS, index] = Plan(dict(_in_region(region, index)))
        closer = {region.argument_close: Rule(Group.ARGUMENT_CLOSE, index)} if region.argument_close else {}
        plans[State.ARGUMENT, index] = Plan(closer)
    plans[State.FOREIGN, ANY] = Plan({})
    enders = _literals(dialect, (*_ENDERS, Group.MESSAGE_CLOSE, Group.THINK_CLOSE))
    longest = max((len(text) for plan in plans.values() for text in plan.rules), default=1)
    return Grammar(
        name=dialect.name,
        tags=dialect.kind is Kind.TAG,
        reopen_lines=dialect.reopen is Reopen.LINE_START,
        reopen_closer=dialect.reopen is not Reopen.NEVER,
        replays=dialect.replays,
        plans=plans,
        enders=re.compile("|".join(map(re.escape, sorted(enders, key=len, reverse=True)))) if enders else None,
        ender_prefixes=frozenset(text[:size] for text in enders for size in range(1, len(text))),
        header=_header(dialect, regions),
        longest=longest,
    )


def _regions(dialect: Dialect) -> tuple[ToolRegion, ...]:
    """The declared regions, and one for the body of a tool message where the dialect has headers."""
    if dialect.header is None:
        return dialect.regions
    return (*dialect.regions, ToolRegion(open=(), close=(*dialect.message_close, *dialect.end_of_turn)))


def _literals(dialect: Dialect, groups: tuple[Group, ...]) -> list[str]:
    by_group = {
        Group.THINK_CLOSE: [text for thought in dialect.thoughts for text in thought.close],
        Group.ANSWER_OPEN: dialect.answer_open,
        Group.ANSWER_CLOSE: dialect.answer_close,
        Group.FRAMING: dialect.framing,
        Group.END_OF_TURN: dialect.end_of_turn,
        Group.MESSAGE_CLOSE: dialect.message_close,
        Group.HEADER: dialect.header.open if dialect.header else (),
    }
    return [text for group in groups for text in by_group.get(group, ())]


def _live(
    dialect: Dialect, regions: tuple[ToolRegion, ...], state: State, groups: tuple[Group, ...], pair: int
) -> Iterator[tuple[str, Rule]]:
    """The literals of one live set. Later ones win where a literal stands in two groups."""
    for group in groups:
        if group is Group.THINK_OPEN:
            if state is State.ANSWER and dialect.reopen is not Reopen.LINE_START:
                continue
            yield from ((text, Rule(group, i)) for i, t in enumerate(dialect.thoughts) for text in t.open)
        elif group is Group.THINK_CLOSE:
            yield from (
                (text, Rule(group, i))
                for i, thought in enumerate(dialect.thoughts)
                if pair in (ANY, i)
                for text in thought.close
            )
        elif group is Group.TOOL_OPEN:
            yield from (
                (text, Rule(group, i))
                for i, region in enumerate(regions)
                if region.ends_thought or state not in _THINKING
                for text in region.open
            )
        else:
            yield from ((text, Rule(group)) for text in _literals(dialect, (group,)))


def _in_region(region: ToolRegion, index: int) -> Iterator[tuple[str, Rule]]:
    yield from ((text, Rule(Group.FRAMING, index)) for text in region.ended_by)
    yield from ((text, Rule(Group.TOOL_CLOSE, index)) for text in region.close)
    if region.argument_open:
        yield region.argument_open, Rule(Group.ARGUMENT_OPEN, index)


def _header(dialect: Dialect, regions: tuple[ToolRegion, ...]) -> HeaderGrammar | None:
    if dialect.header is None:
        return None
    return HeaderGrammar(
        close=dialect.header.close,
        within=dialect.header.within,
        rules=tuple((re.compile(rule.text), str(rule.to)) for rule in dialect.header.rules),
        tool_region=len(regions) - 1,
    )
