"""Calls written as Python, against Python's own parser, and the texts of the engines' parsers (vLLM 0.33.0, SGLang
0.5.23) and their tests: pythonic, llama4_pythonic, lfm2, olmo3."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.calls.call import NAME_CAP, Status
from gateway.streams.calls.python_body import DEPTH_CAP, PythonBody
from tests.support.bodies import Read, led, pieces, read, same_at_every_cut

LIST, LINES = PythonBody(), PythonBody(brackets=False)


def calls(found: Read) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Names and arguments, these as JSON values; every argument must be of kind `json`."""
    told = []
    for name, ident, whole, arguments, repaired, _ in found.calls:
        assert (ident, whole, repaired) == (None, None, False)
        assert isinstance(name, str) and isinstance(arguments, tuple)
        assert {kind for _, _, kind in arguments} <= {"json"}
        told.append((name, [(key, json.loads(text)) for key, text, _ in arguments]))
    return told


def value_of(text: str) -> str:
    """The JSON text of a value written as Python, whatever the cutting."""
    found = same_at_every_cut(LIST, f"[f(a={text})]")
    assert found.status is Status.DONE, text
    arguments = found.calls[0][3]
    assert isinstance(arguments, tuple)
    return str(arguments[0][1])


@pytest.mark.parametrize(
    ("body", "text", "expected"),
    [
        (LIST, "[get_weather(city='Paris', days=3)]", [("get_weather", [("city", "Paris"), ("days", 3)])]),
        (
            LIST,
            "[get_weather(city='LA',metric='C'),register_user(name='Doe',age=9)]",
            [("get_weather", [("city", "LA"), ("metric", "C")]), ("register_user", [("name", "Doe"), ("age", 9)])],
        ),
        (LIST, "[get_weather()]", [("get_weather", [])]),
        (LIST, "[do_something_cool(steps=[])]", [("do_something_cool", [("steps", [])])]),
        (
            LIST,
            "[register_user(name='John Doe', age=37, address={'city': 'San Francisco', 'state': 'CA'}, role=None, "
            "passed_test=True, aliases=['John', 'Johnny'])]",
            [
                (
                    "register_user",
                    [
                        ("name", "John Doe"),
                        ("age", 37),
                        ("address", {"city": "San Francisco", "state": "CA"}),
                        ("role", None),
                        ("passed_test", True),
                        ("aliases", ["John", "Johnny"]),
                    ],
                )
            ],
        ),
        (
            LIST,
            "[get_weather(city='Martha\\'s Vineyard', metric='\\\"cool units\\\"')]",
            [("get_weather", [("city", "Martha's Vineyard"), ("metric", '"cool units"')])],
        ),
        (
            LIST,
            "[grocery.orderIngredients(ingredientList=[{'name': 'Lasagna noodles', 'amount': 250, 'unit': 'g'}])]",
            [
                (
                    "grocery.orderIngredients",
                    [("ingredientList", [{"name": "Lasagna noodles", "amount": 250, "unit": "g"}])],
                )
            ],
        ),
        (LIST, "[exec(command='grep -F \"]\" log.txt')]", [("exec", [("command", 'grep -F "]" log.txt')])]),
        (LIST, "[label(tags={'urgent', 'bug'})]", [("label", [("tags", ["urgent", "bug"])])]),
        (LIST, "[exec(command='printf a\0b')]", [("exec", [("command", "printf a\0b")])]),
        (LIST, "[exec(command='a\nb\r\n\tc')]", [("exec", [("command", "a\nb\r\n\tc")])]),
        (LIST, r'[search(query="\d+")]', [("search", [("query", r"\d+")])]),
        (LIST, '[search(query="what\'s the weather?")]', [("search", [("query", "what's the weather?")])]),
        (LIST, "[memory_get(from=1, class='x')]", [("memory_get", [("from", 1), ("class", "x")])]),
        (LIST, "[get-weather(max-days=1)]", [("get-weather", [("max-days", 1)])]),
        (LIST, "[ f ( a = 1 , ) , g() , ]", [("f", [("a", 1)]), ("g", [])]),
        (
            LINES,
            "get_weather(city='San Francisco', metric='celsius')\nregister_user(role=null, passed_test=true)",
            [("get_weather", [("city", "San Francisco"), ("metric", "celsius")])],
        ),
        (LINES, "f(a='x'), g()\n, h(b=false)", [("f", [("a", "x")]), ("g", []), ("h", [("b", False)])]),
        (LINES, "do_something_cool(additional_data={})", [("do_something_cool", [("additional_data", {})])]),
    ],
)
def test_the_engines_texts_are_read(body: PythonBody, text: str, expected: list[Any]) -> None:
    found = same_at_every_cut(body, text)
    assert (found.status, found.complete, calls(found)) == (Status.DONE, True, expected)
    assert all(closed for *_, closed in found.calls)
    assert led(body, text)


