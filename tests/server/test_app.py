"""Starting and stopping the whole."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.server.app import GatewayServer
from gateway.server.config import config_from_mapping
from gateway.server.engines import Engines
from tests.support.gateways import QUICK, gateway
from tests.support.http import connected, fetch, get
from tests.support.upstream import engine, plain, saying


def server(**config: object) -> GatewayServer:
    return GatewayServer(
        config_from_mapping({**QUICK, "routes": [{"upstream": "http://127.0.0.1:1"}], **config}, source="test")
    )


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("localhost", "localhost")]
)
async def test_the_urls_can_be_connected_to(host: str, shown: str) -> None:
    running = server(listen=f"{host}:0", admin_listen=f"{host}:0")
    listen, admin = await running.start()
    assert listen.startswith(f"http://{shown}:")
    assert listen != admin
    assert (await fetch(admin, get("/livez"))).status == 200
    assert (await fetch(listen, get("/v1/models"))).status == 502
    await running.stop()


async def test_an_ipv6_address_is_written_in_brackets() -> None:
    running = server(listen="[::1]:0")
    try:
        listen, _ = await running.start()
    except OSError:
        pytest.skip("no IPv6 on this machine")
    assert listen.startswith("http://[::1]:")
    await running.stop()


@pytest.mark.parametrize("key", ["listen", "admin_listen"])
async def test_an_address_in_use_is_an_error_and_leaves_nothing_open(key: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        running = server(**{key: f"127.0.0.1:{taken.getsockname()[1]}"})
        with pytest.raises(OSError, match="in use"):
            await running.start()
    await asyncio.wait_for(running.wait_closed(), 1)


async def test_stopping_frees_the_addresses_and_closes_idle_connections() -> None:
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        async with connected(front.url) as client:
            assert (await client.ask(get())).status == 200
            await front.server.stop()
            assert await client.closed()
        for url in (front.url, front.admin):
            with pytest.raises(ConnectionError):
                await fetch(url, get())


async def test_stopping_twice_is_stopping() -> None:
    running = server()
    await running.start()
    await running.stop()
    await running.stop()
    await asyncio.wait_for(running.wait_closed(), 1)


async def test_terminating_an_idle_gateway_closes_it() -> None:
    running = server()
    await running.start()
    running.terminate()
    running.terminate()
    await asyncio.wait_for(running.wait_closed(), 1)


async def test_a_bug_beside_the_requests_is_told_and_harms_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(engines: Engines) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(Engines, "run", broken)
    async with engine(saying(plain(b"{}"))) as upstream, gateway(upstream.url) as front:
        assert (await fetch(front.url, get())).status == 200
        (line,) = [record.fields for record in caplog.records if record.msg == "bug"]
        assert line["error"].startswith("RuntimeError at test_app.py")


async def test_a_signal_while_it_starts_is_obeyed_after_the_start_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gateway")
    asked = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    engine_ = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with engine_:
        url = f"http://127.0.0.1:{engine_.sockets[0].getsockname()[1]}"
        running = server(routes=[{"upstream": url}], drain={"settle_seconds": 30, "timeout_seconds": 1})
        starting = asyncio.ensure_future(running.start())
        await asyncio.wait_for(asked.wait(), 1)
        running.terminate()
        running.terminate()  # the second skips the pause
        await asyncio.wait_for(starting, 0.5)  # it does not wait for the engine
        await asyncio.wait_for(running.wait_closed(), 1)
    assert [record.msg for record in caplog.records] == ["listening", "route", "draining"]
    assert caplog.records[1].fields.items() >= {"profile": "repair", "upstream": [url]}.items()
