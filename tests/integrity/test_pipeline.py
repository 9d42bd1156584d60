"""One choice, field by field: contract section 5, reader_spec 4 and 5, each row with the value it decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.findings import Finding
from gateway.integrity.setting import Setting
from gateway.limits import Limits
from gateway.policy import Dedup, Mode, Profile
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect, Header, HeaderRule, Kind, Target, Thought
from tests.integrity.settings import C, R, Run, setting, tooling
from tests.support.tagged import EVERYTHING, WATCHED

OBSERVE, REPAIR = Profile.OBSERVE, Profile.REPAIR
RE, TE, ME = "<|close|>response<|sep|>", "<|close|>think<|sep|>", "<|close|>message<|sep|>"  # reader_spec, K3 spelling


def run(given: Setting, *deltas: tuple[str, str], finish: str = "stop") -> Run:
    """Deltas, then the end."""
    return Run(given).push(*deltas).finish(finish)


# ---------------------------------------------------------------------- deltas that go out as they came


@pytest.mark.parametrize("name", ["think", "kimi_k3", "harmony", "gemma4", "mistral", "generic", "minimax_m3", "none"])
def test_a_delta_that_needs_no_change_is_not_made_again(name: str) -> None:
    pipeline = Run(setting(name)).pipeline
    deltas = [
        ("Let me", ""),
        (" think.", ""),
        ("", "The answer"),
        ("", " is 4"),
        ("", "2."),
        ("More", ""),
        ("", " and"),
    ]
    assert [pipeline.push(*delta) for delta in deltas] == [None] * 7


def test_the_first_words_of_an_answer_go_out_as_they_came() -> None:
    pipeline = Run(setting()).pipeline
    assert [pipeline.push("", text) for text in ("\n\n", "a", " b")] == [None] * 3


def test_a_marker_prefix_waits_and_comes_out_in_order() -> None:
    pipeline = Run(setting()).pipeline
    assert [pipeline.push(*delta) for delta in [("a <", ""), ("b", ""), ("", "c <"), ("", "d")]] == [
        [(R, "a ")],
        [(R, "<b")],
        [(C, "c ")],
        [(C, "<d")],
    ]


def test_a_marker_prefix_goes_out_before_the_other_field() -> None:
    pipeline = Run(setting()).pipeline
    assert pipeline.push("a<", "") == [(R, "a")]
    assert pipeline.push("", "b<") == [(R, "<"), (C, "b")]
    assert pipeline.push("c", "") == [(C, "<"), (R, "c")]


def test_a_chunk_of_both_fields_is_split_or_observed() -> None:
    full, seen = Run(setting()), Run(setting(profile=OBSERVE))
    assert full.pipeline.push("r", "c") == [(R, "r"), (C, "c")]
    assert seen.pipeline.push("r", "c") is None
    assert (full.counted, seen.counted) == ({"mixed_chunk_split/split": 1}, {"mixed_chunk_split/would_split": 1})


# ---------------------------------------------------------------------- leaks between fields


@pytest.mark.parametrize(
    ("deltas", "said", "counted"),
    [
        ([("", "<think>t</think>a")], ("t", "a"), {"reasoning_leak/moved": 1, "boundary_token/stripped": 2}),
        ([("r", ""), ("", "</think>\n\na")], ("r", "\n\na"), {"boundary_token/stripped": 1}),
        ([("<think>r", ""), ("", "a")], ("r", "a"), {"boundary_token/stripped": 1}),
        ([("r</think>", ""), ("", "a")], ("r", "a"), {"boundary_token/stripped": 1}),
        ([("r</think>a", "")], ("r", "a"), {"answer_in_reasoning/moved": 1, "boundary_token/stripped": 1}),
        ([("", "a<|im_end|>")], ("", "a"), {"special_token/stripped": 1}),
        ([("", "a `</think>` b")], ("", "a `</think>` b"), {}),  # quoted is data (rule 3)
        ([("r `</think>` s", ""), ("", "a")], ("r `</think>` s", "a"), {}),
        ([("", "a\n<think> </think>b")], (" ", "a\nb"), {"boundary_token/stripped": 2}),  # white space is no thought
        ([("", "a\n<think>t</think>\n<think>u</think>b")], ("tu", "a\n\nb"),
         {"reasoning_leak/moved": 2, "boundary_token/stripped": 4}),
    ],
)  # fmt: skip
def test_text_in_the_wrong_field_is_moved_and_its_markers_stripped(
    deltas: list[tuple[str, str]], said: tuple[str, str], counted: dict[str, int]
) -> None:
    whole = run(setting(), *deltas)
    assert (whole.said, whole.counted) == (said, counted)
    letters = [(letter, "") for reasoning, _ in deltas for letter in reasoning]
    letters += [("", letter) for _, content in deltas for letter in content]
    cut = run(setting(), *letters)
    assert (cut.said, cut.counted) == (said, counted)


@pytest.mark.parametrize(
    ("modes", "said"),
    [
        ({"reasoning_leak": Mode.OBSERVE}, ("", "<think>t</think>a")),  # the markers stay with the thought
        ({"boundary_token": Mode.OBSERVE}, ("t", "<think></think>a")),
        ({"boundary_token": Mode.OFF, "reasoning_leak": Mode.OFF}, ("", "<think>t</think>a")),
    ],
)
def test_what_is_not_enforced_stays_where_it_was(modes: dict[str, Mode], said: tuple[str, str]) -> None:
    assert run(setting(findings=modes), ("", "<think>t</think>a")).said == said


def test_an_answer_in_the_reasoning_field_stays_there_where_that_is_observed() -> None:
    done = run(setting(findings={"answer_in_reasoning": Mode.OBSERVE}), ("r</think>a", ""))
    assert done.said == ("r</think>a", "")
    assert done.counted == {
        "boundary_token/stripped": 1,
        "answer_in_reasoning/would_move": 1,
        "empty_response/flagged": 1,
    }


@pytest.mark.parametrize(
    ("deltas", "said", "where"),
    [
        ([("", "Hi.<|end|><|start|>user<|message|>More?")], ("", "Hi."), "content"),
        ([("t<|end|><|start|>user<|message|>More?", "")], ("t", ""), "reasoning"),
    ],
)
def test_another_role_is_suppressed_and_counted_once(
    deltas: list[tuple[str, str]], said: tuple[str, str], where: str
) -> None:
    done = run(setting("harmony"), *deltas, ("", " Go on.") if where == "content" else (" Go on.", ""))
    rows = [row for row, _ in done.tally.findings if row.finding == "role_token"]
    assert (done.said, [(row.action, row.where) for row in rows]) == (said, [("suppressed", where)])
    assert done.tally.characters_suppressed == len("More? Go on.")


@pytest.mark.parametrize("field", [0, 1])
def test_another_role_that_is_only_observed_stays_in_its_field(field: int) -> None:
    text = "Hi.<|end|><|start|>user<|message|>More?"
    done = run(setting("harmony", profile=OBSERVE), (text, "") if field == 0 else ("", text))
    assert done.said[field] == text
    assert done.counted["role_token/would_suppress"] == 1


@pytest.mark.parametrize("profile", [Profile.FULL, OBSERVE])
def test_a_tool_region_in_the_reasoning_field_stays_there(profile: Profile) -> None:
    text = "t<|tool_call>call:f{}<tool_call|>"
    assert run(setting("gemma4", profile=profile), (text, "")).said == (text, "")


# ---------------------------------------------------------------------- raw text (rule 10)


def test_the_structure_of_raw_text_is_no_finding() -> None:
    done = run(setting(raw=True), ("", "<think>t</think>a<|im_end|>"))
    assert (done.said, done.counted) == (("t", "a"), {})


def test_raw_text_of_another_role_is_suppressed_too() -> None:
    done = run(setting("harmony", raw=True), ("", "<|channel|>final<|message|>Hi.<|end|><|start|>user<|message|>More?"))
    assert (done.said, done.counted) == (("", "Hi."), {"role_token/suppressed": 1})


def test_raw_text_starts_in_the_thought_where_the_route_says_so() -> None:
    assert run(setting(raw=True, starts_open=True), ("", "t</think>a")).said == ("t", "a")
    assert run(setting("kimi_k3", raw=True, starts_open=True), ("", f"Hi.{RE}")).said == ("Hi.", "Hi.")


def test_a_reasoning_field_beside_raw_text_is_reasoning() -> None:
    done = run(setting(raw=True), ("r", ""), ("", "<think>t</think>a"))
    assert done.said == ("rt", "a")


# ---------------------------------------------------------------------- a skipped channel (reader_spec 4.1)


@pytest.mark.parametrize(
    ("reasoning", "finish", "said"),
    [
        (f"The answer is 42.{RE}{ME}", "stop", ("The answer is 42.", "The answer is 42.")),  # row 1
        (f"Reply.{RE}\n{ME}", "stop", ("Reply.\n", "Reply.\n")),  # row 4
        (f"Reply.{RE}<|close|>mes", "stop", ("Reply.<|close|>mes", "Reply.")),  # row 6
        (f"Reply.{RE}<|close|>mes", "length", ("Reply.<|close|>mes", "")),  # row 7
        (f"I quote {RE} here", "stop", (f"I quote {RE} here", "")),  # contract rule 3, against row 12
        ("Reply.", "stop", ("Reply.", "")),  # row 17
    ],
)
def test_a_skipped_channel_is_replayed_at_a_natural_stop(reasoning: str, finish: str, said: tuple[str, str]) -> None:
    assert run(setting("kimi_k3"), (reasoning, ""), finish=finish).said == said


def test_a_long_replay_comes_in_pieces_of_4096_characters() -> None:
    done = run(setting("kimi_k3"), ("x" * 9000 + RE, ""))  # row 29
    assert [len(text) for channel, text in done.sent if channel == "replay"] == [4096, 4096, 808]


def test_a_replay_is_no_repeat_of_the_reasoning() -> None:  # D9
    done = run(setting("kimi_k3", wanted=True), (f"Reply.{RE}", ""))
    assert (done.said, done.counted["answer_in_reasoning/replayed"]) == (("Reply.", "Reply."), 1)


def test_an_observed_replay_is_counted_and_not_sent() -> None:
    text = f"Reply.{RE}"
    done = run(setting("kimi_k3", profile=OBSERVE), (text, ""))
    assert done.said == (text, "")
    assert done.counted["answer_in_reasoning/would_replay"] == 1


def test_a_thought_over_the_cap_is_not_replayed_and_says_so() -> None:
    done = run(setting("kimi_k3", limits=Limits(channel_text=5)), (f"Reply.{RE}", ""))
    assert (done.said, done.counted["answer_in_reasoning/capped"]) == (("Reply.", ""), 1)


def test_a_call_ends_a_skipped_channel_and_content_does_not() -> None:
    called = Run(setting("kimi_k3")).push((f"Reply.{RE}", ""))
    called.take(called.pipeline.tool_call()).finish("tool_calls")
    assert called.said == ("Reply.", "Reply.")
    assert run(setting("kimi_k3"), (f"Reply.{RE}", ""), ("", "x")).said == ("Reply.", "x")


# ---------------------------------------------------------------------- promotion (rule 4)


@pytest.mark.parametrize(
    ("given", "deltas", "finish", "said"),
    [
        ({}, [("4", ""), ("2.", "")], "stop", ("", "42.")),
        ({}, [("42.", "")], "length", ("42.", "")),
        ({}, [("42.", "")], "tool_calls", ("42.", "")),
        ({}, [("42.", ""), ("", "a")], "stop", ("42.", "a")),
        ({}, [("\n", "")], "stop", ("\n", "")),  # white space is no answer
        ({"hidden": True}, [("42.", "")], "stop", ("42.", "")),
        ({"promotable": False}, [("42.", "")], "stop", ("42.", "")),
        ({"promote_reasoning": "never"}, [("42.", "")], "stop", ("42.", "")),
        ({"findings": {"answer_in_reasoning": Mode.OFF}}, [("42.", "")], "stop", ("42.", "")),
        ({"limits": Limits(promote=2)}, [("4", ""), ("2.", "")], "stop", ("42.", "")),
        ({"limits": Limits(promote=3)}, [("4", ""), ("2.", "")], "stop", ("", "42.")),
        ({}, [("t</think>", "")], "stop", ("t", "")),  # a marker was seen
    ],
)
def test_reasoning_is_promoted_only_where_it_is_all_there_is(
    given: dict[str, Any], deltas: list[tuple[str, str]], finish: str, said: tuple[str, str]
) -> None:
    done = run(setting(thinking_off=True, **given), *deltas, finish=finish)
    assert done.said == said
    assert ("answer_in_reasoning/promoted" in done.counted) is (said == ("", "42."))


def test_an_observed_promotion_is_not_late_and_the_answer_counts_as_empty() -> None:
    watched = Run(setting(profile=OBSERVE, thinking_off=True))
    assert [watched.pipeline.push("4", ""), watched.pipeline.push("2.", "")] == [None, None]
    assert watched.finish().counted == {"answer_in_reasoning/would_promote": 1, "empty_response/flagged": 1}
    assert watched.sent == []


def test_a_refusal_lets_the_reasoning_go_as_reasoning_and_is_an_answer() -> None:
    refused = Run(setting(thinking_off=True)).push(("t", ""))
    refused.take(refused.pipeline.refusal()).finish()
    assert (refused.said, refused.counted) == (("t", ""), {})


# ---------------------------------------------------------------------- dedup (reader_spec 5.3)


@pytest.mark.parametrize(
    ("given", "content", "finish", "answer", "counted"),
    [
        ({"wanted": True}, ["Say", " hi."], "stop", "", {"duplicate_suppressed/suppressed": 1}),
        ({"wanted": True}, ["\n\nSay hi.\n"], "stop", "", {"duplicate_suppressed/suppressed": 1}),
        ({"wanted": True, "dedup": Dedup(match="exact")}, ["\n\nSay hi."], "stop", "\n\nSay hi.", {}),
        ({}, ["Say hi."], "stop", "Say hi.", {"duplicate_suspect/kept": 1}),
        ({"wanted": True, "hidden": True}, ["Say hi."], "stop", "Say hi.", {"duplicate_suspect/kept": 1}),
        ({"wanted": True, "dedup": Dedup(enabled=False)}, ["Say hi."], "stop", "Say hi.",
         {"duplicate_suspect/kept": 1}),
        ({"wanted": True, "dedup": Dedup(min_length=8)}, ["Say hi."], "stop", "Say hi.", {}),
        ({"wanted": True, "findings": {"duplicate_suppressed": Mode.OFF}}, ["Say hi."], "stop", "Say hi.",
         {"duplicate_suspect/kept": 1}),
        ({"wanted": True, "profile": OBSERVE}, ["Say hi."], "stop", "Say hi.",
         {"duplicate_suppressed/would_suppress": 1}),
        ({"wanted": True}, ["Say hi."], "length", "Say hi.", {"truncated/flagged": 1}),
        ({"wanted": True}, ["Say"], "stop", "Say", {}),
        ({"wanted": True}, ["Say hi.!"], "stop", "Say hi.!", {}),
    ],
)  # fmt: skip
def test_a_repeat_is_suppressed_only_where_the_client_sees_it_twice(
    given: dict[str, Any], content: list[str], finish: str, answer: str, counted: dict[str, int]
) -> None:
    done = run(setting(**given), ("Say hi.", ""), *(("", text) for text in content), finish=finish)
    assert (done.said, done.counted) == (("Say hi.", answer), counted)
    assert done.tally.characters_suppressed == (0 if answer else len("".join(content)))


def test_a_repeat_is_settled_before_a_tool_region_in_the_text() -> None:
    done = run(setting("kimi_k3", wanted=True), ("r", ""), ("", "r"), ("", "<|open|>tools<|sep|>x"))
    assert done.said == ("r", "<|open|>tools<|sep|>x")
    assert done.counted["duplicate_suppressed/suppressed"] == 1


def test_a_tool_region_in_the_text_is_content_and_no_repeat() -> None:
    text = "<|open|>tools<|sep|>x<|close|>tools<|sep|>"
    assert run(setting("kimi_k3"), ("", text), ("", text)).said == ("", text + text)


# ---------------------------------------------------------------------- content before the promised thought (rule 8)


@pytest.mark.parametrize(
    ("content", "finish", "said"),
    [
        ("t</think>a", "stop", ("t", "a")),
        ("t", "stop", ("", "t")),
        ("t", "tool_calls", ("", "t")),
        ("t", "length", ("t", "")),
        ("t", "content_filter", ("", "t")),
        ("12345678</think>a", "stop", ("", "12345678</think>a")),  # the closer ends behind the cap
        ("12</think>345</think>a", "stop", ("12", "345</think>a")),
        ("12</think><think>3", "stop", ("123", "")),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_content_before_the_promised_thought_is_decided_by_characters(
    content: str, finish: str, said: tuple[str, str], size: int
) -> None:
    given = setting(starts_open=True, limits=Limits(unknown_start=12))
    deltas = [("", content[at : at + size]) for at in range(0, len(content), size)]
    assert run(given, *deltas, finish=finish).said == said


def test_a_thought_found_late_is_a_counted_leak() -> None:
    done = run(setting(starts_open=True), ("", "t</think>a"))
    assert done.counted == {"reasoning_leak/moved": 1, "boundary_token/stripped": 1}


def test_reasoning_or_a_call_shows_that_content_before_it_was_content() -> None:
    assert run(setting(starts_open=True), ("", "a"), ("r", ""), ("", "b")).sent == [(C, "a"), (R, "r"), (C, "b")]
    assert run(setting(starts_open=True), ("r", ""), ("", "b")).sent == [(R, "r"), (C, "b")]
    called = Run(setting(starts_open=True)).push(("", "a"))
    assert called.pipeline.tool_call() == [(C, "a")]


@pytest.mark.parametrize(
    "given",
    [
        {"thinking_off": True},
        {"findings": {"reasoning_leak": Mode.OBSERVE}},
        {"findings": {"boundary_token": Mode.OFF}},
    ],
)
def test_nothing_waits_for_a_thought_that_could_not_be_moved(given: dict[str, Any]) -> None:
    assert Run(setting(starts_open=True, **given)).pipeline.push("", "a") is None


# ---------------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("deltas", "finish", "counted"),
    [
        ([("", "a")], "stop", {}),
        ([("r", "")], "stop", {"empty_response/flagged": 1}),
        ([("r", ""), ("", "\n")], "stop", {"empty_response/flagged": 1}),
        ([("<think>", "")], "stop", {"boundary_token/stripped": 1, "empty_response/flagged": 1}),
        ([("", "<|im_end|>")], "stop", {"special_token/stripped": 1, "empty_response/flagged": 1}),
        ([], "tool_calls", {"empty_response/flagged": 1}),
        ([], "content_filter", {}),
        ([("r", "")], "length", {"truncated/flagged": 1}),
    ],
)
def test_an_answer_that_says_nothing_is_flagged(
    deltas: list[tuple[str, str]], finish: str, counted: dict[str, int]
) -> None:
    assert run(setting(), *deltas, finish=finish).counted == counted


@pytest.mark.parametrize("given", [setting(), setting("none"), setting(profile=OBSERVE), setting(raw=True)])
@pytest.mark.parametrize("deltas", [[], [("", "")], [("", "\n")], [(" ", ""), ("", "\n\n")]])
def test_an_answer_of_which_nothing_came_asks_for_another_one(given: Setting, deltas: list[tuple[str, str]]) -> None:
    deltas = [(reasoning, content) for reasoning, content in deltas if content or not given.raw]
    done = run(given, *deltas)
    assert done.counted == {"empty_response/flagged": 1, "regen_wanted/flagged": 1}
    (row,) = [row for row, _ in done.tally.findings if row.finding == "regen_wanted"]
    assert row.rule == "empty_response"


EMPTY = {"empty_response/flagged": 1}
SWALLOWED = {"answer_in_reasoning/would_replay": 1, **EMPTY}


@pytest.mark.parametrize(
    ("given", "text", "counted"),
    [
        (setting(raw=True), "<think>I think. It is 4.", SWALLOWED),
        (setting(raw=True, starts_open=True), "<think>I think. It is 4.", SWALLOWED),
        (setting("gemma4", raw=True), "<|channel>thought\nI think. It is 4.", SWALLOWED),
        (setting(raw=True, profile=OBSERVE), "<think>I think. It is 4.", SWALLOWED),
        (setting(raw=True, starts_open=True), "I think. It is 4.", EMPTY),
        (setting(raw=True), "<think>I think.</think>", EMPTY),
        (setting(raw=True), "<think>I think.</think>\n<think>I think.", EMPTY),  # MUL-05
        (setting(raw=True), "<think>I think.</think>4<think>", {}),
        (setting("harmony", raw=True, promotable=False), "<|channel|>analysis<|message|>I think.", EMPTY),
        (setting(), "<think>I think. It is 4.", {"boundary_token/stripped": 1, "reasoning_leak/moved": 1, **EMPTY}),
        (setting("none", raw=True), " ", {**EMPTY, "regen_wanted/flagged": 1}),
    ],
)
def test_a_thought_that_a_marker_opened_and_none_closed_may_hold_the_answer(
    given: Setting, text: str, counted: dict[str, int]
) -> None:  # vLLM 0.28, #51679: the tool parser swallows the closer
    done = run(given, ("", text))
    assert done.counted == counted
    rules = [row.rule for row, _ in done.tally.findings if row.finding == "answer_in_reasoning"]
    assert rules == (["unclosed"] if counted is SWALLOWED else [])


@pytest.mark.parametrize(("finish", "stop_string"), [("length", False), ("stop", True)])
def test_a_thought_that_was_cut_holds_no_answer(finish: str, stop_string: bool) -> None:
    done = Run(setting(raw=True)).push(("", "<think>I think.")).finish(finish, stop_string=stop_string)
    assert "answer_in_reasoning/would_replay" not in done.counted


def test_nothing_is_asked_again_where_a_stop_string_of_the_request_ended_the_answer() -> None:
    assert Run(setting()).finish(stop_string=True).counted == {"empty_response/flagged": 1}


def test_a_cut_says_where_it_was() -> None:
    places = [run(setting(), delta, finish="length").tally.findings[0][0].where for delta in (("r", ""), ("", "a"))]
    assert places == ["reasoning", "content"]


def test_an_answer_of_calls_is_not_empty() -> None:
    called = Run(setting())
    assert called.take(called.pipeline.tool_call()).finish("tool_calls").counted == {}


def test_what_is_held_goes_out_in_its_channel_when_the_answer_breaks_off() -> None:
    for given, deltas, held in (
        (setting(), [("a<", "")], [(R, "<")]),
        (setting(), [("", "a<")], [(C, "<")]),
        (setting(thinking_off=True), [("a<", "")], [(R, "a<")]),
        (setting(wanted=True), [("ab", ""), ("", "a"), ("", "<")], [(C, "a<")]),
        (setting("none", wanted=True), [("ab", ""), ("", "a")], [(C, "a")]),
        (setting(starts_open=True), [("", "a<")], [(C, "a<")]),
    ):
        broken = Run(given).push(*deltas)
        broken.sent.clear()
        assert broken.pipeline.release(read=True) == held
        assert broken.pipeline.release(read=True) == []


def test_what_is_held_goes_out_as_it_came_when_reading_has_failed() -> None:
    for given, deltas, held in (
        (setting(), [("a<", "")], [(R, "<")]),
        (setting(), [("", "a `</think>")], [(C, "</think>")]),
        (setting(thinking_off=True), [("a<", "")], [(R, "a<")]),
        (setting(wanted=True), [("ab", ""), ("", "a"), ("", "<|im_end|>")], [(C, "a<|im_end|>")]),
        (setting(starts_open=True), [("", "a<")], [(C, "a<")]),
        (setting("none", wanted=True), [("ab", ""), ("", "a")], [(C, "a")]),
    ):
        assert Run(given).push(*deltas).pipeline.release(read=False) == held


# ---------------------------------------------------------------------- surrogate halves (reader_spec S10)


def test_halves_are_joined_within_a_field() -> None:
    joined = Run(setting()).pipeline
    assert [
        joined.join("a\ud83d", ""),
        joined.join("\ude00b", ""),
        joined.join("", "c\ud83d"),
        joined.join("", "d"),
    ] == [
        ("a", ""),
        ("\U0001f600b", ""),
        ("", "c"),
        ("", "\ud83dd"),
    ]
    assert joined.joins


def test_a_half_of_a_thought_that_is_over_becomes_the_replacement_character() -> None:
    joined = Run(setting()).pipeline
    assert [joined.join("a\ud83d", ""), joined.join("", "b")] == [("a", ""), ("\ufffd", "b")]


@pytest.mark.parametrize("end", ["finish", "release", "tool_call"])
def test_a_half_that_is_held_at_the_end_becomes_the_replacement_character(end: str) -> None:
    for field, channel in ((("a\ud83d", ""), R), (("", "a\ud83d"), C)):
        held = Run(setting())
        held.push(held.pipeline.join(*field))
        held.sent.clear()
        if end == "finish":
            held.finish()
        else:
            held.take(held.pipeline.release(read=True) if end == "release" else held.pipeline.tool_call())
        assert held.sent == [(channel, "\ufffd")]


def test_nothing_is_read_without_a_grammar_but_repeats_are_still_seen() -> None:
    done = run(setting("none", wanted=True, starts_open=True, profile=REPAIR), ("<think>r", ""), ("", "<think>r"))
    assert (done.said, done.counted) == (("<think>r", ""), {"duplicate_suppressed/suppressed": 1})


# ---------------------------------------------------------------------- turn headers, tokens without a thought


@pytest.mark.parametrize(
    ("name", "text", "counted"),
    [
        ("chatml_turns", "<|im_start|>assistant\nHi.", {"special_token/stripped": 1}),
        ("harmony", "<|channel|>final<|message|>Hi.", {"boundary_token/stripped": 1}),
    ],
)
def test_a_turns_header_is_a_special_token_and_a_channels_header_a_boundary(
    name: str, text: str, counted: dict[str, int]
) -> None:
    given = setting(name) if name == "harmony" else replace(setting(), grammar=compile_dialect(TURNS))
    done = run(given, ("", text))
    assert (done.said, done.counted) == (("", "Hi."), counted)


TURNS = Dialect(
    name="turns",
    summary="a tag dialect whose turns have headers",
    kind=Kind.TAG,
    aliases={},
    thoughts=(Thought(open=("<think>",), close=("</think>",)),),
    end_of_turn=("<|im_end|>",),
    headers=(
        Header(
            open=("<|im_start|>",),
            close="\n",
            rules=(HeaderRule(text="assistant", to=Target.ANSWER), HeaderRule(text="user", to=Target.FOREIGN)),
        ),
    ),
)


def test_another_roles_turn_is_a_role_token_and_its_header_a_special_one() -> None:
    done = run(replace(setting(), grammar=compile_dialect(TURNS)), ("", "Hi.<|im_end|>\n<|im_start|>user\nMore?"))
    assert done.said[1].rstrip() == "Hi."
    assert done.counted == {"special_token/stripped": 2, "role_token/suppressed": 1}


@pytest.mark.parametrize(
    ("mode", "said", "action"),
    [(Mode.ENFORCE, "\n\nHi.", "stripped"), (Mode.OBSERVE, "</think>\n\nHi.", "would_strip")],
)
def test_in_raw_text_a_closer_without_a_thought_is_a_finding(mode: Mode, said: str, action: str) -> None:
    done = run(setting(raw=True, findings={Finding.BOUNDARY_TOKEN: mode}), ("", "</think>\n\nHi."))
    assert (done.said, done.counted) == (("", said), {f"boundary_token/{action}": 1})
    assert run(setting(raw=True), ("", "<think>t</think>Hi.")).counted == {}


# ---------------------------------------------------------------------- a client that asked for no reasoning


def test_a_leaked_thought_is_hidden_from_a_client_that_asked_for_no_reasoning() -> None:
    done = run(setting(unsent=True, hidden=True), ("", "<think>secret</think>Hi."))
    assert (done.said, done.counted) == (("", "Hi."), {"reasoning_leak/hidden": 1, "boundary_token/stripped": 2})
    assert done.tally.characters_suppressed == len("secret")


def test_what_raw_text_says_in_a_thought_is_hidden_from_such_a_client_too() -> None:
    assert run(setting(raw=True, unsent=True, hidden=True), ("", "<think>secret</think>Hi.")).said == ("", "Hi.")


def test_reasoning_that_the_engine_sends_all_the_same_is_the_engines_business() -> None:
    assert run(setting(unsent=True, hidden=True), ("t", ""), ("", "Hi.")).said == ("t", "Hi.")


# ---------------------------------------------------------------------- the end of the thinking budget, and holds


@pytest.mark.parametrize("raw", [False, True])
def test_the_end_string_is_no_text_at_the_end_of_the_thought(raw: bool) -> None:
    given = setting(raw=raw, end_string="Time is up.</think>")
    split = [("I add. Time ", ""), ("is up.", ""), ("", "42")]
    deltas = [("", "<think>I add. Time is up.</think>42")] if raw else split
    done = run(given, *deltas)
    assert (done.said, done.counted) == (("I add. ", "42"), {"boundary_token/stripped": 1})


def test_an_end_string_with_its_closer_at_the_head_of_the_content_is_no_text() -> None:
    done = run(setting(end_string="Time is up.</think>"), ("I add.", ""), ("", "Time is up.</think>\n\n42"))
    assert done.said[1].lstrip() == "42"
    assert done.counted == {"boundary_token/stripped": 2}


@pytest.mark.parametrize(
    ("given", "delta", "cause"),
    [
        (setting(starts_open=True), ("", "t"), "unknown_start"),
        (setting(), ("", "a <"), None),  # said in part: `a ` went out, `<` waits
        (setting(), ("t <", ""), None),
        (setting(wanted=True), ("t", "t"), "dedup"),
        (setting(thinking_off=True), ("t", ""), "promote"),
        (setting(), ("", "a </think>"), "quoted_end"),
        (setting("harmony"), ("", "<|channel|>fin"), "header"),
        (setting("none"), ("t", "a"), None),
        (setting(end_string="Time"), ("Ti", ""), "end_string"),
    ],
)
def test_why_something_waits_is_a_cause_of_the_declared_holds(
    given: Setting, delta: tuple[str, str], cause: str | None
) -> None:
    pipeline = Run(given).push(delta).pipeline
    assert pipeline.holding == (cause or ("marker" if delta[0].endswith("<") or delta[1].endswith("<") else None))


def test_long_answers_are_noted_in_bounded_memory() -> None:
    deltas = [("word ", "")] * 1000 + [("", "other ")] * 1000
    done = Run(setting(limits=Limits(repetition=100))).push(*deltas).finish("length")
    assert done.counted["degenerate/flagged"] == 1


# ---------------------------------------------------------------------- calls that are text: more in `test_tools.py`


CALL_TEXT = '<tool_call>{"name": "f", "arguments": {"a": "x"}}</tool_call>'


def test_a_call_left_as_text_waits_and_what_follows_decides() -> None:
    given = setting("tagged", takes=EVERYTHING, tooling=tooling("f"))
    done = Run(given).push(("", "So:\n"), ("", CALL_TEXT), ("", "\n"))
    assert (done.said, done.pipeline.holding) == (("", "So:\n"), "tool_region")
    assert done.push(("", "on")).said == ("", f"So:\n{CALL_TEXT}\non")
    assert (done.pipeline.holding, done.finish().calls) == (None, [])
    assert run(given, ("", f"So:\n{CALL_TEXT}\n")).calls == [("f", '{"a": "x"}')]


def test_the_engines_own_call_takes_the_place_of_the_one_left_as_text() -> None:
    done = Run(setting("tagged", takes=EVERYTHING, tooling=tooling("f"))).push(("", CALL_TEXT))
    done.take(done.pipeline.tool_call())
    done.pipeline.engine_call("f", '{"a": "x"}')
    assert (done.finish("tool_calls").calls, done.said) == ([], ("", ""))


def test_a_call_that_went_out_while_it_was_read_and_broke_is_told() -> None:
    done = Run(setting("tagged", raw=True, takes=replace(EVERYTHING, early=True), tooling=tooling("f")))
    done.push(("", '<tool_call>{"name": "f", "arguments": {"a": '))
    assert not done.pipeline.call_broken
    assert done.push(("", "]}}")).pipeline.call_broken


UNMARKED = {"unmarked": ("thought\n",), "tooling": tooling("f")}


@pytest.mark.parametrize(
    ("given", "said", "counted"),
    [
        ({}, ("I look.", ""), {"reasoning_leak/moved": 1}),
        ({"profile": OBSERVE}, ("", "thought\nI look."), {"reasoning_leak/would_move": 1}),
    ],
)
def test_content_that_the_engines_call_ends_was_the_thought_that_lost_its_markers(
    given: dict[str, Any], said: tuple[str, str], counted: dict[str, int]
) -> None:
    done = Run(setting("gemma4", **UNMARKED, **given)).push(("", "thought\nI l"), ("", "ook."))
    assert (done.said, done.pipeline.holding) == (("", ""), "unknown_start")
    done.take(done.pipeline.tool_call()).push(("", "After."))
    assert done.finish("tool_calls").said == (said[0], f"{said[1]}After.")
    assert done.counted == counted


@pytest.mark.parametrize("text", ["thought\nI look.", "thoughts", "Sure."])
def test_without_a_call_of_the_engine_it_is_content(text: str) -> None:
    done = run(setting("gemma4", **UNMARKED), ("", text[:6]), ("", text[6:]))
    assert (done.said, done.counted) == (("", text), {})
    called = Run(setting("gemma4", **UNMARKED)).push(("", text.removeprefix("thought\n")))
    assert called.take(called.pipeline.tool_call()).said == ("", text.removeprefix("thought\n"))


def test_markup_that_is_only_watched_goes_out_where_it_stands() -> None:
    done = run(setting("tagged", takes=WATCHED, tooling=tooling("f")), ("", f"So:\n{CALL_TEXT}"))
    assert (done.said, done.counted) == (("", f"So:\n{CALL_TEXT}"), {"tool_rescued/would_rescue": 1})
