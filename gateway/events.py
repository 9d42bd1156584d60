"""Floor 0: what a reader says about text. Knows no protocol, no dialect, no byte.

A reader returns segments: plain `(channel, text)` pairs, because one is made for every streamed token and a tuple
costs a tenth of an object. Two channels are exceptions: with `MARKER` comes a `Decision`, with `CALLS` a `ToolText`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

REASONING: Final = "reasoning"
CONTENT: Final = "content"
TOOL: Final = "tool"  # text of a tool region, markers included: for the tool stage, or the client's as it is
REPLAY: Final = "replay"  # an answer written into a skipped thought, sent again as content; never deduplicated
FOREIGN: Final = "foreign"  # another role speaking after the end of turn: suppressed
CALLS: Final = "calls"  # a whole tool region, as a `ToolText`
CALL: Final = "call"  # a call to be written, as a `ToolCall`: never said by a reader
MARKER: Final = "marker"  # a decision about a marker; carries no text for the client


class Group(StrEnum):
    """What a marker is for."""

    THINK_OPEN = "think_open"
    THINK_CLOSE = "think_close"
    ANSWER_OPEN = "answer_open"
    ANSWER_CLOSE = "answer_close"
    FRAMING = "framing"
    END_OF_TURN = "end_of_turn"
    SPECIAL = "special"
    DANGLING = "dangling"  # a beginning of markup, with nothing behind it
    PAIR_OPEN = "pair_open"  # the opening tag of an end of turn that looks like a closing tag: `<s>` of `</s>`
    MESSAGE_CLOSE = "message_close"
    HEADER = "header"
    TOOL_OPEN = "tool_open"


class Effect(StrEnum):
    """What the reader did with a marker."""

    DROP = "drop"  # taken out of the text
    FORWARD = "forward"  # handed on inside the tool region
    TEXT = "text"  # found, but quoted or out of place: it is text


@dataclass(frozen=True, slots=True)
class Decision:
    """One marker, where it stood, and why it was read as it was.

    `at` is the offset of the marker in the text fed so far, in characters. `region` is the channel in force at that
    place. `reason` is a short English clause for `explain`.
    """

    text: str
    group: Group
    effect: Effect
    region: str
    reason: str
    at: int


@dataclass(slots=True)
class Argument:
    """One argument of a format that writes them one by one.

    `text`: the value as written. `kind`: what the format itself says of it: `string`, `json` (the text is JSON),
    `tree` (JSON whose strings are texts of no kind), or None where only the tool's schema can tell.
    """

    key: str
    text: str
    kind: str | None = None


@dataclass(slots=True)
class Call:
    """One call as written. `name` may be empty where the format let the model leave it out.

    `arguments`: of formats that write them one by one. `json`: pieces of the one JSON text that holds them all, None
    for the others. `ident`: the id as written. `repaired`: a delimiter that the format asks for was missing.
    `closed`: nothing of it is missing. `begin`, `end`: the body's place in the region's text, in characters.
    """

    name: str
    ident: str | None = None
    arguments: list[Argument] = field(default_factory=list)
    json: list[str] | None = None
    repaired: bool = False
    closed: bool = False
    begin: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolText:
    """A region as it was read. `text`: all of it, opener and closer too; empty where it went out as text already.

    `calls`: those in it, whole ones and at most one that is not. `closed`: one of its own closers ended it. `complete`:
    only outer closers are missing. `broken`: it was no region after all, and its text follows as text. `thought`: it
    stands in a thought. `rest`: a good call was followed by something that is none. `control`: channel or
    special-token markup. `known`: false where nobody knows how calls are written in it. `so_far`: only where it is
    still being read: its text so far; its last call grows, and it comes again, whole or broken.
    """

    text: str
    calls: tuple[Call, ...]
    closed: bool
    complete: bool
    broken: bool
    thought: bool
    rest: bool
    control: bool
    known: bool = True
    so_far: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call to be written into the answer.

    `arguments`: one JSON text; empty where it comes in pieces, each of them a `ToolCall` with `more`. `ident`: the id
    that the format asks for; None: one is made.
    """

    name: str
    arguments: str
    ident: str | None
    more: bool = False


Segment = tuple[str, "str | Decision | ToolText"]
