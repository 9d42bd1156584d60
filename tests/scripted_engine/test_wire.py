"""Our frames and bodies beside the ones vLLM 0.32 sent: equal but for id, time, model, fingerprint and token counts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gateway.scripted_engine import Recording, load_recordings, wire

RECORDINGS = {recording.name: recording for recording in load_recordings()}
SPLIT_BY_THE_ENGINE = [name for name in RECORDINGS if name != "recorded/tools-only"]
"""vLLM leaves `reasoning_tokens` out where the server has no reasoning parser."""
WHOLE = [name for name, recording in RECORDINGS.items() if recording.whole]
HEAD = wire.Head(id="chatcmpl-1", model="m")
OWN_VALUES = re.compile(
    rb'("(?:id|model|system_fingerprint)":)"[^"]*"|("(?:created|prompt_tokens|total_tokens|completion_tokens|reasoning_tokens)":)\d+'
)


def normal(raw: bytes) -> bytes:
    return OWN_VALUES.sub(rb"\1\2_", raw)


def frames(recording: Recording) -> list[dict[str, Any]]:
    events = b"".join(recording.stream.chunks).split(b"\n\n")
    return [json.loads(event.removeprefix(b"data: ")) for event in events if event not in (b"", b"data: [DONE]")]


@pytest.mark.parametrize("name", SPLIT_BY_THE_ENGINE)
def test_a_streamed_answer_has_the_recorded_bytes(name: str) -> None:
    recording = RECORDINGS[name]
    steps = [frame["choices"][0] for frame in frames(recording)[1:] if frame["choices"]]
    deltas = [step["delta"] for step in steps if step["delta"]]
    ours = wire.stream_frames(
        HEAD,
        deltas,
        steps[-1]["finish_reason"],
        n=1,
        with_usage=True,
        finish_with_last=bool(steps[-1]["delta"]),
    )
    assert [normal(frame) for frame in ours] == [normal(chunk) for chunk in recording.stream.chunks]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer_has_the_recorded_bytes(name: str) -> None:
    exchange = RECORDINGS[name].whole
    assert exchange is not None
    raw = b"".join(exchange.chunks)
    choice = json.loads(raw)["choices"][0]
    message = choice["message"]
    deltas = [{field: message[field]} for field in ("reasoning", "content") if message[field] is not None]
    assert normal(wire.whole_body(HEAD, deltas, choice["finish_reason"], n=1)) == normal(raw)


def test_without_usage_the_fingerprint_rides_on_the_last_chunk() -> None:
    *_, finish, done = wire.stream_frames(
        HEAD, [{"content": "a"}], "stop", n=1, with_usage=False, finish_with_last=False
    )
    assert done == b"data: [DONE]\n\n"
    assert finish.endswith(
        b'"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],'
        b'"system_fingerprint":"vllm-0.32.0-scripted"}\n\n'
    )


def test_every_choice_has_its_own_role_text_and_finish_chunks() -> None:
    raw = wire.stream_frames(HEAD, [{"content": "a"}], "length", n=2, with_usage=False, finish_with_last=False)
    choices = [json.loads(frame[len(b"data: ") :])["choices"][0] for frame in raw[:-1]]
    assert [(c["index"], c["delta"].get("content"), c["finish_reason"]) for c in choices] == [
        (0, "", None),
        (1, "", None),
        (0, "a", None),
        (1, "a", None),
        (0, None, "length"),
        (1, None, "length"),
    ]


def test_content_is_written_before_the_reasoning_of_the_same_event() -> None:
    raw = wire.stream_frames(
        HEAD, [{"reasoning": "r", "content": "c"}], "stop", n=1, with_usage=False, finish_with_last=False
    )
    assert b'"delta":{"content":"c","reasoning":"r"}' in raw[1]


def test_an_answer_without_deltas_still_finishes() -> None:
    raw = wire.stream_frames(HEAD, [], "stop", n=1, with_usage=False, finish_with_last=True)
    assert len(raw) == 3 and b'"delta":{},' in raw[1] and b'"finish_reason":"stop"' in raw[1]


CALLS = [
    {"tool_calls": [{"id": "chatcmpl-tool-1", "type": "function", "index": 0, "function": {"name": "f"}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": '}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
    {"tool_calls": [{"id": "chatcmpl-tool-2", "index": 1, "function": {"name": "g", "arguments": "{}"}}]},
]


def test_call_fragments_join_before_the_reasoning_of_a_whole_answer() -> None:
    raw = wire.whole_body(HEAD, [{"reasoning": "r"}, *CALLS], "tool_calls", n=1)
    assert (
        b'"content":null,"refusal":null,"annotations":null,"audio":null,"function_call":null,'
        b'"tool_calls":[{"id":"chatcmpl-tool-1","type":"function","function":{"name":"f","arguments":"{\\"a\\": 1}"}},'
        b'{"id":"chatcmpl-tool-2","type":"function","function":{"name":"g","arguments":"{}"}}],"reasoning":"r"}'
    ) in raw


def test_the_older_field_name_is_kept_where_a_script_uses_it() -> None:
    message = json.loads(wire.whole_body(HEAD, [{"reasoning_content": "r"}], "stop", n=1))["choices"][0]["message"]
    assert (message["reasoning"], message["reasoning_content"]) == (None, "r")


@pytest.mark.parametrize("cut", [["abcdefgh"], ["abc", "defgh"], list("abcdefgh")])
def test_the_usage_does_not_depend_on_the_cut(cut: list[str]) -> None:
    deltas = [*({"reasoning": piece} for piece in cut), {"content": "x"}]
    assert wire.usage(deltas, 2) == {
        "prompt_tokens": 11,
        "total_tokens": 17,
        "completion_tokens": 6,
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
