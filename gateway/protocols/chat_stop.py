"""Chat answers that the gateway itself ends, at a stop string of which the engine knew nothing.

Owns the members that say so: `stop_reason` beside the finish reason (vLLM's name; SGLang's `matched_stop` says the
same), the usage that each chunk tells where it was asked for, and the last frames of a stream. Never judges text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from gateway.protocols.frames import head
from gateway.protocols.protocol import Message
from gateway.streams.jsonscan import DROP, Changes, Drop, edit, encode_string, member

_OBJECT: Final = b'"object":"chat.completion.chunk"'


def usage_event(like: Message | None, usage: bytes) -> bytes:
    """A chunk of our own that tells the usage."""
    return b'{%b,"choices":[],"usage":%b}' % (head(like, _OBJECT), usage)


def stopped_at(data: bytes, stops: Mapping[int, str]) -> bytes:
    """The frame whose choices, by place, ended at these stop strings."""
    changes: dict[str | int, bytes | Drop | Changes] = {
        place: {"finish_reason": b'"stop"', "stop_reason": encode_string(stop)} for place, stop in stops.items()
    }
    return edit(data, {"choices": changes})


def without_choices(data: bytes, places: Collection[int]) -> bytes:
    """The frame without the choices at these places."""
    return edit(data, {"choices": dict.fromkeys(places, DROP)})


def usage_of(message: Message) -> bytes | None:
    """The usage that a frame tells, as it is written."""
    if not isinstance(message.value.get("usage"), dict):
        return None
    span = member(message.data, ("usage",))
    return message.data[slice(*span)] if span else None


def without_usage(data: bytes) -> bytes:
    """The frame without its usage."""
    return edit(data, {"usage": DROP})
