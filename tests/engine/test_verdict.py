"""The words for an answer of the real engine: every endpoint is read, and each kind of wrong is called by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.scenarios import Right
from tests.engine.verdict import ALSO, RIGHT, Answer, Heard, common, hear, leaked, lost, received, verdict
from tests.support import messages, responses

SAID = Right(reasoning="a thought", content="an answer")
CALL = {"index": 0, "function": {"name": "now", "arguments": '{"zone": "UTC"}'}}


def chat(*deltas: dict[str, Any], reason: str = "stop", by: str | None = None, **more: Any) -> Answer:
    """A streamed answer of one choice."""
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason, "stop_reason": by, **more}]}
    return streamed("chat", *events, end)


def streamed(endpoint: str, *events: dict[str, Any]) -> Answer:
    frames = [f"event: {event.get('type', '')}\ndata: {json.dumps(event)}\n\n" for event in events]
    return Answer(endpoint, True, 200, "".join(frames).encode())


def plain(endpoint: str, body: dict[str, Any], status: int = 200) -> Answer:
    return Answer(endpoint, False, status, json.dumps(body).encode())


GOOD = chat({"reasoning": "a thought"}, {"content": "an answer"}, by="###")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("right", GOOD),
        ("right", chat({"reasoning": "a thought\n"}, {"content": "\n\nan answer"}, by="###")),
        ("leaked 8", chat({"reasoning": "a thought"}, {"content": "</think>an answer"}, by="###")),
        ("leaked 17", chat({"reasoning": "a thought</think>an answer"}, by="###")),
        ("lost 5", chat({"reasoning": "a th"}, {"content": "an answer"}, by="###")),
        ("leaked 2, lost 5", chat({"reasoning": "a th"}, {"content": "k>an answer"}, by="###")),
        ("mixed", chat({"reasoning": "a thought", "content": "an answer"}, by="###")),
        ("call", chat({"reasoning": "a thought"}, {"content": "an answer"}, {"tool_calls": [CALL]}, by="###")),
        ("ends otherwise", chat({"reasoning": "a thought"}, {"content": "an answer"})),
        ("ends otherwise", chat({"reasoning": "a thought"}, {"content": "an answer"}, reason="length", by="###")),
        ("other fields", chat({"reasoning": "a thought"}, {"content": "an answer"}, by="###", token_ids=[1])),
        ("error", streamed("chat", {"error": {"message": "no"}})),
        ("error", plain("chat", {"error": {"message": "no"}}, status=400)),
    ],
)
def test_an_answer_is_called_by_what_is_wrong_with_it(words: str, answer: Answer) -> None:
    assert verdict([SAID], answer, engine=GOOD) == words


def test_every_word_that_is_no_number_is_explained() -> None:
    assert ALSO.keys() == {"mixed", "call", "ends otherwise", "other fields", "illegal", "error"}


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [("", "", 0), ("abc", "abc", 3), ("abc", "", 0), ("abcde", "xaybzec", 3), ("aab", "aba", 2)],
)
def test_the_common_subsequence_is_the_longest(one: str, other: str, length: int) -> None:
    assert common(one, other) == common(other, one) == length


def test_letters_of_a_leaked_marker_do_not_stand_for_lost_ones() -> None:
    right = Right(reasoning="think", content="a")
    assert (leaked(right, Heard("", "</think>a")), lost(right, Heard("", "</think>a"))) == (8, 5)


def test_a_quoted_marker_that_an_engine_drops_is_lost() -> None:
    right = Right(reasoning="a", content="the `</think>` tag")
    assert (leaked(right, Heard("a", "the `` tag")), lost(right, Heard("a", "the `` tag"))) == (0, 8)
    assert lost(right, Heard("a", right.content)) == lost(right, Heard("", "<think>a</think>" + right.content)) == 0


# ------------------------------------------------------------------ endpoints


def test_a_plain_chat_answer_is_read_with_its_calls_and_its_end() -> None:
    message = {"reasoning": "r", "content": "c", "tool_calls": [CALL]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "stop_reason": None}
    heard = Heard("r", "c", [("now", {"zone": "UTC"})], ("tool_calls", None))
    assert hear(plain("chat", {"choices": [choice]})) == [heard]


def test_choices_that_interleave_are_read_apart() -> None:
    said = [(1, "c"), (0, "a"), (1, "d"), (0, "b")]
    events = [{"choices": [{"index": i, "text": text, "finish_reason": None}]} for i, text in said]
    ends = [
        {"choices": [{"index": i, "text": "", "finish_reason": "stop", "stop_reason": by}]}
        for i, by in ((1, "#"), (0, None))
    ]
    answer = streamed("completions", *events, *ends)
    assert hear(answer) == [Heard("", "ab", ends=("stop", None)), Heard("", "cd", ends=("stop", "#"))]
    assert received(answer) == " ¦ ab ‖  ¦ cd"


MESSAGE = [("thinking", "r"), ("text", "c")]
RESPONSE = [("reasoning", "r"), ("content", "c")]


def test_a_message_is_read_streamed_and_plain() -> None:
    heard = [Heard("r", "c", ends=("stop_sequence", "###"))]
    ends = {"reason": "stop_sequence", "string": "###"}
    assert hear(Answer("messages", True, 200, b"".join(messages.events(MESSAGE, **ends)))) == heard
    assert hear(Answer("messages", False, 200, messages.body(MESSAGE, **ends))) == heard


def test_a_response_is_read_streamed_and_plain() -> None:
    heard = [Heard("r", "c", ends=("completed", None))]
    assert hear(Answer("responses", True, 200, b"".join(responses.stream(RESPONSE)))) == heard
    assert hear(Answer("responses", False, 200, responses.body(RESPONSE))) == heard


def test_a_stream_that_is_not_as_its_protocol_says_is_illegal_and_the_engine_s_own_is_not_judged() -> None:
    right = [Right(reasoning="r", content="c")]
    whole = messages.events(MESSAGE)
    engine, broken = (Answer("messages", True, 200, b"".join(part)) for part in (whole, [whole[0], *whole[2:]]))
    assert verdict(right, engine, engine=engine) == RIGHT
    assert verdict(right, broken, engine=engine) == "illegal"
    assert verdict(right, broken, engine=broken) == RIGHT


def test_what_came_of_a_refusal_is_its_status() -> None:
    assert received(plain("chat", {}, status=400)) == "HTTP 400"
