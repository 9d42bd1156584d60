"""Files to rulebook: overlay, every refusal of rules/README.md with its place, values, digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.rulebook.dialect import Header, HeaderRule, Kind, Reopen, Sample, Target, Thought, ToolRegion
from gateway.rulebook.load import kind_of, load_rulebook, shipped_rules
from gateway.streams.calls.json_body import JsonBody

GOOD = """\
name: mine
summary: a family
kind: tag
aliases: {vllm: [mine_parser]}
thoughts:
  - {open: ["<a>"], close: ["</a>"]}
samples:
  - {raw: "<a>x</a>y", reasoning: x, content: y}
"""

FULL = """\
name: full
summary: everything a file can say
kind: control
aliases: {vllm: [full], sglang: [full-parser]}
models: ["*full*"]
starts_in: reasoning
reopen: line_start
promote: false
thoughts:
  - {open: [], close: ["<t|>", "<tt|>"]}
answer: {open: ["<r>"], close: ["</r>"]}
header: {open: ["<h>"], first: ["<g>"], close: "\\n", within: ["<w>"], rules: [{text: "th.*", to: reasoning}]}
replay: true
suffixed: true
spaced: true
special: ["<s>"]
invented: ["<i>"]
message_close: ["<m>"]
framing: ["<f>"]
end_of_turn: ["<e>"]
calls: [full]
samples:
  - {raw: x, starts_in: reasoning, reasoning: x, content: ""}
"""

FULL_CALLS = """\
name: full
summary: a call
aliases: {vllm: [full_tools]}
ident: "{name}_{number}"
regions:
  - open: ["<c>"]
    close: ["</c>"]
    ended_by: ["<e>"]
    ends_thought: true
  - {open: ["<d>"], bodies: [{kind: json}]}
