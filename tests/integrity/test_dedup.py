"""Suppression of an exact repeat: `tests/corpus/dedup.jsonl` row by row, the table of reader_spec 5.3, the counters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gateway.integrity.dedup import MAX_REMATCHES, Dedup

CORPUS = [json.loads(line) for line in (Path(__file__).parents[1] / "corpus" / "dedup.jsonl").read_text().splitlines()]
Op = tuple[str, ...]

R, C = "reasoning", "content"
SETTLE, CUT, CALL, RELEASE = ("settle",), ("settle_cut",), ("tool_call",), ("release",)


def stage(*, hold: bool = True, trim: bool = True, min_length: int = 1, cap: int = 1 << 20) -> Dedup:
    return Dedup(hold=hold, trim=trim, min_length=min_length, cap=cap, counts=Counter())


def run(dedup: Dedup, ops: Iterable[Op]) -> tuple[list[str], int]:
    """What goes out at each operation, and the characters suppressed. A tool call is a settled boundary (D10)."""
    emitted, suppressed = [], 0
    for name, *text in ops:
        out: list[str] = []
        if name == "reasoning":
            dedup.reasoning(*text)
        elif name == "content":
            out = dedup.content(*text)
        elif name == "release":
            out = dedup.release()
        else:
            out, count = dedup.settle(stopped=name != "settle_cut")
            suppressed += count
        emitted.append("".join(out))
    return emitted, suppressed


def refused(ops: Iterable[Op]) -> list[Op]:
    """The same operations where no ending allows a suppression."""
    return [CUT if op[0] in ("settle", "tool_call") else tuple(op) for op in ops]


@pytest.mark.parametrize("row", [row for row in CORPUS if row["want_thinking"]], ids=lambda row: row["id"])
def test_a_wanted_row_emits_at_each_step_what_the_corpus_says(row: dict[str, Any]) -> None:
    emitted, suppressed = run(stage(trim=row.get("trim", True)), row["ops"])
    content = sum(len(text) for name, *rest in row["ops"] for text in rest if name == "content")
    assert (emitted, suppressed > 0) == (row["emitted"], row["suppressed"])
    assert suppressed == content - len("".join(emitted))


@pytest.mark.parametrize("row", [row for row in CORPUS if not row["want_thinking"]], ids=lambda row: row["id"])
def test_an_unwanted_row_loses_nothing_and_is_not_late_at_all(row: dict[str, Any]) -> None:
    trim = row.get("trim", True)
    assert run(stage(trim=trim), refused(row["ops"])) == (row["emitted"], 0)  # held, and refused at the end
    at_once = ["".join(rest) if name == "content" else "" for name, *rest in row["ops"]]
    assert run(stage(hold=False, trim=trim), row["ops"]) == (at_once, 0)  # D0: nothing is held


# The stream's shape, its operations, and what goes out at each.
SHAPES = [
    ("a repeat, cut by length", [(R, "abc"), (C, "abc"), CUT], ["", "", "abc"]),
    ("a strict prefix", [(R, "abc"), (C, "ab"), SETTLE], ["", "", "ab"]),
    ("another text", [(R, "abc"), (C, "ab"), (C, "x"), (C, "y"), SETTLE], ["", "", "abx", "y", ""]),
    ("longer than the reasoning", [(R, "abc"), (C, "ab"), (C, "cd"), SETTLE], ["", "", "abcd", ""]),
    ("late reasoning, a full repeat of it", [(R, "ab"), (C, "a"), (R, "c"), (C, "bc"), SETTLE], [""] * 5),
    ("content ahead of late reasoning", [(R, "ab"), (C, "abc"), (R, "c"), SETTLE], ["", "abc", "", ""]),
    ("late reasoning after a full repeat", [(R, "ab"), (C, "ab"), (R, "c"), SETTLE], ["", "", "", "ab"]),
    ("late reasoning that the content left", [(R, "ab"), (C, "a"), (R, "c"), (C, "c"), SETTLE], ["", "", "", "ac", ""]),
    ("white space, then a repeat", [(R, "abc"), (C, "\n\n"), (C, "abc"), SETTLE], [""] * 4),
    ("white space, then other text", [(R, "abc"), (C, "\n\n"), (C, "x"), SETTLE], ["", "", "\n\nx", ""]),
    ("white space only, in the content", [(R, "abc"), (C, " \n"), SETTLE], ["", "", " \n"]),
    ("white space only, in the reasoning", [(R, " \n"), (C, " \n"), SETTLE], ["", "", " \n"]),
    ("an error after a full repeat", [(R, "abc"), (C, "ab"), (C, "c"), RELEASE], ["", "", "", "abc"]),
    ("no reasoning", [(C, "abc"), SETTLE], ["abc", ""]),
    ("content first", [(C, "ab"), (R, "ab"), (C, "ab"), SETTLE], ["ab", "", "ab", ""]),
    ("a tool call after a full repeat", [(R, "abc"), (C, "abc"), CALL, (C, "x")], ["", "", "", "x"]),
    ("a tool call after a prefix", [(R, "abc"), (C, "ab"), CALL, (C, "x")], ["", "", "ab", "x"]),
    ("reasoning after the end", [(R, "abc"), SETTLE, (R, "x"), (C, "x")], ["", "", "", "x"]),
]


@pytest.mark.parametrize(("shape", "ops", "emitted"), SHAPES)
def test_the_table_of_the_specification_holds(shape: str, ops: list[Op], emitted: list[str]) -> None:
    out, suppressed = run(stage(), ops)
    assert out == emitted
    content = sum(len(op[1]) for op in ops if op[0] == C)
    assert suppressed == content - len("".join(emitted))


def test_a_repeat_is_suppressed_and_its_characters_are_counted() -> None:
    assert run(stage(), [(R, "abc"), (C, "ab"), (C, "c"), SETTLE]) == (["", "", "", ""], 3)
    assert run(stage(), [(R, "abc"), (C, "\n"), (C, "abc "), SETTLE]) == (["", "", "", ""], 5)


@pytest.mark.parametrize(("content", "suppressed"), [("abc", True), ("\nabc", False), ("abc ", False), ("ab", False)])
def test_an_exact_stage_compares_white_space_as_well(content: str, suppressed: bool) -> None:
    ops = [(R, "abc"), *((C, character) for character in content), SETTLE]
    emitted, count = run(stage(trim=False), ops)
    assert ("".join(emitted), count) == (("", len(content)) if suppressed else (content, 0))


@pytest.mark.parametrize(
    ("cap", "ops", "emitted", "suppressed"),
    [
        (4, [(R, "abcd"), (C, "abc"), (C, "d"), SETTLE], ["", "", "", ""], 4),
        (4, [(R, "abcd"), (C, "abcd"), (C, " "), (C, "x"), SETTLE], ["", "", "abcd ", "x", ""], 0),
        (4, [(R, "abcde"), (C, "abcde"), SETTLE], ["", "abcde", ""], 0),
        (4, [(R, "abcd"), (C, "abc"), (R, "e"), (C, "d"), SETTLE], ["", "", "", "abcd", ""], 0),
        (4, [(R, "abcd"), (C, "abc"), (R, "e"), SETTLE], ["", "", "", "abc"], 0),
    ],
)
def test_past_the_cap_everything_goes_out(cap: int, ops: list[Op], emitted: list[str], suppressed: int) -> None:
    assert run(stage(cap=cap), ops) == (emitted, suppressed)


@pytest.mark.parametrize(("length", "suppressed"), [(3, 3), (4, 0)])
def test_a_repeat_shorter_than_the_minimum_is_kept(length: int, suppressed: int) -> None:
    assert run(stage(min_length=length), [(R, " abc "), (C, "abc"), SETTLE])[1] == suppressed


@pytest.mark.parametrize(
    "ops",
    [
        [(C, ""), (R, "abc"), (C, "abc"), SETTLE],
        [(R, ""), (R, "abc"), (C, "abc"), SETTLE],
        [(R, "abc"), (C, "ab"), *[(R, ""), (C, "")] * (MAX_REMATCHES + 1), (C, "c"), SETTLE],
    ],
)
def test_empty_deltas_say_nothing(ops: list[Op]) -> None:
    assert run(stage(), ops)[1] == 3


def test_what_comes_back_are_the_pieces_that_came() -> None:
    dedup = stage()
    dedup.reasoning("abcdef")
    assert [dedup.content(piece) for piece in ("\n", "ab", "cd")] == [[], [], []]
    assert dedup.content("x") == ["\n", "ab", "cd", "x"]
    assert (dedup.on, dedup.content("ab")) == (False, ["ab"])


def test_a_released_stage_gives_back_what_it_holds_once() -> None:
    dedup = stage()
    run(dedup, [(R, "abc"), (C, "abc")])
    assert (dedup.release(), dedup.release(), dedup.settle(stopped=True)) == (["abc"], [], ([], 0))


def test_a_stage_that_is_turned_off_gives_back_what_it_held_with_the_next_piece() -> None:  # D9
    dedup = stage()
    run(dedup, [(R, "abcd"), (C, "ab")])
    dedup.off()
    assert (dedup.content("cd"), dedup.settle(stopped=True)) == (["ab", "cd"], ([], 0))


@pytest.mark.parametrize(
    ("hold", "ops", "repeats"),
    [
        (True, [], False),
        (True, [(R, "abc"), (C, "ab")], False),
        (True, [(R, "abc"), (C, "ab"), (C, "c\n")], True),
        (False, [(R, "abc"), (C, "abc")], True),
        (True, [(R, "abc"), (C, "abc"), (R, "d")], False),
        (True, [(R, "abc"), (C, "abc"), SETTLE], False),
    ],
)
def test_a_stage_knows_a_repeat_whether_it_may_suppress_it_or_not(hold: bool, ops: list[Op], repeats: bool) -> None:
    dedup = stage(hold=hold)
    run(dedup, ops)
    assert dedup.repeats is repeats


@pytest.mark.parametrize(("rematches", "suppressed"), [(MAX_REMATCHES, True), (MAX_REMATCHES + 1, False)])
def test_returns_to_the_reasoning_are_followed_a_bounded_number_of_times(rematches: int, suppressed: bool) -> None:
    letters = "x" * (rematches + 1)
    ops = [*(op for letter in letters for op in ((R, letter), (C, letter))), SETTLE]
    emitted, count = run(stage(), ops)
    assert ("".join(emitted), count) == (("", len(letters)) if suppressed else (letters, 0))


def test_a_return_to_the_reasoning_at_the_end_is_bounded_as_well() -> None:
    ops = [(R, "x"), (C, "x"), *([(R, "x"), (C, "x")] * MAX_REMATCHES), (R, "\n"), SETTLE]
    emitted, count = run(stage(), ops)
    assert ("".join(emitted), count) == ("x" * (MAX_REMATCHES + 1), 0)


REPEAT = [(R, "abc"), (C, "abc")]


@pytest.mark.parametrize(
    ("hold", "ops", "counts"),
    [
        (True, [*REPEAT, SETTLE], {"checked": 1, "suppressed": 1, "chars_suppressed": 3}),
        (True, [*REPEAT, CUT], {"checked": 1, "released_cut": 1}),
        (True, [(R, "abc"), (C, "ab"), SETTLE], {"checked": 1, "released_prefix": 1}),
        (False, [*REPEAT, SETTLE], {"checked": 1, "released_unwanted": 1}),
        (False, [(R, "abc"), (C, "ab"), SETTLE], {"checked": 1}),
        (True, [(R, "abc"), (C, "x"), SETTLE], {"checked": 1, "diverged": 1}),
        (False, [(R, "abc"), (C, "x"), SETTLE], {"checked": 1, "diverged": 1}),
        (True, [(C, "abc"), (R, "abc"), SETTLE], {}),
        (True, [(R, "abcdefg"), (C, "abc"), SETTLE], {"capped": 1}),
        (True, [(R, "abc"), (C, "abc    "), SETTLE], {"checked": 1, "capped": 1}),
    ],
)
def test_each_stream_is_counted_by_what_became_of_it(hold: bool, ops: list[Op], counts: dict[str, int]) -> None:  # D13
    dedup = stage(hold=hold, cap=6)
    run(dedup, ops)
    assert dedup.counts == counts


@pytest.mark.parametrize("hold", [True, False])
def test_content_waits_only_where_a_repeat_would_be_suppressed(hold: bool) -> None:
    dedup = stage(hold=hold)
    dedup.reasoning("Hi.")
    assert not dedup.waiting
    dedup.content("Hi")
    assert dedup.waiting is hold
    dedup.content(" there")
    assert not dedup.waiting
