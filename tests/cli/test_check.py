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
  structured_output: {check: enforce}
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
    assert lines[6] == f"warning: {path}:7: policy.structured_output.check: has no effect in this version"
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


def test_what_a_response_template_cannot_say_is_told_beside_other_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    (tmp_path / "t.json").write_text('{"fields": {"thinking": {"open_pattern": "<.*>", "close": "x"}}}', "utf-8")
    path.write_text(
        "profil: repair\nroutes:\n- upstream: http://h\n  dialect_options: {response_template: t.json}\n"
        "- upstream: http://h\n  dialect_options: t.json\n",
        "utf-8",
    )
    assert main(["--config", str(path)]) == 2
    told = "is no plain list of literals, so no dialect can say it; name the model's family instead"
    assert capsys.readouterr().err.splitlines() == [
        f"{path}:1: profil: unknown key, did you mean profile?",
        f"{path}:4: routes[0].dialect_options.response_template: {tmp_path}/t.json: "
        f"fields.thinking.open_pattern: {told}",
        f'{path}:6: routes[1].dialect_options: got "t.json", expected a mapping',
    ]


BAD = """routes:
- upstream: http://127.0.0.1:8000
  dialect: thinkk
  profile: observe
- upstream: http://127.0.0.1:8001
  dialect: qwen3
- upstream: http://127.0.0.1:8002
  engine: [vllm]
  dialect: {reasoning: zzz}
- text
profil: repair
"""


def test_keys_and_dialects_that_are_wrong_are_told_in_one_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(BAD, "utf-8")
    assert main(["--config", str(path)]) == 2
    said = [line.removeprefix(f"{path}:") for line in capsys.readouterr().err.splitlines()]
    for line, start in zip(
        said,
        [
            "3: routes[0].dialect: no family 'thinkk'; did you mean think?",
            "4: routes[0].profile: unknown key; the profile is the top-level `profile`, ",
            "6: routes[1].dialect: 'qwen3' is an engine's parser name, ",
            "8: routes[2].engine: ",
            "10: routes[3]: ",
            "11: profil: unknown key, did you mean profile?",
        ],
        strict=True,
    ):
        assert line.startswith(start)


def test_rules_that_are_wrong_are_told_beside_the_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules" / "dialects").mkdir(parents=True)
    (tmp_path / "rules" / "dialects" / "mine.yaml").write_text("nonsense: 1\n", "utf-8")
    (tmp_path / "c.yaml").write_text("profil: repair\nrules_dir: rules\n" + GOOD, "utf-8")
    assert main(["--config", str(tmp_path / "c.yaml")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{tmp_path}/c.yaml:1: profil: ")
    assert f"\n{tmp_path}/rules/dialects/mine.yaml:1: nonsense: " in err


def test_a_contradiction_and_a_dialect_are_told_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.yaml").write_text("rules_dir: none\n" + GOOD.replace("think", "thinkk"), "utf-8")
    assert main(["--config", str(tmp_path / "c.yaml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["routes[0].dialect", "rules_dir"]


@pytest.mark.parametrize("text", ["", "[]", "routes: 5", "routes: [", "\0"])
def test_what_is_no_configuration_at_all_is_one_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.yaml").write_text(text, "utf-8")
    assert main(["--config", str(tmp_path / "c.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


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
