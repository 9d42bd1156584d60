"""What goes out is legal in every protocol: however the answer and its bytes are cut, and wherever the upstream ends.

The checkers are written from the protocols' documentation (gateway.protocols.legal). A stream that ends early ends in
an error, and says all the text that came.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy import Profile
from gateway.protocols.legal import CHECKERS
from gateway.rulebook.load import load_rulebook
from tests.exchange.driver import route
from tests.support.protocols import FRAMES, PATHS, Delta, Said, recut, send

HERMES = load_rulebook().resolve({"reasoning": "qwen3", "tools": "hermes"}, engine="vllm").dialect
TOOLS: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}],
    "include_reasoning": True,
}
MARKUP = '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>'
OPEN_MARKUP = MARKUP.removesuffix("}}\n</tool_call>")
OFF = {"chat_template_kwargs": {"enable_thinking": False}}

ROUTES = {
    **{str(profile): route(read_as=HERMES, profile=profile, raw_text="split") for profile in Profile},
    "text": route(read_as=HERMES, source="text", raw_text="split"),
    "hidden": route(read_as=HERMES, reasoning_field="none", raw_text="split"),
    "k3": route("kimi_k3", source="text", starts_in="reasoning", raw_text="split"),
    "incremental": route(
        read_as=HERMES, source="text", tool_rescue=replace(route().policy.tool_rescue, stream="incremental")
    ),
}

every_protocol = pytest.mark.parametrize("name", PATHS)


def wrong(name: str, body: bytes) -> list[str]:
    """What is not legal in a stream that the protocol `name` ends."""
    return CHECKERS[name.partition(",")[0]](body)


# ---------------------------------------------------------------------- any text, any cut

ATOMS = st.sampled_from(
    [
        *("a", " ", "\n", "<think>", "</think>", "</thi", "<|im_end|>", "`", "```\n", MARKUP, MARKUP[:30], "42.", "é"),
        *("😀", "<|close|>think<|sep|>", "<|open|>response<|sep|>", "<|end_of_msg|>"),
    ]
)
TEXTS = st.lists(ATOMS, min_size=1, max_size=4).map("".join)
FIELDS = st.sampled_from(["content", "content", "reasoning"])
SPOKEN = st.lists(st.tuples(FIELDS, TEXTS), max_size=5).map(lambda said: [{name: text} for name, text in said])


@st.composite
def calls(draw: st.DrawFn) -> list[Delta]:
    """The entries of one or two calls of the engine, perhaps with arguments that are none."""
    deltas: list[Delta] = []
    for index in range(draw(st.integers(0, 2))):
        function = {"name": draw(st.sampled_from(["f", "F", "other"])), "arguments": ""}
        entry = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        deltas.append({"tool_calls": [entry]})
        text = draw(st.sampled_from(['{"a": "x"}', '{"a": "x"', "{}", '{"a": 1}}']))
        cut = draw(st.integers(1, len(text)))
        for piece in filter(None, (text[:cut], text[cut:])):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    return deltas


@st.composite
def answers(draw: st.DrawFn, *, raw: bool) -> Said:
    """Any answer on any route. `raw`: of text alone."""
    deltas = draw(SPOKEN)
    if raw:
        deltas = [{"content": text} for delta in deltas for text in delta.values()]
    made = [] if raw else draw(calls())
    finish = draw(st.sampled_from(["tool_calls", "length"] if made else ["stop", "length"]))
    return Said(
        deltas=[*recut(deltas, draw(st.sampled_from([1, 3, 1000]))), *made],
        rules=ROUTES[draw(st.sampled_from(sorted(ROUTES)))],
        finish=finish,
        request={**TOOLS, **(OFF if draw(st.booleans()) else {})},
    )


@every_protocol
@given(data=st.data())
def test_any_answer_is_legal_and_the_same_however_its_bytes_are_cut(name: str, data: st.DataObject) -> None:
    said = data.draw(answers(raw=name not in ("chat", "messages", "responses")))
    frames = FRAMES[name](said)
    assert frames is not None
    sent = b"".join(frames)
    assert wrong(name, sent) == []
    places = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    reads = [sent[start:end] for start, end in pairwise([0, *places, len(sent)])]
    got = send(name, reads, said)
    assert (wrong(name, got.body), got.complete) == ([], True)
    assert got.body == send(name, frames, said).body


# ---------------------------------------------------------------------- an upstream that ends early

RAW = [{"content": f"<think>a <b</think>Hi <b {OPEN_MARKUP}"}]
CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}
MORE = {"index": 0, "function": {"arguments": '"x"}'}}
SPLIT = [{"reasoning": "a <b</think>"}, {"content": "Hi <b"}, {"tool_calls": [CALL]}, {"tool_calls": [MORE]}]
SCRIPTS = {
    "raw text": Said(deltas=recut(RAW, 7), rules=ROUTES["text"], request=TOOLS),
    "a repeat": Said(deltas=[{"reasoning": "a b"}, {"content": "a "}], rules=ROUTES["full"], request=TOOLS),
    "thinking off": Said(deltas=[{"reasoning": "a b"}], rules=ROUTES["full"], request=TOOLS | OFF),
    "the engine's split": Said(deltas=recut(SPLIT, 5), rules=ROUTES["full"], request=TOOLS, finish="tool_calls"),
}
SAYABLE = [(name, script) for name in PATHS for script in SCRIPTS if FRAMES[name](SCRIPTS[script]) is not None]
every_script = pytest.mark.parametrize(("name", "script"), SAYABLE)


def events(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON of every event, and of a last one that only lacks its blank line (WHATWG HTML 9.2.6)."""
    for frame in body.split(b"\n\n"):
        data = frame.partition(b"data: ")[2]
        if data and data != b"[DONE]":
            try:
                yield json.loads(data)
            except ValueError:
                assert frame == body.split(b"\n\n")[-1]


