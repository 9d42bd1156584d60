"""Anthropic Messages through the exchange: blocks, calls, endings, faults. Every streamed answer here must be legal.

Wire shapes are those of reference/vllm.md 3.6 and sglang.md 3.6; `streamed` fails a test whose answer breaks the rules
of `gateway/protocols/legal/messages.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import EngineFault
from gateway.exchange import RouteRules
from gateway.policy import Mode, Profile, ReasoningField, ToolRescue
from gateway.protocols.legal.messages import violations
from gateway.rulebook.load import load_rulebook
from tests.exchange.driver import route
from tests.support.atoms import dialects, texts
from tests.support.messages import (
    END,
    ERROR,
    HEAD,
    OFF,
    PING,
    SIGNATURE,
    WANTED,
    Answer,
    Piece,
    blocks,
    body,
    delta,
    event,
    events,
    frames,
    opened,
    plain,
    recut,
    start,
    stop,
    streamed,
    tail,
)  # fmt: skip

RAW = route(source="text")
THOUGHT: list[Piece] = [("thinking", "Let me "), ("thinking", "think."), ("text", "The answer "), ("text", "is 42.")]
LEAK: list[Piece] = [("text", "<think>Let me think.</think>The answer is 42.")]
SAID = ("Let me think.", "The answer is 42.")
CALL: Piece = ("tool_use", ("toolu_1", "get_weather", ['{"city": ', '"Paris"}']))
CALLED = [("get_weather", {"city": "Paris"})]
TOOLS = {"tools": [{"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {}}}}]}
MARKUP = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
CUTS = (1, 2, 3, 5, 7, 11, 23, 1 << 30)


@cache
def hermes(**policy: object) -> RouteRules:
    """A route that reads Hermes calls in the engine's own split."""
    named = load_rulebook().resolve({"reasoning": "qwen3", "tools": "hermes"}, engine="vllm").dialect
    return route(read_as=named, tool_rescue=ToolRescue(reasoning=Mode.ENFORCE), **policy)  # type: ignore[arg-type]


def reads(frames_: Iterable[bytes], size: int) -> list[bytes]:
    """The stream in reads of `size` bytes."""
    whole = b"".join(frames_)
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def thoughts(answer: Answer) -> list[tuple[str, str | None]]:
    """Text and signature of every block of thought."""
    return [(block["thinking"], block.get("signature")) for block in answer.content if block["type"] == "thinking"]


# ---------------------------------------------------------------------- nothing to change

CLEAN = [
    *(HEAD, b": keep-alive\n\n", PING),
    *blocks([*THOUGHT, CALL, ("tool_use", ("toolu_2", "now", []))]),
    *(PING, tail("tool_use"), END),
]


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_a_clean_stream_keeps_every_byte_at_every_cut(profile: Profile, size: int) -> None:
    answer = streamed(reads(CLEAN, size), route(profile=profile), request=TOOLS)
    assert answer.raw == b"".join(CLEAN)
    assert (answer.complete, answer.findings) == (True, {})


ODD_FRAMING = b"".join(CLEAN).replace(b"\n", b"\r\n").replace(b"data: ", b"data:")


def test_a_clean_stream_in_other_line_ends_keeps_its_bytes_too() -> None:
    assert streamed([ODD_FRAMING], legal=False).raw == ODD_FRAMING


def test_a_clean_body_stays_as_it_is() -> None:
    sent = body([*THOUGHT, CALL], reason="tool_use")
    assert plain(sent, request=TOOLS).raw == sent


EMPTY = [HEAD, start(0, {"type": "text", "text": ""}), stop(0), tail(), END]


def test_an_answer_without_output_is_one_empty_block_as_the_engine_sends_it() -> None:
    answer = streamed(EMPTY)
    assert answer.raw == b"".join(EMPTY)
    assert "empty_response/flagged" in answer.findings


