"""The `scan` command: what it takes for an answer, what it counts, and how it says so (contract section 2)."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway.cli.main import main
from gateway.findings import Finding
from tests.exchange.driver import DONE, delta, message
from tests.support import messages, responses
from tests.support.raw_text import Completions, Generate
from tests.support.rules import MINE
from tests.traces.recordings import recordings

REPO = Path(__file__).parents[2]
SECRET = "swordfish"
LEAK = f"<think>{SECRET}</think>Hi {SECRET}"
CLEAN = message(content="Hi")
LEAKY = message(content=LEAK)
STREAM = b"".join([delta(role="assistant", content=""), delta(content=LEAK), delta(finish="stop"), DONE])
TOOLS = {"tools": [{"type": "function", "function": {"name": "now", "parameters": {}}}]}
CALL = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'


class Shell:
    """The command on files of a folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        self.error = ""

    def run(self, *args: str, **files: bytes) -> tuple[int, str]:
        """Exit code and output. `files`: what `_` names with a dot."""
        for name, content in files.items():
            (self.folder / name.replace("_", ".")).write_bytes(content)
        names = [str(self.folder / name.replace("_", ".")) for name in files]
        code = main(["scan", *names, *args])
        out, self.error = self.capsys.readouterr()
        assert SECRET not in out + self.error
        return code, out.replace(f"{self.folder}/", "")

    def totals(self, *args: str, **files: bytes) -> dict[str, Any]:
        """The result as JSON."""
        code, out = self.run(*args, "--format", "json", **files)
        found: dict[str, Any] = json.loads(out)
        wrong = bool(found["findings"]) or any(each["violations"] for each in found["transcripts"])
        assert code == int(wrong)
        return found


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


def lines(*values: Any) -> bytes:
    """JSON, one value a line."""
    return b"".join([json.dumps(value).encode() + b"\n" for value in values])


def record(answer: bytes, **more: Any) -> dict[str, Any]:
    return {"request": more or {"model": "m"}, "response": json.loads(answer)}


# ---------------------------------------------------------------------- what an answer is

LEAKS: dict[str, tuple[str, bytes]] = {
    "a chat completion": ("chat", LEAKY),
    "one over several lines, with a mark of its coding": (
        "chat",
        b"\xef\xbb\xbf" + json.dumps(json.loads(LEAKY), indent=1).encode(),
    ),
    "one without an object": ("chat", json.dumps({"choices": json.loads(LEAKY)["choices"]}).encode()),
    "a stream of chat": ("chat", STREAM),
    "one with a comment before it": ("chat", b": hello\n\n" + STREAM),
    "a text completion": ("completions", Completions().body([[LEAK]])),
    "a stream of text": ("completions", b"".join(Completions().events([[LEAK]])) + DONE),
    "a body of generate": ("generate", Generate().body([[LEAK]])),
    "a stream of generate": ("generate", b"".join(Generate().events([[LEAK]])) + DONE),
    "a message": ("messages", messages.body([("text", LEAK)])),
    "a stream of a message": ("messages", b"".join(messages.events([("text", LEAK)]))),
    "a response": ("responses", responses.body([("content", LEAK)])),
    "a stream of a response": ("responses", b"".join(responses.stream([("content", LEAK)]))),
    "a text": ("completions", LEAK.encode()),
    "a list": ("chat", b"[" + LEAKY + b"]"),
    "a record": ("chat", lines(record(LEAKY))),
    "a record with a stream": ("chat", lines({"request": {}, "response": STREAM.decode()})),
    "a record with a text": ("completions", lines({"response": LEAK})),
    "the output of a batch": (
        "chat",
        lines({"custom_id": "1", "response": {"status_code": 200, "body": json.loads(LEAKY)}, "error": None}),
    ),
}


@pytest.mark.parametrize("name", LEAKS)
def test_an_answer_in_any_of_its_shapes_is_read_in_its_protocol(name: str, shell: Shell) -> None:
    protocol, content = LEAKS[name]
    found = shell.totals(a_txt=content)
    assert (found["answers"], found["leaky"], found["leak_rate"], found["unread"]) == (1, 1, 1.0, 0)
    [answer] = found["transcripts"]
    assert (answer["file"].endswith("a.txt"), answer["line"], answer["protocol"]) == (True, 1, protocol)
    assert {row["finding"] for row in answer["findings"]} == {"reasoning_leak", "boundary_token"}
    assert {row["action"] for row in found["findings"]} == {"would_move", "would_strip"}
    assert answer["violations"] == (["its object is None"] if name == "one without an object" else [])


