"""One measured number with its limit, and how a run of them is shown. Knows nothing of what is measured."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`limit` bounds a ratio, and fails the run; `guide` bounds an absolute number, which another machine may miss."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    guide: float | None = None
    note: str = ""

    @property
    def missed(self) -> bool:
        """True where the limit is exceeded."""
        return self.limit is not None and self.value > self.limit

    @property
    def mark(self) -> str:
        """The last column of the table."""
        if self.limit is not None:
            return f"limit {self.limit:g}  {'MISSED' if self.missed else 'ok'}"
        if self.guide is not None:
            return f"guide {self.guide:g}  {'over' if self.value > self.guide else 'ok'}"
        return self.note


def table(title: str, figures: Sequence[Figure]) -> str:
    """Aligned plain text."""
    width = max(len(figure.what) for figure in figures)
    rows = [f"{figure.what:<{width}}  {figure.value:10.3g} {figure.unit:<14} {figure.mark}" for figure in figures]
    return "\n".join([title, *map(str.rstrip, rows), ""])


def write(path: Path, figures: Mapping[str, Sequence[Figure]]) -> None:
    """All figures of a run, and the machine they are true of, as JSON."""
    machine = {"python": platform.python_version(), "machine": platform.machine(), "kernel": platform.release()}
    rows = {title: [asdict(figure) | {"missed": figure.missed} for figure in part] for title, part in figures.items()}
    path.write_text(json.dumps({"machine": machine, "figures": rows}, indent=1) + "\n")
