"""Items of a Responses answer, as the engine announced them and as they go out, and how their events are written.

Sources: reference/vllm.md 3.5, reference/sglang.md 3.5, OpenAI's reference of the streaming events. Knows the members
of items, of their parts and of the events around both. Must not know which text goes where: `responses_stream` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

from gateway.events import CONTENT, REASONING
from gateway.streams.jsonscan import DROP, Changes, Drop, edit, encode_string, items, loads, member

CALL: Final = "function_call"
MESSAGE: Final = "message"
_PREFIX: Final = {REASONING: "rs", MESSAGE: "msg", CALL: "fc"}  # of the engines' own ids
_ID_DIGITS: Final = 16
_SAID: Final = ("text", "refusal", "logprobs")  # members of a part that say something
Members = dict[str | int, "bytes | Drop | Changes"]
NO_CHANGES: Final[Changes] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How one kind of text is written. `item`: the type of its item; `holder`: the member that lists its parts, `part`
    their type, `place` how events number them. `text`, `around`: what the types of its events begin with.
    """

    item: str
    holder: str
    part: str
    place: str
    text: str
    around: str

    @property
    def channel(self) -> str:
        """The channel of `gateway.events` that it is."""
        return CONTENT if self.item == MESSAGE else REASONING


OUTPUT: Final = Style(
    item=MESSAGE,
    holder="content",
    part="output_text",
    place="content_index",
    text="response.output_text",
    around="response.content_part",
)
THOUGHT: Final = replace(OUTPUT, item=REASONING, part="reasoning_text", text="response.reasoning_text")
OLD_THOUGHT: Final = replace(THOUGHT, around="response.reasoning_part")  # vLLM up to 0.28, and gpt-oss there
SUMMARY: Final = Style(
    item=REASONING,
    holder="summary",
    part="summary_text",
    place="summary_index",
    text="response.reasoning_summary_text",
    around="response.reasoning_summary_part",
)
STYLES: Final = (OUTPUT, THOUGHT, SUMMARY)
DELTAS: Final[Mapping[str, Style]] = {f"{style.text}.delta": style for style in STYLES}


@dataclass(slots=True, eq=False)
class TextPart:
    """One part of an item. `style` None: of a kind that is not read. `place`: in its item; `source`: in the engine's.
    `around`: what the types of the events around it begin with.

    `added`, `text_done`, `part_done`: the engine's events around it, as they came. `open`: it was announced to the
    client and not ended. `texts`, `tokens`: what went out, the tokens as JSON. `final`: the part as it was ended.
    """

    style: Style | None
    place: int
    source: int
    around: str
    added: bytes = b""
    text_done: bytes = b""
    part_done: bytes = b""
    open: bool = False
    texts: list[str] = field(default_factory=list)
    tokens: list[bytes] = field(default_factory=list)
    final: bytes = b""

    @property
    def text(self) -> str:
        """All that went out."""
        return "".join(self.texts)

    @property
    def holder(self) -> str:
        """The member of its item that lists it."""
        return self.style.holder if self.style else OUTPUT.holder


@dataclass(slots=True, eq=False)
class Item:
    """One item. `kind`: its type. `index`: its place in what went out, None while it is not announced there.

    `ours`: the engine has none such. `added`, `done`: the engine's events around it, as they came. `silent`: its text
    is no part of the answer. `gone`: none of it goes out. `spoke`: the engine gave it text. `name`, `arguments`: of a
    call, as they went out. `final`: the item as it was ended.
    """

    kind: str
    ident: str
    index: int | None = None
    ours: bool = False
    added: bytes = b""
    done: bytes = b""
    silent: bool = False
    gone: bool = False
    spoke: bool = False
    closed: bool = False
    name: str | None = None
    arguments: list[str] = field(default_factory=list)
    parts: list[TextPart] = field(default_factory=list)
    final: bytes = b""

    def part(self, source: int, holder: str) -> TextPart | None:
        """The part that the engine numbers so."""
        return next((part for part in self.parts if (part.source, part.holder) == (source, holder)), None)


def derived_id(kind: str, answer: str, index: int) -> str:
    """An id for an item of ours: the same for the same place of the same answer."""
    digest = sha256(f"{answer}\n{index}".encode("utf-8", "replace")).hexdigest()
    return f"{_PREFIX[kind]}_{digest[:_ID_DIGITS]}"


def object_of(members: Mapping[str, bytes]) -> bytes:
    """A JSON object."""
    return b"{%b}" % b",".join([b'"%b":%b' % (name.encode(), value) for name, value in members.items()])


def list_of(values: Sequence[bytes]) -> bytes:
    """A JSON array."""
    return b"[%b]" % b",".join(values)


def inside(data: bytes, *path: str | int) -> bytes:
    """The bytes of a member; empty where there is none."""
    span = member(data, path) if data else None
    return data[slice(*span)] if span else b""


