"""Beginnings of an answer that are counted: how a phrase is matched, and what the loader refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigError
from gateway.findings import Finding
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.openings import LOOK, example_problems, make_opening

DATA: dict[str, Any] = {
    "name": "mine",
    "summary": "one",
    "finding": "preamble",
    "openings": ["Here's the  JSON", "好的，"],
    "examples": {"hit": ["here’s the json: 1"], "miss": ["{}"]},
}


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("Here's the JSON:", True),
        ("\n\nHERE’S\nthe   json", True),
        ("好的，给您", True),
        ("Here's the JSONL file", False),  # a phrase ends with its last word
        ("So: here's the JSON", False),
        ("", False),
        (" " * LOOK + "Here's the JSON", False),  # no more than that is looked at
    ],
)
def test_a_phrase_counts_at_the_beginning_in_any_case_and_spacing(text: str, begins: bool) -> None:
    assert make_opening(DATA).begins(text) is begins


def test_a_file_says_what_its_phrases_are_counted_as() -> None:
    opening = make_opening(DATA)
    assert (opening.name, opening.summary, opening.finding) == ("mine", "one", Finding.PREAMBLE)


def test_examples_that_do_not_read_as_they_say_are_told_with_their_place() -> None:
    wrong = DATA | {"examples": {"hit": ["here's the json", "{}"], "miss": ["好的，"]}}
    assert list(example_problems(wrong)) == [
        (("examples", "hit", 1), "begins with none of the openings"),
        (("examples", "miss", 0), "begins with one of the openings"),
    ]
    assert list(example_problems(DATA)) == []


def test_the_shipped_phrases_are_english_and_chinese_thoughts_and_preambles() -> None:
    found = {opening.name: opening.finding for opening in load_rulebook().openings}
    assert found == {
        "thought_en": Finding.SUSPECT_REASONING,
        "thought_zh": Finding.SUSPECT_REASONING,
        "preamble_en": Finding.PREAMBLE,
        "preamble_ko": Finding.PREAMBLE,
    }


FILE = """\
name: thought_en
summary: mine
finding: suspect_reasoning
openings: ["well, "]
examples: {hit: ["Well, the user"], miss: [SAID]}
"""


def test_a_users_file_replaces_the_shipped_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "leaks").mkdir()
    (tmp_path / "leaks" / "thought_en.yaml").write_text(FILE.replace("SAID", "Well done"))
    mine = {opening.name: opening for opening in load_rulebook([tmp_path]).openings}["thought_en"]
    assert (mine.begins("Well, yes"), mine.begins("Okay, the user")) == (True, False)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (FILE.replace("SAID", '"Well, done"'), "5: examples.miss[0]: begins with one of the openings"),
        (FILE.replace("suspect_reasoning", "truncated").replace("SAID", "x"), "3: finding: "),
        (FILE.replace('["well, "]', "[]").replace("SAID", "x"), "4: openings: "),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "leaks").mkdir()
    path = tmp_path / "leaks" / "thought_en.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_rulebook([tmp_path])
    assert str(error.value).startswith(f"{path}:{line}")