def test_each_line_of_a_file_is_an_answer_and_told_by_its_number(shell: Shell) -> None:
    rows = lines(json.loads(CLEAN), record(LEAKY), LEAK) + b"\n" + lines(STREAM.decode())
    found = shell.totals(a_jsonl=rows)
    assert [(each["line"], bool(each["findings"])) for each in found["transcripts"]] == [
        *((1, False), (2, True), (3, True), (5, True)),
    ]
    assert (found["answers"], found["leaky"], found["leak_rate"]) == (4, 3, 0.75)


def test_an_error_of_the_engine_is_no_answer(shell: Shell) -> None:
    error = {"error": {"message": SECRET, "code": 500}}
    found = shell.totals(a_jsonl=lines(error, json.loads(CLEAN), {"response": error}))
    assert (found["answers"], found["unread"]) == (1, 2)
    assert [each["unread"] for each in found["transcripts"]] == [
        "an error of the engine",
        None,
        "an error of the engine",
    ]


def test_a_stream_that_is_only_an_error_is_read_and_says_nothing(shell: Shell) -> None:
    found = shell.totals(a_sse=b": hi\n\ndata: no json\n\n" + b'data: {"error": {"message": "it broke"}}\n\n')
    assert [each["protocol"] for each in found["transcripts"]] == ["chat"]
    assert found["transcripts"][0]["violations"] == ["event 0: its data is no JSON object"]


def test_an_empty_file_has_no_answer(shell: Shell) -> None:
    assert shell.run(a_txt=b" \n") == (0, "leak rate 0.0%: 0 of 0 answers\n")


def test_a_body_that_is_no_answer_of_its_protocol_is_told_as_not_read(shell: Shell) -> None:
    code, out = shell.run(a_json=b'{"object":"chat.completion","choices":[{"index":0,"message":{"content":3}}]}')
    assert (code, out.splitlines()[-1].startswith("  a.json:1: ")) == (1, True)
    assert "not read: 1" in out and "a.json:1: content of choice 0 is 3" in out


def test_standard_input_is_a_file(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LEAK.encode())))
    code, out = shell.run("-")
    assert (code, "-:1: reasoning_leak, boundary_token" in out) == (1, True)


