"""Calls written as elements. The texts are those of the engines' parsers (vLLM 0.33.0, SGLang 0.5.23) and near ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.calls.call import NAME_CAP, Status
from gateway.streams.calls.element_body import ElementsBody, Tag, decoded
from gateway.streams.calls.json_value import DEPTH_CAP
from tests.support.bodies import led, pieces, read, same_at_every_cut

NAMED = r"""name\s*=\s*["'](?P<name>[^"']+)["']"""
TYPED = NAMED + r'\s+string="(?P<type>true|false)"'
XML = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}


def named(before: str, *, call: str = "invoke", argument: str = "parameter", words: str = NAMED) -> ElementsBody:
    """Tags with a `name` attribute; `before` stands before every tag's word."""
    return ElementsBody(
        call=Tag((f"<{before}{call}",), ">", NAMED),
        close=(f"</{before}{call}>",),
        argument=Tag((f"<{before}{argument}",), ">", words),
        argument_close=(f"</{before}{argument}>",),
        types={"true": "string", "false": "json"},
        json=words is TYPED,
    )


QWEN = ElementsBody(
    call=Tag(("<function=",), ">", r"(?P<name>[^<>]+)"),
    close=("</function>",),
    argument=Tag(("<parameter=",), ">", r"(?P<name>[^<>]+)"),
    argument_close=("</parameter>",),
    newlines=True,
)
MIMO = replace(QWEN, newlines=False)
INVOKE = named("")
DSML, DSML41, GCML = (named(bar, words=TYPED) for bar in ("｜DSML｜", "｜DSML｜ ", "｜GCML｜"))
STEP3, MUSE = named("steptml:"), named("atem:")
MINICPM5 = ElementsBody(
    call=Tag(("<function name=", "<functionĠname=", "<functionname="), ">", r"""["'](?P<name>[^"']+)["'][^>]*""", XML),
    close=("</function>",),
    argument=Tag(("<param name=", "<paramĠname=", "<paramname="), ">", r"""["'](?P<name>[^"']+)["']""", XML),
    argument_close=("</param>",),
    cdata=True,
    entities=XML,
)
ESCAPES = {"&quot;": '"', "&amp;": "&"}
K3 = ElementsBody(
    call=Tag(("<|open|>call ",), "<|sep|>", r'tool="(?P<name>[^"]*)"(?:\s+index="[^"]*")?', ESCAPES),
    close=("<|close|>call<|sep|>",),
    argument=Tag(("<|open|>argument ",), "<|sep|>", r'key="(?P<name>[^"]*)"(?:\s+type="(?P<type>[^"]*)")?', ESCAPES),
    argument_close=("<|close|>argument<|sep|>",),
    types={"string": "string", **dict.fromkeys(("number", "boolean", "object", "array", "null"), "json")},
)

MARKUP = 'if a < b && c > d: "q" \\n </x>'  # the value with markup characters of corpus/tool_literals.jsonl
DSML_MARKUP = f'<｜DSML｜parameter name="city" string="true">{MARKUP}</｜DSML｜parameter>'

Arguments = list[tuple[str, str, str | None]]


def call(name: str, arguments: Arguments, *, json: str | None = None, repaired: bool = False) -> tuple[object, ...]:
    """A whole call as the driver tells it."""
    return name, None, json, tuple(arguments), repaired, True


CITY: Arguments = [("city", "Paris", None), ("days", "3", None)]
TYPED_CITY: Arguments = [("city", "Paris", "string"), ("days", "3", "json")]

