"""Is a stream of Anthropic Messages legal? From Anthropic's "Streaming Messages".

The flow it states: `message_start` with an empty message; blocks, one at a time, each `content_block_start`, deltas of
its type, `content_block_stop`, its index the one it has in the final message; `message_delta` with the top-level
changes; `message_stop`. `ping` anywhere. An `error` ends the stream. Every frame's name is the type of its event. A
client is to take types of events that it does not know.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.protocols.legal.flow import Flow, member, shown, text

DELTAS: Final = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
    "server_tool_use": ("input_json_delta",),
}
"""The deltas of a block, by its type; of other types nothing is said."""
EMPTY: Final[dict[str, tuple[str, Any]]] = {
    "text": ("text", ""),
    "thinking": ("thinking", ""),
    "tool_use": ("input", {}),
}
"""What a block begins with: a member and its value."""
REASONS: Final = (
    *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"),
    "model_context_window_exceeded",
)
START: Final[dict[str, Any]] = {"type": "message", "role": "assistant", "content": [], "stop_reason": None}
UNTIED: Final = ("message_start", "ping", "error")
"""The events that need no message before them."""


def violations(body: bytes, *, ended: bool = True) -> list[str]:
    """What is not legal in a stream of Messages; empty: nothing. `ended`: nothing of it is missing."""
    return Events().read(body, ended=ended)


class Events(Flow):
    """One stream."""

    def __init__(self) -> None:
        super().__init__()
        self._started = False
        self._open: tuple[int, str] | None = None  # index and type of the block that is open
        self._blocks = 0
        self._signed = False
        self._called = False
        self._reason: str | None = None
        self._read = {
            "message_start": self._message_start,
            "content_block_start": self._block_start,
            "content_block_delta": self._block_delta,
            "content_block_stop": self._block_stop,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
            "error": self._error,
        }

    def take(self, number: int, name: str, kind: str, value: dict[str, Any]) -> None:
        """One event."""
        self.say(kind and name == kind, f"its frame is named {shown(name)}, its type is {shown(value.get('type'))}")
        if kind in self._read:
            self.say(self._started or kind in UNTIED, "it comes before message_start")
            self._read[kind](value)

    def _message_start(self, event: dict[str, Any]) -> None:
        message = event.get("message")
        self.say(not self._started, "the message begins twice")
        for name, said in START.items():
            self.say(member(message, name) == said, f"the message begins with another {name}")
        self.say(member(message, "id"), "the message has no id")
        self.say(type(member(message, "usage", "output_tokens")) is int, "the message has no usage")
        self._started = True

    def _block_start(self, event: dict[str, Any]) -> None:
        index, kind = event.get("index"), text(member(event, "content_block", "type"))
        self.say(self._open is None, f"block {shown(index)} begins while another is open")
        self.say(index == self._blocks, f"block {shown(index)} is number {self._blocks}")
        self.say(self._reason is None, "a block begins behind the stop reason")
        begins, empty = EMPTY.get(kind, ("type", kind))
        self.say(
            member(event, "content_block", begins) == empty, f"a block of {shown(kind)} begins with {begins} in it"
        )
        if kind == "tool_use":
            named = member(event, "content_block", "id") and member(event, "content_block", "name")
            self.say(named, "a call begins without id or name")
            self._called = True
        self._open, self._signed = (index if type(index) is int else -1, kind), False
        self._blocks += 1

    def _block_delta(self, event: dict[str, Any]) -> None:
        index, kind = event.get("index"), text(member(event, "delta", "type"))
        if not self.say(self._open and self._open[0] == index, f"a delta of block {shown(index)}, which is not open"):
            return
        assert self._open is not None
        known = DELTAS.get(self._open[1], (kind,))
        self.say(kind in known, f"{shown(kind)} in a block of {shown(self._open[1])}")
        self.say(not self._signed, "a delta comes behind the signature")
        self._signed = kind == "signature_delta"

    def _block_stop(self, event: dict[str, Any]) -> None:
        index = event.get("index")
        self.say(self._open and self._open[0] == index, f"block {shown(index)} ends, which is not open")
        self._open = None

    def _message_delta(self, event: dict[str, Any]) -> None:
        reason, string = member(event, "delta", "stop_reason"), member(event, "delta", "stop_sequence")
        self.say(self._open is None, "a block is open")
        self.say(reason is None or reason in REASONS, f"the stop reason is {shown(reason)}")
        self.say(reason is None or self._reason is None, "there is a second stop reason")
        stopped = isinstance(string, str) if reason == "stop_sequence" else string is None
        self.say(stopped, f"the stop sequence is not that of {shown(reason)}")
        self.say(reason != "tool_use" or self._called, "the stop reason is tool_use and there is no call")
        self.say(type(member(event, "usage", "output_tokens")) is int, "it has no usage")
        self._reason = reason or self._reason

    def _message_stop(self, event: dict[str, Any]) -> None:
        self.say(self._reason is not None, "there was no stop reason")
        self.say(self._open is None, "a block is open")
        self.over = "message_stop"

    def _error(self, event: dict[str, Any]) -> None:
        self.say(self._open is None, "a block is open")
        told = member(event, "error", "type") and member(event, "error", "message")
        self.say(told, "the error has no type or no message")
        self.over = "error"
