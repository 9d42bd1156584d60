"""Is a plain answer legal? From the references that `chat`, `completions`, `generate`, `messages` and `responses` name.

A plain answer has no order: these are the members that clients read, their types, and how the end agrees with what was
said. Of blocks, items and parts of types that are not known here nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gateway.protocols.legal.choices import ENGINE_REASONS, REASONS
from gateway.protocols.legal.flow import entries, member, shown, text
from gateway.protocols.legal.generate import ENDS
from gateway.protocols.legal.messages import REASONS as STOP_REASONS
from gateway.streams.jsonscan import loads

STATUSES: Final = ("completed", "incomplete", "failed", "cancelled", "in_progress", "queued")
SAID: Final = {"text": "text", "thinking": "thinking", "output_text": "text", "refusal": "refusal"}
"""The text of a block or a part, by its type."""


def body_violations(protocol: str, body: bytes) -> list[str]:
    """What is not legal in a plain answer of a protocol (`WireProtocol.name`); empty: nothing."""
    try:
        value = loads(body)
    except ValueError:
        return ["the body is no JSON"]
    return list(_BODIES[protocol](value))


def _no(holds: object, what: str) -> list[str]:
    return [] if holds else [what]


def _text(value: Any, what: str) -> list[str]:
    """A text, or nothing."""
    return _no(value is None or isinstance(value, str), f"{what} is {shown(value)}")


def _choices(value: Any, kind: str) -> Iterator[str]:
    """A body with choices, but for what they say."""
    yield from _no(member(value, "object") == kind, f"its object is {shown(member(value, 'object'))}")
    choices = entries(member(value, "choices"))
    yield from _no(choices, "there is no choice")
    for place, choice in enumerate(choices):
        index, reason = member(choice, "index"), member(choice, "finish_reason")
        yield from _no(index == place, f"choice {place} has the index {shown(index)}")
        known = isinstance(reason, str) and reason in REASONS + ENGINE_REASONS
        yield from _no(known, f"choice {place} ends with {shown(reason)}")


def _chat(value: Any) -> Iterator[str]:
    yield from _choices(value, "chat.completion")
    for place, choice in enumerate(entries(member(value, "choices"))):
        role, calls = member(choice, "message", "role"), member(choice, "message", "tool_calls")
        yield from _no(role == "assistant", f"the role of choice {place} is {shown(role)}")
        for name in ("content", "refusal", "reasoning", "reasoning_content"):
            yield from _text(member(choice, "message", name), f"{name} of choice {place}")
        yield from _no(calls is None or isinstance(calls, list), f"tool_calls of choice {place} is {shown(calls)}")
        made = calls or member(choice, "finish_reason") != "tool_calls"
        yield from _no(made, f"choice {place} ends with tool_calls and has made no call")
        for number, call in enumerate(entries(calls)):
            where = f"call {number} of choice {place}"
            yield from _no(text(member(call, "id")), f"{where} has no id")
            yield from _no(text(member(call, "function", "name")), f"{where} has no name")
            arguments = member(call, "function", "arguments")
            yield from _no(isinstance(arguments, str), f"the arguments of {where} are {shown(arguments)}")


def _completions(value: Any) -> Iterator[str]:
    yield from _choices(value, "text_completion")
    for place, choice in enumerate(entries(member(value, "choices"))):
        yield from _no(isinstance(member(choice, "text"), str), f"choice {place} has no text")
        for name in ("reasoning", "reasoning_content"):
            yield from _text(member(choice, name), f"{name} of choice {place}")


def _generate(value: Any) -> Iterator[str]:
    for place, answer in enumerate(value if isinstance(value, list) else [value]):
        reason = member(answer, "meta_info", "finish_reason", "type")
        yield from _no(member(answer, "meta_info", "id"), f"answer {place} has no id")
        yield from _no(reason in ENDS, f"answer {place} ends with {shown(reason)}")
        yield from _no(isinstance(member(answer, "text"), str), f"answer {place} has no text")


def _messages(value: Any) -> Iterator[str]:
    head = {name: member(value, name) for name in ("type", "role")}
    yield from _no(head == {"type": "message", "role": "assistant"}, "it is no message of an assistant")
    yield from _no(member(value, "id"), "the message has no id")
    yield from _no(type(member(value, "usage", "output_tokens")) is int, "the message has no usage")
    kinds = [text(member(block, "type")) for block in entries(member(value, "content"))]
    for place, (kind, block) in enumerate(zip(kinds, entries(member(value, "content")), strict=True)):
        yield from _no(kind, f"block {place} has no type")
        yield from _no(kind not in SAID or isinstance(member(block, SAID[kind]), str), f"block {place} has no text")
        if kind == "tool_use":
            named = text(member(block, "id")) and text(member(block, "name"))
            yield from _no(named, f"block {place} is a call without id or name")
            yield from _no(isinstance(member(block, "input"), dict), f"the input of block {place} is no object")
    reason = member(value, "stop_reason")
    yield from _no(reason in STOP_REASONS, f"the stop reason is {shown(reason)}")
    yield from _no(reason != "tool_use" or "tool_use" in kinds, "the stop reason is tool_use and there is no call")


def _responses(value: Any) -> Iterator[str]:
    yield from _no(member(value, "object") == "response", f"its object is {shown(member(value, 'object'))}")
    yield from _no(member(value, "status") in STATUSES, f"its status is {shown(member(value, 'status'))}")
    items = entries(member(value, "output"))
    for place, item in enumerate(items):
        yield from _no(text(member(item, "type")), f"item {place} has no type")
        if member(item, "type") == "function_call":
            whole = [text(member(item, name)) for name in ("call_id", "name")]
            yield from _no(all(whole), f"item {place} is a call without id or name")
            yield from _no(isinstance(member(item, "arguments"), str), f"the arguments of item {place} are no text")
        for part in entries(member(item, "content")):
            kind = text(member(part, "type"))
            said = kind not in SAID or isinstance(member(part, SAID[kind]), str)
            yield from _no(said, f"a part of item {place} has no text")
    idents = [member(item, "id") for item in items if member(item, "id")]
    yield from _no(len(set(map(str, idents))) == len(idents), "two items have one id")


_BODIES: Final[Mapping[str, Callable[[Any], Iterator[str]]]] = {
    "chat": _chat,
    "completions": _completions,
    "generate": _generate,
    "messages": _messages,
    "responses": _responses,
}
