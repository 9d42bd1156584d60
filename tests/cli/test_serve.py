"""`serve` as a process: what it prints, what signals do, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.serve import main
from tests.support.http import connected, fetch, get, post
from tests.support.upstream import LAST_CHUNK, SSE, Talk, chunk, engine, plain, saying

REPO = Path(__file__).parents[2]
CONFIG = """
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
drain: {{settle_seconds: {settle}, timeout_seconds: {timeout}}}
routes:
  - upstream: {upstream}
    dialect: think
"""
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
STREAM = post(b'{"messages":[],"stream":true}')


class Process:
    """A gateway process; `lines` are those it wrote to stderr until it listened."""

    def __init__(self, process: asyncio.subprocess.Process, lines: list[dict[str, Any]]) -> None:
        self.process, self.lines = process, lines
        self.url, self.admin = lines[0]["listen"], lines[0]["admin"]

    async def code(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 10)

    async def rest(self) -> list[dict[str, Any]]:
        """What it writes until it ends."""
        assert self.process.stderr is not None
        return [json.loads(line) async for line in self.process.stderr]


async def spawn(*arguments: str, **environ: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", *arguments),
        cwd=REPO,
        env={**os.environ, **environ},
        stderr=asyncio.subprocess.PIPE,
    )


@contextlib.asynccontextmanager
async def serving(*arguments: str, **environ: str) -> AsyncIterator[Process]:
    process = await spawn(*arguments, **environ)
    assert process.stderr is not None
    lines = []
    while not lines or lines[-1]["event"] != "route":
        lines.append(json.loads(await asyncio.wait_for(process.stderr.readline(), 20)))
    try:
        yield Process(process, lines)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def config(folder: Path, upstream: str, *, settle: float = 0, timeout: float = 30) -> str:
    path = folder / "gateway.yaml"
    path.write_text(CONFIG.format(upstream=upstream, settle=settle, timeout=timeout))
    return str(path)


async def test_one_line_says_where_it_listens_and_one_a_route_what_it_reads(tmp_path: Path) -> None:
    async with engine(saying(plain(b"{}"))) as upstream, serving("--config", config(tmp_path, upstream.url)) as gateway:
        listening, route = gateway.lines
        assert set(listening) == {"event", "listen", "admin", "level", "time"}
        assert (route["route"], route["dialect"], bool(route["why"])) == ("*", "think", True)
        assert (await fetch(gateway.url, get())).status == 200
        assert (await fetch(gateway.admin, get("/readyz"))).status == 200


async def test_flags_make_one_route_for_everything() -> None:
    leak = (
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":"<think>a</think>b"},"finish_reason":"stop"}]}'
    )
    flags = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--dialect", "think"]
    async with engine(saying(plain(leak))) as upstream:
        async with serving("--upstream", upstream.url, *flags, "--reasoning-field", "reasoning") as gateway:
            message = json.loads((await fetch(gateway.url, post(b'{"messages":[]}'))).body)["choices"][0]["message"]
            assert message == {"role": "assistant", "content": "b", "reasoning": "a"}
        async with serving("--upstream", upstream.url, *flags, INTEGRITY_PROFILE="observe") as gateway:
            assert (await fetch(gateway.url, post(b'{"messages":[]}'))).body == leak


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_idle_gateway_with_0(number: signal.Signals, tmp_path: Path) -> None:
    """F01"""
    async with serving("--config", config(tmp_path, "http://127.0.0.1:9", settle=0.2)) as gateway:
        before = asyncio.get_running_loop().time()
        gateway.process.send_signal(number)
        assert await gateway.code() == 0
        assert asyncio.get_running_loop().time() - before >= 0.2  # the pause was not skipped
        assert [line["event"] for line in await gateway.rest()] == ["draining"]


async def test_a_second_signal_skips_the_pause(tmp_path: Path) -> None:
    """F04"""
    async with serving("--config", config(tmp_path, "http://127.0.0.1:9", settle=60)) as gateway:
        gateway.process.send_signal(signal.SIGTERM)
        while (await fetch(gateway.admin, get("/readyz"))).body != b"draining\n":
            pass
        gateway.process.send_signal(signal.SIGTERM)
        assert await gateway.code() == 0


async def test_streams_that_run_end_whole_before_the_process_does(tmp_path: Path) -> None:
    """F02"""
    more = asyncio.Event()

    async def script(talk: Talk) -> None:
        if talk.request.start.startswith("GET"):  # the probe below, where the signal has not been seen yet
            await talk.say(plain(b"{}"))
            return
        await talk.say(SSE + chunk(EVENT))
        await more.wait()
        await talk.say(chunk(END) + LAST_CHUNK)

    async with engine(script) as upstream, contextlib.AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(serving("--config", config(tmp_path, upstream.url)))
        clients = [await stack.enter_async_context(connected(gateway.url)) for _ in range(50)]
        for client in clients:
            client.send(STREAM)
            await client.head()
        gateway.process.send_signal(signal.SIGTERM)
        while (await fetch(gateway.url, get())).status != 503:
            pass
        assert gateway.process.returncode is None
        more.set()
        for client in clients:
            rest = await asyncio.wait_for(client.reader.read(), 5)
            assert rest.endswith(b"data: [DONE]\n\n\r\n" + LAST_CHUNK)
        assert await gateway.code() == 0


async def test_streams_that_outlast_the_timeout_are_cut_and_the_process_ends_with_0(tmp_path: Path) -> None:
    """F03"""

    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(EVENT))
        await talk.until_left()

    async with (
        engine(script) as upstream,
        serving("--config", config(tmp_path, upstream.url, timeout=0.2)) as gateway,
        connected(gateway.url) as client,
    ):
        client.send(STREAM)
        await client.head()
        gateway.process.send_signal(signal.SIGTERM)
        rest = await asyncio.wait_for(client.reader.read(), 5)
        assert b"integrity_draining" in rest
        assert not rest.endswith(LAST_CHUNK)
        assert await gateway.code() == 0


LEAK = (
    b'data: {"choices":[{"index":0,"delta":{"content":"\\n<think>a</think>b"},"finish_reason":null}]}\n\n'  # after "hi"
)
CHANGES = {
    "the profile": ("profile: observe", b""),
    "the share": ("enforce_percent: 0", b""),
    "the route": ("", b"X-Team: blue"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_under_fifty_open_streams_cuts_none_and_reaches_the_next_request(
    change: str, tmp_path: Path
) -> None:
    """F07: the configuration is replaced while they run; each ends by the rules it began with."""
    more = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(EVENT))
        await more.wait()
        await talk.say(chunk(LEAK) + chunk(END) + LAST_CHUNK)

    key, header = CHANGES[change]
    ask = STREAM.replace(b"Host:", header + b"\r\nHost:") if header else STREAM
    async with engine(script) as upstream, contextlib.AsyncExitStack() as stack:
        path = config(tmp_path, upstream.url)
        before = CONFIG.format(upstream=upstream.url, settle=0, timeout=30)
        blue = f"  - {{match: {{headers: {{x-team: blue}}}}, upstream: '{upstream.url}', dialect: none}}\n"
        after = f"{key}\n{before}" if key else before.replace("routes:\n", f"routes:\n{blue}")
        gateway = await stack.enter_async_context(serving("--config", path))
        clients = [await stack.enter_async_context(connected(gateway.url)) for _ in range(51)]
        for client in clients[:50]:
            client.send(ask)
            await client.head()
        written(path, "routes: 5\n")
        await reloads(gateway, result="failure")
        written(path, after)
        gateway.process.send_signal(signal.SIGHUP)
        await reloads(gateway, result="success")
        clients[50].send(ask)
        await clients[50].head()
        more.set()
        answers = [await asyncio.wait_for(one.reader.readuntil(LAST_CHUNK), 10) for one in clients]
        assert all(answer.endswith(b"data: [DONE]\n\n\r\n" + LAST_CHUNK) for answer in answers)
        assert [b"<think>" in answer for answer in answers] == [False] * 50 + [True]
        assert gateway.process.returncode is None


async def reloads(gateway: Process, *, result: str, more_than: int = 0) -> None:
    """Returns when the process has counted one, or one more."""
    row = re.compile(rb'integrity_config_reloads_total{result="%b"} (\d+)' % result.encode())
    async with asyncio.timeout(10):
        while [int(n) for n in row.findall((await fetch(gateway.admin, get("/metrics"))).body)] <= [more_than]:
            pass


def written(path: str, text: str) -> None:
    Path(path).write_text(text)


async def test_the_kill_switch_of_the_environment_outlasts_a_reload(tmp_path: Path) -> None:
    leak = b'{"choices":[{"index":0,"message":{"content":"<think>a</think>b"},"finish_reason":"stop"}]}'
    async with engine(saying(plain(leak))) as upstream:
        path = config(tmp_path, upstream.url)
        async with serving("--config", path, INTEGRITY_PROFILE="observe") as gateway:
            gateway.process.send_signal(signal.SIGHUP)
            await reloads(gateway, result="success")
            assert (await fetch(gateway.url, post(b'{"messages":[]}'))).body == leak


async def test_a_hangup_with_a_bad_file_leaves_the_old_rules_in_force(tmp_path: Path) -> None:
    """F08, without a change of the file that could have been noticed by itself."""
    leak = b'{"choices":[{"index":0,"message":{"content":"<think>a</think>b"},"finish_reason":"stop"}]}'
    async with engine(saying(plain(leak))) as upstream:
        path = config(tmp_path, upstream.url)
        async with serving("--config", path) as gateway:
            written(path, "profile: observe\nroutes: 5\n")
            for number in (1, 2):  # noticed, and asked for
                await reloads(gateway, result="failure", more_than=number - 1)
                gateway.process.send_signal(signal.SIGHUP)
            assert b"<think>" not in (await fetch(gateway.url, post(b'{"messages":[]}'))).body
            assert (await fetch(gateway.admin, get("/readyz"))).status == 200


async def test_a_gateway_without_a_file_outlives_a_hangup() -> None:
    flags = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    async with engine(saying(plain(b"{}"))) as upstream, serving("--upstream", upstream.url, *flags) as gateway:
        gateway.process.send_signal(signal.SIGHUP)
        await reloads(gateway, result="success")
        assert (await fetch(gateway.url, get())).status == 200


async def test_a_route_line_says_what_auto_chose(tmp_path: Path) -> None:
    about = {"/v1/models": {"data": [{"id": "m", "root": "openai/gpt-oss-20b"}]}, "/version": {"version": "0.32.0"}}
    flags = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    async with (
        engine(saying(plain(b"{}")), about=about) as upstream,
        serving("--upstream", upstream.url, *flags) as gateway,
    ):
        assert gateway.lines[-1]["dialect"] == "harmony"
        assert "m from openai/gpt-oss-20b" in gateway.lines[-1]["why"]


async def test_a_signal_before_it_listens_is_a_clean_end(tmp_path: Path) -> None:
    """F05: a fifo as config file holds the start at the point where the file is read."""
    path = tmp_path / "slow.yaml"
    os.mkfifo(path)
    process = await spawn("--config", str(path))
    writer = await asyncio.to_thread(open, path, "w")  # returns once the process has opened it for reading
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(BrokenPipeError), writer:  # it may have ended without reading on
        writer.write(CONFIG.format(upstream="http://127.0.0.1:9", settle=0, timeout=1))
    _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert (process.returncode, errors) == (0, b"")


async def test_disconnects_and_faults_leave_no_traceback(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.say(SSE + chunk(EVENT))
        await talk.until_left()
        left.set()

    async with engine(script) as upstream, serving("--config", config(tmp_path, upstream.url)) as gateway:
        async with connected(gateway.url) as client:
            client.send(STREAM)
            await client.head()
            client.leave()
            await asyncio.wait_for(left.wait(), 1)
        await fetch(gateway.url, b"nonsense\r\n\r\n")
        gateway.process.send_signal(signal.SIGTERM)
        assert await gateway.code() == 0
        lines = await gateway.rest()
        assert sorted(line["event"] for line in lines) == ["draining", "exchange"]


async def test_an_address_in_use_is_one_line_and_2() -> None:
    """F09"""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = await spawn("--upstream", "http://127.0.0.1:9", "--listen", address, "--admin-listen", "127.0.0.1:0")
        _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 2
    assert len(errors.splitlines()) == 1
    assert b"in use" in errors


@pytest.mark.parametrize(
    "arguments", [[], ["--config", "x", "--upstream", "http://a"], ["--upstream"], ["--profile", "x"]]
)
def test_a_command_line_without_one_source_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--profile", "observe"),
        ("--listen", "127.0.0.1:0"),
        ("--admin-listen", "127.0.0.1:0"),
        ("--dialect", "think"),
        ("--reasoning-field", "none"),
    ],
)
def test_a_flag_that_a_config_file_would_overrule_is_a_usage_error(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        main(["--config", "x.yaml", flag, value])
    assert (error.value.code, flag in capsys.readouterr().err.splitlines()[-1]) == (2, True)


async def test_a_bad_config_file_is_2_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("routes: 5\n")
    process = await spawn("--config", str(path))
    _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 2
    assert f"{path}:1: routes" in errors.decode()
