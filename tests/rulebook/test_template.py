"""A checkpoint's response template as a dialect: what is read of it, what is told, what is refused.

Templates: the example of transformers' `chat_response_parsing.md` (SMOL), the shapes of SGLang 0.5.23 `parser/beam.py`
(BEAM) and of Granite 3.2's sentences. Readings are what transformers 5.24 `parse_response` makes of the same output,
white space apart, except where the contract decides otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigError
from gateway.reading import read_whole
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.corpus import generated_samples
from gateway.rulebook.dialect import Dialect, Kind, Reopen, Thought, ToolRegion
from gateway.rulebook.select import Resolved
from gateway.rulebook.template import NAME, load_template
from tests.support.atoms import texts
from tests.support.reader import Setup, answer, cut, cut_at, read

Data = dict[str, Any]

THINK: Data = {"open": "<think>", "close": "</think>", "content": "text"}
CALLS: Data = {"open": "<tool_call>", "close": "</tool_call>", "repeats": True, "content": "json"}
SMOL: Data = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {"thinking": THINK, "tool_calls": CALLS, "content": {"close": "<|im_end|>", "content": "text"}},
}
BEAM: Data = {
    "version": 1,
    "start_anchor_pattern": r"<\|start\|>assistant",
    "fields": {
        "thinking": {"open": "<|channel|>analysis<|message|>", "close": ["<|end|><|start|>assistant", "<|end|>"]},
        "content": {"open": "<|channel|>final<|message|>", "close": ["<|return|>", "<|end|>"]},
        "tool_calls": {"open": "<|channel|>calls<|message|>", "close": "<|call|>"},
    },
}
GRANITE: Data = {
    "start_anchor": "Assistant:",
    "fields": {"reasoning_content": {"open": "Here is my thought process:", "close": "Here is my response:"}},
}
ANSWER: Data = {
    "start_anchor": ["<|assistant|>", "<|assistant|><think>"],
    "fields": {"thinking": THINK, "content": {"open": "<answer>", "close_pattern": r"</answer>\s*"}},
}
TEMPLATES = {"smol": SMOL, "beam": BEAM, "granite": GRANITE, "answer": ANSWER}


def loaded(data: object, folder: Path) -> Resolved:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(data), "utf-8")
    return load_template(path)


def dialect_of(data: object, folder: Path) -> Dialect:
    found = loaded(data, folder).dialect
    assert found is not None
    return found


@pytest.fixture(scope="module")
def dialects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dialect]:
    return {name: dialect_of(data, tmp_path_factory.mktemp(name)) for name, data in TEMPLATES.items()}


def test_the_fields_of_a_template_are_the_markers_of_a_dialect(dialects: dict[str, Dialect]) -> None:
    found = dialects["smol"]
    assert (found.name, found.kind, found.reopen, found.promote) == (NAME, Kind.TAG, Reopen.LINE_START, True)
    assert found.thoughts == (Thought(open=("<think>",), close=("</think>",)),)
    assert (found.answer_open, found.answer_close, found.end_of_turn) == ((), (), ("<|im_end|>",))
    assert found.regions == (ToolRegion(open=("<tool_call>",), close=("</tool_call>",)),)
    assert not found.reads_calls
    assert [header.open for header in found.headers] == [("<|im_start|>assistant\n",)]
    assert compile_dialect(found) is compile_dialect(found)


def test_openers_decide_on_the_guards(dialects: dict[str, Dialect], tmp_path: Path) -> None:
    assert {name: found.kind for name, found in dialects.items()} == {
        "smol": Kind.TAG, "beam": Kind.CONTROL, "granite": Kind.TEXT, "answer": Kind.TAG,
    }  # fmt: skip
    for openers, kind in (
        (["[THINK]"], Kind.TAG),
        (["◁think▷"], Kind.TAG),
        (["<｜think｜>"], Kind.CONTROL),
        (["<|channel>thought\n"], Kind.CONTROL),
        (["<|think|>", "<think>"], Kind.TAG),
        (["Thought:", "<think>"], Kind.TAG),
    ):
        assert dialect_of({"fields": {"thinking": {"open": openers, "close": "x"}}}, tmp_path).kind is kind


@pytest.mark.parametrize(
    ("name", "raw", "reasoning", "content"),
    [
        ("smol", "<think>two and two</think>4<|im_end|>", "two and two", "4"),
        ("smol", "<think>cut", "cut", ""),
        ("smol", "4<|im_end|>", "", "4"),
        ("smol", "See `<think>`.", "", "See `<think>`."),  # contract rule 3
        ("smol", "Hi.<|im_end|>\n<|im_start|>assistant\n<think>more</think>5", "more", "Hi.\n5"),
        ("smol", "<tool_call>{\n<think>}</tool_call><|im_end|>", "", "<tool_call>{\n<think>}</tool_call>"),
        (
            "beam",
            "<|channel|>analysis<|message|>two and two<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>",
            "two and two",
            "4",
        ),
        (
            "beam",
            "<|channel|>analysis<|message|>two<|end|><|channel|>analysis<|message|> and two<|end|><|start|>assistant"
            "<|start|>assistant<|channel|>final<|message|>4<|end|>",
            "two and two",
            "4",
        ),
        ("beam", "<|channel|>final<|message|>4<|return|>", "", "4"),
        ("beam", "<|channel|>analysis<|message|>cut", "cut", ""),
        ("granite", "Here is my thought process:plan Here is my response:4", "plan ", "4"),
        ("granite", "Assistant: Here is my thought process:", "", "Assistant: Here is my thought process:"),
        ("answer", "<think>two and two</think><answer>4</answer>", "two and two", "4"),
        ("answer", "<|assistant|><think>two and two</think><answer>4</answer>\n", "two and two", "4\n"),
    ],
)
def test_an_output_reads_as_its_template_says(
    dialects: dict[str, Dialect], name: str, raw: str, reasoning: str, content: str
) -> None:
    made = Setup(grammar=compile_dialect(dialects[name]))
    for size in (len(raw), 1, 2, 3, 7):
        assert answer(read(made, cut(raw, size), stopped=True)) == (reasoning, content)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_corpus_of_its_own_markers_reads_as_declared(dialects: dict[str, Dialect], name: str) -> None:
    samples = list(generated_samples(dialects[name]))
    assert samples
    for sample in samples:
        found = read_whole(sample.raw, dialect=dialects[name], starts_in=sample.starts_in, stopped=True)
        assert (found.reasoning, found.content) == (sample.reasoning, sample.content), sample.raw


@pytest.mark.parametrize("name", TEMPLATES)
@given(data=st.data())
def test_a_text_has_one_reading_whatever_the_cutting(
    dialects: dict[str, Dialect], name: str, data: st.DataObject
) -> None:
    made = Setup(
        grammar=compile_dialect(dialects[name]), starts_open=data.draw(st.booleans()), split=data.draw(st.booleans())
    )
    text, stopped = data.draw(texts(dialects[name])), data.draw(st.booleans())
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    whole = read(made, [text], stopped=stopped)
    assert read(made, text, stopped=stopped) == whole
    assert read(made, cut_at(text, places), stopped=stopped) == whole


def test_a_template_is_a_file_or_a_member_of_one(tmp_path: Path) -> None:
    inside = loaded({"chat_template": "{{ x }}", "response_template": SMOL, "response_schema": {}}, tmp_path)
    assert inside.dialect == loaded(SMOL, tmp_path).dialect
    assert (inside.name, inside.why) == (NAME, f"the response template of {tmp_path}/tokenizer_config.json")


def test_a_template_without_a_thought_has_an_answers_end(tmp_path: Path) -> None:
    found = dialect_of({"fields": {"content": {"close": ["<|eot|>", "<|eot|>"]}}}, tmp_path)
    assert (found.kind, found.thoughts, found.end_of_turn, found.regions) == (Kind.TAG, (), ("<|eot|>",), ())


def test_a_beginning_of_a_message_that_swallows_a_marker_is_not_dropped(dialects: dict[str, Dialect]) -> None:
    assert [header.open for header in dialects["answer"].headers] == [("<|assistant|>",)]
    assert dialects["granite"].headers == ()
    assert dialects["beam"].framing == ("<|start|>assistant",)


def test_what_is_not_taken_is_told_with_file_and_member(tmp_path: Path) -> None:
    calls = {**CALLS, "transform": {"type": "function", "function": "{content}"}}
    thinking = {"open": "<think>", "close_pattern": r"</think>\s*"}
    blanks = {"thinking": thinking, "content": {"close_pattern": r"<e>\s*|$"}}
    file = f"{tmp_path}/tokenizer_config.json"
    assert loaded({"response_template": {"fields": {**blanks, "tool_calls": calls}}}, tmp_path).warnings == (
        f"{file}: response_template: fields.tool_calls: where a call begins and ends is read, not what it says: "
        "in text it stays text",
        f"{file}: response_template: fields.thinking.close_pattern, fields.content.close_pattern: "
        "white space beside the marker is left in the text",
    )
    for key, more in (("open", {"close": "</f>"}), ("close", {"open": "<f>"})):
        found = loaded({"fields": {"tool_calls": {f"{key}_pattern": "<f=(?P<name>.*?)>", **more}}}, tmp_path)
        reason = "is no plain list of literals, so a call is no region of its own unless the route names `tools`"
        assert found.warnings == (f"{file}: fields.tool_calls.{key}_pattern: {reason}",)
        assert found.dialect is not None and found.dialect.regions == ()
    assert loaded({"fields": {"tool_calls": {"open": "<f>", "close": "</f>"}}}, tmp_path).warnings == ()


NO_LIST = "is no plain list of literals, so no dialect can say it; name the model's family instead"
REFUSED: list[tuple[Data, list[str]]] = [
    (
        {"fields": {"thinking": {"open_pattern": r"(?=[\s\S]*?</think>)", "close_pattern": "$"}}},
        [f"fields.thinking.open_pattern: {NO_LIST}", f"fields.thinking.close_pattern: {NO_LIST}"],
    ),
    (
        {"fields": {"content": {"open_pattern": r"\n", "close_pattern": "<e>+"}}},
        [f"fields.content.open_pattern: {NO_LIST}", f"fields.content.close_pattern: {NO_LIST}"],
    ),
    (
        {"fields": {"thinking": THINK, "reasoning": {**THINK, "open": "<r>"}}},
        ["fields.reasoning: means the same as thinking, expected one of the two"],
    ),
    (
        {"fields": {"thinking": THINK, "tool_calls": {"open": "<think>"}}},
        ["fields: '<think>' is tool opener here and think opener elsewhere"],
    ),
    (
        {"fields": {"thinking": {"open": "<a>"}}},
        [
            "fields.thinking: got {'open': '<a>'}, expected close or close_pattern: a thought without one never ends",
        ],
    ),
    (
        {"fields": {"thinking": {"close": "<a>"}}},
        [
            "fields.thinking: got {'close': '<a>'}, expected open or open_pattern: "
            "without one the field is all text that is no other field",
        ],
    ),
    (
        {"fields": {"content": {"close": "a", "close_pattern": "a"}}},
        [
            "fields.content: got {'close': 'a', 'close_pattern': 'a'}, expected one of close and close_pattern",
        ],
    ),
    (
        {"fields": {"citations": THINK}},
        [
            "fields.citations: unknown key, "
            "expected one of thinking, reasoning_content, reasoning, content, tool_calls",
        ],
    ),
    (
        {"fields": {"content": {"content": "json", "join": "", "opens": "a"}}},
        [
            "fields.content.content: got 'json', expected text: only plain text is read",
            "fields.content.join: got '', expected nothing: only plain text is read",
            "fields.content.opens: unknown key, did you mean open?",
        ],
    ),
    (
        {"version": 2, "start_anchor": [], "fields": {"content": {"close": [" "], "open_pattern": "("}}},
        [
            "fields.content.close[0]: got ' ', expected a marker with a visible character",
            "fields.content.open_pattern: got '(', expected a regular expression "
            "(missing ), unterminated subpattern at position 0)",
            "start_anchor: got [], expected a marker with a visible character, or a list of them",
            "version: got 2, expected 1",
        ],
    ),
    ({"fields": {}}, ["fields: got {}, expected at least one field"]),
]


@pytest.mark.parametrize(("data", "problems"), REFUSED, ids=range(len(REFUSED)))
def test_what_no_dialect_can_say_is_refused_with_file_and_member(
    tmp_path: Path, data: Data, problems: list[str]
) -> None:
    for top, member in ((data, ""), ({"response_template": data}, "response_template: ")):
        with pytest.raises(ConfigError) as caught:
            loaded(top, tmp_path)
        assert str(caught.value) == "\n".join(f"{tmp_path}/tokenizer_config.json: {member}{line}" for line in problems)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no response_template, neither as a member nor as the file itself, which has no `fields`"),
        ('{"response_template": null}', "no response_template, neither as a member nor as the file itself, "
         "which has no `fields`"),
    ],
)  # fmt: skip
def test_a_file_that_holds_none_is_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "t.json"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_template(path)
    assert str(caught.value) == f"{path}: {reason}"


# ------------------------------------------------------------------ the older response_schema


@pytest.mark.parametrize(
    ("pattern", "open_", "close", "ends"),
    [
        (r"(?:<think>(?P<thinking>.*?)</think>)?(?P<content>.*)", ("<think>",), ("</think>",), ()),
        (
            r"^(?:<think>\n?(?P<reasoning_content>.+?)\n?</think>\s*)?(?P<content>.*?)(?:<\|im_end\|>|$)",
            ("<think>\n", "<think>"),
            ("\n</think>", "</think>"),
            ("<|im_end|>",),
        ),
    ],
)
def test_an_older_schema_that_maps_exactly_is_read(
    tmp_path: Path, pattern: str, open_: tuple[str, ...], close: tuple[str, ...], ends: tuple[str, ...]
) -> None:
    data = {"x-regex": pattern, "type": "object", "properties": {"content": {"type": "string"}}}
    for top in (data, {"response_schema": data}):
        found = loaded(top, tmp_path)
        assert found.dialect is not None
        assert found.dialect.thoughts == (Thought(open=open_, close=close),)
        assert (found.dialect.end_of_turn, found.dialect.reopen) == (ends, Reopen.NEVER)
        assert bool(found.warnings) is (r"\s" in pattern)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"x-regex": r"(?P<content>.*)"},
        {"x-regex": r"(?:<t>(?P<thinking>.*?)</t>)?(?P<content>.*)<e>"},
        {"x-regex": r"(?:<t>(?P<thinking>.*?)</t>)?(?P<content>.*)(?:<e>|$)"},  # to the last <e>, not the first
        {"x-regex": r"(?:<t>(?P<thinking>.*?)</t>)?(?P<content>.*?)<e>"},  # no answer without <e>
        {"x-regex": r"(?:<t.>(?P<thinking>.*?)</t>)?(?P<content>.*)"},
        {"x-regex": r"(?:<t>(?P<thinking>.*?)</t.>)?(?P<content>.*)"},
        {"x-regex": r"(?:<t>(?P<thinking>.*?)</t>)?(?P<content>.*)(?P<tool_calls>.*)?"},
        {"x-regex": r"(?:<t>(?P<thinking>.*?)</t>)?(?P<content>.*)", "x-regex-substitutions": []},
    ],
)
def test_an_older_schema_that_says_more_is_refused(tmp_path: Path, schema: Data) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded({"response_schema": schema}, tmp_path)
    reason = "x-regex: says more than a thought between literals and the answer behind it"
    assert str(caught.value) == f"{tmp_path}/tokenizer_config.json: response_schema: {reason}"
