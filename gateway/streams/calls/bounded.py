"""A pattern in a text that arrives in pieces: it stands here, it does not, or more text decides.

Owns that question for what is at most `NAME_CAP` characters long. Knows no format.
"""

from __future__ import annotations

import re
from typing import Literal

from gateway.streams.calls.call import NAME_CAP


def bounded(
    whole: re.Pattern[str], begun: re.Pattern[str], text: str, at: int, *, final: bool
) -> re.Match[str] | Literal[False] | None:
    """The match of `whole` at `at`, at most `NAME_CAP` characters; False: there is none; None: more text decides.

    `begun` matches every beginning of `whole`, the empty one too, and as much of it as there is. `final`: no more will
    come.
    """
    limit = at + NAME_CAP
    found = whole.match(text, at, limit)
    if found:
        return found
    beginning = begun.match(text, at, limit)
    assert beginning, "matches the empty beginning"
    return None if beginning.end() == len(text) < limit and not final else False
