"""What nobody changed keeps its bytes, in requests and answers of every protocol (contract rule 2: edits splice).

Every object of a request or of an answer gets a member that only its own bytes tell apart from another one: numbers
whose digits a parser would not keep, a name that comes twice, escapes, odd white space. After a change each is looked
for in what goes out, byte for byte. Where one may go with what it stood beside, the table says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.exchange import Overrides, open_exchange, peek_request
from gateway.policy import Profile, ToolRescue
from gateway.protocols import protocol_for
from tests.exchange.driver import route
from tests.support.endpoints import ENDPOINTS, answered

NUMBERS = "1.10,\t1E5 ,-0, 1e-7,123456789012345678901234567890,0.1234567890123456789012345"
ODD = '"odd %s" :{ "n":[%s] ,"twice":1.0,"twice":"\\u00e9\\ud83d\\ude00\\/" }'
WEATHER = {"name": "w", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
ARGUMENTS = f'{{"city": "Oslo", "n": [{NUMBERS}]}}'.replace("\t", " ")
CALL = f'<tool_call>\n{{"name": "w", "arguments": {ARGUMENTS}}}\n</tool_call>'


def marked(value: Any, path: str) -> str:
    """JSON with an odd member in every object, named by its path."""
    if isinstance(value, dict):
        members = [f"{json.dumps(name)} : {marked(each, f'{path}.{name}')}" for name, each in value.items()]
        return "{ " + ",\t".join([ODD % (path, NUMBERS), *members]) + " }"
    if isinstance(value, list):
        return "[ " + " , ".join([marked(each, f"{path}.{place}") for place, each in enumerate(value)]) + " ]"
    return json.dumps(value)


def paths(value: Any, path: str) -> Iterator[str]:
    """The paths of all objects."""
    if isinstance(value, dict):
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inside:
        yield from paths(each, f"{path}.{name}")


def lost(names: Sequence[str], out: bytes) -> list[str]:
    """The objects whose odd member is not in `out` as it was written."""
    return [name for name in names if (ODD % (name, NUMBERS)).encode() not in out]


# ---------------------------------------------------------------------- requests

CALLED = {"id": "c", "type": "function", "function": {"name": "w", "arguments": "{"}}
SAID = "<think>t</think>a"
TURN = {"role": "assistant", "content": SAID, "tool_calls": [CALLED]}
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}, TURN],
        "tools": [{"type": "function", "function": WEATHER}],
    },
    "/v1/messages": {
        "messages": [{"role": "assistant", "content": [{"type": "text", "text": SAID}]}],
        "tools": [{"name": "w", "input_schema": WEATHER["parameters"]}],
    },
    "/v1/responses": {
        "input": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]},
            {"type": "function_call", "call_id": "c", "name": "w", "arguments": "{"},
        ],
        "tools": [{"type": "function", **WEATHER}],
    },
    "/v1/completions": {"prompt": SAID, "logit_bias": {"1": 2}},
    "/generate": {"text": SAID, "sampling_params": {"stop": ["END"]}},
}
TURNS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")


@pytest.mark.parametrize(
    ("profile", "history", "shaped"),
    [
        (Profile.OBSERVE, "leave", ()),
        (Profile.REPAIR, "leave", ()),
        (Profile.FULL, "keep", TURNS),
        (Profile.FULL, "strip", TURNS),
    ],
)
@pytest.mark.parametrize("path", REQUESTS)
def test_a_request_keeps_what_is_not_shaped(path: str, profile: Profile, history: str, shaped: Sequence[str]) -> None:
    sent = marked(REQUESTS[path], "r").encode()
    protocol = protocol_for(path)
    assert protocol is not None
    facts, rules = peek_request(protocol, sent), replace(route(profile=profile, history=history), engine="vllm")
    exchange = open_exchange(protocol=protocol, body=sent, facts=facts, rules=rules, overrides=Overrides())
    assert lost([*paths(REQUESTS[path], "r")], exchange.upstream_body) == []
    assert (exchange.upstream_body != sent) is (path in shaped)
    assert exchange.tally.uninspected.total() == 0


# ---------------------------------------------------------------------- answers


@dataclass(frozen=True, slots=True)
class Repair:
    """What the engine says, in which channel, and a mark of the answer as it was repaired: `out` is in it, `away` not.

    `endpoints`: where it can happen.
    """

    channel: str
    pieces: tuple[str, ...]
    out: bytes
    away: bytes
    endpoints: tuple[str, ...] = tuple(ENDPOINTS)
    dialect: str = "qwen"


SPLIT = ("chat", "messages", "responses")
CALLED_WITH = NUMBERS.replace("\t", " ").encode()
REPAIRS = {
    "text moved": Repair("content", ("<think>hm", " so", "</think>yes", "."), b"yes", b"<think>", dialect="think"),
    "marker stripped": Repair("content", ("Hi", " there.", "<|im_end|>"), b"there", b"<|im_end|>"),
    "call rescued": Repair("content", ("Hi ", CALL[:30], CALL[30:]), CALLED_WITH, b"<tool_call>", SPLIT),
    "field doubled": Repair("thought", ("hm", " so"), b'"reasoning_content":', b"?", ("chat",)),
}
# What may go: an event of Messages or Responses, where an event is its text, when all of that is a marker, waits for a
# call, or is told by an event of another type; and the log probabilities of what is no text, in raw text.
GONE = {
    ("call rescued", "messages", True): ["3", "3.delta", "4", "4.delta"],
    ("call rescued", "responses", True): ["5", "6"],
    ("marker stripped", "messages", True): ["4", "4.delta"],
    ("marker stripped", "responses", True): ["6"],
    ("text moved", "responses", True): ["4", "5"],
    ("marker stripped", "completions", True): ["2.choices.0.logprobs", "2.choices.0.logprobs.top_logprobs.0"],
    ("marker stripped", "completions", False): ["0.choices.0.logprobs.top_logprobs.2"],
    ("text moved", "completions", True): [
        f"{place}.choices.0.logprobs{rest}" for place in (0, 1) for rest in ("", ".top_logprobs.0")
    ],
    ("text moved", "completions", False): [f"0.choices.0.logprobs.top_logprobs.{place}" for place in (0, 1)],
}
ROWS = [
    pytest.param(name, endpoint, stream, id=f"{name}-{endpoint}-{'stream' if stream else 'plain'}")
    for name, repair in REPAIRS.items()
    for endpoint in repair.endpoints
    for stream in (True, False)
]


def odd_frames(frames: Sequence[bytes]) -> tuple[list[bytes], list[str]]:
    """The frames with odd members, and what those are called."""
    out: list[bytes] = []
    names: list[str] = []
    for place, frame in enumerate(frames):
        head, data, rest = frame.partition(b"data: ")
        if rest.startswith(b"{"):
            value = json.loads(rest)
            names += paths(value, str(place))
            rest = marked(value, str(place)).encode() + b"\n\n"
        out.append(head + data + rest)
    return out, names


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize(("name", "endpoint", "stream"), ROWS)
def test_an_answer_keeps_what_is_not_repaired(name: str, endpoint: str, stream: bool, profile: Profile) -> None:
    repair, path = REPAIRS[name], ENDPOINTS[endpoint].path
    frames, body = ENDPOINTS[endpoint].written(repair.channel, repair.pieces)
    reads, names = odd_frames(frames) if stream else ([marked(json.loads(body), "0").encode()], [])
    names = names or [*paths(json.loads(body), "0")]
    rules = route(repair.dialect, profile=profile, raw_text="split", tool_rescue=ToolRescue(stream="complete"))
    out, exchange = answered(path, reads, rules, stream=stream, request=REQUESTS[path], report=True)
    assert exchange.tally.uninspected.total() == 0
    shown, report, _ = out.partition(b'"integrity":')  # the report names the markers
    assert report
    assert profile is Profile.OBSERVE or (repair.out in shown and repair.away not in shown)
    assert lost(names, out) == ([] if profile is Profile.OBSERVE else GONE.get((name, endpoint, stream), []))
