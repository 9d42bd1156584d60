"""What text completions and `/generate` have in common: one raw text a choice, which no engine splits, and no calls.

Owns the reading of that text, the members a split thought is written under, and the splices that carry both. What reads
a stream belongs to it (`stream`): it has to know what it has written. Never judges text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Self

from gateway.events import CONTENT, REASONING
from gateway.protocols.frames import parsed, whole_ids
from gateway.protocols.protocol import (
    UNSAID,
    CallChanges,
    Fate,
    Fragment,
    HistoryRule,
    Message,
    NumberedCall,
    Part,
    Said,
    Unframed,
)
from gateway.streams.jsonscan import DROP, Changes, Drop, edit, encode_string
from gateway.streams.tokens import plain

NAMES: Final = ("reasoning", "reasoning_content")
Path = tuple[str | int, ...]
Members = dict[str | int, "bytes | Drop | Changes"]


class RawText(Unframed, ABC):
    """A protocol of raw text."""

    done = b"[DONE]"

    def stream(self, *, rewrites: bool) -> Self:
        """The protocol for the frames of one stream."""
        return type(self)()

    @abstractmethod
    def placed(self, message: Message, pieces: dict[int, list[Said]]) -> dict[int, list[Said]]:
        """What the parts of an event come to, once the `fates` of their characters are known.

        Called once for every event that is read, in order. Returns the parts that do not go out as they came, by place:
        more than `pieces`, where what stands beside the text has changed.
        """

    @abstractmethod
    def ended(self, index: int, fates: Iterable[Fate]) -> None:
        """A choice ends without a frame of its own: what became of its last characters. `text_event` may follow."""

    @abstractmethod
    def path(self, message: Message, part: Part) -> Path:
        """Where the members of a part are in its frame."""

    # ------------------------------------------------------------------ no history, no calls

    def shape_history(self, body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
        """A prompt has no turns that could be told apart: it stays."""
        return body, Counter()

    def fragments(self, message: Message, part: Part) -> list[Fragment]:
        """No call can be written here."""
        return []

    def change_calls(self, message: Message, changes: CallChanges) -> bytes | None:
        """As it came."""
        return message.data

    def call_events(self, like: Message | None, index: int, call: NumberedCall) -> list[bytes]:
        """None."""
        return []

    def without_tokens(self, message: Message, places: Collection[int], *, whole: bool) -> tuple[Message, Counter[str]]:
        """Without what shows the tokens of the whole answer; what stands beside a thought has gone with it."""
        if not (whole and (ids := whole_ids(message))):
            return message, Counter()
        data = edit(message.data, ids)
        return replace(message, data=data, value=parsed(data)[0]), Counter(sglext=1)

    def spells(self, part: Part, text: str) -> bool:
        """True: what stands beside a thought has gone with it."""
        return True

    # ------------------------------------------------------------------ the reasoning's names

    def names_shown(self, part: Part) -> tuple[str, ...]:
        """The reasoning fields that were there already, with text or without."""
        return tuple(name for name in NAMES if name in part.fields)

    def rename(self, message: Message, names: tuple[str, ...] | None) -> bytes | None:
        """The frame with its reasoning under `names` (None: as it is named); None when it is so already."""
        wanted = {part.place: part.names if names is None else names for part in message.parts if part.names}
        changes: dict[Path, Members] = {
            self.path(message, part): dict(thought(part.fields, part.reasoning, wanted[part.place]))
            for part in message.parts
            if part.names and part.names != wanted[part.place]
        }
        return spliced(message.data, changes) if changes else None


# ---------------------------------------------------------------------- in


def part_of(place: int, index: Any, fields: dict[str, Any], *, finish: str | None, stop_reason: Any) -> Part:
    """One choice, whose text stands in `text`. Raises TypeError on text that is none."""
    texts = [fields[name] for name in NAMES if fields.get(name)]
    text = fields.get("text")
    if len(set(map(str, texts))) > 1:
        raise TypeError("reasoning and reasoning_content differ")
    if not all(isinstance(each, str) for each in (*texts, text or "")):
        raise TypeError("text that is no string")
    names = tuple(name for name in NAMES if fields.get(name))
    reason = stop_reason if finish else None
    return Part(
        place, index, texts[0] if texts else "", text or "", names, False, False, False, finish, reason, fields, fields
    )  # fmt: skip


def stop_reason(fields: Mapping[str, Any], *names: str) -> Any:
    """What ended the choice, under the first of `names` that is there."""
    return next((fields[name] for name in names if name in fields), UNSAID)


def came(part: Part) -> list[Said]:
    """What a part says, unchanged."""
    return [piece for piece in ((REASONING, part.reasoning), (CONTENT, told(part))) if piece[1]]


# ---------------------------------------------------------------------- out


def told(part: Part) -> str:
    """The text of a part, as its token ids say it where they are read."""
    return part.content if part.marked is None else plain(part.marked)


def joined(said: Iterable[Said], *, thoughts: bool) -> str:
    """The text of one kind."""
    return "".join([text for channel, text in said if (channel == REASONING) is thoughts and isinstance(text, str)])


def thought(fields: Mapping[str, Any], text: str, names: tuple[str, ...]) -> Members:
    """The members that carry a thought: `text` under `names`, and nothing under the others."""
    value = encode_string(text)
    gone: Members = {name: DROP for name in NAMES if fields.get(name) and (name not in names or not text)}
    return gone | (dict.fromkeys(names, value) if text else {})


def object_of(members: Mapping[str, bytes]) -> bytes:
    """A new object with these members."""
    return b"{" + b",".join([encode_string(name) + b":" + value for name, value in members.items()]) + b"}"


def spliced(data: bytes, changes: Mapping[Path, Members]) -> bytes:
    """The frame with `changes` made at their paths."""
    tree: Members = {}
    for path, members in changes.items():
        node: Any = tree
        for step in path:
            node = node.setdefault(step, {})
        node.update(members)
    return edit(data, tree)
