"""A gateway inside the test's own loop, with short pauses, and what its metrics say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from gateway.server.app import GatewayServer
from gateway.server.config import config_from_mapping

QUICK = {
    "listen": "127.0.0.1:0",
    "admin_listen": "127.0.0.1:0",
    "drain": {"settle_seconds": 0, "timeout_seconds": 1},
}


class Gateway:
    """A running gateway. `url`, `admin`: its listeners."""

    def __init__(self, server: GatewayServer, url: str, admin: str) -> None:
        self.server, self.url, self.admin = server, url, admin

    def count(self, name: str, **labels: str) -> float:
        """A metric's value now, 0 where it was never counted. `name` without its prefix."""
        return self.server.metrics.registry.get_sample_value(f"integrity_{name}", labels) or 0.0

    async def counted(self, name: str, value: float = 1, **labels: str) -> bool:
        """True as soon as the metric has that value: what is counted at an exchange's end may come after its answer."""
        return await eventually(lambda: self.count(name, **labels) == value)


async def eventually(condition: Callable[[], bool], seconds: float = 2.0) -> bool:
    """True as soon as `condition` holds, False when it did not within `seconds`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - a metric has no event
                await asyncio.sleep(0.002)
            return True
    return condition()


@contextlib.asynccontextmanager
async def gateway(upstream: str | list[str], **config: Any) -> AsyncIterator[Gateway]:
    """A gateway in front of `upstream`; `config`: keys of the configuration file."""
    data = {**QUICK, "routes": [{"upstream": upstream, "dialect": "think"}], **config}
    server = GatewayServer(config_from_mapping(data, source="test"))
    url, admin = await server.start()
    try:
        yield Gateway(server, url, admin)
    finally:
        await server.stop()
