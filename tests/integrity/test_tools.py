"""Calls left as text: which become calls, which stay and which go (contract rule 5), through a pipeline.

What a region is belongs to `tests/streams`; here each region is whole, or cut by the end of the answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.events import ToolCall
from gateway.findings import Finding
from gateway.policy import Mode, Profile, ToolRescue
from gateway.streams.grammar import Take, Takes
from tests.integrity.settings import LIMITS, C, R, Run, setting, tooling
from tests.support.reader import cut
from tests.support.tagged import EVERYTHING, WATCHED

F, G = '{"name": "f", "arguments": {"a": "x"}}', '{"name": "g", "arguments": {"b": 1.0}}'
MADE_F, MADE_G = ("f", '{"a": "x"}'), ("g", '{"b": 1.0}')
SIZES = (1, 7, 1 << 20)
RESCUED, LEFT, REMOVED = "tool_rescued/rescued", "tool_markup_leak/left", "tool_markup_leak/removed"
ENFORCED = {"findings": {Finding.TOOL_MARKUP_LEAK: Mode.ENFORCE}}


def tagged(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


ONE, TWO = tagged(F), tagged(G)


def answered(text: str, *, finish: str = "stop", field: str = C, raw: bool = False, **given_: Any) -> Run:
    """The answer `text` in one field, the same at every cut."""
    given_ = {"takes": EVERYTHING, "tooling": tooling("f", "g")} | given_
    runs = []
    for size in SIZES:
        run = Run(setting("tagged", raw=raw, **given_))
        for piece in cut(text, size):
            run.push((piece, "") if field == R else ("", piece))
        runs.append(run.finish(finish))
    told = [(run.said, run.calls, run.tally.report(), run.tally.characters_suppressed) for run in runs]
    assert all(each == told[0] for each in told), told
    return runs[0]


def tools_counted(run: Run) -> dict[str, int]:
    """What was counted of tools."""
    return {key: count for key, count in run.counted.items() if key.startswith("tool_")}


def rules_of(run: Run) -> set[str | None]:
    return {row.rule for row in run.tally.rows if str(row.finding).startswith("tool_")}


# ---------------------------------------------------------------------- a call at the end of the answer


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (ONE, "", [MADE_F]),
        (f"Sure.\n{ONE}\n \n", "Sure.\n", [MADE_F]),
        (f"{ONE}\n{TWO}", "", [MADE_F, MADE_G]),
        (f"{tagged(f'[{F}, {G}]')}", "", [MADE_F, MADE_G]),
        (f"<tool_call>{F}", "", [MADE_F]),  # only outer closers are missing
        (f"<tool_call>{F}</tool", "", [MADE_F]),
        (f"<|call|>{F} ; {G}", "", [MADE_F, MADE_G]),
        (F, "", [MADE_F]),
        (tagged('{"name": " f ", "arguments": {}}'), "", [("f", "{}")]),
        (tagged('{"name": "g"}'), "", [("g", "{}")]),
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_a_whole_call_of_a_declared_tool_that_ends_the_answer_is_made(
    text: str, content: str, calls: list[tuple[str, str]], raw: bool
) -> None:
    run = answered(text, raw=raw)
    assert (run.said, run.calls) == (("", content), calls)
    findings = {key: count for key, count in tools_counted(run).items() if not key.startswith("tool_name")}
    assert findings == ({} if raw else {RESCUED: len(calls)})  # raw text is the dialect's own (rule 10)


@pytest.mark.parametrize("behind", [" so", "\nDone.", f"\n{tagged('{}')}", "`"])
def test_text_behind_a_call_makes_text_of_it(behind: str) -> None:
    run = answered(f"Sure.\n{ONE}\n{TWO}{behind}")
    assert (run.said, run.calls) == (("", f"Sure.\n{ONE}\n{TWO}{behind}"), [])
    assert "not_last" in rules_of(run)


def test_in_raw_text_a_call_is_one_whatever_follows_it_and_white_space_behind_the_last_goes() -> None:
    for text, content in ((f"{ONE} so", " so"), (f"{ONE}\n\nso\n{TWO}\n", "\n\nso\n"), (f"{ONE}\n", "")):
        run = answered(text, raw=True)
        assert run.said == ("", content)
        assert run.calls == [MADE_F, MADE_G][: text.count("<tool_call>")]


def test_in_fields_a_call_goes_out_at_the_finish_and_in_raw_text_where_it_ends() -> None:
    for raw, early in ((False, []), (True, [MADE_F])):
        run = Run(setting("tagged", raw=raw, takes=EVERYTHING, tooling=tooling("f"))).push(("", f"{ONE}\n"))
        assert run.calls == early
        assert run.pipeline.holding == "tool_region"
        assert run.finish().calls == [MADE_F]


# ---------------------------------------------------------------------- what is no call


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("text", "rule", "given_"),
    [
        (tagged('{"name": "h", "arguments": {}}'), "undeclared", {}),
        (tagged('{"name": "F", "arguments": {}}'), "undeclared", {}),
        (ONE, "undeclared", {"tool_rescue": ToolRescue(deny=("x", "[ef]*"))}),
        (ONE, "undeclared", {"tooling": tooling("f", "g", choice="named", named="g")}),
        (tagged('{"name": "f", "arguments": 5}'), "arguments", {}),
        (ONE, "echo", {"tooling": tooling("f", request={"messages": [{"role": "user", "content": f"Say {ONE}"}]})}),
        (ONE, "echo", {"tooling": tooling("f", request={"prompt": f"like {F}, say"})}),
    ],
)
def test_markup_that_is_no_call_stays_as_text_and_goes_where_that_is_enforced(
    text: str, rule: str, given_: dict[str, Any], raw: bool
) -> None:
    run = answered(f"So:\n{text}", raw=raw, **given_)
    assert (run.said, run.calls) == (("", f"So:\n{text}"), [])
    assert (tools_counted(run), rules_of(run)) == ({LEFT: 1}, {rule})
    run = answered(f"So:\n{text}", raw=raw, **given_, **ENFORCED)
    stays = rule == "echo"  # what the client said itself is never taken out
    assert (run.said, run.calls) == (("", f"So:\n{text}" if stays else "So:\n"), [])
    assert tools_counted(run) == ({LEFT: 1} if stays else {} if raw else {REMOVED: 1})
    assert run.tally.characters_suppressed == (0 if stays else len(text))


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        tagged('{"name": "f", "arguments": {"a": }}'),
        f"<tool_call>{F[:-1]}",  # the call's own bracket is missing
        f"<tool_call>{F} so",
        '<tool_call>{"name": "f", "arguments": {"a": "x',
        '<tool_call>{"name": "h", "arguments": {"a": }}',  # of no declared tool
        "<tool_call>",
        "<|call|>no",
    ],
)
def test_a_region_that_is_malformed_stays(text: str, raw: bool) -> None:
    run = answered(f"So:\n{text}", raw=raw)
    assert (run.said, run.calls) == (("", f"So:\n{text}"), [])
    named = '"f"' in text or "<|call|>" in text  # a tag alone is the client's text
    assert (tools_counted(run), rules_of(run)) == (({LEFT: 1}, {"malformed"}) if named else ({}, set()))


def test_a_name_in_the_request_is_no_echo() -> None:
    said = {"messages": [{"content": "call f with a x, as in <tool_call>"}]}
    assert answered(ONE, tooling=tooling("f", request=said)).calls == [MADE_F]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("text", "finish", "rule"),
    [
        ('<tool_call>{"name": "f", "argu', "length", "cut"),
        (f"<tool_call>{F[:-1]}", "length", "cut"),
        ("<|call|>", "length", "empty"),
        ("<tool_call>", "length", "cut"),
        ("<tool_call>\n</tool_call>", "stop", "empty"),
        ("<tool_call></tool_call>", "length", "empty"),
    ],
)
def test_a_call_cut_by_the_token_limit_and_an_empty_region_go(text: str, finish: str, rule: str, raw: bool) -> None:
    run = answered(f"So:\n{text}", finish=finish, raw=raw)
    assert (run.said, run.calls) == (("", "So:\n"), [])
    assert tools_counted(run) == ({} if raw else {REMOVED: 1})
    assert raw or rules_of(run) <= {rule, "cut", "empty"}
    assert run.tally.characters_suppressed == len(text)


def test_a_whole_call_at_the_token_limit_is_made() -> None:
    assert answered(ONE, finish="length").calls == [MADE_F]


def test_an_answer_that_was_stopped_from_outside_makes_no_call_of_what_waited() -> None:
    run = answered(f"So:\n{ONE}\n", finish="content_filter")
    assert (run.said, run.calls, rules_of(run)) == (("", f"So:\n{ONE}\n"), [], {"broken_off"})


@pytest.mark.parametrize("raw", [False, True])
def test_the_rest_of_a_section_that_held_a_good_call_goes(raw: bool) -> None:
    good = '<tool_call>[{"name": "h"}, {}]</tool_call>'.replace("{}", F)
    run = answered(good, raw=raw)
    assert (run.said, run.calls) == (("", ""), [MADE_F])
    assert tools_counted(run) == ({} if raw else {RESCUED: 1, REMOVED: 1})
    assert raw or "rest" in rules_of(run)


# ---------------------------------------------------------------------- what the request says of tools


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (f"So:\n{ONE}", "So:\n"),
        (f"So:\n{ONE} and on", "So:\n and on"),
        (f"So:\n<|call|>{F}", "So:\n"),
        (f"So:\n{tagged('so')}", f"So:\n{tagged('so')}"),  # it is none
        ('So:\n<tool_call>{"name": 5}', 'So:\n<tool_call>{"name": 5}'),
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_with_tool_choice_none_the_markup_goes_and_no_call_is_made(text: str, content: str, raw: bool) -> None:
    run = answered(
        text, raw=raw, tooling=tooling("f", choice="none"), takes=Takes(content=Take.HOLD, control=Take.HOLD)
    )
    assert (run.said, run.calls) == (("", content), [])
    assert tools_counted(run) == ({REMOVED: 1} if len(content) < len(text) else {})
    assert run.tally.characters_suppressed == len(text) - len(content)


@pytest.mark.parametrize(
    ("text", "content", "counted"),
    [
        (f"So:\n{ONE}", f"So:\n{ONE}", {}),  # tag and JSON text is the client's
        (F, F, {}),
        (f"So:\n<|call|>{F} so", "So:\n so", {REMOVED: 1}),
        ("So:\n<|call|>no", "So:\n<|call|>no", {LEFT: 1}),
    ],
)
def test_without_tools_only_control_markup_goes(text: str, content: str, counted: dict[str, int]) -> None:
    run = answered(text, tooling=None, takes=Takes(control=Take.HOLD))
    assert (run.said, run.calls, tools_counted(run)) == (("", content), [], counted)


def test_without_tools_an_observed_answer_says_what_would_go() -> None:
    for tools in (None, tooling("f", choice="none")):
        takes = Takes(control=Take.WATCH)
        run = answered(f"<|call|>{F}", tooling=tools, takes=takes, profile=Profile.OBSERVE)
        assert (run.said, tools_counted(run)) == (("", f"<|call|>{F}"), {"tool_markup_leak/would_remove": 1})
        assert run.tally.characters_suppressed == 0


@pytest.mark.parametrize("raw", [False, True])
def test_where_only_one_call_may_be_made_the_first_one_is(raw: bool) -> None:
    one = tooling("f", "g", parallel=False)
    for text in (f"{ONE}\n{TWO}", f"{TWO}\n{ONE}", tagged(f"[{F}, {G}]")):
        run = answered(text, raw=raw, tooling=one)
        assert (run.said, len(run.calls)) == (("", ""), 1)
        assert run.calls[0][0] == text[text.index('"name": "') + 9]
        assert raw or REMOVED in run.counted


def test_a_call_that_the_engine_sent_itself_counts_where_only_one_may_be_made() -> None:
    run = Run(setting("tagged", takes=EVERYTHING, tooling=tooling("f", "g", parallel=False)))
    run.take(run.pipeline.tool_call())
    run.pipeline.engine_call(*MADE_F)
    run.push(("", TWO)).finish("tool_calls")
    assert (run.said, run.calls, rules_of(run)) == (("", ""), [], {"parallel"})


def test_a_named_tool_is_called() -> None:
    run = answered(f"{ONE}\n{TWO}", tooling=tooling("f", "g", choice="named", named="g"))
    assert run.calls == [MADE_G]


@pytest.mark.parametrize(
    ("written", "names", "made"),
    [
        ("functions.f", ("f",), "f"),  # a namespace that is not declared
        ("functions.f", ("f", "functions.f"), "functions.f"),
        ("functions.h", ("f",), None),
        ("other.f", ("f",), None),
    ],
)
def test_a_namespace_in_front_of_a_declared_name_goes(written: str, names: tuple[str, ...], made: str | None) -> None:
    run = answered(tagged(f'{{"name": "{written}", "arguments": {{}}}}'), tooling=tooling(*names))
    assert [name for name, _ in run.calls] == ([made] if made else [])
    assert ("tool_name_repaired/repaired" in run.counted) is (made is not None and made != written)


SCHEMAS = {
    "f": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
    "g": {"type": "object", "properties": {"b": {"type": "number"}}, "required": ["b"], "additionalProperties": False},
}
K2 = "<|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|>"


@pytest.mark.parametrize(
    ("arguments", "declared", "made"),
    [
        ('{"b": 1}', SCHEMAS, [("g", '{"b": 1}')]),  # one tool takes them
        ('{"c": 1}', SCHEMAS, []),  # none does
        ('{"b": 1}', {**SCHEMAS, "h": {}}, []),  # two do
    ],
)
def test_a_call_without_a_name_is_of_the_one_tool_that_takes_its_arguments(
    arguments: str, declared: dict[str, Any], made: list[tuple[str, str]]
) -> None:
    run = Run(setting("kimi_k2", takes=EVERYTHING, tooling=tooling(schemas=declared)))
    run.push(("", K2.format(0, arguments))).finish()
    assert run.calls == made


def test_arguments_are_typed_by_the_schema_repaired_and_told_where_they_do_not_fit_it() -> None:
    rows = [
        ('{"a": 1}', '{"a": 1}', {"tool_args_invalid/flagged": 1}),
        ("null", "{}", {"tool_args_repaired/repaired": 1, "tool_args_invalid/flagged": 1}),
        ('"{\\"a\\": \\"x\\"}"', '{"a": "x"}', {"tool_args_repaired/repaired": 1}),
    ]
    for written, arguments, counted in rows:
        run = answered(tagged(f'{{"name": "f", "arguments": {written}}}'), tooling=tooling(schemas=SCHEMAS))
        assert run.calls == [("f", arguments)]
        assert tools_counted(run) == {RESCUED: 1, **counted}


@pytest.mark.parametrize(
    ("template", "before", "idents"),
    [
        ("functions.{name}:{number}", 0, ["functions.f:0", "functions.g:1", "functions.f:2"]),
        ("{name}:{number}", 3, ["f:3", "g:4", "f:5"]),  # ids go on counting over earlier turns
        (None, 3, [None, None, None]),
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_ids_are_written_as_the_family_counts_them(
    template: str | None, before: int, idents: list[str | None], raw: bool
) -> None:
    run = answered(f"{ONE}\n{TWO}\n{ONE}", raw=raw, tooling=tooling("f", "g", ident=template, calls_before=before))
    assert [item.ident for _, item in run.sent if isinstance(item, ToolCall)] == idents


# ---------------------------------------------------------------------- the engine's own calls


def with_engine_call(text: str, *, before: bool, call: tuple[str, str] = MADE_F, **given_: Any) -> Run:
    """The text, and one of the engine's own calls before or behind it."""
    run = Run(setting("tagged", takes=EVERYTHING, tooling=tooling("f", "g"), **given_))
    for engine in (before, not before):
        if engine:
            run.take(run.pipeline.tool_call())
            run.pipeline.engine_call(*call)
        else:
            run.push(("", text))
    return run.finish("tool_calls")


