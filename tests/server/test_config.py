"""The configuration: what is refused with which words, what the keys become, who beats whom."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigError
from gateway.findings import Finding
from gateway.limits import Limits
from gateway.policy import Mode, Profile, ReasoningField, policy_for
from gateway.server.config import (
    Address,
    Config,
    Drain,
    Timeouts,
    config_from_flags,
    config_from_mapping,
    load_config,
)
from gateway.server.config_check import SCHEMA

UPSTREAM = "http://127.0.0.1:8000"
ROUTES = f"routes: [{{upstream: '{UPSTREAM}'}}]\n"


def built(data: Mapping[str, Any], **environ: str) -> Config:
    """`data` with one plain route where it has none."""
    return config_from_mapping({"routes": [{"upstream": UPSTREAM}], **data}, source="test", environ=environ)


def refusal(path: Path, text: str) -> str:
    """The error of the file with `text`, its path written as FILE."""
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ={})
    return str(caught.value).replace(str(path), "FILE")


# ------------------------------------------------------------------ refused

MODES = "one of off, observe, enforce"
SECONDS = "seconds above 0, or a duration such as 5s or 2m"
SIZE = "a whole number from 1, or a size such as 64KiB or 1MiB"
URLS = "http://HOST:PORT, https://HOST:PORT or a list of different ones"
BAD = [
    ("", "FILE:1: (file): got null, expected a mapping"),
    ("- a\n", "FILE:1: (file): got a list, expected a mapping"),
    ("{}\n", "FILE:1: routes: missing, expected a list of routes"),
    ("routes: []\n", "FILE:1: routes: got an empty list, expected a list of routes"),
    ("routes:\n- match: {}\n", f"FILE:2: routes[0].upstream: missing, expected {URLS}"),
    ("routes:\n- upstream: []\n", f"FILE:2: routes[0].upstream: got an empty list, expected {URLS}"),
    ("routes:\n- upstream: host:80\n", f'FILE:2: routes[0].upstream: got "host:80", expected {URLS}'),
    (
        "routes:\n- upstream: http://me:secret@host/\n",
        f'FILE:2: routes[0].upstream: got "http://…@host/", expected {URLS}',
    ),
    (
        "routes:\n- upstream:\n  - http://host:70000\n",
        'FILE:3: routes[0].upstream[0]: got "http://host:70000", expected http://HOST:PORT or https://HOST:PORT',
    ),
    (
        "routes:\n- {upstream: http://h, dialct: auto}\n",
        "FILE:2: routes[0].dialct: unknown key, did you mean dialect?",
    ),
    (
        ROUTES + "drain: {zzz: 1}\n",
        "FILE:2: drain.zzz: unknown key, expected one of settle_seconds, timeout_seconds, token",
    ),
    (ROUTES + "listen: 8080\n", "FILE:2: listen: got 8080, expected HOST:PORT"),
    (ROUTES + "listen: host\n", 'FILE:2: listen: got "host", expected HOST:PORT'),
    (ROUTES + "listen: host:65536\n", 'FILE:2: listen: got "host:65536", expected HOST:PORT'),
    (ROUTES + "profile: repare\n", 'FILE:2: profile: got "repare", expected one of observe, repair, full'),
    (ROUTES + "enforce_percent: 101\n", "FILE:2: enforce_percent: got 101, expected a number from 0 to 100"),
    (ROUTES + "enforce_percent: true\n", "FILE:2: enforce_percent: got true, expected a number from 0 to 100"),
    (ROUTES + "passthrough: none\n", 'FILE:2: passthrough: got "none", expected all, serving or a list of paths'),
    (
        ROUTES + "passthrough: [tokenize]\n",
        'FILE:2: passthrough[0]: got "tokenize", expected a path that starts with /',
    ),
    (
        ROUTES + "policy:\n  findings:\n    reasoning_leak: no\n",
        f'FILE:4: policy.findings.reasoning_leak: got "no", expected {MODES}',
    ),
    (
        ROUTES + "policy: {findings: {reasoning_leek: off}}\n",
        "FILE:2: policy.findings.reasoning_leek: unknown key, did you mean reasoning_leak?",
    ),
    (
        ROUTES + "policy: {dedup: {enabled: off}}\n",
        'FILE:2: policy.dedup.enabled: got "off", expected true or false',
    ),
    (ROUTES + "policy:\n", "FILE:2: policy: got null, expected a mapping"),
    (ROUTES + "limits: {dedup: 0}\n", f"FILE:2: limits.dedup: got 0, expected {SIZE}"),
    (ROUTES + "limits: {dedup: 64kb}\n", f'FILE:2: limits.dedup: got "64kb", expected {SIZE}'),
    (ROUTES + "timeouts: {idle: 0}\n", f"FILE:2: timeouts.idle: got 0, expected {SECONDS}"),
    (ROUTES + "timeouts: {idle: 0s}\n", f'FILE:2: timeouts.idle: got "0s", expected {SECONDS}'),
    (ROUTES + "timeouts: {idle: 1e999}\n", f"FILE:2: timeouts.idle: got Infinity, expected {SECONDS}"),
    (ROUTES + "timeouts: {idle: 5 minutes}\n", f'FILE:2: timeouts.idle: got "5 minutes", expected {SECONDS}'),
    (ROUTES + "drain: {token: ''}\n", "FILE:2: drain.token: got something else, expected text or null"),
    (
        "routes: [{upstream: http://h, match: {models: []}}]\n",
        "FILE:1: routes[0].match.models: got an empty list, expected a list of shell globs",
    ),
    (
        "routes: [{upstream: http://h, match: {headers: {'a b': x}}}]\n",
        'FILE:1: routes[0].match.headers: got "a b", expected a header name',
    ),
    (
        ROUTES + "listen: 0.0.0.0:9090\n",
        'FILE:1: admin_listen: got "0.0.0.0:9090", the address of listen, expected another one',
    ),
    (
        ROUTES + f"engine_version: '{'9' * 80}'\n",
        "FILE:2: engine_version: unknown key, expected one of " + ", ".join(SCHEMA["properties"]),
    ),
    (
        "routes: [{upstream: http://h, dialect: {}}]\n",
        "FILE:1: routes[0].dialect: got an empty mapping, expected auto, none, the name of a dialect, or "
        "{reasoning: NAME, tools: NAME}",
    ),
    (
        "routes: [{upstream: http://h, dialect_options: {response_templat: x}}]\n",
        "FILE:1: routes[0].dialect_options.response_templat: unknown key, did you mean response_template?",
    ),
    ("routes: [\n", "FILE:2: not YAML: expected the node content, but found '<stream end>'"),
    ("listen: a:1\nlisten: a:2\n", "FILE:2: listen: the key is given twice"),
]


@pytest.mark.parametrize(("text", "error"), BAD, ids=range(len(BAD)))
def test_a_bad_file_is_refused_with_the_line_the_key_and_what_was_expected(
    tmp_path: Path, text: str, error: str
) -> None:
    assert refusal(tmp_path / "c.yaml", text) == error


LATER = [
    ({"workers": 2}, "workers: 2", "run more replicas"),
    ({"tls": {"cert": "x"}}, "tls: this", "terminate TLS in front of the gateway"),
    ({"samples": {"dir": "/x"}}, 'samples.dir: "/x"', "leave it null"),
    ({"limits": {"total_buffered": "1GiB"}}, 'limits.total_buffered: "1GiB"', "lower the caps of one exchange"),
    ({"policy": {"preamble": "strip"}}, 'policy.preamble: "strip"', "use off or observe"),
    ({"policy": {"regenerate": {"for": ["empty_response"]}}}, "policy.regenerate.for: this", "leave it empty"),
]


@pytest.mark.parametrize(("data", "what", "instead"), LATER, ids=[what for _, what, _ in LATER])
def test_a_key_that_promises_what_is_not_done_yet_is_refused(data: dict[str, Any], what: str, instead: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built(data)
    assert str(caught.value) == f"test: {what} is not available in this version; remove it or {instead}"


def test_all_errors_of_a_file_are_told_at_once_in_its_order(tmp_path: Path) -> None:
    text = "profil: full\nworkers: 3\nroutes:\n- dialect: 5\n  upstream: x\nlisten: 1\n"
    assert [line.split(": ")[0] for line in refusal(tmp_path / "c.yaml", text).splitlines()] == [
        "FILE:1",
        "FILE:2",
        "FILE:4",
        "FILE:5",
        "FILE:6",
    ]


def test_every_unknown_dialect_of_a_file_is_told_with_names_near_it(tmp_path: Path) -> None:
    text = """routes:
