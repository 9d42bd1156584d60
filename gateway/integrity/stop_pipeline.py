"""The pipelines of a request with stop strings, by who matches them (`policy.request.stop`).

Resync, the engine: where it kept text back for them, the seam between thought and answer is set right. In step: the
engine too, but it was asked to leave the stop string in the text, so that it keeps nothing back; it is taken off the
end again. Both before anything is read. Stopping, the gateway: the engine knows of no stop string; they are looked for
in the content that goes out, and nothing goes out behind the one that matches, no reasoning and no calls either.

Knows nothing of requests, and not how an answer says that it was stopped.
"""

from __future__ import annotations

from typing import Final

from gateway.events import CONTENT, REASONING, REPLAY
from gateway.findings import Finding
from gateway.integrity.outlet import Piece, came
from gateway.integrity.pipeline import Pipeline, joined
from gateway.integrity.resync import Seam
from gateway.integrity.setting import Setting
from gateway.integrity.stages import moves_thought, resync_of
from gateway.integrity.stop_text import StopMatch, StopTail
from gateway.integrity.tally import Tally

DESYNC: Final = "stop_desync"
"""The rule under which a seam is counted that was set right."""


class _BeforeReading(Pipeline):
    """As `Pipeline`; what its fields say may be changed before they are read."""

    __slots__ = ()

    def _said(self, reasoning: str, content: str) -> list[Piece]:
        """What goes out of a delta as it is read."""
        pieces = Pipeline.push(self, reasoning, content) if reasoning or content else []
        return came(reasoning, content) if pieces is None else pieces

    def _told(self, thought: str, answer: str, *, mixed: bool) -> list[Piece]:
        """As `_said`. `mixed`: the two came in one delta."""
        return self._said(thought, answer) if mixed else self._said(thought, "") + self._said("", answer)


class ResyncPipeline(_BeforeReading):
    """As `Pipeline`, for one choice of a setting that may have a `stop_window`."""

    __slots__ = ("_resync",)

    def __init__(self, setting: Setting, tally: Tally) -> None:
        super().__init__(setting, tally)
        self._resync = resync_of(setting)

    @property
    def holding(self) -> str | None:
        """As `Pipeline.holding`."""
        return super().holding or ("stop" if self._resync and self._resync.waiting else None)

    def push(self, reasoning: str, content: str) -> list[Piece] | None:
        """As `Pipeline.push`."""
        resync = self._resync
        if resync is None:
            return super().push(reasoning, content)
        if reasoning and resync.begun:  # the engine thinks on: the seam is not here
            return joined(self._settled() + self._told(reasoning, content, mixed=bool(content)))
        out: list[Piece] = []
        thought, answer = resync.reasoning(reasoning) if reasoning else "", ""
        if content and (seam := resync.content(content)):
            self._resync = None
            thought, answer = self._decided(seam, thought, out)
        if (thought, answer) == (reasoning, content):
            return super().push(reasoning, content)
        return joined(out + self._told(thought, answer, mixed=bool(reasoning and answer)))

    def tool_call(self) -> list[Piece]:
        """As `Pipeline.tool_call`."""
        return joined(self._settled() + super().tool_call())

    def finish(self, *, stopped: bool, length: bool, promotable: bool, stop_string: bool, looped: bool) -> list[Piece]:
        """As `Pipeline.finish`."""
        out, rest = self._settled(), super().finish
        return joined(
            out + rest(stopped=stopped, length=length, promotable=promotable, stop_string=stop_string, looped=looped)
        )

    def release(self, *, read: bool) -> list[Piece]:
        """As `Pipeline.release`."""
        resync, self._resync = self._resync, None
        held = ("", "") if resync is None else (resync.release().reasoning, resync.release().content)
        if read:
            return joined(self._told(*held, mixed=False) + super().release(read=True))
        return super().release(read=False) + came(*held)

    def _settled(self) -> list[Piece]:
        """Nothing more comes that could decide."""
        if self._resync is None:
            return []
        out: list[Piece] = []
        seam, self._resync = self._resync.settle(), None
        thought, answer = self._decided(seam, "", out)
        return out + self._told(thought, answer, mixed=False)

    def _decided(self, seam: Seam, before: str, out: list[Piece]) -> tuple[str, str]:
        """What is to be read as reasoning, and what as content. `before`: reasoning in front of the seam, unread."""
        if not seam.closer:
            return before + seam.reasoning, seam.content
        self._marked = self._closed = self._outlet.bounded = True
        self._outlet.keep_as_reasoning(out)
        moved = max(0, len(seam.thought) - len(seam.reasoning))
        if moved:
            action = "hidden" if self._setting.hidden else "moved"
            self._tally.add(Finding.REASONING_LEAK, action, rule=DESYNC, where=CONTENT)
        self._tally.add(Finding.BOUNDARY_TOKEN, "stripped", marker=seam.closer, rule=DESYNC, where=CONTENT)
        if not moves_thought(self._setting.policy):  # as it came, and not counted a second time
            out += self._said(before + seam.reasoning, "")
            self._outlet.send(CONTENT, seam.content.removesuffix(seam.answer), out)
            return "", seam.answer
        if moved and self._setting.unsent:  # not shown to a client that asked the engine for none
            self._tally.characters_suppressed += moved
            return before + seam.reasoning, seam.answer
        return before + seam.thought, seam.answer


