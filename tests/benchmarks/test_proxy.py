"""`python -m benchmarks` runs, judges ratios only, and refuses to time a gateway that does not repair."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import proxy
from benchmarks.proxy import Row, figures
from benchmarks.report import Figure
from benchmarks.targets import TARGETS

REPO = Path(__file__).parents[2]


def _row(number: int, target: str, cost: float) -> Row:
    return Row(round=number, target=target, load="x", us_per_event=cost, p50_us=1, p99_us=2)


def test_a_quick_run_measures_the_gateway_against_the_passthrough(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--targets", "passthrough,gateway", "--out", str(out)],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    parts = json.loads(out.read_text())["figures"]
    limited = [row["what"] for row in parts["proxy"] if row["limit"] == 1.3]
    assert limited == [
        "paced128 content, gateway",
        "paced128 reasoning, gateway",
        "lock128 content, gateway",
        "lock128 reasoning, gateway",
    ]
    assert min(row["value"] for part in parts.values() for row in part) > 0


def test_a_gateway_that_only_forwards_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "gateway", TARGETS["passthrough"])
    with pytest.raises(proxy.Broken, match="gateway: does not repair"):
        proxy.measure(quick=True, targets=["gateway"])


def test_ratios_are_taken_within_a_round_before_the_median() -> None:
    rows = [_row(0, "passthrough", 10), _row(1, "passthrough", 100), _row(2, "passthrough", 10)]
    rows += [_row(0, "gateway", 12), _row(1, "gateway", 110), _row(2, "gateway", 14)]
    (ratio,) = [figure for figure in figures(rows) if figure.unit == "x passthrough"]
    assert (ratio.value, ratio.limit, ratio.missed) == (1.2, 1.3, False)


@pytest.mark.parametrize(
    ("limit", "guide", "missed", "mark"),
    [
        (2.0, None, True, "limit 2  MISSED"),
        (3.0, None, False, "limit 3  ok"),
        (None, 2.0, False, "guide 2  over"),
        (None, 3.0, False, "guide 3  ok"),
        (None, None, False, ""),
    ],
)
def test_only_a_limit_can_be_missed(limit: float | None, guide: float | None, missed: bool, mark: str) -> None:
    figure = Figure(what="x", value=2.5, unit="x", limit=limit, guide=guide)
    assert (figure.missed, figure.mark) == (missed, mark)
