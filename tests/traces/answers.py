"""Reads OpenAI chat answers, streamed and plain, with nothing but the standard library: what a client sees.

Independent of `gateway.protocols`, whose output it reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

REASONING_FIELD = re.compile(rb'"(reasoning|reasoning_content)":("(?:[^"\\]|\\.)+")')
OTHER_NAME = {b"reasoning": b"reasoning_content", b"reasoning_content": b"reasoning"}


@dataclass(slots=True)
class Choice:
    """One choice: its text joined, its tool calls by index: name and arguments as they came.

    `mixed`: one event carried reasoning and content.
    """

    reasoning: str = ""
    content: str = ""
    calls: dict[int, tuple[str, str]] = field(default_factory=dict)
    finish: str | None = None
    mixed: bool = False


def read_answer(body: bytes, *, stream: bool) -> dict[int, Choice]:
    """The choices of an answer. The two reasoning fields, where both stand, must say the same."""
    choices: dict[int, Choice] = {}
    for message in _events(body) if stream else [json.loads(body)]:
        for said in message.get("choices") or []:
            fields = said["delta" if stream else "message"]
            _add(choices.setdefault(said["index"], Choice()), fields, mixes=stream)
            choices[said["index"]].finish = said["finish_reason"] or choices[said["index"]].finish
    return choices


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    for line in body.decode().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def _add(choice: Choice, fields: dict[str, Any], *, mixes: bool) -> None:
    named = {fields[name] for name in ("reasoning", "reasoning_content") if fields.get(name)}
    assert len(named) <= 1, "the two reasoning fields differ"
    reasoning, content = "".join(named), fields.get("content") or ""
    choice.reasoning += reasoning
    choice.content += content
    for place, call in enumerate(fields.get("tool_calls") or []):
        index, more = call.get("index", place), call["function"]
        name, arguments = choice.calls.get(index, ("", ""))
        choice.calls[index] = (name + (more.get("name") or ""), arguments + (more.get("arguments") or ""))
    choice.mixed = choice.mixed or (mixes and bool(reasoning and content))


def value(arguments: str) -> object:
    """The JSON value of a call's arguments; the text itself where it is none."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def doubled(body: bytes) -> bytes:
    """The same bytes with every reasoning text under the other name as well, right behind it."""
    return REASONING_FIELD.sub(lambda found: b'%b,"%b":%b' % (found[0], OTHER_NAME[found[1]], found[2]), body)
