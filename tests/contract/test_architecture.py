"""The import floors of DESIGN.md section 3, its sizes of section 10, and its mirrored tests of section 7.

A part is the first name below `gateway`: a package (`streams`) or a single module (`limits`).
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
PACKAGE = REPO / "gateway"


@dataclass(frozen=True, slots=True)
class Part:
    """`floor`: what may be imported is everything below. `third_party`: import names of other distributions."""

    floor: int
    third_party: frozenset[str] = frozenset()
    skips: frozenset[str] = frozenset()
    with_siblings: bool = False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


WIRE = _names("aiohttp multidict yarl uvloop prometheus_client jsonschema tokenizers yaml")
VALUES = Part(0, with_siblings=True)
PARTS = {
    "events": VALUES,
    "errors": VALUES,
    "limits": VALUES,
    "findings": VALUES,
    "policy": VALUES,
    "streams": Part(1),
    "rulebook": Part(2, _names("yaml jsonschema")),
    "integrity": Part(3, _names("jsonschema")),
    "protocols": Part(3, _names("orjson"), skips=_names("rulebook")),
    "reading": Part(4),
    "exchange": Part(4),
    "server": Part(5, WIRE),
    "scripted_engine": Part(5, WIRE),
    "cli": Part(6, WIRE),
    "__main__": Part(7),
}
ALSO = {"streams.jsonscan": _names("orjson")}
"""Single modules with a dependency that the rest of their package must reach through them."""

ROOT_MAY_IMPORT = {"reading"}
"""`gateway/__init__.py` stands on floor 0 and hands out the public reading API, on first use."""

LONGER_THAN_400_LINES = {"gateway.streams.regions": "one state machine: a region is held and taken back in its buffers"}
"""Each with the reason a review accepted."""

OUTSIDE_WORLD = _names(
    "asyncio concurrent datetime http io logging multiprocessing os random secrets select selectors signal socket ssl "
    "subprocess sys threading time urllib uuid"
)
"""Standard modules with a clock, a socket, a log, an environment or chance in them: forbidden below floor 5."""


def _imports(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[str]:
    """Every absolute dotted name that `module` imports, at any depth, relative imports resolved."""
    here = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, [start, node.module]))
            # `from gateway import limits` imports a part: the names count, not only where they come from.
            yield from (f"gateway.{alias.name}" for alias in node.names) if base == "gateway" else [base]


def _own_import_is_legal(source: str, target: str) -> bool:
    """May the part `source` import the part `target`? Both below `gateway`."""
    if source == "__init__":
        return target in ROOT_MAY_IMPORT
    if source == target:
        return True
    mine, theirs = PARTS[source], PARTS.get(target)
    if theirs is None or target in mine.skips:
        return False
    return theirs.floor < mine.floor or (mine.with_siblings and theirs.floor == mine.floor)


def _foreign_import_is_legal(module: str, top: str) -> bool:
    relative = module.removeprefix("gateway.")
    part = PARTS.get(relative.split(".")[0], VALUES)
    if top in sys.stdlib_module_names:
        return part.floor >= 5 or top not in OUTSIDE_WORLD
    return top in part.third_party | ALSO.get(relative, frozenset())


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What `source`, the text of `module`, imports against the table. `gateway.__version__` is everybody's."""
    part = "__init__" if module == "gateway" else module.split(".")[1]
    wrong = []
    for name in _imports(ast.parse(source), module, is_package=is_package):
        top, _, rest = name.partition(".")
        target = rest.split(".")[0]
        if top != "gateway":
            legal = _foreign_import_is_legal(module, top)
        else:
            legal = target in {"", "__version__"} or _own_import_is_legal(part, target)
        if not legal:
            wrong.append(f"{module} imports {name}")
    return wrong


def _modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(REPO).with_suffix("").parts)
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(_modules())


def floor_of(module: str) -> int:
    return 0 if module == "gateway" else PARTS[module.split(".")[1]].floor