# A body, and the call in it.
FORMATS = [
    (
        "qwen3_coder",
        QWEN,
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>",
        call("get_weather", CITY),
    ),
    (
        "qwen3_xml in one line",
        QWEN,
        "<function=get_weather><parameter=city>Paris</parameter><parameter=days>3</parameter></function>",
        call("get_weather", CITY),
    ),
    (
        "step3p5",
        QWEN,
        '<function=area>\n<parameter=dimensions>\n{"radius": 15.50}\n</parameter>\n</function>',
        call("area", [("dimensions", '{"radius": 15.50}', None)]),
    ),
    ("nanbeige, no argument", QWEN, "<function=now>\n</function>", call("now", [])),
    (
        "qwen3_xml, indented value",
        QWEN,
        "<function=write_file>\n<parameter=content>\n    def foo():\n        return 1\n\n</parameter>\n</function>",
        call("write_file", [("content", "    def foo():\n        return 1\n", None)]),
    ),
    (
        "seed_oss, a line break is all of the value",
        QWEN,
        "<function=f><parameter=a>\n</parameter><parameter=b>\n\n</parameter><parameter=c></parameter></function>",
        call("f", [("a", "", None), ("b", "", None), ("c", "", None)]),
    ),
    (
        "qwen3_coder, markup",
        QWEN,
        f"<function=f>\n<parameter=city>{MARKUP}</parameter>\n</function>",
        call("f", [("city", MARKUP, None)]),
    ),
    (
        "qwen3_coder, closers of what is around the value",
        QWEN,
        "<function=f><parameter=a></function></tool_call></parameter><parameter=b></parameter </parameter></function>",
        call("f", [("a", "</function></tool_call>", None), ("b", "</parameter ", None)]),
    ),
    (
        "qwen3_coder, the opener of an argument that is no whole tag",
        QWEN,
        "<function=f><parameter=a>write <parameter= and </parameter></function>",
        call("f", [("a", "write <parameter= and ", None)]),
    ),
    (
        "mimo, verbatim",
        MIMO,
        "<function=f>\n<parameter=a>\n x &lt; y\n</parameter>\n</function>",
        call("f", [("a", "\n x &lt; y\n", None)]),
    ),
    (
        "deepseek_v32",
        DSML,
        '<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>',
        call("get_weather", TYPED_CITY),
    ),
    (
        "deepseek_v4, self-closing",
        DSML,
        '<｜DSML｜invoke name="submit"/>',
        call("submit", []),
    ),
    (
        "deepseek_v4, JSON",
        DSML,
        '<｜DSML｜invoke name="search">\n  {\n "query": "a}\\"</｜DSML｜invoke>",\n "topn": 10\n}\n </｜DSML｜invoke>',
        call("search", [], json='{\n "query": "a}\\"</｜DSML｜invoke>",\n "topn": 10\n}'),
    ),
    (
        "deepseek_v4, markup",
        DSML,
        f'<｜DSML｜invoke name="f">{DSML_MARKUP}</｜DSML｜invoke>',
        call("f", [("city", MARKUP, "string")]),
    ),
    (
        "deepseek_v41",
        DSML41,
        '<｜DSML｜ invoke name="add">\n'
        '<｜DSML｜ parameter name="x" string="false">1.50</｜DSML｜ parameter>\n</｜DSML｜ invoke>',
        call("add", [("x", "1.50", "json")]),
    ),
    (
        "gigachat35",
        GCML,
        '<｜GCML｜invoke name="get_weather"><｜GCML｜parameter name="city" string="true">Paris</｜GCML｜parameter>'
        '<｜GCML｜parameter name="days" string="false">3</｜GCML｜parameter></｜GCML｜invoke>',
        call("get_weather", TYPED_CITY),
    ),
    (
        "minimax_m2",
        INVOKE,
        '<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">3</parameter>\n</invoke>',
        call("get_weather", CITY),
    ),
    (
        "dots",
        INVOKE,
        "<invoke name = 'set'><parameter name='location'>{\"city\": \"Shanghai\"}</parameter></invoke>",
        call("set", [("location", '{"city": "Shanghai"}', None)]),
    ),
    (
        "Claude",
        INVOKE,
        '<invoke name="edit">\n<parameter name="file_path">a.ts</parameter>\n'
        '<parameter name="new_string"></parameter>\n</invoke>',
        call("edit", [("file_path", "a.ts", None), ("new_string", "", None)]),
    ),
    (
        "a tag's end in quotation marks",
        INVOKE,
        '<invoke name="f"><parameter name="a->b">1</parameter></invoke>',
        call("f", [("a->b", "1", None)]),
    ),
    (
        "a tag whose quotation mark belongs to the opener",
        replace(INVOKE, call=Tag(('<invoke name="',), ">", r'(?P<name>[^"]+)"')),
        '<invoke name="a>b"></invoke>',
        call("a>b", []),
    ),
    (
        "step3",
        STEP3,
        '<steptml:invoke name="get_weather">\n<steptml:parameter name="city">Paris</steptml:parameter>\n'
        '<steptml:parameter name="days">3</steptml:parameter>\n</steptml:invoke>',
        call("get_weather", CITY),
    ),
    (
        "muse",
        MUSE,
        '<atem:invoke name="get_weather">\n'
        '<atem:parameter name="code">line1\n"quoted"\n</atem:parameter>\n</atem:invoke>',
        call("get_weather", [("code", 'line1\n"quoted"\n', None)]),
    ),
    (
        "minicpm5",
        MINICPM5,
        '<function name="get_weather"><param name="city">上海</param><param name="date">2024-06-27</param></function>',
        call("get_weather", [("city", "上海", None), ("date", "2024-06-27", None)]),
    ),
    (
        "minicpm5, blanks spelt by the tokenizer or lost",
        MINICPM5,
        '<functionĠname="f"><paramĠname="a">x</param><paramname="b">y</param></function>',
        call("f", [("a", "x", None), ("b", "y", None)]),
    ),
    (
        "minicpm5, CDATA",
        MINICPM5,
        '<function name="f"><param name="a"><![CDATA[    def f():\n &lt; </param> ]]></x>\n]]></param></function>',
        call("f", [("a", "    def f():\n &lt; </param> ]]></x>\n", None)]),
    ),
    (
        "minicpm5, CDATA in two sections with white space around",
        MINICPM5,
        '<function name="f"><param name="a"> \n<![CDATA[a]]]]> <![CDATA[>b]]>\n</param></function>',
        call("f", [("a", "a]]>b", None)]),
    ),
    (
        "minicpm5, white space that is no CDATA",
        MINICPM5,
        '<function name="f"><param name="a"> <![CDA</param><param name="b">  </param></function>',
        call("f", [("a", " <![CDA", None), ("b", "  ", None)]),
    ),
    (
        "minicpm5, CDATA may hold the format itself",
        MINICPM5,
        '<function name="f"><param name="a"><![CDATA[<param name="b">x</param>]]></param></function>',
        call("f", [("a", '<param name="b">x</param>', None)]),
    ),
    (
        "minicpm5, entities",
        MINICPM5,
        '<function name="a&amp;b"><param name="k&quot;">1 &lt; 2 &amp;&amp; &amp;lt;</param></function>',
        call("a&b", [('k"', "1 < 2 && &lt;", None)]),
    ),
    (
        "minicpm5, a value that was not escaped",
        MINICPM5,
        '<function name="f"><param name="a">A & B &lt;</param><param name="b">a < b &amp;</param></function>',
        call("f", [("a", "A & B &lt;", None), ("b", "a < b &amp;", None)]),
    ),
    (
        "kimi_k3",
        K3,
        '<|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="string"<|sep|>x<|close|>argument<|sep|>'
        '<|open|>argument key="n" type="number"<|sep|>42<|close|>argument<|sep|>'
        '<|open|>argument key="u" type="date"<|sep|>1<|close|>argument<|sep|>'
        '<|open|>argument key="v"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|>',
        call("f", [("a", "x", "string"), ("n", "42", "json"), ("u", "1", None), ("v", "2", None)]),
    ),
    (
        "kimi_k3, escapes are the attributes' alone",
        K3,
        '<|open|>call tool="a&amp;b<c" index="1"<|sep|><|open|>argument key="q&lt;" type="string"<|sep|>'
        "say &quot;hi&quot;<|close|>argument<|sep|><|close|>call<|sep|>",
        call("a&b<c", [("q&lt;", "say &quot;hi&quot;", "string")]),
    ),
    ("kimi_k3, no argument", K3, '<|open|>call tool="f" index="1"<|sep|><|close|>call<|sep|>', call("f", [])),
]


