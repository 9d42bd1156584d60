"""What a protocol module offers the exchange: values decoded from its wire shapes, and the wire shapes made again.

Protocols know nothing of findings, dialects or policies: they name fields, never judge text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self
from typing import Protocol as Interface

from gateway.errors import IntegrityError
from gateway.limits import Limits
from gateway.streams import sse
from gateway.streams.grammar import Grammar


@dataclass(frozen=True, slots=True)
class NumberedCall:
    """A call to be written: `index` among those of its choice, `arguments` one JSON text, or none of it yet.

    `more`: the arguments go on, those of a call that was written before.
    """

    index: int
    ident: str
    name: str
    arguments: str
    more: bool = False


Said = tuple[str, "str | NumberedCall"]
"""One piece of an answer: a channel of `gateway.events`, and its text; with `CALL` a call."""

Fate = tuple[int, bool]
"""So many characters of raw text, and whether they are text of the answer: not thought, not marker."""

NOTHING: Final[Mapping[int, str]] = {}
UNSAID: Final = object()
"""The stop reason of a choice whose engine has no member for it; None is an engine's word that no stop string fired."""


class NotThisProtocol(ValueError):
    """Bytes that are no message of the protocol: they are forwarded as they came, and counted."""


@dataclass(slots=True)
class Part:
    """What one choice says in one frame (a stream's delta, or the whole message of a plain body).

    `place`: its position in the frame. `index`: the choice it belongs to, as sent. `names`: the reasoning fields that
    carry text, by name. `no_calls`: an empty list of tool calls was sent. `stop_reason`: as sent, any JSON value, or
    `UNSAID`. `refusal`: it answers with something that is no text: a refusal, or sound. `fields`: the parsed members
    the text stands in, `choice` those of the whole choice. `marked`: the text as its token ids say it, where they are
    read (`gateway.streams.tokens`). `fates`: of raw text, what became of the next characters of
    the choice, in order: how many, and whether they are text of the answer; None: nothing is known.
    """

    place: int
    index: int
    reasoning: str
    content: str
    names: tuple[str, ...]
    tools: bool
    no_calls: bool
    refusal: bool
    finish: str | None
    stop_reason: Any
    fields: dict[str, Any]
    choice: dict[str, Any]
    fates: Sequence[Fate] | None = None
    marked: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """What one entry of a part's tool calls says of a call of the engine's: all of it, or the next piece.

    `place`: in the list. `index`: as sent, None where none counts. `ident`, `name`: None where it has none.
    `arguments`: their JSON text, or the next piece of it. `text`: they were sent as a string, or not at all.
    """

    place: int
    index: int | None
    ident: str | None
    name: str | None
    arguments: str
    text: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallChange:
    """What becomes of an entry of a part's tool calls; None: that member stays. `gone`: all of the entry goes."""

    index: int | None = None
    name: str | None = None
    arguments: str | None = None
    gone: bool = False


CallChanges = Mapping[int, Mapping[int, CallChange]]
"""By the part's place and the entry's."""


