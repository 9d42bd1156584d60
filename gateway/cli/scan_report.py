"""What `scan` prints: the same result as a table, as JSON, as SARIF 2.1.0 and as Markdown. Names and numbers only."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from gateway import __version__
from gateway.cli.transcripts import Transcript
from gateway.findings import LEAKS, SYMPTOM, Finding
from gateway.integrity.tally import Tally

SHOWN: Final = 20  # places in a table; the other formats have them all
VIOLATION: Final = "protocol_violation"
"""The rule of SARIF for what the protocol's documentation does not have so."""
_EVENT: Final = re.compile(r"^event \d+")
SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class Judged:
    """One answer. `tally`: what was found. `violations`: what is not legal in it. `unread`: why it was not read, empty
    where it was.
    """

    answer: Transcript
    tally: Tally | None = None
    violations: tuple[str, ...] = ()
    unread: str = ""

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.answer.file}:{self.answer.line}"

    @property
    def findings(self) -> list[dict[str, str | int]]:
        """The rows of the report (contract section 4)."""
        return self.tally.report() if self.tally else []

    @property
    def illegal(self) -> list[str]:
        """What is not legal, each with its first event and how often it is so."""
        same = Counter(_EVENT.sub("", wrong) for wrong in self.violations)
        first = {_EVENT.sub("", wrong): wrong for wrong in reversed(self.violations)}
        return [f"{first[wrong]}{f' ({count} events)' if count > 1 else ''}" for wrong, count in same.items()]


@dataclass(frozen=True)
class Scan:
    """The result of all answers, in their order."""

    answers: Sequence[Judged]

    @cached_property
    def read(self) -> list[Judged]:
        """Those that could be read."""
        return [each for each in self.answers if not each.unread]

    @cached_property
    def found(self) -> list[Judged]:
        """Those in which anything is wrong."""
        return [each for each in self.answers if each.findings or each.violations]

    @cached_property
    def leaky(self) -> int:
        """How many leak."""
        return sum(bool(each.tally and each.tally.leaky) for each in self.read)

    @property
    def rate(self) -> float:
        """Leaky ones of those that could be read; 0 where there are none."""
        return self.leaky / len(self.read) if self.read else 0.0

    @property
    def unread(self) -> list[Judged]:
        """Those that could not be read."""
        return [each for each in self.answers if each.unread]

    @property
    def rows(self) -> list[tuple[str, str, str, int, int]]:
        """Finding, action, rule or marker, answers, count; in the order of the vocabulary."""
        answers: Counter[tuple[str, str, str]] = Counter()
        counts: Counter[tuple[str, str, str]] = Counter()
        for each in self.read:
            told: Counter[tuple[str, str, str]] = Counter()
            for row in each.findings:
                rule = str(row.get("rule") or row.get("marker") or "")
                told[str(row["finding"]), str(row["action"]), rule] += int(row["count"])
            counts += told
            answers.update(told.keys())
        order = [str(finding) for finding in Finding]
        return [(*key, answers[key], counts[key]) for key in sorted(counts, key=lambda k: (order.index(k[0]), *k[1:]))]

    @property
    def summary(self) -> str:
        """One line: the leak rate."""
        return f"leak rate {self.rate:.1%}: {self.leaky} of {len(self.read)} answers"


HEADS: Final = ("finding", "action", "rule", "answers", "count")


