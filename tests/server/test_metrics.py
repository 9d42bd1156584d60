"""The metric catalogue: names, labels, and how a tally is added up."""

from __future__ import annotations

from prometheus_client.openmetrics.exposition import generate_latest

from gateway import __version__
from gateway.findings import Finding
from gateway.integrity.tally import Tally
from gateway.policy import Mode, Profile, policy_for
from gateway.server.metrics import Metrics

CATALOGUE = {
    "integrity_responses": {"model", "protocol", "stream"},
    "integrity_leaky_responses": {"model", "protocol", "rule"},
    "integrity_any_leak_responses": {"model", "protocol"},
    "integrity_delivered_leaks": {"model", "protocol", "rule"},
    "integrity_leak_markers": {"rule"},
    "integrity_remediations": {"model", "protocol", "action", "outcome"},
    "integrity_http_requests": {"route", "code"},
    "integrity_http_request_duration_seconds": {"route"},
    "integrity_http_requests_in_flight": {"route"},
    "integrity_upstream_requests": {"attempt", "outcome"},
    "integrity_client_disconnects": {"phase"},
    "integrity_passthrough_fallbacks": {"reason"},
    "integrity_rejected_requests": {"reason"},
    "integrity_draining": set(),
    "integrity_build_info": {"version", "rules_digest"},
}
"""reference/operations.md section 3.6, as far as this version counts."""


def tally(profile: Profile = Profile.REPAIR, **findings: Mode) -> Tally:
    modes = {Finding(name): mode for name, mode in findings.items()}
    return Tally(policy_for(profile, findings=modes))


def counted(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"integrity_{name}", labels)


def everything() -> Metrics:
    """Every metric with a sample."""
    metrics = Metrics(rules_digest="abc")
    seen = tally(boundary_token=Mode.OBSERVE)
    seen.add(Finding.BOUNDARY_TOKEN, "stripped")
    seen.add(Finding.SPECIAL_TOKEN, "stripped")
    metrics.inspected(seen, model="m", protocol="chat", stream=True)
    metrics.started("chat")
    metrics.ended("chat", code=200, seconds=0.2)
    metrics.upstream(1, "ok")
    metrics.disconnected("body")
    metrics.fallback("content_type")
    metrics.rejected("framing")
    return metrics


def test_the_catalogue_is_complete_and_has_nothing_else() -> None:
    found = {
        family.name: {label for sample in family.samples for label in sample.labels} - {"le"}
        for family in everything().registry.collect()
        if family.name.startswith("integrity_")
    }
    assert found == CATALOGUE


def test_histograms_are_small() -> None:
    samples = generate_latest(everything().registry).decode()
    buckets = [
        line for line in samples.splitlines() if line.startswith("integrity_http_request_duration_seconds_bucket")
    ]
    assert len(buckets) == 14


def test_no_counter_has_a_second_series_for_its_birthday() -> None:
    assert "_created" not in generate_latest(everything().registry).decode()


def test_a_response_counts_once_a_rule_however_often_it_leaked() -> None:
    metrics = Metrics(rules_digest="abc")
    seen = tally()
    for marker in ("<think>", "</think>", "</think>"):
        seen.add(Finding.BOUNDARY_TOKEN, "stripped", marker=marker)
    seen.add(Finding.REASONING_LEAK, "moved")
    labels = {"model": "m", "protocol": "chat"}
    metrics.inspected(seen, **labels, stream=False)
    assert counted(metrics, "responses_total", **labels, stream="false") == 1
    assert counted(metrics, "any_leak_responses_total", **labels) == 1
    assert counted(metrics, "leaky_responses_total", **labels, rule="boundary_token") == 1
    assert counted(metrics, "leaky_responses_total", **labels, rule="reasoning_leak") == 1
    assert counted(metrics, "leak_markers_total", rule="boundary_token") == 3
    assert counted(metrics, "remediations_total", **labels, action="stripped", outcome="ok") == 3
    assert counted(metrics, "delivered_leaks_total", **labels, rule="boundary_token") is None


def test_what_was_only_observed_reached_the_client() -> None:
    metrics = Metrics(rules_digest="abc")
    seen = tally(Profile.OBSERVE)
    seen.add(Finding.BOUNDARY_TOKEN, "stripped")
    labels = {"model": "m", "protocol": "chat"}
    metrics.inspected(seen, **labels, stream=True)
    assert counted(metrics, "delivered_leaks_total", **labels, rule="boundary_token") == 1
    assert counted(metrics, "any_leak_responses_total", **labels) == 1
    assert counted(metrics, "remediations_total", **labels, action="would_stripped", outcome="ok") is None


def test_a_finding_that_is_no_leak_does_not_raise_the_leak_rate() -> None:
    metrics = Metrics(rules_digest="abc")
    seen = tally()
    seen.add(Finding.TRUNCATED, "flagged", where="reasoning")
    metrics.inspected(seen, model="m", protocol="chat", stream=True)
    assert counted(metrics, "any_leak_responses_total", model="m", protocol="chat") is None
    assert counted(metrics, "leaky_responses_total", model="m", protocol="chat", rule="truncated") is None
    assert counted(metrics, "leak_markers_total", rule="truncated") == 1


def test_a_clean_response_is_the_denominator_only() -> None:
    metrics = Metrics(rules_digest="abc")
    metrics.inspected(tally(), model="m", protocol="chat", stream=True)
    assert counted(metrics, "responses_total", model="m", protocol="chat", stream="true") == 1
    assert counted(metrics, "any_leak_responses_total", model="m", protocol="chat") is None


def test_requests_are_in_flight_from_start_to_end() -> None:
    metrics = Metrics(rules_digest="abc")
    metrics.started("other")
    assert counted(metrics, "http_requests_in_flight", route="other") == 1
    metrics.ended("other", code=499, seconds=3.0)
    assert counted(metrics, "http_requests_in_flight", route="other") == 0
    assert counted(metrics, "http_requests_total", route="other", code="499") == 1
    assert counted(metrics, "http_request_duration_seconds_sum", route="other") == 3.0


def test_draining_and_build_info_are_there_from_the_start() -> None:
    metrics = Metrics(rules_digest="abc")
    assert counted(metrics, "build_info", version=__version__, rules_digest="abc") == 1
    assert counted(metrics, "draining") == 0
    metrics.draining(True)
    assert counted(metrics, "draining") == 1
    metrics.draining(False)
    assert counted(metrics, "draining") == 0
