"""What a protocol module offers the exchange: values decoded from its wire shapes, and the wire shapes made again.

Protocols know nothing of findings, dialects or policies: they name fields, never judge text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

from gateway.errors import IntegrityError

Said = tuple[str, str]
"""One piece of an answer: a channel of `gateway.events`, and its text."""


class NotThisProtocol(ValueError):
    """Bytes that are no message of the protocol: they are forwarded as they came, and counted."""


@dataclass(slots=True)
class Part:
    """What one choice says in one frame (a stream's delta, or the whole message of a plain body).

    `place`: its position in the frame. `index`: the choice it belongs to, as sent. `names`: the reasoning fields that
    carry text, by name. `stop_reason`: as sent, any JSON value. `fields`: the parsed members the text stands in.
    """

    place: int
    index: int
    reasoning: str
    content: str
    names: tuple[str, ...]
    tools: bool
    refusal: bool
    finish: str | None
    stop_reason: Any
    fields: dict[str, Any]
    choice: dict[str, Any]


@dataclass(slots=True)
class Message:
    """One decoded frame. `odd`: the text may hold surrogate halves. `error`: the engine reports a failure."""

    data: bytes
    value: dict[str, Any]
    parts: list[Part]
    error: bool
    odd: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What a request says that matters for its answer.

    `thinking`: `on`, `off` or `unknown` (contract section 3). `wants_reasoning`: the client explicitly asked to see it
    (reader_spec 5.4). `hides_reasoning`: the client asked not to. `unsplit`: the client asked for the text with the
    thought and its markers in it. `constrained`: the answer has to follow a schema, a grammar or a forced tool call, so
    that a repeat of the reasoning is no accident.
    """

    model: str | None
    stream: bool
    thinking: str
    wants_reasoning: bool
    hides_reasoning: bool
    unsplit: bool
    constrained: bool


class WireProtocol(Interface):
    """One protocol. `names`: the reasoning fields to write."""

    name: str
    done: bytes

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What the request says."""

    def decode_event(self, data: bytes) -> Message:
        """One stream event. Raises NotThisProtocol."""

    def decode_body(self, body: bytes) -> Message:
        """A whole plain body. Raises NotThisProtocol."""

    def rename(self, message: Message, names: tuple[str, ...]) -> bytes | None:
        """The frame with its reasoning under `names` and nothing else changed; None when it is so already."""

    def rewrite(self, message: Message, pieces: dict[int, list[Said]], names: tuple[str, ...]) -> list[bytes]:
        """The events that say `pieces` (by place) in stead of the parts' own text; other parts keep their bytes."""

    def rewrite_body(self, message: Message, pieces: dict[int, list[Said]], names: tuple[str, ...]) -> bytes:
        """The plain body that says `pieces` in stead of the parts' own text."""

    def add_report(self, body: bytes, report: object) -> bytes:
        """A plain body with the report in its place."""

    def text_event(self, like: Message | None, index: int, channel: str, text: str, names: tuple[str, ...]) -> bytes:
        """An event of our own that carries one piece of text."""

    def finish_event(self, like: Message | None, index: int, reason: str) -> bytes:
        """An event of our own that ends a choice."""

    def report_event(self, like: Message | None, report: object) -> bytes:
        """An event of our own that carries the report."""

    def error_body(self, error: IntegrityError) -> bytes:
        """A gateway error as a plain body."""

    def error_event(self, error: IntegrityError) -> bytes:
        """A gateway error inside a stream."""
