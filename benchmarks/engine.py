"""The benchmark's engine: answers chat requests with streams in vLLM's chunk shape at a pace the request asks for.

One event, one HTTP chunk, one write, as uvicorn sends them. What to play stands in the request's `vllm_xargs`, a field
that every proxy forwards: events, rate (events a second; 0: all at once), lock (all streams of one rate step
together, as a batch does), reasoning (the share of events that are thought), words. The chunk id is a nanosecond stamp.

    python -m benchmarks.engine PORT
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import uvloop

HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
HEALTHY = b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-length: 0\r\n\r\n"
ENVELOPE = (
    b'data: {"id":"chatcmpl-%019d","object":"chat.completion.chunk","created":1796054104,"model":"bench","choices":'
    b'[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s%s}]}\n\n'
)
WORDS = [" the", " model", " keeps", " one", " more", ",", " so", " it", " is", " right", ".", " And", " then"]
GOLDEN = 0.618034  # spreads the phases of streams evenly, however many there are


def chunked(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One streamed chunk, as vLLM 0.32 writes it."""
    words = json.dumps(delta, separators=(",", ":")).encode()
    tail = b',"stop_reason":null,"token_ids":null' if finish else b',"token_ids":null'
    return ENVELOPE % (time.monotonic_ns(), words, json.dumps(finish).encode(), tail)


class Step:
    """Calls all members together, `rate` times a second, as long as there are any."""

    running: ClassVar[dict[float, Step]] = {}

    def __init__(self, rate: float) -> None:
        self._period, self._members = 1 / rate, list[Callable[[], bool]]()
        self._rate, self._loop = rate, asyncio.get_running_loop()
        self._at = self._loop.time()

    @classmethod
    def join(cls, rate: float, member: Callable[[], bool]) -> None:
        """`member` is called each step until it returns False."""
        step = cls.running.get(rate)
        if step is None:
            step = cls.running[rate] = cls(rate)
            step._next()
        step._members.append(member)

    def _next(self) -> None:
        self._at += self._period
        self._loop.call_at(self._at, self._beat)

    def _beat(self) -> None:
        self._members = [member for member in self._members if member()]
        if self._members:
            self._next()
        else:
            del self.running[self._rate]


class Connection(asyncio.Protocol):
    """One keep-alive connection; one request at a time."""

    opened = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Remember where to write."""
        self._transport, self._received = transport, b""
        Connection.opened += 1
        self._phase = Connection.opened * GOLDEN % 1

    def data_received(self, data: bytes) -> None:
        """Collect one request and answer it."""
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if not blank or len(body) < (size := int(length[1]) if length else 0):
            return
        self._received = body[size:]
        if not head.startswith(b"POST"):
            self._transport.write(HEALTHY)
            return
        self._play(json.loads(body[:size])["vllm_xargs"])

    def _play(self, wish: dict[str, Any]) -> None:
        self._count, self._sent = wish["events"], 0
        self._thought = round(wish["reasoning"] * self._count)
        self._words = wish.get("words", WORDS)
        self._transport.write(HEAD + chunked(event({"role": "assistant", "content": ""})))
        rate = wish["rate"]
        if not rate:
            while self._emit():
                pass
        elif wish["lock"]:
            Step.join(rate, self._emit)
        else:
            loop = asyncio.get_running_loop()
            self._pace(loop, loop.time() + self._phase / rate, 1 / rate)

    def _pace(self, loop: asyncio.AbstractEventLoop, at: float, period: float) -> None:
        def tick() -> None:
            if self._emit():
                self._pace(loop, at + period, period)

        loop.call_at(at, tick)

    def _emit(self) -> bool:
        """Write the next event; False when it was the last, or nobody listens."""
        if self._transport.is_closing():
            return False
        if self._sent == self._count:
            self._transport.write(chunked(event({"content": ""}, "stop")) + chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            return False
        field = "reasoning" if self._sent < self._thought else "content"
        self._transport.write(chunked(event({field: self._words[self._sent % len(self._words)]})))
        self._sent += 1
        return True


async def serve(port: int) -> None:
    """Answer until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
