"""What is known to go wrong in engines: the rows of rules/engines, which count where, and what the loader refuses.

Parsers, versions and conditions of the shipped rows are those of reference/vllm.md sections 1 and 4 and sglang.md 4.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigError
from gateway.protocols import protocol_for
from gateway.rulebook.faults import KnownFault, fault_problems, faults_known, faults_of, make_faults
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.select import ENGINES

SHIPPED = load_rulebook().faults

WANTED = [
    *(f"vllm-project/vllm#{number}" for number in (
        51679, 17349, 38212, 39697, 38789, 51641, 51669, 59515, 43933, 43938, 34650, 43388, 44297, 44993, 39130, 45588,
        37362, 51230, 50948)),
    "langchain-ai/langchain#36290",
    "sgl-project/sglang#34458",
    "sgl-project/sglang#37743",
]  # fmt: skip
"""The list of issue 6, must-show 6."""


@pytest.mark.parametrize("issue", WANTED)
def test_each_issue_of_the_list_has_a_row_that_says_where_it_is_from(issue: str) -> None:
    rows = [fault for fault in SHIPPED if issue in fault.issues]
    assert rows != []
    assert [fault.ident for fault in rows if not fault.source] == []


def test_every_parser_of_an_engines_rows_is_one_of_its_parsers() -> None:
    rulebook = load_rulebook()
    unknown = [
        (fault.ident, name)
        for fault in SHIPPED
        if fault.engine in ENGINES
        for half, names in (("reasoning", fault.parsers | fault.asked), ("tools", fault.tools))
        for name in names - {"none"}
        if fault.engine not in rulebook.meanings(half, name)
    ]
    assert unknown == []


# ---------------------------------------------------------------- the parsers that stop strings put out of step

AFFECTED = {
    "deepseek_r1", "step5", "deepseek_v3", "holo2", "poolside_v1", "step3", "ernie45", "hy_v3", "hy_v4", "kimi_k3",
    "k2_horizon", "olmo3",
}  # fmt: skip
IMMUNE = {
    "qwen3", "mimo", "step3p5", "nemotron_v3", "granite_thinking_parser", "seed_oss", "glm45", "glm47", "ling3",
    "kimi_k2", "deepseek_v4", "deepseek_v41", "gemma4", "minimax_m2", "inkling", "plamo3", "mistral", "minimax_m3",
    "muse",
}  # fmt: skip
LEGACY_BEFORE_0_24 = {"qwen3", "glm45", "kimi_k2", "nemotron_v3", "gemma4"}
OFF_BY_DEFAULT = {"deepseek_v3", "poolside_v1", "hy_v3"}  # section 1: identity unless the request asks to think


def cuts(parser: str, *, engine: str = "vllm", version: str = "0.33.0", asked: bool = True, **request: Any) -> bool:
    """Is a stream with stop strings known to be cut at the wrong place?"""
    request = {"endpoint": "chat", "stream": True, "conditions": {"stop"}, **request}
    met = faults_of(SHIPPED, engine=engine, version=version, parser=parser, tools_parser="", asked=asked, **request)
    return any(fault.lint == "stop_desync" for fault in met)


def test_the_parsers_that_cut_a_stream_with_stop_strings_are_known_and_no_others() -> None:
    assert {name for name in AFFECTED | IMMUNE if cuts(name)} == AFFECTED
    assert {name for name in AFFECTED | IMMUNE if cuts(name, version="0.23.1")} == AFFECTED | LEGACY_BEFORE_0_24


def test_a_parser_that_is_off_by_default_cuts_nothing_unless_thinking_is_asked_for() -> None:
    assert {name for name in AFFECTED if not cuts(name, asked=False)} == OFF_BY_DEFAULT


@pytest.mark.parametrize(
    ("request_", "known"),
    [
        ({}, True),
        ({"endpoint": "responses"}, True),
        ({"endpoint": "messages"}, True),
        ({"endpoint": "completions"}, False),  # no parser runs there
        ({"stream": False}, False),
        ({"conditions": set()}, False),
        ({"conditions": {"stop", "tools", "structured"}}, True),
    ],
)
def test_a_row_counts_for_its_endpoints_modes_and_conditions_only(request_: dict[str, Any], known: bool) -> None:
    assert cuts("deepseek_r1", **request_) is known


@pytest.mark.parametrize(
    ("parser", "engine", "known"),
    [
        ("deepseek_r1", "vllm", True),
        ("vllm/deepseek_r1", "vllm", True),
        ("vllm/deepseek_r1", "auto", True),
        ("sglang/kimi_k3", "vllm", False),
        ("kimi_k3", "sglang", False),
        ("kimi_k3", "auto", False),  # whose parser it is is not known
        ("kimi_k3", "other", False),
        ("", "vllm", False),
    ],
)
def test_a_row_is_about_the_parsers_of_its_own_engine(parser: str, engine: str, known: bool) -> None:
    assert cuts(parser, engine=engine) is known


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("", True),
        ("dev", True),
        ("0.9.2", True),
        ("0.32.0+cpu", True),
        ("0.33.1rc2.dev5", True),
        ("0.34.0", False),
        ("1.0", False),
    ],
)
def test_of_a_newer_engine_than_was_tried_nothing_is_known(version: str, known: bool) -> None:
    assert cuts("deepseek_r1", version=version) is known


# ---------------------------------------------------------------- what counts for an engine as it runs


def known(*, engine: str = "vllm", version: str, parser: str = "", tools_parser: str = "") -> set[str]:
    found = faults_known(SHIPPED, engine=engine, version=version, parser=parser, tools_parser=tools_parser)
    return {fault.ident for fault in found}


ALWAYS = {"stop-in-thought", "mixed-chunk"}  # of vLLM, whatever the parser


@pytest.mark.parametrize(
    ("version", "rows"),
    [
        ("0.28.0", {"tool-parser-eats-closer"}),
        ("0.29.9", {"tool-parser-eats-closer"}),
        ("0.30.0", {"tool-parser-only"}),
        ("0.30", {"tool-parser-only"}),
        ("", {"tool-parser-only"}),  # what was fixed somewhere does not count where the version is not known
    ],
)
def test_a_tool_parser_without_a_reasoning_parser_has_the_fault_of_its_version(version: str, rows: set[str]) -> None:
    assert known(version=version, tools_parser="qwen3_xml") - ALWAYS == rows
    assert known(version=version, parser="vllm/qwen3", tools_parser="qwen3_xml") & rows == set()
    assert known(version=version) - ALWAYS == set()  # a family was named: any parser may run there


def test_the_engine_of_a_parser_counts_before_that_of_the_route() -> None:
    assert known(engine="auto", version="0.32.0", tools_parser="vllm/qwen3_xml") == ALWAYS | {"tool-parser-only"}
    assert known(engine="auto", version="0.32.0", tools_parser="qwen3_xml") == set()


def test_what_ended_does_not_count_from_the_version_on_that_is_without_it() -> None:
    ended = {"grammar-missed-speculative"}
    assert [known(version=version) & ended for version in ("0.26.9", "0.27", "0.27.0", "")] == [
        ended,
        set(),
        set(),
        set(),
    ]


def test_versions_are_compared_as_exactly_as_the_rows_give_them() -> None:
    row = {"sglang-kimi-k3-replay"}
    versions = ("0.5.17", "0.5.23", "0.5.23.post1", "0.5.24", "0.6")
    found = [known(engine="sglang", version=version, parser="kimi_k3") & row for version in versions]
    assert found == [row, row, row, set(), set()]


# ---------------------------------------------------------------- files

ROW = """\
  - id: mine
    issue: [me/mine#1]
    versions: {since: "1.0", until: null}
    parsers: [a]
    asked: [b]
    tools: [c]
    endpoints: [chat]
    modes: [plain]
    when: [structured, thinking_off]
    symptom: "It is odd."
    remedy: repair
    bound: "Nothing."
    source: "I saw it."
    checked: {on: 2026-11-30, version: "1.2.3"}
    status: reproduced
    lint: stop_desync
"""
FILE = f"""\
name: mine
summary: my engine
newest: "1.2"
faults:
{ROW}"""


def written(folder: Path, **files: str) -> Path:
    (folder / "engines").mkdir()
    for name, text in files.items():
        (folder / "engines" / f"{name}.yaml").write_text(text)
    return folder


def test_every_key_of_a_row_becomes_its_value(tmp_path: Path) -> None:
    (row,) = [fault for fault in load_rulebook([written(tmp_path, mine=FILE)]).faults if fault.engine == "mine"]
    assert row == KnownFault(
        ident="mine",
        engine="mine",
        newest=(1, 2),
        issues=("me/mine#1",),
        since=(1, 0),
        until=None,
        parsers=frozenset({"a"}),
        asked=frozenset({"b"}),
        tools=frozenset({"c"}),
        endpoints=frozenset({"chat"}),
        modes=frozenset({"plain"}),
        when=frozenset({"structured", "thinking_off"}),
        symptom="It is odd.",
        remedy="repair",
        bound="Nothing.",
        source="I saw it.",
        checked=("2026-11-30", "1.2.3"),
        status="reproduced",
        lint="stop_desync",
    )


def test_a_row_with_several_conditions_wants_all_of_them(tmp_path: Path) -> None:
    faults = load_rulebook([written(tmp_path, mine=FILE)]).faults
    where = {"engine": "mine", "version": "1.1", "parser": "a", "tools_parser": "c", "endpoint": "chat"}

    def met(*conditions: str) -> bool:
        return bool(faults_of(faults, **where, stream=False, asked=False, conditions=conditions))

    assert [met("structured"), met("thinking_off"), met("structured", "thinking_off", "stop")] == [False, False, True]


def test_a_file_without_a_newest_version_is_about_all_that_come(tmp_path: Path) -> None:
    faults = load_rulebook([written(tmp_path, mine=FILE.replace('newest: "1.2"\n', ""))]).faults
    found = [
        len(faults_known(faults, engine="mine", version=version, parser="a", tools_parser="c"))
        for version in ("0.9", "1.0", "99.0")
    ]
    assert found == [0, 1, 1]


def test_a_users_file_replaces_the_shipped_one_of_its_name_and_changes_the_digest(tmp_path: Path) -> None:
    rulebook = load_rulebook([written(tmp_path, vllm=FILE.replace("name: mine", "name: vllm"))])
    assert [fault.ident for fault in rulebook.faults if fault.engine == "vllm"] == ["mine"]
    assert rulebook.digest != load_rulebook().digest


def refusal(folder: Path, text: str) -> str:
    """The one line of the error, with the path of the file left out."""
    with pytest.raises(ConfigError) as error:
        load_rulebook([written(folder, mine=text)])
    return str(error.value).removeprefix(f"{folder}/engines/mine.yaml:")


REMEDIES = "in_step, gateway, tokens, repair, regenerate, upgrade, none"
CONDITIONS = "stop, tools, structured, thinking_off, thinking_budget"
SLUG = "small letters, digits and single hyphens"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("id: mine", "id: My fault", f"5: faults[0].id: got 'My fault', expected {SLUG}"),
        ("[me/mine#1]", '["#1"]', "6: faults[0].issue[0]: got '#1', expected OWNER/REPOSITORY#NUMBER"),
        ('"1.0"', "1.0", "7: faults[0].versions.since: got 1.0, expected a version in quotes, or null"),
        ("asked: [b]", "askd: [b]", "9: faults[0].askd: unknown key, did you mean asked?"),
        ("[chat]", "[]", "11: faults[0].endpoints: got [], expected at least one endpoint, none twice"),
        ("[plain]", "[whole]", "12: faults[0].modes[0]: got 'whole', expected one of stream, plain"),
        ("[structured, thinking_off]", "[often]", f"13: faults[0].when[0]: got 'often', expected one of {CONDITIONS}"),
        ("remedy: repair", "remedy: hope", f"15: faults[0].remedy: got 'hope', expected one of {REMEDIES}"),
        ("2026-11-30", "lately", "18: faults[0].checked.on: got 'lately', expected a day as YEAR-MONTH-DAY"),
        ("    status: reproduced\n", "", "5: faults[0]: status is missing"),
        ("name: mine", "name: yours", "1: name: got 'yours', expected the file's name without .yaml, 'mine'"),
    ],
)
def test_a_row_of_the_wrong_shape_is_told_in_one_line_with_its_key(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert old in FILE
    assert refusal(tmp_path, FILE.replace(old, new, 1)) == problem


FIXED = "a fault is `fixed` where `versions.until` says since when, and nowhere else"
FREE = "`none` needs `tools`: a route that names no parser at all may have any"
TWICE = "names a parser that `parsers` has: it either splits by itself or only where it is asked to"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"status: reproduced": "status: fixed"}, f"19: faults[0].status: {FIXED}"),
        ({"until: null": 'until: "1.1"'}, f"19: faults[0].status: {FIXED}"),
        (
            {"until: null": 'until: "1.0"', "status: reproduced": "status: fixed"},
            "7: faults[0].versions.until: is not behind `since`",
        ),
        (
            {"until: null": 'until: "1.3"', "status: reproduced": "status: fixed"},
            "7: faults[0].versions.until: is newer than `newest`, of which nothing is known",
        ),
        (
            {'{on: 2026-11-30, version: "1.2.3"}': "null"},
            "18: faults[0].checked: a fault is `reproduced` on a version: say on which, and when",
        ),
        ({"asked: [b]": "asked: [a]"}, f"9: faults[0].asked: {TWICE}"),
        ({"parsers: [a]": "parsers: [none]", "    tools: [c]\n": ""}, f"8: faults[0].parsers: {FREE}"),
    ],
)
def test_a_row_that_contradicts_itself_is_told_in_one_line_with_its_key(
    tmp_path: Path, changes: dict[str, str], problem: str
) -> None:
    text = FILE
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    assert refusal(tmp_path, text) == problem


def test_a_name_that_two_rows_have_is_refused_in_any_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load_rulebook([written(tmp_path, mine=FILE + ROW, yours=FILE.replace("name: mine", "name: yours"))])
    first, again = f"{tmp_path}/engines/mine.yaml:5", "faults[0].id: 'mine' is already the name of the fault at"
    assert str(error.value).splitlines() == [
        f"{tmp_path}/engines/mine.yaml:21: {again.replace('[0]', '[1]')} {first}",
        f"{tmp_path}/engines/yours.yaml:5: {again} {first}",
    ]


def test_valid_rows_have_no_problem() -> None:
    row: dict[str, Any] = dict.fromkeys(("symptom", "bound", "source"), "s")
    row |= {"id": "x", "issue": [], "versions": {"since": None, "until": "1.1"}, "endpoints": ["chat"], "when": []}
    row |= {"modes": ["plain"], "remedy": "none", "checked": None, "status": "fixed"}
    data = {"name": "x", "summary": "s", "faults": [row]}
    assert list(fault_problems(data)) == []
    assert [(fault.since, fault.until, fault.newest) for fault in make_faults(data)] == [(None, (1, 1), None)]


def test_the_schema_has_the_endpoints_that_protocols_call_themselves() -> None:
    schema = json.loads((Path(__file__).parents[2] / "gateway/rulebook/schema_engines.json").read_text())
    endpoints = schema["properties"]["faults"]["items"]["properties"]["endpoints"]["items"]["enum"]
    paths = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions", "/generate"]
    assert [found.name for path in paths if (found := protocol_for(path))] == endpoints
