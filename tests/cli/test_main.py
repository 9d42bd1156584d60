"""The dispatcher: exit codes and messages a shell sees (contract section 2)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import __version__
from gateway.cli.main import COMMANDS, main

REPO = Path(__file__).parents[2]


def _command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> dict[str, tuple[str, str]]:
    """A command table of one entry, whose module is `body`."""
    name = f"command_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(f"from gateway.errors import ConfigError\ndef main(argv):\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    return {"try": (name, "a command for this test")}


def test_every_command_of_the_table_has_a_module_to_import() -> None:
    assert [name for name, (module, _) in COMMANDS.items() if importlib.util.find_spec(module) is None] == []


def test_version_prints_the_package_version_and_exits_zero(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert (stop.value.code, capsys.readouterr().out) == (0, f"integrity-gateway {__version__}\n")


@pytest.mark.parametrize("argv", [[], ["no-such-command"], ["--no-such-option"]])
def test_a_usage_error_exits_two_and_explains_itself_on_stderr(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert err.startswith("usage: integrity-gateway")


def test_a_missing_command_is_the_only_thing_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().err.endswith("the following arguments are required: COMMAND\n")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []


def test_options_after_the_command_reach_the_command_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = _command(tmp_path, monkeypatch, "print(argv); return 1")
    assert main(["try", "--version", "--config", "a.yaml", "-"], commands=commands) == 1
    assert capsys.readouterr().out == "['--version', '--config', 'a.yaml', '-']\n"


def test_a_config_error_is_printed_without_a_traceback_and_exits_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = _command(tmp_path, monkeypatch, "raise ConfigError('a.yaml:3: routes: wrong')")
    assert main(["try"], commands=commands) == 2
    assert capsys.readouterr() == ("", "a.yaml:3: routes: wrong\n")


def test_an_interrupt_exits_with_the_shells_code_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["try"], commands=_command(tmp_path, monkeypatch, "raise KeyboardInterrupt")) == 130


def test_any_other_exception_is_a_bug_and_stays_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        main(["try"], commands=_command(tmp_path, monkeypatch, "return 1 / 0"))


def test_a_reader_that_leaves_early_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "talker.py").write_text("def main(argv):\n    print('x' * 1_000_000)\n    return 0\n")
    script = "from gateway.cli.main import main; raise SystemExit(main(['talk'], commands={'talk': ('talker', '')}))"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{REPO}:{tmp_path}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    "command", [["--version"], ["--help"], ["dialects", "list"], ["dialects", "show", "--help"], ["check"]]
)
def test_a_full_disk_is_one_line_on_stderr_and_exit_code_one(command: list[str]) -> None:
    run = [sys.executable, "-m", "gateway", *command]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(run, cwd=REPO, env=buffered, stdout=full, stderr=subprocess.PIPE, timeout=30)
    said = b"integrity-gateway: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_another_failure_of_the_system_stays_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        main(["try"], commands=_command(tmp_path, monkeypatch, "open('/no/such/file')"))


def test_running_the_package_is_running_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "--version"], cwd=REPO, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == f"integrity-gateway {__version__}\n"
