"""Does an answer say what its script says? Joins the oracle with what is known of the server and the request."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tests.traces import oracle
from tests.traces.answers import Choice, value
from tests.traces.oracle import Answer
from tests.traces.recordings import Recording
from tests.traces.routes import Known, thinking_off

ENDED = ("stop", "tool_calls")  # by itself; anything else cut the answer short somewhere


def fits(recording: Recording, route: Known, index: int, engine: Choice, choice: Choice) -> bool:
    """True when `choice` is one of the answers that the script allows.

    White space at the edges is the engine's: parsers trim it or not. That the gateway leaves it alone is another test.
    """
    wanted = _allowed(recording, route, index, engine)
    return any(_same(answer, choice, calls=choice.finish in ENDED) for answer in wanted)


def wanted(recording: Recording, route: Known, index: int, engine: Choice) -> Answer:
    """The answer that the script says, had it not been cut short; for messages."""
    return next(_allowed(recording, route, index, engine))


def _allowed(recording: Recording, route: Known, index: int, engine: Choice) -> Iterator[Answer]:
    """The whole answer, and where it was cut short (`max_tokens`, an error, a disconnect) that of every beginning."""
    script = recording.emitted(index)
    if script is None and engine.reasoning:  # free generation that the engine split: nothing else is known
        yield Answer(engine.reasoning, engine.content)
        return
    raw = script is None
    text = oracle.visible(
        engine.content if script is None else script,
        stop=recording.request.get("stop") or (),
        specials=raw or _shows_specials(recording, route),
    )
    read = partial(
        oracle.expected,
        dialect=route.dialect,
        opens=route.opens and not thinking_off(recording, route) and not (raw and route.source == "fields"),
        tools=_tools(recording),
    )
    hidden = recording.request.get("include_reasoning") is False
    ended = engine.finish in ENDED
    for size in (len(text),) if ended or raw else range(len(text), -1, -1):
        answer = read(text[:size], stopped=ended)
        yield Answer("" if hidden else answer.reasoning, answer.content, answer.calls)


def _same(answer: Answer, choice: Choice, *, calls: bool) -> bool:
    texts = answer.reasoning.strip() == choice.reasoning.strip() and answer.content.strip() == choice.content.strip()
    return texts and (not calls or called_as(answer, choice))


def called_as(answer: Answer, choice: Choice) -> bool:
    """True where the calls of a choice are those of the answer, in its order."""
    return [(name, value(arguments)) for _, (name, arguments) in sorted(choice.calls.items())] == list(answer.calls)


def _shows_specials(recording: Recording, route: Known) -> bool:
    """vLLM hides special tokens unless asked; the parsers of families that need them ask. llama.cpp shows them."""
    asked = recording.request.get("skip_special_tokens") is False
    return asked or route.dialect in ("kimi_k3", "harmony") or not recording.server.startswith("vllm")


def _tools(recording: Recording) -> str:
    if not recording.request.get("tools"):
        return "absent"
    return "none" if recording.request.get("tool_choice") == "none" else "offered"
