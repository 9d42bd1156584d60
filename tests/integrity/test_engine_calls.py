"""The engine's own calls. Broken ones are those of the issues that `corpus/bugs.jsonl` cites."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.integrity.engine_calls import Checked, check_call

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PREDICT = {"type": "object", "properties": {"wd": {"type": "integer"}, "inj": {"type": "string"}}, "required": ["inj"]}
TODOS = {"type": "object", "properties": {"todos": {"type": "array"}}}
SCHEMAS: dict[str, Any] = {"get_weather": CITY, "predict": PREDICT, "todo_write": TODOS, "free": None, "a.b": None}
OSLO = '{"city": "Oslo"}'
GEMMA = ('<|"|>',)


def checked(
    arguments: str, name: str = "get_weather", *, text: bool = True, stopped: bool = True, quotes: tuple[str, ...] = ()
) -> Checked:
    """The verdict on a call of one of the declared tools."""
    return check_call(name, arguments, text=text, schemas=SCHEMAS, quotes=quotes, stopped=stopped)


# ---------------------------------------------------------------------- arguments that are as they should be


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_weather", OSLO),
        ("get_weather", ' {"city":"Oslo"}\n'),
        ("get_weather", '{"city": "<think>x</think> and <|im_end|>"}'),  # ROCm/ATOM#2974: data
        ("get_weather", '{"city": "x", "n": 1.10, "big": 123456789012345678901}'),
        ("get_weather", '{"city": "\ud83c"}'),
        ("predict", '{"wd": 23.0, "inj": "{\\"a\\": 1}"}'),
        ("free", '{"anything": [null]}'),
        ("nobody_declared_it", '{"a": 1}'),
    ],
)
def test_a_call_that_is_right_is_clean_and_stays_as_it_is(name: str, arguments: str) -> None:
    found = checked(arguments, name, quotes=GEMMA)
    assert (found.name, found.arguments, found.clean, found.empty) == (name, arguments, True, False)


@given(st.dictionaries(st.text(), st.recursive(st.text() | st.integers() | st.none() | st.booleans(), st.lists)))
def test_no_json_object_is_ever_changed(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    found = check_call("free", text, text=True, schemas=SCHEMAS, quotes=(), stopped=True)
    assert (found.arguments, found.clean, found.empty) == (text, True, value == {})


# ---------------------------------------------------------------------- arguments that are repaired


@pytest.mark.parametrize(
    ("name", "arguments", "right"),
    [
        ("free", "", "{}"),  # vllm-project/vllm#11392
        ("free", " \n", "{}"),
        ("free", "null", "{}"),
        ("get_weather", OSLO + OSLO, OSLO),  # vllm-project/vllm#51697
        ("get_weather", OSLO + "\n" + OSLO + OSLO, OSLO),
        ("get_weather", OSLO + '{"cit', OSLO),
        ("get_weather", '{"city": "create"}}</s', '{"city": "create"}'),  # vllm-project/vllm#51701
        ("get_weather", OSLO + "<|tool_call_end|>", OSLO),
        ("get_weather", OSLO + 'lo"}', OSLO),
        ("get_weather", "{}" + OSLO, OSLO),
        ("get_weather", '{"city": 3}' + OSLO, OSLO),
        ("get_weather", OSLO + '{"town": "Rome"}', OSLO),
        ("free", "{}{}", "{}"),
        # vllm-project/vllm#10395: the whole object behind a broken copy
        ("predict", '{"wd": 23, "inj": ""Z39"{"wd": 23, "inj": "Z39"}', '{"wd": 23, "inj": "Z39"}'),
        ("predict", '{"wd": 23, {"wd": 23, "inj": "Z39"}', None),
        ("get_weather", '{"city": "x } y"', '{"city": "x } y"}'),  # vllm-project/vllm#45389
        ("free", '{"a": [1, {"b": "]"}', '{"a": [1, {"b": "]"}]}'),
        ("get_weather", json.dumps(OSLO), OSLO),
        ("get_weather", "<tool_call>\n" + OSLO, OSLO),
        ("get_weather", "```json\n" + OSLO + "\n```", OSLO),
        ("get_weather", '{"city": "a\nb"}', '{"city": "a\\nb"}'),
        ("todo_write", '{"todos": "[{\\"t\\": \\"a\\"}]"}', '{"todos": [{"t": "a"}]}'),  # QwenLM/qwen-code#528
    ],
)
def test_arguments_that_say_themselves_what_they_should_be_are_repaired(
    name: str, arguments: str, right: str | None
) -> None:
    found = checked(arguments, name)
    wanted = (arguments, False, "not_json") if right is None else (right, True, None)
    assert (found.arguments, found.repaired, found.invalid) == wanted
    assert not found.renamed


def test_an_object_that_was_sent_as_one_becomes_text_with_its_own_digits() -> None:
    """huggingface/text-generation-inference#2136."""
    found = checked('{"city": "Oslo", "n": 1.10}', text=False)
    assert (found.arguments, found.repaired, found.invalid) == ('{"city": "Oslo", "n": 1.10}', True, None)


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ('{"city": "<|\\"|>Oslo<|\\"|>"}', '{"city": "Oslo"}'),  # vllm-project/vllm#44522
        ('{"<|\\"|>city<|\\"|>": "<|\\"|><|\\"|>"}', '{"city": ""}'),
        ('{"city": "<|\\"|>"}', None),
        ('{"city": "<|\\"|>Oslo"}', None),
        ('{"city": "<|\\"|>a<|\\"|>b<|\\"|>"}', None),
        ('{"city": "say <|\\"|>hi<|\\"|>"}', None),
    ],
)
def test_string_delimiters_of_the_family_go_where_they_enclose_a_whole_string(
    arguments: str, right: str | None
) -> None:
    found = checked(arguments, quotes=GEMMA)
    assert (found.arguments, found.repaired) == (right or arguments, right is not None)
    assert checked(arguments).arguments == arguments


