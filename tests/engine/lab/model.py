"""Makes the model that the engine of the engine tests serves: an architecture without weights, and a tokenizer.

    python model.py FOLDER

Runs in the engine's environment. The weights are vLLM's `--load-format dummy`: what the model emits is decided by
`emits.py`. The tokenizer is learned from the words below, so that it is the same wherever it is made: like those of
real models it has a token for a common word, and the markers of the families under test as added tokens.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

WORDS = """Let me think about it again. The answer is 42. I should call the tool with the city of Paris, then wait a
bit. Use the tag and the marker in the text. One other thought, and a second answer. END-OF-THE-ANSWER tail User:
get_weather {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
Time is up. response message assistant system user tools"""

# vLLM leaves special tokens out of the text unless asked; it keeps added tokens that are not special. Which is which is
# copied from the families' published tokenizers (Qwen3, GLM-4.5, Kimi K2 and K3).
SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<|open|>", "<|close|>", "<|sep|>"),
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    *("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    *("<|observation|>", "<|user|>", "<|assistant|>"),
)
SHOWN = (
    *("<think>", "</think>"),
    *("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
)
END, PAD = "<|im_end|>", "<|endoftext|>"

TEMPLATE = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if think_prefill %}<think>\n{% elif enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
"""In the manner of Qwen3's; `think_prefill` opens the thought in the prompt, as DeepSeek R1's own template does."""

LENGTH = 4096  # of prompt and answer together, in tokens
LAYERS = 2


def tokenizer() -> Tokenizer:
    """Bytes, the merges of `WORDS`, the markers."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        [WORDS],
        trainers.BpeTrainer(vocab_size=1024, min_frequency=1, initial_alphabet=alphabet, show_progress=False),
    )
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    made.add_tokens([AddedToken(text, special=False, normalized=False) for text in SHOWN])
    return made


def config(vocabulary: int, end: int) -> dict[str, object]:
    """The smallest Qwen3 that vLLM's CPU attention takes."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": LAYERS,
        "max_window_layers": LAYERS,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "max_position_embeddings": LENGTH,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": -(-vocabulary // 64) * 64,
        "bos_token_id": None,
        "eos_token_id": end,
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizer()
    end, pad = made.token_to_id(END), made.token_to_id(PAD)
    files: dict[str, dict[str, object]] = {
        "config.json": config(made.get_vocab_size(), end),
        "generation_config.json": {"eos_token_id": [end, pad], "pad_token_id": pad, "do_sample": False},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": PAD,
            "model_max_length": LENGTH,
            "clean_up_tokenization_spaces": False,
            "chat_template": TEMPLATE,
        },
    }
    made.save(str(folder / "tokenizer.json"))
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
