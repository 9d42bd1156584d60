"""What a body of calls is: the values that every reader of one shares."""

from __future__ import annotations

import pytest

from gateway.events import Argument, Call
from gateway.rulebook.load import load_rulebook
from gateway.streams.calls import call
from tests.support.bodies import read

BODIES = [
    (f"{format_.name} {type(body).__name__}", body)
    for format_ in load_rulebook().calls.values()
    for region in format_.regions[:1]
    for body in region.bodies
]
every_body = pytest.mark.parametrize(("name", "body"), BODIES, ids=[name for name, _ in BODIES])


def test_the_calls_of_a_body_are_those_of_events() -> None:
    assert (call.Call, call.Argument) == (Call, Argument)
    assert len(call.Status) == 3


@every_body
def test_every_shipped_body_opens_a_reader_with_nothing_read(name: str, body: call.Body) -> None:
    reader = body.open(until=("</x>",))
    assert (reader.status, reader.complete) == (call.Status.OPEN, False)
    assert not [one for one in reader.calls if one.name or one.closed]


@every_body
def test_prose_is_no_shipped_body(name: str, body: call.Body) -> None:
    for text in ("Well, then we go on.\nAnd so on.", "1 + 1 = 2\n", "</y> is a tag</x>"):
        if body.lead(text, 0, final=False):
            found = read(body, [text], until=("</x>",))
            assert (found.status, found.complete) == (call.Status.BROKEN, False)
