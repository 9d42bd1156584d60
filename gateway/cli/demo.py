"""`demo`: the embedded engine plays leaks that clients really saw, the gateway stands in front, both answers are shown.

Owns what runs, what is asked, when an answer is right, and what the screen says. The layout is `side_by_side`, the
client `streamed_answer`, the cases are `gateway.scripted_engine`'s. No model, no GPU, no network beyond loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import os
import shlex
import shutil
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TextIO

import aiohttp

from gateway.cli.side_by_side import LeakRow, Part, Style, leak_table, leaked_parts, side_by_side
from gateway.cli.streamed_answer import CHAT, REASONING_FIELDS, Answer, ask
from gateway.findings import Finding
from gateway.scripted_engine import Recording, Script, ScriptedEngine, load_recordings, load_scripts
from gateway.server.app import GatewayServer
from gateway.server.config import config_from_mapping

AnyCase = Script | Recording

CHARACTERS_PER_EVENT = 4  # about a token, so that markers arrive in pieces as they do from an engine
EVENTS_PER_SECOND = 60
MAX_PORT = 65535
CANNOT_LISTEN = (errno.EADDRINUSE, errno.EACCES)
MIN_WIDTH, MAX_WIDTH = 60, 120
MESSAGES = [{"role": "user", "content": "hi"}]
CALLS = "; "  # between the calls of one answer
TITLES = ("directly from the engine", "through the gateway")

INTRO = """\
integrity-gateway demo: each case is asked for twice
  engine  {engine}  scripted: plays what real engines sent
  gateway {gateway}  in front of it, profile repair

"""

NEXT_STEPS = """
How to go on
  integrity-gateway demo --serve
      keeps this engine and this gateway running, for curl and a browser
  integrity-gateway serve --upstream http://127.0.0.1:8000 --dialect think
      in front of your own vLLM or SGLang; `dialects list` names the families
  integrity-gateway serve --upstream http://127.0.0.1:8000 --profile observe
      changes no byte and counts what it would have done"""

SERVING = """
# Both keep running until Ctrl-C. The same request to the engine:
curl -sN {engine}{chat} -H 'Content-Type: application/json' \\
  -d {body}

# and to the gateway:
curl -sN {gateway}{chat} -H 'Content-Type: application/json' \\
  -H 'X-Integrity-Report: 1' \\
  -d {body}

# Every case is a model; what is no chat completion passes through:
curl -s {gateway}/v1/models

# What was counted:
curl -s {admin}/metrics"""


class Ports(NamedTuple):
    """Where to listen; 0 takes a free port."""

    engine: int
    gateway: int


FREE = Ports(0, 0)


class Urls(NamedTuple):
    """Base URLs of what runs."""

    engine: str
    gateway: str
    admin: str


@dataclass(frozen=True, slots=True)
class Result:
    """One case, asked directly and through the gateway."""

    case: AnyCase
    direct: Answer
    through: Answer

    @property
    def as_expected(self) -> bool:
        """The gateway's answer ended and says what the case expects, the reasoning under both names."""
        case, answer = self.case, self.through
        wanted = {"content": case.expect_content} | dict.fromkeys(REASONING_FIELDS, case.expect_reasoning)
        called = answer.calls == case.expect_calls and (answer.finish == "tool_calls") is bool(case.expect_calls)
        return answer.ended and not answer.error and answer.fields == wanted and called

    def rows(self) -> list[LeakRow]:
        """The lines of the leak table, one a finding; a case without any has one line that says so."""
        return [
            LeakRow(
                case=self.case.name,
                finding=finding,
                leaked=" ".join(sorted(found.markers, key=self._place)) or self._leaked_text(finding),
                direct=found.count,
                through=found.delivered,
            )
            for finding, found in self.through.findings.items()
        ] or [LeakRow(case=self.case.name, finding="-", leaked="(no leak)", direct=0, through=0)]

    def _place(self, marker: str) -> int:
        """Where the engine's answer has the marker first: the reasoning, then the content."""
        return (self.direct.reasoning + self.direct.content).find(marker)

    def _leaked_text(self, finding: str) -> str:
        if finding == Finding.ANSWER_IN_REASONING:
            return self.case.expect_content
        content = leaked_parts(self.direct.content, self.case.expect_content)
        reasoning = leaked_parts(self.direct.reasoning, self.case.expect_reasoning)
        calls = (call for call in self.direct.calls if call not in self.case.expect_calls)
        return next(filter(None, (*content, *reasoning, *calls)), "-")

    def block(self, number: str, style: Style, *, final: bool) -> list[str]:
        """What the screen shows of the case. Only a whole answer (`final`) is compared: half of one looks leaked."""
        head = textwrap.wrap(f"{number} {self.case.name}: {self.case.title}", style.width)
        note = textwrap.wrap(self.case.note, style.width, initial_indent="  ", subsequent_indent="  ")
        sides = []
        for answer in (self.direct, self.through):
            label = ", ".join(name for name in REASONING_FIELDS if answer.fields[name]) or "reasoning"
            wanted = self.case.expect_reasoning if final else answer.reasoning
            reasoning = Part(label=label, text=answer.reasoning, expected=wanted)
            wanted = self.case.expect_content if final else answer.content
            content = Part(label=answer.error or "content", text=answer.content, expected=wanted)
            sides.append([reasoning, content, *self._calls(answer, final=final)])
        return [*head, *note, "", *side_by_side(TITLES, sides[0], sides[1], style)]

    def _calls(self, answer: Answer, *, final: bool) -> list[Part]:
        """The tool calls of an answer to a request that has tools."""
        if "tools" not in self.case.request:
            return []
        text, wanted = (CALLS.join(calls) for calls in (answer.calls, self.case.expect_calls))
        return [Part(label="tool calls", text=text, expected=wanted if final else text)]


