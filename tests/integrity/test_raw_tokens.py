"""Raw text read from its ids: fates count characters without marks, and what a stop string's tokens go with.

`*` stands for the mark of a token that is a marker.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.events import CONTENT, REASONING
from gateway.integrity.outlet import Piece
from gateway.integrity.raw_tokens import RawTokenPipeline
from gateway.integrity.tally import Tally
from gateway.rulebook.compile import compile_dialect
from gateway.streams.tokens import STRUCTURAL
from tests.integrity.settings import setting
from tests.support.reader import dialect

ATOMS = frozenset({"<think>", "</think>"})
STOPPED = {"stopped": True, "length": False, "promotable": True, "stop_string": True, "looped": False}


def run(*texts: str, stops: tuple[str, ...] = (), keeps: bool = False) -> tuple[list[Piece], list[bool]]:
    """What goes out, joined, and of each character whether it is text of the answer."""
    made = replace(setting("tagged", raw=True), grammar=compile_dialect(dialect({"reasoning": "qwen3"}), ATOMS))
    pipeline = RawTokenPipeline(made, Tally(made.policy), stops=stops, keeps=keeps)
    out: list[Piece] = []
    for text in (each.replace("*", STRUCTURAL) for each in texts):
        pieces = pipeline.push("", text)
        out += [(CONTENT, text)] if pieces is None else pieces
    out += pipeline.finish(**STOPPED)
    fates = [stays for count, stays in pipeline.take_fates() for _ in range(count)]
    said = {channel: "".join([str(text) for kind, text in out if kind == channel]) for channel, _ in out}
    return list(said.items()), fates


@pytest.mark.parametrize("cuts", [["*<think>a</think>b*</think>c"], ["*<think>", "a</th", "ink>b", "*</think>", "c"]])
def test_marks_are_in_no_text_and_count_as_no_character(cuts: list[str]) -> None:
    said, fates = run(*cuts)
    assert said == [(REASONING, "a</think>b"), (CONTENT, "c")]
    assert fates == [False] * len("<think>a</think>b</think>") + [True]


def test_the_characters_of_a_stop_string_go_with_what_they_followed() -> None:
    assert run("ab", "EN", "D", stops=("END",)) == ([(CONTENT, "ab")], [True] * 5)
    assert run("*<think>ab", "END", stops=("END",))[1] == [False] * len("<think>abEND")
    assert run("abEND", stops=("END",), keeps=True) == ([(CONTENT, "abEND")], [True] * 5)
    assert run("ab", "EN", stops=("END",)) == ([(CONTENT, "abEN")], [True] * 4)
