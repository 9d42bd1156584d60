"""The metric catalogue: names, labels, which series are there from the start, and how a tally is added up."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client.openmetrics.exposition import generate_latest

from gateway import __version__
from gateway.findings import LEAKS, Finding
from gateway.integrity.holds import HOLDS
from gateway.integrity.tally import NOT_DONE, UNDONE, Tally
from gateway.policy import Mode, Profile, policy_for
from gateway.rulebook.load import load_rulebook, shipped_rules
from gateway.server.auto import EngineFacts, Served
from gateway.server.catalogue import (
    ACTIONS,
    ASKED,
    CALL_FAILURES,
    CALL_SOURCES,
    CATALOGUE,
    HISTORY,
    LABELS,
    MODELS_KEPT,
    OTHER,
    WITHHELD,
)
from gateway.server.config import config_from_mapping
from gateway.server.connection import target_of
from gateway.server.inforce import InForce
from gateway.server.inspected import Held
from gateway.server.metrics import Metrics
from tests.exchange import driver

UPSTREAM = "http://127.0.0.1:1"
SPEC = {
    "integrity_responses": {"model", "protocol", "stream"},
    "integrity_leaky_responses": {"model", "protocol", "rule"},
    "integrity_any_leak_responses": {"model", "protocol"},
    "integrity_delivered_leaks": {"model", "protocol", "rule"},
    "integrity_leak_markers": {"rule"},
    "integrity_chained_responses": {"protocol"},
    "integrity_tool_responses": {"model", "protocol"},
    "integrity_tool_call_failures": {"model", "protocol", "reason"},
    "integrity_tool_calls": {"model", "protocol", "source"},
    "integrity_structured_responses": {"model", "protocol"},
    "integrity_structured_failures": {"model", "protocol", "reason"},
    "integrity_remediations": {"model", "protocol", "action", "outcome"},
    "integrity_remediation_rules": {"rule", "action"},
    "integrity_suppressed_characters": set(),
    "integrity_dedup": {"comparison"},
    "integrity_regeneration_attempts": {"model"},
    "integrity_regeneration_tokens": {"model", "kind"},
    "integrity_regeneration_duration_seconds": {"model"},
    "integrity_http_requests": {"route", "code"},
    "integrity_http_request_duration_seconds": {"route"},
    "integrity_http_requests_in_flight": {"route"},
    "integrity_first_event_seconds": {"route"},
    "integrity_added_latency_seconds": {"stage"},
    "integrity_held_back_bytes": set(),
    "integrity_held_seconds": {"cause"},
    "integrity_hold_releases": {"cause"},
    "integrity_upstream_requests": {"attempt", "outcome"},
    "integrity_upstream_connections": {"state"},
    "integrity_upstream_info": {"engine", "version", "model"},
    "integrity_client_disconnects": {"phase"},
    "integrity_parse_errors": {"stage"},
    "integrity_passthrough_fallbacks": {"reason"},
    "integrity_rejected_requests": {"reason"},
    "integrity_rules_loaded": set(),
    "integrity_config_reloads": {"result"},
    "integrity_config_last_reload_success_timestamp_seconds": set(),
    "integrity_draining": set(),
    "integrity_build_info": {"version", "rules_digest"},
}
"""reference/operations.md section 3.6; what issue 3 adds: `chained`, `parse_errors` by stage, `upstream_info`,
`held_seconds`; contract rule 2: `suppressed_characters`; reader_spec D13: `dedup`."""
NOT_YET = {
    "structured_responses",
    "structured_failures",
    "regeneration_attempts",
    "regeneration_tokens",
    "regeneration_duration_seconds",
}
"""Families that no route can add to in this version: they are announced and have no series."""
TYPICAL, WORST = 640, 3000
"""Series of one process: reference/operations.md section 3.4, which suggests 300 for fewer families."""
FULLEST = {"dialect": "kimi_k3", "profile": "full", "starts_in": "reasoning", "reasoning_end_string": "Time is up."}


def running(*models: str, profile: str = "repair", **route: Any) -> Metrics:
    """The metrics of a gateway whose engine serves `models`."""
    config = config_from_mapping({"routes": [{"upstream": UPSTREAM, **route}], "profile": profile}, source="test")
    in_force = InForce(config, changed=lambda _: None)
    in_force.learn({target_of(UPSTREAM): served(*models)})
    metrics = Metrics()
    metrics.stands(in_force.now, in_force.facts)
    return metrics


def served(*models: str) -> EngineFacts:
    return EngineFacts(engine="vllm", version="0.32.0", models=tuple(Served(id=name, names=(name,)) for name in models))


def tally(profile: Profile = Profile.REPAIR, **findings: Mode) -> Tally:
    modes = {Finding(name): mode for name, mode in findings.items()}
    return Tally(policy_for(profile, findings=modes))


def counted(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"integrity_{name}", labels)


def series(metrics: Metrics, *, suffix: str = "") -> list[tuple[str, dict[str, str]]]:
    families = metrics.registry.collect()
    samples = [sample for family in families for sample in family.samples if sample.name.startswith("integrity_")]
    return [(sample.name, sample.labels) for sample in samples if sample.name.endswith(suffix)]


def samples(metrics: Metrics) -> list[tuple[str, float]]:
    return [(sample.name, sample.value) for family in metrics.registry.collect() for sample in family.samples]


def values(metrics: Metrics, name: str, label: str) -> set[str]:
    return {labels[label] for found, labels in series(metrics) if found == f"integrity_{name}"}


# ---------------------------------------------------------------- the catalogue


def test_the_catalogue_is_the_specified_one() -> None:
    assert {f"integrity_{family.name}": set(family.labels) for family in CATALOGUE} == SPEC


def test_every_family_is_exposed_and_nothing_else() -> None:
    found = {family.name for family in running("m").registry.collect() if family.name.startswith("integrity_")}
    assert found == SPEC.keys()


@pytest.mark.parametrize("family", CATALOGUE, ids=lambda family: family.name)
def test_a_family_follows_the_rules_of_prometheus(family: Any) -> None:
    assert family.help.endswith(".")
    assert family.kind in ("counter", "gauge", "histogram")
    assert (family.kind == "histogram") is bool(family.buckets)
    assert len(family.buckets) <= 13  # and one for the rest
    assert not family.buckets or len(family.labels) <= 2
    assert not family.name.endswith("_total")
    assert family.exposed.endswith("_total") is (family.kind == "counter")


def test_the_causes_of_holds_are_those_that_are_documented() -> None:
    parsers = {"reasoning": "deepseek_r1", "tools": "hermes"}  # which lags behind a stop string
    every = running(dialect=parsers, starts_in="reasoning", reasoning_end_string="Time is up.")
    for family in ("hold_releases_total", "held_seconds_count"):
        assert values(every, family, "cause") == {hold.cause for hold in HOLDS}


def test_no_counter_has_a_second_series_for_its_birthday() -> None:
    assert "_created" not in generate_latest(running("m").registry).decode()


# ---------------------------------------------------------------- from the start


@pytest.mark.parametrize("family", [family for family in CATALOGUE if family.name not in NOT_YET], ids=lambda f: f.name)
def test_a_series_is_there_before_anything_was_counted(family: Any) -> None:
    found = {name.removesuffix("_count") for name, _ in series(running("m"))}
    assert family.exposed in found


@pytest.mark.parametrize("name", sorted(NOT_YET))
def test_a_family_that_no_route_can_add_to_has_no_series(name: str) -> None:
    assert [found for found, _ in series(running("m")) if found.startswith(f"integrity_{name}")] == []


def test_each_served_model_has_its_series_and_so_have_all_others() -> None:
    metrics = running("a", "b")
    assert values(metrics, "responses_total", "model") == {"a", "b", OTHER}
    assert values(metrics, "leaky_responses_total", "rule") == LEAKS
    assert counted(metrics, "responses_total", model="a", protocol="chat", stream="true") == 0


def test_rules_that_no_route_can_show_have_no_series() -> None:
    assert "boundary_token" not in values(running(dialect="none"), "leak_markers_total", "rule")
    assert "duplicate_suppressed" in values(running(dialect="none"), "leak_markers_total", "rule")
    off = running(policy={"findings": {"role_token": "off"}})
    assert values(off, "leaky_responses_total", "rule") == LEAKS - {"role_token"}


def test_a_model_of_a_later_configuration_gets_its_series_then_and_an_older_one_keeps_them() -> None:
    config = config_from_mapping({"routes": [{"upstream": UPSTREAM}]}, source="test")
    in_force = InForce(config, changed=lambda _: None)
    metrics = Metrics()
    for models in (("a",), ("b",)):
        in_force.learn({target_of(UPSTREAM): served(*models)})
        metrics.stands(in_force.now, in_force.facts)
    assert values(metrics, "responses_total", "model") == {"a", "b", OTHER}
    assert values(metrics, "upstream_info", "model") == {"b"}


def test_models_past_the_cap_are_other() -> None:
    metrics = running(*(f"m{number:02}" for number in range(MODELS_KEPT + 5)))
    assert len(values(metrics, "responses_total", "model")) == MODELS_KEPT + 1
    assert len(values(metrics, "upstream_info", "model")) == MODELS_KEPT
    metrics.inspected(tally(), model=f"m{MODELS_KEPT}", protocol="chat", stream=True)
    assert counted(metrics, "responses_total", model=OTHER, protocol="chat", stream="true") == 1


def everything(metrics: Metrics, models: Iterable[str]) -> None:
    """Every value that a label can have."""
    for model in models:
        for profile in (Profile.REPAIR, Profile.OBSERVE):
            seen = tally(profile)
            for finding in Finding:
                for action in UNDONE:
                    seen.add(finding, action)
            seen.request.update((*HISTORY, *ASKED))
            seen.withheld.update(WITHHELD)
            metrics.inspected(seen, model=model, protocol="chat", stream=True)
            metrics.remedied(seen, model=model, protocol="chat")
    for attempt in range(9):
        for outcome in LABELS["outcome"]:
            metrics.upstream(attempt + 1, outcome)
    for code in range(200, 600, 8):
        metrics.ended("chat", code=code, seconds=1)
        metrics.ended("other", code=code, seconds=1)


@pytest.mark.parametrize(("models", "budget"), [(1, TYPICAL), (MODELS_KEPT, WORST)])
def test_a_fresh_process_stays_within_the_budget_of_series(models: int, budget: int) -> None:
    assert len(series(running(*(f"m{number}" for number in range(models)), **FULLEST))) < budget


def test_the_worst_process_stays_within_the_budget_of_series() -> None:
    names = [f"m{number}" for number in range(MODELS_KEPT * 2)]
    metrics = running(*names)
    everything(metrics, names)
    assert len(series(metrics)) < WORST


# ---------------------------------------------------------------- counting


def test_a_response_counts_once_a_rule_however_often_it_leaked() -> None:
    metrics = running("m")
    seen = tally()
    for marker in ("<think>", "</think>", "</think>"):
        seen.add(Finding.BOUNDARY_TOKEN, "stripped", marker=marker)
    seen.add(Finding.REASONING_LEAK, "moved")
    labels = {"model": "m", "protocol": "chat"}
    metrics.inspected(seen, **labels, stream=False)
    metrics.remedied(seen, **labels)
    assert counted(metrics, "responses_total", **labels, stream="false") == 1
    assert counted(metrics, "any_leak_responses_total", **labels) == 1
    assert counted(metrics, "leaky_responses_total", **labels, rule="boundary_token") == 1
    assert counted(metrics, "leaky_responses_total", **labels, rule="reasoning_leak") == 1
    assert counted(metrics, "leak_markers_total", rule="boundary_token") == 3
    assert counted(metrics, "remediations_total", **labels, action="stripped", outcome="ok") == 3
    assert counted(metrics, "remediation_rules_total", rule="boundary_token", action="stripped") == 3
    assert counted(metrics, "delivered_leaks_total", **labels, rule="boundary_token") == 0


def test_what_was_only_observed_reached_the_client() -> None:
    metrics = running("m", profile="observe")
    seen = tally(Profile.OBSERVE)
    seen.add(Finding.BOUNDARY_TOKEN, "stripped")
    labels = {"model": "m", "protocol": "chat"}
    metrics.inspected(seen, **labels, stream=True)
    metrics.remedied(seen, **labels)
    assert counted(metrics, "delivered_leaks_total", **labels, rule="boundary_token") == 1
    assert counted(metrics, "any_leak_responses_total", **labels) == 1
    assert counted(metrics, "remediations_total", **labels, action="stripped", outcome="ok") == 0
    assert counted(metrics, "remediations_total", **labels, action="would_strip", outcome="ok") is None


WEATHER = {"name": "f", "parameters": {"properties": {"n": {"type": "integer"}}}}
TOOLS = {"tools": [{"type": "function", "function": WEATHER}]}
CALL = '<tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call>'


def own(arguments: str, name: str = "f") -> dict[str, Any]:
    return {
        "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]
    }


@pytest.mark.parametrize(
    ("said", "finish", "counts"),
    [
        ({"content": "4"}, "stop", {}),
        (own('{"n": 1}'), "tool_calls", {"engine": 1}),
        ({"content": CALL}, "stop", {"rescued": 1, "unparsed_in_content": 1}),
        ({"reasoning": CALL}, "stop", {"unparsed_in_reasoning": 1}),  # only observed, unless the route says more
        ({"content": f"{CALL} and text"}, "stop", {}),
        ({"content": CALL.replace('"f"', '"g"')}, "stop", {"unknown_tool": 1}),
        ({"content": CALL.replace("}}", "}")}, "stop", {"unparsed_in_content": 1}),
        ({"content": CALL.replace("1}}</tool_call>", "")}, "length", {"truncated": 1}),
        (
            {"content": CALL.replace("1", '"x"')},
            "stop",
            {"rescued": 1, "unparsed_in_content": 1, "schema_violation": 1},
        ),
        (own('{"n": 1'), "length", {"engine": 1, "truncated": 1}),
        (own('{"n": 1, "m": ["a}'), "tool_calls", {"engine": 1, "invalid_json": 1}),
        (own('{"n": "x"}'), "tool_calls", {"engine": 1, "schema_violation": 1}),
        (own("{}", name="<|f g|>"), "tool_calls", {"engine": 1, "unknown_tool": 1}),
    ],
)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
def test_tool_calls_are_counted_by_who_read_them_and_by_what_failed(
    said: dict[str, Any], finish: str, counts: dict[str, int], stream: bool
) -> None:
    read_as = load_rulebook().resolve({"reasoning": "qwen3", "tools": "hermes"}, engine=None).dialect
    rules = driver.route(profile=Profile.REPAIR, read_as=read_as)
    if stream:
        reads = [driver.delta(**said), driver.delta(finish=finish), driver.DONE]
        answer = driver.streamed(reads, rules, request=TOOLS)
    else:
        answer = driver.plain(driver.message(finish, **said), rules, request=TOOLS)
    metrics = running("m")
    who = {"model": "m", "protocol": "chat"}
    metrics.inspected(answer.exchange.tally, **who, stream=stream)
    assert counted(metrics, "tool_responses_total", **who) == 1
    found = {source: counted(metrics, "tool_calls_total", **who, source=source) for source in CALL_SOURCES}
    found |= {reason: counted(metrics, "tool_call_failures_total", **who, reason=reason) for reason in CALL_FAILURES}
    assert found == dict.fromkeys([*CALL_SOURCES, *CALL_FAILURES], 0) | counts


def test_an_answer_to_a_request_without_tools_is_none_of_the_tool_responses() -> None:
    metrics = running("m")
    metrics.inspected(tally(), model="m", protocol="chat", stream=True)
    assert counted(metrics, "tool_responses_total", model="m", protocol="chat") == 0


def test_arguments_of_an_earlier_turn_are_no_call_of_the_answer() -> None:
    metrics = running("m", profile="full")
    seen = tally(Profile.FULL)
    seen.add(Finding.TOOL_ARGS_INVALID, "emptied", where="request")
    metrics.inspected(seen, model="m", protocol="chat", stream=True)
    assert not any(value for name, value in samples(metrics) if name.startswith("integrity_tool_call_failures"))


def test_the_reasons_of_failed_calls_are_the_specified_ones() -> None:
    """reference/operations.md section 3.6."""
    reasons = "unparsed_in_content unparsed_in_reasoning invalid_json schema_violation unknown_tool truncated"
    assert set(CALL_FAILURES) == set(reasons.split())
    assert set(values(running("m"), "tool_call_failures_total", "reason")) == set(CALL_FAILURES)


@pytest.mark.parametrize("action", ["flagged", "kept"])
def test_a_finding_about_which_nothing_is_done_is_no_remediation(action: str) -> None:
    metrics = running("m")
    before = series(metrics, suffix="_total")
    seen = tally()
    seen.add(Finding.DUPLICATE_SUSPECT, action)
    metrics.remedied(seen, model="m", protocol="chat")
    assert series(metrics, suffix="_total") == before
    assert not any(value for name, value in samples(metrics) if name.startswith("integrity_remediation"))


def test_a_replay_that_its_cap_stopped_is_a_remediation_with_that_outcome() -> None:
    metrics = running("m", dialect="kimi_k3")
    seen = tally()
    seen.add(Finding.ANSWER_IN_REASONING, "capped", where="reasoning")
    metrics.remedied(seen, model="m", protocol="chat")
    found = {
        outcome: counted(metrics, "remediations_total", model="m", protocol="chat", action="replayed", outcome=outcome)
        for outcome in ("ok", "capped")
    }
    assert found == {"ok": 0, "capped": 1}


def test_changes_of_a_request_and_of_what_stands_beside_a_text_are_remediations() -> None:
    metrics = running("m", profile="full")
    seen = tally(Profile.FULL)
    seen.request.update({"stripped": 2, "renamed": 1})
    seen.withheld.update({"logprobs": 3, "token_ids": 1})
    metrics.remedied(seen, model="m", protocol="chat")
    who = {"model": "m", "protocol": "chat", "outcome": "ok"}
    assert counted(metrics, "remediations_total", **who, action="history_stripped") == 2
    assert counted(metrics, "remediations_total", **who, action="history_renamed") == 1
    assert counted(metrics, "remediations_total", **who, action="withheld") == 4
    assert counted(metrics, "remediation_rules_total", rule="history", action="history_stripped") == 2
    assert counted(metrics, "remediation_rules_total", rule="logprobs", action="withheld") == 3
    assert counted(metrics, "remediations_total", **who, action="stripped") == 0


def test_text_that_was_taken_out_and_comparisons_are_counted() -> None:
    metrics = running("m")
    seen = tally()
    seen.characters_suppressed = 12
    seen.dedup.update({"checked": 1, "suppressed": 1, "chars_suppressed": 12})
    metrics.remedied(seen, model="m", protocol="chat")
    assert counted(metrics, "suppressed_characters_total") == 12
    assert {name: counted(metrics, "dedup_total", comparison=name) for name in LABELS["comparison"]} == {
        "checked": 1, "suppressed": 1, "released_prefix": 0, "released_unwanted": 0, "released_cut": 0,
        "diverged": 0, "capped": 0,
    }  # fmt: skip


def test_every_action_of_a_finding_has_its_series() -> None:
    assert {action for actions in ACTIONS.values() for action in actions} == UNDONE.keys() - NOT_DONE


def test_a_finding_that_is_no_leak_does_not_raise_the_leak_rate() -> None:
    metrics = running("m")
    seen = tally()
    seen.add(Finding.TRUNCATED, "flagged", where="reasoning")
    metrics.inspected(seen, model="m", protocol="chat", stream=True)
    assert counted(metrics, "any_leak_responses_total", model="m", protocol="chat") == 0
    assert counted(metrics, "leaky_responses_total", model="m", protocol="chat", rule="truncated") is None
    assert counted(metrics, "leak_markers_total", rule="truncated") == 1


@pytest.mark.parametrize(("model", "label"), [("m", "m"), ("unknown", OTHER), ("", OTHER), (None, OTHER)])
def test_a_clean_response_is_the_denominator_only_under_a_known_name(model: str | None, label: str) -> None:
    metrics = running("m")
    metrics.inspected(tally(), model=model, protocol="chat", stream=True)
    assert counted(metrics, "responses_total", model=label, protocol="chat", stream="true") == 1
    assert counted(metrics, "any_leak_responses_total", model=label, protocol="chat") == 0


def test_requests_are_in_flight_from_start_to_end() -> None:
    metrics = running()
    metrics.started("other")
    assert counted(metrics, "http_requests_in_flight", route="other") == 1
    metrics.ended("other", code=499, seconds=3.0)
    assert counted(metrics, "http_requests_in_flight", route="other") == 0
    assert counted(metrics, "http_requests_total", route="other", code="499") == 1
    assert counted(metrics, "http_request_duration_seconds_sum", route="other") == 3.0


def test_only_what_happened_is_a_latency() -> None:
    metrics = running()
    metrics.latency(route="chat", first=0.3, stages={"request": 0.001, "event": 0.002, "finish": None})
    metrics.latency(route="chat", first=None, stages={"request": None, "event": 0.001, "finish": None})
    assert counted(metrics, "first_event_seconds_sum", route="chat") == 0.3
    assert counted(metrics, "added_latency_seconds_sum", stage="event") == pytest.approx(0.003)
    counts = [counted(metrics, "added_latency_seconds_count", stage=stage) for stage in LABELS["stage"]]
    assert counts == [1, 2, 0]


def test_a_hold_counts_with_its_cause_its_time_and_its_bytes() -> None:
    metrics = running()
    metrics.held(Held("dedup", 0.5, 300))
    assert counted(metrics, "held_seconds_sum", cause="dedup") == 0.5
    assert counted(metrics, "hold_releases_total", cause="dedup") == 1
    assert counted(metrics, "held_back_bytes_sum") == 300


def test_a_failed_parse_is_a_fallback_and_an_error_of_its_stage() -> None:
    metrics = running()
    for reason in ("request_not_json", "no_event", "no_JSON", "content_type"):
        metrics.fallback(reason, 2)
    assert counted(metrics, "passthrough_fallbacks_total", reason="content_type") == 2
    stages = {stage: counted(metrics, "parse_errors_total", stage=stage) for stage in ("request", "frame", "message")}
    assert stages == {"request": 2, "frame": 2, "message": 2}


def test_late_attempts_share_a_label() -> None:
    metrics = running()
    for attempt in (1, 2, 3, 4, 50):
        metrics.upstream(attempt, "ok")
    found = {labels["attempt"] for name, labels in series(metrics) if name == "integrity_upstream_requests_total"}
    assert found == {"1", "2", "3"}
    assert counted(metrics, "upstream_requests_total", attempt="3", outcome="ok") == 3


def test_the_rules_in_force_are_told_and_only_those() -> None:
    metrics = running()
    one, two = (config_from_mapping({"routes": [{"upstream": UPSTREAM}]}, source="test") for _ in range(2))
    metrics.stands(InForce(one, changed=lambda _: None).now, [])
    metrics.stands(InForce(two, changed=lambda _: None).now, [])
    assert counted(metrics, "build_info", version=__version__, rules_digest=one.digest) == 1
    assert len([name for name, _ in series(metrics) if name == "integrity_build_info"]) == 1
    assert counted(metrics, "rules_loaded") == len(list(shipped_rules().rglob("*.yaml")))


def test_the_time_of_the_last_good_reload_stands_where_one_failed() -> None:
    metrics = running()
    began = counted(metrics, "config_last_reload_success_timestamp_seconds")
    assert began is not None and abs(began - time.time()) < 60
    metrics.reloaded("failure")
    assert counted(metrics, "config_last_reload_success_timestamp_seconds") == began
    metrics.reloaded("success")
    after = counted(metrics, "config_last_reload_success_timestamp_seconds")
    assert after is not None and after > began
    assert counted(metrics, "config_reloads_total", result="failure") == 1


def test_draining_is_0_until_it_is_not() -> None:
    metrics = running()
    assert counted(metrics, "draining") == 0
    metrics.draining(True)
    assert counted(metrics, "draining") == 1
    metrics.draining(False)
    assert counted(metrics, "draining") == 0


def test_connections_are_counted_when_they_are_asked_for() -> None:
    metrics = running()
    open_now = [1, 2]
    metrics.connections(active=lambda: open_now[0], idle=lambda: open_now[1])
    open_now[0] = 7
    assert counted(metrics, "upstream_connections", state="active") == 7
    assert counted(metrics, "upstream_connections", state="idle") == 2
