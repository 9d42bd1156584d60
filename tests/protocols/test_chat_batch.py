"""Batches of conversations: vLLM's `BatchChatCompletionRequest` and its answer (reference/vllm.md 3.8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.limits import Limits
from gateway.protocols import PROTOCOLS
from gateway.protocols.chat_batch import ChatBatch
from gateway.protocols.protocol import HistoryRule

BATCH = PROTOCOLS["/v1/chat/completions/batch"]
RULE = HistoryRule(keep="strip", field="reasoning", grammar=None, repair_arguments=True, limits=Limits())
USER = {"role": "user", "content": "hi"}
CALLED = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def test_what_a_request_says_it_says_of_every_conversation() -> None:
    facts = BATCH.facts(
        {
            "model": "m",
            "messages": [[USER], [USER]],
            "chat_template_kwargs": {"enable_thinking": False},
            "stop": ["x"],
            "response_format": {"type": "json_object"},
            "include_reasoning": False,
        }
    )
    assert (facts.model, facts.thinking, facts.stops) == ("m", "off", ("x",))
    assert (facts.structured, facts.hides_reasoning, facts.tools) == (True, True, None)


def test_calls_and_tools_of_all_conversations_are_known() -> None:
    declares = {"role": "system", "content": "", "tools": [TOOL]}  # reference/sglang.md 3.1
    facts = BATCH.facts({"messages": [[USER, CALLED], [CALLED, CALLED], [declares, USER]]})
    assert facts.tools is not None
    assert (list(facts.tools.schemas), facts.tools.calls_before) == (["f"], 3)


@pytest.mark.parametrize("messages", [None, "hi", [], [USER], [None, 1], {"0": [USER]}])
def test_messages_of_another_shape_say_nothing(messages: Any) -> None:
    facts = BATCH.facts({"model": "m", "messages": messages, "tools": [TOOL]})
    assert facts.tools is not None
    assert (facts.model, facts.tools.calls_before) == ("m", 0)


def test_the_history_of_each_conversation_is_shaped() -> None:
    said = {"role": "assistant", "content": "a", "reasoning": "r"}
    body = json.dumps({"messages": [[USER], [USER, said], [said, USER]], "seed": 1}).encode()
    shaped, done = BATCH.shape_history(body, RULE)
    kept = {"role": "assistant", "content": "a"}
    assert json.loads(shaped) == {"messages": [[USER], [USER, kept], [kept, USER]], "seed": 1}
    assert done == {"stripped": 2}


def test_the_answer_is_one_of_chat_with_a_choice_for_each_conversation() -> None:
    choices = [
        {
            "index": n,
            "message": {"role": "assistant", "reasoning": f"r{n}", "content": f"c{n}"},
            "finish_reason": "stop",
        }
        for n in range(3)
    ]
    parts = ChatBatch().decode_body(json.dumps({"id": "chatcmpl-1", "choices": choices}).encode()).parts
    assert [(part.index, part.reasoning, part.content) for part in parts] == [
        (0, "r0", "c0"),
        (1, "r1", "c1"),
        (2, "r2", "c2"),
    ]
