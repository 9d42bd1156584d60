"""An event or a plain body of Anthropic Messages as a value: what it says, and how the answer ended, in words of chat.

Knows where `reference/vllm.md` 3.6 and `sglang.md` 3.6 have text, calls and endings. Never judges text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.protocols.messages_stream import DELTA, START, TEXT, TEXTS, THINKING, TOOL_USE
from gateway.protocols.protocol import UNSAID, Part
from gateway.streams.jsonscan import Changes, encode_string

_FINISHES: Final[Mapping[str, str]] = {  # in the words of chat; others are none, and the model did not end by itself
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
# No reason says that a call broke. The one for a cut tells clients that the last one may not be whole.
REASONS: Final[Mapping[str, str]] = {"stop": "end_turn", "tool_calls": "tool_use", "error": "max_tokens"}
"""Words of chat that the gateway writes, in those of Messages."""


def event_part(kind: str, value: dict[str, Any]) -> Part | None:
    """What an event says: some text, some of a call, or how the answer ended."""
    if kind == START:
        block = value["content_block"]
        if block["type"] == TOOL_USE:
            return _call_part(block, value)
        return _text_part(block, block["type"], value)
    if kind == DELTA:
        delta = value["delta"]
        if delta["type"] == "input_json_delta":
            return _call_part(delta, value)
        return _text_part(delta, TEXTS.get(delta["type"], ""), value)
    if kind == "message_delta" and value["delta"].get("stop_reason"):
        return part_of(value["delta"], choice=value)
    return None


def _call_part(fields: dict[str, Any], value: dict[str, Any]) -> Part:
    """Some of a call. Raises TypeError where it cannot be told of which call, or what."""
    if type(value.get("index")) is not int or not isinstance(fields.get("partial_json", ""), str):
        raise TypeError("a call that is none")
    return part_of(fields, tools=True, choice=value)


def _text_part(fields: dict[str, Any], kind: str, value: dict[str, Any]) -> Part | None:
    text = fields.get(kind) if kind in (THINKING, TEXT) else None
    if not text:
        return None
    if not isinstance(text, str):
        raise TypeError("text that is no string")
    return part_of(
        fields, reasoning=text if kind == THINKING else "", content=text if kind == TEXT else "", choice=value
    )


def part_of(
    fields: dict[str, Any], *, choice: dict[str, Any], reasoning: str = "", content: str = "", tools: bool = False
) -> Part:
    """One part. `fields`: where its text stands, or how the answer ended.

    `end_turn` does not say that no stop string fired: SGLang sends it for those too (reference/sglang.md 3.6).
    """
    reason, string = fields.get("stop_reason"), fields.get("stop_sequence")
    fired = reason == "stop_sequence" or isinstance(string, str)
    return Part(
        place=0,
        index=0,
        reasoning=reasoning,
        content=content,
        names=(THINKING,) if reasoning else (),
        tools=tools,
        no_calls=False,
        refusal=False,
        finish=_FINISHES.get(reason, reason) if isinstance(reason, str) else None,
        stop_reason=str(string or "") if fired else UNSAID,
        fields=fields,
        choice=choice,
    )


def ending(reason: str, fields: Mapping[str, Any]) -> Changes:
    """The members that say how the answer ended."""
    ends: dict[str | int, bytes] = {"stop_reason": encode_string(REASONS[reason])}
    return ends | ({"stop_sequence": b"null"} if fields.get("stop_sequence") is not None else {})
