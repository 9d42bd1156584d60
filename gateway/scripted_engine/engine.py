"""The scripted engine: a vLLM 0.32 look-alike on a loopback socket, for `demo` and for tests.

The request's `model` chooses the case, its `vllm_xargs` the playback (`cases.Playback`). Knows nothing of the gateway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from aiohttp import web

from gateway.errors import ClientFault
from gateway.scripted_engine import wire
from gateway.scripted_engine.cases import Playback, Recording, Script, cut, recut, without_reasoning

VERSION = "0.32.0"
EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}
NOT_REPLAYED = frozenset({"connection", "transfer-encoding", "content-length"})  # this connection's own
OTHER = b'{"object":"scripted_engine","message":"not a chat completion: a gateway passes this path through"}'
MAX_BODY = 64 * 1024 * 1024  # bytes; as much as the gateway itself reads
GRACE_SECONDS = 1.0  # for answers still playing when the engine stops


class ScriptedEngine:
    """Serves `scripts` and `recordings` under their names as models.

    `playback` holds where a request asks for nothing else. Raises ValueError when two cases share a name.
    """

    def __init__(
        self, scripts: Iterable[Script], recordings: Iterable[Recording] = (), *, playback: Playback | None = None
    ) -> None:
        self._cases: dict[str, Script | Recording] = {}
        cases: list[Script | Recording] = [*scripts, *recordings]
        for case in cases:
            if case.name in self._cases:
                raise ValueError(f"two cases are named {case.name}")
            self._cases[case.name] = case
        self._playback = playback or Playback()
        self._ids = count(1)
        self._runner: web.AppRunner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listens and returns the base URL; port 0 takes a free one."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_route("*", "/{path:.*}", self._other)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=GRACE_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        return f"http://{host}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Closes the socket and every connection; answers still playing are cut after a grace period."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        return _json(wire.encode({"version": VERSION}))

    async def _models(self, _: web.Request) -> web.Response:
        return _json(wire.model_list(self._cases))

    async def _other(self, _: web.Request) -> web.Response:
        return _json(OTHER)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        try:
            body = _object(await request.read())
            playback = self._playback.asked(body)
            n = _choices(body)
        except ClientFault as fault:
            return _json(wire.error_body(str(fault), "BadRequestError", None, 400), status=400)
        match self._cases.get(body.get("model", "")):
            case Script() as script:
                return await self._play(request, script, body, playback, n)
            case Recording() as recording:
                return await _replay(request, recording, playback, stream=bool(body.get("stream")))
        message = f"The model `{body.get('model')}` does not exist."
        return _json(wire.error_body(message, "NotFoundError", "model", 404), status=404)

    async def _play(
        self, request: web.Request, script: Script, body: dict[str, Any], playback: Playback, n: int
    ) -> web.StreamResponse:
        head = wire.Head(id=f"chatcmpl-{next(self._ids):016x}", model=script.name)
        deltas = cut(script.deltas, playback.characters)
        if body.get("include_reasoning") is False:
            deltas = without_reasoning(deltas)
        if not body.get("stream"):
            chunks = [wire.whole_body(head, deltas, script.finish_reason, n=n)]
            headers = {"Content-Type": "application/json", "Content-Length": str(len(chunks[0]))}
            return await _send(request, web.StreamResponse(headers=headers), chunks, playback)
        chunks = wire.stream_frames(
            head,
            deltas,
            script.finish_reason,
            n=n,
            with_usage=bool((body.get("stream_options") or {}).get("include_usage")),
            finish_with_last=playback.finish_with_last,
        )
        return await _send(request, web.StreamResponse(headers=EVENT_STREAM), chunks, playback)


def _json(body: bytes, *, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        raise ClientFault("JSON decode error") from None
    if not isinstance(body, dict):
        raise ClientFault("Input should be a valid dictionary")
    return body


def _choices(body: dict[str, Any]) -> int:
    n = body.get("n") or 1
    if type(n) is not int or n < 1:
        raise ClientFault(f"n must be at least 1, got {n}.")
    return n


async def _replay(
    request: web.Request, recording: Recording, playback: Playback, *, stream: bool
) -> web.StreamResponse:
    exchange = recording.stream if stream else recording.whole
    if exchange is None:
        message = f"`{recording.name}` was recorded with `stream` only."
        return _json(wire.error_body(message, "NotFoundError", "stream", 404), status=404)
    response = web.StreamResponse(status=exchange.status)
    response.headers.extend((name, value) for name, value in exchange.headers if name.lower() not in NOT_REPLAYED)
    if not stream:
        response.content_length = sum(map(len, exchange.chunks))
    return await _send(request, response, exchange.chunks, playback)


async def _send(
    request: web.Request, response: web.StreamResponse, chunks: Sequence[bytes], playback: Playback
) -> web.StreamResponse:
    """Writes the chunks at the playback's size and pace. A client that left ends the answer, as it ends vLLM's."""
    pause = 1 / playback.events_per_second if playback.events_per_second else 0.0
    with suppress(ConnectionError):
        await response.prepare(request)
        for chunk in recut(chunks, playback.bytes_per_write):
            await response.write(chunk)
            await asyncio.sleep(pause)
        await response.write_eof()
    return response
