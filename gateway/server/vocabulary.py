"""A model's own tokenizer file: which markers are one token, and the text of ids. Needs the extra `tokens`.

Must not know dialects, routes, answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gateway.errors import ConfigError
from gateway.streams.tokens import Markers, Spell

MISSING = "\ufffd"
"""What an id that the file does not have is written as."""


class Vocabulary:
    """One `tokenizer.json`. Raises ConfigError where it cannot be read. `special`: the ids of special tokens."""

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigError("a tokenizer file needs the extra: pip install 'integrity-gateway[tokens]'") from error
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise ConfigError(f"{path.name} is no tokenizer.json of the `tokenizers` library") from error
        self._size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        added = self._tokenizer.get_added_tokens_decoder()
        self.special: frozenset[int] = frozenset(ident for ident, token in added.items() if token.special)

    def markers(self, atoms: Iterable[str]) -> Markers:
        """Which of `atoms` are one token."""
        found = {self._tokenizer.token_to_id(atom): atom for atom in atoms}
        ids = {ident: atom for ident, atom in found.items() if ident is not None}
        return Markers(texts=frozenset(ids.values()), ids=ids)

    def spelling(self) -> Spell:
        """Makes text of the ids of one output."""
        from tokenizers.decoders import DecodeStream

        stream = DecodeStream(skip_special_tokens=False)

        def spell(ident: int) -> str:
            return (stream.step(self._tokenizer, ident) or "") if 0 <= ident < self._size else MISSING

        return spell
