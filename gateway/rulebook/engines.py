"""What is known of engines' own parsers where it spoils an answer (reference/vllm.md 4.1).

vLLM's detokenizer keeps the last characters of the text back while they may be the beginning of a stop string; the
token ids go on. A reasoning parser that looks for its closer among the ids then cuts the text too late: the end of the
thought, or pieces of its closer, open the streamed answer, and characters between are lost. Knows no text, no route.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LAST_SEEN: Final = (0, 33)
"""The newest vLLM that was tried; of a newer one nothing is known. Older ones than 0.24 have more such parsers."""

_ALWAYS, _ASKED = True, False
STOP_DESYNC: Final[Mapping[str, bool]] = {
    "deepseek_r1": _ALWAYS,
    "step5": _ALWAYS,
    "deepseek_v3": _ASKED,
    "holo2": _ALWAYS,
    "poolside_v1": _ASKED,
    "step3": _ALWAYS,
    "ernie45": _ALWAYS,
    "hy_v3": _ASKED,
    "hy_v4": _ALWAYS,
    "kimi_k3": _ALWAYS,
    "k2_horizon": _ALWAYS,
    "olmo3": _ALWAYS,
}
"""The reasoning parsers of vLLM that were seen to do so, and whether they split where a request says nothing of it."""


FIRST_IN_STEP: Final = (0, 24)
IN_STEP: Final = frozenset(
    {
        "qwen3", "mimo", "step3p5", "nemotron_v3", "granite_thinking_parser", "seed_oss", "glm45", "glm47", "ling3",
        "kimi_k2", "deepseek_v4", "deepseek_v41", "gemma4", "minimax_m2", "inkling", "plamo3", "mistral", "minimax_m3",
        "muse",
    }
)  # fmt: skip
"""The parsers of vLLM that were seen not to, from `FIRST_IN_STEP` to `LAST_SEEN`: they read the text."""


def stop_desync(parser: str, *, engine: str, version: str, asked: bool) -> str | None:
    """The name of a reasoning parser that cuts at the wrong place where a stream has stop strings, else None.

    `parser`: as a route names it, `NAME` or `ENGINE/NAME`. `engine`: what runs there, `vllm` or anything else.
    `version`: as it says itself, empty where it is not known. `asked`: thinking was asked for.
    """
    forced, _, name = parser.rpartition("/")
    known = STOP_DESYNC.get(name) if (forced or engine) == "vllm" else None
    numbers = re.match(r"(\d+)\.(\d+)", version)
    newer = numbers is not None and tuple(map(int, numbers.groups())) > LAST_SEEN
    return None if known is None or newer or not (known or asked) else name


def in_step(parser: str, *, engine: str, version: str) -> bool:
    """True where the parser was seen to cut at the right place whatever the stop strings. Arguments: `stop_desync`."""
    forced, _, name = parser.rpartition("/")
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if (forced or engine) != "vllm" or name not in IN_STEP or numbers is None:
        return False
    return FIRST_IN_STEP <= tuple(map(int, numbers.groups())) <= LAST_SEEN
