"""Tokens to text: characters that tokens share, and markers that are tokens of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.tokens import (
    STRUCTURAL,
    Markers,
    Run,
    Token,
    TokenText,
    marked,
    plain,
    plain_json,
    runs_of,
    spelled,
    told,
)

THINK = Markers(texts=frozenset({"</think>"}), ids={4036: "</think>"})


def text_of(*tokens: Token, markers: Markers = THINK) -> str:
    reader = TokenText(markers)
    return reader.feed(tokens) + reader.end()


@pytest.mark.parametrize(
    ("token", "structural"),
    [
        (Token(4036, b"</think>"), True),
        (Token(None, b"</think>"), True),
        (Token(7, b"</think>"), False),  # another token with the same text
        (Token(None, b"</think>x"), False),
        (Token(None, b"\xff"), False),
    ],
)
def test_a_token_is_a_marker_by_its_id_and_without_one_by_its_text(token: Token, structural: bool) -> None:
    assert (STRUCTURAL in text_of(token)) is structural


def test_a_marker_that_ordinary_tokens_spell_is_text() -> None:
    spelled = [Token(27, b"</"), Token(982, b"think"), Token(29, b">")]
    assert text_of(*spelled) == "</think>"
    assert text_of(*spelled, Token(4036, b"</think>")) == f"</think>{STRUCTURAL}</think>"


@pytest.mark.parametrize(
    ("ids", "runs"),
    [
        ([1, 2, 3], [(1, 2, 3)]),
        ([1, 4036, 2, 3], [(1,), (4036, 2, 3)]),
        ([4036, 4036, 2], [(4036,), (4036, 2)]),
        ([], []),
    ],
)
def test_a_run_of_ids_begins_with_a_marker_or_with_the_output(ids: list[int], runs: list[Run]) -> None:
    assert runs_of(ids, THINK) == runs


@pytest.mark.parametrize(
    ("ids", "texts", "text"),
    [
        ([1, 4036, 2], {(1,): "so", (4036, 2): "</think> it"}, f"so{STRUCTURAL}</think> it"),  # the space stays
        ([1, 4036], {(1,): "so"}, f"so{STRUCTURAL}</think>"),
        ([27, 982, 29, 4036, 2], {(27, 982, 29): "</think>", (4036, 2): "</think>!"}, f"</think>{STRUCTURAL}</think>!"),
        ([4036, 27, 982, 29], {(4036, 27, 982, 29): "</think></think>"}, f"{STRUCTURAL}</think></think>"),
        ([1, 4036, 2], {(1,): "so"}, ""),  # a run is missing
        ([4036, 2], {(4036, 2): "it"}, ""),  # its marker is hidden: what else is?
        ([1], {(1,): "\ud800"}, "?"),
    ],
)
def test_runs_that_were_spelled_are_tokens(ids: list[int], texts: dict[Run, str], text: str) -> None:
    assert text_of(*told(ids, texts, THINK)) == text


def test_another_token_that_spells_a_marker_is_text() -> None:
    assert text_of(*spelled([7, 4036], {7: "</think>", 4036: "</think>"}.__getitem__, THINK)) == (
        f"</think>{STRUCTURAL}</think>"
    )


def test_a_character_that_tokens_share_comes_with_the_last_of_them() -> None:
    reader = TokenText(THINK)
    first, second = Token(1, "é".encode()[:1]), Token(2, "é".encode()[1:] + b"!")
    assert (reader.feed([first]), reader.feed([second]), reader.end()) == ("", "é!", "")


def test_half_a_character_is_one_replacement_before_a_marker_and_at_the_end() -> None:
    half = Token(1, b"\xe2\x82")
    assert text_of(half, Token(4036, b"</think>"), half) == f"\ufffd{STRUCTURAL}</think>\ufffd"


@given(st.text(), st.lists(st.integers(1, 5)))
def test_text_is_the_same_however_its_bytes_are_cut_into_tokens(text: str, sizes: list[int]) -> None:
    data, tokens = text.encode("utf-8", "ignore"), []
    while data:
        size = sizes.pop() if sizes else len(data)
        tokens.append(Token(5, data[:size]))
        data = data[size:]
    assert text_of(*tokens) == text.encode("utf-8", "ignore").decode()


@pytest.mark.parametrize(
    ("text", "without"),
    [
        (f'{{"a": "{STRUCTURAL}</think>"}}', '{"a": "</think>"}'),
        (r'{"a": "\udfff</think>\n"}', r'{"a": "</think>\n"}'),
        (r'{"a": "\\udfff"}', r'{"a": "\\udfff"}'),  # a backslash, and five letters
        (r'{"a": "\\\udfff\udfffx"}', r'{"a": "\\x"}'),
        ('{"a": "udfff"}', '{"a": "udfff"}'),
        ("{}", "{}"),
    ],
)
def test_json_is_plain_where_the_mark_is_escaped_too(text: str, without: str) -> None:
    assert plain_json(text) == without


K3 = ("<|open|>", "<|sep|>")


@pytest.mark.parametrize(
    ("literal", "atoms", "comes_as"),
    [
        ("</think>", ("</think>",), "*</think>"),
        ("\n</think>", ("</think>", "think"), "\n*</think>"),
        ("<|open|>think<|sep|>", K3, "*<|open|>think*<|sep|>"),
        ("<|open|>think<|sep|>", ("<|sep|>",), "<|open|>think*<|sep|>"),
        ("<function=", ("</think>",), "<function="),
        ("<a><ab>", ("<a", "<a>", "b"), "*<a>*<a*b>"),
        ("", ("a",), ""),
    ],
)
def test_a_literal_has_the_mark_before_each_token_in_it(literal: str, atoms: tuple[str, ...], comes_as: str) -> None:
    assert marked(literal, atoms) == comes_as.replace("*", STRUCTURAL)
    assert plain(marked(literal, atoms)) == literal
