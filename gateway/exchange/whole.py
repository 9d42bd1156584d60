"""A plain answer: the stream reader fed once, then finished, and the body spliced where it changed."""

from __future__ import annotations

from gateway.events import REASONING
from gateway.exchange.reading import ExchangeReading
from gateway.integrity.pipeline import Piece
from gateway.protocols.protocol import Message, NotThisProtocol, Part


def inspect_body(reading: ExchangeReading, body: bytes, *, report: bool) -> bytes:
    """The body as the client gets it; the same object when nothing changed. Never raises (contract rule 7)."""
    try:
        message = reading.protocol.decode_body(body)
    except NotThisProtocol as error:
        reading.tally.uninspected[str(error).replace(" ", "_")] += 1
        return body
    try:
        return _inspect(reading, message, report=report)
    except Exception as fault:  # the fence
        reading.note_fault(fault)
        reading.tally.uninspected["internal"] += 1
        return body


def _inspect(reading: ExchangeReading, message: Message, *, report: bool) -> bytes:
    reading.tally.events += 1
    changed: dict[int, list[Piece]] = {}
    for part in message.parts[: reading.limits.choices]:
        pieces = _read(reading, part, odd=message.odd)
        if _text(pieces, reasoning=True) != part.reasoning or _text(pieces, reasoning=False) != part.content:
            changed[part.place] = pieces
    if len(message.parts) > reading.limits.choices:
        reading.tally.uninspected["choice_index"] += 1
    body = message.data
    names = reading.names if reading.names is not None else _names_seen(message)
    if changed:
        message.data = reading.protocol.rewrite_body(message, changed, names)
        message = reading.protocol.decode_body(message.data)
        body = message.data
    if reading.names is not None and any(part.names for part in message.parts):
        body = reading.protocol.rename(message, reading.names) or body
    return reading.protocol.add_report(body, reading.report()) if report else body


def _read(reading: ExchangeReading, part: Part, *, odd: bool) -> list[Piece]:
    pipeline = reading.pipeline()
    pieces: list[Piece] = []
    for reasoning, content in ((part.reasoning, ""), ("", part.content)):
        if odd:
            reasoning, content = (pipeline.join(field, text) if text else "" for field, text in (("reasoning", reasoning), ("content", content)))
        if reasoning or content:
            out = pipeline.push(reasoning, content)
            pieces += [(REASONING, reasoning) if reasoning else ("content", content)] if out is None else out
    if part.tools:
        pieces += pipeline.tool_call()
    pieces += pipeline.finish(**reading.ending(part))
    return pieces


def _text(pieces: list[Piece], *, reasoning: bool) -> str:
    return "".join([text for channel, text in pieces if (channel == REASONING) is reasoning])


def _names_seen(message: Message) -> tuple[str, ...]:
    return next((part.names for part in message.parts if part.names), ("reasoning",))
