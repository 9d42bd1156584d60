"""Chunks with choices: one head, one usage, one end for each choice, `[DONE]` last (protocols.legal.choices)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocols.legal.choices import ChoiceFlow

DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
ERROR = b'data: {"error":{"message":"Internal server error","code":500}}\n\n'  # reference/vllm.md 3.1, row 7


class Chunks(ChoiceFlow):
    """Choices that say `text`."""

    object = "chunk"

    def says(self, index: int, choice: dict[str, Any]) -> bool:
        """Is there text?"""
        return self.texts(index, choice, "text")


def chunk(*choices: Any, **top: Any) -> bytes:
    value = {"id": "a", "object": "chunk", "created": 1, "model": "m", "choices": list(choices), **top}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def choice(index: object = 0, said: object = "x", finish: object = None) -> dict[str, Any]:
    return {"index": index, "text": said, "finish_reason": finish}


END = chunk(choice(said="", finish="stop"))
LAST = chunk(usage=USAGE)
STREAM = chunk(choice()) + END


@pytest.mark.parametrize(
    "body",
    [
        STREAM + DONE,
        STREAM + LAST + DONE,
        chunk(choice(finish="length"), usage=None) + LAST + DONE,
        chunk(choice(0), choice(1)) + chunk(choice(1, "", "stop")) + END + DONE,
        STREAM + chunk(sglext={}) + LAST + chunk(integrity={}) + DONE,
        chunk(choice(), usage=USAGE) + chunk(choice(finish="stop"), usage=USAGE) + LAST + DONE,
        chunk(choice(finish="abort")) + DONE,
        chunk(choice()) + ERROR,
        chunk(choice()) + ERROR + DONE,
        ERROR,
    ],
)
def test_a_stream_as_engines_write_it_is_legal(body: bytes) -> None:
    assert Chunks().read(body, ended=True) == []


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (DONE, "event 0 [DONE]: there was no choice"),
        (STREAM, "end: the stream does not end with its last event, or with an error"),
        (STREAM + DONE + LAST, "event 3: it comes behind [DONE]"),
        (STREAM + DONE + DONE, "event 3 [DONE]: it comes behind [DONE]"),
        (ERROR + END, "event 1: it comes behind error"),
        (chunk(choice()) + DONE, "event 1 [DONE]: choice 0 has not ended"),
        (STREAM + END + DONE, "event 2: choice 0 ends twice"),
        (STREAM + chunk(choice()) + DONE, "event 2: choice 0 says more behind its end"),
        (STREAM + LAST + LAST + DONE, "event 3: a second chunk has the usage"),
        (STREAM + LAST + chunk(choice(said=None)) + DONE, "event 3: it comes behind the usage"),
        (chunk(choice()) + LAST + END + DONE, "event 1: the usage comes before the end of a choice"),
        (STREAM.replace(b'"stop"', b'"halt"') + DONE, "event 1: choice 0 ends with 'halt'"),
        (chunk(choice(finish=["stop"])) + DONE, "event 0: choice 0 ends with a list"),
        (chunk(choice("0")) + DONE, "event 0: the index of a choice is '0'"),
        (chunk(choice(-1)) + DONE, "event 0: the index of a choice is -1"),
        (chunk(3) + DONE, "event 0: the index of a choice is None"),
        (chunk(choice(said=3, finish="stop")) + DONE, "event 0: text of choice 0 is 3"),
        (chunk(choice(finish="stop"), choices=None) + DONE, "event 0: it has no list of choices"),
        (STREAM + chunk(object="other") + DONE, "event 2: its object is 'other'"),
        (STREAM + chunk(id="b") + DONE, "event 2: its id is missing, or another one"),
        (STREAM + chunk(created=2) + DONE, "event 2: its created is missing, or another one"),
        (STREAM + chunk(model="n") + DONE, "event 2: its model is missing, or another one"),
        (b"event: x\n" + STREAM + DONE, "event 0: its frame has a name, 'x'"),
        (chunk(choice(), usage=USAGE) + END + DONE, "event 1: it has no usage"),
        (chunk(choice()) + chunk(choice(finish="stop"), usage=USAGE) + DONE, "event 1: it has a usage"),
    ],
)
def test_what_is_not_legal_is_said_with_its_event(body: bytes, wrong: str) -> None:
    assert wrong in Chunks().read(body, ended=True)
    assert len(Chunks().read(body, ended=True)) <= 2


def test_a_head_that_is_never_told_is_missing_in_each_chunk() -> None:
    found = Chunks().read(chunk(choice(finish="stop"), id=None) + DONE, ended=True)
    assert found == ["event 0: its id is missing, or another one"]


def test_what_a_choice_says_has_to_be_written() -> None:
    with pytest.raises(NotImplementedError):
        ChoiceFlow.says(Chunks(), 0, {})
