"""Streams of Messages: blocks one after the other, each with deltas of its type (gateway.protocols.legal.messages)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.legal.messages import violations
from tests.support.messages import END, ERROR, HEAD, PING, delta, event, events, start, stop, tail

CALL = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
TEXT = {"type": "text", "text": ""}
OTHER_DELTA = event({"type": "content_block_delta", "index": 0, "delta": {"type": "x"}})
SAID = [start(0, TEXT), delta(0, text="a"), stop(0)]


def head(**members: Any) -> bytes:
    """`message_start` with other members."""
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "stop_reason": None}
    return event({"type": "message_start", "message": {**message, "usage": {"output_tokens": 0}, **members}})


def ends(reason: Any, **members: Any) -> bytes:
    value = {"delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}, **members}
    return event({"type": "message_delta", **value})


def error(**said: str) -> bytes:
    return event({"type": "error", "error": said})


@pytest.mark.parametrize(
    "frames",
    [
        events([("thinking", "a"), ("text", "b"), ("tool_use", ("c", "f", ["{", "}"]))], reason="tool_use"),
        [HEAD, PING, *SAID, tail("stop_sequence", "x"), END],
        [HEAD, start(0, {"type": "redacted_thinking", "data": "x"}), stop(0), tail(), END],
        [HEAD, start(0, {"type": "other"}), OTHER_DELTA, stop(0), tail(), END],
        [HEAD, *SAID, event({"type": "new_in_a_later_version"}), tail(), END],
        [HEAD, *SAID, ends(None), tail(), END],
        [HEAD, *SAID, ERROR],
        [ERROR],
    ],
)
def test_a_stream_as_the_documentation_has_it_is_legal(frames: list[bytes]) -> None:
    assert violations(b"".join(frames)) == []


REST = [*SAID, tail(), END]


@pytest.mark.parametrize(
    ("frames", "wrong"),
    [
        ([HEAD, *SAID, tail()], "end: the stream does not end with its last event, or with an error"),
        ([HEAD, *REST, PING], "event 6 ping: it comes behind message_stop"),
        ([HEAD, HEAD, *REST], "event 1 message_start: the message begins twice"),
        ([b"event: ping\n" + HEAD.partition(b"\n")[2], *REST], "event 0 message_start: its frame is named 'ping', its"),
        ([HEAD, b'event: a\ndata: {"a":1}\n\n', *REST], "event 1: its frame is named 'a', its type is None"),
        ([head(role="user"), *REST], "event 0 message_start: the message begins with another role"),
        ([head(id=""), *REST], "event 0 message_start: the message has no id"),
        ([head(usage=None), *REST], "event 0 message_start: the message has no usage"),
        ([HEAD, start(1, TEXT), stop(1), tail(), END], "event 1 content_block_start: block 1 is number 0"),
        (
            [HEAD, start(0, {**TEXT, "text": "a"}), stop(0), tail(), END],
            "event 1 content_block_start: a block of 'text'",
        ),
        ([HEAD, *SAID, tail(), start(1, TEXT), stop(1), END], "event 5 content_block_start: a block begins behind"),
        ([HEAD, start(0, {**CALL, "id": ""}), stop(0), tail(), END], "event 1 content_block_start: a call begins"),
        ([HEAD, start(0, TEXT), delta(1, text="a"), stop(0), tail(), END], "event 2 content_block_delta: a delta of"),
        ([HEAD, delta(0, text="a"), *REST], "event 1 content_block_delta: a delta of block 0, which is not open"),
        (
            [HEAD, start(0, TEXT), delta(0, thinking="a"), stop(0), tail(), END],
            "event 2 content_block_delta: 'thinking_",
        ),
        ([HEAD, stop(0), *REST], "event 1 content_block_stop: block 0 ends, which is not open"),
        ([HEAD, *SAID, tail("halt"), END], "event 4 message_delta: the stop reason is 'halt'"),
        ([HEAD, *SAID, tail(), tail(), END], "event 5 message_delta: there is a second stop reason"),
        ([HEAD, *SAID, tail("stop_sequence"), END], "event 4 message_delta: the stop sequence is not that of"),
        ([HEAD, *SAID, tail("end_turn", "x"), END], "event 4 message_delta: the stop sequence is not that of"),
        ([HEAD, *SAID, tail("tool_use"), END], "event 4 message_delta: the stop reason is tool_use and there is no"),
        ([HEAD, *SAID, ends("end_turn", usage={}), END], "event 4 message_delta: it has no usage"),
        ([HEAD, *SAID, END], "event 4 message_stop: there was no stop reason"),
        ([HEAD, *SAID, error(type="api_error")], "event 4 error: the error has no type or no message"),
        ([HEAD, start(0, TEXT), ERROR], "event 2 error: a block is open"),
    ],
)
def test_what_is_not_legal_is_said_with_its_event(frames: list[bytes], wrong: str) -> None:
    [found] = violations(b"".join(frames))
    assert found.startswith(wrong)


@pytest.mark.parametrize(
    ("frames", "wrong"),
    [
        (SAID, {"event 0 content_block_start: it comes before message_start"}),
        ([HEAD, start(0, TEXT), start(1, TEXT)], {"event 2 content_block_start: block 1 begins while another is open"}),
        ([HEAD, start("0", TEXT)], {"event 1 content_block_start: block '0' is number 0"}),  # type: ignore[arg-type]
        ([HEAD, start(0, TEXT), tail()], {"event 2 message_delta: a block is open"}),
        ([HEAD, start(0, TEXT), END], {"event 2 message_stop: a block is open"}),
        (
            [HEAD, start(0, {"type": "thinking", "thinking": ""}), delta(0, signature="s"), delta(0, thinking="a")],
            {"event 3 content_block_delta: a delta comes behind the signature"},
        ),
    ],
)
def test_what_is_not_legal_in_a_part_of_a_stream_is_said_too(frames: list[bytes], wrong: set[str]) -> None:
    assert wrong <= set(violations(b"".join(frames), ended=False))
