"""One stream of Responses: what each event says, and which of it goes out how once text changes.

While nothing has changed, frames go out as they came, and only what they announce is noted. From the first change on
items and parts are opened by the text that goes out, and ended before the next one: the engine's own events around them
are written where they fit, with the ids that they name. Knows the order of events (reference/vllm.md 3.5). Must not
know why text changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.errors import IntegrityError
from gateway.events import CONTENT, REASONING
from gateway.protocols.frames import named_frames, parsed, parsed_object
from gateway.protocols.protocol import (
    NOTHING,
    UNSAID,
    CallChanges,
    Fragment,
    Message,
    NotThisProtocol,
    NumberedCall,
    Part,
    Said,
)
from gateway.protocols.responses_body import (
    BROKEN,
    SHOWN,
    PlainResponses,
    broken_status,
    error_object,
    finish_of,
    output_part,
    word,
)
from gateway.protocols.responses_items import CALL, DELTAS
from gateway.protocols.responses_output import is_commentary
from gateway.protocols.responses_stream import ResponseWriter
from gateway.protocols.responses_told import ADDED, ARGUMENTS, DONE, ENDED, FAILED, TEXTUAL
from gateway.streams.jsonscan import Changes, edit, encode_string

_REFUSAL: Final = ("response.refusal.delta", "response.refusal.done")


@dataclass(slots=True)
class _Call:
    """A function call as the engine tells it. `fragment`: what its last event said. `told`: arguments have come."""

    number: int
    fragment: Fragment
    told: bool = False


class Responses(PlainResponses):
    """`POST /v1/responses`: its plain bodies, and the codec of one stream.

    `drops`: progress messages are left out. `hides`: no reasoning goes out, and nothing goes out as it came.
    """

    def __init__(self, *, drops: bool = False, hides: bool = False) -> None:
        super().__init__(drops=drops)
        self._hides = hides
        self._writer = ResponseWriter(hides=hides, drops=drops)
        self._silent: set[int] = set()  # items whose text is no part of the answer
        self._calls: dict[int, _Call] = {}
        self._latest: _Call | None = None
        self._announced = False  # an item has come, so that the last event tells nothing new
        self._ident = ""

    def stream(self, *, rewrites: bool) -> Responses:
        """The codec of one stream."""
        return Responses(drops=self.drops, hides=rewrites)

    def without_commentary(self) -> Responses:
        """The same protocol without progress messages."""
        return Responses(drops=True)

    # ------------------------------------------------------------------ in

    def decode_event(self, data: bytes) -> Message:
        """The next event, asked for once. Raises NotThisProtocol."""
        value, odd = parsed_object(data, what="response")
        kind = value.get("type")
        message = Message(data, value, [], bool(value.get("error")) or kind == "error", odd)
        if not isinstance(kind, str) and not message.error:
            raise NotThisProtocol("no response event")
        try:
            self._tell(str(kind), value, message)
        except (AttributeError, KeyError, TypeError) as error:
            raise NotThisProtocol("no response event") from error
        return message

    def _tell(self, kind: str, value: dict[str, Any], message: Message) -> None:
        """What the event says, put into the message."""
        self._latest = None
        if style := DELTAS.get(kind):
            self._announced = True
            text = value["delta"]
            if not isinstance(text, str):
                raise TypeError("text that is no string")
            if _index(value) not in self._silent:
                reasoning, content = (text, "") if style.channel == REASONING else ("", text)
                message.parts.append(_part(value, reasoning=reasoning, content=content))
        elif kind == FAILED:
            message.error = message.terminal = message.takes_report = True
        elif kind in ENDED:
            self._end(value, message)
        elif kind in (ADDED, DONE):
            self._item(kind, value, message)
        elif kind.startswith(ARGUMENTS):
            self._arguments(kind, value, message)
        elif kind in _REFUSAL:
            message.parts.append(_part(value, refusal=True))
        elif not self._ident and isinstance(value.get("response"), dict):
            self._ident = str(value["response"].get("id") or "")

    def _end(self, value: dict[str, Any], message: Message) -> None:
        response = value["response"]
        message.terminal = message.takes_report = True
        if self._announced:
            message.parts.append(_part(value, finish=finish_of(response, calls=bool(self._calls))))
        else:  # all of the answer in one event
            message.parts.append(output_part(response.get("output") or [], response))

    def _item(self, kind: str, value: dict[str, Any], message: Message) -> None:
        index, item = _index(value), value["item"]
        self._announced = True
        if kind == ADDED and is_commentary(item):
            self._silent.add(index)
        if item["type"] == CALL:
            self._call(kind, index, item, message)
        elif kind == ADDED and item["type"] not in TEXTUAL:
            message.parts.append(_part(value, tools=True))

    def _call(self, kind: str, index: int, item: Mapping[str, Any], message: Message) -> None:
        """A call is announced, or ended; one that was only ended is told by that."""
        known = self._calls.get(index) if kind == DONE else None
        if known is None:
            arguments = item["arguments"] if kind == DONE else ""
            fragment = _fragment(len(self._calls), arguments, item)
            self._calls[index] = self._latest = _Call(len(self._calls), fragment, told=kind == DONE)
            message.parts.append(_part(message.value, tools=True))
        elif not known.told and item.get("arguments"):
            self._more(known, item["arguments"], message)

    def _arguments(self, kind: str, value: dict[str, Any], message: Message) -> None:
        """More arguments; the event that ends them tells those that have not come in pieces."""
        known = self._calls[_index(value)]
        if kind.endswith(".delta"):
            self._more(known, value["delta"], message)
        elif not known.told and value.get("arguments"):
            self._more(known, value["arguments"], message)

    def _more(self, call: _Call, arguments: str, message: Message) -> None:
        call.told = True
        call.fragment = _fragment(call.number, arguments, {})
        self._latest = call
        message.parts.append(_part(message.value, tools=True))

    def fragments(self, message: Message, part: Part) -> list[Fragment]:
        """What the event that was told last says of a call; all calls of a whole response."""
        return [self._latest.fragment] if self._latest else super().fragments(message, part)

    def answer_id(self, message: Message) -> str:
        """The id of the answer, which its first event names."""
        return self._ident or super().answer_id(message)

    # ------------------------------------------------------------------ out

    def relay(self, message: Message) -> bytes | None:
        """An event whose text stays, as it is to go out: None as it came, empty not at all."""
        if message.terminal and not self._announced:
            return self._writer.alone((self.rename(message, ()) if self._hides else None) or message.data)
        return self._writer.relay(message)

    def written(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str],
        changes: CallChanges,
    ) -> tuple[list[bytes], bytes | None]:
        """An event that does not go out as it came, or events of ours in its stead."""
        if message.terminal and not self._announced:
            return [], self._writer.alone(self._whole(message, pieces, finishes, changes))
        broken = finishes.get(0) == BROKEN
        if broken:
            ending: Changes = {"type": encode_string(FAILED), "response": broken_status()}
            message = self._told_again(message, edit(message.data, ending))
        change = next(iter(changes.get(0, {}).values()), None)
        data = self._writer.write(message, pieces.get(0), change)
        own = self._writer.take_own()
        return ([*own, data], None) if broken and data else (own, data)

    def _whole(
        self, message: Message, pieces: Mapping[int, Sequence[Said]], finishes: Mapping[int, str], changes: CallChanges
    ) -> bytes:
        """The only event that tells anything, changed as a plain body is."""
        if changes:
            message = self._told_again(message, self.change_calls(message, changes))
        return self.rewrite_body(message, pieces, () if self._hides else SHOWN, finishes)

    @staticmethod
    def _told_again(message: Message, data: bytes) -> Message:
        return replace(message, data=data, value=parsed(data)[0])

    def rewrite(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> tuple[list[bytes], bytes | None]:
        """As `written`."""
        return self.written(message, pieces, names, finishes, {})

    def kept(self) -> bytes:
        """The frames that waited for the one that goes out now, or that go out before it."""
        raw = self._writer.take_raw()
        return b"".join([*raw, *map(self.frame, self._writer.take_own())])

    def release(self) -> bytes:
        """The frames that still wait."""
        return b"".join(self._writer.release())

    def frame(self, data: bytes) -> bytes:
        """Events of ours as frames, each named by its type."""
        return named_frames(data)

    def text_event(self, like: Message | None, index: int, channel: str, text: str, names: tuple[str, ...]) -> bytes:
        """Events of ours that carry one piece of text."""
        self._writer.say(channel, text)
        return b"\n".join(self._writer.take_own())

    def call_events(self, like: Message | None, index: int, call: NumberedCall) -> list[bytes]:
        """Events of ours that carry one call."""
        self._writer.say(CONTENT, call)
        return self._writer.take_own()

    def finish_event(self, like: Message | None, index: int, reason: str) -> bytes:
        """A terminal event of ours."""
        last = self._writer.ended(self._ident, "failed" if reason == BROKEN else "completed")
        return b"\n".join([*self._writer.take_own(), last])

    def error_event(self, error: IntegrityError) -> bytes:
        """A gateway error inside the stream, as a whole frame. What is open stays open: nothing of it is over."""
        return self.frame(self._writer.failed(error_object(error)))


class StoredResponses(Responses):
    """`GET /v1/responses/{id}`, plain and streamed, and what `POST /v1/responses/{id}/cancel` answers.

    Counted apart: one answer may be fetched any number of times, and while it is not over.
    """

    name = "stored_responses"


def _part(
    value: dict[str, Any],
    *,
    reasoning: str = "",
    content: str = "",
    tools: bool = False,
    refusal: bool = False,
    finish: str | None = None,
) -> Part:
    return Part(0, 0, reasoning, content, (), tools, False, refusal, finish, UNSAID, value, value)


def _index(value: Mapping[str, Any]) -> int:
    index = value["output_index"]
    if type(index) is not int:
        raise TypeError("an index that is none")
    return index


def _fragment(number: int, arguments: str, item: Mapping[str, Any]) -> Fragment:
    """What an event says of a call: its beginning, or more arguments."""
    if not isinstance(arguments, str):
        raise TypeError("arguments that are no string")
    ident, name = word(item.get("call_id")), word(item.get("name"))
    return Fragment(place=0, index=number, ident=ident, name=name, arguments=arguments, text=True)
