"""What no schema says: names, references, aliases and literals with two meanings (rules/README.md, last section)."""

from __future__ import annotations

import pytest

from gateway.rulebook.checks import (
    RuleData,
    alias_problems,
    clashes,
    file_problems,
    markers_of,
    repeated_faults,
    spelling_problems,
)
from gateway.rulebook.dialect import CallFormat, Dialect, Header, HeaderRule, Kind, Target, Thought, ToolRegion
from gateway.rulebook.yamlpos import load_yaml_with_lines


def rule(text: str, *, kind: str = "dialects", stem: str = "fam", source: str = "fam.yaml") -> RuleData:
    data, lines = load_yaml_with_lines(text, source=source)
    return RuleData(kind, stem, source, data, lines)


CALL_TEXT = 'regions:\n  - {open: ["<c>"], close: ["</c>"], ended_by: ["<end>"]}\n'
CALL = rule(CALL_TEXT, kind="calls", stem="c", source="c.yaml")


SAME = rule(CALL_TEXT + '  - {open: ["<x>"], close: ["</x>"]}\n', kind="calls", stem="same", source="same.yaml")
OTHER = rule('regions:\n  - {open: ["<c>"], close: ["</d>"]}\n', kind="calls", stem="other", source="other.yaml")
TWICE = rule(f"{CALL_TEXT}{CALL_TEXT.partition(chr(10))[2]}", kind="calls", stem="twice", source="twice.yaml")
CALLS = {"c": CALL, "same": SAME, "other": OTHER, "twice": TWICE}


def problems(text: str) -> list[str]:
    return list(file_problems(rule(text), CALLS))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: fam\n", []),
        ("name: other\n", ["fam.yaml:1: name: got 'other', expected the file's name without .yaml, 'fam'"]),
        ("calls: [c]\n", []),
        ("calls:\n  - c\n  - d\n", ["fam.yaml:3: calls[1]: no call format 'd' among c, other, same, twice"]),
        ("calls: [c, same]\n", []),
        ("calls:\n  - c\n  - other\n",
         ["fam.yaml:3: calls[1]: '<c>' is tool opener here and tool opener elsewhere"]),
        ("calls: [twice]\n", ["fam.yaml:1: calls[0]: '<c>' is tool opener here and tool opener elsewhere"]),
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
        ('header:\n  - {open: ["<h>", "<g>"], close: ""}\n'
         '  - {open: ["<i>"], first: ["<h>"], close: "", within: ["<g>"]}\n',
         ["fam.yaml:3: header[1].first[0]: '<h>' opens another header of this dialect as well"]),
        ('thoughts: [{open: ["<a>"], close: ["</a>"]}]\ninvented: ["<a>"]\n', []),
        ('thoughts: [{open: ["<a>"], close: ["</a>"]}]\ninvented: ["</a>"]\n',
         ["fam.yaml:2: invented[0]: '</a>' is opener of the engine's parser here and think closer elsewhere"]),
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


BODY = "bodies: [{kind: json}]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('regions:\n  - {open: ["<a>"], close: ["</a>"]}\n', []),
        ('regions:\n  - {open: ["<a>"], bodies: [{kind: json}]}\n', []),
        (f'{BODY}regions:\n  - {{open: ["<a>"]}}\n', []),
        ('regions:\n  - {open: ["<a>"]}\n',
         ["c.yaml:2: regions[0]: a region without bodies needs a closer: nothing else tells where it ends"]),
        (f'{BODY}regions:\n  - {{open: ["<a>"], bodies: []}}\n',
         ["c.yaml:3: regions[0]: a region without bodies needs a closer: nothing else tells where it ends"]),
        (f'{BODY}regions:\n  - {{open: [], example: "<h>"}}\n  - {{open: ["<a>"], example: "<h>"}}\n',
         ["c.yaml:4: regions[1].example: only a region that a header opens (`open: []`) has an example of one"]),
        (f'{BODY}regions:\n  - {{open: [], head: "to=(?P<name>x)"}}\n', []),
        (f'{BODY}regions:\n  - {{open: [], head: "to=x"}}\n',
         ["c.yaml:3: regions[0].head: got 'to=x', expected a regular expression with a group (?P<name>…)"]),
        ('bodies:\n  - {kind: named, name: "x", separator: [""]}\n  - {kind: json, name: [x]}\n',
         ["c.yaml:2: bodies[0].name: got 'x', expected a regular expression with a group (?P<name>…)"]),
        ('bodies:\n  - {kind: nested, call: {words: "(?P<name>x)"}}\n  - {kind: nested, call: {words: "(x"}}\n', []),
        ('bodies:\n  - {kind: nested, call: {words: "(?P<type>x)"}}\n',
         ["c.yaml:2: bodies[0].call.words: got '(?P<type>x)', expected a regular expression with a group (?P<name>…)"]),
        (f'{BODY}variants: {{"#": ["+"]}}\nregions:\n  - {{open: ["<#a>"]}}\n', []),
        (f'{BODY}variants:\n  "#": ["+"]\nregions:\n  - {{open: ["<a>", 5], close: ["#"]}}\n',
         ["c.yaml:3: variants.#: '#' stands in no opener"]),
        ("regions: 5\nvariants: [x]\n", []),
        ("regions: [5]\n", []),
        ("- no mapping\n", []),
    ],
)  # fmt: skip
def test_problems_of_a_call_format(text: str, expected: list[str]) -> None:
    assert list(file_problems(rule(text, kind="calls", stem="c", source="c.yaml"), {})) == expected


