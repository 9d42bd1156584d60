"""YAML 1.2 core scalars (yaml.org/spec/1.2.2, 10.3.2), lines of keys, and what is refused."""

from __future__ import annotations

import pytest

from gateway.errors import ConfigError
from gateway.rulebook.yamlpos import key_text, line_of, load_yaml_with_lines


def data(text: str) -> object:
    return load_yaml_with_lines(text, source="f.yaml")[0]


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("0", 0), ("-19", -19), ("+12", 12), ("0x3A", 58), ("0.5", 0.5), (".5", 0.5), ("-2E+05", -200000.0),
        ("12e3", 12000.0),
        ("off", "off"), ("No", "No"), ("on", "on"), ("yes", "yes"), ("8:30", "8:30"), ("010", "010"), ("0o7", "0o7"),
        ("2026-11-30", "2026-11-30"), ("1_000", "1_000"), ("0.0.0.0:8080", "0.0.0.0:8080"), (".inf", ".inf"),
        ("'5'", "5"), ("64KiB", "64KiB"), ("x", "x"), ("-", [None]),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema_of_yaml_1_2(scalar: str, value: object) -> None:
    read = data(f"k:\n  {scalar}\n") if scalar == "-" else data(f"k: {scalar}\n")
    assert read == {"k": value}
    assert type(read["k"]) is type(value)  # type: ignore[index]


def test_every_key_and_item_has_its_line() -> None:
    text = "# first\na: 1\nb:\n  - x\n  - c: 2\n    d: {e: 3}\nf: >\n  folded\n"
    _, lines = load_yaml_with_lines(text, source="f.yaml")
    assert lines == {
        (): 2, ("a",): 2, ("b",): 3, ("b", 0): 4, ("b", 1): 5, ("b", 1, "c"): 5, ("b", 1, "d"): 6,
        ("b", 1, "d", "e"): 6, ("f",): 7,
    }  # fmt: skip


def test_an_empty_document_is_none_on_line_one() -> None:
    assert load_yaml_with_lines("# nothing\n", source="f.yaml") == (None, {(): 1})


def test_merged_keys_keep_their_lines_and_the_mappings_own_keys_win() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc:\n  y: 3\n  <<: [*a, *b]\nd:\n  <<: *b\n"
    read, lines = load_yaml_with_lines(text, source="f.yaml")
    assert read["c"] == {"x": 1, "y": 3, "z": 2}
    assert [lines["c", key] for key in "xyz"] == [1, 4, 2]
    assert read["d"] == {"x": 2, "z": 2}
    assert lines["d", "z"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  d: 1\n  c: 2\n", "f.yaml:5: b.c: the key is given twice"),
        ("- a: 1\n  a: 2\n", "f.yaml:2: [0].a: the key is given twice"),
        ("a:\n  404: x\n", "f.yaml:2: a: a key must be text; quote it"),
        ("a:\n  [1, 2]: x\n", "f.yaml:2: a: a key must be text; quote it"),
        ("true: x\n", "f.yaml:1: (file): a key must be text; quote it"),
        ("a: &a\n  - *a\n", "f.yaml:1: a[0]: contains itself"),
        ("a: 1\n b: 2\n", "f.yaml:2: not YAML: mapping values are not allowed here"),
        ("a: [1\n", "f.yaml:2: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: not YAML: but found another document"),
        ("a: 1\nb: !!python/name:os.system x\n",
         "f.yaml:2: not YAML: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system'"),
        ("a: 1\nb: \x00\n", "f.yaml:2: not YAML: special characters are not allowed"),
        ("a: !!int x\n", "f.yaml:1: not YAML: invalid literal for int() with base 10: 'x'"),
        ("a: " + "[" * 5_000, "f.yaml:1: not YAML: nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        data(text)
    assert str(caught.value) == message


def test_one_mapping_may_be_used_twice() -> None:
    assert data("a: &a {x: 1}\nb: *a\n") == {"a": {"x": 1}, "b": {"x": 1}}


def test_a_path_reads_as_users_write_it() -> None:
    assert key_text(("routes", 0, "match", "models")) == "routes[0].match.models"
    assert key_text(()) == "(file)"


def test_a_missing_key_has_the_line_of_what_it_is_missing_from() -> None:
    lines = {(): 1, ("a",): 3}
    assert line_of(lines, ("a", "b", 0)) == 3
    assert line_of(lines, ("z",)) == 1
    assert line_of({}, ("z",)) == 1
