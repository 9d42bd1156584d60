"""OpenAI chat completions as vLLM and SGLang send them (reference/vllm.md 3.1, 3.2), streamed and plain.

Knows the names of fields and what a legal event is. Never judges text.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.errors import IntegrityError
from gateway.events import REASONING
from gateway.protocols.chat_request import chat_facts
from gateway.protocols.protocol import Message, NotThisProtocol, Part, RequestFacts, Said
from gateway.streams import sse
from gateway.streams.jsonscan import DROP, Changes, Drop, copy_member, edit, encode_string, loads, member

REASONING_FIELDS: Final = ("reasoning", "reasoning_content")  # vLLM >= 0.16; vLLM <= 0.11 and SGLang; both between
_TEXT_FIELDS: Final = (*REASONING_FIELDS, "content")
_NO_PAYLOAD: Final = ("index", "delta")  # members of a choice that say nothing by themselves
_REPEATED: Final = ("id", "created", "model")  # members of every chunk, the same in all
_TOP_NO_PAYLOAD: Final = (*_REPEATED, "object", "choices", "system_fingerprint", "service_tier")
_Members = dict[str, "bytes | Drop"]


class Chat:
    """`POST /v1/chat/completions`."""

    name = "chat"
    done = b"[DONE]"

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What a chat request says."""
        return chat_facts(request)

    # ------------------------------------------------------------------ in

    def decode_event(self, data: bytes) -> Message:
        """One stream event. Raises NotThisProtocol."""
        return self._decode(data, "delta")

    def decode_body(self, body: bytes) -> Message:
        """A whole plain body. Raises NotThisProtocol."""
        return self._decode(body, "message")

    @staticmethod
    def _decode(data: bytes, holder: str) -> Message:
        odd = False
        try:
            value = orjson.loads(data)
        except ValueError:
            odd = True  # what orjson refuses and JSON allows: surrogate halves, NaN
            try:
                value = loads(data)
            except ValueError as error:
                raise NotThisProtocol("no JSON") from error
        try:
            parts = [_part(place, choice, choice[holder]) for place, choice in enumerate(value.get("choices") or ())]
        except (AttributeError, KeyError, TypeError) as error:
            raise NotThisProtocol("no chat completion") from error
        return Message(data, value, parts, bool(value.get("error")), odd)

    # ------------------------------------------------------------------ the same frame, changed

    def rename(self, message: Message, names: tuple[str, ...]) -> bytes | None:
        """The frame with its reasoning under `names` and nothing else changed; None when it is so already."""
        if len(message.parts) == 1:
            part = message.parts[0]
            if part.names == names:
                return None
            if len(part.names) == 1 and len(names) == 2 and part.names[0] in names:
                other = names[part.names[0] == names[0]]
                if other not in part.fields:
                    copied = copy_member(message.data, part.names[0].encode(), other.encode())
                    if copied is not None:
                        return copied
        changes = {p.place: _renamed(p, names) for p in message.parts if p.names and p.names != names}
        if not changes:
            return None
        return _edit_choices(message, changes, "delta" if "delta" in message.parts[0].choice else "message")

    def rewrite(self, message: Message, pieces: dict[int, list[Said]], names: tuple[str, ...]) -> list[bytes]:
        """The events that say `pieces` (by place) in stead of the parts' own text; other parts keep their bytes.

        Each piece but the last is an event of its own before the frame, so that no event carries two channels and a
        finish reason comes last; so is reasoning before a tool call. A frame that then says nothing is dropped.
        """
        events: list[bytes] = []
        changes: dict[int, _Members] = {}
        says = _top_payload(message.value)
        for part in message.parts:
            if part.place not in pieces:
                says = says or _payload(part) or bool(part.reasoning or part.content)
                continue
            before, last = _split(part, pieces[part.place])
            role = part.fields.get("role") if before else None
            for channel, text in before:
                events.append(_event(message, part.index, _members(channel, text, names), role=role))
                role = None
            changes[part.place] = _replaced(part, _members(*last, names) if last else {})
            says = says or bool(last) or _payload(part)
        if says:
            events.append(_edit_choices(message, changes, "delta"))
        return events

    def rewrite_body(self, message: Message, pieces: dict[int, list[Said]], names: tuple[str, ...]) -> bytes:
        """The plain body that says `pieces` in stead of the parts' own text."""
        changes: dict[int, _Members] = {}
        for part in message.parts:
            if part.place in pieces:
                reasoning = "".join(text for channel, text in pieces[part.place] if channel == REASONING)
                content = "".join(text for channel, text in pieces[part.place] if channel != REASONING)
                members = _members(REASONING, reasoning, names) if reasoning else {}
                if content or part.content:
                    members["content"] = encode_string(content)
                changes[part.place] = _replaced(part, members)
        return _edit_choices(message, changes, "message")

    def add_report(self, body: bytes, report: object) -> bytes:
        """A plain body with the report at its top level."""
        return edit(body, {"integrity": orjson.dumps(report)})

    # ------------------------------------------------------------------ frames of our own

    def text_event(self, like: Message | None, index: int, channel: str, text: str, names: tuple[str, ...]) -> bytes:
        """An event of our own that carries one piece of text."""
        return _event(like, index, _members(channel, text, names))

    def finish_event(self, like: Message | None, index: int, reason: str) -> bytes:
        """An event of our own that ends a choice."""
        return _event(like, index, {}, finish=reason)

    def report_event(self, like: Message | None, report: object) -> bytes:
        """An event of our own that carries the report."""
        return b'{%b,"choices":[],"integrity":%b}' % (_head(like), orjson.dumps(report))

    def error_body(self, error: IntegrityError) -> bytes:
        """A gateway error as a plain body."""
        kind = "InternalServerError" if error.status >= 500 else "BadRequestError"
        return orjson.dumps({"error": {"message": str(error), "type": kind, "param": None, "code": error.code}})

    def error_event(self, error: IntegrityError) -> bytes:
        """A gateway error inside a stream, as a whole frame."""
        return sse.encode(self.error_body(error))


