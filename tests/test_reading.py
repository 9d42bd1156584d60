"""The public reader: the same reading whole and in pieces, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.events import CONTENT, MARKER, REASONING, Effect
from gateway.reading import Reader, Reading, read_whole, reading_of
from gateway.rulebook.dialect import Dialect, Kind, Thought
from tests.support.rules import MINE

ODD = Dialect(name="odd", summary="", kind=Kind.TAG, aliases={}, thoughts=(Thought(open=("{{",), close=("}}",)),))
SKIPPED = "Hi.<|close|>response<|sep|>"
FOREIGN = "<|channel|>final<|message|>Hi<|end|><|start|>user<|message|>and then"


def piecewise(text: str, *, dialect: str | Dialect, starts_in: str, stopped: bool) -> Reading:
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
        ("<|tool_call>call:f{}<tool_call|>", "gemma4", "content", True, "", "<|tool_call>call:f{}<tool_call|>"),
        (FOREIGN, "harmony", "auto", True, "", "Hi"),
    ],
)
def test_a_text_reads_the_same_whole_and_in_pieces(
    text: str, dialect: str | Dialect, starts_in: str, stopped: bool, reasoning: str, content: str
) -> None:
    whole = read_whole(text, dialect=dialect, starts_in=starts_in, stopped=stopped)
    assert (whole.reasoning, whole.content) == (reasoning, content)
    pieces = piecewise(text, dialect=dialect, starts_in=starts_in, stopped=stopped)
    assert (pieces.reasoning, pieces.content, pieces.decisions) == (reasoning, content, whole.decisions)


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
