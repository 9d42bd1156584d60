"""Runs the scenarios on the real engine, directly and through every gateway of `modes.yaml`.

    python -m tests.engine.run [GROUP …]

Prints what was seen in the form of `expected.yaml`, with the reasons that stand there; a cell that has none yet comes
under a reason to be written. To accept a change, look at it, give it its reason, and put it into that file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from tests.engine.pins import PINS, dump
from tests.engine.processes import REPO, engine, gateway
from tests.engine.scenarios import DIRECT, GROUPS, MODES, PATHS, RECEIVED, SHAPES, Case, Group, Scenario, right_in
from tests.engine.verdict import RIGHT, Answer, received, verdict

Cells = dict[str, str]  # by column; `RECEIVED` is what the engine sent where that is not right
Seen = dict[Case, Cells]


def run(group: Group) -> Seen:
    """Every answer of a group: what was wrong with it in each column. Starts and ends the engine."""
    return asyncio.run(_run(group, built()))


def built() -> Path:
    """The folder of the built engine: `INTEGRITY_ENGINE_DIR`, else `.engine`; a relative one is below the checkout."""
    folder = REPO / os.environ.get("INTEGRITY_ENGINE_DIR", ".engine")
    if not (folder / "model/config.json").exists():
        raise RuntimeError(f"no engine in {folder}: tests/engine/lab/build.sh {folder}")
    return folder


async def _run(group: Group, build: Path) -> Seen:
    async with contextlib.AsyncExitStack() as stack:
        # Logs and configurations of this run alone: several may use one build.
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="engine-test-")))
        urls = {DIRECT: await stack.enter_async_context(engine(build, group.flags, folder))}
        route = {"upstream": urls[DIRECT], "engine": "vllm", **group.route}
        for number, mode in enumerate(MODES):
            own = {key: value.format(build=build) for key, value in mode.route.items()}
            config = {**mode.config, "routes": [{**route, **own}]}
            urls[mode.name] = await stack.enter_async_context(gateway(folder, f"gateway-{number}", config))
        client = await stack.enter_async_context(aiohttp.ClientSession())
        seen: Seen = {}
        for scenario, shape in product(group.scenarios, SHAPES):
            case = Case(group=group.name, scenario=scenario.name, shape=shape)
            seen[case] = await _cells(client, urls, group, scenario, shape)
        return seen


async def _cells(
    client: aiohttp.ClientSession, urls: Mapping[str, str], group: Group, scenario: Scenario, shape: str
) -> Cells:
    asked = [_ask(client, url, group, scenario, shape) for url in urls.values()]
    answers = dict(zip(urls, await asyncio.gather(*asked), strict=True))
    direct = answers[DIRECT]
    words = {name: verdict(right_in(name, scenario), answer, engine=direct) for name, answer in answers.items()}
    return words if words[DIRECT] == RIGHT else {RECEIVED: received(direct), **words}


async def _ask(client: aiohttp.ClientSession, url: str, group: Group, scenario: Scenario, shape: str) -> Answer:
    async with client.post(url + PATHS[scenario.endpoint], json=scenario.body(group, shape)) as response:
        return Answer(scenario.endpoint, shape == "streamed", response.status, await response.read())


if __name__ == "__main__":
    names = sys.argv[1:] or list(GROUPS)
    seen: Seen = {}
    for name in names:
        seen |= run(GROUPS[name])
    print(dump(seen, reasons={case: row.why for row in PINS for case in row.cells}), end="")
