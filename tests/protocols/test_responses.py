"""Events of Responses as they are read, and those that a change makes (reference/vllm.md 3.5, sglang.md 3.2, 3.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import EngineTruncated
from gateway.protocols import protocol_for
from gateway.protocols.legal.responses import violations
from gateway.protocols.protocol import UNSAID, CallChange, Fragment, Message, NotThisProtocol, NumberedCall
from gateway.protocols.responses import Responses
from tests.support.responses import Piece, body, event, events_of, response, stream, told

NAMES = ("reasoning",)
PIECES: list[Piece] = [("reasoning", "a"), ("content", "b"), ("call", ("c1", "f", ["{", "}"]))]


def codec(**given: bool) -> Responses:
    """The codec of a stream."""
    return Responses().stream(rewrites=given.get("hides", False))


def data_of(frame: bytes) -> bytes:
    return frame.partition(b"data: ")[2].strip()


def read(frames: list[bytes], protocol: Responses | None = None) -> list[Message]:
    """The events of a stream as they are read, one after another."""
    one = protocol or codec()
    return [one.decode_event(data_of(frame)) for frame in frames]


def parts(frames: list[bytes]) -> list[tuple[str, str, bool, bool, str | None]]:
    """Reasoning, content, tools, refusal and finish of each part."""
    found = [part for message in read(frames) for part in message.parts]
    return [(part.reasoning, part.content, part.tools, part.refusal, part.finish) for part in found]


def spoken(**value: Any) -> bytes:
    """An event as the engine writes it."""
    return json.dumps({"type": "response.output_text.delta", **value}).encode()


# ---------------------------------------------------------------------- in


def test_text_and_the_end_are_parts_and_structure_is_none() -> None:
    said = [("a", "", False, False, None), ("", "b", False, False, None), ("", "", False, False, "stop")]
    for shape in ({}, {"summary": True}, {"old": True}):
        assert parts(stream(PIECES[:2], **shape)) == said
    [part] = read(stream(PIECES[:1]))[4].parts
    assert (part.place, part.index, part.names, part.stop_reason) == (0, 0, (), UNSAID)


@pytest.mark.parametrize(
    ("status", "finish"), [("completed", "stop"), ("incomplete", "length"), ("cancelled", "abort")]
)
def test_the_terminal_event_ends_the_answer_and_takes_the_report(status: str, finish: str) -> None:
    last = read(stream(PIECES[:2], status=status))[-1]
    assert (last.parts[0].finish, last.terminal, last.takes_report, last.error) == (finish, True, True, False)


def test_an_answer_with_calls_ended_for_them() -> None:
    assert read(stream(PIECES))[-1].parts[0].finish == "tool_calls"


def test_failures_are_errors_without_text() -> None:
    last = read(stream(PIECES, status="failed"))[-1]
    assert (last.parts, last.error, last.terminal, last.takes_report) == ([], True, True, True)
    told_of = read([event({"type": "error", "message": "x"}), b'data: {"error":{"message":"x"}}\n\n'])
    assert [(each.error, each.terminal, each.parts) for each in told_of] == [(True, False, [])] * 2


def test_progress_is_no_part_of_the_answer() -> None:
    assert parts(stream([("commentary", "x"), ("content", "b")]))[0][1] == "b"


def test_a_refusal_is_one() -> None:
    assert [part[3] for part in parts(stream([("refusal", "no")]))] == [True, True, False]


def test_items_of_other_kinds_are_tools_without_fragments() -> None:
    one = codec()
    messages = read(stream([("other", {"id": "x", "type": "custom_tool_call"})]), one)
    assert [part.tools for message in messages for part in message.parts] == [True, False]
    assert one.fragments(messages[2], messages[2].parts[0]) == []


def fragments(frames: list[bytes]) -> list[Fragment]:
    """What the events say of calls."""
    one, found = codec(), []
    for frame in frames:
        message = one.decode_event(data_of(frame))
        found += [each for part in message.parts if part.tools for each in one.fragments(message, part)]
    return found


def test_a_call_comes_in_fragments() -> None:
    pieces: list[Piece] = [("call", ("c1", "f", ["{", "}"])), ("call", ("c2", "g", ["[]"]))]
    assert [(each.index, each.ident, each.name, each.arguments) for each in fragments(stream(pieces))] == [
        (0, "c1", "f", ""),
        (0, None, None, "{"),
        (0, None, None, "}"),
        (1, "c2", "g", ""),
        (1, None, None, "[]"),
    ]
    assert all(each.place == 0 and each.text for each in fragments(stream(pieces)))


def test_arguments_that_came_in_no_pieces_are_told_by_what_ends_them() -> None:
    frames = [frame.replace(b'"arguments":""', b'"arguments":"{}"') for frame in stream([("call", ("c1", "f", []))])]
    frames[2] = frames[2].replace(b'"arguments":"{}"', b'"arguments":""')
    first, second = fragments(frames)
    assert (first.name, second.arguments) == ("f", "{}")
    assert [each.arguments for each in fragments([*frames[:3], *frames[4:]])] == ["", "{}"]
    [only] = fragments(frames[4:5])
    assert (only.ident, only.name, only.arguments) == ("c1", "f", "{}")


def test_an_answer_in_one_event_is_all_in_its_part() -> None:
    whole = json.loads(body(PIECES))
    frames = [event({"type": "response.completed", "response": whole})]
    assert parts(frames) == [("a", "b", True, False, "tool_calls")]
    assert [each.arguments for each in fragments(frames)] == ["{}"]


@pytest.mark.parametrize(
    "strange",
    [
        b"{",
        b"7",
        b'{"choices":[]}',
        b'{"type":7}',
        spoken(output_index=0),
        spoken(output_index=0, delta=7),
        spoken(output_index="0", delta="a"),
        spoken(output_index=0, delta="a", content_index=None),
        b'{"type":"response.completed"}',
        b'{"type":"response.completed","response":{"output":7}}',
        b'{"type":"response.completed","response":{"output":[7]}}',
        b'{"type":"response.content_part.done","output_index":0,"content_index":0,"part":7}',
        b'{"type":"response.content_part.done","output_index":0,"content_index":null}',
        b'{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","content":7}}',
        b'{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","summary":7}}',
        b'{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text"}]}}',
        b'{"type":"response.completed","response":7}',
        b'{"type":"response.output_item.added","output_index":0,"item":7}',
        b'{"type":"response.output_item.added","output_index":0,"item":{}}',
        b'{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","arguments":{}}}',
        b'{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{"}',
    ],
)
def test_what_is_no_event_is_refused(strange: bytes) -> None:
    with pytest.raises(NotThisProtocol):
        codec().decode_event(strange)


def test_half_a_character_and_the_id_of_the_answer() -> None:
    one = codec()
    odd = one.decode_event(b'{"type":"response.output_text.delta","output_index":0,"delta":"\\ud83d"}')
    assert (odd.odd, odd.parts[0].content, one.answer_id(odd)) == (True, "\ud83d", "")
    created, *_ = read(stream(PIECES), one)
    assert (one.answer_id(created), one.answer_id(odd)) == ("resp_1", "resp_1")


def test_the_endpoint_is_known_with_and_without_a_prefix() -> None:
    assert isinstance(protocol_for("/v1/responses"), Responses)
    assert isinstance(protocol_for("/engine/v1/responses"), Responses)
    assert protocol_for("/v1/responses/resp_1") is None
    assert Responses().stream(rewrites=False) is not Responses().stream(rewrites=False)


def test_progress_that_is_to_be_dropped_stays_dropped_in_a_stream() -> None:
    one = Responses().without_commentary().stream(rewrites=False)
    out = send(one, stream([("commentary", "x"), ("content", "b")]))
    assert (violations(out), b'"x"' in out) == ([], False)


# ---------------------------------------------------------------------- out


def send(one: Responses, frames: list[bytes], changes: dict[int, dict[str, Any]] | None = None) -> bytes:
    """What goes out for these frames. `changes`: by the frame's place, keywords of `written`."""
    out = b""
    for place, frame in enumerate(frames):
        message = one.decode_event(data_of(frame))
        message.raw = frame
        asked = (changes or {}).get(place)
        own: list[bytes] = []
        if asked is None:
            data = one.relay(message)
            data = message.data if data is None else data or None
        else:
            given = {"pieces": {}, "finishes": {}, "changes": {}, **asked}
            own, data = one.written(message, names=NAMES, **given)
        out += one.kept() + b"".join(map(one.frame, own))
        out += b"" if data is None else frame if data is message.data else one.frame(data)
    return out


