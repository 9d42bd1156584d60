"""A small dialect with calls of every sort, and what a reader may do with them.

Owns no expectation: what a text means stands in the tests.
"""

from __future__ import annotations

from gateway.rulebook.dialect import Dialect, Kind, Reopen, Thought, ToolRegion
from gateway.streams.calls.json_body import JsonBody
from gateway.streams.grammar import Take, Takes

EVERYTHING = Takes(content=Take.HOLD, control=Take.HOLD, thought=Take.HOLD, markerless=Take.HOLD)
WATCHED = Takes(content=Take.WATCH, control=Take.WATCH, thought=Take.WATCH, markerless=Take.WATCH)
NOTHING = Takes()

TAGGED = Dialect(
    name="tagged",
    summary="",
    kind=Kind.TAG,
    aliases={},
    reopen=Reopen.LINE_START,
    thoughts=(Thought(open=("<think>",), close=("</think>",)),),
    end_of_turn=("<|im_end|>",),
    regions=(
        ToolRegion(open=("<tool_call>",), close=("</tool_call>",), bodies=(JsonBody(),)),
        ToolRegion(open=("<|call|>",), bodies=(JsonBody(),), between=(";",), control=True, ends_thought=True),
        ToolRegion(open=("{",), bodies=(JsonBody(),), markerless=True),
    ),
)
"""Calls in tags, behind a control token that ends a thought, and without any marker."""