def test_a_stream_whose_order_is_the_engines_own_mistake_is_not_touched() -> None:
    wrong = [HEAD, delta(4, text="a"), start(0, {"type": "thinking", "thinking": ""}), tail(), END]
    assert streamed(wrong, legal=False).raw == b"".join(wrong)


def test_bytes_that_are_no_event_of_messages_go_on_as_they_came() -> None:
    strange = [HEAD, b"data: []\n\n", b"data: no json\n\n", *blocks([("text", "Hi")]), tail(), END, b"data: [DONE]\n\n"]
    answer = streamed(strange, legal=False)
    assert answer.raw == b"".join(strange)
    assert answer.exchange.tally.uninspected == {"no_message": 1, "no_JSON": 1}


# ---------------------------------------------------------------------- text in another channel


@pytest.mark.parametrize("size", CUTS)
def test_a_thought_in_the_text_gets_a_block_before_it(size: int) -> None:
    answer = streamed(events(recut(LEAK, size)), RAW)
    assert (answer.kinds, answer.said) == (["thinking", "text"], SAID)


def test_a_plain_body_has_the_blocks_that_the_stream_has() -> None:
    answer = plain(body(LEAK), RAW)
    assert (answer.kinds, answer.said) == (["thinking", "text"], SAID)


MORE: list[Piece] = [("thinking", "Let me "), ("text", "<think>think.</think>The answer is 42.")]


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize(
    ("signed", "blocks_"),
    [(False, [("Let me think.", None)]), (True, [("Let me ", SIGNATURE), ("think.", None)])],
    ids=["unsigned", "signed"],
)
def test_a_run_of_reasoning_is_one_block_but_nothing_joins_what_is_signed(
    signed: bool, blocks_: list[tuple[str, str | None]], size: int
) -> None:
    answer = streamed(events(recut(MORE, size), signed=signed))
    assert (thoughts(answer), answer.said) == (blocks_, SAID)
    whole = plain(body(MORE, signed=signed))
    assert (thoughts(whole), whole.said, whole.kinds) == (blocks_, SAID, answer.kinds)


def test_a_run_that_the_engine_cuts_in_two_is_one_block_once_anything_changes() -> None:
    pieces = [("thinking", "<think>Let me "), ("raw", {"type": "ping"}), ("thinking", "think."), ("text", "42")]
    cut = [HEAD, *blocks(pieces[:1], signed=False)]
    cut += [start(1, {"type": "thinking", "thinking": ""}), delta(1, thinking="think."), stop(1)]
    cut += [start(2, {"type": "text", "text": ""}), delta(2, text="42"), stop(2), tail(), END]
    assert thoughts(streamed(cut)) == [("Let me think.", None)]


LONG = "word " * 2_000


def test_a_long_thought_is_one_block() -> None:
    answer = streamed(events(recut([("text", f"<think>{LONG}</think>Done.")], 50)), RAW)
    assert thoughts(answer) == [(LONG, None)]


HELD: list[Piece] = [("thinking", "a <"), ("text", "b")]


def test_what_is_held_of_a_signed_thought_goes_before_its_signature() -> None:
    answer = streamed(events(HELD))
    assert (thoughts(answer), answer.said[1]) == ([("a <", SIGNATURE)], "b")


def test_a_signature_waits_in_vain_for_a_marker_that_was_taken_out() -> None:
    answer = streamed(events([("thinking", "a"), ("thinking", "</think>"), ("text", "b")]))
    assert (thoughts(answer), answer.said[1]) == ([("a", SIGNATURE)], "b")


def test_text_that_follows_a_held_thought_of_its_own_block_is_apart_from_it() -> None:
    answer = streamed(events([("thinking", "a <"), ("text", "<think>b</think>c")]))
    assert (thoughts(answer), answer.said) == ([("a <", SIGNATURE), ("b", None)], ("a <b", "c"))


