"""The items of a Responses stream as its client has them: how each begins and ends, and all that a call says.

Knows their order: one at a time, and what is open is ended before the next one. Must not know whose text is in one.
"""

from __future__ import annotations

from typing import Any

from gateway.protocols.protocol import CallChange, Message, NumberedCall
from gateway.protocols.responses_items import (
    CALL,
    NO_CHANGES,
    Item,
    ItemWriter,
    derived_id,
    final_item,
    inside,
    new_call,
)
from gateway.protocols.responses_told import ADDED, DONE, MORE_ARGUMENTS
from gateway.streams.jsonscan import Changes, edit, encode_string


class SentItems:
    """`items`: all that were announced, in order. `open`: the one with text that is not ended, or a call of ours.

    `out`: writes events. `own`: events of ours that are to go out; whoever sends them takes them away.
    """

    __slots__ = ("items", "open", "out", "own")

    def __init__(self) -> None:
        self.out = ItemWriter()
        self.items: list[Item] = []
        self.open: Item | None = None
        self.own: list[bytes] = []

    # ------------------------------------------------------------------ items begin and end

    def enter(self, item: Item) -> None:
        """An item is next: what is open is ended."""
        self.close()
        item.index, self.out.index = self.out.index, self.out.index + 1
        self.items.append(item)

    def begin(self, item: Item) -> None:
        """An item of text is next."""
        self.enter(item)
        self.own.append(self.out.open_item(item))
        self.open = item

    def close_parts(self, item: Item) -> None:
        for part in item.parts:
            if part.open and part.style:
                self.own += self.out.close_part(item, part)

    def close(self) -> None:
        """What is open is ended, before something else begins."""
        item, self.open = self.open, None
        if item is not None:
            self.close_parts(item)
            if item.kind == CALL:
                self.own.append(self.out.close_arguments(item))
            self.own.append(self.out.close_item(item))

    def final(self, item: Item) -> bytes:
        """An item as the client has it."""
        if item.closed and not item.final:
            item.final = inside(item.done, "item")
        return item.final or final_item(item, "incomplete")

    # ------------------------------------------------------------------ calls

    def call(self, call: NumberedCall, answer: str) -> None:
        """A call of ours, or more of the one that is open."""
        item = self.open
        if not call.more or item is None:
            item = Item(CALL, derived_id(CALL, answer, self.out.index), ours=True, name=call.name)
            self.enter(item)
            empty = new_call(item.ident, call.ident, call.name, "", "in_progress")
            item.added = self.out.own(ADDED, item, {"item": empty})
            self.own.append(item.added)
            self.open = item
        if call.arguments:
            self._argue(item, call.arguments)
            if not call.more:
                self.close()

    def _argue(self, item: Item, arguments: str) -> None:
        item.arguments.append(arguments)
        said = {"item_id": encode_string(item.ident), "delta": encode_string(arguments)}
        self.own.append(self.out.own(MORE_ARGUMENTS, item, said))

    def call_event(self, kind: str, message: Message, item: Item, change: CallChange | None) -> bytes | None:
        """An event of a call of the engine's. `change`: what becomes of the fragment in it."""
        value, data = message.value, message.data
        if change and (change.name, change.arguments, change.gone) == (None, None, False):
            change = None  # only another number, which an item has none of
        if item.index is None and change and change.gone:
            item.gone = True
            return None
        if kind == ADDED:
            return self._begin(item, data, change)
        if kind == MORE_ARGUMENTS:
            return self._more(item, value, data, change)
        return self._finish(kind, item, value, data, change)

    def _begin(self, item: Item, data: bytes, change: CallChange | None) -> bytes | None:
        """A call is announced; with all of its arguments where they are known."""
        self.enter(item)
        renames = change is not None and change.name is not None and change.name != item.name
        item.name = change.name if change and renames else item.name
        named: Changes = {"name": encode_string(item.name or "")}
        placed = self.out.placed(data, item, changes={"item": named} if renames else NO_CHANGES)
        if change is None or not change.arguments:
            return placed
        self.own.append(placed)
        self._argue(item, change.arguments)
        return None

    def _more(self, item: Item, value: dict[str, Any], data: bytes, change: CallChange | None) -> bytes | None:
        if change is None:
            item.arguments.append(value["delta"])
            return self.out.placed(data, item)
        if change.arguments:
            self._argue(item, change.arguments)
        return None

    def _finish(
        self, kind: str, item: Item, value: dict[str, Any], data: bytes, change: CallChange | None
    ) -> bytes | None:
        """A call, or its arguments, are over; they may only be told now."""
        only = item.index is None
        if only:
            self.enter(item)
            item.name = change.name if change and change.name else item.name
            stub: Changes = {"arguments": b'""', "status": b'"in_progress"', "name": encode_string(item.name or "")}
            self.own.append(self.out.own(ADDED, item, {"item": edit(inside(data, "item"), stub)}))
        late = (value.get("item") or value).get("arguments") if change is None else change.arguments
        if late and not item.arguments:
            self._argue(item, late)
        if only:
            self.own.append(self.out.close_arguments(item))
        if kind == DONE:
            return self.out.close_item(item)
        said = {"name": item.name, "arguments": "".join(item.arguments)}
        changes: Changes = {k: encode_string(text) for k, text in said.items() if text and value.get(k, text) != text}
        return self.out.placed(data, item, changes=changes)
