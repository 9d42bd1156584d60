"""The `output` list of a response, made to say something else: what stays keeps its bytes and its ids.

In a plain body a changed text goes where the text stood that it replaces, so that the items are those which a stream
would have had. At the end of a stream the list is what its events told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from gateway.events import REASONING
from gateway.protocols.protocol import NumberedCall, Said
from gateway.protocols.responses_items import (
    CALL,
    MESSAGE,
    OUTPUT,
    SUMMARY,
    THOUGHT,
    derived_id,
    inside,
    new_call,
    new_item,
    new_part,
    parts_of,
    parts_saying,
    texts_of,
    told,
)
from gateway.protocols.responses_tokens import Tokens, spelt
from gateway.streams.jsonscan import DROP, Changes, Drop, edit, encode_string, items

COMMENTARY: Final = "commentary"
_KINDS: Final = (REASONING, MESSAGE, CALL)  # of items that are read
_PARTS: Final = ("content", "summary")  # members of an item that list parts
_SAID: Final = ("type", "status", "name", "arguments", *_PARTS)
_PAYLOAD: Final = {REASONING: ("encrypted_content", "content", "summary"), MESSAGE: ("content",)}  # beside text
Listed = Sequence[tuple[Mapping[str, Any], bytes]]
"""The items of a response: each as a value, and as it is written."""


def is_commentary(item: Mapping[str, Any]) -> bool:
    """True for a progress message; a message without a phase is the answer."""
    return item.get("type") == MESSAGE and item.get("phase") == COMMENTARY


def rewritten(listed: Listed, said: Sequence[Said], *, hides: bool, answer: str) -> list[bytes]:
    """The items that say `said` in stead of their own text, calls last. `hides`: no reasoning is written."""
    out: list[tuple[str, bytes]] = []
    latest = -2  # the place of the item that was written last
    lacking: dict[str, str] = {}
    changed: dict[int, bytes] = {}
    for kind in (REASONING, MESSAGE):
        text = "".join([str(t) for c, t in said if isinstance(t, str) and (c == REASONING) == (kind == REASONING)])
        segments = _segments(listed, kind)
        if segments:
            changed |= _filled(listed, segments, text)
        elif text:
            lacking[kind] = text
    for place, (value, raw) in enumerate(listed):
        raw = changed.get(place, raw)
        if raw and not (hides and value.get("type") == REASONING):
            kind = str(value.get("type"))
            if latest < place - 1 and out and kind == out[-1][0] == REASONING:  # only what is gone parted them
                out[-1] = (REASONING, _gone_on(out[-1][1], raw))
            else:
                out.append((kind, raw))
            latest = place
    if hides:
        lacking.pop(REASONING, None)
    for kind, text in lacking.items():
        place = _place(kind, out)
        out.insert(place, (kind, _item(kind, text, derived_id(kind, answer, place))))
    calls = [call for _, call in said if isinstance(call, NumberedCall)]
    written = [raw for _, raw in out]
    for call in calls:
        ident = derived_id(CALL, answer, len(written))
        written.append(new_call(ident, call.ident, call.name, call.arguments, "completed"))
    return written


def _gone_on(first: bytes, second: bytes) -> bytes:
    """A thought, and the rest of it, as one item; what is encrypted is of the rest."""
    value, rest = orjson.loads(first), orjson.loads(second)
    text = "".join(texts_of(rest))
    style = next((style for style in (THOUGHT, SUMMARY) if value.get(style.holder)), THOUGHT)
    parts = value.get(style.holder) or ()
    changes: dict[str | int, bytes | Drop | Changes] = {}
    if parts:
        changes[style.holder] = {len(parts) - 1: {"text": encode_string(parts[-1].get("text", "") + text)}}
    else:
        changes[style.holder] = b"[%b]" % new_part(style, text)
    if rest.get("encrypted_content"):
        changes["encrypted_content"] = orjson.dumps(rest["encrypted_content"])
    return edit(first, changes)


def refilled(old: Sequence[str], new: str) -> list[str]:
    """The texts `old` made to say `new` together: those at both ends that need not change stay as they are."""
    front = at = 0
    while front < len(old) and new.startswith(old[front], at):
        at += len(old[front])
        front += 1
    if front == len(old):
        return [*old[:-1], old[-1] + new[at:]]
    back, end = len(old), len(new)
    while back > front + 1 and new.endswith(old[back - 1], at, end):
        back -= 1
        end -= len(old[back])
    return [*old[:front], new[at:end], *[""] * (back - front - 1), *old[back:]]


Segment = tuple[int, str, int, str]
"""Where a text stands: the item's place, the member that lists its parts, the part's place; and the text."""


def _segments(listed: Listed, kind: str) -> list[Segment]:
    """The texts of one kind in order, but those of progress messages."""
    found: list[Segment] = []
    for place, (item, _) in enumerate(listed):
        if item.get("type") != kind or is_commentary(item):
            continue
        styles = (OUTPUT,) if kind == MESSAGE else (THOUGHT, SUMMARY)
        for style in styles:
            texts = [
                (place, style.holder, number, part["text"])
                for number, part in enumerate(parts_of(item, style.holder))
                if isinstance(part.get("text"), str) and (kind == REASONING or part.get("type") == style.part)
            ]
            found += texts
            if any(text for *_, text in texts):
                break
    return found


def _filled(listed: Listed, segments: Sequence[Segment], text: str) -> dict[int, bytes]:
    """The items whose texts change, by place; empty bytes for one that has nothing left to say."""
    edits: dict[int, dict[str, dict[str | int, bytes | Drop | Changes]]] = {}
    new = refilled([old for *_, old in segments], text)
    for (place, holder, number, old), filled in zip(segments, new, strict=True):
        if filled != old:
            part = listed[place][0][holder][number]
            raw = items(listed[place][1], (holder,))[number]
            change = _part_changes(part, raw, old, filled) if filled else DROP
            edits.setdefault(place, {}).setdefault(holder, {})[number] = change
    out: dict[int, bytes] = {}
    for place, holders in edits.items():
        item, raw = listed[place]
        gone = {holder: [n for n, change in parts.items() if change is DROP] for holder, parts in holders.items()}
        left = any(
            len(value) > len(gone.get(name, ())) if isinstance(value := item.get(name), list) else value
            for name in _PAYLOAD[str(item["type"])]
        )
        changes: Changes = {holder: parts for holder, parts in holders.items()}
        out[place] = edit(raw, changes) if left else b""
    return out


def _part_changes(part: Mapping[str, Any], raw: bytes, old: str, new: str) -> Changes:
    """The part with another text, and with the tokens that spell it."""
    changes: dict[str | int, bytes] = {"text": encode_string(new)}
    if part.get("logprobs"):
        tokens = Tokens(gaps=True)
        tokens.feed(old, spelt(part, raw))
        changes["logprobs"] = b"[%b]" % b",".join(tokens.take(new))
    return changes


def _place(kind: str, out: Sequence[tuple[str, bytes]]) -> int:
    """Where an item of ours goes: a thought before the answer, an answer behind the thought."""
    thoughts = [place for place, (other, _) in enumerate(out) if other == REASONING]
    if thoughts:
        return thoughts[-1] + 1
    return 0 if kind == REASONING else len(out)


def _item(kind: str, text: str, ident: str) -> bytes:
    style = OUTPUT if kind == MESSAGE else THOUGHT
    return new_item(kind, ident, "completed", [new_part(style, text)])


# ---------------------------------------------------------------------- the end of a stream


def same_output(sent: Sequence[bytes], response: Mapping[str, Any]) -> bool:
    """True where the last event says what the items said that went out before it."""
    return _read([told(orjson.loads(item)) for item in sent]) == _read([told(item) for item in _listed(response)])


def sent_output(sent: Sequence[bytes], response: Mapping[str, Any], raw: Sequence[bytes]) -> list[bytes]:
    """The items that went out, as the last event lists them: its own (`raw`) where they say the same under the same id.

    An item of a kind that is not read, which only the last event tells, stays.
    """
    known = {str(item.get("id")): (item, own) for item, own in zip(_listed(response), raw, strict=True)}
    output: list[bytes] = []
    for final in sent:
        value = orjson.loads(final)
        item, own = known.pop(str(value.get("id")), ({}, b""))
        same = own and told(item) == told(value) != ()
        output.append(own if same else _saying(item, own, value, final) if own else final)
    return output + [own for item, own in known.values() if item.get("type") not in _KINDS]


def _saying(item: Mapping[str, Any], own: bytes, value: Mapping[str, Any], final: bytes) -> bytes:
    """The item `own` as the one that went out says it (`value`, `final`), with what only `own` tells."""
    changes: dict[str | int, bytes] = {}
    for name in _SAID:
        if name in value and item.get(name) != value[name]:
            parts = name in _PARTS and isinstance(item.get(name), list)
            said = inside(final, name)
            changes[name] = parts_saying(items(own, (name,)), items(final, (name,))) if parts else said
    return edit(own, changes)


def _listed(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [item if isinstance(item, dict) else {} for item in response.get("output") or ()]


def _read(said: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What is read, of what items say."""
    return [each for each in said if each and each[0] in _KINDS]
