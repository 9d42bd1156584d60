"""What the operator of each recorded server knows about it: the route that a gateway beside it would be given.

A group is the part of a recording's name that names the server's configuration (`groups.tsv` of the lab). No recording
exists for gemma4, mistral and minimax_m3: the lab's tokenizer has no such tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.traces.recordings import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A route, and how the family's output begins.

    `source`, `starts_in`, `thinking_default`: the keys of the route. `dialect`: the family. `tools`: the name of the
    parser of its calls, where the family has no call format of its own. `opens`: an output begins inside the thought
    unless thinking is off; where the engine splits, its parser's documented start (reference/vllm.md section 1).
    `parser`: the engine's reasoning parser as a route names it; `version`: of the engine.
    """

    dialect: str
    tools: str = ""
    source: str = "fields"
    starts_in: str = "auto"
    thinking_default: str = "auto"
    opens: bool = True
    parser: str = ""
    version: str = ""


THINK = Known(dialect="think")
HERMES = Known(dialect="think", tools="hermes")
XML = Known(dialect="think", tools="qwen3_xml")
RAW_THINK = Known(dialect="think", tools="hermes", source="text", opens=False)
R1 = replace(HERMES, starts_in="reasoning")  # the model's own template opens the thought
V3 = replace(THINK, thinking_default="off")  # the model's own template thinks on demand
UNKNOWN_MODEL = Known(dialect="generic", source="text", opens=False)

ROUTES: Mapping[str, Known] = {
    # --reasoning-parser qwen3, with hermes (h) or qwen3_xml (x)
    "q3h": HERMES,
    "q3h-s": HERMES,
    "q3h-iv5": HERMES,
    "q3x": XML,
    "q3-budget": THINK,
    "q3-off": replace(THINK, thinking_default="off"),
    # other parsers of the <think> family
    "r1": R1,
    "r1-raw": R1,
    "dsr1-x": R1,
    "dsv3": V3,
    "dsv3-on": V3,
    "glm45": replace(THINK, tools="glm45"),
    "kimi-k2": replace(THINK, tools="kimi_k2"),
    "m2": THINK,
    "nemotron": THINK,
    "step3": THINK,
    # no reasoning parser, or one that leaves the block in the answer; calls as the model's own template asks for them
    "none": RAW_THINK,
    "xonly": replace(RAW_THINK, tools="qwen3_xml"),
    "honly": RAW_THINK,
    "m2-append": Known(dialect="minimax_append", source="text", starts_in="reasoning"),
    "kimi-k3": Known(dialect="kimi_k3", starts_in="reasoning"),
    "harmony": Known(dialect="harmony", opens=False),
    # families with markers of their own
    "ernie": Known(dialect="ernie45"),
    "granite": Known(dialect="granite", opens=False),
    "hunyuan": Known(dialect="hunyuan_a13b", opens=False),
    "seed": Known(dialect="seed_oss"),
    # llama.cpp: the default and the gemma template split nothing, a Qwen3 template what begins with <think>
    "gemma": UNKNOWN_MODEL,
    "gemmatmpl": UNKNOWN_MODEL,
    "qwen": replace(THINK, opens=False),
}

PARSERS: Mapping[str, str] = {
    "q3h": "vllm/qwen3",
    "q3h-s": "vllm/qwen3",
    "q3h-iv5": "vllm/qwen3",
    "q3x": "vllm/qwen3",
    "q3-budget": "vllm/qwen3",
    "q3-off": "vllm/qwen3",
    "r1": "vllm/deepseek_r1",
    "r1-raw": "vllm/deepseek_r1",
    "dsr1-x": "vllm/deepseek_r1",
    "dsv3": "vllm/deepseek_v3",
    "dsv3-on": "vllm/deepseek_v3",
    "glm45": "vllm/glm45",
    "kimi-k2": "vllm/kimi_k2",
    "m2": "vllm/minimax_m2",
    "nemotron": "vllm/nemotron_v3",
    "step3": "vllm/step3",
    "kimi-k3": "vllm/kimi_k3",
    "ernie": "vllm/ernie45",
    "seed": "vllm/seed_oss",
}
"""The reasoning parser of a group, where it is known to cut a thought right or wrong beside stop strings."""

BEHIND_AN_OPEN_THOUGHT = ("no-start", "prefill")
"""Exchanges whose script has the closer only: what a model emits behind a template that opens the thought."""


def group_of(recording: Recording) -> str:
    """The longest group that begins the recording's name."""
    groups = [group for group in ROUTES if recording.name.startswith(f"{group}-")]
    return max(groups, key=len)


def route_of(recording: Recording) -> Known:
    """The route for a recording."""
    group = group_of(recording)
    version = recording.server.removeprefix("vllm-")
    route = replace(ROUTES[group], parser=PARSERS.get(group, ""), version=version)
    exchange = recording.name.removeprefix(group)
    if any(part in exchange for part in BEHIND_AN_OPEN_THOUGHT):
        return replace(route, starts_in="reasoning", opens=True)
    return route


def thinking_off(recording: Recording, route: Known) -> bool:
    """True where the request turned thinking off, or is silent and the route's default did (contract section 3)."""
    flags = recording.request.get("chat_template_kwargs", {})
    for flag in ("enable_thinking", "thinking"):
        if flag in flags:
            return flags[flag] is False
    return recording.request.get("reasoning_effort") == "none" or route.thinking_default == "off"
