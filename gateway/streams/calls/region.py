"""One region of tool calls: white space, bodies, what may stand between them, and the closer.

Owns where a region ends and whether it is one at all. What a body looks like is the body's own; whether a call may be
made of it is decided floors above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.streams.calls.call import Body, BodyReader, Call, Status
from gateway.streams.calls.scan import startswith_any
from gateway.streams.markers import Plan
from gateway.streams.tokens import plain

GAP: Final = 64  # characters of white space behind a body that needs no closer, and behind what may join another one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegionRules:
    """A region, compiled. `close`: its closers; none: it ends behind its last body. `ended_by`: markers that end it and
    are not part of it. `between`: literals that may stand beside a body. `head`: finds the `name` of the call in the
    text of the header that opened the region. `section`: bodies have closers of their own, so that what follows a good
    one can be told from it. `inside`: openers that are the beginning of a body. `markerless`, `control`,
    `ends_thought`: as `gateway.rulebook.dialect.ToolRegion`.
    """

    close: tuple[str, ...]
    ended_by: tuple[str, ...]
    between: tuple[str, ...]
    bodies: tuple[Body, ...]
    head: re.Pattern[str] | None
    section: bool
    inside: frozenset[str]
    markerless: bool
    control: bool
    ends_thought: bool
    literals: tuple[str, ...]
    plan: Plan[str]  # literal -> "close" | "ended_by" | "between"


def region_rules(
    *,
    open: tuple[str, ...],
    close: tuple[str, ...],
    ended_by: tuple[str, ...],
    between: tuple[str, ...],
    bodies: tuple[Body, ...],
    head: str | None,
    markerless: bool,
    control: bool,
    ends_thought: bool,
) -> RegionRules:
    """Compile a region. A literal that closes it is nothing else in it."""
    kinds = {
        **dict.fromkeys(between, "between"),
        **dict.fromkeys(ended_by, "ended_by"),
        **dict.fromkeys(close, "close"),
    }
    return RegionRules(
        close=close,
        ended_by=ended_by,
        between=between,
        bodies=bodies,
        head=re.compile(head) if head else None,
        section=any(getattr(body, "close", ()) for body in bodies),
        inside=frozenset(t for t in open if any(body.lead(t, 0, final=not markerless) is not False for body in bodies)),
        markerless=markerless,
        control=control,
        ends_thought=ends_thought,
        literals=tuple(kinds),
        plan=Plan(kinds),
    )


class CallRegion:
    """Reads the text behind a region's opener. `head`: the text of the header that opened it. `lenient`: a call that is
    broken leaves the region one, to its closer; for text that goes out as it comes, and cannot be read again.

    `calls` grows as bodies are read. `rest`: a good call was followed by something that is none, which is read to the
    region's closer and belongs to no call. `begun`: a body has begun, so that this was meant as a call. At
    `Status.DONE` `closed` tells whether one of the region's own closers ended it.
    """

    __slots__ = (
        "_at",
        "_bare",
        "_begin",
        "_body",
        "_head",
        "_lenient",
        "_rules",
        "_until",
        "begun",
        "calls",
        "closed",
        "rest",
        "status",
    )

    def __init__(self, rules: RegionRules, *, head: str, begin: int, lenient: bool = False) -> None:
        self._rules = rules
        self._lenient = lenient and bool(rules.close)
        self._until = (*rules.close, *rules.ended_by)
        self._body: BodyReader | None = None
        self._at = begin  # of what comes next, in the region's text
        self._bare = head in rules.inside  # there is no wrapper, so that none has to be closed
        self._begin = 0  # of the open body
        self.calls: list[Call] = []
        found = rules.head.search(plain(head)) if rules.head else None
        self._head = found["name"] if found else ""
        self.begun = found is not None
        self.rest = False
        self.closed = False
        self.status = Status.OPEN

    @property
    def complete(self) -> bool:
        """True where a natural end of the output here leaves whole calls: only outer closers are missing."""
        if self._body is not None:
            return self._body.complete
        return bool(self.calls or self._head) and not self.rest

    @property
    def begun_calls(self) -> tuple[Call, ...]:
        """The calls so far; that of the open body grows."""
        return (*self.calls, *self._body.calls) if self._body else tuple(self.calls)

    def read(self, text: str, at: int, *, final: bool) -> int:
        """Read on from `at`; returns the place up to which it was read, as `BodyReader.read`."""
        while self.status is Status.OPEN:
            begun = at
            body = self._body
            if body is not None:
                at = body.read(text, at, final=final)
            elif self.rest or not self._rules.bodies:
                at = self._skip(text, at, final=final)
            else:
                at = self._next(text, at, final=final)
            self._at += at - begun
            if body is not None and body.status is not Status.OPEN:
                self._ended(body)
            elif self._body is not body:
                self._begin = self._at
            elif at == begun:
                break
        return at

    def cut(self) -> None:
        """The output was cut before the region's closer: no call in it is whole, where only that closes one."""
        for call in self.finish():
            call.closed = False

    def finish(self) -> list[Call]:
        """The calls of a region whose text has ended. Those of an open body count as closed where it is `complete`."""
        if self._body is not None:
            complete = self._body.complete
            self._take(self._body, closed=complete)
        if not self.calls and self._head and not self.rest:
            self.calls.append(Call(self._head, json=["{}"], closed=True, end=self._at))
        return self.calls

    def _take(self, body: BodyReader, *, closed: bool) -> None:
        for call in body.calls:
            call.begin, call.end = self._begin, self._at
            call.closed = call.closed or closed
            if self._head and not call.name:
                call.name, call.begin = self._head, 0
        self.calls += body.calls
        self._body = None

    def _ended(self, body: BodyReader) -> None:
        """A body ended, well or not."""
        if body.status is Status.DONE:
            self._take(body, closed=True)
        elif self.calls and self._rules.section:
            self._body, self.rest = None, True
        else:
            self._take(body, closed=False)
            self.rest = self._lenient
            self.status = Status.OPEN if self.rest else Status.BROKEN

    def _next(self, text: str, at: int, *, final: bool) -> int:
        """Where no body is open: white space, then a closer, what may stand between, or the next body."""
        if self.calls and (self._bare or not self._rules.close):
            return self._next_or_over(text, at, final=final)
        at = _past_space(text, at)
        if at == len(text):
            return at
        found = startswith_any(text, self._rules.literals, at, final=final)
        if found:
            return self._on_literal(text[at:found], at)
        if final and self.calls and any(literal.startswith(text[at:]) for literal in self._rules.close):
            return len(text)  # a closer cut short: it is as missing as one that never began
        leads = self._lead(text, at, final=final)
        if final and leads is False and self._cut_short(text, at):
            self.begun = True  # the end cut it before it could be told from anything else
            return len(text)
        if leads is False and found is not None:
            if self.calls and self._rules.section:
                self.rest = True
                return self._skip(text, at, final=final)
            self.status = Status.BROKEN
        return at

    def _cut_short(self, text: str, at: int) -> bool:
        """True where the text's end is the beginning of a body, or of a literal of the region."""
        bodies = [body.lead(text, at, final=False) for body in self._rules.bodies]
        return None in bodies or startswith_any(text, self._rules.literals, at, final=False) is None

    def _lead(self, text: str, at: int, *, final: bool) -> bool | None:
        """Open the body that begins at `at`: the first that does not say no decides. None: more text decides."""
        for body in self._rules.bodies:
            leads = body.lead(text, at, final=final)
            if leads:
                self._body = body.open(until=self._until)
                self.begun = True
            if leads is not False:
                return leads
        return False

    def _next_or_over(self, text: str, start: int, *, final: bool) -> int:
        """A region that needs no closer ends behind its last body, unless a closer or another body follows.

        How far is looked for them depends on the white space, never on the cuts.
        """
        at = _past_space(text, start)
        found = at - start <= GAP and startswith_any(text, self._rules.literals, at, final=final)
        kind = self._rules.plan.rules[text[at:found]] if found else ""
        if found and kind != "between":
            return self._on_literal(text[at:found], at)
        behind = _past_space(text, found) if found else at
        near = at - start <= GAP and (not found or behind - found <= GAP)
        waits = near and (found is None or behind == len(text))
        if near and not waits and (found or self._bare):
            leads = self._lead(text, behind, final=final)
            if leads:
                return behind
            waits = leads is None
        if final or not waits or not (self._bare or self._rules.literals):
            self.status = Status.DONE
            self.closed = True
        return start

    def _on_literal(self, literal: str, at: int) -> int:
        kind = self._rules.plan.rules[literal]
        if kind == "between":
            return at + len(literal)
        self.status = Status.DONE
        self.closed = kind == "close"
        return at + len(literal) if self.closed else at

    def _skip(self, text: str, at: int, *, final: bool) -> int:
        """Everything up to a closer: the rest of a section, or a region whose bodies nobody knows."""
        plan = self._rules.plan
        begin, end, cut = plan.next(text, at, final=final)
        if begin < 0:
            return cut
        return end if plan.rules[text[begin:end]] == "between" else self._on_literal(text[begin:end], begin)


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