class Screen:
    """Writes blocks of lines. With `live` a block may be drawn again over itself until it is kept."""

    def __init__(self, out: TextIO, *, style: Style, live: bool, height: int) -> None:
        self.style = style
        self._live = live
        self._out = out
        self._height = height
        self._drawn = 0

    def draw(self, lines: Sequence[str]) -> None:
        """Draws a block that will change. One higher than the terminal is left to `keep`: no way back to its top."""
        if self._live and len(lines) < self._height:
            self._write(lines)
            self._drawn = len(lines)

    def keep(self, lines: Sequence[str]) -> None:
        """Writes lines that stay, in place of what `draw` drew."""
        self._write(lines)
        self._drawn = 0

    def _write(self, lines: Sequence[str]) -> None:
        back = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        self._out.write(back + "".join(f"{line}\n" for line in lines))
        self._out.flush()


def config_for(cases: Sequence[AnyCase], engine: str, *, port: int = 0) -> dict[str, Any]:
    """The gateway's configuration: a route for each case's model, as its user would write it."""
    routes = [
        {
            "match": {"models": [case.name]},
            "upstream": engine,
            "engine": "vllm",
            "dialect": case.dialect,
            "source": case.source,
            "starts_in": case.starts_in,
            "policy": case.policy,
        }
        for case in cases
    ]
    return {"listen": f"127.0.0.1:{port}", "admin_listen": "127.0.0.1:0", "profile": "repair", "routes": routes}


@asynccontextmanager
async def running(cases: Sequence[AnyCase], *, ports: Ports = FREE) -> AsyncIterator[Urls]:
    """The engine with the cases, and the gateway in front of it, on the loopback interface. Raises OSError."""
    scripts = [case for case in cases if isinstance(case, Script)]
    recordings = [case for case in cases if isinstance(case, Recording)]
    engine = ScriptedEngine(scripts, recordings)
    try:
        engine_url = await engine.start(port=ports.engine)
        config = config_for(cases, engine_url, port=ports.gateway)
        gateway = GatewayServer(config_from_mapping(config, source="demo"))
        listen, admin = await gateway.start()
        try:
            yield Urls(engine_url, listen, admin)
        finally:
            await gateway.stop()
    finally:
        await engine.stop()


def request_for(case: AnyCase, *, pace: float) -> dict[str, Any]:
    """The streamed request for a case."""
    playback = {"characters": CHARACTERS_PER_EVENT, "events_per_second": pace}
    return {"model": case.name, "messages": MESSAGES, "stream": True, **case.request, "vllm_xargs": playback}


