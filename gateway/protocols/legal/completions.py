"""Is a stream of text completions legal? From OpenAI's reference "The completion object".

Each choice of a chunk has text; what is said of all chunks with choices is in `choices`.
"""

from __future__ import annotations

from typing import Any

from gateway.protocols.legal.choices import EXTENSIONS, ChoiceFlow


def violations(body: bytes, *, ended: bool = True) -> list[str]:
    """What is not legal in a stream of text completions; empty: nothing. `ended`: nothing of it is missing."""
    return Chunks().read(body, ended=ended)


class Chunks(ChoiceFlow):
    """One stream."""

    object = "text_completion"

    def says(self, index: int, choice: dict[str, Any]) -> bool:
        """Is there text in the piece of a choice?"""
        self.say(choice.get("text") is not None, f"choice {index} has no text")
        return self.texts(index, choice, "text", *EXTENSIONS)
