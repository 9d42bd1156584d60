"""What single chunks become: the reasoning's name, chunks that say several things, chunks whose text is held."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.policy import Mode, ReasoningField
from tests.exchange.driver import (
    BOTH,
    CALL,
    DONE,
    chunk,
    delta,
    route,
    streamed,
)

# ---------------------------------------------------------------------- the name of the reasoning

NAMINGS: dict[str, dict[str, str | None]] = {
    "new": {"reasoning": "t"},
    "old": {"reasoning_content": "t"},
    "between": {"reasoning": "t", "reasoning_content": "t"},
    "new, old is null": {"reasoning": "t", "reasoning_content": None},
    "old, new is null": {"reasoning": None, "reasoning_content": "t"},
    "legacy parser": {"content": None, "reasoning": "t"},
}


@pytest.mark.parametrize("sent", NAMINGS.values(), ids=NAMINGS.keys())
@pytest.mark.parametrize(
    ("field", "names"),
    [
        (ReasoningField.BOTH, BOTH),
        (ReasoningField.REASONING, BOTH[:1]),
        (ReasoningField.REASONING_CONTENT, BOTH[1:]),
    ],
)
def test_reasoning_goes_out_under_the_names_of_the_route(
    sent: dict[str, str | None], field: ReasoningField, names: tuple[str, ...]
) -> None:
    answer = streamed([delta(**sent), delta(finish="stop"), DONE], route(reasoning_field=field))
    [fields] = answer.deltas
    assert fields == dict.fromkeys(names, "t")
    untouched = {name for name, text in sent.items() if text} == set(names)
    assert (answer.body == delta(**sent) + delta(finish="stop") + DONE) is untouched


@pytest.mark.parametrize("sent", NAMINGS.values(), ids=NAMINGS.keys())
def test_as_upstream_leaves_the_name_alone(sent: dict[str, str | None]) -> None:
    reads = [delta(**sent), delta(content="c"), delta(finish="stop"), DONE]
    assert streamed(reads, route(reasoning_field=ReasoningField.AS_UPSTREAM)).body == b"".join(reads)


@pytest.mark.parametrize("sent", NAMINGS.values(), ids=NAMINGS.keys())
def test_hidden_reasoning_does_not_go_out_under_any_name(sent: dict[str, str | None]) -> None:
    reads = [delta(role="assistant", content=""), delta(**sent), delta(content="c"), delta(finish="stop"), DONE]
    answer = streamed(reads, route(reasoning_field=ReasoningField.NONE))
    assert answer.body == reads[0] + reads[2] + reads[3] + reads[4]


def test_hidden_reasoning_is_taken_out_of_frames_that_say_more() -> None:
    usage = chunk([{"index": 0, "delta": {"reasoning": "t"}, "finish_reason": None}], usage={"total_tokens": 1})
    reads = [
        usage,
        delta(reasoning="u", content="c"),
        delta(reasoning="v", tool_calls=CALL),
        delta(finish="stop"),
        DONE,
    ]
    answer = streamed(reads, route(reasoning_field=ReasoningField.NONE))
    assert answer.deltas == [{"content": "c"}, {"tool_calls": CALL}]
    assert answer.events[0]["usage"] == {"total_tokens": 1}


def test_a_marker_prefix_behind_hidden_reasoning_is_not_said_twice() -> None:
    reads = [delta(reasoning="</think>", content="<"), delta(content="b>"), delta(finish="stop"), DONE]
    assert streamed(reads, route(reasoning_field=ReasoningField.NONE)).said == ("", "<b>")


@pytest.mark.parametrize("field", [ReasoningField.BOTH, ReasoningField.AS_UPSTREAM])
def test_reasoning_that_differs_between_the_two_names_goes_on_untouched(field: ReasoningField) -> None:
    reads = [delta(reasoning="a", reasoning_content="b"), delta(finish="stop"), DONE]
    answer = streamed(reads, route(reasoning_field=field))
    assert (answer.body, answer.uninspected) == (b"".join(reads), {"no_chat_completion": 1})


def test_hidden_reasoning_that_cannot_be_read_ends_the_answer_with_an_error() -> None:
    reads = [delta(content="c"), delta(reasoning="a", reasoning_content="b") + delta(content="d"), delta(content="e")]
    answer = streamed(reads, route(reasoning_field=ReasoningField.NONE))
    assert answer.events[0]["choices"][0]["delta"] == {"content": "c"}
    assert answer.events[1]["error"]["code"] == "integrity_internal"
    assert (len(answer.events), answer.complete) == (2, False)


def test_a_renamed_event_of_two_data_lines_stays_one_event() -> None:
    frame = b'data: {"choices":\ndata: [{"index":0,"delta":{"reasoning":"t"}}]}\n\n'
    renamed = b'data: {"choices":\ndata: [{"index":0,"delta":{"reasoning":"t","reasoning_content":"t"}}]}\n\n'
    assert streamed([frame, delta(finish="stop"), DONE]).body == renamed + delta(finish="stop") + DONE


@pytest.mark.parametrize(
    "lines", [b"id: 7\ndata: %b\n\n", b": note\nevent: e\ndata: %b\n\n", b"data: %b\r\nid: 7\r\n\r\n"]
)
@pytest.mark.parametrize(("said", "written"), [(b'"reasoning":"t"', b'"reasoning":"t","reasoning_content":"t"'),
                                               (b'"content":"a</think>"', b'"content":"a"'),
                                               (b'"content":"a","tool_calls":[]', b'"content":"a"')])  # fmt: skip
def test_the_other_lines_of_an_event_whose_data_changes_stay(lines: bytes, said: bytes, written: bytes) -> None:
    data = b'{"choices":[{"index":0,"delta":{%b},"finish_reason":"stop"}]}'
    assert streamed([lines % (data % said), DONE]).body == lines % (data % written) + DONE


# ---------------------------------------------------------------------- frames that say several things


def test_a_chunk_with_reasoning_and_content_is_split_reasoning_first() -> None:
    answer = streamed([delta(content="def", reasoning="abc"), delta(finish="stop"), DONE])
    assert answer.deltas == [dict.fromkeys(BOTH, "abc"), {"content": "def"}]
    assert answer.findings == {"mixed_chunk_split/split": 1}


def test_the_role_of_a_split_chunk_comes_first_and_its_finish_reason_last() -> None:
    answer = streamed([delta(role="assistant", content="def", reasoning="abc", finish="stop"), DONE])
    first, last = (event["choices"][0] for event in answer.events[:2])
    assert (first["delta"], first["finish_reason"]) == ({"role": "assistant", **dict.fromkeys(BOTH, "abc")}, None)
    assert (last["delta"], last["finish_reason"]) == ({"content": "def"}, "stop")


def test_where_split_is_observed_reasoning_beside_a_tool_call_stays_there() -> None:
    reads = [delta(reasoning="go", reasoning_content="go", tool_calls=CALL), delta(finish="tool_calls"), DONE]
    answer = streamed(reads, route(findings={"mixed_chunk_split": Mode.OBSERVE}))
    assert (answer.body, answer.findings) == (b"".join(reads), {"mixed_chunk_split/would_split": 1})


def test_where_split_is_observed_a_mixed_choice_beside_one_that_changes_stays_mixed() -> None:
    mixed = {"index": 1, "delta": {"content": "c", "reasoning": "r"}}
    frame = chunk([{"index": 0, "delta": {"content": "<think>t</think>a"}}, mixed])
    answer = streamed([frame], route(findings={"mixed_chunk_split": Mode.OBSERVE}))
    choices = [choice for event in answer.events[:-1] for choice in event["choices"] if choice["index"] == 1]
    assert [choice["delta"] for choice in choices] == [{"content": "c", **dict.fromkeys(BOTH, "r")}]


def test_the_chunks_made_by_a_split_repeat_the_head_of_the_answer() -> None:
    choice = b'{"index":0,"delta":{"reasoning":"r","content":"c"}}'
    frame = b'data: {"id":"x\\ud83d","created":1.10,"model":"m","choices":[%b]}\n\n' % choice
    answer = streamed([frame, delta(finish="stop"), DONE])
    head = b'data: {"object":"chat.completion.chunk","id":"x\\ud83d","created":1.10,"model":"m","choices":['
    assert answer.body.startswith(head + b'{"index":0,"delta":{"reasoning":"r","reasoning_content":"r"}')


@pytest.mark.parametrize("held", ["", "<", "</thin"])
def test_a_finish_chunk_with_text_says_held_text_and_its_own_before_it_ends(held: str) -> None:
    answer = streamed([delta(content="a" + held), delta(content="k", finish="stop"), DONE])
    assert answer.said == ("", f"a{held}k")
    assert [e["choices"][0]["finish_reason"] for e in answer.events[:-1]] == [None, "stop"]


@pytest.mark.parametrize("finish", ["stop", "length", "function_call", "content_filter", "abort"])
def test_held_text_goes_out_in_the_finish_chunk_at_the_latest(finish: str) -> None:
    answer = streamed([delta(content="a<thi"), delta(finish=finish), DONE])
    assert answer.deltas == [{"content": "a"}, {"content": "<thi"}]
    assert answer.events[1]["choices"][0]["finish_reason"] == finish


KEPT: dict[str, dict[str, Any]] = {
    "usage": {"usage": {"total_tokens": 9}},
    "an unknown member": {"new_member": False},
    "prompt token ids": {"prompt_token_ids": [1]},
}


@pytest.mark.parametrize("top", KEPT.values(), ids=KEPT.keys())
def test_a_chunk_whose_text_is_held_is_kept_for_what_else_it_says(top: dict[str, Any]) -> None:
    answer = streamed([chunk([{"index": 0, "delta": {"content": "<thi"}}], **top), delta(finish="stop"), DONE])
    assert answer.events[0]["choices"][0]["delta"] == {}
    assert {name: answer.events[0][name] for name in top} == top


@pytest.mark.parametrize(
    "choice", [{"logprobs": {"content": []}}, {"token_ids": [5]}, {"delta": {"role": "assistant", "content": "<thi"}}]
)
def test_a_choice_whose_text_is_held_is_kept_for_what_else_it_says(choice: dict[str, Any]) -> None:
    answer = streamed([chunk([{"index": 0, "delta": {"content": "<thi"}} | choice]), delta(finish="stop"), DONE])
    expected = {name: text for name, text in choice.get("delta", {}).items() if name != "content"}
    assert answer.events[0]["choices"][0] == {"index": 0} | choice | {"delta": expected}


def test_a_chunk_whose_text_is_held_and_that_says_nothing_else_is_dropped() -> None:
    answer = streamed([delta(content="<thi"), delta(content="nk>a</think>b"), delta(finish="stop"), DONE])
    assert answer.deltas == [dict.fromkeys(BOTH, "a"), {"content": "b"}]
    assert len(answer.events) == 4
