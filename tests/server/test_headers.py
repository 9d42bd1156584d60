"""Header fields on their way through: RFC 9110 section 7.6.1 both ways, and what is the gateway's own."""

from __future__ import annotations

import pytest

from gateway.server.headers import for_client, for_engine, phrase, request_head, response_head
from tests.support.gateways import gateway
from tests.support.http import fetch, get, post
from tests.support.upstream import engine, plain, saying

RFC_HOP_BY_HOP = [
    "Connection",
    "Keep-Alive",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "Proxy-Authenticate",
    "Proxy-Authorization",
]
"""RFC 9110 section 7.6.1 and the two proxy credentials of section 11.7."""


@pytest.mark.parametrize("name", RFC_HOP_BY_HOP)
@pytest.mark.parametrize("case", [str.lower, str.upper])
def test_hop_by_hop_fields_go_neither_way(name: str, case: type[str]) -> None:
    field = (case(name).encode(), b"x")
    assert for_engine([field, (b"A", b"1")], identity=False, upgrade=False) == [(b"A", b"1")]
    assert for_client([field, (b"A", b"1")]) == [(b"A", b"1")]


def test_fields_named_by_connection_go_neither_way() -> None:
    fields = [(b"Connection", b"close, X-Secret"), (b"connection", b"x-other"), (b"x-secret", b"1"), (b"X-Other", b"2")]
    assert for_engine([*fields, (b"X-Kept", b"3")], identity=False, upgrade=False) == [(b"X-Kept", b"3")]
    assert for_client([*fields, (b"X-Kept", b"3")]) == [(b"X-Kept", b"3")]


def test_names_order_doubles_and_octets_are_kept() -> None:
    fields = [(b"x-B", b"\xff\xe9"), (b"Set-Cookie", b"a=1"), (b"X-a", b""), (b"Set-Cookie", b"b=2")]
    assert for_client(fields) == fields
    assert for_engine(fields, identity=False, upgrade=False) == fields


def test_the_gateways_own_request_fields_stay_here() -> None:
    fields = [(b"X-Integrity-Report", b"1"), (b"x-integrity-profile", b"observe"), (b"Expect", b"100-continue")]
    assert for_engine(fields, identity=False, upgrade=False) == []


def test_an_answer_that_must_be_read_is_asked_for_without_coding() -> None:
    fields = [(b"Accept-Encoding", b"gzip"), (b"accept-encoding", b"br")]
    assert for_engine(fields, identity=True, upgrade=False) == [(b"Accept-Encoding", b"identity")]
    assert for_engine(fields, identity=False, upgrade=False) == fields


def test_an_upgrade_is_asked_for_again() -> None:
    fields = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Key", b"k")]
    assert for_engine(fields, identity=False, upgrade=True) == [
        (b"Sec-WebSocket-Key", b"k"),
        (b"Connection", b"Upgrade"),
        (b"Upgrade", b"websocket"),
    ]


def test_heads_are_written_as_rfc_9112_says() -> None:
    assert request_head("GET", b"/a?b", [(b"Host", b"h")]) == b"GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n"
    assert response_head(404, b"", [(b"A", b"1")], minor=0) == b"HTTP/1.0 404 Not Found\r\nA: 1\r\n\r\n"
    assert response_head(200, b"Fine", [], minor=1) == b"HTTP/1.1 200 Fine\r\n\r\n"
    assert (phrase(418), phrase(299)) == (b"I'm a Teapot", b"")


async def test_a_request_arrives_with_its_own_fields_and_the_engines_host() -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        sent = [
            "X-A: caf\xe9",
            "Connection: x-secret",
            "X-Secret: 1",
            "Authorization: Bearer t",
            "X-Integrity-Report: 1",
        ]
        await fetch(front.url, get("/v1/models", *sent))
        assert upstream.last.fields == [
            ("Host", upstream.url.removeprefix("http://")),
            ("X-A", "caf\xe9"),
            ("Authorization", "Bearer t"),
        ]


async def test_an_answer_arrives_with_its_own_fields_and_no_others() -> None:
    head = (
        b"HTTP/1.1 203 Very Fine\r\nServer: uvicorn\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nX-Odd: \xff\r\n"
        b"Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
    )
    async with engine(saying(plain(b"hello", head))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, get())
        assert answer.start == "HTTP/1.1 203 Very Fine"
        assert answer.fields == [
            ("Server", "uvicorn"),
            ("set-cookie", "a=1"),
            ("Set-Cookie", "b=2"),
            ("X-Odd", "\xff"),
            ("Content-Length", "5"),
        ]


@pytest.mark.parametrize(
    ("profile", "sent"), [("repair", "identity"), ("full", "identity"), ("observe", "br;q=1, gzip")]
)
async def test_only_a_profile_that_changes_answers_changes_accept_encoding(profile: str, sent: str) -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url, profile=profile) as front:
        await fetch(front.url, post(b"{}", "Accept-Encoding: br;q=1, gzip"))
        assert upstream.last.all("accept-encoding") == [sent]
        await fetch(front.url, get("/v1/models", "Accept-Encoding: br;q=1, gzip"))
        assert upstream.last.all("accept-encoding") == ["br;q=1, gzip"]


async def test_cookies_of_the_engine_are_not_stored() -> None:
    head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\n"
    async with engine(saying(plain(b"", head))) as upstream, gateway(upstream.url) as front:
        await fetch(front.url, get())
        await fetch(front.url, get())
        assert upstream.last.get("cookie") is None


@pytest.mark.parametrize("observed", [{"enforce_percent": 0}, {"request_overrides": ["profile"]}])
async def test_where_reasoning_is_hidden_an_observed_answer_must_be_readable_too(observed: dict[str, object]) -> None:
    hidden = {"policy": {"reasoning_field": "none"}, **observed}
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url, **hidden) as front:
        await fetch(front.url, post(b"{}", "Accept-Encoding: gzip", "X-Integrity-Profile: observe"))
        assert upstream.last.all("accept-encoding") == ["identity"]
