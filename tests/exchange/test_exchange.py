"""How an answer travels: which are read, which are relayed and counted, and what each call of the server returns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import EngineTruncated, IntegrityError
from gateway.exchange import Delivery, Ending, Exchange, Overrides, open_exchange, peek_request
from gateway.limits import Limits
from gateway.policy import Profile, ReasoningField
from tests.exchange.driver import DONE, chat, delta, message, opened, plain, route, streamed

HIDDEN = route(reasoning_field=ReasoningField.NONE)
REQUEST = b'{"model":"m"}'


def headed(exchange: Exchange, kind: str = "application/json", *, encoding: str | None = None) -> Delivery:
    """The head of a 200 arrived."""
    return exchange.head(status=200, content_type=kind, content_encoding=encoding)


# ---------------------------------------------------------------------- the request


def test_a_request_goes_upstream_as_it_came() -> None:
    body = b'{ "model": "m", "temperature": 1.10 }'
    assert opened(body, route()).upstream_body is body


def test_the_facts_of_a_request_are_read_from_its_body() -> None:
    facts = peek_request(chat(), b'{"model":"m","stream":true}')
    assert facts is not None
    assert (facts.model, facts.stream) == ("m", True)


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b"{", b"\xff\xfe{\x00}\x00", b"[" * 5000])
def test_a_request_without_facts_is_relayed_and_counted(body: bytes) -> None:
    assert peek_request(chat(), body) is None
    exchange = opened(body, route())
    assert headed(exchange) is Delivery.RELAY
    assert dict(exchange.tally.uninspected) == {"request_not_json": 1}
    assert (exchange.data(b"x"), exchange.end()) == (b"x", Ending(b"", True))
    assert (exchange.inspected, exchange.fault) == (False, None)


@pytest.mark.parametrize("body", [b"\xff\xfe{\x00}\x00", b"no json"])
def test_the_answer_to_a_request_without_facts_is_read_where_reasoning_is_hidden(body: bytes) -> None:
    answer = plain(message(content="c", reasoning="t"), HIDDEN, request=body)
    assert (answer.said, answer.uninspected) == (("", "c"), {"request_not_json": 1})


# ---------------------------------------------------------------------- the head


@pytest.mark.parametrize(
    ("kind", "delivery"),
    [
        ("application/json", Delivery.WHOLE),
        ("Application/JSON; charset=utf-8", Delivery.WHOLE),
        ("text/event-stream", Delivery.STREAM),
        ("text/event-stream; charset=utf-8", Delivery.STREAM),
        (" TEXT/EVENT-STREAM ;x", Delivery.STREAM),
    ],
)
def test_json_is_read_whole_and_an_event_stream_as_it_comes(kind: str, delivery: Delivery) -> None:
    exchange = opened(REQUEST, route())
    assert headed(exchange, kind) is delivery
    assert dict(exchange.tally.uninspected) == {}


@pytest.mark.parametrize("encoding", ["identity", "Identity", "", None])
def test_an_identity_coding_is_none(encoding: str | None) -> None:
    assert headed(opened(REQUEST, route()), encoding=encoding) is Delivery.WHOLE


@pytest.mark.parametrize(
    ("kind", "encoding", "reason"),
    [
        ("application/json", "gzip", "content_encoding"),
        ("text/event-stream", "br", "content_encoding"),
        ("text/plain", None, "content_type"),
        ("application/octet-stream", None, "content_type"),
        ("", None, "content_type"),
    ],
)
def test_an_answer_that_cannot_be_read_is_relayed_and_counted_or_refused_where_reasoning_is_hidden(
    kind: str, encoding: str | None, reason: str
) -> None:
    exchange = opened(REQUEST, route())
    assert headed(exchange, kind, encoding=encoding) is Delivery.RELAY
    assert dict(exchange.tally.uninspected) == {reason: 1}
    assert (exchange.data(b"\x1f\x8b"), exchange.end().data) == (b"\x1f\x8b", b"")
    with pytest.raises(IntegrityError, match="could not read"):
        headed(opened(REQUEST, HIDDEN), kind, encoding=encoding)


@pytest.mark.parametrize("status", [201, 204, 400, 404, 429, 500, 503])
@pytest.mark.parametrize("rules", [route(), HIDDEN])
def test_anything_but_200_is_relayed(status: int, rules: Any) -> None:
    exchange = opened(REQUEST, rules)
    head = exchange.head(status=status, content_type="application/json", content_encoding=None)
    assert head is Delivery.RELAY
    assert exchange.data(b'{"error":{}}') == b'{"error":{}}'
    ending = exchange.broken(EngineTruncated("cut"))
    assert (ending.data, ending.complete, exchange.inspected) == (b"", False, False)


# ---------------------------------------------------------------------- a plain body


def test_a_plain_body_waits_for_its_end() -> None:
    body = message(content="<think>t</think>a")
    exchange = opened(REQUEST, route())
    headed(exchange)
    assert [exchange.data(body[:20]), exchange.data(body[20:])] == [b"", b""]
    ending = exchange.end()
    assert json.loads(ending.data)["choices"][0]["message"]["content"] == "a"
    assert (ending.complete, ending.headers) == (True, (("X-Integrity-Findings", "reasoning_leak=1,boundary_token=2"),))
    assert exchange.inspected


def test_a_clean_plain_answer_has_no_header_of_ours() -> None:
    assert plain(message(content="a")).headers == {}


def test_a_plain_body_over_the_cap_goes_out_as_it_came_and_is_counted() -> None:
    body = message(content="<think>t</think>a")
    exchange = opened(REQUEST, route(limits=Limits(response_body=len(body) - 1)))
    headed(exchange)
    assert [exchange.data(body[:20]), exchange.data(body[20:]), exchange.data(b" ")] == [b"", body, b" "]
    assert (exchange.end().data, exchange.end().complete) == (b"", True)
    assert dict(exchange.tally.uninspected) == {"response_body_cap": 1}


def test_a_plain_body_at_the_cap_is_read() -> None:
    body = message(content="<think>t</think>a")
    assert plain(body, route(limits=Limits(response_body=len(body)))).said == ("t", "a")


def test_a_plain_body_over_the_cap_is_refused_where_reasoning_is_hidden() -> None:
    exchange = opened(REQUEST, route(reasoning_field=ReasoningField.NONE, limits=Limits(response_body=9)))
    headed(exchange)
    with pytest.raises(IntegrityError, match="could not read"):
        exchange.data(message(content="a", reasoning="t"))


@pytest.mark.parametrize(
    ("rules", "left"), [(route(), b'{"choices"'), (route(profile=Profile.OBSERVE), b'{"choices"'), (HIDDEN, b"")]
)
def test_of_a_plain_body_that_breaks_off_the_part_that_came_goes_out_unless_reasoning_is_hidden(
    rules: Any, left: bytes
) -> None:
    exchange = opened(REQUEST, rules)
    headed(exchange)
    exchange.data(b'{"choices"')
    ending = exchange.broken(EngineTruncated("cut"))
    assert (ending.data, ending.complete) == (left, False)


# ---------------------------------------------------------------------- a stream


def test_a_stream_goes_out_read_by_read() -> None:
    exchange = opened(REQUEST, route())
    headed(exchange, "text/event-stream")
    reads = [delta(content="a"), delta(content="b"), delta(finish="stop") + DONE]
    assert [exchange.data(read) for read in reads] == reads
    assert (exchange.end(), exchange.inspected) == (Ending(b"", True), True)


def test_a_stream_that_breaks_off_ends_with_an_error_event_and_incomplete() -> None:
    exchange = opened(REQUEST, route())
    headed(exchange, "text/event-stream")
    exchange.data(delta(content="a<"))
    ending = exchange.broken(EngineTruncated("cut"))
    held, error = ending.data.split(b"\n\n")[:-1]
    assert json.loads(held[6:])["choices"][0]["delta"] == {"content": "<"}
    assert json.loads(error[6:])["error"]["code"] == "integrity_upstream_truncated"
    assert not ending.complete


def test_a_client_may_narrow_the_reasoning_field_but_not_lift_none() -> None:
    reads = [delta(reasoning="t"), delta(finish="stop"), DONE]
    for wanted, names in ((ReasoningField.REASONING_CONTENT, ["reasoning_content"]), (ReasoningField.NONE, [])):
        answer = streamed(reads, overrides=Overrides(reasoning_field=wanted))
        assert [name for fields in answer.deltas for name in fields] == names
    assert streamed(reads, HIDDEN, overrides=Overrides(reasoning_field=ReasoningField.BOTH)).deltas == []


def test_the_protocol_and_the_tally_of_an_exchange_are_known_from_the_start() -> None:
    exchange = open_exchange(protocol=chat(), body=REQUEST, facts=None, rules=route(), overrides=Overrides())
    assert exchange.protocol is chat()
    assert exchange.tally.report() == []


# ---------------------------------------------------------------------- what the server asks between two reads


def test_a_stream_says_why_it_lets_nothing_out_and_only_then() -> None:
    exchange = opened(REQUEST, route())
    assert exchange.holding is None
    headed(exchange, "text/event-stream")
    seen = [(exchange.data(delta(content=text)) == b"", exchange.holding) for text in ("a\n", "</thi", "ng>")]
    assert seen == [(False, None), (True, "marker"), (False, None)]


@pytest.mark.parametrize(
    ("rules", "kind", "interruptible"),
    [
        (route(), "text/event-stream", True),
        (route(), "application/json", False),
        (route(), "text/html", False),
        (route(profile=Profile.OBSERVE), "text/event-stream", False),
    ],
)
def test_a_comment_may_stand_only_in_a_stream_that_is_written_frame_by_frame(
    rules: Any, kind: str, interruptible: bool
) -> None:
    exchange = opened(REQUEST, rules)
    assert not exchange.interruptible
    headed(exchange, kind)
    assert exchange.interruptible is interruptible
    assert exchange.holding is None