@pytest.mark.parametrize("size", CUTS)
def test_an_answer_in_the_thought_becomes_text(size: int) -> None:
    pieces: list[Piece] = [("thinking", "Let me think.</think>The answer is 42.")]
    answer = streamed(events(recut(pieces, size)))
    assert (answer.kinds, answer.said) == (["thinking", "text"], SAID)
    whole = plain(body(pieces))
    assert (whole.kinds, whole.said) == (["thinking", "text"], SAID)


REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy"}
HIDDEN_THOUGHT = [start(0, {"type": "thinking", "thinking": ""}), delta(0, signature=SIGNATURE), stop(0)]


def test_empty_signed_and_redacted_blocks_stay_as_they_are_behind_a_change() -> None:
    leak = [start(2, {"type": "text", "text": ""}), delta(2, text="<think>x</think>42"), stop(2)]
    sealed = [start(3, {"type": "thinking", "thinking": ""}), delta(3, signature="s3"), stop(3)]
    answer = streamed([HEAD, *HIDDEN_THOUGHT, start(1, REDACTED), stop(1), *leak, *sealed, start(4, REDACTED), stop(4),
                       tail(), END])  # fmt: skip
    kinds = ["thinking", "redacted_thinking", "thinking", "text", "thinking", "redacted_thinking"]
    assert (answer.kinds, answer.said) == (kinds, ("x", "42"))
    assert [signature for _, signature in thoughts(answer)] == [SIGNATURE, None, "s3"]
    assert [block for block in answer.content if block["type"] == "redacted_thinking"] == [REDACTED] * 2


def test_empty_signed_and_redacted_blocks_of_a_body_stay_as_they_are() -> None:
    sealed = {"type": "thinking", "thinking": "", "signature": "s"}
    content = [sealed, REDACTED, {"type": "text", "text": "<think>x</think>42", "citations": None}]
    sent = json.loads(body([])) | {"content": content}
    answer = plain(json.dumps(sent).encode())
    text = {"type": "text", "text": "42", "citations": None}
    assert answer.content == [sealed, REDACTED, {"type": "thinking", "thinking": "x"}, text]


CITATION = {"type": "char_location", "cited_text": "x", "document_index": 0}
SEARCHED = [
    start(1, {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}),
    *(delta(1, partial_json='{"query": "x"}'), stop(1)),
    *(start(2, {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}), stop(2)),
    *(start(3, {"type": "text", "text": "", "citations": []}), delta(3, text="b")),
    event({"type": "content_block_delta", "delta": {"type": "citations_delta", "citation": CITATION}, "index": 3}),
    *(stop(3), tail(), END),
]


def test_blocks_of_other_kinds_and_their_deltas_only_get_another_index() -> None:
    before = [HEAD, *blocks([("text", "<think>x</think>a")])]
    answer = streamed([*before, *SEARCHED], request=TOOLS)
    assert answer.kinds == ["thinking", "text", "server_tool_use", "web_search_tool_result", "text"]
    assert (answer.content[2]["input"], answer.said, answer.calls) == ({"query": "x"}, ("x", "ab"), [])
    assert answer.content[4]["citations"] == [CITATION]
    assert answer.exchange.tally.calls == {}


# ---------------------------------------------------------------------- thinking that was not asked for


@pytest.mark.parametrize("size", CUTS)
def test_thinking_that_is_off_gets_no_block_for_a_thought_in_the_text(size: int) -> None:
    answer = streamed(events(recut(LEAK, size)), request=OFF)
    assert (answer.kinds, answer.said) == (["text"], ("", SAID[1]))
    assert answer.exchange.tally.suppressed == len(SAID[0])
    whole = plain(body(LEAK), request=OFF)
    assert (whole.content, whole.exchange.tally.suppressed) == (answer.content, len(SAID[0]))


@pytest.mark.parametrize("size", CUTS)
def test_raw_text_is_split_alike_whether_thinking_is_off_or_not(size: int) -> None:
    for answer in (streamed(events(recut(LEAK, size)), RAW, request=OFF), plain(body(LEAK), RAW, request=OFF)):
        assert (answer.kinds, answer.said) == (["thinking", "text"], SAID)