"""


def rules(path: Path, **files: str) -> Path:
    """A rules directory; `dialects_x=…` becomes `dialects/x.yaml`."""
    for name, text in files.items():
        kind, _, stem = name.partition("_")
        file = path / kind / f"{stem}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path) -> list[str]:
    """The lines of the error, the directory left out."""
    with pytest.raises(ConfigError) as caught:
        load_rulebook([path])
    return str(caught.value).replace(f"{path}/", "").splitlines()


def test_the_shipped_rules_load_and_stand_beside_the_package() -> None:
    assert shipped_rules() == Path(__file__).parents[2] / "rules"
    files = {path.stem for path in (shipped_rules() / "dialects").iterdir()}
    assert set(load_rulebook().dialects) == files and files >= {"think", "harmony", "kimi_k3", "generic"}


def test_a_good_file_is_loaded_beside_the_shipped_ones(tmp_path: Path) -> None:
    rulebook = load_rulebook([rules(tmp_path, dialects_mine=GOOD)])
    assert set(rulebook.dialects) == {*load_rulebook().dialects, "mine"}


def test_every_key_of_a_file_becomes_its_value(tmp_path: Path) -> None:
    dialect = load_rulebook([rules(tmp_path, dialects_full=FULL, calls_full=FULL_CALLS)]).dialects["full"]
    assert (dialect.name, dialect.summary, dialect.kind) == ("full", "everything a file can say", Kind.CONTROL)
    assert dict(dialect.aliases) == {"vllm": ("full",), "sglang": ("full-parser",)}
    assert (dialect.models, dialect.starts_in, dialect.reopen) == (("*full*",), "reasoning", Reopen.LINE_START)
    assert dialect.promote is False
    assert dialect.thoughts == (Thought(open=(), close=("<t|>", "<tt|>")),)
    assert (dialect.answer_open, dialect.answer_close) == (("<r>",), ("</r>",))
    rule = HeaderRule(text="th.*", to=Target.REASONING)
    assert dialect.headers == (Header(open=("<h>",), close="\n", rules=(rule,), within=("<w>",), first=("<g>",)),)
    assert (dialect.replay, dialect.suffixed, dialect.spaced) == (True, True, True)
    assert (dialect.special, dialect.invented) == (("<s>",), ("<i>",))
    assert (dialect.message_close, dialect.framing, dialect.end_of_turn) == (("<m>",), ("<f>",), ("<e>",))
    assert dialect.calls == ("full",)
    assert dialect.regions == (
        ToolRegion(open=("<c>",), close=("</c>",), ended_by=("<e>",), ends_thought=True),
        ToolRegion(open=("<d>",), bodies=(JsonBody(),)),
    )
    assert dialect.ident == "{name}_{number}"
    assert dialect.samples == (Sample(raw="x", reasoning="x", content="", starts_in="reasoning"),)


SECOND = 'header:\n  - {open: ["<h>"], close: "", rules: [{text: "", to: foreign}]}\n  - '


def test_several_headers_are_a_list_and_any_of_them_may_lead_to_reasoning(tmp_path: Path) -> None:
    first = next(line for line in FULL.splitlines() if line.startswith("header:")).removeprefix("header: ")
    full = FULL.replace(f"header: {first}\n", f"{SECOND.replace('<h>', '<role>')}{first}\n")
    role, channel = load_rulebook([rules(tmp_path, dialects_full=full, calls_full=FULL_CALLS)]).dialects["full"].headers
    assert role == Header(open=("<role>",), close="", rules=(HeaderRule(text="", to=Target.FOREIGN),))
    assert channel.open == ("<h>",)


def test_a_call_format_keeps_its_parser_names_and_regions(tmp_path: Path) -> None:
    call = load_rulebook([rules(tmp_path, calls_full=FULL_CALLS)]).calls["full"]
    assert (call.name, call.summary, dict(call.aliases)) == ("full", "a call", {"vllm": ("full_tools",)})
    assert [region.open for region in call.regions] == [("<c>",), ("<d>",)]


def test_a_dialect_is_hashable_because_compiled_grammars_are_cached_by_it(tmp_path: Path) -> None:
    rulebook = load_rulebook([rules(tmp_path, dialects_mine=GOOD)])
    assert len({rulebook.dialects["mine"], rulebook.dialects["think"], rulebook.dialects["mine"]}) == 2


def test_a_file_with_a_shipped_name_replaces_it_with_its_parser_names(tmp_path: Path) -> None:
    mine = GOOD.replace("mine", "mistral", 1).replace("mine_parser", "mistral")
    rulebook = load_rulebook([rules(tmp_path, dialects_mistral=mine)])
    assert rulebook.dialects["mistral"].summary == "a family"
    assert set(rulebook.dialects) == set(load_rulebook().dialects)


def test_the_last_directory_wins_and_one_more_file_beats_all(tmp_path: Path) -> None:
    first = rules(tmp_path / "1", dialects_mine=GOOD)
    second = rules(tmp_path / "2", dialects_mine=GOOD.replace("a family", "second"))
    (tmp_path / "mine.yaml").write_text(GOOD.replace("a family", "third"))
    assert load_rulebook([first, second]).dialects["mine"].summary == "second"
    assert load_rulebook([second, first]).dialects["mine"].summary == "a family"
    assert load_rulebook([first], extra=tmp_path / "mine.yaml").dialects["mine"].summary == "third"


def test_a_file_in_a_directory_named_calls_is_a_call_format(tmp_path: Path) -> None:
    call = rules(tmp_path, calls_full=FULL_CALLS) / "calls" / "full.yaml"
    assert kind_of(call) == "calls"
    assert kind_of(tmp_path / "full.yaml") == "dialects"
    assert kind_of(tmp_path / "engines" / "full.yaml") == "engines"
    assert load_rulebook(extra=call).calls["full"].summary == "a call"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('close: ["</a>"]', "close: []",
         ["6: thoughts[0].close: got [], expected at least one closer: a thought without one never ends"]),
        (', close: ["</a>"]', "", ["6: thoughts[0]: close is missing"]),
        ('open: ["<a>"]', "open: []",
         ["6: thoughts[0].open: got [], expected at least one opener: no header of this dialect leads to reasoning"]),
        ('"<a>"]', '""]', ["6: thoughts[0].open[0]: got '', expected a marker with a visible character"]),
        ('"<a>"]', '"</a>"]', ["6: thoughts[0].close[0]: '</a>' is think closer here and think opener elsewhere"]),
        ("samples:\n  - {raw: \"<a>x</a>y\", reasoning: x, content: y}\n", "", ["1: (file): samples is missing"]),
        ("samples:\n  - {raw: \"<a>x</a>y\", reasoning: x, content: y}\n", "samples: []\n",
         ["7: samples: got [], expected at least one sample: a raw output and how it reads"]),
        ("kind: tag\n", 'kind: tag\nheader: {open: ["<h>"], close: "|", rules: [{text: "(", to: answer}]}\n',
         ["4: header.rules[0].text: got '(', expected a regular expression"
          " (missing ), unterminated subpattern at position 0)"]),
        ("kind: tag\n", "kind: tag\nheader: []\n", ["4: header: got [], expected at least one header"]),
        ("kind: tag\n", "kind: tag\nheader: 5\n", ["4: header: got 5, expected a mapping"]),
        ("kind: tag\n", f'kind: tag\n{SECOND}{{open: [], close: "|", to: x}}\n',
         ["6: header[1].open: got [], expected at least one opening literal",
          "6: header[1].to: unknown key, expected one of open, close, within, first, rules",
          "6: header[1]: rules is missing"]),
        ("kind: tag\n", f'kind: tag\n{SECOND}{{open: ["<h>"], close: "|", rules: [{{text: x, to: answer}}]}}\n',
         ["6: header[1].open[0]: '<h>' opens another header of this dialect as well"]),
        ("thoughts:\n  - {open: [\"<a>\"]", f'{SECOND}{{open: ["<i>"], close: "", rules: [{{text: x, to: answer}}]}}\n'
         'thoughts:\n  - {open: []',
         ["9: thoughts[0].open: got [], expected at least one opener: no header of this dialect leads to reasoning"]),
        ("kind: tag\n", "kind: tag\ncalls: [nope]\n", ["4: calls[0]: no call format 'nope' among apertus"]),
        ("mine_parser", "qwen3", ["4: aliases.vllm[0]: 'qwen3' is already claimed at "]),
        ("kind: tag\n", "kind: tag\nreopens: never\n", ["4: reopens: unknown key, did you mean reopen?"]),
        ("kind: tag\n", "kind: tag\nkind: tag\n", ["4: kind: the key is given twice"]),
        ("name: mine", "name: other", ["1: name: got 'other', expected the file's name without .yaml, 'mine'"]),
    ],
)  # fmt: skip
def test_what_the_loader_refuses_has_its_line_key_and_reason(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    path = rules(tmp_path, dialects_mine=GOOD.replace(old, new))
    lines = refusal(path)
    assert len(lines) == len(expected)
    for line, text in zip(lines, expected, strict=True):
        assert text in line


CALLS = """\
name: mine
summary: a call
aliases: {}
variants: {"<": ["[["]}
bodies:
  - {kind: named, name: "(?P<name>x)", separator: [":"]}
  - {kind: pairs, key: ["<k>", "</k>"], value: ["<v>", "</v>"]}
