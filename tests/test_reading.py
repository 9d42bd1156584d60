"""The public reader: the same reading whole and in pieces, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigError
from gateway.events import CONTENT, MARKER, REASONING, Effect, ToolCall
from gateway.reading import Reader, Reading, read_whole, reading_of
from gateway.rulebook.dialect import Dialect, Kind, Thought
from tests.support.rules import MINE

ODD = Dialect(name="odd", summary="", kind=Kind.TAG, aliases={}, thoughts=(Thought(open=("{{",), close=("}}",)),))
SKIPPED = "Hi.<|close|>response<|sep|>"
CORPUS = Path(__file__).parent / "corpus"
LITERALS = [json.loads(line) for line in (CORPUS / "tool_literals.jsonl").read_text("utf-8").splitlines()]
FOREIGN = "<|channel|>final<|message|>Hi<|end|><|start|>user<|message|>and then"


def piecewise(text: str, *, dialect: str | Mapping[str, str] | Dialect, starts_in: str, stopped: bool) -> Reading:
    reader = Reader(dialect=dialect, starts_in=starts_in)
    segments = [segment for character in text for segment in reader.feed(character)]
    return reading_of([*segments, *reader.finish(stopped=stopped)])


@pytest.mark.parametrize(
    ("text", "dialect", "starts_in", "stopped", "reasoning", "content"),
    [
        ("<think>two and two</think>4", "think", "content", True, "two and two", "4"),
        ("two and two</think>4", "think", "reasoning", True, "two and two", "4"),
        ("two and two</think>4", "think", "auto", True, "", "two and two</think>4"),
        ("{{two and two}}4", ODD, "auto", True, "two and two", "4"),
        (SKIPPED, "kimi_k3", "reasoning", True, "Hi.", "Hi."),
        (SKIPPED, "kimi_k3", "reasoning", False, "Hi.", ""),
        ("<|tool_call>call:f{}<tool_call|>", "gemma4", "content", True, "", ""),
        (FOREIGN, "harmony", "auto", True, "", "Hi"),
    ],
)
def test_a_text_reads_the_same_whole_and_in_pieces(
    text: str, dialect: str | Dialect, starts_in: str, stopped: bool, reasoning: str, content: str
) -> None:
    whole = read_whole(text, dialect=dialect, starts_in=starts_in, stopped=stopped)
    assert (whole.reasoning, whole.content) == (reasoning, content)
    pieces = piecewise(text, dialect=dialect, starts_in=starts_in, stopped=stopped)
    assert (pieces.reasoning, pieces.content, pieces.calls) == (reasoning, content, whole.calls)
    assert pieces.decisions == whole.decisions


HERMES = {"reasoning": "qwen3", "tools": "hermes"}
CALL = '<tool_call>\n{"name": "f", "arguments": {"n": 1.0}}\n</tool_call>'
OTHER = "<tool_call>\n<function=g>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>"
CUT = CALL.removesuffix('"n": 1.0}}\n</tool_call>')
F, G = ToolCall("f", '{"n": 1.0}', None), ToolCall("g", '{"n": "1"}', None)


@pytest.mark.parametrize(
    ("text", "stopped", "reasoning", "content", "calls"),
    [
        (f"<think>a</think>Let me see.\n{CALL}", True, "a", "Let me see.\n", (F,)),
        (f"{CALL}\n{OTHER}\n", True, "", "", (F, G)),  # white space behind calls is no answer
        (f"{CALL}\n{OTHER}\nb", True, "", "\n\nb", (F, G)),
        (f"<think>a\n{CALL}", True, "a\n", "", (F,)),
        (f"<think>a\n{CALL}b</think>c", True, f"a\n{CALL}b", "c", ()),  # a draft, in a thought that goes on
        (f"<think>a\n{CUT}", False, f"a\n{CUT}", "", ()),
        (f"b{CUT}", False, "", f"b{CUT}", ()),
        (f"Write `{CALL}`.", True, "", f"Write `{CALL}`.", ()),
        ("<tool_call>\nno call\n</tool_call>", True, "", "<tool_call>\nno call\n</tool_call>", ()),
        ('<tool_call>{"name": "", "arguments": {}}</tool_call>b', True, "",
         '<tool_call>{"name": "", "arguments": {}}</tool_call>b', ()),
    ],
)  # fmt: skip
def test_whole_calls_are_calls_and_everything_else_is_text(
    text: str, stopped: bool, reasoning: str, content: str, calls: tuple[ToolCall, ...]
) -> None:
    whole = read_whole(text, dialect=HERMES, stopped=stopped)
    assert (whole.reasoning, whole.content, whole.calls) == (reasoning, content, calls)
    pieces = piecewise(text, dialect=HERMES, starts_in="auto", stopped=stopped)
    assert (pieces.reasoning, pieces.content, pieces.calls) == (reasoning, content, calls)


def test_a_reasoning_parser_alone_leaves_calls_in_the_text() -> None:
    assert read_whole(CALL, dialect="vllm/qwen3", stopped=True).content == CALL


def test_an_id_that_the_format_writes_is_the_calls() -> None:
    text = "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    reading = read_whole(f"{text}<|tool_calls_section_end|>", dialect="kimi_k2", stopped=True)
    assert reading.calls == (ToolCall("f", "{}", "functions.f:0"),)


REQUESTS_ONLY = {
    *("sgll-005", "sgll-006", "sgll-007", "sgll-008"),  # beam: the checkpoint has the grammar
    *("sgll-175", "sgll-181"),  # the name is left out: the declared tools tell it
    "sgll-042",  # two calls without a wrapper, of which the engine makes none
}


def test_the_library_reads_the_calls_of_every_literal_that_needs_no_request() -> None:
    def names(row: dict[str, Any]) -> list[str]:
        reading = read_whole("".join(row["pieces"]), dialect=row["dialect"], starts_in="content", stopped=True)
        return [call.name for call in reading.calls]

    wanted = {row["id"]: [call["name"] for call in row["expect"].get("tool_calls", ())] for row in LITERALS}
    assert {row["id"] for row in LITERALS if names(row) != wanted[row["id"]]} == REQUESTS_ONLY


def test_a_dialect_that_opens_the_thought_in_the_prompt_starts_in_reasoning() -> None:
    opened = Dialect(name="o", summary="", kind=Kind.TAG, aliases={}, starts_in="reasoning", thoughts=ODD.thoughts)
    assert read_whole("a}}b", dialect=opened, stopped=True).reasoning == "a"
    assert read_whole("a}}b", dialect=opened, starts_in="content", stopped=True).content == "a}}b"


def test_a_reading_tells_each_decision_and_what_another_role_said() -> None:
    reading = read_whole(FOREIGN, dialect="harmony", stopped=True)
    assert [found.effect for found in reading.decisions] == [Effect.DROP] * 3
    assert reading.suppressed == "and then"


def test_the_segments_of_a_whole_reading_are_in_the_order_of_the_text() -> None:
    reading = read_whole("<think>a</think>b", dialect="think", stopped=True)
    assert [channel for channel, _ in reading.segments] == [MARKER, REASONING, MARKER, CONTENT]


@pytest.mark.parametrize(
    "dialect", ["vllm/qwen3", {"reasoning": "qwen3"}, {"reasoning": "vllm/qwen3", "tools": "sglang/qwen3_coder"}]
)
def test_the_engines_own_parser_names_are_a_dialect(dialect: str | dict[str, str]) -> None:
    whole = read_whole("<think>two and two</think>4", dialect=dialect, stopped=True)
    assert (whole.reasoning, whole.content) == ("two and two", "4")


@pytest.mark.parametrize("given", [str, Path])
def test_a_folder_of_rules_stands_over_the_shipped_ones(given: type[str | Path], tmp_path: Path) -> None:
    (tmp_path / "dialects").mkdir()
    (tmp_path / "dialects" / "mine.yaml").write_text(MINE)
    whole = read_whole("<a>x</a>y", dialect="mine", rules_dir=given(tmp_path), stopped=True)
    assert (whole.reasoning, whole.content) == ("x", "y")
    assert read_whole("<think>x</think>y", dialect="think", rules_dir=given(tmp_path), stopped=True).content == "y"


def test_a_folder_without_rules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rule files"):
        Reader(dialect="think", rules_dir=tmp_path)


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ConfigError, match="no_such_family"):
        Reader(dialect="no_such_family")


def test_the_dialect_none_has_nothing_to_read() -> None:
    with pytest.raises(ValueError, match="none"):
        Reader(dialect="none")


def test_a_start_that_is_neither_content_nor_reasoning_is_refused() -> None:
    with pytest.raises(ValueError, match="expected auto, content or reasoning"):
        Reader(dialect="think", starts_in="somewhere")
