"""What it costs to read an answer from its tokens: the exchange on one streamed chat answer, without a socket.

`fields` is the engine's own split, checked; against it `logprobs` (the bytes of each token) and, where the extra
`tokens` is installed and a tokenizer file is given, `ids`. CPU time of this process, the best of interleaved passes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from benchmarks.reader import PROSE, TOKEN, best
from benchmarks.report import Figure
from gateway.exchange import Overrides, RouteRules, open_exchange, peek_request
from gateway.limits import Limits
from gateway.policy import Profile, policy_for
from gateway.protocols import protocol_for
from gateway.rulebook.load import load_rulebook
from gateway.streams.tokens import Markers

REQUEST = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}'
HEAD = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}'
MARKERS = {1: "<think>", 2: "</think>"}


def frames(count: int, *, logprobs: bool, ids: bool) -> list[bytes]:
    """A stream of `count` tokens as vLLM sends them: a fifth is thought."""
    thought, out = count // 5, []
    for number in range(count):
        text = (PROSE * 2)[number % len(PROSE) :][:TOKEN] if number not in (0, thought) else MARKERS[1 + bool(number)]
        field = "reasoning" if number < thought else "content"
        entry = {"token": text, "logprob": -0.5, "bytes": [*text.encode()], "top_logprobs": []}
        choice = {
            "index": 0,
            "delta": {} if number in (0, thought) else {field: text},
            "logprobs": {"content": [entry]} if logprobs else None,
            "finish_reason": None,
            "token_ids": [1 + bool(number) if number in (0, thought) else 3 + number % 7] if ids else None,
        }
        out.append(b"data: " + (HEAD % json.dumps(choice, separators=(",", ":"))).encode() + b"\n\n")
    return out


def rules(*, source: str, spelled: bool) -> RouteRules:
    """A route of vLLM whose think tags are tokens. `spelled`: ids are made text, by a table."""
    words = dict(enumerate([" the", " one", " so", " it", " is", " mod", " and"], start=3)) | MARKERS
    return RouteRules(
        name="bench",
        dialect=load_rulebook().resolve({"reasoning": "qwen3"}, engine="vllm").dialect,
        source=source,
        starts_in="auto",
        thinking_default="auto",
        policy=policy_for(Profile.FULL),
        limits=Limits(),
        engine="vllm",
        markers=Markers(texts=frozenset(MARKERS.values()), ids=MARKERS),
        spelling=(lambda: words.__getitem__) if spelled else None,
    )


def reading(made: RouteRules, sent: list[bytes]) -> Callable[[], object]:
    """One whole answer through the exchange."""
    protocol = protocol_for("/v1/chat/completions")
    assert protocol
    facts = peek_request(protocol, REQUEST)

    def run() -> None:
        exchange = open_exchange(protocol=protocol, body=REQUEST, facts=facts, rules=made, overrides=Overrides())
        exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
        data = exchange.data
        for each in sent:
            data(each)

    return run


def measure(*, quick: bool) -> list[Figure]:
    """Microseconds an event, and how many times the event read from its fields."""
    count = 500 if quick else 5_000
    least = best(
        {
            "fields": reading(rules(source="fields", spelled=False), frames(count, logprobs=False, ids=False)),
            "logprobs": reading(
                replace(rules(source="tokens", spelled=False), engine="other"), frames(count, logprobs=True, ids=False)
            ),
            "ids": reading(rules(source="tokens", spelled=True), frames(count, logprobs=False, ids=True)),
        },
        passes=3 if quick else 15,
    )
    figures = [Figure(what="event, fields", value=least["fields"] / count / 1e3, unit="us")]
    for name, note in (("logprobs", "with the tokens' bytes"), ("ids", "without the tokenizer's own time")):
        figures.append(Figure(what=f"event, {name}", value=least[name] / count / 1e3, unit="us", note=note))
        figures.append(Figure(what=f"event, {name}", value=least[name] / least["fields"], unit="x fields"))
    return figures
