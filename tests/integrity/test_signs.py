"""Signs in the text of an answer: counted at its end, whatever the chunks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.events import CONTENT, REASONING
from gateway.findings import Finding
from gateway.integrity.signs import Growth, Sign, Trail, signs_of
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.openings import LOOK

CAP = 256
OPENINGS = load_rulebook().openings
PREAMBLES = [opening for opening in OPENINGS if opening.finding is Finding.PREAMBLE]
THOUGHTS = [opening for opening in OPENINGS if opening.finding is Finding.SUSPECT_REASONING]


def trail(*pieces: str, fold_each: bool = False) -> Trail:
    """A channel that said `pieces`."""
    noted = Trail(CAP)
    for piece in pieces:
        noted.pieces.append(piece)
        if fold_each:
            noted.fold()
    noted.fold()
    return noted


def signs(
    reasoning: Iterable[str] = (), content: Iterable[str] = (), *, cut: bool = False, looped: bool = False,
    bounded: bool = False,
) -> list[Sign]:  # fmt: skip
    """The signs of one answer."""
    found = signs_of(
        trail(*reasoning), trail(*content), cut=cut, looped=looped, bounded=bounded, cumulative=False,
        openings=THOUGHTS,
    )  # fmt: skip
    return list(found)


def test_a_replacement_character_is_counted_once_a_channel() -> None:
    assert signs(["a", "\ufffd"], ["\ufffd\ufffd", "b"]) == [
        (Finding.UNICODE_REPLACEMENT, REASONING, None),
        (Finding.UNICODE_REPLACEMENT, CONTENT, None),
    ]
    assert signs(["a"], ["b"]) == []


@pytest.mark.parametrize("unit", ["I must check it again.\n", "no ", "ab", "等等，再想想。"])
def test_the_same_words_to_the_end_of_a_cut_answer_are_endless(unit: str) -> None:
    loop = ["The answer: ", *([unit] * CAP), unit[:1]]
    assert signs(content=loop, cut=True) == [(Finding.DEGENERATE, CONTENT, None)]
    assert signs(reasoning=loop, cut=True) == [(Finding.DEGENERATE, REASONING, None)]
    assert signs(content=loop) == []  # it ended by itself


@pytest.mark.parametrize(
    "text",
    [
        "".join(map(str, range(200))),  # no period
        "=" * 300,  # a ruler
        "a b " * (CAP // 8),  # shorter than the cap
        ("x" * (CAP // 4) + "y") * 8,  # too few repeats within the cap
        "ab" * CAP + ".",  # it got out of the loop
    ],
)
def test_a_cut_answer_without_a_loop_is_only_cut(text: str) -> None:
    assert signs(content=[text], cut=True) == []


def test_an_answer_that_the_engine_ended_as_a_loop_is_one() -> None:
    assert signs(["no"], looped=True) == [(Finding.DEGENERATE, REASONING, None)]


@pytest.mark.parametrize(
    ("deltas", "cumulative"),
    [
        (["New", "New York", "New York is", "New York is in the US."], True),  # NVIDIA/TensorRT-LLM #3280
        (["New", "New York", "New York is"], True),
        (["New", "New York"], False),  # two may be chance
        (["New", "New York", "New York is", " in the US."], False),
        (["ha", "ha", "ha"], False),
        (["New", " York", " York is"], False),
        ([" ", "  ", "   ", "    "], False),
    ],
)
def test_deltas_that_each_begin_with_all_before_them_are_suspect(deltas: list[str], cumulative: bool) -> None:
    growth = Growth()
    grows = all(growth.take(delta) for delta in deltas)
    assert (grows and growth.cumulative) is cumulative
    content = trail(*deltas)
    found = signs_of(trail(), content, cut=False, looped=False, bounded=False, cumulative=cumulative, openings=())
    assert list(found) == ([(Finding.DUPLICATE_SUSPECT, CONTENT, "cumulative")] if cumulative else [])


THOUGHT = ["\nOkay, so the user", " is asking for a poem."]


def test_a_thought_like_beginning_without_a_boundary_is_suspect() -> None:
    assert signs(content=THOUGHT) == [(Finding.SUSPECT_REASONING, CONTENT, "thought_en")]
    assert signs(content=["嗯，用户想知道天气。"]) == [(Finding.SUSPECT_REASONING, CONTENT, "thought_zh")]


def test_where_a_boundary_or_a_reasoning_was_seen_the_content_is_the_answer() -> None:
    assert signs(content=THOUGHT, bounded=True) == []
    assert signs(["hm"], THOUGHT) == []
    assert signs([" \n"], THOUGHT) != []


def test_a_sentence_before_the_answer_is_told_whatever_came_before() -> None:
    content = trail("Sure, here is the JSON:\n{}")
    found = signs_of(trail("t"), content, cut=False, looped=False, bounded=True, cumulative=False, openings=PREAMBLES)
    assert list(found) == [(Finding.PREAMBLE, CONTENT, "preamble_en")]


@given(st.lists(st.text(alphabet=" \nabO\ufffd", min_size=1)), st.booleans())
def test_what_is_known_of_a_channel_does_not_depend_on_when_it_is_brought_up_to_date(
    pieces: list[str], fold_each: bool
) -> None:
    text, noted = "".join(pieces), trail(*pieces, fold_each=fold_each)
    assert (noted.head, noted.tail) == (text.lstrip()[:LOOK], text[-CAP:])
    assert (noted.replaced, noted.pieces) == ("\ufffd" in text, [])


def test_a_beginning_that_is_known_stays_as_it_is() -> None:
    assert trail("a" * LOOK, "b", fold_each=True).head == "a" * LOOK
