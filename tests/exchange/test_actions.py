"""What the actions on text do on the wire: promotion, dedup, replay, the promised thought (contract rules 4, 5, 8)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.limits import Limits
from gateway.policy import Dedup
from tests.exchange.driver import (
    BOTH,
    CALL,
    DONE,
    ENGINE_ERROR,
    OFF,
    WANTED,
    chunk,
    delta,
    route,
    streamed,
)

# ---------------------------------------------------------------------- tool calls


def test_a_tool_call_lets_held_text_go_before_it() -> None:
    answer = streamed([delta(content="a<thi"), delta(tool_calls=CALL), delta(finish="tool_calls"), DONE])
    assert answer.deltas == [{"content": "a"}, {"content": "<thi"}, {"tool_calls": CALL}]
    assert answer.findings == {}


def test_an_answer_of_a_call_alone_is_not_empty() -> None:
    reads = [delta(tool_calls=CALL), delta(finish="tool_calls")]
    answer = streamed([*reads, DONE])
    assert (answer.body, answer.findings) == (b"".join([*reads, DONE]), {})


def test_a_skipped_channel_is_sent_again_before_the_call_that_ends_it() -> None:
    reads = [
        delta(reasoning="Reply.<|close|>response<|sep|>"),
        delta(tool_calls=CALL),
        delta(finish="tool_calls"),
        DONE,
    ]
    answer = streamed(reads, route("kimi_k3"))
    assert answer.deltas == [dict.fromkeys(BOTH, "Reply."), {"content": "Reply."}, {"tool_calls": CALL}]


@pytest.mark.parametrize(
    ("reads", "said"),
    [
        (["Reply.<|close|>response<|sep|>", "<|close|>message<|sep|>"], ("Reply.", "Reply.")),  # reader_spec 4.1 row 1
        (
            ["Reply.<|close|>response<|sep|>", "\n", "<|close|>mes"],
            ("Reply.\n<|close|>mes", "Reply.\n"),
        ),  # rows 4 and 6
        (["I quote <|close|>response<|sep|> here"], ("I quote <|close|>response<|sep|> here", "")),  # contract rule 3
    ],
)
def test_an_answer_in_the_reasoning_field_is_sent_again_at_a_natural_stop(
    reads: list[str], said: tuple[str, str]
) -> None:
    answer = streamed([*(delta(reasoning=text) for text in reads), delta(finish="stop"), DONE], route("kimi_k3"))
    assert answer.said == said


def test_a_closed_channel_that_content_follows_is_not_sent_again() -> None:
    reads = [delta(reasoning="Reply.<|close|>response<|sep|>"), delta(content="Other."), delta(finish="stop"), DONE]
    assert streamed(reads, route("kimi_k3")).said == ("Reply.", "Other.")


# ---------------------------------------------------------------------- promotion (rule 4)


def test_with_thinking_off_reasoning_alone_is_the_answer() -> None:
    reads = [
        delta(role="assistant", content=""),
        delta(reasoning="4"),
        delta(reasoning="2."),
        delta(finish="stop"),
        DONE,
    ]
    answer = streamed(reads, request=OFF)
    assert answer.deltas == [{"content": "42."}]
    assert answer.findings == {"answer_in_reasoning/promoted": 1}


@pytest.mark.parametrize(
    "reads",
    [
        [delta(reasoning="t"), delta(content="a"), delta(finish="stop")],  # content follows
        [delta(reasoning="t"), delta(tool_calls=CALL), delta(finish="tool_calls")],
        [delta(reasoning="t"), delta(refusal="no"), delta(finish="stop")],
        [delta(reasoning="t", refusal="no"), delta(finish="stop")],
        [delta(reasoning="t"), delta(finish="length")],
        [delta(reasoning="t"), delta(finish="content_filter")],
        [delta(reasoning="t"), delta(finish="tool_calls")],
        [delta(reasoning="t"), delta()],  # [DONE] without a finish reason
        [delta(reasoning="t"), chunk([{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}])],
    ],
)
def test_with_thinking_off_reasoning_stays_reasoning_unless_it_is_all_there_is(reads: list[bytes]) -> None:
    answer = streamed([*reads, DONE], request=OFF)
    assert answer.said[0] == "t"
    assert "answer_in_reasoning/promoted" not in answer.findings


def test_a_token_id_as_stop_reason_is_a_natural_stop() -> None:
    stop = chunk([{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": 151645}])
    assert streamed([delta(reasoning="a"), stop, DONE], request=OFF).said == ("", "a")


def test_a_marker_in_the_reasoning_shows_that_it_was_a_thought() -> None:
    reads = [delta(reasoning="t</think>"), delta(finish="stop"), DONE]
    assert streamed(reads, request=OFF).said == ("t", "")


def test_past_the_cap_reasoning_goes_out_as_reasoning() -> None:
    reads = [delta(reasoning="abc"), delta(reasoning="d"), delta(reasoning="e"), delta(finish="stop"), DONE]
    answer = streamed(reads, route(limits=Limits(promote=3)), request=OFF)
    assert answer.deltas == [dict.fromkeys(BOTH, "abcd"), dict.fromkeys(BOTH, "e")]


@pytest.mark.parametrize(
    ("rules", "request_"),
    [
        (route("harmony"), OFF),  # never for Harmony analysis
        (route("none"), OFF),
        (route(promote_reasoning="never"), OFF),
        (route(), {}),
        (route(thinking_default="off"), {"chat_template_kwargs": {"enable_thinking": True}}),
        (route(), {**OFF, "include_reasoning": False}),
    ],
)
def test_reasoning_is_never_promoted_without_the_right_to(rules: Any, request_: dict[str, Any]) -> None:
    reads = [delta(reasoning="t"), delta(finish="stop"), DONE]
    assert streamed(reads, rules, request=request_).said == ("t", "")


# ---------------------------------------------------------------------- dedup through the wire (reader_spec 5.3)


def test_an_exact_repeat_of_wanted_reasoning_is_suppressed() -> None:
    reads = [delta(reasoning="Say hi."), delta(content="Say"), delta(content=" hi."), delta(finish="stop"), DONE]
    answer = streamed(reads, request=WANTED)
    assert answer.deltas == [dict.fromkeys(BOTH, "Say hi.")]
    assert answer.findings == {"duplicate_suppressed/suppressed": 1}


@pytest.mark.parametrize(
    ("texts", "finish", "request_"),
    [
        (["Say", " hi.", " Or not."], "stop", WANTED),  # longer
        (["Say", " hello."], "stop", WANTED),  # diverges
        (["Say", " hi"], "stop", WANTED),  # a strict prefix
        (["Say", " hi."], "length", WANTED),  # cut
        (["Say", " hi."], "stop", {}),  # not wanted
        (["Say", " hi."], "stop", {**WANTED, "response_format": {"type": "json_object"}}),  # D11
    ],
)
def test_content_that_is_no_proven_repeat_arrives_whole(
    texts: list[str], finish: str, request_: dict[str, Any]
) -> None:
    reads = [delta(reasoning="Say hi."), *(delta(content=text) for text in texts), delta(finish=finish), DONE]
    assert streamed(reads, request=request_).said == ("Say hi.", "".join(texts))


def test_a_repeat_that_may_not_be_suppressed_is_not_late() -> None:
    reads = [delta(reasoning="r", reasoning_content="r"), delta(content="r"), delta(finish="stop"), DONE]
    answer = streamed(reads)
    assert (answer.body, answer.findings) == (b"".join(reads), {"duplicate_suspect/kept": 1})


def test_a_repeat_is_suppressed_at_the_call_that_follows_it() -> None:
    reads = [delta(reasoning="r"), delta(content="r"), delta(tool_calls=CALL), delta(finish="tool_calls"), DONE]
    assert streamed(reads, request=WANTED).deltas == [dict.fromkeys(BOTH, "r"), {"tool_calls": CALL}]


def test_a_repeat_that_is_held_goes_out_before_an_engine_error() -> None:
    answer = streamed([delta(reasoning="rs"), delta(content="r"), ENGINE_ERROR, DONE], request=WANTED)
    assert answer.deltas == [dict.fromkeys(BOTH, "rs"), {"content": "r"}]
    assert answer.body.endswith(ENGINE_ERROR + DONE)


def test_a_short_repeat_is_kept_where_the_policy_says_so() -> None:
    reads = [delta(reasoning="r"), delta(content="r"), delta(finish="stop"), DONE]
    assert streamed(reads, route(dedup=Dedup(min_length=2)), request=WANTED).said == ("r", "r")


# ---------------------------------------------------------------------- content before the promised thought (rule 8)


@pytest.mark.parametrize(
    ("texts", "finish", "said"),
    [
        (["th", "ink</think>an", "swer"], "stop", ("think", "answer")),  # a closer within the cap
        (["12345678", "9</think>a"], "stop", ("", "123456789</think>a")),  # one behind it: text in mid-line
        (["12345678", "9\n</think>a"], "stop", ("", "123456789\na")),  # and a stray closer at a line start
        (["answer"], "stop", ("", "answer")),
        (["answer"], "length", ("answer", "")),
        (["answer"], "content_filter", ("", "answer")),
    ],
)
def test_content_before_the_promised_thought_waits_for_a_closer(
    texts: list[str], finish: str, said: tuple[str, str]
) -> None:
    rules = route(starts_in="reasoning", limits=Limits(unknown_start=16))
    if "9" in "".join(texts):
        rules = route(starts_in="reasoning", limits=Limits(unknown_start=8))
    reads = [*(delta(content=text) for text in texts), delta(finish=finish), DONE]
    assert streamed(reads, rules).said == said
    letters = [*(delta(content=letter) for letter in "".join(texts)), delta(finish=finish), DONE]
    assert streamed(letters, rules).said == said


def test_reasoning_shows_that_content_before_it_was_content() -> None:
    reads = [delta(content="a"), delta(reasoning="t"), delta(content="b"), delta(finish="stop"), DONE]
    answer = streamed(reads, route(starts_in="reasoning"))
    assert answer.deltas == [{"content": "a"}, dict.fromkeys(BOTH, "t"), {"content": "b"}]


def test_a_tool_call_shows_that_content_before_it_was_content() -> None:
    reads = [delta(content="a"), delta(tool_calls=CALL), delta(finish="tool_calls"), DONE]
    assert streamed(reads, route(starts_in="reasoning")).deltas == [{"content": "a"}, {"tool_calls": CALL}]
