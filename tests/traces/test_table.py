"""The page about leaks: the committed one is current, and its words are those that the scripts decide."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.traces.answers import Choice
from tests.traces.oracle import Answer
from tests.traces.recordings import recordings
from tests.traces.routes import ROUTES
from tests.traces.table import CONFIGURATIONS, RIGHT, rows, wrong
from tests.traces.verdict import called_as

REPO = Path(__file__).parents[2]
ROWS = rows()
CALL = '<tool_call>\n{"name": "now"}\n</tool_call>'


def test_the_committed_page_is_what_the_command_prints() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.traces.table"], cwd=REPO, check=True, capture_output=True)
    assert done.stdout.decode() == (REPO / "docs/leaks.md").read_text("utf-8"), "out of date: run `make docs`"


@pytest.mark.parametrize(
    ("key", "plain", "streamed"),
    [
        # thinking off, `<think>Let me think about it.</think>The answer is 42.`: qwen3 leaves it all in the content
        ("vllm-0.32.0 q3h off-but-thinks", ("leak", "ok"), ("leak", "ok")),
        # `The answer is 42.` in the thinking channel, closed as an answer
        ("vllm-0.32.0 kimi-k3 skipped-channel", ("leak", "ok"), ("leak", "ok")),
        # a thought and an answer from a server without a parser, and without anything to find
        ("vllm-0.32.0 none stop-long", ("leak", "ok"), ("leak", "ok")),
        ("vllm-0.32.0 none no-markers", ("ok", "ok"), ("ok", "ok")),
        # with a stop string the stream of deepseek_r1 lacks letters around the closer: "em" of "Let me think"
        ("vllm-0.32.0 r1 stop-long", ("ok", "ok"), ("lost", "lost")),
        # a final message without its header: "The answer is 42." is nowhere
        ("vllm-0.32.0 harmony missing-start", ("lost", "lost"), ("lost", "lost")),
        # a call in the other family's syntax: plain it is text, streamed it is gone
        ("vllm-0.32.0 q3h tool-xml-dialect", ("tool call", "ok"), ("tool call", "tool call")),
        # the markup of a call although `tool_choice` is `none`
        ("vllm-0.32.0 none tool-none", ("tool call", "ok"), ("tool call", "ok")),
        # five tokens an event: the one with the closer has reasoning and content
        ("vllm-0.32.0 q3h-iv5 think-answer", ("ok", "ok"), ("mixed", "ok")),
        # status 500, and an error event in a stream of status 200
        ("vllm-0.32.0 q3h tool-named", ("error", "error"), ("error", "error")),
        # the closer is in no field, so that nothing parts `<think>Let me think about it.The answer is 42.`
        ("vllm-0.28.0 xonly think-answer", ("leak", "leak"), ("leak", "leak")),
        ("llama.cpp-b11434 gemmatmpl think-answer", ("leak", "ok"), ("leak", "ok")),
    ],
)
def test_a_row_says_what_the_script_decides(key: str, plain: tuple[str, str], streamed: tuple[str, str]) -> None:
    server, group, scenario = key.split()
    row = ROWS[server, group, scenario]
    assert {mode: (cell.direct, cell.through) for mode, cell in row.items()} == {"plain": plain, "streamed": streamed}


def test_a_client_that_left_is_no_error() -> None:
    (cell,) = ROWS["vllm-0.32.0", "q3h", "disconnect"].values()
    assert (cell.direct, cell.through) == ("ok", "ok")


@pytest.mark.parametrize(
    ("word", "choice"),
    [
        ("leak", Choice("", "<think>a b</think>c d")),
        ("leak", Choice("a b c d", "")),
        ("leak", Choice("a b", "c d|>")),
        ("lost", Choice("a", "c d")),
        ("lost", Choice("<think>a ", "</think>c d")),
        ("differs", Choice("a b", "c\n d")),
        ("tool call", Choice("a b", f"c d{CALL}")),
        ("tool call", Choice("a b", "c d", calls={0: ("now", "{}")})),
    ],
)
def test_a_wrong_choice_is_named_by_what_is_wrong(word: str, choice: Choice) -> None:
    choice.finish = "stop"
    assert wrong(Answer("a b", "c d"), choice) == word


def test_a_call_with_other_arguments_is_another_call() -> None:
    right = Answer("a b", "c d", (("now", {"zone": "UTC"}),))
    same, other = (Choice("a b", "c d", calls={0: ("now", text)}) for text in ('{ "zone": "UTC" }', '{"zone": "U'))
    assert (called_as(right, same), wrong(right, other)) == (True, "tool call")


def test_what_was_cut_short_is_not_lost() -> None:
    assert wrong(Answer("a b", "c d"), Choice("", "<think>a", finish="length")) == "leak"


def test_every_exchange_has_a_cell_of_its_own() -> None:
    assert sum(len(row) for row in ROWS.values()) == len(recordings())


def test_every_configuration_of_the_recordings_is_named() -> None:
    assert CONFIGURATIONS.keys() == ROUTES.keys()


def test_the_gateway_makes_nothing_wrong_and_what_it_leaves_has_a_reason() -> None:
    left = [cell for row in ROWS.values() for cell in row.values() if cell.through not in RIGHT]
    assert [cell for cell in left if cell.direct in RIGHT or not cell.why] == []
