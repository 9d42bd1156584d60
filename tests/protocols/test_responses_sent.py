"""Items as the client of a Responses stream has them: one at a time, each ended before the next, calls whole.

`legal` is the checker written from OpenAI's reference of the streaming events.
"""

from __future__ import annotations

import json
from typing import Any

from gateway.protocols.legal.responses import violations
from gateway.protocols.protocol import CallChange, Message, NumberedCall
from gateway.protocols.responses_items import OUTPUT, Item, TextPart
from gateway.protocols.responses_sent import SentItems
from gateway.protocols.responses_told import Told
from tests.support.responses import event, heard, response, stream


class Client:
    """What was sent, and what the engine told before it."""

    def __init__(self) -> None:
        self.sent = SentItems()
        self.told = Told(drops=False)
        self.events: list[dict[str, Any]] = []
        self.take(self.sent.out.own("response.created", None, {"response": json.dumps(response([], "")).encode()}))

    def take(self, data: bytes | None = None) -> None:
        own, self.sent.own = self.sent.own, []
        self.events += [json.loads(each) for each in (*own, *((data,) if data else ()))]

    def hear(self, frames: list[bytes], changes: dict[str, CallChange] | None = None) -> None:
        """The engine's events of a call. `changes`: by the type of the event."""
        for frame in frames:
            data = frame.partition(b"data: ")[2].strip()
            message = Message(data, json.loads(data), [], False, False)
            kind = message.value["type"]
            item, _ = self.told.note(message)
            if item and not item.gone:
                self.take(self.sent.call_event(kind, message, item, (changes or {}).get(kind.rpartition(".")[2])))

    def legal(self) -> Client:
        assert violations(b"".join(map(event, self.events)), ended=False) == []
        return self

    @property
    def calls(self) -> list[tuple[str, str]]:
        return heard(self.events)[2]


def call(*pieces: str, name: str = "f") -> list[bytes]:
    """The frames of a call of the engine's."""
    return stream([("call", ("c1", name, list(pieces)))])[2:-1]


def test_an_item_ends_before_the_next_one_begins() -> None:
    client = Client()
    for ident in ("msg_a", "msg_b"):
        item = Item("message", ident, ours=True, parts=[TextPart(OUTPUT, 0, 0, OUTPUT.around)])
        client.sent.begin(item)
        client.take(client.sent.out.open_part(item, item.parts[0]))
    assert [item.closed for item in client.sent.items] == [True, False]
    client.sent.close()
    client.take()
    client.sent.close()
    client.take()
    assert [event["type"] for event in client.legal().events].count("response.output_item.done") == 2
    assert client.sent.open is None


def test_a_call_of_ours_is_one_whole_item() -> None:
    client = Client()
    client.sent.call(NumberedCall(0, "call_1", "f", '{"a": 1}'), "resp_1")
    client.take()
    done = client.legal().events[-1]["item"]
    assert done | {"call_id": "call_1", "name": "f", "arguments": '{"a": 1}', "status": "completed"} == done
    assert client.sent.open is None


def test_a_call_that_comes_in_pieces_is_open_until_something_else_begins() -> None:
    client = Client()
    client.sent.call(NumberedCall(0, "call_1", "f", ""), "resp_1")
    for piece in ('{"a"', ": 1}"):
        client.sent.call(NumberedCall(0, "", "", piece, more=True), "resp_1")
    assert client.sent.open is client.sent.items[0]
    client.sent.call(NumberedCall(1, "call_2", "g", "{}"), "resp_1")
    client.take()
    assert client.legal().calls == [("f", '{"a": 1}'), ("g", "{}")]
    assert len({item.ident for item in client.sent.items}) == 2


def test_more_of_a_call_that_is_not_open_is_a_call() -> None:
    client = Client()
    client.sent.call(NumberedCall(0, "", "", "{}", more=True), "resp_1")
    client.sent.close()
    client.take()
    assert client.legal().calls == [("", "{}")]


def test_a_call_of_the_engines_keeps_its_bytes_where_nothing_changes() -> None:
    client = Client()
    client.sent.out.sequence = 2
    frames = call('{"a"', ": 1}")
    client.hear(frames)
    assert client.events[1:] == [json.loads(frame.partition(b"data: ")[2]) for frame in frames]


def test_a_repaired_call_says_the_same_in_every_event() -> None:
    client = Client()
    changes = {"added": CallChange(name="g", arguments="{}"), "delta": CallChange(gone=True)}
    client.hear(call("{", "}}", name="f"), changes)
    assert client.legal().calls == [("g", "{}")]
    assert client.events[-1]["item"]["name"] == "g"
    assert [event["name"] for event in client.events if event["type"].endswith("arguments.done")] == ["g"]


def test_arguments_may_change_in_a_later_piece_and_a_name_may_stay() -> None:
    client = Client()
    client.hear(call("{", "}"), {"added": CallChange(name="f", arguments=""), "delta": CallChange(arguments="[]")})
    assert client.legal().calls == [("f", "[][]")]


def test_a_call_that_only_gets_another_number_keeps_its_bytes() -> None:
    client, moved = Client(), CallChange(index=1)
    client.sent.out.sequence = 2
    frames = call('{"a"', ": 1}")
    client.hear(frames, {"added": moved, "delta": moved, "done": moved})
    assert client.events[1:] == [json.loads(frame.partition(b"data: ")[2]) for frame in frames]


def test_a_call_that_is_not_wanted_leaves_no_event_and_no_number() -> None:
    client = Client()
    client.hear(call("{}"), {"added": CallChange(gone=True)})
    client.hear(call("{}")[-1:], {"done": CallChange(gone=True)})
    assert (len(client.events), client.sent.items, client.sent.out.index) == (1, [], 0)


def test_arguments_that_only_the_end_tells_get_a_piece_of_their_own() -> None:
    for frames in (call()[:-2], call()[:-2]):
        client = Client()
        ends = [frame.replace(b'"arguments":""', b'"arguments":"{}"') for frame in call()[-2:]]
        client.hear([*frames, *ends])
        assert client.legal().calls == [("f", "{}")]
    client = Client()
    client.hear([*call()[:-2], *ends], {"done": CallChange(arguments="[]")})
    assert client.legal().calls == [("f", "[]")]


def test_a_call_that_only_its_end_tells_is_announced() -> None:
    for change, wanted in ((None, ("f", "{}")), (CallChange(name="g", arguments="[]"), ("g", "[]"))):
        client = Client()
        client.hear(call("{}")[-1:], {"done": change} if change else None)
        assert client.legal().calls == [wanted]
        assert client.events[-1]["item"]["arguments"] == wanted[1]


def test_what_an_item_came_to_is_what_ended_it_or_all_that_went_out() -> None:
    sent = SentItems()
    passed = Item("message", "msg_1", 0, closed=True, done=b'{"item":{"id":"msg_1","n":1.10}}')
    assert sent.final(passed) == b'{"id":"msg_1","n":1.10}'
    assert sent.final(passed) is passed.final
    opened = Item("message", "msg_2", 1, parts=[TextPart(OUTPUT, 0, 0, OUTPUT.around, texts=["a"])])
    assert json.loads(sent.final(opened))["status"] == "incomplete"


def test_a_part_of_another_kind_is_ended_by_the_engine() -> None:
    sent = SentItems()
    item = Item("message", "msg_1", 0, parts=[TextPart(None, 0, 0, OUTPUT.around, open=True)])
    sent.close_parts(item)
    assert sent.own == []
