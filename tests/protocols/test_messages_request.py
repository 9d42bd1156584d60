"""What a Messages request says (contract section 3, reader_spec 5.4), and its history shaped (contract section 5)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from gateway.limits import Limits
from gateway.protocols.messages_request import messages_facts, shape_history
from gateway.protocols.protocol import HistoryRule
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.load import load_rulebook

# ---------------------------------------------------------------------- facts


@pytest.mark.parametrize(
    ("asked", "thinking", "wants", "hides", "adds_none"),
    [
        (None, "unknown", False, False, False),
        ({"type": "enabled", "budget_tokens": 1024}, "on", True, False, False),
        ({"type": "adaptive"}, "on", True, False, False),
        ({"type": "adaptive", "display": "summarized"}, "on", True, False, False),
        ({"type": "enabled", "display": "omitted"}, "on", False, True, False),
        ({"type": "disabled"}, "off", False, False, True),
        ("enabled", "unknown", False, False, False),
    ],
)
def test_thinking_is_what_the_request_says(
    asked: object, thinking: str, wants: bool, hides: bool, adds_none: bool
) -> None:
    facts = messages_facts({"thinking": asked} if asked else {})
    assert (facts.thinking, facts.wants_reasoning) == (thinking, wants)
    assert (facts.hides_reasoning, facts.adds_no_thought) == (hides, adds_none)


def test_the_engines_own_flags_count_as_in_chat() -> None:
    facts = messages_facts({"chat_template_kwargs": {"enable_thinking": False}})
    assert (facts.thinking, facts.adds_no_thought) == ("off", False)
    assert facts.thinking_why == "chat_template_kwargs.enable_thinking is False"


def test_a_request_without_anything_says_nothing() -> None:
    facts = messages_facts({"model": 3, "stop_sequences": "x", "tools": "x", "tool_choice": 3, "stream": 1})
    assert (facts.model, facts.stream, facts.stops, facts.tools) == (None, False, (), None)
    assert (facts.constrained, facts.structured, facts.unsplit, facts.keeps_stop, facts.wants_usage) == (False,) * 5


def test_model_stream_and_stop_strings_are_read() -> None:
    facts = messages_facts({"model": "m", "stream": True, "stop_sequences": ["a", "", 3, "b"]})
    assert (facts.model, facts.stream, facts.stops) == ("m", True, ("a", "b"))


@pytest.mark.parametrize("name", ["output_config", "output_format"])
def test_an_answer_that_was_promised_to_be_json_is_structured(name: str) -> None:
    form = {"type": "json_schema", "schema": {}}
    facts = messages_facts({name: {"format": form} if name == "output_config" else form})
    assert (facts.structured, facts.constrained) == (True, True)


F = {"name": "f", "input_schema": {"type": "object"}}
CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}


def test_tools_are_declared_by_name_with_their_schemas() -> None:
    facts = messages_facts({"tools": [F, {"type": "bash_20250124", "name": "bash"}, {"type": "x"}, 3]})
    assert facts.tools is not None
    assert facts.tools.schemas == {"f": {"type": "object"}, "bash": None}


@pytest.mark.parametrize(
    ("choice", "said", "named", "constrained"),
    [
        (None, "auto", None, False),
        ({"type": "auto"}, "auto", None, False),
        ({"type": "none"}, "none", None, False),
        ({"type": "any"}, "required", None, True),
        ({"type": "tool", "name": "f"}, "named", "f", True),
        ({"type": "tool"}, "required", None, True),
        ({"type": "new"}, "auto", None, False),
    ],
)
def test_the_choice_of_a_tool_is_told_in_the_words_of_chat(
    choice: object, said: str, named: str | None, constrained: bool
) -> None:
    facts = messages_facts({"tools": [F], "tool_choice": choice})
    assert facts.tools is not None
    assert (facts.tools.choice, facts.tools.named, facts.constrained) == (said, named, constrained)


def test_parallel_calls_and_earlier_ones_are_told() -> None:
    facts = messages_facts(
        {
            "tools": [F],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "messages": [
                CALLED,
                {"role": "user", "content": CALLED["content"]},
                {"role": "assistant", "content": "a"},
                CALLED,
            ],
        }
    )
    assert facts.tools is not None
    assert (facts.tools.parallel, facts.tools.calls_before) == (False, 2)


# ---------------------------------------------------------------------- history


@cache
def rule(keep: str = "keep", field: str | None = "reasoning", *, repair: bool = True) -> HistoryRule:
    """A rule; `<think>` tags tell thoughts in the text."""
    grammar = compile_dialect(load_rulebook().dialects["think"])
    return HistoryRule(keep=keep, field=field, grammar=grammar, repair_arguments=repair, limits=Limits())


STRIP = rule("strip")


def thought(text: str, **more: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, **more}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def use(made: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": "f", "input": made}


SIGNED, REDACTED = thought("t", signature="s"), {"type": "redacted_thinking", "data": "d"}


def shaped(*contents: Any, by: HistoryRule) -> tuple[list[Any], dict[str, int]]:
    """The contents of assistant turns as the engine gets them, and what was done."""
    turns = [{"role": "assistant", "content": content} for content in contents]
    body, done = shape_history(json.dumps({"messages": turns}).encode(), by)
    return [turn["content"] for turn in json.loads(body)["messages"]], dict(+done)


@pytest.mark.parametrize(
    ("content", "by"),
    [
        ("a", STRIP),
        ("<think>t</think>a", rule("leave")),
        ("<think>t</think>a", rule(field=None)),
        ([thought("t"), text("a")], rule()),
        ([thought("t"), text("a")], rule("leave")),
        ([thought("t"), text("t")], rule("leave")),
        ([SIGNED, text("a")], STRIP),
        ([SIGNED, text("t")], rule()),
        ([REDACTED, text("a")], STRIP),
        ([SIGNED, text("<think>t</think>a")], rule()),
        ([thought("t")], STRIP),
        ([use({}), use('{"a": 1}'), 3, {"type": "text", "text": 3}], STRIP),
        (None, STRIP),
    ],
)
def test_a_turn_that_needs_no_change_leaves_the_request_the_same_object(content: Any, by: HistoryRule) -> None:
    body = json.dumps({"messages": [{"role": "assistant", "content": content}], "n": 1}).encode()
    same, done = shape_history(body, by)
    assert same is body
    assert +done == {}


@pytest.mark.parametrize(
    "body", [b"[]", b'{"messages":3}', b'{"messages":[3,{"role":"user","content":"<think>t</think>a"}]}']
)
def test_only_assistant_turns_are_touched(body: bytes) -> None:
    assert shape_history(body, STRIP)[0] is body


@pytest.mark.parametrize(
    ("content", "by", "result", "done"),
    [
        # a thought at the beginning of a text
        ("<think>t</think>a", rule(), [thought("t"), text("a")], {"split": 1}),
        ("<think>t</think>a", STRIP, "a", {"split": 1, "stripped": 1}),
        ("<think>a</think>a", rule(), "a", {"split": 1}),
        ([text("<think>t</think>a", n=1)], rule(), [thought("t"), text("a", n=1)], {"split": 1}),
        ([text("<think>t</think>a", n=1), use({})], STRIP, [text("a", n=1), use({})], {"split": 1, "stripped": 1}),
        ([text("<think>t</think>"), use({})], rule(), [thought("t"), use({})], {"split": 1}),
        ([text("<think>t</think>"), use({})], STRIP, [use({})], {"split": 1, "stripped": 1}),
        ([SIGNED, text("<think>t</think>a")], STRIP, [SIGNED, text("a")], {"split": 1, "stripped": 1}),
        # blocks of thought
        ([thought("t"), text("a")], STRIP, [text("a")], {"stripped": 1}),
        ([thought("t"), SIGNED, REDACTED, text("a")], STRIP, [SIGNED, REDACTED, text("a")], {"stripped": 1}),
        ([thought("a"), text("a")], rule(), [text("a")], {"repeat_dropped": 1}),
        # input that is no JSON
        ([text("a"), use("{")], rule(), [text("a"), use({})], {"arguments_invalid": 1}),
        ([use("{")], rule("leave"), [use({})], {"arguments_invalid": 1}),
        ([use("{")], rule(repair=False), [use("{")], {"arguments_invalid": 1}),
    ],
)
def test_a_turn_is_shaped_by_the_familys_rule(content: Any, by: HistoryRule, result: Any, done: dict[str, int]) -> None:
    assert shaped(content, by=by) == ([result], done)


def test_a_thought_is_kept_behind_the_last_answer_only() -> None:
    loop = [[thought("t"), text("a")], [thought("u"), use({})]]
    assert shaped(*loop, by=rule("tool_loop")) == ([[text("a")], loop[1]], {"stripped": 1})


def test_everything_else_keeps_its_bytes() -> None:
    sent = b'{ "n":1.10, "messages" : [ {"role":"assistant","content":%b} ] }'
    before = sent % b'[ {"type":"text","text":"<think>t</think>a","x":1E5} ]'
    assert shape_history(before, STRIP)[0] == sent % b'[{"type":"text","text":"a","x":1E5}]'


def test_a_body_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError):
        shape_history(b"{", STRIP)
