"""Tokens beside a text: cut, and kept in step with the text while some of it is taken out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.beside import Beside, Columns, Token, cut
from gateway.protocols.protocol import Fate

IDS = ("token_ids",)
WORDS = ("logprobs", "tokens")


def columns(arrays: Mapping[tuple[str, ...], Sequence[bytes]]) -> Columns:
    return Columns({column: len(items) for column, items in arrays.items()}, lambda column: [*arrays[column]])


def tokens(*words: str, offsets: Sequence[int] = ()) -> list[Token]:
    """A token for each word, told apart by its number."""
    arrays = {IDS: [b"%d" % number for number in range(len(words))]}
    return cut("".join(words), columns(arrays), spelled=words, offsets=offsets)


def ids(kept: Sequence[Token]) -> list[bytes]:
    return [each for token in kept for each in token.items[IDS]]


# ---------------------------------------------------------------------- cut


def test_a_text_without_arrays_is_one_token_and_no_text_is_none() -> None:
    [token] = cut("abc", None)
    assert (token.size, token.items, token.single) == (3, {}, True)
    assert cut("", None) == []


def test_a_text_is_cut_where_the_engine_spells_its_tokens() -> None:
    found = tokens("Hel", "lo", offsets=[7, 10])
    assert [(token.size, token.items, token.offsets, token.single) for token in found] == [
        (3, {IDS: [b"0"]}, [7], True),
        (2, {IDS: [b"1"]}, [10], True),
    ]


def test_a_token_that_is_not_shown_has_no_characters() -> None:
    arrays = {IDS: [b"1", b"2", b"3"]}
    found = cut("ab", columns(arrays), spelled=["<|x|>", "ab", "<|im_end|>"])
    assert [token.size for token in found] == [0, 2, 0]


@pytest.mark.parametrize(
    ("text", "spelled", "arrays"),
    [
        ("ab", [], {IDS: [b"1", b"2"]}),  # ids alone
        ("ab", ["a", "x"], {IDS: [b"1", b"2"]}),  # other letters than those of the text
        ("ab", ["a", None], {IDS: [b"1", b"2"]}),
        ("ab", ["a", "b"], {IDS: [b"1", b"2"], WORDS: [b'"a"']}),  # arrays of different lengths
    ],
)
def test_tokens_that_cannot_be_told_apart_stay_together(
    text: str, spelled: list[object], arrays: dict[tuple[str, ...], list[bytes]]
) -> None:
    [token] = cut(text, columns(arrays), spelled=spelled, offsets=[3, 4])
    assert (token.size, token.items, token.offsets, token.single) == (2, arrays, [3, 4], False)


def test_one_item_of_each_column_is_one_token_however_it_is_spelled() -> None:
    [token] = cut("abc", columns({IDS: [b"1"], WORDS: [b'"token_id:1"']}), spelled=["token_id:1"])
    assert (token.size, token.single) == (3, True)


def test_a_column_is_read_once_and_only_when_it_is_asked_for() -> None:
    read: list[tuple[str, ...]] = []

    def reading(column: tuple[str, ...]) -> list[bytes]:
        read.append(column)
        return [b"1", b"2"]

    first, second = cut("ab", Columns({IDS: 2}, reading), spelled=["a", "b"])
    assert read == []
    assert (first.items, second.items, read) == ({IDS: [b"1"]}, {IDS: [b"2"]}, [IDS])


# ---------------------------------------------------------------------- decide


def test_tokens_of_what_was_taken_out_are_gone() -> None:
    beside = Beside()
    kept = beside.decide(tokens("<t>", "hm", "</t>", "Hi"), [(9, False), (2, True)], final=False)
    assert (ids(kept), beside.lost, beside.waiting, beside.length) == ([b"3"], True, False, 2)


def test_tokens_of_what_is_not_decided_wait_and_go_out_with_it() -> None:
    beside = Beside()
    assert ids(beside.decide(tokens("a", "<"), [(1, True)], final=False)) == [b"0"]
    assert beside.waiting
    assert ids(beside.decide(tokens("b>"), [(3, True)], final=False)) == [b"1", b"0"]
    assert (beside.waiting, beside.lost) == (False, False)


def test_a_token_goes_out_with_the_first_of_its_characters_that_is_text() -> None:
    beside = Beside()
    assert ids(beside.decide(tokens("a<", "/t>b"), [(1, True)], final=False)) == [b"0"]
    assert ids(beside.decide([], [(4, False), (1, True)], final=False)) == [b"1"]
    assert not beside.lost


def test_tokens_that_stand_together_need_all_of_their_characters() -> None:
    arrays = {IDS: [b"1", b"2"]}
    beside = Beside()
    assert beside.decide(cut("ab", columns(arrays)), [(1, True)], final=False) == []
    assert ids(beside.decide([], [(1, True)], final=False)) == [b"1", b"2"]
    assert beside.decide(cut("ab", columns(arrays)), [(1, True), (1, False)], final=False) == []
    assert beside.lost


def test_a_token_without_characters_goes_with_the_text_before_it() -> None:
    beside = Beside()
    assert ids(beside.decide(tokens(""), [], final=False)) == [b"0"]
    assert ids(beside.decide(tokens("ab", "", "c", ""), [(2, False), (1, True)], final=False)) == [b"2", b"3"]


def test_at_the_end_what_was_never_decided_goes() -> None:
    beside = Beside()
    assert beside.decide(tokens("a", "b"), [], final=True) == []
    assert (beside.lost, beside.waiting) == (True, False)


def test_more_characters_than_tokens_are_no_error() -> None:
    assert ids(Beside().decide(tokens("a"), [(5, True)], final=False)) == [b"0"]


def test_where_characters_do_not_count_as_the_engine_counts_them_every_token_goes() -> None:
    beside = Beside()
    beside.blind = True
    assert beside.decide(tokens("a", ""), [(1, True)], final=True) == []
    assert beside.lost


# ---------------------------------------------------------------------- places


def test_places_are_counted_in_the_text_that_goes_out_from_where_the_engine_began() -> None:
    beside = Beside()
    fates: list[Fate] = [(5, False), (3, True)]
    kept = beside.decide(tokens("think", "Hi", "!", offsets=[10, 15, 17]), fates, final=False)
    assert beside.places(kept) == [10, 12]


def test_places_of_tokens_that_stand_together_keep_their_distances() -> None:
    beside = Beside()
    beside.decide(tokens("x", offsets=[0]), [(1, False)], final=False)
    kept = beside.decide(cut("ab", columns({IDS: [b"1", b"2"]}), offsets=[1, 2]), [(2, True)], final=False)
    assert beside.places(kept) == [0, 1]
    assert beside.places(beside.decide(tokens("c"), [(1, True)], final=False)) == []


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=3), st.booleans()), min_size=1, max_size=12), st.data())
def test_however_fates_are_cut_the_same_tokens_stay(words: list[tuple[str, bool]], data: st.DataObject) -> None:
    texts = [word for word, _ in words]
    once = Beside().decide(tokens(*texts), [(len(word), stays) for word, stays in words], final=True)
    assert ids(once) == [b"%d" % number for number, (_, stays) in enumerate(words) if stays]
    letters = [stays for word, stays in words for _ in word]
    beside, kept, sent, done = Beside(), [], 0, 0
    for token, word in zip(tokens(*texts), texts, strict=True):
        sent += len(word)
        upto = data.draw(st.integers(done, sent))
        kept += beside.decide([token], [(1, stays) for stays in letters[done:upto]], final=False)
        done = upto
    kept += beside.decide([], [(1, stays) for stays in letters[done:]], final=True)
    assert ids(kept) == ids(once)
