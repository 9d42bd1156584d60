"""The oracle against rows decided elsewhere, before anything is compared with it."""

from __future__ import annotations

import pytest

from tests.traces.oracle import Answer, expected, visible

RE, TE, RS = "<|close|>response<|sep|>", "<|close|>think<|sep|>", "<|open|>response<|sep|>"
TS, ME = "<|open|>think<|sep|>", "<|close|>message<|sep|>"


@pytest.mark.parametrize(
    ("text", "stopped", "answer"),
    [
        (f"The answer is 42.{RE}{ME}", True, Answer("The answer is 42.", "The answer is 42.")),  # row 1
        (f"Reply.{RE}\n{ME}", True, Answer("Reply.\n", "Reply.\n")),  # row 4
        (f"CoT ...{RE}{TE}{RS}Final answer.{RE}{ME}", True, Answer("CoT ...", "Final answer.")),  # row 8
        (f"I quote {RE} here", True, Answer("I quote  here", "")),  # row 12
        (f"I will end with {RE}", False, Answer("I will end with ", "")),  # row 15
        ("Reply.", True, Answer("Reply.", "")),  # row 17
        (f"{TS}my reasoning{TE}\n{RS}the answer", True, Answer("my reasoning", "\nthe answer")),  # row 34
    ],
)
def test_kimi_k3_channels_read_as_the_truth_table_says(text: str, stopped: bool, answer: Answer) -> None:
    assert expected(text, dialect="kimi_k3", opens=True, stopped=stopped, tools="absent") == answer


@pytest.mark.parametrize(
    ("text", "opens", "answer"),
    [
        ("<think>a</think>b", False, Answer("a", "b")),
        ("<think>a</think>b", True, Answer("a", "b")),
        ("a</think>b", True, Answer("a", "b")),
        ("a</think>b", False, Answer("", "a</think>b")),
        ("b", True, Answer("b", "")),
        ("<think>a</think>one <think>c</think>two", True, Answer("a", "one <think>c</think>two")),
        ("b<|im_end|>\n<|im_start|>user\nc", False, Answer("", "b")),  # contract rule 11
        ("b<|im_end|>\n<|im_start|>admin\nc", False, Answer("", "b")),
    ],
)
def test_think_tags_split_once_and_the_answer_ends_with_the_turn(text: str, opens: bool, answer: Answer) -> None:
    assert expected(text, dialect="think", opens=opens, stopped=True, tools="absent") == answer


@pytest.mark.parametrize(
    ("dialect", "text", "answer"),
    [
        ("seed_oss", "<seed:think>a</seed:think>b", Answer("a", "b")),
        ("seed_oss", "<think>a</think>b", Answer("<think>a</think>b", "")),
        ("granite", "<think>a</think>b", Answer("<think>a</think>b", "")),
    ],
)
def test_a_family_with_other_tags_knows_its_own_only(dialect: str, text: str, answer: Answer) -> None:
    assert expected(text, dialect=dialect, opens=True, stopped=True, tools="absent") == answer


CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize(
    ("tools", "answer"),
    [("offered", Answer("a", "b", (("f", {}),))), ("none", Answer("a", "b")), ("absent", Answer("a", f"b{CALL}"))],
)
def test_call_markup_is_a_call_only_where_tools_were_offered(tools: str, answer: Answer) -> None:
    """Contract rule 5."""
    text = f"<think>a</think>b{CALL}"
    assert expected(text, dialect="think", opens=True, stopped=True, tools=tools) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", Answer("a", "b")),
        ("<|channel|>final<|message|>b<|return|>", Answer("", "b")),
        ("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>", Answer("", "", (("f", {}),))),
        ("<|channel|>commentary<|message|>b<|end|>", Answer("", "b")),
        ("b", Answer("", "b")),
    ],
)
def test_harmony_messages_go_where_their_channel_says(text: str, answer: Answer) -> None:
    """The OpenAI Harmony format: analysis is thought, final and commentary are shown, a recipient makes a call."""
    assert expected(text, dialect="harmony", opens=False, stopped=True, tools="offered") == answer


def test_the_first_stop_string_in_the_text_ends_it_and_special_tokens_are_not_shown() -> None:
    assert visible("<|end|>ab##c#", stop=["#", "##"], specials=False) == "ab"
    assert visible("<|end|>ab", stop=["#"], specials=True) == "<|end|>ab"
