"""Anthropic Messages as vLLM and SGLang send them (reference/vllm.md 3.6, sglang.md 3.6), streamed and plain.

Knows the names of events and what stands in them. Never judges text. An answer is one choice, index 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import orjson

from gateway.errors import IntegrityError
from gateway.events import REASONING
from gateway.protocols.frames import named_frames, parsed, parsed_object
from gateway.protocols.messages_body import call_changed, content_saying, fragment, text_of
from gateway.protocols.messages_events import REASONS, ending, event_part, part_of
from gateway.protocols.messages_request import messages_facts, shape_history
from gateway.protocols.messages_stream import (
    DELTA,
    REDACTED,
    START,
    STOP,
    TEXT,
    THINKING,
    TOOL_USE,
    Blocks,
    Line,
    input_delta,
)
from gateway.protocols.protocol import (
    NOTHING,
    CallChange,
    CallChanges,
    Fragment,
    Framed,
    HistoryRule,
    Message,
    NotThisProtocol,
    NumberedCall,
    Part,
    RequestFacts,
    Said,
)
from gateway.streams.jsonscan import DROP, Changes, Drop, edit, encode_string, items

_ERRORS: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_UNCHANGED: Final[Mapping[int, CallChange]] = {}
_AS_IT_CAME: Final = CallChange()


class PlainMessages(Framed):
    """What needs no state: requests, plain bodies, errors, and an event by itself."""

    name = "messages"
    done = b"[DONE]"  # not of this protocol, but sent behind it by servers in between

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What a Messages request says."""
        return messages_facts(request)

    def shape_history(self, body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
        """The request with its assistant turns shaped, and what was done; the same object when nothing was."""
        return shape_history(body, rule)

    # ------------------------------------------------------------------ in

    def decode_event(self, data: bytes) -> Message:
        """One stream event. Raises NotThisProtocol."""
        value, odd = parsed_object(data, what="message")
        kind = value.get("type")
        failed = kind == "error" or (kind is None and bool(value.get("error")))
        if not isinstance(kind, str) and not failed:
            raise NotThisProtocol("no message")
        message = Message(data.replace(b"\n", b" "), value, [], failed, odd)
        message.terminal = kind == "message_stop"
        try:
            part = event_part(str(kind), value)
        except (AttributeError, KeyError, TypeError) as error:
            raise NotThisProtocol("no message") from error
        if part:
            message.parts.append(part)
            message.takes_report = kind == "message_delta"
        return message

    def decode_body(self, body: bytes) -> Message:
        """A whole plain body. Raises NotThisProtocol."""
        value, odd = parsed_object(body, what="message")
        try:
            blocks = value["content"]
            part = part_of(value, reasoning=text_of(blocks, THINKING), content=text_of(blocks, TEXT), choice=value)
            kinds = {block["type"] for block in blocks}
        except (AttributeError, KeyError, TypeError) as error:
            raise NotThisProtocol("no message") from error
        part.tools = TOOL_USE in kinds
        part.names = (THINKING,) if kinds & {THINKING, REDACTED} else ()
        return Message(body, value, [part], False, odd)

    def fragments(self, message: Message, part: Part) -> list[Fragment]:
        """The entries of a part's tool calls: those of a plain body, or the one of an event."""
        value = message.value
        if value.get("type") == START:  # an input that is empty there comes in deltas
            block = part.fields if part.fields.get("input") else {**part.fields, "input": None}
            return [fragment(message.data, ("content_block",), block, place=0, index=value.get("index"))]
        if value.get("type") in (DELTA, STOP):
            text = part.fields.get("partial_json") or ""
            return [Fragment(place=0, index=value.get("index"), ident=None, name=None, arguments=text, text=True)]
        return [
            fragment(message.data, ("content", place), block, place=place, index=place)
            for place, block in enumerate(value["content"])
            if block["type"] == TOOL_USE
        ]

    def answer_id(self, message: Message) -> str:
        """The id of the answer; empty where the frame names none."""
        return message.head.decode() or str(message.value.get("id") or "")

    def has_usage(self, message: Message) -> bool:
        """True when the frame tells the usage."""
        return bool(message.value.get("usage"))

    def names_shown(self, part: Part) -> tuple[str, ...]:
        """None: thought has no name but that of its block."""
        return ()

    def without_tokens(self, message: Message, places: Collection[int], *, whole: bool) -> tuple[Message, Counter[str]]:
        """The message as it is: no member spells its text out a second time."""
        return message, Counter()

    def spells(self, part: Part, text: str) -> bool:
        """True: there are no tokens."""
        return True

    # ------------------------------------------------------------------ a plain body, changed

    def rename(self, message: Message, names: tuple[str, ...] | None) -> bytes | None:
        """The plain body without its thought where no name is left for it; None when it is so already."""
        blocks = message.value.get("content", ())
        gone: Changes = {place: DROP for place, block in enumerate(blocks) if block["type"] in (THINKING, REDACTED)}
        return edit(message.data, {"content": gone}) if names == () and gone else None

    def rewrite_body(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> bytes:
        """The plain body that says `pieces` in stead of the parts' own text; calls stand behind the engine's own."""
        changes: dict[str | int, Any] = {}
        if 0 in pieces:
            own = list(zip(message.value["content"], items(message.data, ("content",)), strict=True))
            changes["content"] = content_saying(own, pieces[0], hides=not names)
        if 0 in finishes:
            changes |= ending(finishes[0], message.value)
        return edit(message.data, changes)

    def change_calls(self, message: Message, changes: CallChanges) -> bytes | None:
        """The plain body with its calls changed."""
        content: dict[str | int, Drop | Changes] = {
            place: DROP if change.gone else call_changed(change) for place, change in changes[0].items()
        }
        return edit(message.data, {"content": content})

    def add_report(self, body: bytes, report: object) -> bytes:
        """A plain body with the report at its top level, or an event with the report beside what it says."""
        return edit(body, {"integrity": orjson.dumps(report)})

    # ------------------------------------------------------------------ frames of our own

    def frame(self, data: bytes) -> bytes:
        """Events of ours as frames, each named by its type."""
        return named_frames(data)

    def error_body(self, error: IntegrityError) -> bytes:
        """A gateway error as a plain body."""
        kind = _ERRORS.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
        return orjson.dumps({"type": "error", "error": {"type": kind, "message": str(error), "code": error.code}})

    def error_event(self, error: IntegrityError) -> bytes:
        """A gateway error inside a stream, as a whole frame."""
        return self.frame(self.error_body(error))


class Messages(PlainMessages):
    """`POST /v1/messages`, or one stream of it. `hides`: no thought of it goes out."""

    def __init__(self, *, hides: bool = False) -> None:
        self._blocks = Blocks(hides=hides)
        self._before = b""  # frames of ours that go before the one that `relay` was asked for
        self._ident = b""
        self._tokens = 0  # written so far, as the engine has told
        self._called: object = None  # the engine's block that is a call
        self._bare = False  # it has no input so far

    def stream(self, *, rewrites: bool) -> Messages:
        """The object for one stream. `rewrites`: no thought of it goes out."""
        return Messages(hides=rewrites)

    def decode_event(self, data: bytes) -> Message:
        """The next event of this stream. Raises NotThisProtocol."""
        message = super().decode_event(data)
        value, kind = message.value, message.value.get("type")
        calls = bool(message.parts) and message.parts[0].tools
        if kind == "message_start":
            self._begins(value.get("message"))
        elif kind == START:
            self._called = value.get("index") if calls else None
            self._bare = calls and not message.parts[0].fields.get("input")
        elif kind == DELTA and calls and value.get("index") != self._called:
            message.parts.clear()  # of a tool that the server runs
        elif kind == DELTA and calls:
            self._bare = self._bare and not value["delta"].get("partial_json")
        elif kind == STOP and self._bare:  # an input without members needs no delta
            message.parts.append(part_of({"partial_json": "{}"}, tools=True, choice=value))
            self._bare = False
        message.head = self._ident
        return message

    def _begins(self, started: object) -> None:
        said = started if isinstance(started, dict) else {}
        usage = said.get("usage")
        tokens = usage.get("output_tokens") if isinstance(usage, dict) else None
        self._ident = str(said.get("id") or "").encode("utf-8", "replace")
        self._tokens = tokens if type(tokens) is int else 0

    def relay(self, message: Message) -> bytes | None:
        """A frame whose text stays: None as it came, empty not at all, or not yet."""
        before, data = self._blocks.relay(message)
        self._before += b"".join(map(self.frame, before))
        return None if data is message.data else data or b""

    def kept(self) -> bytes:
        """Whole frames, as they came, that `relay` kept back until it was asked for the one that goes out now."""
        before, self._before = self._before, b""
        return self._blocks.ready() + before

    def release(self) -> bytes:
        """Whole frames, as they came, that are still kept back."""
        self._blocks.flush()
        return self._blocks.ready()

    def written(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str],
        changes: CallChanges,
    ) -> tuple[list[bytes], bytes | None]:
        """A frame that does not go out as it came: events of our own, then the frame itself."""
        change, kind = changes.get(0, _UNCHANGED).get(0, _AS_IT_CAME), message.value.get("type")
        self._blocks.bend()
        said = _lines(pieces.get(0, ()), names)
        if change.gone and kind != STOP:
            return self._blocks.says(said), None
        before, data = self._blocks.write(message, said) if 0 in pieces else self._blocks.relay(message)
        if data is not None and kind == START:
            data, more = _call_begun(data, change)
            return ([*before, data, *more], None) if more else (before, data)
        if data is not None and kind == DELTA and change.arguments is not None:
            data = edit(data, {"delta": {"partial_json": encode_string(change.arguments)}})
        if data is not None and 0 in finishes:
            data = edit(data, {"delta": ending(finishes[0], message.value["delta"])})
        return before, data

    def rewrite(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> tuple[list[bytes], bytes | None]:
        """As `written`, where no call changes."""
        return self.written(message, pieces, names, finishes, {})

    def text_event(self, like: Message | None, index: int, channel: str, text: str, names: tuple[str, ...]) -> bytes:
        """Events of our own that carry one piece of text."""
        return b"\n".join(self._blocks.says(_lines([(channel, text)], names)))

    def call_events(self, like: Message | None, index: int, call: NumberedCall) -> list[bytes]:
        """Events of our own that carry one call."""
        return self._blocks.call(call)

    def finish_event(self, like: Message | None, index: int, reason: str) -> bytes:
        """Events of our own that end the answer."""
        delta = b'{"stop_reason":%b,"stop_sequence":null}' % encode_string(REASONS[reason])
        end = b'{"type":"message_delta","delta":%b,"usage":{"output_tokens":%d}}' % (delta, self._tokens)
        return b"\n".join([*self._blocks.close(), end])

    def report_event(self, like: Message | None, report: object) -> bytes:
        """The report in an event that says nothing else, where there is no end that takes it."""
        return b'{"type":"ping","integrity":%b}' % orjson.dumps(report)

    def error_event(self, error: IntegrityError) -> bytes:
        """A gateway error as whole frames: what is open is closed before it."""
        return b"".join(map(self.frame, self._blocks.close())) + super().error_event(error)


# ---------------------------------------------------------------------- members


def _lines(said: Sequence[Said], names: tuple[str, ...]) -> list[Line]:
    """The pieces with the kind of their block. `names` empty: without the thought."""
    lines: list[Line] = []
    for channel, each in said:
        if isinstance(each, NumberedCall):
            lines.append((TOOL_USE, each))
        elif each and (names or channel != REASONING):
            lines.append((THINKING if channel == REASONING else TEXT, each))
    return lines


def _call_begun(data: bytes, change: CallChange) -> tuple[bytes, list[bytes]]:
    """The start of a call, changed, and the event with arguments that take the place of its own."""
    members: dict[str | int, bytes] = {}
    if change.name is not None:
        members["name"] = encode_string(change.name)
    if change.arguments is None:
        return edit(data, {"content_block": members}), []
    data = edit(data, {"content_block": {**members, "input": b"{}"}})
    return data, input_delta(parsed(data)[0]["index"], change.arguments)
