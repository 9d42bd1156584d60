"""A plain answer: the stream reader fed once, then finished, and the body spliced where it changed."""

from __future__ import annotations

from gateway.errors import IntegrityError
from gateway.events import REASONING
from gateway.exchange.reading import ExchangeReading, came, reason_of
from gateway.integrity.outlet import Piece
from gateway.protocols.protocol import Message, NotThisProtocol, Part


def inspect_body(reading: ExchangeReading, body: bytes, *, report: bool) -> bytes:
    """The body as the client gets it; the same object when nothing changed.

    Raises IntegrityError where the body cannot be read and may not go out unread (contract rule 7), and nothing else.
    """
    try:
        message = reading.protocol.decode_body(body)
    except NotThisProtocol as error:
        return _unread(reading, body, error)
    try:
        return _inspect(reading, message, report=report)
    except Exception as fault:  # the fence
        reading.note_fault(fault)
        return _unread(reading, body, fault)


def _unread(reading: ExchangeReading, body: bytes, fault: Exception) -> bytes:
    reading.tally.uninspected[reason_of(fault)] += 1
    if reading.may_pass(internal=not isinstance(fault, NotThisProtocol)):
        return body
    raise IntegrityError("the gateway could not read the answer") from fault


def _inspect(reading: ExchangeReading, message: Message, *, report: bool) -> bytes:
    reading.tally.events += 1
    said: dict[int, list[Piece]] = {}
    changed: dict[int, list[Piece]] = {}
    for part in message.parts[: reading.limits.choices]:
        said[part.place] = pieces = _read(reading, part, odd=message.odd)
        if _text(pieces, reasoning=True) != part.reasoning or _text(pieces, reasoning=False) != part.content:
            changed[part.place] = pieces
    if len(message.parts) > reading.limits.choices:
        reading.tally.uninspected["choice_index"] += 1
    if reading.secret:
        withheld = [part.place for part in message.parts if reading.withholds(part, said.get(part.place))]
        message, taken = reading.protocol.without_tokens(message, withheld)
        reading.tally.withheld.update(taken)
    body = message.data if reading.observe else _written(reading, message, changed)
    return reading.protocol.add_report(body, reading.report()) if report else body


def _written(reading: ExchangeReading, message: Message, changed: dict[int, list[Piece]]) -> bytes:
    names = reading.names if reading.names is not None else _names_seen(reading, message)
    if changed:
        message = reading.protocol.decode_body(reading.protocol.rewrite_body(message, changed, names))
    named = reading.names is not None and any(part.names for part in message.parts)
    if named or any(part.no_calls for part in message.parts):
        return reading.protocol.rename(message, reading.names) or message.data
    return message.data


def _read(reading: ExchangeReading, part: Part, *, odd: bool) -> list[Piece]:
    pipeline = reading.pipeline()
    pieces: list[Piece] = []
    reasoning, content = pipeline.join(part.reasoning, part.content) if odd else (part.reasoning, part.content)
    for delta in ((reasoning, ""), ("", content)):
        if any(delta):
            out = pipeline.push(*delta)
            pieces += came(*delta) if out is None else out
    if part.refusal:
        pieces += pipeline.refusal()
    if part.tools:
        pieces += pipeline.tool_call()
    pieces += pipeline.finish(**reading.ending(part))
    return pieces


def _text(pieces: list[Piece], *, reasoning: bool) -> str:
    return "".join([text for channel, text in pieces if (channel == REASONING) is reasoning])


def _names_seen(reading: ExchangeReading, message: Message) -> tuple[str, ...]:
    """The engine's names for the reasoning: those it used, else showed, else those of its kind."""
    used = (part.names for part in message.parts)
    shown = map(reading.protocol.names_shown, message.parts)
    return next(filter(None, (*used, *shown)), reading.engine_names)
