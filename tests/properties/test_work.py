"""The reader's work grows with its input and no faster: characters looked at are counted, not time.

Each text repeats a unit that once cost, or could cost, a look back or ahead for every marker in it. Twice the text may
cost at most 2.6 times the work (reader_spec section 2).
"""

from __future__ import annotations

import tracemalloc

import pytest

from tests.support.counting import work
from tests.support.reader import Setup, setup

RAW, FIELD = {}, {"split": True}
OPEN, OPEN_FIELD = {"starts_open": True}, {"starts_open": True, "split": True}

TEXTS = [
    ("prose", "think", RAW, "x", " some words."),
    ("a lead character", "think", RAW, "x", "<"),
    ("the start of a marker", "think", RAW, "x", "<thin"),
    ("a marker in the middle of a line", "think", RAW, "x", " </think> <think>x<|im_end|> y"),
    ("thoughts", "think", RAW, "", "<think>r</think>"),
    ("closers in open inline code", "think", FIELD, "x `", "</think>"),
    ("closers in an open fence", "think", FIELD, "```\nx", "</think>\n"),
    ("closers and long white space", "think", FIELD, "x `", "</think>" + " " * 20),
    ("ends of turn", "think", RAW, "x", "<|im_end|>"),
    ("ends of turn in a thought", "think", OPEN, "x", "<|im_end|>"),
    ("quotes and fences", "think", RAW, "x", "` ``` </think> ~~~\n<think>"),
    ("headers that never close", "harmony", RAW, "", "<|start|>a "),
    ("headers broken by a line", "harmony", RAW, "", "<|start|>a\n"),
    ("headers", "harmony", RAW, "", "<|channel|>analysis<|message|>r<|end|>"),
    ("framing in open inline code", "kimi_k3", RAW, "x `", "<|end_of_msg|> "),
    ("answer closers in a thought", "kimi_k3", OPEN, "", "r<|close|>response<|sep|>"),
    ("framing in a quoting thought", "kimi_k3", OPEN_FIELD, "x `", "<|end_of_msg|>"),
    ("arguments", "kimi_k3", RAW, "<|open|>tools<|sep|>", "<|open|>argument <|sep|>v<|close|>argument<|sep|>"),
    ("thought closers", "gemma4", RAW, "x", "<channel|> <turn|>"),
    ("pairs", "generic", RAW, "", "<think></thinking><thinking></think>◁think▷"),
]


@pytest.mark.parametrize("size", [None, 1, 64])
@pytest.mark.parametrize(("what", "dialect", "settings", "before", "unit"), TEXTS)
def test_twice_the_text_is_at_most_twice_the_work_and_a_little(
    what: str, dialect: str, settings: dict[str, bool], before: str, unit: str, size: int | None
) -> None:
    made = setup(dialect, **settings)
    once, twice = (work(made, before + unit * count, size)["looked"] for count in (150, 300))
    assert 0 < once <= twice <= 2.6 * once


def kept(made: Setup, before: str, piece: str, count: int) -> int:
    """Bytes that a reader keeps after `before` and `count` times `piece`, its output thrown away."""
    reader = made.reader()
    reader.feed(before)
    tracemalloc.start()
    for _ in range(count):
        reader.feed(piece)
    found, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found


@pytest.mark.parametrize(
    ("dialect", "settings", "before", "piece"),
    [
        ("think", RAW, "x", " some words"),
        ("think", RAW, "x", "a </think> b"),
        ("think", FIELD, "```\n", "line\n"),
        ("think", OPEN_FIELD, "x", "\n> `a` b\n"),
        ("harmony", RAW, "<|channel|>final<|message|>", "word "),
        ("gemma4", OPEN, "x", "<|channel>a"),
        ("think", RAW, "x", "a<"),
    ],
)
def test_what_a_reader_keeps_does_not_grow_with_what_it_reads(
    dialect: str, settings: dict[str, bool], before: str, piece: str
) -> None:
    made = setup(dialect, **settings)
    assert kept(made, before, piece, 20_000) < 64 * 1024 < 20_000 * len(piece) * 2
