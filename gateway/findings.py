"""Floor 0: the one vocabulary of findings (contract section 4), for flags, metrics, logs, samples and reports."""

from __future__ import annotations

from enum import StrEnum


class Finding(StrEnum):
    """What a client would have seen wrong."""

    REASONING_LEAK = "reasoning_leak"
    BOUNDARY_TOKEN = "boundary_token"
    SPECIAL_TOKEN = "special_token"
    ROLE_TOKEN = "role_token"
    ANSWER_IN_REASONING = "answer_in_reasoning"
    DUPLICATE_SUPPRESSED = "duplicate_suppressed"
    DUPLICATE_SUSPECT = "duplicate_suspect"
    MIXED_CHUNK_SPLIT = "mixed_chunk_split"
    TRUNCATED = "truncated"
    EMPTY_RESPONSE = "empty_response"
    FINISH_REASON_FIXED = "finish_reason_fixed"
    TOOL_RESCUED = "tool_rescued"
    TOOL_MARKUP_LEAK = "tool_markup_leak"
    TOOL_ARGS_REPAIRED = "tool_args_repaired"
    TOOL_NAME_REPAIRED = "tool_name_repaired"
    TOOL_ARGS_INVALID = "tool_args_invalid"
    STOP_IN_REASONING = "stop_in_reasoning"
    UNICODE_REPLACEMENT = "unicode_replacement"
    PREAMBLE = "preamble"
    SUSPECT_REASONING = "suspect_reasoning"
    DEGENERATE = "degenerate"
    USAGE_MISSING = "usage_missing"
    REGEN_WANTED = "regen_wanted"
    REQUEST_LINT = "request_lint"


SYMPTOM: dict[Finding, str] = {
    Finding.REASONING_LEAK: "reasoning_leak",
    Finding.BOUNDARY_TOKEN: "boundary_token",
    Finding.SPECIAL_TOKEN: "boundary_token",
    Finding.ROLE_TOKEN: "boundary_token",
    Finding.ANSWER_IN_REASONING: "empty",
    Finding.DUPLICATE_SUPPRESSED: "reasoning_leak",
    Finding.DUPLICATE_SUSPECT: "reasoning_leak",
    Finding.MIXED_CHUNK_SPLIT: "contract",
    Finding.TRUNCATED: "empty",
    Finding.EMPTY_RESPONSE: "empty",
    Finding.FINISH_REASON_FIXED: "contract",
    Finding.TOOL_RESCUED: "raw_tool_call",
    Finding.TOOL_MARKUP_LEAK: "raw_tool_call",
    Finding.TOOL_ARGS_REPAIRED: "raw_tool_call",
    Finding.TOOL_NAME_REPAIRED: "raw_tool_call",
    Finding.TOOL_ARGS_INVALID: "raw_tool_call",
    Finding.STOP_IN_REASONING: "empty",
    Finding.UNICODE_REPLACEMENT: "contract",
    Finding.PREAMBLE: "preamble",
    Finding.SUSPECT_REASONING: "reasoning_leak",
    Finding.DEGENERATE: "empty",
    Finding.USAGE_MISSING: "contract",
    Finding.REGEN_WANTED: "empty",
    Finding.REQUEST_LINT: "contract",
}

LEAKS: frozenset[Finding] = frozenset(
    {
        Finding.REASONING_LEAK,
        Finding.BOUNDARY_TOKEN,
        Finding.SPECIAL_TOKEN,
        Finding.ROLE_TOKEN,
        Finding.ANSWER_IN_REASONING,
        Finding.DUPLICATE_SUPPRESSED,
        Finding.TOOL_RESCUED,
        Finding.TOOL_MARKUP_LEAK,
    }
)
"""The findings that make an answer count as leaky in the leak rate."""
