"""Frames of chat that say where the gateway ended an answer. Shapes: recordings of vLLM 0.32 with stop strings."""

from __future__ import annotations

import json

import pytest

from gateway.protocols.chat import Chat
from gateway.protocols.chat_stop import stopped_at, usage_event, usage_of, without_choices, without_usage

CHUNK = b'{"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}'


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (CHUNK, b'"finish_reason":"stop","stop_reason":"END"}'),
        (b'{"choices":[{"finish_reason":"length","stop_reason":7}]}', b'{"finish_reason":"stop","stop_reason":"END"}'),
        (b'{"choices":[{"finish_reason":"tool_calls"}]}', b'{"finish_reason":"stop","stop_reason":"END"}'),
    ],
)
def test_a_choice_that_ended_at_a_stop_string_says_so(data: bytes, said: bytes) -> None:
    assert said in stopped_at(data, {0: "END"})


def test_the_usage_of_a_chunk_is_told_by_its_bytes_and_taken_out() -> None:
    data = CHUNK[:-1] + b',"usage":{"completion_tokens":7,"x":1.10}}'
    assert usage_of(Chat().decode_event(data)) == b'{"completion_tokens":7,"x":1.10}'
    assert without_usage(data) == CHUNK
    assert usage_of(Chat().decode_event(CHUNK)) is None
    assert usage_of(Chat().decode_event(CHUNK[:-1] + b',"usage":null}')) is None


def test_the_usage_goes_out_in_a_chunk_of_its_own() -> None:
    event = json.loads(usage_event(Chat().decode_event(CHUNK), b'{"x":1.10}'))
    assert (event["id"], event["choices"], event["usage"]) == ("c", [], {"x": 1.1})


def test_choices_are_taken_out_by_place() -> None:
    data = b'{"choices":[{"index":1},{"index":0},{"index":2}]}'
    assert without_choices(data, [0, 2]) == b'{"choices":[{"index":0}]}'
