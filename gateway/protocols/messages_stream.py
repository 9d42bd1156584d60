"""What is open in a stream of Anthropic Messages as its client has it, so that a change leaves every event legal.

Owns the order of block events and their indexes (Anthropic, "Streaming Messages"; reference/vllm.md 3.6): one block at
a time is open, indexes count on, a piece of text stands in a block of its kind. Knows the names of events and blocks.
Must not know why text changes.

As long as nothing has changed every frame goes out as it came, but a frame that begins a block of text or ends a
thought waits for the next one: what that says may make it needless. From the first change on the engine's own starts
and stops of text are not passed on: a block is opened once something of its kind goes out, and closed before the next
one. A signature ends a block for text of ours; what is signed, redacted or of another kind is never written to. It
waits while the last of the text that it stands behind is held.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.protocols.protocol import Message, NumberedCall
from gateway.streams.jsonscan import DROP, Changes, edit, encode_string

THINKING: Final = "thinking"
TEXT: Final = "text"
TOOL_USE: Final = "tool_use"
REDACTED: Final = "redacted_thinking"
START: Final = "content_block_start"
DELTA: Final = "content_block_delta"
STOP: Final = "content_block_stop"
SIGNATURE: Final = "signature_delta"
TEXTS: Final = {"thinking_delta": THINKING, "text_delta": TEXT}
"""Deltas that are text, and the kind of block that it stands in, which is the name of the text's member too."""
_ENDINGS: Final = ("message_delta", "message_stop", "error")  # no block is open across them
_INDEX: Final = re.compile(rb'(?<!\\)("index"[ \t\n\r]*:[ \t\n\r]*)(\d+)')

Line = tuple[str, "str | NumberedCall"]
"""A piece of text with the kind of its block, or a call with `TOOL_USE`."""


@dataclass(slots=True)
class _Open:
    """A block that the client has open. `index`: there; `source`: the engine's, None: the block is ours.

    `signed`: no text may follow. `ended`: its end is kept back. `stop`: the engine's event that ends it, once it came.
    """

    kind: str
    index: int
    source: int | None
    signed: bool = False
    ended: bool = False
    stop: bytes = b""


@dataclass(frozen=True, slots=True)
class _Begun:
    """The engine's block of text that began last, and its start without text."""

    kind: str
    source: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Seal:
    """A signature that waits for the text `owed`, which stands before it, and the block of both."""

    data: bytes
    begun: _Begun
    owed: str


