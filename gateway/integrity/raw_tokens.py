"""The pipeline of raw text that is read from its token ids: characters are counted without marks."""

from __future__ import annotations

from gateway.integrity.raw import RawPipeline
from gateway.integrity.setting import Setting
from gateway.integrity.stop_text import StopTail
from gateway.integrity.tally import Tally
from gateway.integrity.tokens import FromTokens


class RawTokenPipeline(FromTokens, RawPipeline):
    """The same calls as `RawPipeline`, for one choice; `stops` and `keeps` as `TokenPipeline`."""

    __slots__ = ("_keeps", "_stays", "_tail")

    def __init__(self, setting: Setting, tally: Tally, *, stops: tuple[str, ...], keeps: bool) -> None:
        super().__init__(setting, tally, echo="", watches=False)
        self._tail = StopTail(stops) if stops else None
        self._keeps = keeps
        self._stays = True  # the last character is text of the answer

    def _fate(self, count: int, stays: bool) -> None:
        self._stays = stays
        super()._fate(count, stays)

    def _cut_off(self, text: str) -> None:
        if text:  # its tokens go with what they followed, as those of a stop token do
            self._fate(len(text), self._stays)
