"""Plain data of a call format to its values: each kind of body, bodies of a file, other spellings (rules/README.md)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.rulebook.dialect import CallSample, ToolRegion
from gateway.rulebook.formats import make_call_format, spellings, written_out
from gateway.streams.calls.brace_body import BracesBody
from gateway.streams.calls.call import Body
from gateway.streams.calls.element_body import ElementsBody, Tag
from gateway.streams.calls.json_body import ArgumentsBody, JsonBody
from gateway.streams.calls.named_body import NamedBody
from gateway.streams.calls.nested_body import NestedBody
from gateway.streams.calls.pair_body import PairsBody
from gateway.streams.calls.python_body import PythonBody

TAG = {"open": ["<f "], "end": ">", "words": "(?P<name>.+)"}
VALUE = Tag(open=("<f ",), end=">", words="(?P<name>.+)")


def form(**more: Any) -> dict[str, Any]:
    return {"name": "f", "summary": "a format", "aliases": {}, "regions": [], **more}


@pytest.mark.parametrize(
    ("data", "body"),
    [
        ({"kind": "json"}, JsonBody()),
        ({"kind": "json", "name": ["n"], "arguments": ["a", "b"]}, JsonBody(name=("n",), arguments=("a", "b"))),
        ({"kind": "json", "keyed": True}, JsonBody(keyed=True)),
        ({"kind": "arguments"}, ArgumentsBody()),
        ({"kind": "named", "open": ["<c>"], "name": "(?P<name>.+)", "separator": [""], "close": ["</c>"]},
         NamedBody(open=("<c>",), name="(?P<name>.+)", separator=("",), close=("</c>",))),
        ({"kind": "named", "name": "(?P<name>.+)", "separator": [":"]},
         NamedBody(open=(), name="(?P<name>.+)", separator=(":",))),
        ({"kind": "elements", "call": TAG, "close": ["</f>"], "argument": TAG, "argument_close": ["</a>"]},
         ElementsBody(call=VALUE, close=("</f>",), argument=VALUE, argument_close=("</a>",))),
        ({"kind": "elements", "call": {**TAG, "entities": {"&lt;": "<"}}, "close": ["</f>"], "argument": TAG,
          "argument_close": ["</a>"], "types": {"s": "string"}, "newlines": True, "json": True, "cdata": True},
         ElementsBody(call=Tag(open=("<f ",), end=">", words="(?P<name>.+)", entities={"&lt;": "<"}), close=("</f>",),
                      argument=VALUE, argument_close=("</a>",), types={"s": "string"}, newlines=True, json=True,
                      cdata=True)),
        ({"kind": "pairs", "key": ["<k>", "</k>"], "value": ["<v>", "</v>"]},
         PairsBody(open=(), separator=(), key=("<k>", "</k>"), value=("<v>", "</v>"))),
        ({"kind": "pairs", "open": ["<c>"], "separator": [":"], "key": ["<k>", "</k>"], "type": ["<t>", "</t>"],
          "value": ["<v>", "</v>"], "close": ["</c>"], "types": {"n": "json"}, "json": True, "suffixed": True},
         PairsBody(open=("<c>",), separator=(":",), key=("<k>", "</k>"), type=("<t>", "</t>"), value=("<v>", "</v>"),
                   close=("</c>",), types={"n": "json"}, json=True, suffixed=True)),
        ({"kind": "nested", "prefix": "]", "call": TAG, "close": ["</f>"], "item": "i"},
         NestedBody(prefix="]", call=VALUE, close=("</f>",), item="i")),
        ({"kind": "python"}, PythonBody()),
        ({"kind": "python", "brackets": False}, PythonBody(brackets=False)),
        ({"kind": "braces", "open": ["call:"], "quote": ["'"]}, BracesBody(open=("call:",), quote=("'",))),
    ],
)  # fmt: skip
def test_a_body_is_made_of_the_keys_of_its_kind(data: dict[str, Any], body: Body) -> None:
    made = make_call_format(form(regions=[{"open": ["<c>"], "bodies": [data]}]))
    assert made.regions == (ToolRegion(open=("<c>",), bodies=(body,)),)


def test_the_bodies_of_a_file_are_those_of_every_region_that_names_none() -> None:
    regions = [{"open": ["<a>"]}, {"open": ["<b>"], "bodies": [{"kind": "python"}]}, {"open": ["<c>"], "bodies": []}]
    made = make_call_format(form(bodies=[{"kind": "json"}], regions=regions))
    assert [region.bodies for region in made.regions] == [(JsonBody(),), (PythonBody(),), ()]


def test_the_other_keys_are_taken_as_they_are() -> None:
    region = {"open": [], "close": ["</c>"], "between": [";"], "ended_by": ["<e>"], "ends_thought": True,
              "head": "(?P<name>x)", "markerless": True, "control": True, "example": "<h>{name}"}  # fmt: skip
    sample = {"raw": "<c>", "calls": [{"name": "f", "arguments": {"a": 1}}], "content": "x"}
    data = form(regions=[region], aliases={"vllm": ["one", "two"]}, ident="{name}:{number}", samples=[sample])
    made = make_call_format(data)
    assert (made.name, made.summary, dict(made.aliases)) == ("f", "a format", {"vllm": ("one", "two")})
    assert (dict(made.variants), made.ident) == ({}, "{name}:{number}")
    assert made.regions == (
        ToolRegion(open=(), close=("</c>",), between=(";",), ended_by=("<e>",), ends_thought=True, head="(?P<name>x)",
                   markerless=True, control=True, example="<h>{name}"),
    )  # fmt: skip
    assert made.samples == (CallSample(raw="<c>", calls=(("f", {"a": 1}),), content="x"),)
    assert make_call_format(form(samples=[{"raw": "", "calls": []}])).samples == (CallSample(raw="", calls=()),)


def test_a_region_stands_once_more_for_each_other_spelling_of_a_piece_in_its_opener() -> None:
    body = {"kind": "elements", "call": {"open": ["<#f "], "end": "#>", "words": "#(?P<name>.+)"}, "close": ["<#/f>"],
            "argument": {"open": ["<#a "], "end": "#>", "words": "(?P<name>.+)"}, "argument_close": ["<#/a>"],
            "types": {"#": "string"}, "newlines": True}  # fmt: skip
    regions = [{"open": ["<#c>"], "close": ["<#/c>"], "head": "#(?P<name>.+)", "bodies": [body]}, {"open": ["<d>"]}]
    made = make_call_format(form(variants={"#": ["||", "."]}, regions=regions))
    assert [region.open for region in made.regions] == [("<#c>",), ("<d>",), ("<||c>",), ("<.c>",)]
    assert made.regions[2] == ToolRegion(
        open=("<||c>",),
        close=("<||/c>",),
        head=r"\|\|(?P<name>.+)",
        bodies=(
            ElementsBody(
                call=Tag(open=("<||f ",), end="||>", words=r"\|\|(?P<name>.+)"),
                close=("<||/f>",),
                argument=Tag(open=("<||a ",), end="||>", words="(?P<name>.+)"),
                argument_close=("<||/a>",),
                types={"#": "string"},
                newlines=True,
            ),
        ),
    )
    assert [written_out(made, region) for region in made.regions] == [False, False, True, True]


def test_the_syntax_of_an_expression_is_spelled_as_ever() -> None:
    head = "<(?P<name>.+)(?<=>)(?!<)(?P=name)>"
    made = make_call_format(form(variants={"<": ["[["], ">": ["]]"]}, regions=[{"open": ["<c>"], "head": head}]))
    assert [region.head for region in made.regions[1:]] == [
        r"\[\[(?P<name>.+)(?<=>)(?!\[\[)(?P=name)>",
        r"<(?P<name>.+)(?<=\]\])(?!<)(?P=name)\]\]",
    ]


def test_the_spellings_are_the_pairs_of_piece_and_spelling() -> None:
    assert list(spellings({"a": ["b", "c"], "d": ["e"]})) == [("a", "b"), ("a", "c"), ("d", "e")]
