"""pyproject.toml, requirements.lock and the wheel agree with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import gateway

REPO = Path(__file__).parents[2]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def _pins() -> list[str]:
    return [line for line in (REPO / "requirements.lock").read_text().splitlines() if not line.startswith("#")]


def test_the_lock_pins_every_line_to_one_version() -> None:
    assert [line for line in _pins() if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def test_every_declared_dependency_is_locked() -> None:
    extras = PROJECT["optional-dependencies"]
    declared = [*PROJECT["dependencies"], *extras["dev"], *extras["differential"]]
    assert {_name(line) for line in declared} - {_name(line) for line in _pins()} == set()


def test_the_wheel_ships_the_code_the_rules_and_the_data_beside_the_code(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=REPO,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (wheel,) = tmp_path.glob("*.whl")
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("gateway/")}
    package = {path.relative_to(REPO).as_posix() for path in (REPO / "gateway").rglob("*") if path.is_file()}
    rules = {f"gateway/_{path.relative_to(REPO).as_posix()}" for path in (REPO / "rules").rglob("*") if path.is_file()}
    assert shipped == {name for name in package | rules if "__pycache__" not in name}
    assert wheel.name == f"integrity_gateway-{gateway.__version__}-py3-none-any.whl"
