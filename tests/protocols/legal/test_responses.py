"""Streams of Responses: items in order, each end says what the deltas said (gateway.protocols.legal.responses)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.protocols.legal.responses import violations
from tests.support.responses import event, stream

DONE = b"data: [DONE]\n\n"
PIECES = [("reasoning", "a"), ("content", "b"), ("content", "c"), ("call", ("c1", "f", ["{", "}"]))]
STREAM = stream(PIECES, tokens=True)
VALUES: list[dict[str, Any]] = [json.loads(frame.partition(b"data: ")[2]) for frame in STREAM]
THOUGHT, TEXT, CALL = 2, 8, 15
"""Where the items are announced; the terminal event is the last."""
UNKNOWN = event({"type": "response.output_text.annotation.added", "sequence_number": 2, "output_index": 0})
LAST = len(VALUES) - 1


def read(values: list[dict[str, Any]], *, ended: bool = True, ids: bool = True) -> list[str]:
    return violations(b"".join(map(event, values)), ended=ended, ids=ids)


def changed(place: int, change: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
    """The stream with one event changed."""
    values: list[dict[str, Any]] = json.loads(json.dumps(VALUES))
    change(values[place])
    return values


def without(place: int) -> list[dict[str, Any]]:
    """The stream without one event, numbered again."""
    left = [*VALUES[:place], *VALUES[place + 1 :]]
    return [{**value, "sequence_number": number} for number, value in enumerate(left)]


def twice(place: int) -> list[dict[str, Any]]:
    """The stream with one event twice, numbered again."""
    more = [*VALUES[: place + 1], *VALUES[place:]]
    return [{**value, "sequence_number": number} for number, value in enumerate(more)]


def test_the_stream_is_the_one_that_the_places_are_of() -> None:
    kinds = ["reasoning", "message", "function_call"]
    assert [VALUES[place]["item"]["type"] for place in (THOUGHT, TEXT, CALL)] == kinds


@pytest.mark.parametrize(
    "frames",
    [
        STREAM,
        [*STREAM, DONE],
        stream([("refusal", "no")]),
        stream([("reasoning", "a")], old=True),
        stream([("reasoning", "a"), ("content", "b")], summary=True),
        stream([("other", {"type": "web_search_call", "id": "ws_1"})]),
        stream([("content", "a")], status="incomplete"),
        stream([("content", "a")], status="failed"),
        [*STREAM[:4], event({"type": "error", "message": "it broke", "sequence_number": 4})],
        [*STREAM[:2], UNKNOWN, event({"type": "response.failed", "response": {}, "sequence_number": 3})],
    ],
)
def test_a_stream_as_the_reference_has_it_is_legal(frames: list[bytes]) -> None:
    assert violations(b"".join(frames)) == []


def test_a_step_of_a_text_that_is_not_known_is_let_pass() -> None:
    more = {"type": "response.output_text.other", "output_index": 1}
    values = [*VALUES[: TEXT + 2], more, *VALUES[TEXT + 2 :]]
    assert read([{**value, "sequence_number": number} for number, value in enumerate(values)]) == []


def test_a_server_that_names_the_items_otherwise_at_the_end_is_let_do_so_where_ids_are_not_judged() -> None:
    renamed = changed(LAST, lambda value: value["response"]["output"][0].update(id="other"))
    assert read(renamed, ids=False) == []
    assert read(renamed) == [f"event {LAST} response.completed: the response has other items than the events told"]


@pytest.mark.parametrize(
    ("values", "place", "wrong"),
    [
        (without(0), 0, "the stream does not begin with its creation"),
        (VALUES[:-1], None, "the stream does not end with its last event, or with an error"),
        (twice(LAST), LAST + 1, "it comes behind response.completed"),
        (changed(3, lambda value: value.update(sequence_number=7)), 3, "it is numbered 7"),
        (changed(TEXT, lambda value: value.update(output_index=5)), TEXT, "its index is 5"),
        (changed(TEXT, lambda value: value["item"].update(status="completed")), TEXT, "the item begins as 'completed'"),
        (twice(TEXT), TEXT + 1, "an item is still open"),
        (twice(TEXT), TEXT + 1, "the item has no id of its own"),
        (without(TEXT), TEXT, "there is no item 1"),
        (twice(TEXT - 1), TEXT, "item 0 is over"),
        (changed(TEXT + 1, lambda value: value.update(item_id="x")), TEXT + 1, "it names item 1 otherwise"),
        (changed(TEXT - 1, lambda value: value["item"].update(id="x")), TEXT - 1, "it is another item"),
        (without(TEXT - 2), TEXT - 2, "a part of the item is open"),
        (
            changed(TEXT - 1, lambda value: value["item"]["content"][0].update(text="x")),
            TEXT - 1,
            "the item has other content than its deltas said",
        ),
        (twice(TEXT + 1), TEXT + 2, "part 0 is announced twice"),
        (twice(TEXT + 1), TEXT + 2, "another part is open"),
        (changed(TEXT + 1, lambda value: value["part"].update(text="x")), TEXT + 1, "the part begins with text"),
        (without(TEXT + 1), TEXT + 1, "there is no part 0"),
        (changed(TEXT + 2, lambda value: value.update(content_index="x")), TEXT + 2, "there is no part -1"),
        (without(TEXT + 4), TEXT + 4, "the text of the part is not over, or the part is"),
        (
            changed(TEXT + 5, lambda value: value["part"].update(text="x")),
            TEXT + 5,
            "the part has other text than its deltas said",
        ),
        (
            changed(3, lambda value: value["part"].update(type="output_text")),
            4,
            "the text of the part is over, or of another kind",
        ),
        (changed(THOUGHT, lambda value: value["item"].update(type="message")), 4, "the item is of type 'message'"),
        (
            changed(TEXT + 2, lambda value: value["logprobs"][0].update(token="x")),
            TEXT + 2,
            "its tokens are of other text",
        ),
        (changed(TEXT + 4, lambda value: value.update(text="x")), TEXT + 4, "it has other text than the deltas said"),
        (without(TEXT + 5), TEXT + 5, "a part of the item is open"),
        (changed(CALL, lambda value: value["item"].update(type="x")), CALL + 1, "there is no call that is open"),
        (
            changed(CALL + 3, lambda value: value.update(arguments="x")),
            CALL + 3,
            "it has other arguments than the deltas said",
        ),
        (without(CALL + 3), CALL + 3, "the item has other arguments than its deltas said"),
        (without(CALL + 4), LAST - 1, "an item is open"),
    ],
)
def test_what_is_not_legal_is_said_with_its_event(values: list[dict[str, Any]], place: int | None, wrong: str) -> None:
    where = "end" if place is None else f"event {place} {values[place]['type']}"
    assert f"{where}: {wrong}" in read(values)


def test_a_frame_is_named_as_its_event() -> None:
    renamed = STREAM[1].replace(b"event: response.in_progress", b"event: response.created")
    body = STREAM[0] + renamed + b"".join(STREAM[2:])
    assert violations(body) == ["event 1 response.in_progress: its frame is named 'response.created'"]


def test_done_is_no_end_of_a_response() -> None:
    assert violations(b"".join(STREAM[:4]) + DONE) == ["event 4 [DONE]: there was no terminal event"]


def test_of_a_part_of_a_stream_the_end_is_not_judged() -> None:
    for end in range(len(STREAM)):
        assert violations(b"".join(STREAM[:end]), ended=False) == []


def test_an_item_that_is_none_ends_all_the_same() -> None:
    found = read(changed(TEXT - 1, lambda value: value.update(item=None)))
    assert f"event {TEXT - 1} response.output_item.done: it is another item" in found
