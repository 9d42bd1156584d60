"""The tokenizer of the model behind the recordings: ids of 0.32.0 are its own (tests/traces/data)."""

from __future__ import annotations

import gzip
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from gateway.server.vocabulary import Vocabulary

PACKED = Path(__file__).parents[1] / "traces" / "data" / "tinyq-tokenizer.json.gz"


def unpacked(folder: Path) -> Path:
    """The tokenizer file, in `folder`."""
    file = folder / "tokenizer.json"
    file.write_bytes(gzip.decompress(PACKED.read_bytes()))
    return file


@cache
def tiny() -> Vocabulary:
    """The vocabulary in it."""
    with tempfile.TemporaryDirectory() as folder:
        return Vocabulary(unpacked(Path(folder)))


@cache
def tokenizer() -> Any:
    """The tokenizer itself, for text as an engine makes it."""
    from tokenizers import Tokenizer

    return Tokenizer.from_str(gzip.decompress(PACKED.read_bytes()).decode())
