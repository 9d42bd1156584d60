"""The gateway as one object: two listeners, a pool, metrics, the way down.

Owns what is built from what, and the order of starting and stopping. Must not know requests or signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from gateway.server import logs
from gateway.server.admin import Admin
from gateway.server.config import Address, Config
from gateway.server.drain import Drain
from gateway.server.guard import GuardedServer
from gateway.server.health import Health
from gateway.server.metrics import Metrics
from gateway.server.routing import Routing
from gateway.server.runner import Runner
from gateway.server.upstream import Upstreams

BACKLOG = 1024
"""Connections waiting to be accepted; the kernel's own limit (net.core.somaxconn) may be lower."""
LAST_WORDS_SECONDS = 1.0
"""For the error events of answers cut at the end of the drain."""
CLEANUP_SECONDS = 0.2
"""What aiohttp waits for handlers that were already told to end; 0 would be for ever."""
ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Wildcard addresses and the loopback address a URL needs in their place."""


class GatewayServer:
    """One running gateway. `start`, then `stop`; or `terminate` and `wait_closed`. All on one running loop."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._sites: list[web.BaseRunner] = []
        self._closed = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self.metrics = Metrics(rules_digest=config.digest)
        self._drain = Drain(config.drain, changed=self._draining)
        self._upstreams = Upstreams(config.timeouts, observe=self.metrics.upstream)
        self._probes = Upstreams(config.timeouts, observe=lambda attempt, outcome: None)

    async def start(self) -> tuple[str, str]:
        """Bind both listeners and say so; returns their URLs (proxy, admin). Raises OSError."""
        config = self._config
        runner = Runner(config, upstreams=self._upstreams, drained=self._drain, metrics=self.metrics)
        server = GuardedServer(
            runner,
            header_seconds=config.timeouts.header,
            line_bytes=config.limits.http_line,
            rejected=self.metrics.rejected,
        )
        health = Health(Routing(config).engines, self._probes)
        admin = Admin(config, drain=self._drain, health=health, registry=self.metrics.registry)
        try:
            listen = await self._bind(web.ServerRunner(server, shutdown_timeout=CLEANUP_SECONDS), config.listen)
            admin_listen = await self._bind(
                web.AppRunner(
                    admin.app(), access_log=None, shutdown_timeout=CLEANUP_SECONDS, handler_cancellation=True
                ),
                config.admin_listen,
            )
        except OSError:
            await self.stop()
            raise
        logs.say("listening", listen=listen, admin=admin_listen)
        for route in config.routes:
            logs.say("route", route=route.rules.name, dialect=route.dialect_name, why=route.dialect_why)
        return listen, admin_listen

    async def stop(self) -> None:
        """Close everything at once; running answers are cut."""
        self._drain.cut()
        while self._sites:
            await self._sites.pop().cleanup()
        self._upstreams.close()
        self._probes.close()
        self._closed.set()

    def terminate(self) -> None:
        """Begin to drain, then stop. A second call skips the pause before new requests are refused."""
        self._drain.terminate()
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())

    async def wait_closed(self) -> None:
        """Returns when the gateway has stopped."""
        await self._closed.wait()

    async def _end(self) -> None:
        if not await self._drain.drained():
            logs.say("drain_timeout", cut=self._drain.in_flight)
            self._drain.cut()
            await self._drain.idle(LAST_WORDS_SECONDS)
        await self.stop()

    async def _bind(self, runner: web.BaseRunner, address: Address) -> str:
        await runner.setup()
        self._sites.append(runner)
        site = web.TCPSite(runner, address.host or None, address.port, backlog=BACKLOG)
        await site.start()
        return _url(runner.addresses, address.host)

    def _draining(self, is_draining: bool) -> None:
        self.metrics.draining(is_draining)
        logs.say("draining" if is_draining else "ready")


def _url(bound: Sequence[tuple[object, ...]], host: str) -> str:
    """A URL that can be connected to from this machine."""
    name = ANYWHERE.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{bound[0][1]}"
