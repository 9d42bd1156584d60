"""What the documents say is what the code does: commands run, caps agree, links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.side_by_side import visible
from gateway.cli.streamed_answer import Answer
from gateway.limits import KIB, MIB, Limits
from gateway.rulebook.yamlpos import load_yaml_with_lines
from gateway.scripted_engine import Recording, Script, load_recordings, load_scripts, wire
from gateway.server.config import Drain, config_from_mapping

REPO = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "THREAT_MODEL.md", "CHANGELOG.md"]

SERVE = "integrity-gateway serve --upstream http://127.0.0.1:8000 --dialect think"
ELSEWHERE = {
    "make demo": ("tests/cli/test_demo.py", "main("),
    "make test": (".ci/run", "check test"),
    "make check": (".ci/run", "check test"),
    "make bench": ("tests/benchmarks/test_proxy.py", "benchmarks"),
    "make coverage": ("Makefile", "tests.contract.individual_coverage"),
    "make engine-test": ("Makefile", "tests/engine/test_engine.py"),
    "make docs": ("tests/cli/test_docs.py", "docs"),
    SERVE: ("tests/cli/test_serve.py", "--upstream"),
}
"""Commands that are too long or too lasting to run here: the file that runs them, and a word by which it is seen to."""


def _commands() -> list[str]:
    blocks = [
        block
        for name in DOCUMENTS
        for block in re.findall(r"^```bash\n(.*?)^```", (REPO / name).read_text(), re.MULTILINE | re.DOTALL)
    ]
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return list(dict.fromkeys(filter(None, lines)))


COMMANDS = _commands()


def test_the_readme_opens_with_the_two_commands() -> None:
    assert COMMANDS[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("command", [line for line in COMMANDS if line not in ELSEWHERE])
def test_a_command_of_the_documents_runs(command: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=REPO,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout != ""


def test_the_readme_s_configurations_are_whole_and_have_no_warning() -> None:
    examples = re.findall(r"^```yaml\n(.*?)^```", (REPO / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert examples != []
    for example in examples:
        data, _ = load_yaml_with_lines(example, source="README.md")
        assert config_from_mapping(data, source="README.md").warnings == ()


def test_the_readme_is_short() -> None:
    assert len((REPO / "README.md").read_text().splitlines()) < 150


CASES = {case.name: case for case in (*load_scripts(), *load_recordings())}


def _picture() -> Iterator[tuple[str, list[list[str]]]]:
    """The cases of the README's picture: name, then reasoning, content and calls of the engine and of the gateway."""
    table = (REPO / "README.md").read_text().partition("## Before and after\n")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip().replace("\\|", "|").strip("`") for cell in row] for row in rows]
    for (name, *_), *answers in zip(cells[::3], cells[1::3], cells[2::3], strict=True):
        assert [answer[0] for answer in answers] == ["engine", "gateway"]
        yield name, [answer[1:] for answer in answers]


def _sent(case: Script | Recording) -> Answer:
    """What a client joins of the stream that the engine sends."""
    if isinstance(case, Recording):
        body = b"".join(case.stream.chunks)
    else:
        head = wire.Head(id="x", model=case.name)
        shape = {"n": 1, "with_usage": False, "finish_with_last": False}
        body = b"".join(wire.stream_frames(head, case.deltas, case.finish_reason, **shape))
    answer = Answer()
    for data in re.findall(rb"^data: (.+?)\r?$", body, re.MULTILINE):
        answer.take(data)
    return answer


def test_the_readme_s_picture_is_what_the_demo_plays() -> None:
    shown = dict(_picture())
    assert any(case.expect_calls for name, case in CASES.items() if name in shown)
    for name, (engine, gateway) in shown.items():
        case, sent = CASES[name], _sent(CASES[name])
        assert engine == [*map(visible, (sent.reasoning, sent.content)), "; ".join(sent.calls)]
        assert gateway == [*map(visible, (case.expect_reasoning, case.expect_content)), "; ".join(case.expect_calls)]


def test_the_readme_s_python_runs() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", (REPO / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    subprocess.run([sys.executable, "-c", block], cwd=REPO, check=True, timeout=60)


@pytest.mark.parametrize("command", ELSEWHERE)
def test_a_command_that_runs_elsewhere_is_documented_and_does_run_there(command: str) -> None:
    path, word = ELSEWHERE[command]
    assert command in COMMANDS
    assert word in (REPO / path).read_text()


def _shown(cap: Field[int]) -> str:
    size, unit = cap.default, cap.metadata["unit"]
    assert isinstance(size, int)
    if unit == "bytes":
        return f"{size // MIB} MiB" if size % MIB == 0 else f"{size // KIB} KiB"
    return f"{size:,} {unit}"


def test_the_readme_names_the_pauses_of_a_drain() -> None:
    drain = Drain()
    pauses = f"`drain.settle_seconds` + `drain.timeout_seconds` ({drain.settle_seconds:g} + {drain.timeout_seconds:g} s"
    assert pauses in (REPO / "README.md").read_text().replace("\n", " ")


def test_the_threat_model_names_every_cap_with_its_default() -> None:
    page = (REPO / "THREAT_MODEL.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    assert dict(rows) == {cap.name: _shown(cap) for cap in fields(Limits)}


def test_the_configuration_page_names_every_cap() -> None:
    page = (REPO / "docs/config.md").read_text()
    assert [cap.name for cap in fields(Limits) if f"`limits.{cap.name}`" not in page] == []


def _schema_keys(schema: dict[str, Any]) -> Iterator[str]:
    """Every property, at any depth outside `$defs`."""
    for name, below in schema.get("properties", {}).items():
        yield name
        yield from _schema_keys(below)
        yield from _schema_keys(below.get("items", {}))


@pytest.mark.parametrize(
    ("schema", "heading"),
    [
        ("schema_dialect.json", "## Keys of a dialect"),
        ("schema_calls.json", "## Keys of a call format"),
        ("schema_leaks.json", "## Keys of a file in `leaks/`"),
        ("schema_engines.json", "## Keys of a file in `engines/`"),
    ],
)
def test_the_page_about_rules_names_every_key_of_the_schema(schema: str, heading: str) -> None:
    keys = json.loads((REPO / "gateway/rulebook" / schema).read_text())
    page = (REPO / "rules/README.md").read_text()
    table = page.partition(f"{heading}\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (`[^|]+?`) \| ([^|]+) \|", table, re.MULTILINE))
    top = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert keys["properties"].keys() - top == set()
    assert set(_schema_keys(keys)) - set(re.findall(r"\w+", table)) == set()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_inside_the_repository_lead_to_a_file(name: str) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", (REPO / name).read_text())
    assert [target for target in targets if not (REPO / target).exists()] == []
