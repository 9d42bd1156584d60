"""Observe: the engine's bytes, whatever they are (contract section 1), and findings as `would_…` (section 4)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import EngineTimeout
from gateway.exchange import Exchange, Overrides
from gateway.limits import Limits
from gateway.policy import Profile, ReasoningField
from tests.exchange.driver import DONE, LIMITS, OFF, WANTED, delta, findings, opened, route, streamed
from tests.support import messages

OBSERVE = route(profile=Profile.OBSERVE)
REPORT = Overrides(report=True)
HEAD_OF_REPORT = (
    b'data: {"object":"chat.completion.chunk","id":"chatcmpl-1","created":1,"model":"m","choices":[],"integrity":'
)
"""As in repair (reference/vllm.md 3.1): every chunk of one answer has its id, its time and its model."""
LEAKY = [
    delta(reasoning="r", content="c"),
    delta(content="a\n<thi"),
    delta(content="nk>t</think>b"),
    delta(finish="stop"),
]


def opened_stream(*, report: bool = False, limits: Limits = LIMITS) -> Exchange:
    """An observed stream."""
    exchange = opened({}, route(profile=Profile.OBSERVE, limits=limits), Overrides(report=report))
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    return exchange


def test_an_observed_stream_keeps_every_byte_as_it_comes_and_counts_what_repair_would_do() -> None:
    exchange = opened_stream()
    reads = [*LEAKY, DONE]
    assert [exchange.data(read) for read in reads] == reads
    assert (exchange.end().data, exchange.end().complete) == (b"", True)
    assert findings(exchange) == {
        "mixed_chunk_split/would_split": 1,
        "reasoning_leak/would_move": 1,
        "boundary_token/would_strip": 2,
    }


def test_a_client_may_ask_to_be_only_observed() -> None:
    answer = streamed([*LEAKY, DONE], overrides=Overrides(observe=True))
    assert answer.body == b"".join([*LEAKY, DONE])
    assert answer.findings["reasoning_leak/would_move"] == 1


def test_an_observed_promotion_is_counted() -> None:
    reads = [delta(reasoning="42."), delta(finish="stop"), DONE]
    answer = streamed(reads, OBSERVE, request=OFF)
    assert answer.body == b"".join(reads)
    assert answer.findings == {"answer_in_reasoning/would_promote": 1, "empty_response/flagged": 1}


def test_an_observed_repeat_is_counted_as_one_that_would_be_suppressed() -> None:
    reads = [delta(reasoning="r"), delta(content="r"), delta(finish="stop"), DONE]
    assert streamed(reads, OBSERVE, request=WANTED).findings == {"duplicate_suppressed/would_suppress": 1}
    assert streamed(reads, OBSERVE).findings == {"duplicate_suspect/kept": 1}


def test_an_observed_thought_in_content_is_counted_where_the_route_promises_one() -> None:
    reads = [delta(content="t</think>a"), delta(finish="stop"), DONE]
    answer = streamed(reads, route(profile=Profile.OBSERVE, starts_in="reasoning"))
    assert answer.body == b"".join(reads)
    assert answer.findings == {"reasoning_leak/would_move": 1, "boundary_token/would_strip": 1}


@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans())
def test_no_byte_of_an_observed_stream_is_lost_or_changed(reads: list[bytes], report: bool) -> None:
    exchange = opened_stream(report=report)
    ending_report = b"data: {" if report else b"\0"
    out = b"".join([exchange.data(read) for read in reads]) + exchange.end().data
    body = b"".join(reads)
    assert out == body or (out.startswith(body) and out[len(body) :].startswith(ending_report))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_report_is_an_event_before_done_and_nothing_else_changes(size: int) -> None:
    body = b": hi\r\n\r\n" + b"".join([*LEAKY, DONE]) + delta(content="late")
    answer = streamed([body[at : at + size] for at in range(0, len(body), size)], OBSERVE, overrides=REPORT)
    before, report, after = answer.body.partition(HEAD_OF_REPORT)
    event, _, rest = after.partition(b"\n\n")
    assert before + rest == body
    assert (report != b"", rest.startswith(DONE)) == (True, True)
    assert json.loads(event[:-1])["findings"][0] == {
        "finding": "reasoning_leak", "action": "would_move", "count": 1, "where": "content",
    }  # fmt: skip


def test_the_report_of_a_stream_without_done_comes_last() -> None:
    answer = streamed(LEAKY, OBSERVE, overrides=REPORT)
    assert answer.body.startswith(b"".join(LEAKY) + HEAD_OF_REPORT)


def test_the_report_of_an_answer_without_a_chunk_stands_alone() -> None:
    answer = streamed([DONE], OBSERVE, overrides=REPORT)
    assert answer.body.startswith(b'data: {"object":"chat.completion.chunk","choices":[],"integrity":')


def test_half_an_event_at_the_end_goes_on_and_no_report_follows_it() -> None:
    reads = [*LEAKY, b"data: {"]
    answer = streamed(reads, OBSERVE, overrides=REPORT)
    assert (answer.body, answer.complete) == (b"".join(reads), True)


def test_an_observed_stream_over_a_cap_keeps_every_byte() -> None:
    exchange = opened_stream(report=True, limits=Limits(sse_event=300))
    reads = [*LEAKY, delta(content="x" * 400)[:350], b"x\n\n", DONE]
    out = b"".join([exchange.data(read) for read in reads])
    assert out + exchange.end().data == b"".join(reads)
    assert dict(exchange.tally.uninspected) == {"frame_too_large": 1}


@pytest.mark.parametrize("report", [True, False])
def test_an_observed_stream_that_breaks_off_breaks_off(report: bool) -> None:
    exchange = opened_stream(report=report)
    sent = exchange.data(LEAKY[1] + b"data: {")
    ending = exchange.broken(EngineTimeout("silent"))
    assert (sent + ending.data, ending.complete) == (LEAKY[1] + b"data: {", False)


def test_a_client_that_asks_to_be_observed_does_not_lift_none() -> None:
    rules = route(reasoning_field=ReasoningField.NONE)
    reads = [delta(reasoning="t", content="<think>u</think>a<|im_end|>"), delta(finish="stop"), DONE]
    answer = streamed(reads, rules, overrides=Overrides(observe=True))
    assert answer.said == ("", "a<|im_end|>")
    assert answer.findings == {
        "reasoning_leak/hidden": 1,
        "boundary_token/stripped": 2,
        "special_token/would_strip": 1,
        "mixed_chunk_split/would_split": 1,
    }


BLOCKS = messages.events([("text", "<think>a</think>b")])


def observed(*more: bytes) -> messages.Answer:
    """The stream of a protocol whose end takes the report, and what follows it."""
    return messages.streamed([*BLOCKS, *more], OBSERVE, report=True, legal=False)


def test_the_report_stands_in_the_event_that_takes_it() -> None:
    answer = observed(b": bye\n\n")
    assert answer.report is not None and answer.report["profile"] == "observe"
    said = json.dumps(answer.report, separators=(",", ":")).encode()
    assert answer.raw.replace(b',"integrity":' + said, b"") == b"".join(BLOCKS) + b": bye\n\n"


def test_what_is_no_event_takes_no_report() -> None:
    strange = [b": hi\n\n", b"data: no json\n\n"]
    answer = messages.streamed([*strange, *BLOCKS], OBSERVE, report=True, legal=False)
    assert answer.raw.startswith(b"".join(strange)) and answer.report is not None
