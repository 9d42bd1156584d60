"""What text completions and `/generate` have in common: one raw text, no calls, the thought under its names."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from gateway.events import CALL, CONTENT, REASONING, REPLAY
from gateway.limits import Limits
from gateway.protocols.completions import Completions
from gateway.protocols.generate import Generate
from gateway.protocols.protocol import UNSAID, HistoryRule, NumberedCall
from gateway.protocols.raw_text import (
    RawText,
    came,
    joined,
    object_of,
    part_of,
    spliced,
    stop_reason,
    thought,
)
from gateway.streams.jsonscan import DROP

BOTH = ("reasoning", "reasoning_content")
BODIES: dict[str, tuple[RawText, bytes]] = {
    "completions": (Completions(), b'{"choices":[{"index":0,"text":"a","reasoning":"r"}]}'),
    "generate": (Generate(), b'{"text":"a","reasoning":"r"}'),
}
every = pytest.mark.parametrize(("protocol", "body"), BODIES.values(), ids=BODIES.keys())


@every
def test_there_are_no_turns_and_no_calls(protocol: RawText, body: bytes) -> None:
    rule = HistoryRule(keep="strip", field=None, grammar=None, repair_arguments=True, limits=Limits())
    shaped, done = protocol.shape_history(body, rule)
    message = protocol.decode_body(body)
    assert (shaped is body, done) == (True, Counter())
    assert protocol.fragments(message, message.parts[0]) == []
    assert protocol.change_calls(message, {}) is body
    assert protocol.call_events(None, 0, NumberedCall(0, "i", "f", "{}")) == []
    assert protocol.without_tokens(message, [0], whole=True) == (message, Counter())
    assert protocol.spells(message.parts[0], "a")


def test_the_ids_of_the_whole_answer_show_its_thought() -> None:  # reference/sglang.md 3.1
    data = b'{"choices":[],"sglext":{"output_ids":[[5]],"input_ids":[7]}}'
    protocol = Completions()
    message = protocol.decode_event(data)
    kept, taken = protocol.without_tokens(message, [], whole=True)
    assert (kept.data, taken) == (b'{"choices":[],"sglext":{"input_ids":[7]}}', {"sglext": 1})
    assert kept.value == json.loads(kept.data)
    assert protocol.without_tokens(message, [], whole=False) == (message, {})


@every
def test_every_stream_has_a_protocol_of_its_own(protocol: RawText, body: bytes) -> None:
    stream = protocol.stream(rewrites=False)
    assert stream is not protocol
    assert (type(stream), stream.framed, stream.done) == (type(protocol), False, b"[DONE]")


@every
def test_reasoning_that_stands_there_already_gets_the_names_asked_for(protocol: RawText, body: bytes) -> None:
    message = protocol.decode_body(body)
    assert protocol.names_shown(message.parts[0]) == ("reasoning",)
    assert protocol.rename(message, ("reasoning",)) is None
    assert protocol.rename(message, None) is None
    assert protocol.rename(message, BOTH) == body.replace(b'"r"', b'"r","reasoning_content":"r"')
    renamed = protocol.rename(message, ("reasoning_content",))
    assert renamed == body.replace(b'"reasoning":"r"', b'"reasoning_content":"r"')
    assert protocol.rename(message, ()) == body.replace(b',"reasoning":"r"', b"")
    plain = protocol.decode_body(body.replace(b',"reasoning":"r"', b""))
    assert protocol.rename(plain, BOTH) is None


# ---------------------------------------------------------------------- in


@pytest.mark.parametrize(
    ("fields", "reasoning", "content", "names"),
    [
        ({"text": "a"}, "", "a", ()),
        ({"text": None}, "", "", ()),
        ({}, "", "", ()),
        ({"text": "a", "reasoning": "r"}, "r", "a", ("reasoning",)),
        ({"text": "", "reasoning": None, "reasoning_content": "r"}, "r", "", ("reasoning_content",)),
        ({"text": "a", "reasoning": "r", "reasoning_content": "r"}, "r", "a", BOTH),
    ],
)
def test_a_choice_is_its_text_and_a_thought_that_stands_beside_it(
    fields: dict[str, Any], reasoning: str, content: str, names: tuple[str, ...]
) -> None:
    part = part_of(2, 5, fields, finish=None, stop_reason="END")
    assert (part.place, part.index, part.reasoning, part.content, part.names) == (2, 5, reasoning, content, names)
    assert (part.finish, part.stop_reason, part.tools, part.refusal, part.fates) == (None, None, False, False, None)
    assert part.fields is fields and part.choice is fields
    assert came(part) == [(channel, text) for channel, text in ((REASONING, reasoning), (CONTENT, content)) if text]


@pytest.mark.parametrize(
    "fields", [{"text": 7}, {"text": ["a"]}, {"reasoning": 7}, {"reasoning": "a", "reasoning_content": "b"}]
)
def test_text_that_is_none_is_a_type_error(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        part_of(0, 0, fields, finish=None, stop_reason=None)


def test_a_choice_that_has_ended_tells_by_what() -> None:
    assert part_of(0, 0, {}, finish="stop", stop_reason="END").stop_reason == "END"
    assert stop_reason({"matched_stop": 7}, "stop_reason", "matched_stop") == 7
    assert stop_reason({"stop_reason": None, "matched_stop": 7}, "stop_reason", "matched_stop") is None
    assert stop_reason({}, "stop_reason") is UNSAID


# ---------------------------------------------------------------------- out


def test_thoughts_and_text_are_joined_apart() -> None:
    call = NumberedCall(0, "i", "f", "{}")
    said = [(REASONING, "a"), (CONTENT, "b"), (CALL, call), (REPLAY, "c"), (REASONING, "d")]
    assert (joined(said, thoughts=True), joined(said, thoughts=False)) == ("ad", "bc")


def test_a_thought_stands_under_its_names_and_no_others() -> None:
    assert thought({}, "r", BOTH) == {"reasoning": b'"r"', "reasoning_content": b'"r"'}
    assert thought({"reasoning": "x"}, "r", ("reasoning_content",)) == {"reasoning": DROP, "reasoning_content": b'"r"'}
    assert thought({"reasoning": "x", "reasoning_content": None}, "", BOTH) == {"reasoning": DROP}
    assert thought({"reasoning": "x"}, "r", ()) == {"reasoning": DROP}


def test_splices_at_several_paths_are_one_edit() -> None:
    data = b'{"a":[{"x":1.10},{"x":2}],"b":1E5}'
    changes = {("a", 0): {"y": b"1"}, ("a", 1): {"x": DROP}, (): {"c": object_of({"d": b"3"})}}
    assert spliced(data, changes) == b'{"a":[{"x":1.10,"y":1},{}],"b":1E5,"c":{"d":3}}'
    assert json.loads(object_of({})) == {}
