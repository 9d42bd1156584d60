"""The calls of a stream: which frames wait for which, and what calls and endings ask of one frame."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.events import CALL, CONTENT, ToolCall
from gateway.exchange.reading import ExchangeReading
from gateway.exchange.stream_calls import Asked, StreamCalls
from gateway.integrity.pipeline import Pipeline
from gateway.policy import ToolRescue
from gateway.protocols.protocol import CallChange, Message, NumberedCall
from tests.exchange.driver import CALL as OWN
from tests.exchange.driver import chat, chunk, delta, route

TOOLS = [{"function": {"name": "f"}}]


class Calls:
    """The calls of a stream on a route, with pipelines for two choices."""

    def __init__(self, *, tool_choice: str = "auto", **given: Any) -> None:
        request = {"tools": TOOLS, "tool_choice": tool_choice}
        rules = route("none", **given)
        facts = chat().facts(request)
        reading = ExchangeReading(
            protocol=chat(), body=json.dumps(request).encode(), facts=facts, rules=rules, policy=rules.policy
        )
        self.pipelines: dict[int, Pipeline] = {0: reading.pipeline(0), 1: reading.pipeline(1)}
        self.stream = StreamCalls(reading, reading.protocol, self.pipelines)

    def own(self, frame: bytes) -> Message:
        """Take the calls of every part of a frame."""
        message = chat().decode_event(frame[6:])
        for part in message.parts:
            assert self.stream.own(part, message) == ([] if part.tools else None)
        return message


def calls(*entries: tuple[int, str]) -> list[dict[str, Any]]:
    """Fragments by index."""
    return [{"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": a}} for index, a in entries]


def test_a_frame_waits_for_the_calls_whose_fragments_it_has() -> None:
    found = Calls()
    found.own(chunk([{"index": i, "delta": {"tool_calls": calls((0, "{"), (1, "{"))}} for i in (0, 1)]))
    asked = found.stream.asked
    assert asked is not None
    assert [(each.part, each.place, each.number) for each in asked.entries] == [
        (0, 0, 0),
        (0, 1, 0),
        (1, 0, 0),
        (1, 1, 0),
    ]
    assert len({id(each.call) for each in asked.entries}) == 4
    assert not asked.edits


def test_without_calls_nothing_is_asked() -> None:
    found = Calls()
    found.own(delta(content="a"))
    assert found.stream.asked is None


def test_a_call_that_is_over_keeps_no_frame() -> None:
    found = Calls()
    found.own(delta(tool_calls=calls((0, "{"))))
    found.stream.settle(0, stopped=True)
    found.stream.asked = None
    found.own(delta(tool_calls=calls((0, "}"))))
    assert found.stream.asked == Asked()


@pytest.mark.parametrize("given", [{"tool_rescue": ToolRescue(stream="incremental")}])
def test_where_nothing_waits_no_frame_does(given: dict[str, Any]) -> None:
    found = Calls(**given)
    found.own(delta(tool_calls=calls((0, "{"))))
    assert found.stream.asked == Asked()


def test_a_frame_that_tells_of_a_failure_does_not_wait() -> None:
    found = Calls()
    failed = chunk([{"index": 0, "delta": {"tool_calls": OWN}}], error={"message": "x"})
    found.own(failed)
    assert found.stream.asked == Asked()


def test_calls_that_are_refused_let_nothing_out_before_them() -> None:
    found = Calls(tool_choice="none")
    message = chat().decode_event(delta(tool_calls=OWN)[6:])
    assert found.stream.own(message.parts[0], message) is None
    gone = {0: {0: CallChange(gone=True)}}
    assert (found.stream.asked, found.stream.word(0, "tool_calls")) == (Asked(changes=gone), "stop")


@pytest.mark.parametrize("members", [{"function_call": {"name": "f"}}, {"tool_calls": {"name": "f"}}])
@pytest.mark.parametrize("choice", ["auto", "none"])
def test_calls_of_another_shape_are_calls_and_nothing_more(members: dict[str, Any], choice: str) -> None:
    found = Calls(tool_choice=choice)
    found.own(delta(**members))
    assert (found.stream.asked, found.stream.word(0, "stop")) == (Asked(), None)


@pytest.mark.parametrize(
    ("frame", "decided"),
    [
        (delta(content="a"), True),
        (delta(reasoning="a"), True),
        (delta(), False),
        (delta(content="a", index=1), False),
        (chunk([{"index": [], "delta": {"content": "a"}}]), False),
    ],
)
def test_text_of_a_choice_goes_past_its_own_calls(frame: bytes, decided: bool) -> None:
    found = Calls()
    found.own(delta(tool_calls=calls((0, "{}"))))
    [entry] = (found.stream.asked or Asked()).entries
    found.stream.past(chat().decode_event(frame[6:]))
    assert entry.call.waits(0) is not decided


def test_a_finish_reason_is_asked_for_where_it_has_to_be_another() -> None:
    found = Calls()
    [part] = found.own(delta(tool_calls=OWN, finish="stop")).parts
    found.stream.settle(0, stopped=True)
    found.stream.ended(part)
    assert (found.stream.asked or Asked()).finishes == {0: "tool_calls"}
    [other] = found.own(delta(index=1, finish="stop")).parts
    found.stream.asked = None
    found.stream.ended(other)
    assert found.stream.asked is None
    [other] = found.own(delta(index=1, finish="tool_calls")).parts
    found.stream.ended(other)
    assert found.stream.asked == Asked(finishes={0: "stop"})


def test_calls_among_pieces_get_numbers_and_pieces_without_any_stay_the_same_object() -> None:
    found = Calls()
    like = chat().decode_event(delta()[6:])
    text: list[tuple[str, Any]] = [(CONTENT, "a")]
    assert found.stream.numbered(0, text, like) is text
    made: list[tuple[str, Any]] = [(CALL, ToolCall("f", "{}", "k")), (CALL, ToolCall("f", "{}", None))]
    first, second = [call for _, call in found.stream.numbered(0, made, like)]
    assert first == NumberedCall(0, "k", "f", "{}")
    [(_, other)] = found.stream.numbered(1, made[1:], like)
    [(_, alone)] = Calls().stream.numbered(0, made[1:], None)
    assert isinstance(second, NumberedCall) and isinstance(other, NumberedCall) and isinstance(alone, NumberedCall)
    assert (second.index, other.index, alone.index) == (1, 0, 0)
    assert len({second.ident, other.ident, alone.ident}) == 3
