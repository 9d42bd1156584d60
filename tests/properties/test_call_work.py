"""Reading calls costs work that grows with the text and no faster, and keeps no more than the cap of a region.

Characters looked at, and offered to the readers of calls, are counted, not time: twice the text may cost at most 2.6
times the work (reader_spec section 2).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.events import CALLS, CONTENT, REASONING, ToolText
from gateway.policy import Profile
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.load import load_rulebook
from tests.integrity.settings import LIMITS, Run, setting, tooling
from tests.support.counting import work
from tests.support.reader import Setup, cut, text_of
from tests.support.tagged import EVERYTHING, TAGGED, WATCHED

BOOK = load_rulebook()
BIG = 200_000  # characters of one argument
PIECE = 4  # characters, about a token
JSON = '{"name": "f", "arguments": {"a": "'
KINDS = {
    # kind: its format, what stands before a value, the value's unit, what stands behind it
    "json": ("hermes", f"<tool_call>{JSON}", "word ", '"}}</tool_call>'),
    "json, numbers": ("hermes", '<tool_call>{"name": "f", "arguments": {"a": [', "12, ", "1]}}</tool_call>"),
    "json, depth": ("hermes", '<tool_call>{"name": "f", "arguments": {"a": [', "[[{}]], ", "1]}}</tool_call>"),
    "json, quotes": ("hermes", f"<tool_call>{JSON}", '\\"</tool', '"}}</tool_call>'),
    "named": (
        "kimi_k2",
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": "',
        "<|tool",
        '"}<|tool_call_end|><|tool_calls_section_end|>',
    ),
    "elements": (
        "qwen_xml",
        "<tool_call>\n<function=f>\n<parameter=a>\n",
        "a < b </par\n",
        "\n</parameter>\n</function>\n</tool_call>",
    ),
    "elements, many": (
        "qwen_xml",
        "<tool_call>\n<function=f>\n",
        "<parameter=a>\nx\n</parameter>\n",
        "</function>\n</tool_call>",
    ),
    "elements, CDATA": (
        "minicpm5",
        '<function name="f"><param name="a"><![CDATA[',
        "a ]] ]]> < b ",
        "]]></param></function>",
    ),
    "pairs": ("arg_key", "<tool_call>f<arg_key>a</arg_key><arg_value>", "x </arg", "</arg_value></tool_call>"),
    "pairs, many": (
        "arg_key",
        "<tool_call>f",
        "<arg_key>a</arg_key><arg_value>x</arg_value>\n",
        "</tool_call>",
    ),
    "nested": (
        "minimax_m3",
        ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">]<]minimax[>[<a>',
        "x ]<]mini",
        "]<]minimax[>[</a>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
    ),
    "python": ("pythonic", '<|python_start|>[f(a="', "it's \\n ", '")]<|python_end|>'),
    "python, list": ("pythonic", "<|python_start|>[f(a=[", "{'k': 1}, ", "])]<|python_end|>"),
    "braces": ("gemma4", '<|tool_call>call:f{a:<|"|>', 'x <|" ', '<|"|>}<tool_call|>'),
}


def dialect_with(name: str) -> Dialect:
    """Calls of one shipped format in a dialect of tags."""
    return replace(TAGGED, regions=BOOK.calls[name].regions)


HEADED = compile_dialect(BOOK.dialects["harmony"])
HEADER = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
CASES = [
    *((kind, compile_dialect(dialect_with(name)), *texts) for kind, (name, *texts) in KINDS.items()),
    ("arguments", HEADED, f'{HEADER}{{"a": "', "word ", '"}<|call|>'),
    ("a watched call", compile_dialect(TAGGED), f"<tool_call>{JSON}", "word ", '"}}</tool_call>'),
]


@pytest.mark.parametrize(("kind", "grammar", "before", "unit", "after"), CASES, ids=[case[0] for case in CASES])
def test_a_long_argument_costs_work_in_proportion_to_its_length(
    kind: str, grammar: object, before: str, unit: str, after: str
) -> None:
    takes = WATCHED if kind == "a watched call" else EVERYTHING
    made = Setup(grammar=grammar, takes=takes, starts_open=takes is WATCHED)  # type: ignore[arg-type]
    costs = []
    for size in (BIG // 2, BIG):
        text = before + unit * (size // len(unit)) + after
        counts = work(made, text, PIECE)
        assert counts["offered"] <= 4 * len(text), kind
        costs.append(counts["offered"] + counts["looked"])
        assert costs[-1] <= 12 * len(text), kind
    assert 0 < costs[0] <= costs[1] <= 2.6 * costs[0]
    segments = [*(reader := made.reader()).feed(text), *reader.finish(stopped=True)]
    found = [item for channel, item in segments if channel == CALLS and isinstance(item, ToolText)]
    assert [(call.name, call.closed) for item in found for call in item.calls] == [("f", True)], "it is a call"


G = '{"name": "g"}'
UNITS = [
    ("calls", "", f"<tool_call>{G}</tool_call>\n"),
    ("calls that end a thought", "<think>", f"<tool_call>{G}</tool_call>\n"),
    ("candidates in a thought", "<think>", f"<tool_call>{G}</tool_call> a\n"),
    ("openers of no call", "", "<tool_call>"),
    ("openers of no call, and a word", "x", "\n<tool_call>x"),
    ("calls in a call that never ends", f"<tool_call>{JSON}", f"<tool_call>{JSON}"),
    ("white space behind a call", f"<tool_call>{G}</tool_call>", "    "),
    ("white space behind a call of a thought", f"<think><tool_call>{G}</tool_call>", "    "),
    ("white space in a region", "<tool_call>", "    "),
    ("white space behind a call that needs no closer", f"<|call|>{G};", "    "),
    ("calls that need no closer", "<|call|>", f"{G};"),
    ("calls without a marker", "", f"{G}\n"),
    ("braces", "x", "\n{"),
]


@pytest.mark.parametrize("takes", [EVERYTHING, WATCHED], ids=["held", "watched"])
@pytest.mark.parametrize(("size", "cap"), [(None, 1 << 20), (None, 60), (1, 1 << 20), (1, 60)])
@pytest.mark.parametrize(("what", "before", "unit"), UNITS)
def test_twice_the_regions_are_at_most_twice_the_work_and_a_little(
    what: str, before: str, unit: str, size: int | None, cap: int, takes: object
) -> None:
    made = Setup(grammar=compile_dialect(TAGGED), takes=takes, region_cap=cap)  # type: ignore[arg-type]
    once, twice = (sum(work(made, before + unit * count, size).values()) for count in (150, 300))
    assert 0 < once <= twice <= 2.6 * once


CAP = 2_000
REPAIR = Profile.REPAIR
BEGUN = f"<tool_call>{JSON}"
CALLED = f"<tool_call>{G}</tool_call>"
HELD = [  # in an answer or in a thought: what is held, however long it gets
    ("a call that does not end", {}, BEGUN, "word "),
    ("a call in a thought that does not end", {"starts_open": True}, BEGUN, "word "),
    ("calls that end a thought", {"starts_open": True}, "", f"{CALLED}\n"),
    ("white space behind a call of a thought", {"starts_open": True}, CALLED, " \n"),
    ("white space in a call", {}, "<tool_call>", " \n"),
    ("white space behind a call that needs no closer", {}, f"<|call|>{G};", " \n"),
]


@pytest.mark.parametrize("size", [1, PIECE, 1 << 20])
@pytest.mark.parametrize(("what", "kind", "before", "unit"), HELD, ids=[row[0] for row in HELD])
def test_no_more_than_the_cap_of_a_region_is_held_and_past_it_the_text_is_text(
    what: str, kind: dict[str, bool], before: str, unit: str, size: int
) -> None:
    reader = Setup(grammar=compile_dialect(TAGGED), takes=EVERYTHING, region_cap=CAP, **kind).reader()
    text, segments = before + unit * (3 * CAP // len(unit)) + "so", []
    for piece in cut(text, size):
        segments += reader.feed(piece)
        assert len(reader.held) <= CAP + len(CALLED)  # one more call is read before it is told that they are too long
    segments += reader.finish(stopped=True)
    calls = [item.text for channel, item in segments if channel == CALLS and isinstance(item, ToolText)]
    assert text_of(segments, CONTENT, REASONING) == text.removeprefix("".join(calls))
    assert "".join(calls) in ("", f"<|call|>{G}")


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("size", [1, PIECE, 1 << 20])
def test_a_call_past_the_cap_reaches_the_client_as_the_text_it_is(raw: bool, size: int) -> None:
    made = setting(
        "tagged",
        raw=raw,
        takes=EVERYTHING,
        tooling=tooling("f"),
        limits=replace(LIMITS, tool_region=CAP),
        profile=REPAIR,
    )
    for length, calls in ((CAP - 15, 1), (CAP + 1, 0)):
        text = f'{BEGUN}{"x" * (length - len(BEGUN) - 3)}"}}}}</tool_call>'
        run = Run(made)
        for piece in cut(f"So:\n{text}", size):
            run.push(("", piece))
        run.finish()
        assert len(run.calls) == calls
        assert run.said == ("", "So:\n" if calls else f"So:\n{text}")
        assert ("tool_markup_leak/left" in run.counted) is not bool(calls)
