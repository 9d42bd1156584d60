"""`tool_rescue.stream: incremental`: a call of a raw stream goes out while it is read, and is never made up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.exchange.route import RouteRules
from gateway.policy import ToolRescue
from gateway.rulebook.load import load_rulebook
from tests.exchange.driver import DONE, Answer, delta, route, streamed
from tests.exchange.test_tool_calls import REQUEST, calls_of

CUTS = (1, 2, 3, 5, 7, 11, 23, 1 << 20)
HERMES = '<tool_call>\n{"name": "f", "arguments": {"city": "Os</tool_call>lo"}}\n</tool_call>'
XML = "<tool_call>\n<function=f>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"


def rules(tools: str = "hermes", stream: str = "incremental") -> RouteRules:
    found = load_rulebook().resolve({"reasoning": "qwen3", "tools": tools}, engine="vllm")
    return route(read_as=found.dialect, source="text", tool_rescue=ToolRescue(stream=stream))


def answer(text: str, size: int, *, finish: str = "stop", request: dict[str, Any] = REQUEST, **given: str) -> Answer:
    pieces = [delta(content=text[i : i + size]) for i in range(0, len(text), size)]
    return streamed([*pieces, delta(finish=finish), DONE], rules(**given), request={**request, "stream": True})


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize(
    ("text", "tools", "finish", "content", "arguments", "ending"),
    [
        (f"Sure.\n{HERMES}\n", "hermes", "stop", "Sure.\n", '{"city": "Os</tool_call>lo"}', "tool_calls"),
        (f"{XML} then", "qwen3_xml", "stop", " then", '{"city": "Oslo"}', "tool_calls"),
        (HERMES[:50], "hermes", "length", "", HERMES[39:50], "length"),
        (HERMES[:50], "hermes", "stop", HERMES[:50], HERMES[39:50], "error"),
    ],
)
def test_the_arguments_are_the_same_at_every_cut(
    size: int, text: str, tools: str, finish: str, content: str, arguments: str, ending: str
) -> None:
    got = answer(text, size, finish=finish, tools=tools)
    [(_, name, said)], end = calls_of(got)
    assert (name, said, got.said[1], end) == ("f", arguments, content, ending)


@pytest.mark.parametrize("size", CUTS)
def test_a_call_that_breaks_ends_in_an_error_and_no_brace_is_made_up(size: int) -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"city": "Oslo", ]}\n</tool_call>'
    got = answer(text, size)
    [(_, _, arguments)], end = calls_of(got)
    assert (arguments, end) == ('{"city": "Oslo", ', "error")
    assert got.said[1] == text


@pytest.mark.parametrize("size", CUTS)
def test_a_call_whose_beginning_stands_in_the_request_waits_for_its_end(size: int) -> None:
    quoted = {**REQUEST, "messages": [{"role": "user", "content": f"What is {HERMES}?"}]}
    got = answer(HERMES, size, request=quoted)
    assert (calls_of(got)[0], got.said[1]) == ([], HERMES)
    own = HERMES.replace("lo", "terley")
    assert json.loads(calls_of(answer(own, size, request=quoted))[0][0][2])["city"] == "Os</tool_call>terley"


def test_the_name_goes_out_before_the_arguments_have_ended() -> None:
    early = answer(HERMES[:-20], 5, finish="length")
    late = answer(HERMES[:-20], 5, finish="length", stream="complete")
    assert (calls_of(early)[0][0][1], calls_of(late)[0]) == ("f", [])


def test_two_calls_and_an_undeclared_one() -> None:
    second = '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
    third = '<tool_call>\n{"name": "h", "arguments": {}}\n</tool_call>'
    got = answer(f"{HERMES}\n{second}\n{third}", 4)
    assert [(name, said) for _, name, said in calls_of(got)[0]] == [("f", '{"city": "Os</tool_call>lo"}'), ("g", "{}")]
    assert got.said[1].strip() == third
