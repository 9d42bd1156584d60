"""The pipeline of an endpoint that engines never split: it starts behind an echoed prompt, and tells what became of
each character, so that what stands beside the text can go with it.

Knows counts of characters. Must not know what stands beside them.
"""

from __future__ import annotations

from gateway.events import CONTENT, REASONING, REPLAY, TOOL, Decision, Effect, Segment
from gateway.integrity.outlet import Piece
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.setting import Setting
from gateway.integrity.tally import Tally

Fate = tuple[int, bool]
"""So many characters, and whether they are text of the answer."""


class RawPipeline(Pipeline):
    """The same calls as `Pipeline`, for one choice.

    `echo`: what of the prompt the answer begins with, None where that is not known: then nothing of it is read, unless
    reasoning is hidden. `watches`: everything goes out as it came, and is only counted. No calls are read (`takes`).
    """

    __slots__ = ("_alone", "_at", "_echo", "_fates", "_watches")

    def __init__(self, setting: Setting, tally: Tally, *, echo: str | None, watches: bool) -> None:
        super().__init__(setting, tally)
        self._echo = echo or ""
        self._at = 0  # characters of the echo that have come
        self._alone = False  # nothing is read
        self._watches = watches
        self._fates: list[Fate] = []
        if echo is None:
            self._lose_border()

    @property
    def holding(self) -> str | None:
        """As `Pipeline.holding`."""
        return None if self._watches else super().holding

    def take_fates(self) -> list[Fate]:
        """What became of the characters of the content, in order, as far as it is decided, since the last call."""
        fates, self._fates = self._fates, []
        return fates

    # ------------------------------------------------------------------ as Pipeline

    def push(self, reasoning: str, content: str) -> list[Piece] | None:
        """As `Pipeline.push`."""
        echoed, rest = self._past_echo(content)
        if self._alone:
            self._fate(len(content), True)
            return None
        pieces = super().push(reasoning, rest) if reasoning or rest else []
        if self._watches or pieces is None:
            return None
        if not echoed:
            return pieces
        return [(CONTENT, echoed), *pieces] if rest else None

    def join(self, reasoning: str, content: str) -> tuple[str, str]:
        """As `Pipeline.join`."""
        return (reasoning, content) if self._watches or self._alone else super().join(reasoning, content)

    def finish(self, *, stopped: bool, length: bool, promotable: bool, stop_string: bool, looped: bool) -> list[Piece]:
        """As `Pipeline.finish`."""
        if self._alone:
            return []
        pieces = super().finish(
            stopped=stopped, length=length, promotable=promotable, stop_string=stop_string, looped=looped
        )
        return [] if self._watches else pieces

    def release(self, *, read: bool) -> list[Piece]:
        """As `Pipeline.release`."""
        pieces = [] if self._alone else super().release(read=read)
        return [] if self._watches else pieces

    # ------------------------------------------------------------------ the echoed prompt

    def _past_echo(self, content: str) -> tuple[str, str]:
        """The content as what repeats the prompt, and what is behind it."""
        left = len(self._echo) - self._at
        if not left or not content or self._alone:
            return "", content
        size = min(left, len(content))
        if not self._echo.startswith(content[:size], self._at):
            self._lose_border()
            return "", content
        self._at += size
        self._fate(size, True)
        return content[:size], content[size:]

    def _lose_border(self) -> None:
        """Where the prompt ends is not to be told."""
        if self._setting.hidden:
            self._at = len(self._echo)
        else:
            self._alone = True
            self._tally.uninspected["echo"] += 1

    # ------------------------------------------------------------------ fates

    def _take(self, segments: list[Segment], origin: str, out: list[Piece], *, cut: bool = False) -> None:
        for segment in segments:
            before = len(out)
            super()._take([segment], origin, out, cut=cut)
            self._note(segment, any(channel == CONTENT for channel, _ in out[before:]))

    def _note(self, segment: Segment, went_out: bool) -> None:
        """The fate of a segment. `went_out`: it was followed by text of the answer."""
        channel, item = segment
        if isinstance(item, Decision):
            if item.effect is Effect.DROP:
                self._fate(len(item.text), went_out)
        elif isinstance(item, str) and channel != REPLAY:
            stays = channel in (CONTENT, TOOL) or (channel != REASONING and went_out)
            self._fate(len(item), stays)

    def _fate(self, count: int, stays: bool) -> None:
        if not self._watches:  # nobody asks
            self._fates.append((count, stays))
