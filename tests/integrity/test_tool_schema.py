"""What a schema says of a property and of a value: examples of the JSON Schema 2020-12 documents, and hostile ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gateway.integrity.tool_schema import NO_OBJECT, Declared, kinds, problems, value_of

LOCATION = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/Location"}},
    "$defs": {"Location": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}


def declared(schema: object, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, **more}


def types_of(schema: object) -> frozenset[str]:
    return Declared(schema, [schema]).member("a").types()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, {"null"}),
        (True, {"boolean"}),
        (1, {"integer", "number"}),
        (1.0, {"integer", "number"}),
        (1.5, {"number"}),
        (float("inf"), {"number"}),
        ("1", {"string"}),
        ([], {"array"}),
        ({}, {"object"}),
    ],
)
def test_a_value_has_the_types_that_json_schema_gives_it(value: object, expected: set[str]) -> None:
    assert kinds(value) == expected


@pytest.mark.parametrize("text", ["NaN", "[1, -Infinity]", '{"a": NaN}', "[" * 1_000 + '"NaN"' + "]" * 1_000, "", "[1"])
def test_what_not_every_parser_takes_is_no_value(text: str) -> None:
    with pytest.raises(ValueError):
        value_of(text.encode())


@pytest.mark.parametrize("text", ['"NaN"', "[1e5, null]", '{"Infinity": 1}'])
def test_json_has_the_value_that_the_standard_parser_gives(text: str) -> None:
    assert value_of(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (declared({"type": "integer"}), {"integer"}),
        (declared({"type": ["string", "null"]}), {"string", "null"}),
        (declared({"type": ["string", 3]}), {"string"}),
        (declared({"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}), {"array", "null"}),
        (declared({"oneOf": [{"anyOf": [{"type": "null"}, {"allOf": [{"type": "array"}]}]}]}), {"null", "array"}),
        (declared({"enum": ["a", 1, None]}), {"string", "integer", "number", "null"}),
        (declared({"const": True}), {"boolean"}),
        (declared({"type": "string", "enum": ["a"]}), {"string"}),
        (declared({"properties": {}}), {"object"}),
        (declared({"additionalProperties": {"type": "string"}}), {"object"}),
        (declared({"items": {"type": "string"}}), {"array"}),
        (declared({"prefixItems": []}), {"array"}),
        (declared({"type": "List"}), {"array"}),  # as vLLM reads it
        (declared({"type": "int64"}), {"integer"}),
        (declared({"type": "money"}), {"money"}),
        (declared({}), set()),
        (declared(True), set()),
        (declared({"anyOf": 3, "type": 3, "enum": 3}), set()),
        (LOCATION, {"object"}),
        (declared({"$ref": "#/definitions/a~1b~0c"}, definitions={"a/b~c": {"type": "number"}}), {"number"}),
        (declared({"$ref": "#"}), {"object"}),
        (declared({"$ref": "#/$defs/loop"}, **{"$defs": {"loop": {"$ref": "#/$defs/loop"}}}), set()),
        (declared({"$ref": "#/not/there"}), set()),
        (declared({"$ref": "#anchor"}), set()),
        (declared({"$ref": "https://example.org/schema"}), set()),
        (declared({"$ref": 3}), set()),
        # The property in every alternative of the arguments.
        ({"anyOf": [declared({"type": "string"}), declared({"type": "integer"})]}, {"string", "integer"}),
        ({"$ref": "#/$defs/all", "$defs": {"all": declared({"type": "null"})}}, {"null"}),
        ({"additionalProperties": {"type": "integer"}}, {"integer"}),
        ({"additionalProperties": {"type": "integer"}, "properties": {"b": {}}}, {"integer"}),
        (declared({"type": "string"}, additionalProperties={"type": "integer"}), {"string"}),
        ({"additionalProperties": False}, set()),
        ({"properties": 3}, set()),
        ({}, set()),
        (None, set()),
        (True, set()),
    ],
)
def test_the_types_of_a_property_are_those_of_all_its_alternatives(schema: object, expected: set[str]) -> None:
    assert types_of(schema) == expected


def test_the_types_of_what_is_inside_a_value_are_found_from_it() -> None:
    schema = declared({"$ref": "#/$defs/list"}, **{"$defs": {"list": {"items": declared({"type": "integer"})}}})
    inside = Declared(schema, [schema]).member("a").item().member("a")
    assert inside.types() == {"integer"}
    assert inside.item().member("a").types() == set()


def test_what_is_asked_for_twice_is_found_once() -> None:
    whole = Declared(True, [declared({"items": {}}, additionalProperties={"type": "null"})])
    assert whole.member("a") is whole.member("a")
    assert whole.member("b") is whole.member("c")
    assert whole.member("a").item() is whole.member("a").item()
    assert whole.member("b").types() is whole.member("c").types()


def test_types_that_refer_to_each_other_many_times_are_found_at_once() -> None:
    defs = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(100)}
    assert types_of(declared({"$ref": "#/$defs/d0"}, **{"$defs": defs | {"d100": {"type": "null"}}})) == {"null"}


@pytest.mark.parametrize(
    ("arguments", "schema", "expected"),
    [
        ('{"a": 1}', declared({"type": "integer"}), []),
        ('{"a": 1.0}', declared({"type": "integer"}), []),
        ('{"a": "1"}', declared({"type": "integer"}), ["properties/a/type: integer"]),
        ('{"a": 1}', declared({"type": ["string", "null"]}), ["properties/a/type: ['string', 'null']"]),
        ("{}", declared({}, required=["a"]), ["required: a"]),
        ('{"b": 1}', declared({}, required=["a", "b", "c"]), ["required: a, c"]),
        ('{"secret": 1}', declared({}, additionalProperties=False), ["additionalProperties"]),
        ('{"a": "secret"}', declared({"enum": ["x"]}), ["properties/a/enum"]),
        ('{"a": {}}', LOCATION, ["properties/a/required: city"]),
        ('{"a": {"city": 3}}', LOCATION, ["properties/a/properties/city/type: string"]),
        ('{"a": [1, 2, 3]}', declared({"maxItems": 2}), ["properties/a/maxItems"]),
        ('{"a": [1, "x"]}', declared({"items": {"type": "string"}}), ["properties/a/items/type: string"]),
        ('{"a": 1}', {"$schema": "http://json-schema.org/draft-04/schema#", **declared({"maximum": 1})}, []),
        (
            '{"a": 1}',
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "id": "http://example.org/",
                **declared({"maximum": 1, "exclusiveMaximum": True}),
            },
            ["properties/a/maximum"],
        ),
        (
            '{"a": 1}',
            {"$schema": "x:unknown", "$id": "http://example.org/", **declared({"const": 2})},
            ["properties/a/const"],
        ),
        ('{"a": {"id": "x"}}', declared({"const": {"id": "y"}}), ["properties/a/const"]),
        ('{"a": "\\ud83d"}', declared({"type": "string"}), []),
        ('{"a": "\ud83d"}', declared({"type": "string"}), []),
        ('{"a": 1}', None, []),
        ('{"a": 1}', True, []),
        ("[1]", None, [NO_OBJECT]),
        ('{"a": ', None, [NO_OBJECT]),
        ("", {}, [NO_OBJECT]),
    ],
)
def test_problems_are_told_in_the_words_of_the_schema(arguments: str, schema: object, expected: list[str]) -> None:
    assert problems(arguments, schema) == expected


def test_not_more_than_a_few_problems_are_told() -> None:
    schema = {"properties": {f"p{n}": {"type": "integer"} for n in range(40)}}
    assert len(problems(json.dumps(dict.fromkeys(schema["properties"], "x")), schema)) == 16


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "int"},
        {"type": 3},
        {"required": 3},
        {"properties": 3},
        {"properties": {"a": 3}},
        {"$schema": [1]},
        {"$ref": "#"},
        {"$ref": "#/not/there"},
        {"$ref": "#anchor"},
        {"$ref": "http://127.0.0.1:9/"},
        {"$dynamicRef": "file:///etc/passwd"},
        {"properties": {"a": {"$id": "http://127.0.0.1:9/", "$ref": "#/x"}}},
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "(x+)+$"}}},
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {"a": {"id": "http://127.0.0.1:9/", "type": "null"}},
        },
        {"patternProperties": {"(x+)+$": {}}, "additionalProperties": False},
        {"allOf": [[{"patternProperties": {"(x+)+$": {}}}]]},
        {"properties": {"a": {"pattern": "(x+)+$", "format": "regex", "uniqueItems": True}}},
        {"unevaluatedProperties": False},
    ],
)
def test_a_schema_that_cannot_be_judged_has_no_opinion(schema: object) -> None:
    assert problems(json.dumps({"a": "x" * 64 + "!"}), schema) == []


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_a_schema_that_would_take_for_ever_has_no_opinion(size: int) -> None:
    defs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"$ref": "#/$defs/d0", "$defs": defs | {"d60": {}}, "required": ["b"]}
    assert problems(json.dumps({"a": "x" * size}), schema) == []


def test_a_long_list_is_judged() -> None:
    schema = declared({"items": {"type": "object", "properties": {"n": {"type": "integer"}}}}, required=["b"])
    assert problems(json.dumps({"a": [{"n": 1}] * 3_000}), schema) == ["required: b"]


SCHEMAS = st.recursive(
    st.sampled_from(
        [{"type": "integer"}, {"type": "string"}, {"type": ["null", "boolean"]}, {"const": 1}, {"enum": [1, "x"]}]
    ),
    lambda inner: st.one_of(
        st.builds(lambda each: {"items": each}, inner),
        st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda each: {"properties": each, "required": ["a"]}, st.dictionaries(st.sampled_from("ab"), inner)),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("ab"), VALUES), SCHEMAS)
def test_there_is_a_problem_exactly_where_jsonschema_finds_one(value: dict[str, Any], schema: dict[str, Any]) -> None:
    assert bool(problems(json.dumps(value), schema)) is not Draft202012Validator(schema).is_valid(value)
