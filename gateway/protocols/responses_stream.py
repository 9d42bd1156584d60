"""What of a Responses stream goes out, and where: the items that the client has, and those to come.

While nothing changes every event goes out as it came; but what stands around text waits for the next text, which may be
of another kind than announced, or more of the same: a run of reasoning is one item. From the first change on, items and
parts are opened by the text that goes out, and ended before the next one. Must not know why text changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from gateway.events import REASONING
from gateway.protocols.protocol import CallChange, Message, NumberedCall, Said
from gateway.protocols.responses_items import (
    CALL,
    DELTAS,
    MESSAGE,
    NO_CHANGES,
    OUTPUT,
    Item,
    Members,
    Style,
    TextPart,
    derived_id,
    inside,
    list_of,
    parts_of,
)
from gateway.protocols.responses_output import is_commentary, same_output, sent_output
from gateway.protocols.responses_sent import SentItems
from gateway.protocols.responses_tokens import Tokens, spelt
from gateway.protocols.responses_told import (
    ADDED,
    DONE,
    ENDED,
    FAILED,
    MORE_ARGUMENTS,
    PART_ADDED,
    PART_DONE,
    TEXT_DONE,
    TEXTUAL,
    Told,
    part_of,
)
from gateway.streams.jsonscan import Changes, edit, encode_string, items

_AROUND: Final = frozenset((*PART_ADDED, *PART_DONE, *TEXT_DONE))
KEPT: Final = 64
"""Events that wait for the next text; beyond it they go out as they came."""


class ResponseWriter:
    """`hides`: no reasoning goes out. `drops`: no progress message does."""

    __slots__ = ("_changed", "_hides", "_kept", "_raw", "_sent", "_tokens", "_told")

    def __init__(self, *, hides: bool, drops: bool) -> None:
        self._hides = hides
        self._changed = hides
        self._told = Told(drops=drops)
        self._sent = SentItems()
        self._tokens = Tokens(gaps=hides)
        self._kept: list[Message] = []
        self._raw: list[bytes] = []

    # ------------------------------------------------------------------ asked by the codec

    def relay(self, message: Message) -> bytes | None:
        """An event whose text stays: None as it came, empty not at all."""
        if self._changed or self._differs(message):
            return self.write(message, None, None) or b""
        if self._keeps(message):
            self._kept.append(message)
            return b""
        self._let_go()
        self._pass(message)
        return None

    def write(self, message: Message, said: Sequence[Said] | None, change: CallChange | None) -> bytes | None:
        """An event that says `said` in stead of its own text (None: that stays), or whose call changes."""
        self._change()
        item, part = self._told.note(message)
        kind = str(message.value.get("type"))
        if style := DELTAS.get(kind):
            assert item and part, "an event of text is about a part"
            return None if item.gone else self._text(message, style, part, said)
        for channel, piece in said or ():
            self._say(channel, piece)
        if kind in ENDED:
            return self._end(message, failed=kind == FAILED)
        if item is None:
            hidden = self._hides and kind.startswith("response.reasoning")
            return None if hidden else self._sent.out.placed(message.data)
        if item.gone:
            return None
        if item.kind == CALL:
            return self._sent.call_event(kind, message, item, change)
        return self._around(kind, message, item, part) if item.kind in TEXTUAL else self._other(kind, message, item)

    def say(self, channel: str, said: str | NumberedCall) -> None:
        """A piece of the answer goes out."""
        self._change()
        self._say(channel, said)

    def take_own(self) -> list[bytes]:
        """The events of ours that go out now."""
        own, self._sent.own = self._sent.own, []
        return own

    def take_raw(self) -> list[bytes]:
        """The frames that waited and go out now, as they came."""
        raw, self._raw = self._raw, []
        return raw

    def release(self) -> list[bytes]:
        """The frames that wait, as they came."""
        self._let_go()
        return self.take_raw()

    def ended(self, answer: str, status: str) -> bytes:
        """A terminal event of ours."""
        self._change()
        self._sent.close()
        response = inside(self._told.response, "response")
        output = list_of([self._sent.final(item) for item in self._sent.items])
        changes: Changes = {"status": encode_string(status), "output": output}
        whole = edit(response or b'{"object":"response","id":%b}' % encode_string(answer), changes)
        return self._sent.out.own(f"response.{status}", None, {"response": whole})

    def alone(self, data: bytes) -> bytes:
        """An event that knows nothing of the ones before it."""
        return self._sent.out.placed(data)

    def failed(self, error: Mapping[str, Any]) -> bytes:
        """An error event. Its member `error` is what clients look for that know no event of this name."""
        said = {key: orjson.dumps(error[key]) for key in ("code", "message", "param")}
        return self._sent.out.own("error", None, said | {"error": orjson.dumps(error)})

    # ------------------------------------------------------------------ as it came

    def _keeps(self, message: Message) -> bool:
        """True where an event has to wait for the next text."""
        kind = str(message.value.get("type"))
        if len(self._kept) >= KEPT:
            return False
        if kind in DELTAS:
            return bool(self._kept) and not message.value["delta"]
        return kind in _AROUND or (kind in (ADDED, DONE) and message.value["item"]["type"] in TEXTUAL)

    def _differs(self, message: Message) -> bool:
        """True for an event that cannot go out as it came: a message to be dropped, an end that tells other text."""
        kind, value = message.value.get("type"), message.value
        if kind == ADDED:
            return self._told.drops and is_commentary(value["item"])
        if kind not in ENDED or not self._sent.items or not isinstance(value.get("response"), dict):
            return False
        self._let_go()
        return not same_output([self._sent.final(item) for item in self._sent.items], value["response"])

    def _let_go(self) -> None:
        """What waited goes out as it came."""
        kept, self._kept = self._kept, []
        for message in kept:
            self._pass(message)
            self._raw.append(message.raw)

    def _change(self) -> None:
        """From here on nothing goes out only because it came."""
        self._changed = True
        kept, self._kept = self._kept, []
        for message in kept:
            data = self.write(message, None, None)
            self._sent.own += () if data is None else (data,)

    def _pass(self, message: Message) -> None:
        """The client is told what an event says that goes out as it came."""
        value = message.value
        kind = value.get("type")
        self._sent.out.came(value)
        item, part = self._told.note(message)
        if item is None:
            return
        if item.index is None:
            item.index = value["output_index"]
            self._sent.out.index = max(self._sent.out.index, item.index + 1)
            self._sent.items.append(item)
            self._sent.open = item if item.kind in TEXTUAL else None
        if kind in DELTAS and part:
            part.open = True
            part.texts.append(value["delta"])
            part.tokens += [token for _, token in spelt(value, message.data)]
            self._tokens.forget()
        elif part and (kind in PART_ADDED or kind in PART_DONE):
            part.open = kind in PART_ADDED
        elif kind == MORE_ARGUMENTS:
            item.arguments.append(value["delta"])
        elif kind == DONE:
            item.closed = True
            self._sent.open = None

    # ------------------------------------------------------------------ text, where it belongs

    def _text(self, message: Message, style: Style, part: TextPart, said: Sequence[Said] | None) -> bytes | None:
        """An event of text: each piece in its item, the last one in the event itself where it can be."""
        value = message.value
        if style is OUTPUT:
            self._tokens.feed(value["delta"], spelt(value, message.data))
        if said is None and not value["delta"] and not part.open:
            return None
        pieces: Sequence[Said] = [(style.channel, value["delta"])] if said is None else said
        for place, (channel, piece) in enumerate(pieces):
            item = self._told.items[value["output_index"]]  # another one where the piece before it began one of ours
            last = place == len(pieces) - 1 and (channel == REASONING) == (style.item == REASONING)
            own = message if last and isinstance(piece, str) else None
            data = self._say(channel, piece, item, part, own)
            if data is not None:
                return data
        return None

    def _say(
        self,
        channel: str,
        said: str | NumberedCall,
        item: Item | None = None,
        part: TextPart | None = None,
        message: Message | None = None,
    ) -> bytes | None:
        """One piece. `item`, `part`: where the engine has the text that it comes from. `message`: the event for it."""
        if not isinstance(said, str):
            self._sent.call(said, self._told.answer)
            return None
        kind = REASONING if channel == REASONING else MESSAGE
        mine = item if item and item.kind == kind else None
        target = self._target(kind, mine)
        into = self._into(target, target.part(part.source, part.holder) if mine and part else None)
        tokens = self._tokens.take(said)
        into.texts.append(said)
        if kind == REASONING:  # it has none
            tokens = []
        into.tokens += tokens
        if message is None:
            self._sent.own.append(self._sent.out.delta(target, into, said, tokens))
            return None
        value = message.value
        changes: Members = {} if value["delta"] == said else {"delta": encode_string(said)}
        if value.get("logprobs") and (changes or tokens != [token for _, token in spelt(value, message.data)]):
            changes["logprobs"] = list_of(tokens)
        return self._sent.out.placed(message.data, target, into, changes, value)

    def _target(self, kind: str, mine: Item | None) -> Item:
        """The open item that text of this kind goes into. `mine`: the engine's, where the text stands in one of it."""
        now = self._sent.open
        if now is not None and now.kind == kind and (now is mine or (mine is None and not now.silent)):
            return now
        if now is not None and mine is not None and self._goes_on(now, mine):
            self._put(mine, now)
            return now
        target = mine or self._spare(kind)
        if target is None or target.index is not None:
            target = self._derived(kind, target)
        self._sent.begin(target)
        return target

    def _goes_on(self, now: Item, mine: Item) -> bool:
        """True where the engine's item only goes on: with what one of ours began, or with a thought of its own, where
        nothing between them went out.
        """
        if mine.index is not None or mine.silent or now.kind != mine.kind:
            return False
        places = {id(item): place for place, item in self._told.items.items()}
        if id(now) not in places:
            return now.ours
        return now.kind == REASONING and places[id(mine)] > places[id(now)] + 1

    def _put(self, source: Item, item: Item) -> None:
        """What the engine says of one item is of another from now on."""
        place = next(place for place, known in self._told.items.items() if known is source)
        self._told.items[place] = item
        item.silent, item.spoke = source.silent, source.spoke
        for part in item.parts:
            part.source = next((theirs.source for theirs in source.parts if theirs.style is part.style), part.source)

    def _spare(self, kind: str) -> Item | None:
        """The engine's latest item of this kind that the client has not been told of."""
        told = reversed(self._told.items.values())
        return next((i for i in told if (i.kind, i.index) == (kind, None) and not (i.gone or i.silent)), None)

    def _derived(self, kind: str, source: Item | None) -> Item:
        """An item of ours. `source`: the engine's that it goes on with: what is told of that is of this from now on."""
        item = Item(kind, derived_id(kind, self._told.answer, self._sent.out.index), ours=True)
        if source is not None:
            self._put(source, item)
            if source.added:
                item.added = edit(source.added, {"item": {"id": encode_string(item.ident)}})
            for part in source.parts:
                part_of(item, part.style, part.source).around = part.around
        return item

    def _into(self, target: Item, part: TextPart | None) -> TextPart:
        """The open part that text of an item goes into. `part`: the engine's, where the text stands in one of it."""
        if part is None:
            ready = [known for known in target.parts if known.style and not known.final]
            part = next((known for known in ready if known.open), ready[0] if ready else None)
        if part is None or part.final:
            style = OUTPUT if target.kind == MESSAGE else self._told.thought
            place = max((known.place for known in target.parts if known.holder == style.holder), default=-1) + 1
            part = TextPart(style, place, -1, style.around)
            target.parts.append(part)
        if not part.open:
            self._sent.close_parts(target)
            self._sent.own.append(self._sent.out.open_part(target, part))
        return part

    # ------------------------------------------------------------------ what is neither

    def _around(self, kind: str, message: Message, item: Item, part: TextPart | None) -> bytes | None:
        """An event of an item of text that is no text. Those around text are written when their time comes."""
        if kind == DONE and item.index is None:
            return self._unspoken(item, message)
        if kind in (ADDED, DONE) or (part is not None and part.style):
            return None
        if kind in PART_ADDED and item.index is None:
            self._sent.begin(item)
        if item.index is None or item.closed:
            return None
        if part is not None and kind in PART_ADDED:
            self._sent.close_parts(item)
            part.open = True
        elif part is not None and kind in PART_DONE:
            part.open, part.final = False, inside(message.data, "part")
        return self._sent.out.placed(message.data, item, part)

    def _unspoken(self, item: Item, message: Message) -> bytes | None:
        """An item that ends without having had text goes out where it says something else."""
        value = message.value["item"]
        parts = [*parts_of(value, "content"), *parts_of(value, "summary")]
        said = value.get("encrypted_content") or any(part.get("text", True) for part in parts)
        if item.spoke or not said or (self._hides and item.kind == REASONING):
            return None
        self._sent.begin(item)
        self._sent.open = None
        item.closed, item.final = True, inside(message.data, "item")
        return self._sent.out.placed(message.data, item)

    def _other(self, kind: str, message: Message, item: Item) -> bytes:
        """An event of an item of another kind."""
        if item.index is None:
            self._sent.enter(item)
        if kind == DONE:
            item.closed, item.final = True, inside(message.data, "item")
        return self._sent.out.placed(message.data, item)

    def _end(self, message: Message, *, failed: bool) -> bytes:
        """The terminal event: the response says what the events before it said. What failed is not over."""
        if not failed:
            self._sent.close()
        response = message.value.get("response")
        if not isinstance(response, dict):
            return self._sent.out.placed(message.data)
        raw = items(message.data, ("response", "output"))
        output = sent_output([self._sent.final(item) for item in self._sent.items], response, raw)
        whole: Changes = {"output": list_of(output)}
        return self._sent.out.placed(message.data, changes=NO_CHANGES if output == raw else {"response": whole})
