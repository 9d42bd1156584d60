"""What the generated pages share: their first line, and how a table is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

NOTICE: Final = "<!-- Written by `python -m gateway.cli.docs`; edit the schema or the code, not this file. -->\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