def table(scan: Scan) -> str:
    """For a terminal."""
    lines = [scan.summary]
    if scan.rows:
        cells = [HEADS, *((*row[:3], str(row[3]), str(row[4])) for row in scan.rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
        lines += ["", *(_aligned(row, widths) for row in cells)]
    for title, told in _places(scan):
        lines += ["", f"{title}: {len(told)}", *(f"  {line}" for line in told[:SHOWN])]
        lines += [f"  … and {len(told) - SHOWN} more (--format json has them)"] if len(told) > SHOWN else []
    return "\n".join(lines)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    words = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
    numbers = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
    return "  ".join([*words, *numbers])


def _places(scan: Scan) -> Iterator[tuple[str, list[str]]]:
    """What was found where, by kind; kinds without anything are left out."""
    found = [f"{each.place}: {', '.join(_names(each))}" for each in scan.read if each.findings]
    order = [f"{each.place}: {wrong}" for each in scan.answers for wrong in each.illegal]
    unread = [f"{each.place}: {each.unread}" for each in scan.unread]
    for title, told in (("answers with findings", found), ("protocol violations", order), ("not read", unread)):
        if told:
            yield title, told


def _names(each: Judged) -> list[str]:
    return list(dict.fromkeys(str(row["finding"]) for row in each.findings))


def markdown(scan: Scan) -> str:
    """For a pull request or an issue."""
    lines = [f"**{scan.summary}**"]
    if scan.rows:
        lines += ["", _cells(HEADS), "| --- | --- | --- | ---: | ---: |"]
        lines += [_cells((*row[:2], f"`{row[2]}`" if row[2] else "", str(row[3]), str(row[4]))) for row in scan.rows]
    for title, told in _places(scan):
        lines += ["", f"{title}: {len(told)}", "", *(f"* {line}" for line in told)]
    return "\n".join(lines)


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def as_json(scan: Scan) -> str:
    """For programs."""
    answers = [
        {
            "file": each.answer.file,
            "line": each.answer.line,
            "protocol": each.answer.protocol.name if each.answer.protocol else None,
            "stream": each.answer.stream,
            "raw_text": each.answer.raw,
            "findings": each.findings,
            "violations": list(each.violations),
            "unread": each.unread or None,
        }
        for each in scan.answers
    ]
    rows = [{**dict(zip(HEADS, row, strict=True)), "symptom": SYMPTOM[Finding(row[0])]} for row in scan.rows]
    totals = {"answers": len(scan.read), "leaky": scan.leaky, "leak_rate": scan.rate, "unread": len(scan.unread)}
    return json.dumps({**totals, "findings": rows, "transcripts": answers}, indent=2)


def sarif(scan: Scan) -> str:
    """For code scanning: SARIF 2.1.0 (OASIS), one result for each finding of an answer and each event out of order."""
    results = [result for each in scan.answers for result in _results(each)]
    used = sorted({result["ruleId"] for result in results})
    rules = [{"id": rule, "shortDescription": {"text": _described(rule)}} for rule in used]
    for result in results:
        result["ruleIndex"] = used.index(result["ruleId"])
    driver = {"name": "integrity-gateway", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _described(rule: str) -> str:
    return "protocol violations" if rule == VIOLATION else f"{rule}: symptom {SYMPTOM[Finding(rule)]}"


def _results(each: Judged) -> Iterator[dict[str, Any]]:
    for row in each.findings:
        more = "".join(f", {name} {row[name]}" for name in ("marker", "rule", "where") if name in row)
        level = "warning" if Finding(str(row["finding"])) in LEAKS else "note"
        yield _result(
            each, str(row["finding"]), level, f"{row['finding']}, {row['action']}, {row['count']} times{more}"
        )
    for wrong in each.illegal:
        yield _result(each, VIOLATION, "note", wrong)


def _result(each: Judged, rule: str, level: str, text: str) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": _uri(each.answer.file)}, "region": {"startLine": each.answer.line}}
    return {"ruleId": rule, "level": level, "message": {"text": text}, "locations": [{"physicalLocation": place}]}


def _uri(file: str) -> str:
    """A URI reference: of a relative path relative, so that a checkout's files are found."""
    if file == "-":
        return "stdin"
    return Path(file).as_uri() if Path(file).is_absolute() else quote(Path(file).as_posix())


FORMATS: Final[Mapping[str, Callable[[Scan], str]]] = {
    "table": table,
    "json": as_json,
    "sarif": sarif,
    "markdown": markdown,
}
"""By the name that `--format` takes."""
