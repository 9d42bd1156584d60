"""Streams of text completions: each choice of a chunk has text (gateway.protocols.legal.completions)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocols.legal.completions import violations
from tests.support.raw_text import DONE, Completions

EVENTS = Completions(logprobs=True, ids=True).events([["a", "b"], ["c"]])


def changed(event: bytes, **members: Any) -> bytes:
    """An event whose first choice has other members."""
    value = json.loads(event[6:])
    value["choices"][0] |= members
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def test_a_stream_as_vllm_writes_it_is_legal() -> None:
    assert violations(b"".join(EVENTS) + DONE) == []
    assert violations(changed(EVENTS[0], reasoning="r") + b"".join(EVENTS[1:]) + DONE) == []
    assert violations(b"".join(EVENTS[:1]), ended=False) == []


@pytest.mark.parametrize(
    ("frames", "wrong"),
    [
        ([changed(EVENTS[0], text=None), *EVENTS[1:], DONE], "event 0: choice 0 has no text"),
        ([changed(EVENTS[0], text=[]), *EVENTS[1:], DONE], "event 0: text of choice 0 is a list"),
        ([changed(EVENTS[0], reasoning=1), *EVENTS[1:], DONE], "event 0: reasoning of choice 0 is 1"),
        ([*EVENTS, EVENTS[0], DONE], "event 3: choice 0 says more behind its end"),
        ([*EVENTS[:2], DONE], "event 2 [DONE]: choice 0 has not ended"),
        (EVENTS, "end: the stream does not end with its last event, or with an error"),
    ],
)
def test_what_is_not_legal_is_said_with_its_event(frames: list[bytes], wrong: str) -> None:
    assert violations(b"".join(frames)) == [wrong]
