"""A plain Messages body written again: which block says what, and what keeps its bytes (reference/vllm.md 3.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.events import CALL, CONTENT, REASONING
from gateway.protocols.messages_body import call_changed, content_saying, fragment, text_of
from gateway.protocols.protocol import CallChange, NumberedCall, Said

REDACTED = {"type": "redacted_thinking", "data": "d"}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
MADE: Said = (CALL, NumberedCall(0, "c", "g", '{"n":1.10}'))
MADE_BLOCK = {"type": "tool_use", "id": "c", "name": "g", "input": {"n": 1.1}}


def thinking(text: str, **more: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, **more}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def written(blocks: list[dict[str, Any]], *said: Said, hides: bool = False) -> list[dict[str, Any]]:
    """The content that says `said` where the engine's was `blocks`."""
    own = [(block, json.dumps(block).encode()) for block in blocks]
    found: list[dict[str, Any]] = json.loads(content_saying(own, said, hides=hides))
    return found


def test_blocks_that_say_the_same_keep_their_bytes() -> None:
    own = [({"type": "text", "text": "a"}, b'{ "type":"text","text":"\\u0061" }'), (USE, b'{"type":"tool_use"}')]
    assert content_saying(own, [(CONTENT, "a")], hides=False) == b"[" + own[0][1] + b"," + own[1][1] + b"]"


@pytest.mark.parametrize(
    ("blocks", "said", "result"),
    [
        # a thought in the text
        ([text("x")], [(REASONING, "a"), (CONTENT, "b")], [thinking("a"), text("b")]),
        # in the middle of it
        ([text("x")], [(CONTENT, "a"), (REASONING, "b"), (CONTENT, "c")], [text("a"), thinking("b"), text("c")]),
        # an answer in the thought
        ([thinking("x", signature="s")], [(REASONING, "a"), (CONTENT, "b")], [thinking("a", signature="s"), text("b")]),
        # behind a thought: one block, or two where it is signed
        ([thinking("a"), text("x")], [(REASONING, "a"), (REASONING, "b"), (CONTENT, "c")], [thinking("ab"), text("c")]),
        (
            [thinking("a", signature="s"), text("x")],
            [(REASONING, "a"), (REASONING, "b"), (CONTENT, "c")],
            [thinking("a", signature="s"), thinking("b"), text("c")],
        ),
        # a signed thought that changed, and more of it from elsewhere
        (
            [thinking("ax", signature="s"), text("x")],
            [(REASONING, "a"), (REASONING, "b"), (REASONING, "c")],
            [thinking("a", signature="s"), thinking("bc")],
        ),
        # a thought that is the answer
        ([thinking("a", signature="s")], [(CONTENT, "a")], [text("a")]),
        # blocks at both ends stay, the one between them changes
        (
            [text("a", citations=[1]), text("bx", citations=[2]), USE, text("c", citations=[3])],
            [(CONTENT, "abc")],
            [text("a", citations=[1]), text("b", citations=[2]), USE, text("c", citations=[3])],
        ),
        # empty, signed and redacted ones stay; those between changes come behind them
        (
            [thinking("", signature="s"), REDACTED, text("ax")],
            [(CONTENT, "a")],
            [thinking("", signature="s"), REDACTED, text("a")],
        ),
        ([text("ax"), REDACTED, text("bx")], [(CONTENT, "ab")], [text("ab"), REDACTED]),
        # text that follows the last block of its kind
        ([text("a")], [(CONTENT, "ab")], [text("ab")]),
        ([text("b"), USE], [(CONTENT, "b"), (REASONING, "c")], [text("b"), USE, thinking("c")]),
        ([text("b")], [(CONTENT, "b"), (REASONING, "c"), (CONTENT, "b")], [text("b"), thinking("c"), text("b")]),
        ([text("bx"), text("b")], [(REASONING, "c"), (CONTENT, "b")], [thinking("c"), text("b")]),
        # nothing is left
        ([text("x")], [], []),
        ([text("x")], [(CONTENT, "")], []),
        # calls: where they are said, and behind the engine's own at the end
        ([text("x")], [(CONTENT, "a"), MADE, (CONTENT, "b")], [text("a"), MADE_BLOCK, text("b")]),
        ([text("ax"), USE], [(CONTENT, "a"), MADE], [text("a"), USE, MADE_BLOCK]),
        ([USE, text("x")], [MADE], [USE, MADE_BLOCK]),
    ],
)  # fmt: skip
def test_what_is_new_stands_where_a_stream_would_have_it(
    blocks: list[dict[str, Any]], said: list[Said], result: list[dict[str, Any]]
) -> None:
    assert written(blocks, *said) == result


def test_a_hidden_thought_is_in_no_block() -> None:
    assert written([thinking("a"), REDACTED, text("bx")], (REASONING, "a"), (CONTENT, "b"), hides=True) == [text("b")]


def test_the_work_grows_with_the_text_and_not_with_its_blocks() -> None:
    own = [(text("ab"), b'{"type":"text","text":"ab"}')] * 20_000
    assert content_saying(own, [(CONTENT, "ab" * 20_000)], hides=False).count(b'"ab"') == 20_000


# ---------------------------------------------------------------------- calls


def told(**members: Any) -> Any:
    block = {"type": "tool_use", **members}
    return fragment(json.dumps({"content": [block]}).encode(), ("content", 0), block, place=2, index=5)


def test_a_call_is_read_with_the_bytes_of_its_input() -> None:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"n": 1}}
    call = fragment(b'{"input": {"n": 1.10}}', (), block, place=2, index=5)
    assert (call.place, call.index, call.ident, call.name) == (2, 5, "t", "f")
    assert (call.arguments, call.text) == ('{"n": 1.10}', True)


@pytest.mark.parametrize(
    ("members", "arguments", "is_text"),
    [
        ({}, "", True),
        ({"input": None}, "", True),
        ({"input": {}}, "{}", True),
        ({"input": "{"}, "{", False),
        ({"input": ""}, '""', True),
    ],
)
def test_an_input_that_is_no_object_is_told(members: dict[str, Any], arguments: str, is_text: bool) -> None:
    call = told(**members)
    assert (call.arguments, call.text, call.ident, call.name) == (arguments, is_text, None, None)


def test_a_call_is_changed_by_its_members() -> None:
    assert call_changed(CallChange(name="g")) == {"name": b'"g"'}
    assert call_changed(CallChange(arguments='{"n":1.10}')) == {"input": b'{"n":1.10}'}
    assert call_changed(CallChange(name="g", arguments="{")) == {"name": b'"g"', "input": b'"{"'}


def test_all_text_of_a_kind_is_one() -> None:
    assert text_of([text("a"), USE, thinking("t"), {"type": "text"}, text("b")], "text") == "ab"


@pytest.mark.parametrize("blocks", [[text(3)], [3], 3])  # type: ignore[arg-type]
def test_what_is_no_text_is_refused(blocks: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        text_of(blocks, "text")
