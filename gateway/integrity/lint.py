"""What in a request invites a leak. A row here is a fact about the request and the dialect, never a guess."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.streams.grammar import Grammar


def lint(stops: Iterable[str], grammar: Grammar | None, *, desync: str | None) -> Iterator[str]:
    """The names of the rules that a request with these stop strings breaks, each once.

    `stop_white_space`: every thought has white space in it, so the engine stops there. `stop_in_marker`: the engine
    stops inside a marker, and its reader never sees it whole. `stop_desync:PARSER`: the engine keeps text back for a
    stop string, and `desync`, the parser that reads the stream there, then cuts the thought at the wrong place.
    """
    stops = tuple(stops)
    if any(text.isspace() for text in stops):
        yield "stop_white_space"
    markers = {text for plan in grammar.plans.values() for text in plan.rules} if grammar else set()
    if any(text in marker for text in stops for marker in markers if not text.isspace()):
        yield "stop_in_marker"
    if desync and any(len(text) > 1 for text in stops):  # for a single character nothing is kept back
        yield f"stop_desync:{desync}"