# ---------------------------------------------------------------------- parts


def _part(place: int, choice: dict[str, Any], fields: dict[str, Any]) -> Part:
    get = fields.get
    reasoning, other, content = get("reasoning"), get("reasoning_content"), get("content")
    names: tuple[str, ...] = ()
    if reasoning:
        names = ("reasoning", "reasoning_content") if other else ("reasoning",)
        if other and other != reasoning:
            raise TypeError("reasoning and reasoning_content differ")
    elif other:
        reasoning, names = other, ("reasoning_content",)
    else:
        reasoning = ""
    if not isinstance(reasoning, str) or not (content is None or isinstance(content, str)):
        raise TypeError("text that is no string")
    index, finish = choice.get("index", place), choice.get("finish_reason")
    return Part(
        place, index, reasoning, content or "", names, bool(get("tool_calls") or get("function_call")),
        bool(get("refusal")), finish, choice.get("stop_reason") if finish else None, fields, choice,
    )  # fmt: skip


def _split(part: Part, pieces: list[Said]) -> tuple[list[Said], Said | None]:
    """The pieces that need events of their own, and the one that stays in the part's frame."""
    if not pieces or (part.tools and pieces[-1][0] == REASONING):
        return pieces, None
    return pieces[:-1], pieces[-1]


def _members(channel: str, text: str, names: tuple[str, ...]) -> _Members:
    """The members that carry one piece of text."""
    value = encode_string(text)
    return dict.fromkeys(names, value) if channel == REASONING else {"content": value}


def _replaced(part: Part, members: _Members) -> _Members:
    """The part's text fields replaced by `members`: fields that carried other text go, null ones stay."""
    gone: _Members = {name: DROP for name in _TEXT_FIELDS if part.fields.get(name) and name not in members}
    return gone | members


def _renamed(part: Part, names: tuple[str, ...]) -> _Members:
    """The reasoning under `names`, everything else left alone."""
    gone: _Members = {name: DROP for name in part.names if name not in names}
    value = encode_string(part.reasoning)
    return gone | {name: value for name in names if name not in part.names}


def _payload(part: Part) -> bool:
    """True when the choice says anything besides its text: a finish reason, a role, a tool call, logprobs, ids …"""
    choice = any(value is not None for name, value in part.choice.items() if name not in _NO_PAYLOAD)
    return choice or any(value is not None for name, value in part.fields.items() if name not in _TEXT_FIELDS)


def _top_payload(value: dict[str, Any]) -> bool:
    """True when a chunk says anything beside its choices: usage, prompt token ids, or what nobody knows yet."""
    return any(field is not None for name, field in value.items() if name not in _TOP_NO_PAYLOAD)


# ---------------------------------------------------------------------- bytes


def _edit_choices(message: Message, changes: dict[int, _Members], holder: str) -> bytes:
    choices: dict[str | int, Changes] = {place: {holder: _changes(members)} for place, members in changes.items()}
    return edit(message.data, {"choices": choices})


def _changes(members: _Members) -> Changes:
    return {name: value for name, value in members.items()}


def _head(like: Message | None) -> bytes:
    """The members that every chunk of an answer repeats, in the engine's own bytes."""
    head = [b'"object":"chat.completion.chunk"']
    if like:
        spans = ((name.encode(), member(like.data, (name,))) for name in _REPEATED)
        head += [b'"%b":%b' % (name, like.data[slice(*span)]) for name, span in spans if span]
    return b",".join(head)


def _event(
    like: Message | None, index: int, members: _Members, *, role: str | None = None, finish: str | None = None
) -> bytes:
    fields: _Members = {"role": encode_string(role), **members} if role else members
    delta = b",".join(b'"%b":%b' % (name.encode(), value) for name, value in fields.items() if value is not DROP)
    reason = encode_string(finish) if finish else b"null"
    choice = b'{"index":%d,"delta":{%b},"logprobs":null,"finish_reason":%b}' % (index, delta, reason)
    return b'{%b,"choices":[%b]}' % (_head(like), choice)
