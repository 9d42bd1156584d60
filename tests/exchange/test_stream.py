"""Streamed answers, frame by frame. Chunks are those of vLLM 0.33 (reference/vllm.md 3.1)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import EngineTimeout
from gateway.exchange import Exchange, Overrides
from gateway.limits import Limits
from gateway.policy import Profile, ReasoningField
from gateway.rulebook.dialect import Dialect, Header, HeaderRule, Target
from gateway.rulebook.load import load_rulebook
from gateway.streams.jsonscan import member
from tests.exchange.driver import (
    BOTH,
    CALL,
    DONE,
    ENGINE_ERROR,
    WANTED,
    chunk,
    delta,
    dialect,
    findings,
    opened,
    route,
    streamed,
)
from tests.support import messages

REPORT = Overrides(report=True)

# reference/vllm.md 3.1: role chunk, mid chunks, finish chunk, usage chunk, keep-alive, [DONE]
VLLM = [
    b'data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}'
    b"\n\n",
    b": keep-alive\n\n",
    b'data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"content":"def"},"logprobs":null,"finish_reason":null,"token_ids":null}],"kv_transfer_params":null}\n\n',
    b'data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null,"weight_versions":null}],'
    b'"kv_transfer_params":null}\n\n',
    b'data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":'
    b'{"prompt_tokens":3,"total_tokens":7,"completion_tokens":4},"system_fingerprint":"vllm-0.33.0"}\n\n',
    DONE,
]


class Cap(int):
    """A cap that breaks when it is told to: the deliberate fault of our own code in these tests."""

    broken = False

    def __radd__(self, other: int) -> int:
        if self.broken:
            raise RuntimeError("a broken cap")
        return int(self) + other


def header_dialect() -> Dialect:
    """A control dialect with headers, whose cap is used where a header opens."""
    rules = (HeaderRule(text="t", to=Target.REASONING),)
    found = dialect("gemma4")
    assert found is not None
    return replace(found, headers=(Header(open=("<|channel>",), close="|>", rules=rules),), regions=())


# ---------------------------------------------------------------------- untouched bytes


@pytest.mark.parametrize("reads", [VLLM, [b"".join(VLLM)], [bytes([byte]) for byte in b"".join(VLLM)]])
def test_an_answer_that_needs_no_change_keeps_every_byte(reads: list[bytes]) -> None:
    answer = streamed(reads)
    assert (answer.body, answer.complete, answer.findings) == (b"".join(VLLM), True, {})


@pytest.mark.parametrize(
    "frame",
    [
        b'data: { "choices" : [ {"index":0 ,\t"delta": {"content" : "x"} } ] , "n": 1.10, "e":1E5 }\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"x"}}],"big":123456789012345678901234567890}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"caf\\u00e9 \\/ \\ud83d\\ude00","x":[{}]},"z":"]}"}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"logprob":-Infinity}]}}]}\n\n',
        b'data:{"choices":[{"index":0,"delta":{"content":"no blank after the colon"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"crlf"}}]}\r\n\r\n',
        b'id: 7\nevent: message\ndata: {"choices":\ndata: [{"index":0,"delta":{"content":"two lines"}}]}\n\n',
        b'data: {"choices":null}\n\n',
        b'data: {"object":"something.else"}\n\n',
        b"event: ping\n\n",
    ],
)
def test_an_odd_frame_that_needs_no_change_keeps_every_byte(frame: bytes) -> None:
    answer = streamed([frame, delta(finish="stop"), DONE])
    assert answer.body == frame + delta(finish="stop") + DONE
    assert answer.uninspected == {}


def test_a_changed_frame_keeps_the_bytes_around_its_text() -> None:
    frame = b'data: { "n": 1.10, "choices":[{"x":1E5,"index":0,"delta":{ "content":"a</think>b" },"y":"\\u00e9"}]}\n\n'
    answer = streamed([delta(reasoning="r"), frame], route(reasoning_field=ReasoningField.REASONING))
    changed = (
        b'data: { "n": 1.10, "choices":[{"x":1E5,"index":0,"delta":{ "content":"a</think>b" },"y":"\\u00e9"}]}\n\n'
    )
    assert changed in answer.body  # a closer in the middle of a line is text (rule 3)
    answer = streamed(
        [delta(content="a\n"), frame.replace(b'"a</think>b"', b'"</think>b"'), delta(finish="stop"), DONE]
    )
    assert changed.replace(b"a</think>b", b"b") in answer.body


# ---------------------------------------------------------------------- frames that are written again


@pytest.mark.parametrize("name", BOTH)
def test_as_upstream_uses_the_engines_name_in_frames_that_are_written_again(name: str) -> None:
    reads = [delta(**{name: "t", "content": "c"}), delta(content="\n<think>u</think>d"), delta(finish="stop"), DONE]
    answer = streamed(reads, route(reasoning_field=ReasoningField.AS_UPSTREAM))
    assert answer.deltas == [{name: "t"}, {"content": "c"}, {"content": "\n"}, {name: "u"}, {"content": "d"}]


NAMES: dict[str, tuple[bytes, str, str]] = {
    "a null member shows the name": (b'{"reasoning_content":null,"content":"a\\n"}', "vllm", "reasoning_content"),
    "so does one of vLLM": (b'{"reasoning":null,"content":"a\\n"}', "sglang", "reasoning"),
    "SGLang": (b'{"content":"a\\n"}', "sglang", "reasoning_content"),
    "vLLM": (b'{"content":"a\\n"}', "vllm", "reasoning"),
    "an engine nobody knows": (b'{"content":"a\\n"}', "auto", "reasoning"),
}


@pytest.mark.parametrize(("first", "engine", "name"), NAMES.values(), ids=NAMES.keys())
def test_as_upstream_knows_the_engines_name_before_it_is_used(first: bytes, engine: str, name: str) -> None:
    rules = replace(route(reasoning_field=ReasoningField.AS_UPSTREAM), engine=engine)
    opening = b'data: {"choices":[{"index":0,"delta":%b}]}\n\n' % first
    answer = streamed([opening, delta(content="<think>u</think>d"), delta(finish="stop"), DONE], rules)
    assert answer.deltas[1:] == [{name: "u"}, {"content": "d"}]
    used = streamed([delta(**{BOTH[name == BOTH[0]]: "t"}), opening, delta(content="<think>u</think>d")], rules)
    assert {BOTH[name == BOTH[0]]: "u"} in used.deltas  # what was used counts for more than what is shown


def test_every_part_of_a_frame_that_is_written_again_has_the_names_of_the_route() -> None:
    two = [{"index": 0, "delta": {"content": "\n</think>"}}, {"index": 1, "delta": {"reasoning": "t", "content": None}}]
    answer = streamed([delta(content="a"), chunk(two)])
    assert answer.events[1]["choices"][1]["delta"] == {"content": None, "reasoning": "t", "reasoning_content": "t"}
    assert answer.told(0) == ("", "a\n")


MANY: dict[str, list[dict[str, Any]]] = {
    "thoughts of one choice": [{"index": 0, "delta": {"content": "<think>a</think>\n" * 500}}],
    "choices": [{"index": n, "delta": {"content": "<think>a</think>b<"}} for n in range(64)],
}


@pytest.mark.parametrize("choices", MANY.values(), ids=MANY.keys())
def test_however_many_events_one_becomes_it_is_searched_for_their_head_once(
    choices: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: Counter[int] = Counter()

    def counting(data: bytes, path: tuple[str | int, ...]) -> tuple[int, int] | None:
        looked[len(data)] += 1
        return member(data, path)

    monkeypatch.setattr("gateway.protocols.frames.member", counting)
    answer = streamed([chunk(choices), DONE])
    assert len(answer.events) > 100
    assert looked == {len(chunk(choices)) - len(b"data: \n\n"): 3}  # id, created, model


def test_reasoning_beside_a_tool_call_goes_out_before_it() -> None:
    answer = streamed(
        [delta(reasoning="go"), delta(reasoning=" now.", tool_calls=CALL), delta(finish="tool_calls"), DONE]
    )
    assert answer.deltas == [dict.fromkeys(BOTH, "go"), dict.fromkeys(BOTH, " now."), {"tool_calls": CALL}]
    assert answer.findings == {"mixed_chunk_split/split": 1}


def test_a_refusal_goes_out_as_it_came_and_is_an_answer() -> None:
    reads = [delta(refusal="I cannot."), delta(finish="stop"), DONE]
    answer = streamed(reads)
    assert (answer.body, answer.findings) == (b"".join(reads), {})


# ---------------------------------------------------------------------- tool calls (more in test_tool_calls)

TOOLS: dict[str, Any] = {"tools": [{"function": {"name": "f"}}]}


def test_a_frame_that_waits_for_its_call_is_written_once_with_everything_that_changes_in_it() -> None:
    twice = delta(content="\n<think>t", tool_calls=[{**CALL[0], "id": "d", "function": {"arguments": '{"a": 1}}'}}])
    answer = streamed([delta(tool_calls=CALL), twice, delta(finish="stop"), DONE], request=TOOLS)
    moved = {**CALL[0], "index": 1, "id": "d", "function": {"arguments": '{"a": 1}'}}
    assert answer.deltas == [{"tool_calls": CALL}, {"content": "\n"}, dict.fromkeys(BOTH, "t"), {"tool_calls": [moved]}]
    assert answer.events[-2]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_finish_reason_that_is_wrong_gets_the_right_word_and_every_other_byte_stays() -> None:
    answer = streamed([delta(content="a"), delta(finish="tool_calls"), DONE])
    assert answer.body == delta(content="a") + delta(finish="stop") + DONE


def test_a_call_that_is_over_with_the_stream_is_written_before_done() -> None:
    mistral = load_rulebook().resolve({"tools": "mistral"}, engine="vllm").dialect
    reads = [delta(content='[TOOL_CALLS]f[ARGS]{"a": 1}'), DONE]
    answer = streamed(reads, route(read_as=mistral, source="text"), request=TOOLS)
    [[opening], [arguments]] = [each["tool_calls"] for each in answer.deltas]
    assert (opening["function"]["name"], arguments["function"]["arguments"]) == ("f", '{"a": 1}')
    assert answer.events[-2]["choices"][0]["finish_reason"] == "tool_calls"


def test_reasoning_that_goes_out_behind_a_broken_stream_stays_hidden() -> None:
    exchange = opened(b"{}", route(reasoning_field=ReasoningField.NONE))
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = exchange.data(delta(content="a\n<think>secret</thi")) + exchange.broken(EngineTimeout("silent")).data
    assert (b"secret" in out, b"</thi" in out, b'"content":"a' in out) == (False, False, True)


# ---------------------------------------------------------------------- choices


def test_choices_that_interleave_are_read_apart() -> None:
    reads = [delta(index=1, content="<thi"), delta(content="a<"), delta(index=1, content="nk>t</think>b"),
             delta(content="c>"), delta(index=1, finish="stop"), delta(finish="length"), DONE]  # fmt: skip
    answer = streamed(reads)
    assert (answer.told(0), answer.told(1)) == (("", "a<c>"), ("t", "b"))
    assert answer.findings == {"reasoning_leak/moved": 1, "boundary_token/stripped": 2, "truncated/flagged": 1}


def test_choices_beyond_the_cap_go_on_with_their_text_unread_and_are_counted() -> None:
    answer = streamed(
        [delta(content="a"), delta(index=1, content="<think>a</think>", reasoning="r"), delta(finish="stop"), DONE],
        route(limits=Limits(choices=1)),
    )
    assert answer.told(1) == ("r", "<think>a</think>")
    assert answer.uninspected == {"choice_index": 1}


@pytest.mark.parametrize("index", [None, "0", True, 0.0, [0], {"i": 0}])
def test_a_choice_whose_index_is_none_goes_on_unread_and_is_counted(index: object) -> None:
    strange = chunk([{"index": index, "delta": {"content": "<think>a</think>"}, "finish_reason": "stop"}])
    answer = streamed([delta(content="a"), strange, delta(finish="stop"), DONE])
    assert strange in answer.body
    assert (answer.uninspected, answer.exchange.fault) == ({"choice_index": 1}, None)


@pytest.mark.parametrize("index", ["0", None, [0]])
def test_a_choice_whose_index_is_none_is_not_split(index: object) -> None:
    mixed = {"index": index, "delta": {"reasoning": "r", "content": "c"}}
    answer = streamed([chunk([{"index": 0, "delta": {"content": "<think>t</think>a"}}, mixed])])
    assert (answer.told(0), answer.exchange.fault) == (("t", "a"), None)
    choices = [choice for event in answer.events for choice in event.get("choices", ()) if choice["index"] == index]
    assert choices == [mixed | {"delta": {"reasoning": "r", "content": "c", "reasoning_content": "r"}}]


def test_a_choice_that_is_not_read_has_its_reasoning_hidden_all_the_same() -> None:
    strange = chunk([{"index": "0", "delta": {"content": "c", "reasoning": "r"}}])
    answer = streamed([strange, delta(finish="stop"), DONE], route(reasoning_field=ReasoningField.NONE))
    assert answer.deltas == [{"content": "c"}]


def test_a_choice_without_an_index_is_told_by_its_place() -> None:
    frame = chunk([{"delta": {"content": "<think>a</think>b"}, "finish_reason": "stop"}])
    assert streamed([frame, DONE]).deltas == [dict.fromkeys(BOTH, "a"), {"content": "b"}]


# ---------------------------------------------------------------------- surrogate halves


def test_halves_of_one_character_in_two_chunks_arrive_whole() -> None:
    halves = [b'"content":"a\\ud83d"', b'"content":"\\ude00b"']
    reads = [b'data: {"choices":[{"index":0,"delta":{%b}}]}\n\n' % half for half in halves]
    answer = streamed([*reads, delta(finish="stop"), DONE])
    assert answer.deltas == [{"content": "a"}, {"content": "\U0001f600b"}]


def test_a_half_alone_keeps_its_place_in_the_text() -> None:
    half = b'data: {"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}\n\n'
    answer = streamed([half, delta(content="b"), delta(content="c"), delta(finish="stop"), DONE])
    assert "".join(d["content"] for d in answer.deltas) == "a\ud83dbc"


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_half_alone_at_the_end_becomes_the_replacement_character(finish: str) -> None:
    half = b'data: {"choices":[{"index":0,"delta":{"reasoning":"a\\ud83d"}}]}\n\n'
    assert streamed([half, delta(finish=finish), DONE]).said == ("a\ufffd", "")


@pytest.mark.parametrize("after", [delta(content="b"), delta(tool_calls=CALL)])
def test_a_half_alone_becomes_the_replacement_character_where_the_thought_ends(after: bytes) -> None:
    half = b'data: {"choices":[{"index":0,"delta":{"reasoning":"a\\ud83d"}}]}\n\n'
    answer = streamed([half, after, delta(finish="stop"), DONE])
    assert answer.deltas[1] == dict.fromkeys(BOTH, "\ufffd")


def test_a_half_that_goes_out_with_the_answer_makes_no_delta_mixed() -> None:
    half = b'data: {"choices":[{"index":0,"delta":{"reasoning":"a\\ud83d"}}]}\n\n'
    answer = streamed([half, delta(content="b\n<think>c</think>"), delta(content="d"), delta(finish="stop"), DONE])
    assert answer.said == ("a\ufffdc", "b\nd")
    assert "mixed_chunk_split/split" not in answer.findings


def test_a_half_goes_out_before_an_error() -> None:
    half = b'data: {"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}\n\n'
    assert streamed([half, ENGINE_ERROR, DONE]).said == ("", "a\ufffd")


# ---------------------------------------------------------------------- ends (rules 4 and 6)


def test_done_without_a_finish_reason_gets_one_in_full() -> None:
    answer = streamed([delta(content="a<"), DONE])
    text, finish = (event["choices"][0] for event in answer.events[1:3])
    assert (text["delta"], finish["delta"], finish["finish_reason"]) == ({"content": "<"}, {}, "stop")
    assert (answer.findings, answer.complete) == ({"finish_reason_fixed/added": 1}, True)


def test_done_without_a_finish_reason_is_only_counted_in_repair() -> None:
    reads = [delta(content="a"), DONE]
    answer = streamed(reads, route(profile=Profile.REPAIR))
    assert (answer.body, answer.findings) == (b"".join(reads), {"finish_reason_fixed/would_add": 1})


def test_only_the_choices_that_lack_a_finish_reason_get_one() -> None:
    answer = streamed([delta(content="a"), delta(index=1, content="b"), delta(finish="length"), DONE])
    assert [(e["choices"][0]["index"], e["choices"][0]["finish_reason"]) for e in answer.events[2:4]] == [
        (0, "length"),
        (1, "stop"),
    ]


def test_an_engine_error_ends_the_answer_and_no_finish_reason_is_invented() -> None:
    answer = streamed([delta(content="a<thi"), ENGINE_ERROR, DONE])
    assert answer.body.endswith(ENGINE_ERROR + DONE)
    assert answer.said == ("", "a<thi")
    assert (answer.complete, answer.findings) == (True, {})


def test_a_chunk_that_says_an_error_and_text_says_both_and_everything_held_goes_first() -> None:
    failed = chunk([{"index": 0, "delta": {"content": "b<thi"}, "finish_reason": "stop"}], error={"message": "x"})
    answer = streamed([delta(content="a<"), delta(index=1, content="z<"), failed, DONE])
    assert (answer.told(0), answer.told(1)) == (("", "a<b<thi"), ("", "z<"))
    assert [event["error"]["message"] for event in answer.events[:-1] if "error" in event] == ["x"]
    assert "error" in answer.events[-2]  # nothing is said after it
    plain_text = chunk([{"index": 0, "delta": {"content": "b"}}], error={"message": "x"})
    assert streamed([plain_text, DONE]).body == plain_text + DONE


def test_an_engine_error_ends_the_answer_without_done_too() -> None:
    answer = streamed([delta(content="a"), ENGINE_ERROR])
    assert (answer.body, answer.complete) == (delta(content="a") + ENGINE_ERROR, True)


def test_text_behind_an_engine_error_or_a_finish_reason_is_not_lost() -> None:
    assert streamed([delta(content="a"), ENGINE_ERROR, delta(content="<"), DONE]).said == ("", "a<")
    answer = streamed([delta(content="a", finish="stop"), delta(content="<", finish="stop"), DONE])
    assert (answer.said, answer.findings) == (("", "a<"), {})


def test_a_stream_that_ends_after_its_finish_reason_is_complete_without_done() -> None:
    reads = [delta(content="a"), delta(finish="stop")]
    answer = streamed(reads)
    assert (answer.body, answer.complete) == (b"".join(reads), True)


@pytest.mark.parametrize("reads", [[], [b": keep-alive\n\n"], [delta(content="a<thi")], [delta(content="a"), VLLM[4]]])
def test_a_stream_without_its_terminal_event_ends_with_an_error_and_incomplete(reads: list[bytes]) -> None:
    answer = streamed(reads)
    assert answer.events[-1]["error"]["code"] == "integrity_upstream_truncated"
    assert not answer.complete
    assert DONE not in answer.body


@pytest.mark.parametrize("last", [DONE[:-1], DONE[:-2], DONE[:-2] + b"\r"])
def test_a_last_event_that_only_lacks_its_blank_line_is_read(last: bytes) -> None:
    answer = streamed([delta(content="a<"), delta(finish="stop"), last])
    assert (answer.said, answer.complete) == (("", "a<"), True)
    assert answer.body.startswith(delta(content="a") + delta(content="<", finish="stop") + DONE.rstrip())


def test_a_finish_chunk_that_only_lacks_its_blank_line_is_read() -> None:
    answer = streamed([delta(content="a<"), delta(finish="stop")[:-2]])
    assert (answer.said, answer.complete) == (("", "a<"), True)


def test_half_an_event_at_the_end_is_left_out_so_that_the_error_is_an_event() -> None:
    answer = streamed([delta(content="a<"), delta(content="b")[:40]])
    assert [list(event) for event in answer.events][2:] == [["error"]]
    assert answer.said == ("", "a<")


@pytest.mark.parametrize("last", [DONE, ENGINE_ERROR])
def test_an_upstream_that_breaks_off_behind_the_end_of_the_answer_adds_no_error(last: bytes) -> None:
    exchange = opened({}, route())
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    sent = delta(content="a") + delta(finish="stop") + last
    assert exchange.data(sent) == sent
    ending = exchange.broken(EngineTimeout("the engine was silent"))
    assert (ending.data, ending.complete) == (b"", False)


def test_a_broken_upstream_lets_held_text_go_before_the_error_and_suppresses_nothing() -> None:
    exchange = opened(WANTED, route())
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    exchange.data(delta(reasoning="rs") + delta(content="rs") + delta(content="t")[:30])
    ending = exchange.broken(EngineTimeout("the engine was silent"))
    text, error = ending.data.split(b"\n\n")[:2]
    assert json.loads(text[6:])["choices"][0]["delta"] == {"content": "rs"}
    assert json.loads(error[6:])["error"] == {
        "message": "the engine was silent", "type": "InternalServerError", "param": None,
        "code": "integrity_upstream_timeout",
    }  # fmt: skip
    assert not ending.complete


@pytest.mark.parametrize(
    "last",
    [[delta(finish="stop"), DONE], [delta(finish="stop"), DONE[:-2]], [ENGINE_ERROR]],
    ids=["done", "cut", "error"],
)
def test_an_upstream_that_breaks_off_behind_the_end_adds_no_error(last: list[bytes]) -> None:
    exchange = opened({}, route())
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    sent = b"".join([exchange.data(read) for read in [delta(content="a<"), *last]])
    ending = exchange.broken(EngineTimeout("silent"))
    assert (b"integrity_" in sent + ending.data, ending.complete) == (False, False)
    assert b'"content":"<"' in sent + ending.data


@pytest.mark.parametrize("first", [b": hi\n\n", b"id: 3\n\n", b"\n", b""])
@pytest.mark.parametrize("size", [1, 1000])
def test_what_has_no_data_is_read_behind_a_byte_order_mark_too(first: bytes, size: int) -> None:
    body = b"\xef\xbb\xbf" + first + delta(content="a") + delta(finish="stop") + DONE
    answer = streamed(
        [body[at : at + size] for at in range(0, len(body), size)], route(reasoning_field=ReasoningField.NONE)
    )
    assert (answer.body, answer.uninspected, answer.complete) == (body, {}, True)
    cut = streamed([b"\xef\xbb\xbf" + first[:1]], route())
    assert cut.uninspected == {}


# ---------------------------------------------------------------------- bytes that are no chat stream


@pytest.mark.parametrize(
    ("strange", "reason"),
    [
        (b"data: no json\n\n", "no_JSON"),
        (b'data: {"choices":[{"index":0,"text":"x"}]}\n\n', "no_chat_completion"),
        (b'data: {"choices":[{"index":0,"delta":{"content":["x"]}}]}\n\n', "no_chat_completion"),
        (b'data: {"choices":7}\n\n', "no_chat_completion"),
        (b"data: [1]\n\n", "no_chat_completion"),
        (b"<p>Bad gateway</p>\n\n", "no_event"),
    ],
)
def test_what_is_no_event_of_the_protocol_goes_on_untouched_and_is_counted(strange: bytes, reason: str) -> None:
    answer = streamed([strange])
    assert (answer.body, answer.complete, answer.uninspected) == (strange, True, {reason: 1})
    answer = streamed([delta(content="a"), strange, delta(finish="stop"), DONE])
    assert answer.body == delta(content="a") + strange + delta(finish="stop") + DONE
    assert answer.uninspected == {reason: 1}


UNREADABLE = {
    "two thoughts": delta(reasoning="a", reasoning_content="b"),
    "content is a list": delta(content=["x"]),
    "invalid UTF-8": b'data: {"choices":[{"index":0,"delta":{"content":"\xff"}}]}\n\n',
}


@pytest.mark.parametrize("strange", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_is_held_goes_out_before_what_cannot_be_read(strange: bytes) -> None:
    answer = streamed([delta(content="a<thi"), strange, delta(content="b"), delta(finish="stop"), DONE])
    before, _, after = answer.body.partition(strange)
    assert (before.count(b'"a"'), before.count(b'"<thi"')) == (1, 1)
    assert after == delta(content="b") + delta(finish="stop") + DONE


@pytest.mark.parametrize("delta_", [b'"delta":null,', b""])
def test_a_finish_chunk_without_a_delta_ends_its_choice_once(delta_: bytes) -> None:
    finish = b'data: {"choices":[{"index":0,%b"finish_reason":"stop"}]}\n\n' % delta_
    answer = streamed([delta(content="a<thi"), finish, DONE])
    before = answer.body.removesuffix(finish + DONE).split(b"\n\n")[:-1]
    assert [json.loads(frame[6:])["choices"][0]["delta"]["content"] for frame in before] == ["a", "<thi"]
    assert answer.body.endswith(finish + DONE)
    assert (answer.findings, answer.uninspected, answer.complete) == ({}, {}, True)


def test_no_finish_reason_is_added_where_the_engines_own_may_have_gone_by_unread() -> None:
    unread = delta(reasoning="a", reasoning_content="b", finish="stop")
    answer = streamed([delta(content="a"), unread, DONE])
    assert (answer.body, answer.findings) == (delta(content="a") + unread + DONE, {})


def test_a_body_that_is_no_event_stream_goes_on_untouched_to_its_last_byte() -> None:
    body = b'{"choices":[{"index":0,"message":{"content":"a"}}]}'
    answer = streamed([body])
    assert (answer.body, answer.complete, answer.uninspected) == (body, True, {"no_event": 1})


@pytest.mark.parametrize(
    "body", [b"data: no json\n\n", b"<p>\n\n", b'{"choices":[{"message":{"reasoning":"secret"}}]}']
)
def test_what_cannot_be_read_does_not_go_out_where_reasoning_is_hidden(body: bytes) -> None:
    answer = streamed([body], route(reasoning_field=ReasoningField.NONE))
    assert [event["error"]["code"] for event in answer.events] == ["integrity_internal"]
    assert (answer.complete, body in answer.body) == (False, False)


def test_strange_bytes_before_a_broken_upstream_do_not_swallow_the_error_event() -> None:
    for reads in ([delta(content="a"), b"garbage"], [b"garbage"]):
        exchange = opened({}, route())
        exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
        sent = b"".join([exchange.data(read) for read in reads])
        out = sent + exchange.broken(EngineTimeout("silent")).data
        assert b"garbage\n\n" in out
        assert (
            json.loads(out.split(b"\n\n")[-2].removeprefix(b"data: "))["error"]["code"] == "integrity_upstream_timeout"
        )


# ---------------------------------------------------------------------- faults (rule 7)


def test_an_event_over_the_cap_ends_the_inspection_and_every_byte_goes_on() -> None:
    long = delta(content="x" * 400)
    reads = [delta(content="a<"), long[:300], long[300:] + b"data: <think>\n", delta(content="<think>"), DONE]
    answer = streamed(reads, route(limits=Limits(sse_event=300)))
    assert answer.body == delta(content="a") + text_event("<") + b"".join(reads[1:])
    assert (answer.complete, answer.uninspected) == (True, {"frame_too_large": 1})


def test_an_event_over_the_cap_is_an_error_where_reasoning_is_hidden() -> None:
    rules = route(limits=Limits(sse_event=300), reasoning_field=ReasoningField.NONE)
    answer = streamed([delta(reasoning="x" * 400), delta(reasoning="y")], rules)
    assert [event["error"]["code"] for event in answer.events] == ["integrity_internal"]
    assert not answer.complete


def test_an_event_over_the_cap_is_no_internal_error() -> None:
    rules = route(limits=Limits(sse_event=300), on_internal_error="error")
    assert streamed([delta(content="x" * 400), DONE], rules).body == delta(content="x" * 400) + DONE


def faulty(*before: bytes, **policy: object) -> tuple[Exchange, bytes]:
    """An exchange that has taken `before` and `HEADER`, and what it said; reading on breaks our own code."""
    cap = Cap(9)
    exchange = opened({}, route(read_as=header_dialect(), limits=Limits(header=cap), **policy))
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = b"".join([exchange.data(read) for read in (*before, HEADER)])
    cap.broken = True
    return exchange, out


HEADER = delta(content="<|channel>u")


def text_event(text: str, index: int = 0) -> bytes:
    """A chunk of our own that says content."""
    choice = b'{"index":%d,"delta":{"content":"%b"},"logprobs":null,"finish_reason":null}' % (index, text.encode())
    return (
        b'data: {"object":"chat.completion.chunk","id":"chatcmpl-1","created":1,"model":"m","choices":[%b]}\n\n'
        % choice
    )


def test_a_fault_of_ours_forwards_the_rest_unchanged_and_says_where_it_was() -> None:
    exchange, out = faulty(delta(index=1, content="<|chan") + delta(content="\n"))
    bad = [delta(content="v"), delta(finish="stop"), DONE]
    out += exchange.data(bad[0] + bad[1][:9]) + exchange.data(bad[1][9:]) + exchange.data(bad[2])
    assert out == delta(content="\n") + text_event("<|channel>u") + text_event("<|chan", 1) + b"".join(bad)
    assert (exchange.end().data, exchange.end().complete) == (b"", True)
    assert exchange.fault is not None
    assert exchange.fault.startswith("RuntimeError at test_stream.py:")
    assert dict(exchange.tally.uninspected) == {"internal": 1}


def test_a_fault_of_ours_is_an_error_event_where_the_policy_says_so() -> None:
    exchange, out = faulty(on_internal_error="error")
    out += exchange.data(delta(content="v") + delta(content="w")) + exchange.data(DONE)
    held, error = out.split(b"\n\n")[:-1]
    assert held + b"\n\n" == text_event("<|channel>u")
    assert json.loads(error[6:])["error"] == {
        "message": "the gateway could not read the answer", "type": "InternalServerError", "param": None,
        "code": "integrity_internal",
    }  # fmt: skip
    assert (exchange.end().data, exchange.end().complete) == (b"", False)
    assert exchange.broken(EngineTimeout("silent")).data == b""


def test_after_a_fault_of_ours_a_broken_upstream_still_ends_with_an_error_event() -> None:
    exchange, _ = faulty()
    relayed = exchange.data(delta(content="v") + b"data: {")
    ending = exchange.broken(EngineTimeout("silent"))
    assert (relayed[-7:], ending.data[:10], ending.complete) == (b"data: {", b'\n\ndata: {"', False)


def test_a_fault_at_the_very_end_is_fenced_too() -> None:
    exchange, _ = faulty()
    exchange.data(delta(content="v")[:-2])
    ending = exchange.end()
    assert (ending.data, ending.complete) == (text_event("<|channel>u") + delta(content="v"), True)


def test_a_fault_while_held_text_is_read_loses_none_of_it() -> None:
    exchange, out = faulty()
    assert out == b""
    assert exchange.broken(EngineTimeout("silent")).data.startswith(text_event("<|channel>u") + b'data: {"error"')
    assert exchange.fault is not None


# ---------------------------------------------------------------------- report


def test_the_report_is_one_event_without_choices_before_done() -> None:
    answer = streamed([delta(content="<think>t</think>a"), delta(finish="stop"), DONE], overrides=REPORT)
    report, done = answer.events[-2:]
    assert done == "[DONE]"
    assert (report["choices"], report["id"], report["object"]) == ([], "chatcmpl-1", "chat.completion.chunk")
    assert report["integrity"] == {
        "profile": "full", "dialect": "think", "source": "fields", "thinking": "unknown",
        "why": {"dialect": "", "thinking": "no member says it"}, "attempts": 1,
        "findings": [
            {"finding": "reasoning_leak", "action": "moved", "count": 1, "where": "content"},
            {"finding": "boundary_token", "action": "stripped", "count": 1, "marker": "</think>", "where": "content"},
            {"finding": "boundary_token", "action": "stripped", "count": 1, "marker": "<think>", "where": "content"},
        ],
    }  # fmt: skip


def test_the_report_of_a_stream_without_done_comes_last() -> None:
    answer = streamed([delta(content="a"), delta(finish="stop")], overrides=REPORT)
    assert answer.events[-1]["integrity"]["findings"] == []


def test_a_broken_stream_has_no_report() -> None:
    answer = streamed([delta(content="a")], overrides=REPORT)
    assert "integrity" not in json.dumps(answer.events[:-1])
    assert "error" in answer.events[-1]


def test_two_runs_of_leaked_reasoning_count_the_same_at_every_cut() -> None:
    text = "a\n<think>b</think>c\n<think>d</think>e"
    counts = {"reasoning_leak/moved": 2, "boundary_token/stripped": 4}
    for size in (1, 2, 3, 7, 100):
        reads = [delta(content=text[at : at + size]) for at in range(0, len(text), size)]
        answer = streamed([*reads, delta(finish="stop"), DONE])
        assert (answer.findings, answer.said) == (counts, ("bd", "a\nc\ne"))


def test_findings_are_counted_over_all_choices() -> None:
    exchange = opened({}, route())
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    for index in range(3):
        exchange.data(delta(index=index, content="<think>"))
    assert findings(exchange) == {"boundary_token/stripped": 3}


# ---------------------------------------------------------------------- between two reads


@pytest.mark.parametrize("lost", [b"data: 1\n\n", b"no event\n\n", b"data: " + b"x" * 200], ids=["frame", "raw", "cap"])
def test_a_comment_has_no_place_once_bytes_went_out_unread(lost: bytes) -> None:
    exchange = opened(b'{"model":"m"}', route(limits=replace(Limits(), sse_line=150, sse_event=150)))
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    exchange.data(b": hi\n\n")
    assert exchange.interruptible
    exchange.data(lost)
    assert not exchange.interruptible


def test_the_first_choice_whose_text_waits_says_why() -> None:
    exchange = opened(b'{"model":"m"}', route())
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    exchange.data(delta(content="a\n", index=0))
    assert exchange.holding is None
    exchange.data(delta(content="b\n</th", index=1))
    assert exchange.holding == "marker"
    exchange.data(delta(tool_calls=[{"index": 0, "function": {"arguments": "{"}}]))
    assert exchange.holding == "tool_region"


# ---------------------------------------------------------------------- usage


@pytest.mark.parametrize(("told", "missing"), [(b"", True), (chunk([], usage={"total_tokens": 7}), False)])
@pytest.mark.parametrize("done", [DONE, b""])
def test_a_stream_that_was_asked_for_its_usage_owes_it_to_the_end(told: bytes, missing: bool, done: bytes) -> None:
    request = {"stream": True, "stream_options": {"include_usage": True}}
    answer = streamed([delta(content="a"), delta(finish="stop"), told, done], request=request)
    assert answer.findings == ({"usage_missing/flagged": 1} if missing else {})


# ---------------------------------------------------------------------- a protocol with structure


def test_a_thought_gets_no_block_where_thinking_is_off_until_the_engine_shows_one() -> None:
    leak: list[messages.Piece] = [("text", "<think>a</think>b")]
    answer = messages.streamed(messages.events(leak), request=messages.OFF)
    assert (answer.said, answer.exchange.tally.suppressed) == (("", "b"), 1)
    clean = messages.streamed(messages.events([("text", "b")]), request=messages.OFF)
    assert clean.said == ("", "b")
    shown = messages.streamed(messages.events([("thinking", "t"), *leak]), request=messages.OFF)
    assert (shown.said, shown.exchange.tally.suppressed) == (("ta", "b"), 0)


@pytest.mark.parametrize("report", [True, False])
def test_an_end_of_ours_takes_the_report(report: bool) -> None:
    unended = [messages.HEAD, *messages.blocks([("text", "a")]), messages.END]
    answer = messages.streamed(unended, report=report)
    assert (answer.reason, answer.report is not None) == ("end_turn", report)


def test_an_answer_with_structure_is_complete_with_its_last_event_only() -> None:
    answer = messages.streamed([messages.HEAD, *messages.blocks([("text", "a")]), messages.tail()])
    assert (answer.reason, answer.complete) == ("end_turn", False)


@pytest.mark.parametrize("cut", [b"d", b"data", b"eve", b"i"])
def test_the_name_of_a_field_that_was_cut_is_half_an_event(cut: bytes) -> None:
    for reads in ([], [delta(content="a")]):
        answer = streamed([*reads, cut])
        assert answer.body.startswith(b"".join(reads) + b'data: {"error"')
        assert not answer.complete
