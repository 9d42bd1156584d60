"""Drive a body of tool calls over a text in pieces, as a region does, and tell what came of it.

Owns no expectation: what a text means stands in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.streams.calls.call import NAME_CAP, Argument, Body, Call, Status

CUTS = (1, 2, 3, 5, 7, 11, 23)


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader made of a text. `place`: where it stopped, in all of the text; None while it is open.

    `work`: characters offered to it, the unread ones each time again.
    """

    status: Status
    place: int | None
    complete: bool
    calls: tuple[tuple[object, ...], ...]
    work: int


def whole(call: Call) -> tuple[object, ...]:
    """All that is comparable of a call: its JSON in one piece."""
    json = None if call.json is None else "".join(call.json)
    arguments = [(one.key, one.text, one.kind) for one in call.arguments if isinstance(one, Argument)]
    return call.name, call.ident, json, tuple(arguments), call.repaired, call.closed


def pieces(text: str, size: int) -> list[str]:
    """`text` in pieces of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def read(body: Body, parts: Iterable[str], *, until: tuple[str, ...] = (), hold: int = NAME_CAP) -> Read:
    """Feed the parts to a reader of `body`, then the end. It must not hold more than `hold` characters."""
    reader = body.open(until=until)
    buffer, gone, work = "", 0, 0
    feed: Sequence[tuple[str, bool]] = [*((part, False) for part in parts), ("", True)]
    for part, final in feed:
        buffer += part
        work += len(buffer)
        at = reader.read(buffer, 0, final=final)
        assert 0 <= at <= len(buffer)
        if reader.status is not Status.OPEN:
            return Read(reader.status, gone + at, reader.complete, tuple(map(whole, reader.calls)), work)
        buffer, gone = buffer[at:], gone + at
        assert len(buffer) <= hold, f"{len(buffer)} characters are held"
    return Read(reader.status, None, reader.complete, tuple(map(whole, reader.calls)), work)


def same_at_every_cut(body: Body, text: str, **settings: object) -> Read:
    """What the whole text gives, after checking that each cut gives the same."""
    expected = read(body, [text], **settings)  # type: ignore[arg-type]
    for size in CUTS:
        found = read(body, pieces(text, size), **settings)  # type: ignore[arg-type]
        assert _told(found) == _told(expected), f"cut at every {size}"
    return expected


def led(body: Body, text: str) -> bool:
    """What `lead` says when the text arrives character by character: the first answer, and it must stay that."""
    answers = [body.lead(text[:size], 0, final=False) for size in range(len(text) + 1)]
    known = [answer for answer in answers if answer is not None]
    assert len(set(known)) <= 1, answers
    final = body.lead(text, 0, final=True)
    assert final is not None and (not known or final is known[0])
    return final


def _told(found: Read) -> tuple[object, ...]:
    return found.status, found.place, found.complete, found.calls
