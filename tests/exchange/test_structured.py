"""Frames of a protocol with structure: written in the order in which they go out, however long a call waits.

The protocol is Responses (reference/vllm.md 3.5), whose events are numbered: a frame that is written too early shows.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.events import CALL
from gateway.exchange import Overrides
from gateway.exchange.own_call import OwnCall
from gateway.exchange.queue import Entry, FrameQueue
from gateway.exchange.stream_calls import Asked
from gateway.exchange.structured import StructuredFrames
from gateway.policy import ToolRescue
from gateway.protocols.protocol import CallChange, Fragment, Framed, NumberedCall
from gateway.rulebook.load import load_rulebook
from gateway.streams.sse import Frame, SSEReader
from tests.exchange.driver import route
from tests.support.responses import events_of, heard, opened, responses, stream, streamed

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: dict[str, Any] = {"tools": [{"type": "function", "name": "f", "parameters": CITY}]}
OSLO = '{"city": "Oslo"}'


def hermes(**given: Any) -> Any:
    """A route of Qwen3 with calls as JSON in tags."""
    found = load_rulebook().resolve({"reasoning": "qwen3", "tools": "hermes"}, engine="vllm")
    return route(read_as=found.dialect, **given)


def test_a_call_and_what_follows_it_wait_and_are_numbered_when_they_go_out() -> None:
    frames = stream([("content", "a <b"), ("call", ("c1", "f", [OSLO, OSLO])), ("content", "c")])
    exchange = opened(TOOLS, hermes())
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = [exchange.data(frame) for frame in frames]
    assert exchange.end().data == b""
    added = next(place for place, frame in enumerate(frames) if b'"call_id"' in frame)
    assert b"a <b" in b"".join(out[: added + 1])  # what was held goes out before the call, at once
    answer = streamed(frames, hermes(), request=TOOLS).legal()
    assert answer.said == ("", "a <bc", [("f", OSLO)])
    assert b"".join(out) == answer.body


def test_text_that_a_call_lets_go_does_not_wait_for_it() -> None:
    frames = stream([("content", "a <thi"), ("call", ("c1", "f", ['{"city": ', '"Oslo"}']))])
    exchange = opened(TOOLS, hermes())
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    sent = b""
    for frame in frames:
        sent += exchange.data(frame)
        if b'"call_id"' in frame:
            break
    assert (sent.count(b"<thi"), sent.count(b'"call_id"'), exchange.holding) == (1, 0, "tool_region")


def test_calls_that_wait_go_out_as_they_came_where_the_answer_breaks_off() -> None:
    frames = stream([("reasoning", "a"), ("call", ("c1", "f", ['{"city": "Os', 'lo"']))])[:-3]
    answer = streamed(frames, hermes(), request=TOOLS).legal(ended=False)
    assert answer.body.startswith(b"".join(frames))
    assert answer.events[-1]["type"] == "error"


@pytest.mark.parametrize("given", [{}, {"content": "<think>a</think>b"}])
def test_the_report_stands_in_the_terminal_event_whatever_becomes_of_it(given: dict[str, str]) -> None:
    frames = stream(list(given.items()) or [("content", "b")])
    answer = streamed(frames, hermes(), overrides=Overrides(report=True)).legal()
    assert answer.response["integrity"]["profile"] == "full"
    assert answer.said[1] == "b"


def test_an_ending_of_another_kind_takes_the_report() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"city": "Os'
    rules = hermes(source="text", tool_rescue=ToolRescue(stream="incremental"))
    pieces = [("content", text[at : at + 3]) for at in range(0, len(text), 3)]
    answer = streamed(stream(pieces), rules, request=TOOLS, overrides=Overrides(report=True))
    assert answer.events[-1]["type"] == "response.failed"
    assert answer.response["integrity"]["profile"] == "full"


def numbers(body: bytes) -> list[int]:
    """The numbers of the events."""
    return [value["sequence_number"] for _, value in events_of(body)]


def frame_of(raw: bytes) -> Frame:
    """One frame as it was read."""
    [frame] = SSEReader(max_line=10_000, max_event=10_000).feed(raw)
    return frame


class Driven:
    """Frames written without an exchange."""

    def __init__(self) -> None:
        self.codec = responses().stream(rewrites=False)
        assert isinstance(self.codec, Framed)
        self.queue = FrameQueue(self.codec, cap=10_000)
        self.frames = StructuredFrames(self.codec, self.queue, report=None)

    def send(self, raw: bytes, pieces: dict[int, list[Any]] | None = None, asked: Asked | None = None) -> bytes:
        frame = frame_of(raw)
        message = self.codec.decode_event(frame.data or b"")
        return self.frames.send(message, frame, pieces or {}, asked or Asked(), ("reasoning",))


def test_a_call_of_ours_goes_out_before_the_one_that_waits() -> None:
    driven, call = Driven(), OwnCall(1)
    raw = stream([("call", ("c1", "f", [OSLO]))])
    ours = NumberedCall(0, "c0", "g", "{}")
    sent = b"".join([driven.send(each) for each in raw[:2]])
    call.take(Fragment(place=0, index=1, ident="c1", name="f", arguments="", text=True))
    sent += driven.send(raw[2], {0: [("content", "a"), (CALL, ours)]}, Asked(entries=[Entry(0, 0, call, 0)]))
    assert heard([value for _, value in events_of(sent)]) == ("", "a", [("g", "{}")])
    call.give_up()
    assert numbers(sent + driven.queue.ready()) == list(range(13))


def test_changes_that_are_known_early_and_late_are_both_made_and_the_later_one_counts() -> None:
    driven, call = Driven(), OwnCall(0)
    raw = stream([("call", ("c1", "f", []))])
    sent = b"".join([driven.send(each) for each in raw[:2]])
    call.take(Fragment(place=0, index=0, ident="c1", name="f", arguments=OSLO, text=True))
    early = {0: {0: CallChange(name="g"), 7: CallChange(gone=True)}}
    sent += driven.send(raw[2], {}, Asked(entries=[Entry(0, 0, call, 0)], changes=early))
    assert len(driven.queue.held) == 1
    call.settle("h", OSLO)
    sent += driven.queue.ready()
    assert heard([value for _, value in events_of(sent)]) == ("", "", [("h", OSLO)])


def test_what_waits_goes_out_as_it_came_where_the_writing_has_failed() -> None:
    driven, call = Driven(), OwnCall(0)
    raw = stream([("call", ("c1", "f", []))])
    driven.send(raw[0])
    call.take(Fragment(place=0, index=0, ident="c1", name="f", arguments="", text=True))
    assert driven.send(raw[2], {}, Asked(entries=[Entry(0, 0, call, 0)])) == b""
    assert driven.queue.release(read=False) == raw[2]
