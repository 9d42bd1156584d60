"""What one choice says to the client: text sorted by channel in, the same text out, later or in the other channel.

Order: the budget's end string → promotion → dedup → signs. Knows no marker, no field and no reader.
"""

from __future__ import annotations

from typing import Any

from gateway.events import CONTENT, REASONING, REPLAY, ToolCall
from gateway.findings import Finding
from gateway.integrity.end_string import EndString
from gateway.integrity.setting import Setting
from gateway.integrity.signs import FOLD_EVERY, Growth, Trail, signs_of
from gateway.integrity.stages import dedup_of, end_string_of, promotion_of, suppressible
from gateway.integrity.tally import Tally

Piece = tuple[str, "str | ToolCall"]
"""`(REASONING | CONTENT | REPLAY, text)`, REPLAY being content in pieces of its own, or `(CALL, ToolCall)`."""


def came(reasoning: str, content: str) -> list[tuple[str, Any]]:
    """A delta as pieces, unchanged."""
    return [piece for piece in ((REASONING, reasoning), (CONTENT, content)) if piece[1]]


class Outlet:
    """State of one choice. Every call appends to `out` what may go out now.

    `said`: something visible went out beside the reasoning. `bounded`: a thought's marker was found. `growth`: takes
    every delta of content, None once they do not grow. `note_content`: content goes out past the stages; the caller
    adds its length to `noted` and calls `fold` beyond `FOLD_EVERY`.
    """

    __slots__ = (
        "_content", "_end_string", "_note_reasoning", "_reasoning", "_setting", "_tally", "bounded", "dedup",
        "growth", "note_content", "noted", "promotion", "said",
    )  # fmt: skip

    def __init__(self, setting: Setting, tally: Tally) -> None:
        self._setting = setting
        self._tally = tally
        self._end_string = end_string_of(setting)
        self.promotion = promotion_of(setting)
        self.dedup = dedup_of(setting, tally.dedup)
        self._reasoning, self._content = Trail(setting.limits.repetition), Trail(setting.limits.repetition)
        self._note_reasoning = self._reasoning.pieces.append  # bound here: they are called for every delta
        self.note_content = self._content.pieces.append
        self.noted = 0
        self.said = False
        self.bounded = False
        self.growth: Growth | None = Growth()

    @property
    def plain(self) -> bool:
        """True where no stage looks at every delta."""
        return self._end_string is None

    @property
    def holding(self) -> str | None:
        """Why something waits: a cause of `gateway.integrity.holds`; None where nothing does."""
        stages = (("end_string", self._end_string), ("promote", self.promotion), ("dedup", self.dedup))
        return next((cause for cause, stage in stages if stage and stage.waiting), None)

    @property
    def thought(self) -> bool:
        """True where reasoning went out that is more than white space."""
        self.fold()
        return bool(self._reasoning.head)

    # ------------------------------------------------------------------ text

    def send(self, channel: str, text: str, out: list[Piece]) -> None:
        """Text of one channel."""
        if channel == REASONING:
            text = self._end_string.reasoning(text) if self._end_string else text
            if text:
                self._send_reasoning(text, out)
            return
        if self._end_string:
            self._end_reasoning(self._end_string, out)
            text = self._end_string.content(text)
            text = self._kept(self._end_string, CONTENT) + text
        if text:
            self._send_content(text, out)

    def replay(self, text: str, out: list[Piece]) -> None:
        """The answer of a skipped channel, as content; it is never compared with the reasoning."""
        out.extend((CONTENT, held) for held in self.dedup.release())
        self.dedup.off()
        self.said = True
        out.append((REPLAY, text))

    def keep_as_reasoning(self, out: list[Piece]) -> None:
        """What waited for promotion is reasoning after all."""
        if self.promotion:
            promotion, self.promotion = self.promotion, None
            for text in promotion.release():
                self.show_reasoning(text)
                out.append((REASONING, text))

    def show_reasoning(self, text: str) -> None:
        """Reasoning goes out as it is."""
        self.dedup.reasoning(text)
        self._note_reasoning(text)
        self.noted += len(text)
        if self.noted > FOLD_EVERY:
            self.fold()

    def fold(self) -> None:
        """Bring the trails up to date, so that they keep no more than a few pieces of text."""
        self.noted = 0
        self._reasoning.fold()
        self._content.fold()

    def _send_reasoning(self, text: str, out: list[Piece]) -> None:
        texts = [text]
        if self.promotion:
            texts = self.promotion.take(text)
            if not self.promotion.on:
                self.promotion = None
        for text in texts:
            self.show_reasoning(text)
            out.append((REASONING, text))

    def _send_content(self, text: str, out: list[Piece]) -> None:
        self.keep_as_reasoning(out)
        self.said = self.said or not text.isspace()
        self.note_content(text)
        self.noted += len(text)
        if self.noted > FOLD_EVERY:
            self.fold()
        if self.dedup.on:
            out.extend((CONTENT, piece) for piece in self.dedup.content(text))
        else:
            out.append((CONTENT, text))

    # ------------------------------------------------------------------ the string at the end of the thinking budget

    def _settle_end_string(self, out: list[Piece]) -> None:
        if self._end_string:
            self._end_reasoning(self._end_string, out)
            if text := self._end_string.end_content():
                self._send_content(text, out)

    def _end_reasoning(self, end_string: EndString, out: list[Piece]) -> None:
        if text := end_string.end_reasoning() + self._kept(end_string, REASONING):
            self._send_reasoning(text, out)

    def _kept(self, end_string: EndString, where: str) -> str:
        """Counts what was taken out; returns it where it is only observed."""
        found = end_string.take_found()
        if found:
            self._tally.add(Finding.BOUNDARY_TOKEN, "stripped", rule="reasoning_end_string", where=where)
        return "" if self._setting.policy.enforces(Finding.BOUNDARY_TOKEN) else found

    # ------------------------------------------------------------------ the end

    def before_tools(self, out: list[Piece]) -> None:
        """A tool call is next: everything held goes out, in its channel."""
        self._settle_end_string(out)
        self.keep_as_reasoning(out)
        if self.dedup.on:
            self.settle_dedup(out, stopped=True)

    def finish(self, out: list[Piece], *, stopped: bool, promotable: bool) -> None:
        """The answer has ended. `stopped`, `promotable`: as `Pipeline.finish`."""
        self._settle_end_string(out)
        if self.promotion and stopped and promotable and self.promotion.spoken:
            self._tally.add(Finding.ANSWER_IN_REASONING, "promoted", where=REASONING)
            self.said = self.promotion.hold
            out.extend((CONTENT, text) for text in self.promotion.release())
        else:
            self.keep_as_reasoning(out)
        self.settle_dedup(out, stopped=stopped)

    def release(self, out: list[Piece], *, read: bool) -> None:
        """The answer broke off: what is held goes out in its channel; nothing is suppressed (contract rule 6)."""
        if read:
            self._settle_end_string(out)
        self.keep_as_reasoning(out)
        out.extend((CONTENT, text) for text in self.dedup.release())
        self.dedup.off()
        if self._end_string and not read:
            held = ((REASONING, self._end_string.release_reasoning()), (CONTENT, self._end_string.end_content()))
            out.extend(piece for piece in held if piece[1])

    def settle_dedup(self, out: list[Piece], *, stopped: bool) -> None:
        """The comparison with the reasoning ends: by itself, with a tool, or cut."""
        repeats = stopped and self.dedup.repeats
        held, suppressed = self.dedup.settle(stopped=stopped)
        out.extend((CONTENT, text) for text in held)
        if suppressed:
            self._tally.add(Finding.DUPLICATE_SUPPRESSED, "suppressed", where=CONTENT)
            self._tally.characters_suppressed += suppressed
        elif repeats and suppressible(self._setting):
            self._tally.add(Finding.DUPLICATE_SUPPRESSED, "suppressed", where=CONTENT)
        elif repeats:
            self._tally.add(Finding.DUPLICATE_SUSPECT, "kept", where=CONTENT)

    def count_signs(self, *, stop_string: bool, length: bool, looped: bool) -> None:
        """What the text of an answer that has ended shows. As `Pipeline.finish`; `stop_string` with nothing said."""
        signs = signs_of(
            self._reasoning,
            self._content,
            cut=length,
            looped=looped,
            bounded=self.bounded,
            cumulative=self.growth is not None and self.growth.cumulative,
            openings=self._setting.openings,
        )
        for finding, where, rule in signs:
            self._tally.add(finding, "flagged", rule=rule, where=where)
        if stop_string and self._reasoning.head:
            self._tally.add(Finding.STOP_IN_REASONING, "flagged", where=REASONING)
