"""The load generator counts what a proxy delivers, however the bytes are cut, and calls nothing whole that is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from benchmarks.engine import HEAD, chunked, event
from benchmarks.load import Load, Outcome, Stream

EVENTS = [event({"role": "assistant", "content": ""}), event({"content": " a"}), event({"content": ""}, "stop")]
DONE = chunked(b"data: [DONE]\n\n")
ANSWER = HEAD + b"".join(map(chunked, EVENTS)) + DONE + b"0\r\n\r\n"
REJOINED = HEAD + chunked(b"".join(EVENTS)[:100]) + chunked(b"".join(EVENTS)[100:] + b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Wire(asyncio.Transport):
    """Takes what is written and remembers that it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nobody listens."""

    def close(self) -> None:
        """Note it."""
        self.closed = True


def _read(pieces: list[bytes]) -> tuple[int, int, int]:
    """Events, whole streams and latencies after `pieces`."""
    outcome = Outcome()
    stream = Stream(b"", len(EVENTS), outcome)
    wire = Wire()
    stream.connection_made(wire)
    for piece in pieces:
        stream.data_received(piece)
    stream.connection_lost(None)
    return outcome.events, outcome.complete, len(outcome.latencies)


def _cuts(data: bytes) -> Iterator[list[bytes]]:
    yield from ([data[:at], data[at:]] for at in range(len(data) + 1))
    yield [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize("answer", [ANSWER, REJOINED], ids=["an event a chunk", "chunks cut elsewhere"])
async def test_every_event_counts_once_at_every_cut(answer: bytes) -> None:
    assert {_read(pieces) for pieces in _cuts(answer)} == {(3, 1, 3)}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ANSWER.removesuffix(b"0\r\n\r\n"), id="no last chunk"),
        pytest.param(ANSWER.replace(DONE, b""), id="no DONE"),
        pytest.param(ANSWER.replace(chunked(EVENTS[1]), b""), id="an event less"),
        pytest.param(b"HTTP/1.1 502 Bad Gateway\r\n\r\n" + ANSWER, id="an error"),
    ],
)
async def test_an_answer_that_lacks_something_is_not_whole(answer: bytes) -> None:
    assert _read([answer])[1] == 0


def test_a_percentile_is_an_observed_latency_in_microseconds() -> None:
    outcome = Outcome(latencies=[4_000, 1_000, 3_000, 2_000])
    assert (outcome.percentile(0.5), outcome.percentile(0.99)) == (3.0, 4.0)


def test_the_load_says_in_a_field_of_the_engine_what_to_play() -> None:
    load = Load(name="x", streams=1, events=2, rate=0, lock=False, reasoning=0.5)
    body = json.loads(load.payload(words=["a"]).partition(b"\r\n\r\n")[2])
    assert body["vllm_xargs"] == {"events": 2, "rate": 0, "lock": False, "reasoning": 0.5, "words": ["a"]}
