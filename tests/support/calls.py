"""Read outputs with calls in them, as the public reader does.

Owns no expectation: what a text means stands in the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gateway.reading import Reader, reading_of
from gateway.rulebook.dialect import Dialect

CUTS = (1, 2, 3, 5, 7, 11, 23, 1 << 20)
"""Characters of a piece; the last is the whole text."""


def read_calls(
    dialect: Dialect, pieces: Iterable[str], *, starts_in: str = "content", stopped: bool = True
) -> tuple[str, str, list[tuple[str, Any]]]:
    """The reasoning, the answer, and the whole calls: names and arguments, untyped ones as text."""
    reader = Reader(dialect=dialect, starts_in=starts_in)
    segments = [segment for piece in pieces for segment in reader.feed(piece)]
    reading = reading_of([*segments, *reader.finish(stopped=stopped)])
    return reading.reasoning, reading.content, [(call.name, json.loads(call.arguments)) for call in reading.calls]
