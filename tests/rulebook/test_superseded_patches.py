"""What the patches that sgl-project/sglang#34458 superseded had repaired, read right in pieces of every size.

Each row of the corpus says which patch, what it fixed and where that is told; rows without text are patches of which
nothing more is known.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.rulebook.load import load_rulebook
from tests.support.calls import CUTS, read_calls
from tests.support.reader import cut

RULES = load_rulebook()
ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "corpus" / "sglang_34458.jsonl").read_text("utf-8").splitlines()
]
SUPERSEDED = {31009, 21179, 32539, 32332, 28684, 31786, 33813, 34244, 23786, 34157, 34178}


def test_every_superseded_patch_has_a_case_or_is_told_to_be_unknown() -> None:
    assert {row["pull"] for row in ROWS} == {*SUPERSEDED, 34458}
    assert {row["pull"] for row in ROWS if "raw_text" not in row} == {32332, 23786, 34157, 34178}
    assert all(row["note"] for row in ROWS)


@pytest.mark.parametrize("row", [row for row in ROWS if "raw_text" in row], ids=lambda row: row["id"])
def test_a_superseded_patch_has_nothing_left_to_repair(row: dict[str, Any]) -> None:
    dialect = RULES.dialects[row["dialect"]]
    calls = [(call["name"], call["arguments"]) for call in row["calls"]]
    for size in CUTS:
        got = read_calls(dialect, cut(row["raw_text"], size), starts_in=row["starts_in"], stopped=row["stopped"])
        assert got == (row["reasoning"], row["content"], calls), size
