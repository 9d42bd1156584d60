"""The sink of an inspected answer: which bytes an exchange gives for what the engine sent, and what is measured of it.

Owns the second fence around the exchange's calls (a bug ends the answer, never the connection's callback), and which
answers are read in a thread. Must not know routes, the pool, metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import perf_counter
from typing import NamedTuple

from gateway import __version__
from gateway.errors import IntegrityError
from gateway.exchange import Delivery, Ending, Exchange, StoredExchange
from gateway.server.connection import GivenUp
from gateway.server.relay import Relay, relay_head
from gateway.server.wire import Field, Head
from gateway.streams.tokens import Run

VIA = b"X-Integrity-Via"
"""On an answer that a gateway has read and may have repaired: the next gateway lets it pass."""
LONG_BODY_BYTES = 256 * 1024
"""A plain answer over this size is read in a thread: a hundred kilobytes are a millisecond or two."""
REFUSALS = (400, 422)
"""Statuses of an engine that does not know a member of the request."""
HOLDS_KEPT = 256
"""Holds of one answer that are measured; a stream of markers could have any number."""


class Held(NamedTuple):
    """Reads of a stream that let nothing out: why, for how many seconds, how many bytes of the engine's."""

    cause: str
    seconds: float
    size: int


class Inspected:
    """The sink of an inspected answer. `fault`: what ended it early. `bug`: the exception of our own code that did.

    `acts` False: the answer is observed, so that a gateway in front still has it to repair. `hides`: no reasoning may
    go out, whoever has read the answer before. `heartbeat`: as `Relay.keep_warm` takes it. `chained`: another gateway
    has read the answer, and it is relayed. `refused`: the engine does not take what was asked for beyond the client's
    request; nothing of its answer is kept. `slowest`: seconds that the slowest read took us, `finishing`: that the end
    took. `holds`: what waited, once it waits no more. `settled` False: the end of the answer is `settle`'s to do, and
    until then the exchange is nobody else's.
    """

    def __init__(
        self, relay: Relay, exchange: Exchange | StoredExchange, *, acts: bool, hides: bool, heartbeat: float
    ) -> None:
        self._relay, self.exchange, self._heartbeat = relay, exchange, heartbeat
        self._via: list[Field] = [(VIA, __version__.encode())] if acts else []
        self._hides = hides
        self.chained = False
        self.refused = False
        self._left = False  # the answer has ended before the engine's did
        self.settled = True
        self._size = 0
        self._runs: list[Run] | None = None  # ids that the engine has to be asked about; None: not looked for yet
        self._head: Head | None = None
        self._read = exchange.data
        self.delivery: Delivery | None = None
        self.fault: IntegrityError | None = None
        self.bug: Exception | None = None
        self.slowest = 0.0
        self.finishing: float | None = None
        self.holds: list[Held] = []
        self._holding: Held | None = None

    @property
    def streamed(self) -> bool:
        """True for an answer that came as a stream of events."""
        return self.delivery is Delivery.STREAM

    def head(self, head: Head) -> None:
        if not self._hides and head.all(VIA.lower()):
            self.chained = True
            self._head = head
            self._relay_all(head)
            return
        if head.status in REFUSALS and self.exchange.asks:
            self.refused = True
            self.data = _ignored  # type: ignore[method-assign]
            return
        try:
            self.delivery = self.exchange.head(
                status=head.status,
                content_type=head.text(b"content-type") or "",
                content_encoding=head.text(b"content-encoding"),
            )
        except Exception as error:
            self._give_up(error)
            return
        self._head, self._read = head, self.exchange.data  # `head` may have put another method in its place
        if self.delivery is Delivery.RELAY:
            self._relay_all(head)
        elif self.delivery is Delivery.WHOLE:
            self.data = self._gather  # type: ignore[method-assign]
        elif self.delivery is Delivery.STREAM:
            self.data = self._data_until_over if self.exchange.ends_itself else self.data  # type: ignore[method-assign]
            self._relay.open(head, fields=self._via, length=None)
            self._relay.keep_warm(self._heartbeat, allowed=lambda: self.exchange.interruptible)

    def _relay_all(self, head: Head) -> None:
        relay_head(self._relay, head)
        self.data = self._relay.write  # type: ignore[method-assign]

    def data(self, body: bytes) -> None:
        began = perf_counter()
        try:
            out = self._read(body)
        except Exception as error:
            self._give_up(error)
            return
        spent = perf_counter() - began
        if spent > self.slowest:
            self.slowest = spent
        if self._holding is not None or not out:
            self._hold(body, released=bool(out), began=began)
        if out:
            if not self._relay.status and self._head is not None:
                self._relay.open(self._head, length=None)  # a whole body that passed its cap
            self._relay.write(out)

    def _data_until_over(self, body: bytes) -> None:
        """The exchange may end the answer before the engine does, which is left then."""
        Inspected.data(self, body)
        if self.exchange.over:
            self._close(None)
            self._left, self.data = True, _ignored  # type: ignore[method-assign]
            if self._relay.call is not None:
                self._relay.call.fail(GivenUp("the answer has ended"))

    def _gather(self, body: bytes) -> None:
        self._size += len(body)
        Inspected.data(self, body)

    def end(self) -> None:
        if self.fault is not None or self.refused or self._left:
            return
        long = self._size > LONG_BODY_BYTES
        self._runs = None if long else self._unspelled()
        if not self._relay.status and (long or self._runs):
            self.settled = False
        else:
            self._close(None)

    def broken(self, fault: IntegrityError) -> None:
        if self.fault is None and not self._left:
            self.fault = fault
            if self._head is not None:
                self._close(fault)

    def _hold(self, body: bytes, *, released: bool, began: float) -> None:
        """Measure a wait: from a read that gave nothing to the next one that gives something."""
        held = self._holding
        if held is None:
            cause = self.exchange.holding
            self._holding = Held(cause, began, len(body)) if cause is not None else None
        elif not released:
            self._holding = held._replace(size=held.size + len(body))
        else:
            self._holding = None
            if len(self.holds) < HOLDS_KEPT:
                self.holds.append(held._replace(seconds=began - held.seconds))

    def _unspelled(self) -> list[Run]:
        """Ids that the engine has to be asked about. Our own failure to find them is no reason to lose the answer."""
        try:
            return self.exchange.unspelled() if isinstance(self.exchange, Exchange) else []
        except Exception as error:
            self.bug = error
            return []

    async def settle(self, spell: Callable[[list[Run]], Awaitable[Mapping[Run, str]]]) -> None:
        """Read and write a body that was too long for the socket callback, or needs `spell`, which asks the engine for
        the text of ids. Nothing where there is none."""
        if not self.settled:
            # No relay is touched in the thread: where it fails nothing was sent. Cancelled: it ends by itself, unheard.
            in_thread = partial(asyncio.get_running_loop().run_in_executor, None)
            runs = await in_thread(self._unspelled) if self._runs is None else self._runs
            if runs and isinstance(self.exchange, Exchange):
                self.exchange.spelled(await spell(runs))
            ending = await in_thread(self._ending, None)
            self.settled = True
            self._deliver(ending)

    def _close(self, fault: IntegrityError | None) -> None:
        self._deliver(self._ending(fault))

    def _ending(self, fault: IntegrityError | None) -> Ending | None:
        began = perf_counter()
        try:
            ending = self.exchange.end() if fault is None else self.exchange.broken(fault)
        except Exception as error:
            self._failed(error)
            return None
        self.finishing = perf_counter() - began
        return ending

    def _deliver(self, ending: Ending | None) -> None:
        if ending is None:
            return
        began = perf_counter()
        if self._holding is not None:
            self._hold(b"", released=True, began=began)
        relay = self._relay
        if not relay.status and self._head is not None and (ending.data or ending.complete):
            extra = [*self._via, *((name.encode(), value.encode()) for name, value in ending.headers)]
            relay.open(self._head, fields=extra, length=len(ending.data) if ending.complete else None)
        if ending.data:
            relay.write(ending.data)
        if ending.complete:
            relay.finish()
        elif relay.status:
            relay.cut()

    def _give_up(self, error: Exception) -> None:
        self._failed(error)
        self._read = _nothing
        if self._relay.call is not None:
            self._relay.call.fail(GivenUp("the gateway failed"))

    def _failed(self, error: Exception) -> None:
        """The exchange may not let the answer go out (an IntegrityError), or our code has a bug."""
        if isinstance(error, IntegrityError):
            self.fault = error
        else:
            self.bug, self.fault = error, IntegrityError("the gateway failed")
        if self._relay.sent:
            self._relay.cut()


def _nothing(chunk: bytes) -> bytes:
    return b""


def _ignored(body: bytes) -> None:
    return None
