"""What an event of Messages says, and its endings in words of chat (reader_spec section 3, reference/vllm.md 3.6)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.messages_events import ending, event_part
from gateway.protocols.protocol import UNSAID, Part


def part(kind: str, **members: Any) -> Part | None:
    return event_part(kind, {"type": kind, "index": 0, **members})


def started(**block: Any) -> Part | None:
    return part("content_block_start", content_block=block)


def went_on(**delta: Any) -> Part | None:
    return part("content_block_delta", delta=delta)


@pytest.mark.parametrize(
    ("got", "reasoning", "content"),
    [
        (went_on(type="text_delta", text="a"), "", "a"),
        (went_on(type="thinking_delta", thinking="a"), "a", ""),
        (started(type="text", text="a"), "", "a"),
        (started(type="thinking", thinking="a"), "a", ""),
    ],
)
def test_text_is_one_part(got: Part | None, reasoning: str, content: str) -> None:
    assert got is not None
    assert (got.place, got.index, got.reasoning, got.content, got.tools, got.finish) == (
        0,
        0,
        reasoning,
        content,
        False,
        None,
    )
    assert got.names == (("thinking",) if reasoning else ())


@pytest.mark.parametrize(
    "got", [started(type="tool_use", name="f"), went_on(type="input_json_delta", partial_json="{")]
)
def test_what_a_call_says_is_one_part(got: Part | None) -> None:
    assert got is not None and got.tools
    assert (got.reasoning, got.content) == ("", "")


@pytest.mark.parametrize(
    "got",
    [
        started(type="text", text=""),
        started(type="thinking", thinking=""),
        started(type="redacted_thinking", data="d"),
        started(type="server_tool_use", id="s"),
        went_on(type="text_delta", text=""),
        went_on(type="signature_delta", signature="s"),
        went_on(type="citations_delta", citation={}),
        part("content_block_stop"),
        part("message_start", message={}),
        part("message_delta", delta={"stop_reason": None}),
        part("message_stop"),
        part("ping"),
        part("something_new"),
    ],
)
def test_everything_else_says_nothing(got: Part | None) -> None:
    assert got is None


@pytest.mark.parametrize(
    ("reason", "string", "finish", "stop_reason"),
    [
        ("end_turn", None, "stop", UNSAID),  # SGLang says so where a stop string fired (reference/sglang.md 3.6)
        ("stop_sequence", "x", "stop", "x"),
        ("stop_sequence", None, "stop", ""),
        ("tool_use", None, "tool_calls", UNSAID),
        ("max_tokens", None, "length", UNSAID),
        ("model_context_window_exceeded", None, "length", UNSAID),
        ("refusal", None, "content_filter", UNSAID),
        ("pause_turn", None, "pause_turn", UNSAID),
        ("end_turn", "x", "stop", "x"),
    ],
)
def test_an_ending_is_told_in_the_words_of_chat(reason: str, string: str | None, finish: str, stop_reason: Any) -> None:
    got = part("message_delta", delta={"stop_reason": reason, "stop_sequence": string})
    assert got is not None
    assert got.finish == finish
    assert got.stop_reason is stop_reason or got.stop_reason == stop_reason
    bare = part("message_delta", delta={"stop_reason": reason})
    assert bare is not None and bare.finish == finish


def test_a_reason_that_is_no_word_ends_nothing() -> None:
    got = part("message_delta", delta={"stop_reason": {"type": "end_turn"}})
    assert got is not None and got.finish is None


@pytest.mark.parametrize(
    ("word", "reason"), [("stop", b'"end_turn"'), ("tool_calls", b'"tool_use"'), ("error", b'"max_tokens"')]
)
def test_a_word_of_ours_is_written_in_those_of_messages(word: str, reason: bytes) -> None:
    assert ending(word, {"stop_sequence": None}) == {"stop_reason": reason}
    assert ending(word, {}) == {"stop_reason": reason}
    assert ending(word, {"stop_sequence": "x"}) == {"stop_reason": reason, "stop_sequence": b"null"}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: went_on(type="text_delta", text=3), TypeError),
        (lambda: went_on(type="input_json_delta", partial_json=[]), TypeError),
        (lambda: part("content_block_start", content_block={"type": "tool_use"}, index=None), TypeError),
        (lambda: part("content_block_start", content_block={"type": "tool_use"}, index="0"), TypeError),
        (lambda: part("content_block_start"), KeyError),
        (lambda: part("content_block_delta", delta=[]), TypeError),
        (lambda: part("message_delta", delta=3), AttributeError),
    ],
)
def test_an_event_of_another_shape_is_none_of_these(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
