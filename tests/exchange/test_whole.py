"""Plain answers. Bodies are those of vLLM 0.33 (reference/vllm.md 3.2); contract section 5 decides what comes out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import IntegrityError
from gateway.exchange import Overrides
from gateway.exchange.whole import PUSHED_AT_ONCE
from gateway.limits import Limits
from gateway.policy import Mode, Profile, ReasoningField
from tests.exchange.driver import BOTH, OFF, WANTED, dialect, message, opened, plain, route
from tests.support import messages, raw_text

# reference/vllm.md 3.2, with a content
VLLM = (
    b'{"id":"chatcmpl-ID","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":'
    b'"assistant","content":"42 < 43","refusal":null,"annotations":null,"audio":null,"function_call":null,'
    b'"reasoning":null},'
    b'"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null,"routed_experts":null,"weight_versions":'
    b'null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":1,"total_tokens":3,'
    b'"completion_tokens":2,"prompt_tokens_details":null,"completion_tokens_details":null},"prompt_logprobs":null,'
    b'"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}'
)
CALL = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


def fields(body: bytes) -> dict[str, Any]:
    """The message of the first choice."""
    found: dict[str, Any] = json.loads(body)["choices"][0]["message"]
    return found


@pytest.mark.parametrize(
    "body",
    [
        VLLM,
        b' {"choices" : [ { "index":0, "message":{"content":"a","n":1.10,"e":1E5} } ]\n}\n',
        b'{"choices":[{"message":{"content":"a"}}],"big":123456789012345678901234567890}',
        b'{"choices":[{"message":{"content":"caf\\u00e9 \\ud83d\\ude00 \\/"},"finish_reason":"stop","x":NaN}]}',
        b'{"choices":[{"message":{"content":null,"tool_calls":null},"finish_reason":"stop"}]}',
        b'{"object":"error","message":"not a completion"}',
        b'{"error":{"message":"m","code":500}}',
    ],
)
def test_a_body_that_needs_no_change_keeps_every_byte(body: bytes) -> None:
    answer = plain(body)
    assert (answer.body, answer.complete, answer.uninspected) == (body, True, {})


def test_a_changed_body_keeps_the_bytes_around_its_text() -> None:
    body = VLLM.replace(b"42 < 43", b"<think>t</think>42").replace(b'"created":1,', b'"created": 1.10,')
    changed = body.replace(b"<think>t</think>42", b"42").replace(
        b'"reasoning":null', b'"reasoning":"t","reasoning_content":"t"'
    )
    answer = plain(body)
    assert fields(answer.body) == fields(changed)
    assert answer.body.replace(b'"reasoning":"t","reasoning_content":"t"', b"") == changed.replace(
        b'"reasoning":"t","reasoning_content":"t"', b""
    )
    assert answer.headers == {"X-Integrity-Findings": "reasoning_leak=1,boundary_token=2"}


NAMINGS: list[dict[str, str | None]] = [
    {"reasoning": "t"},
    {"reasoning_content": "t"},
    {"reasoning": "t", "reasoning_content": "t"},
    {"reasoning": "t", "reasoning_content": None},
    {"reasoning": None, "reasoning_content": "t"},
]


@pytest.mark.parametrize("sent", NAMINGS)
@pytest.mark.parametrize(
    ("field", "names"),
    [
        (ReasoningField.BOTH, BOTH),
        (ReasoningField.REASONING, BOTH[:1]),
        (ReasoningField.REASONING_CONTENT, BOTH[1:]),
        (ReasoningField.NONE, ()),
    ],
)
def test_reasoning_goes_out_under_the_names_of_the_route(
    sent: dict[str, str | None], field: ReasoningField, names: tuple[str, ...]
) -> None:
    answer = plain(message(**sent, content="c"), route(reasoning_field=field))
    got = {name: text for name, text in fields(answer.body).items() if text is not None}
    assert got == {"role": "assistant", "content": "c"} | dict.fromkeys(names, "t")


@pytest.mark.parametrize("sent", NAMINGS)
def test_as_upstream_leaves_the_name_alone(sent: dict[str, str | None]) -> None:
    body = message(**sent, content="c")
    assert plain(body, route(reasoning_field=ReasoningField.AS_UPSTREAM)).body == body


@pytest.mark.parametrize(("sent", "used"), [({}, "reasoning"), ({"reasoning_content": "r"}, "reasoning_content")])
def test_as_upstream_uses_the_engines_name_for_what_it_moves(sent: dict[str, str], used: str) -> None:
    body = message(**sent, content="<think>t</think>c")
    answer = plain(body, route(reasoning_field=ReasoningField.AS_UPSTREAM))
    assert fields(answer.body) == {"role": "assistant", used: sent.get(used, "") + "t", "content": "c"}


@pytest.mark.parametrize(
    ("sent", "engine", "name"),
    [
        ({"reasoning_content": None}, "vllm", "reasoning_content"),
        ({"reasoning": None}, "sglang", "reasoning"),
        ({}, "sglang", "reasoning_content"),
        ({}, "vllm", "reasoning"),
    ],
)
def test_as_upstream_knows_the_engines_name_before_it_is_used(sent: dict[str, None], engine: str, name: str) -> None:
    rules = replace(route(reasoning_field=ReasoningField.AS_UPSTREAM), engine=engine)
    answer = plain(message(**sent, content="<think>t</think>c"), rules)
    assert fields(answer.body) == {"role": "assistant", **sent, name: "t", "content": "c"}


def test_an_answer_of_sound_alone_is_not_empty() -> None:
    body = message(content=None, audio={"id": "a", "data": "AAA="})
    assert (plain(body).body, plain(body).findings) == (body, {})
    assert "empty_response/flagged" in plain(message(content=None, audio=None)).findings


def test_an_answer_that_was_billed_and_says_nothing_asks_for_another_one() -> None:
    """vllm-project/vllm#41902."""
    answer = plain(message(content=None, reasoning=None, tool_calls=[]), route("harmony"))
    assert answer.findings == {"empty_response/flagged": 1, "regen_wanted/flagged": 1}


