"""What is known about one exchange before its answer comes: values from route, request and protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.limits import Limits
from gateway.policy import Policy
from gateway.rulebook.openings import Opening
from gateway.streams.grammar import Grammar, Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tooling:
    """The tools that a request declares. `schemas`: name to JSON schema. `choice`: `auto`, `none`, `required`, `named`.

    `named`: the one tool that was asked for. `parallel`: several calls in one answer are allowed. `ident`: how the
    family writes ids (`functions.{name}:{number}`), None: any. `calls_before`: calls in earlier turns. `said`: does a
    text stand verbatim in the request?
    """

    schemas: Mapping[str, Any]
    choice: str
    named: str | None
    parallel: bool
    ident: str | None
    calls_before: int
    said: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWindow:
    """An engine that splits the text may keep some of it back for the request's stop strings, and cut the thought late.

    `longest`: characters of the longest stop string. `closers`, `openers`: a thought's, as they are written. `desync`:
    engine, version and parser are known to cut this answer late; where that is not known, only a whole closer tells.
    """

    longest: int
    closers: tuple[str, ...]
    openers: tuple[str, ...]
    desync: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`grammar` None: nothing is read. `raw`: the content field is the raw text of the model (`source: text`).

    `starts_open`: the thought comes first (a fact of the route). `thinking_off`: the request or the route turned
    thinking off. `wanted`: the client asked to see the reasoning, so a repeat of it may be suppressed. `hidden`: the
    client gets no reasoning at all. `unsent`: the request asks the engine for none. `promotable`: the dialect's
    thoughts may be the answer. `openings`: beginnings of an answer that are counted. `end_strings`: how the string that
    the engine forces at the end of the thinking budget may arrive. `unmarked`: as `gateway.rulebook.dialect.Dialect`.
    `takes`: what is done with calls that are text. `tooling` None: the request declares no tools. `stop_window` None:
    the engine keeps nothing back.
    """

    grammar: Grammar | None
    raw: bool
    starts_open: bool
    thinking_off: bool
    wanted: bool
    hidden: bool
    unsent: bool
    promotable: bool
    policy: Policy
    limits: Limits
    openings: tuple[Opening, ...]
    end_strings: tuple[str, ...]
    unmarked: tuple[str, ...]
    takes: Takes
    tooling: Tooling | None
    stop_window: StopWindow | None
