"""What no schema says: names, references, aliases and literals with two meanings (rules/README.md, last section)."""

from __future__ import annotations

import pytest

from gateway.rulebook.checks import RuleData, alias_problems, clashes, file_problems, markers_of
from gateway.rulebook.dialect import Dialect, Header, HeaderRule, Kind, Target, Thought, ToolRegion
from gateway.rulebook.yamlpos import load_yaml_with_lines


def rule(text: str, *, kind: str = "dialects", stem: str = "fam", source: str = "fam.yaml") -> RuleData:
    data, lines = load_yaml_with_lines(text, source=source)
    return RuleData(kind, stem, source, data, lines)


CALL_TEXT = 'regions:\n  - {open: ["<c>"], close: ["</c>"], ended_by: ["<end>"]}\n'
CALL = rule(CALL_TEXT, kind="calls", stem="c", source="c.yaml")


def problems(text: str) -> list[str]:
    return list(file_problems(rule(text), {"c": CALL}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: fam\n", []),
        ("name: other\n", ["fam.yaml:1: name: got 'other', expected the file's name without .yaml, 'fam'"]),
        ("calls: [c]\n", []),
        ("calls:\n  - c\n  - d\n", ["fam.yaml:3: calls[1]: no call format 'd' among c"]),
        ('thoughts:\n  - {open: ["<a>"], close: ["</a>"]}\n  - {open: ["<a>"], close: ["</b>"]}\n',
         ["fam.yaml:3: thoughts[1].open[0]: '<a>' is think opener here and think opener elsewhere"]),
        ('thoughts:\n  - {open: ["<a>"], close: ["</a>"]}\n  - {open: ["<b>"], close: ["</a>"]}\n', []),
        ('framing: ["<m>"]\nend_of_turn: ["<m>"]\n',
         ["fam.yaml:2: end_of_turn[0]: '<m>' is end of turn here and framing elsewhere"]),
        ('thoughts:\n  - {open: ["<a>"], close: ["<c>"]}\ncalls: [c]\n',
         ["fam.yaml:3: calls[0]: '<c>' is tool opener here and think closer elsewhere"]),
        ('framing: ["<end>"]\ncalls: [c]\n', []),
        ('end_of_turn: ["<end>"]\ncalls: [c]\n', []),
        ('message_close: ["<end>"]\ncalls: [c]\n',
         ["fam.yaml:2: calls[0]: '<end>' is end of an unclosed region here and message closer elsewhere"]),
        ('header: {open: ["<h>"], close: "<m>", within: ["<h>"], rules: [{text: "<h>", to: answer}]}\n', []),
        ('header: {open: ["<h>"], close: "<m>", rules: []}\nthoughts: [{open: ["<m>"], close: ["</m>"]}]\n', []),
        ('header: {open: ["<h>"], first: ["<h>"], close: "", rules: []}\n',
         []),
        ('header: {open: ["<h>"], first: ["<f>"], close: "", rules: []}\nframing: ["<f>"]\n',
         ["fam.yaml:2: framing[0]: '<f>' is framing here and header opener elsewhere"]),
        ('end_of_turn: ["<r>"]\nheader: {open: ["<r>"], close: "", rules: []}\n', []),
        ('thoughts: [{open: ["<a>"], close: ["<e>"]}]\nmessage_close: ["<e>"]\n', []),
        ('message_close: ["</c>"]\ncalls: [c]\n', []),
        ('thoughts: [{open: ["<a>"], close: ["</c>"]}]\ncalls: [c]\n', []),
        ('special: ["<s>"]\nend_of_turn: ["<s>"]\n',
         ["fam.yaml:2: end_of_turn[0]: '<s>' is end of turn here and special token elsewhere"]),
        ("- no mapping\n", []),
        ("thoughts: 5\nframing: [5]\n", []),
    ],
)  # fmt: skip
def test_problems_of_one_file(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


def test_a_family_cannot_have_a_word_of_the_dialect_key_as_its_name() -> None:
    file = rule("name: auto\n", stem="auto", source="auto.yaml")
    assert list(file_problems(file, {})) == ["auto.yaml:1: name: 'auto' has a meaning of its own in the `dialect` key"]


def test_a_parser_name_belongs_to_one_file_of_each_kind_and_engine() -> None:
    first = rule("aliases: {vllm: [qwen3], sglang: [qwen3]}\nmodels: [qwen3]\n", source="a.yaml")
    call = rule("aliases: {vllm: [qwen3]}\n", kind="calls", source="calls.yaml")
    second = rule("aliases:\n  vllm: [x,\n    qwen3]\n", source="b.yaml")
    assert list(alias_problems([first, call])) == []
    expected = "b.yaml:3: aliases.vllm[1]: 'qwen3' is already claimed at a.yaml:1"
    assert list(alias_problems([first, second])) == [expected]


def test_a_parser_name_twice_in_one_list_is_claimed_twice() -> None:
    assert list(alias_problems([rule("aliases: {vllm: [a, a]}\n")])) == [
        "fam.yaml:1: aliases.vllm[1]: 'a' is already claimed at fam.yaml:1"
    ]


def test_one_opener_cannot_open_two_regions_but_one_closer_may_close_both() -> None:
    region = [("tool opener", "<a>"), ("tool closer", "</a>")]
    twice = [(group, literal, (at,)) for at, (group, literal) in enumerate([*region, *region])]
    assert [path for path, _ in clashes(twice)] == [(2,)]


def test_markers_of_a_dialect_are_every_literal_with_its_group() -> None:
    dialect = Dialect(
        name="d",
        summary="d",
        kind=Kind.CONTROL,
        aliases={},
        thoughts=(Thought(open=("1",), close=("2",)),),
        answer_open=("3",),
        answer_close=("4",),
        header=Header(open=("5",), first=("first",), close="6", rules=(HeaderRule(text="x", to=Target.ANSWER),)),
        message_close=("7",),
        framing=("8",),
        end_of_turn=("9",),
        special=("0",),
        regions=(
            ToolRegion(open=("a",), close=("b",), ended_by=("c",), argument_open="d", argument_close="e"),
            ToolRegion(open=("f",)),
        ),
    )
    assert list(markers_of(dialect)) == [
        ("think opener", "1"), ("think closer", "2"), ("answer opener", "3"), ("answer closer", "4"),
        ("header opener", "5"), ("header opener", "first"), ("header closer", "6"), ("message closer", "7"),
        ("framing", "8"), ("end of turn", "9"), ("special token", "0"),
        ("tool opener", "a"), ("tool opener", "f"), ("tool closer", "b"), ("end of an unclosed region", "c"),
        ("argument opener", "d"), ("argument closer", "e"),
    ]  # fmt: skip


def test_a_role_token_has_no_closing_literal() -> None:
    header = Header(open=("<r>",), close="", rules=(HeaderRule(text="", to=Target.FOREIGN),))
    dialect = Dialect(name="d", summary="d", kind=Kind.TAG, aliases={}, header=header)
    assert list(markers_of(dialect)) == [("header opener", "<r>")]


def test_a_dialect_may_have_no_markers() -> None:
    assert list(markers_of(Dialect(name="d", summary="d", kind=Kind.TAG, aliases={}))) == []
