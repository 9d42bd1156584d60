"""A stored answer that is fetched: the exchange begins once the answer itself has said what its request was.

The request for it says nothing, but the response repeats it: `model`, `tools`, `tool_choice`, `text`, `reasoning` … So
the whole body is waited for, or the first event of a stream that carries the response, and an `Exchange` reads all of
it as if it had just been made. Two things the response does not repeat: `chat_template_kwargs`, so that thinking is off
where `reasoning` or the route says it; and the input. A call that was left as text may stand in there, word for word,
so none is made of text (contract rule 5: "a call that stands verbatim in the request is text").

A stream that begins in the middle (`starting_after`) cannot be read: it is relayed and counted, or, where reasoning is
hidden, ends with an error event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.errors import EngineFault, IntegrityError
from gateway.exchange.exchange import Delivery, Ending, Exchange, peek_request
from gateway.exchange.reading import NOTHING_SAID, effective_policy
from gateway.exchange.route import Overrides, RouteRules
from gateway.integrity.tally import Tally
from gateway.policy import ReasoningField
from gateway.protocols.protocol import RequestFacts, WireProtocol
from gateway.streams.jsonscan import member
from gateway.streams.sse import SSEReader

MIDDLE: Final = "stored_middle"
"""What a stream that begins in the middle is counted as."""
_UNKNOWN: Final = b""
"""The request: one that cannot be read may have said anything (`Echo.said`)."""


class StoredExchange:
    """The same calls as `Exchange`, in the same order. `by_model`: other rules for the model that the response names.

    Nothing is held but that: at most `limits.response_body` of a plain answer, `limits.sse_event` of a stream.
    """

    def __init__(
        self,
        *,
        protocol: WireProtocol,
        body: bytes,
        rules: RouteRules,
        by_model: Mapping[str, RouteRules],
        overrides: Overrides,
    ) -> None:
        self.upstream_body, self.asks = body, False
        self._protocol, self._rules, self._by_model, self._overrides = protocol, rules, by_model, overrides
        self._cap = rules.limits.response_body
        self._sse = SSEReader(max_line=rules.limits.sse_line, max_event=rules.limits.sse_event)
        self._exchange = self._begin(NOTHING_SAID, rules)  # until the response comes; where none does, to the end
        self._head: dict[str, Any] = {}
        self._waits: Delivery | None = None  # the response has not come: how it travels
        self._body = bytearray()
        self._cut = False  # an error of ours has ended the answer

    @property
    def tally(self) -> Tally:
        """What happened so far."""
        return self._exchange.tally

    @property
    def model(self) -> str | None:
        """The model that the response names, once it has come."""
        return self._exchange.model

    @property
    def holding(self) -> str | None:
        """As `Exchange.holding`."""
        return self._exchange.holding

    @property
    def interruptible(self) -> bool:
        """As `Exchange.interruptible`."""
        return self._exchange.interruptible and not self._cut

    @property
    def ends_itself(self) -> bool:
        """Never: it was made before."""
        return False

    @property
    def over(self) -> bool:
        """As `Exchange.over`."""
        return False

    @property
    def inspected(self) -> bool:
        """As `Exchange.inspected`."""
        return self._exchange.inspected

    @property
    def fault(self) -> str | None:
        """As `Exchange.fault`."""
        return self._exchange.fault

    def head(self, *, status: int, content_type: str, content_encoding: str | None) -> Delivery:
        """As `Exchange.head`."""
        self._head = {"status": status, "content_type": content_type, "content_encoding": content_encoding}
        delivery = self._exchange.head(**self._head)
        self._waits = delivery if delivery is not Delivery.RELAY else None
        return delivery

    def data(self, chunk: bytes) -> bytes:
        """As `Exchange.data`."""
        if self._cut:
            return b""
        if self._waits is None:
            return self._exchange.data(chunk)
        if self._waits is Delivery.STREAM:
            return self._first(chunk)
        self._body += chunk
        return self._go_on() if len(self._body) > self._cap else b""

    def end(self) -> Ending:
        """As `Exchange.end`."""
        if self._cut:
            return Ending(b"", False)
        if self._waits is Delivery.WHOLE:
            self._read(bytes(self._body))
        last = self._go_on()
        ending = self._exchange.end()
        return replace(ending, data=last + ending.data)

    def broken(self, error: EngineFault | IntegrityError) -> Ending:
        """As `Exchange.broken`."""
        if self._cut:
            return Ending(b"", False)
        last = self._go_on()
        ending = self._exchange.broken(error)
        return replace(ending, data=last + ending.data)

    # ------------------------------------------------------------------ the response that is waited for

    def _first(self, chunk: bytes) -> bytes:
        """Frames of a stream up to the first event, which has to carry the response, and what follows it."""
        try:
            frames = self._sse.feed(chunk)
        except EngineFault:  # the exchange has the same caps, and counts it
            return self._go_on()
        before: list[bytes] = []
        for place, frame in enumerate(frames):
            if frame.data is not None:
                self._body += b"".join([each.raw for each in frames[place:]])
                begins = self._read(_response_in(frame.data))
                return b"".join(before) + (self._go_on() if begins else self._unread())
            before.append(self._exchange.data(frame.raw))
            if self._exchange.tally.uninspected:  # what came is no event stream
                self._body += b"".join([each.raw for each in frames[place + 1 :]])
                return b"".join(before) + self._go_on()
        return b"".join(before)

    def _read(self, response: bytes) -> bool:
        """Begin the exchange that `response` tells of; False where it is none."""
        facts = peek_request(self._protocol, response)
        if facts is None:
            return False
        self._exchange = self._begin(facts, self._by_model.get(facts.model or "", self._rules))
        self._exchange.head(**self._head)
        return True

    def _go_on(self) -> bytes:
        """What is kept back goes to the exchange, and everything after it."""
        kept = bytes(self._body) + self._sse.take_pending()
        self._body, self._waits = bytearray(), None
        return self._exchange.data(kept) if kept else b""

    def _unread(self) -> bytes:
        """The stream begins in the middle: everything as it comes, or an error where that may not go out."""
        waiting = self._exchange
        self._exchange = self._begin(NOTHING_SAID, self._rules)  # without a head it relays
        self._exchange.tally.uninspected[MIDDLE] += 1
        hidden = effective_policy(self._rules.policy, self._overrides).reasoning_field is ReasoningField.NONE
        if not hidden:
            return self._go_on()
        self._cut = True
        return waiting.broken(IntegrityError("the gateway could not read the answer")).data

    def _begin(self, facts: RequestFacts, rules: RouteRules) -> Exchange:
        rules = replace(rules, policy=replace(rules.policy, history="leave"))  # there is no history to shape
        return Exchange(
            protocol=self._protocol, body=_UNKNOWN, facts=facts, rules=rules, overrides=self._overrides, asks=True
        )


def _response_in(event: bytes) -> bytes:
    """The response that an event carries; empty where it carries none."""
    try:
        span = member(event, ("response",))
    except ValueError:
        return b""
    return event[slice(*span)] if span else b""
