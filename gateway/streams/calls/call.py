"""What a body of tool calls is made of, and what every way of writing them offers the region that reads it.

A *body* is the text of one call, or of one value that holds several. It is read in pieces, once: every character is
looked at a bounded number of times, and the result does not depend on where the pieces were cut.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from gateway.events import Argument, Call

__all__ = ["NAME_CAP", "Argument", "Body", "BodyReader", "Call", "Status"]

NAME_CAP: Final = 256  # characters of a name, a key, or the attributes of a tag; longer ones are none


class Status(Enum):
    """How far the reading of a body or a region is."""

    OPEN = "open"  # more may come
    DONE = "done"  # it ended, and what follows is not part of it
    BROKEN = "broken"  # this is no such body


class BodyReader(Protocol):
    """Reads one body. `calls` grows while it is read, its last one too.

    `complete`: if the model stopped here by itself, only outer closers would be missing: every argument has ended.
    """

    calls: list[Call]
    status: Status

    @property
    def complete(self) -> bool:
        """See the class."""

    def read(self, text: str, at: int, *, final: bool) -> int:
        """Read on from `at`; returns the place up to which the text has been read.

        What is behind that place is given again, with more behind it; it is no longer than the longest literal of the
        format, or `NAME_CAP`. `final`: no more will come. At `DONE` the place is the body's end; at `BROKEN` it is
        where the body stopped being one.
        """


class Body(Protocol):
    """One way of writing calls, compiled; immutable and shared."""

    def lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """True where a body of this kind begins at `at`, a place without white space; None: not known yet.

        It looks no further ahead than the longest literal of the format, or `NAME_CAP`.
        """

    def open(self, *, until: tuple[str, ...]) -> BodyReader:
        """A reader at the body's first character. `until`: the region's closers, for bodies that end there."""
