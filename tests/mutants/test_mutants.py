"""Each mutant of the table is noticed by the suites that the table names, and nothing else is.

Every mutant gets a copy of the package in a directory of its own and a pytest of its own; the tests are the checkout's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.mutants.table import MUTANTS, Mutant

REPO = Path(__file__).parents[2]
PASSED, FAILED = 0, 1  # exit codes of pytest; 2 and more say that it could not run the tests
UNCHANGED = "nothing is changed"


def copy_of_the_package(folder: Path) -> Path:
    shutil.copytree(REPO / "gateway", folder / "gateway", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("rules", "tests"):
        (folder / name).symlink_to(REPO / name)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\npythonpath = .\n")
    return folder


def outcome(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code of pytest with these `arguments` and the package in `folder`, and the end of what it said."""
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout[-500:]


def mutated(mutant: Mutant, folder: Path) -> tuple[int, str]:
    """The outcome of the mutant's tests; as if they had passed where one of several did."""
    path = copy_of_the_package(folder) / "gateway" / mutant.file
    source = path.read_text()
    assert source.count(mutant.old) == 1, f"{mutant.file} does not hold the fragment once: {mutant.old!r}"
    path.write_text(source.replace(mutant.old, mutant.new))
    if isinstance(mutant.tests, str):
        return outcome(folder, "-x", mutant.tests)
    code, said = outcome(folder, *mutant.tests)
    return (PASSED if " passed" in said else code), said


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str] | BaseException]:
    """By mutant: the exit code and the last words of its tests, or why they could not be run."""
    named = [(mutant.tests,) if isinstance(mutant.tests, str) else mutant.tests for mutant in MUTANTS]
    suites = sorted({suite for suites in named for suite in suites})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        control = pool.submit(outcome, copy_of_the_package(tmp_path_factory.mktemp("control")), *suites)
        runs = {mutant.name: pool.submit(mutated, mutant, tmp_path_factory.mktemp("mutant")) for mutant in MUTANTS}
        runs[UNCHANGED] = control
        return {name: run.exception() or run.result() for name, run in runs.items()}


def verdict(verdicts: dict[str, tuple[int, str] | BaseException], name: str) -> tuple[int, str]:
    found = verdicts[name]
    if isinstance(found, BaseException):
        raise found
    return found


def test_the_suites_pass_on_the_package_as_it_is(verdicts: dict[str, tuple[int, str] | BaseException]) -> None:
    code, said = verdict(verdicts, UNCHANGED)
    assert code == PASSED, said


@pytest.mark.parametrize("name", [mutant.name for mutant in MUTANTS])
def test_the_mutant_is_noticed(name: str, verdicts: dict[str, tuple[int, str] | BaseException]) -> None:
    code, said = verdict(verdicts, name)
    assert code == FAILED, said


def test_no_two_mutants_have_one_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
