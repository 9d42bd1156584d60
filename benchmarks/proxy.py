"""What proxying costs: CPU of the whole process tree for each streamed event, against nginx and a bare passthrough.

A round starts each target afresh, proves that it works, warms it, runs every load, and ends it; the order rotates by
round. Ratios are taken within a round and then their median, so that a slow moment of the machine does not decide.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.load import Load, drive
from benchmarks.report import Figure
from benchmarks.targets import TARGETS, cpu_ns, free_port, running

LIMIT = 1.3  # times the bare passthrough

LOADS = tuple(
    Load(name=f"{pace} {kind}", streams=128, events=90, rate=30, lock=pace == "lock128", reasoning=share)
    for pace in ("paced128", "lock128")
    for kind, share in (("content", 0.0), ("reasoning", 0.8))
)
WARM_UP = Load(name="warm-up", streams=8, events=200, rate=0, lock=False, reasoning=0.5)
LEAK = Load(name="leak", streams=1, events=6, rate=0, lock=False, reasoning=0.0)
LEAK_WORDS = ["<think>", "hm", "</think>", "\n\n", "four", "."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One load against one target in one round."""

    round: int
    target: str
    load: str
    us_per_event: float
    p50_us: float
    p99_us: float


class Broken(Exception):
    """A target lost events, or the gateway did not repair: its cost means nothing."""


async def _answer(port: int, load: Load, **more: object) -> bytes:
    """The bytes of one answer, for a look at what a target does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(load.payload(headers=b"Connection: close\r\n", **more))
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


async def _prove(target: str, port: int) -> None:
    """A gateway that fell back to forwarding would be measured as fast: it must be seen to repair first."""
    named = await _answer(port, replace(LEAK, reasoning=1.0))
    leaking = await _answer(port, LEAK, words=LEAK_WORDS)
    if b"data: [DONE]" not in named or b"four" not in leaking:
        raise Broken(f"{target} does not answer: {named[-300:]!r}")
    repairs = b'"reasoning_content":' in named and b"</think>" not in leaking
    if repairs != (target == "gateway"):
        raise Broken(f"{target}: {'repairs' if repairs else 'does not repair'}: {leaking[-900:]!r}")


async def _visit(target: str, port: int, pid: int, loads: Sequence[Load], number: int) -> list[Row]:
    await _prove(target, port)
    await drive(port, WARM_UP)
    rows = []
    for load in loads:
        before = cpu_ns(pid)
        outcome = await drive(port, load)
        spent = cpu_ns(pid) - before
        if outcome.complete != load.streams:
            raise Broken(f"{target}, {load.name}: {outcome.complete} of {load.streams} streams came whole")
        cost = spent / 1e3 / outcome.events
        p50, p99 = outcome.percentile(0.5), outcome.percentile(0.99)
        rows.append(Row(round=number, target=target, load=load.name, us_per_event=cost, p50_us=p50, p99_us=p99))
    return rows


def rounds(loads: Sequence[Load], names: Sequence[str], count: int) -> Iterator[Row]:
    """Every row, as it is measured. Raises Broken or DidNotStart."""
    engine = free_port()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        work = Path(folder)
        with running([sys.executable, "-m", "benchmarks.engine", str(engine)], engine, work):
            for number in range(count):
                turn = number % len(names)
                for name in [*names[turn:], *names[:turn]]:
                    port, own = free_port(), work / f"{name}-{number}"
                    own.mkdir()
                    with running(TARGETS[name](port, engine, own), port, own) as pid:
                        yield from uvloop.run(_visit(name, port, pid, loads, number))


def _ratio(rows: Sequence[Row], load: str, target: str, peer: str) -> float:
    cost = {(row.round, row.target): row.us_per_event for row in rows if row.load == load}
    return median(cost[number, target] / cost[number, peer] for number, name in cost if name == target)


def figures(rows: Sequence[Row]) -> list[Figure]:
    """Medians over the rounds: cost and latency of each target, then the ratios to the passthrough and to nginx."""
    out = []
    loads, targets = dict.fromkeys(row.load for row in rows), dict.fromkeys(row.target for row in rows)
    for load in loads:
        for target in targets:
            mine = [row for row in rows if row.load == load and row.target == target]
            p50, p99 = median(row.p50_us for row in mine), median(row.p99_us for row in mine)
            cost, note = median(row.us_per_event for row in mine), f"latency p50 {p50:.0f} us, p99 {p99:.0f} us"
            out.append(Figure(what=f"{load}, {target}", value=cost, unit="us/event", note=note))
        for peer in targets:
            if peer != "gateway" and "gateway" in targets:
                limit = LIMIT if peer == "passthrough" else None
                value = _ratio(rows, load, "gateway", peer)
                out.append(Figure(what=f"{load}, gateway", value=value, unit=f"x {peer}", limit=limit))
    return out


def measure(*, quick: bool, targets: Sequence[str] = tuple(TARGETS)) -> list[Figure]:
    """Every figure of the proxies. `quick`: one round of few events, to see that it runs; its ratios mean nothing."""
    loads = [replace(load, streams=8, events=10) for load in LOADS] if quick else LOADS
    return figures(list(rounds(loads, targets, 1 if quick else 5)))
