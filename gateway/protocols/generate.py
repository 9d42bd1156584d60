"""SGLang's native `/generate` (reference/sglang.md 3.4), streamed and plain; LMDeploy has it too, with deltas.

An event is the whole answer so far (SGLang's default) or the next piece of it; which, its first two events tell. What
goes out keeps the engine's way: a rewritten answer is cumulative where the engine's is. A split thought stands beside
`text`. Never judges text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gateway.errors import IntegrityError
from gateway.events import REASONING
from gateway.protocols.beside import Beside, Column, Columns, Token, cut
from gateway.protocols.frames import error_kind, parsed
from gateway.protocols.protocol import NOTHING, Fate, Message, NotThisProtocol, Part, RequestFacts, Said
from gateway.protocols.raw_ids import IdsRead, IdText, is_cumulative, opened
from gateway.protocols.raw_request import generate_facts
from gateway.protocols.raw_text import (
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
    told,
)
from gateway.streams import sse
from gateway.streams.jsonscan import encode_string, items, member
from gateway.streams.tokens import are_ids

_IDS: Final = ("output_ids",)
_META: Final = "meta_info"
_LOGPROBS: Final = "output_token_logprobs"  # [log probability, id, text or null] for each token
_OUTPUT: Final = "output_"  # how the arrays of `meta_info` that stand beside the output begin
_NO_MORE: Final[Mapping[str, bytes]] = {}
_LENGTH: Final = "_length"  # SGLang tells how long an array is, under its name and this


class _Arrays:
    """What stands beside a text, written out: so that adding to it costs what is added."""

    __slots__ = ("_counts", "_texts")

    def __init__(self) -> None:
        self._texts: dict[Column, bytearray] = {}
        self._counts: Counter[Column] = Counter()

    def add(self, tokens: Iterable[Token]) -> _Arrays:
        """With more tokens at the end."""
        for token in tokens:
            for column, found in token.items.items():
                text = self._texts.setdefault(column, bytearray())
                text += b"," * bool(text and found) + b",".join(found)
                self._counts[column] += len(found)
        return self

    def members(self, fields: Mapping[str, Any]) -> Members:
        """The arrays that an event with `fields` has, with this in them, and how long they are."""
        meta = _meta(fields)
        columns = [(_META, name) for name in _named(meta)]
        inside: Members = {column[-1]: self._array(column) for column in columns}
        inside |= {n + _LENGTH: b"%d" % self._counts[_META, n] for _, n in columns if n + _LENGTH in meta}
        ids: Members = {"output_ids": self._array(_IDS)} if isinstance(fields.get("output_ids"), list) else {}
        return ids | ({_META: inside} if inside else {})

    def _array(self, column: Column) -> bytes:
        return b"[" + bytes(self._texts.get(column, b"")) + b"]"


@dataclass(slots=True)
class _Answer:
    """One answer. `event`, `fields`: its last event. `text`, `reasoning`, `ids`: what the engine said so far.
    `lengths`: of its arrays; `arrays`: as far as they were read, without the bracket at their end, and how many items
    that is. `new`: the tokens of the last event, `latest`: those that went out with it, None: nothing has been placed.
    `out`, `thought`, `kept`: all that has gone out. `spelled`: makes text of its ids, None: they are not read.
    """

    event: bytes = b'{"text":"","output_ids":[]}'
    fields: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    reasoning: str = ""
    ids: list[Any] = field(default_factory=list)
    arrays: dict[Column, tuple[bytes, int]] = field(default_factory=dict)
    lengths: dict[Column, int] = field(default_factory=dict)
    new: list[Token] = field(default_factory=list)
    beside: Beside = field(default_factory=Beside)
    out: str = ""
    thought: str = ""
    kept: _Arrays = field(default_factory=lambda: _Arrays())
    latest: list[Token] | None = None
    spelled: IdText | None = None


class Generate(RawText):
    """`POST /generate`."""

    name = "generate"

    def __init__(self, ids: IdsRead | None = None) -> None:
        self._read = ids
        self._answers: dict[int, _Answer] = {}  # by index
        self._cumulative: bool | None = None  # None: nothing tells yet, and both come to the same
        self._lost = False  # the engine took back text that it had sent
        self._names: tuple[str, ...] = ()  # the reasoning's, in what went out last

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What a request says."""
        return generate_facts(request)

    def stream(self, *, rewrites: bool) -> Generate:
        """As `RawText.stream`."""
        return Generate(self._read)

    def path(self, message: Message, part: Part) -> Path:
        """Where the members of a part are in its frame: a list of prompts has a list of answers."""
        return () if message.value else (part.place,)

    # ------------------------------------------------------------------ in

    def decode_event(self, data: bytes) -> Message:
        """The next stream event: what it says that the ones before did not. Raises NotThisProtocol."""
        value, odd = parsed(data)
        if isinstance(value, dict) and value.get("error"):
            return Message(data, value, [], True, odd)
        part = _part(0, value)
        if type(part.index) is int:
            self._advance(self._answers.setdefault(part.index, _Answer()), part, data)
        return Message(data, value, [part], False, odd)

    def decode_body(self, body: bytes) -> Message:
        """A whole plain body: of a list of prompts a list. Raises NotThisProtocol."""
        value, odd = parsed(body)
        several = isinstance(value, list)
        parts = [_part(place, each) for place, each in enumerate(value if several else [value])]
        for part in parts:
            if spelled := opened(self._read, part.fields.get("output_ids")):
                part.marked = spelled.feed(_ids(part.fields), matched=part.stop_reason)
        return Message(body, {} if several else value, parts, False, odd)

    def _advance(self, answer: _Answer, part: Part, data: bytes) -> None:
        """The part's text becomes what is new in it."""
        if self._cumulative is None:
            before, count = (answer.text, answer.ids), _meta(part.fields).get("completion_tokens")
            self._cumulative = is_cumulative((part.content, _ids(part.fields)), before=before, count=count)
        text, reasoning, ids = part.content, part.reasoning, part.fields.get("output_ids")
        answer.spelled = answer.spelled if answer.fields else opened(self._read, ids)
        self._lost = self._lost or (answer.spelled is not None and not are_ids(ids))
        if self._cumulative:
            shrunk = not (answer.spelled or text.startswith(answer.text)) or len(_ids(part.fields)) < len(answer.ids)
            self._lost = self._lost or shrunk or not reasoning.startswith(answer.reasoning)
            part.content, part.reasoning = text[len(answer.text) :], reasoning[len(answer.reasoning) :]
        if self._lost:
            raise NotThisProtocol("text taken back")
        if answer.spelled:
            new = _ids(part.fields)[len(answer.ids) if self._cumulative else 0 :]
            part.marked = answer.spelled.feed(new, matched=part.stop_reason)
        answer.new = _tokens(answer, part, data, (), more=bool(self._cumulative))
        answer.event, answer.fields = data, part.fields
        answer.text, answer.reasoning, answer.ids = text, reasoning, _ids(part.fields)

    def placed(self, message: Message, pieces: dict[int, list[Said]]) -> dict[int, list[Said]]:
        """As `RawText.placed`."""
        for part in message.parts:
            if part.fates is None:
                continue
            answer = self._answers[part.index]
            said = pieces.get(part.place, came(part))
            answer.out += joined(said, thoughts=False)
            answer.thought += joined(said, thoughts=True)
            answer.beside.blind = answer.beside.blind or message.odd
            answer.latest = answer.beside.decide(answer.new, part.fates, final=bool(part.finish))
            answer.kept.add(answer.latest)
            came_so = said == came(part) and told(part) == part.content
            if self._same(answer, came_so=came_so) and not part.names:
                pieces.pop(part.place, None)
            else:
                pieces[part.place] = said
        return pieces

    def ended(self, index: int, fates: Iterable[Fate]) -> None:
        """As `RawText.ended`."""
        answer = self._answers[index]
        answer.latest = answer.beside.decide((), fates, final=True)
        answer.kept.add(answer.latest)

    def _same(self, answer: _Answer, *, came_so: bool) -> bool:
        """True where what has to go out is the engine's own event."""
        if self._cumulative is False:
            return came_so and answer.latest == answer.new
        whole = (answer.out, answer.thought) == (answer.text, answer.reasoning)
        return whole and not answer.beside.lost and not answer.beside.waiting

    # ------------------------------------------------------------------ the same frame, changed

    def rewrite(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> tuple[list[bytes], bytes | None]:
        """As `WireProtocol.rewrite`: one event has room for thought and text."""
        self._names = names
        [part] = message.parts
        answer, said = self._answers[part.index], pieces[part.place]
        text, reasoning = joined(said, thoughts=False), joined(said, thoughts=True)
        more = {"finish_reason": _finish(finishes[part.place])} if finishes else {}
        return [], self._event(answer, text=text, reasoning=reasoning, tokens=answer.latest or [], more=more)

    def rewrite_body(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> bytes:
        """The plain body that says `pieces` in stead of the parts' own text."""
        changes: dict[Path, Members] = {}
        for part in message.parts:
            if part.place not in pieces:
                continue
            said, path, beside = pieces[part.place], self.path(message, part), Beside()
            beside.blind = message.odd
            tokens = _tokens(_Answer(), part, message.data, path, more=False)
            kept = beside.decide(tokens, part.fates or (), final=True)
            text: Members = {"text": encode_string(joined(said, thoughts=False))}
            reasoning = thought(part.fields, joined(said, thoughts=True), names)
            changes[path] = text | reasoning | _Arrays().add(kept).members(part.fields)
        return spliced(message.data, changes)

    def add_report(self, body: bytes, report: object) -> bytes:
        """A plain body with the report in its `meta_info`, the last one's of a list."""
        message = self.decode_body(body)
        more = {"integrity": orjson.dumps(report)}
        changes = {self.path(message, part): _in_meta(part.fields, {}, more) for part in message.parts[-1:]}
        return spliced(body, changes)

    def answer_id(self, message: Message) -> str:
        """The id of the answer; empty where the frame names none."""
        return str(_meta(message.value).get("id") or "")

    def has_usage(self, message: Message) -> bool:
        """Every event counts its tokens: nobody asks for it."""
        return False

    # ------------------------------------------------------------------ frames of our own

    def text_event(self, like: Message | None, index: int, channel: str, text: str, names: tuple[str, ...]) -> bytes:
        """An event of our own that carries one piece of text."""
        self._names = names
        answer, thinks = self._answers[index], channel == REASONING
        reasoning, text = (text, "") if thinks else ("", text)
        answer.thought += reasoning
        answer.out += text
        tokens: list[Token] = []
        if not thinks:
            tokens, answer.latest = answer.latest or [], []
        return self._event(answer, text=text, reasoning=reasoning, tokens=tokens)

    def finish_event(self, like: Message | None, index: int, reason: str) -> bytes:
        """An event of our own that ends an answer."""
        return self._event(self._answers[index], more={"finish_reason": _finish(reason)})

    def report_event(self, like: Message | None, report: object) -> bytes:
        """The last event once more, with the report in its `meta_info`; where the engine sends pieces, without its."""
        indexes = [part.index for part in like.parts if type(part.index) is int] if like else []
        answer = self._answers[indexes[0]] if indexes else _Answer()
        return self._event(answer, more={"integrity": orjson.dumps(report)})

    def _event(
        self,
        answer: _Answer,
        *,
        text: str = "",
        reasoning: str = "",
        tokens: Sequence[Token] = (),
        more: Mapping[str, bytes] = _NO_MORE,
    ) -> bytes:
        """The last event of an answer, saying this, or all that has gone out; `more`: members of its `meta_info`."""
        arrays = _Arrays().add(tokens)
        if self._cumulative is not False:
            text, reasoning, arrays = answer.out, answer.thought, answer.kept
        members: Members = {}
        if self._cumulative is False or answer.latest is not None:  # else the engine's own events go out
            members = {"text": encode_string(text), **thought(answer.fields, reasoning, self._names)}
            members |= arrays.members(answer.fields)
        return spliced(answer.event, {(): _in_meta(answer.fields, members, more)})

    def error_body(self, error: IntegrityError) -> bytes:
        """A gateway error as a plain body."""
        return orjson.dumps({"error": _error(error)})

    def error_event(self, error: IntegrityError) -> bytes:
        """A gateway error inside a stream, as a whole frame."""
        return sse.encode(orjson.dumps({"error": {**_error(error), "retryable": False}}))


# ---------------------------------------------------------------------- parts


def _part(place: int, value: Any) -> Part:
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise NotThisProtocol("no generate event")
    reason = _meta(value).get("finish_reason")
    said = reason if isinstance(reason, dict) else {"type": reason}
    finish = said.get("type")
    try:
        return part_of(place, value.get("index", place), value, finish=finish, stop_reason=stop_reason(said, "matched"))
    except TypeError as error:
        raise NotThisProtocol("no generate event") from error


def _meta(value: Mapping[str, Any]) -> dict[str, Any]:
    meta = value.get(_META)
    return meta if isinstance(meta, dict) else {}


def _ids(value: Mapping[str, Any]) -> list[Any]:
    ids = value.get("output_ids")
    return ids if isinstance(ids, list) else []


# ---------------------------------------------------------------------- arrays


def _tokens(answer: _Answer, part: Part, data: bytes, path: Path, *, more: bool) -> list[Token]:
    """The tokens of what is new in an event. `more`: its arrays are those of the events before, and more."""
    meta = _meta(part.fields)
    lengths: dict[Column, int] = {(_META, name): len(rows) for name, rows in _named(meta).items()}
    if isinstance(part.fields.get("output_ids"), list):
        lengths[_IDS] = len(_ids(part.fields))
    if not lengths:
        return cut(told(part), None)
    known = answer.lengths if more else {}
    answer.lengths = lengths

    def read(column: Column) -> list[bytes]:
        if column == _IDS:
            return [orjson.dumps(each) for each in _ids(part.fields)[known.get(_IDS, 0) :]]
        return _further(answer.arrays, column, data, path, known.get(column, 0))

    rows = _named(meta).get(_LOGPROBS, [])[known.get((_META, _LOGPROBS), 0) :]
    spelled = [row[2] if isinstance(row, list) and len(row) > 2 else None for row in rows]
    counts = {column: length - known.get(column, 0) for column, length in lengths.items()}
    return cut(told(part), Columns(counts, read), spelled=spelled)


def _further(
    arrays: dict[Column, tuple[bytes, int]], column: Column, data: bytes, path: Path, count: int
) -> list[bytes]:
    """The items of an array behind the first `count`. What is known of it is not read again."""
    span = member(data, (*path, *column))
    assert span, "it was parsed from there"
    raw = data[slice(*span)]
    known, length = arrays.get(column, (b"", -1))
    if length == count and raw.startswith(known):
        found = items(b"[" + raw[len(known) :].lstrip(b" \t\r\n,"), ())
    else:
        found = items(raw, ())[count:]
    arrays[column] = (raw[:-1], count + len(found))
    return found


def _named(meta: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The arrays of `meta_info` that stand beside the output."""
    return {name: rows for name, rows in meta.items() if name.startswith(_OUTPUT) and isinstance(rows, list)}


# ---------------------------------------------------------------------- bytes


def _in_meta(fields: Mapping[str, Any], members: Members, more: Mapping[str, bytes]) -> Members:
    """`members`, with `more` among those of `meta_info`."""
    inside = members.get(_META, {})
    if not more:
        return members
    if not isinstance(fields.get(_META), dict) or not isinstance(inside, dict):
        return {**members, _META: object_of(more)}
    added: Members = {name: value for name, value in more.items()}
    return {**members, _META: {**inside, **added}}


def _finish(reason: str) -> bytes:
    return orjson.dumps({"type": reason, "matched": None})


def _error(error: IntegrityError) -> dict[str, Any]:
    return {"message": str(error), "type": error_kind(error), "code": error.code}
