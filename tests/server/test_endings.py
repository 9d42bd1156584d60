"""How an answer ended reaches the reader through every route: reader_spec 4.1, rows 15 and 16, over sockets.

One answer, `I will end with ` and the closer of Kimi K3, in the words of each endpoint and engine; the closer is
replayed only where the model ended by itself (reader_spec section 3). Expected values stand in the table. No fixture
needs a plugin, so that the mutants of `tests/mutants` can run a row by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.support import messages, responses
from tests.support.endpoints import Said, Written, said_by_blocks, said_by_chat, said_by_items, said_by_raw
from tests.support.gateways import gateway
from tests.support.http import fetch, post
from tests.support.raw_text import DONE, Completions, Generate
from tests.support.upstream import LAST_CHUNK, SSE, Talk, chunk, engine, plain

REPLY, CLOSER = "I will end with ", "<|close|>response<|sep|>"
TEXTS = ("", "\n")
"""What stands behind the closer."""


def data(value: Any) -> bytes:
    """JSON as engines write it."""
    return json.dumps(value, separators=(",", ":")).encode()


# ---------------------------------------------------------------------- the endpoints: written, and read


def choices(parts: list[dict[str, Any]], empty: dict[str, Any], whole: dict[str, Any], ended: Any) -> Written:
    """Chunks of one choice. `empty`: what its last one says; `ended`: how it ends, too; None: there is none."""
    head = {"id": "1", "object": "o", "created": 1, "model": "m"}
    said = [{**part, "finish_reason": None} for part in parts] + ([{**empty, **ended}] if ended else [])
    frames = [b"data: %b\n\n" % data({**head, "choices": [{"index": 0, **each}]}) for each in said]
    return [*frames, DONE], data({**head, "choices": [{"index": 0, **whole, **(ended or {"finish_reason": None})}]})


def chat(pieces: list[str], ended: Any, *, field: str) -> Written:
    """The thought in the engine's reasoning field, closer included."""
    whole = {"message": {"role": "assistant", "content": None, field: "".join(pieces)}}
    return choices([{"delta": {field: each}} for each in pieces], {"delta": {}}, whole, ended)


def completions(pieces: list[str], ended: Any) -> Written:
    return choices([{"text": each} for each in pieces], {"text": ""}, {"text": "".join(pieces)}, ended)


def generate(pieces: list[str], ended: Any, *, cumulative: bool = True) -> Written:
    """`ended`: the `finish_reason` of the last event."""
    frames, text = [], ""
    for place, each in enumerate(pieces):
        text = text + each if cumulative else each
        last = ended if place == len(pieces) - 1 else None
        meta = {"id": "1", "finish_reason": last, "completion_tokens": place + 1}
        ids = list(range(place + 1)) if cumulative else [place]
        frames.append(b"data: %b\n\n" % data({"text": text, "output_ids": ids, "meta_info": meta}))
    meta = {"id": "1", "finish_reason": ended, "completion_tokens": len(pieces)}
    whole = {"text": "".join(pieces), "output_ids": list(range(len(pieces))), "meta_info": meta}
    return [*frames, DONE], data(whole)


