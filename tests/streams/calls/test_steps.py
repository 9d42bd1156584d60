"""The loop over the steps of a body, tried on one that is `(`, letters in pairs, `)`."""

from __future__ import annotations

import pytest

from gateway.streams.calls.call import Call, Status
from gateway.streams.calls.steps import ArgumentSteps


class Pairs(ArgumentSteps):
    """`(aabb)`: a call with an argument for each pair. A letter waits for its twin; another one breaks the body."""

    def _open(self, text: str, at: int, final: bool) -> int:
        if not text[at:].startswith("("):
            return at if at == len(text) else self._broken(at)
        self.calls.append(Call("f"))
        self._step = Pairs._between
        return at + 1

    def _between(self, text: str, at: int, final: bool) -> int:
        if text[at : at + 1] == ")":
            return self._done(at + 1)
        if at == len(text):
            return at
        self._step = Pairs._twin
        return at

    def _twin(self, text: str, at: int, final: bool) -> int:
        if at + 2 > len(text):
            return at
        if text[at] != text[at + 1]:
            return self._broken(at)
        self._whole = True
        self._step = Pairs._between
        return at + 2


@pytest.mark.parametrize(
    ("text", "place", "status", "complete"),
    [
        ("", 0, Status.OPEN, False),
        ("(", 1, Status.OPEN, False),  # whether arguments were to come is not known
        ("(a", 1, Status.OPEN, False),
        ("(aab", 3, Status.OPEN, False),
        ("(aabb", 5, Status.OPEN, True),
        ("(aabb) more", 6, Status.DONE, True),
        ("()", 2, Status.DONE, True),
        ("(aabc)", 3, Status.BROKEN, False),
        ("x", 0, Status.BROKEN, False),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_body_is_read_as_far_as_its_steps_come(
    text: str, place: int, status: Status, complete: bool, size: int
) -> None:
    reader, at = Pairs(Pairs._open), 0
    for end in [*range(size, len(text), size), len(text)]:
        at = reader.read(text[:end], at, final=False)
    assert (at, reader.status, reader.complete) == (place, status, complete)
    assert [call.closed for call in reader.calls] == ([] if text in ("", "x") else [status is Status.DONE])
