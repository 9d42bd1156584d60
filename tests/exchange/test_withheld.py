"""Which tokens go out, where a thought does not (contract rule 7, issue of the protocols: side channels).

Shapes: reference/vllm.md 3.1 and 6, reference/sglang.md 3.1. Tokens of a step: SGLang sends them with the end of the
thought and again with the text behind it. `include_reasoning: false` takes the text from vLLM's plain answers only.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.events import CONTENT, REASONING
from gateway.exchange.reading import ExchangeReading
from gateway.exchange.withheld import Withheld
from gateway.policy import ReasoningField
from gateway.protocols.protocol import Said
from tests.exchange.driver import chat, route

C: Said = (CONTENT, "c")
R: Said = (REASONING, "c")


def guard(field: ReasoningField = ReasoningField.NONE, **request: Any) -> Withheld:
    """Of a request on a route that writes the reasoning as `field`."""
    rules = route(reasoning_field=field)
    facts = chat().facts(request)
    reading = ExchangeReading(protocol=chat(), body=b"{}", facts=facts, rules=rules, policy=rules.policy)
    return Withheld(reading, chat())


def shows(
    of: Withheld,
    fields: dict[str, Any],
    *,
    tokens: tuple[str, ...] = ("c",),
    finish: str | None = None,
    pieces: list[Said] | None = None,
    index: Any = 0,
) -> bool:
    """True where the tokens beside a delta go out."""
    beside: dict[str, Any] = {"logprobs": {"content": [{"token": token} for token in tokens]}} if tokens else {}
    choice = {"index": index, "delta": fields, "finish_reason": finish, **beside, "token_ids": [5]}
    message = chat().decode_event(json.dumps({"choices": [choice]}).encode())
    kept = of.message(message, {} if pieces is None else {0: pieces})
    assert (kept is message) == (b"token_ids" in kept.data)
    return kept is message


CALL = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]


@pytest.mark.parametrize(
    ("fields", "finish", "pieces", "hidden", "unsent"),
    [
        ({"content": "c"}, None, None, True, True),
        ({"content": "c"}, None, [C], True, True),
        ({"content": "<c"}, None, [C], False, False),  # text that did not go out, or not all of it
        ({"content": "c"}, None, [R], False, False),
        ({"content": "c"}, None, [], False, False),
        ({"reasoning": "r", "content": "c"}, None, [C], False, True),  # an engine that sends what it was not asked for
        ({}, None, None, False, True),  # tokens without text
        ({"tool_calls": CALL}, None, None, True, True),
        ({}, "stop", None, True, True),
    ],
)
def test_tokens_go_out_only_beside_text_that_goes_out(
    fields: dict[str, Any], finish: str | None, pieces: list[Said] | None, hidden: bool, unsent: bool
) -> None:
    assert shows(guard(), fields, finish=finish, pieces=pieces) is hidden
    asked = guard(ReasoningField.BOTH, include_reasoning=False)
    assert shows(asked, fields, finish=finish, pieces=pieces) is unsent


@pytest.mark.parametrize(
    ("fields", "tokens", "finish", "out"),
    [
        ({"content": "c"}, ("c",), None, True),
        ({"content": "c"}, ("c", "<end>"), None, True),
        ({"content": "c"}, ("secret", "</think>", "c"), None, False),
        ({"content": "c"}, (), None, False),  # ids alone cannot be told apart
        ({"tool_calls": CALL}, ("secret", "<call>"), None, False),
        ({}, ("secret",), "length", False),
    ],
)
@pytest.mark.parametrize("leaked", [False, True])
def test_behind_a_thought_only_tokens_go_out_that_are_known_to_be_those_of_the_text(
    fields: dict[str, Any], tokens: tuple[str, ...], finish: str | None, out: bool, leaked: bool
) -> None:
    of = guard()
    thought = {"content": "<think>r"} if leaked else {"reasoning": "r"}
    assert not shows(of, thought, pieces=[] if leaked else None)
    assert shows(of, fields, tokens=tokens, finish=finish) is out


@pytest.mark.parametrize("between", [{"content": "c"}, {"tool_calls": CALL}])
def test_what_went_out_behind_a_thought_ends_the_doubt(between: dict[str, Any]) -> None:
    of = guard()
    shows(of, {"reasoning": "r"})
    shows(of, between)
    assert shows(of, {"content": "d"}, tokens=())
    assert shows(of, {}, finish="stop")


def test_each_choice_has_its_own_thought_and_an_index_that_is_none_has_one_too() -> None:
    of = guard()
    shows(of, {"reasoning": "r"}, index=1)
    assert shows(of, {"content": "c"}, tokens=(), index=0)
    assert not shows(of, {"content": "c"}, tokens=(), index=1)
    assert not shows(of, {"reasoning": "r"}, index=["odd"])


def test_an_engine_that_was_asked_for_no_reasoning_may_have_left_out_its_text_only() -> None:
    of = guard(include_reasoning=False)
    assert not shows(of, {"content": "c"}, tokens=("secret", "</think>", "c"))
    assert not shows(guard(include_reasoning=False), {"content": "c"}, tokens=())
    assert shows(guard(include_reasoning=False), {"content": "c"}, tokens=("c", "<end>"))


@pytest.mark.parametrize(
    ("of", "before", "gone"),
    [
        (guard(), {"content": "c"}, True),  # the engine may have left out the text of a thought itself
        (guard(ReasoningField.BOTH, include_reasoning=False), {"content": "c"}, False),
        (guard(ReasoningField.BOTH, include_reasoning=False), {"content": "<think>r"}, True),
    ],
)
def test_ids_of_the_whole_answer_go_where_some_of_it_did_not_go_out(
    of: Withheld, before: dict[str, Any], gone: bool
) -> None:
    shows(of, before, pieces=None if before["content"] == "c" else [])
    audit = chat().decode_event(b'{"choices":[],"sglext":{"output_ids":[[5]]}}')
    assert (of.message(audit, {}).data == b'{"choices":[],"sglext":{}}') is gone
