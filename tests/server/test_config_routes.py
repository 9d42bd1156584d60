"""Routes and policies: what a route accepts, what it is called, which of two policy blocks wins."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigError
from gateway.findings import Finding
from gateway.policy import Dedup, Mode, Policy, Profile, ReasoningField, ToolRescue, policy_for
from gateway.rulebook.dialect import Thought
from gateway.server.config import Config, Match, config_from_mapping, load_config

UPSTREAM = "http://127.0.0.1:8000"
CHAT = "/v1/chat/completions"


def built(*routes: dict[str, Any], **top: Any) -> Config:
    return config_from_mapping({"routes": [{"upstream": UPSTREAM, **route} for route in routes], **top}, source="test")


def policy_of(
    *, profile: str = "repair", top: dict[str, Any] | None = None, own: dict[str, Any] | None = None
) -> Policy:
    return built({"policy": own or {}}, policy=top or {}, profile=profile).routes[0].rules.policy


@pytest.mark.parametrize(
    ("globs", "model", "accepted"),
    [
        ((), None, True),
        ((), "qwen", True),
        (("qwen*",), "qwen3-8b", True),
        (("qwen*",), "Qwen3-8b", False),
        (("qwen*",), None, False),
        (("*",), None, True),
        (("a", "b/?"), "b/1", True),
        (("a", "b/?"), "b/12", False),
        (("[ab]-*",), "b-1", True),
    ],
)
def test_a_model_is_matched_by_any_shell_glob_and_no_model_by_the_star_alone(
    globs: tuple[str, ...], model: str | None, accepted: bool
) -> None:
    assert Match(models=globs).accepts(path=CHAT, model=model, headers={}) is accepted


@pytest.mark.parametrize(
    ("path", "accepted"), [(CHAT, True), ("/team/v1/chat/completions", True), ("/generate", False)]
)
def test_a_path_is_matched_by_a_shell_glob_across_slashes(path: str, accepted: bool) -> None:
    assert Match(paths=("*/v1/*",)).accepts(path=path, model="m", headers={}) is accepted


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ({"x-team": "blue-1", "x-tier": "gold"}, True),
        ({"x-team": "blue-1", "x-tier": "tin"}, False),
        ({"x-team": "blue-1"}, False),
        ({}, False),
    ],
)
def test_all_headers_of_a_route_must_be_there_and_match(headers: dict[str, str], accepted: bool) -> None:
    config = built({"match": {"headers": {"X-Team": "blue-*", "x-tier": "gold"}}})
    assert config.routes[0].match.accepts(path=CHAT, model=None, headers=headers) is accepted


def test_all_kinds_of_a_match_must_accept() -> None:
    match = Match(models=("m",), paths=(CHAT,))
    assert match.accepts(path=CHAT, model="m", headers={})
    assert not match.accepts(path="/generate", model="m", headers={})
    assert not match.accepts(path=CHAT, model="n", headers={})


def test_a_route_is_called_what_it_matches_and_a_second_one_gets_a_number() -> None:
    config = built(
        {"match": {"models": ["a", "b"]}},
        {"match": {"models": ["a", "b"], "paths": ["/x"]}},
        {"match": {"paths": ["/generate"]}},
        {"match": {"headers": {"X-A": "1"}}},
        {"match": {"models": ["a", "b"], "paths": ["/y"]}},
        {},
    )
    assert [route.rules.name for route in config.routes] == ["a,b", "a,b#2", "/generate", "x-a=1", "a,b#3", "*"]


def test_no_two_routes_share_a_name_even_where_a_glob_looks_like_a_number() -> None:
    config = built(*({"match": {"models": [glob]}} for glob in ("a#3", "a", "a", "a")))
    assert [route.rules.name for route in config.routes] == ["a#3", "a", "a#2", "a#4"]


@pytest.mark.parametrize(
    ("dialect", "parsers"),
    [
        ({"reasoning": "deepseek_r1", "tools": "hermes"}, ("deepseek_r1", "hermes")),
        ({"reasoning": "vllm/kimi_k3"}, ("vllm/kimi_k3", "")),
        ("vllm/kimi_k3", ("vllm/kimi_k3", "")),
        ({"tools": "vllm/hermes"}, ("", "vllm/hermes")),
        ("kimi_k3", ("", "")),  # a family of ours says nothing about what the engine runs
        ("auto", ("", "")),
    ],
)
def test_the_engines_parsers_are_known_where_a_route_names_them(dialect: object, parsers: tuple[str, str]) -> None:
    rules = built({"dialect": dialect}).routes[0].rules
    assert (rules.parser, rules.tools_parser) == parsers
    assert built({}).routes[0].rules.parser == ""


def test_one_base_url_or_a_list_of_them_is_taken_without_the_final_slash() -> None:
    config = built(
        {"match": {"models": ["m"]}, "upstream": "https://h/api/"}, {"upstream": ["http://a:1", "http://b:2/"]}
    )
    assert [route.upstream for route in config.routes] == [("https://h/api",), ("http://a:1", "http://b:2")]


def test_a_route_behind_one_that_takes_everything_is_told() -> None:
    config = built({"match": {"models": ["m"]}}, {"match": {"models": ["*"]}}, {"match": {"models": ["n"]}}, {})
    assert config.warnings == (
        "test: routes[2]: is never reached: routes[1] accepts every request",
        "test: routes[3]: is never reached: routes[1] accepts every request",
    )


@pytest.mark.parametrize("match", [{"paths": ["*"]}, {"headers": {"a": "*"}}, {"models": ["a*"]}])
def test_a_route_that_may_refuse_something_hides_no_other(match: dict[str, Any]) -> None:
    assert built({"match": match}, {}).warnings == ()


@pytest.mark.parametrize("profile", list(Profile))
def test_without_a_policy_the_profile_decides(profile: Profile) -> None:
    assert policy_of(profile=profile) == policy_for(profile)


def test_the_policy_of_a_route_beats_the_top_one_key_by_key() -> None:
    top = {
        "reasoning_field": "reasoning",
        "promote_reasoning": "never",
        "findings": {"role_token": "off", "reasoning_leak": "observe"},
        "dedup": {"match": "exact", "min_length": 5},
    }
    own = {"reasoning_field": "none", "findings": {"role_token": "enforce"}, "dedup": {"min_length": 9}}
    policy = policy_of(top=top, own={**own, "on_internal_error": "error"})
    assert policy == Policy(
        profile=Profile.REPAIR,
        reasoning_field=ReasoningField.NONE,
        findings={Finding.ROLE_TOKEN: Mode.ENFORCE, Finding.REASONING_LEAK: Mode.OBSERVE},
        dedup=Dedup(match="exact", min_length=9),
        promote_reasoning="never",
        on_internal_error="error",
    )


def test_progress_messages_are_dropped_where_the_policy_says_so_and_never_where_only_observed() -> None:
    top = {"phase_commentary": "drop"}
    assert policy_of(top=top).phase_commentary == "drop"
    assert policy_of(top=top, own={"phase_commentary": "keep"}).phase_commentary == "keep"
    assert policy_of(profile="observe", top=top).phase_commentary == "keep"


def test_a_finding_of_a_later_version_is_accepted_and_kept_out_of_the_policy() -> None:
    assert policy_of(top={"findings": {"structured_repaired": "off", "truncated": "off"}}).findings == {
        Finding.TRUNCATED: Mode.OFF
    }


def test_the_rescue_of_calls_is_laid_over_the_top_one_key_by_key() -> None:
    top = {"tool_rescue": {"reasoning": "enforce", "deny": ["rm_*"], "stream": "incremental"}}
    own = {"tool_rescue": {"content": "observe", "markerless": "off", "deny": []}}
    assert policy_of(top=top).tool_rescue == ToolRescue(reasoning=Mode.ENFORCE, deny=("rm_*",), stream="incremental")
    assert policy_of(top=top, own=own).tool_rescue == ToolRescue(
        content=Mode.OBSERVE, reasoning=Mode.ENFORCE, markerless=Mode.OFF, stream="incremental"
    )


def test_profile_observe_changes_no_field_and_no_ending_whatever_the_policies_say() -> None:
    policy = policy_of(
        profile="observe",
        top={"reasoning_field": "none", "dedup": {"enabled": False}},
        own={"on_internal_error": "error"},
    )
    assert policy == policy_for(Profile.OBSERVE, dedup=Dedup(enabled=False))


@pytest.mark.parametrize(
    ("engine", "registry"),
    [
        ("auto", "vllm"),
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("openai", "vllm"),
        ("anthropic", "vllm"),
        ("other", "vllm"),
    ],
)
def test_the_engine_says_whose_parser_name_is_meant_first(engine: str, registry: str) -> None:
    # `qwen3` is a reasoning parser of both engines (section 1 of vllm.md and of sglang.md).
    (route,) = built({"engine": engine, "dialect": {"reasoning": "qwen3"}}).routes
    assert route.dialect_name == "qwen"
    assert f" of {registry} " in route.dialect_why


def test_with_any_other_engine_a_name_of_two_meanings_is_told(tmp_path: Path) -> None:
    (tmp_path / "calls").mkdir()
    for engine, marker in (("vllm", "<a>"), ("sglang", "<b>")):
        call = f"name: {engine}\nsummary: x\naliases: {{{engine}: [twice]}}\n"
        call += f"regions:\n- {{open: ['{marker}'], close: [x]}}\n"
        (tmp_path / "calls" / f"{engine}.yaml").write_text(call, "utf-8")
    config = [
        built({"engine": engine, "dialect": {"tools": "twice"}}, rules_dir=str(tmp_path))
        for engine in ("auto", "other", "vllm", "sglang")
    ]
    assert [one.routes[0].dialect_name for one in config] == [
        f"generic+{e}" for e in ("vllm", "vllm", "vllm", "sglang")
    ]
    assert [len(one.warnings) for one in config] == [1, 1, 0, 0]


def test_no_dialect_reads_nothing() -> None:
    assert built({"dialect": "none"}).routes[0].rules.dialect is None


@pytest.mark.parametrize(
    ("dialect", "key"),
    [
        ({"reasoning": "nonesuch", "tools": "hermes"}, "dialect.reasoning"),
        ({"reasoning": "qwen3", "tools": "nonesuch"}, "dialect.tools"),
        ({"reasoning": "nonesuch", "tools": "nonesuch"}, "dialect"),
        ("nonesuch", "dialect"),
    ],
)
def test_an_unknown_name_is_refused_at_its_own_half_where_that_is_sure(dialect: object, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^test: routes\[0\]\.{re.escape(key)}: no "):
        built({"dialect": dialect})


def test_halves_that_do_not_go_together_are_refused_at_the_dialect(tmp_path: Path) -> None:
    (tmp_path / "calls").mkdir()
    call = "name: clash\nsummary: a call in think tags\naliases: {vllm: [clash]}\n"
    call += "regions:\n- {open: ['<think>'], close: [x]}\n"
    (tmp_path / "calls" / "clash.yaml").write_text(call, "utf-8")
    dialect = {"reasoning": "qwen3", "tools": "clash"}
    with pytest.raises(ConfigError, match=r"^test: routes\[0\]\.dialect: qwen and clash do not go together: "):
        built({"dialect": dialect}, rules_dir=str(tmp_path))


@pytest.mark.parametrize(
    ("top", "mode"),
    [
        ({}, Mode.ENFORCE),  # which is to count it: nothing is done about a preamble
        ({"preamble": "observe"}, Mode.ENFORCE),
        ({"preamble": "off"}, Mode.OFF),
        ({"preamble": "off", "findings": {"preamble": "observe"}}, Mode.OBSERVE),  # the finding beats the feature
    ],
)
def test_preambles_are_counted_unless_they_are_off(top: dict[str, Any], mode: Mode) -> None:
    assert policy_of(top=top).mode(Finding.PREAMBLE) is mode


@pytest.mark.parametrize(
    ("profile", "top", "own", "history"),
    [
        ("full", {}, {}, "auto"),
        ("repair", {}, {}, "leave"),
        ("full", {"history": "strip"}, {}, "strip"),
        ("full", {"history": "strip"}, {"history": "keep"}, "keep"),
    ],
)
def test_the_history_rule_is_the_routes_then_the_files_then_the_profiles(
    profile: str, top: dict[str, str], own: dict[str, str], history: str
) -> None:
    assert policy_of(profile=profile, top={"request": top}, own={"request": own}).history == history


def test_every_route_knows_the_openings_of_the_rulebook() -> None:
    config = built({})
    assert config.routes[0].rules.openings == config.rulebook.openings != ()


def test_several_engines_without_a_route_for_the_rest_are_told_where_the_rest_goes() -> None:
    routes = [{"match": {"models": [name]}, "upstream": f"http://{name}:1"} for name in "ab"]
    told = "test: routes: no route accepts every request; what none accepts goes to http://a:1, unread"
    assert built(*routes).warnings == (told,)
    assert built(*routes, {"upstream": "http://a:1"}).warnings == ()
    assert built(routes[0], {**routes[1], "upstream": "http://a:1"}).warnings == ()


@pytest.mark.parametrize("url", ["http://a:1/v1", "http://a:1/x/v1/"])
def test_a_base_url_with_the_v1_that_clients_write_too_is_told(url: str) -> None:
    told = "test: routes[0].upstream: ends in /v1, which the paths of clients begin with: /v1/v1/… is asked"
    assert built({"upstream": url}).warnings == (told,)


# ------------------------------------------------------------------ response templates


def with_template(tmp_path: Path, fields: dict[str, Any], **route: Any) -> Config:
    """A configuration file with one route, beside the `tokenizer_config.json` that it names."""
    config = {"fields": fields, "start_anchor": "<|assistant|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"response_template": config}), "utf-8")
    options = {"response_template": "tokenizer_config.json"}
    text = json.dumps({"routes": [{"upstream": UPSTREAM, "dialect_options": options, **route}]})
    (tmp_path / "c.yaml").write_text(text, "utf-8")
    return load_config(tmp_path / "c.yaml", environ={})


THOUGHT = {"thinking": {"open": "<plan>", "close_pattern": r"</plan>\s*"}}


@pytest.mark.parametrize("dialect", ["auto", {"reasoning": "hf"}, {"reasoning": "sglang/beam", "tools": "hf"}])
def test_a_response_template_is_the_dialect_of_a_route_that_leaves_it_to_the_checkpoint(
    tmp_path: Path, dialect: object
) -> None:
    config = with_template(tmp_path, THOUGHT, dialect=dialect)
    route = config.routes[0]
    assert route.rules.dialect is not None
    assert route.rules.dialect.thoughts == (Thought(open=("<plan>",), close=("</plan>",)),)
    assert (route.dialect_name, route.auto) == ("response_template", False)  # no statement of the engine overrules it
    assert route.dialect_why == f"the response template of {tmp_path}/tokenizer_config.json"
    assert config.files == (tmp_path / "c.yaml", tmp_path / "tokenizer_config.json")
    assert config.warnings == (
        f"{tmp_path}/c.yaml:1: routes[0].dialect: {tmp_path}/tokenizer_config.json: response_template: "
        "fields.thinking.close_pattern: white space beside the marker is left in the text",
    )


def test_a_call_format_goes_with_a_response_template(tmp_path: Path) -> None:
    route = with_template(tmp_path, THOUGHT, dialect={"tools": "hermes"}, engine="vllm").routes[0]
    assert route.dialect_name == "response_template+hermes"
    assert route.rules.dialect is not None
    assert [region.open for region in route.rules.dialect.regions] == [("<tool_call>",)]


def test_everything_wrong_with_a_response_template_is_told_at_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        with_template(tmp_path, {"thinking": {"open": "<plan>"}, "content": {"close": ""}, "audio": {}})
    key = "dialect_options.response_template"
    file = f"{tmp_path}/tokenizer_config.json: response_template"
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/c.yaml:1: routes[0].{key}: {file}: fields.audio: unknown key, "
        "expected one of thinking, reasoning_content, reasoning, content, tool_calls",
        f"{tmp_path}/c.yaml:1: routes[0].{key}: {file}: fields.content.close: got '', "
        "expected a marker with a visible character, or a list of them",
        f"{tmp_path}/c.yaml:1: routes[0].{key}: {file}: fields.thinking: got {{'open': '<plan>'}}, "
        "expected close or close_pattern: a thought without one never ends",
    ]


def test_a_response_template_beside_a_family_or_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"c\.yaml:1: routes\[0\]\.dialect: 'qwen' leaves nothing to the checkpoint"):
        with_template(tmp_path, THOUGHT, dialect="qwen")
    with pytest.raises(ConfigError) as caught:
        built({"dialect_options": {"response_template": f"{tmp_path}/none.json"}})
    place = "test: routes[0].dialect_options.response_template"
    assert str(caught.value) == f"{place}: {tmp_path}/none.json: cannot be read: No such file or directory"


def test_no_response_template_is_the_default() -> None:
    given, left_out = (built(route).routes[0] for route in ({"dialect_options": {"response_template": None}}, {}))
    assert (given, given.auto) == (left_out, True)
