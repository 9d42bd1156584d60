"""What the frames of several protocols share: how their JSON is read, and what stands around a list of `choices`.

Never judges text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from gateway.errors import IntegrityError
from gateway.protocols.protocol import Message, NotThisProtocol
from gateway.streams import sse
from gateway.streams.jsonscan import DROP, Changes, edit, loads, member

_REPEATED: Final = ("id", "created", "model")  # members of every chunk, the same in all
_SILENT: Final = (*_REPEATED, "object", "choices", "system_fingerprint", "service_tier")  # say nothing by themselves


def parsed(data: bytes) -> tuple[Any, bool]:
    """The JSON of a frame, and whether it is odd: what orjson refuses and JSON allows, surrogate halves and NaN.

    Raises NotThisProtocol.
    """
    try:
        return orjson.loads(data), False
    except ValueError:
        try:
            return loads(data), True
        except ValueError as error:
            raise NotThisProtocol("no JSON") from error


def parsed_object(data: bytes, *, what: str) -> tuple[dict[str, Any], bool]:
    """As `parsed`, of a frame that has to be an object. `what` it is the object of: named when it is none."""
    value, odd = parsed(data)
    if not isinstance(value, dict):
        raise NotThisProtocol(f"no {what}")
    return value, odd


def named_frames(data: bytes) -> bytes:
    """Events of ours, a line each, as frames that are named by the type of what they carry. Raises NotThisProtocol."""
    return b"".join([sse.encode(line, event=parsed(line)[0]["type"].encode()) for line in data.splitlines()])


def error_kind(error: IntegrityError) -> str:
    """The `type` of a gateway error, in the words of the engines' own."""
    return "InternalServerError" if error.status >= 500 else "BadRequestError"


def top_says(value: Mapping[str, Any]) -> bool:
    """True when a chunk says anything beside its choices: usage, prompt token ids, or what nobody knows yet."""
    return any(field is not None for name, field in value.items() if name not in _SILENT)


def whole_ids(message: Message) -> dict[str | int, Changes]:
    """The change that takes out the ids of a whole answer; none where it has none (SGLang; reference/sglang.md 3.1)."""
    told = message.value.get("sglext")
    return {"sglext": {"output_ids": DROP}} if isinstance(told, dict) and told.get("output_ids") is not None else {}


def head(like: Message | None, kind: bytes) -> bytes:
    """The members that every chunk of an answer repeats, in the engine's own bytes; looked for once in a message.

    `kind`: the member `object`, as it is written.
    """
    if like is None:
        return kind
    if not like.head:
        spans = ((name.encode(), member(like.data, (name,))) for name in _REPEATED)
        repeated = [b'"%b":%b' % (name, like.data[slice(*span)]) for name, span in spans if span]
        like.head = b",".join([kind, *repeated])
    return like.head


class ChoiceFrames:
    """A protocol whose answers stand in `choices`, under one `id`, with the usage beside them."""

    kind: bytes
    """The member `object` of a stream event, as it is written."""

    def add_report(self, body: bytes, report: object) -> bytes:
        """A plain body with the report at its top level."""
        return edit(body, {"integrity": orjson.dumps(report)})

    def answer_id(self, message: Message) -> str:
        """The id of the answer; empty where the frame names none."""
        return str(message.value.get("id") or "")

    def has_usage(self, message: Message) -> bool:
        """True when the frame tells the usage."""
        return bool(message.value.get("usage"))

    def report_event(self, like: Message | None, report: object) -> bytes:
        """An event of our own that carries the report."""
        return b'{%b,"choices":[],"integrity":%b}' % (head(like, self.kind), orjson.dumps(report))

    def error_body(self, error: IntegrityError) -> bytes:
        """A gateway error as a plain body."""
        members = {"message": str(error), "type": error_kind(error), "param": None, "code": error.code}
        return orjson.dumps({"error": members})

    def error_event(self, error: IntegrityError) -> bytes:
        """A gateway error inside a stream, as a whole frame."""
        return sse.encode(self.error_body(error))
