"""Hidden reasoning stays hidden in every member and at every place of an answer (contract rule 7, section 3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.policy import ReasoningField
from tests.exchange.driver import BOTH, CALL, DONE, Answer, chunk, delta, plain, route, streamed
from tests.support import responses

HIDDEN = route(reasoning_field=ReasoningField.NONE)
UNSENT = {"include_reasoning": False}
SECRET = {"logprobs": {"content": [{"token": "secret"}]}, "token_ids": [666]}  # reference/vllm.md 3.1


def spelt(fields: dict[str, Any] | None, *, finish: str | None = None) -> bytes:
    """A chunk whose tokens spell its text out a second time."""
    return chunk([{"index": 0, "delta": fields, "finish_reason": finish, **SECRET}])


def hides(answer: Answer) -> bool:
    return b"secret" not in answer.body and b"666" not in answer.body


CHUNKS: dict[str, bytes] = {
    "reasoning": spelt({"reasoning": "t"}),
    "old name": spelt({"reasoning_content": "t"}),
    "beside content": spelt({"reasoning": "t", "content": "c"}),
    "beside a call": spelt({"reasoning": "t", "tool_calls": CALL}),
    "leaked into content": spelt({"content": "<think>t</think>c"}),
    "at the end": spelt({"reasoning": "t"}, finish="length"),
    "without text": spelt({}),
    "without a delta": spelt(None),
    "of a choice that is not read": chunk([{"index": "0", "delta": {"reasoning": "t"}, **SECRET}]),
}


@pytest.mark.parametrize("secret", CHUNKS.values(), ids=CHUNKS.keys())
def test_no_chunk_spells_out_what_is_hidden(secret: bytes) -> None:
    answer = streamed([secret, delta(content="d"), delta(finish="stop"), DONE], HIDDEN)
    assert hides(answer)
    assert answer.exchange.tally.withheld == {"logprobs": 1, "token_ids": 1}
    assert answer.complete
    assert {"content": "d"} in answer.deltas


@pytest.mark.parametrize("secret", CHUNKS.values(), ids=CHUNKS.keys())
def test_where_reasoning_is_shown_so_are_its_tokens(secret: bytes) -> None:
    answer = streamed([secret, delta(content="d"), delta(finish="stop"), DONE])
    assert not hides(answer)
    assert answer.exchange.tally.withheld == {}


def test_the_tokens_of_what_goes_out_go_out() -> None:
    reads = [spelt({"content": "c"}), spelt({"tool_calls": CALL}), spelt({}, finish="tool_calls"), DONE]
    answer = streamed(reads, HIDDEN)
    assert (answer.body, answer.exchange.tally.withheld) == (b"".join(reads), {})


BODIES: dict[str, dict[str, Any]] = {
    "reasoning": {"reasoning": "t", "content": "c"},
    "leaked into content": {"content": "<think>t</think>c"},
}


@pytest.mark.parametrize("fields", BODIES.values(), ids=BODIES.keys())
def test_no_plain_answer_spells_out_what_is_hidden(fields: dict[str, Any]) -> None:
    choices = [
        {"index": 0, "message": {"content": "shown"}, "token_ids": [5]},
        {"index": 1, "message": fields, **SECRET},
    ]
    answer = plain(json.dumps({"choices": choices}).encode(), HIDDEN)
    first, second = json.loads(answer.body)["choices"]
    assert first == choices[0]
    assert second == {"index": 1, "message": {"content": "c"}}
    assert answer.exchange.tally.withheld == {"logprobs": 1, "token_ids": 1}


def test_a_choice_beyond_the_cap_of_a_plain_answer_spells_out_nothing_either() -> None:
    choices = [{"index": n, "message": {"reasoning": "t", "content": "c"}, **SECRET} for n in range(129)]
    answer = plain(json.dumps({"choices": choices}).encode(), HIDDEN)
    assert hides(answer)
    assert answer.exchange.tally.withheld["token_ids"] == 129


def test_a_thought_the_client_did_not_ask_for_is_not_spelt_out_where_it_is_taken_out() -> None:
    reads = [spelt({"content": "<think>t</think>c"}), delta(finish="stop"), DONE]
    answer = streamed(reads, request=UNSENT)
    assert (answer.said, hides(answer)) == (("", "c"), True)
    body = json.dumps({"choices": [{"index": 0, "message": {"content": "<think>t</think>c"}, **SECRET}]}).encode()
    assert hides(plain(body, request=UNSENT))
    sent = [spelt({"reasoning": "t", "reasoning_content": "t"}), spelt({"content": "c"}), delta(finish="stop"), DONE]
    assert streamed(sent, request=UNSENT).body == b"".join(sent)  # the engine sent it in its own field, and it is shown


@pytest.mark.parametrize("name", BOTH)
def test_a_chunk_that_also_says_an_error_says_no_hidden_reasoning(name: str) -> None:
    failed = chunk([{"index": 0, "delta": {name: "secret"}, "finish_reason": None}], error={"message": "x"})
    answer = streamed([delta(content="a<"), failed, DONE], HIDDEN)
    assert (answer.said, hides(answer)) == (("", "a<"), True)
    assert answer.events[-2]["error"] == {"message": "x"}


def step(*tokens: str, **fields: Any) -> bytes:
    """A chunk of SGLang with the tokens of its step (reference/sglang.md 3.1)."""
    rows = [{"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": []} for token in tokens]
    return chunk([{"index": 0, "delta": fields, "logprobs": {"content": rows}, "finish_reason": None}])


def test_a_step_whose_tokens_come_twice_spells_no_thought_the_second_time() -> None:
    tokens = ("secret", "</think>", "c")
    reads = [step(*tokens, reasoning_content="secret"), step(*tokens, content="c"), step("d", content="d")]
    answer = streamed([*reads, delta(finish="stop"), DONE], HIDDEN)
    assert (answer.said, hides(answer)) == (("", "cd"), True)
    assert reads[2] in answer.body


@pytest.mark.parametrize("named", [b"", b"event: sglext_ids\n"])
def test_the_ids_of_a_whole_answer_of_sglang_are_hidden(named: bytes) -> None:
    audit = named + chunk([], sglext={"input_ids": [7], "output_ids": [[666]]})
    answer = streamed([delta(content="c"), audit, delta(finish="stop"), DONE], HIDDEN)
    assert (hides(answer), answer.exchange.tally.withheld) == (True, {"sglext": 1})
    assert named + chunk([], sglext={"input_ids": [7]}) in answer.body
    shown = streamed([delta(content="c"), audit, delta(finish="stop"), DONE])
    assert audit in shown.body
    body = {"choices": [{"index": 0, "message": {"content": "c"}}], "sglext": {"output_ids": [[666]]}}
    assert hides(plain(json.dumps(body).encode(), HIDDEN))


def test_a_thought_of_which_the_engine_left_out_the_text_only_is_not_spelt_out() -> None:
    body = json.dumps({"choices": [{"index": 0, "message": {"content": "c"}, **SECRET}]}).encode()
    assert hides(plain(body, HIDDEN, request=UNSENT))


def test_the_output_as_the_model_wrote_it_is_hidden_in_responses() -> None:  # `enable_response_messages`
    raw = [{"type": "raw_message_tokens", "message": "secret</think>c", "tokens": [666]}]
    pieces = [("reasoning", "t"), ("content", "c")]
    whole = json.loads(responses.body(pieces)) | {"output_messages": raw}
    answer = responses.plain(json.dumps(whole).encode(), HIDDEN)
    assert (answer.said, b"secret" in answer.body, b"666" in answer.body) == (("", "c", []), False, False)
    frames = responses.stream(pieces)
    last = json.loads(frames[-1].partition(b"data: ")[2])
    last["response"]["output_messages"] = raw
    live = responses.streamed([*frames[:-1], responses.event(last)], HIDDEN).legal()
    assert (live.said, b"secret" in live.body, b"666" in live.body) == (("", "c", []), False, False)
    only = responses.streamed([responses.event(last)], HIDDEN)
    assert (only.response["output"][0]["type"], b"secret" in only.body) == ("message", False)


def test_the_tokens_of_all_the_output_beside_a_text_of_responses_spell_no_thought() -> None:
    """vLLM puts the log probabilities of the whole output there (its `_create_response_logprobs`)."""
    rows = [{"token": token, "logprob": -0.5, "top_logprobs": []} for token in ("secret", "</think>", "c")]
    pieces = [("reasoning", "t"), ("content", "c")]
    whole = json.loads(responses.body(pieces))
    whole["output"][1]["content"][0]["logprobs"] = rows
    answer = responses.plain(json.dumps(whole).encode(), HIDDEN)
    [message] = answer.response["output"]
    assert message["content"][0]["logprobs"] == rows[2:]
    frames = []
    for frame in responses.stream(pieces):
        value = json.loads(frame.partition(b"data: ")[2])
        holders = [*value.get("response", {}).get("output", ()), value.get("item", {})]
        parts = [value.get("part", {}), *(part for item in holders for part in item.get("content") or ())]
        for said in (*parts, value):
            if said.get("text") == "c" or said.get("delta") == "c":
                said["logprobs"] = rows
        frames.append(responses.event(value))
    assert b"".join(frames).count(b"secret") == 5
    live = responses.streamed(frames, HIDDEN).legal()
    assert (live.said, b"secret" in live.body) == (("", "c", []), False)
    assert live.response["output"][0]["content"][0]["logprobs"] == rows[2:]
