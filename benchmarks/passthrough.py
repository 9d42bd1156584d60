"""The peer that bounds us: the least an aiohttp proxy can do. Reads what there is, writes it, looks at nothing.

python -m benchmarks.passthrough PORT UPSTREAM
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import aiohttp
import uvloop
from aiohttp import web

SESSION = web.AppKey("session", aiohttp.ClientSession)
UPSTREAM = web.AppKey("upstream", str)


async def relay(request: web.Request) -> web.StreamResponse:
    """Forward one request and stream its answer back."""
    url = request.app[UPSTREAM] + request.path_qs
    headers = {"Content-Type": request.content_type}
    async with request.app[SESSION].request(request.method, url, data=await request.read(), headers=headers) as answer:
        kind = answer.headers.get("Content-Type", "")
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
        if answer.content_length is not None:
            response.content_length = answer.content_length
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response


async def session(app: web.Application) -> AsyncIterator[None]:
    """One client session as long as the application lives."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=timeout) as opened:
        app[SESSION] = opened
        yield


def application(upstream: str) -> web.Application:
    """The peer in front of `upstream`, a base URL."""
    app = web.Application()
    app[UPSTREAM] = upstream
    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{path:.*}", relay)
    return app


if __name__ == "__main__":
    port, upstream = sys.argv[1:]
    loop = uvloop.new_event_loop()
    web.run_app(application(upstream), host="127.0.0.1", port=int(port), access_log=None, print=None, loop=loop)