def test_thinking_that_is_off_shows_what_the_engine_shows_all_the_same() -> None:
    for answer in (streamed(events(MORE), request=OFF), plain(body(MORE), request=OFF)):
        assert answer.said == SAID


@pytest.mark.parametrize(("reason", "kinds"), [("end_turn", ["text"]), ("max_tokens", ["thinking"])])
def test_thinking_that_is_off_makes_the_answer_of_a_thought_that_is_all_there_is(reason: str, kinds: list[str]) -> None:
    pieces: list[Piece] = [("thinking", "The answer "), ("thinking", "is 42.")]
    for answer in (
        streamed(events(pieces, reason=reason), request=OFF),
        plain(body(pieces, reason=reason), request=OFF),
    ):
        assert (answer.kinds, "".join(answer.said)) == (kinds, "The answer is 42.")


def test_a_thought_that_waited_while_thinking_is_off_keeps_its_signature() -> None:
    assert thoughts(streamed(events(THOUGHT), request=OFF)) == [(SAID[0], SIGNATURE)]


OMITTED = {"thinking": {"type": "adaptive", "display": "omitted"}}


def test_a_client_that_wants_no_thought_shown_gets_none_of_the_text() -> None:
    sent = [HEAD, *HIDDEN_THOUGHT, start(1, {"type": "text", "text": ""}), delta(1, text=LEAK[0][1]), stop(1)]
    answer = streamed([*sent, tail(), END], request=OMITTED)
    assert (thoughts(answer), answer.said[1]) == ([("", SIGNATURE)], SAID[1])


@pytest.mark.parametrize(("request_", "text"), [(WANTED, ""), ({}, "So be it."), (OMITTED, "So be it.")])
def test_a_repeat_is_suppressed_only_where_the_thought_was_asked_for(request_: dict[str, Any], text: str) -> None:
    repeat: list[Piece] = [("thinking", "So be it."), ("text", "So be"), ("text", " it.")]
    assert streamed(events(repeat), request=request_).said == ("So be it.", text)
    assert plain(body(repeat), request=request_).said == ("So be it.", text)


NO_THOUGHT = route(reasoning_field=ReasoningField.NONE)


@pytest.mark.parametrize("size", CUTS)
def test_no_thought_of_any_kind_goes_out_where_reasoning_is_hidden(size: int) -> None:
    sent = [*blocks(recut(MORE, size)), start(2, REDACTED), stop(2)]
    answer = streamed([HEAD, *sent, tail(), END], NO_THOUGHT)
    assert (answer.kinds, answer.said) == (["text"], ("", SAID[1]))


def test_no_thought_of_any_kind_is_in_a_body_where_reasoning_is_hidden() -> None:
    for pieces in (THOUGHT, MORE):
        assert plain(body(pieces), NO_THOUGHT).content == [{"type": "text", "text": SAID[1]}]
    redacted = json.loads(body([])) | {"content": [REDACTED, {"type": "text", "text": "a"}]}
    assert plain(json.dumps(redacted).encode(), NO_THOUGHT).kinds == ["text"]


# ---------------------------------------------------------------------- calls


def test_a_call_left_as_text_becomes_a_block_and_the_reason_says_so() -> None:
    for answer in (
        streamed(events([("text", f"Sure.\n{MARKUP}")]), hermes(), request=TOOLS),
        plain(body([("text", f"Sure.\n{MARKUP}")]), hermes(), request=TOOLS),
    ):
        assert (answer.kinds, answer.calls, answer.reason) == (["text", "tool_use"], CALLED, "tool_use")
        assert answer.content[1]["id"].startswith("call_")


def test_calls_of_two_answers_have_ids_of_their_own() -> None:
    idents = set()
    for name in ("msg_1", "msg_2"):
        head = HEAD.replace(b"chatcmpl-1", name.encode())
        answer = streamed([head, *blocks([("text", MARKUP)]), tail(), END], hermes(), request=TOOLS)
        idents.add(answer.content[-1]["id"])
    assert len(idents) == 2


