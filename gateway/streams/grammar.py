"""The compiled form of a dialect that the reader runs on: live sets per state, and what each marker is.

Made by `gateway.rulebook.compile` from a dialect; immutable and shared by all readers. Knows no text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from gateway.events import Group
from gateway.streams.calls.region import RegionRules
from gateway.streams.markers import Plan

TAIL: Final = 24  # characters a tag's suffix may have
FIELD: Final = -2  # as `ANY`, in a reasoning field: openers are live too, so that what closes them is told
ANY: Final = -1  # the thought was open from the start: which opener it had is not known, each closer counts
FIRST: Final = -3  # as `ANY`, at the very first character of raw text: what the engine's parser wrote is live too


class State(StrEnum):
    """Where the reader stands."""

    START = "start"  # nothing but white space released since the start, or since a message ended
    OPENABLE = "openable"  # answer text has begun, but a control-token opener still counts
    THINK_START = "think_start"  # a thought, only white space so far
    THINK = "think"
    ANSWER = "answer"
    AFTER_CLOSER = "after_closer"  # answer, only white space since a closer
    AFTER_TURN = "after_turn"  # answer, only white space since an end of turn: a header may follow
    TOOLS = "tools"
    FOREIGN = "foreign"  # another role speaks: suppressed to the end


class Take(Enum):
    """What a reader does with calls that are written as text."""

    NO = "no"  # the markup is text of the tool region, passed on as it comes
    WATCH = "watch"  # as NO, and it is told what would have been a call
    HOLD = "hold"  # the region is kept back until it has ended, and comes out as one `ToolText`


@dataclass(frozen=True, slots=True)
class Takes:
    """`content`: marked regions in the answer; `control`: those of channel or special-token markup. `thought`: regions
    inside a thought. `markerless`: bare JSON and Python lists. `early`: a held region is told of while it is read.
    """

    content: Take = Take.NO
    control: Take = Take.NO
    thought: Take = Take.NO
    markerless: Take = Take.NO
    early: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """What one literal is in one live set. `index`: the thought pair, the tool region, or the header it belongs to.

    `tail`: the literal is only the marker's beginning; `Grammar.tail` says how it goes on.
    """

    group: Group
    index: int = ANY
    tail: bool = False


@dataclass(frozen=True, slots=True)
class HeaderGrammar:
    """A channel header. `rules`: full-match expressions over the header text, and where the body goes."""

    close: str
    within: tuple[str, ...]
    rules: tuple[tuple[re.Pattern[str], str], ...]  # target: reasoning | answer | tool | foreign


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """One compiled dialect. `plans`: by state and index (thought pair, tool region, or `ANY`)."""

    name: str
    tags: bool  # markers look like ordinary text and need guards (contract rule 3)
    sentences: bool  # markers are plain sentences: no guard could tell a mention, so only the thought's own count
    reopen_lines: bool  # an opener at a line start of the answer goes back to thinking
    reopen_closer: bool  # an opener right after a closer does
    replays: bool  # an answer closer inside a thought means that the thought channel was skipped
    plans: Mapping[tuple[State, int], Plan[Rule]]
    structure: re.Pattern[str] | None  # every marker that may follow another one directly
    structure_prefixes: frozenset[str]
    enders: re.Pattern[str] | None  # closers, framing and end-of-turn literals, for a run of them at the end
    ender_prefixes: frozenset[str]
    headers: tuple[HeaderGrammar, ...]
    header_opens: tuple[str, ...]  # those of every header
    regions: tuple[RegionRules, ...]
    message_region: int  # the body of a message to a tool; `ANY` where there are no headers
    tail: re.Pattern[str] | None  # what follows a literal whose rule has a `tail`
    longest: int  # longest marker; a header counts by its opening literal

    def plan(self, state: State, index: int) -> Plan[Rule]:
        """The live set of `state`."""
        return self.plans.get((state, index)) or self.plans[state, ANY]
