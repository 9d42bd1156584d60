"""Is a stream of chat completions legal? From OpenAI's reference "The chat completion chunk object".

In a choice the role comes first and once; an entry of `tool_calls` tells its call by `index`, counted from zero; its
first one has the id and the name, the later ones only pieces of the arguments; a choice that ends with `tool_calls` has
made one. What engines do beyond it is named in `choices`, and here: later entries of a call may repeat its id, and have
its name as null or empty (SGLang 0.5.23 writes both, reference/sglang.md 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gateway.protocols.legal.choices import EXTENSIONS, ChoiceFlow
from gateway.protocols.legal.flow import entries, member, shown


@dataclass(slots=True)
class _Said:
    """One choice: whether anything was said in it, and the id of each call."""

    begun: bool = False
    calls: dict[int, str] = field(default_factory=dict)


def violations(body: bytes, *, ended: bool = True) -> list[str]:
    """What is not legal in a stream of chat completions; empty: nothing. `ended`: nothing of it is missing."""
    return Chunks().read(body, ended=ended)


class Chunks(ChoiceFlow):
    """One stream."""

    object = "chat.completion.chunk"

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[int, _Said] = {}

    def says(self, index: int, choice: dict[str, Any]) -> bool:
        """Is there anything in the delta of a choice but a role?"""
        said, delta = self._said.setdefault(index, _Said()), choice.get("delta")
        if not self.say(isinstance(delta, dict), f"the delta of choice {index} is {shown(delta)}"):
            return False
        assert isinstance(delta, dict)
        role = delta.get("role")
        self.say(role in (None, "assistant"), f"the role of choice {index} is {shown(role)}")
        self.say(not (role and said.begun), f"the role of choice {index} comes again, or late")
        spoken = self.texts(index, delta, "content", "refusal", *EXTENSIONS)
        calls = delta.get("tool_calls")
        self.say(calls is None or isinstance(calls, list), f"tool_calls of choice {index} is {shown(calls)}")
        for entry in entries(calls):
            self._entry(index, said.calls, entry)
        said.begun = said.begun or spoken or bool(calls) or role is not None
        if choice.get("finish_reason") == "tool_calls":
            self.say(said.calls, f"choice {index} ends with tool_calls and has made no call")
        return spoken or bool(calls)

    def _entry(self, choice: int, calls: dict[int, str], entry: Any) -> None:
        """One entry of the calls of a choice."""
        number, ident = member(entry, "index"), member(entry, "id")
        name, arguments = member(entry, "function", "name"), member(entry, "function", "arguments")
        where = f"call {shown(number)} of choice {choice}"
        if not self.say(type(number) is int, f"{where} has no index"):
            return
        self.say(arguments is None or isinstance(arguments, str), f"the arguments of {where} are {shown(arguments)}")
        if number in calls:
            self.say(ident in (None, "", calls[number]), f"{where} has another id")
            self.say(not name, f"{where} is named again")
            return
        self.say(number == len(calls), f"{where} should be number {len(calls)}")
        self.say(ident and isinstance(ident, str), f"{where} begins without an id")
        self.say(ident not in calls.values(), f"{where} has the id of another call")
        self.say(name and isinstance(name, str), f"{where} begins without a name")
        self.say(member(entry, "type") in (None, "function"), f"{where} is {shown(member(entry, 'type'))}")
        calls[number] = ident if isinstance(ident, str) else ""
