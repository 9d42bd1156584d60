"""The schema itself, and the words for what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gateway.errors import ConfigError
from gateway.findings import Finding
from gateway.limits import Limits
from gateway.policy import Dedup, Mode, Policy, Profile, policy_for
from gateway.server.config import Drain, Timeouts, config_from_mapping
from gateway.server.config_check import SCHEMA, Places, resolved, schema_problems, shown, without_effect

# Section 4 of the contract.
FINDINGS = [
    "reasoning_leak", "boundary_token", "special_token", "role_token", "answer_in_reasoning", "tool_rescued",
    "tool_markup_leak", "tool_args_repaired", "tool_name_repaired", "tool_args_invalid", "duplicate_suppressed",
    "duplicate_suspect", "structured_repaired", "structured_invalid", "truncated", "empty_response",
    "finish_reason_fixed", "stop_in_reasoning", "unicode_replacement", "preamble", "suspect_reasoning",
    "degenerate", "usage_missing", "regen_wanted", "mixed_chunk_split", "request_lint",
]  # fmt: skip


def keys(block: str) -> dict[str, Any]:
    """The keys of a block with their schemas."""
    schema = SCHEMA
    for name in filter(None, block.split(".")):
        schema = resolved(schema["properties"][name])
    return {name: resolved(schema) for name, schema in schema["properties"].items()}


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every mapping inside the schema."""
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts(inner)


def test_the_schema_is_valid_draft_2020_12() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def test_every_block_refuses_keys_it_does_not_know() -> None:
    blocks = [part for part in parts(SCHEMA) if isinstance(part.get("properties"), dict) and "type" in part]
    assert len(blocks) > 12
    assert all(part["additionalProperties"] is False for part in blocks)


def test_a_block_without_keys_refuses_every_content() -> None:
    for part in parts(SCHEMA):
        if part.get("type") == "object" and "properties" not in part and "additionalProperties" not in part:
            assert "not" in part or "minProperties" in part


def test_no_pattern_takes_a_line_break_at_the_end() -> None:
    patterns = [part["pattern"] for part in parts(SCHEMA) if isinstance(part.get("pattern"), str)]
    assert all(pattern.endswith("$(?!\\n)") or pattern == "^/" for pattern in patterns)


@pytest.mark.parametrize(
    "text", ["http://h:1\n", "http://h:1 ", "http://h:1/?a", "http://h:1/#a", "ftp://h", "http://"]
)
def test_a_base_url_is_nothing_but_scheme_host_port_and_path(text: str) -> None:
    assert schema_problems({"routes": [{"upstream": text}]})


@pytest.mark.parametrize("text", ["http://h", "https://h:65535/a/b", "http://[::1]:8000", "http://10.0.0.1:80/"])
def test_a_base_url_may_have_a_path_and_an_ipv6_host(text: str) -> None:
    assert schema_problems({"routes": [{"upstream": text}]}) == []


def test_the_names_of_findings_are_those_of_the_contract() -> None:
    assert list(keys("policy.findings")) == FINDINGS
    assert set(keys("policy.regenerate")["for"]["items"]["enum"]) == set(FINDINGS)


def test_exactly_the_findings_that_act_are_said_to_have_an_effect() -> None:
    assert {name for name, schema in keys("policy.findings").items() if "x-no-effect" not in schema} == set(Finding)


@pytest.mark.parametrize(("block", "values"), [("timeouts", Timeouts()), ("drain", Drain()), ("policy.dedup", Dedup())])
def test_the_defaults_of_the_schema_are_those_of_the_program(block: str, values: Any) -> None:
    described = {name: schema["default"] for name, schema in keys(block).items() if name != "token"}
    assert described == {field.name: getattr(values, field.name) for field in fields(values)}


_PLAIN = ("promote_reasoning", "on_internal_error", "raw_text", "phase_commentary")  # words, and no block around them


def test_the_policy_defaults_of_the_schema_are_those_of_the_program() -> None:
    plain = [field for field in fields(Policy) if isinstance(field.default, str)]
    assert {field.name: field.default for field in plain if field.default is not MISSING} == {
        name: keys("policy")[name]["default"] for name in _PLAIN
    } | {name: schema["default"] for name, schema in keys("policy.request").items()}