@dataclass(slots=True)
class Message:
    """One decoded frame. `odd`: the text may hold surrogate halves. `error`: the engine reports a failure. `head`: what
    frames of our own repeat of it, once it was asked for. `terminal`: nothing follows it in a stream. `takes_report`:
    the report stands in it, not in an event of its own. `raw`: of `framed` protocols: the frame's own bytes.
    """

    data: bytes
    value: dict[str, Any]
    parts: list[Part]
    error: bool
    odd: bool
    head: bytes = b""
    terminal: bool = False
    takes_report: bool = False
    raw: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRule:
    """What becomes of earlier assistant turns.

    `keep`: of their reasoning: `keep`, `strip`, `tool_loop`, or `leave`: it only gets the name that the engine reads.
    `field`: that member, None where the engine is not known and names stay. `grammar`: how a thought leaked into a
    turn's content is told, or None.
    `repair_arguments`: tool call arguments that are no JSON are replaced, not only counted.
    """

    keep: str
    field: str | None
    grammar: Grammar | None
    repair_arguments: bool
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The functions that a request declares, and what it says of calling them.

    `schemas`: name to the schema of its arguments as sent, any JSON value, None where none was. `choice`: whether to
    call one; `named`: the one that has to be called. `parallel`: more than one call may be made. `calls_before`: calls
    in earlier turns of the assistant, for ids that go on counting.
    """

    schemas: Mapping[str, Any]
    choice: Literal["auto", "none", "required", "named"]
    named: str | None
    parallel: bool
    calls_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTurn:
    """The assistant turn that a request ends with, where the answer goes on with it and begins no turn of its own.

    `text`: what the turn says so far. `engines`: those that go on; empty: every engine, for the request asks for it.
    """

    text: str
    engines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What a request says that matters for its answer.

    `thinking`: `on`, `off` or `unknown` (contract section 3); `thinking_why`: the member that says so.
    `wants_reasoning`: the client explicitly asked to see it (reader_spec 5.4). `hides_reasoning`: the client asked not
    to. `unsplit`: the client asked for the text with the thought and its markers in it. `constrained`: the answer has
    to follow a schema, a grammar or a forced tool call, so that a repeat of the reasoning is no accident. `structured`:
    the answer was promised to be JSON. `stops`: the stop strings; `keeps_stop`: the one that fires is to stay in the
    text. `wants_usage`: a stream is to end with its usage; `wants_each_usage`: each chunk is to tell it.
    `tools`: None where no function is declared. `prompts`: where the client writes the prompt itself, the texts of all,
    None for one that is no text; choice `index` answers number `index // samples`. `echo`: each answer begins with its
    prompt; of a chat, that is the text of the last message. `last_turn`: None where the answer begins a turn, or where
    that is not clear. `adds_no_thought`: thinking is turned off where a thought is a block of its own: the answer gets
    none in which the engine shows none. `asks_tokens`: what the client asks for of the answer's tokens, `ids` and
    `logprobs`; `names_tokens`: as their numbers, not their text. `shows_special`: special tokens stand in the text;
    None: that, and how an answer ends, is not told of all alike.
    """

    model: str | None
    stream: bool
    thinking: str
    thinking_why: str
    wants_reasoning: bool
    hides_reasoning: bool
    unsplit: bool
    constrained: bool
    structured: bool
    stops: tuple[str, ...]
    keeps_stop: bool
    wants_usage: bool
    tools: Tools | None
    prompts: tuple[str | None, ...] = ()
    samples: int = 1
    echo: bool = False
    last_turn: LastTurn | None = None
    adds_no_thought: bool = False
    asks_tokens: frozenset[str] = frozenset()
    names_tokens: bool = False
    shows_special: bool | None = None
    wants_each_usage: bool = False


