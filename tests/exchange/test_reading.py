"""What is fixed before the first byte of an answer (contract sections 3 and 5), and how it ends (reader_spec 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import EngineTruncated, FrameTooLarge, IntegrityError
from gateway.events import CALL, CONTENT, REASONING
from gateway.exchange.reading import NOTHING_SAID, ExchangeReading, content_of, effective_policy, reason_of
from gateway.exchange.route import Overrides, RouteRules
from gateway.findings import Finding
from gateway.integrity.outlet import came
from gateway.integrity.pipeline import Piece
from gateway.policy import Dedup, Mode, Profile, ReasoningField, policy_for
from gateway.protocols import protocol_for
from gateway.protocols.protocol import UNSAID, NotThisProtocol, NumberedCall, Part, Said
from gateway.rulebook.load import load_rulebook
from gateway.streams.grammar import Takes
from gateway.streams.tokens import STRUCTURAL, Markers
from tests.exchange.driver import chat, dialect, route

NONE, BOTH = ReasoningField.NONE, ReasoningField.BOTH


def reading_of(rules: RouteRules, **request: Any) -> ExchangeReading:
    """The reading of a request on a route."""
    return ExchangeReading(protocol=chat(), body=b"{}", facts=chat().facts(request), rules=rules, policy=rules.policy)


def said(rules: RouteRules, text: str, **request: Any) -> list[Piece]:
    """What a choice makes of a content that ends by itself."""
    pipeline = reading_of(rules, **request).pipeline(0)
    pieces = pipeline.push("", text)
    ended = pipeline.finish(stopped=True, length=False, promotable=True, stop_string=False, looped=False)
    return [*(came("", text) if pieces is None else pieces), *ended]


def part(**changes: Any) -> Part:
    """A part that ends a choice."""
    flags = dict.fromkeys(("tools", "no_calls", "refusal"), False)
    values: dict[str, Any] = flags | dict.fromkeys(("reasoning", "content"), "")
    values |= {"place": 0, "index": 0, "names": (), "finish": "stop", "stop_reason": None, "fields": {}, "choice": {}}
    return Part(**values | changes)


def test_the_text_of_an_answer_is_all_that_is_no_reasoning_and_no_call() -> None:
    call = NumberedCall(0, "c", "f", "{}")
    assert content_of([(REASONING, "r"), (CONTENT, "a"), (CALL, call), (CONTENT, "b")]) == "ab"


# ---------------------------------------------------------------------- the policy of one exchange


@pytest.mark.parametrize(
    ("field", "override", "result"),
    [
        (BOTH, None, BOTH),
        (BOTH, ReasoningField.REASONING, ReasoningField.REASONING),
        (BOTH, NONE, NONE),
        (NONE, BOTH, NONE),  # cannot be lifted
        (NONE, ReasoningField.AS_UPSTREAM, NONE),
    ],
)
def test_a_request_narrows_the_reasoning_field(
    field: ReasoningField, override: ReasoningField | None, result: ReasoningField
) -> None:
    policy = policy_for(Profile.REPAIR, reasoning_field=field)
    assert effective_policy(policy, Overrides(reasoning_field=override)) == policy.with_field(result)


def test_observe_leaves_the_field_to_the_engine_whatever_a_request_says() -> None:
    policy = policy_for(Profile.OBSERVE)
    assert effective_policy(policy, Overrides(reasoning_field=BOTH, observe=True)) == policy


def test_an_observed_exchange_keeps_what_the_route_says_of_findings_and_repeats() -> None:
    chosen: dict[str, Any] = {"findings": {Finding.BOUNDARY_TOKEN: Mode.OFF}, "dedup": Dedup(match="exact")}
    policy = policy_for(Profile.FULL, promote_reasoning="never", on_internal_error="error", **chosen)
    assert effective_policy(policy, Overrides(observe=True)) == policy_for(Profile.OBSERVE, **chosen)


HIDING = {Finding.REASONING_LEAK, Finding.BOUNDARY_TOKEN}


def test_an_observed_exchange_still_hides_what_the_route_hides_and_does_nothing_else() -> None:
    off: dict[str, Any] = {"findings": {Finding.TRUNCATED: Mode.OFF}}
    policy = effective_policy(policy_for(Profile.FULL, reasoning_field=NONE, **off), Overrides(observe=True))
    assert (policy.reasoning_field, policy.history) == (NONE, "leave")
    assert {finding for finding in Finding if policy.enforces(finding)} == HIDING
    assert policy.mode(Finding.TRUNCATED) is Mode.OFF
    assert not ExchangeReading(protocol=chat(), body=b"{}", facts=NOTHING_SAID, rules=route(), policy=policy).observe


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_an_observed_exchange_does_no_more_than_its_route(mode: Mode) -> None:
    chosen = dict.fromkeys(HIDING, mode)
    policy = effective_policy(policy_for(Profile.FULL, reasoning_field=NONE, findings=chosen), Overrides(observe=True))
    assert {policy.mode(finding) for finding in HIDING} == {mode}


@pytest.mark.parametrize(
    ("engine", "names"),
    [
        ("sglang", ("reasoning_content",)),
        ("vllm", ("reasoning",)),
        ("auto", ("reasoning",)),
    ],
)
def test_the_engine_of_a_route_has_a_name_for_the_reasoning(engine: str, names: tuple[str, ...]) -> None:
    assert reading_of(replace(route(), engine=engine)).engine_names == names


@pytest.mark.parametrize(
    ("rules", "request_", "secret"),
    [
        (route(), {}, False),
        (route(reasoning_field=NONE), {}, True),
        (route(), {"include_reasoning": False}, True),
        (route(profile=Profile.OBSERVE), {"include_reasoning": False}, False),
    ],
)
def test_an_answer_is_secret_where_some_thought_does_not_go_out(
    rules: RouteRules, request_: dict[str, Any], secret: bool
) -> None:
    assert reading_of(rules, **request_).secret is secret


# ---------------------------------------------------------------------- names, faults, ends, report


@pytest.mark.parametrize(
    ("field", "names", "hidden"),
    [
        (BOTH, ("reasoning", "reasoning_content"), False),
        (ReasoningField.REASONING, ("reasoning",), False),
        (ReasoningField.REASONING_CONTENT, ("reasoning_content",), False),
        (ReasoningField.AS_UPSTREAM, None, False),
        (NONE, (), True),
    ],
)
def test_the_reasoning_field_is_a_list_of_names(
    field: ReasoningField, names: tuple[str, ...] | None, hidden: bool
) -> None:
    reading = reading_of(route(reasoning_field=field))
    assert (reading.names, reading.hidden, reading.observe) == (names, hidden, False)


@pytest.mark.parametrize(
    ("policy", "ours", "theirs"),
    [({}, True, True), ({"on_internal_error": "error"}, False, True), ({"reasoning_field": NONE}, False, False)],
)
def test_bytes_go_out_unread_unless_something_is_owed(policy: dict[str, Any], ours: bool, theirs: bool) -> None:
    reading = reading_of(route(**policy))
    assert (reading.may_pass(internal=True), reading.may_pass(internal=False)) == (ours, theirs)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (NotThisProtocol("no chat completion"), "no_chat_completion"),
        (FrameTooLarge("x"), "frame_too_large"),
        (EngineTruncated("x"), "upstream_truncated"),
        (IntegrityError("x"), "internal"),
        (KeyError("model text"), "internal"),
    ],
)
def test_why_bytes_went_unread_is_a_name_from_a_closed_list(fault: Exception, reason: str) -> None:
    assert reason_of(fault) == reason


@pytest.mark.parametrize(
    ("ended", "stopped", "length", "promotable"),
    [
        ({"finish": "stop"}, True, False, True),
        ({"finish": "stop", "stop_reason": 151645}, True, False, True),
        ({"finish": "stop", "stop_reason": "END"}, True, False, False),
        ({"finish": "tool_calls"}, True, False, False),
        ({"finish": "function_call"}, True, False, False),
        ({"finish": "length"}, False, True, False),
        ({"finish": "content_filter"}, False, False, False),
        ({"finish": "abort"}, False, False, False),
        ({"finish": None}, False, False, False),
        ({"finish": {"odd": 1}}, False, False, False),
    ],
)
def test_a_finish_reason_says_whether_the_model_stopped_by_itself(
    ended: dict[str, Any], stopped: bool, length: bool, promotable: bool
) -> None:
    told = reading_of(route()).ending(part(**ended))
    assert (told["stopped"], told["length"], told["promotable"]) == (stopped, length, promotable)


@pytest.mark.parametrize(
    ("ended", "request_", "by_string"),
    [
        ({"stop_reason": "END"}, {}, True),
        ({"stop_reason": None}, {"stop": ["END"]}, False),  # vLLM: an end-of-sequence token
        ({"stop_reason": 151645}, {"stop": ["END"]}, False),
        ({"stop_reason": UNSAID}, {"stop": ["END"]}, True),  # an engine that names none: the only one that was given
        ({"stop_reason": UNSAID}, {}, False),
        ({"finish": "length", "stop_reason": UNSAID}, {"stop": "END"}, False),
    ],
)
def test_a_choice_was_ended_by_a_stop_string_when_the_engine_says_so_or_cannot_say(
    ended: dict[str, Any], request_: dict[str, Any], by_string: bool
) -> None:
    assert reading_of(route(), **request_).ending(part(**ended))["stop_string"] is by_string


@pytest.mark.parametrize(("finish", "looped"), [("repetition", True), ("length", False), ("stop", False)])
def test_the_engines_own_word_for_a_loop_is_known(finish: str, looped: bool) -> None:
    assert reading_of(route()).ending(part(finish=finish))["looped"] is looped


def test_the_report_names_the_profile_the_dialect_and_the_source() -> None:
    why = {"dialect": "", "thinking": "no member says it"}
    common: dict[str, Any] = {"thinking": "unknown", "why": why, "attempts": 1, "findings": []}
    assert reading_of(route("gemma4", profile=Profile.REPAIR)).report() == {
        "profile": "repair", "dialect": "gemma4", "source": "fields", **common,
    }  # fmt: skip
    assert reading_of(route("none", source="text")).report() == {
        "profile": "full", "dialect": "none", "source": "text", **common,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "default", "thinking", "why"),
    [
        ({}, "auto", "unknown", "no member says it"),
        ({}, "off", "off", "the route's thinking_default is off"),
        ({}, "on", "on", "the route's thinking_default is on"),
        ({"reasoning_effort": "none"}, "on", "off", "reasoning_effort is none"),
        ({"chat_template_kwargs": {"thinking": True}}, "off", "on", "chat_template_kwargs.thinking is True"),
        ({"thinking": {"type": "a client's text"}}, "off", "on", "thinking.type is there"),
    ],
)
def test_the_report_says_whether_the_model_thinks_and_who_decided(
    request_: dict[str, Any], default: str, thinking: str, why: str
) -> None:
    report = reading_of(route(thinking_default=default), **request_).report()
    assert (report["thinking"], report["why"]["thinking"]) == (thinking, why)


def test_the_report_says_why_the_dialect_was_chosen() -> None:
    report = reading_of(replace(route(), dialect_why="the family think")).report()
    assert report["why"]["dialect"] == "the family think"


def test_a_fault_is_kept_as_type_and_place_and_never_as_text() -> None:
    reading = reading_of(route())
    try:
        raise KeyError("secret")
    except KeyError as fault:
        reading.note_fault(fault)
    assert reading.fault is not None
    assert reading.fault.startswith("KeyError at test_reading.py:")
    assert "secret" not in reading.fault


# ---------------------------------------------------------------------- where an answer starts, what is read at all

THOUGHT = [("reasoning", "t"), ("content", "a")]


@pytest.mark.parametrize(
    ("rules", "request_", "text", "pieces"),
    [
        (route(source="text", starts_in="reasoning"), {}, "t</think>a", THOUGHT),
        (route(source="text"), {}, "<think>t</think>a", THOUGHT),
        (route("kimi_k3", source="text"), {}, "t<|close|>think<|sep|>a", [("content", "t<|close|>think<|sep|>a")]),
        # the request turned thinking off: the prompt has closed the thought, whatever the route says (reader_spec 3)
        (route(source="text", starts_in="reasoning"), {"reasoning_effort": "none"}, "a", [("content", "a")]),
        (route(source="text", starts_in="reasoning", thinking_default="off"), {}, "a", [("content", "a")]),
        (route(starts_in="reasoning"), {"thinking": {"type": "disabled"}}, "t\n</think>a", [("content", "t\na")]),
        (route(source="text", starts_in="content"), {}, "t </think>a", [("content", "t </think>a")]),
        # SGLang's `separate_reasoning: false` keeps its meaning (contract 3), but does not lift `none`
        (route(), {"separate_reasoning": False}, "<think>t</think>a", [("content", "<think>t</think>a")]),
        (route(reasoning_field=NONE), {"separate_reasoning": False}, "<think>t</think>a", THOUGHT),
        (route("none"), {}, "<think>t</think>a", [("content", "<think>t</think>a")]),
    ],
)
def test_route_and_request_decide_where_an_answer_starts(
    rules: RouteRules, request_: dict[str, Any], text: str, pieces: list[Piece]
) -> None:
    assert said(rules, text, **request_) == pieces


def test_a_dialect_whose_raw_text_starts_in_a_thought_is_read_so_where_nothing_else_is_said() -> None:
    found = dialect("think")
    assert found
    rules = route(source="text", read_as=replace(found, starts_in="reasoning"))
    assert said(rules, "t</think>a") == THOUGHT
    assert said(rules, "a", chat_template_kwargs={"thinking": False}) == [("content", "a")]
    assert said(route(read_as=replace(found, starts_in="reasoning")), "a") == [
        ("content", "a")
    ]  # fields: the engine split


GOES_ON = {"continue_final_message": True, "add_generation_prompt": False}


def turn(text: str, **more: Any) -> dict[str, Any]:
    """A request that has the answer go on with this text."""
    return {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": text}], **GOES_ON, **more}


@pytest.mark.parametrize(
    ("rules", "request_", "text", "pieces"),
    [
        (route(source="text"), turn("<think>a"), "t</think>a", THOUGHT),
        (route(source="text", starts_in="content"), turn("<think>a"), "t</think>a", THOUGHT),
        (route("minimax_m2", source="text"), turn("<think>b</think>c"), "a", [("content", "a")]),
        (route(source="text", starts_in="reasoning"), turn("<think>b</think>c"), "a", [("content", "a")]),
        # the turn beats what the request says of turns that begin
        (route(source="text"), turn("<think>a", reasoning_effort="none"), "t</think>a", THOUGHT),
        (route(), turn("<think>a"), "t</think>a", THOUGHT),  # the engine's parser did not see it
        (route(), turn("<think>b</think>c"), "t\n</think>a", [("content", "t\na")]),
    ],
)
def test_an_answer_that_goes_on_with_a_turn_starts_where_the_turn_ends(
    rules: RouteRules, request_: dict[str, Any], text: str, pieces: list[Piece]
) -> None:
    assert said(rules, text, **request_) == pieces


@pytest.mark.parametrize(
    ("text", "thinking", "why"),
    [
        ("<think>a", "on", "the last turn ends in its thought"),
        ("<think>a</think>b", "off", "the last turn is past its thought"),
        ("b", "on", "chat_template_kwargs.enable_thinking is True"),  # of this engine nothing is known
    ],
)
def test_the_report_says_what_the_last_turn_told(text: str, thinking: str, why: str) -> None:
    asked = turn(text, chat_template_kwargs={"enable_thinking": True})
    report = reading_of(route(thinking_default="off"), **asked).report()
    assert (report["thinking"], report["why"]["thinking"], report["source"]) == (thinking, why, "fields")


def test_the_last_message_is_echoed_by_the_engines_that_do() -> None:
    request = {"messages": [{"role": "assistant", "content": "b</think>"}], "echo": True}
    vllm, sglang = (replace(route(source="text"), engine=engine) for engine in ("vllm", "sglang"))
    assert said(vllm, "b</think><think>t</think>a", **request) == [("content", "b</think>"), *THOUGHT]
    assert said(vllm, "<think>t</think>a", **request) == [("content", "<think>t</think>a")]  # where does it begin?
    assert said(sglang, "<think>t</think>a", **request) == THOUGHT  # it has no `echo` for chats


def test_a_request_that_cannot_be_read_says_nothing() -> None:
    assert chat().facts({}) == NOTHING_SAID


# ---------------------------------------------------------------------- what the request invites


@pytest.mark.parametrize(
    ("request_", "rows"),
    [
        ({"stop": ["\n"]}, [{"finding": "request_lint", "action": "flagged", "count": 1, "rule": "stop_white_space",
                             "where": "request"}]),
        ({"stop": ["\n"], "reasoning_effort": "none"}, []),  # no thought to stop in
        ({"stop": ["END"]}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_a_request_that_invites_a_leak_is_flagged(request_: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    assert reading_of(route(), **request_).report()["findings"] == rows


@pytest.mark.parametrize(
    ("request_", "known", "rule"),
    [
        ({}, {}, "stop_desync:deepseek_r1"),
        ({"stream": False}, {}, None),
        ({"stop": []}, {}, None),
        ({"include_stop_str_in_output": True}, {}, None),
        ({"reasoning_effort": "none"}, {}, None),
        ({}, {"source": "text"}, None),
        ({}, {"engine": "auto"}, None),
        ({}, {"parser": ""}, None),
        ({}, {"engine_version": "0.34.0"}, None),
        ({}, {"parser": "deepseek_v3"}, None),
        ({"chat_template_kwargs": {"thinking": True}}, {"parser": "deepseek_v3"}, "stop_desync:deepseek_v3"),
        ({}, {"parser": "deepseek_v3", "thinking_default": "on"}, "stop_desync:deepseek_v3"),
        ({"chat_template_kwargs": {"thinking": False}}, {"parser": "deepseek_v3", "thinking_default": "on"}, None),
    ],
)
def test_a_stream_with_stop_strings_is_flagged_where_the_engines_parser_is_known_to_cut_it_wrong(
    request_: dict[str, Any], known: dict[str, str], rule: str | None
) -> None:
    rules = replace(route(), **{"engine": "vllm", "parser": "deepseek_r1", **known})
    request_ = {"stream": True, "stop": ["####"], **request_}
    assert [row["rule"] for row in reading_of(rules, **request_).report()["findings"]] == ([rule] if rule else [])


STOPPED: dict[str, Any] = {"stream": True, "stop": ["#", "####"]}


@pytest.mark.parametrize(
    ("request_", "known", "window"),
    [
        ({}, {}, (4, True)),
        ({"stream": False}, {}, (4, False)),  # a plain answer is never cut late
        ({"reasoning_effort": "none"}, {}, (4, False)),
        ({}, {"parser": ""}, (4, False)),
        ({}, {"engine": "auto"}, (4, False)),
        ({}, {"parser": "qwen3"}, (4, False)),
        ({}, {"parser": "qwen3", "engine_version": "0.32.0"}, None),
        ({}, {"engine": "sglang"}, None),
        ({}, {"source": "text"}, None),
        ({}, {"dialect": None}, None),
        ({}, {"dialect": load_rulebook().dialects["harmony"]}, None),  # its thoughts have no closer of their own
        ({"stop": []}, {}, None),
        ({"stop": "#"}, {}, None),
        ({"include_stop_str_in_output": True}, {}, None),
    ],
)
def test_content_is_looked_at_where_the_engine_may_have_kept_text_back(
    request_: dict[str, Any], known: dict[str, Any], window: tuple[int, bool] | None
) -> None:
    rules = replace(route(), **{"engine": "vllm", "parser": "deepseek_r1", **known})
    found = reading_of(rules, **{**STOPPED, **request_})._setting.stop_window
    assert (found and (found.longest, found.desync)) == window
    assert found is None or (found.closers, found.openers) == (("</think>",), ("<think>",))


def test_a_thought_that_was_cut_late_is_put_right_in_a_stream_and_a_plain_answer() -> None:
    for stream in (True, False):
        pipeline = reading_of(route(), stream=stream, stop=["Observation:"]).pipeline()
        assert pipeline.push("look it ", "") is None
        assert pipeline.push("", "up first.</think>9.") == [("reasoning", "up first."), ("content", "9.")]


@pytest.mark.parametrize(("wanted", "names"), [({}, {"thought"}), ({"guided_json": {}}, {"thought", "preamble"})])
def test_a_preamble_is_looked_for_before_structured_output_only(wanted: dict[str, Any], names: set[str]) -> None:
    openings = load_rulebook().openings
    setting = reading_of(replace(route(), openings=openings), **wanted)._setting
    assert {opening.name.partition("_")[0] for opening in setting.openings} == names


def test_without_a_dialect_no_text_is_looked_at() -> None:
    rules = replace(route("none"), openings=load_rulebook().openings, reasoning_end_string="Done.")
    setting = reading_of(rules)._setting
    assert (setting.openings, setting.end_strings) == ((), ())


def test_the_end_string_is_looked_for_with_and_without_the_dialects_closers() -> None:
    rules = replace(route("think"), reasoning_end_string="Done.</think>\n")
    assert reading_of(rules)._setting.end_strings == ("Done.</think>", "Done.")


def test_thought_that_may_not_be_added_is_taken_out_and_counted() -> None:
    reading = reading_of(route())
    call = NumberedCall(0, "c", "f", "{}")
    pieces: list[Said] = [(REASONING, "ab"), (CONTENT, "c"), (REASONING, "d"), (CALL, call)]
    assert reading.without_thought(pieces) == [(CONTENT, "c"), (CALL, call)]
    assert reading.tally.characters_suppressed == 3


# ---------------------------------------------------------------------- raw text


def raw_reading(path: str = "/v1/completions", rules: RouteRules | None = None, **request: Any) -> ExchangeReading:
    """The reading of a request on a raw-text route."""
    protocol = protocol_for(path)
    assert protocol is not None
    rules = rules or route()
    return ExchangeReading(
        protocol=protocol, body=b"{}", facts=protocol.facts(request), rules=rules, policy=rules.policy
    )


@pytest.mark.parametrize("path", ["/v1/completions", "/generate"])
@pytest.mark.parametrize(
    ("profile", "raw_text", "field", "splits", "raw", "observe"),
    [
        (Profile.FULL, "split", BOTH, True, True, False),
        (Profile.REPAIR, "split", BOTH, True, True, False),
        (Profile.REPAIR, "leave", BOTH, False, False, False),
        (Profile.REPAIR, "leave", NONE, True, True, False),  # what is hidden is split
        (Profile.OBSERVE, "split", BOTH, False, True, True),
        (Profile.OBSERVE, "leave", BOTH, False, False, True),
        (Profile.OBSERVE, "leave", NONE, True, True, False),
    ],
)
def test_raw_text_is_split_where_the_route_says_so_or_hides_the_thought(
    path: str, profile: Profile, raw_text: str, field: ReasoningField, splits: bool, raw: bool, observe: bool
) -> None:
    reading = raw_reading(path, route(profile=profile, raw_text=raw_text, reasoning_field=field))
    assert (reading.splits, reading._setting.raw, reading.observe) == (splits, raw, observe)
    assert (reading.report()["profile"], reading.report()["source"]) == (str(profile), "text")
    left = not splits
    assert (reading.policy.profile is Profile.OBSERVE) is (left or profile is Profile.OBSERVE)
    assert left is (reading.names is None)


def test_a_chat_answer_is_not_raw_text_whatever_its_source() -> None:
    for source in ("fields", "text"):
        assert not reading_of(route(source=source, raw_text="split")).splits


def test_no_call_is_read_in_raw_text() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    reading = raw_reading(rules=route("qwen", raw_text="split"), tools=tools, tool_choice="none")
    assert (reading._setting.takes, reading._setting.tooling) == (Takes(), None)
    assert (reading.tally.offered, reading.calls.refuses) == (False, False)


def test_a_choice_of_generate_is_read_from_its_ids_or_else_from_its_text() -> None:
    markers = Markers(texts=frozenset({"<think>"}), ids={1: "<think>"})
    rules = replace(
        route(source="tokens", raw_text="split"), markers=markers, spelling=lambda: str, special=frozenset({1})
    )
    reading = raw_reading("/generate", rules, sampling_params={"stop": "END"})
    assert (reading.report()["source"], reading.tally.uninspected) == ("tokens", {})
    assert reading.pipeline(0, by_ids=True).push("", f"<think>{STRUCTURAL}<think>aEN") == [
        (CONTENT, "<think>"),
        (REASONING, "a"),
    ]
    assert reading.pipeline(1).push("", "<think>aEN") == [(REASONING, "aEN")]
    assert reading.tally.uninspected == {"tokens_missing": 1}


def test_the_start_of_raw_text_is_the_prompts_unless_the_route_says_it() -> None:
    def opens(starts_in: str, **request: Any) -> bool:
        reading = raw_reading(rules=route("minimax_m2", starts_in=starts_in, raw_text="split"), **request)
        return reading.pipeline(0).push("", "a") == [(REASONING, "a")]

    assert [opens("auto", prompt="<think>"), opens("auto", prompt="hi"), opens("auto", prompt=[1])] == [
        True, False, True,
    ]  # fmt: skip
    assert [opens("reasoning", prompt="hi"), opens("content", prompt="<think>")] == [True, False]


def test_the_engines_parser_cuts_no_raw_text() -> None:
    rules = replace(route(), parser="deepseek_r1", engine="vllm", engine_version="0.32.0")
    request = {"stop": "END", "stream": True}
    assert [row.rule for row in reading_of(rules, **request).tally.rows] == ["stop_desync:deepseek_r1"]
    assert raw_reading(rules=rules, **request).tally.rows == {}


def test_a_route_that_is_only_observed_keeps_what_it_does_with_raw_text() -> None:
    observed = effective_policy(policy_for(Profile.REPAIR, raw_text="split"), Overrides(observe=True))
    assert (observed.profile, observed.raw_text) == (Profile.OBSERVE, "split")