@pytest.mark.parametrize(("body", "text", "expected"), [row[1:] for row in FORMATS], ids=[row[0] for row in FORMATS])
def test_each_format_is_read_exactly_at_every_cut(body: ElementsBody, text: str, expected: tuple[object, ...]) -> None:
    found = same_at_every_cut(body, f"{text}\n</tool_call> and more")
    assert (found.status, found.place, found.complete, found.calls) == (Status.DONE, len(text), True, (expected,))
    assert led(body, text)


# Where a text stops being a body stands a ¦.
MALFORMED = [
    ("prose behind the opener", QWEN, "¦use it"),
    ("another tag", QWEN, "¦<functions>"),
    ("no name", QWEN, "<function=¦>x"),
    ("a name of white space", QWEN, "<function=¦ >x"),
    ("a tag that says something else", INVOKE, '<invoke¦ id="f">'),
    ("a tag whose end is in quotation marks", INVOKE, '<invoke¦ name="f>' + "x" * NAME_CAP),
    ("an endless tag", QWEN, "<function=¦" + "f" * NAME_CAP),
    ("text between arguments", QWEN, "<function=f>\n<parameter=a>1</parameter> ¦then"),
    ("text before the closer", QWEN, "<function=f> ¦x</function>"),
    ("an argument's closer where none is open", QWEN, "<function=f>¦</parameter>"),
    ("an argument without its type", DSML, '<｜DSML｜invoke name="f"><｜DSML｜parameter¦ name="a">'),
    ("an argument that closes itself", INVOKE, '<invoke name="f"><parameter¦ name="a"/>'),
    ("JSON where none may be", QWEN, "<function=f>¦{}"),
    ("JSON behind an argument", DSML, f'<｜DSML｜invoke name="f">{DSML_MARKUP}¦{{}}'),
    ("two JSON objects", DSML, '<｜DSML｜invoke name="f">{} ¦{}'),
    ("an argument behind JSON", DSML, f'<｜DSML｜invoke name="f">{{}}¦{DSML_MARKUP}'),
    ("JSON that is none", DSML, '<｜DSML｜invoke name="f">{"a": ¦x}'),
    ("JSON that is too deep", DSML, '<｜DSML｜invoke name="f">{"a": ' + "[" * (DEPTH_CAP - 1) + "¦["),
    ("a value without its closer", QWEN, "<function=f>\n<parameter=a>\nx\n<parameter=b>\ny\n¦</parameter>"),
    (
        "a value without its closer, and the next call",
        K3,
        '<|open|>call tool="f"<|sep|><|open|>argument key="a"<|sep|>1<|close|>call<|sep|><|open|>call tool="f"<|sep|>'
        '<|open|>argument key="b"<|sep|>2¦<|close|>argument<|sep|>',
    ),
]


