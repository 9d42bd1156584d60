"""What a protocol module offers the exchange: values decoded from its wire shapes, and the wire shapes made again.

Protocols know nothing of findings, dialects or policies: they name fields, never judge text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final
from typing import Protocol as Interface

from gateway.errors import IntegrityError
from gateway.limits import Limits
from gateway.streams.grammar import Grammar

Said = tuple[str, str]
"""One piece of an answer: a channel of `gateway.events`, and its text."""

UNSAID: Final = object()
"""The stop reason of a choice whose engine has no member for it; None is an engine's word that no stop string fired."""


class NotThisProtocol(ValueError):
    """Bytes that are no message of the protocol: they are forwarded as they came, and counted."""


@dataclass(slots=True)
class Part:
    """What one choice says in one frame (a stream's delta, or the whole message of a plain body).

    `place`: its position in the frame. `index`: the choice it belongs to, as sent. `names`: the reasoning fields that
    carry text, by name. `no_calls`: an empty list of tool calls was sent. `stop_reason`: as sent, any JSON value, or
    `UNSAID`. `refusal`: it answers with something that is no text: a refusal, or sound. `fields`: the parsed members
    the text stands in, `choice` those of the whole choice.
    """

    place: int
    index: int
    reasoning: str
    content: str
    names: tuple[str, ...]
    tools: bool
    no_calls: bool
    refusal: bool
    finish: str | None
    stop_reason: Any
    fields: dict[str, Any]
    choice: dict[str, Any]


@dataclass(slots=True)
class Message:
    """One decoded frame. `odd`: the text may hold surrogate halves. `error`: the engine reports a failure. `head`: what
    frames of our own repeat of it, once it was asked for.
    """

    data: bytes
    value: dict[str, Any]
    parts: list[Part]
    error: bool
    odd: bool
    head: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRule:
    """What becomes of earlier assistant turns.

    `keep`: of their reasoning: `keep`, `strip` or `tool_loop`. `field`: the member the engine reads, None where the
    engine is not known and names stay. `grammar`: how a thought leaked into a turn's content is told, or None.
    `repair_arguments`: tool call arguments that are no JSON are replaced, not only counted.
    """

    keep: str
    field: str | None
    grammar: Grammar | None
    repair_arguments: bool
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What a request says that matters for its answer.

    `thinking`: `on`, `off` or `unknown` (contract section 3). `wants_reasoning`: the client explicitly asked to see it
    (reader_spec 5.4). `hides_reasoning`: the client asked not to. `unsplit`: the client asked for the text with the
    thought and its markers in it. `constrained`: the answer has to follow a schema, a grammar or a forced tool call, so
    that a repeat of the reasoning is no accident. `structured`: the answer was promised to be JSON. `stops`: the stop
    strings. `wants_usage`: a stream is to end with its usage.
    """

    model: str | None
    stream: bool
    thinking: str
    wants_reasoning: bool
    hides_reasoning: bool
    unsplit: bool
    constrained: bool
    structured: bool
    stops: tuple[str, ...]
    wants_usage: bool


class WireProtocol(Interface):
    """One protocol. `names`: the reasoning fields to write."""

    name: str
    done: bytes

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What the request says."""

    def shape_history(self, body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
        """The request with its assistant turns shaped, and what was done; the same object when nothing was."""

    def decode_event(self, data: bytes) -> Message:
        """One stream event. Raises NotThisProtocol."""

    def decode_body(self, body: bytes) -> Message:
        """A whole plain body. Raises NotThisProtocol."""

    def rename(self, message: Message, names: tuple[str, ...] | None) -> bytes | None:
        """The frame with its reasoning under `names` (None: as it is named) and without empty lists of tool calls.

        None when it is so already.
        """

    def has_usage(self, message: Message) -> bool:
        """True when the frame tells the usage."""

    def names_shown(self, part: Part) -> tuple[str, ...]:
        """The reasoning fields that the engine wrote in a part, with text or without."""

    def without_tokens(self, message: Message, places: Collection[int]) -> tuple[Message, Counter[str]]:
        """The message without the members that show a choice's tokens, at these places, and what was taken out."""

    def rewrite(
        self, message: Message, pieces: dict[int, list[Said]], names: tuple[str, ...]
    ) -> tuple[list[bytes], bytes | None]:
        """What says `pieces` (by place) in stead of the parts' own text: events of our own, then the message itself.

        None in its stead when nothing is left in it. Parts without pieces keep their bytes.
        """

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
