"""The chat client of `demo`: asks for a streamed answer, keeps what a client has of it. Knows no case, no terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from gateway.integrity.tally import NOT_DONE
from gateway.limits import Limits
from gateway.streams.sse import SSEReader

CHAT = "/v1/chat/completions"
REASONING_FIELDS = ("reasoning", "reasoning_content")
LIMITS = Limits()


@dataclass(slots=True)
class Found:
    """One finding of the gateway's report, its lines added up. `delivered`: how many of them reached the client."""

    count: int = 0
    delivered: int = 0
    markers: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """One tool call as far as it has come."""

    name: str = ""
    arguments: str = ""

    def add(self, piece: Mapping[str, Any]) -> None:
        """Reads what one event says of it."""
        self.name += piece.get("name") or ""
        self.arguments += piece.get("arguments") or ""


@dataclass(slots=True)
class Answer:
    """One streamed answer so far. `fields`: text by delta field. `finish`: its finish reason.

    `ended`: `[DONE]` came. `error`: why no more comes.
    """

    fields: dict[str, str] = field(default_factory=lambda: dict.fromkeys(("content", *REASONING_FIELDS), ""))
    finish: str | None = None
    findings: dict[str, Found] = field(default_factory=dict)
    error: str = ""
    ended: bool = False
    _calls: dict[int, Call] = field(default_factory=dict)

    @property
    def calls(self) -> tuple[str, ...]:
        """Its tool calls, as a case expects them (`gateway.scripted_engine.Case`)."""
        return tuple(f"{call.name}({call.arguments})" for _, call in sorted(self._calls.items()))

    @property
    def content(self) -> str:
        return self.fields["content"]

    @property
    def reasoning(self) -> str:
        """The thought, under whichever name it came."""
        return self.fields["reasoning"] or self.fields["reasoning_content"]

    def take(self, data: bytes) -> None:
        """Reads the data of one event. Raises ValueError where it is no JSON."""
        if data == b"[DONE]":
            self.ended = True
            return
        event = json.loads(data)
        if "error" in event:
            self.error = str(event["error"].get("message"))
        for line in event.get("integrity", {}).get("findings", ()):
            self._count(line)
        for choice in event.get("choices", ()):
            for name in self.fields:
                self.fields[name] += choice["delta"].get(name) or ""
            for piece in choice["delta"].get("tool_calls") or ():
                self._calls.setdefault(piece["index"], Call()).add(piece.get("function", {}))
            self.finish = choice.get("finish_reason") or self.finish

    def _count(self, line: Mapping[str, Any]) -> None:
        found = self.findings.setdefault(line["finding"], Found())
        found.count += line["count"]
        if line["action"] in NOT_DONE:
            found.delivered += line["count"]
        if "marker" in line and line["marker"] not in found.markers:
            found.markers.append(line["marker"])


async def ask(
    session: aiohttp.ClientSession, url: str, body: Mapping[str, Any], answer: Answer, changed: Callable[[], None]
) -> None:
    """Streams one answer into `answer`, its report included; `changed` is called after every read.

    Nothing is raised for an engine or gateway that fails: `answer.error` says what happened.
    """
    reader = SSEReader(max_line=LIMITS.sse_line, max_event=LIMITS.sse_event)
    try:
        async with session.post(url + CHAT, json=body, headers={"X-Integrity-Report": "1"}) as response:
            if response.status != 200:
                answer.error = f"HTTP {response.status}"
                return
            async for chunk in response.content.iter_any():
                for frame in reader.feed(chunk):
                    if frame.data:
                        answer.take(frame.data)
                changed()
    except aiohttp.ClientError as error:
        answer.error = type(error).__name__