def test_calls_and_text_behind_them_stand_in_a_body_as_in_the_stream() -> None:
    raw = route(read_as=hermes().dialect, source="text", tool_rescue=ToolRescue())
    pieces: list[Piece] = [("text", f"<think>a</think>b{MARKUP}c")]
    kinds = ["thinking", "text", "tool_use", "text"]
    for answer in (streamed(events(pieces), raw, request=TOOLS), plain(body(pieces), raw, request=TOOLS)):
        assert (answer.kinds, answer.said, answer.calls) == (kinds, ("a", "bc"), CALLED)


def test_a_call_that_is_written_while_it_comes_is_one_block() -> None:
    rules = route(read_as=hermes().dialect, source="text", tool_rescue=ToolRescue(stream="incremental"))
    answer = streamed(events(recut([("text", MARKUP)], 3)), rules, request={**TOOLS, "stream": True})
    assert (answer.kinds, answer.calls, answer.reason) == (["tool_use"], CALLED, "tool_use")
    assert answer.raw.count(b"input_json_delta") > 3


BROKEN: Piece = ("tool_use", ("toolu_1", "get_weather", ['{"city": ', '"Paris"']))


def test_broken_input_of_the_engines_own_call_is_repaired_in_one_delta() -> None:
    answer = streamed(events([*THOUGHT, BROKEN, CALL], reason="tool_use"), request=TOOLS)
    assert (answer.calls, answer.findings) == (CALLED * 2, {"tool_args_repaired/repaired": 1})
    whole = plain(body([*THOUGHT, BROKEN, CALL], reason="tool_use"), request=TOOLS)
    assert (whole.calls, whole.findings) == (CALLED * 2, answer.findings)


NAMED_WRONG: Piece = ("tool_use", ("toolu_1", "functions.get_weather:0", ['{"city": "Paris"}']))
BARE: Piece = ("tool_use", ("toolu_1", "functions.get_weather:0", []))


@pytest.mark.parametrize(("call", "made"), [(NAMED_WRONG, {"city": "Paris"}), (BARE, {})])
def test_a_wrong_name_is_repaired_and_the_input_stays(call: Piece, made: dict[str, str]) -> None:
    for answer in (
        streamed(events([("text", "a"), call, ("text", "b")]), request=TOOLS),
        plain(body([("text", "a"), call, ("text", "b")]), request=TOOLS),
    ):
        assert (answer.kinds, answer.calls) == (["text", "tool_use", "text"], [("get_weather", made)])


def test_a_call_without_arguments_is_clean_and_waits_for_nothing() -> None:
    bare: Piece = ("tool_use", ("toolu_1", "now", []))
    sent = events([("text", "a"), bare], reason="tool_use")
    answer = streamed(sent, request={"tools": [{"name": "now"}]})
    assert (answer.raw, answer.findings) == (b"".join(sent), {})


def test_input_that_stands_in_the_start_of_a_block_is_read_too() -> None:
    block = {"type": "tool_use", "id": "t", "name": "functions.get_weather", "input": {"city": 1.10}}
    answer = streamed([HEAD, start(0, block), stop(0), tail("tool_use"), END], request=TOOLS, legal=False)
    assert violations(answer.raw) == []  # the repaired one is legal, the engine's own was not
    assert answer.calls == [("get_weather", {"city": 1.10})]


def test_a_call_that_was_not_wanted_goes_with_all_its_events() -> None:
    request = {**TOOLS, "tool_choice": {"type": "none"}}
    pieces: list[Piece] = [("text", "a"), CALL, ("text", "b")]
    for answer in (
        streamed(events(pieces, reason="tool_use"), request=request),
        plain(body(pieces, reason="tool_use"), request=request),
    ):
        assert (answer.said, answer.calls, answer.reason) == (("", "ab"), [], "end_turn")