def text_of(value: dict[str, Any]) -> Iterator[str]:
    """What an event of chat, of text completions, of Messages or of Responses says, the end of a text left out."""
    for choice in value.get("choices", ()):
        fields = choice.get("delta", choice)
        functions = [entry["function"] for entry in fields.get("tool_calls", ())]
        yield from (fields.get(name) or "" for name in ("text", "content", "reasoning"))
        yield from (function.get("arguments") or "" for function in functions)
    delta = value.get("delta")
    if isinstance(delta, dict):
        yield from (delta.get(name, "") for name in ("text", "thinking", "partial_json"))
    elif isinstance(delta, str):
        yield delta


def told(name: str, body: bytes) -> Counter[str]:
    """The characters that a stream says, without markers of the thought."""
    if name.startswith("generate"):
        texts = [value for value in events(body) if "text" in value]
        texts = texts[-1:] if name == "generate" else texts
        said = "".join([each.get("reasoning", "") + each["text"] for each in texts])
    else:
        said = "".join([text for value in events(body) for text in text_of(value)])
    return Counter(said.replace("<think>", "").replace("</think>", ""))


@every_script
@pytest.mark.parametrize("broken", [True, False])
def test_an_upstream_that_ends_behind_any_frame_ends_legally_in_an_error(name: str, script: str, broken: bool) -> None:
    said = SCRIPTS[script]
    frames = FRAMES[name](said) or []
    for end in range(len(frames) if broken else ends(name, frames)):
        assert_ends(name, frames[:end], said, broken=broken)


@every_script
def test_an_upstream_that_ends_at_any_byte_ends_legally_in_an_error(name: str, script: str) -> None:
    said = SCRIPTS[script]
    frames = FRAMES[name](said) or []
    body = b"".join(frames[: ends(name, frames)])
    for end in range(len(body)):
        assert_ends(name, [body[:end]], said, broken=False)


@every_protocol
def test_an_upstream_that_breaks_off_behind_the_end_gets_no_error_behind_it(name: str) -> None:
    said = Said(deltas=[{"content": "a"}], rules=ROUTES["full"], request={})
    frames = FRAMES[name](said) or []
    got = send(name, frames, said, broken=True)
    assert (got.body, got.complete) == (b"".join(frames), False)
    error = {"type": "error", "error": {"type": "api_error", "message": "it broke"}, "sequence_number": 2}
    head = b"event: error\n" if name in ("messages", "responses") else b""
    reads = [*frames[: 2 if name == "responses" else 1], head + b"data: " + json.dumps(error).encode() + b"\n\n"]
    got = send(name, reads, said, broken=True)
    assert (got.body, got.complete, wrong(name, got.body)) == (b"".join(reads), False, [])


def ends(name: str, frames: list[bytes]) -> int:
    """How many frames there are before the one that ends the answer: of chunks the one with the finish reason."""
    return len(frames) - (1 if name in ("messages", "responses") else 2)


def assert_ends(name: str, reads: list[bytes], said: Said, *, broken: bool) -> None:
    got = send(name, reads, said, broken=broken)
    assert wrong(name, got.body) == []
    *_, last = events(got.body)
    assert (got.complete, last["error"]["code"] if "error" in last else last["code"]) == (
        False,
        "integrity_upstream_truncated",
    )
    assert told(name, got.body) == told(name, b"".join(reads))
