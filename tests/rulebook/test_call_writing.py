"""How bodies are written for samples that are made: each kind as its family writes it, tags as a sample shows them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.rulebook.call_writing import writings
from gateway.rulebook.dialect import ToolRegion
from gateway.streams.calls.brace_body import BracesBody
from gateway.streams.calls.call import Body
from gateway.streams.calls.element_body import ElementsBody, Tag
from gateway.streams.calls.json_body import ArgumentsBody, JsonBody
from gateway.streams.calls.named_body import NamedBody
from gateway.streams.calls.nested_body import NestedBody
from gateway.streams.calls.pair_body import PairsBody
from gateway.streams.calls.python_body import PythonBody

CALLS = [("f", {"a": "x", "o": {"k": ["i"]}}), ("g", {})]
REGION = ToolRegion(open=("<c>",), close=("</c>",))
INVOKE = Tag(open=("<invoke ",), end=">", words='name="(?P<name>[^"]+)"')
ELEMENTS = {
    "call": INVOKE,
    "close": ("</invoke>",),
    "argument": Tag(open=("<p ",), end=">", words='(?:is="(?P<type>\\w+)" )?name="(?P<name>[^"]+)"'),
    "argument_close": ("</p>",),
}
PAIRS = {"open": (), "separator": (), "key": ("<k>", "</k>"), "value": ("<v>", "</v>")}


def written(body: Body, *raws: str, region: ToolRegion = REGION) -> list[str]:
    return [each.write(CALLS) for each in writings(body, region, raws)]


@pytest.mark.parametrize(
    ("body", "raws", "texts"),
    [
        (JsonBody(), (),
         ['[{"name": "f", "arguments": {"a": "x", "o": {"k": ["i"]}}}, {"name": "g", "arguments": {}}]']),
        (JsonBody(keyed=True), (), ['[{"f": {"a": "x", "o": {"k": ["i"]}}}, {"g": {}}]']),
        (ArgumentsBody(), (), ['{"a": "x", "o": {"k": ["i"]}}{}']),
        (NamedBody(open=("<b>",), name="fn:(?P<name>\\w+)", separator=("[ARGS]", ""), close=("</b>",)),
         ("<b>nobody[ARGS]{}</b>", "<b> fn:tool [ARGS]{}</b>"),
         ['<b>fn:f[ARGS]{"a": "x", "o": {"k": ["i"]}}</b><b>fn:g[ARGS]{}</b>']),
        (NamedBody(open=(), name="(?P<name>\\w+)", separator=("",)), ("<c>tool{}</c>",),
         ['f{"a": "x", "o": {"k": ["i"]}}g{}']),
        (NamedBody(open=(), name="(?P<name>[a-z]+)|\\d+", separator=("",)), ("<c>7{}</c>",), []),
        (ElementsBody(**ELEMENTS), ('<invoke name="t"><p name="q">',),
         ['<invoke name="f"><p name="a">x</p><p name="o">{"k": ["i"]}</p></invoke><invoke name="g"></invoke>']),
        (ElementsBody(**ELEMENTS, types={"str": "string", "js": "json"}, newlines=True),
         ('<invoke name="t" /><p is="str" name="q">',),
         ['<invoke name="f"><p is="str" name="a">\nx\n</p><p is="js" name="o">\n{"k": ["i"]}\n</p></invoke>'
          '<invoke name="g"></invoke>']),
        (ElementsBody(**ELEMENTS, json=True), ('<invoke name="t">',),
         ['<invoke name="f">{"a": "x", "o": {"k": ["i"]}}</invoke><invoke name="g">{}</invoke>']),
        (ElementsBody(**ELEMENTS), ('<p name="q"><invoke >',), []),
        (PairsBody(**PAIRS), (),
         ['f<k>a</k><v>x</v><k>o</k><v>{"k": ["i"]}</v>g', 'f\n<k>a</k><v>x</v><k>o</k><v>{"k": ["i"]}</v>g\n']),
        (PairsBody(**{**PAIRS, "open": ("<b>",), "separator": ("<s>",)}, close=("</b>",), type=("<t>", "</t>"),
                   types={"text": "string", "int": "json", "any": "json"}, json=True), (),
         ['<b>f<k>a</k><v>x</v><k>o</k><v>{"k": ["i"]}</v></b><b>g</b>',
          '<b>f\n<k>a</k><v>x</v><k>o</k><v>{"k": ["i"]}</v></b><b>g\n</b>',
          '<b>f<s><k>a</k><v>x</v><k>o</k><v>{"k": ["i"]}</v></b><b>g<s></b>',
          '<b>f<k>a</k><t>text</t><v>x</v><k>o</k><t>int</t><v>{"k": ["i"]}</v></b><b>g</b>',
          '<b>{"name": "f", "arguments": {"a": "x", "o": {"k": ["i"]}}}</b><b>{"name": "g", "arguments": {}}</b>']),
        (NestedBody(prefix="]", call=INVOKE, close=("</invoke>",)), (']<invoke name="t">',),
         [']<invoke name="f">]<a>x]</a>]<o>]<k>]<item>i]</item>]</k>]</o>]</invoke>]<invoke name="g">]</invoke>']),
        (NestedBody(prefix="]", call=INVOKE, close=("</invoke>",)), (), []),
        (PythonBody(), (), ["[f(a='x', o={'k': ['i']}), g()]"]),
        (PythonBody(brackets=False), (), ["f(a='x', o={'k': ['i']})\ng()"]),
        (BracesBody(open=("call:", ":"), quote=("<q>",)), (),
         ["call:f{a:<q>x<q>,o:{k:[<q>i<q>]}}call:g{}", ":f{a:<q>x<q>,o:{k:[<q>i<q>]}}:g{}"]),
    ],
)  # fmt: skip
def test_a_body_is_written_as_its_samples_show_it(body: Body, raws: tuple[str, ...], texts: list[str]) -> None:
    assert written(body, *raws) == texts


def test_one_call_is_an_object_unless_the_array_opens_the_region() -> None:
    one = CALLS[1:]
    assert [w.write(one) for w in writings(JsonBody(), REGION, ())] == ['{"name": "g", "arguments": {}}']
    (array,) = writings(JsonBody(), ToolRegion(open=("[",)), ())
    assert array.write(one) == '[{"name": "g", "arguments": {}}]'


@pytest.mark.parametrize(
    ("body", "value", "said"),
    [
        (JsonBody(), {"k": [1]}, {"k": [1]}),
        (ElementsBody(**ELEMENTS), {"k": [1]}, '{"k": [1]}'),
        (ElementsBody(**ELEMENTS), "x", "x"),
        (ElementsBody(**ELEMENTS, types={"str": "string", "js": "json"}), {"k": [1]}, {"k": [1]}),
        (PairsBody(**PAIRS), ["x"], '["x"]'),
        (BracesBody(open=("call:",), quote=("<q>",)), ["x"], ["x"]),
    ],
)
def test_a_value_that_nothing_types_is_read_as_its_text(body: Body, value: Any, said: Any) -> None:
    first = next(iter(writings(body, REGION, ['<invoke name="t"><p is="str" name="q">'])))
    assert first.said(value) == said


def test_what_ends_a_value_is_told_and_whether_calls_may_follow_each_other() -> None:
    shown = ['<invoke name="t"><p name="q">', ']<invoke name="t">']
    facts = {
        type(body).__name__: next((each.joins, each.closers) for each in writings(body, REGION, shown))
        for body in (
            JsonBody(), ArgumentsBody(), ElementsBody(**ELEMENTS), PairsBody(**PAIRS), PythonBody(),
            NestedBody(prefix="]", call=INVOKE, close=("</invoke>",)), BracesBody(open=("call:",), quote=("<q>",)),
        )
    }  # fmt: skip
    assert facts == {
        "JsonBody": (True, ()), "ArgumentsBody": (False, ()), "ElementsBody": (True, ("</p>",)),
        "PairsBody": (False, ("</v>",)), "PythonBody": (True, ()), "NestedBody": (True, ("]",)),
        "BracesBody": (False, ("<q>",)),
    }  # fmt: skip
