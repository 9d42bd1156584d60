"""The `check` command: exit codes, and that everything a user must know is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli.check import main

GOOD = """routes:
- match: {models: ["qwen*"]}
  upstream: http://127.0.0.1:8000
  dialect: think
- upstream: [http://127.0.0.1:8001, http://127.0.0.1:8002]
policy:
  preamble: off
"""


def test_a_good_file_prints_each_route_and_the_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(GOOD, "utf-8")
    assert main(["--config", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "route qwen*: http://127.0.0.1:8000"
    assert lines[1].startswith("  dialect think: ")
    assert lines[2] == "  profile repair, reasoning field both, source auto"
    assert lines[3] == "route *: http://127.0.0.1:8001, http://127.0.0.1:8002"
    assert lines[4].startswith("  dialect generic: ")
    assert lines[6] == f"warning: {path}:7: policy.preamble: has no effect in this version"
    assert lines[7].startswith(f"OK: {path}: routes: 2, warnings: 1, rules: ")


def test_every_error_of_a_bad_file_goes_to_stderr_and_the_exit_code_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("profil: repair\nroutes: []\n", "utf-8")
    assert main(["--config", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"{path}:1: profil: unknown key, did you mean profile?\n"
        f"{path}:2: routes: got an empty list, expected a list of routes\n"
    )


def test_the_profile_of_the_environment_is_the_one_that_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTEGRITY_PROFILE", "observe")
    (tmp_path / "c.yaml").write_text(GOOD, "utf-8")
    assert main(["--config", str(tmp_path / "c.yaml")]) == 0
    assert "  profile observe, reasoning field as_upstream, source auto" in capsys.readouterr().out.splitlines()


def test_without_a_file_the_rules_alone_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("OK: dialects: ")


def test_a_bad_rule_is_told_with_its_file_and_the_exit_code_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "dialects" / "mine.yaml"
    bad.parent.mkdir()
    bad.write_text("name: mine\nnonsense: 1\n", "utf-8")
    (tmp_path / "c.yaml").write_text(GOOD, "utf-8")
    assert main(["--rules", str(tmp_path)]) == 2
    assert f"{bad}:2: nonsense: " in capsys.readouterr().err
    assert main(["--config", str(tmp_path / "c.yaml"), "--rules", str(tmp_path)]) == 2
    assert f"{bad}:2: nonsense: " in capsys.readouterr().err


def test_a_folder_of_rules_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rules", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"{tmp_path}/none: --rules: is no folder, expected a folder of rules\n"
