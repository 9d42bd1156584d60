"""The generated pages: the committed ones are current, and nothing is missing in them."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from gateway.cli.docs import known_keys, main, pages
from gateway.integrity.holds import HOLDS
from gateway.limits import Limits
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.yamlpos import load_yaml_with_lines
from gateway.server.config import config_from_mapping

REPO = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["config.md", "holding.md", "engines.md"])
def test_the_committed_page_is_the_generated_one(name: str) -> None:
    text = (REPO / "docs" / name).read_text("utf-8")
    assert text == pages()[name], "out of date: run `python -m gateway.cli.docs`"


def test_the_module_writes_the_pages_into_the_folder_it_is_given(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    subprocess.run([sys.executable, "-m", "gateway.cli.docs", str(folder)], check=True, cwd=REPO)
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == pages()


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    assert (main([str(tmp_path)]), main([str(tmp_path)])) == (0, 0)
    assert (tmp_path / "holding.md").read_text("utf-8") == pages()["holding.md"]


def _keys() -> str:
    """The part of the page that lists every key."""
    return pages()["config.md"].partition("## Top keys")[2].partition("## Refused")[0]


def test_every_key_of_the_schema_has_an_item() -> None:
    items = re.findall(r"^\* `(.*?)`", _keys(), re.MULTILINE)
    assert items == [key for block in _blocks() for key in block]
    for key in ("listen", "routes[].match.models", "policy.regenerate.on_exhausted", "limits.http_line", "drain.token"):
        assert key in items


def _blocks() -> list[list[str]]:
    """The keys of the schema, block by block."""
    blocks: dict[str, list[str]] = {}
    for key, _ in known_keys():
        blocks.setdefault(key.rpartition(".")[0], []).append(key)
    return list(blocks.values())


def test_a_key_without_effect_says_so_once_and_no_other_key_does() -> None:
    page = pages()["config.md"]
    silent = re.findall(r"^\* `(.*?)`.*\*No effect yet\.\*$", page, re.MULTILINE)
    assert silent == [key for block in _blocks() for key in block if dict(known_keys())[key].get("x-no-effect")]
    assert page.count("No effect yet") == len(silent) + 1
    assert "policy.structured_output.check" in silent and "policy.reasoning_field" not in silent


def test_every_refused_value_is_listed_with_what_to_do_instead() -> None:
    refused = pages()["config.md"].partition("## Refused in this version")[2]
    assert "* `workers`: anything but `1`; remove it or run more replicas\n" in refused
    assert "* `policy.preamble`: `strip`; remove it or use off or observe\n" in refused
    assert refused.count("* `") == sum("x-not-yet" in schema for _, schema in known_keys())


@pytest.mark.parametrize(
    ("key", "observe", "repair", "full"),
    [
        ("policy.reasoning_field", "as_upstream", "both", "both"),
        ("policy.structured_output.stream", "pass", "pass", "hold"),
        ("policy.request.history", "leave", "leave", "auto"),
        ("policy.tool_rescue.content", "observe", "enforce", "enforce"),
    ],
)
def test_a_policy_key_shows_its_value_in_each_profile(key: str, observe: str, repair: str, full: str) -> None:
    item = next(line for line in _keys().splitlines() if line.startswith(f"* `{key}`: "))
    values = {name: value for name, value in re.findall(r"(default|in observe|in full) `(.*?)`", item)}
    assert values["default"] == repair
    assert (values.get("in observe", repair), values.get("in full", repair)) == (observe, full)


def test_what_nearly_all_keys_of_a_block_take_is_said_once() -> None:
    findings = _keys().partition("## `policy.findings`")[2].partition("## ")[0]
    said = (
        "Each takes `off`, `observe`, `enforce`; default `enforce`, in observe `observe`, unless it says otherwise.\n"
    )
    assert said in findings
    assert "\n* `policy.findings.truncated`: Finish reason length.\n" in findings
    others = re.findall(r"^\* `policy.findings.(\w+)`: `off`, `observe`, `enforce`; (.*?)\.", findings, re.MULTILINE)
    assert dict(others) == {
        "tool_markup_leak": "default `observe`",
        "finish_reason_fixed": "default `observe`, in full `enforce`",
    }


def test_the_examples_of_the_page_are_whole_configurations_without_a_warning() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", pages()["config.md"], re.DOTALL)
    configs = [
        config_from_mapping(load_yaml_with_lines(text, source="docs/config.md")[0], source="docs/config.md")
        for text in examples
    ]
    assert [[route.dialect_name for route in config.routes] for config in configs] == [
        ["qwen"],
        ["qwen", "harmony"],
    ]
    assert [config.warnings for config in configs] == [(), ()]
    fields_ = [route.rules.policy.reasoning_field for route in configs[1].routes]
    assert fields_ == ["both", "as_upstream"]


def test_every_window_and_every_cap_stands_on_the_page_about_holding() -> None:
    text = pages()["holding.md"]
    for hold in HOLDS:
        assert f"| `{hold.cause}` | {hold.what} |" in text
    for cap in fields(Limits):
        assert f"`limits.{cap.name}`" in text
        assert str(cap.metadata["at_cap"]) in text


def test_every_known_fault_stands_on_the_page_about_engines_with_its_issues_and_its_remedy() -> None:
    rows = {line.split("`")[1]: line for line in pages()["engines.md"].splitlines() if line.startswith("| `")}
    faults = load_rulebook().faults
    assert [name for name in rows if name in {fault.ident for fault in faults}] == [fault.ident for fault in faults]
    for fault in faults:
        shown = re.findall(r"\[[\w.-]+#\d+\]\(https://github.com/([\w./-]+)/issues/(\d+)\)", rows[fault.ident])
        assert [f"{repository}#{number}" for repository, number in shown] == list(fault.issues)
        assert f"| {fault.symptom} | `{fault.remedy}` | `{fault.status}`" in rows[fault.ident]


@pytest.mark.parametrize(
    ("fault", "cells"),
    [
        ("stop-desync-old", "vllm below 0.24 | `gemma4`, `glm45`, `kimi_k2`, `nemotron_v3`, `qwen3` |"),
        ("tool-parser-only", "vllm from 0.30 | `none`; tools: `hermes`, `qwen3_xml` |"),
        ("minimax-m3-grammar-missed", "vllm all | asked: `minimax_m3` |"),
        ("mixed-chunk", "vllm all |  |"),
    ],
)
def test_versions_and_parsers_of_a_fault_are_told_in_words(fault: str, cells: str) -> None:
    (row,) = [line for line in pages()["engines.md"].splitlines() if line.startswith(f"| `{fault}` |")]
    assert f" | {cells}" in row