class Blocks:
    """`bent`: something has changed. `hides`: no thought goes out, redacted or not."""

    __slots__ = (
        "_begun", "_fresh", "_kept", "_next", "_open", "_owed", "_ready", "_seal", "_spoke", "_unsent", "bent", "hides",
    )  # fmt: skip

    def __init__(self, *, hides: bool) -> None:
        self.bent = hides
        self.hides = hides
        self._open: _Open | None = None
        self._next = 0  # the index behind all that the client has
        self._begun: _Begun | None = None
        self._unsent = False  # its start is kept back
        self._fresh: str | None = None  # the next piece of this kind begins a block
        self._spoke = False  # the engine's block had text
        self._owed = ""  # of the engine's thought, what came and did not go out
        self._seal: _Seal | None = None
        self._kept: list[bytes] = []
        self._ready: list[bytes] = []

    # ------------------------------------------------------------------ frames that stay

    def relay(self, message: Message) -> tuple[list[bytes], bytes | None]:
        """Events of ours that go before a frame whose text stays, and its data; None in its stead: it does not go out.

        Before both goes what `ready` gives.
        """
        if not self.bent:
            return [], None if self._keeps(message) else self._passed(message)
        kind = message.value.get("type")
        if kind == START:
            return self._start(message)
        if kind == DELTA:
            return self._delta(message)
        if kind == STOP:
            return [], self._stop(message)
        return self.close() if kind in _ENDINGS else [], message.data

    def ready(self) -> bytes:
        """Whole frames that were kept back, as they came, and wait no more."""
        ready, self._ready = self._ready, []
        return b"".join(ready)

    def flush(self) -> None:
        """Nothing waits any more: what was kept back goes out as it came."""
        self._ready += self._kept
        self._kept.clear()
        if self._open and self._open.ended and not self.bent:
            self._open = None
        if self._begun and self._unsent:
            self._entered(self._begun.kind, self._begun.source, self._begun.source)

    def _keeps(self, message: Message) -> bool:
        """True for a frame that waits for the next one."""
        value, source = message.value, _source(message.value)
        is_open, kind = self._open, _block_of(value).get("type")
        if value.get("type") == STOP and is_open and is_open.kind == THINKING and not is_open.signed:
            is_open.ended, is_open.stop = True, message.data
        elif value.get("type") == START and kind in (THINKING, TEXT) and not _block_of(value).get(kind):
            if self._unsent:
                self.flush()
            self._begin(value, source, message.data)
            self._unsent = True
        else:
            return False
        self._kept.append(message.raw)
        return True

    def _passed(self, message: Message) -> bytes:
        """A frame that goes out as it came."""
        self.flush()
        value, kind, source = message.value, message.value.get("type"), _source(message.value)
        if kind == START:
            block = str(_block_of(value).get("type"))
            if block in (THINKING, TEXT):
                self._begin(value, source, message.data)
            self._entered(block, source, source)
        elif kind == STOP:
            self._open = None
        elif kind == DELTA:
            delta = _delta_of(value)
            self._spoke = self._spoke or delta.get("type") == "thinking_delta"
            if self._open and delta.get("type") == SIGNATURE:
                self._open.signed = True
        return message.data

    # ------------------------------------------------------------------ behind a change

    def _start(self, message: Message) -> tuple[list[bytes], bytes | None]:
        value, source = message.value, _source(message.value)
        block, is_open = _block_of(value), self._open
        kind = block.get("type")
        if kind in (THINKING, TEXT):
            self._begin(value, source, message.data)
            signed = is_open and (is_open.signed or self._seal)
            if is_open and is_open.kind == kind == THINKING and is_open.source is not None and not signed:
                is_open.source = source  # a thought that goes on is one block
            elif is_open and is_open.kind == kind:
                self._fresh = kind
            return self.say(kind, block[kind]) if block.get(kind) else [], None
        if self.hides and kind == REDACTED:
            return [], None
        before = self.close()
        index = self._entered(str(kind), self._next, source)
        return before, _indexed(message.data, index)

    def _delta(self, message: Message) -> tuple[list[bytes], bytes | None]:
        delta, source = _delta_of(message.value), _source(message.value)
        kind = TEXTS.get(str(delta.get("type")))
        if kind:
            return self._text(kind, message) if delta.get(kind) else ([], None)
        begun = self._begun if self._begun and self._begun.source == source else None
        signs, before = delta.get("type") == SIGNATURE, []
        if begun and begun.kind == THINKING and signs and not self.hides:
            if self._owed:
                self._seal, self._owed = _Seal(message.data, begun, self._owed), ""
                return [], None
            before = [] if self._spoke else self.enter(THINKING)  # a thought that is not shown is only signed
        elif begun and begun.kind == TEXT:
            before = self.enter(TEXT)
        is_open = self._open
        if is_open is None or is_open.source != source:
            return [], None  # of a block that the client does not have
        is_open.signed = is_open.signed or signs
        return before, _indexed(message.data, is_open.index)

    def _text(self, kind: str, message: Message) -> tuple[list[bytes], bytes]:
        """A delta of text, in its block."""
        before = self.enter(kind)
        self._spoke = True
        assert self._open, "it was entered"
        if kind == THINKING:
            self._owed = ""
        return before, _indexed(message.data, self._open.index)

    def _stop(self, message: Message) -> bytes | None:
        is_open = self._open
        if is_open is None or is_open.source != _source(message.value):
            return None
        if is_open.kind in (THINKING, TEXT) and not is_open.signed:
            is_open.stop = message.data  # what is held of its text may follow
            return None
        self._open = None
        return _indexed(message.data, is_open.index)

    # ------------------------------------------------------------------ changes

    def write(self, message: Message, said: Sequence[Line]) -> tuple[list[bytes], bytes | None]:
        """What says `said` in stead of the frame's own text: events of ours, then the frame itself, as `relay` gives.

        The last piece stays in the frame where that has text; of another kind too, for what else the frame says.
        """
        self.bend()
        value = message.value
        kind = TEXTS.get(str(_delta_of(value).get("type"))) if value.get("type") == DELTA else None
        if kind is None:
            text = _block_of(value).get("type") if value.get("type") == START else None
            if text in (THINKING, TEXT):
                self._begin(value, _source(value), message.data)
                self._fresh = text if self._open and self._open.kind == text else None
                self._owes(text, _block_of(value))
                return self.says(said), None
            before = self.says(said)
            more, data = self.relay(message)
            return before + more, data
        self._owes(kind, _delta_of(value))
        into, text = said[-1] if said else (kind, None)
        if self._seal or not isinstance(text, str):
            return self.says(said), None
        before = self.says(said[:-1]) + self.enter(into)
        assert self._open, "it was entered"
        self._goes(into, text)
        changes: Changes = {into: encode_string(text)}
        if into != kind:
            changes = {"type": b'"%b_delta"' % into.encode(), kind: DROP, **changes}
        return before, _indexed(edit(message.data, {"delta": changes}), self._open.index)

    def says(self, said: Sequence[Line]) -> list[bytes]:
        """Events of ours that say one piece after the other."""
        out: list[bytes] = []
        for kind, each in said:
            out += self.say(kind, each) if isinstance(each, str) else self.call(each)
        return out

    def say(self, kind: str, text: str) -> list[bytes]:
        """Events of ours that carry one piece of text."""
        before: list[bytes] = []
        seal = self._seal
        if seal and kind == THINKING and text.startswith(seal.owed):
            before, text = self._unsealed(seal), text[len(seal.owed) :]
            self._seal = None
        if not text:
            return before
        before += self.enter(kind)
        assert self._open, "it was entered"
        self._goes(kind, text)
        return [*before, _text_delta(self._open.index, kind, text)]

    def _unsealed(self, seal: _Seal) -> list[bytes]:
        """What was held of a signed thought, in its block, and its signature."""
        before: list[bytes] = []
        if self._open is None or self._open.source != seal.begun.source:
            before = self.close()
            before.append(_indexed(seal.begun.data, self._entered(THINKING, self._next, seal.begun.source)))
        assert self._open, "it is there"
        self._open.signed = True
        index = self._open.index
        return [*before, _text_delta(index, THINKING, seal.owed), _indexed(seal.data, index)]

    def call(self, call: NumberedCall) -> list[bytes]:
        """Events of ours that carry one call, or more of its arguments."""
        self.bend()
        out: list[bytes] = []
        if not call.more:
            out = self.close()
            index = self._entered(TOOL_USE, self._next, None)
            name = encode_string(call.name)
            block = b'{"type":"tool_use","id":%b,"name":%b,"input":{}}' % (encode_string(call.ident), name)
            out.append(_own_start(index, block))
        assert self._open, "a call goes on where it began"
        return out + input_delta(self._open.index, call.arguments)

    def enter(self, kind: str) -> list[bytes]:
        """Events of ours after which a block for text of this kind is open."""
        self.bend()
        is_open, begun = self._open, self._begun
        if is_open and is_open.kind == kind and not (is_open.signed or self._seal) and self._fresh != kind:
            return []
        before = self.close()
        if begun and begun.kind == kind:
            index = self._entered(kind, self._next, begun.source)
            return [*before, _indexed(begun.data, index)]
        index = self._entered(kind, self._next, None)
        return [*before, _own_start(index, b'{"type":"%b","%b":""}' % (kind.encode(), kind.encode()))]

    def close(self) -> list[bytes]:
        """Events of ours after which no block is open."""
        is_open, self._open = self._open, None
        seal, self._seal = self._seal, None
        if is_open is None:
            return []
        signed = [_indexed(seal.data, is_open.index)] if seal and seal.begun.source == is_open.source else []
        stop = is_open.stop or b'{"type":"content_block_stop","index":0}'
        return [*signed, _indexed(stop, is_open.index)]

    def bend(self) -> None:
        """From here on frames do not go out as they came; those that wait do not go out at all."""
        self.bent = True
        self._unsent = False
        self._kept.clear()

    # ------------------------------------------------------------------ state

    def _begin(self, value: Mapping[str, Any], source: int, data: bytes) -> None:
        """The engine has begun a block of text."""
        kind = _block_of(value)["type"]
        empty = data if not _block_of(value).get(kind) else edit(data, {"content_block": {kind: b'""'}})
        self._begun = _Begun(kind, source, empty)
        self._spoke = False

    def _entered(self, kind: str, index: int, source: int | None) -> int:
        """The client has a block open."""
        self._open = _Open(kind, index, source)
        self._next = max(self._next, index + 1)
        self._fresh = None
        self._unsent = False
        return index

    def _owes(self, kind: str, fields: Mapping[str, Any]) -> None:
        """The engine has said some text, which may go out or not."""
        self._spoke = True
        if kind == THINKING:
            self._owed += str(fields.get(kind))

    def _goes(self, kind: str, text: str) -> None:
        """Some text goes out."""
        if kind == THINKING:
            self._owed = self._owed[len(text) :] if self._owed.startswith(text) else ""


