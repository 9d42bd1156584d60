"""The corpus made from a call format: what must be in it, in which text, and what its calls are."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.rulebook.call_corpus import BIG, generated_calls, unshown
from gateway.rulebook.dialect import CallFormat, CallSample, Dialect, Kind, Thought, ToolRegion
from gateway.streams.calls.call import Body
from gateway.streams.calls.element_body import ElementsBody, Tag
from gateway.streams.calls.json_body import ArgumentsBody, JsonBody
from gateway.streams.calls.python_body import PythonBody

TAG = Tag(open=("<f ",), end=">", words="(?P<name>\\w+)")
ELEMENTS = ElementsBody(call=TAG, close=("</f>",), argument=Tag(open=("<a ",), end=">", words="(?P<name>\\w+)"),
                        argument_close=("</a>",))  # fmt: skip
DIALECT = Dialect(name="d", summary="", kind=Kind.TAG, aliases={}, end_of_turn=("<e>",),
                  thoughts=(Thought(open=("<t>",), close=("</t>",)),))  # fmt: skip


def form(*regions: ToolRegion, **more: Any) -> CallFormat:
    return CallFormat(name="f", summary="", aliases={}, regions=regions, **more)


def region(*open: str, bodies: tuple[Body, ...] = (JsonBody(),), **more: Any) -> ToolRegion:
    return ToolRegion(open=open, bodies=bodies, **more)


def made(*regions: ToolRegion, **more: Any) -> list[CallSample]:
    return list(generated_calls(form(*regions, **more), DIALECT))


def one(name: str, key: str, value: str) -> str:
    return f'{{"name": "{name}", "arguments": {{"{key}": "{value}"}}}}'


def test_the_corpus_has_each_case_once_and_one_call_behind_each_other_opener() -> None:
    samples = made(region("<c>", "<d>", close=("</c>", "</d>")), region("<e>", close=("</e>",)))
    first, second = samples[:9], samples[9:]
    assert [len(sample.calls) for sample in first] == [1, 2, 1, 1, 1, 1, 1, 1, 1]
    assert first[0].raw == f"<c>{one('look_up', 'a', 'x')}</c>"
    assert first[1].calls == (("look_up", {"a": "x"}), ("send", {"b": "y", "c": "z"}))
    assert first[2] == CallSample(raw='<c>{"name": "now", "arguments": {}}</c>', calls=(("now", {}),))
    assert first[3].calls == (("look_up", {"o": {"k": ["i", {"z": "s"}], "t": {"u": "v w"}}, "l": ["a", "b"]}),)
    assert "北京 🌍" in first[4].calls[0][1]["a"] and "北京 🌍" in first[4].raw
    assert all(sign in first[5].calls[0][1]["a"] for sign in "\"'{}[]\\`")
    assert first[6].calls == (("look_up", {"a": "a <c> <d> </c> </d> <t> </t> <e> z"}),)
    assert len(first[7].calls[0][1]["a"]) == BIG
    assert first[8].raw == f"<d>{one('look_up', 'a', 'x')}</c>"
    assert [sample.raw[:3] for sample in second] == ["<e>"] * 7
    assert all(not sample.content for sample in samples)


def test_what_ends_a_value_is_not_put_into_one() -> None:
    samples = made(region("<c>", bodies=(ELEMENTS,), close=("</c>", "x</a>")), samples=(sample("<f g><a k>"),))
    assert samples[6].calls == (("look_up", {"a": "a <c> </c> </f> <f  <a  <t> </t> <e> z"}),)


def sample(raw: str) -> CallSample:
    return CallSample(raw=raw, calls=())


@pytest.mark.parametrize(
    ("place", "text"),
    [
        # one region holds them all
        (region("<c>", close=("</c>",)), f"<c>[{one('look_up', 'a', 'x')}, {{"),
        (region("<c>", bodies=(ELEMENTS,), close=("</c>",)), "<c><f look_up><a a>x</a></f><f send>"),
        # the opener is part of the body: no closer is needed
        (region("<f ", bodies=(ELEMENTS,), close=("</c>",)), "<f look_up><a a>x</a></f><f send><a b>y</a>"),
        (region("{", between=(";",), markerless=True), f"{one('look_up', 'a', 'x')}; {{"),
        (region("[", bodies=(PythonBody(),), markerless=True), "[look_up(a='x'), send(b='y', c='z')]"),
        # no closer at all
        (region("<c>"), f"<c>[{one('look_up', 'a', 'x')}, {{"),
        # a header opens each, and the dialect's end of turn ends it
        (region(bodies=(ArgumentsBody(),), example="<h {name}>"), '<h look_up>{"a": "x"}<e><h send>{"b": "y"'),
        (region(bodies=(ArgumentsBody(),), example="<h>", close=("</h>",)), '<h>{"a": "x"}</h><h>{"b": "y"'),
        (region(bodies=(ArgumentsBody(),)), '{"a": "x"}<e>{"b": "y"'),
    ],
)
def test_two_calls_stand_in_one_region_where_it_can_hold_both(place: ToolRegion, text: str) -> None:
    assert made(place, samples=(sample("<f g><a k>"),))[1].raw.startswith(text)


def test_another_spelling_is_tried_with_less() -> None:
    regions = (region("<#c>", close=("<#/c>",)), region("<+c>", close=("<+/c>",)))
    samples = made(*regions, variants={"#": ("+",)})
    assert [len(each.calls) for each in samples[8:]] == [1, 2, 1]
    assert samples[8].raw == f"<+c>{one('look_up', 'a', 'x')}<+/c>"


def test_tags_are_found_in_the_other_spelling_of_a_sample() -> None:
    other = ElementsBody(call=Tag(open=("<f+",), end=">", words="(?P<name>\\w+)"), close=("</f>",),
                         argument=TAG, argument_close=("</a>",))  # fmt: skip
    shown = form(region("<+>", bodies=(other,)), variants={"#": ("+",)}, samples=(sample("<f#g><f k>"),))
    assert next(generated_calls(shown, DIALECT)).raw == "<+><f+look_up><f a>x</a></f>"
    assert not unshown(shown)


def test_a_body_that_no_sample_shows_is_told() -> None:
    assert unshown(form(region("<c>", bodies=(JsonBody(), ELEMENTS)), samples=(sample("<c>{}"),)))
    assert not unshown(form(region("<c>")))
    assert not unshown(form())
