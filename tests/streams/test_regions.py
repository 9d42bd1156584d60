"""The one reader: what it releases, holds, gives back and replays, and what becomes of a tool region.

What a marker means is in `test_verdicts.py`, the channels of Kimi K3 in `test_truth_table.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.events import (
    CALLS,
    CONTENT,
    FOREIGN,
    MARKER,
    REASONING,
    REPLAY,
    TOOL,
    Decision,
    Effect,
    Group,
    Segment,
    ToolText,
)
from gateway.rulebook.compile import compile_dialect
from gateway.streams.grammar import State, Takes
from gateway.streams.regions import WINDOW, RegionReader
from gateway.streams.verdicts import FAILURES
from tests.support.bodies import CUTS
from tests.support.reader import Setup, answer, cut, cuttings, joined, read, setup, text_of
from tests.support.tagged import EVERYTHING, NOTHING, TAGGED, WATCHED

RE, ME, TE = "<|close|>response<|sep|>", "<|close|>message<|sep|>", "<|close|>think<|sep|>"
START, FINAL = "<|start|>", "<|channel|>final<|message|>"


def test_a_closer_waits_for_one_character_to_see_the_line_end() -> None:
    reader = setup("think").reader()
    assert [reader.feed("Hi</think>"), reader.held] == [[(CONTENT, "Hi")], "</think>"]
    assert text_of(reader.feed("\n"), CONTENT) == "\n"


def test_settling_makes_text_of_what_is_held_and_ends_nothing() -> None:
    reader = setup("think", starts_open=True, split=True).reader()
    reader.feed("so </thi")
    assert (reader.settle(), reader.held, reader.settle()) == ([(REASONING, "</thi")], "", [])
    assert reader.feed("nk> on") == [(REASONING, "nk> on")]


@pytest.mark.parametrize(("to_tools", "replayed"), [(True, "Hi."), (False, "")])
def test_a_reasoning_field_left_for_a_tool_call_is_replayed_and_for_content_it_is_not(
    to_tools: bool, replayed: str
) -> None:
    reader = setup("kimi_k3", starts_open=True, split=True).reader()
    reader.feed(f"Hi.{RE}<|cl")
    left = reader.leave(to_tools=to_tools)
    assert (text_of(left, REASONING), text_of(left, REPLAY)) == ("<|cl", replayed)
    assert reader.finish(stopped=True) == []


def test_leaving_a_field_that_has_ended_its_thought_replays_nothing() -> None:
    reader = setup("kimi_k3", starts_open=True, split=True).reader()
    reader.feed(f"Hi.{RE}{TE}")
    assert reader.leave(to_tools=True) == []


@pytest.mark.parametrize(("cap", "replayed", "capped"), [(7, "Hello.\n", False), (6, "", True), (5, "", True)])
def test_a_thought_longer_than_the_cap_is_not_replayed(cap: int, replayed: str, capped: bool) -> None:
    for size in (1, 2, 64):
        reader = setup("kimi_k3", starts_open=True, replay_cap=cap).reader()
        for piece in cut(f"Hello.{RE}\n{ME}", size):
            reader.feed(piece)
        assert text_of(reader.finish(stopped=True), REPLAY) == replayed
        assert reader.replay_capped is capped


def test_a_delivery_has_one_piece_for_each_run_of_a_channel() -> None:  # rule R5
    assert setup("think", starts_open=True).reader().feed("a<think>b") == [(REASONING, "a<think>b")]


def test_an_empty_delivery_says_nothing_and_changes_nothing() -> None:
    made = setup("kimi_k3", starts_open=True)
    assert made.reader().feed("") == []
    assert answer(read(made, ["Reply.", RE, "", ""], stopped=True)) == ("Reply.", "Reply.")


def decisions(segments: list[Segment]) -> list[Decision]:
    return [found for kind, found in segments if kind == MARKER and isinstance(found, Decision)]


REGION = '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|open|>argument key="k"<|sep|>v<|close|>argument<|sep|>'


def test_a_tools_channel_is_handed_on_whole_and_ends_with_its_message() -> None:
    for raw in (f"Hi.{RE}{REGION}<|close|>tools<|sep|>more{RE}", f"Hi.{RE}{REGION}{ME}more"):
        segments = read(setup("kimi_k3", starts_open=True), [raw], stopped=False)
        assert text_of(segments, TOOL).startswith(REGION)
        assert (text_of(segments, REASONING), text_of(segments, REPLAY)) == ("Hi.", "Hi.")
        assert text_of(segments, CONTENT) == "more"


def test_a_long_answer_and_a_long_thought_in_small_pieces_keep_their_quotes() -> None:
    fenced = "```\n" + "x = 1 < 2\n" * 900 + "</think>\n```\n"
    for made in (setup("think"), setup("think", starts_open=True, split=True)):
        for size in (1, 7, 1 << 20):
            segments = read(made, cut(f"Code:\n{fenced}done.</think>\n", size), stopped=True)
            assert "".join(answer(segments)) == f"Code:\n{fenced}done.\n"


def test_a_decision_names_the_marker_its_offset_and_the_channel_it_stood_in() -> None:
    for pieces in cuttings("r</think>Say `<think>` now", seed=1):
        first, second = decisions(read(setup("think", starts_open=True), pieces, stopped=True))
        assert (first.text, first.at, first.group, first.effect) == ("</think>", 1, Group.THINK_CLOSE, Effect.DROP)
        assert (second.text, second.at, second.group, second.effect) == ("<think>", 14, Group.THINK_OPEN, Effect.TEXT)
        assert (first.region, second.region, second.reason) == (REASONING, CONTENT, "quoted")


def test_the_decision_on_a_header_holds_all_of_it() -> None:
    (found,) = decisions(read(setup("harmony"), [f"{START}assistant{FINAL}a"], stopped=True))
    assert (found.text, found.effect) == (f"{START}assistant{FINAL}", Effect.DROP)


def test_a_reader_says_where_it_stands() -> None:
    reader: RegionReader = setup("think").reader()
    assert repr(reader) == "<RegionReader think in start at 0, 0 held>"
    reader.feed("<think>abc</th")
    assert (reader.state, repr(reader)) == (State.THINK, "<RegionReader think in think at 10, 4 held>")


@pytest.mark.parametrize(
    ("dialect", "fed", "held", "waits_for"),
    [
        ("think", "Hi", "", ""),
        ("think", "Hi <thi", "<thi", "marker"),
        ("hunyuan", "<think:61", "<think:61", "marker"),  # a suffix is part of the marker
        ("think", "Say `</think>", "</think>", "quoted_end"),
        ("think", "Say `</think> <|im_end|>\n", "</think> <|im_end|>\n", "quoted_end"),
        ("think", "Hi </think>", "</think>", "quoted_end"),  # a line end would make it one
        ("harmony", "<|channel|>final to", "<|channel|>final to", "header"),
        ("think", "Hi<|im_end|><|im_start|>us", "<|im_start|>us", "header"),
    ],
)
def test_held_text_says_what_decides_on_it(dialect: str, fed: str, held: str, waits_for: str) -> None:
    reader = setup(dialect).reader()
    reader.feed(fed)
    assert (reader.held, reader.waits_for) == (held, waits_for)


def test_asking_what_text_waits_for_decides_nothing() -> None:
    made = setup("think")
    asked, text = made.reader(), "Say `</think> <|im_end|>` and\n<think>r</think>a"
    seen = []
    for letter in text:
        seen += asked.feed(letter)
        assert bool(asked.waits_for) is bool(asked.held)
    assert joined([*seen, *asked.finish(stopped=True)]) == read(made, [text], stopped=True)


# --- tool regions

F = '{"name": "f", "arguments": {"a": "</tool_call> </think>"}}'
G = '{"name": "g", "arguments": {}}'
ONE = f"<tool_call>\n{F}\n</tool_call>"
TWO = f"<tool_call>{G}</tool_call>"


@dataclass(frozen=True)
class Seen:
    """A tool region in short: its text, the names of its whole calls, and what is said of it."""

    text: str
    names: str
    said: str


def shown(segments: list[Segment]) -> list[tuple[str, object]]:
    out: list[tuple[str, object]] = []
    for channel, item in segments:
        if isinstance(item, ToolText):
            names = " ".join(call.name for call in item.calls if call.closed)
            said = [word for word in ("closed", "complete", "broken", "thought", "rest") if getattr(item, word)]
            out.append((channel, Seen(item.text, names, " ".join(said))))
        elif channel != MARKER:
            merged = out and out[-1][0] == channel and channel != CALLS
            out[-1:] = [(channel, f"{out[-1][1]}{item}")] if merged else [*out[-1:], (channel, item)]
    return out


def one_reading(
    text: str, *, takes: Takes = EVERYTHING, stopped: bool = True, cap: int = 1 << 20, **setup: bool
) -> list[tuple[str, object]]:
    """The reading, the same at every cut."""
    made = Setup(grammar=compile_dialect(TAGGED), takes=takes, region_cap=cap, **setup)
    whole = shown(read(made, [text], stopped=stopped))
    for size in CUTS:
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        assert shown(read(made, pieces, stopped=stopped)) == whole, size
    return whole


CLOSED = "closed complete"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Sure.\n{ONE}", [("content", "Sure.\n"), (CALLS, Seen(ONE, "f", CLOSED))]),
        (
            f"{ONE}\n{TWO}bye",
            [(CALLS, Seen(ONE, "f", CLOSED)), ("content", "\n"), (CALLS, Seen(TWO, "g", CLOSED)), ("content", "bye")],
        ),
        (f"<tool_call>{G} <|im_end|>", [(CALLS, Seen(f"<tool_call>{G} ", "g", "complete"))]),
        (f"<tool_call>{G}", [(CALLS, Seen(f"<tool_call>{G}", "g", "complete"))]),
        ("<tool_call></tool_call>", [(CALLS, Seen("<tool_call></tool_call>", "", CLOSED))]),
        (f"<|call|>{G} ;\n{F} and", [(CALLS, Seen(f"<|call|>{G} ;\n{F}", "g f", CLOSED)), ("content", " and")]),
        (f"{G}\nSo.", [(CALLS, Seen(G, "g", CLOSED)), ("content", "\nSo.")]),
        (f"In {G} there is no call.", [("content", f"In {G} there is no call.")]),
        (f"`{TWO}`", [("content", f"`{TWO}`")]),
        (f"```\n{TWO}\n```", [("content", f"```\n{TWO}\n```")]),
        ("Write <tool_call> and the JSON.", [("content", "Write <tool_call> and the JSON.")]),
        ("The tag <tool_call>, then", [("content", "The tag <tool_call>, then")]),
    ],
)
def test_a_region_is_one_piece_from_its_opener_to_its_closer(text: str, expected: list[tuple[str, object]]) -> None:
    assert one_reading(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{TWO}", [(CALLS, Seen(TWO, "g", CLOSED + " thought"))]),
        (
            f"go\n{TWO}\n<|im_end|>",
            [("reasoning", "go\n"), (CALLS, Seen(TWO, "g", CLOSED + " thought")), ("reasoning", "\n")],
        ),
        (f"go {TWO[:-12]}", [("reasoning", "go "), (CALLS, Seen(TWO[:-12], "g", "complete thought"))]),
        (f"maybe {TWO} but check</think>no", [("reasoning", f"maybe {TWO} but check"), ("content", "no")]),
        (f"{TWO}</think>no", [("reasoning", TWO), ("content", "no")]),
        (f"{TWO}\n{ONE}x", [("reasoning", f"{TWO}\n{ONE}x")]),
        ("it is <tool_call>x</think>yes", [("reasoning", "it is <tool_call>x"), ("content", "yes")]),
    ],
)
def test_in_a_thought_a_call_counts_only_if_the_output_ends_with_it(
    text: str, expected: list[tuple[str, object]]
) -> None:
    assert one_reading(text, starts_open=True) == expected


def test_a_watched_call_that_the_text_ends_in_is_told_with_what_is_whole_of_it() -> None:
    for text, names in ((f"<tool_call>{G}", ["g"]), (f"<tool_call>{G[:-1]}", [""])):
        assert [item.names for _, item in one_reading(text, takes=WATCHED) if isinstance(item, Seen)] == names


def test_white_space_at_the_very_start_is_its_first_character() -> None:  # what the engine's parser wrote is live there
    for raw, content in (("<think>a", "a"), ("\n<think>a", "\n")):
        made = setup("minimax_append")
        for pieces in cuttings(raw, seed=6):
            assert text_of(read(made, pieces, stopped=True), CONTENT) == content


def test_two_calls_that_end_a_thought_are_both_told() -> None:
    first, second = (Seen(text, name, f"{CLOSED} thought") for text, name in ((TWO, "g"), (ONE, "f")))
    assert one_reading(f"{TWO}\n{ONE}", starts_open=True) == [(CALLS, first), ("reasoning", "\n"), (CALLS, second)]


def test_calls_that_end_a_thought_wait_up_to_the_cap_of_a_region_all_together() -> None:
    text = f"{TWO}\n{ONE}"
    assert [item[0] for item in one_reading(text, starts_open=True, cap=len(text))] == [CALLS, "reasoning", CALLS]
    assert one_reading(text, starts_open=True, cap=len(text) - 1) == [("reasoning", text)]


def test_a_thought_cut_by_length_holds_no_call() -> None:
    assert one_reading(f"go {TWO}", starts_open=True, stopped=False) == [("reasoning", f"go {TWO}")]


def test_a_control_token_ends_the_thought_at_once() -> None:
    assert one_reading(f"go <|call|>{G}on", starts_open=True) == [
        ("reasoning", "go "),
        (CALLS, Seen(f"<|call|>{G}", "g", CLOSED)),
        ("content", "on"),
    ]


def test_in_a_reasoning_field_a_control_token_opens_a_candidate_too() -> None:
    text = f"go <|call|>{G} on"
    assert one_reading(text, starts_open=True, split=True) == [("reasoning", text)]


def test_what_turns_out_to_be_no_region_is_read_again_as_what_it_is() -> None:
    broken = '<tool_call>{"name": 5, "x": "'
    assert one_reading(f"<think>{broken}</think>ans {TWO}") == [
        (CALLS, Seen("", "", "broken thought")),
        ("reasoning", broken),
        ("content", "ans "),
        (CALLS, Seen(TWO, "g", CLOSED)),
    ]


@pytest.mark.parametrize("takes", [EVERYTHING, WATCHED, NOTHING])
def test_a_bodys_beginning_that_is_none_is_text(takes: Takes) -> None:
    assert one_reading("{so}\n{on} <|im_end|>", takes=takes) == [("content", "{so}\n{on} ")]


@pytest.mark.parametrize("takes", [EVERYTHING, WATCHED, NOTHING])
def test_behind_a_region_that_was_none_in_a_control_token_the_answer_goes_on(takes: Takes) -> None:
    segments = one_reading("r <|call|>no</think>\n<think>s", takes=takes, starts_open=True)
    texts = [item for item in segments if item[0] != CALLS]
    assert texts[0] == ("reasoning", "r ")
    assert "".join(str(text) for _, text in texts) == "r <|call|>no\ns"
    assert texts[-1] == ("reasoning", "s")


def test_a_held_region_is_told_of_while_it_is_read() -> None:
    reader = Setup(grammar=compile_dialect(TAGGED), takes=replace(EVERYTHING, early=True)).reader()
    text = f'<tool_call>[{G}, {{"name": "f", "arguments": {{'
    names: list[list[str]] = []
    for piece in cut(text, 12):  # the first of them is only the opener
        told = [item for _, item in reader.feed(piece) if isinstance(item, ToolText)]
        assert all(item.so_far and text.startswith(item.so_far()) and not item.text for item in told)
        names += [[call.name for call in item.calls] for item in told]
    assert (names[0], names[-1]) == (["g"], ["g", "f"])
    (whole,) = [item for _, item in reader.feed("}}]</tool_call>") if isinstance(item, ToolText)]
    assert (whole.so_far, whole.text, [call.closed for call in whole.calls]) == (
        None,
        f"{text}}}}}]</tool_call>",
        [True] * 2,
    )


def test_a_candidate_in_a_thought_is_told_of_at_its_end_only() -> None:
    made = Setup(grammar=compile_dialect(TAGGED), takes=replace(EVERYTHING, early=True), starts_open=True)
    found = [item for _, item in read(made, cut(f"go {TWO}", 3), stopped=True) if isinstance(item, ToolText)]
    assert [item.text for item in found] == [TWO]


def test_what_another_role_says_is_told_apart() -> None:
    raw = f"{FINAL}a<|end|>{START}user<|message|>b"
    for pieces in cuttings(raw, seed=4):
        assert text_of(read(setup("harmony"), pieces, stopped=True), FOREIGN) == "b"


def test_a_call_cut_by_length_is_told_as_one_that_is_not_complete() -> None:
    assert one_reading('<tool_call>{"name": "f", "argum', stopped=False) == [
        (CALLS, Seen('<tool_call>{"name": "f", "argum', "", ""))
    ]


def test_past_the_cap_a_region_is_text() -> None:
    text = f"<tool_call>{G}</tool_call>"
    assert one_reading(text, cap=len(text)) == [(CALLS, Seen(text, "g", CLOSED))]
    assert one_reading(text, cap=len(text) - 1) == [(CALLS, Seen("", "g", "broken")), ("content", text)]
    unclosed = f"<tool_call>{G}"
    assert one_reading(unclosed, cap=len(unclosed)) == [(CALLS, Seen(unclosed, "g", "complete"))]


@pytest.mark.parametrize("takes", [EVERYTHING, WATCHED])
def test_a_cap_longer_than_what_is_read_at_once_is_the_same_cap(takes: Takes) -> None:
    cap = WINDOW + 100
    long = '<tool_call>{"name": "f", "arguments": {"a": "' + "x" * (2 * WINDOW)
    behind = f"\n{TWO}\n" + "y" * cap
    segments = one_reading(f"{long}{behind}", takes=takes, cap=cap)
    assert "".join(str(item) for channel, item in segments if channel in ("content", "tool")).startswith(long)
    assert [item.names for _, item in segments if isinstance(item, Seen)] == ["", "g"]
    assert one_reading(f"{TWO}{behind}", cap=cap)[0] == (CALLS, Seen(TWO, "g", CLOSED))


def test_after_many_failures_the_text_is_still_all_there() -> None:
    text = '<tool_call>{"x"' * (FAILURES + 1) + TWO
    segments = one_reading(text)
    assert [item.said for _, item in segments if isinstance(item, Seen)] == ["broken"] * FAILURES
    assert "".join(str(item) for channel, item in segments if channel == "content") == text


@pytest.mark.parametrize("takes", [WATCHED, NOTHING])
def test_where_nothing_is_held_the_text_goes_on_as_it_is(takes: Takes) -> None:
    text = f"Sure.\n{ONE}\n{TWO}"
    segments = one_reading(text, takes=takes)
    assert "".join(str(item) for channel, item in segments if channel != CALLS) == text
    told = [item.names for channel, item in segments if channel == CALLS and isinstance(item, Seen)]
    assert told == (["f", "g"] if takes is WATCHED else [])


@pytest.mark.parametrize(
    ("text", "names"),
    [(f"go\n{TWO}\n", ["g"]), (f"go {TWO} on", []), (f"go {TWO}</think>", []), (f"x\n{TWO[:-12]}", ["g"])],
)
def test_a_watched_thought_is_told_to_end_with_a_call(text: str, names: list[str]) -> None:
    segments = one_reading(text, takes=WATCHED, starts_open=True)
    assert [item.names for _, item in segments if isinstance(item, Seen)] == names


def test_a_field_that_ends_before_the_output_gives_back_what_is_held() -> None:
    for text in (f"go {TWO}", f"go {TWO[:-3]}", "go <tool_c"):
        reader = Setup(grammar=compile_dialect(TAGGED), takes=EVERYTHING, starts_open=True, split=True).reader()
        segments = [*reader.feed(text), *reader.leave(to_tools=False)]
        assert "".join(str(item) for channel, item in segments if channel == "reasoning") == text
        assert reader.held == ""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("x <tool_c", "marker"),
        (f"{TWO[:30]}", "tool_region"),
        ("x", ""),
        ("x\n<tool_call>", "tool_region"),
        ("x <tool_call>", "quoted_end"),
    ],
)
def test_it_says_what_it_waits_for(text: str, cause: str) -> None:
    reader = Setup(grammar=compile_dialect(TAGGED), takes=EVERYTHING).reader()
    reader.feed(text)
    assert reader.waits_for == cause
    assert text.endswith(reader.held)


ATOMS = (ONE, TWO, G, "<think>", "</think>", "<tool_call>", "</tool_call>", "<|call|>", "<|im_end|>", ";")
PIECES = st.lists(st.sampled_from([*ATOMS, "{", "\n", " a", "`"]), max_size=8)


@given(PIECES, st.booleans(), st.booleans(), st.sampled_from([EVERYTHING, WATCHED, NOTHING]))
def test_the_cuts_change_nothing(pieces: list[str], starts_open: bool, stopped: bool, takes: Takes) -> None:
    one_reading("".join(pieces), takes=takes, stopped=stopped, starts_open=starts_open)


@given(PIECES, st.booleans(), st.booleans())
def test_every_character_comes_out_or_belongs_to_a_dropped_marker(
    pieces: list[str], starts_open: bool, stopped: bool
) -> None:
    text = "".join(pieces)
    made = Setup(grammar=compile_dialect(TAGGED), takes=EVERYTHING, starts_open=starts_open)
    dropped = out = ""
    for _, item in read(made, [text], stopped=stopped):
        if isinstance(item, ToolText):
            out += item.text
        elif isinstance(item, str):
            out += item
        elif item.effect == "drop":
            dropped += item.text
    assert sorted(out + dropped) == sorted(text)
