"""Makes the engine's model emit what the request says. A logits processor: vLLM's own documented extension point.

    PYTHONPATH=tests/engine/lab vllm serve … --logits-processors emits:Emits

`vllm_xargs` of a request: `emit` is a text, or a list of texts that are encoded apart, so that a marker can be spelt
with ordinary tokens (`["</", "think", ">"]`); in one text a marker is its added token. `emit_0`, `emit_1` …: of each
choice, where `n` is above 1; such a request has `seed: 0`, and each choice gets the seed of its number. The model ends
its turn after the text. `pause_ms` is waited before each token: it keeps the engine from putting two into one event.

Everything behind the logits is the engine as it is: detokenizer, stop strings, parsers, framing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from transformers import AutoTokenizer
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

Forced = Callable[[list[int], torch.Tensor], torch.Tensor]


class Emits(AdapterLogitsProcessor):
    """Leaves requests without a text alone."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(vllm_config, device, is_pin_memory)
        self._tokenizer = AutoTokenizer.from_pretrained(vllm_config.model_config.tokenizer)

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:
        """Any request is good."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> Forced | None:
        asked = params.extra_args or {}
        text = asked.get(f"emit_{params.seed}", asked.get("emit"))
        if text is None:
            return None
        pieces = [text] if isinstance(text, str) else text
        encoded = (self._tokenizer.encode(piece, add_special_tokens=False) for piece in pieces)
        tokens = [*chain.from_iterable(encoded), self._tokenizer.eos_token_id]
        pause = float(asked.get("pause_ms", 0)) / 1000

        def force(output: list[int], logits: torch.Tensor) -> torch.Tensor:
            time.sleep(pause)
            # Past the end the engine ignored the end of turn (`ignore_eos`): it is emitted again.
            token = tokens[min(len(output), len(tokens) - 1)]
            return torch.full_like(logits, float("-inf")).index_fill_(-1, torch.tensor(token), 0.0)

        return force