class WireProtocol(Interface):
    """One protocol. `names`: the reasoning fields to write. Events of our own come as data: one event, or several with
    a line break between them, since JSON has none.

    `framed`: a stream has structure around its text (blocks, items), so that a frame's bytes may have to change with
    what went out before it: then `stream` is an object for one answer, and `relay` is asked for every frame.
    """

    name: str
    done: bytes
    framed: bool

    def stream(self, *, rewrites: bool) -> WireProtocol:
        """The protocol for the frames of one stream. `rewrites`: nothing of it goes out as it came."""

    def without_commentary(self) -> WireProtocol:
        """The same protocol where messages that only tell of progress are left out of its answers."""

    def relay(self, message: Message) -> bytes | None:
        """A frame whose text stays, as it is to go out: None as it came, empty not at all. Of `framed` ones only."""

    def frame(self, data: bytes) -> bytes:
        """Events of our own as frames."""

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What the request says."""

    def shape_history(self, body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
        """The request with its assistant turns shaped, and what was done; the same object when nothing was."""

    def decode_event(self, data: bytes) -> Message:
        """One stream event. Raises NotThisProtocol."""

    def decode_body(self, body: bytes) -> Message:
        """A whole plain body. Raises NotThisProtocol."""

    def rename(self, message: Message, names: tuple[str, ...] | None) -> bytes | None:
        """The frame with its reasoning under `names` (None: as it is named) and without empty lists of tool calls.

        None when it is so already.
        """

    def answer_id(self, message: Message) -> str:
        """The id of the answer; empty where the frame names none."""

    def has_usage(self, message: Message) -> bool:
        """True when the frame tells the usage."""

    def names_shown(self, part: Part) -> tuple[str, ...]:
        """The reasoning fields that the engine wrote in a part, with text or without."""

    def without_tokens(self, message: Message, places: Collection[int], *, whole: bool) -> tuple[Message, Counter[str]]:
        """The message without the members that show a choice's tokens, at these places, and what was taken out.

        `whole`: also without those that show the tokens of the whole answer.
        """

    def spells(self, part: Part, text: str) -> bool:
        """True where the tokens beside a part are known to begin as `text` does."""

    def rewrite(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> tuple[list[bytes], bytes | None]:
        """What says `pieces` (by place) in stead of the parts' own text: events of our own, then the message itself.

        None in its stead when nothing is left in it. Parts without pieces keep their text. `finishes`: other words for
        the parts' finish reasons.
        """

    def rewrite_body(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> bytes:
        """The plain body that says `pieces` in stead of the parts' own text; calls stand behind the engine's own."""

    def fragments(self, message: Message, part: Part) -> list[Fragment]:
        """The entries of a part's tool calls; those that are none of the protocol's are left out."""

    def change_calls(self, message: Message, changes: CallChanges) -> bytes | None:
        """The message with its tool calls changed; None when nothing is left in an event."""

    def add_report(self, body: bytes, report: object) -> bytes:
        """A plain body with the report in its place."""

    def text_event(self, like: Message | None, index: int, channel: str, text: str, names: tuple[str, ...]) -> bytes:
        """An event of our own that carries one piece of text."""

    def call_events(self, like: Message | None, index: int, call: NumberedCall) -> list[bytes]:
        """Events of our own that carry one call."""

    def finish_event(self, like: Message | None, index: int, reason: str) -> bytes:
        """An event of our own that ends a choice."""

    def report_event(self, like: Message | None, report: object) -> bytes:
        """An event of our own that carries the report."""

    def error_body(self, error: IntegrityError) -> bytes:
        """A gateway error as a plain body."""

    def error_event(self, error: IntegrityError) -> bytes:
        """A gateway error inside a stream."""


class Framed(WireProtocol):
    """What a protocol says whose stream has structure around its text; each of these may be said otherwise.

    Frames that wait for a tool call are written once they go out, so that what is written is told in their order.
    """

    framed = True

    def without_commentary(self) -> WireProtocol:
        """The protocol itself, where it has no such messages."""
        return self

    def written(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str],
        changes: CallChanges,
    ) -> tuple[list[bytes], bytes | None]:
        """A frame that does not go out as it came: `rewrite`, then `change_calls`."""
        own, data = self.rewrite(message, pieces, names, finishes)
        if data is not None and changes:
            data = self.change_calls(self.decode_event(data), changes)
        return own, data

    def kept(self) -> bytes:
        """Whole frames, as they came, that `relay` kept back until it was asked for the one that goes out now."""
        return b""

    def release(self) -> bytes:
        """Whole frames, as they came, that are still kept back."""
        return b""


class Unframed:
    """What a protocol says whose stream has nothing around its text."""

    framed = False

    def stream(self, *, rewrites: bool) -> Self:
        """The protocol itself: it has no state."""
        return self

    def without_commentary(self) -> Self:
        """The protocol itself: it has no such messages."""
        return self

    def relay(self, message: Message) -> bytes | None:
        """As it came."""
        return None

    def frame(self, data: bytes) -> bytes:
        """One event, one frame."""
        return sse.encode(data)
