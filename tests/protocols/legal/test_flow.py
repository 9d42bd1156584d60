"""What the checkers share: how a stream is cut into numbered events, and what a message may show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols import PROTOCOLS
from gateway.protocols.legal import CHECKERS
from gateway.protocols.legal.flow import Flow, entries, member, shown, text

SECRET = "what the model said"


class Letters(Flow):
    """A protocol of our own: `z` ends a stream, `BYE` may follow it."""

    done = b"BYE"
    goodbye = ("z",)

    def take(self, number: int, name: str, kind: str, value: dict[str, Any]) -> None:
        """Events are named as their types."""
        self.say(name == kind, f"number {number} is named {name}")
        if kind == "z":
            self.over = kind


def read(body: bytes, *, ended: bool = True) -> list[str]:
    return Letters().read(body, ended=ended)


def frame(kind: str, name: str | None = None) -> bytes:
    return f'event: {name or kind}\ndata: {{"type":"{kind}"}}\n\n'.encode()


def test_events_are_numbered_and_comments_are_none() -> None:
    assert read(b": hello\n\n" + frame("a") + b"\n: ping\n\n" + frame("b", "c") + frame("z")) == [
        "event 1 b: number 1 is named c"
    ]


def test_every_line_end_of_an_event_stream_is_read() -> None:
    assert read((frame("a") + frame("z")).replace(b"\n", b"\r\n")) == []


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"", ["end: the stream does not end with its last event, or with an error"]),
        (frame("a"), ["end: the stream does not end with its last event, or with an error"]),
        (frame("z") + b"event: a\ndata: {", ["end: the last event lacks its empty line"]),
        (frame("z") + frame("a"), ["event 1 a: it comes behind z"]),
        (frame("z") + b"data: BYE\n\ndata: BYE\n\n", ["event 2 BYE: it comes behind BYE"]),
        (b"data: BYE\n\n" + frame("z"), ["event 1 z: it comes behind BYE"]),
        (b"data: hello\n\n" + frame("z"), ["event 0: its data is no JSON object"]),
        (b"data: [1]\n\n" + frame("z"), ["event 0: its data is no JSON object"]),
    ],
)
def test_a_stream_ends_once_with_its_last_event(body: bytes, wrong: list[str]) -> None:
    assert read(body) == wrong


def test_of_a_stream_that_is_not_all_there_the_end_is_not_judged() -> None:
    assert read(frame("a") + b"event: b\nda", ended=False) == []


def test_what_a_protocol_says_of_its_events_has_to_be_written() -> None:
    with pytest.raises(NotImplementedError):
        Flow().read(frame("a"), ended=True)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "None"),
        (True, "True"),
        (3, "3"),
        (1.5, "a number"),
        ("tool_use", "'tool_use'"),
        (SECRET, "a text of 19 characters"),
        ("", "a text of 0 characters"),
        ([SECRET], "a list"),
        ({SECRET: 1}, "an object"),
    ],
)
def test_only_numbers_and_words_are_shown(value: object, said: str) -> None:
    assert shown(value) == said


def test_what_is_of_another_type_is_read_as_nothing() -> None:
    assert (member({"a": {"b": 1}}, "a", "b"), member({"a": 1}, "a", "b"), member(None, "a")) == (1, None, None)
    assert (text("a"), text(1), entries([1]), entries({})) == ("a", "", [1], [])


LEAVES = st.none() | st.booleans() | st.integers(-1, 3) | st.just(SECRET) | st.just(1.5)
NAMES = (
    "type object id created model choices index delta content role tool_calls function name arguments finish_reason "
    "usage error text meta_info output_ids completion_tokens message content_block stop_reason response item part "
    "output output_index content_index sequence_number logprobs token"
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=5),
    max_leaves=12,
)
TYPES = (
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop error "
    "response.created response.output_item.added response.output_item.done response.output_text.delta "
    "response.output_text.done response.content_part.added response.content_part.done response.completed "
    "response.function_call_arguments.delta response.function_call_arguments.done x"
)
EVENTS = st.tuples(st.sampled_from(TYPES.split()), st.dictionaries(st.sampled_from(NAMES.split()), VALUES, max_size=6))


@given(events=st.lists(EVENTS, max_size=6), ended=st.booleans())
def test_a_checker_judges_any_event_and_shows_no_text(events: list[tuple[str, Any]], ended: bool) -> None:
    body = b"".join(
        [f"event: {kind}\ndata: {json.dumps({**value, 'type': kind})}\n\n".encode() for kind, value in events]
    )
    for checker in CHECKERS.values():
        assert SECRET not in "".join(checker(body, ended=ended))


def test_every_protocol_has_a_checker() -> None:
    assert set(CHECKERS) == {protocol.name for protocol in PROTOCOLS.values()}
