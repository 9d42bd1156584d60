"""Events of items and parts as they are written (OpenAI's reference of the streaming events; reference/vllm.md 3.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocols.responses_items import (
    CALL,
    MESSAGE,
    OLD_THOUGHT,
    OUTPUT,
    SUMMARY,
    THOUGHT,
    Item,
    ItemWriter,
    Style,
    TextPart,
    check_item,
    derived_id,
    final_item,
    final_part,
    inside,
    new_call,
    new_item,
    new_part,
    parts_saying,
    told,
)

REASONING = "reasoning"


def part(style: Style | None = OUTPUT, *, place: int = 0, **given: Any) -> TextPart:
    """A part with these members."""
    made = TextPart(style, place, place, (style or OUTPUT).around)
    for name, value in given.items():
        setattr(made, name, value)
    return made


def event(kind: str, **members: Any) -> bytes:
    """An event of the engine, as it writes JSON."""
    return json.dumps({"type": kind, **members}, separators=(",", ":")).encode()


def values(*events: bytes) -> list[dict[str, Any]]:
    return [json.loads(each) for each in events]


# ---------------------------------------------------------------------- items of our own


@pytest.mark.parametrize(
    ("style", "kind", "holder", "number", "said"),
    [
        (OUTPUT, MESSAGE, "content", "content_index", "output_text"),
        (THOUGHT, REASONING, "content", "content_index", "reasoning_text"),
        (OLD_THOUGHT, REASONING, "content", "content_index", "reasoning_text"),
        (SUMMARY, REASONING, "summary", "summary_index", "summary_text"),
    ],
)
def test_an_item_of_ours_has_every_event_of_an_engines(
    style: Style, kind: str, holder: str, number: str, said: str
) -> None:
    out, item, text = ItemWriter(), Item(kind, "x_1", 0, ours=True), part(style)
    item.parts.append(text)
    sent = [out.open_item(item), out.open_part(item, text), out.delta(item, text, "ab", [])]
    text.texts.append("ab")
    sent += [*out.close_part(item, text), out.close_item(item)]
    added, part_added, delta, text_done, part_done, done = values(*sent)
    assert [each["type"] for each in (added, part_added, delta, text_done, part_done, done)] == [
        "response.output_item.added",
        f"{style.around}.added",
        f"{style.text}.delta",
        f"{style.text}.done",
        f"{style.around}.done",
        "response.output_item.done",
    ]
    assert [each["sequence_number"] for each in values(*sent)] == [0, 1, 2, 3, 4, 5]
    where = {"item_id": "x_1", "output_index": 0, number: 0}
    assert all(each | where == each for each in (part_added, delta, text_done, part_done))
    assert (added["item"]["id"], added["item"]["status"], done["item"]["status"]) == ("x_1", "in_progress", "completed")
    assert (part_added["part"]["text"], part_added["part"]["type"], delta["delta"]) == ("", said, "ab")
    assert (text_done["text"], part_done["part"]["text"], done["item"][holder]) == ("ab", "ab", [part_done["part"]])
    assert ("logprobs" in delta, "logprobs" in text_done) == (style is OUTPUT, style is OUTPUT)
    assert item.closed and not text.open


def test_what_is_told_of_an_item_is_its_text_or_its_call() -> None:
    thought = {"type": REASONING, "content": [{"type": "reasoning_text", "text": "a"}], "summary": []}
    short = {"type": REASONING, "content": None, "summary": [{"type": "summary_text", "text": "b"}]}
    call = {"type": CALL, "name": "f", "arguments": "{}", "call_id": "c"}
    message = {"type": MESSAGE, "content": [{"type": "output_text", "text": "c"}, {"type": "refusal", "refusal": "d"}]}
    assert told(thought) == (REASONING, "a")
    assert told(short) == (REASONING, "b")
    assert told(call) == (CALL, "f", "{}")
    assert told(message) == (MESSAGE, "c")
    assert told({"type": "mcp_call"}) == told({"type": MESSAGE, "content": []}) == ()


def test_ids_of_ours_follow_from_the_answer_and_the_place() -> None:
    ids = {derived_id(kind, answer, n) for kind in (REASONING, MESSAGE, CALL) for answer in "ab" for n in range(3)}
    assert len(ids) == 18
    assert derived_id(CALL, "a", 0) == derived_id(CALL, "a", 0)
    assert {each.split("_")[0] for each in ids} == {"rs", "msg", "fc"}


# ---------------------------------------------------------------------- the engine's own events


def test_an_event_that_fits_keeps_its_bytes() -> None:
    out, item = ItemWriter(), Item(MESSAGE, "msg_1", 0)
    data = event("x", item_id="msg_1", output_index=0, content_index=0, sequence_number=0)
    assert out.placed(data, item, part()) is data
    assert out.sequence == 1


def test_an_event_is_put_in_its_place_and_every_other_byte_stays() -> None:
    out, item = ItemWriter(), Item(MESSAGE, "msg_2", 3)
    out.sequence = 9
    data = b'{"type":"x", "item_id":"msg_1","output_index":1,"content_index":2,"n":1.10,"sequence_number":5}'
    wanted = b'{"type":"x", "item_id":"msg_2","output_index":3,"content_index":1,"n":1.10,"sequence_number":9}'
    assert out.placed(data, item, part(place=1)) == wanted
    assert out.placed(b'{"summary_index":1}', None, part(SUMMARY)) == b'{"summary_index":0}'
    assert out.placed(b'{"content_index":1}', None, part(None)) == b'{"content_index":0}'


def test_an_item_that_nobody_was_told_of_places_nothing() -> None:
    assert ItemWriter().placed(b'{"output_index":7}', Item(MESSAGE, "m")) == b'{"output_index":7}'


def test_numbers_go_on_from_what_came_and_are_left_out_where_the_engine_has_none() -> None:
    out = ItemWriter()
    out.came({"sequence_number": 6})
    assert json.loads(out.own("x", None, {}))["sequence_number"] == 7
    for unnumbered in (ItemWriter(), ItemWriter()):
        unnumbered.came({})
        assert b"sequence_number" not in unnumbered.own("x", None, {})
    out.placed(b"{}")
    assert b"sequence_number" not in out.own("x", None, {})


def test_the_engines_events_around_a_text_tell_what_went_out() -> None:
    out, item = ItemWriter(), Item(MESSAGE, "msg_1", 0)
    text = part(
        added=event("response.content_part.added", part={"type": "output_text", "text": "", "n": 1}),
        text_done=event("response.output_text.done", text="a</x>", logprobs=[{"token": "a"}], n=2),
        part_done=event("response.content_part.done", part={"type": "output_text", "text": "a</x>", "n": 3}),
        texts=["a"],
        tokens=[b'{"token":"a"}'],
    )
    item.parts.append(text)
    item.added = event("response.output_item.added", item={"id": "msg_1", "status": "in_progress", "n": 4})
    item.done = event("response.output_item.done", item={"id": "msg_1", "status": "completed", "content": [], "n": 5})
    assert json.loads(out.open_item(item))["item"]["n"] == 4
    assert json.loads(out.open_part(item, text))["part"]["n"] == 1
    ended, part_ended, item_ended = values(*out.close_part(item, text), out.close_item(item))
    assert (ended["text"], ended["n"], ended["logprobs"]) == ("a", 2, [{"token": "a"}])
    assert part_ended["part"] == {"type": "output_text", "text": "a", "n": 3}
    assert item_ended["item"] == {"id": "msg_1", "status": "completed", "content": [part_ended["part"]], "n": 5}


def test_events_that_tell_the_text_already_keep_their_bytes() -> None:
    out, item = ItemWriter(), Item(MESSAGE, "msg_1", 0)
    said = {"type": "output_text", "text": "a", "logprobs": None}
    text = part(
        text_done=event("response.output_text.done", text="a", logprobs=[]),
        part_done=event("response.content_part.done", part=said),
        texts=["a"],
        open=True,
    )
    item.parts.append(text)
    item.done = event("response.output_item.done", item={"id": "msg_1", "content": [said]})
    assert [*out.close_part(item, text), out.close_item(item)] == [text.text_done, text.part_done, item.done]


def test_the_arguments_of_a_call_end_with_all_that_went_out() -> None:
    item = Item(CALL, "fc_1", 0, name="f", arguments=["{", "}"])
    [done] = values(ItemWriter().close_arguments(item))
    said = {"name": "f", "arguments": "{}", "item_id": "fc_1", "output_index": 0}
    assert done | said == done
    nameless = Item(CALL, "fc_1", 0)
    assert json.loads(ItemWriter().close_arguments(nameless))["name"] == ""


# ---------------------------------------------------------------------- what an item comes to


def test_a_call_comes_to_what_went_out() -> None:
    item = Item(CALL, "fc_1", 0, name="g", arguments=["{}"])
    item.done = event("x", item={"id": "fc_1", "name": "f", "arguments": "{}}", "call_id": "c", "status": "completed"})
    assert final_item(item, "incomplete") == inside(item.done, "item").replace(b'"f"', b'"g"').replace(b"{}}", b"{}")
    item.name = None
    assert b'"name":"f"' in final_item(item, "incomplete")


def test_an_item_that_was_not_ended_has_the_status_given() -> None:
    item = Item(MESSAGE, "msg_1", 0, parts=[part(texts=["a"], open=True)])
    assert json.loads(final_item(item, "incomplete"))["status"] == "incomplete"
    item.added = event("x", item={"id": "msg_0", "status": "in_progress", "phase": None})
    value = json.loads(final_item(item, "incomplete"))
    assert (value["id"], value["status"], value["content"][0]["text"]) == ("msg_1", "incomplete", "a")


def test_parts_that_nobody_was_told_of_are_not_in_it() -> None:
    item = Item(MESSAGE, "msg_1", 0, parts=[part(), part(place=1, texts=["a"])])
    assert [each["text"] for each in json.loads(final_item(item, "completed"))["content"]] == ["a"]
    assert json.loads(final_item(Item(MESSAGE, "msg_1", 0), "completed"))["content"] == []


def test_parts_that_say_something_else_keep_what_only_they_tell() -> None:
    own = b'{ "type":"output_text","text":"x","logprobs":[{"token":"x"}],"n":1.10 }'
    item = Item(MESSAGE, "msg_1", 0, parts=[part(texts=["a"], final=new_part(OUTPUT, "a"))])
    item.done = b'{"type":"x","item":{"id":"msg_1","content":[%b],"n":1E5}}' % own
    said = own.replace(b'"text":"x"', b'"text":"a"').replace(b'[{"token":"x"}]', b"[]")
    assert final_item(item, "completed") == b'{"id":"msg_1","content":[%b],"n":1E5}' % said
    item.parts[0].final = b'{"type":"output_text","text":"a"}'
    assert inside(final_item(item, "completed"), "content", 0) == b'{ "type":"output_text","text":"a","n":1.10 }'


def test_parts_that_are_not_the_same_ones_are_those_that_went_out() -> None:
    text, refusal = new_part(OUTPUT, "a"), b'{"type":"refusal","refusal":"no"}'
    for own in ([], [refusal, text], [text, text, refusal]):
        assert parts_saying(own, [text, refusal]) == b"[%b,%b]" % (text, refusal)
    assert parts_saying([text, b'{"type":"refusal","refusal":"n","n":1}'], [text, refusal]) == (
        b'[%b,{"type":"refusal","refusal":"no","n":1}]' % text
    )


def test_a_part_of_another_kind_stays_as_it_is() -> None:
    other = part(None, added=event("x", part={"type": "refusal", "refusal": ""}))
    assert final_part(other) == b'{"type":"refusal","refusal":""}'
    other.final = b'{"type":"refusal","refusal":"no"}'
    assert final_part(other) == other.final
    item = Item(MESSAGE, "msg_1", 0, parts=[other])
    assert json.loads(final_item(item, "completed"))["content"] == [{"type": "refusal", "refusal": "no"}]


def test_parts_are_found_by_the_engines_number_and_their_list() -> None:
    first, second = part(THOUGHT), part(SUMMARY)
    item = Item(REASONING, "rs_1", parts=[first, second])
    assert (item.part(0, "content"), item.part(0, "summary"), item.part(1, "content")) == (first, second, None)


def test_styles_are_channels() -> None:
    assert [style.channel for style in (OUTPUT, THOUGHT, SUMMARY)] == ["content", "reasoning", "reasoning"]


def test_a_new_item_lists_its_parts() -> None:
    assert json.loads(new_item(REASONING, "rs_1", "completed", [b"1"])) == {
        "id": "rs_1",
        "type": "reasoning",
        "status": "completed",
        "summary": [],
        "content": [1],
    }
    assert inside(b"", "a") == inside(b"{}", "a") == b""


def test_a_new_call_has_the_members_of_an_engines() -> None:
    made = new_call("fc_1", "call_1", "f", '{"a": 1}', "completed")
    said = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "status": "completed"}
    assert json.loads(made) == {**said, "arguments": '{"a": 1}'}


@pytest.mark.parametrize(
    "item",
    [
        {"type": MESSAGE, "content": 7},
        {"type": MESSAGE, "content": ["a"]},
        {"type": MESSAGE, "content": [{"type": "output_text", "text": 7}]},
        {"type": REASONING, "summary": {}},
        {"type": REASONING, "content": [{"type": "reasoning_text", "text": []}]},
    ],
)
def test_text_that_cannot_be_read_is_no_items(item: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        check_item(item)


def test_items_of_other_kinds_and_parts_without_text_are_left_to_the_client() -> None:
    check_item({"type": "compaction", "content": "x"})
    check_item({"type": MESSAGE, "content": [{"type": "refusal", "refusal": "no"}]})
    check_item({"type": REASONING, "content": None, "summary": [{"type": "summary_text", "text": None}]})
