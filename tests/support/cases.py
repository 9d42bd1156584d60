"""The rows of the tool-call corpora (`tests/corpus/*.jsonl`): served without a socket, and judged.

The rules of judging are those of the black-box conformance program, in one place and for chat completions only: what a
client joins from an answer is compared with the expectation of the row, or with any of its alternatives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from gateway.exchange import Overrides, RouteRules
from gateway.policy import Mode, Profile, ToolRescue
from gateway.rulebook.load import load_rulebook
from tests.exchange import driver

CORPUS = Path(__file__).parents[1] / "corpus"
CUTS = (1, 2, 3, 7, 1 << 30)
TEXTS = ("content", "reasoning", "reasoning_content")
ALL = {"content": Mode.ENFORCE, "reasoning": Mode.ENFORCE, "markerless": Mode.ENFORCE}  # of `policy.tool_rescue`

Case = dict[str, Any]
Call = tuple[str, Any]


@dataclass(slots=True)
class Got:
    """What a client made of an answer. `calls`: name and arguments by index. `wrong`: what no answer may look like."""

    reasoning: str = ""
    content: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    finish: str | None = None
    findings: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    @property
    def told(self) -> list[Call]:
        """The calls in order; arguments as a value, or as text where they are no JSON."""
        return [(call["name"], value(call["arguments"])) for _, call in sorted(self.calls.items())]

    def same(self, case: Case) -> tuple[Any, ...]:
        """What must not depend on how the answer was cut."""
        return (norm(case, self.reasoning), norm(case, self.content), json.dumps(self.told, sort_keys=True))


def rows(name: str) -> list[Case]:
    """The rows of one file."""
    return [json.loads(line) for line in (CORPUS / f"{name}.jsonl").read_text("utf-8").splitlines()]


def value(arguments: Any) -> Any:
    """Arguments as a JSON value; what is none stays as it is."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def norm(case: Case, text: str | None) -> str:
    """Text as the row wants it compared."""
    return (text or "") if case["match"] == "exact" else (text or "").strip()


# ---------------------------------------------------------------------- serving


@cache
def _rules(route: str) -> RouteRules:
    case = json.loads(route)
    return driver.route(
        profile=Profile.FULL,
        source=case["source"],
        starts_in=case["starts_in"],
        read_as=load_rulebook().resolve(case["dialect"], engine=case.get("engine")).dialect,
        tool_rescue=ToolRescue(**{**ALL, **{name: _setting(said) for name, said in case["rescue"].items()}}),
    )


def _setting(said: Any) -> Any:
    return tuple(said) if isinstance(said, list) else Mode(said) if said in set(Mode) else said


def rules(case: Case) -> RouteRules:
    """The route of a row, everything that may be rescued enforced but for what its key `rescue` says."""
    route = {key: case.get(key) for key in ("dialect", "engine", "source", "starts_in")} | {
        "rescue": case.get("rescue", {})
    }
    return _rules(json.dumps(route))


def variants(case: Case, cuts: tuple[int, ...] = CUTS) -> dict[str, Got]:
    """The answer of a row at every way of sending it. The first is the row's own."""
    if "message" in case:
        return {"plain": plain(case, case["message"]), "quiet": plain(case, case["message"], report=False)}
    pieces = [{"content": piece} if isinstance(piece, str) else piece for piece in case["pieces"]]
    got = {
        "as is": streamed(case, pieces),
        "quiet": streamed(case, pieces, report=False),
        "tail": streamed(case, pieces, tail=True),
    }
    if case["cut"]:
        got |= {f"cut {size}": streamed(case, list(recut(pieces, size))) for size in cuts}
        got["plain"] = plain(case, as_message(pieces))
    return got


def recut(pieces: list[dict[str, Any]], size: int) -> Iterator[dict[str, Any]]:
    """Neighbouring text of one field, joined and cut into pieces of `size` characters."""
    for name, run in groupby(pieces, key=lambda piece: next(iter(piece)) if len(piece) == 1 else None):
        if name not in TEXTS:
            yield from run
            continue
        text = "".join([piece[name] for piece in run])
        yield from ({name: text[at : at + size]} for at in range(0, len(text), size))


