"""What the actions of this floor may hold back, as data: `docs/holding.md` and the hold metrics are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Hold:
    """One declared window (contract rule 8). `cap` names a field of `gateway.limits.Limits`, or says what bounds it."""

    cause: str
    what: str
    why: str
    until: str
    cap: str


HOLDS: Final = (
    Hold(
        "marker",
        "the end of a delta that may be the start of a marker",
        "a marker may be cut between two deltas",
        "the next delta decides",
        "longest marker of the dialect - 1",
    ),
    Hold(
        "header",
        "an opening header marker and the header text behind it",
        "the header says which channel follows",
        "its closing marker, a line break, or another marker",
        "header",
    ),
    Hold(
        "quoted_end",
        "a whole marker, with the closers and white space behind it",
        "what follows tells whether it counts, where it may be quoted or stand in the middle of a line",
        "the next word or line break, or the end of the output",
        "marker_run",
    ),
    Hold(
        "tool_region",
        "a tool call written as text, with white space and calls behind it; the frames of an engine's own call",
        "only its end shows that it is a whole one, and only the end of the answer that nothing follows it",
        "its closer on a raw route, the end of the answer where the engine splits; text behind it; what is no call",
        "tool_region",
    ),
    Hold(
        "dedup",
        "content that repeats the reasoning from its first character on",
        "only at the end is it known whether it repeats all of it",
        "the first difference, a tool call, or the end; only where the client asked for the reasoning",
        "dedup",
    ),
    Hold(
        "promote",
        "reasoning while the request turned thinking off",
        "it is the answer if no content follows",
        "the first content, a tool call, a marker, or the end",
        "promote",
    ),
    Hold(
        "unknown_start",
        "content before any reasoning where the route says that the thought comes first "
        "(`source: fields`, `starts_in: reasoning`), or the answer goes on with a turn that ends in its thought",
        "a closer behind it would make it the thought",
        "a closer, the first reasoning, or the end",
        "unknown_start",
    ),
    Hold(
        "end_string",
        "the end of the reasoning, and the beginning of the content, while it may be `reasoning_end_string`",
        "the string is no text where it ends the reasoning or begins the content",
        "the next delta decides; only on a route with that key; never more than the string and white space beside it",
        "marker_run",
    ),
    Hold(
        "stop",
        "the beginning of the content, and at the end of the reasoning what may be the start of a closer, where the "
        "request has stop strings and the engine splits",
        "an engine that keeps text back for a stop string may cut the thought too late",
        "a thought's closer, or as much content as the longest stop string without the start of one",
        "longest stop string of the request + longest closer of the dialect",
    ),
)
