"""Reads an answer of any endpoint, and says in a few words what is wrong with it.

`right`, or what is not: `leaked N` characters in a field that should not have them, `lost N` characters of what is
right that are in no field, and the words of `ALSO`. White space at the edges of a text is the engine's and not judged.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.protocols.legal import CHECKERS
from tests.engine.scenarios import Right
from tests.support import messages, responses
from tests.traces.answers import read_answer, value

RIGHT = "right"
ENDS = ("finish_reason", "stop_reason")
MARKER = re.compile(r"</?think>|<\|(?:open|close)\|>\w+<\|sep\|>")
"""Of the families under test. A marker that leaks must not count as the letters that are lost."""
ALSO = {
    "mixed": "one event carried reasoning and content together; clients that read one of them drop the other",
    "call": "a tool call is missing, or is another one",
    "ends otherwise": "another finish reason or stop reason than the engine's own",
    "other fields": "a field of the answer that the engine did not send to this request, or one that is missing",
    "illegal": "the events break the order that the protocol documents",
    "error": "no answer, or an error in its stream",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `status`: of HTTP."""

    endpoint: str
    stream: bool
    status: int
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON of every event, or the one body."""
        if not self.stream:
            return [json.loads(self.body)]
        return [event for _, event in responses.events_of(self.body)]


@dataclass(slots=True)
class Heard:
    """One choice as a client joins it. `ends`: the finish reason and what stopped it."""

    reasoning: str = ""
    content: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    ends: tuple[Any, Any] = (None, None)
    mixed: bool = False


def verdict(right: Sequence[Right], answer: Answer, *, engine: Answer) -> str:
    """What is wrong with `answer`. `engine`: the engine's own to the same request; may be the same."""
    if answer.status != 200 or any("error" in event and event["error"] for event in answer.events):
        return "error"
    heard = hear(answer)
    assert len(heard) == len(right), "another number of choices"
    pairs = list(zip(right, heard, strict=True))
    own = {choice.ends for choice in hear(engine)} if engine.status == 200 else set()
    said = {
        f"leaked {sum(leaked(r, h) for r, h in pairs)}": any(leaked(r, h) for r, h in pairs),
        f"lost {sum(lost(r, h) for r, h in pairs)}": any(lost(r, h) for r, h in pairs),
        "mixed": any(h.mixed for h in heard),
        "call": any(list(r.calls) != h.calls for r, h in pairs),
        "ends otherwise": {h.ends for h in heard} != own,
        "other fields": fields_of(answer) != fields_of(engine),
        "illegal": answer is not engine and bool(_violations(answer)),
    }
    return ", ".join(word for word, holds in said.items() if holds) or RIGHT


def received(answer: Answer) -> str:
    """The texts of an answer as they came, for people."""
    if answer.status != 200:
        return f"HTTP {answer.status}"
    return shown([(choice.reasoning, choice.content) for choice in hear(answer)])


def shown(choices: Iterable[tuple[str, str]]) -> str:
    """Reasoning and content of each choice in one line."""
    return " ‖ ".join(f"{reasoning} ¦ {content}" for reasoning, content in choices)


def leaked(right: Right, heard: Heard) -> int:
    """Characters of a field that are not those which it should have, in their order."""
    reasoning, content = heard.reasoning.strip(), heard.content.strip()
    kept = common(reasoning, right.reasoning.strip()) + common(content, right.content.strip())
    return len(reasoning) + len(content) - kept


def lost(right: Right, heard: Heard) -> int:
    """Characters that should be there and are in neither field; those of a marker that is text only with it whole."""
    wanted, said = right.reasoning.strip() + right.content.strip(), heard.reasoning + heard.content
    quoted = Counter(MARKER.findall(wanted)) - Counter(MARKER.findall(said))
    bare = MARKER.sub("", wanted)
    return len(bare) - common(bare, MARKER.sub("", said)) + sum(map(len, quoted.elements()))


def common(one: str, other: str) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for letter in one:
        above = row
        row = [0]
        for at, same in enumerate(other, 1):
            row.append(above[at - 1] + 1 if letter == same else max(above[at], row[-1]))
    return row[-1]


def hear(answer: Answer) -> list[Heard]:
    """The choices of an answer, by index."""
    match answer.endpoint:
        case "chat":
            return list(_chat(answer))
        case "completions":
            return list(_completions(answer))
        case "responses":
            return [_responses(answer)]
        case _:
            return [_messages(answer)]


def _chat(answer: Answer) -> Iterator[Heard]:
    ends = _ends(answer)
    for index, said in sorted(read_answer(answer.body, stream=answer.stream).items()):
        calls = [(name, value(arguments)) for _, (name, arguments) in sorted(said.calls.items())]
        yield Heard(said.reasoning, said.content, calls, ends[index], said.mixed)


def _completions(answer: Answer) -> Iterator[Heard]:
    texts: dict[int, str] = {}
    for choice in _choices(answer):
        texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    ends = _ends(answer)
    for index, text in sorted(texts.items()):
        yield Heard(content=text, ends=ends[index])


def _responses(answer: Answer) -> Heard:
    events = answer.events
    response = events[-1]["response"] if answer.stream else events[0]
    reasoning, content, calls = responses.heard(events) if answer.stream else responses.told(response["output"])
    return Heard(reasoning, content, [(name, value(text)) for name, text in calls], (response["status"], None))


def _messages(answer: Answer) -> Heard:
    heard = Heard()
    if not answer.stream:
        (message,) = answer.events
        for block in message["content"]:
            heard.reasoning += block.get("thinking", "")
            heard.content += block.get("text", "")
        heard.ends = (message["stop_reason"], message.get("stop_sequence"))  # vLLM leaves out what is null
    for _, event in messages.frames(answer.body) if answer.stream else ():
        delta = event.get("delta", {})
        heard.reasoning += delta.get("thinking", "")
        heard.content += delta.get("text", "")
        if event["type"] == "message_delta":
            heard.ends = (delta["stop_reason"], delta.get("stop_sequence"))
    return heard


def _choices(answer: Answer) -> Iterator[dict[str, Any]]:
    for event in answer.events:
        yield from event.get("choices") or ()


def _ends(answer: Answer) -> dict[int, tuple[Any, Any]]:
    ends: dict[int, tuple[Any, Any]] = {}
    for choice in _choices(answer):
        if choice[ENDS[0]] is not None or not answer.stream:
            ends[choice["index"]] = (choice[ENDS[0]], choice.get(ENDS[1]))
    return ends


def fields_of(answer: Answer) -> set[str]:
    """Names of what an answer with choices says beside its texts; of the other endpoints nothing."""
    if answer.endpoint not in ("chat", "completions"):
        return set()
    holders = [*answer.events, *_choices(answer)]
    return {name for holder in holders for name, said in holder.items() if said is not None and name not in ENDS}


def _violations(answer: Answer) -> list[str]:
    checkers = {name: CHECKERS[name] for name in ("messages", "responses")}
    check = checkers.get(answer.endpoint)
    return check(answer.body) if check and answer.stream else []
