"""The one vocabulary of findings (contract section 4)."""

from __future__ import annotations

from gateway.findings import LEAKS, SYMPTOM, Finding

# contract section 4, all of it
CONTRACT = {
    "reasoning_leak", "boundary_token", "special_token", "role_token", "answer_in_reasoning", "tool_rescued",
    "tool_markup_leak", "tool_args_repaired", "tool_name_repaired", "tool_args_invalid",
    "duplicate_suppressed", "duplicate_suspect", "structured_repaired", "structured_invalid", "truncated",
    "empty_response", "finish_reason_fixed", "stop_in_reasoning", "unicode_replacement", "preamble",
    "suspect_reasoning", "degenerate", "usage_missing", "regen_wanted", "mixed_chunk_split", "request_lint",
}  # fmt: skip
SYMPTOMS = {"reasoning_leak", "boundary_token", "raw_tool_call", "preamble", "structured", "empty", "contract"}


def test_no_finding_has_a_name_that_the_contract_does_not_know() -> None:
    assert {str(finding) for finding in Finding} <= CONTRACT


def test_every_finding_belongs_to_a_symptom_of_the_contract() -> None:
    assert set(SYMPTOM) == set(Finding)
    assert set(SYMPTOM.values()) <= SYMPTOMS


def test_an_answer_that_was_cut_or_only_looks_strange_is_no_leak() -> None:
    flags = {Finding.TRUNCATED, Finding.EMPTY_RESPONSE, Finding.DUPLICATE_SUSPECT, Finding.FINISH_REASON_FIXED}
    assert not LEAKS & (flags | {Finding.MIXED_CHUNK_SPLIT})
