"""A changed file, a signal, a bad file: which configuration is in force then, and who is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.server.app import GatewayServer
from gateway.server.config import load_config
from gateway.server.reload import marks
from tests.server.test_inspected import DONE, STREAM, event
from tests.support.gateways import QUICK, Gateway
from tests.support.http import connected, fetch, get
from tests.support.upstream import LAST_CHUNK, SSE, Talk, chunk, engine, plain, saying

LEAK = [event(content="<think>a</think>b"), event("stop"), DONE]
LEAKING = saying(SSE + b"".join(map(chunk, LEAK)) + LAST_CHUNK)


class File:
    """A configuration file. `write` replaces it as an editor or a ConfigMap does: by renaming."""

    def __init__(self, path: Path, **keys: Any) -> None:
        self.path, self.keys = path, keys
        self.write()

    def write(self, **changes: Any) -> None:
        self.text(yaml.safe_dump({**QUICK, **self.keys, **changes}))

    def text(self, text: str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)


@contextlib.asynccontextmanager
async def reloading(file: File) -> AsyncIterator[Gateway]:
    def load() -> Any:
        return load_config(file.path, environ={})

    server = GatewayServer(load(), load=load)
    url, admin = await server.start()
    try:
        yield Gateway(server, url, admin)
    finally:
        await server.stop()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.reload.POLL_SECONDS", 0.01)


def routes(url: str) -> list[dict[str, Any]]:
    return [{"upstream": url, "dialect": "think"}]


async def test_a_changed_file_is_in_force_without_a_restart(tmp_path: Path) -> None:
    async with engine(LEAKING) as upstream:
        file = File(tmp_path / "c.yaml", routes=routes(upstream.url))
        async with reloading(file) as front:
            assert b"<think>" not in (await fetch(front.url, STREAM)).body
            file.write(profile="observe")
            assert await front.counted("config_reloads_total", result="success")
            assert (await fetch(front.url, STREAM)).body == b"".join(LEAK)
            file.write()
            assert await front.counted("config_reloads_total", 2, result="success")
            assert b"<think>" not in (await fetch(front.url, STREAM)).body


@pytest.mark.parametrize("text", ["routes: 5\n", "{", ""], ids=["wrong", "no YAML", "empty"])
async def test_a_bad_file_leaves_the_old_configuration_and_says_where(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F08"""
    async with engine(LEAKING) as upstream:
        file = File(tmp_path / "c.yaml", routes=routes(upstream.url))
        async with reloading(file) as front:
            read = front.count("config_last_reload_success_timestamp_seconds")
            file.text(text)
            assert await front.counted("config_reloads_total", result="failure")
            (line,) = [record for record in caplog.records if record.msg == "reload_failed"]
            assert (line.levelname, line.fields["error"].startswith(str(file.path))) == ("ERROR", True)
            assert b"<think>" not in (await fetch(front.url, STREAM)).body
            assert front.count("config_last_reload_success_timestamp_seconds") == read > 0
            file.write(profile="observe")
            assert await front.counted("config_reloads_total", result="success")
            assert (await fetch(front.url, STREAM)).body == b"".join(LEAK)


async def test_a_missing_file_is_a_bad_file(tmp_path: Path) -> None:
    async with engine(LEAKING) as upstream:
        file = File(tmp_path / "c.yaml", routes=routes(upstream.url))
        async with reloading(file) as front:
            file.path.unlink()
            assert await front.counted("config_reloads_total", result="failure")
            assert b"<think>" not in (await fetch(front.url, STREAM)).body


async def test_another_address_is_refused_and_the_rest_of_that_file_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with engine(LEAKING) as upstream:
        file = File(tmp_path / "c.yaml", routes=routes(upstream.url))
        async with reloading(file) as front:
            file.write(listen="127.0.0.2:0", profile="observe")
            assert await front.counted("config_reloads_total", result="failure")
            assert "restart" in next(r.fields["error"] for r in caplog.records if r.msg == "reload_failed")
            assert b"<think>" not in (await fetch(front.url, STREAM)).body


async def test_a_bug_while_reading_is_a_failure_without_its_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def load() -> Any:
        raise RuntimeError("secret")

    async with engine(LEAKING) as upstream:
        file = File(tmp_path / "c.yaml", routes=routes(upstream.url))
        server = GatewayServer(load_config(file.path, environ={}), load=load)
        url, admin = await server.start()
        server.reload()
        assert await Gateway(server, url, admin).counted("config_reloads_total", result="failure")
        await server.stop()
        assert "RuntimeError at test_reload.py" in str([record.__dict__ for record in caplog.records])
        assert "secret" not in str([record.__dict__ for record in caplog.records])


