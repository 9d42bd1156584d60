"""Dialect to grammar: the state table of reader_spec section 3 and the live sets of contract rule 3."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gateway.events import Group
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect, Header, HeaderRule, Kind, Reopen, Target, Thought, ToolRegion
from gateway.rulebook.load import load_rulebook
from gateway.streams.grammar import ANY, Grammar, Rule, State

SPACED = load_rulebook().dialects["kimi_k3"]
K3 = compile_dialect(replace(SPACED, spaced=False))  # the specification's own spellings
RE, TE, RS = "<|close|>response<|sep|>", "<|close|>think<|sep|>", "<|open|>response<|sep|>"
TS, TOOLS, TOOLSC = "<|open|>think<|sep|>", "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"
MS, ME, EOM = "<|open|>message<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>"
CALL, ARGUMENT, ARGUMENTC = "<|open|>call ", "<|open|>argument ", "<|close|>argument<|sep|>"
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
    header=Header(open=("<h>",), close="<m>", within=("<w>",), rules=(HeaderRule(text="x+", to=Target.ANSWER),)),
)


def live(grammar: Grammar, state: State, index: int = ANY) -> set[str]:
    return set(grammar.plan(state, index).rules)


@pytest.mark.parametrize(
    ("state", "index", "markers"),
    [
        (State.START, ANY, {TS, TE, RS, RE, TOOLS, CALL} | FRAMING),
        (State.OPENABLE, ANY, {TS, RS, RE, TOOLS, CALL} | FRAMING),
        (State.THINK_START, ANY, {TS, TE, RS, RE, TOOLS} | FRAMING),
        (State.THINK, ANY, {TE, RS, RE, TOOLS} | FRAMING),
        (State.ANSWER, ANY, {RS, RE, TOOLS, CALL} | FRAMING),
        (State.TOOLS, 0, {ARGUMENT, TOOLSC, ME, EOM}),
        (State.TOOLS, 1, {ARGUMENT, TOOLSC, ME, EOM}),
        (State.ARGUMENT, 0, {ARGUMENTC}),
        (State.FOREIGN, ANY, set()),
    ],
)
def test_the_states_of_kimi_k3_are_those_of_the_specification(state: State, index: int, markers: set[str]) -> None:
    assert live(K3, state, index) == markers


def test_a_thought_of_a_tag_dialect_is_closed_by_its_own_closers_only() -> None:
    grammar = compile_dialect(TAG)
    assert live(grammar, State.THINK, 0) == {"</a>", "<end>"}
    assert live(grammar, State.THINK, 1) == {"</b>", "<|b|>", "<end>"}
    assert live(grammar, State.THINK_START, 1) == {"<a>", "<b>", "</b>", "<|b|>", "<end>"}


def test_a_thought_that_was_open_from_the_start_is_closed_by_any_closer() -> None:
    assert live(compile_dialect(TAG), State.THINK) == {"</a>", "</b>", "<|b|>", "<end>"}


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


def test_tool_openers_of_a_tag_dialect_are_text_inside_a_thought() -> None:
    grammar = compile_dialect(TAG)
    assert not live(grammar, State.THINK) & {"<t>", "<u>"}
    assert live(grammar, State.ANSWER) >= {"<t>", "<u>"}
    assert live(grammar, State.TOOLS, 0) == {"</t>"}
    assert live(grammar, State.TOOLS, 1) == live(grammar, State.ARGUMENT, 1) == set()


def test_tool_openers_of_a_control_dialect_end_a_thought_where_the_region_says_so() -> None:
    assert live(compile_dialect(replace(TAG, kind=Kind.CONTROL)), State.THINK) & {"<t>", "<u>"} == {"<u>"}


def test_a_marker_keeps_its_group_and_the_pair_or_region_it_belongs_to() -> None:
    grammar = compile_dialect(TAG)
    rules = grammar.plan(State.START, ANY).rules
    assert (rules["<b>"], rules["<u>"]) == (Rule(Group.THINK_OPEN, 1), Rule(Group.TOOL_OPEN, 1))
    assert rules["<end>"] == Rule(Group.END_OF_TURN)
    assert grammar.plan(State.TOOLS, 0).rules["</t>"] == Rule(Group.TOOL_CLOSE, 0)


def test_a_header_makes_a_region_for_the_body_of_a_tool_message() -> None:
    grammar = compile_dialect(HEADED)
    assert grammar.header is not None
    assert (grammar.header.close, grammar.header.within, grammar.header.tool_region) == ("<m>", ("<w>",), 2)
    assert [(pattern.pattern, target) for pattern, target in grammar.header.rules] == [("x+", "answer")]
    assert live(grammar, State.TOOLS, 2) == {"<close>", "<end>"}
    for state in (State.START, State.OPENABLE, State.THINK_START, State.THINK):
        assert grammar.plan(state, ANY).rules["<h>"] == Rule(Group.HEADER)
    assert "<h>" not in live(grammar, State.ANSWER)


def test_the_rest_of_a_header_is_live_at_the_start_of_a_message_only() -> None:
    assert HEADED.header is not None
    grammar = compile_dialect(replace(HEADED, header=replace(HEADED.header, first=("to=",))))
    states = (State.START, State.OPENABLE, State.THINK, State.ANSWER)
    assert [state for state in states if "to=" in live(grammar, state)] == [State.START]


def test_a_role_token_that_ends_a_turn_is_live_as_an_end_of_turn() -> None:
    header = Header(open=("<end>", "<h>"), close="", rules=(HeaderRule(text="", to=Target.FOREIGN),))
    rules = compile_dialect(replace(TAG, header=header)).plan(State.AFTER_TURN, ANY).rules
    assert (rules["<end>"], rules["<h>"]) == (Rule(Group.END_OF_TURN), Rule(Group.HEADER))


def test_a_dialect_without_headers_has_no_region_for_them() -> None:
    grammar = compile_dialect(TAG)
    assert grammar.header is None
    assert (State.TOOLS, 2) not in grammar.plans


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
    assert (K3.longest, K3.replays, K3.tags) == (len(ARGUMENTC), True, False)
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
