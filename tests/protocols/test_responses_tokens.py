"""Tokens beside text: each goes with the text that it spells, and with no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.responses_tokens import WAITING, Tokens, only_own, own_tokens, spelt


def fed(*words: str, gaps: bool = False) -> Tokens:
    """Text of these words, each with a token of its own."""
    tokens = Tokens(gaps=gaps)
    for word in words:
        tokens.feed(word, [(word, word.encode())])
    return tokens


def test_text_takes_its_tokens_and_leaves_those_behind_it() -> None:
    tokens = fed("a", " b", " c", " d")
    assert (tokens.take("a b"), tokens.take(" c d")) == ([b"a", b" b"], [b" c", b" d"])


def test_what_was_taken_out_takes_its_tokens_with_it() -> None:
    tokens = fed("<think>", "x", "</think>", "a", "b")
    assert tokens.take("ab") == [b"a", b"b"]
    assert tokens.take("x") == []


def test_a_token_that_is_only_half_in_the_text_is_left_out() -> None:
    assert fed("</think>a", "b").take("ab") == [b"b"]
    assert fed("a", "b</think>").take("ab") == [b"a"]


def test_text_that_never_came_has_no_tokens() -> None:
    tokens = fed("a", "b")
    assert (tokens.take("xyz"), tokens.take(""), tokens.take("b")) == ([], [], [b"b"])
    tokens.feed("c", [])
    assert (tokens.take("c"), fed().take("a")) == ([], [])


def test_a_token_that_spells_nothing_of_the_text_is_left_out() -> None:
    tokens = fed()
    tokens.feed("ab", [("", b"0"), ("<eos>", b"1"), ("a", b"2"), ("b", b"3")])
    assert tokens.take("ab") == [b"2", b"3"]


def test_where_text_may_have_gone_unsaid_what_stands_twice_has_no_tokens() -> None:
    tokens = fed("<think>", "4", "</think>", "4", "2", gaps=True)
    assert tokens.take("4") == []
    tokens.feed("3", [("3", b"3")])
    assert tokens.take("3") == [b"3"]
    assert fed("<think>", "4", "</think>", "4", "2", gaps=True).take("42") == [b"4", b"2"]
    assert fed("4", "4").take("4") == [b"4"]


def test_what_is_forgotten_is_gone() -> None:
    tokens = fed("a")
    tokens.forget()
    tokens.feed("b", [("b", b"b")])
    assert (tokens.take("a"), tokens.take("b")) == ([], [b"b"])


def test_beyond_the_cap_tokens_are_left_out() -> None:
    tokens = fed("a" * WAITING, "b", "c")
    assert (tokens.take("b"), tokens.take("c")) == ([], [b"c"])


@given(st.lists(st.sampled_from(["a", "ab", " ", "b"]), max_size=8), st.integers(0, 20), st.integers(0, 20))
def test_what_is_taken_spells_no_more_than_the_text(words: list[str], at: int, size: int) -> None:
    text = "".join(words)[at : at + size]
    taken = b"".join(fed(*words).take(text)).decode()
    assert taken in text


@pytest.mark.parametrize("value", [{}, {"logprobs": None}, {"logprobs": []}, {"logprobs": {"a": 1}}, {"logprobs": [7]}])
def test_members_of_another_shape_are_no_tokens(value: dict[str, Any]) -> None:
    assert spelt(value, json.dumps(value).encode()) == []


def test_tokens_keep_their_bytes() -> None:
    data = b'{"logprobs":[{"token":"a", "logprob":-1.10},{"token":"b"}]}'
    assert spelt(json.loads(data), data) == [("a", b'{"token":"a", "logprob":-1.10}'), ("b", b'{"token":"b"}')]


@pytest.mark.parametrize(
    ("text", "words", "own"),
    [
        ("42", ["4", "2"], ["4", "2"]),
        ("42", ["4", " 2", "</think>", "4", "2", "<end>"], ["4", "2"]),
        ("42", ["42", "</think>", "42"], ["42"]),  # the last ones: a thought stands before its answer
        ("42", ["</think>4", "2"], []),
        ("42", ["4", "2<end>"], []),
        ("42", ["token_id:5", "token_id:6"], []),
        ("", ["a"], []),
        ("42", ["", "42", ""], ["42"]),
    ],
)
def test_of_the_tokens_of_a_whole_output_those_are_a_texts_that_spell_it(
    text: str, words: list[str], own: list[str]
) -> None:
    assert own_tokens(text, [(word, word.encode()) for word in words]) == [word.encode() for word in own]


def part(text: str, *words: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "logprobs": [{"token": word} for word in words]}


FOREIGN, OWN = part("c", "r", "c"), {"logprobs": b'[{"token":"c"}]'}


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (FOREIGN, OWN),
        (part("c", "c"), {}),
        ({"text": "c", "logprobs": [7]}, {"logprobs": b"[]"}),
        ({"text": "c", "logprobs": None, "part": None, "content": "c"}, {}),
        ({"text": {"format": {}}, "logprobs": [7], "content": [7]}, {}),  # the request's, told again in a response
        ({"part": FOREIGN}, {"part": OWN}),
        ({"item": {"content": [part("c", "c"), FOREIGN]}}, {"item": {"content": {1: OWN}}}),
        ({"output": [{"content": None}, {"content": [FOREIGN]}]}, {"output": {1: {"content": {0: OWN}}}}),
        ({"response": {"output": [{"content": [FOREIGN]}]}}, {"response": {"output": {0: {"content": {0: OWN}}}}}),
    ],
)
def test_every_whole_text_of_a_message_has_its_own_tokens_only(value: dict[str, Any], changes: dict[str, Any]) -> None:
    assert only_own(value, json.dumps(value, separators=(",", ":")).encode()) == changes
