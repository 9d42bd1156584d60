"""A plain answer: the stream reader fed once, then finished, and the body spliced where it changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.errors import IntegrityError
from gateway.events import REASONING
from gateway.exchange.calls import ChoiceCalls
from gateway.exchange.reading import ExchangeReading, content_of, reason_of
from gateway.exchange.withheld import Withheld
from gateway.integrity.outlet import Piece, came
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.raw import RawPipeline
from gateway.integrity.stop_pipeline import StoppingPipeline
from gateway.protocols.chat_stop import stopped_at
from gateway.protocols.chat_tokens import ChatTokens
from gateway.protocols.protocol import CallChange, Message, NotThisProtocol, Part, Said
from gateway.streams.tokens import Run

PUSHED_AT_ONCE: Final = 256 * 1024
"""Characters. One search of a regular expression in nine million holds up every other exchange for a quarter second,
also from a thread."""


@dataclass(slots=True)
class _Changes:
    """What does not stay as it came, by the part's place. `said`: what every part says."""

    said: dict[int, list[Said]] = field(default_factory=dict)
    pieces: dict[int, list[Said]] = field(default_factory=dict)
    calls: dict[int, dict[int, CallChange]] = field(default_factory=dict)
    finishes: dict[int, str] = field(default_factory=dict)
    stops: dict[int, str] = field(default_factory=dict)


def inspect_body(reading: ExchangeReading, body: bytes, *, report: bool, texts: Mapping[Run, str]) -> bytes:
    """The body as the client gets it; the same object when nothing changed. `texts`: as `ChatTokens` takes them.

    Raises IntegrityError where the body cannot be read and may not go out unread (contract rule 7), and nothing else.
    """
    tokens = ChatTokens(reading.asking.tokens, texts=texts) if reading.asking.tokens else None
    body, contents = tokens.body(body) if tokens else (body, {})
    try:
        message = reading.protocol.decode_body(body)
    except NotThisProtocol as error:
        return _unread(reading, body, error)
    if reading.splits and reading.hidden and len(message.parts) > reading.limits.choices:
        return _unread(reading, body, NotThisProtocol("choice index"))  # its text would show the thought
    for part in message.parts:
        part.content = contents.get(part.place, part.content)
    try:
        return _inspect(reading, message, missing=tokens.missing if tokens else (), report=report)
    except Exception as fault:  # the fence
        reading.note_fault(fault)
        return _unread(reading, body, fault)


def _unread(reading: ExchangeReading, body: bytes, fault: Exception) -> bytes:
    reading.tally.uninspected[reason_of(fault)] += 1
    if reading.may_pass(internal=not isinstance(fault, NotThisProtocol)):
        return body
    raise IntegrityError("the gateway could not read the answer") from fault


def _inspect(reading: ExchangeReading, message: Message, *, missing: Collection[object], report: bool) -> bytes:
    """`missing`: choices whose tokens were asked for and did not come."""
    reading.tally.events += 1
    changes = _Changes()
    for part in message.parts[: reading.limits.choices]:
        by_ids = part.marked is not None
        pipeline = reading.split_pipeline() if part.index in missing else reading.pipeline(part.index, by_ids=by_ids)
        _read(reading, message, part, pipeline, changes)
    if len(message.parts) > reading.limits.choices:
        reading.tally.uninspected["choice_index"] += 1
    if reading.secret:
        message = Withheld(reading, reading.protocol).message(message, changes.said)
    body = message.data if reading.observe else _written(reading, message, changes)
    return reading.protocol.add_report(body, reading.report()) if report else body


def _written(reading: ExchangeReading, message: Message, changes: _Changes) -> bytes:
    protocol = reading.protocol
    names = reading.names if reading.names is not None else _names_seen(reading, message)
    if changes.calls:
        message = protocol.decode_body(protocol.change_calls(message, changes.calls) or message.data)
    if changes.pieces or changes.finishes:
        message = protocol.decode_body(protocol.rewrite_body(message, changes.pieces, names, changes.finishes))
    if changes.stops:
        message = protocol.decode_body(stopped_at(message.data, changes.stops))
    named = reading.names is not None and any(part.names for part in message.parts)
    if named or any(part.no_calls for part in message.parts):
        return protocol.rename(message, reading.names) or message.data
    return message.data


def _slices(text: str) -> list[str]:
    """A text as it is pushed; most are one slice, and an empty one is none."""
    return [text[at : at + PUSHED_AT_ONCE] for at in range(0, len(text), PUSHED_AT_ONCE)]


def _read(reading: ExchangeReading, message: Message, part: Part, pipeline: Pipeline, changes: _Changes) -> None:
    """What one choice says, and what of it changes."""
    ending = reading.ending(part)
    calls = ChoiceCalls(reading.calls, pipeline, part.index, stream=False)
    pieces: list[Piece | Said] = []
    reasoning, content = part.reasoning, part.content if part.marked is None else part.marked
    if message.odd:
        reasoning, content = pipeline.join(reasoning, content)
    for delta in (*((text, "") for text in _slices(reasoning)), *(("", text) for text in _slices(content))):
        pushed = pipeline.push(*delta)
        pieces += came(*delta) if pushed is None else pushed
    if part.refusal:
        pieces += pipeline.refusal()
    fragments = [replace(each, index=each.place) for each in reading.protocol.fragments(message, part)]
    if part.tools and not (fragments and reading.calls.refuses):
        pieces += pipeline.tool_call()
    changed = calls.take_all(fragments, stopped=ending["stopped"])
    calls.others = part.tools and not fragments
    pieces += pipeline.finish(**ending)
    if isinstance(pipeline, RawPipeline):
        part.fates = pipeline.take_fates()
    said = calls.numbered(pieces, reading.protocol.answer_id(message))
    if reading.adds_no_thought and not part.reasoning:
        said = reading.without_thought(said)
    changes.said[part.place] = said
    if calls.rescued or _reasoning(said) != part.reasoning or content_of(said) != part.content:
        changes.pieces[part.place] = said
    if changed:
        changes.calls[part.place] = changed
    if isinstance(pipeline, StoppingPipeline) and pipeline.fired is not None:
        changes.stops[part.place] = pipeline.fired
        changes.calls |= {part.place: {each.place: CallChange(gone=True) for each in fragments}} if fragments else {}
    elif word := calls.ending(part.finish):
        changes.finishes[part.place] = word


def _reasoning(pieces: list[Said]) -> str:
    return "".join([text for channel, text in pieces if channel == REASONING and isinstance(text, str)])


def _names_seen(reading: ExchangeReading, message: Message) -> tuple[str, ...]:
    """The engine's names for the reasoning: those it used, else showed, else those of its kind."""
    used = (part.names for part in message.parts)
    shown = map(reading.protocol.names_shown, message.parts)
    return next(filter(None, (*used, *shown)), reading.engine_names)
