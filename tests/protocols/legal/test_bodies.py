"""Plain answers: the members that clients read, and an end that agrees with them (gateway.protocols.legal.bodies)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.legal.bodies import body_violations
from tests.exchange.driver import message
from tests.support import messages, responses
from tests.support.raw_text import Completions, Generate

SECRET = "what the model said"
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT = message(content=SECRET, reasoning="r")
CALLED = message("tool_calls", content=None, tool_calls=[CALL])
TEXT = Completions().body([[SECRET]], [["b"]])
RAW = Generate().body([[SECRET]])
MESSAGE = messages.body([("thinking", "a"), ("text", SECRET), ("tool_use", ("c", "f", ["{}"]))], reason="tool_use")
RESPONSE = responses.body([("reasoning", "a"), ("content", SECRET), ("call", ("c", "f", ["{}"])), ("refusal", "no")])


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        ("chat", CHAT),
        ("chat", CALLED),
        ("chat", message("abort", content="")),
        ("completions", TEXT),
        ("generate", RAW),
        ("generate", Generate().body([["a"]], [["b"]], finish="length")),
        ("messages", MESSAGE),
        ("messages", messages.body([("text", "a")])),
        ("responses", RESPONSE),
        ("responses", responses.body([("other", {"type": "web_search_call", "id": "w"})], status="incomplete")),
    ],
)
def test_an_answer_as_engines_write_it_is_legal(protocol: str, body: bytes) -> None:
    assert body_violations(protocol, body) == []


def with_(body: bytes, place: str, value: Any) -> bytes:
    """The body with another value at a place, its names and numbers parted by dots."""
    whole = held = json.loads(body)
    *way, last = [int(name) if name.isdigit() else name for name in place.split(".")]
    for name in way:
        held = held[name]
    held[last] = value
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("protocol", "body", "place", "value", "wrong"),
    [
        ("chat", CHAT, "object", None, "its object is None"),
        ("chat", CHAT, "choices", [], "there is no choice"),
        ("chat", CHAT, "choices.0.index", 1, "choice 0 has the index 1"),
        ("chat", CHAT, "choices.0.finish_reason", None, "choice 0 ends with None"),
        ("chat", CHAT, "choices.0.finish_reason", ["stop"], "choice 0 ends with a list"),
        ("chat", CHAT, "choices.0.finish_reason", "tool_calls", "choice 0 ends with tool_calls and has made no call"),
        ("chat", CHAT, "choices.0.message.role", "user", "the role of choice 0 is 'user'"),
        ("chat", CHAT, "choices.0.message.content", [SECRET], "content of choice 0 is a list"),
        ("chat", CHAT, "choices.0.message.reasoning", 3, "reasoning of choice 0 is 3"),
        ("chat", CHAT, "choices.0.message.tool_calls", {}, "tool_calls of choice 0 is an object"),
        ("chat", CALLED, "choices.0.message.tool_calls.0.id", None, "call 0 of choice 0 has no id"),
        ("chat", CALLED, "choices.0.message.tool_calls.0.function.name", "", "call 0 of choice 0 has no name"),
        (
            *("chat", CALLED, "choices.0.message.tool_calls.0.function.arguments", {}),
            "the arguments of call 0 of choice 0 are an object",
        ),
        ("completions", TEXT, "object", "text", "its object is 'text'"),
        ("completions", TEXT, "choices.1.text", None, "choice 1 has no text"),
        ("completions", TEXT, "choices.1.reasoning", [], "reasoning of choice 1 is a list"),
        ("generate", RAW, "text", None, "answer 0 has no text"),
        ("generate", RAW, "meta_info.id", None, "answer 0 has no id"),
        ("generate", RAW, "meta_info.finish_reason", None, "answer 0 ends with None"),
        ("messages", MESSAGE, "role", "user", "it is no message of an assistant"),
        ("messages", MESSAGE, "id", "", "the message has no id"),
        ("messages", MESSAGE, "usage", None, "the message has no usage"),
        ("messages", MESSAGE, "content.0.type", None, "block 0 has no type"),
        ("messages", MESSAGE, "content.1.text", None, "block 1 has no text"),
        ("messages", MESSAGE, "content.2.id", None, "block 2 is a call without id or name"),
        ("messages", MESSAGE, "content.2.input", "{}", "the input of block 2 is no object"),
        ("messages", MESSAGE, "stop_reason", None, "the stop reason is None"),
        ("messages", MESSAGE, "content.2.type", "other", "the stop reason is tool_use and there is no call"),
        ("responses", RESPONSE, "object", None, "its object is None"),
        ("responses", RESPONSE, "status", "over", "its status is 'over'"),
        ("responses", RESPONSE, "output.0.type", None, "item 0 has no type"),
        ("responses", RESPONSE, "output.0.id", "msg_1", "two items have one id"),
        ("responses", RESPONSE, "output.1.content.0.text", None, "a part of item 1 has no text"),
        ("responses", RESPONSE, "output.2.name", None, "item 2 is a call without id or name"),
        ("responses", RESPONSE, "output.2.arguments", {}, "the arguments of item 2 are no text"),
    ],
)
def test_what_is_not_legal_is_named_by_its_place(
    protocol: str, body: bytes, place: str, value: Any, wrong: str
) -> None:
    assert body_violations(protocol, with_(body, place, value)) == [wrong]


def test_what_is_no_json_is_no_answer() -> None:
    assert body_violations("chat", SECRET.encode()) == ["the body is no JSON"]


LEAVES = st.none() | st.booleans() | st.integers(-1, 2) | st.just(SECRET)
NAMES = (
    "object choices index message role content tool_calls function finish_reason text meta_info type output usage id"
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=5),
    max_leaves=12,
)


@given(value=VALUES)
def test_any_body_is_judged_and_no_text_of_it_shown(value: Any) -> None:
    for protocol in ("chat", "completions", "generate", "messages", "responses"):
        assert SECRET not in "".join(body_violations(protocol, json.dumps(value).encode()))
