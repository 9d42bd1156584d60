"""Is every module of floors 0 to 4 covered, each branch, by the test file that mirrors it, alone? `make coverage`.

A module that is covered only by its neighbours' tests has no test that explains it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.contract.test_architecture import MODULES, PACKAGE, REPO, floor_of

CHECKED = [path for module, path in MODULES.items() if floor_of(module) <= 4 and path.name != "__init__.py"]


def uncovered(path: Path) -> str:
    """The report of one module under its own test; empty when all of it is covered."""
    test = REPO / "tests" / path.relative_to(PACKAGE).with_name(f"test_{path.name}")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COVERAGE_FILE": str(Path(folder) / "data")}
        run = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", str(test)]
        tested = subprocess.run(run, cwd=REPO, env=environment, capture_output=True, text=True)
        if tested.returncode:
            return tested.stdout[-2_000:] + tested.stderr[-500:]
        report = [sys.executable, "-m", "coverage", "report", "--fail-under=100", f"--include={path}"]
        done = subprocess.run(report, cwd=REPO, env=environment, capture_output=True, text=True)
        return done.stdout + done.stderr if done.returncode else ""


def main() -> int:
    """Print what is missing; 1 when anything is."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        missing = dict(zip(CHECKED, pool.map(uncovered, CHECKED), strict=True))
    for path, text in missing.items():
        if text:
            print(f"{path.relative_to(REPO)}\n{text}")
    complete = sum(not text for text in missing.values())
    print(f"{complete} of {len(CHECKED)} modules are covered by their own test")
    return int(complete != len(CHECKED))


if __name__ == "__main__":
    raise SystemExit(main())
