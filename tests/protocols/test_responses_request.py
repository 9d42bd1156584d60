"""What a Responses request says (contract section 3, reader_spec 5.4), and its input shaped (contract section 5)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from gateway.limits import Limits
from gateway.protocols.protocol import HistoryRule, LastTurn, Tools
from gateway.protocols.responses_request import responses_facts, shape_history
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.load import load_rulebook

F = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ({}, False),
        ({"reasoning": {"summary": "auto"}}, True),
        ({"reasoning": {"generate_summary": "detailed"}}, True),
        ({"include_reasoning": True}, True),
        ({"reasoning": {"effort": "high"}}, False),
        ({"reasoning": {"summary": None}}, False),
        ({"reasoning": "auto"}, False),
        ({"include": ["reasoning.encrypted_content"]}, False),
    ],
)
def test_reasoning_was_asked_for_where_a_summary_was(request_: dict[str, Any], wanted: bool) -> None:
    assert responses_facts(request_).wants_reasoning is wanted


def test_an_effort_of_none_turns_thinking_off() -> None:
    assert responses_facts({"reasoning": {"effort": "none"}}).thinking == "off"
    assert responses_facts({"reasoning": {"effort": "low"}}).thinking == "unknown"


@pytest.mark.parametrize(
    ("form", "structured", "constrained"),
    [
        (None, False, False),
        ({"type": "text"}, False, False),
        ({"type": "json_schema", "name": "r", "schema": {}}, True, True),
        ({"type": "json_object"}, True, True),
        ({"type": "grammar"}, False, True),
    ],
)
def test_a_format_promises_json(form: Any, structured: bool, constrained: bool) -> None:
    facts = responses_facts({"text": {"format": form}})
    assert (facts.structured, facts.constrained) == (structured, constrained)


SAID = {"role": "assistant", "content": "The best answer is ("}
OUTPUT = {"type": "output_text", "text": "The best answer is (", "annotations": []}


@pytest.mark.parametrize(
    ("items", "text"),
    [
        # vLLM #32100, responses/utils.py: `should_continue_final_message`
        ([{**SAID, "status": "in_progress"}], "The best answer is ("),
        ([{**SAID, "type": "message", "status": "incomplete"}], "The best answer is ("),
        ([{**SAID, "content": [OUTPUT, OUTPUT], "status": "incomplete"}], "The best answer is ("),  # the first part
        ([{**SAID, "content": [], "status": "incomplete"}], None),
        ([{**SAID, "content": None, "status": "incomplete"}], None),
        ([{**SAID, "content": [{"type": "output_text"}], "status": "incomplete"}], None),
        ([{**SAID, "status": "completed"}], None),
        ([SAID], None),
        ([{**SAID, "role": "user", "status": "in_progress"}], None),
        ([{"type": "reasoning", "content": [{"text": "a"}], "status": "in_progress"}], None),
        ([{**SAID, "status": "in_progress"}, {"role": "user", "content": "go on"}], None),
        (["a"], None),
        ([], None),
        ("a", None),
    ],
)
def test_vllm_goes_on_with_an_unfinished_last_message(items: Any, text: str | None) -> None:
    facts = responses_facts({"input": items, "echo": True, "messages": [SAID], "continue_final_message": True})
    assert facts.last_turn == (LastTurn(text=text, engines=("vllm",)) if text else None)
    assert (facts.prompts, facts.echo) == ((), False)


def test_what_every_request_says_is_read() -> None:
    facts = responses_facts({"model": "m", "stream": True, "stop": ["x"], "stream_options": {"include_usage": True}})
    assert (facts.model, facts.stream, facts.stops, facts.wants_usage) == ("m", True, ("x",), False)


@pytest.mark.parametrize(
    ("choice", "kind", "named", "constrained"),
    [
        (None, "auto", None, False),
        ("auto", "auto", None, False),
        ("none", "none", None, False),
        ("required", "required", None, True),
        ({"type": "function", "name": "f"}, "named", "f", True),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, "auto", None, True),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, "required", None, True),
        ({"type": "web_search_preview"}, "required", None, True),
        (7, "auto", None, False),
    ],
)
def test_functions_are_flat_and_a_choice_names_one(
    choice: Any, kind: Any, named: str | None, constrained: bool
) -> None:
    facts = responses_facts({"tools": [F, {"type": "web_search"}, 7, {"type": "function"}], "tool_choice": choice})
    schemas = {"f": F["parameters"]}
    assert facts.tools == Tools(schemas=schemas, choice=kind, named=named, parallel=True, calls_before=0)
    assert facts.constrained is constrained


def test_calls_of_earlier_turns_are_counted() -> None:
    items = [{"type": "function_call"}, {"type": "custom_tool_call"}, {"role": "user", "content": "hi"}, 7]
    tools = responses_facts({"tools": [F], "input": items, "parallel_tool_calls": False}).tools
    assert tools and (tools.calls_before, tools.parallel) == (2, False)
    assert responses_facts({"tools": [], "input": "hi"}).tools is None
    assert responses_facts({"tools": "f"}).tools is None


# ---------------------------------------------------------------------- history

CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
BROKEN = CALL | {"arguments": "{"}


@cache
def rule(
    keep: str = "keep", dialect: str | None = "think", *, repair: bool = True, field: str | None = None
) -> HistoryRule:
    """A rule; `dialect` tells thoughts in the content."""
    grammar = compile_dialect(load_rulebook().dialects[dialect]) if dialect else None
    return HistoryRule(keep=keep, field=field, grammar=grammar, repair_arguments=repair, limits=Limits())


def shaped(*items: Any, by: HistoryRule | None = None) -> tuple[list[Any], dict[str, int]]:
    """The input as the engine gets it, and what was done."""
    body, done = shape_history(json.dumps({"input": items}).encode(), by or rule())
    return json.loads(body)["input"], dict(+done)


def said(text: str, **more: Any) -> dict[str, Any]:
    """A message of the assistant."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


