"""Is a Responses stream legal? Written from OpenAI's reference of the streaming events; reads bytes, knows no gateway.

`violations` lists what is wrong, empty where nothing is. What a client may rely on: event names are types; numbers
count by one; items are announced in order, one open at a time; parts stand in their item; text comes in deltas to the
open part; every `done` says what the deltas said; the one terminal event comes last and tells the same items.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

TEXTS = {  # prefix of the text's events: type of the part, its item, its member, and how it is numbered
    "response.output_text": ("output_text", "message", "content", "content_index"),
    "response.refusal": ("refusal", "message", "content", "content_index"),
    "response.reasoning_text": ("reasoning_text", "reasoning", "content", "content_index"),
    "response.reasoning_summary_text": ("summary_text", "reasoning", "summary", "summary_index"),
}
PARTS = {
    "response.content_part": "content",
    "response.reasoning_part": "content",
    "response.reasoning_summary_part": "summary",
}
NUMBER = {"content": "content_index", "summary": "summary_index"}
ARGUMENTS = "response.function_call_arguments"
ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


@dataclass
class Part:
    """One part: its text so far, and whether its text and itself are over."""

    kind: str
    text: str = ""
    said: bool = False
    over: bool = False


@dataclass
class Item:
    """One item as it was announced. `value`: as it ended."""

    kind: str
    ident: str
    parts: dict[tuple[str, int], Part] = field(default_factory=dict)
    arguments: str = ""
    said: bool = False
    value: dict[str, Any] | None = None


def events_of(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Event name and data of every event; `[DONE]` is none."""
    found: list[tuple[str, dict[str, Any]]] = []
    for block in body.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line for line in block.split("\n") if line]
        name = next((line[6:].strip() for line in lines if line.startswith("event:")), "")
        data = "\n".join(line[5:].removeprefix(" ") for line in lines if line.startswith("data:"))
        if data and data != "[DONE]":
            found.append((name, json.loads(data)))
    return found


def violations(body: bytes, *, ended: bool = True, ids: bool = True) -> list[str]:
    """What is wrong with a stream. `ended`: it has to end with its terminal event, else with an error, or open.

    `ids`: the terminal event names the items as their own events did (vLLM 0.28 does not).
    """
    return Checker(ids=ids).check(events_of(body), ended=ended)


