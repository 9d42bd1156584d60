"""Calls in braces. The texts are those of the engines' parsers (vLLM 0.33.0, SGLang 0.5.23) and their tests: gemma4 and
functiongemma."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.calls.brace_body import DEPTH_CAP, BracesBody
from gateway.streams.calls.call import NAME_CAP, Status
from tests.support.bodies import Read, led, pieces, read, same_at_every_cut

GEMMA4 = BracesBody(open=("call:", ":"), quote=('<|"|>',))
FUNCTIONGEMMA = BracesBody(open=("call:",), quote=("<escape>",))
Q = '<|"|>'


def call(name: str, *arguments: tuple[str, str, str | None], closed: bool = True) -> tuple[object, ...]:
    """A call as the driver tells it."""
    return name, None, None, arguments, False, closed


def value_of(text: str) -> tuple[str, str | None]:
    """The text and the kind of a value, whatever the cutting."""
    found = same_at_every_cut(GEMMA4, f"call:f{{a:{text}}}")
    assert found.status is Status.DONE, text
    arguments = found.calls[0][3]
    assert isinstance(arguments, tuple)
    return arguments[0][1:]


@pytest.mark.parametrize(
    ("body", "text", "expected"),
    [
        (
            GEMMA4,
            'call:get_weather{city:<|"|>Paris<|"|>,days:3}',
            call("get_weather", ("city", "Paris", "string"), ("days", "3", "json")),
        ),
        (GEMMA4, "call:now{}", call("now")),
        (GEMMA4, ":set_status{}", call("set_status")),
        (GEMMA4, 'call:get-weather{location:<|"|>London<|"|>}', call("get-weather", ("location", "London", "string"))),
        (GEMMA4, 'call:weather.get{location:<|"|>London<|"|>}', call("weather.get", ("location", "London", "string"))),
        (
            GEMMA4,
            "call:set_status{is_active:true,count:42,score:3.14}",
            call("set_status", ("is_active", "true", "json"), ("count", "42", "json"), ("score", "3.14", "json")),
        ),
        (
            GEMMA4,
            'call:get_weather{city:<|"|>if a < b && c > d: "q" \\n </x><|"|>,days:3}',
            call("get_weather", ("city", 'if a < b && c > d: "q" \\n </x>', "string"), ("days", "3", "json")),
        ),
        (
            GEMMA4,
            'call:search{query:<|"|>vllm parser<|"|>,filters:{language:<|"|>python<|"|>,min_stars:100},'
            'tags:[<|"|>ml<|"|>,<|"|>inference<|"|>],limit:10,verbose:true}',
            call(
                "search",
                ("query", "vllm parser", "string"),
                ("filters", '{"language": "python", "min_stars": 100}', "json"),
                ("tags", '["ml", "inference"]', "json"),
                ("limit", "10", "json"),
                ("verbose", "true", "json"),
            ),
        ),
        (
            FUNCTIONGEMMA,
            "call:get_weather{location:<escape>San Francisco<escape>,unit:<escape>celsius<escape>}",
            call("get_weather", ("location", "San Francisco", "string"), ("unit", "celsius", "string")),
        ),
        (FUNCTIONGEMMA, 'call:f{a:<escape><|"|>},{<escape>}', call("f", ("a", '<|"|>},{', "string"))),
        (
            GEMMA4,
            'call: f {\n  <|"|>a key<|"|> : <|"|>x<|"|> ,\n  b : two words ,\n}',
            call("f", ("a key", "x", "string"), ("b", "two words", None)),
        ),
    ],
)
def test_the_engines_texts_are_read(body: BracesBody, text: str, expected: tuple[object, ...]) -> None:
    found = same_at_every_cut(body, text + "<tool_call|>}")
    assert (found.status, found.place, found.complete) == (Status.DONE, len(text), True)
    assert found.calls == (expected,)
    assert led(body, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{Q}{Q}", ("", "string")),
        (f'{Q}"a\\n\n\ud83d{Q}', ('"a\\n\n\ud83d', "string")),
        (f"{Q}<|tool_call>call:g{{}}<tool_call|>{Q}", ("<|tool_call>call:g{}<tool_call|>", "string")),
        (f"{Q}3{Q}", ("3", "string")),
        ("-0.50e+3", ("-0.50e+3", "json")),
        ("null", ("null", "json")),
        ("True", ("True", None)),
        ("007", ("007", None)),
        ("1 2", ("1 2", None)),
        ("https://example.org/?a=b", ("https://example.org/?a=b", None)),
        ("[]", ("[]", "json")),
        ("{}", ("{}", "json")),
        ("[1,2,]", ("[1, 2]", "json")),
        (f"[[],{{}},{Q}]}}{Q},bare word,true]", ('[[], {}, "]}", "bare word", true]', "json")),
        (f"{{k:{{l:[1.50]}},{Q}m:n{Q}:None,}}", ('{"k": {"l": [1.50]}, "m:n": "None"}', "json")),
        (f'[{Q}a"b\\{Q}]', (r'["a\"b\\"]', "json")),
        ("[" * DEPTH_CAP + "]" * DEPTH_CAP, ("[" * DEPTH_CAP + "]" * DEPTH_CAP, "json")),
    ],
)
def test_a_value_keeps_its_text_and_a_container_becomes_json(text: str, expected: tuple[str, str | None]) -> None:
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("<tool_call|>", 0),
        ("calls", 0),
        ("call: me maybe", 6),
        ("call:{}", 5),
        ("call:f(a)", 5),
        ("call:" + "n" * NAME_CAP, 5),
        ("call:f{ no colon }", 8),
        ("call:f{,}", 7),
        ("call:f{:1}", 7),
        ("call:f{" + "k" * NAME_CAP, 7),
        (f"call:f{{{Q}a{Q}=1}}", 18),
        ("call:f{a:}", 9),
        ("call:f{a:,b:1}", 9),
        ("call:f{a:]}", 9),
        (f"call:f{{a:{Q}x{Q} y}}", 21),
        ("call:f{a:[1}", 11),
        ("call:f{a:{k:1]}", 13),
        ("call:f{a:{k}}", 10),
        ("call:f{a:x]}", 10),
        ("call:f{a:[1][2]}", 12),
        ("call:f{a:" + "[" * (DEPTH_CAP + 1), 9 + DEPTH_CAP),
        # A missing brace does not swallow the next call.
        (f"call:f{{n:3<tool_call|><|tool_call>call:g{{a:{Q}x{Q}}}<tool_call|>", 10),
    ],
)
def test_what_is_no_call_breaks_where_that_is_certain(text: str, place: int) -> None:
    found = same_at_every_cut(GEMMA4, text)
    assert (found.status, found.place, found.complete) == (Status.BROKEN, place, False)


def test_a_body_is_complete_where_an_argument_with_an_end_of_its_own_was_the_last_to_end() -> None:
    marked = f"call:f{{a:{Q}x{Q}^,b:3,c:[1]^, d:{{e:[2],f:g}}^,h:true,i:word ,j:{Q}]{Q}^^}}^"
    text, ends = "", set()
    for part in marked.split("^")[:-1]:
        text += part
        ends.add(len(text))
    for size in range(len(text) + 1):
        found = read(GEMMA4, [text[:size]])
        assert found.complete is (size in ends), text[:size]
        assert found.status is (Status.DONE if size == len(text) else Status.OPEN)


def test_an_open_call_holds_the_arguments_that_have_ended() -> None:
    assert read(GEMMA4, [f"call:f{{a:{Q}x{Q},b:{Q}y"]).calls == (call("f", ("a", "x", "string"), closed=False),)
    assert read(GEMMA4, ["call:f"]).calls == ()


@pytest.mark.parametrize(
    ("body", "text", "answer"),
    [
        (GEMMA4, "call:", True),
        (GEMMA4, ":f", True),
        (GEMMA4, "call", False),
        (GEMMA4, "", False),
        (GEMMA4, "to call: f", False),
        (FUNCTIONGEMMA, ":f", False),
    ],
)
def test_the_opener_leads_in_a_body(body: BracesBody, text: str, answer: bool) -> None:
    assert led(body, text) is answer


STRINGS = st.text().filter(lambda text: Q not in text + Q[:-1])
VALUES = st.recursive(
    st.booleans() | st.none() | st.integers() | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=8,
)


def written(value: Any) -> str:
    """A value as the format writes it."""
    if isinstance(value, str):
        return Q + value + Q
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(key)}:{written(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


@given(st.dictionaries(STRINGS, VALUES, max_size=4), st.lists(st.integers(1, 40), max_size=6))
def test_what_the_format_writes_is_read_back(arguments: dict[str, Any], sizes: list[int]) -> None:
    text = "call:f" + written(arguments)
    parts, at = [], 0
    for size in sizes:
        parts.append(text[at : at + size])
        at += size
    found = read(GEMMA4, [*parts, text[at:]])
    assert (found.status, found.place) == (Status.DONE, len(text))
    read_back = found.calls[0][3]
    assert isinstance(read_back, tuple)
    assert {key: text if kind == "string" else json.loads(text) for key, text, kind in read_back} == arguments


@given(
    st.lists(st.sampled_from(["call:", "f", "{", "}", "[", "]", ",", ":", "a", "1", " ", Q, '<|"', "<"]), max_size=20)
)
def test_any_text_reads_the_same_at_every_cut(shards: list[str]) -> None:
    for text in ("".join(shards), "call:f{" + "".join(shards)):
        same_at_every_cut(GEMMA4, text)
        led(GEMMA4, text)


@pytest.mark.parametrize(
    "value", [Q + "x" * 50_000 + Q, Q + "<|" * 25_000 + Q, "w" * 50_000, "[" + "1," * 25_000 + "1]"], ids=str.__len__
)
@pytest.mark.parametrize("size", [1, 7])
def test_the_work_is_linear_in_the_length_of_a_value(value: str, size: int) -> None:
    text = f"call:f{{a:{value}}}"
    found: Read = read(GEMMA4, pieces(text, size))
    assert found.status is Status.DONE
    assert found.work <= 3 * len(text) + 10_000
