"""How an answer is cut, and what a request may ask of the playback."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ClientFault
from gateway.scripted_engine import Playback
from gateway.scripted_engine.cases import Delta, cut, recut, without_reasoning

CALL = {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
BOTH = {"reasoning": " it.", "content": "The"}

texts = st.text(min_size=1, max_size=8)
deltas = st.lists(
    st.one_of(
        st.builds(lambda text: {"content": text}, texts),
        st.builds(lambda text: {"reasoning": text}, texts),
        st.just(CALL),
        st.just(BOTH),
    ),
    max_size=8,
)


def field_text(pieces: list[Delta], name: str) -> str:
    return "".join(piece.get(name, "") for piece in pieces)


@given(deltas, st.integers(1, 9))
def test_no_cut_changes_what_a_field_says(answer: list[Delta], characters: int) -> None:
    pieces = cut(answer, characters)
    for name in ("content", "reasoning"):
        assert field_text(pieces, name) == field_text(answer, name)
    assert [piece for piece in pieces if len(piece) > 1 or "tool_calls" in piece] == [
        delta for delta in answer if delta in (CALL, BOTH)
    ]


def test_a_run_of_one_field_is_cut_across_its_deltas() -> None:
    answer: list[Delta] = [{"reasoning": "abc"}, {"reasoning": "de"}, {"content": "fg"}]
    assert cut(answer, 2) == [{"reasoning": "ab"}, {"reasoning": "cd"}, {"reasoning": "e"}, {"content": "fg"}]


def test_without_a_size_the_deltas_stay_as_they_were_written() -> None:
    answer: list[Delta] = [{"content": "a"}, {"content": ""}, {"content": "b"}]
    assert cut(answer, None) == answer


def test_hidden_reasoning_leaves_content_and_calls() -> None:
    answer: list[Delta] = [{"reasoning": "r"}, {"reasoning_content": "s"}, BOTH, CALL]
    assert without_reasoning(answer) == [{"content": "The"}, CALL]


def test_a_body_is_cut_into_writes_of_one_size() -> None:
    assert recut([b"abc", b"de"], 2) == [b"ab", b"cd", b"e"]
    assert recut([b"abc", b"de"], None) == [b"abc", b"de"]


def test_a_request_lays_its_playback_over_the_engines() -> None:
    engine = Playback(characters=4, events_per_second=60)
    assert engine.asked({"model": "m"}) == engine
    assert engine.asked({"vllm_xargs": {"characters": 1, "finish_with_last": True, "script": "x"}}) == Playback(
        characters=1, events_per_second=60, finish_with_last=True
    )


@pytest.mark.parametrize(
    ("xargs", "message"),
    [
        ([], "vllm_xargs: expected an object"),
        ({"characters": 0}, "vllm_xargs.characters: expected an integer from 1"),
        ({"characters": True}, "vllm_xargs.characters: expected an integer from 1"),
        ({"bytes_per_write": "7"}, "vllm_xargs.bytes_per_write: expected an integer from 1"),
        ({"events_per_second": -1}, "vllm_xargs.events_per_second: expected a number from 0"),
        ({"events_per_second": float("nan")}, "vllm_xargs.events_per_second: expected a number from 0"),
        ({"events_per_second": float("inf")}, "vllm_xargs.events_per_second: expected a number from 0"),
    ],
)
def test_a_playback_that_cannot_be_is_refused(xargs: Any, message: str) -> None:
    with pytest.raises(ClientFault) as fault:
        Playback().asked({"vllm_xargs": xargs or [1]})
    assert str(fault.value) == message
