"""The calls of one choice: checked, numbered, and what its finish reason says (contract rules 4 and 5).

Broken calls are those of the issues that `corpus/bugs.jsonl` cites; each id there stands beside its case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.events import CALL, CONTENT, ToolCall
from gateway.exchange.calls import ChoiceCalls, quotes_of
from gateway.exchange.reading import ExchangeReading
from gateway.findings import Finding
from gateway.limits import Limits
from gateway.policy import Mode, Profile, ToolRescue
from gateway.protocols.protocol import CallChange, Fragment, NumberedCall
from gateway.rulebook.load import load_rulebook
from tests.exchange.driver import chat, dialect, route

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"function": {"name": "f", "parameters": CITY}}, {"function": {"name": "g"}}]
OSLO = '{"city": "Oslo"}'
GONE = CallChange(gone=True)
REPAIRED, FLAGGED = "tool_args_repaired/repaired", {"tool_args_invalid/flagged": 1, "regen_wanted/flagged": 1}
INCREMENTAL = ToolRescue(stream="incremental")


class Choice:
    """The calls of a choice on a route, and what was counted."""

    def __init__(
        self, *, profile: Profile = Profile.FULL, stream: bool = True, index: int = 0, tools: Any = TOOLS, **given: Any
    ) -> None:
        request = {"tools": tools, **{name: given.pop(name) for name in ("tool_choice",) if name in given}}
        rules = route("none", profile=profile, **given)
        body = json.dumps(request).encode()
        reading = ExchangeReading(
            protocol=chat(), body=body, facts=chat().facts(request), rules=rules, policy=rules.policy
        )
        self.tally = reading.tally
        self.calls = ChoiceCalls(reading.calls, reading.pipeline(index), index, stream=stream)

    def take(self, *fragments: Fragment) -> list[CallChange | None]:
        """What becomes of fragments at once."""
        return [self.calls.take(each)[2] for each in fragments]

    def ended(self, *fragments: Fragment, stopped: bool = True) -> dict[int, CallChange]:
        """What becomes of the fragments of a choice that has ended, by their number among all."""
        taken = [(number, *self.calls.take(each)) for number, each in enumerate(fragments)]
        self.calls.settle(stopped=stopped)
        changes = [(number, change or call.change(at)) for number, call, at, change in taken]
        return {number: change for number, change in changes if change is not None}

    @property
    def findings(self) -> dict[str, int]:
        """`finding/action` to its count."""
        counts: dict[str, int] = {}
        for row, count in self.tally.findings:
            key = f"{row.finding}/{row.action}"
            counts[key] = counts.get(key, 0) + count
        return counts


def opening(ident: str | None = "c", name: str | None = "f", index: int | None = 0, arguments: str = "") -> Fragment:
    """The first fragment of a call."""
    return Fragment(place=0, index=index, ident=ident, name=name, arguments=arguments, text=True)


def more(arguments: str, index: int | None = 0, **said: Any) -> Fragment:
    """A later one."""
    values: dict[str, Any] = {"place": 0, "ident": None, "name": None, "text": True}
    return Fragment(arguments=arguments, index=index, **(values | said))


def pieces(*arguments: str, name: str = "f") -> list[Fragment]:
    """A call in pieces."""
    return [opening(name=name), *map(more, arguments)]


# ---------------------------------------------------------------------- clean calls


@pytest.mark.parametrize("stream", [True, False])
def test_a_clean_call_stays_as_it_came(stream: bool) -> None:
    choice = Choice(stream=stream)
    assert (choice.ended(*pieces('{"city"', ': "Oslo"}')), choice.findings) == ({}, {})


def test_a_clean_call_is_decided_with_its_last_bracket_and_an_empty_one_with_the_end() -> None:
    choice = Choice()
    waits = []
    for each in (opening(), more('{"city": "Oslo"'), more("}"), more(" ")):
        call, number, _ = choice.calls.take(each)
        waits.append(call.waits(number))
    assert waits == [True, True, False, False]
    [(call, number, _)] = [choice.calls.take(opening("d", "g", 1, "{}"))]
    assert call.waits(number)
    choice.calls.settle(stopped=True)
    assert (call.waits(number), choice.findings) == (False, {})


# ---------------------------------------------------------------------- broken calls


@pytest.mark.parametrize(
    ("fragments", "changes"),
    [
        (pieces('{"city": ', '"Oslo"}', OSLO), {3: GONE}),  # TAM-01: the flush behind a call that went out
        (pieces(OSLO, "}", "</s"), {2: GONE, 3: GONE}),  # TAM-21
        (pieces(OSLO + "}", "</s"), {0: CallChange(name="f", arguments=OSLO), 1: GONE, 2: GONE}),
        (pieces('{"city": "x } y"'), {0: CallChange(name="f", arguments='{"city": "x } y"}'), 1: GONE}),  # TAM-14
        (pieces(name="g"), {0: CallChange(name="g", arguments="{}")}),  # TAM-09
        (pieces("{}", OSLO), {0: CallChange(name="f", arguments=OSLO), 1: GONE, 2: GONE}),
        (
            [opening(), more('{"city": "Oslo"}', text=False)],
            {0: CallChange(name="f", arguments=OSLO), 1: GONE},
        ),
    ],
)
def test_arguments_are_repaired(fragments: list[Fragment], changes: dict[int, CallChange]) -> None:
    choice = Choice()
    assert (choice.ended(*fragments), choice.findings) == (changes, {REPAIRED: 1})


def test_a_character_that_was_cut_in_two_is_joined_and_no_finding() -> None:
    """UNI-07."""
    choice = Choice()
    arguments = '{"city": "\U0001f30d"}'
    changes = {0: CallChange(name="f", arguments=arguments), 1: GONE, 2: GONE}
    assert (choice.ended(*pieces('{"city": "\ud83c', '\udf0d"}')), choice.findings) == (changes, {})


def test_a_name_is_repaired() -> None:
    """TAM-15."""
    choice = Choice()
    fragments = pieces('{"city":', ' "Oslo"}', name="f<|channel|>commentary")
    changes = {0: CallChange(name="f", arguments=OSLO), 1: GONE, 2: GONE}
    assert (choice.ended(*fragments), choice.findings) == (changes, {"tool_name_repaired/repaired": 1})


@pytest.mark.parametrize(
    ("fragments", "rule"),
    [
        (pieces("{}"), "schema"),  # TAM-22
        (pieces('{"city": "Oslo'), "not_json"),
        (pieces(OSLO, '{"city": "Rome"}'), "not_json"),
        (pieces(OSLO, name="<|x|>"), "name"),
    ],
)
def test_a_call_that_nobody_can_be_sure_of_stays_and_asks_for_another_answer(
    fragments: list[Fragment], rule: str
) -> None:
    choice = Choice()
    assert (choice.ended(*fragments), choice.findings) == ({}, FLAGGED)
    assert {row.rule for row, _ in choice.tally.findings} == {rule, "tool_args_invalid"}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [(('{"city": "Os',), {}), ((OSLO, '{"c'), {REPAIRED: 1}), ((OSLO, '{"x'), {"tool_args_invalid/flagged": 1})],
)
def test_a_call_that_was_cut_off_asks_for_nothing(arguments: tuple[str, ...], found: dict[str, int]) -> None:
    choice = Choice()
    choice.ended(*pieces(*arguments), stopped=False)
    assert choice.findings == found


def test_the_answer_going_on_decides_what_is_whole_and_nothing_else() -> None:
    choice = Choice()
    waits = []
    for fragments in (pieces(OSLO + "}"), [opening("d", "f", 1, '{"city": "x"')], [opening("e", "g", 2, "{}")]):
        taken = [choice.calls.take(each) for each in fragments]
        waits.append(taken[-1][:2])
    assert [call.waits(number) for call, number in waits] == [False, True, True]
    choice.calls.past()
    assert [call.waits(number) for call, number in waits] == [False, True, False]
    choice.calls.past()
    choice.calls.settle(stopped=True)
    assert choice.findings == {REPAIRED: 2}


def test_a_call_that_was_given_up_is_not_decided() -> None:
    choice = Choice()
    call, _, _ = choice.calls.take(opening(arguments=OSLO + "}"))
    call.give_up()
    choice.calls.past()
    choice.calls.settle(stopped=True)
    assert choice.findings == {}


def test_past_the_cap_a_call_is_not_looked_at() -> None:
    choice = Choice(limits=Limits(tool_region=10))
    assert (choice.ended(*pieces('{"city": 3', "}}}")), choice.findings) == ({}, {})


# ---------------------------------------------------------------------- what is not enforced


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"profile": Profile.OBSERVE}, {"tool_args_repaired/would_repair": 1, "tool_name_repaired/would_repair": 1}),
        ({"tool_rescue": INCREMENTAL}, {"tool_args_repaired/kept": 1, "tool_name_repaired/kept": 1}),
    ],
)
def test_where_nothing_waits_everything_is_counted_and_nothing_changed(
    given: dict[str, Any], found: dict[str, int]
) -> None:
    choice = Choice(**given)
    assert (choice.ended(*pieces(OSLO, "}", name=" f")), choice.findings) == ({}, found)
    choice = Choice(**given)
    assert (choice.ended(*pieces('{"city": "\ud83c', '\udf0d"}')), choice.findings) == ({}, {})


def test_a_plain_answer_has_no_pieces_to_wait_for() -> None:
    choice = Choice(tool_rescue=INCREMENTAL, stream=False)
    changes = choice.calls.take_all([opening(arguments=OSLO + "}"), more("{}", 1, place=1, name="g")], stopped=True)
    assert changes == {0: CallChange(name="f", arguments=OSLO)}


@pytest.mark.parametrize(
    ("observed", "change"),
    [
        (Finding.TOOL_ARGS_REPAIRED, CallChange(name="f", arguments=OSLO + "}")),
        (Finding.TOOL_NAME_REPAIRED, CallChange(name=" f", arguments=OSLO)),
    ],
)
def test_a_repair_that_is_only_observed_is_not_made_beside_one_that_is(observed: Finding, change: CallChange) -> None:
    choice = Choice(findings={observed: Mode.OBSERVE})
    assert choice.ended(opening(name=" f", arguments=OSLO + "}")) == {0: change}
    choice = Choice(findings=dict.fromkeys((Finding.TOOL_ARGS_REPAIRED, Finding.TOOL_NAME_REPAIRED), Mode.OFF))
    assert (choice.ended(opening(name=" f", arguments=OSLO + "}")), choice.findings) == ({}, {})


# ---------------------------------------------------------------------- indices


@pytest.mark.parametrize(
    ("fragments", "indices", "calls"),
    [
        # one index for two calls
        ([opening("c", arguments=OSLO), opening("d"), more(OSLO)], [None, 1, 1], 2),
        ([opening("c"), opening("d"), opening("e", index=1), more(OSLO, 1)], [None, 1, 2, 2], 3),
        # the same call all along: an engine that repeats its id and its name
        (
            [opening("c"), opening("c", None, arguments='{"city":'), opening(None, None, arguments='"x"}')],
            [None] * 3,
            1,
        ),
        # no index at all
        ([opening("c", index=None, arguments="{}"), opening("d", index=None), more(OSLO, None)], [0, 1, 1], 2),
        ([opening(None, "f", None), more(OSLO, None), opening(None, "g", None, "{}")], [0, 0, 1], 2),
        ([opening(None, "f", None), more('{"city":', None, name="f"), more('"x"}', None)], [0, 0, 0], 1),
        ([opening("c", index=0), more(OSLO, None)], [None, 0], 1),
        ([opening("c", index=5), more(OSLO, 5), opening("d", index=None)], [None, None, 6], 2),
    ],
)
def test_every_call_has_an_index_of_its_own(fragments: list[Fragment], indices: list[int | None], calls: int) -> None:
    choice = Choice()
    assert [change and change.index for change in choice.take(*fragments)] == indices
    assert len(choice.calls.own) == calls
    moved = len({index for index in indices if index is not None})
    assert choice.findings.get(REPAIRED, 0) == moved


def test_indices_are_repaired_where_nothing_waits_too_and_not_where_that_is_only_observed() -> None:
    twice = [opening("c", arguments=OSLO), opening("d", arguments=OSLO)]
    assert Choice(tool_rescue=INCREMENTAL).take(*twice) == [None, CallChange(index=1)]
    choice = Choice(profile=Profile.OBSERVE)
    assert (choice.take(*twice), choice.findings) == ([None, None], {"tool_args_repaired/would_repair": 1})


# ---------------------------------------------------------------------- a request that wants no calls


@pytest.mark.parametrize(
    ("given", "change", "action", "word"),
    [
        ({}, GONE, "removed", "stop"),
        ({"profile": Profile.REPAIR}, GONE, "removed", "stop"),
        ({"profile": Profile.OBSERVE}, None, "would_remove", None),
        ({"findings": {Finding.TOOL_MARKUP_LEAK: Mode.OFF}}, None, None, None),
    ],
)
def test_calls_that_were_not_wanted_go(
    given: dict[str, Any], change: CallChange | None, action: str | None, word: str | None
) -> None:
    """FIN-07, vllm-project/vllm#42747."""
    choice = Choice(tool_choice="none", **given)
    assert choice.take(*pieces(OSLO), opening("d", index=1)) == [change] * 3
    assert choice.findings == ({f"tool_markup_leak/{action}": 2} if action else {})
    assert (choice.calls.dropped, choice.calls.ending("tool_calls")) == (2 if change else 0, word)


