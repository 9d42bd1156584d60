"""Which live set a state has."""

from __future__ import annotations

from gateway.events import Group
from gateway.streams.grammar import ANY, FIRST, Rule, State
from tests.support.reader import setup


def test_a_state_has_the_live_set_of_its_pair_or_region_and_else_the_one_for_all() -> None:
    grammar = setup("generic").grammar
    own = grammar.plan(State.THINK, 1)
    assert own is grammar.plans[State.THINK, 1]
    assert own.rules["</thinking>"] == Rule(Group.THINK_CLOSE, 1)
    assert grammar.plan(State.ANSWER, 1) is grammar.plans[State.ANSWER, ANY]


def test_at_the_first_character_what_the_engines_parser_writes_is_live_as_framing() -> None:
    grammar = setup("minimax_append").grammar
    assert grammar.plan(State.START, FIRST).rules["<think>"] == Rule(Group.FRAMING, FIRST)
    assert grammar.plan(State.START, ANY).rules["<think>"] == Rule(Group.THINK_OPEN, 0)
    assert setup("think").grammar.plan(State.START, FIRST).rules["<think>"] == Rule(Group.THINK_OPEN, 0)
