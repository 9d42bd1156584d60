"""Arguments typed by a schema (contract rule 5), row by row. Ids are of corpus/vllm.jsonl, sglang.jsonl, bugs.jsonl."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.events import Argument, Call
from gateway.integrity.arguments import Typed, arguments_of, problems, repair_values

NULLABLE_ARRAY = {"anyOf": [{"type": "array"}, {"type": "null"}]}


def typed(text: str, schema: object, kind: str | None = None) -> tuple[str, bool]:
    """The value of one argument as JSON text, and whether it counts as repaired."""
    call = Call("f", arguments=[Argument("a", text, kind)])
    found = arguments_of(call, {"type": "object", "properties": {"a": schema}})
    assert (found.valid, found.problem) == (True, None)
    json.loads(found.text)
    return found.text.removeprefix('{"a": ').removesuffix("}"), found.repaired


def of_json(*pieces: str, schema: object = None) -> Typed:
    return arguments_of(Call("f", json=list(pieces)), schema)


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        # A declared string is the text, whatever it looks like.
        ("25", {"type": "string"}, '"25"'),  # vllm-muse-tool-0033
        ("null", {"type": "string"}, '"null"'),  # vllm-muse-tool-0035
        (' "q"\n', {"type": "string"}, r'" \"q\"\n"'),
        ('{"key": "value"}', {"type": "string"}, r'"{\"key\": \"value\"}"'),  # sgl-0328
        ("nil", {"type": "string", "enum": ["none", "low"]}, '"nil"'),  # sgl-0381
        ("", {"type": "string"}, '""'),
        # Others are spliced where they are JSON, digits and white space inside as they are.
        ("25", {"type": "integer"}, "25"),
        (" 420 \n", {"type": "integer"}, "420"),  # vllm-poolside_v1-tool-0002
        ("1.0", {"type": "integer"}, "1.0"),
        ("5.0", {"type": "number"}, "5.0"),  # vllm-deepseek_v32-tool-0019
        ("9223372036854775808123", {"type": "integer"}, "9223372036854775808123"),
        ("1e999", {"type": "number"}, "1e999"),
        ("0.10", {"type": ["number", "null"]}, "0.10"),
        ('[true, null, {"enabled":  false}]', NULLABLE_ARRAY, '[true, null, {"enabled":  false}]'),  # sgl-0211
        ("null", NULLABLE_ARRAY, "null"),  # sgl-0204
        ('{"radius": 15.50}', {"type": "object"}, '{"radius": 15.50}'),
        ('{"t": 1}', {"anyOf": [{"type": "object"}, {"type": "object"}]}, '{"t": 1}'),
        ("2", {"enum": [1, 2]}, "2"),
        ("2", {"const": 2}, "2"),
        # Of several types a string is the last.
        ("null", {"type": ["string", "null"]}, "null"),  # sgl-0379
        ("none", {"type": ["string", "null"]}, '"none"'),  # sgl-0378
        ("None", {"type": ["string", "null"]}, '"None"'),
        ("some text", {"type": ["string", "integer", "null"]}, '"some text"'),  # vllm-qwen3_xml-tool-0009
        ("42", {"type": ["string", "integer", "null"]}, "42"),
        ("true", {"type": ["string", "boolean"]}, "true"),
        ("True", {"type": ["string", "boolean"]}, '"True"'),
        ("1", {"type": ["string", "boolean"]}, '"1"'),
        ('["a"', {"type": ["string", "array"]}, r'"[\"a\""'),
        # Constants in Python's spelling and others.
        ("True", {"type": "boolean"}, "true"),  # TAM-12
        ("FALSE", {"type": "boolean"}, "false"),
        ("1", {"type": "boolean"}, "true"),  # sgl-0578
        ("0", {"type": "boolean"}, "false"),
        ("1", {"type": ["boolean", "integer"]}, "1"),
        ("None", {"type": "null"}, "null"),
        ("None", NULLABLE_ARRAY, "null"),
        ("None", {"type": "integer"}, '"None"'),
        ("truer", {"type": "boolean"}, '"truer"'),
        # JSON of another type than the declared one is still JSON; what is none stays the text that it is.
        ("1.5", {"type": "integer"}, "1.5"),
        ('{"x": 1}', {"type": "array"}, '{"x": 1}'),
        ('"5"', {"type": "integer"}, '"5"'),
        ("not a number", {"type": "integer"}, '"not a number"'),  # sgl-0327
        ("not_json", {"type": "object"}, '"not_json"'),  # sgl-0435
        ("{1, 2, 3}", {"type": "object"}, '"{1, 2, 3}"'),  # sgl-0438
        ("007", {"type": "integer"}, '"007"'),
        ("NaN", {"type": "number"}, '"NaN"'),
        ("[1, -Infinity]", {"type": "array"}, '"[1, -Infinity]"'),
        ('["NaN"]', {"type": "array"}, '["NaN"]'),
        # Nothing said: a string.
        ("3", {}, '"3"'),
        ("null", {}, '"null"'),
        ("3", True, '"3"'),
    ],
)
def test_a_value_without_a_kind_is_what_its_schema_says(text: str, schema: object, expected: str) -> None:
    assert typed(text, schema) == (expected, False)


@pytest.mark.parametrize(
    ("text", "kind", "schema", "expected", "repaired"),
    [
        ("42", "string", {"type": "string"}, '"42"', False),
        ("42", "string", {}, '"42"', False),
        ("42", "string", {"type": ["string", "integer"]}, '"42"', False),
        ("x", "string", {"type": "integer"}, '"x"', False),
        # The format calls it a string, the schema allows none, and it is what the schema asks for.
        ("42", "string", {"type": "integer"}, "42", True),  # vllm-deepseek_v32-tool-0012
        ('{"m": 1}', "string", {"anyOf": [{"type": "object"}, {"type": "null"}]}, '{"m": 1}', True),  # …-0015
        ("42", "string", {"type": "boolean"}, '"42"', False),
        # The format calls it JSON, and the schema allows nothing of the kind but a string.
        ("null", "json", {"type": "string"}, '"null"', True),  # vllm-deepseek_v32-tool-0022
        ("010.0", "json", {"type": "string"}, '"010.0"', False),
        ("10.0", "json", {"type": "string"}, '"10.0"', True),
        ("10.0", "json", {"type": ["string", "number"]}, "10.0", False),
        ("10.0", "json", {"type": "boolean"}, "10.0", False),
        ('"x"', "json", {"type": "string"}, '"x"', False),
        ('{"n": 1}', "json", {"type": "string"}, '{"n": 1}', False),
        (' {"m": 1.50}\n', "json", {}, '{"m": 1.50}', False),
        ("bare", "json", {}, '"bare"', False),
        ("True", "json", {"type": "boolean"}, "true", False),
        ("True", "json", {"type": "string"}, '"True"', False),
        ('["a\nb"]', "json", {}, r'["a\nb"]', True),
        ('"[1]"', "json", {"type": "array"}, "[1]", True),
        ("[1", "json", {"type": "array"}, '"[1"', False),
    ],
)
def test_the_kind_that_the_format_writes_comes_before_the_schema(
    text: str, kind: str, schema: object, expected: str, repaired: bool
) -> None:
    assert typed(text, schema, kind) == (expected, repaired)


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        (r"[{\"id\": \"1\", \"n\": 1.50}]", {"type": "array"}, '[{"id": "1", "n": 1.50}]'),  # sgl-0219, sgl-0233
        (r'"[{\"t\": 1.50}]"', {"type": "array"}, '[{"t": 1.50}]'),
        ('{"a": "x\ty\\"\nz"}', {"type": "object"}, r'{"a": "x\ty\"\nz"}'),
    ],
)
def test_containers_written_with_escapes_too_many_or_too_few_are_repaired(
    text: str, schema: object, expected: str
) -> None:
    assert typed(text, schema) == (expected, True)


def test_a_tree_is_typed_leaf_by_leaf() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}, "tags": {"items": {"type": "boolean"}}},
    }
    text = '{"city": "1", "zip": "10001", "tags": ["true", "x"], "more": {"n": "1"}}'  # sgl-0372 and more
    expected = '{"city": "1", "zip": 10001, "tags": [true, "x"], "more": {"n": "1"}}'
    assert typed(text, schema, "tree") == (expected, False)
    assert typed('["1", "2"]', {"type": "array", "items": {"type": "number"}}, "tree") == ("[1, 2]", False)
    assert typed("1", {"type": "integer"}, "tree") == ("1", False)
    assert typed("x", {"type": "object"}, "tree") == ('"x"', False)


def test_arguments_of_one_name_are_one_argument_and_the_last_one_counts() -> None:
    call = Call("f", arguments=[Argument("a", "1", "json"), Argument("b", "2", "json"), Argument("a", "3", "json")])
    assert arguments_of(call, None) == Typed('{"a": 3, "b": 2}', repaired=False, valid=True, problem=None)


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert arguments_of(Call("f"), None) == Typed("{}", repaired=False, valid=True, problem=None)


def test_a_delimiter_that_was_missing_is_a_repair() -> None:
    assert arguments_of(Call("f", repaired=True), None).repaired
    assert arguments_of(Call("f", repaired=True, json=["[1]"]), None).repaired


def test_an_undeclared_name_has_the_type_of_additional_properties() -> None:
    call = Call("f", arguments=[Argument('a "b"', "1")])
    assert arguments_of(call, {"additionalProperties": {"type": "integer"}}).text == r'{"a \"b\"": 1}'
    assert arguments_of(call, {"additionalProperties": False}).text == r'{"a \"b\"": "1"}'


@pytest.mark.parametrize("text", ['{"a": 1.50,  "a": 2}', "{}", '{"a": "\\ud83d"}', '{"wait": {"n": [1e5]}}'])
def test_one_json_object_stays_as_it_is_written(text: str) -> None:
    assert of_json(text[:3], text[3:]) == Typed(text, repaired=False, valid=True, problem=None)
    assert of_json(f" \n{text}\n").text == text


@pytest.mark.parametrize(
    ("written", "text", "repaired"),
    [
        ("", "{}", False),
        (" \n", "{}", False),
        ("null", "{}", True),
        ('""', "{}", True),
        ('" "', "{}", True),
        ('"null"', "{}", True),
        (r'"{\"a\": 1.50}"', '{"a": 1.50}', True),
        ('{"a": "x\ny"}', r'{"a": "x\ny"}', True),
        ('{\n"a": "x\\\\\n"\n}', '{\n"a": "x\\\\\\n"\n}', True),
        ('{"a": "[1.50]"}', '{"a": [1.50]}', True),
    ],
)
def test_one_json_text_is_an_object_or_is_made_one_where_that_is_exact(written: str, text: str, repaired: bool) -> None:
    schema = {"properties": {"a": {"type": "array"}}}
    assert of_json(written, schema=schema) == Typed(text, repaired=repaired, valid=True, problem=None)


@pytest.mark.parametrize(
    "written",
    [
        "[1]",
        "1",
        "true",
        '"x"',
        '"[1]"',
        '{"a": 1',
        '{"a": 1}}',
        '{"a": NaN}',
        "{'a': 1}",
        '{"a": "\\\n"}',
        '{"a": "\n',
    ],
)
def test_what_is_no_object_is_not_valid_and_the_problem_does_not_repeat_it(written: str) -> None:
    expected = Typed(written, repaired=False, valid=False, problem="the arguments are no JSON object")
    assert of_json(written) == expected
    assert problems(written, None) == [expected.problem]


def test_surrogates_become_what_utf_8_can_carry() -> None:
    assert typed("\ud83d\ude00 \ud83d", {"type": "string"}) == (r'"\ud83d\ude00 \ud83d"', False)
    assert of_json('{"a": "\ud83c', '\udf0d"}').text == r'{"a": "\ud83c\udf0d"}'  # UNI-07


@pytest.mark.parametrize(
    ("arguments", "schema", "expected"),
    [
        (
            '{"todos":  "[{\\"t\\": \\"a\\", \\"n\\": 1.50}]"}',
            {"type": "array"},
            '{"todos":  [{"t": "a", "n": 1.50}]}',
        ),  # TAM-10
        ('{"todos": " {} "}', {"type": ["object", "null"]}, '{"todos": {}}'),
        ('{"todos": 1, "todos": "[]"}', {"type": "array"}, '{"todos": 1, "todos": []}'),
        ('{"todos": "x\ny"}', {"type": "string"}, r'{"todos": "x\ny"}'),
    ],
)
def test_a_container_in_a_string_is_unwrapped_where_the_schema_wants_it(
    arguments: str, schema: object, expected: str
) -> None:
    assert repair_values(arguments, {"properties": {"todos": schema}}) == (expected, True)


@pytest.mark.parametrize(
    ("arguments", "schema"),
    [
        ('{"todos": "[1]"}', {"type": ["array", "string"]}),
        ('{"todos": "[1]"}', {"type": "object"}),
        ('{"todos": "[1"}', {"type": "array"}),
        ('{"todos": "null"}', {"type": ["array", "null"]}),
        ('{"todos": "42"}', {"type": "integer"}),
        ('{"todos": "[1]"}', {}),
        ('{"todos": ["[1]"]}', {"type": "array", "items": {"type": "array"}}),
        ('{"other": "[1]"}', {"type": "array"}),
        ('{"todos": "\\ud83d \ud83d"}', {"type": "array"}),
        (' {"todos": 1.50} ', {"type": "array"}),
        ('"[1]"', {"type": "array"}),
        ('{"todos": "[1]"', {"type": "array"}),
    ],
)
def test_everything_else_stays_as_it_is(arguments: str, schema: object) -> None:
    assert repair_values(arguments, {"properties": {"todos": schema}}) == (arguments, False)


SCHEMA_TYPES = st.lists(
    st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"]), max_size=3, unique=True
)
TEXTS = st.text() | st.sampled_from(
    ["1", "1.0", "true", "None", "null", "[1]", '{"b": "[1]"}', '"x"', "NaN", r"[\"x\"]"]
)


@given(TEXTS, SCHEMA_TYPES, st.sampled_from(["string", "json", None]))
def test_any_argument_becomes_json_that_means_what_was_written(text: str, types: list[str], kind: str | None) -> None:
    found, _ = typed(text, {"type": types} if types else {}, kind)
    value: Any = json.loads(found)
    if types == ["string"] and kind != "json":
        assert value.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")
    elif isinstance(value, str):
        assert value == text or json.loads(text) == value
    assert repair_values(found, {"type": types}) == (found, False) or isinstance(value, dict)


@given(st.text('{}[]":, \\na1\n', max_size=12), SCHEMA_TYPES)
def test_any_json_text_is_an_object_or_not_valid(text: str, types: list[str]) -> None:
    found = of_json(text, schema={"properties": {"a": {"type": types}}})
    if found.valid:
        assert isinstance(json.loads(found.text), dict)
    else:
        assert found.text == text


def test_an_unclosed_string_of_escapes_costs_its_length_once() -> None:
    text = '{"a": "' + '\\"' * 200_000 + "\n"
    assert not of_json(text).valid