def new_part(style: Style, text: str, tokens: Sequence[bytes] = ()) -> bytes:
    """A part of ours."""
    members = {"type": encode_string(style.part), "text": encode_string(text)}
    if style is OUTPUT:
        members |= {"annotations": b"[]", "logprobs": list_of(tokens)}
    return object_of(members)


def new_item(kind: str, ident: str, status: str, parts: Sequence[bytes] = (), *, holder: str = "content") -> bytes:
    """A reasoning or message item of ours."""
    members = {"id": encode_string(ident), "type": encode_string(kind), "status": encode_string(status)}
    if kind == MESSAGE:
        members["role"] = b'"assistant"'
    else:
        members["summary"] = b"[]"
    return object_of(members | {holder: list_of(parts)})


def new_call(ident: str, call_id: str, name: str, arguments: str, status: str) -> bytes:
    """A call of ours."""
    said = {"id": ident, "type": CALL, "call_id": call_id, "name": name, "arguments": arguments, "status": status}
    return object_of({key: encode_string(value) for key, value in said.items()})


def told(item: Mapping[str, Any]) -> tuple[Any, ...]:
    """What an item says: its type, and its text or its call; empty where it says nothing that is read."""
    kind = item.get("type")
    if kind == CALL:
        return (CALL, item.get("name"), item.get("arguments"))
    texts = texts_of(item)
    return (kind, *texts) if any(texts) else ()


def texts_of(item: Mapping[str, Any]) -> list[str]:
    """The texts of a reasoning or message item, part by part."""
    kind = item.get("type")
    if kind == MESSAGE:
        return [part["text"] for part in parts_of(item, "content") if part.get("type") == OUTPUT.part]
    if kind != REASONING:
        return []
    content = [part["text"] for part in parts_of(item, "content") if isinstance(part.get("text"), str)]
    return content if any(content) else [part["text"] for part in parts_of(item, "summary") if part.get("text")]


def check_item(item: Mapping[str, Any]) -> None:
    """Raises TypeError or KeyError where the text of an item cannot be read."""
    if item.get("type") not in (REASONING, MESSAGE):
        return
    texts_of(item)
    for parts in (item.get(OUTPUT.holder), item.get(SUMMARY.holder)):
        if not (parts is None or isinstance(parts, list)):
            raise TypeError("parts that are none")
        if not all(isinstance(part, dict) and isinstance(part.get("text", ""), str | None) for part in parts or ()):
            raise TypeError("text that is no string")


def parts_of(item: Mapping[str, Any], holder: str) -> list[dict[str, Any]]:
    """The parts that a member of an item lists."""
    return [part for part in item.get(holder) or () if isinstance(part, dict)]