def test_every_part_of_the_package_stands_on_afloor_of() -> None:
    assert {module.split(".")[1] for module in MODULES if module != "gateway"} - PARTS.keys() == set()


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down_only(module: str) -> None:
    path = MODULES[module]
    assert violations(module, path.read_text(), is_package=path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gateway.streams.sse", "import aiohttp"),
        ("gateway.streams.sse", "import orjson"),
        ("gateway.streams.sse", "from gateway.rulebook import load"),
        ("gateway.streams.sse", "def f():\n    import time"),
        ("gateway.streams.sse", "from os import environ"),
        ("gateway.rulebook.load", "import logging"),
        ("gateway.rulebook.load", "import aiohttp"),
        ("gateway.integrity.dedup", "from gateway.protocols.chat import Chat"),
        ("gateway.integrity.dedup", "from ..protocols import chat"),
        ("gateway.integrity.dedup", "from gateway import protocols"),
        ("gateway.integrity.dedup", "import random"),
        ("gateway.protocols.chat", "import gateway.integrity.dedup"),
        ("gateway.protocols.chat", "from gateway.rulebook.dialect import Dialect"),
        ("gateway.exchange.exchange", "import asyncio"),
        ("gateway.exchange.exchange", "import jsonschema"),
        ("gateway.exchange.exchange", "from gateway.server import app"),
        ("gateway.reading", "from gateway.exchange import exchange"),
        ("gateway.server.app", "from gateway.cli import main"),
        ("gateway.server.app", "from gateway.scripted_engine import ScriptedEngine"),
        ("gateway.server.app", "import requests"),
        ("gateway.limits", "from gateway.streams import sse"),
        ("gateway", "from gateway.server import app"),
        ("gateway.cli.main", "from gateway import no_such_part"),
    ],
)
def test_the_walk_sees_an_import_that_is_not_allowed(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gateway.policy", "from gateway.findings import Finding"),
        ("gateway.streams.jsonscan", "import json, orjson"),
        ("gateway.streams.sse", "import codecs, re\nfrom . import markers\nfrom gateway.errors import FrameTooLarge"),
        ("gateway.rulebook.load", "import yaml, jsonschema, pathlib"),
        ("gateway.protocols.chat", "from ..streams.jsonscan import edit"),
        ("gateway.exchange.exchange", "from gateway.protocols import chat\nfrom gateway.integrity import dedup"),
        ("gateway.server.app", "import asyncio, os, time, logging, aiohttp\nfrom gateway import __version__"),
        ("gateway", "def __getattr__(name):\n    from gateway import reading"),
    ],
)
def test_the_walk_lets_an_allowed_import_pass(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_the_reading_interface_loads_no_web_server() -> None:
    script = "import gateway, sys; gateway.Reader, gateway.read_whole; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=REPO, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("False\n", "")


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, its docstring and what is decorated around it not counted."""
    documented = ast.get_docstring(function) is not None
    first = function.body[0]
    assert function.end_lineno is not None and first.end_lineno is not None
    return function.end_lineno - function.lineno + 1 - (first.end_lineno - first.lineno + 1 if documented else 0)


@pytest.mark.parametrize("module", MODULES)
def test_functions_stay_within_forty_lines(module: str) -> None:
    nodes = ast.walk(ast.parse(MODULES[module].read_text()))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert {node.name: _body_lines(node) for node in functions if _body_lines(node) > 40} == {}


def test_files_stay_within_four_hundred_lines_unless_a_reason_is_written() -> None:
    long = {module for module, path in MODULES.items() if len(path.read_text().splitlines()) > 400}
    assert long == LONGER_THAN_400_LINES.keys()


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_owns(module: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[module].read_text())) is not None


@pytest.mark.parametrize("module", [name for name in MODULES if floor_of(name) <= 4 and "." in name])
def test_every_module_of_the_pure_floors_has_the_test_that_mirrors_it(module: str) -> None:
    path = MODULES[module].relative_to(PACKAGE)
    if path.name != "__init__.py":
        assert (REPO / "tests" / path.parent / f"test_{path.name}").is_file()
