"""One request and its one answer, sans-IO: the server tells what arrived and gets what to write. Nothing awaits.

The server calls `head` once, `data` for every read, then `end` or `broken` once. All four may be called from a protocol
callback. Before `end` it may ask the engine for the text of `unspelled` ids.

    RELAY   bytes are forwarded untouched; `data` need not be called
    STREAM  `data` returns what to write now
    WHOLE   `data` returns nothing until `end` (or everything so far, when the body passes its cap)

Where an answer cannot be read and may not go out unread (`reasoning_field: none`, `on_internal_error: error`), a stream
ends with an error event; before the first byte `head`, `data` and `end` raise IntegrityError instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gateway.errors import EngineFault, IntegrityError
from gateway.exchange.asking import NOTHING, asking_of
from gateway.exchange.observed import ObservedStream
from gateway.exchange.raw_stream import RawStream
from gateway.exchange.reading import NOTHING_SAID, ExchangeReading, effective_policy
from gateway.exchange.request import shaped_request
from gateway.exchange.route import Overrides, RouteRules
from gateway.exchange.stop_stream import StopStream
from gateway.exchange.stream import StreamInspection
from gateway.exchange.token_stream import TokenStream
from gateway.exchange.whole import inspect_body
from gateway.integrity.tally import Tally
from gateway.policy import ReasoningField
from gateway.protocols.chat_tokens import unspelled
from gateway.protocols.protocol import RequestFacts, WireProtocol
from gateway.streams.jsonscan import loads
from gateway.streams.tokens import Run


class Delivery(Enum):
    """How the answer travels."""

    RELAY = "relay"
    STREAM = "stream"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Ending:
    """The last bytes; `complete` False: write them, then break the connection.

    `headers` apply when no byte was written yet.
    """

    data: bytes
    complete: bool
    headers: tuple[tuple[str, str], ...] = ()


def peek_request(protocol: WireProtocol, body: bytes) -> RequestFacts | None:
    """What a request body says; None when it is no JSON object."""
    try:
        value: Any = loads(body)
    except ValueError:
        return None
    return protocol.facts(value) if isinstance(value, dict) else None


def open_exchange(
    *,
    protocol: WireProtocol,
    body: bytes,
    facts: RequestFacts | None,
    rules: RouteRules,
    overrides: Overrides,
    asks: bool = True,
) -> Exchange:
    """Begin. `facts` None (the body is no JSON object): the exchange relays, the engine answers, it is counted.

    Where reasoning is hidden such an answer is read all the same: engines take bodies that we do not. `asks` False: the
    engine has refused what we ask for beyond the client's request.
    """
    return Exchange(protocol=protocol, body=body, facts=facts, rules=rules, overrides=overrides, asks=asks)


class Exchange:
    """One exchange. `tally` is complete after `end` or `broken`; `fault` says where our own code failed, if it did.

    `model`: what the request names. `asks`: the request asks for what the client did not; an engine that refuses it has
    to be asked without.
    """

    def __init__(
        self,
        *,
        protocol: WireProtocol,
        body: bytes,
        facts: RequestFacts | None,
        rules: RouteRules,
        overrides: Overrides,
        asks: bool,
    ) -> None:
        self.upstream_body, asking = body, NOTHING
        self.protocol = protocol
        self.model = facts.model if facts is not None else None
        policy = effective_policy(rules.policy, overrides)
        self._report = overrides.report
        self._cap = rules.limits.response_body
        self._reading: ExchangeReading | None = None
        known = NOTHING_SAID if facts is None and policy.reasoning_field is ReasoningField.NONE else facts
        if known is not None:
            asking = asking_of(known, rules, policy, protocol=protocol.name) if facts and asks else asking
            self._reading = ExchangeReading(
                protocol=protocol, body=body, facts=known, rules=rules, policy=policy, asking=asking
            )
        self._tally = self._reading.tally if self._reading else Tally(policy)
        if facts is None:
            self._tally.uninspected["request_not_json"] += 1
        else:
            self.upstream_body = shaped_request(
                body, protocol=protocol, rules=rules, policy=policy, asking=asking, tally=self._tally
            )
        self.asks = asking != NOTHING
        if facts is not None and not asks:
            self._tally.uninspected["request_refused"] += 1
        self._delivery = Delivery.RELAY
        self._stream: StreamInspection | ObservedStream | None = None
        self._body = bytearray()
        self._texts: Mapping[Run, str] = {}

    @property
    def tally(self) -> Tally:
        """What happened so far."""
        return self._tally

    @property
    def holding(self) -> str | None:
        """Why a stream lets nothing out now: a cause of `integrity.holds`; None where nothing waits."""
        return self._stream.holding if isinstance(self._stream, StreamInspection) else None

    @property
    def interruptible(self) -> bool:
        """True where a comment may be put into the stream now: never into one that is only observed."""
        return isinstance(self._stream, StreamInspection) and self._stream.between_frames

    @property
    def ends_itself(self) -> bool:
        """True where the answer may be `over` before the engine ends it."""
        return isinstance(self._stream, StopStream)

    @property
    def over(self) -> bool:
        """True where nothing more of the engine's answer is wanted: the client's has ended."""
        return isinstance(self._stream, StopStream) and self._stream.over

    @property
    def inspected(self) -> bool:
        """True when the answer was read: it counts in the denominators."""
        return self._tally.events > 0

    @property
    def fault(self) -> str | None:
        """Type and place of a fault in our own code."""
        return self._reading.fault if self._reading else None

    def head(self, *, status: int, content_type: str, content_encoding: str | None) -> Delivery:
        """The response head arrived; decides how the answer travels."""
        kind = content_type.partition(";")[0].strip().lower()
        if self._reading is None or status != 200:
            return Delivery.RELAY
        if content_encoding and content_encoding.lower() != "identity":
            self._unread(self._reading, "content_encoding")
        elif kind == "text/event-stream":
            self._delivery = Delivery.STREAM
            self._stream = _stream_of(self._reading)(self._reading, report=self._report)
            self.data = self._stream.data  # type: ignore[method-assign]
        elif kind == "application/json":
            self._delivery = Delivery.WHOLE
        else:
            self._unread(self._reading, "content_type")
        return self._delivery

    def data(self, chunk: bytes) -> bytes:
        """Bytes of the answer arrived; returns what to write now. For a stream `head` puts its own method in place."""
        if self._delivery is Delivery.RELAY or self._reading is None:
            return chunk
        self._body += chunk
        if len(self._body) <= self._cap:
            return b""
        body, self._body = bytes(self._body), bytearray()
        self._delivery = Delivery.RELAY
        self._unread(self._reading, "response_body_cap")
        return body

    def unspelled(self) -> list[Run]:
        """What of a whole answer only the engine can make text of, before `end`: runs of ids, each once."""
        tokens = self._reading.asking.tokens if self._reading and self._delivery is Delivery.WHOLE else None
        return unspelled(bytes(self._body), tokens) if tokens else []

    def spelled(self, texts: Mapping[Run, str]) -> None:
        """The text of each of the `unspelled` runs; a choice with one that is missing stays as the engine split it."""
        self._texts = texts

    def end(self) -> Ending:
        """The upstream body ended as HTTP says it should."""
        if self._stream is not None:
            return Ending(*self._stream.end())
        if self._delivery is not Delivery.WHOLE or self._reading is None:
            return Ending(b"", True)
        body = inspect_body(self._reading, bytes(self._body), report=self._report, texts=self._texts)
        header = self._tally.header() if self._report or not self._reading.observe else ""
        return Ending(body, True, (("X-Integrity-Findings", header),) if header else ())

    def broken(self, error: EngineFault | IntegrityError) -> Ending:
        """The upstream broke off after its head. Nothing is suppressed, nothing ends as if complete."""
        if self._stream is not None:
            return Ending(*self._stream.broken(error))
        part = bytes(self._body) if self._reading and not self._reading.hidden else b""
        return Ending(part, False)

    def _unread(self, reading: ExchangeReading, reason: str) -> None:
        """Count an answer that goes out unread. Raises IntegrityError where it may not."""
        self._tally.uninspected[reason] += 1
        if not reading.may_pass(internal=False):
            raise IntegrityError("the gateway could not read the answer")


def _stream_of(reading: ExchangeReading) -> type[StreamInspection] | type[ObservedStream]:
    """What reads a streamed answer."""
    if reading.observe:
        return ObservedStream
    if reading.asking.tokens:
        return TokenStream
    if reading.asking.stop == "gateway":
        return StopStream
    return RawStream if reading.splits else StreamInspection
