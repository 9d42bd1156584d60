"""The cases that ship: each is a leak of the kind it says, or a control that is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.scripted_engine import Script, load_recordings, load_scripts, read_trace
from gateway.scripted_engine.shipped import DATA

SCRIPTS = {script.name: script for script in load_scripts()}
RECORDINGS = {recording.name: recording for recording in load_recordings()}
DIALECTS = ("think", "kimi_k3", "harmony", "gemma4", "mistral", "generic")
PARSERS = ({"reasoning": "qwen3", "tools": "hermes"}, {"reasoning": "deepseek_v4", "tools": "deepseek_v4"})
MARKERS = (
    *("<think>", "</think>", "<|close|>", "<|return|>", "<|channel>", "[THINK]", "<thinking>"),
    *("<tool_call>", "DSML"),
)


def sent(script: Script, name: str) -> str:
    return "".join(delta.get(name, "") for delta in script.deltas)


def called(script: Script) -> list[str]:
    """What a client joins of the engine's own calls: those of the scripts are one call."""
    parts = [part["function"] for delta in script.deltas for part in delta.get("tool_calls", ())]
    name, arguments = ("".join(part.get(key, "") for part in parts) for key in ("name", "arguments"))
    return [f"{name}({arguments})"] if parts else []


def test_each_kind_of_markup_has_a_script() -> None:
    used = [script.dialect for script in SCRIPTS.values()]
    assert [dialect for dialect in (*DIALECTS, *PARSERS) if dialect not in used] == []


@pytest.mark.parametrize("name", [name for name in SCRIPTS if not name.startswith("clean-")])
def test_a_leak_script_expects_something_else_than_the_engine_sends(name: str) -> None:
    script = SCRIPTS[name]
    differs = (sent(script, "reasoning"), sent(script, "content")) != (script.expect_reasoning, script.expect_content)
    differs = differs or called(script) != list(script.expect_calls)
    assert differs or name in ("both-fields-in-one-chunk", "field-name-reasoning")


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name.startswith("clean-")])
def test_a_control_quotes_markers_and_expects_what_the_engine_sends(name: str) -> None:
    script = SCRIPTS[name]
    assert any(marker in sent(script, "content") for marker in MARKERS)
    assert (sent(script, "reasoning"), sent(script, "content")) == (script.expect_reasoning, script.expect_content)
    assert (called(script), script.expect_calls) == ([], ())


@pytest.mark.parametrize("name", [name for name in SCRIPTS if not name.startswith("clean-")])
def test_no_marker_stands_in_an_expected_answer(name: str) -> None:
    script = SCRIPTS[name]
    expected = "".join([script.expect_reasoning, script.expect_content, *script.expect_calls])
    assert [marker for marker in MARKERS if marker in expected] == []


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_expects_only_text_the_model_emitted(name: str) -> None:
    recording = RECORDINGS[name]
    emitted = recording.stream.emitted
    arguments = [call.partition("(")[2].removesuffix(")") for call in recording.expect_calls]
    for text in (recording.expect_reasoning, recording.expect_content, *arguments):
        assert text in emitted
    assert recording.whole is None or recording.whole.emitted == emitted


def test_a_recording_asks_for_what_the_recorded_request_asked_for() -> None:
    assert RECORDINGS["recorded/qwen3-off"].request == {"chat_template_kwargs": {"enable_thinking": False}}
    assert RECORDINGS["recorded/k3-skipped"].request == {}


def test_the_recordings_stay_a_handful() -> None:
    files = sorted((DATA / "recordings").iterdir())
    used = [exchange for recording in RECORDINGS.values() for exchange in (recording.stream, recording.whole)]
    assert len(files) == len([exchange for exchange in used if exchange]) <= 14
    assert sum(file.stat().st_size for file in files) < 200_000


def test_bytes_that_are_no_text_are_read_from_base64(tmp_path: Path) -> None:
    trace = {
        "request": {"body": {"model": "tiny", "seed": 1, "vllm_xargs": {"script": "x"}}},
        "response": {"status": 200, "headers": [["a", "b"]], "chunks": [{"data": "é"}, {"data_b64": "/w=="}]},
    }
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    exchange = read_trace(path)
    assert (exchange.chunks, exchange.headers, exchange.request) == ((b"\xc3\xa9", b"\xff"), (("a", "b"),), {"seed": 1})


def test_an_unknown_field_of_a_script_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scripts.yaml"
    path.write_text("- {name: a, deltas: [], tpyo: 1}\n")
    with pytest.raises(TypeError, match="tpyo"):
        load_scripts(path)