regions:
  - {open: ["<c>"], close: ["</c>"]}
  - {open: ["<d>"], head: "(?P<name>x)"}
samples:
  - {raw: "<c>x:{}</c>", calls: [{name: x, arguments: {}}]}
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("kind: named", "kind: name", "6: bodies[0].kind: got 'name', expected one of json, arguments, named, "
         "elements, pairs, nested, python, braces"),
        ("kind: named, ", "", "6: bodies[0]: kind is missing"),
        (', separator: [":"]', "", "6: bodies[0]: separator is missing"),
        ("separator:", "separators:", "6: bodies[0].separators: unknown key, did you mean separator?"),
        ('"(?P<name>x)", s', '"(?P<name>x", s', "6: bodies[0].name: got '(?P<name>x', expected a regular expression "
         "(missing ), unterminated subpattern at position 0)"),
        ('"(?P<name>x)", s', '"x", s',
         "6: bodies[0].name: got 'x', expected a regular expression with a group (?P<name>…)"),
        ('"</k>"]', '"</k>", "k"]',
         "7: bodies[1].key: got ['<k>', '</k>', 'k'], expected an opening and a closing literal"),
        ('head: "(?P<name>x)"', 'head: "("', "10: regions[1].head: got '(', expected a regular expression"
         " (missing ), unterminated subpattern at position 0)"),
        ('close: ["</c>"]', 'close: ["</c>"], argument: {}', "9: regions[0].argument: unknown key, expected one of"),
        ("  - {kind: pairs", "  - {kind: pairs, types: {int: number}",
         "7: bodies[1].types.int: got 'number', expected one of string, json"),
        ('variants: {"<": ["[["]}', 'ident: "{name}"',
         "4: ident: got '{name}', expected text with {name} and {number} in it"),
        ('{"<": ', '{"#": ', "4: variants.#: '#' stands in no opener"),
        ('"<d>"]', '"[[c>"]', "4: variants: '[[c>' is tool opener here and tool opener elsewhere"),
        ("arguments: {}}]", "}]", "12: samples[0].calls[0]: arguments is missing"),
    ],
)  # fmt: skip
def test_what_the_loader_refuses_in_a_call_format(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert CALLS.replace(old, new) != CALLS
    lines = refusal(rules(tmp_path, calls_mine=CALLS.replace(old, new)))
    assert expected in "\n".join(lines)
    assert all(line.startswith("calls/mine.yaml:") for line in lines)


def test_every_problem_of_every_file_comes_at_once(tmp_path: Path) -> None:
    bad = GOOD.replace("kind: tag", "kind: tags").replace('["</a>"]', '["<a>"]')
    path = rules(tmp_path, dialects_mine=bad, dialects_syntax="a: [", calls_full=FULL_CALLS.replace("open", "opens", 1))
    assert refusal(path) == [
        "dialects/syntax.yaml:1: not YAML: expected the node content, but found '<stream end>'",
        "dialects/mine.yaml:3: kind: got 'tags', expected one of tag, control, text",
        "dialects/mine.yaml:6: thoughts[0].close[0]: '<a>' is think closer here and think opener elsewhere",
        "calls/full.yaml:6: regions[0].opens: unknown key, did you mean open?",
        "calls/full.yaml:6: regions[0]: open is missing",
    ]


def test_a_call_format_that_is_no_yaml_is_still_known_by_name(tmp_path: Path) -> None:
    path = rules(tmp_path, dialects_mine=GOOD + "calls: [full]\n", calls_full="a: [")
    assert refusal(path) == ["calls/full.yaml:1: not YAML: expected the node content, but found '<stream end>'"]


def test_bytes_that_are_no_utf_8_are_refused_with_their_line(tmp_path: Path) -> None:
    path = rules(tmp_path, dialects_mine=GOOD)
    (path / "dialects" / "mine.yaml").write_bytes(b"name: mine\nsummary: \xff\n")
    assert refusal(path) == ["dialects/mine.yaml:2: not UTF-8"]


def test_an_empty_file_lacks_everything(tmp_path: Path) -> None:
    assert refusal(rules(tmp_path, dialects_mine="")) == ["dialects/mine.yaml:1: (file): got None, expected a mapping"]


def test_a_directory_without_rule_files_is_refused(tmp_path: Path) -> None:
    expected = f"{tmp_path}: no rule files; expected NAME.yaml in dialects, calls, leaks, engines"
    assert refusal(tmp_path) == [expected]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "dialects" / "mine.yaml").mkdir(parents=True)
    assert refusal(tmp_path) == ["dialects/mine.yaml: cannot be read: Is a directory"]


def test_the_digest_changes_with_names_and_bytes_only(tmp_path: Path) -> None:
    one = load_rulebook([rules(tmp_path / "1", dialects_mine=GOOD)]).digest
    moved = load_rulebook([rules(tmp_path / "2", dialects_mine=GOOD)]).digest
    changed = load_rulebook([rules(tmp_path / "3", dialects_mine=GOOD + "\n")]).digest
    renamed = load_rulebook([rules(tmp_path / "4", dialects_mime=GOOD.replace("mine\n", "mime\n", 1))]).digest
    assert one == moved
    assert len({load_rulebook().digest, one, changed, renamed}) == 4


def test_the_digest_is_sha_256_over_names_and_bytes() -> None:
    total = hashlib.sha256()
    for kind in ("calls", "dialects", "engines", "leaks"):
        for file in sorted((shipped_rules() / kind).glob("*.yaml")):
            raw = file.read_bytes()
            total.update(f"{kind}/{file.name}\0{len(raw)}\0".encode() + raw)
    assert load_rulebook().digest == total.hexdigest()[:12]


def test_unchanged_files_are_built_once() -> None:
    assert load_rulebook() is load_rulebook()
