"""The proxies under test: how each is started in front of the engine, ended, and charged for its CPU.

CPU is the scheduler's own account (`/proc/PID/task/*/schedstat`) of the process and its children, all threads.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NGINX = """
worker_processes 1; daemon off; pid {work}/pid; error_log {work}/error.log error;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 10000000;
  client_body_temp_path {work}/a; proxy_temp_path {work}/b; fastcgi_temp_path {work}/c; uwsgi_temp_path {work}/d;
  scgi_temp_path {work}/e;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 256; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""
CONFIG = """
listen: 127.0.0.1:{port}
admin_listen: 127.0.0.1:0
profile: repair
drain: {{settle_seconds: 0, timeout_seconds: 5}}
routes:
  - match: {{models: ["*"]}}
    upstream: http://127.0.0.1:{engine}
    engine: vllm
    dialect: think
"""


def free_port() -> int:
    """A loopback port that nobody holds at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _nginx(port: int, engine: int, work: Path) -> list[str]:
    (work / "nginx.conf").write_text(NGINX.format(work=work, port=port, engine=engine))
    return ["nginx", "-p", str(work), "-e", str(work / "error.log"), "-c", str(work / "nginx.conf")]


def _passthrough(port: int, engine: int, work: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.passthrough", str(port), f"http://127.0.0.1:{engine}"]


def _gateway(port: int, engine: int, work: Path) -> list[str]:
    (work / "gateway.yaml").write_text(CONFIG.format(port=port, engine=engine))
    return [sys.executable, "-m", "gateway", "serve", "--config", str(work / "gateway.yaml")]


TARGETS: dict[str, Callable[[int, int, Path], list[str]]] = {
    "passthrough": _passthrough,
    "gateway": _gateway,
    **({"nginx": _nginx} if shutil.which("nginx") else {}),
}
"""Name to the command that starts it: (its port, the engine's port, an empty folder) -> arguments."""


class DidNotStart(Exception):
    """A process ended, or stayed deaf, before it accepted connections. Carries the end of its log."""


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)  # polling another process's socket: there is nothing to wait on
    raise DidNotStart(log.read_text(errors="replace")[-800:])


@contextmanager
def running(command: list[str], port: int, work: Path) -> Iterator[int]:
    """Start a process, yield its pid once it accepts on `port`, and end it. Raises DidNotStart."""
    log, checkout = work / "log", Path(__file__).parents[1]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, cwd=checkout) as process:
        try:
            _await_port(process, port, log)
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _tree(int(child))


def cpu_ns(pid: int) -> int:
    """CPU nanoseconds used so far by a process and its children."""
    tasks = (task for member in _tree(pid) for task in Path(f"/proc/{member}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