# ---------------------------------------------------------------------- the gateway's calls

MADE = ToolCall("f", OSLO, None)


def test_made_calls_are_numbered_behind_the_engines_with_ids_of_their_own() -> None:
    """The digits are the first of `printf 'chatcmpl-1\\n0\\n3' | sha256sum`."""
    choice = Choice()
    choice.take(opening("c", index=2))
    said: list[tuple[str, Any]] = [(CONTENT, "a"), (CALL, MADE), (CALL, ToolCall("g", "{}", "functions.g:4"))]
    assert choice.calls.numbered(said, "chatcmpl-1") == [
        (CONTENT, "a"),
        (CALL, NumberedCall(3, "call_e2500582a20600dcef05bf17", "f", OSLO)),
        (CALL, NumberedCall(4, "functions.g:4", "g", "{}")),
    ]
    assert choice.calls.rescued == 2


def test_arguments_that_come_in_pieces_keep_the_number_of_their_call() -> None:
    choice = Choice()
    said: list[tuple[str, Any]] = [(CALL, ToolCall("f", "", "a")), (CALL, ToolCall("", "{", None, more=True))]
    assert [call for _, call in choice.calls.numbered(said, "x")] == [
        NumberedCall(0, "a", "f", ""),
        NumberedCall(0, "", "", "{", more=True),
    ]
    choice.take(opening("c", index=1))
    assert choice.calls.numbered(said[1:], "x") == [(CALL, NumberedCall(0, "", "", "{", more=True))]
    assert choice.calls.rescued == 1


