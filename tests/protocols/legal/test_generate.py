"""Streams of SGLang's `/generate`: each answer grows and ends once (gateway.protocols.legal.generate)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocols.legal.generate import violations
from tests.support.raw_text import DONE, Generate, frame

WHOLE = Generate().events([["a", "b"], ["c"], ["d"]])
PIECES = Generate(pieces=True).events([["a", "b"], ["c"], ["d"]])
ERROR = frame({"error": {"message": "it broke", "type": "InternalServerError", "code": 500}})


def changed(event: bytes, meta: dict[str, Any] | None = None, **members: Any) -> bytes:
    value = json.loads(event[6:])
    value["meta_info"] |= meta or {}
    return frame(value | members)


@pytest.mark.parametrize(
    "frames",
    [
        [*WHOLE, DONE],
        [*PIECES, DONE],
        [*Generate().events([["a"]], index=1), *WHOLE, DONE],
        [*Generate().events([["a"]], finish="length"), DONE],
        [*WHOLE[:2], ERROR, DONE],
        [*WHOLE[:2], ERROR],
        [*WHOLE, changed(WHOLE[-1], {"integrity": {}}), DONE],
        [changed(WHOLE[0], {"completion_tokens": None}), *WHOLE[1:], DONE],
    ],
)
def test_a_stream_as_sglang_writes_it_is_legal(frames: list[bytes]) -> None:
    assert violations(b"".join(frames)) == []


@pytest.mark.parametrize(
    ("frames", "wrong"),
    [
        ([DONE], "event 0 [DONE]: there was no answer"),
        (WHOLE, "end: the stream does not end with its last event, or with an error"),
        ([*WHOLE[:2], DONE], "event 2 [DONE]: answer 0 has not ended"),
        ([*WHOLE, WHOLE[-1], DONE], "event 4: answer 0 goes on behind its end"),
        ([WHOLE[0], frame({"text": ""}), *WHOLE[1:], DONE], "event 1: it has no meta_info"),
        ([b"event: x\n" + WHOLE[0], *WHOLE[1:], DONE], "event 0: its frame has a name, 'x'"),
        ([WHOLE[0], changed(WHOLE[1], {"id": "g2"}), *WHOLE[2:], DONE], "event 1: answer 0 has another id"),
        ([changed(PIECES[0], text=None), *PIECES[1:], DONE], "event 0: the text of answer 0 is None"),
        ([*WHOLE[:-1], changed(WHOLE[-1], index="0"), WHOLE[-1], DONE], "event 3: its index or meta_info is none"),
        ([frame({"meta_info": 1}), *WHOLE, DONE], "event 0: its index or meta_info is none"),
        (
            [*WHOLE[:-1], changed(WHOLE[-1], {"finish_reason": {"type": "halt"}}), DONE],
            "event 3: answer 0 ends with 'halt'",
        ),
        ([PIECES[1], PIECES[0], *PIECES[2:], DONE], "event 1: answer 0 has 2 tokens behind 3"),
        (
            [WHOLE[0], changed(WHOLE[1], text="xyz"), *Generate().events([["x", "y", "z"]])[-1:], DONE],
            "event 1: the text of answer 0 is not what it was, and more",
        ),
        (
            [WHOLE[0], changed(WHOLE[1], output_ids=[7, 8, 9]), DONE, ERROR],
            "event 1: the ids of answer 0 are not what they were, and more",
        ),
    ],
)
def test_what_is_not_legal_is_said_with_its_event(frames: list[bytes], wrong: str) -> None:
    assert wrong in violations(b"".join(frames))


def test_the_end_of_a_part_of_a_stream_is_not_judged() -> None:
    assert violations(WHOLE[0], ended=False) == []