# ---------------------------------------------------------------------- arguments that nobody can be sure of


@pytest.mark.parametrize(
    "arguments",
    [
        "[1]",
        "3",
        '"Oslo"',
        "Oslo",
        '{"city": "Oslo',  # cut inside a value
        '{"city": "Oslo", ',
        '{"city"}',
        OSLO + '{"city": "Rome"}',  # two calls in one (sgl-project/sglang#16371): neither is the right one
        OSLO + '{"city": "Rome',
        '{"city": "Oslo"}, "days": 3}',  # a bracket too early
        '{"town": "Oslo"',  # closed, it would not satisfy the schema
        '{"city": ""x", "town": {"city": "Rome"}}',  # no copy, but a value
        '{"city": ""x"{"city": 3}',
        '{"city": ""x"{"city": "a"',
        "".join(f'{{"city": "{n}"}}' for n in range(9)),
        OSLO * 66,
    ],
)
def test_arguments_that_could_be_anything_stay_and_are_flagged(arguments: str) -> None:
    found = checked(arguments)
    assert (found.arguments, found.repaired, found.invalid) == (arguments, False, "not_json")


def test_only_so_many_later_copies_are_looked_at() -> None:
    broken = '{"city": ""x" ' + '{"city": ' * 8
    assert checked(broken + OSLO).invalid == "not_json"
    assert checked('{"city": ""x" ' + '{"city": x' * 7 + OSLO).arguments == OSLO


@pytest.mark.parametrize("arguments", ['{"city": "x"', '{"city": "Os', '{"city"', "{"])
def test_what_was_cut_off_is_never_completed_and_no_news(arguments: str) -> None:
    found = checked(arguments, stopped=False)
    assert (found.arguments, found.clean) == (arguments, True)


@pytest.mark.parametrize(
    ("arguments", "right", "repaired"),
    [("{}", "{}", False), ("", "{}", True), ('{"city": 3}', '{"city": 3}', False)],
)
def test_arguments_that_break_the_schema_are_flagged(arguments: str, right: str, repaired: bool) -> None:
    """vllm-project/vllm-ascend#10182."""
    found = checked(arguments)
    assert (found.arguments, found.repaired, found.invalid) == (right, repaired, "schema")


def test_an_object_that_was_sent_as_something_else_is_flagged_and_no_repair() -> None:
    found = checked("[1]", text=False)
    assert (found.arguments, found.repaired, found.invalid) == ("[1]", False, "not_json")


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("get_weather<|channel|>commentary", "get_weather"),  # vllm-project/vllm#32587
        (" get_weather\n", "get_weather"),
        ("<|tool|>get_weather", "get_weather"),
        ("get_weather[ARGS]", "get_weather"),
        ("get_weather<", "get_weather"),
        ("functions.get_weather", "get_weather"),
        ("functions.get_weather:0", "get_weather"),
        ("get_weatherget_weatherget_weather", "get_weather"),
        ("functions.a.b", "a.b"),
    ],
)
def test_a_damaged_name_becomes_the_one_declared_tool_that_it_can_mean(name: str, right: str) -> None:
    found = checked("{}" if right == "a.b" else OSLO, name)
    assert (found.name, found.renamed, found.repaired, found.invalid) == (right, True, False, None)


@pytest.mark.parametrize("name", ["get weather", "get_weather<|x|>predict<", "", "<|channel|>"])
def test_a_damaged_name_that_means_no_tool_or_two_stays_and_is_flagged(name: str) -> None:
    schemas = {**SCHEMAS, "get_weatherpredict": None}
    found = check_call(name, OSLO, text=True, schemas=schemas, quotes=(), stopped=True)
    assert (found.name, found.renamed, found.invalid) == (name, False, "name")


@pytest.mark.parametrize("name", ["web_search", "functions.other", "a.b"])
def test_a_name_without_damage_is_nobodys_business(name: str) -> None:
    assert checked('{"q": 1}', name).clean


def test_without_declared_tools_every_name_is_right() -> None:
    found = check_call("f<|x|>", OSLO, text=True, schemas={}, quotes=(), stopped=True)
    assert (found.name, found.clean) == ("f<|x|>", True)


# ---------------------------------------------------------------------- work


@pytest.mark.parametrize("piece", ['{"city":', "{}", '{"a":1}{"a":2}', '{"city":""x', '{"a', "<a>", " ", '"\\', "\n"])
def test_no_text_is_too_long_for_a_verdict(piece: str) -> None:
    arguments = '{"city": "' + piece * 20_000
    assert checked(arguments).invalid == "not_json"
