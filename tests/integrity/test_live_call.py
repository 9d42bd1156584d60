"""What of a growing call may be sent, and what is left of it at its end."""

from __future__ import annotations

import pytest

from gateway.events import Argument, Call
from gateway.integrity.arguments import arguments_of
from gateway.integrity.live_call import LiveCall

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def sent(pieces: list[str]) -> tuple[str, str | None]:
    """A call whose JSON comes in pieces: what goes out while it grows, and the rest of it."""
    call = Call("f", json=[])
    live, out = LiveCall(SCHEMA), ""
    for piece in pieces:
        assert call.json is not None
        call.json.append(piece)
        out += live.more(call)
    call.closed = True
    return out, live.rest(arguments_of(call, SCHEMA))


@pytest.mark.parametrize(
    ("pieces", "early", "rest"),
    [
        (['{"n"', ": 1", "}"], '{"n": 1}', ""),
        (["{", '"a": "x', "\n", 'y"}'], '{"a": "x', '\\ny"}'),  # a raw line break is an escape in JSON
        (['"{\\"n', '\\": 1}"'], "", '{"n": 1}'),  # one JSON text in a string: known at the end only
        (['{"n": 1', "  }  "], '{"n": 1  }  ', None),  # what is not part of the whole cannot be taken back
        (['{"n": ', "}"], '{"n": }', None),
        ([], "", "{}"),
    ],
)
def test_what_is_sent_early_and_the_rest_are_one_json_text(pieces: list[str], early: str, rest: str | None) -> None:
    assert sent(pieces) == (early, rest)


def test_arguments_go_out_one_by_one_as_they_are_typed() -> None:
    call, live = Call("f"), LiveCall(SCHEMA)
    assert live.more(call) == ""
    call.arguments.append(Argument("a", 'x"'))
    assert live.more(call) == '{"a": "x\\""'
    assert live.more(call) == ""
    call.arguments.append(Argument("n", "1"))
    assert live.more(call) == ', "n": 1'
    assert live.rest(arguments_of(call, SCHEMA)) == "}"


def test_an_argument_that_comes_twice_cannot_be_made_right() -> None:
    call, live = Call("f", arguments=[Argument("a", "x")]), LiveCall(SCHEMA)
    live.more(call)
    call.arguments.append(Argument("a", "y"))
    live.more(call)
    assert live.rest(arguments_of(call, SCHEMA)) is None
