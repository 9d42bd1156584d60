"""The tool-call and reasoning corpora served as Anthropic Messages: legal, and read as chat reads the same output.

What each row should say is judged where chat serves it (`test_calls.py`, `test_truth_table.py`); here the two protocols
are held against each other, streamed at several cuts, and the plain body against the stream, block by block.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.exchange import RouteRules
from gateway.policy import Mode, Profile, ToolRescue
from gateway.rulebook.load import load_rulebook
from tests.exchange import driver
from tests.support import cases, messages
from tests.support.cases import Case, Got
from tests.support.messages import STOP_REASONS, Answer, Piece

CALLS = ("bugs_tools", "vllm_tools", "sglang_tools", "tool_literals", "injection")
THOUGHTS = ("vllm_reasoning", "sglang_reasoning", "reader")
CUTS = (1, 5, 1 << 30)
READER = {"think": {"reasoning": "qwen3"}, "mm_think": {"reasoning": "minimax_m3"}, "kimi_k3": {"reasoning": "kimi_k3"}}

NOT_SAID = {"mixed_chunk_split", "usage_missing"}
"""Findings about what only a chunk of chat can look like."""

CLEAN_HERE = {"TAM-09"}
"""A call without any arguments: chat sends no text where JSON should be, a block without deltas has the input `{}`."""


def sayable(case: Case) -> bool:
    """Can a Messages engine send this answer? Each of its calls has one id and a name, and its input in pieces."""
    pieces = [piece for piece in case.get("pieces", ()) if isinstance(piece, dict)]
    calls: dict[int, list[dict[str, Any]]] = {}
    for part in (part for piece in pieces for part in piece.get("tool_calls", ())):
        calls.setdefault(part.get("index", 0), []).append(part)
    for parts in calls.values():
        functions = [part.get("function") or {} for part in parts]
        if not all(isinstance(each.get("arguments", ""), str) for each in functions):
            return False
        if not any(each.get("name") for each in functions) or len({part.get("id") for part in parts} - {None}) > 1:
            return False
    return "pieces" in case and case["request"].get("n", 1) == 1


def said(answer: Answer, case: Case) -> tuple[Any, ...]:
    """What a client makes of an answer, comparable with `Got.same`."""
    calls = {n: {"name": name, "arguments": made} for n, (name, made) in enumerate(answer.calls)}
    return Got(*answer.said, calls=calls).same(case)


def findings(answer: Answer) -> set[str]:
    assert answer.report
    return {found["finding"] for found in answer.report["findings"]}


def compared(case: Case, rules: RouteRules, chat: Got) -> list[str]:
    """How the Messages answers of a row differ from chat's, or among each other."""
    request, reason = messages.as_request(case["request"]), STOP_REASONS.get(case["finish"], case["finish"])
    pieces = messages.pieces_of(case["pieces"])
    ways: dict[str, list[Piece]] = {"as is": pieces}
    if case["cut"]:
        ways |= {f"cut {size}": messages.recut(pieces, size) for size in CUTS}
    wrong = []
    for way, sent in ways.items():
        answer = messages.streamed(messages.events(sent, reason=reason), rules, request=request, report=True)
        wrong += [f"{way}: {answer.content}"] if said(answer, case) != chat.same(case) else []
        wrong += (
            [f"{way}: {answer.reason}"] if answer.reason != STOP_REASONS.get(chat.finish or "", chat.finish) else []
        )
        found = findings(answer)
        wrong += [f"{way}: {found}"] if found != chat.findings - NOT_SAID and case["id"] not in CLEAN_HERE else []
    if case["cut"]:
        plain = messages.plain(messages.body(pieces, reason=reason), rules, request=request, report=True)
        same = (plain.kinds, said(plain, case), plain.reason) == (answer.kinds, said(answer, case), answer.reason)
        wrong += [] if same else [f"plain: {plain.content}"]
    return wrong


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_read_as_in_chat_and_every_stream_is_legal(name: str) -> None:
    sayable_rows = [case for case in cases.rows(name) if sayable(case)]
    assert len(sayable_rows) > 0.5 * len(cases.rows(name))
    chat = {case["id"]: cases.streamed(case, _deltas(case)) for case in sayable_rows}
    found = {case["id"]: compared(case, cases.rules(case), chat[case["id"]]) for case in sayable_rows}
    assert {identity: wrong for identity, wrong in found.items() if wrong} == {}


def _deltas(case: Case) -> list[dict[str, Any]]:
    return [{"content": piece} if isinstance(piece, str) else piece for piece in case["pieces"]]


@pytest.mark.parametrize("name", THOUGHTS)
def test_thoughts_are_read_as_in_chat_and_every_stream_is_legal(name: str) -> None:
    found = {}
    for row in cases.rows(name):
        named = row.get("bb_dialect") or READER.get(row["dialect"], row["dialect"])
        off = {"chat_template_kwargs": {"enable_thinking": False}} if row.get("thinking") is False else {}
        case = {
            **{"id": row["id"], "request": off, "pieces": [row["raw_text"]], "cut": True, "match": "exact"},
            "finish": "stop" if row.get("stopped", True) else "length",
        }
        rules = driver.route(
            profile=Profile.FULL,
            source="text",
            starts_in="reasoning" if row.get("starts_open", row.get("bb_start")) else "content",
            read_as=load_rulebook().resolve(named, engine=None).dialect,
            tool_rescue=ToolRescue(**{name: Mode.ENFORCE for name in ("content", "reasoning", "markerless")}),
        )
        found[row["id"]] = compared(case, rules, _chat(case, rules))
    assert {identity: wrong for identity, wrong in found.items() if wrong} == {}


def _chat(case: Case, rules: RouteRules) -> Got:
    reads = [driver.delta(content=case["pieces"][0]), driver.delta(finish=case["finish"]), driver.DONE]
    answer = driver.streamed(reads, rules, request=case["request"])
    return Got(*answer.said, finish=case["finish"], findings={key.partition("/")[0] for key in answer.findings})
