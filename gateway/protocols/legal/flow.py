"""What the checkers of all protocols share: a stream read event by event, and a list of what is not legal in it.

A checker is written from its protocol's documentation, not from our encoder: it knows events, no gateway. What it says
names events, members and words of the protocol, never text of a model.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from gateway.streams.jsonscan import loads
from gateway.streams.sse import SSEReader

_WORD: Final = re.compile(r"[\w.\-]{1,64}", re.ASCII)


def member(value: Any, *path: str) -> Any:
    """A member of nested objects; None where one on the way is missing or no object."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text(value: Any) -> str:
    """A string as it is, anything else as no text."""
    return value if isinstance(value, str) else ""


def entries(value: Any) -> list[Any]:
    """A list as it is, anything else as an empty one."""
    return value if isinstance(value, list) else []


def shown(value: Any) -> str:
    """A number or a word of a protocol for a message; of anything else only its kind, for it might be model text."""
    if value is None or isinstance(value, bool | int):
        return str(value)
    if isinstance(value, str):
        return f"{value!r}" if _WORD.fullmatch(value) else f"a text of {len(value)} characters"
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "a number"


class Flow:
    """One stream. `wrong`: what is not legal, in order. `over`: the event that ended it, empty while none has.

    `done`: the data of a last event that is no JSON. `goodbye`: the events that `done` may follow.
    """

    done: ClassVar[bytes] = b""
    goodbye: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.over = ""
        self._where = ""

    def say(self, holds: object, what: str) -> bool:
        """Note `what` is wrong with the event, where a condition does not hold; whether it does."""
        if not holds:
            self.wrong.append(f"{self._where}: {what}")
        return bool(holds)

    def read(self, body: bytes, *, ended: bool) -> list[str]:
        """What is not legal in a whole stream. `ended`: it is all there is, so that its last event has to end it."""
        reader = SSEReader(max_line=len(body) + 1, max_event=len(body) + 1)
        told = [frame for frame in reader.feed(body) if frame.data is not None]
        for number, frame in enumerate(told):
            assert frame.data is not None
            self._where = f"event {number}"
            self._take(number, frame.event.decode(errors="replace"), frame.data)
        self._where = "end"
        if ended:
            self.say(not reader.pending.strip(), "the last event lacks its empty line")
            self.say(self.over, "the stream does not end with its last event, or with an error")
        return self.wrong

    def _take(self, number: int, name: str, data: bytes) -> None:
        if self.done and data == self.done:
            self._where += f" {data.decode()}"
            self.say(not self.over or self.over in self.goodbye, f"it comes behind {self.over}")
            self.last()
            self.over = data.decode()
            return
        value = _object(data)
        if value is None:
            self.say(False, "its data is no JSON object")
            return
        kind = self.kind(value)
        self._where += f" {kind}" if _WORD.fullmatch(kind) else ""
        self.say(not self.over, f"it comes behind {self.over}")
        self.take(number, name, kind, value)

    def kind(self, value: dict[str, Any]) -> str:
        """What an event is called: its type."""
        return text(value.get("type"))

    def take(self, number: int, name: str, kind: str, value: dict[str, Any]) -> None:
        """One event: its number, the name of its frame, what it is called, and what it says."""
        raise NotImplementedError

    def last(self) -> None:
        """The event that is no JSON has come."""


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
