"""`demo` against the real gateway: every shipped case repaired, the screen right at 80 columns."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.cli.demo import Ports, Result, Screen, config_for, main, request_for, run, running
from gateway.cli.side_by_side import LEAK, Style
from gateway.cli.streamed_answer import CHAT, REASONING_FIELDS, Answer, ask
from gateway.scripted_engine import Script, load_recordings, load_scripts
from gateway.server.config import config_from_mapping

REPO = Path(__file__).parents[2]
SCRIPTS = {script.name: script for script in load_scripts()}
CASES = [*SCRIPTS.values(), *load_recordings()]
EIGHTY = Style(width=80, colour=False)


def demo(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gateway", "demo", *arguments]


@pytest.fixture
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("eighty_columns")
def test_every_shipped_case_comes_out_as_it_expects(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([])
    out = capsys.readouterr().out
    assert "NOT AS EXPECTED" not in out
    assert code == 0
    assert out.count("=> as expected") == len(CASES)
    assert [case.name for case in CASES if f"] {case.name}: " not in out] == []


@pytest.mark.usefixtures("eighty_columns")
def test_a_pipe_gets_plain_lines_of_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if len(line) > 80] == []


@pytest.mark.usefixtures("eighty_columns")
def test_one_case_is_shown_beside_its_repair_and_in_the_leak_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--case", "harmony-return-token"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  Water boils at 100 degrees           |   Water boils at 100 degrees Celsius." in lines
    assert "  Celsius.<|return|>                   |" in lines
    table = lines[lines.index("-" * 80) + 1]
    assert re.fullmatch(r"harmony-return-token \w+ +<\|return\|> +1 +0", table)


@pytest.mark.usefixtures("eighty_columns")
def test_a_call_is_shown_as_the_text_it_was_and_as_the_call_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--case", "call-left-in-content"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = lines.index(f"{'content':38} | content")
    assert lines[shown + 1 : shown + 7] == [
        '  Let me look.\\n<tool_call>\\n{"name":  |   Let me look.\\n',
        '  "get_weather", "arguments":          |',
        '  {"city": "Oslo"}}\\n</tool_call>      |',
        "tool calls                             | tool calls",
        '  (nothing)                            |   get_weather({"city": "Oslo"})',
        "=> as expected",
    ]
    assert re.search(r"^call-left-in-content tool_rescued <tool_call>\\n.* 1 +0$", "\n".join(lines), re.MULTILINE)


@pytest.mark.usefixtures("eighty_columns")
def test_an_unknown_case_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--case", "nope"])
    assert stopped.value.code == 2
    assert "k3-skipped-channel" in capsys.readouterr().err


@pytest.mark.parametrize(
    "cut", [{"characters": 1}, {"characters": 3, "bytes_per_write": 37}, {"finish_with_last": True}]
)
async def test_every_case_reads_the_same_at_every_cut(cut: dict[str, Any]) -> None:
    wrong = []
    async with running(CASES) as urls, aiohttp.ClientSession() as session:
        for case in CASES:
            answer = Answer()
            body = {**request_for(case, pace=0), "vllm_xargs": cut}
            await ask(session, urls.gateway, body, answer, lambda: None)
            if not Result(case, Answer(), answer).as_expected:
                wrong.append((case.name, answer))
    assert wrong == []


async def test_every_case_reads_the_same_without_streaming() -> None:
    cases = [case for case in CASES if isinstance(case, Script) or case.whole]
    got, wanted = {}, {}
    async with running(cases) as urls, aiohttp.ClientSession() as session:
        for case in cases:
            async with session.post(
                urls.gateway + CHAT, json={**request_for(case, pace=0), "stream": False}
            ) as response:
                message = (await response.json())["choices"][0]["message"]
            got[case.name] = [message.get(name) or "" for name in (*REASONING_FIELDS, "content")]
            calls = [call["function"] for call in message.get("tool_calls") or ()]
            got[case.name] += [f"{call['name']}({call['arguments']})" for call in calls]
            wanted[case.name] = [case.expect_reasoning, case.expect_reasoning, case.expect_content, *case.expect_calls]
    assert got == wanted


async def test_a_wrong_answer_is_named_and_fails_the_run() -> None:
    right = SCRIPTS["k3-skipped-channel"]
    wrong = replace(SCRIPTS["closer-at-head-of-content"], expect_content="something else")
    out = io.StringIO()
    screen = Screen(out, style=EIGHTY, live=False, height=24)
    async with running([right, wrong]) as urls:
        assert await run([right, wrong], urls, pace=0, screen=screen) is False
    assert "1 of 2 as expected" in out.getvalue()
    assert out.getvalue().endswith("NOT AS EXPECTED: closer-at-head-of-content\n")


async def test_an_answer_with_other_calls_is_not_as_expected() -> None:
    case = SCRIPTS["arguments-sent-twice"]
    direct, through = Answer(), Answer()
    async with running([case]) as urls, aiohttp.ClientSession() as session:
        for url, answer in ((urls.engine, direct), (urls.gateway, through)):
            await ask(session, url, request_for(case, pace=0), answer, lambda: None)
    assert direct.fields == through.fields
    assert (Result(case, direct, direct).as_expected, Result(case, direct, through).as_expected) == (False, True)


async def test_a_gateway_that_is_gone_fails_the_run_with_its_error_on_the_screen() -> None:
    case = SCRIPTS["k3-skipped-channel"]
    out = io.StringIO()
    async with running([case]) as urls:
        pass
    assert await run([case], urls, pace=0, screen=Screen(out, style=EIGHTY, live=False, height=24)) is False
    assert out.getvalue().count("ClientConnectorError") == 2


async def test_a_live_screen_shows_the_answer_growing_in_place() -> None:
    case = SCRIPTS["mistral-think-in-content"]
    out = io.StringIO()
    async with running([case]) as urls:
        assert await run([case], urls, pace=200, screen=Screen(out, style=EIGHTY, live=True, height=24))
    drawn = re.split(r"\x1b\[\d+F\x1b\[J", out.getvalue())
    assert len(drawn) > 3
    assert {block.splitlines()[0] for block in drawn} == {f"[1/1] {case.name}: {case.title}"}
    assert "=> as expected" in drawn[-1] and "=> as expected" not in "".join(drawn[:-1])


def test_a_block_is_drawn_over_until_it_is_kept() -> None:
    out = io.StringIO()
    screen = Screen(out, style=EIGHTY, live=True, height=4)
    screen.draw(["a", "b"])
    screen.draw(["a", "b", "c"])
    screen.draw(["too", "high", "for", "it"])
    screen.keep(["kept"])
    screen.draw(["next"])
    assert out.getvalue() == "a\nb\n\x1b[2F\x1b[Ja\nb\nc\n\x1b[3F\x1b[Jkept\nnext\n"


def test_a_screen_that_is_not_live_writes_only_what_is_kept() -> None:
    out = io.StringIO()
    screen = Screen(out, style=EIGHTY, live=False, height=24)
    screen.draw(["a"])
    screen.keep(["b"])
    assert out.getvalue() == "b\n"


def test_the_routes_are_configured_without_a_warning() -> None:
    config = config_from_mapping(config_for(CASES, "http://127.0.0.1:1"), source="demo")
    assert config.warnings == ()
    assert [route.match.models for route in config.routes] == [(case.name,) for case in CASES]


def terminal_output(environ: dict[str, str]) -> bytes:
    """What `demo --fast` writes for one case when its standard output is a terminal."""
    controller, terminal = pty.openpty()
    command = demo("--fast", "--case", "mistral-think-in-content")
    with subprocess.Popen(command, cwd=REPO, stdout=terminal, env=environ) as process:
        os.close(terminal)
        out = b""
        try:
            while piece := os.read(controller, 65536):
                out += piece
        except OSError:  # Linux reports the closed terminal as EIO
            pass
    os.close(controller)
    assert process.returncode == 0
    return out


def test_leaks_are_coloured_on_a_terminal_unless_no_color_is_set() -> None:
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", "NO_COLOR": ""}
    mark = LEAK.encode()
    assert mark + b"[THINK]17" in terminal_output(environ)
    assert b"\x1b" not in terminal_output({**environ, "NO_COLOR": "1"})
    assert b"\x1b" not in terminal_output({**environ, "TERM": "dumb"})


def test_serving_goes_on_until_it_is_interrupted() -> None:
    case = SCRIPTS["think-block-in-content"]
    command = demo("--serve", "--case", case.name)
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.endswith("/metrics\n"):
                break
        gateway = re.search(r"gateway (http://\S+)", "".join(lines))
        assert gateway
        body = json.dumps({**request_for(case, pace=0), "stream": False}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(gateway[1] + "/v1/chat/completions", data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as response:
            message = json.load(response)["choices"][0]["message"]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
    assert (message["reasoning_content"], message["content"]) == (case.expect_reasoning, case.expect_content)
    assert_pasteable("".join(lines).partition("# Both keep running")[2])


def assert_pasteable(text: str) -> None:
    """Four commands and comments, nothing else: what a shell makes of them is what the demo means."""
    script = f"curl() {{ printf '%s\\n' \"$2\"; }}\n#{text}"
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=10)
    paths = [re.sub(r"^http://127\.0\.0\.1:\d+", "", line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr, paths) == (0, "", [CHAT, CHAT, "/v1/models", "/metrics"])


async def test_the_ports_may_be_chosen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        engine, gateway = one.getsockname()[1], other.getsockname()[1]
    async with running(CASES[:1], ports=Ports(engine, gateway)) as urls:
        assert (urls.engine, urls.gateway) == (f"http://127.0.0.1:{engine}", f"http://127.0.0.1:{gateway}")


@pytest.mark.parametrize("option", ["--engine-port", "--gateway-port", "--port"])
def test_a_port_that_is_taken_is_one_line_and_exit_code_two(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--case", "mistral-think-in-content", option, str(port)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert re.fullmatch(rf"demo: cannot listen: .*{port}.*in use\n", err)


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_is_none_is_a_usage_error(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([f"--port={port}"])
    assert stopped.value.code == 2
    assert "expected a port from 0" in capsys.readouterr().err


async def test_the_leak_table_names_markers_in_the_order_of_the_text() -> None:
    case = SCRIPTS["thinking-tag-in-content"]
    out = io.StringIO()
    async with running([case]) as urls:
        await run([case], urls, pace=0, screen=Screen(out, style=EIGHTY, live=False, height=24))
    assert re.search(r"boundary_token +<thinking> </thinking> ", out.getvalue())