@pytest.mark.parametrize(
    ("content", "args", "message_"),
    [
        (b'{"a": 1}', [], "a.x:1: expected an answer of chat completions"),
        (b"[3]", [], "a.x:1: expected an answer of chat completions"),
        (lines(json.loads(CLEAN), {"choices": []}), [], "a.x:2: expected an answer of chat completions"),
        (
            lines({"object": "chat.completion.chunk", "choices": []}),
            [],
            "a.x:1: expected an answer of chat completions",
        ),
        (lines(json.loads(CLEAN)) + b'{"a":\n', [], "a.x:2: expected JSON, or one JSON value a line"),
        (b"data: hello\n\n", [], "a.x:1: expected the event stream of an answer"),
        (b"hello", ["--as", "sse"], "a.x:1: expected the event stream of an answer"),
        (b"hello", ["--as", "json"], "a.x:1: expected JSON, or one JSON value a line"),
        (b"hello", ["--dialect", "no-such"], "scan: no family 'no-such'; expected one of "),
        (b"hello", ["--tools", "no-such"], "scan: no rules for --tool-call-parser 'no-such'"),
        (b"hello", ["no-such-file"], "scan: no-such-file: No such file or directory"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_file_and_line(
    content: bytes, args: list[str], message_: str, shell: Shell
) -> None:
    assert shell.run(*args, a_x=content) == (2, "")
    assert message_ in shell.error.replace(f"{shell.folder}/", "")
    assert shell.error.startswith("scan: ")


# ---------------------------------------------------------------------- what is judged


def test_the_request_of_a_record_tells_the_tools(shell: Shell) -> None:
    rows = lines(record(message(content=CALL), **TOOLS), record(message(content=CALL)))
    found = shell.totals("--tools", "hermes", a_jsonl=rows)
    assert [[row["finding"] for row in each["findings"]] for each in found["transcripts"]] == [["tool_rescued"], []]


def test_a_text_may_begin_inside_the_thought(shell: Shell) -> None:
    text = f"{SECRET} and more.</think>Hi".encode()
    assert shell.totals(a_txt=text)["leaky"] == 0
    assert shell.totals("--starts-in", "reasoning", a_txt=text)["leaky"] == 1


def test_a_parser_of_an_engine_may_be_named(shell: Shell) -> None:
    text = f"<|open|>think<|sep|>{SECRET}<|close|>think<|sep|>Hi".encode()
    assert shell.totals(a_txt=text)["leaky"] == 0
    assert shell.totals("--dialect", "vllm/kimi_k3", a_txt=text)["leaky"] == 1


def test_rules_beside_the_shipped_ones_are_read(shell: Shell) -> None:
    assert shell.run("--rules", str(shell.folder / "none"), a_txt=b"x")[0] == 2
    assert str(shell.folder / "none") in shell.error
    (shell.folder / "dialects").mkdir()
    (shell.folder / "dialects" / "mine.yaml").write_text(MINE)
    assert shell.totals("--rules", str(shell.folder), "--dialect", "mine", a_txt=b"<a>a</a>b")["leaky"] == 1


def test_what_is_not_legal_is_told_once_and_counted(shell: Shell) -> None:
    other = delta(content="b").replace(b'"created":1', b'"created":2')
    frames = [delta(content="a"), other, other, delta(finish="stop"), DONE]
    code, out = shell.run(a_sse=b"".join(frames))
    assert (code, out.splitlines()) == (
        1,
        [
            "leak rate 0.0%: 0 of 1 answers",
            "",
            "protocol violations: 1",
            "  a.sse:1: event 1: its created is missing, or another one (2 events)",
        ],
    )
    whole = shell.totals(a_sse=b"".join(frames[:1]))["transcripts"][0]["violations"]
    assert whole == ["end: the stream does not end with its last event, or with an error"]


def test_the_leak_rate_of_recorded_answers_is_that_of_their_gateway(shell: Shell) -> None:
    rows = [each for each in recordings() if each.name.startswith(("none-", "q3h-basic"))]
    values = [
        {
            "request": json.loads(each.request_body),
            "response": each.body.decode() if each.stream else json.loads(each.body),
        }
        for each in rows
        if each.status == 200 and each.complete
    ]
    found = shell.totals("--dialect", "think", a_jsonl=lines(*values))
    marked = [b"<think>" in json.dumps(value["response"]).encode() for value in values]
    assert 0 < sum(marked) < len(marked) == found["answers"]
    leaky = [bool(each["findings"]) for each in found["transcripts"]]
    assert all(leak for leak, mark in zip(leaky, marked, strict=True) if mark)


# ---------------------------------------------------------------------- how it is said


def test_the_table_has_a_row_for_each_rule_and_the_places(shell: Shell) -> None:
    code, out = shell.run(a_jsonl=lines(json.loads(LEAKY), json.loads(CLEAN)))
    assert (code, out.splitlines()) == (
        1,
        [
            "leak rate 50.0%: 1 of 2 answers",
            "",
            "finding         action       rule      answers  count",
            "reasoning_leak  would_move                   1      1",
            "boundary_token  would_strip  </think>        1      1",
            "boundary_token  would_strip  <think>         1      1",
            "",
            "answers with findings: 1",
            "  a.jsonl:1: reasoning_leak, boundary_token",
        ],
    )


def test_a_table_shows_twenty_places_and_says_how_many_there_are(shell: Shell) -> None:
    out = shell.run(a_jsonl=lines(*[json.loads(LEAKY)] * 23))[1].splitlines()
    assert "answers with findings: 23" in out
    assert out[-1] == "  … and 3 more (--format json has them)"
    assert sum(line.startswith("  a.jsonl:") for line in out) == 20


def test_markdown_has_the_same_in_its_own_tables(shell: Shell) -> None:
    k3 = message(content="<|open|>think<|sep|>a<|close|>think<|sep|>Hi")
    code, out = shell.run("--dialect", "kimi_k3", "--format", "markdown", a_json=k3)
    head, _, *rows = out.splitlines()
    assert (code, head) == (1, "**leak rate 100.0%: 1 of 1 answers**")
    assert rows[:3] == [
        "| finding | action | rule | answers | count |",
        "| --- | --- | --- | ---: | ---: |",
        "| reasoning_leak | would_move |  | 1 | 1 |",
    ]
    assert "| boundary_token | would_strip | `<\\|open\\|>think<\\|sep\\|>` | 1 | 1 |" in rows
    assert rows[-3:] == ["answers with findings: 1", "", "* a.json:1: reasoning_leak, boundary_token"]
    assert shell.run("--format", "markdown", a_json=CLEAN) == (0, "**leak rate 0.0%: 0 of 1 answers**\n")


def _object(required: str, optional: str = "", **members: Any) -> dict[str, Any]:
    names = {name: members.get(name, {"type": "string"}) for name in f"{required} {optional}".split()}
    return {"type": "object", "required": required.split(), "additionalProperties": False, "properties": names}


TEXT = _object("text")
REGION = _object("startLine", startLine={"type": "integer", "minimum": 1})
PLACE = _object("artifactLocation region", artifactLocation=_object("uri"), region=REGION)
RESULT = _object(
    "ruleId ruleIndex level message locations",
    ruleIndex={"type": "integer", "minimum": 0},
    level={"enum": ["none", "note", "warning", "error"]},
    message=TEXT,
    locations={"type": "array", "items": _object("physicalLocation", physicalLocation=PLACE)},
)
DRIVER = _object(
    "name version rules", rules={"type": "array", "items": _object("id shortDescription", shortDescription=TEXT)}
)
RUN = _object("tool results", tool=_object("driver", driver=DRIVER), results={"type": "array", "items": RESULT})
SARIF = _object(
    "$schema version runs",
    version={"const": "2.1.0"},
    runs={"type": "array", "minItems": 1, "maxItems": 1, "items": RUN},
)
"""What we use of OASIS' schema of SARIF 2.1.0, nothing else let in."""


@pytest.mark.parametrize("content", [CLEAN, LEAKY, STREAM, STREAM.replace(DONE, b"")])
def test_sarif_is_valid_and_every_result_has_its_rule_and_its_line(content: bytes, shell: Shell) -> None:
    code, out = shell.run("--format", "sarif", a_x=content)
    log = json.loads(out)
    jsonschema.validate(log, SARIF)
    [run] = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert set(rules) <= {*(str(finding) for finding in Finding), "protocol_violation"}
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert (place["artifactLocation"]["uri"].endswith("a.x"), place["region"]["startLine"]) == (True, 1)
    assert code == int(bool(run["results"]))


@pytest.mark.parametrize(
    ("name", "uri"), [("a b.txt", "a%20b.txt"), ("-", "stdin"), ("/{folder}/c.txt", "file:///{folder}/c.txt")]
)
def test_sarif_names_a_file_by_a_reference(name: str, uri: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(shell.folder).removeprefix("/")
    monkeypatch.chdir(shell.folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LEAK.encode())))
    if name != "-":
        Path(name.format(folder=folder)).write_text(LEAK)
    main(["scan", name.format(folder=folder), "--format", "sarif"])
    [first, *_] = json.loads(shell.capsys.readouterr().out)["runs"][0]["results"]
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri.format(folder=folder)


class Terminal(io.StringIO):
    """A standard error that is one."""

    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_taken_away_again(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell.run(a_txt=b"x", b_txt=b"y")[0] == 0
    assert shell.error == ""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["scan", str(shell.folder / "a.txt"), str(shell.folder / "b.txt")]) == 0
    shown = [f"\r\x1b[Kscan: file {number} of 2\r\x1b[K" for number in (1, 2)]
    assert terminal.getvalue() == "".join(shown)


def test_the_command_runs_as_a_process_and_its_help_says_what_it_takes(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(LEAKY)
    run = [sys.executable, "-m", "gateway", "scan"]
    done = subprocess.run([*run, str(tmp_path / "a.json")], cwd=REPO, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("leak rate 100.0%: 1 of 1 answers\n")
    told = subprocess.run([*run, "--help"], cwd=REPO, capture_output=True, text=True, timeout=60).stdout
    for word in ("--dialect NAME", "--tools NAME", "--rules DIR", "--starts-in", "--as", "--format", "Exit code 0"):
        assert word in told
