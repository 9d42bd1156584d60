"""The reader against every row of `tests/corpus/reader.jsonl`, and Kimi K3 against the truth table of reader_spec 4.1.

Each row is read whole and at every cutting; one reading has to come of all of them (rules R5 and R6).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from gateway.events import CONTENT, MARKER, REASONING, REPLAY, TOOL, Segment
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect, Kind, Thought
from tests.support.reader import Setup, answer, cuttings, read, setup, text_of

CORPUS = [json.loads(line) for line in (Path(__file__).parents[1] / "corpus" / "reader.jsonl").read_text().splitlines()]
NAMES = {"mm_think": "minimax_m3"}

TS, TE = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
RS, RE = "<|open|>response<|sep|>", "<|close|>response<|sep|>"
TOOLS, TOOLSC = "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"
MS, ME, EOM = "<|open|>message<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>"
ARG, ARGC = '<|open|>argument key="city" type="string"<|sep|>', "<|close|>argument<|sep|>"


def call(value: str = "Paris") -> str:
    return f'<|open|>call tool="get_weather" index="0"<|sep|>{ARG}{value}{ARGC}<|close|>call<|sep|>'


def one_reading(made: Setup, text: str, *, stopped: bool) -> list[Segment]:
    """The segments of `text`, which are the same at every cutting."""
    whole, *others = (read(made, pieces, stopped=stopped) for pieces in cuttings(text, seed=len(text)))
    assert all(other == whole for other in others), text
    return whole


def blocks(segments: Sequence[Segment], channel: str) -> int:
    """Runs of a channel as a client sees them: markers are not seen."""
    seen = [kind for kind, _ in segments if kind != MARKER]
    return sum(kind == channel for kind, _ in groupby(seen))


@pytest.mark.parametrize("row", CORPUS, ids=lambda row: row["id"])
def test_the_row_reads_as_the_corpus_says(row: dict[str, Any]) -> None:
    made = setup(NAMES.get(row["dialect"], row["dialect"]), starts_open=row["starts_open"])
    segments = one_reading(made, row["raw_text"], stopped=row["stopped"])
    wanted = {"reasoning": row["expected_reasoning"] or "", "content": row["expected_content"]}
    assert answer(segments) in [tuple((wanted | other).values()) for other in ({}, *row.get("alt", []))]
    if "expected_replay_pieces" in row:
        assert [len(str(text)) for kind, text in segments if kind == REPLAY] == row["expected_replay_pieces"]
    if "expected_reasoning_blocks" in row:
        assert blocks(segments, REASONING) == row["expected_reasoning_blocks"]


ON, OFF = True, False  # thinking, that is: whether the prompt has opened the channel
YES, NO, ANY = (True,), (False,), (True, False)
LONG = "z" * 9_000

TRUTH_TABLE = [
    (1, f"The answer is 42.{RE}{ME}", ON, YES, "The answer is 42.", "The answer is 42."),
    (2, f"Reply.{RE}", ON, YES, "Reply.", "Reply."),
    (3, f"Reply.{RE}{ME}", ON, YES, "Reply.", "Reply."),
    (3, f"Reply.{RE}{ME}{EOM}", ON, YES, "Reply.", "Reply."),
    (3, f"Reply.{RE}{ME}{MS}", ON, YES, "Reply.", "Reply."),
    (4, f"Reply.{RE}\n{ME}", ON, YES, "Reply.\n", "Reply.\n"),
    (5, f"Reply.{RE}{ME}\n", ON, YES, "Reply.\n", "Reply.\n"),
    (6, f"Reply.{RE}<|close|>mes", ON, YES, "Reply.<|close|>mes", "Reply."),
    (7, f"Reply.{RE}<|close|>mes", ON, NO, "Reply.<|close|>mes", ""),
    (8, f"CoT ...{RE}{TE}{RS}Final answer.{RE}{ME}", ON, YES, "CoT ...", "Final answer."),
    (9, f"CoT ...{RE}{RS}Final answer.{RE}{ME}", ON, YES, "CoT ...", "Final answer."),
    (10, f"CoT ...{RE}\n{TE}{RS}Final answer.", ON, YES, "CoT ...\n", "Final answer."),
    (11, f"closes with {RE} so{TE}{RS}ok{RE}", ON, YES, "closes with  so", "ok"),
    (12, f"I quote {RE} here", ON, YES, "I quote  here", ""),
    (13, f"A{RE}B{RE}", ON, YES, "AB", "AB"),
    (14, f"A{RE}{ME}B", ON, YES, "AB", ""),
    (15, f"I will end with {RE}", ON, NO, "I will end with ", ""),
    (15, f"I will end with {RE}\n", ON, NO, "I will end with \n", ""),
    (16, f"I will end with {RE}", ON, YES, "I will end with ", "I will end with "),
    (16, f"I will end with {RE}\n", ON, YES, "I will end with \n", "I will end with \n"),
    (17, "Reply.", ON, ANY, "Reply.", ""),
    (18, f"{TS}Reply.{RE}{ME}", OFF, YES, "Reply.", "Reply."),
    (19, f"Hi {TS}Reply.{RE}", OFF, YES, "Reply.", "Hi Reply."),
    (20, f"Reply.{RE}{TOOLS}{call()}{TOOLSC}", ON, ANY, "Reply.", f"Reply.{TOOLS}{call()}{TOOLSC}"),
    (21, f"CoT{TOOLS}{call()}{TOOLSC}", ON, ANY, "CoT", f"{TOOLS}{call()}{TOOLSC}"),
    (22, f"CoT {RE} quoted{TOOLS}{call()}{TOOLSC}", ON, ANY, "CoT  quoted", f"{TOOLS}{call()}{TOOLSC}"),
    (23, f"{TOOLS}{call()}{TOOLSC}", OFF, ANY, "", f"{TOOLS}{call()}{TOOLSC}"),
    (24, f"{MS}{TOOLS}{call()}{ME}", OFF, ANY, "", f"{TOOLS}{call()}"),
    (25, f"{TE}Hi", OFF, ANY, "", "Hi"),
    (25, f"{MS}{TE}Hi", OFF, ANY, "", "Hi"),
    (26, f"\n{TE}Hi", OFF, ANY, "", f"\n{TE}Hi"),
    (26, f"x{TE}Hi", OFF, ANY, "", f"x{TE}Hi"),
    (27, f"{TOOLS}{call(f'{TS}x{TE}')}{TOOLSC}", OFF, ANY, "", f"{TOOLS}{call(f'{TS}x{TE}')}{TOOLSC}"),
    (28, f"aa{EOM}bb", ON, YES, "aabb", ""),
    (29, f"{LONG}{RE}{ME}", ON, YES, LONG, LONG),
    (30, f"{LONG[:4_095]}{TE}ok", ON, ANY, LONG[:4_095], "ok"),
    (30, f"{LONG[:4_095]}{TS}ok", OFF, NO, "ok", LONG[:4_095]),
    (30, f"{LONG[:4_095]}{RE}", ON, YES, LONG[:4_095], LONG[:4_095]),
    (31, f"{RE}{ME}", ON, YES, "", ""),
    (32, f"\n{RE}{ME}", ON, YES, "\n", "\n"),
    (33, f"{RS}Hello world", ON, ANY, "", "Hello world"),
    (33, f"{RS}Hello world", OFF, ANY, "", "Hello world"),
    (34, f"my reasoning{TE}\n{RS}the answer", ON, ANY, "my reasoning", "\nthe answer"),
    (35, f"CoT{TE}A{TS}B{TE}C", ON, ANY, "CoT", f"A{TS}B{TE}C"),
]


@pytest.mark.parametrize(("row", "raw", "thinking", "endings", "reasoning", "content"), TRUTH_TABLE)
def test_kimi_k3_reads_as_the_truth_table_says(
    row: int, raw: str, thinking: bool, endings: tuple[bool, ...], reasoning: str, content: str
) -> None:
    for stopped in endings:
        segments = one_reading(setup("kimi_k3", starts_open=thinking), raw, stopped=stopped)
        assert answer(segments) == (reasoning, content), (row, stopped)


def test_a_long_replay_goes_out_in_pieces_of_4096_characters() -> None:  # row 29
    segments = one_reading(setup("kimi_k3", starts_open=True), f"{LONG}{RE}{ME}", stopped=True)
    assert [len(str(text)) for kind, text in segments if kind == REPLAY] == [4_096, 4_096, 808]


def test_reasoning_around_dropped_framing_is_one_block() -> None:  # row 28
    segments = one_reading(setup("kimi_k3", starts_open=True), f"aa{EOM}bb", stopped=True)
    assert blocks(segments, REASONING) == 1


def test_a_replay_comes_after_the_last_reasoning_and_before_the_tool_region() -> None:  # rows 20 and 3
    segments = one_reading(setup("kimi_k3", starts_open=True), f"Reply.{RE}{TOOLS}{call()}{TOOLSC}", stopped=False)
    assert [kind for kind, _ in groupby(kind for kind, _ in segments if kind != MARKER)] == [REASONING, REPLAY, TOOL]


@pytest.mark.parametrize("inside", [ME, EOM, TOOLSC, TE, RE, f"{TS}x", f"{RS}x", "<|close|>call<|sep|>", ARG, "`"])
def test_nothing_in_an_argument_is_live_but_its_closer(inside: str) -> None:  # rule R1
    region = f"{TOOLS}{call(f'a {inside} b')}{TOOLSC}"
    segments = one_reading(setup("kimi_k3"), f"{region}after{RE}", stopped=True)
    assert (text_of(segments, TOOL), text_of(segments, CONTENT)) == (region, "after")


def test_the_first_argument_closer_wins_and_the_region_goes_on() -> None:  # rule R1
    region = f"{TOOLS}{call(f'a {ARGC} b')}"
    segments = one_reading(setup("kimi_k3"), f"{region}{ME}after", stopped=True)
    assert (text_of(segments, TOOL), text_of(segments, CONTENT)) == (region, "after")


TWO_MESSAGES = Setup(
    grammar=compile_dialect(
        Dialect(
            name="two",
            summary="",
            kind=Kind.CONTROL,
            aliases={},
            thoughts=(Thought(open=("<|t|>",), close=("<|/t|>",)),),
            replay=True,
            answer_close=("<|/a|>",),
            message_close=("<|/m|>",),
        )
    ),
)


@pytest.mark.parametrize("exit_", ["<|/t|>", "<|/m|><|t|><|/t|>"])
def test_a_channel_that_was_closed_leaves_nothing_for_a_later_replay(exit_: str) -> None:
    text = f"<|t|>first{exit_}answer<|/m|><|t|>second<|/a|>"
    segments = one_reading(TWO_MESSAGES, text, stopped=True)
    assert answer(segments) == ("firstsecond", "answersecond")


@pytest.mark.parametrize("second", ["second", "\n"])
def test_an_answer_closer_of_an_earlier_channel_says_nothing_about_a_later_one(second: str) -> None:
    segments = one_reading(TWO_MESSAGES, f"<|t|>first<|/a|><|/m|><|t|>{second}", stopped=True)
    assert answer(segments) == (f"first{second}", "")
