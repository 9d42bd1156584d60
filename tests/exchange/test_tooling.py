"""What becomes of calls in text, by the request's tools, the route's policy and the dialect (contract rule 5)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.exchange.tooling import takes_of, tooling_of
from gateway.policy import Mode, Policy, Profile, ToolRescue, policy_for
from gateway.protocols.protocol import Tools
from gateway.streams.grammar import Take, Takes
from tests.support.tagged import TAGGED

NO, WATCH, HOLD = Take.NO, Take.WATCH, Take.HOLD
TOOLS = Tools(schemas={"f": {"type": "object"}}, choice="auto", named=None, parallel=True, calls_before=3)
NONE = replace(TOOLS, choice="none")
REPAIR, OBSERVE = policy_for(Profile.REPAIR), policy_for(Profile.OBSERVE)
FIELDS, RAW = {"raw": False, "stream": True}, {"raw": True, "stream": True}


def policy(**modes: Mode | str) -> Policy:
    return policy_for(Profile.REPAIR, tool_rescue=ToolRescue(**modes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tools", "given", "source", "takes"),
    [
        (TOOLS, REPAIR, FIELDS, Takes(content=HOLD, control=HOLD, thought=WATCH, markerless=WATCH)),
        (TOOLS, REPAIR, RAW, Takes(content=HOLD, control=HOLD, thought=WATCH, markerless=HOLD)),
        (TOOLS, OBSERVE, FIELDS, Takes(content=WATCH, control=WATCH, thought=WATCH, markerless=WATCH)),
        (TOOLS, OBSERVE, RAW, Takes(content=WATCH, control=WATCH, thought=WATCH, markerless=WATCH)),
        (
            TOOLS,
            policy(content=Mode.OFF, reasoning=Mode.ENFORCE, markerless=Mode.OFF),
            FIELDS,
            Takes(thought=HOLD),
        ),
        (TOOLS, policy(content=Mode.OFF, markerless=Mode.ENFORCE), RAW, Takes(thought=WATCH)),
        (NONE, REPAIR, FIELDS, Takes(content=HOLD, control=HOLD)),  # markup goes, no call is made
        (NONE, REPAIR, RAW, Takes(content=HOLD, control=HOLD)),
        (NONE, OBSERVE, FIELDS, Takes(content=WATCH, control=WATCH)),
        (None, REPAIR, FIELDS, Takes(control=HOLD)),  # tag and JSON text is the client's
        (None, OBSERVE, FIELDS, Takes(control=WATCH)),
        (None, policy(content=Mode.OFF), FIELDS, Takes(control=HOLD)),
    ],
)
def test_the_reader_takes_what_the_request_and_the_policy_ask_for(
    tools: Tools | None, given: Policy, source: dict[str, bool], takes: Takes
) -> None:
    assert takes_of(tools, dialect=TAGGED, policy=given, **source) == takes


@pytest.mark.parametrize("tools", [TOOLS, NONE, None])
def test_a_route_that_names_no_calls_takes_none(tools: Tools | None) -> None:
    for dialect in (None, replace(TAGGED, reads_calls=False)):
        assert takes_of(tools, dialect=dialect, policy=REPAIR, raw=True, stream=True) == Takes()


@pytest.mark.parametrize(
    ("raw", "stream", "how", "early"),
    [
        (True, True, "incremental", True),
        (True, True, "complete", False),
        (False, True, "incremental", False),  # with `fields` a call goes out at the finish
        (True, False, "incremental", False),
    ],
)
def test_a_call_goes_out_as_it_comes_on_a_raw_stream_where_the_route_says_so(
    raw: bool, stream: bool, how: str, early: bool
) -> None:
    assert takes_of(TOOLS, dialect=TAGGED, policy=policy(stream=how), raw=raw, stream=stream).early is early


def test_the_tools_of_the_request_and_its_text_are_handed_on() -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "Write <tool_call> here"}]}).encode()
    found = tooling_of(TOOLS, dialect=replace(TAGGED, ident="functions.{name}:{number}"), body=body)
    assert found is not None
    assert (found.schemas, found.choice, found.named) == (TOOLS.schemas, "auto", None)
    assert (found.parallel, found.calls_before, found.ident) == (True, 3, "functions.{name}:{number}")
    assert (found.said("<tool_call>"), found.said("</tool_call>")) == (True, False)


def test_a_request_without_tools_or_a_route_without_a_dialect_has_no_tooling() -> None:
    assert tooling_of(None, dialect=TAGGED, body=b"{}") is None
    assert tooling_of(TOOLS, dialect=None, body=b"{}") is None
