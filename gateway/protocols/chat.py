"""OpenAI chat completions as vLLM and SGLang send them (reference/vllm.md 3.1, 3.2), streamed and plain.

Knows the names of fields and what a legal event is. Never judges text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.events import REASONING
from gateway.protocols.chat_calls import call_changes, call_deltas, fragments, listed
from gateway.protocols.chat_history import shape_history
from gateway.protocols.chat_request import chat_facts
from gateway.protocols.frames import ChoiceFrames, head, parsed, top_says, whole_ids
from gateway.protocols.protocol import (
    NOTHING,
    UNSAID,
    CallChanges,
    Fragment,
    HistoryRule,
    Message,
    NotThisProtocol,
    NumberedCall,
    Part,
    RequestFacts,
    Said,
    Unframed,
)
from gateway.streams.jsonscan import DROP, Changes, Drop, copy_member, edit, encode_string, member, swap

REASONING_FIELDS: Final = ("reasoning", "reasoning_content")  # vLLM >= 0.16; vLLM <= 0.11 and SGLang; both between
_TEXT_FIELDS: Final = (*REASONING_FIELDS, "content")
_BARE: Final = re.compile(rb'"delta":\{"[a-z_]+":"[^"\\]*+(?:\\.[^"\\]*+)*+"\}')  # one string, no white space
_ONLY_TEXT: Final = frozenset(_TEXT_FIELDS)
# Members of a choice that spell its text out a second time: of both engines, and SGLang's three (sglang.md 3.1).
_TOKENS: Final = ("logprobs", "token_ids", "response_token_ids", "meta_info", "hidden_states")
_OTHER_TEXT: Final = ("delta", "message", "text")  # where a choice of another shape has its text
_NO_PAYLOAD: Final = ("index", "delta")  # members of a choice that say nothing by themselves
_OBJECT: Final = b'"object":"chat.completion.chunk"'
_Members = dict[str, "bytes | Drop"]


class Chat(ChoiceFrames, Unframed):
    """`POST /v1/chat/completions`."""

    name = "chat"
    done = b"[DONE]"
    kind = _OBJECT

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What a chat request says."""
        return chat_facts(request)

    def shape_history(self, body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
        """The request with its assistant turns shaped, and what was done; the same object when nothing was."""
        return shape_history(body, rule)

    # ------------------------------------------------------------------ in

    def decode_event(self, data: bytes) -> Message:
        """One stream event. Raises NotThisProtocol."""
        return self._decode(data, "delta")

    def decode_body(self, body: bytes) -> Message:
        """A whole plain body. Raises NotThisProtocol."""
        return self._decode(body, "message")

    @staticmethod
    def _decode(data: bytes, holder: str) -> Message:
        value, odd = parsed(data)
        try:
            choices = value.get("choices") or ()
            parts = [_part(place, choice, choice.get(holder)) for place, choice in enumerate(choices)]
        except (AttributeError, KeyError, TypeError) as error:
            raise NotThisProtocol("no chat completion") from error
        return Message(data, value, parts, bool(value.get("error")), odd)

    # ------------------------------------------------------------------ the same frame, changed

    def rename(self, message: Message, names: tuple[str, ...] | None) -> bytes | None:
        """The frame with its reasoning under `names` (None: as it is named) and without empty lists of tool calls.

        None when it is so already.
        """
        if len(message.parts) == 1 and names is not None and not message.parts[0].no_calls:
            part = message.parts[0]
            if part.names == names:
                return None
            if len(part.names) == 1 and len(names) == 2 and part.names[0] in names:
                other = names[part.names[0] == names[0]]
                if other not in part.fields:
                    copied = copy_member(message.data, part.names[0].encode(), other.encode())
                    if copied is not None:
                        return copied
        renamed = ((part.place, _renamed(part, part.names if names is None else names)) for part in message.parts)
        changes = {place: members for place, members in renamed if members}
        if not changes:
            return None
        return _edit_choices(message, changes, _holder(message))

    def names_shown(self, part: Part) -> tuple[str, ...]:
        """The reasoning fields that the engine wrote in a part, with text or without."""
        return tuple(name for name in REASONING_FIELDS if name in part.fields)

    def without_tokens(self, message: Message, places: Collection[int], *, whole: bool) -> tuple[Message, Counter[str]]:
        """The message without the members that show a choice's tokens, at these places, and what was taken out.

        `whole`: also without those that show the tokens of the whole answer.
        """
        taken = {place: [n for n in _TOKENS if message.parts[place].choice.get(n) is not None] for place in places}
        out = Counter(name for names in taken.values() for name in names)
        choices: dict[str | int, Changes] = {place: dict.fromkeys(names, DROP) for place, names in taken.items()}
        changes: dict[str | int, Drop | Changes] = {"choices": choices} if out else {}
        if whole and (ids := whole_ids(message)):
            changes |= ids
            out["sglext"] += 1
        return (self._decode(edit(message.data, changes), _holder(message)), out) if out else (message, out)

    def spells(self, part: Part, text: str) -> bool:
        """True where the log probabilities beside a part are known to begin as `text` does."""
        logprobs = part.choice.get("logprobs")
        rows = logprobs.get("content") if isinstance(logprobs, dict) else None
        tokens = [row.get("token") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        return "".join([token for token in tokens if isinstance(token, str)]).startswith(text)

    def rewrite(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> tuple[list[bytes], bytes | None]:
        """What says `pieces` (by place) in stead of the parts' own text: events of our own, then the message itself.

        Each piece but the last is an event of its own before the message, so that no event carries two channels and a
        finish reason comes last; so is every call, and all text before a call of the engine's, which may have to wait.
        None for a message that then says nothing. Parts without pieces keep their text. `finishes`: other words for the
        parts' finish reasons.
        """
        if len(message.parts) == 1 and not finishes and (quick := _quickly(message, pieces, names)):
            return [], quick
        events: list[bytes] = []
        changes: dict[int, _Members] = {}
        says = top_says(message.value)
        for part in message.parts:
            if part.place not in pieces:
                says = says or _says(part)
                continue
            before, last = _split(part, pieces[part.place])
            role = part.fields.get("role") if before else None
            moved: _Members = {"role": DROP} if role else {}  # clients join what they get: a role is said once
            for members in _deltas(before, names):
                events.append(_event(message, part.index, members, role=role))
                role = None
            changes[part.place] = _replaced(part, _members(*last, names) if last else {}) | moved
            says = says or bool(last) or _payload(part)
        return events, _edit_choices(message, changes, "delta", finishes) if says else None

    def rewrite_body(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> bytes:
        """The plain body that says `pieces` in stead of the parts' own text; calls stand behind the engine's own.

        Content that has become calls altogether is null, as engines send it.
        """
        changes: dict[int, _Members] = {}
        for part in message.parts:
            if part.place in pieces:
                said = pieces[part.place]
                reasoning = "".join([text for channel, text in said if channel == REASONING and isinstance(text, str)])
                content = "".join([text for channel, text in said if channel != REASONING and isinstance(text, str)])
                calls = [call for _, call in said if not isinstance(call, str)]
                members = _members(REASONING, reasoning, names) if reasoning else {}
                if content or part.content or calls:
                    members["content"] = encode_string(content) if content or not calls else b"null"
                if calls:
                    members["tool_calls"] = listed(_own_calls(message, part), calls)
                changes[part.place] = _replaced(part, members)
        return _edit_choices(message, changes, "message", finishes)

    def fragments(self, message: Message, part: Part) -> list[Fragment]:
        """The entries of a part's tool calls; those that are none of the protocol's are left out."""
        path = ("choices", part.place, _holder(message), "tool_calls")
        return fragments(message.data, path, part.fields.get("tool_calls"))

    def change_calls(self, message: Message, changes: CallChanges) -> bytes | None:
        """The message with its tool calls changed; None when nothing is left in an event."""
        holder = _holder(message)
        choices: dict[str | int, Changes] = {
            place: {holder: {"tool_calls": call_changes(message.parts[place].fields["tool_calls"], change)}}
            for place, change in changes.items()
        }
        changed = self._decode(edit(message.data, {"choices": choices}), holder)
        says = holder == "message" or top_says(changed.value) or any(map(_says, changed.parts))
        return changed.data if says else None

    # ------------------------------------------------------------------ frames of our own

    def text_event(self, like: Message | None, index: int, channel: str, text: str, names: tuple[str, ...]) -> bytes:
        """An event of our own that carries one piece of text."""
        return _event(like, index, _members(channel, text, names))

    def call_events(self, like: Message | None, index: int, call: NumberedCall) -> list[bytes]:
        """Events of our own that carry one call: its name, then its arguments."""
        return [_event(like, index, {"tool_calls": value}) for value in call_deltas(call)]

    def finish_event(self, like: Message | None, index: int, reason: str) -> bytes:
        """An event of our own that ends a choice."""
        return _event(like, index, {}, finish=reason)


# ---------------------------------------------------------------------- parts


def _part(place: int, choice: dict[str, Any], fields: dict[str, Any] | None) -> Part:
    if fields is None:  # a finish chunk may have nothing to say
        if any(choice.get(name) is not None for name in _OTHER_TEXT):
            raise TypeError("a choice of another shape")
        fields = {}
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
    index, finish, calls = choice.get("index", place), choice.get("finish_reason"), get("tool_calls")
    return Part(
        place, index, reasoning, content or "", names, bool(calls or get("function_call")),
        calls is not None and not calls, bool(get("refusal") or get("audio")), finish,
        choice.get("stop_reason", choice.get("matched_stop", UNSAID)) if finish else None, fields, choice,
    )  # fmt: skip


def _quickly(message: Message, pieces: Mapping[int, Sequence[Said]], names: tuple[str, ...]) -> bytes | None:
    """The chunk of a choice that says nothing but one text, which becomes one other; None: it says more, or is written
    otherwise than engines do.
    """
    part = message.parts[0]
    said = pieces.get(part.place, ())
    bare = len(part.fields) == 1 and _ONLY_TEXT.issuperset(part.fields) and _BARE.search(message.data)
    if not bare or len(said) != 1 or not isinstance(said[0][1], str):
        return None
    members = _members(said[0][0], said[0][1], names)
    written = b",".join([b'"%b":%b' % (name.encode(), value) for name, value in members.items() if value is not DROP])
    return swap(message.data, {b"delta": b"{%b}" % written})


def _split(part: Part, pieces: Sequence[Said]) -> tuple[Sequence[Said], tuple[str, str] | None]:
    """The pieces that need events of their own, and the one that stays in the part's frame."""
    if part.tools or part.choice.get("delta") is None or not pieces:
        return pieces, None
    channel, text = pieces[-1]
    return (pieces[:-1], (channel, text)) if isinstance(text, str) else (pieces, None)


def _deltas(pieces: Iterable[Said], names: tuple[str, ...]) -> Iterator[_Members]:
    """The members of one delta after another that say `pieces`."""
    for channel, said in pieces:
        if isinstance(said, str):
            yield _members(channel, said, names)
        else:
            for value in call_deltas(said):
                yield {"tool_calls": value}


def _members(channel: str, text: str, names: tuple[str, ...]) -> _Members:
    """The members that carry one piece of text."""
    value = encode_string(text)
    return dict.fromkeys(names, value) if channel == REASONING else {"content": value}


def _replaced(part: Part, members: _Members) -> _Members:
    """The part's text fields replaced by `members`: fields that carried other text go, null ones stay."""
    gone: _Members = {name: DROP for name in _TEXT_FIELDS if part.fields.get(name) and name not in members}
    return gone | _no_calls(part) | members


def _renamed(part: Part, names: tuple[str, ...]) -> _Members:
    """The reasoning under `names`, everything else but an empty list of tool calls left alone."""
    members = _no_calls(part)
    if part.names and part.names != names:
        value = encode_string(part.reasoning)
        members |= {name: DROP for name in part.names if name not in names}
        members |= {name: value for name in names if name not in part.names}
    return members


def _no_calls(part: Part) -> _Members:
    """Takes out an empty list of tool calls, in which clients see a call (openclaw #61534)."""
    return {"tool_calls": DROP} if part.no_calls else {}


def _payload(part: Part) -> bool:
    """True when the choice says anything besides its text: a finish reason, a role, a tool call, logprobs, ids …"""
    choice = any(value is not None for name, value in part.choice.items() if name not in _NO_PAYLOAD)
    silent = (*_TEXT_FIELDS, "tool_calls") if part.no_calls else _TEXT_FIELDS
    return choice or any(value is not None for name, value in part.fields.items() if name not in silent)


def _says(part: Part) -> bool:
    """True when a choice says anything."""
    return bool(part.reasoning or part.content) or _payload(part)


def _own_calls(message: Message, part: Part) -> bytes | None:
    """The engine's own calls of a plain message as they are written; None where there are none."""
    span = part.fields.get("tool_calls") and member(message.data, ("choices", part.place, "message", "tool_calls"))
    return message.data[slice(*span)] if span else None


# ---------------------------------------------------------------------- bytes


def _edit_choices(
    message: Message, changes: Mapping[int, _Members], holder: str, finishes: Mapping[int, str] = NOTHING
) -> bytes:
    choices: dict[str | int, dict[str | int, bytes | Drop | Changes]] = {}
    for place, members in changes.items():
        if members:
            choices[place] = {holder: _changes(members)}
    for place, reason in finishes.items():
        choices.setdefault(place, {})["finish_reason"] = encode_string(reason)
    return edit(message.data, {"choices": choices})


def _holder(message: Message) -> str:
    """The member that a message's choices have their text in."""
    return "message" if any("message" in part.choice for part in message.parts) else "delta"


def _changes(members: _Members) -> Changes:
    return {name: value for name, value in members.items()}


def _event(
    like: Message | None, index: int, members: _Members, *, role: str | None = None, finish: str | None = None
) -> bytes:
    fields: _Members = {"role": encode_string(role), **members} if role else members
    delta = b",".join(b'"%b":%b' % (name.encode(), value) for name, value in fields.items() if value is not DROP)
    reason = encode_string(finish) if finish else b"null"
    choice = b'{"index":%d,"delta":{%b},"logprobs":null,"finish_reason":%b}' % (index, delta, reason)
    return b'{%b,"choices":[%b]}' % (head(like, _OBJECT), choice)
