"""One of the engine's own calls while it comes (the shapes are those of reference/vllm.md 3.1 and sglang.md 3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.exchange.own_call import OwnCall
from gateway.protocols.protocol import CallChange, Fragment

GONE = CallChange(gone=True)


def piece(arguments: str = "", **said: Any) -> Fragment:
    """A fragment that brings some of the arguments."""
    values: dict[str, Any] = {"place": 0, "index": 0, "ident": None, "name": None, "text": True}
    return Fragment(arguments=arguments, **(values | said))


def came(*arguments: str) -> OwnCall:
    """A call whose first fragment has the id and the name, and that brought these pieces of its arguments."""
    call = OwnCall(0)
    call.take(piece(ident="c", name="f"))
    for each in arguments:
        call.take(piece(each))
    return call


def test_fragments_are_numbered_and_joined() -> None:
    call = OwnCall(3)
    fragments = [piece(name="get_", ident="c"), piece('{"a"', name="weather"), piece(": 1}")]
    assert [call.take(each) for each in fragments] == [0, 1, 2]
    assert (call.index, call.ident, call.name, call.arguments) == (3, "c", "get_weather", '{"a": 1}')
    assert (call.length, call.text, call.as_came) == (8, True, True)


def test_arguments_that_were_no_string_once_are_none() -> None:
    call = came("{}")
    call.take(piece("{}", text=False))
    call.take(piece("{}"))
    assert not call.text


def test_the_halves_of_a_character_are_joined_and_a_lone_one_stays() -> None:
    """openclaw/openclaw#115536."""
    call = came('{"city": "\ud83c', '\udf0d"}')
    assert (call.arguments, call.as_came, call.whole) == ('{"city": "\U0001f30d"}', False, True)
    call = came('{"city": "\ud83c"}')
    assert (call.arguments, call.as_came) == ('{"city": "\ud83c"}', True)


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (("{", '"a": "}', '"', "}"), True),
        (('{"a": "x } y"',), False),
        (("{}", "}"), True),
        (('{"a" 1}',), False),
        (('"{\\"a\\"', ': 1}"'), True),
        ((), False),
    ],
)
def test_arguments_are_whole_where_their_first_json_value_has_ended(pieces: tuple[str, ...], whole: bool) -> None:
    assert came(*pieces).whole is whole


def test_every_fragment_waits_until_the_call_is_decided() -> None:
    call = came("{", "}")
    assert (call.undecided, [call.waits(number) for number in range(3)]) == (True, [True] * 3)
    call.give_up()
    assert (call.undecided, [call.waits(number) for number in range(3)]) == (False, [False] * 3)
    assert [call.change(number) for number in range(3)] == [None] * 3


def test_behind_a_call_that_went_out_only_what_says_more_waits() -> None:
    call = came("{}")
    call.send()
    assert (call.take(piece(" \n")), call.extra, call.undecided) == (2, False, False)
    assert (call.take(piece("}")), call.extra, call.undecided) == (3, True, True)
    assert [call.waits(number) for number in range(4)] == [False, False, True, True]
    assert (call.went_out_as("{}"), call.went_out_as("{}}")) == (True, False)
    call.settle("f", "{}")
    assert [call.change(number) for number in range(4)] == [None, None, GONE, GONE]


def test_a_call_that_did_not_go_out_can_say_anything() -> None:
    assert came("{").went_out_as("{}")


def test_what_a_call_says_in_stead_is_all_in_its_first_fragment() -> None:
    call = came("{", "}", "}")
    call.settle("g", "{}")
    assert [call.change(number) for number in range(4)] == [CallChange(name="g", arguments="{}"), GONE, GONE, GONE]


def test_a_fragment_with_the_id_stays_wherever_it_is() -> None:
    call = OwnCall(0)
    for each in (piece("{"), piece("}", ident="c"), piece("}", ident="c")):
        call.take(each)
    call.settle("", "{}")
    assert [call.change(number) for number in range(3)] == [
        CallChange(arguments="{}"),
        CallChange(name="", arguments=""),
        GONE,
    ]


def test_nothing_is_kept_of_a_call_that_is_over() -> None:
    call = came("{}")
    call.give_up()
    call.take(piece("{}", name="x", text=False))
    assert (call.arguments, call.name, call.text, call.fragments, call.length) == ("", "f", True, 3, 2)