def test_two_calls_with_one_index_are_two_blocks() -> None:
    again = [start(0, {"type": "tool_use", "id": "b", "name": "get_weather", "input": {}}), delta(0, partial_json="{}")]
    first = blocks([("tool_use", ("a", "get_weather", ["{}"]))])
    answer = streamed([HEAD, *first, *again, stop(0), tail("tool_use"), END], request=TOOLS)
    assert answer.calls == [("get_weather", {})] * 2


def test_a_named_call_keeps_the_reason_that_the_engine_gives() -> None:
    request = {**TOOLS, "tool_choice": {"type": "tool", "name": "get_weather"}}
    assert streamed(events([CALL]), request=request).reason == "end_turn"
    assert streamed(events([CALL]), request=TOOLS).reason == "tool_use"


def test_a_reason_without_a_call_is_an_end() -> None:
    pieces: list[Piece] = [("thinking", "call the tool")]
    for answer in (
        streamed(events(pieces, reason="tool_use"), request=TOOLS),
        plain(body(pieces, reason="tool_use"), request=TOOLS),
    ):
        assert answer.reason == "end_turn"
        assert answer.findings == {"empty_response/flagged": 1, "finish_reason_fixed/repaired": 1}


def test_a_stop_string_is_no_reason_of_a_rescued_call() -> None:
    answer = streamed(events([("text", MARKUP)], reason="stop_sequence", string="x"), hermes(), request=TOOLS)
    assert (answer.reason, answer.string) == ("tool_use", None)


# ---------------------------------------------------------------------- endings


@pytest.mark.parametrize(
    ("reason", "string", "kind"),
    [("end_turn", None, "text"), ("stop_sequence", "x", "thinking"), ("refusal", None, "thinking")],
)
def test_a_thought_is_no_answer_where_a_string_or_a_filter_ended_it(reason: str, string: str | None, kind: str) -> None:
    pieces: list[Piece] = [("thinking", "42")]
    assert streamed(events(pieces, reason=reason, string=string), request=OFF).kinds == [kind]
    assert plain(body(pieces, reason=reason, string=string), request=OFF).kinds == [kind]


def test_an_end_without_a_reason_gets_one_and_the_report_stands_in_it() -> None:
    answer = streamed([HEAD, *blocks([("text", "a<")]), END], report=True)
    assert (answer.said, answer.reason, answer.complete) == (("", "a<"), "end_turn", True)
    assert answer.findings == {"finish_reason_fixed/added": 1}
    assert answer.report is not None and answer.report["findings"][0]["finding"] == "finish_reason_fixed"


def test_a_call_that_waits_goes_out_before_the_reason_that_was_missing() -> None:
    answer = streamed([HEAD, *blocks([CALL, BROKEN]), END], request=TOOLS)
    assert [name for name, _ in answer.calls] == ["get_weather"] * 2


def test_a_call_that_never_came_right_ends_as_one_that_may_not_be_whole() -> None:
    rules = route(read_as=hermes().dialect, source="text", tool_rescue=ToolRescue(stream="incremental"))
    broken = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris" oops'
    answer = streamed(events(recut([("text", broken)], 4)), rules, request={**TOOLS, "stream": True})
    assert (answer.kinds, answer.said, answer.reason) == (["tool_use", "text"], ("", broken), "max_tokens")


# ---------------------------------------------------------------------- the report


def test_the_report_stands_in_message_delta_and_at_the_top_of_a_body() -> None:
    for answer in (streamed(events(LEAK), RAW, report=True), plain(body(LEAK), RAW, report=True)):
        assert answer.report is not None
        assert (answer.report["profile"], answer.report["findings"]) == ("full", [])
    leak = streamed(events(LEAK), report=True)
    assert leak.report is not None
    assert {row["finding"] for row in leak.report["findings"]} == {"reasoning_leak", "boundary_token"}
    assert streamed(events(LEAK)).report is None


