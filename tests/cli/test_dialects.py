"""The `dialects` command: what it prints, and what its exit code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.cli.dialects import main
from gateway.errors import ConfigError
from gateway.rulebook.load import load_rulebook, shipped_rules
from tests.support.rules import MINE as GOOD

SHIPPED = load_rulebook()


def file(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("argv", [["list"], []])
def test_list_names_every_family_and_call_format_with_every_parser_name(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 0
    out = capsys.readouterr().out
    rulebook = load_rulebook()
    words = set(re.split(r"[\s,]+", out))
    for entry in (*rulebook.dialects.values(), *rulebook.calls.values()):
        assert {entry.name, *(alias for names in entry.aliases.values() for alias in names)} <= words
    assert max(map(len, out.splitlines())) <= 100
    assert f"rules {rulebook.digest}" in out


def test_list_with_rules_has_the_users_family_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file(tmp_path / "dialects" / "mine.yaml", GOOD)
    for argv in (["--rules", str(tmp_path), "list"], ["list", "--rules", str(tmp_path)], ["--rules", str(tmp_path)]):
        assert main(argv) == 0
        assert re.search(r"^mine +tag +-$", capsys.readouterr().out, re.MULTILINE)


def test_rules_before_and_behind_the_action_are_all_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file(tmp_path / "a" / "dialects" / "mine.yaml", GOOD)
    file(tmp_path / "b" / "dialects" / "mine.yaml", GOOD.replace("a family", "the last one counts"))
    file(tmp_path / "c" / "dialects" / "other.yaml", GOOD.replace("mine", "other"))
    folders = [str(tmp_path / name) for name in "abc"]
    assert main(["--rules", folders[0], "show", "mine", "--rules", folders[1], "--rules", folders[2]]) == 0
    assert "family mine (tag markers): the last one counts\n" in capsys.readouterr().out
    assert main(["--rules", folders[0], "--rules", folders[2], "show", "other"]) == 0


@pytest.mark.parametrize("name", [*SHIPPED.dialects, *SHIPPED.calls])
def test_show_fits_into_a_hundred_columns_and_loses_no_character(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    entries = [entries[name] for entries in (SHIPPED.dialects, SHIPPED.calls) if name in entries]
    solid = "".join(out.split())
    raws = [sample.raw for entry in entries for sample in entry.samples]
    assert [raw for raw in raws if "".join(repr(raw).split()) not in solid] == []


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("vllm/qwen3", ["family qwen "]),
        ("sglang/gpt-oss", ["family harmony ", "call format harmony:"]),
        ("vllm/hermes", ["call format hermes:"]),
    ],
)
def test_show_of_an_engines_parser_name_shows_what_it_means(
    name: str, titles: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", name]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert [line.startswith(title) for line, title in zip(lines, titles, strict=True)] == [True] * len(titles)


def test_show_prints_markers_guards_samples_and_the_call_format_of_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "kimi_k3"]) == 0
    out = capsys.readouterr().out
    for text in (
        "family kimi_k3 (control markers)",
        "think opener              '<|open|>think<|sep|>'",
        "an opener counts anywhere until the answer, never in it",
        "the channel was skipped",
        "reasoning 'two and two', content '4'",
        "call format kimi_k3",
        "region: '<|open|>tools<|sep|>' to '<|close|>tools<|sep|>'",
        "calls as elements; ends a thought at once; never a client's text",
        "calls as elements; the opener is part of the call; never a client's text",
        "the family counts its ids: {name}:{number}",
        'f {"a": "x", "n": 1}',
    ):
        assert text in out
    assert "never the answer" not in out


def test_show_prints_header_rules_and_that_a_thought_is_never_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "harmony"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"header text +assistant\\s\* +-> +answer", out)
    assert "a thought is never the answer, even with thinking off" in out
    assert "region: the dialect's header to the end of the last call\n    calls as arguments; never a client's" in out


def test_show_of_a_family_without_a_call_format_of_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "generic"]) == 0
    out = capsys.readouterr().out
    assert "an opener right after a closer goes back to thinking" in out
    assert "call format" not in out


def test_show_of_a_call_format_alone_prints_its_parser_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "granite_20b"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "call format granite_20b: JSON object behind <function_call>, no closer",
        "  vllm --tool-call-parser: granite-20b-fc",
        "  region: '<function_call>', '<function_call> ' to the end of the last call",
        "    calls as json",
        """  sample '<function_call> {"name": "f", "arguments": {"a": "x"}}<function_call> {"name": "g",""",
        """      "arguments": {}}'""",
        """    f {"a": "x"}""",
        "    g {}",
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("dsml", "  each also with '‖', '｜｜', '|', '||' for '｜'"),
        ("llama_json", "    calls as json; the opener is part of the call; counts at a line start only"),
        ("hermes", "    calls as json or elements"),
        ("inkling", "    no call is read; never a client's text"),
        ("template", "  no region: the checkpoint's own template says how calls are written"),
    ],
)
def test_show_prints_what_is_peculiar_to_a_call_format(
    name: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", name]) == 0
    out = capsys.readouterr().out.splitlines()
    assert line in out
    assert [shown for shown in out if "region:" in shown and "‖" in shown] == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("granite", "an opener counts as the very first thing of the output"),
        ("granite", "a closer counts inside a thought only"),
        ("hunyuan", "every tag may carry a suffix: `:NAME` before its last character"),
        ("kimi_k3", "every marker may have a blank before or behind the word between its tokens"),
        ("mistral", "special token             '[STREAMING_PAD]'"),
    ],
)
def test_show_prints_what_is_peculiar_to_a_family(name: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name]) == 0
    assert f"    {line}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("harmoni", "did you mean harmony?"),
        ("qwen3", "did you mean vllm/qwen3 or sglang/qwen3?"),
        ("zzz", "`dialects list` shows them"),
    ],
)
def test_show_of_an_unknown_name_is_refused(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"no family or call format {name!r}; {hint}")):
        main(["show", name])


