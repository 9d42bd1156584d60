"""Floor 0: every cap, in one place, each with its reason and with what happens at it.

`docs/config.md` and `docs/holding.md` are generated from the field metadata here, so the text is written once.
Text caps are in characters, wire caps in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KIB = 1024
MIB = 1024 * KIB


def _cap(default: int, *, unit: str, why: str, at_cap: str) -> Any:
    return field(default=default, metadata={"unit": unit, "why": why, "at_cap": at_cap})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Caps of one route. `dataclasses.fields(Limits)` carries unit, reason and behaviour at the cap."""

    promote: int = _cap(
        64 * KIB,
        unit="characters",
        why="reasoning held while thinking is off and nothing else has come",
        at_cap="released as reasoning; not promoted",
    )
    unknown_start: int = _cap(
        4 * KIB,
        unit="characters",
        why="content held before any reasoning where the route, or the turn that goes on, says that the thought comes "
        "first",
        at_cap="released as content",
    )
    dedup: int = _cap(
        MIB,
        unit="characters",
        why="an answer held while it is an exact repeat of the reasoning, and the copy of the reasoning",
        at_cap="released; the answer is no longer compared",
    )
    channel_text: int = _cap(
        8 * MIB,
        unit="characters",
        why="a thought kept for the replay of a skipped channel (dialects with an answer closer)",
        at_cap="dropped; the channel stays reasoning, the finding says `capped`",
    )
    repetition: int = _cap(
        2 * KIB,
        unit="characters",
        why="the end of the reasoning and of the answer, kept to tell an endless repetition",
        at_cap="only the last of it is kept and looked at",
    )
    last_turn: int = _cap(
        128 * KIB,
        unit="characters",
        why="the last assistant turn, read to tell whether an answer that goes on with it starts in its thought",
        at_cap="not read; route and other members of the request decide where the answer starts",
    )
    header: int = _cap(
        96,
        unit="characters",
        why="the text of a channel header between its opening and closing marker",
        at_cap="released as text",
    )
    marker_run: int = _cap(
        64,
        unit="characters",
        why="closers and white space after an open quote, undecided until something follows them",
        at_cap="released as text",
    )
    tool_region: int = _cap(
        MIB,
        unit="characters",
        why="a tool call, or a section of calls, that is being read, calls that wait for the end of the answer, and "
        "the arguments of an engine's own call until they are whole",
        at_cap="released as text, or as it came; nothing is made of it",
    )
    request_body: int = _cap(
        64 * MIB,
        unit="bytes",
        why="a request body read whole to learn the model and the flags",
        at_cap="forwarded uninspected and unchanged, counted",
    )
    response_body: int = _cap(
        64 * MIB,
        unit="bytes",
        why="a plain answer read whole before it is inspected",
        at_cap="forwarded uninspected and unchanged, counted",
    )
    sse_line: int = _cap(
        8 * MIB,
        unit="bytes",
        why="one line of a stream",
        at_cap="inspection ends, the rest is forwarded unchanged, counted",
    )
    sse_event: int = _cap(
        16 * MIB,
        unit="bytes",
        why="one event of a stream",
        at_cap="inspection ends, the rest is forwarded unchanged, counted",
    )
    choices: int = _cap(
        128,
        unit="choices",
        why="choices of one answer that are tracked",
        at_cap="the text of further choices is forwarded unchanged, counted",
    )
    http_line: int = _cap(
        16 * KIB,
        unit="bytes",
        why="request line and each request header",
        at_cap="431 by the HTTP parser",
    )
    connections: int = _cap(
        4096,
        unit="connections",
        why="client connections open at once; each costs a descriptor, and another one while its request runs",
        at_cap="503 and closed, counted; the admin listener still answers",
    )