@pytest.mark.parametrize("before", [True, False])
def test_the_engines_own_call_makes_markup_of_the_same_call_in_text(before: bool) -> None:
    same = ("f", '{ "a":"x" }')  # the same value
    run = with_engine_call(ONE, before=before, call=same)
    assert (run.said, run.calls) == (("", ""), [])
    assert (tools_counted(run), rules_of(run)) == ({REMOVED: 1}, {"told"})


@pytest.mark.parametrize("before", [True, False])
def test_another_call_of_the_engine_leaves_the_one_in_text_a_call(before: bool) -> None:
    for other in (("f", '{"a": "y"}'), ("g", '{"a": "x"}'), ("f", '{"a": ')):
        run = with_engine_call(ONE, before=before, call=other)
        assert (run.said, run.calls, tools_counted(run)) == (("", ""), [MADE_F], {RESCUED: 1})


@pytest.mark.parametrize("before", [True, False])
def test_of_two_calls_in_text_only_the_one_that_the_engine_sent_is_markup(before: bool) -> None:
    run = with_engine_call(f"{tagged(f'[{F}, {G}]')}\n", before=before)
    assert (run.said, run.calls, tools_counted(run)) == (("", ""), [MADE_G], {RESCUED: 1, REMOVED: 1})


def test_the_engines_call_behind_text_that_interrupted_the_one_in_text_changes_nothing() -> None:
    run = with_engine_call(f"{ONE} so", before=False)
    assert (run.said, run.calls, tools_counted(run)) == (("", f"{ONE} so"), [], {LEFT: 1})


