"""What stands around the text of a stream, and between its events, for each endpoint whose engine says it.

Each word is put into a leaking stream of every endpoint. The text is repaired as without it, at every cut of the text,
and the word goes out as it came, once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.exchange import RouteRules
from gateway.protocols.legal import CHECKERS
from tests.exchange.driver import DONE, chunk, delta, findings, route
from tests.support import messages, responses
from tests.support.endpoints import ENDPOINTS, answered
from tests.support.raw_text import Completions, Told, cut, values

TEXT = "<think>Let me think. 2 < 3</think>The answer is 42."
SAID = ("Let me think. 2 < 3", "The answer is 42.")
RULES = route(raw_text="split")
LEGAL: dict[str, Callable[[bytes], list[str]]] = {
    "messages": CHECKERS["messages"],
    "responses": CHECKERS["responses"],
}


def pieces(size: int) -> list[str]:
    return [TEXT[at : at + size] for at in range(0, len(TEXT), size)]


def client(endpoint: str, frames: Sequence[bytes], rules: RouteRules = RULES, **request: Any) -> bytes:
    """What a client gets, which must be legal."""
    out, exchange = answered(ENDPOINTS[endpoint].path, frames, rules, stream=True, request=request)
    assert exchange.tally.uninspected.total() == 0
    assert LEGAL.get(endpoint, lambda body: [])(out) == []
    return out


sizes = pytest.mark.parametrize("size", [1, 3, 7, 100])

# ---------------------------------------------------------------------- between the events

COMMENT, RETRY = b": keep-alive\n\n", b"retry: 10\n\n"  # vllm.md 3.1, 8; WHATWG HTML 9.2
IDS = b'event: sglext_ids\ndata: {"sglext": {"output_ids":[1, 2]}}\n\n'  # sglang.md 3.1
PING = b'event: ping\ndata: {"type": "ping", "n":1.10}\n\n'
BETWEEN = [
    *((endpoint, word) for endpoint in ENDPOINTS for word in (COMMENT, b":\r\n\r\n", RETRY)),
    *((endpoint, IDS) for endpoint in ("chat", "completions")),
    ("messages", PING),
]
# Responses numbers every event, and `/generate` has none but its answers: nothing stands between them.


@sizes
@pytest.mark.parametrize(("endpoint", "word"), BETWEEN)
def test_what_stands_between_the_events_goes_out_as_it_came(endpoint: str, word: bytes, size: int) -> None:
    *frames, last = ENDPOINTS[endpoint].written("content", pieces(size))[0]
    out = client(endpoint, [b"".join([word, frame]) for frame in frames] + [last])
    assert ENDPOINTS[endpoint].said(out, stream=True) == SAID
    assert out.count(word) == len(frames)


@sizes
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_comment_inside_an_event_is_part_of_it(endpoint: str, size: int) -> None:
    *frames, last = ENDPOINTS[endpoint].written("content", pieces(size))[0]
    out = client(endpoint, [b": c\n" + frame for frame in frames] + [last])
    assert ENDPOINTS[endpoint].said(out, stream=True) == SAID


# ---------------------------------------------------------------------- usage


def counted(frame: bytes, count: int) -> bytes:
    """A chunk with its usage in it."""
    if b"[DONE]" in frame:
        return frame
    value = json.loads(frame[6:])
    usage = {"prompt_tokens": 3, "total_tokens": 3 + count, "completion_tokens": count}
    return b"data: " + json.dumps({**value, "usage": usage}).encode() + b"\n\n"


@sizes
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_the_usage_in_every_chunk_goes_out_once_and_in_order(endpoint: str, size: int) -> None:
    """`stream_options.continuous_usage_stats` (vllm.md 3.1, 6)."""
    frames = [
        counted(frame, count) for count, frame in enumerate(ENDPOINTS[endpoint].written("content", pieces(size))[0])
    ]
    asked = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    out = client(endpoint, frames, **asked)
    assert ENDPOINTS[endpoint].said(out, stream=True) == SAID
    told = [value["usage"]["completion_tokens"] for value in values(out) if "usage" in value]
    assert told == list(range(len(frames) - 1))


@sizes
@pytest.mark.parametrize("endpoint", ["generate", "generate in pieces"])
def test_the_tokens_that_an_event_counts_go_out_in_order(endpoint: str, size: int) -> None:
    out = client(endpoint, ENDPOINTS[endpoint].written("content", pieces(size))[0])
    told = [value["meta_info"]["completion_tokens"] for value in values(out)]
    assert told == [*range(1, len(pieces(size)) + 1), len(pieces(size))]


@pytest.mark.parametrize("endpoint", ["messages", "responses"])
def test_the_usage_of_the_last_event_stays(endpoint: str) -> None:
    *_, out = client(endpoint, ENDPOINTS[endpoint].written("content", pieces(5))[0]).partition(b'"usage":')
    assert b'"output_tokens":7' in out


# ---------------------------------------------------------------------- a chunk that says more than text


def ended(choice: dict[str, Any]) -> bytes:
    """The last chunk of a choice."""
    return chunk([{"logprobs": None, "finish_reason": "stop", "stop_reason": None, **choice}])


@sizes
def test_a_role_an_end_and_both_kinds_of_text_may_stand_in_chunks_of_text(size: int) -> None:
    first, *middle = pieces(size)[:-1] or [TEXT[:9], TEXT[9:40]]
    last = TEXT.removeprefix("".join([first, *middle]))
    frames = [
        delta(role="assistant", content=first),
        *(delta(content=piece) for piece in middle),
        ended({"index": 0, "delta": {"content": last}}),
        DONE,
    ]
    out = client("chat", frames)
    assert ENDPOINTS["chat"].said(out, stream=True) == SAID
    choices = [choice for value in values(out) for choice in value["choices"]]
    assert [choice["delta"].get("role") for choice in choices].count("assistant") == 1
    assert choices[0]["delta"]["role"] == "assistant"
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
    assert choices[-1]["finish_reason"] == "stop"
    mixed = client(
        "chat", [delta(content="Yes <", reasoning="hm"), ended({"index": 0, "delta": {"content": "b"}}), DONE]
    )
    assert [[*choice["delta"]] for value in values(mixed) for choice in value["choices"]] == [
        ["reasoning", "reasoning_content"],
        ["content"],
        ["content"],
    ]


@sizes
def test_the_end_may_stand_in_a_chunk_with_text_of_a_completion(size: int) -> None:
    wire = Completions()
    *frames, _ = wire.events([[piece] for piece in pieces(size)])
    value = json.loads(frames[-1][6:])
    value["choices"][0] |= {"finish_reason": "stop", "stop_reason": "END"}
    frames[-1] = b"data: " + json.dumps(value).encode() + b"\n\n"
    told = wire.streamed(client("completions", [*frames, DONE]))[0]
    assert (told.said, told.finishes) == (SAID, ["stop"])


# ---------------------------------------------------------------------- several choices


@sizes
@pytest.mark.parametrize("together", [False, True])
def test_choices_that_interleave_or_share_a_chunk_are_read_apart(size: int, together: bool) -> None:
    """Chat; for raw text see `test_raw_stream`."""
    texts = (TEXT, TEXT.replace("42", "43"), "No thought.")
    rows = [[text[at : at + size] for text in texts] for at in range(0, len(TEXT), size)]
    parts = [[(index, {"content": piece}, None) for index, piece in enumerate(row) if piece] for row in rows]
    parts.append([(index, {}, "stop") for index in range(3)])
    choices = [[{"index": i, "delta": said, "finish_reason": end} for i, said, end in reversed(row)] for row in parts]
    frames = [chunk(row) for row in choices] if together else [chunk([each]) for row in choices for each in row]
    told = {index: Told() for index in range(3)}
    for value in values(client("chat", [*frames, DONE], n=3)):
        for choice in value["choices"]:
            told[choice["index"]].reasoning += choice["delta"].get("reasoning") or ""
            told[choice["index"]].text += choice["delta"].get("content") or ""
            told[choice["index"]].finishes += [choice["finish_reason"]] * bool(choice["finish_reason"])
    assert [each.said for each in told.values()] == [SAID, (SAID[0], SAID[1].replace("42", "43")), ("", "No thought.")]
    assert [each.finishes for each in told.values()] == [["stop"]] * 3


@sizes
def test_choices_of_a_completion_that_share_a_chunk_are_read_apart(size: int) -> None:
    wire = Completions(logprobs=True, ids=True)
    one, other = (wire.events(cut(text, size), index=index) for index, text in enumerate((TEXT, TEXT.upper())))
    frames = []
    for pair in zip(one, other, strict=True):
        value, more = (json.loads(each[6:]) for each in pair)
        value["choices"] += more["choices"]
        frames.append(b"data: " + json.dumps(value).encode() + b"\n\n")
    told = wire.streamed(client("completions", [*frames, DONE]))
    assert [told[index].said for index in (0, 1)] == [SAID, ("", TEXT.upper())]


# ---------------------------------------------------------------------- errors, and ends that never come

BROKE = {"message": "it broke", "type": "InternalServerError", "param": None, "code": 500}
OPENAI = [b"data: %b\n\n" % json.dumps({"error": BROKE}).encode(), DONE]
NATIVE = [b"data: %b\n\n" % json.dumps({"error": {**BROKE, "retryable": False}}).encode(), DONE]
FAILED = {"id": "resp_1", "object": "response", "status": "failed", "output": [], "error": BROKE}
ERRORS: dict[str, list[bytes]] = {  # vllm.md 3.1, 7, and 3.6; sglang.md 3.2 and 3.5
    "chat": OPENAI,
    "completions": OPENAI,
    "generate": NATIVE,
    "generate in pieces": NATIVE,
    "messages": [messages.stop(0), messages.event({"type": "error", "error": BROKE})],
    "responses": [responses.event({"type": "response.failed", "response": FAILED, "sequence_number": 6})],
}


@pytest.mark.parametrize(("ends", "marker"), [(ERRORS, b"it broke"), ({}, b"integrity_")], ids=["error", "nothing"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_is_held_goes_before_the_error_and_nothing_says_that_the_answer_is_whole(
    endpoint: str, ends: dict[str, list[bytes]], marker: bytes
) -> None:
    frames = ENDPOINTS[endpoint].written("content", ["Yes ", "</thi"])[0]
    last = next(place for place, frame in enumerate(frames) if b"</thi" in frame)
    reads = [*frames[: last + 1], *ends.get(endpoint, [])]
    out, exchange = answered(ENDPOINTS[endpoint].path, reads, RULES, stream=True)
    before, error, _ = out.partition(marker)
    text = b"".join(before.rpartition(b"\n\n")[:2])
    assert error and ENDPOINTS[endpoint].said(text, stream=True) == ("", "Yes </thi")
    for whole in (b"message_stop", b"response.completed", b'"finish_reason":"stop"', b'"type":"stop"'):
        assert whole not in out
    assert findings(exchange) == {}
