"""Is a stream of Anthropic Messages legal? Written from Anthropic's "Streaming Messages", not from our encoder.

The flow it states: `message_start` with an empty message; blocks, one at a time, each `content_block_start`, deltas of
its type, `content_block_stop`, its index the one it has in the final message; `message_delta` with the top-level
changes; `message_stop`. `ping` anywhere. An `error` ends the stream. Every frame's event name is its type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

DELTAS = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
    "server_tool_use": ("input_json_delta",),
}
EMPTY = {"text": {"text": ""}, "thinking": {"thinking": ""}, "tool_use": {"input": {}}}
REASONS = (
    *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"),
    "model_context_window_exceeded",
)


def frames(body: bytes) -> Iterator[tuple[str, Any]]:
    """Event name and parsed data of every frame. Comments are left out, and data that is no object."""
    for frame in body.replace(b"\r\n", b"\n").decode("utf-8", "surrogatepass").split("\n\n"):
        lines = [line.partition(":") for line in frame.split("\n") if line and not line.startswith(":")]
        fields = {name: value.removeprefix(" ") for name, _, value in lines}
        if fields.get("data", "").startswith("{"):
            yield fields.get("event", ""), json.loads(fields["data"])


class Flow:
    """Reads one event after the other. `wrong`: what is not legal, in order."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.over = ""
        self._started = False
        self._open: tuple[int, str] | None = None
        self._blocks = 0
        self._signed = False
        self._input = ""
        self._called = False
        self._reason: str | None = None

    def take(self, name: str, event: dict[str, Any]) -> None:
        """One event."""
        kind = event.get("type")
        if name != kind:
            self._no(f"event {name!r} has type {kind!r}")
        if self.over:
            self._no(f"{kind} behind {self.over}")
        if kind not in ("message_start", "ping", "error") and not self._started:
            self._no(f"{kind} before message_start")
        read = getattr(self, f"_{kind}", None)
        if read:
            read(event)
        elif kind != "ping":
            self._no(f"{kind} is no event")

    def _no(self, why: str) -> None:
        self.wrong.append(why)

    def _message_start(self, event: dict[str, Any]) -> None:
        message = event["message"]
        said = {name: message[name] for name in ("type", "role", "content", "stop_reason")}
        if said != {"type": "message", "role": "assistant", "content": [], "stop_reason": None} or self._started:
            self._no(f"message_start: {said}")
        if not message["id"] or "output_tokens" not in message["usage"]:
            self._no("message_start without id or usage")
        self._started = True

    def _content_block_start(self, event: dict[str, Any]) -> None:
        index, block = event["index"], event["content_block"]
        if self._open:
            self._no(f"block {index} begins while {self._open} is open")
        if index != self._blocks:
            self._no(f"block {index} is number {self._blocks}")
        if self._reason:
            self._no("a block behind the stop reason")
        for member, empty in EMPTY.get(block["type"], {}).items():
            if block[member] != empty:
                self._no(f"{block['type']} begins with {member} in it")
        if block["type"] == "tool_use" and not (block["id"] and block["name"]):
            self._no("a call without id or name")
        self._called = self._called or block["type"] == "tool_use"
        self._open, self._blocks, self._signed, self._input = (index, block["type"]), self._blocks + 1, False, ""

    def _content_block_delta(self, event: dict[str, Any]) -> None:
        index, delta = event["index"], event["delta"]
        kind = self._open[1] if self._open and self._open[0] == index else None
        if kind is None:
            self._no(f"a delta of block {index}, open is {self._open}")
        elif delta["type"] not in DELTAS.get(kind, ()):
            self._no(f"{delta['type']} in a block of {kind}")
        if self._signed:
            self._no("a delta behind the signature")
        self._signed = delta["type"] == "signature_delta"
        self._input += delta.get("partial_json", "")

    def _content_block_stop(self, event: dict[str, Any]) -> None:
        if self._open is None or self._open[0] != event["index"]:
            self._no(f"block {event['index']} ends, open is {self._open}")
        self._open = None

    def _message_delta(self, event: dict[str, Any]) -> None:
        reason, string = event["delta"]["stop_reason"], event["delta"].get("stop_sequence")
        if self._open:
            self._no(f"message_delta while {self._open} is open")
        if reason not in (*REASONS, None) or (reason and self._reason):
            self._no(f"stop reason {reason!r} behind {self._reason!r}")
        if isinstance(string, str) != (reason == "stop_sequence") or not (string is None or isinstance(string, str)):
            self._no(f"stop sequence {string!r} of {reason!r}")
        if reason == "tool_use" and not self._called:
            self._no("tool_use without a call")
        if type(event["usage"]["output_tokens"]) is not int:
            self._no("message_delta without usage")
        self._reason = reason or self._reason

    def _message_stop(self, event: dict[str, Any]) -> None:
        if self._reason is None or self._open:
            self._no("message_stop without an end before it")
        self.over = "message_stop"

    def _error(self, event: dict[str, Any]) -> None:
        if self._open:
            self._no(f"an error while {self._open} is open")
        if not (event["error"]["type"] and event["error"]["message"]):
            self._no("an error that says nothing")
        self.over = "error"


def violations(body: bytes) -> list[str]:
    """What is not legal in a whole streamed answer; empty: nothing."""
    flow = Flow()
    for name, event in frames(body):
        flow.take(name, event)
    return flow.wrong if flow.over else [*flow.wrong, "the stream does not end"]
