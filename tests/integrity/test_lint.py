"""What in a request invites a leak: stop strings that every thought, or the thought's own marker, holds."""

from __future__ import annotations

import pytest

from gateway.integrity.lint import lint
from tests.integrity.settings import grammar


@pytest.mark.parametrize(
    ("stops", "dialect", "rules"),
    [
        ((), "think", []),
        (("\n\n",), "think", ["stop_white_space"]),
        (("\n", " "), "none", ["stop_white_space"]),
        (("</think>",), "think", ["stop_in_marker"]),
        (("think>", "\n"), "think", ["stop_white_space", "stop_in_marker"]),
        (("</think>",), "none", []),
        (("Observation:", "####", "."), "think", []),
        (("<|return|>",), "harmony", ["stop_in_marker"]),
    ],
)
def test_a_stop_string_breaks_a_rule_when_it_is_sure_to_fire_in_the_thought(
    stops: tuple[str, ...], dialect: str, rules: list[str]
) -> None:
    assert list(lint(stops, grammar(dialect), desync=None)) == rules


@pytest.mark.parametrize(
    ("stops", "desync", "rules"),
    [
        (("####",), "deepseek_r1", ["stop_desync:deepseek_r1"]),
        (("#", "ab"), "kimi_k3", ["stop_desync:kimi_k3"]),
        (("#",), "deepseek_r1", []),  # B = longest stop string - 1
        ((), "deepseek_r1", []),
        (("####",), None, []),
    ],
)
def test_a_stop_string_that_makes_the_engine_keep_text_back_breaks_the_rule_of_its_parser(
    stops: tuple[str, ...], desync: str | None, rules: list[str]
) -> None:
    assert list(lint(stops, grammar("think"), desync=desync)) == rules
