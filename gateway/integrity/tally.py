"""What happened in one exchange, as integers. The server adds it to the metrics once, at the end; the report prints it.

Holds names and counts only, never model text: a marker's own spelling is the longest string in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from gateway.findings import LEAKS, Finding
from gateway.policy import Mode, Policy, Profile


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
    by name. `dedup`: how comparisons with the reasoning ended (reader_spec D13). `offered`: the request declares tools.
    `calls`: tool calls that went out, by who read them (`engine`, or `rescued` from text), and those of the engine that
    the answer's end `cut`. `characters_suppressed`: text that was taken out, markers apart (contract rule 2).
    """

    __slots__ = (
        "_policy", "calls", "characters_suppressed", "dedup", "events", "offered", "request", "rows", "uninspected",
        "withheld",
    )  # fmt: skip

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.rows: Counter[Row] = Counter()
        self.uninspected: Counter[str] = Counter()
        self.dedup: Counter[str] = Counter()
        self.request: Counter[str] = Counter()
        self.withheld: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.offered = False
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
        done: bool | None = None,
    ) -> None:
        """Count one finding: as `would_…` where its mode is observe, not at all where it is off.

        `done`: whether it was done, where something else than the finding's mode decides that.
        """
        mode = self._policy.mode(finding)
        if mode is not Mode.OFF:
            done = mode is Mode.ENFORCE if done is None else done
            self.rows[Row(finding, action if done else UNDONE[action], marker, rule, where)] += 1

    @property
    def findings(self) -> list[tuple[Row, int]]:
        """Rows with their counts, in the order of the vocabulary."""
        order = list(Finding)

        def place(item: tuple[Row, int]) -> tuple[int, str, str, str]:
            row = item[0]
            return order.index(row.finding), row.action, row.marker or "", row.where or ""

        return sorted(self.rows.items(), key=place)

    @property
    def leaky(self) -> frozenset[Finding]:
        """How the engine's answer leaked, repaired or not: the numerators of the leak rates. Empty where it did not."""
        return frozenset(row.finding for row in self.rows if row.finding in LEAKS)

    @property
    def delivered(self) -> frozenset[Finding]:
        """The leaks that reached the client, because they were only observed or could not be repaired."""
        return frozenset(row.finding for row in self.rows if row.finding in LEAKS and row.action in NOT_DONE)

    @property
    def suppressed(self) -> int:
        """Characters that did not go out, markers apart; none in observe, where the engine's own bytes do."""
        return 0 if self._policy.profile is Profile.OBSERVE else self.characters_suppressed

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


UNDONE: Final = {
    "moved": "would_move",
    "stripped": "would_strip",
    "promoted": "would_promote",
    "replayed": "would_replay",
    "suppressed": "would_suppress",
    "split": "would_split",
    "hidden": "would_hide",
    "added": "would_add",
    "emptied": "would_empty",
    "rescued": "would_rescue",
    "removed": "would_remove",
    "repaired": "would_repair",
    "left": "left",
    "flagged": "flagged",
    "kept": "kept",
    "capped": "capped",
}
"""An action as it reads where it is only observed; of the last four nothing is done in any mode."""
NOT_DONE: Final = frozenset(UNDONE.values())
"""Actions after which everything is as the engine sent it."""