# ---------------------------------------------------------------------- thoughts


def test_a_call_that_ends_the_thought_and_the_output_is_one_where_that_is_enforced() -> None:
    for takes, calls, counted in (
        (EVERYTHING, [MADE_F], {RESCUED: 1}),
        (WATCHED, [], {"tool_rescued/would_rescue": 1}),
        (replace(EVERYTHING, thought=Take.NO), [], {}),
    ):
        run = answered(f"I call it.\n{ONE}\n", field=R, takes=takes)
        assert (run.calls, tools_counted(run)) == (calls, counted)
        assert run.said == (f"I call it.\n{'' if calls else ONE}\n", "")
        assert {row.where for row in run.tally.rows if row.finding is Finding.TOOL_RESCUED} == (
            {R} if counted else set()
        )


@pytest.mark.parametrize(
    ("text", "behind", "finish"),
    [
        (f"r {ONE} but no", "", "stop"),
        (f"r {ONE}", "So.", "stop"),
        (f"r {ONE}", "", "length"),
        (f"r {ONE[:-20]}", "", "stop"),
    ],
)
def test_a_call_that_does_not_end_the_output_is_the_thoughts_own(text: str, behind: str, finish: str) -> None:
    for takes in (EVERYTHING, WATCHED):
        run = Run(setting("tagged", takes=takes, tooling=tooling("f"), promotable=False))
        run.push((text, ""), *([("", behind)] if behind else [])).finish(finish)
        assert (run.said, run.calls) == ((text, behind), [])
        assert RESCUED not in run.counted


