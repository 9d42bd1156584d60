"""Dialect to grammar: the state table of reader_spec section 3 and the live sets of contract rule 3."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gateway.events import Group
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect, Header, HeaderRule, Kind, Reopen, Target, Thought, ToolRegion
from gateway.rulebook.load import load_rulebook
from gateway.streams.calls.json_body import ArgumentsBody, JsonBody
from gateway.streams.calls.python_body import PythonBody
from gateway.streams.grammar import ANY, FIRST, Grammar, Rule, State

SPACED = load_rulebook().dialects["kimi_k3"]
K3 = compile_dialect(replace(SPACED, spaced=False))  # the specification's own spellings
RE, TE, RS = "<|close|>response<|sep|>", "<|close|>think<|sep|>", "<|open|>response<|sep|>"
TS, TOOLS, TOOLSC = "<|open|>think<|sep|>", "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"
MS, ME, EOM = "<|open|>message<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>"
CALL = "<|open|>call "
FRAMING = {MS, ME, EOM}

TAG = Dialect(
    name="tag",
    summary="",
    kind=Kind.TAG,
    aliases={},
    reopen=Reopen.LINE_START,
    thoughts=(Thought(open=("<a>",), close=("</a>",)), Thought(open=("<b>",), close=("</b>", "<|b|>"))),
    end_of_turn=("<end>",),
    regions=(ToolRegion(open=("<t>",), close=("</t>",)), ToolRegion(open=("<u>",), ends_thought=True)),
)
HEADED = replace(
    TAG,
    kind=Kind.CONTROL,
    message_close=("<close>",),
    headers=(
        Header(open=("<h>",), close="<m>", within=("<w>",), rules=(HeaderRule(text="x+", to=Target.ANSWER),)),
        Header(open=("<end>", "<r>"), close="", rules=(HeaderRule(text="", to=Target.FOREIGN),)),
    ),
)


def live(grammar: Grammar, state: State, index: int = ANY) -> set[str]:
    return set(grammar.plan(state, index).rules)


@pytest.mark.parametrize(
    ("state", "index", "markers"),
    [
        (State.START, ANY, {TS, TE, RS, RE, TOOLS, CALL} | FRAMING),
        (State.OPENABLE, ANY, {TS, RS, RE, TOOLS, CALL} | FRAMING),
        (State.THINK_START, ANY, {TS, TE, RS, RE, TOOLS, CALL} | FRAMING),
        (State.THINK, ANY, {TE, RS, RE, TOOLS, CALL} | FRAMING),
        (State.ANSWER, ANY, {RS, RE, TOOLS, CALL} | FRAMING),
        (State.TOOLS, ANY, set()),  # what is live in a region is its own
        (State.FOREIGN, ANY, set()),
    ],
)
def test_the_states_of_kimi_k3_are_those_of_the_specification(state: State, index: int, markers: set[str]) -> None:
    assert live(K3, state, index) == markers


def test_a_thought_of_a_tag_dialect_is_closed_by_its_own_closers_only() -> None:
    grammar = compile_dialect(replace(TAG, regions=()))
    assert live(grammar, State.THINK, 0) == {"</a>", "<end>"}
    assert live(grammar, State.THINK, 1) == {"</b>", "<|b|>", "<end>"}
    assert live(grammar, State.THINK_START, 1) == {"<a>", "<b>", "</b>", "<|b|>", "<end>"}


def test_a_thought_that_was_open_from_the_start_is_closed_by_any_closer() -> None:
    assert live(compile_dialect(replace(TAG, regions=())), State.THINK) == {"</a>", "</b>", "<|b|>", "<end>"}


@pytest.mark.parametrize(
    ("reopen", "right_after_a_closer", "at_a_line_start"),
    [(Reopen.NEVER, False, False), (Reopen.AFTER_CLOSER, True, False), (Reopen.LINE_START, True, True)],
)
def test_an_opener_is_seen_in_every_answer_so_that_its_closer_is_told_and_reopens_as_the_dialect_says(
    reopen: Reopen, right_after_a_closer: bool, at_a_line_start: bool
) -> None:
    grammar = compile_dialect(replace(TAG, reopen=reopen))
    assert {"<a>", "<b>"} <= live(grammar, State.ANSWER)
    assert (grammar.reopen_closer, grammar.reopen_lines) == (right_after_a_closer, at_a_line_start)
    assert {"<a>", "<b>", "</a>", "</b>"} <= live(grammar, State.AFTER_CLOSER)


def test_tool_openers_are_seen_everywhere_but_in_a_thought_where_they_are_ordinary_text() -> None:
    brace = ToolRegion(open=("{",), markerless=True, bodies=(JsonBody(),))
    for kind in (Kind.TAG, Kind.CONTROL):
        grammar = compile_dialect(replace(TAG, kind=kind, regions=(*TAG.regions, brace)))
        openers = {state: live(grammar, state) & {"<t>", "<u>", "{"} for state in (State.THINK, State.ANSWER)}
        assert openers == {State.THINK: {"<t>", "<u>"}, State.ANSWER: {"<t>", "<u>", "{"}}


def test_a_region_has_its_own_literals_and_ends_with_the_turn_and_the_message() -> None:
    tools, call = K3.regions
    framing = {ME: "ended_by", EOM: "ended_by"}
    assert tools.plan.rules == {TOOLSC: "close", TOOLS: "between", **framing}
    assert call.plan.rules == {TOOLSC: "close", **framing}
    assert (tools.ends_thought, call.ends_thought, tools.inside, call.inside) == (True, False, set(), {CALL})
    first, second = compile_dialect(replace(TAG, message_close=("<close>",))).regions
    assert first.plan.rules == {"</t>": "close", "<close>": "ended_by", "<end>": "ended_by"}
    assert second.plan.rules == {"<close>": "ended_by", "<end>": "ended_by"}
    closed_by_turn = replace(TAG, regions=(ToolRegion(open=("<t>",), close=("<end>",)),))
    assert compile_dialect(closed_by_turn).regions[0].plan.rules == {"<end>": "close"}


def test_regions_that_two_formats_write_in_the_same_tags_are_one_with_the_bodies_of_both() -> None:
    python = PythonBody()
    regions = (
        ToolRegion(open=("<t>", "<t1>"), close=("</t>",), between=(";",), bodies=(JsonBody(),)),
        ToolRegion(open=("<u>",)),
        ToolRegion(open=("<t>", "<t2>"), close=("</t>",), bodies=(JsonBody(), python)),
    )
    grammar = compile_dialect(replace(TAG, regions=regions))
    assert [region.bodies for region in grammar.regions] == [(JsonBody(), python), ()]
    assert grammar.regions[0].plan.rules == {"</t>": "close", ";": "between", "<end>": "ended_by"}
    rules = grammar.plan(State.ANSWER, ANY).rules
    assert [rules[opener].index for opener in ("<t>", "<t1>", "<t2>", "<u>")] == [0, 0, 0, 1]


def test_a_marker_keeps_its_group_and_the_pair_or_region_it_belongs_to() -> None:
    grammar = compile_dialect(TAG)
    rules = grammar.plan(State.START, ANY).rules
    assert (rules["<b>"], rules["<u>"]) == (Rule(Group.THINK_OPEN, 1), Rule(Group.TOOL_OPEN, 1))
    assert rules["<end>"] == Rule(Group.END_OF_TURN)


def test_each_header_has_its_own_closing_and_rules_and_is_found_by_its_openers() -> None:
    grammar = compile_dialect(HEADED)
    first, second = grammar.headers
    assert (first.close, first.within, second.close, second.within) == ("<m>", ("<w>",), "", ())
    rules = [(pattern.pattern, target) for header in grammar.headers for pattern, target in header.rules]
    assert rules == [("x+", "answer"), ("", "foreign")]
    assert grammar.header_opens == ("<h>", "<end>", "<r>")
    for state in (State.START, State.OPENABLE, State.AFTER_TURN, State.THINK_START, State.THINK, State.ANSWER):
        live_rules = grammar.plan(state, ANY).rules
        assert (live_rules["<h>"], live_rules["<r>"]) == (Rule(Group.HEADER, 0), Rule(Group.HEADER, 1)), state


def test_headers_make_one_region_for_the_body_of_a_tool_message() -> None:
    grammar = compile_dialect(HEADED)
    assert (len(grammar.regions), grammar.message_region) == (3, 2)
    assert grammar.regions[2].plan.rules == {"<close>": "close", "<end>": "close"}


def test_how_calls_are_written_in_a_tool_message_is_told_by_the_region_without_an_opener() -> None:
    told = ToolRegion(open=(), close=("<call>",), head="to=(?P<name>.)", bodies=(ArgumentsBody(),), control=True)
    region = compile_dialect(replace(HEADED, regions=(told,))).regions[0]
    closers = dict.fromkeys(("<call>", "<close>", "<end>"), "close")
    assert region.plan.rules == {**closers, "<h>": "ended_by", "<r>": "ended_by"}  # another message begins
    assert (region.bodies, region.control) == ((ArgumentsBody(),), True)
    assert region.head is not None and region.head.pattern == "to=(?P<name>.)"


def test_the_rest_of_a_header_is_live_at_the_start_of_a_message_only() -> None:
    first, second = HEADED.headers
    grammar = compile_dialect(replace(HEADED, headers=(first, replace(second, first=("to=",)))))
    states = (State.START, State.OPENABLE, State.AFTER_TURN, State.THINK, State.ANSWER)
    assert [state for state in states if "to=" in live(grammar, state)] == [State.START]
    assert grammar.plan(State.START, ANY).rules["to="] == Rule(Group.HEADER, 1)


def test_a_role_token_that_ends_a_turn_is_live_as_an_end_of_turn_that_names_its_header() -> None:
    for state in (State.AFTER_TURN, State.ANSWER, State.THINK):
        assert compile_dialect(HEADED).plan(state, ANY).rules["<end>"] == Rule(Group.END_OF_TURN, 1)


def test_a_dialect_without_headers_has_no_region_for_them() -> None:
    grammar = compile_dialect(TAG)
    assert (grammar.headers, grammar.header_opens, grammar.message_region) == ((), (), ANY)
    assert len(grammar.regions) == len(TAG.regions)


def test_behind_a_closer_a_control_opener_is_live_and_none_that_only_begins_one() -> None:  # contract rule 3
    thoughts = (Thought(open=("<a>label", "<a>"), close=("</a>",)), Thought(open=("<b>",), close=("</b>",)))
    control = replace(TAG, kind=Kind.CONTROL, thoughts=thoughts, end_of_turn=(), regions=())
    grammar = compile_dialect(control)
    assert live(grammar, State.AFTER_CLOSER) == {"<a>label", "<b>", "</a>", "</b>"}
    assert live(grammar, State.START) == {"<a>label", "<a>", "<b>", "</a>", "</b>"}
    assert live(grammar, State.ANSWER) == set()


def test_what_an_engines_parser_writes_is_framing_at_the_first_character_alone() -> None:
    grammar = compile_dialect(replace(TAG, invented=("<a>",)))
    for state in (State.START, State.THINK_START):
        assert grammar.plan(state, FIRST).rules["<a>"] == Rule(Group.FRAMING, FIRST)
        assert grammar.plan(state, ANY).rules["<a>"] == Rule(Group.THINK_OPEN, 0)
        assert live(grammar, state, FIRST) == live(grammar, state)
    assert compile_dialect(TAG).plan(State.START, FIRST) is compile_dialect(TAG).plan(State.START, ANY)


def enders(grammar: Grammar, texts: Iterable[str]) -> list[bool]:
    assert grammar.enders is not None
    return [grammar.enders.fullmatch(text) is not None for text in texts]


def test_a_run_at_the_end_is_made_of_closers_framing_and_ends_of_turn() -> None:
    assert enders(K3, [TE, RE, MS, ME, EOM, TS, RS, TOOLS]) == [True] * 5 + [False] * 3
    texts = ["</a>", "<|b|>", "<end>", "<close>", "<h>", "<a>"]
    assert enders(compile_dialect(HEADED), texts) == [True] * 4 + [False] * 2
    assert "<|clo" in K3.ender_prefixes and EOM not in K3.ender_prefixes and "" not in K3.ender_prefixes


def test_the_longest_of_two_closers_with_one_start_is_taken() -> None:
    grammar = compile_dialect(replace(TAG, end_of_turn=("<end>", "<end><end>")))
    assert grammar.enders is not None
    assert grammar.enders.match("<end><end>")[0] == "<end><end>"


def test_a_dialect_without_any_marker_reads_nothing() -> None:
    bare = compile_dialect(Dialect(name="bare", summary="", kind=Kind.TAG, aliases={}))
    assert (live(bare, State.START), bare.enders, bare.longest, bare.replays) == (set(), None, 1, False)


def test_a_grammar_says_its_longest_marker_and_whether_a_thought_can_have_been_skipped() -> None:
    assert (K3.longest, K3.replays, K3.tags) == (len(RE), True, False)
    assert (compile_dialect(TAG).replays, compile_dialect(TAG).tags) == (False, True)


def test_a_spaced_dialect_knows_each_marker_with_blanks_beside_its_word() -> None:  # SGLang #32677
    spellings = {f"<|open|>{before}think{behind}<|sep|>" for before in ("", " ") for behind in ("", " ")}
    found = {text for text, rule in compile_dialect(SPACED).plan(State.START, ANY).rules.items()}
    assert spellings <= found and EOM in found
    assert {text for text in found if "think" in text and "open" in text} == spellings


def test_a_suffixed_dialect_knows_where_each_tag_may_go_on() -> None:
    grammar = compile_dialect(replace(TAG, suffixed=True))
    assert grammar.plan(State.START, ANY).rules["<a:"] == Rule(Group.THINK_OPEN, 0, tail=True)
    assert grammar.tail is not None and grammar.tail.fullmatch("6124c78e>") and not grammar.tail.match(">")
    assert enders(grammar, ["</a:6124c78e>", "</a>", "</a:>"]) == [True, True, False]
    assert grammar.longest == compile_dialect(TAG).longest + 25


def test_plain_sentences_are_live_only_where_their_own_thought_is() -> None:  # vLLM 0.33 granite
    grammar = compile_dialect(replace(TAG, kind=Kind.TEXT, regions=()))
    states = (State.START, State.AFTER_CLOSER, State.ANSWER, State.THINK_START, State.THINK)
    closers = [state for state in states if "</a>" in live(grammar, state)]
    openers = [state for state in states if "<a>" in live(grammar, state)]
    assert (openers, closers) == ([State.START, State.THINK_START], [State.THINK_START, State.THINK])


def test_equal_dialects_share_one_grammar() -> None:
    assert compile_dialect(TAG) is compile_dialect(replace(TAG))
