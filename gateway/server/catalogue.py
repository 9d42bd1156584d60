"""The metric catalogue as data: names, labels, buckets, help texts (reference/operations.md section 3.6).

`metrics.py` builds the registry from it and `docs/operations.md` its table. Every label value comes from a closed list,
the served models, or the rules; none from a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.exchange.stored import MIDDLE
from gateway.findings import Finding
from gateway.protocols import UNREAD_TEXT

SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""Durations of requests: the ends are a cached health check and a long reasoning answer."""
ADDED_SECONDS: Final = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.005, 0.02, 0.1)
HELD_SECONDS: Final = (0.05, 0.25, 1.0, 5.0, 30.0)
HELD_BYTES: Final = (256, 1024, 4096, 16384, 65536, 1048576)
ATTEMPTS: Final = (0, 1, 2, 3, 5)

OTHER: Final = "other"
"""Any model that no engine serves and no route spells out; any route that is not inspected."""
MODELS_KEPT: Final = 20
"""Models with a label of their own, in a process's life; later ones are `other`."""

LABELS: Final[dict[str, tuple[str, ...]]] = {
    "stream": ("true", "false"),
    "code": ("200", "400", "499", "500", "502", "503", "504"),
    "attempt": ("1", "2", "3"),
    "outcome": (
        "ok",
        "connect_error",
        "timeout_first_byte",
        "timeout_idle",
        "truncated",
        "bad_framing",
        "stale",
        "status_4xx",
        "status_5xx",
        "cancelled",
    ),
    "state": ("active", "idle"),
    "phase": ("request", "head", "body", "stalled"),
    "stage": ("request", "event", "finish"),
    "result": ("success", "failure"),
    "comparison": (
        *("checked", "suppressed", "released_prefix", "released_unwanted", "released_cut", "diverged", "capped"),
    ),
}
"""Values that are known in advance: their series are there from the start, so that `rate` sees the first increment."""

REJECTIONS: Final = (
    *("framing", "version", "method", "target", "host", "expect", "header_timeout", "body_timeout"),
    *("route_not_forwarded", "path_disguised", "no_route", "draining", "connections", "internal"),
)
FALLBACKS: Final = (
    *("request_not_json", "request_body_cap", "request_internal", "no_route", "content_type", "content_encoding"),
    *("request_refused", "tokens_missing"),
    *("response_body_cap", "frame_too_large", "no_event", "no_JSON", "no_chat_completion", "choice_index"),
    *("no_message", "internal", "server_fault", MIDDLE, *UNREAD_TEXT),
)
PARSE_STAGES: Final = {
    "request_not_json": "request",
    "frame_too_large": "frame",
    "no_event": "frame",
    "no_JSON": "message",
    "no_chat_completion": "message",
    "no_message": "message",
}
"""Fallbacks that are a failed parse, and of what."""

ACTIONS: Final[dict[Finding, tuple[str, ...]]] = {
    Finding.REASONING_LEAK: ("moved", "hidden"),
    Finding.BOUNDARY_TOKEN: ("stripped",),
    Finding.SPECIAL_TOKEN: ("stripped",),
    Finding.ROLE_TOKEN: ("suppressed",),
    Finding.ANSWER_IN_REASONING: ("moved", "replayed", "promoted"),
    Finding.DUPLICATE_SUPPRESSED: ("suppressed",),
    Finding.MIXED_CHUNK_SPLIT: ("split",),
    Finding.FINISH_REASON_FIXED: ("added", "repaired"),
    Finding.TOOL_RESCUED: ("rescued",),
    Finding.TOOL_MARKUP_LEAK: ("removed",),
    Finding.TOOL_ARGS_REPAIRED: ("repaired",),
    Finding.TOOL_NAME_REPAIRED: ("repaired",),
    Finding.TOOL_ARGS_INVALID: ("emptied",),
}
"""What can be done about a finding."""
CAPPED: Final = "replayed"
"""The action that a cap may end halfway; a finding then says `capped`."""
HISTORY: Final = ("renamed", "stripped", "split", "repeat_dropped")
"""What can be done with the reasoning of earlier turns in a request."""
ASKED: Final = ("tokens_asked", "stop_in_step", "stop_removed")
"""How the engine can be asked otherwise than the client asked."""
WITHHELD: Final = (
    *("logprobs", "token_ids"),
    *("response_token_ids", "meta_info", "hidden_states", "sglext"),  # SGLang
    "output_messages",  # vLLM, Responses
)
"""Members beside a text that spell it out a second time."""
CALL_SOURCES: Final = ("engine", "rescued")
CUT: Final = "truncated"
UNPARSED: Final = {"content": "unparsed_in_content", "reasoning": "unparsed_in_reasoning"}
"""A call left as text, by where it was left."""
FAILED_CALLS: Final[dict[tuple[Finding, str | None], str | None]] = {
    (Finding.TOOL_RESCUED, None): None,
    **dict.fromkeys(((Finding.TOOL_MARKUP_LEAK, rule) for rule in ("malformed", "incomplete", "cap")), None),
    (Finding.TOOL_MARKUP_LEAK, "arguments"): "invalid_json",
    (Finding.TOOL_MARKUP_LEAK, "undeclared"): "unknown_tool",
    (Finding.TOOL_MARKUP_LEAK, "cut"): CUT,
    (Finding.TOOL_ARGS_INVALID, "not_json"): "invalid_json",
    **dict.fromkeys(((Finding.TOOL_ARGS_INVALID, rule) for rule in ("schema", None)), "schema_violation"),
    (Finding.TOOL_ARGS_INVALID, "name"): "unknown_tool",
}
"""A finding and its rule to what failed: None: as `UNPARSED` says. Other markup was never meant to be run, or was."""
CALL_FAILURES: Final = (*UNPARSED.values(), *dict.fromkeys(filter(None, FAILED_CALLS.values())))


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `name` without prefix; a counter's without `_total`. `buckets` makes it a histogram."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def exposed(self) -> str:
        """The name in a query; of a histogram, without `_bucket`, `_sum`, `_count`."""
        return f"integrity_{self.name}{'_total' if self.kind == 'counter' else ''}"


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family(name, "counter", text, labels)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name, "gauge", text, labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Family:
    return Family(name, "histogram", text, labels, buckets)


