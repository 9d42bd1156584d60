"""What a chat request says: contract section 3 (off), reader_spec 5.4 (wanted) and D11 (constrained)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.chat_request import chat_facts, thinking
from gateway.protocols.protocol import LastTurn, Tools


@pytest.mark.parametrize(
    ("request_", "state"),
    [
        ({}, "unknown"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "off"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "on"),
        ({"chat_template_kwargs": {"thinking": False}}, "off"),
        ({"chat_template_kwargs": {"thinking": True}}, "on"),
        ({"chat_template_kwargs": {"thinking_mode": "disabled"}}, "off"),
        ({"chat_template_kwargs": {"thinking_mode": "enabled"}}, "on"),
        ({"chat_template_kwargs": {"thinking_mode": "adaptive"}}, "unknown"),
        ({"thinking": {"type": "disabled"}}, "off"),
        ({"thinking": {"type": "enabled"}}, "on"),
        ({"thinking": {"type": "adaptive"}}, "on"),
        ({"reasoning_effort": "none"}, "off"),
        ({"reasoning_effort": "no_think"}, "off"),
        ({"reasoning_effort": "low"}, "unknown"),
        ({"reasoning": {"effort": "none"}}, "off"),
        ({"reasoning": {"effort": "high"}}, "unknown"),
        ({"chat_template_kwargs": {"reasoning_effort": "no_think"}}, "off"),
        # an explicit flag beats an effort
        ({"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "none"}, "on"),
        ({"thinking": {"type": "enabled"}, "reasoning": {"effort": "none"}}, "on"),
        ({"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "high"}, "off"),
        ({"chat_template_kwargs": {"enable_thinking": True}, "thinking": {"type": "disabled"}}, "off"),
        # what has an unexpected type says nothing
        ({"chat_template_kwargs": None, "thinking": True, "reasoning": "none", "reasoning_effort": 0}, "unknown"),
        ({"chat_template_kwargs": {"enable_thinking": "false"}, "thinking": {"type": 1}}, "unknown"),
        ({"reasoning_effort": ["none"]}, "unknown"),
    ],
)
def test_thinking_is_on_off_or_unknown(request_: dict[str, Any], state: str) -> None:
    assert thinking(request_)[0] == state
    assert chat_facts(request_).thinking == state


@pytest.mark.parametrize(
    ("request_", "wants"),
    [
        ({"include_reasoning": True}, True),
        ({"thinking": {"type": "enabled"}}, True),
        ({"thinking": {"type": "adaptive"}}, True),
        ({}, False),
        ({"include_reasoning": False}, False),
        ({"include_reasoning": "yes"}, False),
        ({"thinking": {"type": "disabled"}}, False),
        ({"thinking": {}}, False),
        ({"reasoning_effort": "high"}, False),
        ({"reasoning_effort": "none"}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, False),
    ],
)
def test_reasoning_is_wanted_only_where_it_was_asked_for(request_: dict[str, Any], wants: bool) -> None:
    assert chat_facts(request_).wants_reasoning is wants


@pytest.mark.parametrize(
    ("request_", "hides", "unsplit"),
    [
        ({}, False, False),
        ({"include_reasoning": False}, True, False),
        ({"include_reasoning": None}, False, False),
        ({"separate_reasoning": False}, False, True),
        ({"separate_reasoning": True}, False, False),
    ],
)
def test_a_client_may_ask_for_no_reasoning_or_for_the_text_as_it_is(
    request_: dict[str, Any], hides: bool, unsplit: bool
) -> None:
    facts = chat_facts(request_)
    assert (facts.hides_reasoning, facts.unsplit) == (hides, unsplit)


@pytest.mark.parametrize(
    ("request_", "constrained"),
    [
        ({}, False),
        ({"response_format": {"type": "text"}}, False),
        ({"response_format": {"type": "json_object"}}, True),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, True),
        ({"response_format": "json"}, False),
        ({"tool_choice": "auto"}, False),
        ({"tool_choice": "none"}, False),
        ({"tool_choice": "required"}, True),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, True),
        ({"structured_outputs": {"json": {}}}, True),
        ({"guided_json": {"type": "object"}}, True),
        ({"guided_regex": "a"}, True),
        ({"guided_grammar": "root"}, True),
        ({"guided_choice": ["a"]}, True),
        ({"regex": "a"}, True),
        ({"ebnf": "root"}, True),
        ({"guided_json": None, "regex": ""}, False),
    ],
)
def test_an_answer_that_has_to_follow_a_schema_or_a_call_is_constrained(
    request_: dict[str, Any], constrained: bool
) -> None:
    assert chat_facts(request_).constrained is constrained


@pytest.mark.parametrize(
    ("request_", "model", "stream"),
    [
        ({"model": "m", "stream": True}, "m", True),
        ({"model": 7, "stream": 1}, None, False),
        ({}, None, False),
    ],
)
def test_model_and_stream_have_their_types(request_: dict[str, Any], model: str | None, stream: bool) -> None:
    facts = chat_facts(request_)
    assert (facts.model, facts.stream) == (model, stream)


@pytest.mark.parametrize(
    ("request_", "structured"),
    [
        ({}, False),
        ({"response_format": {"type": "text"}}, False),
        ({"response_format": {"type": "json_object"}}, True),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, True),
        ({"guided_json": {}}, True),
        ({"structured_outputs": {"json": {}}}, True),
        ({"structured_outputs": {"json_object": True}}, True),
        ({"structured_outputs": {"json_object": False, "regex": "a"}}, False),
        ({"structured_outputs": None, "guided_choice": ["a"]}, False),
    ],
)
def test_an_answer_that_was_promised_to_be_json_is_structured(request_: dict[str, Any], structured: bool) -> None:
    assert chat_facts(request_).structured is structured


@pytest.mark.parametrize(
    ("stop", "stops"),
    [(None, ()), ("", ()), ("a", ("a",)), (["a", "", "b"], ("a", "b")), ([1, None], ()), ({"a": 1}, ())],
)
def test_stop_strings_come_alone_or_in_a_list(stop: Any, stops: tuple[str, ...]) -> None:
    assert chat_facts({"stop": stop}).stops == stops


@pytest.mark.parametrize(("value", "keeps"), [(True, True), (False, False), (None, False), ("true", False)])
def test_a_stop_string_stays_in_the_text_only_where_the_request_says_so(value: object, keeps: bool) -> None:
    assert chat_facts({"stop": "a", "include_stop_str_in_output": value}).keeps_stop is keeps


@pytest.mark.parametrize(
    ("options", "wants"),
    [({"include_usage": True}, True), ({"include_usage": False}, False), ({"include_usage": 1}, False), (None, False)],
)
def test_a_stream_may_be_asked_for_its_usage(options: Any, wants: bool) -> None:
    assert chat_facts({"stream_options": options}).wants_usage is wants


def test_the_thinking_decision_names_the_member_that_decided() -> None:
    request_ = {"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "high"}
    assert thinking(request_) == ("off", "chat_template_kwargs.enable_thinking is False")
    assert thinking({"reasoning": {"effort": "none"}}) == ("off", "reasoning.effort is none")
    assert thinking({}) == ("unknown", "no member says it")


# ---------------------------------------------------------------------- tools

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
F = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}


def tools(**request: Any) -> Tools:
    """What a request says of tools, which it declares."""
    found = chat_facts(request).tools
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("request_", "schemas"),
    [
        ({"tools": [F]}, {"f": SCHEMA}),
        ({"tools": [F, {"type": "function", "function": {"name": "g"}}]}, {"f": SCHEMA, "g": None}),
        ({"tools": [F, {"type": "web_search"}, {"function": {"name": 7}}, {"function": {}}, "f", None]}, {"f": SCHEMA}),
        ({"functions": [{"name": "h", "parameters": 3}, []]}, {"h": 3}),
        ({"tools": [F], "functions": [{"name": "h"}]}, {"f": SCHEMA, "h": None}),
        ({"messages": [{"role": "developer", "tools": [F]}, {"role": "user", "tools": [F]}, 7]}, {"f": SCHEMA}),
    ],
)
def test_a_declared_function_has_a_name_and_mostly_a_schema(request_: dict[str, Any], schemas: dict[str, Any]) -> None:
    assert tools(**request_).schemas == schemas


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"tools": []},
        {"tools": None},
        {"tools": {"f": F}},
        {"tools": [{"function": {"name": None}}]},
        {"functions": 1},
        {"messages": [{"role": "user", "tools": [F]}]},
    ],
)
def test_what_declares_no_function_declares_no_tools(request_: dict[str, Any]) -> None:
    assert chat_facts(request_).tools is None


@pytest.mark.parametrize(
    ("member", "choice", "named"),
    [
        ({}, "auto", None),
        ({"tool_choice": "auto"}, "auto", None),
        ({"tool_choice": None}, "auto", None),
        ({"tool_choice": "none"}, "none", None),
        ({"tool_choice": "required"}, "required", None),
        ({"tool_choice": "named"}, "auto", None),
        ({"tool_choice": ["none"]}, "auto", None),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "named", "f"),
        ({"tool_choice": {"type": "function", "function": {"name": 7}}}, "required", None),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}, "auto", None),
        ({"tool_choice": {"type": "allowed_tools", "mode": "required"}}, "required", None),
        ({"tool_choice": {"type": "allowed_tools", "mode": 7}}, "auto", None),
        ({"function_call": "none"}, "none", None),
        ({"function_call": {"name": "f"}}, "named", "f"),
        ({"tool_choice": "required", "function_call": "none"}, "required", None),
    ],
)
def test_the_choice_is_a_word_or_a_name(member: dict[str, Any], choice: str, named: str | None) -> None:
    found = tools(tools=[F], **member)
    assert (found.choice, found.named) == (choice, named)


@pytest.mark.parametrize(("value", "parallel"), [(None, True), (True, True), (False, False), (0, True)])
def test_one_call_alone_is_made_where_the_request_says_so(value: object, parallel: bool) -> None:
    assert tools(tools=[F], parallel_tool_calls=value).parallel is parallel
    assert tools(tools=[F]).parallel


@pytest.mark.parametrize(
    ("messages", "before"),
    [
        (None, 0),
        ([{"role": "assistant", "tool_calls": [{}, {}, None]}, {"role": "tool"}, {"role": "assistant"}], 2),
        ([{"role": "assistant", "tool_calls": [{}]}, "x", {"role": "assistant", "function_call": {}}], 2),
        ([{"role": "user", "tool_calls": [{}]}, {"role": "assistant", "tool_calls": "x", "function_call": "y"}], 0),
    ],
)
def test_the_calls_of_earlier_turns_are_counted(messages: Any, before: int) -> None:
    assert tools(tools=[F], messages=messages).calls_before == before


# ---------------------------------------------------------------------- the last turn

GOES_ON = {"continue_final_message": True, "add_generation_prompt": False}
USER = {"role": "user", "content": "Sol, Helios or Sun?"}
PARTS = [{"type": "text", "text": "The best"}, {"type": "text", "text": "answer is ("}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}


def assistant(content: Any, **members: Any) -> list[dict[str, Any]]:
    return [USER, {"role": "assistant", "content": content, **members}]


@pytest.mark.parametrize(
    ("request_", "turn"),
    [
        ({"messages": assistant("<think>a"), **GOES_ON}, LastTurn(text="<think>a")),
        ({"messages": assistant("<think>a"), "continue_final_message": True}, LastTurn(text="<think>a")),
        # vLLM joins the parts; SGLang goes on with a string only
        ({"messages": assistant(PARTS), **GOES_ON}, LastTurn(text="The best\nanswer is (", engines=("vllm",))),
        ({"messages": assistant([*PARTS, IMAGE]), **GOES_ON}, None),
        ({"messages": assistant([{"type": "text", "text": 1}]), **GOES_ON}, None),
        ({"messages": assistant(["a"]), **GOES_ON}, None),
        ({"messages": assistant([]), **GOES_ON}, None),
        ({"messages": assistant(""), **GOES_ON}, None),
        ({"messages": assistant(None, reasoning="a"), **GOES_ON}, None),
        ({"messages": assistant("a", tool_calls=[{"function": {"name": "f"}}]), **GOES_ON}, None),
        ({"messages": [USER], **GOES_ON}, None),
        ({"messages": ["a"], **GOES_ON}, None),
        ({"messages": [], **GOES_ON}, None),
        ({"messages": "a", **GOES_ON}, None),
        ({"messages": assistant("a"), "continue_final_message": "true"}, None),
        ({"messages": assistant("a"), "add_generation_prompt": False}, None),  # the turn is over
        ({"messages": assistant("a", prefix=True)}, None),  # the templates of vLLM and SGLang do not read it
        ({"messages": assistant("a")}, None),
    ],
)
def test_an_answer_goes_on_with_the_last_turn_only_where_the_request_says_so(
    request_: dict[str, Any], turn: LastTurn | None
) -> None:
    assert chat_facts(request_).last_turn == turn


@pytest.mark.parametrize(
    ("request_", "echoed"),
    [
        ({"messages": assistant("The best")}, ("The best",)),  # the answer's role is the message's
        ({"messages": assistant("The best"), **GOES_ON}, ("The best",)),
        ({"messages": assistant(PARTS), **GOES_ON}, ("The best\nanswer is (",)),
        ({"messages": assistant([IMAGE]), **GOES_ON}, (None,)),
        ({"messages": [USER]}, ()),  # the answer is an assistant's
        ({"messages": [USER], "add_generation_prompt": False}, ("Sol, Helios or Sun?",)),
        ({"messages": assistant("")}, ()),
        ({"messages": assistant(None)}, ()),
        ({"messages": []}, ()),
        ({}, ()),
    ],
)
def test_an_echo_is_the_last_message_where_its_role_is_the_answers(
    request_: dict[str, Any], echoed: tuple[str | None, ...]
) -> None:
    facts = chat_facts({**request_, "echo": True, "n": 2})
    assert (facts.prompts, facts.echo, facts.samples) == (echoed, bool(echoed), 2)
    assert (chat_facts(request_).prompts, chat_facts({**request_, "echo": 1}).echo) == ((), False)


@pytest.mark.parametrize(("number", "answers"), [(3, 3), (0, 1), (None, 1), (True, 1), ("2", 1)])
def test_a_request_says_how_many_answers_it_wants(number: object, answers: int) -> None:
    assert chat_facts({"n": number}).samples == answers