@pytest.mark.parametrize("profile", list(Profile))
def test_what_is_done_about_each_finding_and_call_is_what_the_schema_says(profile: Profile) -> None:
    policy = policy_for(profile)
    said = {f"findings.{finding}": policy.mode(finding) for finding in Finding}
    said |= {f"tool_rescue.{where}": policy.rescue(where) for where in ("content", "reasoning", "markerless")}
    for name, mode in said.items():
        block, _, key = name.partition(".")
        schema = keys(f"policy.{block}")[key]
        observe = Mode.OBSERVE if schema["default"] == "enforce" else schema["default"]
        expected = {Profile.OBSERVE: observe, Profile.FULL: schema.get("x-full", schema["default"])}
        assert mode == expected.get(profile, schema["default"]), name


def test_every_cap_is_a_key_with_the_default_of_the_program() -> None:
    written = {name: schema["default"] for name, schema in keys("limits").items()}
    config = config_from_mapping({"routes": [{"upstream": "http://h"}], "limits": written}, source="test")
    assert config.limits == Limits()
    assert {cap.name for cap in fields(Limits)} <= set(written)


def test_a_cap_without_effect_is_none_that_the_program_has() -> None:
    silent = {name for name, schema in keys("limits").items() if "x-no-effect" in schema or "x-not-yet" in schema}
    assert silent == set(keys("limits")) - {cap.name for cap in fields(Limits)}


def test_every_default_is_accepted_by_its_own_schema() -> None:
    for part in parts(SCHEMA):
        if "default" in part and not isinstance(part["default"], dict):
            assert list(Draft202012Validator({**part, "$defs": SCHEMA["$defs"]}).iter_errors(part["default"])) == []


def test_only_what_asks_for_something_has_no_effect() -> None:
    data = {
        "routes": [
            {"upstream": "u", "match": {"headers": {"a": "b"}}},
            {"upstream": "u", "reasoning_start_string": "x"},
        ],
        "policy": {"raw_text": "leave", "structured_output": {"check": "enforce", "stream": "pass"}, "preamble": "off"},
        "limits": {"preamble": 512, "structured": "8MiB"},
    }
    assert list(without_effect(data)) == [
        ("routes", 1, "reasoning_start_string"),
        ("policy", "structured_output", "check"),
        ("limits", "structured"),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ("a\nb", '"a\\nb"'),
        ("né", '"né"'),
        ("x" * 80, '"' + "x" * 59 + "…"),
        ([], "an empty list"),
        ([1], "a list"),
        ({}, "an empty mapping"),
        ({"a": 1}, "a mapping"),
        ("https://user:pass@host/", '"https://…@host/"'),
        ("http://" + "u" * 70 + ":pass@host", '"http://…@host"'),
    ],
)
def test_a_wrong_value_is_shown_on_one_short_line_without_credentials(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_secret_is_never_shown() -> None:
    (problem,) = schema_problems({"routes": [{"upstream": "http://h"}], "drain": {"token": 31337}})
    assert problem == (("drain", "token"), "got something else, expected text or null")


def test_a_place_is_the_line_of_the_nearest_key_that_has_one() -> None:
    places = Places(source="f", lines={(): 1, ("a",): 3, ("a", "b"): 4})
    assert places.at(("a", "b"), "x") == "f:4: a.b: x"
    assert places.at(("a", "c", 0), "x") == "f:3: a.c[0]: x"
    assert places.at(("z",), "x") == "f:1: z: x"


def test_without_a_file_a_place_has_no_line() -> None:
    assert Places(source="f").at(("a", 1), "x") == "f: a[1]: x"
    assert Places(source="f", names={("a", 1): "--a"}).at(("a", 1), "x") == "f: --a: x"


def test_problems_are_told_once_each_in_the_order_of_the_file() -> None:
    places = Places(source="f", lines={(): 1, ("a",): 3, ("b",): 2})
    with pytest.raises(ConfigError) as caught:
        places.refuse([(("a",), "x"), (("b",), "y"), (("a",), "x")])
    assert str(caught.value) == "f:2: b: y\nf:3: a: x"
    places.refuse([])
