"""Chat answers read from their tokens, streamed and plain: the engine's split is ignored, its tokens are the truth.

Frames are shaped as vLLM 0.32 sends them with `logprobs` and `return_token_ids` (recordings `r1-raw-chat-stop-*`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.exchange import RouteRules
from gateway.policy import ReasoningField
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.marked import atoms_of
from gateway.streams.tokens import Markers
from tests.exchange.driver import CALL, DONE, Answer, chunk, message, plain, route, streamed

NAMES = ("reasoning", "reasoning_content")
SPECIAL = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>")
IDS = {text: 1000 + place for place, text in enumerate(SPECIAL)}
TOOLS = {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}

Texts = Sequence[str]


def rules(*, tools: str = "", **changes: Any) -> RouteRules:
    """A route that reads tokens, of a model whose think tags and call tags are tokens."""
    named = {"reasoning": "qwen3", **({"tools": tools} if tools else {})}
    dialect = load_rulebook().resolve(named, engine="vllm").dialect
    assert dialect
    ids = {IDS[text]: text for text in atoms_of(dialect) if text in IDS}
    made = route(read_as=dialect, source="tokens", **changes)
    return replace(made, engine="vllm", markers=Markers(texts=frozenset(ids.values()), ids=ids))


def logged(tokens: Texts) -> tuple[Any, list[int]]:
    """The `logprobs` and the ids of tokens; `*` before a marker says that it is a token of its own."""
    texts = [token.removeprefix("*") for token in tokens]
    ids = [IDS[text] if token.startswith("*") else 7 for token, text in zip(tokens, texts, strict=True)]
    return {"content": [{"token": t, "logprob": -1.0, "bytes": [*t.encode()], "top_logprobs": []} for t in texts]}, ids


def frame(tokens: Texts, *, finish: str | None = None, stop: Any = None, index: int = 0, **delta: Any) -> bytes:
    """One chunk with these tokens. `delta`: what the engine's parser made of them."""
    logprobs, ids = logged(tokens)
    choice: dict[str, Any] = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    choice |= {"stop_reason": stop} if finish else {}
    return chunk([choice | {"token_ids": ids}])


ROLE = chunk([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}], prompt_token_ids=[1])


def both(
    tokens: Texts, made: RouteRules, *, finish: str = "stop", stop: Any = None, request: dict[str, Any] | None = None
) -> tuple[Answer, Answer]:
    """The answer streamed, a token a frame, and plain. The engine's own split of what it says is nonsense."""
    last = ["*<|im_end|>"] if finish == "stop" and not isinstance(stop, str) else []
    frames = [ROLE, *(frame([token], content="?") for token in tokens), frame(last, finish=finish, stop=stop)]
    logprobs, ids = logged([*tokens, *last])
    whole = json.loads(message(finish, **({"content": "?", "reasoning": "??"} if tokens else {"content": ""})))
    whole["choices"][0] |= {"logprobs": logprobs, "token_ids": ids, "stop_reason": stop}
    asked = request or {}
    return (
        streamed([*frames, DONE], made, request=asked),
        plain(json.dumps(whole).encode(), made, request=asked),
    )