def test_reasoning_that_differs_between_the_two_names_goes_on_untouched() -> None:
    body = message(reasoning="a", reasoning_content="b", content="<think>c</think>")
    answer = plain(body)
    assert (answer.body, answer.uninspected) == (body, {"no_chat_completion": 1})


@pytest.mark.parametrize("body", [message(reasoning="a", reasoning_content="b"), b"no json", b"[]"])
def test_what_cannot_be_read_does_not_go_out_where_reasoning_is_hidden(body: bytes) -> None:
    exchange = opened({}, route(reasoning_field=ReasoningField.NONE))
    exchange.head(status=200, content_type="application/json", content_encoding=None)
    exchange.data(body)
    with pytest.raises(IntegrityError, match="could not read"):
        exchange.end()


@pytest.mark.parametrize("body", [b"no json", b"", b'{"choices":', b'"text"', b'{"choices":[{"text":"a"}]}'])
def test_what_is_no_body_of_the_protocol_goes_on_untouched_and_is_counted(body: bytes) -> None:
    answer = plain(body, overrides=Overrides(report=True))
    assert (answer.body, answer.complete, sum(answer.uninspected.values())) == (body, True, 1)
    assert not answer.exchange.inspected


AS_OBJECT = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}


def test_calls_are_repaired_beside_the_text_and_the_finish_reason() -> None:
    """More in test_tool_calls."""
    answer = plain(message("stop", content="<think>t</think>", tool_calls=[AS_OBJECT]))
    assert fields(answer.body) == {
        "role": "assistant",
        "content": "",
        **dict.fromkeys(BOTH, "t"),
        "tool_calls": [{**AS_OBJECT, "function": {"name": "f", "arguments": '{"a":1}'}}],
    }
    assert json.loads(answer.body)["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(("calls", "right"), [([AS_OBJECT], "stop"), ({"f": 1}, "tool_calls")])
def test_calls_that_the_request_did_not_want_go_and_what_is_no_list_of_them_stays(calls: Any, right: str) -> None:
    request = {"tools": [{"function": {"name": "f"}}], "tool_choice": "none"}
    answer = plain(message("tool_calls", content="a", tool_calls=calls), request=request)
    assert fields(answer.body).get("tool_calls") == (None if right == "stop" else calls)
    assert json.loads(answer.body)["choices"][0]["finish_reason"] == right


def test_every_choice_is_read() -> None:
    choices = [{"index": i, "message": {"content": "<think>t</think>a"}, "finish_reason": "stop"} for i in range(3)]
    answer = plain(json.dumps({"choices": choices}).encode(), route(limits=Limits(choices=2)))
    texts = [choice["message"]["content"] for choice in json.loads(answer.body)["choices"]]
    assert texts == ["a", "a", "<think>t</think>a"]  # past the cap as it came
    assert (answer.uninspected, answer.findings["reasoning_leak/moved"]) == ({"choice_index": 1}, 2)


@pytest.mark.parametrize(
    ("sent", "finish", "said"),
    [
        ({"reasoning": "42."}, "stop", ("", "42.")),
        ({"reasoning": "42.", "content": ""}, "stop", ("", "42.")),
        ({"reasoning": "42.", "refusal": "no"}, "stop", ("42.", "")),
        ({"reasoning": "42.", "tool_calls": CALL}, "stop", ("42.", "")),
        ({"reasoning": "42."}, "length", ("42.", "")),
        ({"reasoning": "\n"}, "stop", ("\n", "")),
    ],
)
def test_with_thinking_off_reasoning_alone_is_the_answer(
    sent: dict[str, Any], finish: str, said: tuple[str, str]
) -> None:
    answer = plain(message(finish, **{"content": None, **sent}), request=OFF)
    assert answer.said == said
    assert ("answer_in_reasoning/promoted" in answer.findings) is (said == ("", "42."))


def test_a_stop_string_as_stop_reason_is_no_answer() -> None:
    body = message(reasoning="42.").replace(b'"finish_reason":"stop"', b'"finish_reason":"stop","stop_reason":"END"')
    answer = plain(body, request=OFF)
    assert (answer.said, answer.findings) == (
        ("42.", ""),
        {"empty_response/flagged": 1, "stop_in_reasoning/flagged": 1},
    )


def test_a_skipped_channel_is_said_again_as_content() -> None:
    answer = plain(
        message(content=None, reasoning="Hi.<|close|>response<|sep|><|close|>message<|sep|>"), route("kimi_k3")
    )
    assert answer.said == ("Hi.", "Hi.")


def test_an_exact_repeat_of_wanted_reasoning_leaves_an_empty_content() -> None:
    answer = plain(message(reasoning="Say hi.", content="\n\nSay hi."), request=WANTED)
    assert fields(answer.body)["content"] == ""
    assert answer.findings == {"duplicate_suppressed/suppressed": 1}
    assert answer.exchange.tally.characters_suppressed == 9


def test_the_promised_thought_is_found_in_content() -> None:
    rules = route(starts_in="reasoning")
    assert plain(message(content="t</think>a"), rules).said == ("t", "a")
    assert plain(message("length", content="t"), rules).said == ("t", "")
    assert plain(message(content="t"), rules).said == ("", "t")


def test_raw_text_is_split_and_its_own_markers_are_no_finding() -> None:
    answer = plain(message(content="<think>t</think>a<|im_end|>"), route(source="text"))
    assert (answer.said, answer.findings, answer.headers) == (("t", "a"), {}, {})


def test_a_half_of_a_character_alone_at_the_end_becomes_the_replacement_character() -> None:
    body = b'{"choices":[{"message":{"reasoning":"r\\ud83d","content":"a\\ud83d"},"finish_reason":"stop"}]}'
    answer = plain(body)
    assert (answer.said, answer.findings) == (("r\ufffd", "a\ufffd"), {"unicode_replacement/flagged": 2})


def test_a_half_of_a_character_inside_the_text_stays_as_it_is() -> None:
    body = b'{"choices":[{"message":{"content":"\\ud83d a"},"finish_reason":"stop"}]}'
    assert plain(body).body == body


def test_the_report_stands_at_the_top_level() -> None:
    answer = plain(message("length", content="a"), overrides=Overrides(report=True))
    assert json.loads(answer.body)["integrity"] == {
        "profile": "full", "dialect": "think", "source": "fields", "thinking": "unknown",
        "why": {"dialect": "", "thinking": "no member says it"}, "attempts": 1,
        "findings": [{"finding": "truncated", "action": "flagged", "count": 1, "where": "content"}],
    }  # fmt: skip
    assert answer.headers == {"X-Integrity-Findings": "truncated=1"}


@pytest.mark.parametrize(
    ("body", "rules", "counted"),
    [
        (message(content="<think>t</think>a"), {},
         {"reasoning_leak/would_move": 1, "boundary_token/would_strip": 2}),
        (message(content="t</think>a"), {"starts_in": "reasoning"},
         {"reasoning_leak/would_move": 1, "boundary_token/would_strip": 1}),
        (message(content="<think>t</think>a"), {"source": "text"}, {}),
        (b'{"choices":[{"message":{"content":"a\\ud83d"},"finish_reason":"stop"}]}', {},
         {"unicode_replacement/flagged": 1}),
    ],
)  # fmt: skip
def test_observe_adds_the_report_that_was_asked_for_and_changes_nothing_else(
    body: bytes, rules: dict[str, Any], counted: dict[str, int]
) -> None:
    observed = route(profile=Profile.OBSERVE, **rules)
    answer = plain(body, observed)
    assert (answer.body, answer.headers, answer.findings) == (body, {}, counted)
    reported = plain(body, observed, overrides=Overrides(report=True))
    assert reported.body.startswith(body[:-1] + b',"integrity":{"profile":"observe"')
    assert bool(reported.headers) is bool(counted)


class Cap(int):
    """The deliberate fault of our own code in these tests."""

    def __radd__(self, other: int) -> int:
        raise RuntimeError("a broken cap")


def test_a_fault_of_ours_forwards_the_body_or_fails_as_the_policy_says() -> None:
    body = message(content="<|channel|>analysis<|message|>t")
    limits = Limits(header=Cap(9))
    assert dialect("harmony")
    answer = plain(body, route("harmony", limits=limits))
    assert (answer.body, answer.uninspected) == (body, {"internal": 1})
    assert answer.exchange.fault is not None
    assert answer.exchange.fault.startswith("RuntimeError at test_whole.py:")
    for policy in ({"on_internal_error": "error"}, {"reasoning_field": ReasoningField.NONE}):
        with pytest.raises(IntegrityError, match="could not read"):
            plain(body, route("harmony", limits=limits, **policy))


def test_what_is_only_observed_stays_where_it_was() -> None:
    body = message(content="a<think>t</think>b\n</think>c")
    modes = {"reasoning_leak": Mode.OBSERVE, "boundary_token": Mode.OBSERVE}
    answer = plain(body, route(findings=modes))
    assert (answer.body, answer.findings) == (body, {"boundary_token/would_strip": 1})


def test_a_thought_gets_no_block_where_thinking_is_off_and_the_engine_shows_none() -> None:
    leak: list[messages.Piece] = [("text", "<think>a</think>b")]
    answer = messages.plain(messages.body(leak), request=messages.OFF)
    assert (answer.said, answer.exchange.tally.suppressed) == (("", "b"), 1)
    shown = messages.plain(messages.body([("thinking", "t"), *leak]), request=messages.OFF)
    assert (shown.said, shown.exchange.tally.suppressed) == (("ta", "b"), 0)


# ---------------------------------------------------------------------- raw text (more in test_raw_stream.py)


def test_raw_text_is_split_in_a_plain_body_and_its_tokens_with_it() -> None:
    wire = raw_text.Completions(logprobs=True, ids=True)
    body = wire.body([["<think>"], ["a"], ["</think>"], ["b"]])
    answer = raw_text.plain(wire, body)
    assert (answer.said, answer.choices[0].ids) == (("a", "b"), [3])
    assert raw_text.plain(wire, body, route()).body == body


def test_raw_answers_that_are_not_read_do_not_go_out_where_reasoning_is_hidden() -> None:
    wire = raw_text.Completions()
    body = wire.body([["<think>a</think>b"]], [["<think>a</think>b"]])
    rules = raw_text.split_route(limits=Limits(choices=1), reasoning_field=ReasoningField.NONE)
    with pytest.raises(IntegrityError, match="could not read"):
        raw_text.plain(wire, body, rules)


@pytest.mark.parametrize("early", range(9))
def test_a_marker_across_the_border_of_two_pushes_of_a_long_text_is_one(early: int) -> None:
    thought, rest = "a" * (PUSHED_AT_ONCE - len("<think>") - early), "b" * PUSHED_AT_ONCE
    answer = plain(message(content=f"<think>{thought}</think>{rest}"), request=WANTED)
    told = fields(answer.body)
    assert (told["reasoning"] == thought, told["content"] == rest) == (True, True)


def test_a_long_text_that_needs_no_change_keeps_every_byte() -> None:
    body = message(content="é😀" * PUSHED_AT_ONCE + "<b>")
    assert plain(body).body == body
