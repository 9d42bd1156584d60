"""Which event of a Responses stream goes out, and when: as it came until something changes, then by its text.

What each test sends to the client is held against the checker written from OpenAI's reference of the streaming events.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.protocols.legal.responses import violations
from gateway.protocols.protocol import CallChange, Message, NumberedCall, Said
from gateway.protocols.responses_stream import KEPT, ResponseWriter
from tests.support.responses import Piece, event, heard, stream, told

CALL = NumberedCall(0, "call_1", "f", "{}")


class Client:
    """What goes out for the events of an engine."""

    def __init__(self, *, hides: bool = False, drops: bool = False) -> None:
        self.writer = ResponseWriter(hides=hides, drops=drops)
        self.out = b""

    def take(self, data: bytes | None, raw: bytes = b"") -> bytes:
        """What goes out now."""
        came = data is None and raw
        own = b"".join([event(json.loads(each)) for each in self.writer.take_own()])
        now = b"".join(self.writer.take_raw()) + own + (raw if came else event(json.loads(data)) if data else b"")
        self.out += now
        return now

    def relay(self, *frames: bytes) -> bytes:
        """Events whose text stays."""
        out = b""
        for frame in frames:
            message = read(frame)
            data = self.writer.relay(message)
            out += self.take(frame_of(message, data), frame if data is None else b"")
        return out

    def write(self, frame: bytes, said: Sequence[Said] | None = None, change: CallChange | None = None) -> bytes:
        """An event that changes."""
        data = self.writer.write(read(frame), said, change)
        return self.take(data)

    def say(self, channel: str, said: str | NumberedCall) -> bytes:
        """A piece of the answer."""
        self.writer.say(channel, said)
        return self.take(b"")

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(frame.partition("data: ")[2]) for frame in self.out.decode().split("\n\n") if frame]

    @property
    def kinds(self) -> list[str]:
        return [item["type"] for item in self.events[-1]["response"]["output"]]

    def legal(self, *, ended: bool = True) -> Client:
        assert violations(b"".join(map(event, self.events)), ended=ended) == []
        return self


def frame_of(message: Message, data: bytes | None) -> bytes | None:
    """An event to be written again; none where it came as it is or not at all."""
    return data or None


def read(frame: bytes) -> Message:
    data = frame.partition(b"data: ")[2].strip()
    return Message(data, json.loads(data), [], False, False, raw=frame)


def deltas(frames: list[bytes]) -> list[int]:
    """The places of the events with text."""
    return [place for place, frame in enumerate(frames) if b".delta" in frame.partition(b"\n")[0]]


EVERYTHING: list[Piece] = [
    ("commentary", "x"),
    ("reasoning", "a"),
    ("content", "b"),
    ("call", ("c1", "f", ["{", "}"])),
    ("refusal", "no"),
    ("other", {"id": "ws", "type": "web_search_call", "status": "completed"}),
]


# ---------------------------------------------------------------------- as it came


@pytest.mark.parametrize("shape", [{}, {"summary": True}, {"old": True}, {"tokens": True}, {"bare": True}], ids=str)
def test_events_go_out_as_they_came(shape: dict[str, bool]) -> None:
    frames = stream(EVERYTHING[:4] if shape == {"bare": True} else EVERYTHING, **shape)
    client = Client()
    client.relay(*frames[:-1])
    assert client.out + b"".join(client.writer.release()) == b"".join(frames[:-1])


def test_what_stands_around_text_waits_for_the_next_text() -> None:
    frames = stream([("reasoning", "a"), ("content", ""), ("content", "b"), ("content", "c")])
    client = Client()
    out = [client.relay(frame) for frame in frames]
    assert [len(each) > 0 for each in out[:12]] == [True, True, False, False, True, *[False] * 6, True]
    assert out[4] == b"".join(frames[2:5])
    assert out[11] == b"".join(frames[5:12])
    assert client.out == b"".join(frames)


def test_no_more_events_wait_than_are_declared() -> None:
    frames = [frame for _ in range(KEPT) for frame in stream([("content", "")])[2:-1]]
    client = Client()
    longest = late = 0
    for frame in frames:
        late = 0 if client.relay(frame) else late + 1
        longest = max(longest, late)
    assert longest == KEPT
    assert client.out + b"".join(client.writer.release()) == b"".join(frames)


def test_what_waits_goes_out_before_a_call() -> None:
    frames = stream([("reasoning", "a"), ("call", ("c1", "f", ["{}"]))])
    client = Client()
    assert client.relay(*frames) == b"".join(frames)
    assert client.relay(*frames[:0]) == b""


def test_an_end_that_tells_other_text_is_written_again() -> None:
    frames = stream([("reasoning", "a"), ("content", "b")])
    other = frames[-1].replace(b'"text":"b"', b'"text":"c"')
    client = Client()
    client.relay(*frames[:-1], other)
    assert told(client.legal().events[-1]["response"]["output"]) == ("a", "b", [])
    for end in (b'"response":null', b'"response":7'):
        strange = event({"type": "response.completed", "sequence_number": 0}).replace(b'"seq', end + b',"seq')
        assert Client().relay(strange) == strange


# ---------------------------------------------------------------------- text that changes


def test_text_that_does_not_go_out_opens_no_item() -> None:
    frames = stream([("reasoning", "a"), ("content", "b")])
    client = Client()
    for place, frame in enumerate(frames):
        if place in deltas(frames):
            client.write(frame, [])
        else:
            client.relay(frame)
    assert (client.legal().kinds, heard(client.events)) == ([], ("", "", []))


def test_pieces_go_where_they_belong_and_the_last_one_into_the_event_itself() -> None:
    frames = stream([("content", "tc"), ("content", "d")])
    client = Client()
    client.relay(*frames[:4])
    out = client.write(frames[4], [("reasoning", "t"), ("content", "c")])
    assert [frame.partition(b"\n")[0].rpartition(b".")[2] for frame in out.split(b"\n\n") if frame].count(b"delta") == 2
    client.relay(*frames[5:])
    assert (client.legal().kinds, heard(client.events)) == (["reasoning", "message"], ("t", "cd", []))
    assert [item["id"] for item in client.events[-1]["response"]["output"]][1] == "msg_0"


def test_a_run_of_reasoning_is_one_item_though_the_engine_had_ended_it() -> None:
    for shape in ({}, {"summary": True}, {"old": True}):
        frames = stream([("reasoning", "a"), ("content", "tc")], **shape)
        client = Client()
        place = deltas(frames)[1]
        client.relay(*frames[:place])
        client.write(frames[place], [("reasoning", "t"), ("content", "c")])
        client.relay(*frames[place + 1 :])
        assert (client.legal().kinds, heard(client.events)) == (["reasoning", "message"], ("at", "c", []))


def test_text_that_changes_to_and_fro_gets_items_of_ours_that_go_on() -> None:
    frames = stream([("content", "1"), ("content", "2"), ("content", "3"), ("content", "4")], tokens=True)
    client = Client()
    client.relay(*frames[:4])
    said: list[list[Said]] = [[("content", "1")], [("reasoning", "2")], [("content", "3")], [("content", "4")]]
    for frame, pieces in zip(frames[4:8], said, strict=True):
        client.write(frame, pieces)
    client.relay(*frames[8:])
    assert client.legal().kinds == ["message", "reasoning", "message"]
    assert heard(client.events) == ("2", "134", [])
    last = client.events[-1]["response"]["output"][2]
    assert (last["content"][0]["text"], last["role"], last["phase"]) == ("34", "assistant", None)


def test_an_item_of_ours_goes_on_in_the_engines_next_one() -> None:
    frames = stream([("reasoning", "ac"), ("content", "d"), ("reasoning", "e"), ("content", "f")])
    client = Client()
    client.relay(*frames[:4])
    first, *rest = deltas(frames)
    client.write(frames[first], [("reasoning", "a"), ("content", "c")])
    client.relay(*frames[first + 1 :])
    assert client.legal().kinds == ["reasoning", "message", "reasoning", "message"]
    assert heard(client.events) == ("ae", "cdf", [])
    assert len(rest) == 3


def test_two_items_of_the_engines_stay_two_unless_only_what_is_gone_parts_a_thought() -> None:
    pieces: list[Piece] = [("reasoning", "a"), ("content", "x"), ("reasoning", "b"), ("content", "c")]
    frames = stream(pieces)
    client = Client()
    first, second, *_ = deltas(frames)
    client.relay(*frames[:second])
    client.write(frames[second], [])
    client.relay(*frames[second + 1 :])
    assert (client.legal().kinds, heard(client.events)) == (["reasoning", "message"], ("ab", "c", []))
    apart = stream([("content", "<"), ("commentary", ""), ("content", "c"), ("commentary", "d"), ("content", "e")])
    client = Client(drops=False)
    client.relay(*apart[:4])
    client.write(apart[4], [("content", "y")])
    client.relay(*apart[5:])
    assert client.legal().kinds == ["message"] * 4
    assert first < second


def test_held_text_gets_the_engines_item_that_was_not_announced_or_one_of_ours() -> None:
    frames = stream([("content", "held")])
    client = Client()
    client.relay(*frames[:4])
    client.write(frames[4], [])
    client.relay(*frames[5:-1])
    assert b'"id":"msg_0"' in client.say("content", "held")
    client.say("reasoning", "more")
    client.say("content", " and more")
    client.say("call", CALL)
    client.relay(frames[-1])
    assert client.legal().kinds == ["message", "reasoning", "message", "function_call"]
    assert heard(client.events) == ("more", "held and more", [("f", "{}")])


def test_held_text_gets_the_part_that_the_engine_has_announced() -> None:
    """What is held of a thought goes out with the answer, and the thought goes on afterwards: still one part."""
    frames = stream([("reasoning", "held"), ("content", "<"), ("reasoning", "more"), ("content", "c")])
    held, between, more, answer = deltas(frames)
    client = Client()
    client.relay(*frames[:held])
    client.write(frames[held], [])
    client.relay(*frames[held + 1 : between])
    client.write(frames[between], [("reasoning", "held")])
    client.relay(*frames[between + 1 : more])
    client.write(frames[more], [("reasoning", "more")])
    client.relay(*frames[more + 1 :])
    assert (client.legal().kinds, heard(client.events)) == (["reasoning", "message"], ("heldmore", "c", []))
    [thought, _] = client.events[-1]["response"]["output"]
    assert [part["text"] for part in thought["content"]] == ["heldmore"]
    assert answer > more


def test_held_text_never_goes_into_a_progress_message() -> None:
    frames = stream([("content", "held"), ("commentary", "x")])
    client = Client()
    client.relay(*frames[:4])
    client.write(frames[4], [])
    client.relay(*frames[5:-1])
    client.say("content", "held")
    client.relay(frames[-1])
    assert heard(client.legal().events) == ("", "held", [])


def test_text_of_a_thought_with_a_summary_goes_on_in_it() -> None:
    frames = stream([("reasoning", "a"), ("content", "t")], summary=True)
    place = deltas(frames)[1]
    client = Client()
    client.relay(*frames[:place])
    client.write(frames[place], [("reasoning", "t")])
    client.relay(*frames[place + 1 :])
    client.legal()
    assert [part["text"] for part in client.events[-1]["response"]["output"][0]["summary"]] == ["at"]


def test_a_second_part_of_an_item_ends_the_first() -> None:
    frames = stream([("content", "ab"), ("content", "cd")])
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 1}
    second = [
        event({"type": "response.content_part.added", **where, "part": {"type": "output_text", "text": ""}}),
        event({"type": "response.output_text.delta", **where, "delta": "e", "logprobs": []}),
    ]
    client = Client()
    client.relay(*frames[:4])
    client.write(frames[4], [("content", "a")])
    client.relay(*second, frames[-1].replace(b"n", b"n"))
    texts = [part["text"] for part in client.events[-1]["response"]["output"][0]["content"]]
    assert texts == ["a", "e"]


def test_an_item_that_the_engine_has_ended_goes_on_until_something_else_begins() -> None:
    frames = stream([("content", "a")])
    for end in range(5, len(frames)):
        client = Client()
        client.relay(*frames[:end])
        client.say("content", "b")
        client.relay(*frames[end:])
        assert [part["text"] for part in client.legal().events[-1]["response"]["output"][0]["content"]] == ["ab"]


def test_empty_text_goes_out_only_where_its_part_is_open() -> None:
    frames = stream([("content", ""), ("content", "a"), ("content", "")])
    client = Client()
    client.say("reasoning", "t")
    client.relay(*frames[2:])
    assert heard([{"type": "response.created"}, *client.events])[:2] == ("t", "a")
    kinds = [each["type"] for each in client.events]
    assert kinds.count("response.output_text.delta") == 2


def test_tokens_go_with_their_text() -> None:
    frames = stream([("content", "t c"), ("content", " d")], tokens=True)
    client = Client()
    client.relay(*frames[:4])
    client.write(frames[4], [("reasoning", "t"), ("content", " c")])
    client.relay(*frames[5:])
    spelt = [[token["token"] for token in each["logprobs"]] for each in client.legal().events if "logprobs" in each]
    assert spelt == [[" c"], [" d"], [" c", " d"]]
    odd = frames[4].replace(b'"logprobs":[', b'"logprobs":[7,')
    client = Client()
    client.relay(*frames[:4])
    assert b'"logprobs":[]' in client.write(odd, [("content", "c")])


# ---------------------------------------------------------------------- what is no text


def test_calls_stay_in_order_and_what_is_gone_counts_nowhere() -> None:
    frames = stream([("content", "a"), ("call", ("c1", "f", ["{}"])), ("call", ("c2", "f", ["{}"])), ("content", "b")])
    client = Client()
    for frame in frames:
        gone = CallChange(gone=True) if b'"call_id":"c1"' in frame and b"added" in frame else None
        if gone:
            client.write(frame, [], gone)
        else:
            client.relay(frame)
    assert (client.legal().kinds, heard(client.events)) == (
        ["message", "function_call", "message"],
        ("", "ab", [("f", "{}")]),
    )


def test_a_text_before_another_event_goes_out_before_it() -> None:
    frames = stream([("content", "a"), ("call", ("c1", "f", ["{}"]))])
    client = Client()
    place = next(n for n, frame in enumerate(frames) if b'"call_id"' in frame)
    client.relay(*frames[:place])
    client.write(frames[place], [("content", "held")])
    client.relay(*frames[place + 1 :])
    assert heard(client.legal().events) == ("", "aheld", [("f", "{}")])


@pytest.mark.parametrize("first", [[("content", "x")], []], ids=["announced", "not announced"])
def test_other_items_and_refusals_go_on_behind_a_change(first: list[Piece]) -> None:
    more: list[Piece] = [*EVERYTHING[4:], ("content", "b"), ("refusal", "no"), ("refusal", "!")]
    frames = stream([*first, *more])
    client = Client()
    client.say("reasoning", "t") if not first else None
    client.out = b""
    client.writer = ResponseWriter(hides=False, drops=False)
    client.relay(*frames[:2])
    client.say("reasoning", "t")
    client.relay(*frames[2:])
    kinds = ["message", "web_search_call", "message", "message"]
    assert client.legal().kinds == ["reasoning", *["message"] * len(first), *kinds]
    output = client.events[-1]["response"]["output"]
    assert [
        item["content"][0]["refusal"] for item in output if item.get("content") and "refusal" in item["content"][0]
    ] == [
        "no",
        "no!",
    ]


def test_an_item_without_text_goes_out_where_it_says_something_else() -> None:
    sealed = {"id": "rs_9", "type": "reasoning", "summary": [], "encrypted_content": "x", "status": "completed"}
    empty = {"id": "rs_8", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": ""}]}
    for item, shown in ((sealed, True), (empty, False)):
        for hides in (False, True):
            client = Client(hides=hides)
            frames = stream([("other", item), ("content", "b")])
            client.relay(*frames[:2])
            client.say("content", "a")
            client.relay(*frames[2:])
            ids = [each.get("id") for each in client.legal().events[-1]["response"]["output"]]
            assert (item["id"] in ids) is (shown and not hides)


def test_events_about_text_that_did_not_go_out_do_not_go_out() -> None:
    note = {"type": "response.output_text.annotation.added", "item_id": "msg_0", "output_index": 0, "content_index": 0}
    frames = stream([("content", "a")])
    for told_of in (True, False):
        client = Client()
        client.relay(*frames[:4])
        client.write(frames[4], [("content", "b")] if told_of else [])
        assert (client.relay(event(note)) != b"") is told_of
        client.say("reasoning", "t")
        assert client.relay(event(note)) == b""


def test_events_that_are_about_no_item_go_on_and_of_a_hidden_thought_they_do_not() -> None:
    queued = event({"type": "response.queued", "sequence_number": 0})
    unknown = event({"type": "response.reasoning.note", "sequence_number": 0})
    assert (Client(hides=True).relay(queued), Client(hides=True).relay(unknown)) == (queued, b"")
    client = Client()
    client.say("content", "a")
    numbered = json.loads(client.relay(unknown).partition(b"data: ")[2])["sequence_number"]
    assert numbered == client.events[-2]["sequence_number"] + 1


def test_progress_is_dropped_with_every_event_of_it() -> None:
    frames = stream([("reasoning", "a"), ("commentary", "x"), ("content", "b")])
    client = Client(drops=True)
    client.relay(*frames)
    assert (client.legal().kinds, b'"x"' in client.out) == (["reasoning", "message"], False)
    clean = stream([("reasoning", "a"), ("content", "b")])
    client = Client(drops=True)
    assert client.relay(*clean) == b"".join(clean)


# ---------------------------------------------------------------------- endings


def test_what_failed_is_not_over() -> None:
    frames = stream([("reasoning", "a"), ("content", "b")], status="failed")
    client = Client()
    place = deltas(frames)[1]
    client.relay(*frames[:place])
    client.write(frames[place], [("content", "c")])
    client.relay(frames[-1])
    types = [each["type"].removeprefix("response.") for each in client.legal(ended=False).events]
    assert types[-3:] == ["content_part.added", "output_text.delta", "failed"]
    assert [item["status"] for item in client.events[-1]["response"]["output"]] == ["completed", "incomplete"]
    bare = event({"type": "response.failed", "sequence_number": 3})
    client = Client(hides=True)
    assert b"response.failed" in client.relay(bare)


def test_an_end_of_ours_tells_all_that_went_out_in_the_response_of_the_engine() -> None:
    frames = stream([("reasoning", "a"), ("content", "b")])
    client = Client()
    client.relay(*frames[:-1])
    client.take(client.writer.ended("resp_9", "completed"))
    response = client.legal().events[-1]["response"]
    assert (response["id"], response["status"], response["temperature"]) == ("resp_1", "completed", 0.0)
    alone = json.loads(Client().writer.ended("resp_9", "failed"))
    assert (alone["type"], alone["response"]["id"], alone["response"]["output"]) == ("response.failed", "resp_9", [])


def test_an_error_is_numbered_and_names_itself_in_both_ways() -> None:
    client = Client()
    client.relay(*stream([])[:2])
    error = {"code": "integrity_x", "message": "m", "type": "server_error", "param": None}
    value = json.loads(client.writer.failed(error))
    said = {"code": "integrity_x", "message": "m", "param": None, "error": error}
    assert value == {"type": "error", "sequence_number": 2, **said}
    assert client.writer.alone(b'{"sequence_number":9}') == b'{"sequence_number":3}'


def test_text_that_nothing_announced_gets_items_all_the_same() -> None:
    where = {"type": "response.output_text.delta", "item_id": "msg_0", "output_index": 0, "content_index": 0}
    created, _, end = stream([])
    client = Client()
    client.relay(created)
    for number, said in enumerate((("content", "a"), ("reasoning", "b"), ("content", "c"))):
        client.write(event({**where, "delta": "x", "logprobs": [], "sequence_number": number + 1}), [said])
    client.relay(end)
    assert client.legal().kinds == ["message", "reasoning", "message"]