def blocks(pieces: list[str], ended: Any) -> Written:
    """`ended`: the members of `delta` in `message_delta`; None: the event does not come."""
    end = {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 7}}
    tail = [] if ended is None else [messages.event(end)]
    frames = [messages.HEAD, *messages.blocks([("thinking", each) for each in pieces], signed=False), *tail]
    content = [{"type": "thinking", "thinking": "".join(pieces)}]
    whole = {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": content, **(ended or {})}
    return [*frames, messages.END], data(whole)


def items(pieces: list[str], ended: Any) -> Written:
    """`ended`: members of the response in the terminal event; None: `[DONE]` in its stead."""
    said = [("reasoning", each) for each in pieces]
    *frames, last = responses.stream(said)
    whole = json.loads(responses.body(said))
    whole.pop("status")
    event = json.loads(last.partition(b"data: ")[2])
    if ended is not None:
        response = {**event["response"], **ended}
        frames.append(responses.event({**event, "type": f"response.{ended['status']}", "response": response}))
    return [*frames, *([] if ended else [DONE])], data({**whole, **(ended or {})})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`write`: an answer as the engine writes it; `read`: what a client makes of it."""

    path: str
    write: Callable[[list[str], Any], Written]
    read: Callable[..., Said]


ENDPOINTS = {
    "chat": Endpoint("/v1/chat/completions", partial(chat, field="reasoning"), said_by_chat),
    "chat of SGLang": Endpoint("/v1/chat/completions", partial(chat, field="reasoning_content"), said_by_chat),
    "completions": Endpoint("/v1/completions", completions, said_by_raw(Completions())),
    "messages": Endpoint("/v1/messages", blocks, said_by_blocks),
    "responses": Endpoint("/v1/responses", items, said_by_items),
    "generate": Endpoint("/generate", generate, said_by_raw(Generate())),
    "generate in pieces": Endpoint(
        "/generate", partial(generate, cumulative=False), said_by_raw(Generate(pieces=True))
    ),
}


# ---------------------------------------------------------------------- the endings

STOP, NOT = True, False


def openai(name: str) -> dict[str, tuple[bool, Any]]:
    """`choices`, whose member `name` says what fired: a string, a token id, or null (vllm.md 3.1, 6; sglang.md 3.1)."""
    return {
        "end": (STOP, {"finish_reason": "stop", name: None}),
        "stop string": (STOP, {"finish_reason": "stop", name: "END"}),
        "stop token": (STOP, {"finish_reason": "stop", name: 163586}),
        "length": (NOT, {"finish_reason": "length", name: None}),
        "content filter": (NOT, {"finish_reason": "content_filter", name: None}),
        "abort": (NOT, {"finish_reason": "abort", name: None}),
        "missing": (NOT, None),
    }


NATIVE: dict[str, tuple[bool, Any]] = {  # sglang.md 3.4: it names the token that ends the turn, too
    "end": (STOP, {"type": "stop", "matched": 163586}),
    "stop string": (STOP, {"type": "stop", "matched": "END"}),
    "stop token": (STOP, {"type": "stop", "matched": 7}),
    "length": (NOT, {"type": "length", "length": 7}),
    "abort": (NOT, {"type": "abort", "message": "Abort", "status_code": None, "err_type": None}),
    "missing": (NOT, None),
}

# What an endpoint has no words for has no row of its own:
# - a stop token on Messages and Responses is the end of the turn; on Responses a stop string is `completed` as well;
# - SGLang says `end_turn` on Messages for a stop string, and for an abort too (sglang.md 3.6), which nothing tells
#   apart from an end; vLLM has no word for an abort there and says null (`stop_reason_map.get`).
ENDINGS: dict[str, dict[str, tuple[bool, Any]]] = {
    "chat": openai("stop_reason"),
    "chat of SGLang": openai("matched_stop"),
    "completions": openai("stop_reason"),
    "messages": {
        "end": (STOP, {"stop_reason": "end_turn", "stop_sequence": None}),
        "stop string": (STOP, {"stop_reason": "stop_sequence", "stop_sequence": "END"}),
        "length": (NOT, {"stop_reason": "max_tokens", "stop_sequence": None}),
        "length of all": (NOT, {"stop_reason": "model_context_window_exceeded", "stop_sequence": None}),
        "content filter": (NOT, {"stop_reason": "refusal", "stop_sequence": None}),
        "pause": (NOT, {"stop_reason": "pause_turn", "stop_sequence": None}),
        "abort": (NOT, {"stop_reason": None}),
        "missing": (NOT, None),
    },
    "responses": {
        "end": (STOP, {"status": "completed"}),
        "length": (NOT, {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
        "content filter": (NOT, {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}),
        "abort": (NOT, {"status": "cancelled"}),
        "failure": (NOT, {"status": "failed", "error": {"code": "server_error", "message": "it broke"}}),
        "missing": (NOT, None),
    },
    "generate": NATIVE,
    "generate in pieces": NATIVE,
}
LOST = [(endpoint, "stream", "connection lost", NOT) for endpoint in ENDINGS]  # half a plain body is no answer
ROWS = LOST + [
    (endpoint, delivery, ending, stopped)
    for endpoint, endings in ENDINGS.items()
    for delivery in ("stream", "plain")
    for ending, (stopped, _) in endings.items()
]


# ---------------------------------------------------------------------- through the server

Row = tuple[str, str, str]
"""Endpoint, `stream` or `plain`, ending."""


def written(endpoint: str, ending: str, behind: str) -> Written:
    """The engine's answer, cut across the closer."""
    text = f"{REPLY}{CLOSER}{behind}"
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    return ENDPOINTS[endpoint].write(pieces, ENDINGS[endpoint].get(ending, (NOT, None))[1])


async def answer(talk: Talk) -> None:
    """What the request names."""
    asked = json.loads(talk.request.body)
    frames, whole = written(asked["endpoint"], asked["ending"], asked["behind"])
    lost = asked["ending"] == "connection lost"
    if not asked["stream"]:
        await talk.say(plain(whole))
        return
    await talk.say(SSE + b"".join(map(chunk, frames[:-1] if lost else frames)) + (b"" if lost else LAST_CHUNK))
    if lost:
        talk.close()


async def all_answers() -> dict[Row, list[Said]]:
    """What the client of one gateway gets of every row, for each of `TEXTS`."""
    found: dict[Row, list[Said]] = {}
    route = {"engine": "vllm", "dialect": "kimi_k3", "source": "fields", "starts_in": "reasoning"}
    split = {"policy": {"raw_text": "split"}}
    async with engine(answer) as upstream, gateway("", routes=[{"upstream": upstream.url, **route, **split}]) as proxy:
        for endpoint, delivery, ending, _ in ROWS:
            wire, stream = ENDPOINTS[endpoint], delivery == "stream"
            for behind in TEXTS:
                asked = {"model": "m", "stream": stream, "endpoint": endpoint, "ending": ending, "behind": behind}
                got = await fetch(proxy.url, post(data(asked), target=wire.path))
                said = wire.read(got.body, stream=stream)
                found.setdefault((endpoint, delivery, ending), []).append(said)
    return found


@pytest.fixture(scope="module")
def answers() -> dict[Row, list[Said]]:
    return asyncio.run(all_answers())


@pytest.mark.parametrize(
    ("endpoint", "delivery", "ending", "stopped"), [pytest.param(*row, id="-".join(row[:3])) for row in ROWS]
)
def test_only_an_answer_that_ended_by_itself_is_sent_again(
    answers: dict[Row, list[Said]], endpoint: str, delivery: str, ending: str, stopped: bool
) -> None:
    said = [(REPLY + behind, REPLY + behind if stopped else "") for behind in TEXTS]
    assert answers[endpoint, delivery, ending] == said
