"""How frames are read, and what stands around a list of choices (gateway.protocols.frames)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import ClientFault, EngineTimeout
from gateway.protocols.frames import (
    ChoiceFrames,
    error_kind,
    head,
    named_frames,
    parsed,
    parsed_object,
    top_says,
    whole_ids,
)
from gateway.protocols.protocol import Message, NotThisProtocol

KIND = b'"object":"text_completion"'


class Frames(ChoiceFrames):
    kind = KIND


def like(data: bytes) -> Message:
    return Message(data, json.loads(data), [], False, False)


def test_json_is_read_with_what_engines_write_beyond_it() -> None:
    assert parsed(b'{"a":1}') == ({"a": 1}, False)
    value, odd = parsed(b'{"a":"\\ud83d","b":NaN}')
    assert (value["a"], odd) == ("\ud83d", True)
    with pytest.raises(NotThisProtocol, match="no JSON"):
        parsed(b"{")


@pytest.mark.parametrize("told", [None, [], {}, {"output_ids": None}, {"input_ids": [1]}])
def test_an_answer_without_ids_of_the_whole_of_it_has_none_to_lose(told: Any) -> None:
    assert whole_ids(like(json.dumps({"sglext": told}).encode())) == {}


def test_json_that_the_fast_reader_refuses_is_read_too() -> None:
    assert parsed_object(b'{"a": 1}', what="message") == ({"a": 1}, False)
    assert parsed_object(b'{"a": "\\ud83d"}', what="message") == ({"a": "\ud83d"}, True)


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"no json", "no JSON"), (b"[]", "no message"), (b'"a"', "no message"), (b"3", "no message")],
)
def test_what_is_no_object_is_no_message(data: bytes, why: str) -> None:
    with pytest.raises(NotThisProtocol, match=f"^{why}$"):
        parsed_object(data, what="message")


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"", b""),
        (b'{"type":"ping"}', b'event: ping\ndata: {"type":"ping"}\n\n'),
        (b'{"type":"a"}\n{"type":"b"}', b'event: a\ndata: {"type":"a"}\n\nevent: b\ndata: {"type":"b"}\n\n'),
    ],
)
def test_events_of_ours_are_named_by_their_types(data: bytes, frames: bytes) -> None:
    assert named_frames(data) == frames


def test_a_line_that_is_no_event_is_refused() -> None:
    with pytest.raises(NotThisProtocol):
        named_frames(b'{"type":"a"}\n{')


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"id": "c", "created": 1, "model": "m", "object": "o", "choices": [1]}, False),
        ({"system_fingerprint": "f", "service_tier": "t", "usage": None}, False),
        ({"usage": {}}, True),
        ({"prompt_token_ids": [1]}, True),
        ({"future": 0}, True),
    ],
)
def test_a_chunk_may_say_something_beside_its_choices(value: dict[str, Any], says: bool) -> None:
    assert top_says(value) is says


def test_the_head_is_the_engine_s_own_bytes_and_is_looked_for_once() -> None:
    message = like(b'{"model" : "m\\u0041","object":"x","created":1.0,"choices":[]}')
    assert head(None, KIND) == KIND
    first = head(message, KIND)
    assert first == KIND + b',"created":1.0,"model":"m\\u0041"'
    assert head(message, KIND) is first
    assert head(like(b"{}"), KIND) == KIND


def test_a_report_stands_at_the_top() -> None:
    assert Frames().add_report(b'{ "n":1.10 }', {"a": 1}) == b'{ "n":1.10,"integrity":{"a":1} }'
    assert Frames().report_event(None, {"a": 1}) == b"{%b" % KIND + b',"choices":[],"integrity":{"a":1}}'
    assert Frames().report_event(like(b'{"id":"c"}'), {}) == b"{%b" % KIND + b',"id":"c","choices":[],"integrity":{}}'


@pytest.mark.parametrize(
    ("data", "ident", "usage"),
    [(b'{"id":"c","usage":{"n":1}}', "c", True), (b'{"id":null,"usage":null}', "", False), (b"{}", "", False)],
)
def test_an_answer_has_an_id_and_a_usage(data: bytes, ident: str, usage: bool) -> None:
    assert (Frames().answer_id(like(data)), Frames().has_usage(like(data))) == (ident, usage)


def test_an_error_is_written_as_the_engines_write_theirs() -> None:
    body = Frames().error_body(EngineTimeout("slow"))
    assert json.loads(body) == {
        "error": {"message": "slow", "type": "InternalServerError", "param": None, "code": EngineTimeout.code}
    }
    assert Frames().error_event(EngineTimeout("slow")) == b"data: " + body + b"\n\n"
    assert error_kind(ClientFault("bad")) == "BadRequestError"
