"""Asks engines what they are: which models they serve, which engine and version it is. Best effort, in the background.

`/v1/models` and `/tokenize` are the same on both engines; `/version` is vLLM's, `/get_server_info` and
`/get_model_info` are SGLang's (reference/vllm.md and sglang.md, route lists). No request of a client waits for it, and
an engine that wants a key for these routes stays unknown. `/detokenize` is asked for the text of one answer, which does
wait. Must not know routes, dialects, metrics.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway import __version__
from gateway.errors import EngineFault
from gateway.server.auto import EngineFacts, Served
from gateway.server.connection import Ask, Call, Target
from gateway.server.upstream import Upstreams
from gateway.server.wire import Head
from gateway.streams.jsonscan import loads
from gateway.streams.tokens import Run

ASK_SECONDS = 5.0
"""For one answer."""
KNOWN_SECONDS = 30.0
UNKNOWN_SECONDS = 2.0
"""Pauses between two rounds: where every engine has answered, and where one has not (it may be loading its model)."""
ANSWER_BYTES = 1024 * 1024
"""Cap of one answer; past it the engine has said nothing."""
MODELS = 64
"""Models of one engine that are remembered; adapters can be many."""
STRINGS = 128
"""Strings of one dialect whose tokens are asked for."""
NAME_CHARACTERS = 256
"""A longer name is none: it would become a label and a line in the log."""

USER_AGENT = b"integrity-gateway/" + __version__.encode()

_VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,64}")


class Engines:
    """Asks every engine in rounds. `targets`: those in use. `learned` hears what a round brought. `strings`: those of
    which it matters whether they are one token there; what an engine has said of them stands until it serves others.

    `upstreams` is a pool of its own: these questions are no traffic.
    """

    def __init__(
        self,
        targets: Callable[[], Sequence[Target]],
        upstreams: Upstreams,
        *,
        learned: Callable[[Mapping[Target, EngineFacts]], None],
        strings: Callable[[Target], Sequence[str]],
    ) -> None:
        self._targets, self._upstreams, self._learned, self._strings = targets, upstreams, learned, strings
        self._tokens: dict[Target, tuple[object, Mapping[str, int]]] = {}
        self._soon = asyncio.Event()

    async def run(self) -> None:
        """Rounds without an end."""
        while True:
            pause = KNOWN_SECONDS if await self.ask() else UNKNOWN_SECONDS
            self._soon.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._soon.wait()
            except TimeoutError:
                pass

    def soon(self) -> None:
        """The engines may be others now: begin the next round at once."""
        self._soon.set()

    async def ask(self) -> bool:
        """One round. True where every engine has said which models it serves."""
        targets = self._targets()
        answers = await asyncio.gather(*(self._facts(target) for target in targets))
        facts = {target: said for target, said in zip(targets, answers, strict=True) if said is not None}
        for target, said in facts.items():
            facts[target] = replace(said, tokens=self._tokens.get(target, (None, {}))[1])
        self._learned(facts)  # which strings matter follows from it
        spelled = {target: replace(said, tokens=await self._spelled(target, said)) for target, said in facts.items()}
        if spelled != facts:
            self._learned(spelled)
        return len(facts) == len(targets)

    async def spell(self, targets: Sequence[Target], runs: Sequence[Run], *, model: str | None) -> dict[Run, str]:
        """The texts of runs of token ids, as far as an engine of `targets` tells them: vLLM's `/detokenize`.

        `model`: as the request names it. The only question that a client's answer waits for.
        """
        named = {} if model is None else {"model": model}
        questions = [self._json(targets, b"/detokenize", {**named, "tokens": run}) for run in runs]
        said = [answer.get("prompt") for answer in await asyncio.gather(*questions)]
        return {run: text for run, text in zip(runs, said, strict=True) if isinstance(text, str)}

    async def _spelled(self, target: Target, said: EngineFacts) -> Mapping[str, int]:
        """The ids of the strings that are one token: as they were told for these models, else asked for now."""
        strings = tuple(self._strings(target))[:STRINGS]
        about = (said.models, strings)
        if self._tokens.get(target, (None,))[0] != about:
            tokens = {text: ident for text in strings if (ident := await self._token(target, text, said)) is not None}
            self._tokens[target] = about, tokens
        return self._tokens[target][1]

    async def _token(self, target: Target, text: str, said: EngineFacts) -> int | None:
        """The id of a string that is one token."""
        question = {"model": said.models[0].id, "prompt": text, "add_special_tokens": False}
        tokens = (await self._json([target], b"/tokenize", question)).get("tokens")
        return tokens[0] if isinstance(tokens, list) and len(tokens) == 1 and type(tokens[0]) is int else None

    async def _facts(self, target: Target) -> EngineFacts | None:
        listed = await self._json([target], b"/v1/models")
        entries = [entry for entry in _list(listed.get("data")) if isinstance(entry, dict) and _name(entry.get("id"))]
        if not entries:
            return None
        owner = entries[0].get("owned_by")
        said = {} if owner == "sglang" else await self._json([target], b"/version")
        engine = "vllm" if said or owner == "vllm" else "other"
        if engine == "other":
            said = await self._json([target], b"/get_server_info") or await self._json([target], b"/get_model_info")
            engine = "sglang" if said or owner == "sglang" else "other"
        version = said.get("version")
        return EngineFacts(
            engine=engine,
            version=version if isinstance(version, str) and _VERSION.fullmatch(version) else "",
            models=tuple(_served(entry, entries, said) for entry in entries[:MODELS]),
            parsers=tuple(_parsers(engine, said)),
        )

    async def _json(self, targets: Sequence[Target], path: bytes, question: object = None) -> dict[str, Any]:
        """The object that the engine answers with; an empty one for anything else."""
        answer = _Body()
        fields = [(b"Accept", b"application/json"), (b"User-Agent", USER_AGENT)]
        ask = Ask(method="GET", target=path, fields=fields)
        if question is not None:
            fields.append((b"Content-Type", b"application/json"))
            ask = Ask(method="POST", target=path, fields=fields, body=json.dumps(question).encode())
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await self._upstreams.run(Call(ask, answer), targets)
            value = loads(bytes(answer.body)) if answer.status == 200 else None
        except (TimeoutError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}


def _served(entry: Mapping[str, Any], entries: Iterable[Mapping[str, Any]], said: Mapping[str, Any]) -> Served:
    """`root` is what the model was loaded from; `parent` names the model that an adapter stands on."""
    parent = next((other for other in entries if other.get("id") == entry.get("parent")), {})
    names = [entry["id"], entry.get("root"), parent.get("id"), parent.get("root"), said.get("model_path")]
    return Served(id=entry["id"], names=tuple(dict.fromkeys(name for name in names if _name(name))))


def _parsers(engine: str, said: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for half, flag in (("reasoning", "reasoning_parser"), ("tools", "tool_call_parser")):
        if engine == "sglang" and _name(said.get(flag)):
            yield half, said[flag]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= NAME_CHARACTERS


class _Body:
    """A sink that keeps the answer, as far as it is no longer than its cap."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()

    def head(self, head: Head) -> None:
        self.status = head.status

    def data(self, body: bytes) -> None:
        self.body += body
        if len(self.body) > ANSWER_BYTES:
            self.status = 0
            self.body.clear()

    def end(self) -> None: ...

    def broken(self, fault: EngineFault) -> None:
        self.status = 0