@pytest.mark.parametrize("size", [1, 50, 1 << 20])
def test_an_answer_that_is_observed_differs_by_the_report_only(size: int) -> None:
    observe, sent = route(profile=Profile.OBSERVE), events(LEAK)
    assert streamed(reads(sent, size), observe).raw == b"".join(sent)
    answer = streamed(reads([*sent, b"data: [DONE]\n\n"], size), observe, report=True, legal=False)
    assert answer.report is not None
    assert {row["action"] for row in answer.report["findings"]} == {"would_move", "would_strip"}
    said = answer.report
    cut = json.dumps(said, separators=(",", ":")).encode()
    assert answer.raw.replace(b',"integrity":' + cut, b"") == b"".join([*sent, b"data: [DONE]\n\n"])


def test_an_observed_answer_without_an_end_has_the_report_in_an_event_that_says_nothing() -> None:
    sent = [HEAD, *blocks([("text", "a")])]
    answer = streamed([*sent, b"data: no json\n\n"], route(profile=Profile.OBSERVE), report=True, legal=False)
    *_, (name, last) = list(frames(answer.raw.replace(b"data: no json\n\n", b"")))
    assert (name, last["type"], last["integrity"]["profile"]) == ("ping", "ping", "observe")


# ---------------------------------------------------------------------- what nobody changed


def test_numbers_and_unknown_members_survive_a_change() -> None:
    exact = b'"usage":{"input_tokens":3,"output_tokens":7,"cost":1.10,"big":123456789012345678901234567890,"e":1E5}'
    usage = b'"usage":{"input_tokens":3,"output_tokens":7}'
    stream = b"".join(events([*LEAK, CALL])).replace(usage, exact)
    answer = streamed([stream.replace(b'"text":""', b'"text":"","new":1.10')], RAW, request=TOOLS)
    assert answer.said == SAID and exact in answer.raw and b'"new":1.10' in answer.raw
    whole = plain(body([*LEAK, CALL]).replace(usage, exact).replace(b'"city":', b'"n":1E5,"city":'), RAW, request=TOOLS)
    assert whole.said == SAID and exact in whole.raw and b'"n":1E5' in whole.raw


def test_a_delta_that_loses_a_marker_keeps_its_other_members() -> None:
    frame = event(
        {"type": "content_block_delta", "index": 0, "x": 1, "delta": {"type": "text_delta", "text": "a<|im_end|>"}}
    )
    answer = streamed([HEAD, start(0, {"type": "text", "text": ""}), frame, stop(0), tail(), END])
    assert answer.said == ("", "a") and b'"x":1' in answer.raw


# ---------------------------------------------------------------------- failures

SCRIPTS = {
    "raw": (events(recut([("text", f"<think>a</think>b <{MARKUP}")], 9)), RAW, {}),
    "fields": (events([*recut(MORE, 9), BROKEN, CALL]), hermes(), TOOLS),
    "off": (events(recut([("thinking", "The answer is 42."), CALL], 9)), hermes(), TOOLS | OFF),
}


def told(raw: bytes) -> str:
    """Every character of text and of calls, in any order."""
    says = ("thinking", "text", "partial_json")
    deltas = [value["delta"] for _, value in frames(raw) if value["type"] == "content_block_delta"]
    return "".join(sorted("".join([each[name] for each in deltas for name in says if name in each])))


def without_markers(text: str) -> str:
    for marker in ("<think>", "</think>"):
        text = text.replace(marker, "")
    return "".join(sorted(text))


