"""Grammars for text that was made of tokens: what may be one token, and what a marker that is one means.

`*` stands for what tells a token apart that is a marker (`gateway.streams.tokens.STRUCTURAL`).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.events import CALLS, CONTENT, REASONING, ToolText
from gateway.reading import reading_of
from gateway.rulebook.call_corpus import generated_calls
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.marked import LONGEST, atoms_of, mark
from gateway.streams.grammar import Take, Takes
from gateway.streams.tokens import STRUCTURAL, marked, plain
from tests.support.reader import Setup, cut, read

RULES = load_rulebook()
HOLD = Takes(content=Take.HOLD, control=Take.HOLD, thought=Take.HOLD)
THINK = frozenset({"<think>", "</think>", "<|im_end|>"})
K3 = frozenset({"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"})
HARMONY = frozenset({"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|constrain|>"})


def told(
    raw: str, name: str, atoms: frozenset[str], *, tools: str | None = None, size: int = 1 << 20
) -> tuple[str, str, list[tuple[str, str]]]:
    """Reasoning, content and calls of a raw output in which `*` stands before the tokens that are markers."""
    text = raw.replace("*", STRUCTURAL)
    named = {"reasoning": name, **({"tools": tools} if tools else {})}
    dialect = RULES.resolve(named, engine=None).dialect
    assert dialect
    made = Setup(grammar=compile_dialect(dialect, atoms), takes=HOLD)
    segments = read(made, cut(text, size), stopped=True)
    said = {channel: "".join(str(item) for each, item in segments if each == channel) for channel, _ in segments}
    found = [call for kind, item in segments if kind == CALLS and isinstance(item, ToolText) for call in item.calls]
    calls = [(call.name, "".join(call.json or ()) or str(call.arguments)) for call in found]
    return plain(said.get(REASONING, "")), plain(said.get(CONTENT, "")), calls


@pytest.mark.parametrize(
    ("raw", "reasoning", "content"),
    [
        ("*<think>a</think>b*</think>c", "a</think>b", "c"),  # the first one is spelled
        ("*<think>it says `*</think>`c", "it says `", "`c"),  # a token is no quotation of itself
        ("*<think>a*</think>use </think>\n<think>x", "a", "use </think>\n<think>x"),
        ("<think>a</think>b", "", "<think>a</think>b"),  # all of it spelled
        ("*<think>a*</think>b, \"*</think>\" c*<|im_end|>", "a", 'b, "" c'),
        ("*<think>a*</think>b <|im_end|>", "a", "b <|im_end|>"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_a_marker_is_structure_where_it_is_its_own_token_and_text_where_it_is_spelled(
    raw: str, reasoning: str, content: str, size: int
) -> None:
    assert told(raw, "qwen3", THINK, size=size)[:2] == (reasoning, content)


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_a_marker_of_several_tokens_counts_where_those_that_may_be_tokens_are(size: int) -> None:
    raw = "*<|open|>think*<|sep|>a <|close|>think<|sep|> b*<|close|>think*<|sep|>*<|open|>response*<|sep|>c"
    assert told(raw, "kimi_k3", K3, size=size)[:2] == ("a <|close|>think<|sep|> b", "c")


def test_a_closer_of_control_tokens_that_closes_nothing_is_dropped() -> None:
    raw = "*<|open|>think*<|sep|>a*<|close|>think*<|sep|>*<|open|>response*<|sep|>so*<|close|>think*<|sep|> be it"
    assert told(raw, "kimi_k3", K3)[:2] == ("a", "so be it")


@pytest.mark.parametrize("size", [1, 4, 1 << 20])
def test_headers_are_told_by_their_tokens(size: int) -> None:
    raw = (
        "*<|channel|>analysis*<|message|>say <|channel|>final<|message|>*<|end|>"
        "*<|start|>assistant*<|channel|>commentary to=functions.f *<|constrain|>json*<|message|>{\"a\": 1}*<|call|>"
    )  # fmt: skip
    reasoning, content, calls = told(raw, "openai_gptoss", HARMONY, tools="openai", size=size)
    assert (reasoning, content) == ("say <|channel|>final<|message|>", "")
    assert calls == [("f", '{"a": 1}')]


def test_a_call_is_told_by_its_tokens_and_a_closer_in_a_value_is_text_where_it_is_spelled() -> None:
    glm = frozenset({"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"})
    body = "f*<arg_key>k*</arg_key>*<arg_value>a</arg_value></tool_call>b*</arg_value>"
    spelled = "<tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>"
    _, content, calls = told(f"{spelled}\n*<tool_call>{body}*</tool_call>", "glm45", glm, tools="glm45")
    assert (content, len(calls)) == (f"{spelled}\n", 1)
    assert "a</arg_value></tool_call>b" in calls[0][1]


def test_what_may_be_one_token_is_no_word_and_no_expression() -> None:
    for dialect in RULES.dialects.values():
        for atom in atoms_of(dialect):
            assert 1 < len(atom) <= LONGEST and not atom[0].isalnum() and not atom[-1].isalnum()
            assert " " not in atom
    assert set(atoms_of(RULES.dialects["kimi_k3"])) >= K3
    assert set(atoms_of(RULES.dialects["harmony"])) == HARMONY
    assert {"name", "arguments", "<function="}.isdisjoint(atoms_of(RULES.dialects["qwen"]))


@given(st.sampled_from(sorted(RULES.dialects)))
def test_a_dialect_without_tokens_of_its_own_is_the_same(name: str) -> None:
    dialect = RULES.dialects[name]
    same = mark(dialect, frozenset())
    assert (same.thoughts, same.end_of_turn, same.headers) == (dialect.thoughts, dialect.end_of_turn, dialect.headers)
    assert [region.open for region in same.regions] == [region.open for region in dialect.regions]
    assert same.invented == ()


def whole(dialect: Dialect, text: str, atoms: frozenset[str], *, starts_in: str) -> tuple[str, str, list[object]]:
    """Reasoning, content and calls of a whole output, as the plain text that they are."""
    made = Setup(grammar=compile_dialect(dialect, atoms), starts_open=starts_in == "reasoning", takes=HOLD)
    found = reading_of(read(made, [text], stopped=True))
    calls: list[object] = [(call.name, plain(call.arguments)) for call in found.calls]
    return plain(found.reasoning), plain(found.content), calls


OUTPUTS = [
    *((each, sample.raw, sample.starts_in) for each in RULES.dialects.values() for sample in each.samples),
    *(
        (RULES.reading(form), sample.raw, "content")
        for form in RULES.calls.values()
        for sample in (*form.samples, *generated_calls(form, RULES.reading(form)))
        if not any(atom in str(sample.calls) for atom in atoms_of(RULES.reading(form)))  # there it would be structure
    ),
]


def test_an_output_whose_markers_are_all_tokens_reads_as_its_text_does() -> None:
    assert len(OUTPUTS) > 500
    differ = {}
    for dialect, raw, starts_in in OUTPUTS:
        atoms = frozenset(atoms_of(dialect))
        by_tokens = whole(dialect, marked(raw, atoms), atoms, starts_in=starts_in)
        text = whole(dialect, raw, frozenset(), starts_in=starts_in)
        if by_tokens != text:
            differ[dialect.name, raw] = by_tokens
    assert differ == {
        # the engine's own parser writes this opener, no token does
        ("minimax_append", "<think>The answer is 42."): ("The answer is 42.", "", []),
        # as text these are quotations; as tokens they are not
        ("minimax_m3", "XXX</mm:think>YYY"): ("", "XXXYYY", []),
        ("poolside", "Use <assistant>Hi</assistant>\n<user>Yo</user>."): ("", "Use <assistant>Hi", []),
    }