@pytest.mark.parametrize(("body", "text"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_what_is_no_such_body_breaks_at_one_place_at_every_cut(body: ElementsBody, text: str) -> None:
    found = same_at_every_cut(body, text.replace("¦", ""))
    assert (found.status, found.place, found.complete) == (Status.BROKEN, text.index("¦"), False)


def test_a_region_s_closer_ends_a_call_that_lacks_its_own_and_is_not_read() -> None:
    text = "<function=f>\n<parameter=a>1</parameter>\n</tool_call>"
    found = same_at_every_cut(QWEN, text, until=("</tool_call>",))
    assert (found.status, found.place) == (Status.DONE, text.index("</tool_call>"))
    assert found.calls == (call("f", [("a", "1", None)], repaired=True),)


TRUNCATED = "<function=f>\n<parameter=a>x</parameter>\n<parameter=b>y</parameter>\n</function>"


def test_only_between_arguments_does_nothing_but_closers_miss() -> None:
    """`<` may begin either; a header alone leaves open whether arguments were to come."""
    complete = [size for size in range(len(TRUNCATED) + 1) if same_at_every_cut(QWEN, TRUNCATED[:size]).complete]
    assert complete == [39, 40, 66, 67, *range(69, 79)]


@pytest.mark.parametrize(
    ("body", "text", "complete"),
    [
        (QWEN, "<function=f>\n", False),
        (QWEN, "<function=f>\n</", True),
        (QWEN, "<function=f>\n</tool_c", True),
        (DSML, '<｜DSML｜invoke name="f">{"a": 1', False),
        (DSML, '<｜DSML｜invoke name="f">{"a": 1}', True),
        (MINICPM5, '<function name="f"><param name="a"><![CDATA[x]]>', False),
        (MINICPM5, '<function name="f"><param name="a"> ', False),
    ],
)
def test_a_text_that_ends_early_leaves_the_body_open(body: ElementsBody, text: str, complete: bool) -> None:
    found = same_at_every_cut(body, text, until=("</tool_call>",))
    assert (found.status, found.complete) == (Status.OPEN, complete)


def test_a_closer_at_the_very_end_counts_although_a_longer_one_could_have_come() -> None:
    body = replace(QWEN, close=("</function>", "</function>;"))
    found = same_at_every_cut(body, "<function=f></function>")
    assert (found.status, found.calls) == (Status.DONE, (call("f", []),))


@pytest.mark.parametrize(
    ("text", "leads"), [("<function=", True), ("<functions", False), ("x", False), ("<func", False)]
)
def test_an_opener_leads_a_body(text: str, leads: bool) -> None:
    assert led(QWEN, text) is leads


def test_the_work_grows_with_a_value_and_no_faster() -> None:
    def work(size: int) -> int:
        text = f"<function=f><parameter=a>{'<param x </para y ' * (size // 18)}</parameter></function>"
        return read(QWEN, pieces(text, 5)).work

    assert work(100_000) <= 2.1 * work(50_000)


SHARDS = (
    "<function=", "f", ">", "\n", "<parameter=", "a", "</parameter>", "</function>", "</tool_call>", "<", "</", " ",
    "{}", "<function=f>", "<parameter=a>x</parameter>",
)  # fmt: skip


@given(st.lists(st.sampled_from(SHARDS), max_size=12), st.lists(st.integers(0, 80), max_size=8))
def test_the_cuts_never_matter(shards: list[str], cuts: list[int]) -> None:
    text = "<function=f>" + "".join(shards)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    parts = [text[begin:end] for begin, end in pairwise(places)]
    body = replace(QWEN, json=True)
    found, expected = (read(body, fed, until=("</tool_call>",)) for fed in (parts, [text]))
    assert replace(found, work=0) == replace(expected, work=0)


@given(st.text().filter(lambda value: "</parameter>" not in value and "<parameter=" not in value))
def test_a_value_comes_out_as_it_was_written(value: str) -> None:
    text = f"<function=f><parameter=a>{value}</parameter></function>"
    assert read(MIMO, pieces(text, 3)).calls == (call("f", [("a", value, None)]),)


@pytest.mark.parametrize(
    ("text", "unescaped", "expected"),
    [
        ("a&amp;lt;", "", "a&lt;"),
        ("&amp;&", "", "&&"),
        ("&amp;&", "&", "&amp;&"),
        ("&", "", "&"),
        ("&#60;", "", "&#60;"),
    ],
)
def test_entities_are_read_once_and_only_those_that_are_named(text: str, unescaped: str, expected: str) -> None:
    assert decoded(text, XML, unescaped=unescaped) == expected


def test_where_an_arguments_tag_is_a_control_token_a_value_may_hold_one() -> None:
    body = replace(QWEN, opaque=True)
    text = "<function=f>\n<parameter=a>\n<parameter=b>\n</parameter>\n</function>"
    reader = body.open(until=())
    reader.read(text, 0, final=True)
    assert [argument.text for argument in reader.calls[0].arguments] == ["<parameter=b>"]
