"""Log lines: one JSON object on one line, and what may never be in one (row F17)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.server import logs
from tests.support.gateways import gateway
from tests.support.http import fetch, get, post
from tests.support.upstream import LAST_CHUNK, SSE, chunk, engine, plain, saying

SECRETS = ("hunter2", "tell me a secret", "the secret answer", "k-123")


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Everything the process logs while the test runs."""
    root, level = logging.getLogger(), logs.LOGGER.level
    before = root.handlers[:]
    stream = io.StringIO()
    logs.log_to(stream)
    yield stream
    root.handlers[:] = before
    logs.LOGGER.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def failing() -> BaseException:
    try:
        raise KeyError("tell me a secret")
    except KeyError as error:
        return error


def test_a_line_has_its_event_its_fields_its_level_and_its_time(written: io.StringIO) -> None:
    logs.say("listening", listen="http://h:1", admin="http://h:2")
    (line,) = lines(written)
    assert list(line) == ["event", "listen", "admin", "level", "time"]
    assert (line["event"], line["listen"], line["level"]) == ("listening", "http://h:1", "info")
    assert line["time"].endswith("+00:00")


@pytest.mark.parametrize("text", ['a\n{"event":"forged"}', "\x1b[31mred", "\u2028\u2029\x85", "\ud800", '"', "\x00"])
def test_text_from_outside_cannot_make_a_line_or_a_colour(text: str, written: io.StringIO) -> None:
    logs.say("exchange", path=text)
    assert written.getvalue().isascii()
    assert "\x1b" not in written.getvalue()
    (line,) = lines(written)
    assert (line["event"], line["path"]) == ("exchange", text)


def test_an_exception_is_named_and_placed_and_not_quoted() -> None:
    text = logs.where(failing())
    assert text.startswith("KeyError at test_logs.py:")
    assert text.endswith(" in failing")
    assert logs.where(ValueError("tell me a secret")) == "ValueError"


def test_a_line_of_a_library_has_no_arguments_and_no_traceback(written: io.StringIO) -> None:
    logging.getLogger("asyncio").error("Task %s failed\nfuture: hunter2", "k-123", exc_info=failing())
    (line,) = lines(written)
    assert (line["event"], line["logger"], line["message"]) == ("library", "asyncio", "Task %s failed")
    assert line["error"].startswith("KeyError at ")
    assert not [secret for secret in SECRETS if secret in written.getvalue()]


def test_libraries_are_heard_from_warnings_on(written: io.StringIO) -> None:
    logging.getLogger("aiohttp").info("chatter")
    logging.getLogger("aiohttp").warning("trouble")
    assert [line["message"] for line in lines(written)] == ["trouble"]


async def test_an_exchange_is_one_line_without_text_prompt_or_credentials(written: io.StringIO) -> None:
    events = b'data: {"choices":[{"index":0,"delta":{"content":"<think>the secret answer</think>x"}}]}\n\n'
    script = saying(SSE + chunk(events) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK)
    request = post(
        b'{"messages":[{"role":"user","content":"tell me a secret"}],"stream":true}',
        "Authorization: Bearer hunter2",
        "X-Request-Id: id-1",
        target="/v1/chat/completions?api_key=k-123",
    )
    async with engine(script) as upstream, gateway(upstream.url) as front:
        await fetch(front.url, request)
        assert await front.counted("http_requests_total", route="chat", code="200")
    (line,) = [line for line in lines(written) if line["event"] == "exchange"]
    assert (line["id"], line["method"], line["path"]) == ("id-1", "POST", "/v1/chat/completions")
    assert (line["protocol"], line["route"], line["status"], line["outcome"]) == ("chat", "*", 200, "complete")
    assert "reasoning_leak=1" in line["findings"]
    assert not [secret for secret in SECRETS if secret in written.getvalue()]


async def test_a_request_without_an_id_gets_one_in_the_log_only(written: io.StringIO) -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        for _ in range(2):
            await fetch(front.url, get())
            assert upstream.last.get("x-request-id") is None
        await fetch(front.url, get("/", f"X-Request-Id: {'i' * 1000}"))
        assert await front.counted("http_requests_total", 3, route="other", code="200")
    ids = [line["id"] for line in lines(written) if line["event"] == "exchange"]
    assert len(set(ids)) == 3
    assert ids[2] == "i" * 128


async def test_an_error_says_which(written: io.StringIO) -> None:
    async with gateway("http://no-such-engine.invalid:1") as front:
        await fetch(front.url, get())
        assert await front.counted("http_requests_total", route="other", code="502")
    (line,) = [line for line in lines(written) if line["event"] == "exchange"]
    assert (line["outcome"], line["fault"]) == ("error", "integrity_upstream_unreachable")
