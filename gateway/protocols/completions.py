"""Text completions (reference/vllm.md 3.4, sglang.md 3.3), streamed and plain: the text of the model as it is.

A split thought stands beside `text`, under the name(s) of the reasoning field; what stands beside it in arrays goes,
what stands beside the text stays in step with it. Never judges text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.events import CONTENT, REASONING
from gateway.protocols.beside import Beside, Column, Columns, Token, cut
from gateway.protocols.frames import ChoiceFrames, head, parsed, top_says
from gateway.protocols.protocol import NOTHING, Fate, Message, NotThisProtocol, Part, RequestFacts, Said
from gateway.protocols.raw_request import completions_facts
from gateway.protocols.raw_text import (
    NAMES,
    Members,
    Path,
    RawText,
    came,
    joined,
    object_of,
    part_of,
    spliced,
    stop_reason,
    thought,
)
from gateway.streams.jsonscan import Changes, encode_string, items

_STOPPED_BY: Final = ("stop_reason", "matched_stop")  # vLLM, SGLang
_OTHER_TEXT: Final = ("delta", "message")  # where a choice of another shape has its text
_IDS: Final = ("token_ids",)
_OFFSETS: Final = ("logprobs", "text_offset")
_SILENT: Final = ("index", "text", "logprobs", "token_ids", *NAMES)  # members that say nothing by themselves
_OBJECT: Final = b'"object":"text_completion"'


class Completions(ChoiceFrames, RawText):
    """`POST /v1/completions`."""

    name = "completions"
    kind = _OBJECT

    def __init__(self) -> None:
        self._beside: dict[int, Beside] = {}
        self._arrays: dict[int, Members] = {}  # of the event that is read, by place: what becomes of its arrays
        self._shown: set[int] = set()  # the places at which something is left in them
        self._late: dict[int, Members] = {}  # by index: what stands beside the last text of a choice

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What a request says."""
        return completions_facts(request)

    def path(self, message: Message, part: Part) -> Path:
        """Where the members of a part are in its frame."""
        return ("choices", part.place)

    # ------------------------------------------------------------------ in

    def decode_event(self, data: bytes) -> Message:
        """One stream event. Raises NotThisProtocol."""
        value, odd = parsed(data)
        try:
            parts = [_part(place, choice) for place, choice in enumerate(value.get("choices") or ())]
        except (AttributeError, TypeError) as error:
            raise NotThisProtocol("no text completion") from error
        return Message(data, value, parts, bool(value.get("error")), odd)

    def decode_body(self, body: bytes) -> Message:
        """A whole plain body. Raises NotThisProtocol."""
        return self.decode_event(body)

    def placed(self, message: Message, pieces: dict[int, list[Said]]) -> dict[int, list[Said]]:
        """As `RawText.placed`: arrays wait for their text, and go out with it."""
        self._arrays, self._shown = {}, set()
        for part in message.parts:
            if part.fates is None:
                continue
            beside = self._beside.setdefault(part.index, Beside())
            beside.blind = beside.blind or message.odd
            own = _tokens(message, part)
            kept = beside.decide(own, part.fates, final=bool(part.finish))
            places = beside.places(kept)
            if any(token.columns for token in kept):
                self._shown.add(part.place)
            if kept != own:
                pieces.setdefault(part.place, came(part))
                self._arrays[part.place] = _arrays(part.fields, kept, places)
            elif places != [offset for token in own for offset in token.offsets]:
                pieces.setdefault(part.place, came(part))
                self._arrays[part.place] = {"logprobs": {"text_offset": _array(b"%d" % place for place in places)}}
        return pieces

    def ended(self, index: int, fates: Iterable[Fate]) -> None:
        """As `RawText.ended`."""
        beside = self._beside.setdefault(index, Beside())
        kept = beside.decide((), fates, final=True)
        self._late[index] = _arrays({}, kept, beside.places(kept))

    # ------------------------------------------------------------------ the same frame, changed

    def rewrite(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> tuple[list[bytes], bytes | None]:
        """As `WireProtocol.rewrite`: each piece but the last is an event of its own, before the message."""
        events: list[bytes] = []
        changes: dict[Path, Members] = {}
        says = top_says(message.value)
        for part in message.parts:
            if part.place not in pieces:
                says = True
                continue
            *before, last = [*pieces[part.place]] or [(CONTENT, "")]
            events += [self.text_event(message, part.index, kind, str(text), names) for kind, text in before]
            changes[self.path(message, part)] = self._members(part, [last], names)
            says = says or bool(last[1]) or part.place in self._shown or _payload(part)
        for place, word in finishes.items():
            changes.setdefault(("choices", place), {})["finish_reason"] = encode_string(word)
        return events, spliced(message.data, changes) if says else None

    def rewrite_body(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> bytes:
        """The plain body that says `pieces` in stead of the parts' own text."""
        whole = Completions()
        whole.placed(replace(message, parts=[replace(part, index=part.place) for part in message.parts]), {})
        changes = {
            self.path(message, part): whole._members(part, pieces[part.place], names)
            for part in message.parts
            if part.place in pieces
        }
        for place, word in finishes.items():
            changes.setdefault(("choices", place), {})["finish_reason"] = encode_string(word)
        return spliced(message.data, changes)

    def _members(self, part: Part, said: Sequence[Said], names: tuple[str, ...]) -> Members:
        """The members of a part that says `said`."""
        text: Members = {"text": encode_string(joined(said, thoughts=False))}
        return text | thought(part.fields, joined(said, thoughts=True), names) | self._arrays.get(part.place, {})

    # ------------------------------------------------------------------ frames of our own

    def text_event(self, like: Message | None, index: int, channel: str, text: str, names: tuple[str, ...]) -> bytes:
        """An event of our own that carries one piece of text."""
        value = encode_string(text)
        if channel == REASONING:
            return _event(like, index, {**dict.fromkeys(names, value)}, b"null")
        return _event(like, index, {"text": value, **self._late.pop(index, {})}, b"null")

    def finish_event(self, like: Message | None, index: int, reason: str) -> bytes:
        """An event of our own that ends a choice."""
        return _event(like, index, {}, encode_string(reason))


# ---------------------------------------------------------------------- parts


def _part(place: int, choice: dict[str, Any]) -> Part:
    if choice.get("text") is None and any(choice.get(name) is not None for name in _OTHER_TEXT):
        raise TypeError("a choice of another shape")
    finish, reason = choice.get("finish_reason"), stop_reason(choice, *_STOPPED_BY)
    return part_of(place, choice.get("index", place), choice, finish=finish, stop_reason=reason)


def _payload(part: Part) -> bool:
    """True when the choice says anything besides its text and the arrays beside it."""
    return any(value is not None for name, value in part.fields.items() if name not in _SILENT)


def _columns(fields: Mapping[str, Any]) -> dict[Column, int]:
    """The arrays beside the text of a choice, and how long they are."""
    logprobs = fields.get("logprobs")
    inside = logprobs if isinstance(logprobs, dict) else {}
    arrays: dict[Column, Any] = {("logprobs", name): value for name, value in inside.items()}
    arrays[_IDS] = fields.get("token_ids")
    return {column: len(array) for column, array in arrays.items() if isinstance(array, list)}


def _tokens(message: Message, part: Part) -> list[Token]:
    """The text of a choice cut in tokens, as far as it is told how."""
    counts = _columns(part.fields)
    if not counts:
        return cut(part.content, None)
    logprobs = part.fields.get("logprobs")
    logprobs = logprobs if isinstance(logprobs, dict) else {}
    offsets = _list(logprobs.get("text_offset"))
    if all(type(offset) is int and offset >= 0 for offset in offsets):
        counts.pop(_OFFSETS, None)  # they are counted anew
    else:
        offsets = []  # SGLang does not count: -1
    columns = Columns(counts, lambda column: items(message.data, ("choices", part.place, *column)))
    return cut(part.content, columns, spelled=_spelled(logprobs), offsets=offsets)


def _spelled(logprobs: Mapping[str, Any]) -> Sequence[object]:
    """How the tokens are written: OpenAI's form, or the chat form (llama.cpp)."""
    rows = _list(logprobs.get("content"))
    return _list(logprobs.get("tokens")) or [row.get("token") if isinstance(row, dict) else None for row in rows]


def _list(value: object) -> list[Any]:
    """An array; what is none has nothing in it."""
    return value if isinstance(value, list) else []


# ---------------------------------------------------------------------- bytes


def _arrays(fields: Mapping[str, Any], kept: Sequence[Token], places: Sequence[int]) -> Members:
    """The arrays of a choice and those of `kept`, with what stands beside `kept` in them; `places` are its offsets.

    `logprobs` with nothing in it is null, as engines send it.
    """
    texts: dict[Column, list[bytes]] = {column: [] for column in _columns(fields)}
    for token in kept:
        for column, found in token.items.items():
            texts.setdefault(column, []).extend(found)
    if places:
        texts[_OFFSETS] = [b"%d" % place for place in places]
    members: Members = {column[0]: _array(found) for column, found in texts.items() if column == _IDS}
    group = {column[1]: _array(found) for column, found in texts.items() if column != _IDS}
    if group:
        inside: Changes = {name: array for name, array in group.items()}
        empty = not any(found for column, found in texts.items() if column != _IDS)
        members["logprobs"] = b"null" if empty else inside if fields.get("logprobs") else object_of(group)
    return members


def _array(found: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(found) + b"]"


def _event(like: Message | None, index: int, members: Members, finish: bytes) -> bytes:
    fields = {"index": b"%d" % index, "text": b'""', "logprobs": b"null", **members, "finish_reason": finish}
    choice = object_of({str(name): value for name, value in fields.items() if isinstance(value, bytes)})
    return b'{%b,"choices":[%b]}' % (head(like, _OBJECT), choice)
