"""The load: streams of chat requests over keep-alive connections, each event counted and its latency taken.

An answer counts as complete only with every event, `[DONE]` and the last HTTP chunk.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
    b"%sContent-Length: %d\r\n\r\n%s"
)
STAMP = slice(len(b'data: {"id":"chatcmpl-'), len(b'data: {"id":"chatcmpl-') + 19)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`streams` at once, each of `events` at `rate` a second; `reasoning`: the share of events that are thought."""

    name: str
    streams: int
    events: int
    rate: float
    lock: bool
    reasoning: float

    def payload(self, *, headers: bytes = b"", **more: object) -> bytes:
        """One HTTP request; `headers` are whole lines, `more` goes into the engine's wish."""
        wish = {"events": self.events, "rate": self.rate, "lock": self.lock, "reasoning": self.reasoning, **more}
        messages = [{"role": "user", "content": "go"}]
        body = json.dumps({"model": "bench", "stream": True, "messages": messages, "vllm_xargs": wish}).encode()
        return HEAD % (headers, len(body), body)


@dataclass(slots=True)
class Outcome:
    """`events` seen in all, streams that were `complete`, and latencies in nanoseconds."""

    events: int = 0
    complete: int = 0
    latencies: list[int] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Microseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e3 if ordered else float("nan")


class Stream(asyncio.Protocol):
    """One request and its answer."""

    def __init__(self, payload: bytes, expected: int, outcome: Outcome) -> None:
        self._payload, self._expected, self._outcome = payload, expected, outcome
        self._raw, self._tail, self._events = b"", b"", 0
        self._head_seen = self._done_seen = False
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send the request."""
        self._transport = transport
        transport.write(self._payload)

    def data_received(self, data: bytes) -> None:
        """Count what came."""
        now = time.monotonic_ns()
        self._raw += data
        if not self._head_seen:
            head, blank, rest = self._raw.partition(b"\r\n\r\n")
            if not blank:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                self._transport.close()
                return
            self._head_seen, self._raw = True, rest
        body, ended = self._dechunk()
        *frames, self._tail = (self._tail + body).split(b"\n\n")
        for frame in frames:
            if frame.startswith(b"data: {"):
                self._events += 1
                self._outcome.latencies.append(now - int(frame[STAMP]))
            elif frame == b"data: [DONE]":
                self._done_seen = True
        if ended:
            self._transport.close()
            self._outcome.complete += self._done_seen and self._events == self._expected

    def _dechunk(self) -> tuple[bytes, bool]:
        """The whole chunks received, without framing, and whether the last one was among them."""
        pieces, at, size = [], 0, -1
        while size and (line := self._raw.find(b"\r\n", at)) >= 0:
            size = int(self._raw[at:line], 16)
            if len(self._raw) < line + size + 4:
                size = -1
                break
            pieces.append(self._raw[line + 2 : line + 2 + size])
            at = line + size + 4
        self._raw = self._raw[at:]
        return b"".join(pieces), size == 0

    def connection_lost(self, error: Exception | None) -> None:
        """Over, complete or not."""
        self._outcome.events += self._events
        if not self.over.done():
            self.over.set_result(None)


async def drive(port: int, load: Load, **more: Any) -> Outcome:
    """Run `load` against a loopback port. Raises TimeoutError past four times its own pace plus ten seconds."""
    outcome, loop = Outcome(), asyncio.get_running_loop()
    payload = load.payload(**more)
    opened = [
        (await loop.create_connection(lambda: Stream(payload, load.events + 2, outcome), "127.0.0.1", port))[1]
        for _ in range(load.streams)
    ]
    async with asyncio.timeout(10 + 4 * load.events / (load.rate or 1_000)):
        await asyncio.gather(*(stream.over for stream in opened))
    return outcome
