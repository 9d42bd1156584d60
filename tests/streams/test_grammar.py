"""Which live set a state has."""

from __future__ import annotations

from gateway.events import Group
from gateway.streams.grammar import ANY, Rule, State
from tests.support.reader import setup


def test_a_state_has_the_live_set_of_its_pair_or_region_and_else_the_one_for_all() -> None:
    grammar = setup("generic").grammar
    own = grammar.plan(State.THINK, 1)
    assert own is grammar.plans[State.THINK, 1]
    assert own.rules["</thinking>"] == Rule(Group.THINK_CLOSE, 1)
    assert grammar.plan(State.ANSWER, 1) is grammar.plans[State.ANSWER, ANY]


def test_the_literals_that_open_a_header_are_those_of_the_dialect() -> None:
    assert setup("harmony").grammar.header_opens == ("<|start|>", "<|channel|>")
    assert setup("kimi_k3").grammar.header_opens == ()
