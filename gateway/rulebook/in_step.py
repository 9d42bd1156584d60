"""Which parsers of vLLM were seen to cut a stream at the right place whatever the stop strings (reference/vllm.md 4.1).

The others are not all known to cut it late: those that are stand in `rules/engines`. Knows no text, no route.
"""

from __future__ import annotations

import re
from typing import Final

FIRST: Final = (0, 24)
LAST_SEEN: Final = (0, 33)
"""From the first version with them as they are to the newest that was tried; of a newer one nothing is known."""
PARSERS: Final = frozenset(
    {
        "qwen3", "mimo", "step3p5", "nemotron_v3", "granite_thinking_parser", "seed_oss", "glm45", "glm47", "ling3",
        "kimi_k2", "deepseek_v4", "deepseek_v41", "gemma4", "minimax_m2", "inkling", "plamo3", "mistral", "minimax_m3",
        "muse",
    }
)  # fmt: skip
"""They read the text and not the token ids."""


def in_step(parser: str, *, engine: str, version: str) -> bool:
    """True where the parser was seen to cut at the right place.

    `parser`: as a route names it, `NAME` or `ENGINE/NAME`. `engine`: what runs there, `vllm` or anything else.
    `version`: as it says itself, empty where it is not known.
    """
    forced, _, name = parser.rpartition("/")
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if (forced or engine) != "vllm" or name not in PARSERS or numbers is None:
        return False
    return FIRST <= tuple(map(int, numbers.groups())) <= LAST_SEEN
