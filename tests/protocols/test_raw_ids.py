"""Token ids as text: which of them are shown, and whether an event holds all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.protocols.raw_ids import IdsRead, IdText, are_ids, is_cumulative, opened
from gateway.streams.tokens import STRUCTURAL, Markers

WORDS = {1: "so ", 2: "</thi", 3: "nk>", 7: "<eos>", 8: "<pad>", 9: "</think>"}
MARKERS = Markers(texts=frozenset({"</think>"}), ids={9: "</think>"})


def spelling() -> Callable[[int], str]:
    return lambda ident: WORDS[ident]


def ids_read(*unshown: int, keeps_end: bool = False) -> IdsRead:
    return IdsRead(markers=MARKERS, spelling=spelling, unshown=frozenset(unshown), keeps_end=keeps_end)


@pytest.mark.parametrize(
    ("ids", "matched", "text"),
    [
        ([1, 9, 1], None, f"so {STRUCTURAL}</think>so "),
        ([1, 2, 3, 1], None, "so </think>so "),  # its text, of tokens that are none
        ([1, 8, 1], None, "so so "),
        ([1, 7], 7, "so "),
        ([1, 7], 1, "so <eos>"),
        ([1, 7], "so ", "so <eos>"),
        ([1, 1], True, "so so "),
        ([], 7, ""),
    ],
)
def test_the_text_of_ids(ids: list[int], matched: object, text: str) -> None:
    assert IdText(ids_read(8, 9)).feed(ids, matched=matched) == text  # 9: a marker that is special


def test_the_token_that_ends_the_answer_stays_where_it_is_asked_for() -> None:
    assert IdText(ids_read(8, keeps_end=True)).feed([1, 7], matched=7) == "so <eos>"
    assert IdText(ids_read(7, keeps_end=True)).feed([1, 7], matched=7) == "so "


@pytest.mark.parametrize(
    ("value", "are"), [([], True), ([1, 2], True), ([True], False), (["a"], False), (None, False), ("1", False)]
)
def test_ids_are_a_list_of_numbers(value: Any, are: bool) -> None:
    assert are_ids(value) is are
    assert (opened(ids_read(), value) is not None) is are
    assert opened(None, value) is None


@pytest.mark.parametrize(
    ("now", "before", "count", "whole"),
    [
        (("a", [1]), ("", []), 1, None),
        (("ab", [1, 2]), ("a", [1]), 2, True),
        (("b", [2]), ("a", [1]), 2, False),
        (("aa", [1, 1]), ("a", [1]), 3, False),  # begins with the same token
        (("aa", [1, 1]), ("a", [1]), None, True),
        (("b", []), ("a", []), None, False),
        (("b", [1, 2]), ("a", [1]), 2, True),  # a stop string was trimmed
        (("b", [1, 2]), ("a", [1]), 9, False),
    ],
)
def test_an_event_is_the_whole_answer_or_a_piece(
    now: tuple[str, list[int]], before: tuple[str, list[int]], count: object, whole: bool | None
) -> None:
    assert is_cumulative(now, before=before, count=count) is whole
