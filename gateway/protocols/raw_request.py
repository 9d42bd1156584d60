"""What a request of a raw-text route says: the client writes the prompt itself, and no template reads the rest.

Owns where `/v1/completions` (reference/vllm.md 3.4, sglang.md 3.3) and SGLang's `/generate` (sglang.md 3.4) have their
prompts and sampling parameters. Must not know what a prompt means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.protocols.chat_request import chat_facts
from gateway.protocols.protocol import RequestFacts


def completions_facts(request: dict[str, Any]) -> RequestFacts:
    """The facts of a text completion request; whatever has an unexpected type says nothing."""
    return _facts(request, prompt=request.get("prompt"), echo=request.get("echo") is True)


def generate_facts(request: dict[str, Any]) -> RequestFacts:
    """The facts of a `/generate` request. A list of `sampling_params`, one for each prompt, says nothing."""
    sampling = request.get("sampling_params")
    said = {**request, **sampling} if isinstance(sampling, dict) else request
    shows = None if isinstance(sampling, list) else said.get("skip_special_tokens") is False
    return replace(_facts(said, prompt=request.get("text"), echo=False), shows_special=shows)


def _facts(request: Mapping[str, Any], *, prompt: object, echo: bool) -> RequestFacts:
    facts = chat_facts(dict(request))
    return replace(
        facts,
        thinking="unknown",
        thinking_why="the prompt is the client's own",
        wants_reasoning=False,
        hides_reasoning=False,
        unsplit=False,
        structured=facts.structured or bool(request.get("json_schema")),
        keeps_stop=facts.keeps_stop or request.get("no_stop_trim") is True,
        prompts=_prompts(prompt),
        echo=echo,
        last_turn=None,
    )


def _prompts(value: object) -> tuple[str | None, ...]:
    """The prompts in order. Token ids are no text; a list of them is one prompt."""
    several = isinstance(value, list) and not any(isinstance(each, int) for each in value)
    prompts: list[object] = list(value) if several and isinstance(value, list) else [value]
    return tuple(each if isinstance(each, str) else None for each in prompts)
