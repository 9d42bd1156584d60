"""What is open in a stream of Messages: each test tells what the engine sends, what changes, and what the client has.

The rules are those of Anthropic's "Streaming Messages"; a whole exchange is in `tests/exchange/test_messages.py`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocols.legal.messages import violations
from gateway.protocols.messages_stream import TEXT, THINKING, TOOL_USE, Blocks, Line, input_delta
from gateway.protocols.protocol import Message, NumberedCall
from tests.support.messages import END, HEAD, PING, delta, event, frames, start, stop, tail

EMPTY_TEXT = {"type": "text", "text": ""}
EMPTY_THOUGHT = {"type": "thinking", "thinking": ""}
REDACTED = {"type": "redacted_thinking", "data": "d"}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
MORE = NumberedCall(0, "", "", "}", more=True)


def message(frame: bytes) -> Message:
    """A decoded frame."""
    data = frame.partition(b"data: ")[2].rstrip()
    return Message(data, json.loads(data), [], False, False, raw=frame)


class Client:
    """What a client has of the blocks. `frames`: how many went out as they came."""

    def __init__(self, *, hides: bool = False) -> None:
        self.blocks = Blocks(hides=hides)
        self.raw = b""
        self.untouched = 0

    def relay(self, *sent: bytes) -> Client:
        """Frames whose text stays."""
        for frame in sent:
            self._out(message(frame), self.blocks.relay(message(frame)))
        return self

    def write(self, frame: bytes, *said: Line) -> Client:
        """A frame that says something else."""
        self._out(message(frame), self.blocks.write(message(frame), said))
        return self

    def says(self, *said: Line) -> Client:
        """Text or calls without a frame."""
        return self._own(self.blocks.says(said))

    def ends(self) -> Client:
        """The end of the answer; all of it must have been legal."""
        self.relay(tail("max_tokens"), END)
        assert violations(HEAD + self.raw) == [], self.raw.decode()
        return self

    def _out(self, came: Message, out: tuple[list[bytes], bytes | None]) -> None:
        before, data = out
        ready = self.blocks.ready()
        self.untouched += ready.count(b"\n\n")
        self.raw += ready
        self._own(before)
        if data == came.data:
            self.untouched += 1
            self.raw += came.raw
        elif data is not None:
            self._own([data])

    def _own(self, data: list[bytes]) -> Client:
        self.raw += b"".join([event(json.loads(each)) for each in data])
        return self

    @property
    def told(self) -> list[str]:
        """The events in short, the ending left out."""
        return [short(value) for _, value in frames(self.raw) if value["type"].startswith("content_block")]


def short(value: dict[str, Any]) -> str:
    """`0 text`, `0 text: a`, `0 .`: a block begins, goes on, ends."""
    index = value["index"]
    if value["type"] == "content_block_start":
        return f"{index} {value['content_block']['type']}"
    if value["type"] == "content_block_stop":
        return f"{index} ."
    (name, text), *_ = ((name, text) for name, text in value["delta"].items() if name != "type")
    return f"{index} {name}: {text}"


# ---------------------------------------------------------------------- as it came

CLEAN = [
    *(start(0, EMPTY_THOUGHT), delta(0, thinking="a"), delta(0, signature="s"), stop(0), PING),
    *(start(1, EMPTY_TEXT), delta(1, text="b"), stop(1), start(2, EMPTY_TEXT), stop(2)),
    *(start(3, USE), delta(3, partial_json="{}"), stop(3), start(4, REDACTED), stop(4), tail(), END),
]


def test_frames_go_out_in_order_and_as_they_came() -> None:
    client = Client().relay(*CLEAN)
    assert client.raw == b"".join(CLEAN)
    assert client.untouched == len(CLEAN)
    assert not client.blocks.bent


def test_the_start_of_text_and_the_end_of_a_thought_wait_for_what_comes_next() -> None:
    client = Client().relay(start(0, EMPTY_THOUGHT))
    assert client.raw == b""
    client.relay(delta(0, thinking="a"), stop(0), start(1, EMPTY_TEXT))
    assert client.told == ["0 thinking", "0 thinking: a"]
    client.relay(delta(1, text="b"))
    assert client.told == ["0 thinking", "0 thinking: a", "0 .", "1 text", "1 text: b"]


def test_what_waits_goes_out_as_it_came_when_nothing_follows() -> None:
    client = Client().relay(start(0, EMPTY_THOUGHT), delta(0, thinking="a"), stop(0), start(1, EMPTY_TEXT))
    client.blocks.flush()
    client.raw += client.blocks.ready()
    assert client.told == ["0 thinking", "0 thinking: a", "0 .", "1 text"]
    assert client.says((TEXT, "b")).ends().told[-2:] == ["1 text: b", "1 ."]


def test_an_engine_that_forgets_an_end_is_not_corrected() -> None:
    sent = [
        start(0, EMPTY_TEXT),
        start(1, EMPTY_TEXT),
        delta(1, text="a"),
        event({"type": "content_block_delta", "index": 1}),
    ]
    assert Client().relay(*sent).raw == b"".join(sent)
    assert Client().relay(event({"type": "content_block_start"}), delta(7, text="a")).untouched == 2


# ---------------------------------------------------------------------- the first change


def test_a_block_that_waited_is_not_opened_where_its_text_goes_elsewhere() -> None:
    client = Client().relay(start(0, EMPTY_TEXT)).write(delta(0, text="x"), (THINKING, "a"), (TEXT, "b"))
    assert client.told == ["0 thinking", "0 thinking: a", "0 .", "1 text", "1 text: b"]
    assert client.relay(delta(0, text="c"), stop(0)).ends().told[-2:] == ["1 text: c", "1 ."]


def test_a_block_that_is_open_is_closed_before_another_kind_and_opened_again_behind_it() -> None:
    client = Client().relay(start(0, EMPTY_TEXT), delta(0, text="a")).write(delta(0, text="x"), (THINKING, "b"))
    client.relay(delta(0, text="c"), stop(0)).ends()
    texts = ["0 text", "0 text: a", "0 ."]
    assert client.told == [*texts, "1 thinking", "1 thinking: b", "1 .", "2 text", "2 text: c", "2 ."]


def test_the_last_piece_stays_in_its_frame_and_keeps_its_other_members() -> None:
    frame = event(
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}, "index": 0, "more": 1.10}
    )
    client = Client().relay(start(0, EMPTY_TEXT)).write(frame, (TEXT, "a"))
    assert json.loads(client.raw.splitlines()[-2][6:])["more"] == 1.10
    assert client.write(delta(0, text="x")).ends().told == ["0 text", "0 text: a", "0 ."]


@pytest.mark.parametrize("more", [b'"n":1.10,', b'"n" : 1E5 , '])
def test_an_event_whose_text_is_of_another_kind_now_keeps_its_other_members(more: bytes) -> None:
    frame = delta(0, text="x").replace(b'"type":"text_delta"', more + b'"type":"text_delta"')
    client = Client().relay(start(0, EMPTY_TEXT)).blocks
    _, data = client.write(message(frame), [(THINKING, "a")])
    assert data == b'{"type":"content_block_delta","delta":{%b"type":"thinking_delta","thinking":"a"},"index":0}' % more
    _, data = client.write(message(frame), [(TEXT, "b"), (THINKING, "c")])
    assert data == b'{"type":"content_block_delta","delta":{%b"type":"thinking_delta","thinking":"c"},"index":2}' % more


@pytest.mark.parametrize("kind", [EMPTY_TEXT, EMPTY_THOUGHT])
def test_a_block_of_the_engine_ends_with_the_engines_own_event(kind: dict[str, str]) -> None:
    text = delta(0, **{kind["type"]: "a"})
    blocks = (
        Client().relay(start(0, kind), text).write(text, (kind["type"], "b")).relay(stop(0)[:-3] + b',"n":1.10}\n\n')
    )
    assert blocks.blocks.close() == [b'{"type":"content_block_stop","index":0,"n":1.10}']
    waited = Client().relay(start(0, EMPTY_THOUGHT), delta(0, thinking="a"), stop(0)[:-3] + b',"n":1.10}\n\n')
    assert waited.blocks.says([(TEXT, "b")])[0] == b'{"type":"content_block_stop","index":0,"n":1.10}'


def test_an_end_that_waited_is_kept_back_while_the_thought_goes_on() -> None:
    client = Client().relay(start(0, EMPTY_THOUGHT), delta(0, thinking="a"), stop(0), start(1, EMPTY_TEXT))
    client.write(delta(1, text="x"), (THINKING, "b"), (TEXT, "c")).relay(stop(1)).ends()
    thought = ["0 thinking", "0 thinking: a", "0 thinking: b", "0 ."]
    assert client.told == [*thought, "1 text", "1 text: c", "1 ."]


# ---------------------------------------------------------------------- behind a change


def bent(*sent: bytes) -> Client:
    """A client that already has a block of ours, 0."""
    return Client().says((THINKING, "o")).relay(*sent)


def test_other_blocks_get_the_next_index_and_keep_their_events() -> None:
    client = bent(start(0, USE), delta(0, partial_json="{}"), stop(0), start(1, REDACTED), stop(1), PING).ends()
    assert client.told[2:] == ["0 .", "1 tool_use", "1 partial_json: {}", "1 .", "2 redacted_thinking", "2 ."]


def test_blocks_of_text_that_the_engine_keeps_apart_stay_apart() -> None:
    client = bent(start(0, EMPTY_TEXT), delta(0, text="a"), stop(0), start(1, EMPTY_TEXT), delta(1, text="b"), stop(1))
    assert client.ends().told[3:] == ["1 text", "1 text: a", "1 .", "2 text", "2 text: b", "2 ."]


def test_what_is_held_of_a_text_goes_into_its_block_behind_its_end() -> None:
    client = bent(start(0, EMPTY_TEXT), delta(0, text="a"), stop(0)).says((TEXT, "<"))
    assert client.ends().told[3:] == ["1 text", "1 text: a", "1 text: <", "1 ."]


def test_a_thought_that_the_engine_cuts_is_one_block() -> None:
    thought = [
        start(0, EMPTY_THOUGHT),
        delta(0, thinking="a"),
        stop(0),
        start(1, EMPTY_THOUGHT),
        delta(1, thinking="b"),
    ]
    client = bent(*thought, stop(1)).ends()
    assert client.told[2:] == ["0 .", "1 thinking", "1 thinking: a", "1 thinking: b", "1 ."]


def test_a_thought_of_the_engine_never_joins_one_of_ours() -> None:
    assert bent(start(0, EMPTY_THOUGHT), delta(0, thinking="a")).told[2:] == ["0 .", "1 thinking", "1 thinking: a"]


@pytest.mark.parametrize("kind", [THINKING, TEXT])
def test_a_start_with_text_in_it_is_said(kind: str) -> None:
    client = bent(start(0, {"type": "thinking", "thinking": "", "signature": "s"}))
    client = Client().says((kind, "o")).relay(start(0, {"type": kind, kind: "a"}), delta(0, **{kind: "b"})).ends()
    assert client.told == [f"0 {kind}", f"0 {kind}: o", "0 .", f"1 {kind}", f"1 {kind}: a", f"1 {kind}: b", "1 ."]


@pytest.mark.parametrize("kind", [THINKING, TEXT])
def test_a_start_with_text_in_it_may_say_something_else(kind: str) -> None:
    client = Client().relay(start(0, EMPTY_TEXT), delta(0, text="o"), stop(0))
    client.write(start(1, {"type": kind, kind: "x"}), (kind, "a")).ends()
    assert client.told[3:] == [f"1 {kind}", f"1 {kind}: a", "1 ."]
    client = Client().says((kind, "o")).write(start(0, {"type": kind, kind: "x"}), (kind, "a"), (kind, "b")).ends()
    assert client.told[2:] == ["0 .", f"1 {kind}", f"1 {kind}: a", f"1 {kind}: b", "1 ."]


def test_a_start_with_text_that_went_out_as_it_came_is_known() -> None:
    client = Client().relay(start(0, {"type": "text", "text": "a"})).says((THINKING, "t"), (TEXT, "b"))
    assert client.told[3:] == ["1 thinking: t", "1 .", "2 text", "2 text: b"]


def test_empty_deltas_and_those_of_blocks_that_the_client_does_not_have_are_left_out() -> None:
    assert bent(start(0, EMPTY_TEXT), delta(0, text=""), stop(0), delta(9, partial_json="x"), stop(9)).told[2:] == []


CITES = event({"type": "content_block_delta", "delta": {"type": "citations_delta", "citation": 1}, "index": 0})


def test_a_citation_opens_the_block_of_text_that_it_belongs_to() -> None:
    assert bent(start(0, EMPTY_TEXT), CITES).told[2:] == ["0 .", "1 text", "1 citation: 1"]


def test_an_index_is_told_from_one_in_a_tools_input() -> None:
    use = USE | {"input": {"index": 7}}
    client = bent(start(3, use), event({"type": "content_block_stop", "index": 3}))
    assert client.told[2:] == ["0 .", "1 tool_use", "1 ."]
    assert b'"input":{"index":7}' in client.raw
    assert b'"index": 1' not in client.raw


@pytest.mark.parametrize("space", ["", " ", "\t \r"])
def test_an_index_is_told_from_one_in_an_unknown_member_however_it_is_written(space: str) -> None:
    frame = f'data: {{"type":"content_block_stop","index"{space}:{space}3,"new":{{"index":7}}}}\n\n'.encode()
    _, data = bent(start(3, USE)).blocks.relay(message(frame))
    assert data == f'{{"type":"content_block_stop","index"{space}:{space}1,"new":{{"index":7}}}}'.encode()
    frame = f'data: {{"type":"content_block_stop","index"{space}:{space}3}}\n\n'.encode()
    assert bent(start(3, USE)).blocks.relay(message(frame))[1] == frame[6:-2].replace(b"3", b"1")


# ---------------------------------------------------------------------- calls of ours


def test_a_call_is_a_block_and_its_arguments_may_come_later() -> None:
    client = Client().says(
        (TOOL_USE, NumberedCall(0, "c", "f", "")), (TOOL_USE, NumberedCall(0, "", "", "{", more=True))
    )
    client.says((TOOL_USE, MORE), (TOOL_USE, NumberedCall(1, "d", "g", "{}"))).ends()
    assert client.told[:4] == ["0 tool_use", "0 partial_json: {", "0 partial_json: }", "0 ."]
    assert client.told[4:] == ["1 tool_use", "1 partial_json: {}", "1 ."]
    assert b'{"type":"tool_use","id":"c","name":"f","input":{}}' in client.raw


def test_a_call_takes_the_place_of_text() -> None:
    client = Client().relay(start(0, EMPTY_TEXT), delta(0, text="a"))
    client.write(delta(0, text="x"), (TOOL_USE, NumberedCall(0, "c", "f", "{}"))).relay(stop(0)).ends()
    assert client.told[2:] == ["0 .", "1 tool_use", "1 partial_json: {}", "1 ."]


def test_arguments_that_are_empty_need_no_event() -> None:
    assert input_delta(3, "") == []


def test_what_is_said_before_a_call_of_the_engine_stands_before_it() -> None:
    client = Client().relay(start(0, EMPTY_TEXT)).write(delta(0, text="<")).write(start(1, USE), (TEXT, "<"))
    assert client.relay(stop(1)).ends().told == ["0 text", "0 text: <", "0 .", "1 tool_use", "1 ."]


# ---------------------------------------------------------------------- signatures


def test_a_signature_ends_a_block_for_text_of_ours() -> None:
    client = bent(start(0, EMPTY_THOUGHT), delta(0, thinking="a"), delta(0, signature="s")).says((THINKING, "b"))
    signed = ["1 thinking", "1 thinking: a", "1 signature: s", "1 ."]
    assert client.relay(stop(0)).ends().told[3:] == [*signed, "2 thinking", "2 thinking: b", "2 ."]


def test_the_end_of_a_signed_block_goes_out_at_once() -> None:
    client = bent(start(0, EMPTY_THOUGHT), delta(0, thinking="a"), delta(0, signature="s"), stop(0))
    assert client.told[-1] == "1 ."


def test_a_signed_thought_is_closed_for_text_after_it_as_it_came() -> None:
    client = Client().relay(start(0, EMPTY_THOUGHT), delta(0, thinking="a"), delta(0, signature="s"))
    assert client.says((THINKING, "b")).ends().told[2:] == [
        "0 signature: s",
        "0 .",
        "1 thinking",
        "1 thinking: b",
        "1 .",
    ]


def test_a_thought_that_is_not_shown_is_signed_all_the_same() -> None:
    client = bent(start(0, EMPTY_THOUGHT), delta(0, signature="s"), stop(0)).ends()
    assert client.told[2:] == ["0 .", "1 thinking", "1 signature: s", "1 ."]


def test_a_thought_that_went_elsewhere_is_not_signed() -> None:
    client = Client().relay(start(0, EMPTY_THOUGHT)).write(delta(0, thinking="a"), (TEXT, "a"))
    assert client.relay(delta(0, signature="s"), stop(0)).ends().told == ["0 text", "0 text: a", "0 ."]


def held(*rest: bytes) -> Client:
    """A client that has the thought `a`, of which ` <` is held at its signature."""
    client = Client().relay(start(0, EMPTY_THOUGHT)).write(delta(0, thinking="a <"), (THINKING, "a"))
    return client.write(delta(0, thinking="t")).relay(delta(0, signature="s"), stop(0), *rest)


WAITED = ["0 thinking", "0 thinking: a"]


def test_a_signature_waits_for_what_is_held_and_nothing_else_gets_before_it() -> None:
    assert held().told == WAITED
    client = held(start(1, EMPTY_TEXT)).write(delta(1, text="x"), (THINKING, " <tb"), (TEXT, "c")).ends()
    signed = ["0 thinking:  <t", "0 signature: s", "0 ."]
    assert client.told == [*WAITED, *signed, "1 thinking", "1 thinking: b", "1 .", "2 text", "2 text: c", "2 ."]


def test_a_signature_that_waited_comes_before_text_that_was_not_held() -> None:
    client = held(start(1, EMPTY_TEXT)).write(delta(1, text="x"), (THINKING, "b")).ends()
    assert client.told == [*WAITED, "0 signature: s", "0 .", "1 thinking", "1 thinking: b", "1 ."]
    assert held(start(1, EMPTY_TEXT), delta(1, text="b")).told == [
        *WAITED,
        "0 signature: s",
        "0 .",
        "1 text",
        "1 text: b",
    ]


def test_a_thought_that_goes_on_behind_a_signature_that_waited_is_a_block_of_its_own() -> None:
    client = held(start(1, EMPTY_THOUGHT)).write(delta(1, thinking="b"), (THINKING, " <tb")).relay(stop(1)).ends()
    signed = ["0 thinking:  <t", "0 signature: s", "0 ."]
    assert client.told == [*WAITED, *signed, "1 thinking", "1 thinking: b", "1 ."]


def test_a_thought_that_was_held_whole_gets_its_block_and_its_signature() -> None:
    client = (
        Client().relay(start(0, EMPTY_THOUGHT)).write(delta(0, thinking="a")).relay(delta(0, signature="s"), stop(0))
    )
    client.relay(start(1, EMPTY_TEXT)).write(delta(1, text="b"), (THINKING, "a"), (TEXT, "b")).ends()
    assert client.told == ["0 thinking", "0 thinking: a", "0 signature: s", "0 .", "1 text", "1 text: b", "1 ."]


def test_a_thought_that_was_held_whole_and_is_text_after_all_is_not_signed() -> None:
    client = (
        Client().relay(start(0, EMPTY_THOUGHT)).write(delta(0, thinking="a")).relay(delta(0, signature="s"), stop(0))
    )
    assert client.says((TEXT, "a")).ends().told == ["0 text", "0 text: a", "0 ."]


# ---------------------------------------------------------------------- hidden


def test_no_block_of_a_hidden_thought_is_known_to_the_client() -> None:
    client = Client(hides=True).relay(start(0, EMPTY_THOUGHT)).write(delta(0, thinking="a"))
    client.relay(
        delta(0, signature="s"), stop(0), start(1, REDACTED), stop(1), start(2, EMPTY_TEXT), delta(2, text="b")
    )
    assert client.relay(stop(2)).ends().told == ["0 text", "0 text: b", "0 ."]
