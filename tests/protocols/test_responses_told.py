"""What the events of a Responses stream tell of its items (reference/vllm.md 3.5, sglang.md 3.5)."""

from __future__ import annotations

import json
from typing import Any

from gateway.protocols.protocol import Message
from gateway.protocols.responses_items import OLD_THOUGHT, OUTPUT, SUMMARY, THOUGHT, Item, TextPart
from gateway.protocols.responses_told import Told, part_of
from tests.support.responses import Piece, stream


def noted(frames: list[bytes], *, drops: bool = False) -> tuple[Told, list[tuple[Item | None, TextPart | None]]]:
    """The events of these frames, told, and what each is about."""
    told = Told(drops=drops)
    return told, [told.note(message(frame)) for frame in frames]


def message(frame: bytes | dict[str, Any]) -> Message:
    data = json.dumps(frame).encode() if isinstance(frame, dict) else frame.partition(b"data: ")[2].strip()
    return Message(data, json.loads(data), [], False, False)


EVERYTHING: list[Piece] = [
    ("commentary", "x"),
    ("reasoning", "a"),
    ("content", "b"),
    ("refusal", "no"),
    ("call", ("c1", "f", ["{}"])),
    ("other", {"id": "ws", "type": "web_search_call"}),
]


def test_items_are_known_by_their_number_with_what_announced_and_ended_them() -> None:
    told, _ = noted(stream(EVERYTHING))
    kinds = ["message", "reasoning", "message", "message", "function_call", "web_search_call"]
    assert [item.kind for item in told.items.values()] == kinds
    assert [item.ident for item in told.items.values()] == ["msg_0", "rs_1", "msg_2", "msg_3", "fc_4", "ws"]
    assert [json.loads(item.added)["type"] for item in told.items.values()] == ["response.output_item.added"] * 6
    assert [json.loads(item.done)["type"] for item in told.items.values()] == ["response.output_item.done"] * 6
    assert [item.name for item in told.items.values()] == [None, None, None, None, "f", None]
    assert [item.silent for item in told.items.values()] == [True, False, False, False, False, False]
    assert [item.spoke for item in told.items.values()] == [True, True, True, False, False, False]
    assert not any(item.gone for item in told.items.values())


def test_only_progress_is_not_to_go_out() -> None:
    told, _ = noted(stream(EVERYTHING), drops=True)
    assert [item.gone for item in told.items.values()] == [True, False, False, False, False, False]


def test_a_part_has_the_events_around_it() -> None:
    told, about = noted(stream([("content", "a")]))
    [part] = told.items[0].parts
    assert (part.style, part.place, part.source, part.holder) == (OUTPUT, 0, 0, "content")
    types = [json.loads(data)["type"] for data in (part.added, part.text_done, part.part_done)]
    assert types == ["response.content_part.added", "response.output_text.done", "response.content_part.done"]
    assert [found is part for _, found in about] == [False] * 3 + [True] * 4 + [False] * 2


def test_the_engines_way_to_write_a_thought_is_known() -> None:
    for shape, style in (({}, THOUGHT), ({"old": True}, OLD_THOUGHT), ({"summary": True}, SUMMARY)):
        told, _ = noted(stream([("content", "a"), ("reasoning", "b")], **shape))
        [part] = told.items[1].parts
        assert (told.thought, part.around, part.holder) == (style, style.around, style.holder)


def test_a_refusal_is_a_part_that_is_not_read() -> None:
    told, _ = noted(stream([("refusal", "no")]))
    assert [part.style for part in told.items[0].parts] == [None]


def test_the_response_is_known_by_its_latest_event_and_its_id_by_the_first() -> None:
    told, _ = noted(stream([])[:1])
    assert (told.answer, json.loads(told.response)["type"]) == ("resp_1", "response.created")
    told.note(message({"type": "response.completed", "response": {"id": "resp_2"}}))
    assert (told.answer, json.loads(told.response)["type"]) == ("resp_1", "response.completed")
    assert noted([])[0].answer == ""


def test_items_that_nothing_announced_are_told_by_their_text_or_their_end() -> None:
    where = {"item_id": "msg_1", "output_index": 0}
    text = {"type": "response.output_text.delta", **where, "delta": "a"}
    told, [(item, part)] = noted([]), [(None, None)]
    told = told[0]
    item, part = told.note(message(text))
    assert item and part
    assert (item.kind, item.ident, item.added, part.place) == ("message", "msg_1", b"", 0)
    done = {"type": "response.output_item.done", "output_index": 1, "item": {"type": "function_call", "name": "f"}}
    item, part = told.note(message(done))
    assert item and not part
    assert (item.kind, item.ident, item.name, item.added) == ("function_call", "", "f", b"")
    other = {"type": "response.web_search_call.searching", "output_index": 2, "item_id": "ws"}
    item, _ = told.note(message(other))
    assert item
    assert (item.kind, item.ident) == ("", "ws")


def test_events_that_are_about_no_item_are_about_nothing() -> None:
    for value in ({"type": "response.in_progress"}, {"type": "x", "output_index": "0"}, {"error": {}}):
        assert Told(drops=False).note(message(value)) == (None, None)


def test_parts_of_an_item_of_ours_count_from_its_beginning() -> None:
    theirs, ours = Item("message", "msg_1"), Item("message", "msg_2", ours=True)
    assert [part_of(item, OUTPUT, 3).place for item in (theirs, ours)] == [3, 0]
    assert part_of(ours, OUTPUT, 3) is ours.parts[0]
    assert part_of(ours, None, 4).place == 1
