"""Calls that were left as text: which become calls, which stay, which go (contract rule 5). One object a choice.

Knows regions as the reader found them, and the tools of the request. Never runs anything, never edits a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from gateway.events import CALL, CONTENT, REASONING, Call, ToolCall, ToolText
from gateway.findings import Finding
from gateway.integrity.arguments import Typed, arguments_of, problems
from gateway.integrity.live_call import LiveCall
from gateway.integrity.outlet import Outlet, Piece
from gateway.integrity.setting import Setting, Tooling
from gateway.integrity.tally import Tally

_MARKUP: Final = re.compile(r"[<{\[(]")
_PREFIX: Final = "functions."  # a namespace that models write in front of a declared name


@dataclass(frozen=True, slots=True)
class _Ready:
    """One call that may go out. `renamed`: its name was not written as it is declared."""

    name: str
    arguments: Typed
    renamed: bool


@dataclass(slots=True)
class _Made:
    """Calls of one region that wait for the end of the answer, with the text they were made of."""

    text: str
    where: str
    calls: list[_Ready]


class ToolStage:
    """State of one choice. Every method appends to `out` what may go out now.

    `made`: how many calls went out. `broken`: one went out whose rest never came right. `seen`: there
    was one that is only counted.
    """

    __slots__ = (
        "_behind",
        "_live",
        "_number",
        "_outlet",
        "_pending",
        "_setting",
        "_size",
        "_tally",
        "_told",
        "_waits",
        "broken",
        "made",
        "seen",
    )

    def __init__(self, setting: Setting, tally: Tally, outlet: Outlet) -> None:
        self._setting = setting
        self._tally = tally
        self._outlet = outlet
        self._pending: list[_Made | str] = []
        self._size = 0  # characters of them
        self._behind = False  # nothing was said since a call
        self._told: list[tuple[str, Any]] = []  # the engine's own calls: name and arguments
        self._number = setting.tooling.calls_before if setting.tooling else 0
        self._live: list[LiveCall] = []  # calls of the open region that went out
        self._waits = False  # the open region is looked at when it has ended
        self.broken = False
        self.seen = False
        self.made = 0

    @property
    def waiting(self) -> bool:
        """True where content that comes next has to be shown first."""
        return self._behind or bool(self._pending)

    @property
    def holds(self) -> bool:
        """True where something is held."""
        return bool(self._pending)

    # ------------------------------------------------------------------ what comes

    def region(self, found: ToolText, origin: str, out: list[Piece], *, cut: bool) -> None:
        """A region of the field `origin` has ended. `cut`: the token limit ended the output."""
        tooling = self._setting.tooling
        if tooling is None or tooling.choice == "none":
            self._unwanted(found, origin)
            return
        if found.so_far is not None:
            self._grow(found, found.so_far, tooling, out)
            return
        self._waits = False
        grown = bool(self._live)
        found = self._grown(found, tooling, out, cut=cut) if grown else found
        calls, why = self._calls(found, tooling) if not self.broken else ([], "malformed")
        if grown and not calls:  # what went out is not sent again as text
            if found.calls:
                self._removed(origin, rule="rest")
            return
        if found.text == "" or found.broken:
            self._watched(found, calls)
        elif calls:
            self._wanted(_Made(found.text, origin, calls), out, late=found.thought or not self._setting.raw)
            if len(calls) < len(found.calls) or found.rest:
                self._removed(origin, rule="rest")
        elif found.known and ((cut and not found.complete) or not found.calls or why == "parallel"):
            self._gone(found, origin, rule=why if why == "parallel" else "empty" if found.complete else "cut")
        elif self._setting.policy.enforces(Finding.TOOL_MARKUP_LEAK) and why != "echo":
            self._gone(found, origin, rule=why)
        else:
            if origin == CONTENT:
                self._left(out, rule="not_last")
            self._tally.add(Finding.TOOL_MARKUP_LEAK, "left", rule=why, where=origin)
            self._text(found.text, origin, out)

    def before_text(self, text: str, out: list[Piece]) -> bool:
        """Content is next. True where it is white space behind a call: it waits, and goes if nothing more comes."""
        if text.isspace() and self._holding(text, len(text)):
            return True
        self._behind = False
        self._left(out, rule="not_last")
        return False

    def engine_call(self, name: str, arguments: str) -> None:
        """The engine sends this call itself: the same call as text is only its markup."""
        told = (name, _value(arguments))
        self._told.append(told)
        for item in self._pending:
            if isinstance(item, _Made):
                self._untold(item, told)
        self._pending = [item for item in self._pending if isinstance(item, str) or item.calls]

    # ------------------------------------------------------------------ endings

    def finish(self, out: list[Piece], *, ended: bool) -> None:
        """The answer is over. `ended`: by itself, or at the token limit behind whole calls."""
        if not ended:
            self._left(out, rule="broken_off")
        for item in self._taken():
            if isinstance(item, _Made):
                self._send(item, out)
            else:
                self._tally.characters_suppressed += len(item)

    def release(self, out: list[Piece]) -> None:
        """The answer broke off: what is held is text (contract rule 6)."""
        self._left(out, rule="broken_off")

    # ------------------------------------------------------------------ one region

    def _calls(self, found: ToolText, tooling: Tooling) -> tuple[list[_Ready], str]:
        """The calls that may be made of a region; where there is none, why."""
        if found.broken:
            return [], "malformed"
        whole = [call for call in found.calls if call.closed]
        if any(map(tooling.said, _verbatim(found, whole))):
            return [], "echo"
        ready = [each for each in (self._ready(call, tooling) for call in whole) if each is not None]
        good = [each for each in ready if each.arguments.valid]
        room = self._room(tooling)
        if good and room != 0:
            return good[:room], ""
        if good:
            return [], "parallel"
        return [], "arguments" if ready else "undeclared" if whole else "incomplete"

    def _ready(self, call: Call, tooling: Tooling) -> _Ready | None:
        name = self._name(call, tooling)
        if name is None:
            return None
        schema = tooling.schemas[name]
        arguments = arguments_of(call, schema)
        if schema and _value(arguments.text) == schema:
            return None  # the tool's declaration, told again
        return _Ready(name, arguments, bool(call.name) and name != call.name)

    def _room(self, tooling: Tooling) -> int | None:
        """How many calls may still be made; None: any number."""
        if tooling.parallel:
            return None
        waiting = sum(len(item.calls) for item in self._pending if isinstance(item, _Made))
        return max(0, 1 - self.made - len(self._told) - waiting)

    def _name(self, call: Call, tooling: Tooling) -> str | None:
        """The declared tool that a call means, or None."""
        name = call.name.strip()
        if not name:
            takers = [each for each, schema in tooling.schemas.items() if _takes(call, schema)]
            name = takers[0] if len(takers) == 1 else ""
        if name not in tooling.schemas:
            name = name.removeprefix(_PREFIX)
        denied = any(fnmatchcase(name, glob) for glob in self._setting.policy.tool_rescue.deny)
        other = tooling.choice == "named" and name != tooling.named
        return name if name in tooling.schemas and not denied and not other else None

    # ------------------------------------------------------------------ calls that go out while they are read

    def _grow(self, found: ToolText, so_far: Callable[[], str], tooling: Tooling, out: list[Piece]) -> None:
        """A region goes on: send what is certain of its calls, one after the other."""
        for place in range(max(0, len(self._live) - 1), len(found.calls)):  # those before the last live one are over
            if place == len(self._live) and not self._begins(found.calls, so_far, tooling, out):
                return
            live, call = self._live[place], found.calls[place]
            if place == len(found.calls) - 1:
                self._add(live.more(call), out)
            elif not live.over:
                self._ends(live, call, tooling, out)

    def _begins(self, calls: tuple[Call, ...], so_far: Callable[[], str], tooling: Tooling, out: list[Piece]) -> bool:
        """Send the name of the next call once its arguments begin; not where its beginning stands in the request."""
        place = len(self._live)
        call, behind = calls[place], calls[place - 1].end if place else 0
        if self._waits or not call.name or not (call.arguments or call.json or call.closed):
            return False
        name = self._name(call, tooling) if not call.json or call.json[0].startswith("{") else None
        if name is None or self._room(tooling) == 0 or tooling.said(so_far()[behind:]):
            self._waits = True
            return False
        self._live.append(LiveCall(tooling.schemas[name]))
        self._call_next(out)
        self.made += 1
        out.append((CALL, ToolCall(name=name, arguments="", ident=self._ident(name))))
        return True

    def _ends(self, live: LiveCall, call: Call, tooling: Tooling, out: list[Piece]) -> None:
        """Send the rest of a call; where that is not to be had, the answer is broken."""
        name = self._name(call, tooling)
        whole = arguments_of(call, tooling.schemas[name]) if name is not None and call.closed else None
        rest = live.rest(whole) if whole else None
        self.broken = self.broken or rest is None
        self._add(rest or "", out)

    def _grown(self, found: ToolText, tooling: Tooling, out: list[Piece], *, cut: bool) -> ToolText:
        """A region has ended of which calls went out: what is left of it."""
        live, self._live = self._live, []
        for each, call in zip(live, found.calls, strict=False):
            if not (each.over or (cut and not call.closed)):  # cut by the token limit: the finish reason says so
                self._ends(each, call, tooling, out)
        self.broken = self.broken or found.broken
        return replace(found, calls=found.calls[len(live) :])

    @staticmethod
    def _add(text: str, out: list[Piece]) -> None:
        if text:
            out.append((CALL, ToolCall(name="", arguments=text, ident=None, more=True)))

    # ------------------------------------------------------------------ what is done

    def _wanted(self, made: _Made, out: list[Piece], *, late: bool) -> None:
        """Calls of a whole region: now, or with the end of the answer, where only that shows that nothing follows."""
        for told in self._told:
            self._untold(made, told)
        if late and made.calls:
            if not self._holding(made, len(made.text)):
                self._pending.append(made)
                self._left(out, rule="cap")
        elif made.calls:
            self._send(made, out)

    def _untold(self, made: _Made, told: tuple[str, Any]) -> None:
        """Take a call that the engine sends itself from those that were left as text."""
        left = [each for each in made.calls if (each.name, _value(each.arguments.text)) != told]
        if len(left) < len(made.calls):
            made.calls = left
            self._removed(made.where, rule="told")

    def _holding(self, item: _Made | str, size: int) -> bool:
        """Hold one more item, unless it is too much."""
        self._size += size
        if self._size > self._setting.limits.tool_region:
            return False
        self._pending.append(item)
        return True

    def _send(self, made: _Made, out: list[Piece]) -> None:
        self._call_next(out)
        for each in made.calls:
            self.made += 1
            out.append((CALL, ToolCall(name=each.name, arguments=each.arguments.text, ident=self._ident(each.name))))
            self._count(each, made.where)

    def _count(self, ready: _Ready, where: str) -> None:
        """What is told of a call that went out. In raw text it is the dialect's own (contract rule 10)."""
        if not self._setting.raw:
            self._tally.add(Finding.TOOL_RESCUED, "rescued", where=where, done=True)
        if ready.renamed:
            self._tally.add(Finding.TOOL_NAME_REPAIRED, "repaired", where=where, done=True)
        if ready.arguments.repaired:
            self._tally.add(Finding.TOOL_ARGS_REPAIRED, "repaired", where=where, done=True)
        schemas = self._setting.tooling.schemas if self._setting.tooling else {}
        if problems(ready.arguments.text, schemas.get(ready.name)):
            self._tally.add(Finding.TOOL_ARGS_INVALID, "flagged", where=where)

    def _ident(self, name: str) -> str | None:
        template = self._setting.tooling.ident if self._setting.tooling else None
        self._number += 1
        return template.format(name=name, number=self._number - 1) if template else None

    def _call_next(self, out: list[Piece]) -> None:
        self._outlet.before_tools(out)
        self._outlet.said = self._behind = True

    def _taken(self) -> list[_Made | str]:
        """What is held; nothing is afterwards."""
        pending, self._pending, self._size = self._pending, [], 0
        return pending

    def _left(self, out: list[Piece], *, rule: str) -> None:
        """What is held was no call: it goes out as the text it is."""
        for item in self._taken():
            if isinstance(item, str):
                self._text(item, CONTENT, out)
            else:
                self._tally.add(Finding.TOOL_MARKUP_LEAK, "left", rule=rule, where=item.where)
                self._text(item.text, item.where, out)

    def _text(self, text: str, origin: str, out: list[Piece]) -> None:
        if origin == CONTENT and self._outlet.dedup.on:
            self._outlet.settle_dedup(out, stopped=True)
        self._outlet.send(origin, text, out)

    def _gone(self, found: ToolText, where: str, *, rule: str) -> None:
        self._tally.characters_suppressed += len(found.text)
        self._removed(where, rule=rule)

    def _removed(self, where: str, *, rule: str) -> None:
        """Markup of the dialect in raw text is no finding (contract rule 10)."""
        if not self._setting.raw:
            self._tally.add(Finding.TOOL_MARKUP_LEAK, "removed", rule=rule, where=where, done=True)

    def _unwanted(self, found: ToolText, origin: str) -> None:
        """No call may be made of anything: markup goes (contract rule 5), what is none stays."""
        if found.broken:
            action = "left" if found.control else ""
        else:
            action = "removed"
            self._tally.characters_suppressed += len(found.text)
        if action:
            self._tally.add(Finding.TOOL_MARKUP_LEAK, action, rule="not_asked", where=origin, done=bool(found.text))

    def _watched(self, found: ToolText, calls: list[_Ready]) -> None:
        """The text went out, or goes out, as text: it is only counted."""
        where = REASONING if found.thought else CONTENT
        declared = self._setting.tooling.schemas if self._setting.tooling else {}
        self.seen = self.seen or bool(calls)
        for _ in calls:
            self._tally.add(Finding.TOOL_RESCUED, "rescued", where=where, done=False)
        malformed = not calls and (found.broken or found.rest)
        if malformed and (found.control or any(call.name in declared for call in found.calls)):
            self._tally.add(Finding.TOOL_MARKUP_LEAK, "left", rule="malformed", where=where)


def _verbatim(found: ToolText, calls: list[Call]) -> list[str]:
    """What would stand in the request if it was only repeated: a call as it is written, else the region.

    Not a bare name. A request that says the region says its calls.
    """
    bodies = [body for call in calls if _MARKUP.search(body := found.text[call.begin : call.end])]
    return bodies or [found.text]


def _takes(call: Call, schema: Any) -> bool:
    """The model left the name out: would this tool take the arguments?"""
    arguments = arguments_of(call, schema)
    return arguments.valid and not problems(arguments.text, schema)


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