def test_an_id_that_is_there_already_is_not_given_again() -> None:
    choice = Choice()
    choice.take(opening("c"))
    idents = [_ident(choice, "c"), _ident(choice, "d"), _ident(choice, "d"), _ident(choice, None)]
    assert (idents[1], len(set(idents)), "c" in idents) == ("d", 4, False)


def test_ids_are_the_same_in_every_run_and_others_in_every_answer_and_choice() -> None:
    def ident(answer: str, index: int) -> str:
        return _ident(Choice(index=index), None, answer)

    assert ident("a", 0) == ident("a", 0)
    assert len({ident("a", 0), ident("b", 0), ident("a", 1), ident("\ud83c", 0)}) == 4


def _ident(choice: Choice, wanted: str | None, answer: str = "a") -> str:
    [(_, call)] = choice.calls.numbered([(CALL, ToolCall("f", "{}", wanted))], answer)
    assert isinstance(call, NumberedCall)
    return call.ident


def test_an_index_of_the_engines_that_is_taken_by_then_is_another() -> None:
    choice = Choice()
    choice.calls.numbered([(CALL, MADE)], "a")
    assert choice.take(opening("c")) == [CallChange(index=1)]


# ---------------------------------------------------------------------- finish reasons


def endings(choice: Choice, words: Iterable[str | None] = ("stop", "tool_calls", "length", None)) -> list[str | None]:
    """Other words for these."""
    return [choice.calls.ending(word) for word in words]


