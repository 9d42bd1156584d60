"""The registry of one process: builds the catalogue's families and adds up what happened.

Called a few times an exchange, never an event. Owns which series are there before anything was counted: those that a
route in force can produce. Must not know requests, bytes, connections.
"""

from __future__ import annotations

import time
from collections import Counter as Counted
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

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
from gateway.integrity.tally import NOT_DONE, Tally
from gateway.protocols import PROTOCOLS, STORED
from gateway.server.auto import EngineFacts
from gateway.server.catalogue import (
    CALL_FAILURES,
    CALL_SOURCES,
    CAPPED,
    CATALOGUE,
    CUT,
    FAILED_CALLS,
    FALLBACKS,
    LABELS,
    MODELS_KEPT,
    OTHER,
    PARSE_STAGES,
    REJECTIONS,
    UNPARSED,
    Family,
)
from gateway.server.inforce import Standing
from gateway.server.inspected import Held
from gateway.server.series import Remedy, findings_of, holds_of, remedies_of, request_remedy, withheld_remedy

_KINDS: dict[str, Callable[..., Any]] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


class Metrics:
    """One process's metrics. `registry` is what `/metrics` renders."""

    def __init__(self) -> None:
        # A second series for each counter, that no rule of ours reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._families = {family.name: self._build(family) for family in CATALOGUE}
        # `labels` costs more than counting.
        self._series = {
            family.name: lru_cache(maxsize=None)(self._families[family.name].labels) for family in CATALOGUE
        }
        self._models: set[str] = set()
        self._spoken = {"chat"}  # protocols that clients have used: series of the others would only be zeros
        self._foreseen: Callable[[str], None] = lambda protocol: None
        self._begin()
        self._read_now()

    def _build(self, family: Family) -> Any:
        more = {"buckets": family.buckets} if family.buckets else {}
        name = f"integrity_{family.name}"
        return _KINDS[family.kind](name, family.help, family.labels, registry=self.registry, **more)

    # ------------------------------------------------------------------ series before anything is counted

    def _begin(self) -> None:
        routes = (*sorted({protocol.name for protocol in (*PROTOCOLS.values(), STORED)}), OTHER)
        self._zero("http_requests", [(route, code) for route in routes for code in LABELS["code"]])
        for name in ("http_request_duration_seconds", "http_requests_in_flight"):
            self._zero(name, [(route,) for route in routes])
        self._zero("first_event_seconds", [(route,) for route in routes[:-1]])
        self._zero("chained_responses", [(route,) for route in routes[:-1]])
        self._zero("upstream_requests", [("1", outcome) for outcome in LABELS["outcome"]])
        self._zero("passthrough_fallbacks", [(reason,) for reason in FALLBACKS])
        self._zero("rejected_requests", [(reason,) for reason in REJECTIONS])
        self._zero("parse_errors", [(stage,) for stage in dict.fromkeys(PARSE_STAGES.values())])
        for name, label in _ONE_LABEL.items():
            self._zero(name, [(value,) for value in LABELS[label]])

    def _zero(self, name: str, rows: Iterable[tuple[str, ...]]) -> None:
        for row in rows:
            self._series[name](*row)

    def stands(self, standing: Standing, engines: Iterable[EngineFacts]) -> None:
        """A configuration, or what engines say about themselves, came into force."""
        rulebook = standing.config.rulebook
        files = (rulebook.dialects, rulebook.calls, rulebook.openings, {fault.engine for fault in rulebook.faults})
        self._families["rules_loaded"].set(sum(map(len, files)))
        self._info("build_info", [(__version__, rulebook.digest)])
        served = [(facts.engine, facts.version, model.id) for facts in engines for model in facts.models]
        self._models |= set(sorted(standing.models - self._models)[: max(0, MODELS_KEPT - len(self._models))])
        self._info("upstream_info", [row for row in served if row[-1] in self._models])
        routes = standing.config.routes
        rules = {rule for route in routes for rule in findings_of(route)}
        remedies = {remedy for route in routes for remedy in remedies_of(route)}
        leaks = sorted(rules & LEAKS)

        def foreseen(protocol: str) -> None:
            whose = [(model, protocol) for model in (*self._models, OTHER)]
            self._zero("any_leak_responses", whose)
            self._zero("responses", [(*who, stream) for who in whose for stream in LABELS["stream"]])
            for name in ("leaky_responses", "delivered_leaks"):
                self._zero(name, [(*who, rule) for who in whose for rule in leaks])
            self._zero("remediations", [(*who, *remedy[1:]) for who in whose for remedy in remedies])
            self._zero("tool_responses", whose)
            self._zero("tool_calls", [(*who, source) for who in whose for source in CALL_SOURCES])
            self._zero("tool_call_failures", [(*who, reason) for who in whose for reason in CALL_FAILURES])

        self._foreseen = foreseen
        for protocol in self._spoken:
            foreseen(protocol)
        self._zero("remediation_rules", [remedy[:2] for remedy in remedies])
        self._zero("leak_markers", [(rule,) for rule in rules])
        for name in ("held_seconds", "hold_releases"):
            self._zero(name, [(cause,) for route in routes for cause in holds_of(route)])

    def _info(self, name: str, rows: Iterable[tuple[str, ...]]) -> None:
        family = self._families[name]
        family.clear()
        for row in rows:
            family.labels(*row).set(1)

    # ------------------------------------------------------------------ what happens

    def started(self, route: str) -> None:
        """A request arrived. `route`: the protocol's name, or `other`. Its series begin before an answer is counted."""
        if route not in self._spoken and route != OTHER:
            self._spoken.add(route)
            self._foreseen(route)
        self._series["http_requests_in_flight"](route).inc()

    def ended(self, route: str, *, code: int, seconds: float) -> None:
        """A request ended; `code` 499: the client left before an answer began."""
        self._series["http_requests_in_flight"](route).dec()
        self._series["http_requests"](route, str(code)).inc()
        self._series["http_request_duration_seconds"](route).observe(seconds)

    def inspected(self, tally: Tally, *, model: str | None, protocol: str, stream: bool) -> None:
        """An answer was read. `model`: as the request names it."""
        name = self.model_label(model)
        self._series["responses"](name, protocol, str(stream).lower()).inc()
        for row, count in tally.findings:
            self._series["leak_markers"](row.finding).inc(count)
        if tally.leaky:
            self._series["any_leak_responses"](name, protocol).inc()
        for finding in tally.leaky:
            self._series["leaky_responses"](name, protocol, finding).inc()
        for finding in tally.delivered:
            self._series["delivered_leaks"](name, protocol, finding).inc()
        if tally.offered:
            self._series["tool_responses"](name, protocol).inc()
        for source in CALL_SOURCES:
            self._series["tool_calls"](name, protocol, source).inc(tally.calls[source])
        for reason, count in _failed_calls(tally).items():
            self._series["tool_call_failures"](name, protocol, reason).inc(count)

    def remedied(self, tally: Tally, *, model: str | None, protocol: str) -> None:
        """What was done in a request, and in its answer, read or not. `model`: as the request names it."""
        name = self.model_label(model)
        for (rule, action, outcome), count in _remedies(tally).items():
            self._series["remediations"](name, protocol, action, outcome).inc(count)
            self._series["remediation_rules"](rule, action).inc(count)
        self._families["suppressed_characters"].inc(tally.suppressed)
        for comparison in LABELS["comparison"]:
            self._series["dedup"](comparison).inc(tally.dedup[comparison])

    def latency(self, *, route: str, first: float | None, stages: Mapping[str, float | None]) -> None:
        """What an inspected answer cost, in seconds. `first`: until its first byte; None for what did not happen."""
        if first is not None:
            self._series["first_event_seconds"](route).observe(first)
        for stage, seconds in stages.items():
            if seconds is not None:
                self._series["added_latency_seconds"](stage).observe(seconds)

    def held(self, hold: Held) -> None:
        """A hold ended."""
        self._series["held_seconds"](hold.cause).observe(hold.seconds)
        self._series["hold_releases"](hold.cause).inc()
        self._families["held_back_bytes"].observe(hold.size)

    def chained(self, protocol: str) -> None:
        """An answer that another gateway has read was relayed."""
        self._series["chained_responses"](protocol).inc()

    def model_label(self, model: str | None) -> str:
        """What a request calls its model, where an engine serves it or a route names it; else `other`."""
        return model if model is not None and model in self._models else OTHER

    def fallback(self, reason: str, count: int = 1) -> None:
        """Bytes were forwarded without being read."""
        self._series["passthrough_fallbacks"](reason).inc(count)
        if reason in PARSE_STAGES:
            self._series["parse_errors"](PARSE_STAGES[reason]).inc(count)

    def upstream(self, attempt: int, outcome: str) -> None:
        """An attempt ended."""
        self._series["upstream_requests"](str(min(attempt, len(LABELS["attempt"]))), outcome).inc()

    def connections(self, *, active: Callable[[], int], idle: Callable[[], int]) -> None:
        """Where the numbers of connections to engines are read when they are asked for."""
        for state, number in (("active", active), ("idle", idle)):
            self._series["upstream_connections"](state).set_function(number)

    def disconnected(self, phase: str) -> None:
        """The client left: while its `request` was read, before the answer's `head`, in its `body`; or `stalled`."""
        self._series["client_disconnects"](phase).inc()

    def rejected(self, reason: str) -> None:
        """The gateway answered by itself."""
        self._series["rejected_requests"](reason).inc()

    def reloaded(self, result: str) -> None:
        """The configuration was read again: `success` or `failure`."""
        self._series["config_reloads"](result).inc()
        if result == "success":
            self._read_now()

    def _read_now(self) -> None:
        self._families["config_last_reload_success_timestamp_seconds"].set(time.time())

    def draining(self, is_draining: bool) -> None:
        """The gateway left, or came back to, the ready state."""
        self._families["draining"].set(is_draining)


_ONE_LABEL = {
    "added_latency_seconds": "stage",
    "dedup": "comparison",
    "upstream_connections": "state",
    "client_disconnects": "phase",
    "config_reloads": "result",
}


def _failed_calls(tally: Tally) -> Counted[str]:
    """What failed of the tool calls of an answer, by reason."""
    failed: Counted[str] = Counted({CUT: tally.calls["cut"]})
    for row, count in tally.findings:
        if (row.finding, row.rule) in FAILED_CALLS and row.where != "request":
            failed[FAILED_CALLS[row.finding, row.rule] or UNPARSED[row.where or "content"]] += count
    return failed


def _remedies(tally: Tally) -> Counted[Remedy]:
    done: Counted[Remedy] = Counted()
    for row, count in tally.findings:
        if row.action == "capped":
            done[row.finding, CAPPED, "capped"] += count
        elif row.action not in NOT_DONE:
            done[row.finding, row.action, "ok"] += count
    for name, count in tally.request.items():
        done[request_remedy(name)] += count
    for name, count in tally.withheld.items():
        done[withheld_remedy(name)] += count
    return done