def test_frames_that_do_not_change_keep_their_bytes() -> None:
    assert send(codec(), stream(PIECES)) == b"".join(stream(PIECES))
    one = codec()
    out = send(one, stream(PIECES)[:-5])
    assert out + one.release() == b"".join(stream(PIECES)[:-5])


def test_changed_text_and_calls_make_a_legal_stream() -> None:
    frames = stream(PIECES)
    added = next(place for place, frame in enumerate(frames) if b'"call_id"' in frame)
    changes = {
        4: {"pieces": {0: [("reasoning", "x"), ("content", "y")]}},
        added: {"pieces": {0: []}, "changes": {0: {0: CallChange(name="g", arguments="[]")}}},
        added + 1: {"changes": {0: {0: CallChange(gone=True)}}},
        added + 2: {"changes": {0: {0: CallChange(gone=True)}}},
    }
    out = send(codec(), frames, changes)
    assert violations(out) == []
    assert told(events_of(out)[-1][1]["response"]["output"]) == ("x", "yb", [("g", "[]")])


def test_the_shorter_way_to_write_is_the_same() -> None:
    def piece(one: Responses) -> Message:
        return [one.decode_event(data_of(frame)) for frame in stream([("content", "a")])[:5]][-1]

    first, second = codec(), codec()
    assert first.rewrite(piece(first), {0: [("content", "b")]}, NAMES) == second.written(
        piece(second), {0: [("content", "b")]}, NAMES, {}, {}
    )


