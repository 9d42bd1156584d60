"""Floor 1: text out of UTF-16 halves, cut anywhere.

Owns what is held between two pieces so that a character cut in two arrives whole, and what stands for one that never
does (U+FFFD). Must not know where the pieces come from.
"""

from __future__ import annotations

from typing import Final

REPLACEMENT: Final = "\ufffd"


class SurrogateJoiner:
    """Joins a high half at the end of one piece with a low half at the start of the next (reader_spec S10).

    Engines cut text between the two `\\uXXXX` escapes of one character. At most one half is held. A half that turns
    out to be alone is left as it is: only at the end of the output does U+FFFD take the place of the held one.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """`text` with its first and last character completed; the same object when there is nothing to do."""
        last = text[-1:]
        if not self._held:
            if not "\ud800" <= last <= "\udbff":
                return text
        elif not text:
            return ""
        elif "\udc00" <= text[0] <= "\udfff":
            text = _join(self._held, text[0]) + text[1:]
        else:
            text = self._held + text
        self._held = last if "\ud800" <= last <= "\udbff" else ""
        return text[:-1] if self._held else text

    def finish(self) -> str:
        """What stands for the held half at the end of the output: U+FFFD, or nothing when none is held."""
        held, self._held = self._held, ""
        return REPLACEMENT if held else ""


def _join(high: str, low: str) -> str:
    """The character of a surrogate pair (Unicode 3.9, D91)."""
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))
