"""Is a stream of Responses legal? From OpenAI's reference of the streaming events of Responses.

What a client may rely on: frames are named as their events' types; numbers count by one; items are announced in order,
one open at a time; parts stand in their item; text comes in deltas to the open part; every `done` says what the deltas
said; the one terminal event comes last and tells the same items. An `error` ends the stream too. Types that are not
known here are let pass, and so is `[DONE]` behind the end, which servers of chat send out of habit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.protocols.legal.flow import Flow, entries, member, shown, text

Handler = Callable[["Item", str, str, dict[str, Any]], None]

TEXTS: Final = {  # prefix of the text's events: type of the part, its item, its member, and how it is numbered
    "response.output_text": ("output_text", "message", "content", "content_index"),
    "response.refusal": ("refusal", "message", "content", "content_index"),
    "response.reasoning_text": ("reasoning_text", "reasoning", "content", "content_index"),
    "response.reasoning_summary_text": ("summary_text", "reasoning", "summary", "summary_index"),
}
PARTS: Final = {
    "response.content_part": "content",
    "response.reasoning_part": "content",  # vLLM 0.28
    "response.reasoning_summary_part": "summary",
}
NUMBER: Final = {"content": "content_index", "summary": "summary_index"}
ARGUMENTS: Final = "response.function_call_arguments"
ENDS: Final = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
BEGINS: Final = ("response.created", "error")


@dataclass(slots=True)
class Part:
    """One part: its text so far, and whether its text and itself are over."""

    kind: str
    text: str = ""
    said: bool = False
    over: bool = False


@dataclass(slots=True)
class Item:
    """One item as it was announced. `value`: as it ended."""

    kind: str
    ident: str
    parts: dict[tuple[str, int], Part] = field(default_factory=dict)
    arguments: str = ""
    said: bool = False
    value: dict[str, Any] | None = None


def violations(body: bytes, *, ended: bool = True, ids: bool = True) -> list[str]:
    """What is not legal in a stream of Responses; empty: nothing. `ended`: nothing of it is missing.

    `ids`: the terminal event names the items as their own events did (vLLM 0.28 does not).
    """
    return Events(ids=ids).read(body, ended=ended)


class Events(Flow):
    """One stream."""

    done = b"[DONE]"
    goodbye = (*ENDS, "error")

    def __init__(self, *, ids: bool) -> None:
        super().__init__()
        self._ids = ids
        self._items: list[Item] = []
        self._steps: dict[str, Handler] = {
            **dict.fromkeys(PARTS, self._part),
            **dict.fromkeys(TEXTS, self._text),
            ARGUMENTS: self._arguments,
        }

    def take(self, number: int, name: str, kind: str, value: dict[str, Any]) -> None:
        """One event."""
        self.say(kind and name == kind, f"its frame is named {shown(name)}")
        self.say(value.get("sequence_number") == number, f"it is numbered {shown(value.get('sequence_number'))}")
        self.say(number or kind in BEGINS, "the stream does not begin with its creation")
        prefix, _, step = kind.rpartition(".")
        if kind in ENDS:
            self._end(value.get("response"), failed=kind == "response.failed")
        if kind in self.goodbye:
            self.over = kind
        elif kind == "response.output_item.added":
            self._added(value)
        elif kind == "response.output_item.done" and (item := self._open(value)):
            self._done(item, value)
        elif prefix in self._steps and (item := self._open(value)):
            self._steps[prefix](item, prefix, step, value)

    # ------------------------------------------------------------------ items

    def _added(self, event: dict[str, Any]) -> None:
        ident, status = member(event, "item", "id"), member(event, "item", "status")
        self.say(event.get("output_index") == len(self._items), f"its index is {shown(event.get('output_index'))}")
        self.say(all(each.value is not None for each in self._items), "an item is still open")
        self.say(ident and ident not in [each.ident for each in self._items], "the item has no id of its own")
        self.say(status in ("in_progress", None), f"the item begins as {shown(status)}")
        self._items.append(Item(text(member(event, "item", "type")), text(ident)))

    def _open(self, event: dict[str, Any]) -> Item | None:
        """The item that an event is about, which has to be the one that is open."""
        index = event.get("output_index")
        if not self.say(type(index) is int and 0 <= index < len(self._items), f"there is no item {shown(index)}"):
            return None
        assert isinstance(index, int)
        item = self._items[index]
        self.say(item.value is None, f"item {index} is over")
        self.say(event.get("item_id", item.ident) == item.ident, f"it names item {index} otherwise")
        return item

    def _done(self, item: Item, event: dict[str, Any]) -> None:
        value = event.get("item")
        self.say((member(value, "type"), member(value, "id")) == (item.kind, item.ident), "it is another item")
        self.say(all(part.over for part in item.parts.values()), "a part of the item is open")
        for holder in sorted({place[0] for place in item.parts}):
            texts = [part.text for (held, _), part in sorted(item.parts.items()) if held == holder]
            told = [_text_of(part) for part in entries(member(value, holder))]
            self.say(texts == told, f"the item has other {holder} than its deltas said")
        if item.kind == "function_call":
            same = item.said and member(value, "arguments") == item.arguments
            self.say(same, "the item has other arguments than its deltas said")
        item.value = value if isinstance(value, dict) else {}

    # ------------------------------------------------------------------ parts and text

    def _part(self, item: Item, prefix: str, step: str, event: dict[str, Any]) -> None:
        holder = PARTS[prefix]
        place = (holder, _number(event, NUMBER[holder]))
        part = item.parts.get(place)
        if step == "added":
            self.say(part is None, f"part {place[1]} is announced twice")
            self.say(all(each.over for each in item.parts.values()), "another part is open")
            self.say(not _text_of(event.get("part")), "the part begins with text")
            item.parts[place] = Part(text(member(event, "part", "type")))
        elif self.say(part is not None, f"there is no part {place[1]}"):
            assert part is not None
            self.say(part.said and not part.over, "the text of the part is not over, or the part is")
            self.say(_text_of(event.get("part")) == part.text, "the part has other text than its deltas said")
            part.over = True

    def _text(self, item: Item, prefix: str, step: str, event: dict[str, Any]) -> None:
        if step not in ("delta", "done"):
            return
        kind, kin, holder, number = TEXTS[prefix]
        part = item.parts.get((holder, _number(event, number)))
        self.say(item.kind == kin, f"the item is of type {shown(item.kind)}")
        if not self.say(part is not None, f"there is no part {_number(event, number)}"):
            return
        assert part is not None
        self.say(not part.said and part.kind == kind, "the text of the part is over, or of another kind")
        if step == "delta":
            delta = text(event.get("delta"))
            part.text += delta
            self.say(_spells(entries(event.get("logprobs")), delta), "its tokens are of other text")
        else:
            said = event.get("refusal" if kind == "refusal" else "text")
            self.say(said == part.text, "it has other text than the deltas said")
            part.said = True

    def _arguments(self, item: Item, prefix: str, step: str, event: dict[str, Any]) -> None:
        self.say(item.kind == "function_call" and not item.said, "there is no call that is open")
        if step == "delta":
            item.arguments += text(event.get("delta"))
        else:
            self.say(event.get("arguments") == item.arguments, "it has other arguments than the deltas said")
            item.said = True

    # ------------------------------------------------------------------ the end

    def last(self) -> None:
        """`[DONE]`, which ends nothing here."""
        self.say(self.over, "there was no terminal event")

    def _end(self, response: Any, *, failed: bool) -> None:
        if failed:
            return
        self.say(all(item.value is not None for item in self._items), "an item is open")
        ended = [self._told(item.value) for item in self._items]
        told = [self._told(item) for item in entries(member(response, "output"))]
        self.say(ended == told, "the response has other items than the events told")

    def _told(self, item: Any) -> list[Any]:
        """What an item says."""
        texts = [_text_of(part) for holder in ("content", "summary") for part in entries(member(item, holder))]
        ident = member(item, "id") if self._ids else None
        return [member(item, "type"), ident, texts, member(item, "name"), member(item, "arguments")]


def _number(event: dict[str, Any], name: str) -> int:
    number = event.get(name)
    return number if isinstance(number, int) else -1


def _text_of(part: Any) -> str:
    """The text of a part, whatever its kind."""
    return text(member(part, "text")) or text(member(part, "refusal"))


def _spells(tokens: list[Any], said: str) -> bool:
    """True where the tokens stand in the text, in order."""
    at = 0
    for token in tokens:
        word = text(member(token, "token"))
        at = said.find(word, at)
        if at < 0:
            return False
        at += len(word)
    return True