def test_events_of_ours_carry_text_calls_and_the_end() -> None:
    one = codec()
    out = send(one, stream([])[:2])
    for channel, text in (("reasoning", "a"), ("content", "b"), ("content", "c")):
        out += one.frame(one.text_event(None, 0, channel, text, NAMES))
    out += b"".join(map(one.frame, one.call_events(None, 0, NumberedCall(0, "call_1", "f", "{}"))))
    out += one.frame(one.finish_event(None, 0, "stop"))
    assert violations(out) == []
    last = events_of(out)[-1][1]["response"]
    assert (told(last["output"]), last["status"], last["id"]) == (("a", "bc", [("f", "{}")]), "completed", "resp_1")
    broken = events_of(codec().frame(codec().finish_event(None, 0, "error")))
    assert [name for name, _ in broken] == ["response.failed"]


def test_a_call_that_never_came_right_fails_the_answer() -> None:
    frames = stream([("content", "a")])
    out = send(codec(), frames, {len(frames) - 1: {"finishes": {0: "error"}}})
    name, last = events_of(out)[-1]
    assert (name, last["type"], last["response"]["status"]) == ("response.failed", "response.failed", "failed")
    assert last["response"]["error"]["code"] == "server_error"
    out = send(codec(), frames, {len(frames) - 1: {"finishes": {0: "tool_calls"}}})
    assert violations(out) == []


def test_an_answer_in_one_event_changes_as_a_plain_one() -> None:
    whole = json.loads(body(PIECES))
    frames = [
        event({"type": "response.created", "response": response([], "in_progress"), "sequence_number": 0}),
        event({"type": "response.completed", "response": whole, "sequence_number": 1}),
    ]
    asked: dict[str, Any] = {"pieces": {0: [("content", "c")]}, "changes": {0: {0: CallChange(name="g")}}}
    out = send(codec(), frames, {1: asked})
    assert told(events_of(out)[-1][1]["response"]["output"]) == ("", "c", [("g", "{}")])
    assert send(codec(), frames) == b"".join(frames)
    hidden = send(codec(hides=True), frames)
    assert told(events_of(hidden)[-1][1]["response"]["output"]) == ("", "b", [("f", "{}")])
    hidden = send(codec(hides=True), frames, {1: {"pieces": {0: [("content", "c")]}}})
    assert told(events_of(hidden)[-1][1]["response"]["output"]) == ("", "c", [("f", "{}")])


def test_an_error_is_a_frame_of_its_own() -> None:
    one = codec()
    out = send(one, stream([("content", "a")])[:5]) + one.error_event(EngineTruncated("it ended"))
    assert violations(out, ended=False) == []
    name, value = events_of(out)[-1]
    assert (name, value["type"], value["code"], value["error"]["message"]) == (
        "error",
        "error",
        "integrity_upstream_truncated",
        "it ended",
    )


def test_events_are_framed_by_their_type() -> None:
    assert codec().frame(b'{"type":"a"}\n{"n":1,"type":"b"}') == (
        b'event: a\ndata: {"type":"a"}\n\nevent: b\ndata: {"n":1,"type":"b"}\n\n'
    )
    assert codec().frame(b"") == b""
