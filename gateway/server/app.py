"""The gateway as one object: two listeners, a pool, metrics, what runs beside the requests, the way down.

Owns what is built from what, and the order of starting and stopping. Must not know requests or signals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from aiohttp import web

from gateway.server import logs
from gateway.server.admin import Admin, reading
from gateway.server.config import Address, Config, Route
from gateway.server.drain import Drain
from gateway.server.engines import Engines
from gateway.server.guard import GuardedServer
from gateway.server.health import Health, Reach
from gateway.server.inforce import InForce, Standing
from gateway.server.metrics import Metrics
from gateway.server.reload import Reload
from gateway.server.runner import Runner
from gateway.server.upstream import Upstreams

BACKLOG = 1024
"""Connections waiting to be accepted; the kernel's own limit (net.core.somaxconn) may be lower."""
LAST_WORDS_SECONDS = 1.0
"""For the error events of answers cut at the end of the drain."""
CLEANUP_SECONDS = 0.2
"""What aiohttp waits for handlers that were already told to end; 0 would be for ever."""
FIRST_ROUND_SECONDS = 1.0
"""How long `start` waits for engines to say what they are, so that the first request finds it known."""
ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Wildcard addresses and the loopback address a URL needs in their place."""


class GatewayServer:
    """One running gateway. `start`, then `stop`; or `terminate` and `wait_closed`. All on one running loop.

    `load` reads the configuration again, for `reload` and when its files change; without it nothing is reloaded.
    """

    def __init__(self, config: Config, *, load: Callable[[], Config] | None = None) -> None:
        self._sites: list[web.BaseRunner] = []
        self._beside: list[asyncio.Task[None]] = []
        self._closed = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._told: list[dict[str, Any]] = []
        self.metrics = Metrics()
        self._first_round: asyncio.Task[bool] | None = None
        self._started = False
        self._asked_to_end = 0
        reach = Reach()
        self._in_force = InForce(config, changed=self._follow)
        self._drain = Drain(config.drain, changed=self._draining)
        self._upstreams = Upstreams(config.timeouts, observe=self.metrics.upstream, reached=reach.heard)
        self._probes = Upstreams(config.timeouts, observe=lambda attempt, outcome: None, reached=reach.heard)
        self._engines = Engines(
            lambda: self._standing.routing.engines,
            self._probes,
            learned=self._in_force.learn,
            strings=lambda target: self._standing.strings(target),
        )
        self._reload = Reload(config, load=load, adopt=self._adopt, told=self.metrics.reloaded) if load else None
        self._server: GuardedServer | None = None
        self.metrics.stands(self._standing, self._in_force.facts)
        self.metrics.connections(active=lambda: self._upstreams.active, idle=lambda: self._upstreams.idle)

    @property
    def _standing(self) -> Standing:
        return self._in_force.now

    async def start(self) -> tuple[str, str]:
        """Bind both listeners and say so; returns their URLs (proxy, admin). Raises OSError."""
        config = self._standing.config
        runner = Runner(
            self._in_force,
            upstreams=self._upstreams,
            engines=self._engines,
            drained=self._drain,
            metrics=self.metrics,
        )
        self._server = server = GuardedServer(
            runner,
            header_seconds=config.timeouts.header,
            line_bytes=config.limits.http_line,
            connections=config.limits.connections,
            rejected=self.metrics.rejected,
        )
        health = Health(lambda: self._standing.routing.engines, self._probes)
        admin = Admin(self._in_force, drain=self._drain, health=health, registry=self.metrics.registry)
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
        await self._begin_beside()
        self._started = True
        for _ in range(self._asked_to_end):
            self.terminate()
        return listen, admin_listen

    def reload(self) -> None:
        """Read the configuration again, now."""
        if self._reload is not None:
            self._reload.ask()

    async def stop(self) -> None:
        """Close everything at once; running answers are cut."""
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        self._drain.cut()
        while self._sites:
            await self._sites.pop().cleanup()
        self._upstreams.close()
        self._probes.close()
        self._closed.set()

    def terminate(self) -> None:
        """Begin to drain, then stop. A second call skips the pause before new requests are refused. While `start` runs
        it is cut short, and the drain begins at its end."""
        if not self._started:
            self._asked_to_end += 1
            if self._first_round is not None:
                self._first_round.cancel()
            return
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

    # ------------------------------------------------------------------ what changes while it runs

    async def _begin_beside(self) -> None:
        if not self._asked_to_end:
            self._first_round = asyncio.get_running_loop().create_task(self._engines.ask())
            await asyncio.wait({self._first_round}, timeout=FIRST_ROUND_SECONDS)
            self._first_round.cancel()
            await asyncio.gather(self._first_round, return_exceptions=True)
        self._tell_routes()
        self._run_beside(self._engines.run())
        if self._reload is not None:
            self._run_beside(self._reload.run())

    def _run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_tell_end)
        self._beside.append(task)

    def _adopt(self, config: Config) -> None:
        """A new configuration. Raises ConfigError, and then nothing has changed."""
        self._in_force.adopt(config)
        self._engines.soon()

    def _follow(self, standing: Standing) -> None:
        config = standing.config
        self._drain.pauses = config.drain
        self._upstreams.retime(config.timeouts)
        self._probes.retime(config.timeouts)
        if self._server is not None:
            self._server.limit(
                header_seconds=config.timeouts.header,
                line_bytes=config.limits.http_line,
                connections=config.limits.connections,
            )
        self.metrics.stands(standing, self._in_force.facts)
        if self._beside:
            self._tell_routes()

    def _tell_routes(self) -> None:
        """One line a route, and one more when what it reads has changed."""
        lines: list[dict[str, Any]] = [
            {**reading(route), **_whose(route), **({"model": model} if model else {})}
            for base in self._standing.config.routes
            for model, route in [("", base), *base.by_model.items()]
        ]
        for line in lines:
            if line not in self._told:
                logs.say("route", **line)
        self._told = lines

    def _draining(self, is_draining: bool) -> None:
        self.metrics.draining(is_draining)
        logs.say("draining" if is_draining else "ready")


def _whose(route: Route) -> dict[str, Any]:
    return {"profile": route.rules.policy.profile, "upstream": list(route.upstream)}


def _tell_end(task: asyncio.Task[None]) -> None:
    """Work beside the requests has no end but its cancellation; a bug that ends it must not go unseen."""
    if not task.cancelled() and (bug := task.exception()) is not None:
        logs.say("bug", level=logging.ERROR, error=logs.where(bug))


def _url(bound: Sequence[tuple[object, ...]], host: str) -> str:
    """A URL that can be connected to from this machine."""
    name = ANYWHERE.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{bound[0][1]}"
