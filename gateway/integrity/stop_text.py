"""Stop strings in a text that comes in pieces: cut from its very end, or looked for in the midst of it.

Which of several counts: the one that ends first, and of those that end together the first in the list. vLLM's
`check_stop_strings` (vllm/v1/engine/detokenizer.py, since PR 49391; before it the first in the list that the last step
completed) says so, and with `include_stop_str_in_output` cuts the text right behind it, so that it is the text's end;
SGLang's `no_stop_trim` leaves what the last step brought behind it. Knows no field and no finish reason.
"""

from __future__ import annotations

from gateway.streams.markers import Plan


class StopTail:
    """The text of one field while the engine matches the stop strings and leaves the one that fires in the text.

    `feed` returns what may go out: held is what is, or may become, a stop string at the end. One that more text
    follows has not fired (`min_tokens`) and goes out.
    """

    __slots__ = ("_held", "_old", "_plan", "_stops")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._plan = Plan(dict.fromkeys(stops, None))
        self._held = ""
        self._old = 0  # characters of what is held that came before the last text

    @property
    def waiting(self) -> bool:
        """True where text is held."""
        return bool(self._held)

    def feed(self, text: str) -> str:
        """More text; returns what goes out now."""
        if not text:
            return ""
        old = len(self._held)
        text = self._held + text
        at = self._plan.cut(text, 0)
        for stop in self._stops:
            found = text.find(stop, max(0, old - len(stop) + 1))
            at = at if found == -1 else min(at, found)
        self._held = text[at:]
        self._old = max(0, old - at)
        return text[:at]

    def end(self, *, fired: bool, keep: bool) -> tuple[str, str]:
        """The text has ended: what still goes out, and what was cut.

        `fired`: the engine says that a stop string ended it. `keep`: the stop string itself stays.
        """
        held = self.release()
        place = self._fired(held) if fired else None
        if place is None:
            return held, ""
        begin, end = place
        at = end if keep else begin
        return held[:at], held[at:]

    def release(self) -> str:
        """What is held, as it came."""
        held, self._held = self._held, ""
        return held

    def _fired(self, held: str) -> tuple[int, int] | None:
        """Where the stop string stands that ended the text; None: in another field, or inside a marker."""
        last = next(filter(held.endswith, self._stops), None)
        if last is not None:
            return len(held) - len(last), len(held)
        found = _first(self._stops, held, self._old)
        return None if found is None else (found[1], found[1] + len(found[0]))


class StopMatch:
    """The text of one field while the gateway matches the stop strings, and the engine knows of none.

    `held`: text that may become one. `fired`: the one that has matched; from it on nothing goes out. `dropped`: so many
    characters came behind it.
    """

    __slots__ = ("_plan", "_stops", "dropped", "fired", "held")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._plan = Plan(dict.fromkeys(stops, None))
        self.held = ""
        self.fired: str | None = None
        self.dropped = 0

    @property
    def waiting(self) -> bool:
        """True where text is held."""
        return bool(self.held)

    def feed(self, text: str) -> str:
        """More text; returns what goes out now."""
        if self.fired is not None:
            self.dropped += len(text)
            return ""
        old = len(self.held)
        text = self.held + text
        found = _first(self._stops, text, old)
        if found is None:
            at = self._plan.cut(text, 0)
            self.held = text[at:]
            return text[:at]
        self.fired, at = found
        self.held = ""
        self.dropped = len(text) - at - len(self.fired)
        return text[:at]

    def end(self) -> str:
        """The text ends here: what is held is no stop string."""
        held, self.held = self.held, ""
        return held


def _first(stops: tuple[str, ...], text: str, old: int) -> tuple[str, int] | None:
    """The stop string that ends first behind the first `old` characters, and where it begins."""
    best: tuple[str, int] | None = None
    first = len(text) + 1
    for stop in stops:
        at = text.find(stop, max(0, old - len(stop) + 1))
        if at != -1 and at + len(stop) < first:
            best, first = (stop, at), at + len(stop)
    return best
