"""`expected.yaml` and its page: they name what exists, every reason is written, and no mode makes an answer worse."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.engine.page import page, wrong
from tests.engine.pins import FILE, PINS, TO_BE_WRITTEN, Row, dump, expected, load
from tests.engine.processes import REPO
from tests.engine.scenarios import COLUMNS, DIRECT, GROUPS, MODES, RECEIVED, SCENARIOS, Case, cases
from tests.engine.verdict import RIGHT

CASES = [case for group in GROUPS.values() for case in cases(group)]
LISTED = {case: cells for row in PINS for case, cells in row.cells.items()}
# What another generation shows, and what a mode that leaves before the engine's last chunk does not have.
OTHER_ANSWER = re.compile("ends otherwise|other fields")


def test_the_committed_page_is_current() -> None:
    made = subprocess.run([sys.executable, "-m", "tests.engine.page"], cwd=REPO, capture_output=True, check=True)
    assert (REPO / "docs/engine-tests.md").read_bytes() == made.stdout


def test_every_listed_answer_is_one_of_the_scenarios_and_listed_once() -> None:
    assert [case for case in LISTED if case not in CASES] == []
    assert len(LISTED) == sum(len(row.cells) for row in PINS)
    assert {name for cells in LISTED.values() for name in cells} <= {RECEIVED, *COLUMNS}


def test_every_reason_is_written() -> None:
    assert [row.why for row in PINS if TO_BE_WRITTEN in row.why] == []


def test_every_scenario_has_a_group() -> None:
    assert {scenario.name for group in GROUPS.values() for scenario in group.scenarios} == SCENARIOS.keys()


@pytest.mark.parametrize("case", LISTED, ids=str)
def test_observe_is_what_came_directly_and_no_mode_makes_an_answer_worse(case: Case) -> None:
    cells = expected(case, PINS)
    assert cells["observe"] == cells[DIRECT]
    worse = [
        mode
        for mode in MODES
        if wrong(cells[mode.name]) > wrong(cells[DIRECT]) or (cells[DIRECT] == RIGHT != cells[mode.name])
    ]
    assert [mode.name for mode in worse if not (mode.asks_otherwise and OTHER_ANSWER.search(cells[mode.name]))] == []


def test_the_file_is_printed_as_it_stands() -> None:
    seen = {case: expected(case, PINS) for case in CASES}
    assert load(dump(seen, reasons={case: row.why for row in PINS for case in row.cells})) == PINS
    assert FILE.read_text().startswith(dump({}, reasons={}))


def test_a_row_says_what_should_be_what_came_and_what_each_mode_made_of_it() -> None:
    case = Case(group="deepseek_r1", scenario="stop-short", shape="streamed")
    cells = {
        RECEIVED: "Let ¦ me|</think>",
        DIRECT: "leaked 4, lost 2",
        "observe": "leaked 4, lost 2",
        "repair": "lost 2",
    }
    [row] = [line for line in page([Row("it is", {case: cells})]).splitlines() if "lost 2" in line]
    assert row == (
        "| stop-short | streamed | <code>Let me think about it. ¦ The answer is 42.</code> "
        "| <code>Let ¦ me&#124;&lt;/think&gt;</code> | leaked 4, lost 2 | = | lost 2 | "
        + "right | " * (len(COLUMNS) - 3)
        + "(1) |"
    )