def test_an_engines_stop_behind_calls_is_tool_calls() -> None:
    """FIN-01, vllm-project/vllm#25054."""
    choice = Choice()
    choice.take(opening())
    assert (endings(choice), choice.findings) == (["tool_calls", None, None, None], {"finish_reason_fixed/repaired": 1})


def test_tool_calls_without_calls_is_stop() -> None:
    """EMP-04, deepseek-ai/DeepSeek-V3#944."""
    choice = Choice()
    assert (endings(choice), choice.findings) == ([None, "stop", None, None], {"finish_reason_fixed/repaired": 1})


def test_behind_a_rescued_call_the_change_is_part_of_the_rescue() -> None:
    choice = Choice(profile=Profile.REPAIR)
    choice.calls.numbered([(CALL, MADE)], "a")
    assert (endings(choice), choice.findings) == (["tool_calls", None, None, None], {})


def test_where_it_is_only_observed_the_engines_word_stays() -> None:
    choice = Choice(profile=Profile.REPAIR)
    found = [*endings(choice), choice.take(opening()) and None, *endings(choice)]
    assert (found, choice.findings) == ([None] * 9, {"finish_reason_fixed/would_repair": 2})


def test_a_tool_that_was_asked_for_by_name_stops() -> None:
    """FIN-02, vllm-project/vllm#9209."""
    choice = Choice(tool_choice={"function": {"name": "f"}})
    choice.take(opening())
    choice.calls.numbered([(CALL, MADE)], "a")
    assert (endings(choice), choice.findings) == ([None] * 4, {})