@pytest.mark.parametrize("path", ["dialects/think.yaml", "dialects/harmony.yaml", "calls/dsml.yaml"])
def test_test_passes_for_shipped_files_and_says_how_much_was_read(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", str(shipped_rules() / path)]) == 0
    made = r"\d+ samples and \d+ outputs made from the markers, \d+ outputs with calls"
    assert re.search(rf"{made}, \d{{3,}} readings: all as declared\n$", capsys.readouterr().out)


@pytest.mark.parametrize("path", ["leaks/preamble_en.yaml", "engines/vllm.yaml"])
def test_test_of_a_file_without_markers_says_whether_it_is_valid(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", str(shipped_rules() / path)]) == 0
    assert capsys.readouterr().out.endswith(f"{path}: valid, and there is nothing to read in it\n")
    with pytest.raises(ConfigError, match="name is missing"):
        main(["test", file(tmp_path / path, "summary: one\n")])


def test_test_fails_with_what_differs_when_a_sample_reads_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path / "mine.yaml", GOOD.replace("reasoning: x,", "reasoning: z,"))
    assert main(["test", path]) == 1
    assert capsys.readouterr().out.startswith(
        f"FAILED ['<a>x</a>y'] from content\n  reasoning: got 'x', expected 'z'\n{path}: "
    )


def test_test_reads_the_generated_outputs_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Such a marker is ordinary text: the sample reads as it says, but an answer that ends in `<` would lose its words.
    text = GOOD.replace("samples", 'end_of_turn: ["answer<"]\nsamples')
    assert main(["test", file(tmp_path / "mine.yaml", text)]) == 1
    assert "FAILED ['answer<'] from content" in capsys.readouterr().out


def test_test_prints_ten_failures_and_counts_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = '  - {raw: "<a>x</a>y", reasoning: z, content: y}\n'
    assert main(["test", file(tmp_path / "mine.yaml", GOOD + sample * 12)]) == 1
    out = capsys.readouterr().out
    assert out.count("FAILED [") == 10
    assert out.endswith("readings: 12 outputs FAILED\n")


BOX = """\
name: box
summary: s
aliases: {}
bodies:
  - kind: elements
    call: {open: ["<run "], end: ">", words: '(?P<name>\\w+)'}
    close: ["</run>"]
    argument: {open: ["<arg "], end: ">", words: '(?P<name>\\w+)'}
    argument_close: ["</arg>"]
regions:
  - {open: ["<box>"], close: ["</box>"]}
samples:
  - {raw: "<box><run f><arg a>1</arg></run></box>", calls: [{name: f, arguments: {a: "1"}}]}
"""


def test_test_of_a_users_call_format_reads_a_corpus_made_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", file(tmp_path / "calls" / "box.yaml", BOX)]) == 0
    assert re.search(r" 9 outputs with calls, \d{3,} readings: all as declared\n$", capsys.readouterr().out)


def test_test_of_a_call_format_fails_with_the_content_and_the_calls_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path / "calls" / "box.yaml", BOX.replace('{a: "1"}}]', "{a: 1}}], content: x"))
    assert main(["test", path]) == 1
    assert capsys.readouterr().out.startswith(
        "FAILED '<box><run f><arg a>1</arg></run></box>' in pieces of 1\n"
        "  content: got '', expected 'x'\n"
        "  calls: got [('f', {'a': '1'})], expected [('f', {'a': 1})]\n"
    )


def test_test_says_so_where_no_sample_shows_how_a_call_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path / "calls" / "box.yaml", BOX[: BOX.index("samples")])
    assert main(["test", path]) == 0
    out = capsys.readouterr().out
    assert out.startswith("no sample of box shows how some of its calls are written: those were not tried\n")
    assert ", 0 outputs with calls, " in out


def test_test_of_a_dialect_reads_the_calls_of_its_formats_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file(tmp_path / "calls" / "box.yaml", BOX)
    path = file(tmp_path / "dialects" / "mine.yaml", GOOD + "calls: [box]\n")
    assert main(["--rules", str(tmp_path), "test", path]) == 0
    assert " 9 outputs with calls, " in capsys.readouterr().out


def test_test_of_a_bad_file_is_refused_with_its_place(tmp_path: Path) -> None:
    path = file(tmp_path / "mine.yaml", GOOD.replace("kind", "kinds"))
    with pytest.raises(ConfigError, match=re.escape(f"{path}:3: kinds: unknown key, did you mean kind?")):
        main(["test", path])


def test_test_reads_a_file_beside_the_users_other_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    regions = 'regions: [{open: ["<box>"], close: ["</box>"]}]\n'
    file(tmp_path / "calls" / "box.yaml", "name: box\nsummary: s\naliases: {}\n" + regions)
    path = file(tmp_path / "dialects" / "mine.yaml", GOOD + "calls: [box]\n")
    assert main(["--rules", str(tmp_path), "test", path]) == 0
    assert "all as declared" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["show"], ["test"], ["nonsense"]])
def test_a_usage_error_exits_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage: integrity-gateway dialects" in capsys.readouterr().err
