"""Stored answers that are fetched: read as they were when they were made, by what the response says of its request.

Contract section 6 (stored Responses), rules 1, 5, 6 and 7; reference/vllm.md 3.5 and 3.8, sglang.md 3.5.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import EngineTruncated, IntegrityError
from gateway.exchange import Delivery, Overrides, RouteRules, StoredExchange
from gateway.exchange.stored import MIDDLE
from gateway.limits import Limits
from gateway.policy import Profile, ReasoningField
from gateway.protocols import STORED
from gateway.protocols.legal.responses import violations
from gateway.rulebook.load import load_rulebook
from tests.exchange.driver import NO_OVERRIDES, dialect, findings, route
from tests.support import responses
from tests.support.responses import Piece, body, events_of, heard, stream, told

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: dict[str, Any] = {"tools": [{"type": "function", "name": "f", "parameters": CITY}], "tool_choice": "auto"}
OSLO = '{"city": "Oslo"}'
MARKUP = f'<tool_call>\n{{"name": "f", "arguments": {OSLO}}}\n</tool_call>'
CALLED = [("f", OSLO)]
HERMES = route(read_as=load_rulebook().resolve({"reasoning": "qwen3", "tools": "hermes"}, engine="vllm").dialect)
HIDDEN = replace(HERMES, policy=route(reasoning_field=ReasoningField.NONE).policy)
COMMENT = b": keep-alive\n\n"
LEAK: list[Piece] = [("content", "<think>Let me"), ("content", " think.</think>The answer"), ("content", " is 42.")]
LEAKS: dict[str, tuple[list[Piece], tuple[str, str, list[tuple[str, str]]]]] = {
    "thought": (LEAK, ("Let me think.", "The answer is 42.", [])),
    "closer": ([("reasoning", "a"), ("content", "</think>"), ("content", "b")], ("a", "b", [])),
    "call": ([("reasoning", "a"), ("call", ("c1", "f", [OSLO, "}"]))], ("a", "", CALLED)),
    "end of turn": ([("content", "b<|im_end|>")], ("", "b", [])),
}
HEADS = {"plain": "application/json", "stream": "text/event-stream; charset=utf-8"}


def echoed(sent: bytes, echo: dict[str, Any]) -> bytes:
    """A plain body, or a frame, whose response says more of its request."""
    head, data, rest = sent.rpartition(b"data: ") if sent.startswith(b"event: ") else (b"", b"", sent)
    value = json.loads(rest)
    (value.get("response", {}) if data else value).update(echo)
    return head + data + json.dumps(value, separators=(",", ":")).encode() + (b"\n\n" if data else b"")


class Client:
    """One fetch: what was written so far, and how it ended."""

    def __init__(
        self,
        rules: RouteRules = HERMES,
        *,
        kind: str = "stream",
        overrides: Overrides = NO_OVERRIDES,
        by_model: dict[str, RouteRules] | None = None,
        encoding: str | None = None,
    ) -> None:
        self.exchange = StoredExchange(
            protocol=STORED, body=b"", rules=rules, by_model=by_model or {}, overrides=overrides
        )
        self.delivery = self.exchange.head(status=200, content_type=HEADS[kind], content_encoding=encoding)
        self.body = b""
        self.complete: bool | None = None
        self.headers: dict[str, str] = {}

    def takes(self, reads: Iterable[bytes], *, broken: bool = False) -> Client:
        """The answer, to its end."""
        self.body += b"".join([self.exchange.data(read) for read in reads])
        ending = self.exchange.broken(EngineTruncated("it broke off")) if broken else self.exchange.end()
        self.body += ending.data
        self.complete, self.headers = ending.complete, dict(ending.headers)
        assert self.exchange.fault is None, self.exchange.fault
        return self

    @property
    def said(self) -> tuple[str, str, list[tuple[str, str]]]:
        """Reasoning, content and calls."""
        if self.body.startswith(b"{"):
            return told(json.loads(self.body)["output"])
        return heard([value for _, value in events_of(self.body)])

    @property
    def uninspected(self) -> dict[str, int]:
        """Why bytes went out unread."""
        return dict(self.exchange.tally.uninspected)


def fetched(pieces: list[Piece], rules: RouteRules = HERMES, *, stored: bool = True, **echo: Any) -> Client:
    """A plain answer. `stored`: it is over."""
    return Client(rules, kind="plain").takes([echoed(body(pieces, status="completed" if stored else "queued"), echo)])


def replayed(pieces: list[Piece], rules: RouteRules = HERMES, **echo: Any) -> Client:
    """A streamed one."""
    return Client(rules).takes([echoed(frame, echo) for frame in stream(pieces)])


# ---------------------------------------------------------------------- the same answer as when it was made


@pytest.mark.parametrize(("pieces", "said"), LEAKS.values(), ids=LEAKS.keys())
def test_an_answer_says_the_same_when_it_is_made_and_when_it_is_fetched(
    pieces: list[Piece], said: tuple[str, str, list[tuple[str, str]]]
) -> None:
    made = responses.plain(body(pieces), HERMES, request=TOOLS)
    seen = fetched(pieces, **TOOLS)
    assert (made.said, seen.said, replayed(pieces, **TOOLS).said) == (said, said, said)
    assert findings(seen.exchange) == made.findings
    assert (seen.complete, seen.exchange.model, seen.exchange.inspected) == (True, "m", True)
    assert "X-Integrity-Findings" in seen.headers


@pytest.mark.parametrize(("pieces", "said"), LEAKS.values(), ids=LEAKS.keys())
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_stream_is_the_same_at_every_chunking(
    pieces: list[Piece], said: tuple[str, str, list[tuple[str, str]]], size: int
) -> None:
    sent = COMMENT + b"".join([echoed(frame, TOOLS) for frame in stream(pieces)])
    seen = Client().takes([sent[at : at + size] for at in range(0, len(sent), size)])
    assert (seen.said, seen.complete, seen.exchange.model) == (said, True, "m")
    assert violations(seen.body, ended=True, ids=True) == []


@pytest.mark.parametrize("pieces", [[("reasoning", "Hm."), ("content", "42.")], [("call", ("c1", "f", [OSLO]))]])
def test_a_right_answer_keeps_every_byte(pieces: list[Piece]) -> None:
    sent = echoed(body(pieces), TOOLS)
    assert Client(kind="plain").takes([sent[:20], sent[20:]]).body == sent
    frames = [COMMENT, *[echoed(frame, TOOLS) for frame in stream(pieces)]]
    assert Client().takes(frames).body == b"".join(frames)


@pytest.mark.parametrize("pieces", [pieces for pieces, _ in LEAKS.values()], ids=LEAKS.keys())
def test_an_observed_answer_keeps_every_byte(pieces: list[Piece]) -> None:
    watched = replace(HERMES, policy=route(profile=Profile.OBSERVE).policy)
    assert fetched(pieces, watched).body == body(pieces)
    frames = [COMMENT, *[echoed(frame, TOOLS) for frame in stream(pieces)]]
    seen = Client(watched).takes(frames)
    assert seen.body == b"".join(frames)
    assert [action for action in findings(seen.exchange) if "/would_" in action]
    assert not seen.exchange.interruptible


# ---------------------------------------------------------------------- what the response says of its request


def test_the_response_tells_the_tools_and_the_choice() -> None:
    pieces: list[Piece] = [("content", "a"), ("call", ("c1", "f", ['{"city": "Oslo"']))]
    for seen in (fetched, replayed):
        assert seen(pieces, **TOOLS).said[2] == [("f", '{"city": "Oslo"}')]
        assert seen(pieces, **{**TOOLS, "tool_choice": "none"}).said == ("", "a", [])


def test_the_response_tells_that_thinking_is_off() -> None:
    pieces: list[Piece] = [("reasoning", "The answer is 42.")]
    off = {"reasoning": {"effort": "none"}}
    for seen in (fetched, replayed):
        assert seen(pieces, **off).said == ("", "The answer is 42.", [])
        assert seen(pieces, reasoning={"effort": "high"}).said == ("The answer is 42.", "", [])


def test_no_call_is_made_of_text_that_the_unknown_input_may_hold() -> None:
    """Contract rule 5, and THREAT_MODEL.md: every guard must hold, and whether it is an echo cannot be told."""
    pieces: list[Piece] = [("content", "b\n"), ("content", MARKUP)]
    assert responses.plain(body(pieces), HERMES, request=TOOLS).said == ("", "b\n", CALLED)
    for rules in (HERMES, replace(HERMES, source="text")):
        for answer in (fetched(pieces, rules, **TOOLS), replayed(pieces, rules, **TOOLS)):
            assert answer.said == ("", f"b\n{MARKUP}", [])
            assert findings(answer.exchange) == {"tool_markup_leak/left": 1}


def test_the_model_that_the_response_names_has_rules_of_its_own() -> None:
    pieces: list[Piece] = [("content", "[THINK]a[/THINK]b")]
    mistral = replace(HERMES, dialect=dialect("mistral"))
    for kind, sent in (("plain", [body(pieces)]), ("stream", stream(pieces))):
        assert Client(kind=kind, by_model={"m": mistral}).takes(sent).said == ("a", "b", [])
        assert Client(kind=kind, by_model={"n": mistral}).takes(sent).said == ("", "[THINK]a[/THINK]b", [])


def test_the_request_goes_upstream_as_it_came() -> None:
    full = StoredExchange(protocol=STORED, body=b"{ }", rules=HERMES, by_model={}, overrides=NO_OVERRIDES)
    assert (full.upstream_body, full.model) == (b"{ }", None)


def test_the_client_gets_its_report() -> None:
    seen = Client(kind="plain", overrides=Overrides(report=True)).takes([body(LEAK)])
    assert json.loads(seen.body)["integrity"]["findings"][0]["finding"] == "reasoning_leak"
    seen = Client(overrides=Overrides(report=True)).takes(stream(LEAK))
    assert events_of(seen.body)[-1][1]["response"]["integrity"]["attempts"] == 1


# ---------------------------------------------------------------------- what is not over


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_of_an_answer_that_is_not_over_nothing_is_suppressed_and_no_call_made(status: str) -> None:
    policy = replace(HERMES.policy, dedup=replace(HERMES.policy.dedup, min_length=1))
    for pieces in ([("reasoning", "Hi."), ("content", "Hi.")], [("content", MARKUP)], [("reasoning", "Hi.")]):
        sent = echoed(body(pieces, status=status), {**TOOLS, "reasoning": {"effort": "none"}})
        seen = Client(replace(HERMES, policy=policy), kind="plain").takes([sent])
        assert (seen.body, seen.complete) == (sent, True)
        assert "empty_response/flagged" not in findings(seen.exchange)


def test_what_leaked_so_far_is_moved_and_the_status_stays() -> None:
    seen = fetched([("content", "<think>a")], stored=False)
    assert (seen.said, json.loads(seen.body)["status"]) == (("a", "", []), "queued")
    assert findings(seen.exchange) == {"reasoning_leak/moved": 1, "boundary_token/stripped": 1}


def test_a_cancelled_answer_did_not_end_by_itself() -> None:
    sent = echoed(body([("content", MARKUP)], status="cancelled"), TOOLS)
    assert Client(kind="plain").takes([sent]).body == sent


@pytest.mark.parametrize("cut", range(2, 7))
def test_a_stream_that_stops_halfway_loses_nothing_and_does_not_end_as_complete(cut: int) -> None:
    frames = stream([("reasoning", "a"), ("content", "b"), ("content", "c")])[: cut + 2]
    seen = Client().takes(frames, broken=True)
    assert (seen.said, seen.complete) == (heard([v for _, v in events_of(b"".join(frames))]), False)
    assert events_of(seen.body)[-1][1]["type"] in ("error", "response.failed")


# ---------------------------------------------------------------------- what cannot be read


@pytest.mark.parametrize("start", [2, 4, 6])
@pytest.mark.parametrize("before", [b"", COMMENT])
def test_a_stream_that_begins_in_the_middle_is_relayed_and_counted(start: int, before: bytes) -> None:
    """`starting_after`: its first event carries no response."""
    sent = before + b"".join(stream(LEAK)[start:])
    for size in (1, 40, 100_000):
        seen = Client().takes([sent[at : at + size] for at in range(0, len(sent), size)])
        assert (seen.body, seen.complete, seen.uninspected) == (sent, True, {MIDDLE: 1})
        assert (seen.exchange.inspected, seen.exchange.interruptible, seen.exchange.model) == (False, False, None)


def test_a_relayed_stream_that_breaks_off_does_not_end_as_complete() -> None:
    sent = b"".join(stream(LEAK)[2:5])
    seen = Client().takes([sent], broken=True)
    assert (seen.body, seen.complete) == (sent, False)


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("overrides", [NO_OVERRIDES, Overrides(observe=True)])
def test_where_reasoning_is_hidden_a_stream_that_begins_in_the_middle_ends_with_an_error(
    overrides: Overrides, broken: bool
) -> None:
    seen = Client(HIDDEN, overrides=overrides)
    assert seen.exchange.interruptible
    seen.takes([COMMENT, *stream(LEAK)[2:]], broken=broken)
    assert (seen.complete, seen.uninspected) == (False, {MIDDLE: 1})
    assert seen.body.startswith(COMMENT)
    [(_, error)] = events_of(seen.body)
    assert error["code" if error["type"] == "error" else "response"]
    assert b"think" not in seen.body
    assert not seen.exchange.interruptible


def test_the_client_alone_may_hide_reasoning() -> None:
    seen = Client(overrides=Overrides(reasoning_field=ReasoningField.NONE)).takes(stream(LEAK)[2:])
    assert (b"think" in seen.body, seen.complete) == (False, False)


@pytest.mark.parametrize("kind", HEADS)
def test_hidden_reasoning_stays_hidden_when_it_is_fetched(kind: str) -> None:
    pieces: list[Piece] = [("reasoning", "secret"), ("content", "<think>secret</think>b")]
    seen = Client(HIDDEN, kind=kind).takes([body(pieces)] if kind == "plain" else stream(pieces))
    assert (seen.said, b"secret" in seen.body, seen.complete) == (("", "b", []), False, True)


def test_events_before_the_end_that_carry_the_response_can_be_read() -> None:
    said = LEAKS["thought"][1]
    assert Client().takes(stream(LEAK)[1:]).said == said
    [(_, last)] = events_of(Client().takes(stream(LEAK)[-1:]).body)
    assert told(last["response"]["output"]) == said


@pytest.mark.parametrize("sent", [b"no json", b"[]", b'"x"', b'{"object":"list","data":[]}'])
def test_a_body_that_is_no_response_is_relayed_or_refused_where_reasoning_is_hidden(sent: bytes) -> None:
    seen = Client(kind="plain").takes([sent])
    assert (seen.body, seen.complete, sum(seen.uninspected.values())) == (sent, True, 1)
    with pytest.raises(IntegrityError, match="could not read"):
        Client(HIDDEN, kind="plain").takes([sent])


@pytest.mark.parametrize("sent", [b"data: no json\n\n", b'data: {"response":null}\n\n', b"data: [1]\n\n"])
def test_a_first_event_that_is_none_is_no_beginning(sent: bytes) -> None:
    seen = Client().takes([sent])
    assert (seen.body, seen.uninspected) == (sent, {MIDDLE: 1})


def test_what_is_no_event_stream_is_relayed_or_ends_with_an_error() -> None:
    sent = [b"<html>\n\n</html>\n\n", *stream(LEAK)]
    seen = Client().takes([b"".join(sent)])
    assert (seen.body.startswith(sent[0]), seen.uninspected["no_event"]) == (True, 2)
    hidden = Client(HIDDEN).takes(sent)
    assert (b"html" in hidden.body, b"think" in hidden.body, hidden.complete) == (False, False, False)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("broken", [False, True])
def test_an_answer_without_a_response_ends_as_it_did(kind: str, broken: bool) -> None:
    sent = body(LEAK)[:40] if kind == "plain" else stream(LEAK)[0][:40]
    seen = Client(kind=kind).takes([sent], broken=broken)
    if kind == "plain":
        assert (seen.body, seen.complete) == (sent, not broken)
    else:
        assert (b"response.created" in seen.body, seen.complete) == (False, False)


def test_a_body_over_its_cap_is_relayed_and_counted_or_refused() -> None:
    sent = body(LEAK)
    limits = Limits(response_body=len(sent) - 1)
    seen = Client(replace(HERMES, limits=limits), kind="plain").takes([sent[:9], sent[9:], b" "])
    assert (seen.body, seen.uninspected) == (sent + b" ", {"response_body_cap": 1})
    with pytest.raises(IntegrityError, match="could not read"):
        Client(replace(HIDDEN, limits=limits), kind="plain").takes([sent])
    assert Client(replace(HERMES, limits=Limits(response_body=len(sent))), kind="plain").takes([sent]).said[1]


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_first_event_over_its_cap_is_relayed_and_counted(size: int) -> None:
    sent = b"".join(stream(LEAK))
    rules = replace(HERMES, limits=Limits(sse_event=100, sse_line=100))
    seen = Client(rules).takes([sent[at : at + size] for at in range(0, len(sent), size)])
    assert (seen.body, seen.uninspected) == (sent, {"frame_too_large": 1})


@pytest.mark.parametrize(("kind", "encoding"), [("plain", "gzip"), ("stream", "br")])
def test_an_encoded_answer_is_relayed(kind: str, encoding: str) -> None:
    seen = Client(kind=kind, encoding=encoding)
    assert (seen.delivery, seen.exchange.holding) == (Delivery.RELAY, None)
    assert (seen.takes([b"\x1f"]).body, seen.uninspected) == (b"\x1f", {"content_encoding": 1})


def test_an_error_of_the_engine_passes() -> None:
    exchange = StoredExchange(protocol=STORED, body=b"", rules=HIDDEN, by_model={}, overrides=NO_OVERRIDES)
    assert exchange.head(status=404, content_type="application/json", content_encoding=None) is Delivery.RELAY
    assert (exchange.data(b"{}"), exchange.end().data) == (b"{}", b"")