def test_a_list_ends_at_its_bracket_and_a_line_where_no_call_follows() -> None:
    assert same_at_every_cut(LIST, "[f()]\n[g()]").place == len("[f()]")
    for text, place in (("f()\ng()", 4), ("f() </function_calls>", 4), ("f(),\n</function_calls>", 5), ("f()", 3)):
        found = same_at_every_cut(LINES, text)
        assert (found.status, found.place, len(found.calls)) == (Status.DONE, place, 1), text


@pytest.mark.parametrize(
    ("body", "text", "place"),
    [
        (LIST, "f()", 0),
        (LIST, "[]", 1),
        (LIST, "[ ]", 2),
        (LIST, "[note]", 1),
        (LIST, "[1, 2]", 1),
        (LIST, "[text](https://example.org)", 1),
        (LIST, "[f(1)]", 3),
        (LIST, "[f('x')]", 3),
        (LIST, "[f(*a)]", 3),
        (LIST, "[f(a)]", 3),
        (LIST, "[f(,)]", 3),
        (LIST, "[f(a=)]", 5),
        (LIST, "[f(a==1)]", 5),
        (LIST, "[f(a=g())]", 6),
        (LIST, "[f(a=word)]", 9),
        (LIST, "[f(a=nan)]", 8),
        (LIST, "[f(a=1+2)]", 8),
        (LIST, "[f(a=2026-01-01)]", 15),
        (LIST, "[f(a=1j)]", 7),
        (LIST, "[f(a=.)]", 6),
        (LIST, "[f(a=e5)]", 7),
        (LIST, "[f(a=٣)]", 6),  # a digit, and no number of JSON's or Python's
        (LIST, "[f(a=0x" + "f" * NAME_CAP + ")]", 7 + NAME_CAP),
        (LIST, "[f(a='x' 'y')]", 9),
        (LIST, "[f(a='x'.upper())]", 8),
        (LIST, "[f(a='''x''')]", 7),
        (LIST, "[f(a='sed -n '1,9p' f.py')]", 14),
        (LIST, '[f(a=f"x")]', 6),
        (LIST, "[f(a=[1)]", 7),
        (LIST, "[f(a=[,])]", 6),
        (LIST, "[f(a=[1:2])]", 7),
        (LIST, "[f(a={'k'})}", 11),
        (LIST, "[f(a={'k': 1, 'l'})]", 17),
        (LIST, "[f(a={'k': 1, 'l', 'm': 2})]", 17),
        (LIST, "[f(a={'k', 'l': 1})]", 14),
        (LIST, "[f(a={'k': 1: 2})]", 12),
        (LIST, "[f(a={'k': })]", 11),
        (LIST, "[f(a={[1]: 2})]", 9),
        (LIST, "[f(a={(1): 2})]", 9),
        (LIST, "[f(a={k: 1})]", 7),
        (LIST, "[f(a=" + "[" * (DEPTH_CAP + 1), 5 + DEPTH_CAP),
        (LIST, "[f() and g()]", 5),
        (LIST, "[f(), 1]", 6),
        (LIST, "[f(a=1)", None),
        (LINES, "the call", 0),
        (LINES, "[f()]", 0),
        (LINES, "f(see below)", 2),
        (LIST, "[" + "n" * NAME_CAP, 1),
    ],
)
def test_what_is_no_list_of_calls_breaks_where_that_is_certain(body: PythonBody, text: str, place: int | None) -> None:
    found = same_at_every_cut(body, text)
    assert (found.status, found.place) == (Status.OPEN if place is None else Status.BROKEN, place)
    assert found.complete is (place is None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", "0"),
        ("-0", "-0"),
        ("1.50", "1.50"),
        ("1E+05", "1E+05"),
        ("-12345678901234567890.123456789012345678", "-12345678901234567890.123456789012345678"),
        ("9" * 300, "9" * 300),
        ("1e999", "1e999"),
        # What JSON does not allow, and Python reads (the last as vLLM and SGLang rewrite it for LFM2).
        (".5", "0.5"),
        ("5.", "5.0"),
        ("+3", "3"),
        ("1_000.2_5", "1000.25"),
        ("-0x1F", "-31"),
        ("0o17", "15"),
        ("0b101", "5"),
        ("07", "7"),
        ("-007.10", "-7.10"),
    ],
)
def test_numbers_keep_their_digits(text: str, expected: str) -> None:
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("()", []),
        ("(1,)", [1]),
        ("(1, 2)", [1, 2]),
        ("('x')", "x"),
        ("([1])", [1]),
        ("((1), ((2,),))", [1, [[2]]]),
        ("{}", {}),
        ("{1}", [1]),
        ("{1, 2,}", [1, 2]),
        ("{(1, 2)}", [[1, 2]]),
        ("[{}, [], 'x',]", [{}, [], "x"]),
        ("{'k': [1, {'z': None}], \"l\": ',',}", {"k": [1, {"z": None}], "l": ","}),
        ("{1: 'a', 2.50: 'b', True: 'c', None: 'd'}", {"1": "a", "2.50": "b", "true": "c", "null": "d"}),
        ("[True, False, None, true, false, null]", [True, False, None, True, False, None]),
        ("[" * DEPTH_CAP + "]" * DEPTH_CAP, None),
    ],
)
def test_containers_become_arrays_and_objects(text: str, expected: Any) -> None:
    written = value_of(text)
    assert written == text if expected is None else json.loads(written) == expected


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize(
    "inside",
    [
        r"\n\t\r\a\b\f\v\\",
        r"\'\"",
        r"\x41\xe9",
        r"\u00e9\uD83D\uDE00",
        r"\U0001F600",
        r"\0\12\101\1018",
        "line \\\nends",
        r"\d \. \q",
        "😀 )], (",
        "a\\\\",
    ],
)
def test_a_string_reads_as_python_reads_it(quote: str, inside: str) -> None:
    text = quote + inside + quote
    compared = ast.literal_eval(text.replace(r"\d \. \q", r"\\d \\. \\q"))
    assert json.loads(value_of(text)).encode("utf-16", "surrogatepass") == compared.encode("utf-16", "surrogatepass")