def as_message(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """The same answer as the message of a plain body."""
    message: dict[str, Any] = {"content": None}
    calls: dict[int, dict[str, Any]] = {}
    for piece in pieces:
        for name in TEXTS:
            if name in piece:
                message[name] = (message.get(name) or "") + piece[name]
        for part in piece.get("tool_calls") or ():
            call = calls.setdefault(part["index"], part | {"function": {"name": None, "arguments": ""}})
            call["function"]["name"] = call["function"]["name"] or part["function"].get("name")
            call["function"]["arguments"] += part["function"].get("arguments") or ""
    return message | ({"tool_calls": list(calls.values())} if calls else {})


def _request(case: Case, *, stream: bool) -> dict[str, Any]:
    return {**case["request"], "stream": stream}


def streamed(case: Case, pieces: list[dict[str, Any]], *, tail: bool = False, report: bool = True) -> Got:
    """A streamed answer of these deltas. `tail`: the finish reason comes with the last text, not behind it."""
    rides = tail and bool(pieces) and "tool_calls" not in pieces[-1]
    reads = [driver.delta(role="assistant", content="")]
    reads += [driver.delta(**piece) for piece in (pieces[:-1] if rides else pieces)]
    reads += [driver.delta(**(pieces[-1] if rides else {}), finish=case["finish"]), driver.DONE]
    request = _request(case, stream=True)
    answer = driver.streamed(reads, rules(case), request=request, overrides=Overrides(report=report))
    got = Got(wrong=[] if answer.complete else ["the body broke off"])
    finishes = 0
    for event in answer.events:
        if event == "[DONE]":
            continue
        got.findings |= _reported(event.get("integrity"))
        for choice in event["choices"]:
            _take(got, choice["delta"])
            got.finish = choice["finish_reason"] or got.finish
            finishes += choice["finish_reason"] is not None
    if finishes != 1 or answer.events.count("[DONE]") != 1 or answer.events[-1] != "[DONE]":
        got.wrong.append("not exactly one end")
    if answer.exchange.fault:
        got.wrong.append(answer.exchange.fault)
    return got


def plain(case: Case, message: dict[str, Any], *, report: bool = True) -> Got:
    """A plain answer with this message."""
    body = driver.message(case["finish"], **{name: part for name, part in message.items() if name != "role"})
    answer = driver.plain(body, rules(case), request=_request(case, stream=False), overrides=Overrides(report=report))
    whole = json.loads(answer.body)
    (choice,) = whole["choices"]
    got = Got(finish=choice["finish_reason"], findings=_reported(whole.get("integrity")))
    _take(got, choice["message"], whole=True)
    if answer.exchange.fault:
        got.wrong.append(answer.exchange.fault)
    return got


def _reported(report: dict[str, Any] | None) -> set[str]:
    return {row["finding"] for row in report["findings"]} if report else set()


def _take(got: Got, said: dict[str, Any], *, whole: bool = False) -> None:
    """Join one delta, or a whole message, as a client does."""
    reasoning, content, calls = said.get("reasoning") or "", said.get("content") or "", said.get("tool_calls")
    got.reasoning += reasoning
    got.content += content
    if reasoning != (said.get("reasoning_content") or ""):
        got.wrong.append("reasoning and reasoning_content differ")
    if calls == []:
        got.wrong.append("an empty list of calls")
    if reasoning and (content or calls) and not whole:
        got.wrong.append("mixed")
    for place, part in enumerate(calls or ()):
        call = got.calls.setdefault(place if whole else part["index"], {"id": "", "name": "", "arguments": ""})
        if part.get("id") and call["id"] not in ("", part["id"]):
            got.wrong.append("one index, two calls")
        call["id"] = part.get("id") or call["id"]
        call["name"] += part["function"].get("name") or ""
        arguments = part["function"].get("arguments") or ""
        call["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)
        if not isinstance(arguments, str):
            got.wrong.append("arguments are no string")


# ---------------------------------------------------------------------- judging


def wrong(case: Case, got: Got, *, findings: bool) -> list[str]:
    """What is wrong with an answer, by the expectation or the alternative that comes nearest; empty: nothing."""
    if got.wrong:
        return got.wrong
    expect = case["expect"]
    errors = []
    if "arguments_is_json_string" in expect.get("wire", ()):
        errors = [f"arguments: {name} has none" for name, arguments in got.told if isinstance(arguments, str)]
    options = [expect, *({**expect, "finish_reason": None, **other} for other in expect.get("alt", ()))]
    found = [errors + list(_compared(case, option, got, findings=findings)) for option in options]
    return min(found, key=len)


def _compared(case: Case, want: dict[str, Any], got: Got, *, findings: bool) -> Iterator[str]:
    for name in ("reasoning", "content"):
        if norm(case, want.get(name)) != norm(case, getattr(got, name)):
            yield f"{name}: want {want.get(name)!r}, got {getattr(got, name)!r}"
    calls = [(call["name"], value(call["arguments"])) for call in want.get("tool_calls") or ()]
    if not alike(calls, got.told):
        yield f"calls: want {calls}, got {got.told}"
    if got.finish not in _finishes(case, want):
        yield f"finish: got {got.finish}"
    if findings:
        asked, may = set(want.get("flags") or ()), set(want.get("flags_may") or ())
        if asked - got.findings or got.findings - asked - may:
            yield f"findings: want {asked}, perhaps {may}, got {got.findings}"


def _finishes(case: Case, want: dict[str, Any]) -> set[str]:
    """The row's; else the engine's, or `tool_calls` where calls are expected and the engine said stop."""
    if want.get("finish_reason"):
        return {want["finish_reason"]}
    if not want.get("tool_calls"):
        return {case["finish"], "stop"} if case["finish"] == "tool_calls" else {case["finish"]}
    named = isinstance(case["request"].get("tool_choice"), dict)
    return {case["finish"]} if case["finish"] != "stop" else {"tool_calls", "stop"} if named else {"tool_calls"}


def alike(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, 1 is 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
