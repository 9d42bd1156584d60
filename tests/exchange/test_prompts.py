"""Where the answers to a client's own prompts start, and what they repeat of them (contract section 3, rule 9)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.exchange.prompts import Prompts
from gateway.protocols.raw_request import completions_facts
from tests.exchange.driver import dialect
from tests.integrity.settings import setting


def prompts(name: str = "think", *, starts_open: bool = False, asks: bool = True, **request: Any) -> Prompts:
    given = setting(name, raw=True, starts_open=starts_open)
    return Prompts(completions_facts(request), given, dialect(name), asks=asks)


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ("<|im_start|>assistant\n<think>\n", True),  # Qwen3, thinking
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),  # and not
        ("<｜User｜>hi<｜Assistant｜><think>", True),
        ("hi", False),
        ("What does <think> mean?", False),
        ("<think>\nOkay, so", False),  # it may be quoted, or another turn's
        ("", False),
    ],
)
def test_a_prompt_that_ends_with_an_opener_has_opened_the_thought(prompt: str, opened: bool) -> None:
    found = prompts(prompt=prompt)
    assert [found.setting(0).starts_open, found.setting(0).starts_open] == [opened, opened]
    assert prompts(prompt=prompt, starts_open=True).setting(0).starts_open is opened


def test_every_family_has_its_own_openers() -> None:
    assert prompts("kimi_k3", prompt="assistant<|open|>think<|sep|>").setting(0).starts_open
    assert not prompts("kimi_k3", prompt="<think>").setting(0).starts_open
    assert prompts("mistral", prompt="[/INST][THINK]").setting(0).starts_open
    assert not prompts("none", prompt="<think>").setting(0).starts_open


@pytest.mark.parametrize("starts_open", [True, False])
def test_a_prompt_of_tokens_tells_nothing_and_a_route_that_says_it_is_not_asked(starts_open: bool) -> None:
    for request in ({"prompt": [1, 2]}, {}):
        assert prompts(starts_open=starts_open, **request).setting(0).starts_open is starts_open
    said = prompts(starts_open=starts_open, asks=False, prompt="<think>")
    assert said.setting(0).starts_open is starts_open


def test_an_answer_belongs_to_the_prompt_of_its_number() -> None:
    found = prompts(prompt=["a", "b<think>"], n=2)
    assert [found.setting(index).starts_open for index in range(4)] == [False, False, True, True]


@pytest.mark.parametrize("index", [-1, 4, "0", None, True, 1.0])
def test_an_answer_without_a_prompt_starts_as_the_route_says(index: object) -> None:
    found = prompts(prompt=["<think>", "<think>"], n=2, echo=True)
    assert (found.setting(index).starts_open, found.echo(index)) == (False, None)


def test_an_echo_is_the_answers_own_prompt() -> None:
    found = prompts(prompt=["a", [1]], n=2, echo=True)
    assert [found.echo(index) for index in range(4)] == ["a", "a", None, None]
    assert prompts(prompt="a").echo(0) == ""
