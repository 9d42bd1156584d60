"""Routes nobody inspects: bytes both ways as they come, and which of them are forwarded at all."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.server.config import config_from_mapping
from gateway.server.connection import target_of
from gateway.server.routing import NoRoute, Routing
from tests.support.gateways import QUICK, gateway
from tests.support.http import connected, fetch, get, post
from tests.support.upstream import LAST_CHUNK, Talk, chunk, closing, engine, plain, saying

TARGETS = [
    "/v1/models?a=%2F&b=/&&c=%zz",
    "//v1//models",
    "/v1/../admin/%2e%2e/x;p=1",
    "/v1/models/org%2Fname",
    "/caf%C3%A9?q=%00+%20",
    "/?",
    "/a/generate/..",
]


@pytest.mark.parametrize("target", TARGETS)
async def test_a_raw_target_arrives_unchanged(target: str) -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        await fetch(front.url, get(target))
        assert upstream.last.start == f"GET {target} HTTP/1.1"


async def test_the_path_of_the_base_url_comes_before_the_target() -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url + "/base/") as front:
        await fetch(front.url, get("/v1/models?x"))
        assert upstream.last.target == "/base/v1/models?x"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "POST"])
async def test_every_method_is_forwarded(method: str) -> None:
    async with engine(saying(plain(b"ok"))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, f"{method} /v1/files HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        assert (answer.body, upstream.last.start) == (b"ok", f"{method} /v1/files HTTP/1.1")


async def test_a_body_with_a_length_arrives_with_it() -> None:
    body = bytes(range(256)) * 4
    async with engine(saying(plain(body))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, post(body, target="/v1/embeddings"))
        assert (upstream.last.body, upstream.last.all("content-length")) == (body, ["1024"])
        assert (answer.body, answer.all("content-length")) == (body, ["1024"])


async def test_a_chunked_body_arrives_chunked() -> None:
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with engine(saying(plain(b"ok"))) as upstream, gateway(upstream.url) as front:
        await fetch(front.url, head + chunk(b"abc") + chunk(b"d" * 100_000) + LAST_CHUNK)
        assert (upstream.last.body, upstream.last.get("content-length")) == (b"abc" + b"d" * 100_000, None)


async def test_a_large_body_is_not_held_back() -> None:
    """The engine sees the beginning of a body whose end the client has not sent."""
    seen = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"first")
        seen.set()
        await reader.readuntil(b"last")
        writer.write(plain(b"ok"))
        writer.close()

    server = await asyncio.start_server(script, "127.0.0.1", 0, limit=2_000_000)
    port = server.sockets[0].getsockname()[1]
    async with server, gateway(f"http://127.0.0.1:{port}") as front, connected(front.url) as client:
        client.send(b"PUT /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nfirst")
        await asyncio.wait_for(seen.wait(), 5)
        client.send(b"x" * (1_000_000 - 9) + b"last")
        assert (await client.answer()).body == b"ok"


async def test_an_engine_may_answer_before_it_has_read_the_body() -> None:
    """What was not sent of the body must not become the beginning of another request."""
    connections = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += (await reader.readuntil(b"\r\n\r\n")).startswith(b"PUT")  # or asks what the engine is
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server, gateway(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as front:
        for _ in range(2):
            async with connected(front.url) as client:
                client.send(b"PUT /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nx")
                answer = await client.answer()
                assert (answer.status, answer.body) == (413, b"big")
        assert connections == 2


async def test_a_streamed_answer_passes_as_it_comes() -> None:
    more = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"one"))
        await more.wait()
        await talk.say(chunk(b"two") + LAST_CHUNK)

    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(get("/v1/responses/resp_1?stream=true"))
        head = await client.head()
        assert head.all("transfer-encoding") == ["chunked"]
        assert await client.reader.readexactly(8) == chunk(b"one")
        more.set()
        assert await client.reader.readexactly(13) == chunk(b"two") + LAST_CHUNK


async def test_the_head_does_not_wait_for_the_body() -> None:
    async def script(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
        await talk.until_left()

    async with engine(script) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        client.send(get("/events"))
        assert (await client.head()).all("content-length") == ["5"]


async def test_an_answer_without_length_ends_with_the_engines_connection() -> None:
    async with engine(closing(b"HTTP/1.1 200 OK\r\n\r\nall of it")) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, get())
        assert (answer.body, answer.complete, answer.chunks) == (b"all of it", True, (b"all of it",))


async def test_the_answer_of_a_head_request_keeps_its_length() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n"
    async with engine(saying(head)) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        for _ in range(2):
            answer = await client.ask(b"HEAD /v1/models HTTP/1.1\r\nHost: h\r\n\r\n")
            assert (answer.all("content-length"), answer.all("transfer-encoding")) == (["1234"], [])


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_has_no_body_is_framed_without_one(status: int) -> None:
    head = b"HTTP/1.1 %d X\r\n\r\n" % status
    async with engine(saying(head)) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        for _ in range(2):
            answer = await client.ask(get())
            assert (answer.status, answer.fields) == (status, [])


async def test_redirects_are_the_clients_to_follow() -> None:
    head = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere/\r\n"
    async with engine(saying(plain(b"", head))) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, get("/v1/models", "Authorization: Bearer t"))
        assert (answer.status, answer.get("location"), len(upstream.seen)) == (307, "http://elsewhere/", 1)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_an_error_of_the_engine_passes_unchanged(status: int) -> None:
    head = b"HTTP/1.1 %d Odd\r\nRetry-After: 7\r\ncontent-type: text/html\r\n" % status
    async with engine(saying(plain(b"<b>no</b>", head))) as upstream, gateway(upstream.url) as front:
        for request in (get(), post(b'{"messages":[]}')):
            answer = await fetch(front.url, request)
            assert (answer.status, answer.get("retry-after"), answer.body) == (status, "7", b"<b>no</b>")
        kind = f"status_{status // 100}xx"
        assert await front.counted("upstream_requests_total", 2, attempt="1", outcome=kind)


async def test_an_http_1_0_client_gets_a_body_that_ends_with_the_connection() -> None:
    script = saying(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"abc") + LAST_CHUNK)
    async with engine(script) as upstream, gateway(upstream.url) as front:
        answer = await fetch(front.url, b"GET /v1/models HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n")
        assert (answer.start, answer.body, answer.fields) == ("HTTP/1.0 200 OK", b"abc", [])


async def test_an_http_1_0_client_may_keep_its_connection() -> None:
    async with engine(saying(plain(b"ok"))) as upstream, gateway(upstream.url) as front, connected(front.url) as client:
        for _ in range(2):
            answer = await client.ask(b"GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n")
            assert (answer.get("connection"), answer.body) == ("keep-alive", b"ok")


# ---------------------------------------------------------------- what is forwarded


def routing(*routes: dict[str, object], **config: object) -> Routing:
    found = routes or ({"upstream": "http://a:1"},)
    return Routing(config_from_mapping({**QUICK, "routes": [*found], **config}, source="test"))


SERVED = ["/health", "/v1/models", "/v1/models/org/name", "/v1/embeddings", "/tokenize", "/v1/messages/count_tokens"]
ADMIN = [
    "/sleep",
    "/update_weights",
    "/flush_cache",
    "/v1/load_lora_adapter",
    "/abort_request",
    "/start_profile",
    "/docs",
]
WALKS = ["/v1/models/../../sleep", "/v1/models/%2e%2e/%2e%2e/sleep", "/v1/models/%2E./sleep"]


@pytest.mark.parametrize(
    ("passthrough", "path", "status"),
    [
        *(("all", path, 200) for path in [*SERVED, *ADMIN, *WALKS]),
        *(("serving", path, 200) for path in SERVED),
        *(("serving", path, 404) for path in [*ADMIN, *WALKS]),
        (["/v1/*", "/x"], "/v1/anything", 200),
        (["/v1/*", "/x"], "/x", 200),
        (["/v1/*", "/x"], "/xy", 404),
        (["/v1/*", "/x"], "/v1/../y", 404),
    ],
)
async def test_passthrough_decides_which_routes_are_forwarded(passthrough: object, path: str, status: int) -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url, passthrough=passthrough) as front:
        answer = await fetch(front.url, get(path + "?q"))
        assert answer.status == status
        assert len(upstream.seen) == (status == 200)
        if status == 404:
            assert json.loads(answer.body)["error"]["code"] == "integrity_route_not_forwarded"
            assert front.count("rejected_requests_total", reason="route_not_forwarded") == 1


async def test_inspected_routes_are_forwarded_under_every_policy() -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url, passthrough=["/x"]) as front:
        assert (await fetch(front.url, post(b"{}", target="/pre/fix/v1/chat/completions"))).status == 200
        assert (await fetch(front.url, get("/v1/chat/completions"))).status == 404


def test_the_first_route_that_accepts_wins() -> None:
    found = routing(
        {"match": {"models": ["a*"]}, "upstream": "http://a:1"},
        {"match": {"headers": {"X-Team": "b"}}, "upstream": ["http://b:2", "http://c:3"]},
        {"match": {"models": ["*"]}, "upstream": "http://d:4"},
    )
    for model, headers, url in (
        ("abc", {"x-team": "b"}, "http://a:1"),
        ("x", {}, "http://d:4"),
        (None, {}, "http://d:4"),
    ):
        assert found.choose(path="/", model=model, headers=headers, inspected=False).targets == (target_of(url),)
    both = found.choose(path="/", model="x", headers={"x-team": "b"}, inspected=False)
    assert both.targets == (target_of("http://b:2"), target_of("http://c:3"))
    assert found.engines == tuple(map(target_of, ("http://a:1", "http://b:2", "http://c:3", "http://d:4")))


def test_an_unmatched_request_goes_to_the_only_engine_there_is() -> None:
    one = routing(*({"match": {"models": [model]}, "upstream": "http://a:1"} for model in "ab"))
    assert one.choose(path="/", model="c", headers={}, inspected=True).route is None
    assert one.choose(path="/", model="c", headers={}, inspected=True).targets == (target_of("http://a:1"),)


def test_an_unmatched_request_goes_to_the_first_engine_when_there_are_more() -> None:
    two = routing(*({"match": {"models": [m]}, "upstream": [f"http://{m}:1", f"http://{m}:2"]} for m in "ab"))
    assert two.choose(path="/", model="c", headers={}, inspected=True).route is None
    assert two.choose(path="/", model="c", headers={}, inspected=True).targets == (target_of("http://a:1"),)


def test_where_a_route_hides_reasoning_an_unmatched_answer_is_nobodys() -> None:
    hiding = {"match": {"models": ["a"]}, "upstream": "http://a:1", "policy": {"reasoning_field": "none"}}
    found = routing(hiding, {"match": {"models": ["b"]}, "upstream": "http://b:1"})
    assert found.choose(path="/", model=None, headers={}, inspected=False).targets == (target_of("http://a:1"),)
    with pytest.raises(NoRoute):
        found.choose(path="/", model=None, headers={}, inspected=True)


DISGUISED = [
    "/v1/chat/%63ompletions",
    "/v1/chat/%2563ompletions",
    "/v1/chat%2Fcompletions",
    "/v1/chat/completions#x",
    "/v1/models#/v1/chat/completions",
    "/v1//chat/completions",
    "/v1/chat/./completions",
    "/v1/x/../chat/completions",
    "/v1/chat/completions/",
    "/v1/chat/completions;a",
    "/v1/chat\\completions",
    "/V1/Chat/Completions",
]


@pytest.mark.parametrize("path", DISGUISED)
async def test_a_path_that_only_looks_uninspected_is_refused_where_reasoning_is_hidden(path: str) -> None:
    async with engine(saying(plain(b"{}"))) as upstream:
        async with gateway(upstream.url, policy={"reasoning_field": "none"}) as front:
            answer = await fetch(front.url, post(b"{}", target=path))
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "integrity_path_disguised")
            assert front.count("rejected_requests_total", reason="path_disguised") == 1
            assert (await fetch(front.url, post(b"{}", target="/v1/embeddings"))).status == 200
            assert (await fetch(front.url, post(b"{}", target="/v1/chat/completions?a=%63"))).status == 200
        async with gateway(upstream.url) as front:
            assert (await fetch(front.url, post(b"{}", target=path))).status == 200
            assert upstream.last.target == path


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/embeddings"])
async def test_the_model_of_the_body_chooses_the_engine(target: str) -> None:
    async with engine(saying(plain(b"{}"))) as one, engine(saying(plain(b"{}"))) as two:
        routes = [
            {"match": {"models": ["one"]}, "upstream": one.url},
            {"match": {"models": ["two"]}, "upstream": two.url},
        ]
        async with gateway("", routes=routes) as front:
            assert (await fetch(front.url, post(b'{"model":"two","messages":[]}', target=target))).status == 200
            assert (len(one.seen), len(two.seen)) == (0, 1)
            answer = await fetch(front.url, post(b'{"model":"three","messages":[]}', target=target))
            assert (answer.status, len(one.seen), len(two.seen)) == (200, 1, 1)
            broken = b'{"model":"two","messages"'
            assert (await fetch(front.url, post(broken, target=target))).status == 200
            assert (one.last.body, len(two.seen)) == (broken, 1)
            unread = 2 if target == "/v1/chat/completions" else 0
            assert front.count("passthrough_fallbacks_total", reason="no_route") == unread


async def test_an_unmatched_inspected_request_is_forwarded_untouched_and_counted() -> None:
    body = b'{"model": "other", "messages": []}'
    answer_body = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"<think>a</think>b"}}]}'
    async with engine(saying(plain(answer_body))) as upstream:
        routes = [{"match": {"models": ["this"]}, "upstream": upstream.url}]
        async with gateway("", routes=routes) as front:
            answer = await fetch(front.url, post(body))
            assert (upstream.last.body, answer.body) == (body, answer_body)
            assert front.count("passthrough_fallbacks_total", reason="no_route") == 1
