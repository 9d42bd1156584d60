"""One reader behind every endpoint (contract rule 1): one output of the model is one answer, whoever asks for it.

The engine's own split, or the raw text of a route that has none, goes through chat, Messages and Responses, streamed in
pieces and plain. What a client joins is the same six times: reasoning, content, calls, and what was found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from gateway.exchange import RouteRules
from gateway.limits import Limits
from gateway.policy import Profile, ReasoningField
from tests.exchange import driver
from tests.exchange.driver import DONE, LIMITS, delta, message, route
from tests.support import messages, responses
from tests.support.atoms import FILLER, dialects, markers

DIALECTS = dialects()
TIGHT = Limits(promote=7, unknown_start=9, dedup=11, channel_text=13)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOLS = {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]}
ARGUMENTS = '{"a": "x"}'
HALVES = [ARGUMENTS[:5], ARGUMENTS[5:]]
MARKUP = (
    f'{{"name": "f", "arguments": {ARGUMENTS}}}',
    f'<tool_call>\n{{"name": "f", "arguments": {ARGUMENTS}}}\n</tool_call>',
)
REQUESTS: tuple[dict[str, Any], ...] = ({}, driver.OFF, driver.WANTED, TOOLS, TOOLS | driver.OFF, TOOLS | driver.WANTED)
ENDINGS = {"stop": ("end_turn", "completed"), "length": ("max_tokens", "incomplete")}
Text = tuple[str, str]
"""`("reasoning" | "content", text)`."""
Said = tuple[str, str, list[tuple[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the model wrote, and where: `size`: characters of a piece; `call`: the engine's own call ends it;
    `signed`: its thoughts are, in Messages; `bare`: nothing ends text, items and calls in Responses.
    """

    dialect: str
    texts: Sequence[Text]
    size: int
    source: str = "fields"
    starts_in: str = "auto"
    profile: Profile = Profile.REPAIR
    limits: Limits = LIMITS
    field: ReasoningField = ReasoningField.BOTH
    request: int = 0
    finish: str = "stop"
    call: bool = False
    signed: bool = True
    bare: bool = False

    @property
    def rules(self) -> RouteRules:
        return route(
            read_as=DIALECTS[self.dialect],
            source=self.source,
            starts_in=self.starts_in,
            profile=self.profile,
            limits=self.limits,
            reasoning_field=self.field,
        )

    @property
    def pieces(self) -> list[Text]:
        return [(kind, text[at : at + self.size]) for kind, text in self.texts for at in range(0, len(text), self.size)]


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Any texts made of a dialect's markers; each field once, so that a plain answer says in which order they came."""
    name = draw(st.sampled_from(sorted(DIALECTS)))
    literals = markers(DIALECTS[name])
    starts = sorted({marker[:end] for marker in literals for end in range(1, len(marker))})
    atoms = st.sampled_from((*literals, *literals)) | st.sampled_from(starts) | st.sampled_from((*FILLER, *MARKUP))
    written = st.lists(atoms, max_size=7).map("".join)
    source = draw(st.sampled_from(["fields", "fields", "text"]))
    thought, answer = draw(written) if source == "fields" else "", draw(written)
    if draw(st.integers(0, 4)) == 0:
        answer = draw(st.sampled_from([thought, "\n" + thought, thought[:-1]]))
    request = draw(st.integers(0, len(REQUESTS) - 1))
    return Script(
        dialect=name,
        texts=[each for each in (("reasoning", thought), ("content", answer)) if each[1]],
        size=draw(st.sampled_from([1, 2, 3, 5, 7, 1 << 20])),
        source=source,
        starts_in=draw(st.sampled_from(["auto", "auto", "content", "reasoning"])),
        profile=draw(st.sampled_from([Profile.REPAIR, Profile.FULL])),
        limits=draw(st.sampled_from([LIMITS, LIMITS, TIGHT])),
        field=draw(st.sampled_from([ReasoningField.BOTH, ReasoningField.REASONING, ReasoningField.AS_UPSTREAM])),
        request=request,
        finish=draw(st.sampled_from(["stop", "length"])),
        call=source == "fields" and "tools" in REQUESTS[request] and draw(st.booleans()),
        signed=draw(st.booleans()),
        bare=draw(st.booleans()),
    )


