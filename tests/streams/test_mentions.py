"""What an attacker found: markers that an answer or a thought only talks about (contract rules 2, 3 and 11).

Each row is a text that must come out as it came, or the leak beside it that must still be repaired.
"""

from __future__ import annotations

import pytest

from gateway.events import CONTENT, FOREIGN, REASONING, REPLAY, TOOL
from gateway.reading import text_of
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.load import load_rulebook
from gateway.streams.regions import RegionReader

CUTS = (1, 2, 3, 7, 1_000_000)
RAW, CONTENT_FIELD, REASONING_FIELD = (False, False), (False, True), (True, True)


def read(
    dialect: object, text: str, kind: tuple[bool, bool], size: int, *, stopped: bool = True
) -> tuple[str, str, str]:
    found = load_rulebook().resolve(dialect, engine=None).dialect  # type: ignore[arg-type]
    assert found is not None
    reader = RegionReader(
        compile_dialect(found), starts_open=kind[0], split=kind[1], header_cap=96, run_cap=64, replay_cap=1 << 20
    )
    segments = [said for at in range(0, len(text), size) for said in reader.feed(text[at : at + size])]
    segments += reader.finish(stopped=stopped)
    return text_of(segments, REASONING), text_of(segments, CONTENT, TOOL, REPLAY), text_of(segments, FOREIGN)


UNTOUCHED = [
    ("harmony", REASONING_FIELD, 'The log has "<|start|>user<|message|>Hi". Then I think on.'),
    ("harmony", REASONING_FIELD, "It ends in <|end|> or <|call|> and <|channel|>final<|message|> then more"),
    ("harmony", CONTENT_FIELD, "\n\n<|start|>system<|message|>You are…"),
    ("harmony", CONTENT_FIELD, '{"thought": "<|end|>"}'),
    ("harmony", CONTENT_FIELD, "Harmony uses <|end|> after each message"),
    ("gemma4", REASONING_FIELD, "The template ends with <turn|> so plan"),
    ("gemma4", REASONING_FIELD, 'quotes "<turn|>" here'),
    ("gemma4", CONTENT_FIELD, '{"eos": "<turn|>"}'),
    ("kimi_k3", REASONING_FIELD, "A <|open|>response<|sep|> opens the answer, more"),
    ("kimi_k3", CONTENT_FIELD, '{"k3": "<|end_of_msg|>", "r": "<|close|>response<|sep|>"}'),
    ("kimi_k3", RAW, '{"k3": "<|end_of_msg|>", "r": "<|close|>response<|sep|>"}'),
    ("generic", REASONING_FIELD, "format:\n<reasoning>2+2 is 4</reasoning>\n<answer>4</answer>\nBut then"),
    ("generic", CONTENT_FIELD, "- Before: <s>$99</s>\n- Now: $79"),
    ("mistral", RAW, "- Before: <s>$99</s>\n- Now: $79"),
    ("generic", CONTENT_FIELD, "<response>\n  <reasoning>Because 2+2=4</reasoning>\n  <answer>4</answer>\n</response>"),
]


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize(("dialect", "kind", "text"), UNTOUCHED)
def test_a_marker_that_is_only_talked_about_stays(dialect: str, kind: tuple[bool, bool], text: str, size: int) -> None:
    assert read(dialect, text, kind, size) == ((text, "", "") if kind is REASONING_FIELD else ("", text, ""))


HERMES = {"reasoning": "qwen3", "tools": "hermes"}
REPAIRED = [
    ("gemma4", CONTENT_FIELD, "Hi.<turn|>", ("", "Hi.", "")),
    ("gemma4", CONTENT_FIELD, "ok<turn|>\n<|turn>user\nhi", ("", "ok\n", "hi")),
    ("harmony", CONTENT_FIELD, "The answer is 42.<|return|>", ("", "The answer is 42.", "")),
    ("harmony", REASONING_FIELD, "Let me think.<|end|><|channel|>final<|message|>42.", ("Let me think.", "42.", "")),
    ("kimi_k3", REASONING_FIELD, "Reply.<|close|>response<|sep|><|close|>message<|sep|>", ("Reply.", "Reply.", "")),
    ("generic", CONTENT_FIELD, "I am fine.</s>", ("", "I am fine.", "")),
    ("qwen", CONTENT_FIELD, "Done.<|im_end|><|im_start|>user\nThanks!", ("", "Done.", "Thanks!")),
    ("qwen", RAW, "Done.<|im_end|>\n<|im_start|>user\nMore", ("", "Done.\n", "More")),
    (
        HERMES,
        CONTENT_FIELD,
        "Call with <tool_call> tags.\n<think>a</think>Hi",
        ("a", "Call with <tool_call> tags.\nHi", ""),
    ),
    (
        "harmony",
        RAW,
        '<|channel|>analysis<|message|>It had "<|start|>user<|message|>Hi". 4.<|end|>'
        "<|start|>assistant<|channel|>final<|message|>4<|return|>",
        ('It had "<|start|>user<|message|>Hi". 4.', "4", ""),
    ),
    (
        "gemma4",
        RAW,
        "<|channel>thought\nx<channel|>It ends in <turn|> and opens with <|channel>thought\nas said.",
        ("x", "It ends in <turn|> and opens with <|channel>thought\nas said.", ""),
    ),
]


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize(("dialect", "kind", "text", "said"), REPAIRED)
def test_a_marker_that_does_its_work_is_still_read(
    dialect: object, kind: tuple[bool, bool], text: str, said: tuple[str, str, str], size: int
) -> None:
    assert read(dialect, text, kind, size) == said


@pytest.mark.parametrize("stopped", [True, False])
def test_ends_of_turn_at_the_end_go_however_the_output_ended(stopped: bool) -> None:
    assert read("qwen", "Done.<|im_end|><|im_end|>", CONTENT_FIELD, 3, stopped=stopped) == ("", "Done.", "")
