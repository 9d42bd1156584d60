"""Streams of chat completions: the role first, calls told by their index (gateway.protocols.legal.chat)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.legal.chat import violations
from tests.exchange.driver import DONE, ENGINE_ERROR, chunk, delta

ROLE = delta(role="assistant", content="")
STOP = delta(finish="stop")
CALLED = delta(finish="tool_calls")


def call(index: object = 0, ident: object = "c", name: object = "f", arguments: object = "", **more: Any) -> bytes:
    entry = {"index": index, "id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}
    return delta(tool_calls=[entry | more])


def more(arguments: object, index: int = 0, **function: Any) -> bytes:
    return delta(tool_calls=[{"index": index, "function": {"arguments": arguments, **function}}])


LEGAL = {
    "an answer": [ROLE, delta(content="a"), delta(content="b"), STOP],
    "a thought": [ROLE, delta(reasoning="a"), delta(content=None, reasoning_content="b"), delta(content="c"), STOP],
    "no role": [delta(content="a"), STOP],
    "a refusal": [ROLE, delta(refusal="no"), STOP],
    "the last text with the end": [ROLE, delta(content="a", finish="stop")],
    "a call": [ROLE, call(), more("{"), more("}"), CALLED],
    "a call in one piece": [ROLE, call(arguments="{}"), CALLED],
    "a named call": [ROLE, call(arguments="{}"), STOP],
    "two calls": [ROLE, call(arguments="{}"), call(1, "d", arguments="{}"), CALLED],
    "a call as SGLang goes on with it": [
        ROLE,
        call(),
        delta(role=None, content=None, tool_calls=[{"index": 0, "id": "c", "function": {"name": None}}]),
        CALLED,
    ],
    "two choices": [
        *(delta(index=n, role="assistant", content="") for n in (0, 1)),
        *(delta(index=n, content="a") for n in (1, 0)),
        *(delta(index=n, finish="stop") for n in (1, 0)),
    ],
    "an error": [ROLE, delta(content="a"), ENGINE_ERROR],
}


@pytest.mark.parametrize("name", LEGAL)
def test_a_stream_as_engines_write_it_is_legal(name: str) -> None:
    assert violations(b"".join(LEGAL[name]) + DONE) == []


@pytest.mark.parametrize(
    ("frames", "wrong"),
    [
        ([delta(content="a"), ROLE, STOP], "event 1: the role of choice 0 comes again, or late"),
        ([ROLE, ROLE, STOP], "event 1: the role of choice 0 comes again, or late"),
        ([delta(role="user"), STOP], "event 0: the role of choice 0 is 'user'"),
        ([delta(content=["a"]), STOP], "event 0: content of choice 0 is a list"),
        ([delta(reasoning=3), STOP], "event 0: reasoning of choice 0 is 3"),
        ([chunk([{"index": 0, "finish_reason": "stop"}])], "event 0: the delta of choice 0 is None"),
        ([ROLE, STOP, call()], "event 2: choice 0 says more behind its end"),
        ([ROLE, CALLED], "event 1: choice 0 ends with tool_calls and has made no call"),
        ([delta(tool_calls={}), STOP], "event 0: tool_calls of choice 0 is an object"),
        ([delta(tool_calls=[3]), STOP], "event 0: call None of choice 0 has no index"),
        ([call("0"), STOP], "event 0: call '0' of choice 0 has no index"),
        ([call(1), STOP], "event 0: call 1 of choice 0 should be number 0"),
        ([call(), call(1), STOP], "event 1: call 1 of choice 0 has the id of another call"),
        ([call(ident=None), STOP], "event 0: call 0 of choice 0 begins without an id"),
        ([call(name=""), STOP], "event 0: call 0 of choice 0 begins without a name"),
        ([call(type="custom"), STOP], "event 0: call 0 of choice 0 is 'custom'"),
        ([call(arguments={}), STOP], "event 0: the arguments of call 0 of choice 0 are an object"),
        ([call(), call(ident="d", name=None), STOP], "event 1: call 0 of choice 0 has another id"),
        ([call(), more("{}", name="f"), STOP], "event 1: call 0 of choice 0 is named again"),
    ],
)
def test_what_is_not_legal_is_said_with_its_event(frames: list[bytes], wrong: str) -> None:
    assert violations(b"".join(frames) + DONE) == [wrong]


def test_an_id_that_is_none_is_known_by_no_text() -> None:
    found = violations(b"".join([call(ident=3), call(ident="c", name=None), STOP]) + DONE)
    assert found == ["event 0: call 0 of choice 0 begins without an id", "event 1: call 0 of choice 0 has another id"]


def test_the_end_of_a_part_of_a_stream_is_not_judged() -> None:
    assert violations(ROLE, ended=False) == []
    assert violations(ROLE) == ["end: the stream does not end with its last event, or with an error"]