def test_an_undeclared_call_at_the_end_of_a_thought_is_the_thoughts_text() -> None:
    run = answered(f"r {tagged('{}')}".replace("{}", '{"name": "h"}'), field=R)
    assert (run.said, run.calls, rules_of(run)) == (
        (f"r {tagged('{}')}".replace("{}", '{"name": "h"}'), ""),
        [],
        {"undeclared"},
    )


# ---------------------------------------------------------------------- observed, held, given back


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("text", "counted"),
    [
        (f"So:\n{ONE}", {"tool_rescued/would_rescue": 1}),
        (tagged(f"[{F}, {G}]"), {"tool_rescued/would_rescue": 2}),
        (tagged('{"name": "f", "arguments": {"a": }}'), {LEFT: 1}),
        (tagged('{"name": "h", "arguments": {"a": }}'), {}),
        ("<|call|>no", {LEFT: 1}),
    ],
)
def test_an_observed_answer_is_the_one_that_came_and_says_what_would_be_done(
    text: str, counted: dict[str, int], raw: bool
) -> None:
    run = answered(text, takes=WATCHED, raw=raw)
    assert (run.said, run.calls, tools_counted(run)) == (("", text), [], counted)
    assert run.pipeline.holding is None


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize(
    "text", [ONE, f"{ONE}\n{TWO}\n ", f"So:\n{ONE}\n{TWO[:30]}", f"{ONE}\n<tool", f"<|call|>{F} ; "]
)
def test_an_answer_that_breaks_off_gives_back_everything_that_was_held(text: str, read: bool) -> None:
    for size in SIZES:
        run = Run(setting("tagged", takes=EVERYTHING, tooling=tooling("f", "g")))
        run.push(*(("", piece) for piece in cut(text, size)))
        run.take(run.pipeline.release(read=read))
        assert (run.said, run.calls) == (("", text), [])


