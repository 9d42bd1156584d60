"""The pipeline of an answer that repeats a piece of its prompt first: reading starts behind that piece.

Knows what the piece is. Must not know why it is repeated.
"""

from __future__ import annotations

from gateway.events import CONTENT
from gateway.integrity.outlet import Piece, came
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.setting import Setting
from gateway.integrity.tally import Tally


class EchoedPipeline(Pipeline):
    """The same calls as `Pipeline`, for one choice.

    `echo`: what of the prompt the content begins with, None where that is not known. Where the border between prompt
    and answer is not to be told, nothing is read from there on, unless reasoning is hidden: then everything is.
    """

    __slots__ = ("_alone", "_at", "_echo")

    def __init__(self, setting: Setting, tally: Tally, *, echo: str | None) -> None:
        super().__init__(setting, tally)
        self._echo = echo or ""
        self._at = 0  # characters of the echo that have come
        self._alone = False  # nothing is read
        if echo is None:
            self._lose_border()

    @property
    def holding(self) -> str | None:
        """As `Pipeline.holding`."""
        return None if self._alone else super().holding

    # ------------------------------------------------------------------ as Pipeline

    def push(self, reasoning: str, content: str) -> list[Piece] | None:
        """As `Pipeline.push`."""
        if self._alone:
            return None
        parts = self._past_echo(content)
        if parts is None:  # what is held of the reasoning waits for nothing any more
            held = super().release(read=False)
            return [*held, *came(reasoning, content)] if held else None
        echoed, rest = parts
        if not (reasoning or rest):
            return None
        pieces = super().push(reasoning, rest)
        return [(CONTENT, echoed), *pieces] if echoed and pieces is not None else pieces

    def join(self, reasoning: str, content: str) -> tuple[str, str]:
        """As `Pipeline.join`."""
        return (reasoning, content) if self._alone else super().join(reasoning, content)

    def refusal(self) -> list[Piece]:
        """As `Pipeline.refusal`."""
        return [] if self._alone else super().refusal()

    def tool_call(self) -> list[Piece]:
        """As `Pipeline.tool_call`."""
        return [] if self._alone else super().tool_call()

    def finish(self, *, stopped: bool, length: bool, promotable: bool, stop_string: bool, looped: bool) -> list[Piece]:
        """As `Pipeline.finish`."""
        if self._alone:
            return []
        return super().finish(
            stopped=stopped, length=length, promotable=promotable, stop_string=stop_string, looped=looped
        )

    def release(self, *, read: bool) -> list[Piece]:
        """As `Pipeline.release`."""
        return [] if self._alone else super().release(read=read)

    # ------------------------------------------------------------------ the echoed prompt

    def _past_echo(self, content: str) -> tuple[str, str] | None:
        """The content as what repeats the prompt, and what is behind it; None from where nothing is read."""
        left = len(self._echo) - self._at
        if not left or not content:
            return "", content
        size = min(left, len(content))
        if not self._echo.startswith(content[:size], self._at):
            self._lose_border()
            return None if self._alone else ("", content)
        self._at += size
        return content[:size], content[size:]

    def _lose_border(self) -> None:
        """Where the prompt ends is not to be told."""
        if self._setting.hidden:
            self._at = len(self._echo)
        else:
            self._alone = True
            self._tally.uninspected["echo"] += 1