def told(answer: Answer) -> tuple[tuple[str, str], list[tuple[str, str]], str | None]:
    """What the client makes of it: reasoning and content, calls, finish reason."""
    values = answer.events if not answer.body.startswith(b"{") else [json.loads(answer.body)]
    choices = [choice for value in values if value != "[DONE]" for choice in value["choices"]]
    holders = [choice.get("delta") or choice.get("message") or {} for choice in choices]
    calls: dict[int, list[str]] = {}
    for each in (call for holder in holders for call in holder.get("tool_calls") or ()):
        name, arguments = calls.setdefault(each.get("index", 0), ["", ""])
        made = each["function"]
        calls[each.get("index", 0)] = [name + (made.get("name") or ""), arguments + (made.get("arguments") or "")]
    finish = next((choice["finish_reason"] for choice in reversed(choices) if choice.get("finish_reason")), None)
    return answer.said, [(name, arguments) for name, arguments in calls.values()], finish


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["*<think>", "so", " it", "*</think>", "yes"], ("so it", "yes")),
        # must-show 3 of issue 6: spelled with ordinary tokens it is text, as its own token a boundary
        (
            ["*<think>", "a ", "</", "think", ">", " b", "*</think>", "</", "think", ">", "c"],
            ("a </think> b", "</think>c"),
        ),
        (["*<think>", "it says `", "*</think>", "` no"], ("it says `", "` no")),
        (["<", "think", ">", "a", "</think>", "b"], ("", "<think>a</think>b")),
        (["yes"], ("", "yes")),
    ],
)  # fmt: skip
def test_the_tokens_are_the_answer_whatever_the_engine_made_of_them(tokens: Texts, said: tuple[str, str]) -> None:
    for answer in both(tokens, rules()):
        assert told(answer) == (said, [], "stop")
        assert answer.exchange.tally.report() == []  # the dialect's own structure is no finding (contract rule 10)
        assert b"?" not in answer.body


def test_a_thought_that_is_never_closed_is_told_as_in_raw_text() -> None:
    for answer in both(["*<think>", "so"], rules()):
        assert told(answer) == (("so", ""), [], "stop")
        assert answer.findings == {"empty_response/flagged": 1, "answer_in_reasoning/would_replay": 1}


def test_nothing_that_was_asked_for_stays() -> None:
    for answer in both(["*<think>", "a", "*</think>", "b"], rules()):
        for gone in (b'"logprobs":{', b'"token_ids":[', b'"prompt_token_ids":['):
            assert gone not in answer.body.replace(b" ", b"")
        assert answer.complete


def test_a_frame_of_which_nothing_is_left_does_not_go_out() -> None:
    answer, _ = both(["*<think>", "a", "*</think>", "b"], rules())
    choices = [choice for event in answer.events if event != "[DONE]" for choice in event["choices"]]
    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "content": ""}, dict.fromkeys(NAMES, "a"), {"content": "b"}, {},
    ]  # fmt: skip


def test_logprobs_that_the_client_asked_for_stay_with_their_frames() -> None:
    for answer in both(["*<think>", "a", "*</think>", "b"], rules(), request={"logprobs": True}):
        values = answer.events[:-1] if not answer.body.startswith(b"{") else [json.loads(answer.body)]
        logs = [choice["logprobs"] for value in values for choice in value["choices"] if choice.get("logprobs")]
        assert "".join(each["token"] for log in logs for each in log["content"]) == "<think>a</think>b<|im_end|>"
        assert b'"token_ids":[' not in answer.body.replace(b" ", b"")


@pytest.mark.parametrize("logprobs", [True, False])
@pytest.mark.parametrize(
    ("request_", "policy"), [({"include_reasoning": False}, {}), ({}, {"reasoning_field": ReasoningField.NONE})]
)
def test_hidden_reasoning_is_hidden_by_us_and_by_no_token_told(
    request_: dict[str, Any], policy: dict[str, Any], logprobs: bool
) -> None:
    request = request_ | ({"logprobs": True} if logprobs else {})
    for answer in both(["*<think>", "secret", "*</think>", "b"], rules(**policy), request=request):
        assert (answer.said, b"secret" in answer.body) == (("", "b"), False)


CALLED = [
    "*<think>",
    "hm",
    "*</think>",
    "*<tool_call>",
    '{"name": "f", ',
    '"arguments": {"a": "',
    "*</think>",
    '"}}',
    "*</tool_call>",
]


def test_a_call_is_made_of_its_tokens_and_a_marker_in_a_value_is_the_values() -> None:
    for answer in both(CALLED, rules(tools="hermes"), request=TOOLS):
        assert told(answer) == (("hm", ""), [("f", '{"a": "</think>"}')], "tool_calls")


