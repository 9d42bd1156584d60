"""Parsers that cut at the right place: reference/vllm.md 4.1, executed on 0.33.0."""

from __future__ import annotations

import pytest

from gateway.rulebook.in_step import PARSERS, in_step
from gateway.rulebook.load import load_rulebook

IMMUNE = {
    "qwen3", "mimo", "step3p5", "nemotron_v3", "granite_thinking_parser", "seed_oss", "glm45", "glm47", "ling3",
    "kimi_k2", "deepseek_v4", "deepseek_v41", "gemma4", "minimax_m2", "inkling", "plamo3", "mistral", "minimax_m3",
    "muse",
}  # fmt: skip


def test_they_are_those_that_the_reference_names_and_none_that_is_known_to_cut_late() -> None:
    rulebook = load_rulebook()
    assert IMMUNE == PARSERS
    assert [name for name in PARSERS if "vllm" not in rulebook.meanings("reasoning", name)] == []
    late = {name for fault in rulebook.faults if fault.lint and fault.until is None for name in fault.parsers}
    assert late and not late & PARSERS


@pytest.mark.parametrize(
    ("parser", "engine", "version", "found"),
    [
        ("qwen3", "vllm", "0.24.0", True),
        ("vllm/qwen3", "auto", "0.32.0+cpu", True),
        ("qwen3", "vllm", "0.23.1", False),  # it looked for the closer among the ids
        ("qwen3", "vllm", "0.34.0", False),
        ("qwen3", "vllm", "", False),
        ("qwen3", "auto", "0.32.0", False),
        ("sglang/qwen3", "vllm", "0.32.0", False),
        ("deepseek_r1", "vllm", "0.32.0", False),
    ],
)
def test_a_parser_is_in_step_only_in_the_versions_that_were_tried(
    parser: str, engine: str, version: str, found: bool
) -> None:
    assert in_step(parser, engine=engine, version=version) is found