def thought(text: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": text}],
        **more,
    }


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"input":"<think>t</think>a"}',
        b'{ "input" : [ 7, {"role":"user","content":"<think>t</think>a"}, {"role":"assistant","content":"a"} ] }',
        b'{"input":[{"type":"reasoning","summary":[]},{"role":"assistant","content":null,"phase":"commentary"}],"n":1.10}',
        b'{"input":[{"role":"assistant","content":[{"type":"output_text","text":"a"},7]},{"type":"function_call"}]}',
        b'{"input":[{"role":"assistant","content":[7]},{"role":"assistant","content":[{"type":"refusal"}]}]}',
    ],
)
def test_a_request_that_needs_no_change_stays_the_same_object(body: bytes) -> None:
    for keep in ("keep", "strip", "leave", "tool_loop"):
        shaped_body, done = shape_history(body, rule(keep))
        assert (shaped_body is body, +done) == (True, {})


def test_a_body_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        shape_history(b"{", rule())


def test_reasoning_is_kept_or_stripped_by_the_familys_rule() -> None:
    turns = [
        thought("a"),
        said("b"),
        {"role": "user", "content": "c"},
        thought("d"),
        CALL,
        thought("e"),
        said("f"),
        CALL,
    ]
    for keep in ("keep", "leave"):
        assert shaped(*turns, by=rule(keep)) == (turns, {})
    assert shaped(*turns, by=rule("strip")) == ([turns[n] for n in (1, 2, 4, 6, 7)], {"stripped": 3})
    assert shaped(*turns, by=rule("tool_loop")) == (turns[1:], {"stripped": 1})


def test_progress_is_no_final_answer_and_its_phase_goes_back() -> None:
    turns = [said("x", phase="final_answer"), thought("a"), said("Looking.", phase="commentary"), CALL]
    assert shaped(*turns, by=rule("tool_loop")) == (turns, {})


def test_encrypted_reasoning_is_not_touched() -> None:
    sealed = thought("a", encrypted_content="x")
    assert shaped(sealed, said("a"), by=rule("strip")) == ([sealed, said("a")], {})


def test_reasoning_that_only_says_the_answer_again_is_dropped() -> None:
    for answer in (said("a "), {"role": "assistant", "content": "a"}):
        assert shaped(thought(" a"), answer) == ([answer], {"repeat_dropped": 1})
        assert shaped(thought(" a"), answer, by=rule("leave")) == ([thought(" a"), answer], {})
    assert shaped(thought("a"), CALL, said("a")) == ([thought("a"), CALL, said("a")], {})
    assert shaped(thought("a")) == ([thought("a")], {})


@pytest.mark.parametrize("text", [True, False])
def test_a_thought_in_an_answer_becomes_an_item_or_goes(text: bool) -> None:
    leak = "<think>t</think>\n\na"
    turn = {"role": "assistant", "content": leak} if text else said(leak, phase="final_answer", n=1)
    clean = turn | {"content": "a" if text else [{"type": "output_text", "text": "a"}]}
    [item, answer], done = shaped(turn)
    assert (answer, done) == (clean, {"split": 1})
    assert (item["type"], item["content"]) == ("reasoning", [{"type": "reasoning_text", "text": "t"}])
    assert shaped(turn)[0][0]["id"] == item["id"]
    assert shaped(turn, by=rule("strip")) == ([clean], {"split": 1, "stripped": 1})
    assert shaped(turn, by=rule("leave")) == ([turn], {})
    assert shaped(thought("r"), turn) == ([thought("r"), turn], {})
    assert shaped(thought("r"), turn, by=rule("strip")) == ([clean], {"split": 1, "stripped": 2})
    assert shaped(turn, by=rule(dialect=None)) == ([turn], {})


def test_a_thought_that_says_nothing_or_the_answer_again_makes_no_item() -> None:
    assert shaped(said("<think></think>a"), by=rule("strip")) == ([said("a")], {"split": 1})
    assert shaped(said("<think>a</think>a")) == ([said("a")], {"split": 1})


def test_arguments_that_are_no_json_are_emptied_or_only_counted() -> None:
    assert shaped(CALL, BROKEN) == ([CALL, CALL], {"arguments_invalid": 1})
    assert shaped(BROKEN, by=rule(repair=False)) == ([BROKEN], {"arguments_invalid": 1})
    assert shaped(CALL | {"arguments": {}}) == ([CALL | {"arguments": {}}], {})


def test_every_byte_that_need_not_change_stays() -> None:
    body = b'{"n":1.10, "input":[{"role":"assistant", "content":"<think>t</think>a","x":1E5}, {"role":"user"}]}'
    wanted = b'{"n":1.10, "input":[{"role":"assistant", "content":"a","x":1E5}, {"role":"user"}]}'
    assert shape_history(body, rule("strip"))[0] == wanted
