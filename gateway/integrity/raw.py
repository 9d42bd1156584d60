"""The pipeline of an endpoint that engines never split: it tells what became of each character, so that what stands
beside the text can go with it.

Knows counts of characters. Must not know what stands beside them.
"""

from __future__ import annotations

from gateway.events import CONTENT, REASONING, REPLAY, TOOL, Decision, Effect, Segment
from gateway.integrity.echoed import EchoedPipeline
from gateway.integrity.outlet import Piece
from gateway.integrity.setting import Setting
from gateway.integrity.tally import Tally

Fate = tuple[int, bool]
"""So many characters, and whether they are text of the answer."""


class RawPipeline(EchoedPipeline):
    """The same calls as `Pipeline`, for one choice.

    `echo`: as `EchoedPipeline`. `watches`: everything goes out as it came, and is only counted. No calls are read
    (`takes`).
    """

    __slots__ = ("_fates", "_watches")

    def __init__(self, setting: Setting, tally: Tally, *, echo: str | None, watches: bool) -> None:
        super().__init__(setting, tally, echo=echo)
        self._watches = watches
        self._fates: list[Fate] = []

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
        pieces = super().push(reasoning, content)
        if self._alone:
            self._fate(len(content), True)
        return None if self._watches else pieces

    def join(self, reasoning: str, content: str) -> tuple[str, str]:
        """As `Pipeline.join`."""
        return (reasoning, content) if self._watches else super().join(reasoning, content)

    def finish(self, *, stopped: bool, length: bool, promotable: bool, stop_string: bool, looped: bool) -> list[Piece]:
        """As `Pipeline.finish`."""
        pieces = super().finish(
            stopped=stopped, length=length, promotable=promotable, stop_string=stop_string, looped=looped
        )
        return [] if self._watches else pieces

    def release(self, *, read: bool) -> list[Piece]:
        """As `Pipeline.release`."""
        pieces = super().release(read=read)
        return [] if self._watches else pieces

    # ------------------------------------------------------------------ fates

    def _past_echo(self, content: str) -> tuple[str, str] | None:
        parts = super()._past_echo(content)
        if parts and parts[0]:
            self._fate(len(parts[0]), True)
        return parts

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
