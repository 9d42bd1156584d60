"""Tool calls on the wire (reference/vllm.md 3.1 rows 3 and 3.2, reference/sglang.md 3.1; OpenAI's shape of both)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocols.chat_calls import call_changes, call_deltas, fragments, listed
from gateway.protocols.protocol import CallChange, Fragment, NumberedCall
from gateway.streams.jsonscan import DROP, edit

CALL = NumberedCall(2, "call_1", "f", '{"a": "\u00e9\\n"}')


def fragment(place: int = 0, **said: Any) -> Fragment:
    """What an entry says; nothing, but for `said`."""
    nothing: dict[str, Any] = {"index": None, "ident": None, "name": None, "arguments": "", "text": True}
    return Fragment(place=place, **(nothing | said))


def read(calls: bytes) -> list[Fragment]:
    """The fragments of a list of calls."""
    return fragments(b'{"d":%b}' % calls, ("d",), json.loads(calls))


def changed(calls: bytes, changes: dict[int, CallChange]) -> bytes:
    """A list of calls with changes, in the object that holds it."""
    return edit(b'{"d":%b}' % calls, {"d": call_changes(json.loads(calls), changes)})


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        # vLLM's opening and its pieces
        (
            b'{"id":"chatcmpl-tool-1","type":"function","index":0,"function":{"name":"f"}}',
            {"index": 0, "ident": "chatcmpl-tool-1", "name": "f"},
        ),
        (b'{"index":1,"function":{"arguments":"{\\"a"}}', {"index": 1, "arguments": '{"a'}),
        # SGLang's later pieces
        (
            b'{"id":null,"index":0,"type":"function","function":{"name":null,"arguments":"x"}}',
            {"index": 0, "arguments": "x"},
        ),
        (b'{"index":-1}', {}),
        (b'{"index":"0","id":7,"function":{"name":[]}}', {}),
        (b'{"index":true,"function":null}', {}),
        (b'{"function":{"arguments":null}}', {}),
        (b'{"function":{"arguments":{ "n": 1.10 }}}', {"arguments": '{ "n": 1.10 }', "text": False}),
        (b'{"function":{"arguments":12345678901234567890}}', {"arguments": "12345678901234567890", "text": False}),
    ],
)
def test_an_entry_says_what_of_it_has_the_right_type(entry: bytes, said: dict[str, Any]) -> None:
    assert read(b"[%b]" % entry) == [fragment(**said)]


@pytest.mark.parametrize("calls", [b"null", b"{}", b'"f"', b"[]", b'[null,"f",[]]'])
def test_what_is_no_call_is_left_out(calls: bytes) -> None:
    assert read(calls) == []


def test_entries_are_told_by_their_place() -> None:
    assert read(b'[0,{"index":4},{}]') == [fragment(1, index=4), fragment(2)]


@pytest.mark.parametrize(
    ("change", "written"),
    [
        (CallChange(), b'{"x": 1.0,"function":{"name":"f","arguments":{"n": 1.10},"y":"\\u00e9"}}'),
        (CallChange(index=3), b'{"x": 1.0,"function":{"name":"f","arguments":{"n": 1.10},"y":"\\u00e9"},"index":3}'),
        (CallChange(name="g"), b'{"x": 1.0,"function":{"name":"g","arguments":{"n": 1.10},"y":"\\u00e9"}}'),
        (CallChange(arguments="{}"), b'{"x": 1.0,"function":{"name":"f","arguments":"{}","y":"\\u00e9"}}'),
        (
            CallChange(index=0, name="", arguments=""),
            b'{"x": 1.0,"function":{"name":"","arguments":"","y":"\\u00e9"},"index":0}',
        ),
    ],
)
def test_a_change_keeps_every_other_byte_of_an_entry(change: CallChange, written: bytes) -> None:
    entry = b'{"x": 1.0,"function":{"name":"f","arguments":{"n": 1.10},"y":"\\u00e9"}}'
    assert changed(b"[%b, 7]" % entry, {0: change}) == b'{"d":[%b, 7]}' % written


@pytest.mark.parametrize("function", [b"", b',"function":null'])
def test_an_entry_without_a_function_gets_one(function: bytes) -> None:
    change = CallChange(name="f", arguments="{}")
    [entry] = json.loads(changed(b'[{"id":"c"%b}]' % function, {0: change}))["d"]
    assert entry == {"id": "c", "function": {"name": "f", "arguments": "{}"}}


def test_an_entry_that_goes_leaves_no_empty_list_behind() -> None:
    gone = CallChange(gone=True)
    assert changed(b'[{"a":1},{"b":2}]', {0: gone}) == b'{"d":[{"b":2}]}'
    assert changed(b'[{"a":1},{"b":2}]', {0: gone, 1: gone}) == b"{}"
    assert call_changes([{}], {0: gone}) is DROP


def test_a_call_is_written_as_its_name_and_then_its_arguments() -> None:
    opening, arguments = map(json.loads, call_deltas(CALL))
    assert opening == [{"index": 2, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}]
    assert arguments == [{"index": 2, "function": {"arguments": CALL.arguments}}]


def test_a_call_stands_behind_the_engines_own_bytes() -> None:
    entry = b'{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\\"a\\": \\"\xc3\xa9\\\\n\\"}"}}'
    assert listed(None, [CALL]) == b"[" + entry + b"]"
    assert listed(b'[ {"n": 1.10} ]', [CALL, CALL]) == b'[ {"n": 1.10},' + entry + b"," + entry + b"]"