def sent_of(whole: Iterable[bytes]) -> str:
    """What whole frames of the engine say, without the markers of a thought."""
    deltas = [value["delta"] for _, value in frames(b"".join(whole)) if value["type"] == "content_block_delta"]
    return without_markers(
        "".join([each.get("thinking") or each.get("text") or each.get("partial_json") or "" for each in deltas])
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_stream_that_ends_behind_any_frame_loses_no_text_and_ends_in_an_error(name: str) -> None:
    script, rules, request = SCRIPTS[name]
    for kept in range(len(script)):
        answer = streamed(script[:kept], rules, request=request)
        assert not answer.complete
        assert list(frames(answer.raw))[-1][1]["error"]["code"] == "integrity_upstream_truncated"
        if b"message_delta" not in b"".join(script[:kept]):
            assert without_markers(told(answer.raw)) == sent_of(script[:kept])


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_stream_that_ends_at_any_byte_ends_legally(name: str) -> None:
    script, rules, request = SCRIPTS[name]
    whole = b"".join(script)
    for size in range(len(whole) - 2):  # an event that only lacks its blank line is one
        answer = streamed([whole[:size]], rules, request=request)
        assert not answer.complete, size


@pytest.mark.parametrize("last", [[tail(), END], [ERROR]], ids=["end", "error"])
def test_a_stream_that_breaks_off_behind_its_end_gets_no_error(last: list[bytes]) -> None:
    exchange = opened({"stream": True}, route())
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    sent = exchange.data(b"".join([HEAD, *blocks(THOUGHT), *last]))
    ending = exchange.broken(EngineFault("gone"))
    assert (violations(sent + ending.data), ending.complete) == ([], False)


def test_a_stream_that_breaks_off_closes_its_block_before_the_error() -> None:
    exchange = opened({"stream": True}, route())
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = exchange.data(b"".join([HEAD, start(0, {"type": "text", "text": ""}), delta(0, text="a <")]))
    ending = exchange.broken(EngineFault("gone"))
    assert violations(out + ending.data) == []
    assert told(out + ending.data) == " <a"


def test_an_error_of_the_engine_comes_behind_what_was_held() -> None:
    sent = [HEAD, start(0, {"type": "text", "text": ""}), delta(0, text="a <"), stop(0), ERROR]
    answer = streamed(sent)
    assert (answer.said, answer.complete) == (("", "a <"), True)
    assert answer.raw.endswith(ERROR)


def test_an_error_in_the_middle_of_a_block_closes_it() -> None:
    sent = [HEAD, start(0, {"type": "text", "text": ""}), delta(0, text="<think>a</think>b"), ERROR]
    answer = streamed(sent)
    assert answer.said == ("a", "b") and answer.raw.endswith(ERROR)


def test_an_error_in_the_shape_of_openai_ends_the_answer_too() -> None:
    sent = [HEAD, *blocks([("text", "a")]), b'data: {"error": {"message": "x", "code": 500}}\n\n']
    answer = streamed(sent, legal=False)
    assert (answer.raw, answer.complete) == (b"".join(sent), True)


# ---------------------------------------------------------------------- any text, any cut


@given(
    data=st.data(),
    name=st.sampled_from(sorted(dialects())),
    signed=st.booleans(),
    source=st.sampled_from(["fields", "text"]),
)
def test_any_text_in_any_blocks_is_legal_and_read_alike_at_every_cut(
    data: st.DataObject, name: str, signed: bool, source: str
) -> None:
    family = dialects()[name]
    kinds = st.sampled_from(["thinking", "text"] if source == "fields" else ["text"])
    piece = st.tuples(kinds, texts(family, size=6).filter(_encodable).filter(bool))
    pieces: list[Piece] = sorted(data.draw(st.lists(piece, max_size=4)), key=lambda one: one[0] == "text")
    reason = data.draw(st.sampled_from(["end_turn", "max_tokens", "stop_sequence"]))
    string = "x" if reason == "stop_sequence" else None
    request = data.draw(st.sampled_from([{}, OFF, WANTED, OMITTED, TOOLS]))
    rules = route(read_as=family, source=source, starts_in=data.draw(st.sampled_from(["content", "reasoning"])))
    got = [
        streamed(events(recut(pieces, size), reason=reason, string=string, signed=signed), rules, request=request)
        for size in (1, 4, 1 << 30)
    ]
    got.append(plain(body(pieces, reason=reason, string=string, signed=signed), rules, request=request))
    assert len({(answer.said, json.dumps(answer.calls), answer.reason) for answer in got}) == 1


def _encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)