def test_a_call_that_is_spelled_is_text() -> None:
    spelled = ["<tool_call", ">", '{"name": "f", "arguments": {}}', "</tool_call", ">"]
    for answer in both(spelled, rules(tools="hermes"), request=TOOLS):
        assert told(answer) == (("", "".join(spelled)), [], "stop")


def test_the_engines_own_calls_are_read_from_their_tokens() -> None:
    tokens = ["*<tool_call>", '{"name": "f", "arguments": {}}', "*</tool_call>"]
    frames = [*(frame([token], tool_calls=CALL) for token in tokens), frame(["*<|im_end|>"], finish="tool_calls"), DONE]
    assert told(streamed(frames, rules(tools="hermes"), request=TOOLS)) == (("", ""), [("f", "{}")], "tool_calls")
    assert told(streamed(frames, rules(tools="hermes"))) == (("", "".join(tokens).replace("*", "")), [], "stop")


@pytest.mark.parametrize(("keep", "content"), [(False, "yes"), (True, "yesEND")])
def test_the_stop_string_is_cut_off_the_end_unless_the_client_wants_it(keep: bool, content: str) -> None:
    request = {"stop": ["END"], **({"include_stop_str_in_output": True} if keep else {})}
    tokens = ["*<think>", "a EN", "*</think>", "yes", "E", "ND tail"]
    for answer in both(tokens, rules(), stop="END", request=request):
        assert told(answer) == (("a EN", content), [], "stop")


def test_choices_are_read_apart() -> None:
    frames = [
        frame(["*<think>"]), frame(["*<think>"], index=1), frame(["a", "*</think>"]), frame(["x"], index=1),
        frame(["b", "*<|im_end|>"], finish="stop"), frame(["*</think>", "y", "*<|im_end|>"], index=1, finish="stop"),
        DONE,
    ]  # fmt: skip
    answer = streamed(frames, rules())
    assert (answer.told(0), answer.told(1)) == (("a", "b"), ("x", "y"))


def test_what_is_held_goes_out_when_the_stream_breaks_off() -> None:
    for count, said in ((2, ("so", "")), (4, ("so", "ye")), (5, ("so", "yeEN"))):
        frames = [frame([token]) for token in ("*<think>", "so", "*</think>", "ye", "EN")][:count]
        answer = streamed(frames, rules(), request={"stop": ["END"]})
        assert (answer.said, answer.complete) == (said, False)


def test_a_choice_without_tokens_is_as_the_engine_split_it() -> None:
    bare = chunk([{"index": 0, "delta": {"reasoning": "so</think>"}, "logprobs": None, "finish_reason": None}])
    end = chunk([{"index": 0, "delta": {"content": "yes"}, "logprobs": None, "finish_reason": "stop"}])
    answer = streamed([ROLE, bare, end, DONE], rules())
    assert (answer.said, answer.uninspected) == (("so", "yes"), {"tokens_missing": 1})
    whole = plain(message(content="yes", reasoning="so</think>"), rules())
    assert (whole.said, whole.uninspected) == (("so", "yes"), {"tokens_missing": 1})


WORDS = st.sampled_from(
    ["*<think>", "*</think>", "a", " b\n", "`", "<", "think>", "</think>", "*<|im_end|>", "é", "END", "E"]
)


@given(st.lists(WORDS, max_size=8), st.integers(1, 4), st.sampled_from(["stop", "length"]))
def test_an_answer_is_the_same_however_its_tokens_are_framed(tokens: list[str], size: int, finish: str) -> None:
    made, request = rules(), {"stop": ["END"]}
    one, whole = both(tokens, made, finish=finish, request=request)
    frames = [frame(tokens[at : at + size]) for at in range(0, len(tokens), size)]
    last = frame(["*<|im_end|>"] if finish == "stop" else [], finish=finish)
    several = streamed([ROLE, *frames, last, DONE], made, request=request)
    assert told(one) == told(whole) == told(several)
    assert one.exchange.fault is whole.exchange.fault is None