class InStepPipeline(_BeforeReading):
    """As `Pipeline`, for one choice. `keep`: the client asked for the stop string in the text.

    Only the field that spoke last can end with the stop string; a string that ends inside a marker, or in a call of the
    engine's own, is in no field's text and nothing is cut.
    """

    __slots__ = ("_keep", "_spoke", "_tail")

    def __init__(self, setting: Setting, tally: Tally, *, stops: tuple[str, ...], keep: bool) -> None:
        super().__init__(setting, tally)
        self._tail = StopTail(stops)
        self._spoke = CONTENT
        self._keep = keep

    @property
    def holding(self) -> str | None:
        """As `Pipeline.holding`."""
        return super().holding or ("stop" if self._tail.waiting else None)

    def push(self, reasoning: str, content: str) -> list[Piece] | None:
        """As `Pipeline.push`."""
        out: list[Piece] = []
        thought, answer = reasoning, content
        if reasoning:
            out = self._settled() if self._spoke == CONTENT else out
            thought, self._spoke = self._tail.feed(reasoning), REASONING
        if content:
            thought += self._tail.release() if self._spoke == REASONING else ""
            answer, self._spoke = self._tail.feed(content), CONTENT
        if not out and (thought, answer) == (reasoning, content):
            return super().push(reasoning, content)
        return joined(out + self._told(thought, answer, mixed=bool(reasoning and content)))

    def tool_call(self) -> list[Piece]:
        """As `Pipeline.tool_call`."""
        return joined(self._settled() + super().tool_call())

    def finish(self, *, stopped: bool, length: bool, promotable: bool, stop_string: bool, looped: bool) -> list[Piece]:
        """As `Pipeline.finish`."""
        text, _ = self._tail.end(fired=stop_string, keep=self._keep)
        rest = super().finish
        out = self._spoken(text)
        return joined(
            out + rest(stopped=stopped, length=length, promotable=promotable, stop_string=stop_string, looped=looped)
        )

    def release(self, *, read: bool) -> list[Piece]:
        """As `Pipeline.release`."""
        if read:
            return joined(self._settled() + super().release(read=True))
        text = self._tail.release()
        return super().release(read=False) + ([(self._spoke, text)] if text else [])

    def _settled(self) -> list[Piece]:
        """What is held is no stop string."""
        return self._spoken(self._tail.release())

    def _spoken(self, text: str) -> list[Piece]:
        """Text of the field that spoke last."""
        return self._said(text, "") if self._spoke == REASONING else self._said("", text)