def input_delta(index: int, arguments: str) -> list[bytes]:
    """The event that carries the arguments of a call, or some of them; none for none."""
    if not arguments:
        return []
    return [_own_delta(index, b'{"type":"input_json_delta","partial_json":%b}' % encode_string(arguments))]


def _own_start(index: int, block: bytes) -> bytes:
    return b'{"type":"content_block_start","index":%d,"content_block":%b}' % (index, block)


def _own_delta(index: int, delta: bytes) -> bytes:
    return b'{"type":"content_block_delta","index":%d,"delta":%b}' % (index, delta)


def _text_delta(index: int, kind: str, text: str) -> bytes:
    return _own_delta(index, b'{"type":"%b_delta","%b":%b}' % (kind.encode(), kind.encode(), encode_string(text)))


def _source(value: Mapping[str, Any]) -> int:
    index = value.get("index")
    return index if type(index) is int else -1


def _block_of(value: Mapping[str, Any]) -> dict[str, Any]:
    block = value.get("content_block")
    return block if isinstance(block, dict) else {}


def _delta_of(value: Mapping[str, Any]) -> dict[str, Any]:
    delta = value.get("delta")
    return delta if isinstance(delta, dict) else {}


def _indexed(data: bytes, index: int) -> bytes:
    """The event with its block's index as the client counts; the same object when it is so already."""
    found = _INDEX.findall(data)
    if len(found) != 1:  # none, or one in a tool's input: asked of the parsed event
        return edit(data, {"index": b"%d" % index})
    if found[0][1] == b"%d" % index:
        return data
    return _INDEX.sub(rb"\g<1>%d" % index, data)
