"""The wording of schema errors; the keywords are those of JSON Schema draft 2020-12."""

from __future__ import annotations

import pytest

from gateway.rulebook.schema import nearest, schema_problems, shown
from gateway.rulebook.yamlpos import load_yaml_with_lines

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "size"],
    "properties": {
        "name": {"type": "string", "pattern": r"\S", "description": "a name"},
        "size": {"type": ["integer", "null"], "minimum": 1},
        "kind": {"enum": ["tag", "control"]},
        "text": {"type": "string", "format": "regex", "description": "a regular expression"},
        "list": {"type": "array", "items": {"type": "string"}},
    },
}


def problems(text: str) -> list[str]:
    data, lines = load_yaml_with_lines(text, source="f.yaml")
    return schema_problems(data, schema=SCHEMA, source="f.yaml", lines=lines)


def test_a_valid_file_has_no_problem() -> None:
    assert problems("name: x\nsize: null\nkind: tag\ntext: a+\nlist: [b]\n") == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\nsize: 1\nkindd: tag\n", "f.yaml:3: kindd: unknown key, did you mean kind?"),
        ("name: x\nsize: 1\nzzz: 1\n", "f.yaml:3: zzz: unknown key, expected one of name, size, kind, text, list"),
        ("name: x\n", "f.yaml:1: (file): size is missing"),
        ("name: x\nsize: big\n", "f.yaml:2: size: got 'big', expected a whole number or nothing"),
        ("name: [x]\nsize: 1\n", "f.yaml:1: name: got ['x'], expected text"),
        ("name: x\nsize: 1\nkind: tags\n", "f.yaml:3: kind: got 'tags', expected one of tag, control"),
        ("name: ' '\nsize: 1\n", "f.yaml:1: name: got ' ', expected a name"),
        ("name: x\nsize: 0\n", "f.yaml:2: size: 0 is less than the minimum of 1"),
        ("name: x\nsize: 1\ntext: '('\n",
         "f.yaml:3: text: got '(', expected a regular expression (missing ), unterminated subpattern at position 0)"),
        ("name: x\nsize: 1\nlist:\n  - a\n  - 5\n", "f.yaml:5: list[1]: got 5, expected text"),
    ],
)  # fmt: skip
def test_each_problem_says_where_what_and_what_was_expected(text: str, problem: str) -> None:
    assert problems(text) == [problem]


def test_where_lines_are_not_known_none_is_named() -> None:
    assert schema_problems({"name": 5, "size": 1}, schema=SCHEMA, source="f.json", lines=None) == [
        "f.json: name: got 5, expected text"
    ]


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    assert problems("kind: x\nnames: y\nlist: 5\n") == [
        "f.yaml:1: (file): name is missing",
        "f.yaml:1: (file): size is missing",
        "f.yaml:1: kind: got 'x', expected one of tag, control",
        "f.yaml:2: names: unknown key, did you mean name?",
        "f.yaml:3: list: got 5, expected a list",
    ]


def test_a_long_value_is_cut() -> None:
    assert shown("x" * 58) == "'" + "x" * 58 + "'"
    assert shown("x" * 59) == "'" + "x" * 58 + "…"


def test_nearest_names_come_best_first() -> None:
    assert nearest("hermess", ["pythonic", "hermes"]) == ("hermes",)
    assert nearest("q", ["hermes"]) == ()
