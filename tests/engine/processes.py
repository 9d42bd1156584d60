"""The engine and the gateways as processes: started with given flags, waited for until they answer, ended by id."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

HERE = Path(__file__).parent
REPO = HERE.parents[1]
UP_WITHIN = {"engine": 300, "gateway": 60}  # seconds; an engine needs 30 on two idle cores
LOG_TAIL = 80  # lines

# Nothing is fetched, counted or sent; one thread, since the model is nothing and the cores are the front end's.
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}
ENGINE_FLAGS = (
    *("--served-model-name", "tiny"),
    *("--load-format", "dummy"),
    *("--dtype", "bfloat16"),
    *("--max-model-len", "4096"),
    *("--max-num-seqs", "16"),
    *("--logits-processors", "emits:Emits"),
    "--enforce-eager",
)


@contextlib.asynccontextmanager
async def engine(built: Path, flags: Sequence[str], folder: Path) -> AsyncIterator[str]:
    """A vLLM of the build in `built`, with further `flags`; its log is in `folder`. Gives its address."""
    port = free_port()
    command = [built / "venv/bin/python", "-m", "vllm.entrypoints.cli.main", "serve", built / "model"]
    where = ("--host", "127.0.0.1", "--port", str(port))
    environ = {**os.environ, **OFFLINE, "PYTHONPATH": str(HERE / "lab")}
    url = f"http://127.0.0.1:{port}"
    async with _process([*map(str, command), *where, *ENGINE_FLAGS, *flags], environ, folder / "engine.log") as process:
        await _up("engine", f"{url}/health", process, folder / "engine.log")
        yield url


@contextlib.asynccontextmanager
async def gateway(folder: Path, name: str, config: Mapping[str, Any]) -> AsyncIterator[str]:
    """A gateway with a configuration, but for its listeners. Its file and its log are `name` in `folder`."""
    port, admin = free_port(), free_port()
    listeners = {"listen": f"127.0.0.1:{port}", "admin_listen": f"127.0.0.1:{admin}"}
    (folder / f"{name}.yaml").write_text(json.dumps({**config, **listeners}))  # JSON is YAML
    command = [sys.executable, "-m", "gateway", "serve", "--config", str(folder / f"{name}.yaml")]
    async with _process(command, dict(os.environ), folder / f"{name}.log") as process:
        await _up("gateway", f"http://127.0.0.1:{admin}/readyz", process, folder / f"{name}.log")
        yield f"http://127.0.0.1:{port}"


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def _process(command: list[str], environ: dict[str, str], log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("wb") as out:
        # A session of its own: vLLM's engine is a child, which must not outlive a front end that had to be killed.
        process = await asyncio.create_subprocess_exec(
            *command, cwd=REPO, env=environ, stdout=out, stderr=asyncio.subprocess.STDOUT, start_new_session=True
        )
        try:
            yield process
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), 20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _up(kind: str, url: str, process: asyncio.subprocess.Process, log: Path) -> None:
    """Return as soon as `url` answers 200. RuntimeError with the log's end where it does not."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(UP_WITHIN[kind]), aiohttp.ClientSession() as client:
            while process.returncode is None:
                with contextlib.suppress(aiohttp.ClientError):
                    async with client.get(url) as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.2)  # it tells nobody that it is up: it must be asked
    how = f"ended with {process.returncode}" if process.returncode is not None else "did not come up in time"
    raise RuntimeError(f"the {kind} {how}; the end of {log}:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-LOG_TAIL:])
