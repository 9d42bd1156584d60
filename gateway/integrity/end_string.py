"""The string that an engine forces when the thinking budget is spent (`reasoning_end_string`, vLLM #39697).

It closes the thought, so it is no text where it stands last in the reasoning or first in the content; anywhere else
the model wrote it. Works on text the reader has let go, so that closers inside the string may be gone already.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.streams.markers import Plan


def spellings(text: str | None, closers: Iterable[str]) -> tuple[str, ...]:
    """How the string may arrive: as it is, and without the thought's closers; no white space at its ends."""
    if text is None:
        return ()
    bare = text
    for closer in sorted(closers, key=len, reverse=True):
        bare = bare.replace(closer, "")
    return tuple(dict.fromkeys(spelling for spelling in (text.strip(), bare.strip()) if spelling))


class EndString:
    """One choice. The calls return what may go out; `take_found` what was taken out since it was last asked.

    `run_cap`: characters of white space held behind the string at the end of the reasoning.
    """

    __slots__ = ("_found", "_held", "_plan", "_run_cap", "_start", "_texts")

    def __init__(self, texts: tuple[str, ...], *, run_cap: int) -> None:
        self._texts = texts
        self._plan = Plan(dict.fromkeys(texts, None))
        self._run_cap = run_cap
        self._held = ""
        self._start: str | None = ""  # content so far that may be the string; None: it has begun otherwise
        self._found = ""

    @property
    def waiting(self) -> bool:
        """True where text is held."""
        return bool(self._held or self._start)

    def reasoning(self, text: str) -> str:
        """More reasoning: its end is held while it may be the string."""
        text = self._held + text
        at = self._place(text)
        self._held = text[at:]
        return text[:at]

    def end_reasoning(self) -> str:
        """The reasoning ends here. The string, and the white space behind it, is taken out."""
        held, self._held = self._held, ""
        if held.rstrip() in self._texts:
            self._found += held
            return ""
        return held

    def release_reasoning(self) -> str:
        """What is held of the reasoning, as it came."""
        held, self._held = self._held, ""
        return held

    def content(self, text: str) -> str:
        """More content: held while it may begin with the string, which is taken out."""
        if self._start is None:
            return text
        text = self._start + text
        bare = text.lstrip()
        blank = len(text) - len(bare)
        self._start = None
        if blank >= self._run_cap:
            return text
        for spelling in self._texts:
            if bare.startswith(spelling):
                end = blank + len(spelling)
                self._found += text[:end]
                return text[end:]
        if any(spelling.startswith(bare) for spelling in self._texts):
            self._start, text = text, ""
        return text

    def end_content(self) -> str:
        """The content ends here: what is held is no string."""
        held, self._start = self._start or "", None
        return held

    def take_found(self) -> str:
        """What was taken out since the last call, as it came."""
        found, self._found = self._found, ""
        return found

    def _place(self, text: str) -> int:
        """Where what is held begins: the string as the last words, or what may become it."""
        body = text.rstrip()
        if len(text) - len(body) < self._run_cap:
            for spelling in self._texts:
                if body.endswith(spelling):
                    return len(body) - len(spelling)
        return self._plan.cut(text, 0)
