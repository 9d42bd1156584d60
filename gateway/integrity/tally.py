"""What happened in one exchange, as integers. The server adds it to the metrics once, at the end; the report prints it.

Holds names and counts only, never model text: a marker's own spelling is the longest string in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from gateway.findings import LEAKS, Finding
from gateway.policy import Mode, Policy


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report (contract section 4)."""

    finding: Finding
    action: str
    marker: str | None = None
    rule: str | None = None
    where: str | None = None


class Tally:
    """Counters of one exchange. `uninspected`: why bytes were forwarded without being read. `request`: what was changed
    in the request, by name. `withheld`: members beside a text that were taken out because they show a hidden thought,
    by name.
    """

    __slots__ = ("_policy", "characters_suppressed", "dedup", "events", "request", "rows", "uninspected", "withheld")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.rows: Counter[Row] = Counter()
        self.uninspected: Counter[str] = Counter()
        self.dedup: Counter[str] = Counter()
        self.request: Counter[str] = Counter()
        self.withheld: Counter[str] = Counter()
        self.events = 0
        self.characters_suppressed = 0

    def add(
        self,
        finding: Finding,
        action: str,
        *,
        marker: str | None = None,
        rule: str | None = None,
        where: str | None = None,
    ) -> None:
        """Count one finding: as `would_…` where its mode is observe, not at all where it is off."""
        mode = self._policy.mode(finding)
        if mode is not Mode.OFF:
            done = action if mode is Mode.ENFORCE else _UNDONE[action]
            self.rows[Row(finding, done, marker, rule, where)] += 1

    @property
    def findings(self) -> list[tuple[Row, int]]:
        """Rows with their counts, in the order of the vocabulary."""
        order = list(Finding)

        def place(item: tuple[Row, int]) -> tuple[int, str, str, str]:
            row = item[0]
            return order.index(row.finding), row.action, row.marker or "", row.where or ""

        return sorted(self.rows.items(), key=place)

    @property
    def leaky(self) -> bool:
        """True when the engine's answer leaked, repaired or not: the numerator of the leak rate."""
        return any(row.finding in LEAKS for row in self.rows)

    def report(self) -> list[dict[str, str | int]]:
        """The `findings` list of the report. Never model text."""
        out: list[dict[str, str | int]] = []
        for row, count in self.findings:
            entry: dict[str, str | int] = {"finding": str(row.finding), "action": row.action, "count": count}
            optional = {"marker": row.marker, "rule": row.rule, "where": row.where}
            out.append(entry | {key: value for key, value in optional.items() if value})
        return out

    def header(self) -> str:
        """The value of `X-Integrity-Findings`: `finding=count,…`."""
        totals: Counter[str] = Counter()
        for row, count in self.findings:
            totals[str(row.finding)] += count
        return ",".join(f"{finding}={count}" for finding, count in totals.items())


# An action as it reads where it is only observed; of the last three nothing is done in any mode.
_UNDONE: Final = {
    "moved": "would_move",
    "stripped": "would_strip",
    "promoted": "would_promote",
    "replayed": "would_replay",
    "suppressed": "would_suppress",
    "split": "would_split",
    "hidden": "would_hide",
    "added": "would_add",
    "emptied": "would_empty",
    "flagged": "flagged",
    "kept": "kept",
    "capped": "capped",
}
