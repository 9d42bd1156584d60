"""What a raw-text request says: prompts, samples, stop strings, nothing of a template (vllm.md 3.4, sglang.md 3.4)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.raw_request import completions_facts, generate_facts


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("hi", ("hi",)),
        (["a", "b"], ("a", "b")),
        ([1, 2, 3], (None,)),
        ([[1, 2], [3]], (None, None)),
        (["a", [1]], ("a", None)),
        ([], ()),
        (None, (None,)),
        (7, (None,)),
    ],
)
def test_a_prompt_is_a_text_or_tokens_or_a_list_of_those(prompt: Any, prompts: tuple[str | None, ...]) -> None:
    assert completions_facts({"prompt": prompt}).prompts == prompts
    assert generate_facts({"text": prompt}).prompts == prompts


@pytest.mark.parametrize(("n", "samples"), [(3, 3), (1, 1), (0, 1), (-1, 1), ("2", 1), (None, 1), (True, 1)])
def test_n_is_the_number_of_answers_to_each_prompt(n: Any, samples: int) -> None:
    assert completions_facts({"n": n}).samples == samples
    assert generate_facts({"sampling_params": {"n": n}}).samples == samples


@pytest.mark.parametrize(("echo", "wanted"), [(True, True), (False, False), (1, False), (None, False)])
def test_echo_is_what_a_completion_may_begin_with(echo: Any, wanted: bool) -> None:
    assert completions_facts({"echo": echo}).echo is wanted
    assert generate_facts({"echo": echo}).echo is False


def test_the_sampling_parameters_of_generate_stand_in_a_block() -> None:
    sampling = {"stop": ["END", ""], "no_stop_trim": True, "json_schema": "{}"}
    facts = generate_facts({"text": "hi", "stream": True, "sampling_params": sampling})
    assert (facts.model, facts.stream, facts.stops) == (None, True, ("END",))
    assert (facts.keeps_stop, facts.structured, facts.wants_usage) == (True, True, False)
    assert generate_facts({"sampling_params": [sampling]}).stops == ()  # one block for each prompt


@pytest.mark.parametrize(
    ("sampling", "shows"),
    [
        (None, False),
        ({}, False),
        ({"skip_special_tokens": False}, True),
        ({"skip_special_tokens": True}, False),
        ([{}], None),
    ],
)
def test_special_tokens_are_in_the_text_where_the_request_says_so(sampling: Any, shows: bool | None) -> None:
    assert generate_facts({"text": "a", "sampling_params": sampling}).shows_special is shows


def test_a_completion_has_them_beside_its_prompt() -> None:
    facts = completions_facts({"model": "m", "stop": "END", "stream_options": {"include_usage": True}})
    assert (facts.model, facts.stream, facts.stops, facts.wants_usage) == ("m", False, ("END",), True)
    assert (facts.keeps_stop, facts.structured) == (False, False)
    assert completions_facts({"include_stop_str_in_output": True}).keeps_stop
    assert completions_facts({"response_format": {"type": "json_object"}}).structured


def test_what_a_chat_template_would_read_says_nothing_here() -> None:
    request = {
        "chat_template_kwargs": {"enable_thinking": False},
        "reasoning_effort": "none",
        "include_reasoning": False,
        "separate_reasoning": False,
    }
    for facts in (completions_facts(request), generate_facts(request)):
        assert (facts.thinking, facts.thinking_why) == ("unknown", "the prompt is the client's own")
        assert not (facts.wants_reasoning or facts.hides_reasoning or facts.unsplit)
    assert not completions_facts({"include_reasoning": True}).wants_reasoning


def test_no_turn_goes_on_where_the_client_writes_the_prompt() -> None:
    messages = [{"role": "assistant", "content": "a"}]
    facts = completions_facts({"prompt": "b", "messages": messages, "continue_final_message": True, "echo": True})
    assert (facts.last_turn, facts.prompts, facts.echo) == (None, ("b",), True)