async def test_a_signal_reads_an_unchanged_file_again(tmp_path: Path) -> None:
    async with engine(LEAKING) as upstream:
        file = File(tmp_path / "c.yaml", routes=routes(upstream.url))
        async with reloading(file) as front:
            front.server.reload()
            assert await front.counted("config_reloads_total", result="success")


async def test_without_a_way_to_read_it_again_nothing_is_reloaded(tmp_path: Path) -> None:
    file = File(tmp_path / "c.yaml", routes=routes("http://127.0.0.1:9"))
    server = GatewayServer(load_config(file.path, environ={}))
    await server.start()
    server.reload()
    file.write(profile="observe")
    await server.stop()
    assert server.metrics.registry.get_sample_value("integrity_config_reloads_total", {"result": "success"}) == 0


async def test_a_changed_rule_is_a_change(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "rules/dialects/think.yaml"
    rule = tmp_path / "rules" / "dialects" / "think.yaml"
    rule.parent.mkdir(parents=True)
    rule.write_text(shipped.read_text())
    async with engine(LEAKING) as upstream:
        file = File(tmp_path / "c.yaml", rules_dir="rules", routes=routes(upstream.url))
        async with reloading(file) as front:
            was = (await fetch(front.admin, get("/rules"))).body
            rule.write_text(shipped.read_text() + "\n")
            assert await front.counted("config_reloads_total", result="success")
            assert (await fetch(front.admin, get("/rules"))).body != was


async def test_a_folder_of_rules_that_is_new_is_watched_from_then_on(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "rules/dialects/think.yaml"
    rule = tmp_path / "rules" / "dialects" / "think.yaml"
    rule.parent.mkdir(parents=True)
    rule.write_text(shipped.read_text())
    file = File(tmp_path / "c.yaml", routes=routes("http://127.0.0.1:9"))
    async with reloading(file) as front:
        file.write(rules_dir="rules")
        assert await front.counted("config_reloads_total", result="success")
        rule.write_text(shipped.read_text() + "\n")
        assert await front.counted("config_reloads_total", 2, result="success")


async def test_timeouts_and_limits_of_the_new_file_are_those_of_new_exchanges(tmp_path: Path) -> None:
    async def silent(talk: Talk) -> None:
        await talk.until_left()

    async with engine(saying(plain(b"{}")), silent) as upstream:
        file = File(tmp_path / "c.yaml", routes=routes(upstream.url))
        async with reloading(file) as front:
            assert (await fetch(front.url, get())).status == 200
            assert front.count("upstream_connections", state="idle") == 1
            file.write(timeouts={"first_byte": 0.05}, limits={"http_line": 100})
            assert await front.counted("config_reloads_total", result="success")
            assert front.count("upstream_connections", state="idle") == 0
            assert (await fetch(front.url, get())).status == 504
            assert (await fetch(front.url, get("/v1/models", "X-Long: " + "x" * 200))).status == 431


async def test_an_answer_that_runs_keeps_the_rules_it_began_with(tmp_path: Path) -> None:
    """F07"""
    more = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(event(content="x")))
        await more.wait()
        await talk.say(b"".join(map(chunk, [event(content="\n<think>a</think>b"), *LEAK[1:]])) + LAST_CHUNK)

    async with engine(script) as upstream:
        file = File(tmp_path / "c.yaml", routes=routes(upstream.url))
        async with reloading(file) as front, connected(front.url) as old, connected(front.url) as new:
            old.send(STREAM)
            await old.reader.readuntil(b"\n\n")
            file.write(profile="observe")
            assert await front.counted("config_reloads_total", result="success")
            new.send(STREAM)
            await new.reader.readuntil(b"\n\n")
            more.set()
            rests = [await asyncio.wait_for(one.reader.readuntil(b"[DONE]"), 5) for one in (old, new)]
            assert [("<think>" in rest.decode()) for rest in rests] == [False, True]


@pytest.mark.parametrize("change", ["content", "time", "name"])
def test_every_change_of_a_file_is_seen(change: str, tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    (folder / "below").mkdir(parents=True)
    file = folder / "below" / "a.yaml"
    file.write_text("1")
    was = marks([folder])
    assert marks([folder]) == was
    steps: dict[str, Callable[[], object]] = {
        "content": lambda: file.write_text("22"),
        "time": lambda: os.utime(file, ns=(1, 1)),
        "name": lambda: file.rename(file.with_name("b.yaml")),
    }
    steps[change]()
    assert marks([folder]) != was


def test_a_file_that_is_missing_has_no_mark(tmp_path: Path) -> None:
    assert marks([tmp_path / "none"]) == ()