@pytest.mark.parametrize(
    "inside", [r"\x4", r"\xg1", r"\u12", r"\u12g4", r"\U0011FFFF", r"\U1234567", r"\N{DEGREE SIGN}"]
)
def test_an_escape_that_is_none_stays_as_it_is_written(inside: str) -> None:
    assert json.loads(value_of(f"'{inside}'")) == inside
    assert json.loads(value_of(f"'{inside}!'")) == inside + "!"


def test_the_other_quote_and_brackets_are_data_inside_a_string() -> None:
    assert json.loads(value_of("""'"x" )] [g(a="y")]'""")) == '"x" )] [g(a="y")]'


@pytest.mark.parametrize(
    ("body", "marked"),
    [(LIST, "[f(a='x'^, b={'k': [1, 2]}^, c=12, d=True)^, g()^]^"), (LINES, "f(a='x'^)^")],
)
def test_a_body_is_complete_where_an_argument_with_an_end_of_its_own_or_a_call_was_the_last_to_end(
    body: PythonBody, marked: str
) -> None:
    text, ends = "", set()
    for part in marked.split("^")[:-1]:
        text += part
        ends.add(len(text))
    for size in range(len(text) + 1):
        assert read(body, [text[:size]]).complete is (size in ends), text[:size]


def test_an_open_call_holds_the_arguments_that_have_ended() -> None:
    (name, _, _, arguments, _, closed), *rest = read(LIST, ["[f(a='x', b='y"]).calls
    assert (name, arguments, closed, rest) == ("f", (("a", '"x"', "json"),), False, [])


@pytest.mark.parametrize(
    ("body", "text", "answer"),
    [
        (LIST, "[f()", True),
        (LIST, "[ f ( )", True),
        (LIST, "[f(a=", True),
        (LIST, "[a.b ( c_d =", True),
        (LIST, "[f(a", False),
        (LIST, "[", False),
        (LIST, "[]", False),
        (LIST, "[note]", False),
        (LIST, "[see (below)]", False),
        (LIST, "[f(1)]", False),
        (LIST, '[{"name": "f"}]', False),
        (LIST, "f()", False),
        (LIST, "[" + "n" * NAME_CAP + "()", False),
        (LINES, "f()", True),
        (LINES, "f(a=1)", True),
        (LINES, "[f()]", False),
        (LINES, "calls (see", False),
    ],
)
def test_a_call_with_a_named_argument_or_none_leads_in_a_body(body: PythonBody, text: str, answer: bool) -> None:
    assert led(body, text) is answer


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
CALLS = st.lists(
    st.tuples(
        st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), st.dictionaries(st.just("a") | st.just("b"), VALUES)
    ),
    min_size=1,
    max_size=3,
)


@given(CALLS, st.lists(st.integers(1, 40), max_size=6))
def test_what_python_writes_is_read_as_python_reads_it(
    made: list[tuple[str, dict[str, Any]]], sizes: list[int]
) -> None:
    text = "[" + ", ".join(f"{name}({', '.join(f'{k}={v!r}' for k, v in given.items())})" for name, given in made) + "]"
    parts, at = [], 0
    for size in sizes:
        parts.append(text[at : at + size])
        at += size
    found = read(LIST, [*parts, text[at:]])
    assert found.status is Status.DONE and found.place == len(text)
    assert calls(found) == [(name, list(given.items())) for name, given in made]


@given(st.text("[]()f,='\"\\ 1{}:a\n", max_size=30))
def test_any_text_reads_the_same_at_every_cut(text: str) -> None:
    for body in (LIST, LINES):
        same_at_every_cut(body, text)
        led(body, text)


@pytest.mark.parametrize(
    "value", ["'" + "x" * 50_000 + "'", "'" + r"\n" * 25_000 + "'", "1" * 50_000, "[" + "1, " * 17_000 + "]"]
)
@pytest.mark.parametrize("size", [1, 7])
def test_the_work_is_linear_in_the_length_of_a_value(value: str, size: int) -> None:
    text = f"[f(a={value})]"
    assert read(LIST, pieces(text, size)).work <= 3 * len(text) + 10_000
