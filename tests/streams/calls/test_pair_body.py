"""Calls written as a name and pairs. The texts are those of the engines' parsers (vLLM 0.33.0, SGLang 0.5.23)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.calls.call import NAME_CAP, Status
from gateway.streams.calls.pair_body import PairsBody
from gateway.streams.grammar import TAIL
from tests.support.bodies import led, pieces, read, same_at_every_cut

KEY, VALUE = ("<arg_key>", "</arg_key>"), ("<arg_value>", "</arg_value>")
GLM = PairsBody(open=(), separator=(), key=KEY, value=VALUE)
HUNYUAN = PairsBody(
    open=("<tool_call>",), separator=("<tool_sep>",), key=KEY, value=VALUE, close=("</tool_call>",), suffixed=True
)
K2 = PairsBody(
    open=("<ifm|tool_call>",),
    separator=(),
    key=("<ifm|arg_key>", "</ifm|arg_key>"),
    value=("<ifm|arg_value>", "</ifm|arg_value>"),
    type=("<ifm|arg_type>", "</ifm|arg_type>"),
    close=("</ifm|tool_call>",),
    types={"string": "string", "integer": "json", "array": "json"},
    json=True,
)
BARE_OR_JSON = PairsBody(open=(), separator=(), key=KEY, value=VALUE, json=True)
UNTIL = ("</tool_call>",)

MARKUP = 'if a < b && c > d: "q" \\n </x>'  # the value with markup characters of corpus/tool_literals.jsonl

Arguments = list[tuple[str, str, str | None]]


def call(name: str, arguments: Arguments, *, json: str | None = None, repaired: bool = False) -> tuple[object, ...]:
    """A whole call as the driver tells it."""
    return name, None, json, tuple(arguments), repaired, True


CITY: Arguments = [("city", "Paris", None), ("days", "3", None)]

# A body, and the call in it; the region's closer follows where the body has none.
FORMATS = [
    (
        "glm45",
        GLM,
        "get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n",
        call("get_weather", CITY),
    ),
    (
        "glm47, ling3, spark25",
        GLM,
        "get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key><arg_value>3</arg_value>",
        call("get_weather", CITY),
    ),
    ("glm45, no argument", GLM, "now\n", call("now", [])),
    ("glm47, no argument", GLM, "now", call("now", [])),
    (
        "glm45, verbatim",
        GLM,
        "f<arg_key> city </arg_key><arg_value>  Beijing\n </arg_value>",
        call("f", [("city", "  Beijing\n ", None)]),
    ),
    (
        "glm45, markup",
        GLM,
        f"f<arg_key>a</arg_key><arg_value>{MARKUP}</arg_value>",
        call("f", [("a", MARKUP, None)]),
    ),
    (
        "glm45, closers of what is around the value",
        GLM,
        "f<arg_key>a</arg_key><arg_value></tool_call></arg_key><arg_key></arg_value>",
        call("f", [("a", "</tool_call></arg_key><arg_key>", None)]),
    ),
    (
        "glm, the value's opener skipped by the model",
        GLM,
        "search<arg_key>query</arg_key>how many < 3 days left</arg_value><arg_key>n</arg_key><arg_value>1</arg_value>",
        call("search", [("query", "how many < 3 days left", None), ("n", "1", None)], repaired=True),
    ),
    (
        "poolside_v1",
        GLM,
        "write_file\n<arg_key>content</arg_key>\n<arg_value>    def f():\n        return 1\n</arg_value>\n"
        "<arg_key>mode</arg_key>\n<arg_value> 420 </arg_value>\n",
        call("write_file", [("content", "    def f():\n        return 1\n", None), ("mode", " 420 ", None)]),
    ),
    (
        "iquest_q1",
        GLM,
        'run\n<arg_key>code</arg_key><arg_value>  "123"\n</arg_value>'
        "<arg_key>count</arg_key> <arg_value>42</arg_value>\n",
        call("run", [("code", '  "123"\n', None), ("count", "42", None)]),
    ),
    (
        "hy_v3",
        HUNYUAN,
        "<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        call("get_weather", CITY),
    ),
    ("hy_v3, no argument", HUNYUAN, "<tool_call>now<tool_sep></tool_call>", call("now", [])),
    ("hy_v4, no separator", HUNYUAN, "<tool_call>now\n</tool_call>", call("now", [])),
    (
        "hy_v4, suffixes; the value's own closer has one",
        HUNYUAN,
        "<tool_call:6124c78e>\nf<tool_sep:6124c78e><arg_key:6124c78e>a</arg_key:6124c78e>"
        "<arg_value:6124c78e></arg_value></arg_value:x></arg_value:6124c78e></tool_call:6124c78e>",
        call("f", [("a", "</arg_value></arg_value:x>", None)]),
    ),
    (
        "k2_horizon",
        K2,
        "<ifm|tool_call>f\n<ifm|arg_key>a</ifm|arg_key>\n<ifm|arg_value>x</ifm|arg_value>\n</ifm|tool_call>",
        call("f", [("a", "x", None)]),
    ),
    (
        "k2_horizon, typed",
        K2,
        "<ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>string</ifm|arg_type>\n<ifm|arg_value>1</ifm|arg_value>"
        "<ifm|arg_key>b</ifm|arg_key> <ifm|arg_type> array[string] </ifm|arg_type><ifm|arg_value>[]</ifm|arg_value>"
        "<ifm|arg_key>c</ifm|arg_key><ifm|arg_type>any</ifm|arg_type><ifm|arg_value>2</ifm|arg_value></ifm|tool_call>",
        call("f", [("a", "1", "string"), ("b", "[]", "json"), ("c", "2", None)]),
    ),
    (
        "k2_horizon, a type and no opener of the value",
        K2,
        "<ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>Integer</ifm|arg_type> 7</ifm|arg_value>"
        "</ifm|tool_call>",
        call("f", [("a", "7", "json")], repaired=True),
    ),
    (
        "k2_horizon, JSON",
        K2,
        '<ifm|tool_call>{"name": "f", "arguments": {"a": "</ifm|tool_call>"}}\n</ifm|tool_call>',
        call("f", [], json='{"a": "</ifm|tool_call>"}'),
    ),
]


@pytest.mark.parametrize(("body", "text", "expected"), [row[1:] for row in FORMATS], ids=[row[0] for row in FORMATS])
def test_each_format_is_read_exactly_at_every_cut(body: PairsBody, text: str, expected: tuple[object, ...]) -> None:
    found = same_at_every_cut(body, f"{text}</tool_call> and more", until=UNTIL)
    assert (found.status, found.place, found.complete, found.calls) == (Status.DONE, len(text), True, (expected,))
    assert led(body, f"{text}</tool_call>")


# Where a text stops being a body stands a ¦.
MALFORMED = [
    ("prose behind the opener", GLM, "x ¦then"),
    ("JSON where none may be", GLM, '¦{"name": "f"}'),
    ("no name", GLM, "¦<arg_key>"),
    ("a name that is too long", GLM, "¦" + "f" * (NAME_CAP + 1)),
    ("another tag", GLM, "f¦</function>"),
    ("a key that is empty", GLM, "f<arg_key>¦ </arg_key>"),
    ("a key that does not end", GLM, "f<arg_key>¦" + "k" * NAME_CAP),
    ("a value without tags", GLM, "f<arg_key>a</arg_key>x¦<arg_key>"),
    ("text between a key and its value", GLM, "f<arg_key>a</arg_key>is ¦<arg_value>x</arg_value>"),
    ("text behind a pair", GLM, "f<arg_key>a</arg_key><arg_value>1</arg_value> ¦and"),
    ("a separator where there is none", GLM, "f¦<tool_sep>"),
    ("another opener", HUNYUAN, "¦<tool_use>"),
    ("two separators", HUNYUAN, "<tool_call>f<tool_sep>¦<tool_sep>"),
    ("an empty suffix", HUNYUAN, "<tool_call:¦>f"),
    ("a suffix that is none", HUNYUAN, "<tool_call:¦a b>f"),
    ("a suffix that is too long", HUNYUAN, "<tool_call:¦" + "a" * (TAIL + 1)),
    ("a tag with another suffix", HUNYUAN, "<tool_call:a>f¦<arg_key:b>"),
    ("a key without a value", K2, "<ifm|tool_call>f<ifm|arg_key>city</ifm|arg_key>¦</ifm|tool_call>"),
    ("a type that is none", K2, "<ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>¦" + "x" * NAME_CAP),
    ("JSON without a name", K2, '<ifm|tool_call>{"name":¦123,"arguments":{}}'),
    ("JSON and pairs", K2, '<ifm|tool_call>{"name": "f"}¦<ifm|arg_key>'),
    (
        "a value without its closer, and the next call",
        GLM,
        "run<arg_key>count</arg_key><arg_value>1</iquest_tool_call><iquest_tool_call>run\n"
        "<arg_key>code</arg_key><arg_value>x¦</arg_value>",
    ),
]


@pytest.mark.parametrize(("body", "text"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_what_is_no_such_body_breaks_at_one_place_at_every_cut(body: PairsBody, text: str) -> None:
    found = same_at_every_cut(body, text.replace("¦", ""), until=UNTIL)
    assert (found.status, found.place, found.complete) == (Status.BROKEN, text.index("¦"), False)


def test_a_region_s_closer_ends_a_call_that_lacks_its_own_and_is_not_read() -> None:
    text = "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>\n</tool_calls>"
    found = same_at_every_cut(HUNYUAN, text, until=("</tool_calls>",))
    assert (found.status, found.place) == (Status.DONE, text.index("</tool_calls>"))
    assert found.calls == (call("f", [("a", "1", None)], repaired=True),)


TRUNCATED = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"


def test_only_behind_a_value_does_nothing_but_closers_miss() -> None:
    """`<` may begin either; a name alone leaves open whether arguments were to come."""
    complete = [size for size in range(len(TRUNCATED) + 1) if same_at_every_cut(HUNYUAN, TRUNCATED[:size]).complete]
    assert complete == [58, 59, *range(61, 72)]


@pytest.mark.parametrize(
    ("body", "text", "complete"),
    [
        (GLM, "now", False),
        (GLM, "now\n", False),
        (GLM, "now</tool_", True),
        (HUNYUAN, "<tool_call>now<tool_s", False),
        (HUNYUAN, "<tool_call:ab", False),
        (K2, "<ifm|tool_call>", False),
        (K2, "<ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>int", False),
        (K2, "<ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key>x", False),
        (K2, '<ifm|tool_call>{"name": "f"', False),
        (K2, '<ifm|tool_call>{"name": "f"}', True),
    ],
)
def test_a_text_that_ends_early_leaves_the_body_open(body: PairsBody, text: str, complete: bool) -> None:
    found = same_at_every_cut(body, text, until=UNTIL)
    assert (found.status, found.complete) == (Status.OPEN, complete)


def test_a_closer_at_the_very_end_counts_although_a_longer_one_could_have_come() -> None:
    found = same_at_every_cut(GLM, "f</tool_call>", until=("</tool_call>", "</tool_call>;"))
    assert (found.status, found.place, found.calls) == (Status.DONE, 1, (call("f", []),))


@pytest.mark.parametrize(
    ("body", "text", "leads"),
    [
        (GLM, "x then", False),
        (GLM, "x", False),
        (GLM, "x" * NAME_CAP, False),
        (GLM, "{", False),
        (GLM, "", False),
        (BARE_OR_JSON, '{"name"', True),
        (BARE_OR_JSON, "f<", True),
        (HUNYUAN, "<tool_call:", True),
        (HUNYUAN, "<tool_cal", False),
        (HUNYUAN, "f<", False),
    ],
)
def test_a_name_or_an_opener_leads_a_body(body: PairsBody, text: str, leads: bool) -> None:
    assert led(body, text) is leads


def test_the_work_grows_with_a_value_and_no_faster() -> None:
    def work(size: int) -> int:
        text = f"f<arg_key>a</arg_key><arg_value>{'</arg_val <arg_key> ' * (size // 20)}</arg_value></tool_call>"
        return read(GLM, pieces(text, 5), until=UNTIL).work

    assert work(100_000) <= 2.1 * work(50_000)


SHARDS = (
    "f", "<tool_call>", "<tool_sep>", *KEY, *VALUE, "</tool_call>", "</tool_calls>", "\n", "<", "</", " ", ":a>", "{",
    "<arg_key>a</arg_key><arg_value>x</arg_value>",
)  # fmt: skip


@given(st.lists(st.sampled_from(SHARDS), max_size=12), st.lists(st.integers(0, 80), max_size=8))
def test_the_cuts_never_matter(shards: list[str], cuts: list[int]) -> None:
    text = "<tool_call" + "".join(shards)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    parts = [text[begin:end] for begin, end in pairwise(places)]
    found, expected = (read(HUNYUAN, fed, until=("</tool_calls>",)) for fed in (parts, [text]))
    assert replace(found, work=0) == replace(expected, work=0)


@given(st.text().filter(lambda value: "</arg_value>" not in value and "<arg_value>" not in value))
def test_a_value_comes_out_as_it_was_written(value: str) -> None:
    text = f"f<arg_key>a</arg_key><arg_value>{value}</arg_value></tool_call>"
    assert read(GLM, pieces(text, 3), until=UNTIL).calls == (call("f", [("a", value, None)]),)
