"""The tool calls of a chat message or delta: read, changed and written (OpenAI; reference/vllm.md 3.1, sglang.md 3.1).

Knows the members of an entry of `tool_calls`. Never judges what a call says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.protocols.protocol import CallChange, Fragment, NumberedCall
from gateway.streams.jsonscan import DROP, Changes, Drop, encode_string, member


def fragments(data: bytes, path: tuple[str | int, ...], calls: object) -> list[Fragment]:
    """The entries of `calls`, the parsed value at `path` of the frame `data`. What is no list has none."""
    entries = enumerate(calls) if isinstance(calls, list) else ()
    return [_fragment(data, (*path, place), place, each) for place, each in entries if isinstance(each, dict)]


def _fragment(data: bytes, path: tuple[str | int, ...], place: int, entry: dict[str, Any]) -> Fragment:
    function = entry.get("function")
    said = function if isinstance(function, dict) else {}
    index, arguments = entry.get("index"), said.get("arguments")
    text = arguments is None or isinstance(arguments, str)
    if not text:  # its own bytes, so that numbers keep their digits
        span = member(data, (*path, "function", "arguments"))
        assert span, "it was parsed from there"
        arguments = data[slice(*span)].decode()
    return Fragment(
        place=place,
        index=index if type(index) is int and index >= 0 else None,
        ident=_word(entry.get("id")),
        name=_word(said.get("name")),
        arguments=arguments or "",
        text=text,
    )


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def call_changes(calls: list[dict[str, Any]], changes: Mapping[int, CallChange]) -> Changes | Drop:
    """What to do to the list `calls`; an empty list does not stay (openclaw #61534)."""
    if all(place in changes and changes[place].gone for place in range(len(calls))):
        return DROP
    return {place: DROP if change.gone else _changed(calls[place], change) for place, change in changes.items()}


def _changed(entry: dict[str, Any], change: CallChange) -> Changes:
    said = {"name": change.name, "arguments": change.arguments}
    function = {name: encode_string(text) for name, text in said.items() if text is not None}
    members: dict[str | int, bytes | Drop | Changes] = {}
    if change.index is not None:
        members["index"] = b"%d" % change.index
    if function:
        inside: Changes = {name: text for name, text in function.items()}
        members["function"] = inside if isinstance(entry.get("function"), dict) else _object(function)
    return members


def _object(members: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join([b'"%b":%b' % (name.encode(), value) for name, value in members.items()])


def call_deltas(call: NumberedCall) -> list[bytes]:
    """The `tool_calls` of one delta after another: the call with its name, then its arguments."""
    opening = [] if call.more else [b'[{"index":%d,%b}]' % (call.index, _entry(call, b'""'))]
    arguments = b'[{"index":%d,"function":{"arguments":%b}}]' % (call.index, encode_string(call.arguments))
    return [*opening, arguments] if call.arguments else opening


def listed(own: bytes | None, calls: Iterable[NumberedCall]) -> bytes:
    """The `tool_calls` of a message: `calls` behind the list `own`, which is not empty where there is one."""
    entries = b",".join([b"{%b}" % _entry(call, encode_string(call.arguments)) for call in calls])
    return b"%b,%b]" % (own[:-1].rstrip(), entries) if own else b"[%b]" % entries


def _entry(call: NumberedCall, arguments: bytes) -> bytes:
    ident, name = encode_string(call.ident), encode_string(call.name)
    return b'"id":%b,"type":"function","function":{"name":%b,"arguments":%b}' % (ident, name, arguments)
