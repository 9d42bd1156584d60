"""The Messages protocol: decoded events and bodies, and the bytes made of them again (reference/vllm.md 3.6)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gateway.errors import ClientFault, EngineTimeout, IntegrityError, NotForwarded
from gateway.events import CALL, CONTENT, REASONING
from gateway.limits import Limits
from gateway.protocols import protocol_for
from gateway.protocols.messages import Messages
from gateway.protocols.protocol import CallChange, HistoryRule, Message, NotThisProtocol, NumberedCall, Said
from tests.support.messages import END, ERROR, HEAD, PING, body, delta, event, frames, start, stop, tail

BOTH = ("reasoning", "reasoning_content")
CALLED = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
GONE = CallChange(gone=True)


def data(frame: bytes) -> bytes:
    """The data of a frame."""
    return frame.partition(b"data: ")[2].rstrip(b"\n")


def decoded(*sent: bytes, stream: Messages | None = None) -> Message:
    """The last of these frames, in one stream."""
    stream = stream or Messages().stream(rewrites=False)
    return [stream.decode_event(data(frame)) for frame in sent][-1]


def test_it_is_the_protocol_of_its_route_and_of_no_other() -> None:
    assert isinstance(protocol_for("/v1/messages"), Messages)
    assert isinstance(protocol_for("/prefix/v1/messages"), Messages)
    assert protocol_for("/v1/messages/count_tokens") is None


def test_each_stream_is_read_by_an_object_of_its_own() -> None:
    protocol = Messages()
    one, other = protocol.stream(rewrites=False), protocol.stream(rewrites=True)
    assert one is not other
    assert one.text_event(None, 0, CONTENT, "a", BOTH) != b""
    assert b'"index":0' in other.text_event(None, 0, CONTENT, "a", BOTH)


def test_requests_are_read_and_shaped() -> None:
    assert Messages().facts({"model": "m", "thinking": {"type": "disabled"}}).thinking == "off"
    rule = HistoryRule(keep="strip", field=None, grammar=None, repair_arguments=True, limits=Limits())
    turn = [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}]
    request = json.dumps({"messages": [{"role": "assistant", "content": turn}]}).encode()
    shaped, done = Messages().shape_history(request, rule)
    assert json.loads(shaped)["messages"][0]["content"] == turn[1:]
    assert done == {"stripped": 1}


# ---------------------------------------------------------------------- events


def test_an_event_tells_what_it_is() -> None:
    assert not decoded(HEAD).parts
    assert decoded(HEAD, delta(0, text="a")).parts[0].content == "a"
    assert decoded(END).terminal and not decoded(tail()).terminal
    assert decoded(tail()).takes_report and not decoded(tail(None)).takes_report and not decoded(END).takes_report
    assert decoded(ERROR).error and not decoded(PING).error


def test_an_error_in_the_shape_of_openai_is_one_too() -> None:
    message = decoded(b'data: {"error":{"message":"x"}}\n\n')
    assert message.error and not message.parts


@pytest.mark.parametrize(
    "sent", [b"no json", b"[]", b'{"a":1}', b'{"type":3}', b'{"type":"content_block_delta","index":0}']
)
def test_what_is_no_event_is_refused(sent: bytes) -> None:
    with pytest.raises(NotThisProtocol):
        Messages().decode_event(sent)


def test_half_a_character_makes_a_message_odd() -> None:
    message = decoded(
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ud83d"}}\n\n'
    )
    assert message.odd and message.parts[0].content == "\ud83d"


def test_data_in_several_lines_is_one_line_from_there_on() -> None:
    assert Messages().decode_event(b'{"type":\n"ping"}').data == b'{"type": "ping"}'


@pytest.mark.parametrize(
    ("started", "ident"),
    [({"id": "msg_1", "usage": {"output_tokens": 3}}, "msg_1"), ({"id": "msg_1", "usage": None}, "msg_1"), (None, "")],
)
def test_every_message_of_a_stream_knows_the_id_of_the_answer(started: Any, ident: str) -> None:
    protocol = Messages()
    head = event({"type": "message_start", "message": started})
    assert protocol.answer_id(decoded(head, delta(0, text="a"))) == ident


def test_members_that_are_not_of_this_protocol_are_not_asked_for() -> None:
    message = decoded(tail())
    assert Messages().has_usage(message)
    assert Messages().names_shown(message.parts[0]) == ()
    assert Messages().without_tokens(message, [0], whole=True) == (message, {})
    assert Messages().spells(message.parts[0], "a")


# ---------------------------------------------------------------------- calls of the engine


def fragment(*sent: bytes) -> tuple[int | None, str | None, str | None, str]:
    """What the last frame says of a call."""
    message = decoded(*sent)
    [one] = Messages().fragments(message, message.parts[0])
    return one.index, one.ident, one.name, one.arguments


def test_a_call_comes_as_a_start_and_deltas() -> None:
    assert fragment(start(2, CALLED)) == (2, "t", "f", "")
    assert fragment(start(2, CALLED), delta(2, partial_json='{"a"')) == (2, None, None, '{"a"')
    assert fragment(start(2, CALLED | {"input": {"n": 1}})) == (2, "t", "f", '{"n":1}')
    assert fragment(start(2, CALLED | {"input": "{"})) == (2, "t", "f", "{")


def test_a_call_that_ends_without_an_input_has_an_empty_one() -> None:
    assert fragment(start(2, CALLED), delta(2, partial_json=""), stop(2)) == (2, None, None, "{}")
    for sent in ([delta(2, partial_json="{}")], [delta(2, partial_json="{}"), delta(2, partial_json="")]):
        assert not decoded(start(2, CALLED), *sent, stop(2)).parts
    assert not decoded(start(2, CALLED | {"input": {"a": 1}}), stop(2)).parts
    assert not decoded(start(2, CALLED), stop(2), start(3, {"type": "text", "text": ""}), stop(3)).parts


def test_the_input_of_a_tool_that_the_server_runs_is_no_call() -> None:
    server = start(2, {"type": "server_tool_use", "id": "s", "name": "w", "input": {}})
    assert not decoded(server, delta(2, partial_json="{")).parts
    assert not decoded(start(1, CALLED), stop(1), server, delta(2, partial_json="{")).parts


# ---------------------------------------------------------------------- frames written again


class Stream:
    """One stream, frame by frame."""

    def __init__(self, *, hides: bool = False) -> None:
        self.codec = Messages().stream(rewrites=hides)

    def decode(self, frame: bytes) -> Message:
        message = self.codec.decode_event(data(frame))
        message.raw = frame
        return message

    def relay(self, frame: bytes) -> bytes:
        """What goes out for a frame whose text stays."""
        message = self.decode(frame)
        kept = self.codec.relay(message)
        before = self.codec.kept()
        return before + (frame if kept is None else self.codec.frame(kept) if kept else b"")

    def written(
        self,
        frame: bytes,
        *,
        said: Sequence[Said] | None = None,
        finish: str | None = None,
        change: CallChange | None = None,
        names: tuple[str, ...] = BOTH,
    ) -> list[Any]:
        """The events that go out for a frame that changes, parsed; None for the frame itself where it is gone."""
        changes: Mapping[int, Any] = {0: {0: change}} if change else {}
        finishes: Mapping[int, str] = {0: finish} if finish else {}
        pieces: Mapping[int, Sequence[Said]] = {} if said is None else {0: said}
        own, last = self.codec.written(self.decode(frame), pieces, names, finishes, changes)
        return [*map(json.loads, own), json.loads(last) if last else None]


def test_a_frame_that_waits_goes_out_before_the_next_one_or_at_the_end() -> None:
    stream, begins = Stream(), start(0, {"type": "text", "text": ""})
    assert stream.relay(HEAD) == HEAD
    assert stream.relay(begins) == b""
    assert stream.relay(delta(0, text="a")) == begins + delta(0, text="a")
    assert stream.relay(stop(0)) == stop(0)
    again = start(1, {"type": "text", "text": ""})
    assert stream.relay(again) == b""
    assert (stream.codec.release(), stream.codec.release()) == (again, b"")


def test_a_frame_behind_a_change_comes_behind_the_end_of_what_is_open() -> None:
    stream = Stream()
    assert stream.codec.text_event(None, 0, CONTENT, "a", BOTH).count(b"\n") == 1
    kinds = [name for name, _ in frames(stream.relay(tail()))]
    assert kinds == ["content_block_stop", "message_delta"]


def test_pieces_stand_in_blocks_of_their_kind_and_the_last_in_the_frame() -> None:
    stream = Stream()
    stream.relay(start(0, {"type": "text", "text": ""}))
    thought, went, closed, text, last = stream.written(delta(0, text="x"), said=[(REASONING, "a"), (CONTENT, "b")])
    assert [thought["content_block"]["type"], went["delta"], closed["index"]] == [
        "thinking",
        {"type": "thinking_delta", "thinking": "a"},
        0,
    ]
    assert (text["content_block"], last["delta"]["text"], last["index"]) == ({"type": "text", "text": ""}, "b", 1)


def test_without_names_there_is_no_thought_and_without_pieces_no_frame() -> None:
    stream = Stream()
    assert stream.written(delta(0, text="x"), said=[(REASONING, "a"), (CONTENT, "")], names=()) == [None]
    assert stream.written(delta(0, text="x"), said=[]) == [None]
    assert stream.codec.text_event(None, 0, REASONING, "a", ()) == b""


def test_a_call_of_ours_stands_where_it_is_said() -> None:
    stream, call = Stream(), NumberedCall(0, "c", "f", '{"n":1.10}')
    began, went, gone = stream.written(delta(0, text="x"), said=[(CALL, call)])
    assert (began["content_block"], went["delta"]["partial_json"], gone) == (CALLED | {"id": "c"}, '{"n":1.10}', None)
    closed, *_ = stream.codec.call_events(None, 0, call)
    assert json.loads(closed) == {"type": "content_block_stop", "index": 0}


def test_the_name_of_a_call_is_changed_in_its_start() -> None:
    [began] = Stream().written(start(0, CALLED), change=CallChange(name="g"))
    assert began["content_block"] == CALLED | {"name": "g"}


def test_arguments_of_a_call_are_changed_in_one_delta_behind_its_start() -> None:
    stream = Stream()
    sent = start(5, CALLED | {"input": {"a": 1}})
    began, went, none = stream.written(sent, change=CallChange(name="g", arguments='{"n":1.10}'))
    assert (began["content_block"], began["index"], went["index"], none) == (CALLED | {"name": "g"}, 0, 0, None)
    assert went["delta"] == {"type": "input_json_delta", "partial_json": '{"n":1.10}'}
    assert stream.written(delta(5, partial_json="x"), change=GONE) == [None]
    assert stream.written(stop(5), change=GONE) == [{"type": "content_block_stop", "index": 0}]


def test_arguments_may_be_changed_where_they_stand() -> None:
    stream = Stream()
    assert stream.written(start(0, CALLED), change=CallChange(index=0)) == [json.loads(data(start(0, CALLED)))]
    [went] = stream.written(delta(0, partial_json="x"), change=CallChange(arguments="y"))
    assert went["delta"]["partial_json"] == "y"


def test_a_call_that_goes_takes_its_deltas_and_its_end_with_it() -> None:
    stream = Stream()
    [*said, none] = stream.written(start(0, CALLED), said=[(CONTENT, "a")], change=GONE)
    assert ([each["type"] for each in said], none) == (["content_block_start", "content_block_delta"], None)
    assert stream.written(delta(0, partial_json="{}"), change=GONE) == [None]
    assert stream.relay(stop(0)) == b""


def test_a_reason_is_changed_in_its_event_behind_what_is_left_to_say() -> None:
    stream = Stream()
    began, went, closed, last = stream.written(tail("stop_sequence", "x"), said=[(CONTENT, "a")], finish="tool_calls")
    assert [each["type"].removeprefix("content_block_") for each in (began, went, closed)] == ["start", "delta", "stop"]
    assert last["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert last["usage"] == {"input_tokens": 3, "output_tokens": 7}


def test_a_change_without_calls_is_the_same_change() -> None:
    frame = delta(0, text="x")
    one, other = Stream(), Stream()
    rewritten = one.codec.rewrite(one.decode(frame), {0: [(CONTENT, "a")]}, BOTH, {})
    assert rewritten == other.codec.written(other.decode(frame), {0: [(CONTENT, "a")]}, BOTH, {}, {})


@pytest.mark.parametrize(("usage", "tokens"), [({"output_tokens": 5}, 5), ({}, 0), (None, 0)])
def test_an_end_of_ours_repeats_what_the_engine_told_of_its_usage(usage: object, tokens: int) -> None:
    stream = Stream()
    stream.relay(event({"type": "message_start", "message": {"id": "m", "usage": usage}}))
    stream.codec.text_event(None, 0, CONTENT, "a", BOTH)
    closed, end = stream.codec.finish_event(None, 0, "stop").split(b"\n")
    assert json.loads(closed)["type"] == "content_block_stop"
    assert json.loads(end)["usage"] == {"output_tokens": tokens}
    assert json.loads(end)["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_every_frame_of_ours_is_named_by_its_type() -> None:
    assert Messages().frame(b'{"type":"ping"}\n{"type":"message_stop"}') == PING + END


def test_the_report_stands_beside_what_an_event_says_or_in_one_of_its_own() -> None:
    assert json.loads(Messages().add_report(data(tail()), {"a": 1}))["integrity"] == {"a": 1}
    assert json.loads(Messages().report_event(None, {"a": 1})) == {"type": "ping", "integrity": {"a": 1}}


# ---------------------------------------------------------------------- plain bodies

THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "d"}
TEXT = {"type": "text", "text": "a"}


def plain(*blocks: Any, **members: Any) -> Message:
    value = json.loads(body([])) | {"content": list(blocks)} | members
    return Messages().decode_body(json.dumps(value).encode())


def test_a_body_is_one_part() -> None:
    message = plain(THOUGHT, TEXT, CALLED, TEXT, stop_reason="max_tokens")
    [part] = message.parts
    assert (part.reasoning, part.content, part.tools, part.finish, part.names) == (
        "t",
        "aa",
        True,
        "length",
        ("thinking",),
    )
    assert [one.place for one in Messages().fragments(message, part)] == [2]
    assert Messages().answer_id(message) == "chatcmpl-1"
    assert not plain(TEXT).parts[0].tools


@pytest.mark.parametrize("blocks", [[3], [{"text": "a"}], [{"type": "text", "text": 3}]])
def test_a_body_of_another_shape_is_refused(blocks: list[Any]) -> None:
    with pytest.raises(NotThisProtocol):
        plain(*blocks)
    with pytest.raises(NotThisProtocol):
        Messages().decode_body(b"{}")


def test_a_thought_without_a_name_to_go_by_is_taken_out() -> None:
    hidden = Messages().rename(plain(THOUGHT, REDACTED, TEXT), ())
    assert hidden is not None and json.loads(hidden)["content"] == [TEXT]
    assert Messages().rename(plain(TEXT), ()) is None
    assert Messages().rename(plain(THOUGHT), BOTH) is None
    assert Messages().rename(decoded(delta(0, text="a")), ()) is None


def test_a_body_says_other_pieces_and_another_reason() -> None:
    message = plain(TEXT, stop_reason="stop_sequence", stop_sequence="x", n=1)
    changed = Messages().rewrite_body(message, {0: [(REASONING, "t"), (CONTENT, "b")]}, BOTH, {0: "tool_calls"})
    value = json.loads(changed)
    assert value["content"] == [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "b"}]
    assert (value["stop_reason"], value["stop_sequence"], value["n"]) == ("tool_use", None, 1)
    assert Messages().rewrite_body(message, {}, BOTH) is message.data
    assert json.loads(Messages().rewrite_body(message, {0: [(REASONING, "t")]}, ()))["content"] == []


def test_calls_of_a_body_are_changed_in_their_places() -> None:
    changed = Messages().change_calls(plain(TEXT, CALLED, CALLED), {0: {1: GONE, 2: CallChange(arguments='{"a":1}')}})
    assert changed is not None
    assert json.loads(changed)["content"] == [TEXT, CALLED | {"input": {"a": 1}}]


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClientFault("x"), "invalid_request_error"),
        (NotForwarded("x"), "not_found_error"),
        (EngineTimeout("x"), "timeout_error"),
        (IntegrityError("x"), "api_error"),
    ],
)
def test_an_error_has_the_shape_of_the_protocol(error: IntegrityError, kind: str) -> None:
    said = {"type": "error", "error": {"type": kind, "message": "x", "code": error.code}}
    assert json.loads(Messages().error_body(error)) == said
    assert list(frames(Messages().error_event(error))) == [("error", said)]


def test_a_status_that_is_not_listed_is_the_clients_fault_below_500() -> None:
    error = ClientFault("x")
    error.status = 418
    assert json.loads(Messages().error_body(error))["error"]["type"] == "invalid_request_error"


def test_an_error_in_a_stream_closes_what_is_open() -> None:
    stream = Stream()
    stream.codec.text_event(None, 0, CONTENT, "a", BOTH)
    names = [name for name, _ in frames(stream.codec.error_event(IntegrityError("x")))]
    assert names == ["content_block_stop", "error"]