- upstream: http://h
  dialect: thinc
- upstream: http://h
  dialect:
    reasoning: qwen3
    tools: hermez
- upstream: http://h
  dialect: deepseek_r1
"""
    unknown, half, parser = refusal(tmp_path / "c.yaml", text).splitlines()
    assert unknown == "FILE:3: routes[0].dialect: no family 'thinc'; did you mean think?"
    assert half.startswith("FILE:7: routes[1].dialect.tools: no rules for --tool-call-parser 'hermez'; did you mean ")
    assert "hermes" in half
    assert parser.startswith("FILE:9: routes[2].dialect: ")
    assert parser.endswith("write {reasoning: deepseek_r1}")


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_config(tmp_path / "none.yaml", environ={})
    (tmp_path / "latin.yaml").write_bytes(b"listen: \xff")
    with pytest.raises(ConfigError, match=r"latin\.yaml: cannot be read: .*utf-8"):
        load_config(tmp_path / "latin.yaml", environ={})


def test_a_folder_of_rules_that_is_none_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path / "c.yaml", ROUTES + "rules_dir: rules\n")
    assert error == f'FILE:2: rules_dir: got "rules", expected a folder; {tmp_path / "rules"} is none'


def test_the_folder_of_rules_is_found_beside_the_file(tmp_path: Path) -> None:
    rules = tmp_path / "extra" / "dialects"
    rules.mkdir(parents=True)
    shipped = Path(__file__).parents[2] / "rules" / "dialects" / "think.yaml"
    (rules / "think.yaml").write_text(shipped.read_text("utf-8") + "# changed\n", "utf-8")
    (tmp_path / "c.yaml").write_text(ROUTES + "rules_dir: extra\n", "utf-8")
    assert load_config(tmp_path / "c.yaml", environ={}).digest != built({}).digest


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(key=st.sampled_from(sorted(SCHEMA["properties"])), value=JSON)
def test_whatever_stands_behind_a_key_it_is_taken_or_refused_as_a_config_error(key: str, value: object) -> None:
    try:
        assert isinstance(built({key: value}), Config)
    except ConfigError as error:
        assert str(error).startswith("test: ")


@given(key=st.sampled_from(sorted(SCHEMA["$defs"]["route"]["properties"])), value=JSON)
def test_whatever_stands_behind_a_key_of_a_route_it_is_taken_or_refused(key: str, value: object) -> None:
    try:
        assert isinstance(built({"routes": [{"upstream": UPSTREAM, key: value}]}), Config)
    except ConfigError as error:
        assert str(error).startswith("test: ")


# ------------------------------------------------------------------ accepted

CONTRACT = """
listen: 0.0.0.0:8080
admin_listen: 0.0.0.0:9090
rules_dir: null              # extra rules; a file with a shipped name replaces it
profile: repair              # observe | repair | full ; sets the defaults of `policy`
enforce_percent: 100         # share of exchanges in which the profile acts; the rest is observed
passthrough: all             # all | serving | [paths]: which uninspected routes are forwarded
routes:                      # first match wins
  - match: {models: ["*"]}   # shell globs on the request's model; also paths: [glob], headers: {name: glob}
    upstream: http://127.0.0.1:8000    # or a list
    engine: auto             # auto | vllm | sglang | openai | anthropic | other
    dialect: auto            # auto | NAME | {reasoning: NAME, tools: NAME} | none; auto without evidence is `generic`
    dialect_options: {}      # what a dialect leaves off unless asked
    engine_version: auto
    source: auto             # auto | fields | text | tokens
    starts_in: auto          # auto | content | reasoning; acts where the engine does not split
    thinking_default: auto   # auto | on | off
    reasoning_start_string: null   # as given to the engine's --reasoning-config
    reasoning_end_string: null
    policy: {}               # overrides of the policy below, for this route
