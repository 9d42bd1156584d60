"""Floor 0: what a reader says about text. Knows no protocol, no dialect, no byte.

A reader returns segments: plain `(channel, text)` pairs, because one is made for every streamed token and a tuple
costs a tenth of an object. The channel `MARKER` is the exception: its second item is a `Decision`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

REASONING: Final = "reasoning"
CONTENT: Final = "content"
TOOL: Final = "tool"  # text of a tool region, markers included: for the tool stage, or the client's as it is
REPLAY: Final = "replay"  # an answer written into a skipped thought, sent again as content; never deduplicated
FOREIGN: Final = "foreign"  # another role speaking after the end of turn: suppressed
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
    PAIR_OPEN = "pair_open"  # the opening tag of an end of turn that looks like a closing tag: `<s>` of `</s>`
    MESSAGE_CLOSE = "message_close"
    HEADER = "header"
    TOOL_OPEN = "tool_open"
    TOOL_CLOSE = "tool_close"
    ARGUMENT_OPEN = "argument_open"
    ARGUMENT_CLOSE = "argument_close"


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


Segment = tuple[str, "str | Decision"]
