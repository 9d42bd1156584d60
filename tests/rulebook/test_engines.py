"""Which parsers of vLLM cut a stream with stop strings at the wrong place: reference/vllm.md 4.1 and section 1."""

from __future__ import annotations

import pytest

from gateway.rulebook.engines import IN_STEP, STOP_DESYNC, in_step, stop_desync
from gateway.rulebook.load import load_rulebook

AFFECTED = {
    "deepseek_r1", "step5", "deepseek_v3", "holo2", "poolside_v1", "step3", "ernie45", "hy_v3", "hy_v4", "kimi_k3",
    "k2_horizon", "olmo3",
}  # fmt: skip
IMMUNE = {
    "qwen3", "mimo", "step3p5", "nemotron_v3", "granite_thinking_parser", "seed_oss", "glm45", "glm47", "ling3",
    "kimi_k2", "deepseek_v4", "deepseek_v41", "gemma4", "minimax_m2", "inkling", "plamo3", "mistral", "minimax_m3",
    "muse",
}  # fmt: skip
OFF_BY_DEFAULT = {"deepseek_v3", "poolside_v1", "hy_v3"}  # section 1: identity unless the request asks to think


def desync(parser: str, *, engine: str = "vllm", version: str = "0.33.0", asked: bool = True) -> str | None:
    return stop_desync(parser, engine=engine, version=version, asked=asked)


def test_the_parsers_of_the_table_are_known_and_those_beside_it_are_not() -> None:
    assert {name for name in AFFECTED | IMMUNE if desync(name) == name} == AFFECTED
    assert {name for name in IMMUNE if desync(name)} == set()


def test_a_parser_that_is_off_by_default_cuts_nothing_unless_thinking_is_asked_for() -> None:
    assert {name for name in AFFECTED if desync(name, asked=False) is None} == OFF_BY_DEFAULT


@pytest.mark.parametrize(
    ("parser", "engine", "found"),
    [
        ("deepseek_r1", "vllm", "deepseek_r1"),
        ("vllm/deepseek_r1", "vllm", "deepseek_r1"),
        ("vllm/deepseek_r1", "auto", "deepseek_r1"),
        ("sglang/kimi_k3", "vllm", None),
        ("kimi_k3", "sglang", None),
        ("kimi_k3", "auto", None),  # whose parser it is is not known
        ("kimi_k3", "other", None),
        ("", "vllm", None),
    ],
)
def test_only_vllms_own_parser_is_known(parser: str, engine: str, found: str | None) -> None:
    assert desync(parser, engine=engine) == found


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("", True),
        ("dev", True),
        ("0.9.2", True),
        ("0.32.0+cpu", True),
        ("0.33.1rc2.dev5", True),
        ("0.34.0", False),
        ("1.0", False),
    ],
)
def test_of_a_newer_engine_than_was_tried_nothing_is_known(version: str, known: bool) -> None:
    assert (desync("deepseek_r1", version=version) is not None) is known


def test_every_name_is_one_of_vllms_reasoning_parsers() -> None:
    rulebook = load_rulebook()
    assert [name for name in STOP_DESYNC if "vllm" not in rulebook.meanings("reasoning", name)] == []


def test_the_parsers_that_read_the_text_are_in_step() -> None:
    assert {name for name in AFFECTED | IMMUNE if in_step(name, engine="vllm", version="0.33.0")} == IMMUNE
    rulebook = load_rulebook()
    assert [name for name in IN_STEP if "vllm" not in rulebook.meanings("reasoning", name)] == []


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
    ],
)
def test_a_parser_is_in_step_only_in_the_versions_that_were_tried(
    parser: str, engine: str, version: str, found: bool
) -> None:
    assert in_step(parser, engine=engine, version=version) is found