policy:                      # docs/config.md has each key's value per profile; shown: repair
  findings: {}               # finding -> off | observe | enforce
  reasoning_field: both      # both | reasoning | reasoning_content | none | as_upstream   (observe: as_upstream)
  raw_text: leave            # leave | split
  dedup: {enabled: true, match: trim, min_length: 1}
  promote_reasoning: thinking_off    # never | thinking_off
  tool_rescue: {content: enforce, reasoning: observe, markerless: observe, stream: complete, deny: []}
  structured_output: {check: observe, repair: enforce, stream: pass}   # full: stream: hold
  regenerate: {for: [], max_attempts: 1, max_seconds: 60, feedback: true, budget_ratio: 0.05, max_concurrent: 2,
               suspend_above: 0.2, on_exhausted: error}
  request: {history: leave, stop: engine, tokens: never}   # full: {history: auto, stop: auto, tokens: auto}
  preamble: observe          # off | observe | strip
  phase_commentary: keep     # keep | drop
  on_internal_error: pass    # pass | error
request_overrides: [report]  # which X-Integrity-* request headers are honoured: report, reasoning_field, profile
limits: {promote: 64KiB, unknown_start: 4KiB, dedup: 1MiB, tool_region: 1MiB, structured: 4MiB, preamble: 512,
         channel_text: 8MiB, total_buffered: 256MiB}
