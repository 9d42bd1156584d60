"""The `explain` command: each decision with its place and reason, and the result (contract section 2)."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from gateway.cli.explain import main
from tests.support.rules import MINE


def explained(text: str, *args: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that the command prints about `text`."""
    path = tmp_path / "output.txt"
    path.write_bytes(text.encode())
    assert main([str(path), *args]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_region_and_decision_has_its_place_and_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "plan</think>\n\nUse `</think>`.<|im_end|>"
    lines = explained(text, "--dialect", "think", "--starts-in", "reasoning", tmp_path=tmp_path, capsys=capsys)
    assert lines[:6] == [
        "     at  region     what     text, and why",
        "      0  reasoning  text     'plan'",
        "      4  reasoning  drop     '</think>': closes the thought (think_close)",
        "     12  content    text     '\\n\\nUse `'",
        "     19  content    text     '</think>`.'  '</think>': quoted (think_close)",
        "     29  content    drop     '<|im_end|>': ends the turn (end_of_turn)",
    ]
    assert [text.index(word) for word in ("plan", "</think>", "\n\nUse", "`</think>", "<|im")] == [0, 4, 12, 18, 29]
    assert lines[7:] == [
        "reasoning, 4 characters:", "  plan",
        "content, 17 characters:", "  ", "  ", "  Use `</think>`.",
    ]  # fmt: skip


def test_a_replay_has_no_place_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, args = "Hi.<|close|>response<|sep|>", ("--dialect", "kimi_k3", "--starts-in", "reasoning")
    lines = explained(text, *args, tmp_path=tmp_path, capsys=capsys)
    assert lines[3] == "         content    replay   'Hi.'"
    assert lines[-4:] == ["reasoning, 3 characters:", "  Hi.", "content, 3 characters:", "  Hi."]
    cut = explained(text, *args, "--no-stopped", tmp_path=tmp_path, capsys=capsys)
    assert cut[-3:] == ["reasoning, 3 characters:", "  Hi.", "content, 0 characters:"]


def test_a_tool_region_is_shown_as_text_of_the_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "<|tool_call>call:f{}<tool_call|>"
    lines = explained(text, "--dialect", "gemma4", tmp_path=tmp_path, capsys=capsys)
    assert lines[1:3] == [
        "      0  content    forward  '<|tool_call>': opens a tool region (tool_open)",
        "      0  tool       tool     '<|tool_call>call:f{}'",
    ]
    assert lines[-4:] == [
        "content, 32 characters:",
        f"  {text}",
        "tool text, part of the content, 32 characters:",
        f"  {text}",
    ]


def test_what_is_suppressed_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Hi.<|end|><|start|>user<|message|>More?"
    lines = explained(text, "--dialect", "harmony", tmp_path=tmp_path, capsys=capsys)
    assert lines[-2:] == ["suppressed, 5 characters:", "  More?"]


def test_a_long_text_is_short_in_the_table_and_whole_in_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = explained("a" * 61, "--dialect", "think", tmp_path=tmp_path, capsys=capsys)
    assert lines[1] == f"      0  content    text     '{'a' * 59}'… (61 characters)"
    assert lines[-1] == f"  {'a' * 61}"


def test_standard_input_is_read_as_utf_8_with_replacement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xc3\xa9\r\n\xff")))
    assert main(["-", "--dialect", "think"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1] == "      0  content    text     'café\\r\\n\ufffd'"
    assert printed.err == "explain: 1 of 8 bytes are no UTF-8; U+FFFD stands for them\n"


def test_only_line_breaks_of_the_result_act_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = explained("a\tb\x1b[31m\r\nc", "--dialect", "think", tmp_path=tmp_path, capsys=capsys)
    assert lines[-2:] == ["  a\\tb\\x1b[31m\\r", "  c"]


def test_a_family_may_come_from_a_folder_of_rules_or_from_a_parser_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dialects").mkdir()
    (tmp_path / "dialects" / "mine.yaml").write_text(MINE, "utf-8")
    args = ("--dialect", "mine", "--rules", str(tmp_path))
    mine = explained("<a>a</a>b", *args, tmp_path=tmp_path, capsys=capsys)
    parser = explained("<think>a</think>b", "--dialect", "vllm/qwen3", tmp_path=tmp_path, capsys=capsys)
    assert mine[-4:] == parser[-4:] == ["reasoning, 1 characters:", "  a", "content, 1 characters:", "  b"]


@pytest.mark.parametrize(
    ("file", "dialect", "said"),
    [
        ("missing.txt", "think", "missing.txt: No such file or directory\n"),
        (".", "think", ": Is a directory\n"),
        ("output.txt", "thinkk", "did you mean think"),
        ("output.txt", "qwen3", "write --dialect vllm/qwen3, "),
        ("output.txt", "none", "reads nothing"),
    ],
)
def test_a_bad_file_or_dialect_is_said_on_stderr_and_the_exit_code_is_2(
    file: str, dialect: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "output.txt").write_bytes(b"text")
    assert main([str(tmp_path / file), "--dialect", dialect]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.startswith("explain: ")) == ("", True)
    assert said in captured.err
    assert "Errno" not in captured.err


def test_a_wrong_use_is_exit_code_2() -> None:
    with pytest.raises(SystemExit) as left:
        main(["output.txt", "--dialect", "think", "--starts-in", "middle"])
    assert left.value.code == 2


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        ('{"reasoning_effort": "none"}', "thinking: off (reasoning_effort is none)"),
        ('{"messages": []}', "thinking: unknown (no member says it)"),
    ],
)
def test_a_request_is_explained_by_its_thinking_decision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], request_: str, line: str
) -> None:
    path = tmp_path / "request.json"
    path.write_text(request_, "utf-8")
    assert main(["--request", str(path)]) == 0
    assert capsys.readouterr().out == line + "\n"


@pytest.mark.parametrize("text", ["[]", "no JSON"])
def test_a_request_that_is_no_object_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = tmp_path / "request.json"
    path.write_text(text, "utf-8")
    assert main(["--request", str(path)]) == 2
    assert capsys.readouterr().err.startswith("explain: ")


@pytest.mark.parametrize("argv", [[], ["a.txt"], ["--dialect", "think"]])
def test_without_a_text_and_its_dialect_or_a_request_there_is_nothing_to_explain(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(argv)
    assert exit_.value.code == 2