class StoppingPipeline(Pipeline):
    """As `Pipeline`, for one choice.

    Content is one text up to a call or more reasoning: a stop string does not span them. In the reasoning or in a call
    none matches. `fired`: the one that has matched; the exchange ends the choice then, and calls `finish` all the same.
    `dropped`: characters of text that would have gone out behind it; they are no loss and no suppression.
    """

    __slots__ = ("_channel", "_dropped", "_match")

    def __init__(self, setting: Setting, tally: Tally, *, stops: tuple[str, ...]) -> None:
        super().__init__(setting, tally)
        self._match = StopMatch(stops)
        self._channel = CONTENT  # of what is held
        self._dropped = 0

    @property
    def fired(self) -> str | None:
        """The stop string that has matched."""
        return self._match.fired

    @property
    def dropped(self) -> int:
        """Characters that did not go out because of it."""
        return self._dropped + self._match.dropped

    @property
    def holding(self) -> str | None:
        """As `Pipeline.holding`."""
        if self.fired is not None:
            return None
        return super().holding or ("stop" if self._match.waiting else None)

    def push(self, reasoning: str, content: str) -> list[Piece] | None:
        """As `Pipeline.push`."""
        if self.fired is not None:
            self._dropped += len(reasoning) + len(content)
            return []
        pieces = super().push(reasoning, content)
        before = came(reasoning, content) if pieces is None else pieces
        out = self._passed(before)
        return None if pieces is None and out == before else out

    def refusal(self) -> list[Piece]:
        """As `Pipeline.refusal`."""
        return self._passed(super().refusal())

    def tool_call(self) -> list[Piece]:
        """As `Pipeline.tool_call`. Where something has `fired` the call is behind the end of the answer."""
        return [] if self.fired is not None else self._ended(super().tool_call())

    def finish(self, *, stopped: bool, length: bool, promotable: bool, stop_string: bool, looped: bool) -> list[Piece]:
        """As `Pipeline.finish`; however the engine ended, an answer in which something has `fired` was stopped."""
        if self.fired is None:
            rest = super().finish
            return self._ended(
                rest(stopped=stopped, length=length, promotable=promotable, stop_string=stop_string, looped=looped)
            )
        behind: list[Piece] = []  # what readers and stages hold came behind the stop string
        self._outlet.finish(behind, stopped=True, promotable=False)
        self._conclude(stopped=True, natural=False, length=False, stop_string=True, looped=False)
        return self._passed(behind)

    def release(self, *, read: bool) -> list[Piece]:
        """As `Pipeline.release`."""
        return [] if self.fired is not None else self._ended(super().release(read=read))

    def _ended(self, pieces: list[Piece]) -> list[Piece]:
        """The last pieces of the content so far: nothing of it waits any longer."""
        out = self._passed(pieces)
        held = self._match.end()
        return joined([*out, (self._channel, held)]) if held else out

    def _passed(self, pieces: list[Piece]) -> list[Piece]:
        """What goes out of these pieces."""
        out: list[Piece] = []
        for channel, said in pieces:
            if self.fired is not None:
                self._dropped += len(said) if isinstance(said, str) else 0
            elif channel in (CONTENT, REPLAY) and isinstance(said, str):
                out += self._matched(channel, said)
            else:
                held = self._match.end()
                out += [(self._channel, held), (channel, said)] if held else [(channel, said)]
        return joined(out)

    def _matched(self, channel: str, text: str) -> list[Piece]:
        """A piece of content. What was held goes out before a replayed piece, so that none grows (reader_spec 4)."""
        before, self._channel = self._channel, channel
        held = self._match.held
        out = self._match.feed(text)
        size = min(len(held), len(out)) if channel == REPLAY else 0
        return [piece for piece in ((before, out[:size]), (channel, out[size:])) if piece[1]]