class ItemWriter:
    """Writes events in their place. `sequence`, `index`: the numbers of the next event and of the next item.

    `numbered`: the engine counts its events. `answer`: the id of the answer.
    """

    __slots__ = ("answer", "index", "numbered", "sequence")

    def __init__(self) -> None:
        self.sequence = 0
        self.index = 0
        self.numbered = True
        self.answer = ""

    def came(self, value: Mapping[str, Any]) -> None:
        """An event of the engine goes out as it came."""
        number = value.get("sequence_number")
        self.numbered = isinstance(number, int)
        if isinstance(number, int):
            self.sequence = number + 1

    # ------------------------------------------------------------------ events

    def placed(
        self,
        data: bytes,
        item: Item | None = None,
        part: TextPart | None = None,
        changes: Changes = NO_CHANGES,
        value: Any = None,
    ) -> bytes:
        """An event of the engine in its place among those that went out; the same object where nothing changes.

        `value`: what `data` says, where it is known.
        """
        value = value or loads(data)
        wanted: Members = {**changes}
        self.numbered = "sequence_number" in value
        if self.numbered:
            if value["sequence_number"] != self.sequence:
                wanted["sequence_number"] = b"%d" % self.sequence
            self.sequence += 1
        if item is not None and item.index is not None:
            if value.get("output_index", item.index) != item.index:
                wanted["output_index"] = b"%d" % item.index
            if value.get("item_id", item.ident) != item.ident:
                wanted["item_id"] = encode_string(item.ident)
        if part is not None:
            name = part.style.place if part.style else OUTPUT.place
            if value.get(name, part.place) != part.place:
                wanted[name] = b"%d" % part.place
        return edit(data, wanted) if wanted else data

    def own(self, kind: str, item: Item | None, members: Mapping[str, bytes]) -> bytes:
        """An event of ours. `item`: that it is about."""
        whole = {"type": encode_string(kind)}
        if item is not None:
            whole["output_index"] = b"%d" % (item.index or 0)
        if self.numbered:
            whole["sequence_number"] = b"%d" % self.sequence
            self.sequence += 1
        return object_of({**whole, **members})

    def _of_part(self, kind: str, item: Item, part: TextPart, members: Mapping[str, bytes]) -> bytes:
        place = part.style.place if part.style else OUTPUT.place
        where = {"item_id": encode_string(item.ident), place: b"%d" % part.place}
        return self.own(kind, item, {**where, **members})

    # ------------------------------------------------------------------ beginnings

    def open_item(self, item: Item) -> bytes:
        """The event that announces an item: the engine's own, or one of ours."""
        if item.added:
            return self.placed(item.added, item)
        empty = new_item(item.kind, item.ident, "in_progress")
        return self.own("response.output_item.added", item, {"item": empty})

    def open_part(self, item: Item, part: TextPart) -> bytes:
        """The event that announces a part."""
        part.open = True
        if part.added:
            return self.placed(part.added, item, part)
        assert part.style, "only the engine opens others"
        return self._of_part(f"{part.around}.added", item, part, {"part": new_part(part.style, "")})

    def delta(self, item: Item, part: TextPart, text: str, tokens: Sequence[bytes]) -> bytes:
        """An event of ours with a piece of text."""
        assert part.style, "others are not written"
        said = {"delta": encode_string(text)}
        if part.style is OUTPUT:
            said["logprobs"] = list_of(tokens)
        return self._of_part(f"{part.style.text}.delta", item, part, said)

    # ------------------------------------------------------------------ endings

    def close_part(self, item: Item, part: TextPart) -> list[bytes]:
        """The events that end a text part: those of the engine where they have come, with the text that went out."""
        assert part.style, "the engine ends others"
        part.open = False
        if part.text_done:
            changes = _text_changes(loads(part.text_done), part)
            ended = self.placed(part.text_done, item, part, changes)
        else:
            said = {"text": encode_string(part.text)}
            if part.style is OUTPUT:
                said["logprobs"] = list_of(part.tokens)
            ended = self._of_part(f"{part.style.text}.done", item, part, said)
        part.final = final_part(part)
        if not part.part_done:
            return [ended, self._of_part(f"{part.around}.done", item, part, {"part": part.final})]
        same = inside(part.part_done, "part") == part.final
        return [ended, self.placed(part.part_done, item, part, NO_CHANGES if same else {"part": part.final})]

    def close_item(self, item: Item) -> bytes:
        """The event that ends an item."""
        item.closed = True
        item.final = final_item(item, "completed")
        if item.done:
            same = inside(item.done, "item") == item.final
            return self.placed(item.done, item, changes=NO_CHANGES if same else {"item": item.final})
        return self.own("response.output_item.done", item, {"item": item.final})

    def close_arguments(self, item: Item) -> bytes:
        """An event of ours that ends the arguments of a call."""
        said = {"name": encode_string(item.name or ""), "arguments": encode_string("".join(item.arguments))}
        said["item_id"] = encode_string(item.ident)
        return self.own("response.function_call_arguments.done", item, said)


def _text_changes(value: Any, part: TextPart) -> Members:
    """What has to change in an object with the text of a part and its tokens."""
    changes: Members = {} if value.get("text") == part.text else {"text": encode_string(part.text)}
    if changes and value.get("logprobs"):
        changes["logprobs"] = list_of(part.tokens)
    return changes


def final_part(part: TextPart) -> bytes:
    """A part with the text that went out: the engine's own where it has told it."""
    base = inside(part.part_done, "part") or inside(part.added, "part")
    if part.style is None:
        return part.final or base
    if not base:
        return new_part(part.style, part.text, part.tokens)
    return edit(base, _text_changes(loads(base), part))


def final_item(item: Item, status: str) -> bytes:
    """An item as what went out says it: the engine's own where it has told it. `status`: of one that it has not."""
    base = inside(item.done, "item")
    changes: Members = {} if base else {"status": encode_string(status)}
    base = base or inside(item.added, "item") or new_item(item.kind, item.ident, status)
    value: Any = loads(base)
    if value.get("id") != item.ident:
        changes["id"] = encode_string(item.ident)
    if item.kind == CALL:
        said = {"name": item.name, "arguments": "".join(item.arguments)}
        for key, text in said.items():
            if text is not None and text != value.get(key):
                changes[key] = encode_string(text)
    else:
        shown = [part for part in item.parts if part.open or part.final or part.texts]
        for holder in dict.fromkeys(part.holder for part in shown):
            finals = [part.final or final_part(part) for part in shown if part.holder == holder]
            if value.get(holder) != [loads(each) for each in finals]:
                changes[holder] = parts_saying(items(base, (holder,)), finals)
    return edit(base, changes) if changes else base


def parts_saying(own: Sequence[bytes], finals: Sequence[bytes]) -> bytes:
    """A list of parts that says what `finals` do: in `own` where those are the same parts, so that nothing of them is
    lost that only they tell.
    """
    if [inside(each, "type") for each in own] != [inside(each, "type") for each in finals]:
        return list_of(finals)
    return list_of(list(map(_saying, own, finals)))


def _saying(own: bytes, final: bytes) -> bytes:
    """The part `own` with the text and the tokens of `final`."""
    mine: Any = loads(own)
    theirs: Any = loads(final)
    differ = [name for name in _SAID if mine.get(name) != theirs.get(name)]
    return edit(own, {name: inside(final, name) or DROP for name in differ})
