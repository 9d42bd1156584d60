"""The metric catalogue of the proxy, in a registry of its own.

Owns names, labels and buckets; every label value comes from the configuration or from a closed list, never from a
request. Called a few times an exchange, never an event. Must not know requests, bytes, connections.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from gateway import __version__
from gateway.findings import LEAKS
from gateway.integrity.tally import Tally

SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""Buckets of durations: the ends are a cached health check and a long reasoning answer."""

DELIVERED = "would_"
"""Prefix of an action that was not done: the client saw the leak."""


class Metrics:
    """One process's metrics. `registry` is what `/metrics` renders."""

    def __init__(self, *, rules_digest: str) -> None:
        # A second series for each counter, that no rule of ours reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

        def counter(name: str, text: str, *labels: str) -> Callable[..., Counter]:
            family = Counter(f"integrity_{name}", text, labels, registry=registry)
            return lru_cache(maxsize=None)(family.labels)  # `labels` costs more than counting

        self._responses = counter("responses", "Inspected answers.", "model", "protocol", "stream")
        self._leaky = counter("leaky_responses", "Answers with a leak, once a rule.", "model", "protocol", "rule")
        self._any_leak = counter("any_leak_responses", "Answers with at least one leak.", "model", "protocol")
        self._delivered = counter(
            "delivered_leaks", "Answers whose leak reached the client.", "model", "protocol", "rule"
        )
        self._markers = counter("leak_markers", "Findings, every occurrence.", "rule")
        self._remedies = counter(
            "remediations", "Actions taken, every occurrence.", "model", "protocol", "action", "outcome"
        )
        self._requests = counter("http_requests", "Requests answered.", "route", "code")
        self._upstream = counter("upstream_requests", "Attempts to have an answer.", "attempt", "outcome")
        self._disconnects = counter("client_disconnects", "Clients that left before their answer's end.", "phase")
        self._fallbacks = counter("passthrough_fallbacks", "Why bytes were forwarded without being read.", "reason")
        self._rejected = counter("rejected_requests", "Requests the gateway answered itself.", "reason")
        self._duration = Histogram(
            "integrity_http_request_duration_seconds",
            "From the request's head to the answer's last byte.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self._in_flight = Gauge("integrity_http_requests_in_flight", "Requests that run.", ["route"], registry=registry)
        self._draining = Gauge("integrity_draining", "1 while the gateway is not ready.", registry=registry)
        build = Gauge("integrity_build_info", "1.", ["version", "rules_digest"], registry=registry)
        build.labels(__version__, rules_digest).set(1)

    def started(self, route: str) -> None:
        """A request arrived. `route`: the protocol's name, or `other`."""
        self._in_flight.labels(route).inc()

    def ended(self, route: str, *, code: int, seconds: float) -> None:
        """A request ended; `code` 499: the client left before an answer began."""
        self._in_flight.labels(route).dec()
        self._requests(route, str(code)).inc()
        self._duration.labels(route).observe(seconds)

    def inspected(self, tally: Tally, *, model: str, protocol: str, stream: bool) -> None:
        """An answer was read. `model`: the route's name, until served models are known."""
        self._responses(model, protocol, str(stream).lower()).inc()
        leaks: set[str] = set()
        delivered: set[str] = set()
        for row, count in tally.findings:
            undone = row.action.startswith(DELIVERED)
            self._markers(row.finding).inc(count)
            if not undone:
                self._remedies(model, protocol, row.action, "ok").inc(count)
            if row.finding in LEAKS:
                leaks.add(row.finding)
                delivered |= {row.finding} if undone else set()
        if leaks:
            self._any_leak(model, protocol).inc()
        for finding in leaks:
            self._leaky(model, protocol, finding).inc()
        for finding in delivered:
            self._delivered(model, protocol, finding).inc()

    def fallback(self, reason: str, count: int = 1) -> None:
        """Bytes were forwarded without being read."""
        self._fallbacks(reason).inc(count)

    def upstream(self, attempt: int, outcome: str) -> None:
        """An attempt ended."""
        self._upstream(str(attempt), outcome).inc()

    def disconnected(self, phase: str) -> None:
        """The client left: while its `request` was read, before the answer's `head`, in its `body`; or `stalled`."""
        self._disconnects(phase).inc()

    def rejected(self, reason: str) -> None:
        """The gateway answered by itself."""
        self._rejected(reason).inc()

    def draining(self, is_draining: bool) -> None:
        """The gateway left, or came back to, the ready state."""
        self._draining.set(is_draining)