# ---------------------------------------------------------------------- the endpoints


def chat(script: Script, *, stream: bool) -> tuple[Said, dict[str, int]]:
    """What a client of chat has."""
    request = REQUESTS[script.request]
    finish = "tool_calls" if script.call and script.finish == "stop" else script.finish
    call = [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}]
    if stream:
        chunks = [delta(**{kind: text}) for kind, text in script.pieces]
        chunks += [delta(tool_calls=call)] * script.call
        got = driver.streamed([*chunks, delta(finish=finish), DONE], script.rules, request=request | {"stream": True})
        entries = [entry for each in got.deltas for entry in each.get("tool_calls", ())]
        names = {entry["index"]: "" for entry in entries}
        arguments = dict(names)
        for entry in entries:
            names[entry["index"]] += entry["function"].get("name") or ""
            arguments[entry["index"]] += entry["function"].get("arguments") or ""
        calls = [(names[index], arguments[index]) for index in sorted(names)]
    else:
        texts = dict(script.texts) | ({"tool_calls": call} if script.call else {})
        got = driver.plain(message(finish, **texts), script.rules, request=request)
        listed = json.loads(got.body)["choices"][0]["message"].get("tool_calls") or ()
        calls = [(each["function"]["name"], each["function"]["arguments"]) for each in listed]
    assert got.exchange.fault is None
    return (*got.said, [(name, json.loads(made)) for name, made in calls]), got.findings


def message_blocks(script: Script, *, stream: bool) -> tuple[Said, dict[str, int]]:
    """What a client of Messages has; a thought is one block, but where a signature ends it."""
    kinds = {"reasoning": "thinking", "content": "text"}
    pieces: list[Any] = [(kinds[kind], text) for kind, text in (script.pieces if stream else script.texts)]
    pieces += [("tool_use", ("c", "f", HALVES))] * script.call
    reason = "tool_use" if script.call and script.finish == "stop" else ENDINGS[script.finish][0]
    request = messages.as_request(REQUESTS[script.request])
    if stream:
        got = messages.streamed(
            messages.events(pieces, reason=reason, signed=script.signed), script.rules, request=request
        )
    else:
        got = messages.plain(messages.body(pieces, reason=reason, signed=script.signed), script.rules, request=request)
    assert script.signed or ("thinking", "thinking") not in pairwise(got.kinds)
    return (*got.said, got.calls), got.findings


def response_items(script: Script, *, stream: bool) -> tuple[Said, dict[str, int]]:
    """What a client of Responses has, by the deltas and by the last event; no two thoughts stand side by side."""
    request = {name: value for name, value in REQUESTS[script.request].items() if name != "tools"}
    request |= {"tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]} if script.request > 2 else {}
    pieces: list[Any] = [*(script.pieces if stream else script.texts)]
    pieces += [("call", ("c", "f", HALVES))] * script.call
    status = ENDINGS[script.finish][1]
    if stream:
        frames = responses.stream(pieces, status=status, bare=script.bare)
        got = responses.streamed(frames, script.rules, request=request)
        assert script.bare or got.legal()
        assert responses.told(got.response["output"]) == got.said
    else:
        got = responses.plain(responses.body(pieces, status=status), script.rules, request=request)
    assert ("reasoning", "reasoning") not in pairwise(got.kinds)
    reasoning, content, calls = got.said
    return (reasoning, content, [(name, json.loads(made)) for name, made in calls]), got.findings


RESCUED = Script(  # the engine's own call behind one of ours lost its arguments in Responses
    dialect="ernie45",
    texts=[("content", MARKUP[1] + "(a")],
    size=99,
    source="text",
    starts_in="content",
    request=3,
    call=True,
    bare=True,
)


@given(scripts())
@example(RESCUED)
def test_an_output_is_the_same_answer_on_every_endpoint_streamed_and_plain(script: Script) -> None:
    first, *others = [
        endpoint(script, stream=stream)
        for endpoint in (chat, message_blocks, response_items)
        for stream in (True, False)
    ]
    for other in others:
        assert other == first