def test_calls_that_wait_are_text_once_they_are_more_than_the_cap() -> None:
    room = len(ONE) + 1 + len(TWO)
    for cap, calls in ((room, [MADE_F, MADE_G]), (room - 1, [])):
        run = answered(f"{ONE}\n{TWO}", limits=replace(LIMITS, tool_region=cap))
        assert (run.calls, run.said) == (calls, ("", "" if calls else f"{ONE}\n{TWO}"))
        assert calls or rules_of(run) == {"cap"}
    white = " " * room
    run = answered(f"{ONE}{white}", limits=replace(LIMITS, tool_region=room))
    assert (run.calls, run.said) == ([], ("", f"{ONE}{white}"))


def test_a_repeat_of_the_reasoning_is_compared_before_markup_and_never_with_it() -> None:
    undeclared = tagged('{"name": "h"}')
    for text, content in (
        (f"Hi.{ONE}", ""),
        (f"Hi.\n{undeclared}", undeclared),
        (f"Hi!\n{undeclared}", f"Hi!\n{undeclared}"),
    ):
        run = Run(setting("tagged", takes=EVERYTHING, tooling=tooling("f"), wanted=True))
        run.push(("Hi.", ""), ("", text)).finish()
        assert run.said == ("Hi.", content)


PARTS = st.lists(
    st.sampled_from([ONE, TWO, tagged('{"name": "h"}'), "\n", " ", "so", "<tool_call>", f"<|call|>{F}"]), max_size=6
)


