"""Dialect to grammar: which markers are live in which state (reader_spec section 3, contract rule 3), as one table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from gateway.events import Group
from gateway.rulebook.dialect import Dialect, Header, Kind, Reopen, Thought, ToolRegion
from gateway.rulebook.marked import mark
from gateway.streams.calls.region import RegionRules, region_rules
from gateway.streams.grammar import ANY, FIELD, FIRST, TAIL, Grammar, HeaderGrammar, Rule, State
from gateway.streams.markers import Plan

_ENDERS = (Group.ANSWER_CLOSE, Group.FRAMING, Group.END_OF_TURN)
_ANY_ANSWER = (*_ENDERS, Group.PAIR_OPEN, Group.SPECIAL, Group.DANGLING, Group.TOOL_OPEN)
_BEFORE_ANSWER = (Group.THINK_OPEN, Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ANY_ANSWER)
_IN_THOUGHT = (Group.THINK_CLOSE, Group.ANSWER_OPEN, *_ENDERS, Group.SPECIAL, Group.DANGLING, Group.TOOL_OPEN)
_CONTROL_ANSWER = (Group.ANSWER_OPEN, *_ENDERS, Group.MESSAGE_CLOSE, Group.SPECIAL, Group.TOOL_OPEN)
_CONTROL_THOUGHT = (*_IN_THOUGHT, Group.MESSAGE_CLOSE, Group.HEADER)
# Which groups are live in which state. Openers, closers and regions are narrowed in `_live`.
_LIVE: dict[tuple[Kind, State], tuple[Group, ...]] = {
    (Kind.TAG, State.START): (*_BEFORE_ANSWER, Group.HEADER),
    (Kind.TAG, State.AFTER_CLOSER): _BEFORE_ANSWER,
    (Kind.TAG, State.AFTER_TURN): (*_BEFORE_ANSWER, Group.HEADER),
    (Kind.TAG, State.ANSWER): _BEFORE_ANSWER,
    (Kind.TAG, State.THINK_START): (Group.THINK_OPEN, *_IN_THOUGHT),
    (Kind.TAG, State.THINK): _IN_THOUGHT,
    (Kind.TEXT, State.START): (Group.THINK_OPEN, *_ANY_ANSWER, Group.HEADER),
    (Kind.TEXT, State.AFTER_CLOSER): _ANY_ANSWER,
    (Kind.TEXT, State.AFTER_TURN): (*_ANY_ANSWER, Group.HEADER),
    (Kind.TEXT, State.ANSWER): _ANY_ANSWER,
    (Kind.TEXT, State.THINK_START): (Group.THINK_OPEN, *_IN_THOUGHT),
    (Kind.TEXT, State.THINK): _IN_THOUGHT,
    (Kind.CONTROL, State.START): (Group.THINK_OPEN, Group.THINK_CLOSE, *_CONTROL_ANSWER, Group.HEADER),
    (Kind.CONTROL, State.AFTER_TURN): (Group.THINK_OPEN, Group.THINK_CLOSE, *_CONTROL_ANSWER, Group.HEADER),
    (Kind.CONTROL, State.OPENABLE): (Group.THINK_OPEN, *_CONTROL_ANSWER, Group.HEADER),
    (Kind.CONTROL, State.AFTER_CLOSER): (Group.THINK_OPEN, Group.THINK_CLOSE, *_CONTROL_ANSWER, Group.HEADER),
    (Kind.CONTROL, State.ANSWER): (*_CONTROL_ANSWER, Group.HEADER),
    (Kind.CONTROL, State.THINK_START): (Group.THINK_OPEN, *_CONTROL_THOUGHT),
    (Kind.CONTROL, State.THINK): _CONTROL_THOUGHT,
}
_THINKING = (State.THINK_START, State.THINK)
_SPOKEN = (State.OPENABLE, State.ANSWER)
_FIRST = (State.START, State.THINK_START)  # where an output begins
_BESIDE = re.compile(r"(<\|[^|<>]+\|>)(\w+)(?=<\|)")  # a word between two control tokens


@lru_cache(maxsize=512)
def compile_dialect(dialect: Dialect, atoms: frozenset[str] = frozenset()) -> Grammar:
    """The grammar of `dialect`; the same object for an equal dialect.

    `atoms`: for text that was made of tokens, what of the literals is one token (`gateway.streams.tokens`).
    """
    dialect = _spelled(dialect)
    if atoms:
        dialect = mark(dialect, atoms)
    regions = _regions(dialect)
    plans = _plans(dialect, regions, tokens=bool(atoms))
    structure = _structure(plans)
    enders = _literals(dialect, (*_ENDERS, Group.MESSAGE_CLOSE, Group.THINK_CLOSE))
    longest = max((len(text) for plan in plans.values() for text in plan.rules), default=1)
    tail = re.compile(rf"[0-9A-Za-z_-]{{1,{TAIL}}}>") if dialect.suffixed else None
    return Grammar(
        name=dialect.name,
        tags=dialect.kind is not Kind.CONTROL,
        sentences=dialect.kind is Kind.TEXT,
        reopen_lines=dialect.reopen is Reopen.LINE_START,
        reopen_closer=dialect.reopen is not Reopen.NEVER,
        replays=dialect.replay,
        plans=plans,
        structure=_alternation(structure, tail) if structure else None,
        structure_prefixes=frozenset(text[:size] for text in structure for size in range(1, len(text))),
        enders=_alternation(enders, tail) if enders else None,
        ender_prefixes=frozenset(text[:size] for text in enders for size in range(1, len(text))),
        headers=tuple(map(_header, dialect.headers)),
        header_opens=tuple(text for header in dialect.headers for text in header.open),
        regions=tuple(_region_rules(dialect, region) for region in regions),
        message_region=len(regions) - 1 if dialect.headers else ANY,
        tail=tail,
        longest=longest + (TAIL + 1 if tail else 0),
    )


def _plans(dialect: Dialect, regions: tuple[ToolRegion, ...], *, tokens: bool) -> dict[tuple[State, int], Plan[Rule]]:
    """The live set of every state, by thought pair or tool region where that matters."""
    plans: dict[tuple[State, int], Plan[Rule]] = {}
    for state, groups in ((state, groups) for (kind, state), groups in _LIVE.items() if kind is dialect.kind):
        for pair in range(FIELD, len(dialect.thoughts)) if state in _THINKING else range(ANY, 0):
            seen = (Group.THINK_OPEN, *groups) if pair == FIELD and dialect.kind is Kind.TAG else groups
            if tokens and state in _SPOKEN:
                seen = (Group.THINK_CLOSE, *seen)  # one that is a token of its own is live everywhere
            plans[state, pair] = Plan(_with_tails(dialect, _live(dialect, regions, state, seen, pair)))
    if dialect.invented:
        written = dict.fromkeys(dialect.invented, Rule(Group.FRAMING, FIRST))
        plans |= {(state, FIRST): Plan({**plans[state, ANY].rules, **written}) for state in _FIRST}
    plans[State.TOOLS, ANY] = Plan({})  # what is live in a region is its own
    plans[State.FOREIGN, ANY] = Plan({})
    return plans


def _structure(plans: dict[tuple[State, int], Plan[Rule]]) -> list[str]:
    """The markers that may directly follow another one."""
    return sorted(
        {
            text
            for state in (State.START, State.THINK_START)
            for text, rule in plans[state, ANY].rules.items()
            if not rule.tail and rule.group is not Group.PAIR_OPEN
        }
    )


def _spelled(dialect: Dialect) -> Dialect:
    """The dialect with every spelling of a marker that is decoded with blanks beside the word in it."""
    if not dialect.spaced:
        return dialect
    thoughts = tuple(Thought(open=_spellings(t.open), close=_spellings(t.close)) for t in dialect.thoughts)
    return replace(
        dialect,
        thoughts=thoughts,
        answer_open=_spellings(dialect.answer_open),
        answer_close=_spellings(dialect.answer_close),
        message_close=_spellings(dialect.message_close),
        framing=_spellings(dialect.framing),
        end_of_turn=_spellings(dialect.end_of_turn),
        special=_spellings(dialect.special),
    )


def _spellings(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        _BESIDE.sub(rf"\g<1>{before}\g<2>{behind}", text)
        for text in texts
        for before in ("", " ")
        for behind in ("", " ")
        if _BESIDE.search(text) or not (before or behind)
    )


def _with_tails(dialect: Dialect, rules: Iterable[tuple[str, Rule]]) -> dict[str, Rule]:
    """The live set, with the beginning `<tag:` of each tag that a checkpoint may suffix."""
    live = dict(rules)
    if dialect.suffixed:
        tags = [(text, rule) for text, rule in live.items() if text.endswith(">")]
        live |= {f"{text[:-1]}:": Rule(rule.group, rule.index, tail=True) for text, rule in tags}
    return live


def _alternation(texts: list[str], tail: re.Pattern[str] | None) -> re.Pattern[str]:
    longest_first = [re.escape(text) for text in sorted(texts, key=len, reverse=True)]
    if tail:
        longest_first += [f"{re.escape(text[:-1])}:{tail.pattern}" for text in texts if text.endswith(">")]
    return re.compile("|".join(longest_first))


def _regions(dialect: Dialect) -> tuple[ToolRegion, ...]:
    """The declared regions, and one for the body of a tool message where the dialect has headers.

    How calls are written there is told by the declared region that no opener opens.
    """
    opened = _merged([region for region in dialect.regions if region.open])
    if not dialect.headers:
        return opened
    told = next((region for region in dialect.regions if not region.open), ToolRegion(open=(), control=True))
    close = (*told.close, *dialect.message_close, *dialect.end_of_turn)
    headers = (text for header in dialect.headers for text in header.open)
    ended_by = (*told.ended_by, *headers) if told.bodies else told.ended_by  # else nothing is known in it
    return (*opened, replace(told, close=close, ended_by=ended_by))


def _merged(regions: list[ToolRegion]) -> tuple[ToolRegion, ...]:
    """Regions that two formats write in the same tags are one region, with the bodies of both."""
    out: list[ToolRegion] = []
    for region in regions:
        same = [i for i, other in enumerate(out) if set(other.open) & set(region.open)]
        if not same:
            out.append(region)
            continue
        other = out[same[0]]
        bodies = (*other.bodies, *(body for body in region.bodies if body not in other.bodies))
        open_, close, between = (
            tuple(dict.fromkeys((*one, *two)))
            for one, two in ((other.open, region.open), (other.close, region.close), (other.between, region.between))
        )
        out[same[0]] = replace(other, open=open_, close=close, between=between, bodies=bodies)
    return tuple(out)


def _literals(dialect: Dialect, groups: tuple[Group, ...]) -> list[str]:
    by_group = {
        Group.THINK_CLOSE: [text for thought in dialect.thoughts for text in thought.close],
        Group.ANSWER_OPEN: dialect.answer_open,
        Group.ANSWER_CLOSE: dialect.answer_close,
        Group.FRAMING: dialect.framing,
        Group.END_OF_TURN: dialect.end_of_turn,
        Group.SPECIAL: dialect.special,
        Group.DANGLING: dialect.dangling,
        Group.PAIR_OPEN: [f"<{text[2:]}" for text in dialect.end_of_turn if text.startswith("</")],
        Group.MESSAGE_CLOSE: dialect.message_close,
    }
    return [text for group in groups for text in by_group.get(group, ())]


def _openers(dialect: Dialect, state: State) -> Iterator[tuple[str, Rule]]:
    """What opens a header. A role token that ends a turn as well is live as an end of turn, whose guards it needs."""
    for i, header in enumerate(dialect.headers):
        texts = (*header.open, *(header.first if state is State.START else ()))
        yield from ((text, Rule(Group.HEADER, i)) for text in texts if text not in dialect.end_of_turn)


def _ends_of_turn(dialect: Dialect) -> Iterator[tuple[str, Rule]]:
    """Those that are role tokens as well name the header that they open."""
    opens = {text: i for i, header in enumerate(dialect.headers) for text in header.open}
    yield from ((text, Rule(Group.END_OF_TURN, opens.get(text, ANY))) for text in dialect.end_of_turn)


def _live(
    dialect: Dialect, regions: tuple[ToolRegion, ...], state: State, groups: tuple[Group, ...], pair: int
) -> Iterator[tuple[str, Rule]]:
    """The literals of one live set. Later ones win where a literal stands in two groups."""
    for group in groups:
        if group is Group.THINK_OPEN:
            again = state is State.AFTER_CLOSER and dialect.kind is Kind.CONTROL
            openers = ((i, text) for i, t in enumerate(dialect.thoughts) for text in t.open)
            yield from ((text, Rule(group, i)) for i, text in openers if not (again and _shortened(text, dialect)))
        elif group is Group.THINK_CLOSE:
            yield from (
                (text, Rule(group, i))
                for i, thought in enumerate(dialect.thoughts)
                if pair in (FIELD, ANY, i)
                for text in thought.close
            )
        elif group is Group.TOOL_OPEN:
            yield from (
                (text, Rule(group, i))
                for i, region in enumerate(regions)
                if not (region.markerless and state in _THINKING)
                for text in region.open
            )
        elif group is Group.HEADER:
            yield from _openers(dialect, state)
        elif group is Group.END_OF_TURN:
            yield from _ends_of_turn(dialect)
        else:
            yield from ((text, Rule(group)) for text in _literals(dialect, (group,)))


def _shortened(opener: str, dialect: Dialect) -> bool:
    """True for an opener that a longer one begins with: without its label the channel may as well be the answer's."""
    return any(text.startswith(opener) and text != opener for thought in dialect.thoughts for text in thought.open)


def _region_rules(dialect: Dialect, region: ToolRegion) -> RegionRules:
    """A region's own rules. The dialect's end of turn ends every region: the model has stopped."""
    enders = dict.fromkeys((*region.ended_by, *dialect.message_close, *dialect.end_of_turn))
    return region_rules(
        open=region.open,
        close=region.close,
        ended_by=tuple(text for text in enders if text not in region.close),
        between=region.between,
        bodies=region.bodies,
        head=region.head,
        markerless=region.markerless,
        control=region.control,
        ends_thought=region.ends_thought,
    )


def _header(header: Header) -> HeaderGrammar:
    return HeaderGrammar(
        close=header.close,
        within=header.within,
        rules=tuple((re.compile(rule.text), str(rule.to)) for rule in header.rules),
    )
