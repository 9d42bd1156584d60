"""The `output` list made to say something else: what stays keeps its bytes, and a text stands where it stood."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.protocol import NumberedCall, Said
from gateway.protocols.responses_output import (
    Listed,
    is_commentary,
    refilled,
    rewritten,
    same_output,
    sent_output,
)
from tests.support.responses import Piece, body, told

CALL = NumberedCall(0, "call_1", "f", "{}")


def listed(pieces: list[Piece], **shape: bool) -> Listed:
    """The items of a body, each with its bytes."""
    output = json.loads(body(pieces, **shape))["output"]
    return [(item, json.dumps(item, separators=(", ", ":")).encode()) for item in output]


def written(items: Listed, *said: Said, hides: bool = False) -> list[dict[str, Any]]:
    """What it comes to."""
    return [json.loads(raw) for raw in rewritten(items, said, hides=hides, answer="resp_1")]


def test_items_that_say_the_same_keep_their_bytes() -> None:
    items = listed([("reasoning", "a"), ("content", "b"), ("other", {"id": "x", "type": "mcp_call"})])
    assert rewritten(items, [("reasoning", "a"), ("content", "b")], hides=False, answer="") == [raw for _, raw in items]


@pytest.mark.parametrize(
    ("pieces", "said", "kinds"),
    [
        ([("content", "tc")], [("reasoning", "t"), ("content", "c")], ["reasoning", "message"]),
        ([("reasoning", "a"), ("content", "tc")], [("reasoning", "at"), ("content", "c")], ["reasoning", "message"]),
        ([("reasoning", "ac")], [("reasoning", "a"), ("content", "c")], ["reasoning", "message"]),
        ([("reasoning", "c")], [("content", "c")], ["message"]),
        ([("content", "c")], [], []),
        ([("content", "x"), ("call", ("c", "g", ["{}"]))], [("call", CALL)], ["function_call", "function_call"]),
        ([("content", "x")], [("content", "y"), ("call", CALL), ("call", CALL)], ["message", *["function_call"] * 2]),
        ([("reasoning", "a"), ("call", ("c", "g", ["{}"]))], [("reasoning", "a"), ("content", "b")],
         ["reasoning", "message", "function_call"]),
        ([("call", ("c", "g", ["{}"]))], [("reasoning", "a")], ["reasoning", "function_call"]),
    ],
)  # fmt: skip
def test_texts_and_calls_stand_where_a_stream_has_them(pieces: list[Piece], said: list[Said], kinds: list[str]) -> None:
    items = written(listed(pieces), *said)
    assert [item["type"] for item in items] == kinds
    reasoning, content, calls = told(items)
    assert reasoning == "".join(str(text) for channel, text in said if channel == "reasoning")
    assert content == "".join(str(text) for channel, text in said if channel == "content")
    assert len(calls) == kinds.count("function_call")
    assert len({item["id"] for item in items}) == len(items)


def test_a_call_has_the_members_of_an_engines() -> None:
    [item] = written([], ("call", CALL))
    assert item | {"id": ""} == {
        **{"id": "", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        "status": "completed",
    }


def test_progress_is_no_answer_and_stays() -> None:
    items = listed([("commentary", "x"), ("content", "y")])
    assert [is_commentary(item) for item, _ in items] == [True, False]
    assert [item["content"][0]["text"] for item in written(items, ("content", "z"))] == ["x", "z"]
    assert not is_commentary({"type": "reasoning", "phase": "commentary"})


def test_hidden_reasoning_is_not_written() -> None:
    items = listed([("reasoning", "a"), ("content", "b")])
    assert told(written(items, ("reasoning", "a"), ("content", "c"), hides=True)) == ("", "c", [])
    assert told(written(items[1:], ("reasoning", "a"), ("content", "c"), hides=True)) == ("", "c", [])


def test_only_what_is_gone_parts_a_thought_in_two_no_longer() -> None:
    for shape in ({}, {"summary": True}):
        items = listed([("reasoning", "a"), ("content", "</think>"), ("reasoning", "b"), ("content", "c")], **shape)
        output = written(items, ("reasoning", "ab"), ("content", "c"))
        assert ([item["id"] for item in output], told(output)) == (["rs_0", "msg_3"], ("ab", "c", []))
    apart = listed([("reasoning", "a"), ("call", ("c", "f", ["{}"])), ("reasoning", "b")])
    assert [item["type"] for item in written(apart, ("reasoning", "ab"))] == ["reasoning", "function_call", "reasoning"]
    sealed = {"id": "rs_9", "type": "reasoning", "summary": [], "encrypted_content": "x"}
    rest = [*listed([("content", "</think>")]), *listed([("other", sealed), ("reasoning", "b")])]
    first = [*listed([("other", sealed)]), *rest[:1], *listed([("reasoning", "b")])]
    [joined] = written(first, ("reasoning", "b"))
    assert (joined["id"], joined["content"][0]["text"], joined["encrypted_content"]) == ("rs_9", "b", "x")
    thought = [*listed([("reasoning", "a")]), *rest[:2]]
    [joined] = written(thought, ("reasoning", "a"))
    assert (joined["id"], joined["content"][0]["text"], joined["encrypted_content"]) == ("rs_0", "a", "x")


def test_an_item_stays_that_says_something_else_too() -> None:
    sealed = {**listed([("reasoning", "a")])[0][0], "encrypted_content": "x"}
    refused = listed([("content", "a")])[0][0]
    refused["content"].append({"type": "refusal", "refusal": "no"})
    for value in (sealed, refused):
        [item] = written([(value, json.dumps(value).encode())])
        assert item == {**value, "content": value["content"][1:]}


def test_tokens_stay_with_the_text_that_they_spell() -> None:
    items = listed([("content", "a b"), ("content", " c")], tokens=True)
    [item] = written(items, ("content", " b c"))
    assert [token["token"] for token in item["content"][0]["logprobs"]] == [" b", " c"]
    [other] = written(items, ("content", "x"))
    assert other["content"][0]["logprobs"] == []


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (["a", "b"], "ab", ["a", "b"]),
        (["a", "b"], "abc", ["a", "bc"]),
        (["a", "b", "c"], "axc", ["a", "x", "c"]),
        (["a", "b", "c"], "ac", ["a", "", "c"]),
        (["a", "b", "c"], "xbc", ["x", "b", "c"]),
        (["a", "b", "c"], "x", ["x", "", ""]),
        (["a", "b"], "", ["", ""]),
        (["", "a"], "a", ["", "a"]),
    ],
)
def test_only_the_texts_that_have_to_change_do(old: list[str], new: str, wanted: list[str]) -> None:
    assert refilled(old, new) == wanted


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.text("ab", max_size=9))
def test_texts_that_were_filled_again_say_the_new_one(old: list[str], new: str) -> None:
    filled = refilled(old, new)
    assert ("".join(filled), len(filled)) == (new, len(old))
    assert refilled(old, "".join(old)) == old


# ---------------------------------------------------------------------- the end of a stream


def ended(pieces: list[Piece]) -> tuple[list[bytes], dict[str, Any]]:
    """The items as they went out, and the response that tells them."""
    response = json.loads(body(pieces))
    return [json.dumps(item).encode() for item in response["output"]], response


def test_an_end_that_tells_the_same_text_is_the_same_whatever_it_calls_the_items() -> None:
    sent, response = ended([("reasoning", "a"), ("content", "b"), ("call", ("c", "f", ["{}"]))])
    response["output"][0]["id"] = "rs_other"
    assert same_output(sent, response)
    assert same_output([*sent, b'{"type":"mcp_call"}'], response)
    assert not same_output(sent[:2], response)
    response["output"][1]["content"][0]["text"] = "c"
    assert not same_output(sent, response)
    assert same_output([], {})
    assert same_output([], {"output": [7]})


def test_items_that_are_told_the_same_keep_the_bytes_of_the_last_event() -> None:
    sent, response = ended([("reasoning", "a"), ("content", "b")])
    raw = [json.dumps(item, indent=1).encode() for item in response["output"]]
    assert sent_output(sent, response, raw) == raw
    response["output"][1]["id"] = "msg_other"
    assert sent_output(sent, response, raw) == [raw[0], sent[1]]


def test_an_item_that_the_last_event_tells_otherwise_says_what_went_out_and_keeps_the_rest() -> None:
    sent, _ = ended([("reasoning", "a"), ("content", "b"), ("call", ("c", "f", ['{"n":1.10}']))])
    other = [("reasoning", "x"), ("content", "y"), ("call", ("c", "g", ["{}"]))]
    response = json.loads(body(other))
    told = [json.dumps(item | {"n": "N"}).replace('"N"', "1.10").encode() for item in response["output"]]
    sent.append(json.dumps({"id": "m", "type": "message", "status": "completed", "content": []}).encode())
    response["output"].append({"id": "m", "type": "message", "content": None})
    told.append(b'{"id":"m","type":"message","content":null,"n":1E5}')
    output = sent_output(sent, response, told)
    assert [json.loads(item) | {"n": 0} for item in output] == [json.loads(item) | {"n": 0} for item in sent]
    assert [item.endswith((b'"n": 1.10}', b'"n":1E5,"status":"completed"}')) for item in output] == [True] * 4


def test_what_only_the_last_event_tells_stays_where_it_is_no_text() -> None:
    sent, response = ended([("reasoning", "a")])
    more = [{"id": "ws", "type": "web_search_call"}, {"id": "m", "type": "message", "content": []}]
    response["output"] += more
    raw = [json.dumps(item).encode() for item in response["output"]]
    assert sent_output(sent, response, raw) == raw[:2]