def test_a_literal_that_means_two_things_in_another_spelling_is_told_at_the_line_that_spells_it() -> None:
    call = rule('name: c\nvariants: {"#": ["+"]}\n', kind="calls", stem="c", source="c.yaml")
    fine = rule("name: d\n", kind="calls", stem="d", source="d.yaml")
    dialect = rule("name: fam\ncalls: [d]\n")
    regions = (ToolRegion(open=("<a>",)), ToolRegion(open=("<b>",), ended_by=("<a>",)))
    forms = {name: CallFormat(name=name, summary="", aliases={}, regions=regions[:size])
             for name, size in (("c", 2), ("d", 1))}  # fmt: skip
    family = Dialect(name="fam", summary="", kind=Kind.TAG, aliases={}, regions=regions[:1], framing=("<a>",))
    other = rule("name: leak\n", kind="leaks", stem="leak", source="leak.yaml")
    assert list(spelling_problems([call, fine, dialect, other], forms, {"fam": family})) == [
        "c.yaml:2: variants: '<a>' is end of an unclosed region here and tool opener elsewhere",
        "fam.yaml:2: calls: '<a>' is tool opener here and framing elsewhere",
    ]


def test_a_family_cannot_have_a_word_of_the_dialect_key_as_its_name() -> None:
    file = rule("name: auto\n", stem="auto", source="auto.yaml")
    assert list(file_problems(file, {})) == ["auto.yaml:1: name: 'auto' has a meaning of its own in the `dialect` key"]


def test_a_fault_has_a_name_of_its_own_among_all_files() -> None:
    first = rule("faults:\n  - {id: a, symptom: b}\n  - {id: b}\n", kind="engines", stem="x", source="x.yaml")
    second = rule("faults:\n  - id: c\n  - id: a\n", kind="engines", stem="y", source="y.yaml")
    family = rule("faults:\n  - id: a\n", source="z.yaml")  # no key of a family: the schema's to tell
    assert list(repeated_faults([first, second, family])) == [
        "y.yaml:3: faults[1].id: 'a' is already the name of the fault at x.yaml:2"
    ]


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
        headers=(
            Header(open=("5",), first=("first",), close="6", rules=(HeaderRule(text="x", to=Target.ANSWER),)),
            Header(open=("role",), close="", rules=(HeaderRule(text="", to=Target.FOREIGN),)),
        ),
        message_close=("7",),
        framing=("8",),
        end_of_turn=("9",),
        special=("0",),
        dangling=("i",),
        invented=("1",),
        regions=(
            ToolRegion(open=("a",), close=("b",), ended_by=("c",), between=("d",)),
            ToolRegion(open=("f",)),
        ),
    )
    assert list(markers_of(dialect)) == [
        ("think opener", "1"), ("think closer", "2"), ("answer opener", "3"), ("answer closer", "4"),
        ("header opener", "5"), ("header opener", "first"), ("header opener", "role"), ("header closer", "6"),
        ("message closer", "7"), ("framing", "8"), ("end of turn", "9"), ("special token", "0"),
        ("dangling markup", "i"), ("opener of the engine's parser", "1"),
        ("tool opener", "a"), ("tool opener", "f"), ("tool closer", "b"), ("end of an unclosed region", "c"),
    ]  # fmt: skip


def test_a_role_token_has_no_closing_literal() -> None:
    header = Header(open=("<r>",), close="", rules=(HeaderRule(text="", to=Target.FOREIGN),))
    dialect = Dialect(name="d", summary="d", kind=Kind.TAG, aliases={}, headers=(header,))
    assert list(markers_of(dialect)) == [("header opener", "<r>")]


def test_a_dialect_may_have_no_markers() -> None:
    assert list(markers_of(Dialect(name="d", summary="d", kind=Kind.TAG, aliases={}))) == []
