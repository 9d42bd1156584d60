"""Settings and short runs for the tests of this floor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from gateway.events import ToolCall
from gateway.integrity.echo import Echo
from gateway.integrity.end_string import spellings
from gateway.integrity.outlet import Piece
from gateway.integrity.pipeline import Pipeline
from gateway.integrity.setting import Setting, StopWindow, Tooling
from gateway.integrity.tally import Tally
from gateway.limits import Limits
from gateway.policy import Profile, policy_for
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.openings import Opening
from gateway.streams.grammar import Grammar, Takes
from tests.support.tagged import NOTHING, TAGGED

LIMITS = Limits()
R, C = "reasoning", "content"


@cache
def grammar(name: str) -> Grammar | None:
    """The grammar of a shipped dialect, or of `tests.support.tagged`; None for `none`."""
    if name == TAGGED.name:
        return compile_dialect(TAGGED)
    found = load_rulebook().resolve(name, engine="vllm").dialect
    return compile_dialect(found) if found else None


def setting(
    name: str = "think",
    *,
    profile: Profile = Profile.FULL,
    raw: bool = False,
    starts_open: bool = False,
    thinking_off: bool = False,
    wanted: bool = False,
    hidden: bool = False,
    unsent: bool = False,
    promotable: bool = True,
    openings: tuple[Opening, ...] = (),
    end_string: str | None = None,
    unmarked: tuple[str, ...] = (),
    limits: Limits = LIMITS,
    takes: Takes = NOTHING,
    tooling: Tooling | None = None,
    stop_window: StopWindow | None = None,
    **policy: object,
) -> Setting:
    """A setting; `policy` goes over the defaults of the profile."""
    return Setting(
        grammar=grammar(name),
        raw=raw,
        starts_open=starts_open,
        thinking_off=thinking_off,
        wanted=wanted,
        hidden=hidden,
        unsent=unsent,
        promotable=promotable,
        policy=policy_for(profile, **policy),
        limits=limits,
        openings=openings,
        end_strings=spellings(end_string, ["</think>"]),
        unmarked=unmarked,
        takes=takes,
        tooling=tooling,
        stop_window=stop_window,
    )


def tooling(
    *names: str,
    schemas: Mapping[str, Any] | None = None,
    choice: str = "auto",
    named: str | None = None,
    parallel: bool = True,
    ident: str | None = None,
    calls_before: int = 0,
    request: object = None,
) -> Tooling:
    """The tools of a request: `names` without a schema, and those in `schemas`. `request`: its body."""
    declared: dict[str, Any] = {**{name: {} for name in names}, **(schemas or {})}
    return Tooling(
        schemas=declared,
        choice=choice,
        named=named,
        parallel=parallel,
        ident=ident,
        calls_before=calls_before,
        said=Echo(json.dumps(request or {}).encode()).said,
    )


class Run:
    """One choice. `sent` collects what the client gets, `counted` what the report says. `make`: its pipeline."""

    def __init__(self, given: Setting, make: Callable[[Setting, Tally], Pipeline] = Pipeline) -> None:
        self.tally = Tally(given.policy)
        self.pipeline = make(given, self.tally)
        self.sent: list[Piece] = []

    def push(self, *deltas: tuple[str, str]) -> Run:
        """Deltas of `(reasoning, content)`."""
        for reasoning, content in deltas:
            pieces = self.pipeline.push(reasoning, content)
            came = [piece for piece in ((R, reasoning), (C, content)) if piece[1]]
            self.take(came if pieces is None else pieces)
        return self

    def take(self, pieces: Iterable[Piece]) -> Run:
        """What a call let go."""
        self.sent += pieces
        return self

    def finish(self, reason: str = "stop", *, stop_string: bool = False) -> Run:
        """The end, by a finish reason."""
        ended = {"stopped": reason in ("stop", "tool_calls"), "length": reason == "length"}
        ended |= {"promotable": reason == "stop" and not stop_string, "stop_string": stop_string}
        return self.take(self.pipeline.finish(**ended, looped=reason == "repetition"))

    @property
    def said(self) -> tuple[str, str]:
        """Reasoning and content as the client joins them."""
        return self._text(R), self._text(C, "replay")

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Name and arguments of the calls that were made."""
        return [(item.name, item.arguments) for _, item in self.sent if isinstance(item, ToolCall)]

    @property
    def counted(self) -> dict[str, int]:
        """`finding/action` to its count."""
        counts: dict[str, int] = {}
        for row, count in self.tally.findings:
            key = f"{row.finding}/{row.action}"
            counts[key] = counts.get(key, 0) + count
        return counts

    def _text(self, *channels: str) -> str:
        return "".join([str(text) for channel, text in self.sent if channel in channels])