@given(
    PARTS, st.booleans(), st.sampled_from(["stop", "length", "content_filter"]), st.sampled_from([EVERYTHING, WATCHED])
)
# Three regions taken back look like three deltas that grow; the engine sent one.
@example(parts=["<tool_call>", "<tool_call>", "so", "<tool_call>", "so\n"], raw=False, finish="stop", takes=EVERYTHING)
def test_what_is_made_of_an_answer_depends_on_no_cut(parts: list[str], raw: bool, finish: str, takes: Takes) -> None:
    answered("".join(parts), raw=raw, finish=finish, takes=takes)


@given(PARTS, st.sampled_from(["stop", "length"]))
def test_calls_are_made_only_of_what_ends_the_answer(parts: list[str], finish: str) -> None:
    run = answered("".join(parts), finish=finish)
    if run.calls and finish == "stop":
        last = [part for part in parts if not part.isspace()]
        assert last[-1] not in ("so", "<tool_call>")


# ---------------------------------------------------------------------- calls that go out while they are read

EARLY = replace(EVERYTHING, early=True)


def sent_early(text: str, size: int, *, finish: str = "stop", **given_: Any) -> tuple[Run, list[tuple[str, str]]]:
    """The run on a raw stream in pieces of `size`, and each call's name with its arguments joined."""
    run = Run(setting("tagged", raw=True, **{"takes": EARLY, "tooling": tooling("f", "g")} | given_))
    run.push(*(("", piece) for piece in cut(text, size))).finish(finish)
    calls: list[tuple[str, str]] = []
    for item in (item for _, item in run.sent if isinstance(item, ToolCall)):
        if item.more:
            calls[-1] = (calls[-1][0], calls[-1][1] + item.arguments)
        else:
            calls.append((item.name, item.arguments))
    return run, calls


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (ONE, "", [MADE_F]),
        (f"So:\n{ONE}\n{TWO}", "So:\n", [MADE_F, MADE_G]),
        (tagged(f"[{F}, {G}]"), "", [MADE_F, MADE_G]),
        (f"{ONE} so", " so", [MADE_F]),
        (tagged('[{"name": "g"}, {"name": "f", "arguments": {}}]'), "", [("g", "{}"), ("f", "{}")]),
        (tagged('{"name": "h"}'), tagged('{"name": "h"}'), []),
        (tagged(f'[{{"name": "h"}}, {F}]'), "", [MADE_F]),  # behind one that waits the others do
        (tagged(f'[{F}, {{"name": "h"}}]'), "", [MADE_F]),
        (tagged(f'[{F}, {{"name": "h"}}, {G}]'), "", [MADE_F, MADE_G]),
        (tagged('{"name": "f", "arguments": "{}"}'), "", [("f", "{}")]),
        (tagged('{"name": "f", "arguments": null}'), "", [("f", "{}")]),
        (tagged('{"name": "f", "arguments": "no"}'), tagged('{"name": "f", "arguments": "no"}'), []),
        (
            tagged('[{"name": "f", "arguments": {"a": "\ud800\n"}}, {"name": "g"}]'),
            "",
            [("f", '{"a": "\\ud800\\n"}'), ("g", "{}")],
        ),
    ],
)
def test_a_call_that_goes_out_while_it_is_read_is_the_same_call(
    text: str, content: str, calls: list[tuple[str, str]], size: int
) -> None:
    run, sent = sent_early(text, size)
    assert (run.said, sent, run.pipeline.call_broken) == (("", content), calls, False)


