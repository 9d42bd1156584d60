"""Calls written as JSON. The texts are those of the engines' parsers (vLLM 0.33.0, SGLang 0.5.23) and their tests."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.calls.call import NAME_CAP, Status
from gateway.streams.calls.json_body import ArgumentsBody, JsonBody
from gateway.streams.calls.json_value import DEPTH_CAP
from tests.support.bodies import led, pieces, read, same_at_every_cut

PLAIN = JsonBody()
PARAMETERS = JsonBody(arguments=("parameters", "arguments"))
COHERE = JsonBody(name=("tool_name",), arguments=("parameters",))
KEYED = JsonBody(keyed=True)
INKLING = JsonBody(arguments=("args",))

PARIS = '{"city": "Paris", "days": 3}'
MARKUP = r'{"city": "if a < b && c > d: \"q\" \\n </x>", "days": 3}'
BRACES = r'{"text": "He said \"Hello {world}]\"", "path": "C:\\", "tail": "\\\""}'


def call(name: str, arguments: str, *, closed: bool = True) -> tuple[object, ...]:
    """A call as the driver tells it."""
    return name, None, arguments, (), False, closed


# What is inside the format's wrapper, what closes the wrapper, and the calls.
FORMATS = [
    ("hermes", PLAIN, '{"name": "f", "arguments": ' + PARIS + "}", "\n</tool_call>", [("f", PARIS)]),
    ("hermes markup", PLAIN, '{"name": "f", "arguments": ' + MARKUP + "}", "</tool_call>", [("f", MARKUP)]),
    ("ernie45", PLAIN, '{"name": "t", "arguments": {"location": "北京 🎉"}}', "\n</tool_call>", None),
    ("granite", PLAIN, '[{"name": "f", "arguments": {"a": "x"}}]', "", [("f", '{"a": "x"}')]),
    (
        "granite two",
        PLAIN,
        '[\n  {"name": "get_weather", "arguments": {"city": "Tokyo"}},\n  {"name": "get_time", "arguments": {}}\n]',
        "",
        [("get_weather", '{"city": "Tokyo"}'), ("get_time", "{}")],
    ),
    (
        "granite indented",
        PLAIN,
        '[{\n  "name": "t",\n  "arguments": {\n    "f": 3.140,\n    "o": {"n": [1, {}]},\n    "e": []\n  }\n}]',
        "",
        [("t", '{\n    "f": 3.140,\n    "o": {"n": [1, {}]},\n    "e": []\n  }')],
    ),
    ("granite-20b", PLAIN, '{"name": "f", "arguments": {"a": "x"}}', "", [("f", '{"a": "x"}')]),
    (
        "cohere",
        COHERE,
        '[\n{"tool_call_id": "0", "tool_name": "foo", "parameters": {"query": "q"}},\n'
        '{"tool_call_id": "1", "tool_name": "bar", "parameters": {"x": 42}}\n]',
        "\n<|END_ACTION|>",
        [("foo", '{"query": "q"}'), ("bar", '{"x": 42}')],
    ),
    (
        "apertus",
        KEYED,
        '[{"get_weather": {"location": "London"}}, {"get_time": {}}]',
        "<|tools_suffix|>",
        [("get_weather", '{"location": "London"}'), ("get_time", "{}")],
    ),
    (
        "apertus nested",
        KEYED,
        '[{"name": {"nested": {"inner": "value"}, "list": ["a", "b"]}}]',
        "<|tools_suffix|>",
        [("name", '{"nested": {"inner": "value"}, "list": ["a", "b"]}')],
    ),
    ("internlm", PARAMETERS, '{"name": "f", "parameters": {"a": "x"}}', "<|action_end|>", [("f", '{"a": "x"}')]),
    (
        "hunyuan_a13b",
        PLAIN,
        '[{"name": "complex_tool", "arguments": {"l1": {"l2": {"l3": {"value": 123}}}}}]',
        "</tool_calls>",
        [("complex_tool", '{"l1": {"l2": {"l3": {"value": 123}}}}')],
    ),
    ("jamba", PLAIN, '[\n    {"name": "f", "arguments": ' + PARIS + "}\n]", "</tool_calls>", [("f", PARIS)]),
    ("functools", PLAIN, '[{"name": "f", "arguments": {"a": "x"}}]', "\nmore?", [("f", '{"a": "x"}')]),
    (
        "xlam",
        PLAIN,
        '[{"name": "w", "arguments": {"city": "北京"}}, {"name": "w", "arguments": {"city": "上海"}}]',
        "\n```",
        [("w", '{"city": "北京"}'), ("w", '{"city": "上海"}')],
    ),
    ("longcat", PLAIN, '{\n  "name": "t",\n  "arguments": ' + BRACES + "\n}", "</longcat_tool_call>", [("t", BRACES)]),
    ("llama3_json", PARAMETERS, '{"name": "f", "parameters": ' + BRACES + "}", '; {"name"', [("f", BRACES)]),
    ("llama3_json arguments", PARAMETERS, '{"name": "f", "arguments": {}}', ";{", [("f", "{}")]),
    ("gigachat3", PLAIN, '{"name": "f", "arguments": {"a": {"b": true}}}', "</s>", [("f", '{"a": {"b": true}}')]),
    (
        "inkling",
        INKLING,
        '{"name":"get_weather","args":{"city":"SF"}}',
        "<|end_message|>",
        [("get_weather", '{"city":"SF"}')],
    ),
    ("mistral array", PLAIN, '[{"name": "f", "arguments": {"a": "```\\n```"}}]', "</s>", [("f", '{"a": "```\\n```"}')]),
    (
        "openai",
        PLAIN,
        '{"id": "c1", "type": "function", "function": {"arguments": "{\\"a\\": 1}", "name": "f"}, "index": 0}',
        "",
        [("f", '"{\\"a\\": 1}"')],
    ),
]


@pytest.mark.parametrize(
    ("body", "text", "closer", "calls"), [row[1:] for row in FORMATS], ids=[row[0] for row in FORMATS]
)
def test_every_format_is_read_to_its_last_bracket(
    body: JsonBody, text: str, closer: str, calls: list[tuple[str, str]] | None
) -> None:
    found = same_at_every_cut(body, text + closer)
    assert (found.status, found.place, found.complete) == (Status.DONE, len(text), True)
    if calls is None:
        value = json.loads(text)
        calls = [(value["name"], json.dumps(value["arguments"], ensure_ascii=False))]
    assert found.calls == tuple(call(*one) for one in calls)
    assert led(body, text)


@pytest.mark.parametrize(
    ("body", "text", "expected"),
    [
        (PLAIN, '{"arguments": {"a": 1}, "name": "f"}', [("f", '{"a": 1}')]),
        (PLAIN, '{"name": "f"}', [("f", "")]),
        (PLAIN, '{"name": "f", "arguments": null}', [("f", "null")]),
        (PLAIN, '{"name": "f", "arguments": -1.50 }', [("f", "-1.50")]),
        (PLAIN, '{"name": "f", "arguments": [1, 2]}', [("f", "[1, 2]")]),
        (PLAIN, '{"name": "f", "arguments": "{}"}', [("f", '"{}"')]),
        (PLAIN, '{"type": "function", "id": "1", "index": 0, "name": "f"}', [("f", "")]),
        (PLAIN, '{"a": [{"name": "g"}], "b": {"name": 1}, "name": "f", "arguments": {}}', [("f", "{}")]),
        (
            PLAIN,
            '{"name": "f", "arguments": {"name": "g", "arguments": {}}}',
            [("f", '{"name": "g", "arguments": {}}')],
        ),
        (PLAIN, r'{"n\u0061me": "\u0066\"\n", "arguments": {}}', [('f"\n', "{}")]),
        (PLAIN, '{"name": "f", "arguments": {"a": "raw\nline\tbreak"}}', [("f", '{"a": "raw\nline\tbreak"}')]),
        (PLAIN, r'{"name": "f", "arguments": {"a": "\d+"}}', [("f", r'{"a": "\d+"}')]),
        (JsonBody(name=("function",)), '{"function": "f", "arguments": {}}', [("f", "{}")]),
        (JsonBody(name=("function", "name")), '{"function": {"name": "f"}}', [("f", "")]),
        (PLAIN, '{"name": "", "name": "f"}', [("f", "")]),
        (PLAIN, "[]", []),
        (PLAIN, "[ \n]", []),
        (KEYED, '{"f": {}}', [("f", "{}")]),
        (KEYED, '{"function": {"name": 1}}', [("function", '{"name": 1}')]),
        (PLAIN, '{"name": "' + "n" * (NAME_CAP - 2) + '"}', [("n" * (NAME_CAP - 2), "")]),
    ],
)
def test_members_come_in_any_order_and_values_as_they_are_written(
    body: JsonBody, text: str, expected: list[tuple[str, str]]
) -> None:
    found = same_at_every_cut(body, text + "}]")
    assert (found.status, found.place) == (Status.DONE, len(text))
    assert found.calls == tuple(call(*one) for one in expected)


@pytest.mark.parametrize(
    ("body", "text", "place"),
    [
        (PLAIN, "x", 0),
        (PLAIN, "{}", 1),
        (PLAIN, "{x", 1),
        (PLAIN, "{'name': 'f'}", 1),
        (PLAIN, '{"name" "f"', 8),
        (PLAIN, '{"name": f', 9),
        (PLAIN, '{"name": 1', 9),
        (PLAIN, '{"name": {}', 9),
        (PLAIN, '{"name": "f" "arguments"', 13),
        (PLAIN, '{"name": "f",}', 13),
        (PLAIN, '{"name": "f"]', 12),
        (PLAIN, '{"name": ""}', 11),
        (PLAIN, '{"arguments": {}}', 16),
        (PLAIN, '{"name": "f", "name": "g"}', 14),
        (PLAIN, '{"name": "f", "function": {"name": "g"}}', 27),
        (PLAIN, '{"name": "f", "arguments": {}, "arguments": {"a": 1}}', 31),
        (PARAMETERS, '{"name": "f", "arguments": {}, "parameters": {"a": 1}}', 31),
        (PLAIN, '{"name": "f", "arguments": {invalid json}', 28),
        (PLAIN, '{"name": "f", "parameters": {"a": 1}}', 36),  # what it would be called with stands in another member
        (PLAIN, '{"name": "f", "command": "ls"}', 29),
        (PLAIN, '{"name": "f", "arguments": {{"name"', 28),
        (PLAIN, '{"name": "f", "arguments": {"a": NaN}}', 33),
        (PLAIN, '{"name": "f", "arguments": {"a": 1,}}', 35),
        (PLAIN, '{"name": "f", "arguments": {\'a\'', 28),
        (PLAIN, '{"name": "f", "other": x', 23),
        (PLAIN, r'{"name": "\d"}', 9),
        (PLAIN, r'{"\d": "f"}', 1),
        (PLAIN, "[1]", 1),
        (PLAIN, '["f"]', 1),
        (PLAIN, "[[", 1),
        (PLAIN, "[,", 1),
        (PLAIN, '[{"name": "f"} {', 15),
        (PLAIN, '[{"name": "f"},]', 15),
        (PLAIN, '[{"name": "f"}}', 14),
        (PLAIN, '[{"name": "f"}, {}]', 17),
        (KEYED, "{}", 1),
        (KEYED, '{"f": []}', 6),
        (KEYED, '{"f": null}', 6),
        (KEYED, '{"f": {}, "g": {}}', 10),
        (KEYED, '{"": {}}', 7),
        (PLAIN, '{"name": "' + "n" * (NAME_CAP - 1) + '"}', 9),
        (PLAIN, '{"' + "n" * (NAME_CAP - 1) + '": 1, "name": "f"}', 1),
        (PLAIN, '{"name": "f", "arguments": ' + "[" * (DEPTH_CAP + 1), 27 + DEPTH_CAP),
    ],
)
def test_what_is_no_call_breaks_where_that_is_certain(body: JsonBody, text: str, place: int) -> None:
    found = same_at_every_cut(body, text)
    assert (found.status, found.place) == (Status.BROKEN, place)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"name"', True),
        ('{ \n"', True),
        ('[{"name"', True),
        ('[\n  {\n"', True),
        ("[]", True),
        ("[ ]", True),
        ("{}", False),
        ("{name", False),
        ("{'name'", False),
        ("[f(a=1)]", False),
        ('["a"]', False),
        ("[{}]", False),
        ("[{'", False),
        ("[1", False),
        ("name", False),
        ("]", False),
        ("{" + " " * NAME_CAP + '"', False),
        ("[", False),
        ("", False),
    ],
)
def test_a_body_is_led_in_by_a_bracket_and_a_name(text: str, answer: bool) -> None:
    assert led(PLAIN, text) is answer


TWO = '[{"name": "f", "arguments": {"a": [1]}}, {"name": "g"}]'


def test_it_is_complete_where_only_the_end_of_the_array_is_missing() -> None:
    first, comma = TWO.index("}}") + 2, TWO.index(', {"name"') + 2
    for size in range(len(TWO)):
        found = read(PLAIN, [TWO[:size]])
        assert found.status is Status.OPEN
        assert found.complete is (first <= size <= comma or size == len(TWO) - 1), TWO[:size]


def test_a_call_is_there_from_its_first_bracket_on_and_its_arguments_as_they_come() -> None:
    reader = PLAIN.open(until=())
    assert reader.read("[{", 0, final=False) == 2
    assert [(one.name, one.json) for one in reader.calls] == [("", [])]
    text = '"name": "f", "arguments": {"a": '
    assert reader.read(text, 0, final=False) == len(text)
    assert reader.read('"x', 0, final=False) == 2
    assert [(one.name, one.json, one.closed) for one in reader.calls] == [("f", ['{"a": ', '"x'], False)]


@pytest.mark.parametrize("size", [4, 4096])
def test_twice_the_argument_is_twice_the_work(size: int) -> None:
    def work(length: int) -> int:
        text = '{"name": "f", "arguments": {"a": "' + "x\\n" * (length // 3) + '"}}'
        return read(PLAIN, pieces(text, size)).work

    assert work(200_000) <= 2.6 * work(100_000)
    assert work(100_000) <= 1.1 * 100_000


@pytest.mark.parametrize("text", ["{}", "{ }", PARIS, MARKUP, BRACES, '{\n"a": {"b": [{}]}}'])
def test_an_object_of_arguments_alone_is_one_nameless_call(text: str) -> None:
    body = ArgumentsBody()
    found = same_at_every_cut(body, text + "<|call|>")
    assert (found.status, found.place, found.complete) == (Status.DONE, len(text), True)
    assert found.calls == (call("", text),)
    assert led(body, text)
    for size in range(len(text)):
        cut = read(body, [text[:size]])
        assert (cut.status, cut.complete, cut.calls) == (Status.OPEN, False, (call("", text[:size], closed=False),))


@pytest.mark.parametrize(("text", "place"), [("{x", 1), ('{"a": "b",}', 10), ('{"a" "b"}', 5)])
def test_arguments_that_are_no_object_break(text: str, place: int) -> None:
    found = same_at_every_cut(ArgumentsBody(), text)
    assert (found.status, found.place, found.complete) == (Status.BROKEN, place, False)


@pytest.mark.parametrize(
    ("text", "answer"), [('{"', True), ("{\n}", True), ("{x", False), ("[", False), ("x", False), ("{", False)]
)
def test_arguments_are_led_in_by_the_bracket_of_an_object(text: str, answer: bool) -> None:
    assert led(ArgumentsBody(), text) is answer


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OTHER = st.sampled_from(["id", "type", "index", "note"])
CALLS = st.lists(
    st.tuples(st.text(min_size=1, max_size=9), st.dictionaries(st.text(), VALUE), st.dictionaries(OTHER, VALUE)),
    max_size=3,
)


@given(CALLS, st.booleans(), st.sampled_from([None, 1]), st.lists(st.integers(1, 40), max_size=30), st.text(max_size=3))
def test_calls_that_were_written_are_read_back_at_any_cut(
    calls: list[tuple[str, object, dict[str, object]]], ascii_only: bool, indent: int | None, cuts: list[int], more: str
) -> None:
    written = [{**other, "name": name, "arguments": arguments} for name, arguments, other in calls]
    text = json.dumps(written, ensure_ascii=ascii_only, indent=indent)
    parts, rest = [], text + more
    for size in cuts:
        parts.append(rest[:size])
        rest = rest[size:]
    found = read(PLAIN, [*parts, rest])
    assert (found.status, found.place) == (Status.DONE, len(text))
    assert [(one[0], json.loads(str(one[2]))) for one in found.calls] == [(name, value) for name, value, _ in calls]
