"""A call that goes out while it is read (`tool_rescue.stream: incremental`): what of its arguments is certain so far.

What was sent is never taken back and never completed by guess: the rest is what the whole arguments say behind it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from gateway.events import Call
from gateway.integrity.arguments import Typed, arguments_of

_UNCERTAIN: Final = re.compile("[\x00-\x1f\ud800-\udfff]")  # in a string it becomes an escape; only the whole tells


class LiveCall:
    """One call whose name went out. `more` is asked whenever it may have grown, `rest` once at its end.

    `over`: its rest was asked for.
    """

    __slots__ = ("_arguments", "_pieces", "_schema", "_sent", "_stuck", "over")

    def __init__(self, schema: Any) -> None:
        self.over = False
        self._schema = schema
        self._sent: list[str] = []
        self._arguments = 0  # how many of the call's arguments were sent
        self._pieces = 0  # how many pieces of its JSON
        self._stuck = False  # what comes next is not certain before the end

    def more(self, call: Call) -> str:
        """What can be sent now beyond what was sent."""
        text = self._of_arguments(call) if call.json is None else self._of_json(call.json)
        if text:
            self._sent.append(text)
        return text

    def rest(self, whole: Typed) -> str | None:
        """What is left of the whole arguments; None where they are none, or not what was sent."""
        self.over = True
        sent = "".join(self._sent)
        return whole.text[len(sent) :] if whole.valid and whole.text.startswith(sent) else None

    def _of_arguments(self, call: Call) -> str:
        out: list[str] = []
        for argument in call.arguments[self._arguments :]:
            member = arguments_of(Call(call.name, arguments=[argument]), self._schema).text[1:-1]
            out.append(f"{', ' if self._arguments else '{'}{member}")
            self._arguments += 1
        return "".join(out)

    def _of_json(self, pieces: list[str]) -> str:
        if self._stuck:
            return ""
        text = "".join(pieces[self._pieces :])
        uncertain = _UNCERTAIN.search(text)
        self._stuck = uncertain is not None or (not self._sent and text[:1] not in ("{", ""))
        self._pieces = len(pieces)
        return text[: uncertain.start()] if uncertain else "" if self._stuck else text
