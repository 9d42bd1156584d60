"""Plain bodies of Responses: what they say, and what becomes of them (reference/vllm.md 3.5, sglang.md 3.2 and 3.5)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import ClientFault, EngineTimeout
from gateway.limits import Limits
from gateway.protocols.protocol import UNSAID, CallChange, Fragment, HistoryRule, NotThisProtocol, NumberedCall
from gateway.protocols.responses import Responses
from gateway.protocols.responses_body import call_change, finish_of
from gateway.streams.jsonscan import DROP
from tests.support.responses import Piece, body, response, told

R = Responses()
NAMES = ("reasoning", "reasoning_content")
PIECES: list[Piece] = [("reasoning", "a"), ("commentary", "x"), ("content", "b"), ("call", ("c1", "f", ["{}"]))]


def part(pieces: list[Piece], **shape: Any) -> Any:
    [found] = R.decode_body(body(pieces, **shape)).parts
    return found


def test_a_body_says_its_reasoning_its_answer_and_its_calls() -> None:
    found = part(PIECES)
    assert (found.reasoning, found.content, found.tools, found.refusal) == ("a", "b", True, False)
    assert (found.place, found.index, found.names, found.stop_reason) == (0, 0, ("reasoning",), UNSAID)
    assert part([("reasoning", "a"), ("content", "b")], summary=True).reasoning == "a"
    assert part([("content", "b")]).names == ()
    assert part([("refusal", "no")]).refusal
    assert part([("other", {"id": "x", "type": "mcp_call"})]).tools
    assert part([]).tools is False


@pytest.mark.parametrize(
    ("status", "more", "calls", "finish"),
    [
        ("completed", {}, False, "stop"),
        ("completed", {}, True, "tool_calls"),
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, True, "length"),
        ("incomplete", {"incomplete_details": {"reason": "max_tokens"}}, False, "length"),
        ("incomplete", {"incomplete_details": None}, False, "length"),
        ("incomplete", {"incomplete_details": {"reason": "content_filter"}}, False, "content_filter"),
        ("failed", {}, True, "error"),
        ("cancelled", {}, False, "abort"),
        ("queued", {}, False, "queued"),
    ],
)
def test_a_status_is_a_finish_reason_of_chat(status: str, more: dict[str, Any], calls: bool, finish: str) -> None:
    assert finish_of({"status": status, **more}, calls=calls) == finish


def test_a_failed_body_is_an_error_of_the_engine() -> None:
    assert R.decode_body(body([], status="failed")).error
    message = R.decode_body(body(PIECES))
    assert (message.error, message.odd, message.takes_report) == (False, False, True)


@pytest.mark.parametrize(
    "strange",
    [
        b"{",
        b"[]",
        b"7",
        b'{"choices":[]}',
        b'{"object":"response","output":[7]}',
        b'{"output":[{"type":"message","content":[{"type":"output_text"}]}]}',
        b'{"object":"response","output":1.5}',
        b'{"output":[{"type":"reasoning","content":7}]}',
        b'{"output":[{"type":"message","content":["a"]}]}',
        b'{"output":[{"type":"reasoning","content":[{"text":"a"}]}],"incomplete_details":7,"status":"incomplete"}',
    ],
)
def test_what_is_no_response_is_refused(strange: bytes) -> None:
    with pytest.raises(NotThisProtocol):
        R.decode_body(strange)


def test_a_response_without_output_says_nothing() -> None:
    [found] = R.decode_body(b'{"object":"response","status":"queued","output":null}').parts
    assert (found.reasoning, found.content, found.finish) == ("", "", "queued")


def test_text_may_hold_half_a_character_and_numbers_may_be_none() -> None:
    odd = b'{"object":"response","status":"completed","output":[],"n":NaN,"s":"\\ud83d"}'
    assert R.decode_body(odd).odd
    assert R.decode_body(odd).value["s"] == "\ud83d"


def test_progress_is_left_out_where_it_is_to_be() -> None:
    message = R.without_commentary().decode_body(body(PIECES))
    assert [item["type"] for item in json.loads(message.data)["output"]] == ["reasoning", "message", "function_call"]
    assert message.parts[0].content == "b"
    same = body([("content", "b")])
    assert R.without_commentary().decode_body(same).data is same


def test_calls_are_numbered_among_themselves() -> None:
    pieces: list[Piece] = [("call", ("c1", "f", ["{", "}"])), ("content", "x"), ("call", ("c2", "g", ["[]"]))]
    message = R.decode_body(body(pieces))
    first, second = R.fragments(message, message.parts[0])
    assert first == Fragment(place=0, index=0, ident="c1", name="f", arguments="{}", text=True)
    assert (second.place, second.index, second.name) == (1, 1, "g")
    raw = b'{"output":[{"type":"function_call","name":"","arguments": {"n": 1.10} },{"type":"function_call"}]}'
    message = R.decode_body(raw)
    first, second = R.fragments(message, message.parts[0])
    assert first == Fragment(place=0, index=0, ident=None, name=None, arguments='{"n": 1.10}', text=False)
    assert (second.arguments, second.text) == ("", True)


def test_calls_change_in_their_place() -> None:
    pieces: list[Piece] = [("call", ("c1", "f", ["{"])), ("content", "x"), ("call", ("c2", "g", ["[]"]))]
    message = R.decode_body(body(pieces))
    changed = R.change_calls(message, {0: {0: CallChange(name="h", arguments="{}"), 1: CallChange(gone=True)}})
    assert told(json.loads(changed)["output"]) == ("", "x", [("h", "{}")])
    assert call_change(CallChange(index=3)) == {}
    assert call_change(CallChange(gone=True)) is DROP


def test_a_body_that_says_something_else_keeps_every_other_byte() -> None:
    raw = body([("reasoning", "a"), ("content", "b")]).replace(b'"temperature":0.0', b'"temperature":1.10, "n":1E5')
    message = R.decode_body(raw)
    changed = R.rewrite_body(message, {0: [("reasoning", "a"), ("content", "c")]}, NAMES)
    assert changed == raw.replace(b'"text":"b"', b'"text":"c"')
    assert R.rewrite_body(message, {}, NAMES) is raw
    call = NumberedCall(0, "c1", "f", "{}")
    assert told(json.loads(R.rewrite_body(message, {0: [("call", call)]}, NAMES))["output"]) == ("", "", [("f", "{}")])
    hidden = R.rewrite_body(message, {0: [("reasoning", "a"), ("content", "c")]}, ())
    assert told(json.loads(hidden)["output"]) == ("", "c", [])


def test_a_call_that_never_came_right_fails_the_response() -> None:
    message = R.decode_body(body([("content", "a")]))
    assert R.rewrite_body(message, {}, NAMES, {0: "tool_calls"}) is message.data
    failed = json.loads(R.rewrite_body(message, {}, NAMES, {0: "error"}))
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")


def test_reasoning_without_a_name_goes() -> None:
    message = R.decode_body(body([("reasoning", "a"), ("content", "b")]))
    assert R.rename(message, NAMES) is None
    assert R.rename(message, None) is None
    gone = R.rename(message, ())
    assert gone and told(json.loads(gone)["output"]) == ("", "b", [])
    assert R.rename(R.decode_body(body([("content", "b")])), ()) is None
    assert R.names_shown(message.parts[0]) == ("reasoning",)


def test_tokens_go_with_their_text_so_that_none_is_taken_out_by_itself() -> None:
    message = R.decode_body(body([("reasoning", "secret"), ("content", "a b")], tokens=True))
    assert R.without_tokens(message, [0], whole=True) == (message, {})
    assert R.spells(message.parts[0], "a b")
    changed = json.loads(R.rewrite_body(message, {0: [("content", " b")]}, ()))
    assert [token["token"] for token in changed["output"][0]["content"][0]["logprobs"]] == [" b"]


def test_the_output_as_the_model_wrote_it_shows_its_thought() -> None:  # vLLM, `enable_response_messages`
    raw = [{"type": "raw_message_tokens", "message": "<think>secret</think>b", "tokens": [5]}]
    whole = json.loads(body([("content", "b")]))
    for wrap in (lambda each: each, lambda each: {"type": "response.completed", "response": each}):
        told = wrap(whole | {"output_messages": raw, "input_messages": [7]})
        message = replace(R.decode_body(body([("content", "b")])), data=json.dumps(told).encode(), value=told)
        kept, taken = R.without_tokens(message, [], whole=True)
        assert (json.loads(kept.data), taken) == (wrap(whole | {"input_messages": [7]}), {"output_messages": 1})
        assert kept.value == json.loads(kept.data)
        assert R.without_tokens(message, [], whole=False) == (message, {})


def test_beside_a_whole_text_only_its_own_tokens_are_left() -> None:
    whole = json.loads(body([("reasoning", "t"), ("content", "b")], tokens=True))
    part = whole["output"][1]["content"][0]
    part["logprobs"] = [{"token": "secret"}, *part["logprobs"]]
    kept, taken = R.without_tokens(R.decode_body(json.dumps(whole).encode()), [0], whole=True)
    assert (kept.value, taken) == (
        json.loads(body([("reasoning", "t"), ("content", "b")], tokens=True)),
        {"logprobs": 1},
    )


def test_the_only_event_of_a_stream_changes_as_a_body_does() -> None:
    whole = json.loads(body([("reasoning", "a"), ("content", "b"), ("call", ("c1", "f", ["{"]))]))
    event = json.dumps({"type": "response.completed", "response": whole}).encode()
    message = R.stream(rewrites=False).decode_event(event)
    assert R.fragments(message, message.parts[0])[0].arguments == "{"
    changed = json.loads(R.rewrite_body(message, {0: [("content", "c")]}, NAMES, {0: "error"}))["response"]
    assert (told(changed["output"]), changed["status"]) == (("", "c", [("f", "{")]), "failed")
    gone = json.loads(R.change_calls(message, {0: {0: CallChange(gone=True)}}))["response"]
    assert told(gone["output"]) == ("a", "b", [])


def test_the_id_and_the_usage_are_found_in_a_body_and_in_an_event() -> None:
    message = R.decode_body(body([]))
    assert (R.answer_id(message), R.has_usage(message)) == ("resp_1", True)
    event = R.stream(rewrites=False).decode_event(
        json.dumps({"type": "response.created", "response": response([], "in_progress")}).encode()
    )
    assert (super(Responses, R).answer_id(event), R.has_usage(event)) == ("resp_1", False)
    assert R.answer_id(R.decode_body(b'{"object":"response"}')) == ""


def test_the_report_stands_at_the_top_of_a_body_and_in_the_response_of_an_event() -> None:
    assert R.add_report(b'{"output":[]}', {"a": 1}) == b'{"output":[],"integrity":{"a":1}}'
    assert R.add_report(b'{"response":{"id":1}}', {}) == b'{"response":{"id":1,"integrity":{}}}'
    assert R.report_event(None, {}) == b""


def test_errors_are_nested_as_both_engines_nest_them() -> None:
    error = {"message": "m", "type": "invalid_request_error", "param": None, "code": "integrity_bad_request"}
    assert json.loads(R.error_body(ClientFault("m"))) == {"error": error}
    assert json.loads(R.error_body(EngineTimeout("m")))["error"]["type"] == "server_error"


def test_requests_are_read_and_shaped() -> None:
    assert R.facts({"model": "m"}).model == "m"
    rule = HistoryRule(keep="strip", field=None, grammar=None, repair_arguments=True, limits=Limits())
    sent = json.dumps({"input": json.loads(body([("reasoning", "a"), ("content", "b")]))["output"]}).encode()
    shaped, done = R.shape_history(sent, rule)
    assert ([item["type"] for item in json.loads(shaped)["input"]], done["stripped"]) == (["message"], 1)
