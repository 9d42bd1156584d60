"""The admin listener: `/livez`, `/readyz`, `/metrics`, `/rules`, `/drain` (contract section 6).

Owns who may ask and in which shape it is answered. Shows counters and rule names, never text. Must not know exchanges.
"""

from __future__ import annotations

import hmac

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gateway import __version__
from gateway.exchange.asking import answers_of
from gateway.server.config import Route
from gateway.server.drain import Drain, State
from gateway.server.health import Health
from gateway.server.inforce import InForce


class Admin:
    """The handlers. Probes are cheap and never wait for a generation."""

    def __init__(self, in_force: InForce, *, drain: Drain, health: Health, registry: CollectorRegistry) -> None:
        self._in_force, self._drain, self._health, self._registry = in_force, drain, health, registry

    def app(self) -> web.Application:
        """The routes; an unknown path is 404, another method 405."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/livez", self.livez),
                web.get("/readyz", self.readyz),
                web.get("/metrics", self.metrics),
                web.get("/rules", self.rules),
                web.get("/drain", self.drain, allow_head=False),  # a HEAD must not drain
                web.post("/drain", self.drain),
            ]
        )
        return app

    async def livez(self, request: web.Request) -> web.Response:
        """The event loop turns. Never looks at the engine: a model that loads must not restart the gateway."""
        return web.Response(text="ok\n")

    async def readyz(self, request: web.Request) -> web.Response:
        """200 where new requests are welcome and an engine answers."""
        if self._drain.state is not State.READY:
            return web.Response(status=503, text="draining\n")
        if not await self._health.alive():
            return web.Response(status=503, text="no engine answers\n")
        return web.Response(text="ok\n")

    async def metrics(self, request: web.Request) -> web.Response:
        """The registry, in the exposition format the scraper accepts."""
        encode, content_type = choose_encoder(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=encode(self._registry), headers={hdrs.CONTENT_TYPE: content_type})

    async def rules(self, request: web.Request) -> web.Response:
        """What each route reads and why, and what is known to go wrong in the engine behind it."""
        config = self._in_force.now.config
        routes = [
            {
                **reading(route),
                "profile": route.rules.policy.profile,
                "engine": route.rules.engine,
                **faults(route),
                "models": {model: {**reading(variant), **faults(variant)} for model, variant in route.by_model.items()},
            }
            for route in config.routes
        ]
        engines = [
            {"engine": facts.engine, "version": facts.version, "models": [model.id for model in facts.models]}
            for facts in self._in_force.facts
        ]
        told = {"version": __version__, "rules_digest": config.digest, "routes": routes, "engines": engines}
        return web.json_response(told)

    async def drain(self, request: web.Request) -> web.Response:
        """Begin to drain, or join it; answers when nothing runs any more, or at the timeout (503)."""
        token = self._in_force.now.config.drain_token
        given = request.headers.get(hdrs.AUTHORIZATION, "").encode("utf-8", "surrogateescape")
        if token and not hmac.compare_digest(given, f"Bearer {token}".encode()):
            return web.Response(
                status=401, text="the drain token is needed\n", headers={hdrs.WWW_AUTHENTICATE: "Bearer"}
            )
        self._drain.begin()
        if await self._drain.drained():
            return web.Response(text="drained\n")
        return web.Response(status=503, text=f"{self._drain.in_flight} still running\n")


def reading(route: Route) -> dict[str, str]:
    """What a route reads and why, for `/rules` and the log."""
    return {"route": route.rules.name, "dialect": route.dialect_name, "why": route.dialect_why}


def faults(route: Route) -> dict[str, list[str] | dict[str, str]]:
    """The names of the known faults of a route's engine, as it runs there, and how it is asked for what they spoil."""
    rules = route.rules
    return {"faults": [fault.ident for fault in rules.faults_known()], "asks": answers_of(rules)}