def test_calls_of_another_shape_are_left_alone() -> None:
    choice = Choice()
    choice.calls.others = True
    assert (endings(choice), choice.findings) == ([None] * 4, {})


# ---------------------------------------------------------------------- rules


def test_the_string_delimiters_are_those_of_the_family() -> None:
    assert quotes_of(dialect("gemma4")) == ('<|"|>',)
    assert (quotes_of(dialect("harmony")), quotes_of(None)) == ((), ())


def test_without_tools_arguments_are_checked_all_the_same() -> None:
    choice = Choice(tools=[])
    assert choice.ended(opening(name="f<|x|>", arguments=OSLO * 2)) == {0: CallChange(name="f<|x|>", arguments=OSLO)}


def test_a_choice_whose_call_broke_while_it_went_out_ends_in_an_error() -> None:
    request = {"stream": True, "tools": TOOLS}
    found = load_rulebook().resolve({"tools": "hermes"}, engine="vllm").dialect
    rules = route(read_as=found, source="text", tool_rescue=ToolRescue(stream="incremental"))
    facts = chat().facts(request)
    reading = ExchangeReading(
        protocol=chat(), body=json.dumps(request).encode(), facts=facts, rules=rules, policy=rules.policy
    )
    pipeline = reading.pipeline(0)
    calls = ChoiceCalls(reading.calls, pipeline, 0, stream=True)
    pipeline.push("", '<tool_call>{"name": "f", "arguments": {"city": ')
    assert calls.ending("stop") is None
    pipeline.push("", "]}</tool_call>")
    assert calls.ending("stop") == "error"
