"""What a chat request says: contract section 3 (off), reader_spec 5.4 (wanted) and D11 (constrained)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.chat_request import chat_facts, thinking


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
    assert thinking(request_) == state
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