async def run(cases: Sequence[AnyCase], urls: Urls, *, pace: float, screen: Screen) -> bool:
    """Shows the cases one after the other, then the leak table. True when every answer is as expected."""
    results = []
    async with aiohttp.ClientSession() as session:
        for position, case in enumerate(cases, 1):
            number = f"[{position}/{len(cases)}]"
            results.append(await _show(session, urls, case, number=number, pace=pace, screen=screen))
    rows = [row for result in results for row in result.rows()]
    wrong = [result.case.name for result in results if not result.as_expected]
    screen.keep(leak_table(rows, screen.style))
    direct, through = sum(row.direct for row in rows), sum(row.through for row in rows)
    right = f"{len(cases) - len(wrong)} of {len(cases)} as expected"
    screen.keep(["", f"{right}; findings: {direct} directly, {through} left by the gateway"])
    screen.keep([f"NOT AS EXPECTED: {name}" for name in wrong])
    return not wrong


async def _show(
    session: aiohttp.ClientSession, urls: Urls, case: AnyCase, *, number: str, pace: float, screen: Screen
) -> Result:
    """Asks for a case twice at the same time and shows both answers, while they stream where the screen is live."""
    result = Result(case, Answer(), Answer())

    def redraw() -> None:
        screen.draw(result.block(number, screen.style, final=False))

    body = request_for(case, pace=pace)
    await asyncio.gather(
        ask(session, urls.engine, body, result.direct, redraw),
        ask(session, urls.gateway, body, result.through, redraw),
    )
    verdict = "as expected" if result.as_expected else "NOT AS EXPECTED"
    screen.keep([*result.block(number, screen.style, final=True), f"=> {verdict}", ""])
    return result


async def _until_stopped() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


async def _demo(
    shown: Sequence[AnyCase], cases: Sequence[AnyCase], *, ports: Ports, pace: float, screen: Screen, serve: bool
) -> int:
    async with running(cases, ports=ports) as urls:
        screen.keep(INTRO.format(engine=urls.engine, gateway=urls.gateway).splitlines())
        passed = await run(shown, urls, pace=pace, screen=screen)
        if serve:
            body = shlex.quote(json.dumps(request_for(shown[0], pace=EVENTS_PER_SECOND)))
            screen.keep(SERVING.format(**urls._asdict(), chat=CHAT, body=body).splitlines())
            await _until_stopped()
        else:
            screen.keep(NEXT_STEPS.splitlines())
    return 0 if passed else 1


def _screen(out: TextIO, environ: Mapping[str, str], *, fast: bool) -> Screen:
    size = shutil.get_terminal_size()
    terminal = out.isatty() and environ.get("TERM") != "dumb"
    width = max(MIN_WIDTH, min(size.columns, MAX_WIDTH))
    style = Style(width=width, colour=terminal and not environ.get("NO_COLOR"))
    return Screen(out, style=style, live=terminal and not fast and width <= size.columns, height=size.lines)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a port from 0 (a free one) to {MAX_PORT}")
    return int(text)


def _options(argv: list[str], names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="integrity-gateway demo", description="Shows leaking engine output before and after the gateway."
    )
    parser.add_argument("--serve", action="store_true", help="keep engine and gateway running, print curl commands")
    parser.add_argument("--fast", action="store_true", help="no pacing on a terminal")
    parser.add_argument("--case", action="append", metavar="NAME", choices=names, help=f"only: {', '.join(names)}")
    for flags, what in ((["--gateway-port", "--port"], "gateway"), (["--engine-port"], "embedded engine")):
        said = f"where the {what} listens (default: a free port)"
        parser.add_argument(*flags, type=_port, default=0, metavar="PORT", help=said)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Exit code 0 when every answer of the gateway is what its case expects, else 1; 2 when a port is taken."""
    cases: list[AnyCase] = [*load_scripts(), *load_recordings()]
    options = _options(argv, [case.name for case in cases])
    screen = _screen(sys.stdout, os.environ, fast=options.fast)
    pace = EVENTS_PER_SECOND if sys.stdout.isatty() and not options.fast else 0
    shown = [case for case in cases if not options.case or case.name in options.case]
    ports = Ports(options.engine_port, options.gateway_port)
    try:
        return asyncio.run(_demo(shown, cases, ports=ports, pace=pace, screen=screen, serve=options.serve))
    except OSError as error:
        if error.errno not in CANNOT_LISTEN:
            raise
        print(f"demo: cannot listen: {error.strerror}", file=sys.stderr)
        return 2