timeouts: {}
workers: 1
tls: {}
samples: {dir: null}
auth: {}
"""
"""Section 3 of the contract with its ellipses taken out: every key at the value it has when it is not written."""


def test_the_file_printed_in_the_contract_says_what_an_empty_one_says(tmp_path: Path) -> None:
    (tmp_path / "full.yaml").write_text(CONTRACT, "utf-8")
    (tmp_path / "least.yaml").write_text(f"routes: [{{upstream: '{UPSTREAM}', match: {{models: ['*']}}}}]", "utf-8")
    full, least = (load_config(tmp_path / name, environ={}) for name in ("full.yaml", "least.yaml"))
    assert full.warnings == ()
    assert [f.name for f in fields(Config) if getattr(full, f.name) != getattr(least, f.name)] == ["source", "files"]


def test_what_is_not_written_has_the_documented_default() -> None:
    config = built({})
    (route,) = config.routes
    assert config.listen == Address(host="0.0.0.0", port=8080)
    assert config.admin_listen == Address(host="0.0.0.0", port=9090)
    assert (config.passthrough, config.enforce_percent, config.drain_token) == ("all", 100.0, None)
    assert config.request_overrides == {"report"}
    assert (config.limits, config.timeouts, config.drain) == (Limits(), Timeouts(), Drain())
    assert (route.upstream, route.dialect_name, route.rules.name) == ((UPSTREAM,), "generic", "*")
    assert (route.rules.source, route.rules.starts_in, route.rules.thinking_default) == ("auto", "auto", "auto")
    assert route.rules.policy == policy_for(Profile.REPAIR)


def test_the_keys_that_the_black_box_runner_writes_are_accepted() -> None:
    policy = {
        "reasoning_field": "both",
        "structured_output": {"check": "enforce"},
        "tool_rescue": {"content": "enforce", "reasoning": "enforce", "markerless": "enforce"},
    }
    own = {"request": {"history": "strip"}, "raw_text": "split", "dedup": {"match": "exact"}}
    match = {"headers": {"x-case-route": "r0"}}
    route = {"match": match, "upstream": UPSTREAM, "engine": "sglang", "source": "text", "starts_in": "reasoning",
             "dialect": {"reasoning": "deepseek-r1", "tools": "deepseekv3"}, "policy": own,
             "thinking_default": "off", "reasoning_end_string": "</done>"}  # fmt: skip
    listeners = {"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0"}
    config = built({**listeners, "profile": "full", "policy": policy, "routes": [route]})
    rules = config.routes[0].rules
    assert (rules.source, rules.starts_in, rules.thinking_default) == ("text", "reasoning", "off")
    assert (rules.reasoning_end_string, rules.policy.dedup.match) == ("</done>", "exact")
    assert {warning.split(": ")[1] for warning in config.warnings if "no effect" in warning} == {
        "policy.structured_output.check",
    }
    assert rules.policy.raw_text == "split"
    assert [rules.policy.rescue(where) for where in ("content", "reasoning", "markerless")] == [Mode.ENFORCE] * 3


def test_the_mapping_is_left_as_it_was_given() -> None:
    data = {"routes": [{"upstream": UPSTREAM}], "drain": {"token": "t", "settle_seconds": 1}, "policy": {"dedup": {}}}
    before = deepcopy(data)
    assert built(data) == built(data)
    assert data == before


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:65535", "::1", 65535), ("localhost:80", "localhost", 80)],
)
def test_a_listener_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert built({"listen": text}).listen == Address(host=host, port=port)


def test_both_listeners_may_take_a_free_port() -> None:
    config = built({"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0"})
    assert config.listen == config.admin_listen


@pytest.mark.parametrize(
    ("value", "seconds"), [(5, 5.0), (0.5, 0.5), ("500ms", 0.5), ("5s", 5.0), ("2m", 120.0), ("1.5h", 5400.0)]
)
def test_a_duration_is_a_number_of_seconds_or_has_a_unit(value: float | str, seconds: float) -> None:
    config = built({"timeouts": {"first_byte": value}, "drain": {"settle_seconds": value}})
    assert (config.timeouts.first_byte, config.drain.settle_seconds) == (seconds, seconds)
    assert config.timeouts.idle == Timeouts().idle


@pytest.mark.parametrize(
    ("value", "number"), [(1, 1), (512, 512), ("64KiB", 65536), ("1MiB", 1048576), ("2GiB", 2147483648)]
)
def test_a_size_is_a_number_or_has_a_unit(value: int | str, number: int) -> None:
    config = built({"limits": {"dedup": value}})
    assert config.limits.dedup == number
    assert config.routes[0].rules.limits == config.limits


def test_no_pause_before_draining_is_allowed() -> None:
    assert built({"drain": {"settle_seconds": 0}}).drain.settle_seconds == 0.0


def test_paths_that_pass_and_overrides_that_are_honoured_are_taken() -> None:
    config = built({"passthrough": ["/tokenize"], "request_overrides": ["profile"], "enforce_percent": 5})
    assert (config.passthrough, config.request_overrides, config.enforce_percent) == (("/tokenize",), {"profile"}, 5.0)


def test_the_words_on_and_off_need_no_quotes(tmp_path: Path) -> None:
    text = f"policy: {{findings: {{role_token: off}}}}\nroutes: [{{upstream: '{UPSTREAM}', thinking_default: on}}]\n"
    (tmp_path / "c.yaml").write_text(text, "utf-8")
    rules = load_config(tmp_path / "c.yaml", environ={}).routes[0].rules
    assert rules.thinking_default == "on"
    assert rules.policy.mode(Finding.ROLE_TOKEN) is Mode.OFF


# ------------------------------------------------------------------ environment and flags


@pytest.mark.parametrize("profile", ["repair", "full"])
def test_the_environment_puts_every_route_into_observe_whatever_is_written(profile: str) -> None:
    routes = [
        {"upstream": UPSTREAM, "match": {"models": ["a"]}, "policy": {"reasoning_field": "none"}},
        {"upstream": UPSTREAM, "policy": {"findings": {"reasoning_leak": "enforce"}}},
    ]
    config = built({"profile": profile, "routes": routes}, INTEGRITY_PROFILE="observe")
    for route in config.routes:
        assert route.rules.policy.profile is Profile.OBSERVE
        assert route.rules.policy.reasoning_field is ReasoningField.AS_UPSTREAM
        assert not route.rules.policy.enforces(Finding.REASONING_LEAK)


def test_an_empty_profile_in_the_environment_is_none() -> None:
    assert built({"profile": "full"}, INTEGRITY_PROFILE="").routes[0].rules.policy.profile is Profile.FULL


@pytest.mark.parametrize("value", ["repair", "full", "Observe", "off"])
def test_the_environment_can_only_switch_off(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        built({}, INTEGRITY_PROFILE=value)
    assert str(caught.value) == f'environment: INTEGRITY_PROFILE: got "{value}", expected observe or nothing'


def test_the_drain_token_of_the_environment_beats_the_one_of_the_file() -> None:
    assert built({"drain": {"token": "file"}}).drain_token == "file"
    assert built({"drain": {"token": "file"}}, INTEGRITY_DRAIN_TOKEN="env").drain_token == "env"
    assert built({}, INTEGRITY_DRAIN_TOKEN="env").drain_token == "env"


def test_flags_make_one_route_for_everything() -> None:
    config = config_from_flags(
        upstream=UPSTREAM + "/",
        listen="127.0.0.1:0",
        admin_listen="127.0.0.1:0",
        dialect="think",
        reasoning_field="reasoning",
        profile="full",
        environ={},
    )
    (route,) = config.routes
    assert (route.upstream, route.dialect_name, config.source) == ((UPSTREAM,), "think", None)
    assert route.rules.policy == policy_for(Profile.FULL, reasoning_field=ReasoningField.REASONING)
    assert (config.listen.port, config.admin_listen.port) == (0, 0)
    assert route.match.accepts(path="/v1/chat/completions", model=None, headers={})


def test_flags_that_are_not_given_have_the_defaults_of_the_file() -> None:
    config = config_from_flags(upstream=UPSTREAM, environ={})
    assert config.listen == built({}).listen
    assert config.routes == built({}).routes


def test_the_environment_beats_the_flag() -> None:
    config = config_from_flags(upstream=UPSTREAM, profile="full", environ={"INTEGRITY_PROFILE": "observe"})
    assert config.routes[0].rules.policy.profile is Profile.OBSERVE


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"upstream": "host"}, f'command line: --upstream: got "host", expected {URLS}'),
        ({"listen": "80"}, 'command line: --listen: got "80", expected HOST:PORT'),
        ({"admin_listen": "80"}, 'command line: --admin-listen: got "80", expected HOST:PORT'),
        ({"profile": "x"}, 'command line: --profile: got "x", expected one of observe, repair, full'),
        (
            {"reasoning_field": "x"},
            'command line: --reasoning-field: got "x", expected one of '
            "both, reasoning, reasoning_content, none, as_upstream",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_error_in_a_flag_names_the_flag(flags: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_flags(**{"upstream": UPSTREAM, **flags}, environ={})
    assert str(caught.value) == error


def test_an_unknown_dialect_on_the_command_line_names_the_flag() -> None:
    with pytest.raises(ConfigError, match=r"^command line: --dialect: .*nonesuch"):
        config_from_flags(upstream=UPSTREAM, dialect="nonesuch", environ={})


# ------------------------------------------------------------------ warnings


def test_profile_full_says_how_far_it_goes() -> None:
    told = "adds to repair, in this version, requests that are changed and a finish reason that is missing"
    assert built({"profile": "full"}).warnings == (f"test: profile: {told}",)


def test_observe_says_which_keys_it_decides(tmp_path: Path) -> None:
    text = (
        f"profile: observe\npolicy:\n  on_internal_error: error\n{ROUTES[:-3]}, policy: {{reasoning_field: none}}}}]\n"
    )
    (tmp_path / "c.yaml").write_text(text, "utf-8")
    assert load_config(tmp_path / "c.yaml", environ={}).warnings == (
        f"{tmp_path}/c.yaml:3: policy.on_internal_error: acts as pass in profile observe",
        f"{tmp_path}/c.yaml:4: routes[0].policy.reasoning_field: acts as as_upstream in profile observe",
    )


def test_a_dialect_that_the_rulebook_takes_with_a_warning_is_told() -> None:
    config = built({"routes": [{"upstream": UPSTREAM, "dialect": {"tools": "hf"}}]})
    assert [warning.partition(": ")[2].partition(":")[0] for warning in config.warnings] == ["routes[0].dialect"]


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "-", "-a", "a-", "x.-"])
def test_a_name_that_no_resolver_would_be_asked_for_is_refused_at_its_place(host: str, tmp_path: Path) -> None:
    got = refusal(tmp_path / "c.yaml", f"listen: '{host}:80'\nroutes:\n- upstream: ['http://h', 'http://{host}:80']\n")
    listen, upstream = got.splitlines()
    assert listen.startswith("FILE:1: listen: got ")
    assert listen.endswith("expected a host name or an address, and a port")
    assert upstream.startswith("FILE:3: routes[0].upstream[1]: got ")
    assert upstream.endswith("expected a host name or an address")


@pytest.mark.parametrize("host", ["localhost", "a_b", "xn--nxasmq6b", "h\u00e9", "10.0.0.1", "[::1]", "engine.svc."])
def test_names_and_addresses_of_engines_pass(host: str) -> None:
    assert built({"routes": [{"upstream": f"http://{host}:80"}]}).routes[0].upstream == (f"http://{host}:80",)


def test_no_engine_listens_on_port_0() -> None:
    with pytest.raises(ConfigError, match=r"routes\[0\].upstream: got \"http://h:0\""):
        built({"routes": [{"upstream": "http://h:0"}]})