def test_a_calls_name_and_arguments_go_out_before_its_end() -> None:
    run = Run(setting("tagged", raw=True, takes=EARLY, tooling=tooling("f", ident="{name}:{number}")))
    for piece, sent in (
        ('<tool_call>{"name": "f", ', []),
        ('"arguments": {"a": "x', [ToolCall("f", "", "f:0"), ToolCall("", '{"a": "x', None, more=True)]),
        ('y"}', [ToolCall("", 'y"}', None, more=True)]),
        ("}</tool_call>", []),
    ):
        before = len(run.sent)
        run.push(("", piece))
        assert [item for _, item in run.sent[before:]] == sent


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("given_", "calls"),
    [
        ({"tooling": tooling("f", "g", request={"prompt": f"Say {ONE}"})}, []),
        ({"tooling": tooling("f", "g", parallel=False)}, [MADE_F]),
        ({"tooling": tooling("g")}, [MADE_G]),
        ({"tool_rescue": ToolRescue(stream="incremental", deny=("f",))}, [MADE_G]),
    ],
)
def test_the_guards_are_those_of_whole_calls(given_: dict[str, Any], calls: list[tuple[str, str]], size: int) -> None:
    assert sent_early(f"{ONE}\n{TWO}", size, **given_)[1] == [*calls, *([MADE_G] if not calls else [])]


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize(
    ("text", "finish", "arguments", "broken"),
    [
        ('<tool_call>{"name": "f", "arguments": {"a": "x', "length", '{"a": "x', False),  # the finish reason says so
        ('<tool_call>{"name": "f", "arguments": {"a": "x', "stop", '{"a": "x', True),
        (tagged('{"name": "f", "arguments": {"a": "x", ]}}'), "stop", '{"a": "x", ', True),
        (tagged('{"name": "f", "arguments": {"a": "x"}, "name": "f"}'), "stop", '{"a": "x"}', True),
    ],
)
def test_a_call_that_went_out_and_never_ends_breaks_the_answer_and_is_not_made_whole(
    text: str, finish: str, arguments: str, broken: bool, size: int
) -> None:
    run, sent = sent_early(text, size, finish=finish)
    assert (sent, run.pipeline.call_broken) == ([("f", arguments)], broken)


@given(PARTS, st.sampled_from(SIZES), st.sampled_from(["stop", "length"]))
def test_early_or_whole_the_calls_of_an_answer_are_the_same(parts: list[str], size: int, finish: str) -> None:
    text = "".join(parts)
    run, sent = sent_early(text, size, finish=finish)
    whole = answered(text, finish=finish, raw=True)
    assert (run.said, sent) == (whole.said, whole.calls)
