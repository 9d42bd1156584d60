"""How a text begins that should not stand there: thoughts without a boundary, sentences before structured output.

The phrases are data (`rules/leaks/NAME.yaml`), with examples that the loader tries. Such a beginning proves nothing, so
it is only counted. Knows no stream and no route.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.findings import Finding

LOOK: Final = 120  # characters of a beginning that are looked at
_LINE: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Phrases with which a leak begins. `finding`: what a text that begins so is counted as."""

    name: str
    summary: str
    finding: Finding
    pattern: re.Pattern[str]

    def begins(self, text: str) -> bool:
        """True when `text` begins with one of the phrases."""
        return self.pattern.match(text[:LOOK]) is not None


def make_opening(data: Mapping[str, Any]) -> Opening:
    """The value of one valid rule file."""
    return Opening(
        name=data["name"],
        summary=data["summary"],
        finding=Finding(data["finding"]),
        pattern=_pattern(data["openings"]),
    )


def example_problems(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Examples of valid data that do not read as they say, each with its place."""
    opening = make_opening(data)
    for kind, texts in data["examples"].items():
        for place, text in enumerate(texts):
            if opening.begins(text) is not (kind == "hit"):
                wanted = "begins with none" if kind == "hit" else "begins with one"
                yield ("examples", kind, place), f"{wanted} of the openings"


def _pattern(phrases: list[str]) -> re.Pattern[str]:
    """Any case, any white space between words, either apostrophe."""
    words = (r"\s+".join(map(re.escape, _LINE.split(phrase.strip()))) for phrase in phrases)
    ends = (text + (r"\b" if text[-1].isascii() and text[-1].isalnum() else "") for text in words)
    return re.compile(r"\s*(?:" + "|".join(ends).replace("'", "['’]") + ")", re.IGNORECASE)