class Checker:
    """State of one stream."""

    def __init__(self, *, ids: bool) -> None:
        self.ids = ids
        self.wrong: list[str] = []
        self.items: list[Item] = []
        self.ends = 0
        self.errors = 0

    def say(self, condition: object, what: str) -> bool:
        """Note what is wrong where a condition does not hold."""
        if not condition:
            self.wrong.append(what)
        return bool(condition)

    def check(self, events: list[tuple[str, dict[str, Any]]], *, ended: bool) -> list[str]:
        for number, (name, event) in enumerate(events):
            kind = event.get("type", "")
            where = f"{number} {kind}"
            self.say(name == kind, f"{where}: the event is named {name!r}")
            self.say(event.get("sequence_number") == number, f"{where}: numbered {event.get('sequence_number')}")
            self.say(not self.ends, f"{where}: behind the terminal event")
            self.take(kind, event, where)
        self.say(
            events and events[0][1].get("type") in ("response.created", "error"), "it does not begin with its creation"
        )
        if ended:
            self.say(self.ends == 1 and not self.errors, f"{self.ends} terminal events, {self.errors} errors")
        return self.wrong

    def take(self, kind: str, event: dict[str, Any], where: str) -> None:
        """One event."""
        prefix, _, step = kind.rpartition(".")
        if kind == "error":
            self.errors += 1
        elif kind in ENDS:
            self.end(event["response"], where, failed=kind == "response.failed")
        elif kind == "response.output_item.added":
            self.added(event, where)
        elif kind == "response.output_item.done":
            self.done(event, where)
        elif prefix in PARTS:
            self.part(prefix, step, event, where)
        elif prefix in TEXTS:
            self.text(prefix, step, event, where)
        elif prefix == ARGUMENTS:
            self.arguments(step, event, where)

    # ------------------------------------------------------------------ items

    def added(self, event: dict[str, Any], where: str) -> None:
        item = event["item"]
        self.say(event["output_index"] == len(self.items), f"{where}: index {event['output_index']}")
        self.say(all(each.value is not None for each in self.items), f"{where}: an item is still open")
        self.say(
            item.get("id") and item["id"] not in [each.ident for each in self.items], f"{where}: id {item.get('id')}"
        )
        self.say(item.get("status") in ("in_progress", None), f"{where}: status {item.get('status')}")
        self.items.append(Item(item["type"], item.get("id", "")))

    def done(self, event: dict[str, Any], where: str) -> None:
        item = self.open(event, where)
        value = event["item"]
        if item is None:
            return
        self.say((value["type"], value.get("id")) == (item.kind, item.ident), f"{where}: another item")
        self.say(all(part.over for part in item.parts.values()), f"{where}: a part is open")
        for holder in {place[0] for place in item.parts}:
            texts = [part.text for (held, _), part in sorted(item.parts.items()) if held == holder]
            self.say(texts == [text_of(part) for part in value.get(holder) or ()], f"{where}: other {holder}")
        if item.kind == "function_call":
            self.say(item.said and value["arguments"] == item.arguments, f"{where}: other arguments")
        item.value = value

    def open(self, event: dict[str, Any], where: str) -> Item | None:
        """The item that an event is about, which has to be the one that is open."""
        index = event.get("output_index", -1)
        if not self.say(0 <= index < len(self.items), f"{where}: no item {index}"):
            return None
        item = self.items[index]
        self.say(item.value is None, f"{where}: the item is over")
        self.say(event.get("item_id", item.ident) == item.ident, f"{where}: id {event.get('item_id')}")
        return item

    # ------------------------------------------------------------------ parts and text

    def part(self, prefix: str, step: str, event: dict[str, Any], where: str) -> None:
        item, holder = self.open(event, where), PARTS[prefix]
        place = (holder, event.get(NUMBER[holder], -1))
        if item is None:
            return
        if step == "added":
            self.say(place not in item.parts, f"{where}: part {place} twice")
            self.say(all(part.over for part in item.parts.values()), f"{where}: a part is open")
            self.say(not text_of(event["part"]), f"{where}: begins with text")
            item.parts[place] = Part(event["part"]["type"])
        elif self.say(place in item.parts, f"{where}: no part {place}"):
            part = item.parts[place]
            self.say(part.said and not part.over, f"{where}: before its text is over")
            self.say(text_of(event["part"]) == part.text, f"{where}: other text")
            part.over = True

    def text(self, prefix: str, step: str, event: dict[str, Any], where: str) -> None:
        item = self.open(event, where)
        if item is None or step not in ("delta", "done"):
            return
        kind, kin, holder, number = TEXTS[prefix]
        part = item.parts.get((holder, event.get(number, -1)))
        self.say(item.kind == kin, f"{where}: in an item of type {item.kind}")
        if not self.say(part is not None, f"{where}: no such part") or part is None:
            return
        self.say(not part.said and part.kind == kind, f"{where}: the part is over, or of another kind")
        if step == "delta":
            part.text += event["delta"]
            self.say(spells(event.get("logprobs") or [], event["delta"]), f"{where}: tokens of other text")
        else:
            said = event.get("refusal") if kind == "refusal" else event.get("text")
            self.say(said == part.text, f"{where}: other text")
            part.said = True

    def arguments(self, step: str, event: dict[str, Any], where: str) -> None:
        item = self.open(event, where)
        if item is None:
            return
        self.say(item.kind == "function_call" and not item.said, f"{where}: no call that is open")
        if step == "delta":
            item.arguments += event["delta"]
        else:
            self.say(event["arguments"] == item.arguments, f"{where}: other arguments")
            item.said = True

    # ------------------------------------------------------------------ the end

    def end(self, response: dict[str, Any], where: str, *, failed: bool) -> None:
        self.ends += 1
        if failed:
            return
        self.say(all(item.value is not None for item in self.items), f"{where}: an item is open")
        ended = [told(item.value or {}, ids=self.ids) for item in self.items]
        self.say(ended == [told(item, ids=self.ids) for item in response["output"]], f"{where}: other items")


def text_of(part: dict[str, Any]) -> str:
    """The text of a part, whatever its kind."""
    return part.get("text", part.get("refusal", "")) or ""


def told(item: dict[str, Any], *, ids: bool) -> list[Any]:
    """What an item says."""
    texts = [text_of(part) for holder in ("content", "summary") for part in item.get(holder) or ()]
    return [item.get("type"), item.get("id") if ids else None, texts, item.get("name"), item.get("arguments")]


def spells(tokens: list[dict[str, Any]], text: str) -> bool:
    """True where the tokens stand in the text, in order."""
    at = 0
    for token in tokens:
        at = text.find(token["token"], at)
        if at < 0:
            return False
        at += len(token["token"])
    return True
