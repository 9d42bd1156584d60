"""The generated pages: the committed ones are current, and nothing is missing in them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from gateway.cli.docs import known_keys, main, pages
from gateway.integrity.holds import HOLDS
from gateway.limits import Limits
from gateway.rulebook.yamlpos import load_yaml_with_lines
from gateway.server.config import config_from_mapping

REPO = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["config.md", "holding.md"])
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


def test_every_key_of_the_schema_has_a_row() -> None:
    rows = [line.split("|")[1].strip() for line in pages()["config.md"].splitlines() if line.startswith("| `")]
    assert rows == [f"`{key}`" for block in _blocks() for key in block]
    for key in ("listen", "routes[].match.models", "policy.regenerate.on_exhausted", "limits.http_line", "drain.token"):
        assert f"`{key}`" in rows


def _blocks() -> list[list[str]]:
    """The keys of the schema, block by block."""
    blocks: dict[str, list[str]] = {}
    for key, _ in known_keys():
        blocks.setdefault(key.rpartition(".")[0], []).append(key)
    return list(blocks.values())


def test_every_key_without_effect_is_listed_as_such() -> None:
    listed = pages()["config.md"].partition("## Keys without effect")[2].partition("## Refused")[0]
    for key in (
        "policy.tool_rescue.content",
        "policy.structured_output.check",
        "policy.raw_text",
        "routes[].engine_version",
    ):
        assert f"* `{key}`\n" in listed
    assert "reasoning_field" not in listed


def test_every_refused_value_is_listed_with_what_to_do_instead() -> None:
    refused = pages()["config.md"].partition("## Refused in this version")[2]
    assert "* `workers`: anything but `1`; remove it or run more replicas\n" in refused
    assert "* `routes[].source`: `tokens`; remove it or use auto, fields or text\n" in refused
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
    row = next(line for line in pages()["config.md"].splitlines() if line.startswith(f"| `{key}` |"))
    assert [cell.strip(" `") for cell in row.split("|")[3:6]] == [observe, repair, full]


def test_the_first_example_of_the_page_is_a_whole_configuration() -> None:
    example = pages()["config.md"].partition("```yaml\n")[2].partition("```")[0]
    data, _ = load_yaml_with_lines(example, source="docs/config.md")
    assert config_from_mapping(data, source="docs/config.md").routes[0].dialect_name == "think+hermes"


def test_every_window_and_every_cap_stands_on_the_page_about_holding() -> None:
    text = pages()["holding.md"]
    for hold in HOLDS:
        assert f"| `{hold.cause}` | {hold.what} |" in text
    for cap in fields(Limits):
        assert f"`limits.{cap.name}`" in text
        assert str(cap.metadata["at_cap"]) in text
