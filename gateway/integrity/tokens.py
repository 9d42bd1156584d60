"""The pipeline of an answer that is read from its tokens: the marks of structural tokens go no further than the reader,
and the engine's stop string is cut off the end, which the tokens still have.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.events import Decision, Segment, ToolText
from gateway.integrity.outlet import Piece, came
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.setting import Setting
from gateway.integrity.stop_text import StopTail
from gateway.integrity.tally import Tally
from gateway.streams.tokens import plain, plain_json


class FromTokens(Pipeline):
    """What a pipeline adds to the one behind it where its content is `gateway.streams.tokens` text.

    `_tail`: what of the content may be the stop string that ends it. `_keeps`: that stays.
    """

    __slots__ = ()

    _tail: StopTail | None
    _keeps: bool

    @property
    def holding(self) -> str | None:
        """As `Pipeline.holding`."""
        return super().holding or ("stop" if self._tail and self._tail.waiting else None)

    def push(self, reasoning: str, content: str) -> list[Piece] | None:
        """As `Pipeline.push`."""
        said = self._tail.feed(content) if self._tail else content
        pieces = super().push(reasoning, said) if reasoning or said else []
        if pieces is None:
            return None if said == content else _plain(came(reasoning, said))
        return _plain(pieces)

    def finish(self, *, stopped: bool, length: bool, promotable: bool, stop_string: bool, looped: bool) -> list[Piece]:
        """As `Pipeline.finish`."""
        pieces: list[Piece] = []
        cut = ""
        if self._tail:
            said, cut = self._tail.end(fired=stop_string, keep=self._keeps)
            pieces += self._pushed(said)
        pieces += super().finish(
            stopped=stopped, length=length, promotable=promotable, stop_string=stop_string, looped=looped
        )
        self._cut_off(plain(cut))
        return _plain(pieces)

    def release(self, *, read: bool) -> list[Piece]:
        """As `Pipeline.release`."""
        held = self._tail.release() if self._tail else ""
        pieces = self._pushed(held) if read else []
        pieces += super().release(read=read)
        return _plain(pieces if read else pieces + came("", held))

    def _cut_off(self, text: str) -> None:
        """A stop string was cut off the end, and what came behind it."""

    def _pushed(self, text: str) -> list[Piece]:
        pieces = super().push("", text) if text else []
        return came("", text) if pieces is None else pieces

    def _take(self, segments: list[Segment], origin: str, out: list[Piece], *, cut: bool = False) -> None:
        super()._take([(channel, _unmarked(item)) for channel, item in segments], origin, out, cut=cut)


class TokenPipeline(FromTokens):
    """The same calls as `Pipeline`, for one choice.

    `stops`: the request's stop strings, which the engine looks for. `keeps`: the client asked for the one that fires.
    """

    __slots__ = ("_keeps", "_tail")

    def __init__(self, setting: Setting, tally: Tally, *, stops: tuple[str, ...], keeps: bool) -> None:
        super().__init__(setting, tally)
        self._tail = StopTail(stops) if stops else None
        self._keeps = keeps


def _unmarked(item: str | Decision | ToolText) -> str | Decision | ToolText:
    """Text and markers as they are; a region of calls keeps the marks, by which places in it are counted."""
    if isinstance(item, str):
        return plain(item)
    return replace(item, text=plain(item.text)) if isinstance(item, Decision) else item


def _plain(pieces: list[Piece]) -> list[Piece]:
    return [
        (channel, plain(said) if isinstance(said, str) else replace(said, arguments=plain_json(said.arguments)))
        for channel, said in pieces
    ]