_WHO: Final = ("model", "protocol")

CATALOGUE: Final = (
    _counter(
        "responses", "Answers of engines that were inspected: the denominator of every leak rate.", *_WHO, "stream"
    ),
    _counter("any_leak_responses", "Inspected answers with at least one leak, repaired or not.", *_WHO),
    _counter(
        "leaky_responses", "Inspected answers with a leak of this rule; one answer counts once a rule.", *_WHO, "rule"
    ),
    _counter(
        "delivered_leaks",
        "Inspected answers whose leak reached the client, because the finding was only observed: the service level.",
        *_WHO,
        "rule",
    ),
    _counter("leak_markers", "Findings of every kind, each occurrence.", "rule"),
    _counter(
        "chained_responses", "Answers that another gateway had inspected: relayed, not inspected again.", "protocol"
    ),
    _counter("tool_responses", "Inspected answers to requests that declared tools.", *_WHO),
    _counter(
        "tool_call_failures",
        "Tool calls that the engine left as text, repaired or not, or that could not be read or broke their schema.",
        *_WHO,
        "reason",
    ),
    _counter(
        "tool_calls",
        "Tool calls delivered, by who read them: the engine, or the gateway from the text.",
        *_WHO,
        "source",
    ),
    _counter("structured_responses", "Inspected answers to requests with a schema or JSON mode.", *_WHO),
    _counter("structured_failures", "Structured answers that broke their promise.", *_WHO, "reason"),
    _counter("remediations", "Actions carried out, each occurrence.", *_WHO, "action", "outcome"),
    _counter(
        "remediation_rules",
        "Actions carried out, by the finding, or the part of a request or an answer, that asked for them.",
        "rule",
        "action",
    ),
    _counter("suppressed_characters", "Text of answers that was taken out, markers apart."),
    _counter("dedup", "Comparisons of an answer with its reasoning, and how they ended.", "comparison"),
    _histogram("regeneration_attempts", "Further attempts for one answer.", ATTEMPTS, "model"),
    _counter("regeneration_tokens", "Tokens spent on further attempts.", "model", "kind"),
    _histogram("regeneration_duration_seconds", "What further attempts added to an answer.", SECONDS, "model"),
    _counter(
        "http_requests",
        "Requests answered, the gateway's own errors included; 499: the client left first.",
        "route",
        "code",
    ),
    _histogram("http_request_duration_seconds", "From a request's head to its answer's last byte.", SECONDS, "route"),
    _gauge("http_requests_in_flight", "Requests that run now.", "route"),
    _histogram(
        "first_event_seconds", "From a request's head to the first byte of its inspected answer.", SECONDS, "route"
    ),
    _histogram(
        "added_latency_seconds",
        "Time in the gateway's own code, once an answer: its request, the slowest read of its stream, its end.",
        ADDED_SECONDS,
        "stage",
    ),
    _histogram("held_back_bytes", "The engine's bytes that came while nothing was let out, once a hold.", HELD_BYTES),
    _histogram(
        "held_seconds", "How long a read of a stream waited before something was let out.", HELD_SECONDS, "cause"
    ),
    _counter("hold_releases", "Holds that ended.", "cause"),
    _counter(
        "upstream_requests", "Attempts to have an answer; attempt 3 stands for all later ones.", "attempt", "outcome"
    ),
    _gauge("upstream_connections", "Connections to engines.", "state"),
    _gauge("upstream_info", "1 for each model an engine says that it serves.", "engine", "version", "model"),
    _counter(
        "client_disconnects", "Clients that left before their answer's end; stalled: they took nothing of it.", "phase"
    ),
    _counter(
        "parse_errors", "Requests, stream frames and messages that could not be read and went on as they came.", "stage"
    ),
    _counter("passthrough_fallbacks", "Bytes that were forwarded without being read, by reason.", "reason"),
    _counter("rejected_requests", "Requests the gateway refused, by reason.", "reason"),
    _gauge("rules_loaded", "Rule files in force: dialects, call formats, beginnings, engines."),
    _counter(
        "config_reloads", "Reads of the configuration after the first; a failure leaves the old one in force.", "result"
    ),
    _gauge("config_last_reload_success_timestamp_seconds", "When the configuration in force was read."),
    _gauge("draining", "1 while the gateway is not ready because it shuts down."),
    _gauge("build_info", "1; which version and which rules.", "version", "rules_digest"),
)
