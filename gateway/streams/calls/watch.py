"""A tool region inside text that goes out as it comes: it is only found out whether the text ends with a call."""

from __future__ import annotations

from gateway.events import Call
from gateway.streams.calls.call import Status
from gateway.streams.calls.region import CallRegion, RegionRules


class Watch:
    """Follows released text from a region's opener on. `take` returns False once there is no call to wait for any more.

    `cap`: characters of a region after which nothing is waited for, however they are cut.
    """

    __slots__ = ("_cap", "_held", "_region", "_size")

    def __init__(self, rules: RegionRules, *, opener: str, cap: int) -> None:
        inside = opener in rules.inside
        self._cap = cap
        self._held = opener if inside else ""
        self._region = CallRegion(rules, head=opener, begin=0 if inside else len(opener))
        self._size = 0

    def take(self, text: str) -> bool:
        """More text of the place that is watched."""
        room = max(0, self._cap - self._size)
        self._size += len(text)
        self._held = self._read(final=False, more=text[:room])
        status = self._region.status
        if status is Status.DONE:
            behind, self._held = self._held + text[room:], ""
            return not behind.strip()
        return status is Status.OPEN and self._size <= self._cap

    def finish(self) -> tuple[Call, ...]:
        """The text has ended by itself: the calls it ends with."""
        self._held = self._read(final=True, more="")
        whole = self._region.status is Status.DONE or (self._region.status is Status.OPEN and self._region.complete)
        return tuple(self._region.finish()) if whole and not self._held.strip() else ()

    def _read(self, *, final: bool, more: str) -> str:
        text = self._held + more
        return text[self._region.read(text, 0, final=final) :]
