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


CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
FORWARDED = "forward  '<tool_call>'"


@pytest.mark.parametrize(
    ("text", "table", "result"),
    [
        (
            f"Now.\n{CALL}",
            [
                "      0  content    text     'Now.\\n'",
                f"      5  content    {FORWARDED}: opens a tool region (tool_open)",
                """      5  content    call     f('{"a": 1}')""",
            ],
            ["content, 5 characters:", "  Now.", "  ", "tool calls:", '  f({"a": 1})'],
        ),
        (
            f"<think>Now {CALL}",
            [
                "      0  content    drop     '<think>': opens the thought at the start of the output (think_open)",
                "      7  reasoning  text     'Now '",
                f"     11  reasoning  {FORWARDED}: may be a call, if the output ends with it (tool_open)",
                """     11  reasoning  call     f('{"a": 1}')""",
            ],
            ["content, 0 characters:", "tool calls:", '  f({"a": 1})'],
        ),
        (
            f"{CALL[:30]}",
            [
                f"      0  content    {FORWARDED}: opens a tool region (tool_open)",
                """      0  content    text     '<tool_call>\\n{"name": "f", "arg'  no whole call""",
            ],
            ["content, 30 characters:", "  <tool_call>", '  {"name": "f", "arg'],
        ),
        (
            '<tool_call>\n{"name": 1}',
            [
                f"      0  content    {FORWARDED}: opens a tool region (tool_open)",
                "      0  content    text     what follows began like a call, and is none",
                """      0  content    text     '<tool_call>\\n{"name": 1}'""",
            ],
            ["content, 23 characters:", "  <tool_call>", '  {"name": 1}'],
        ),
    ],
)
def test_a_tool_region_is_a_call_or_text_and_says_which(
    text: str, table: list[str], result: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("--dialect", "qwen3", "--tools", "hermes", "--no-stopped" if text == CALL[:30] else "--stopped")
    lines = explained(text, *args, tmp_path=tmp_path, capsys=capsys)
    assert lines[1 : len(table) + 1] == table
    assert lines[-len(result) :] == result


def test_with_tools_both_names_are_parser_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "output.txt").write_text("text", "utf-8")
    assert main([str(tmp_path / "output.txt"), "--dialect", "qwen", "--tools", "hermes"]) == 2
    assert "no rules for --reasoning-parser 'qwen'" in capsys.readouterr().err


def test_a_tool_parser_alone_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = explained(CALL, "--tools", "sglang/qwen25", tmp_path=tmp_path, capsys=capsys)
    assert lines[-2:] == ["tool calls:", '  f({"a": 1})']


def test_a_reasoning_parser_alone_leaves_calls_in_the_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = explained(CALL, "--dialect", "vllm/qwen3", tmp_path=tmp_path, capsys=capsys)
    assert lines[2].startswith("      0  tool       tool     '<tool_call>")
    shown = ["  <tool_call>", '  {"name": "f", "arguments": {"a": 1}}', "  </tool_call>"]
    assert lines[-8:] == ["content, 61 characters:", *shown, "tool text, part of the content, 61 characters:", *shown]


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


def test_a_response_template_stands_for_a_dialect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"fields": {"thinking": {"open": "<plan>", "close_pattern": "</plan>\\\\s*"}}}', "utf-8")
    (tmp_path / "output.txt").write_text("<plan>a</plan>b", "utf-8")
    args = [str(tmp_path / "output.txt"), "--response-template", str(path)]
    assert main(args) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-4:] == ["reasoning, 1 characters:", "  a", "content, 1 characters:", "  b"]
    told = "fields.thinking.close_pattern: white space beside the marker is left in the text"
    assert printed.err == f"explain: {path}: {told}\n"
    path.write_text("{}", "utf-8")
    assert main(args) == 2
    assert capsys.readouterr().err.startswith(f"explain: {path}: no response_template, ")


@pytest.mark.parametrize(
    "args",
    [
        ["output.txt", "--dialect", "think", "--starts-in", "middle"],
        ["output.txt"],
        ["output.txt", "--dialect", "think", "--response-template", "t.json"],
        ["output.txt", "--tools", "hermes", "--response-template", "t.json"],
    ],
)
def test_a_wrong_use_is_exit_code_2(args: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(args)
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
