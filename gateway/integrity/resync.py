"""The seam between thought and answer, where the engine kept text back for a stop string (reference/vllm.md 4.1).

vLLM's detokenizer keeps the last B characters of the text back, B being the length of the longest stop string - 1; a
parser that looks for the closer among the token ids then cuts B characters late. So the content begins with the last B
characters of the thought and its closer; what stood before them is in the reasoning or, up to a closer's length, lost.

What the seam shows, and what is done; the first line that fits:

| reasoning ends with | content begins with | known to cut late | done |
| --- | --- | --- | --- |
| the start of a closer | the rest of it | no matter | the closer goes |
| | exactly the last B characters of a longer closer | yes, and reasoning came or B > 1 | they go |
| | text, then a closer | no matter | the text is thought, the closer goes |
| | anything else | no matter | it stays as it came |

In the third line the closer begins within so many characters as the longest stop string has, and is not quoted, unless
it ends where B says. A text that begins with an opener or a closer is left to the reader. Before any reasoning content
is only looked at where the engine is known to cut late: then a short thought is all in the content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.integrity.setting import StopWindow
from gateway.streams.markers import Plan
from gateway.streams.quoting import Quoting

SURE: Final = 2
"""So many characters of a closer begin no answer: one alone (`>`) may be a block quote."""


@dataclass(frozen=True, slots=True)
class Seam:
    """What was held, as it came (`reasoning`, `content`), and as it is meant (`thought`, `closer`, `answer`).

    `thought` + `closer` + `answer` is `reasoning` + `content`.
    """

    reasoning: str
    content: str
    thought: str
    closer: str
    answer: str


class Resync:
    """One choice, up to the first content that is decided; of no use afterwards."""

    __slots__ = ("_content", "_plan", "_tail", "_thought", "_window")

    def __init__(self, window: StopWindow) -> None:
        self._window = window
        self._plan = Plan(dict.fromkeys(window.closers, None))
        self._thought = False  # reasoning has come
        self._tail = ""  # of the reasoning: the start of a closer
        self._content = ""

    @property
    def waiting(self) -> bool:
        """True where text is held."""
        return bool(self._tail or self._content)

    @property
    def begun(self) -> bool:
        """True where content is held."""
        return bool(self._content)

    def reasoning(self, text: str) -> str:
        """More reasoning, before any content; returns what goes out."""
        self._thought = True
        text = self._tail + text
        at = self._plan.cut(text, 0)
        self._tail = text[at:]
        return text[:at]

    def content(self, text: str) -> Seam | None:
        """More content; None: nothing is decided, all of it is held."""
        self._content += text
        return self._seam(final=False)

    def settle(self) -> Seam:
        """Nothing more comes that could decide."""
        return self._seam(final=True) or self.release()

    def release(self) -> Seam:
        """What is held, as it came."""
        return Seam(self._tail, self._content, self._tail, "", self._content)

    def _seam(self, *, final: bool) -> Seam | None:
        window, text = self._window, self._content
        if not (self._thought or window.desync):
            return self.release()
        for begins, rest in self._anchored():
            if text.startswith(rest):
                return self._cut(begins, len(self._tail) - begins + len(rest))
            if not final and rest.startswith(text):
                return None
        at = 0
        while True:
            begin, end, cut = self._plan.next(text, at, final=final)
            if begin == -1:
                return None if cut <= window.longest and not final else self.release()
            if begin > window.longest or text.lstrip().startswith((*window.openers, *window.closers)):
                return self.release()
            if (window.desync and end == window.longest - 1) or not _quoted(text[:begin]):
                return self._cut(len(self._tail) + begin, end - begin)
            at = end

    def _anchored(self) -> list[tuple[int, str]]:
        """What the content may begin with, and where in the held reasoning the marker begins that it ends."""
        tail, window = self._tail, self._window
        back = window.longest - 1
        found = [
            (at, closer[len(tail) - at :])
            for at in range(len(tail))
            for closer in window.closers
            if closer.startswith(tail[at:])
        ]
        if window.desync and (self._thought or back >= SURE):
            found += [(len(tail), closer[-back:]) for closer in window.closers if 0 < back < len(closer)]
        return found

    def _cut(self, begin: int, size: int) -> Seam:
        """The seam whose closer is `size` characters from `begin` on, counted over all that is held."""
        text = self._tail + self._content
        end = begin + size
        return Seam(self._tail, self._content, text[:begin], text[begin:end], text[end:])


def _quoted(before: str) -> bool:
    quoting = Quoting()
    quoting.pieces.append(before)
    return quoting.quoted
