"""The items of a Responses stream as the engine's events tell them: what each event is about, and what it says of it.

Knows the types of events. Must not know what goes out.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.events import REASONING
from gateway.protocols.protocol import Message
from gateway.protocols.responses_items import (
    CALL,
    DELTAS,
    MESSAGE,
    OLD_THOUGHT,
    OUTPUT,
    STYLES,
    SUMMARY,
    THOUGHT,
    Item,
    Style,
    TextPart,
)
from gateway.protocols.responses_output import is_commentary

ADDED: Final = "response.output_item.added"
DONE: Final = "response.output_item.done"
ARGUMENTS: Final = "response.function_call_arguments"
MORE_ARGUMENTS: Final = f"{ARGUMENTS}.delta"
FAILED: Final = "response.failed"
ENDED: Final = ("response.completed", "response.incomplete", "response.cancelled", FAILED)
TEXTUAL: Final = (REASONING, MESSAGE)
_AROUND: Final = (OUTPUT.around, OLD_THOUGHT.around, SUMMARY.around)
PART_ADDED: Final = frozenset(f"{around}.added" for around in _AROUND)
PART_DONE: Final = frozenset(f"{around}.done" for around in _AROUND)
TEXT_DONE: Final = {f"{style.text}.done": style for style in STYLES}
_REFUSAL: Final = ("response.refusal.delta", "response.refusal.done")
_OF_PARTS: Final = frozenset((*PART_ADDED, *PART_DONE, *TEXT_DONE, *DELTAS, *_REFUSAL))
About = tuple[Item | None, TextPart | None]
"""What an event is about."""


class Told:
    """`items`: by the engine's number. `thought`: how it writes reasoning. `response`: its latest event with the whole
    response; `answer`: the id in that. `drops`: progress messages are not to go out.
    """

    __slots__ = ("answer", "drops", "items", "response", "thought")

    def __init__(self, *, drops: bool) -> None:
        self.drops = drops
        self.items: dict[int, Item] = {}
        self.thought = THOUGHT
        self.response = b""
        self.answer = ""

    def note(self, message: Message) -> About:
        """The next event, noted once."""
        value, data = message.value, message.data
        kind = str(value.get("type"))
        response, index = value.get("response"), value.get("output_index")
        if isinstance(response, dict):
            self.response = data
            self.answer = self.answer or str(response.get("id") or "")
        if type(index) is not int:
            return None, None
        item = self.items.get(index)
        if item is None or kind == ADDED:
            item = self.items[index] = self._item(value, data, kind)
        if kind == DONE:
            item.done = data
        return item, self._part(item, value, data, kind) if kind in _OF_PARTS else None

    def _item(self, value: dict[str, Any], data: bytes, kind: str) -> Item:
        """An item that is told for the first time, mostly by the event that announces it."""
        said, style = value.get("item") or {}, DELTAS.get(kind)
        item = Item(said.get("type") or (style.item if style else ""), said.get("id") or value.get("item_id") or "")
        item.added = data if kind == ADDED else b""
        item.name = said.get("name") if item.kind == CALL else None
        item.silent = is_commentary(said)
        item.gone = item.silent and self.drops
        return item

    def _part(self, item: Item, value: dict[str, Any], data: bytes, kind: str) -> TextPart:
        """The part that an event is about, with what the event says of it."""
        around = kind.rpartition(".")[0]
        style = _style(item, value, kind)
        part = part_of(item, style, value.get((style or OUTPUT).place, 0))
        if kind in DELTAS:
            item.spoke = item.spoke or bool(value["delta"])
        elif kind in PART_ADDED:
            part.added, part.around = data, around
            if item.kind == REASONING and style:
                self.thought = OLD_THOUGHT if around == OLD_THOUGHT.around else style
        elif kind in PART_DONE:
            part.part_done = data
        elif kind in TEXT_DONE:
            part.text_done = data
        return part


def _style(item: Item, value: dict[str, Any], kind: str) -> Style | None:
    """How the part of an event is written; None where it is of another kind."""
    if style := TEXT_DONE.get(kind) or DELTAS.get(kind):
        return style
    if kind.startswith(SUMMARY.around):
        return SUMMARY
    if item.kind == REASONING:
        return THOUGHT
    return OUTPUT if (value.get("part") or {}).get("type") == OUTPUT.part else None


def part_of(item: Item, style: Style | None, source: int) -> TextPart:
    """The part that the engine numbers so, which may be a new one."""
    like = style or OUTPUT
    part = item.part(source, like.holder)
    if part is None:
        part = TextPart(style, len(item.parts) if item.ours else source, source, like.around)
        item.parts.append(part)
    return part
