"""Where an answer starts that goes on with the request's last assistant turn, told by that turn.

Owns which turn says something. What it says is a fact of this very request (contract rule 9), so it beats the route's
`starts_in` and the members that turn thinking on or off: they speak of a turn that begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.events import Decision, Effect, Group
from gateway.exchange.prompts import ends_in_opener
from gateway.exchange.route import RouteRules
from gateway.limits import Limits
from gateway.protocols.protocol import RequestFacts
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.streams.grammar import State, Takes
from gateway.streams.regions import RegionReader
from gateway.streams.verdicts import THINKING

Thinking = tuple[str, str]
"""`on`, `off` or `unknown`, and what decided, for people."""

INSIDE: Final[Thinking] = ("on", "the last turn ends in its thought")
PAST: Final[Thinking] = ("off", "the last turn is past its thought")
_SPOKEN: Final = (State.OPENABLE, State.ANSWER)
_CLOSERS: Final = (Group.THINK_CLOSE, Group.ANSWER_OPEN)


def turn_says(facts: RequestFacts, rules: RouteRules) -> Thinking | None:
    """Whether the model thinks where it goes on; None where the turn does not tell.

    Visible text without any thought is past it where the engine renders the turn by its template (vLLM). SGLang puts
    it behind the prompt of a new turn, which may have opened a thought; what others do is not known. A family of
    messages names the channel in a header that the engine writes, so that the text does not tell it.
    """
    turn, dialect = facts.last_turn, rules.dialect
    if turn is None or dialect is None or dialect.message_close or len(turn.text) > rules.limits.last_turn:
        return None
    if turn.engines and rules.engine not in turn.engines:
        return None
    state, closed = _read(turn.text, dialect, rules.limits)
    if state in THINKING or ends_in_opener(turn.text, dialect):
        return INSIDE
    return PAST if closed or (state in _SPOKEN and rules.engine == "vllm") else None


def _read(text: str, dialect: Dialect, limits: Limits) -> tuple[State, bool]:
    """Where the reader stands behind the turn, and whether a thought was closed in it."""
    reader = RegionReader(
        compile_dialect(replace(dialect, invented=())),  # what the engine's parser writes of its own is no prompt
        starts_open=False,
        split=False,
        takes=Takes(),
        limits=limits,
    )
    segments = [*reader.feed(text), *reader.settle()]
    dropped = (item for _, item in segments if isinstance(item, Decision) and item.effect is Effect.DROP)
    return reader.state, any(item.group in _CLOSERS for item in dropped)
