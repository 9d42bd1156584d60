"""Frames that wait for a call. Chunks are those of vLLM 0.33 (reference/vllm.md 3.1)."""

from __future__ import annotations

from typing import Any

from gateway.exchange.own_call import OwnCall
from gateway.exchange.queue import FRAME, Entry, FrameQueue
from gateway.protocols.protocol import CallChange, CallChanges, Fragment
from tests.exchange.driver import chat, chunk, delta

OTHER = b": keep\nid: 7\ndata: %b\n\n"


def call_frame(*calls: OwnCall, arguments: str = "{", frame: bytes | None = None) -> tuple[bytes, tuple[Entry, ...]]:
    """A frame with a fragment of each of these calls, and where they stand in it."""
    listed: list[Any] = []
    entries = []
    for place, call in enumerate(calls):
        fragment = Fragment(place=place, index=call.index, ident="c", name="f", arguments=arguments, text=True)
        entries.append(Entry(0, place, call, call.take(fragment)))
        listed.append({"index": call.index, "id": "c", "function": {"name": "f", "arguments": arguments}})
    return frame or delta(tool_calls=listed), tuple(entries)


def queue(cap: int = 1000) -> FrameQueue:
    """An empty queue."""
    return FrameQueue(chat(), cap=cap)


def test_what_stands_behind_a_call_waits_for_it_and_goes_out_as_it_came() -> None:
    waiting, call = queue(), OwnCall(0)
    first, entries = call_frame(call)
    held = waiting.held
    assert (waiting.put(first, entries), waiting.put(delta(content="a")), waiting.ready(), len(held)) == (
        b"",
        b"",
        b"",
        2,
    )
    call.give_up()
    assert waiting.ready() == first + delta(content="a")
    assert (waiting.ready(), len(held), waiting.held is held) == (b"", 0, True)


def test_what_waits_for_nothing_goes_out_at_once() -> None:
    assert queue().put(delta(content="a")) == delta(content="a")


def test_a_frame_waits_for_every_call_in_it_and_those_before_it() -> None:
    waiting, one, two, three = queue(), OwnCall(0), OwnCall(1), OwnCall(2)
    frames = [call_frame(one, two), call_frame(three)]
    for frame, entries in frames:
        waiting.put(frame, entries)
    one.give_up()
    three.give_up()
    assert waiting.ready() == b""
    two.give_up()
    assert waiting.ready() == frames[0][0] + frames[1][0]


def test_a_frame_is_written_with_its_calls_as_they_are_to_be_and_every_other_byte_stays() -> None:
    waiting, one, two = queue(), OwnCall(0), OwnCall(1)
    choice = '{"n":1.10,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%s"}},{"index":1}]}}'
    data = b'{"choices":[%b]}' % choice.encode()
    raw = OTHER % (data % b"{")
    waiting.put(*call_frame(one, two, frame=raw))
    waiting.put(*call_frame(one, frame=delta(tool_calls=[{"index": 0, "function": {"arguments": "}}"}}])))
    two.give_up()
    one.settle("f", "{}")
    written = b'{"n":1.10,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}","name":"f"}},'
    assert waiting.ready() == OTHER % (b'{"choices":[%b{"index":1}]}}]}' % written)


def test_a_part_of_another_choice_in_the_frame_stays() -> None:
    waiting, call = queue(), OwnCall(0)
    listed = [{"index": 0, "function": {"arguments": "}"}}]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"content": "a"}},
        {"index": 1, "delta": {"tool_calls": listed}},
    ]
    waiting.put(*call_frame(call))
    [[_, [entry]]] = [call_frame(call)]
    waiting.put(chunk(choices), (Entry(1, 0, call, entry.number),))
    call.settle("f", "{}")
    assert waiting.ready().endswith(chunk([choices[0], {"index": 1, "delta": {}}]))


def test_past_its_cap_everything_goes_out_as_it_came_and_is_not_looked_at_again() -> None:
    waiting, call = queue(100), OwnCall(0)
    frame, entries = call_frame(call)
    filler = b":" * (100 * FRAME - len(frame))
    assert waiting.put(frame, entries) + waiting.put(filler) == b""
    assert (waiting.put(b":"), call.over) == (frame + filler + b":", True)


def test_what_is_released_is_not_looked_at_again() -> None:
    waiting, call = queue(), OwnCall(0)
    frame, entries = call_frame(call)
    waiting.put(frame, entries)
    assert (waiting.release(), call.over, waiting.ready(), waiting.release()) == (frame, True, b"", b"")


def test_the_work_for_what_waits_does_not_grow_with_it() -> None:
    asked = 0

    class Counting(OwnCall):
        def waits(self, number: int) -> bool:
            nonlocal asked
            asked += 1
            return super().waits(number)

    waiting, call = queue(10**6), Counting(0)
    for _ in range(500):
        waiting.put(*call_frame(call))
    assert asked == 500


def test_a_frame_that_is_written_when_it_goes_out_is_told_what_became_of_its_calls() -> None:
    waiting, call = queue(), OwnCall(0)
    frame, entries = call_frame(call, arguments="{}")
    told: list[object] = []

    def write(changes: CallChanges) -> bytes:
        told.append(changes)
        return b"written"

    assert waiting.put(frame, entries, write) == b""
    call.settle("g", "{}")
    assert (waiting.ready(), told) == (b"written", [{0: {0: CallChange(name="g", arguments="{}")}}])
    later = OwnCall(1)
    for read, sent in ((True, b"written"), (False, frame)):
        waiting.put(frame, call_frame(later)[1], write)
        assert waiting.release(read=read) == sent
        later = OwnCall(2)
