"""The value model: defaults and the one derived fact."""

from __future__ import annotations

from gateway.rulebook.dialect import Dialect, Kind, Reopen, Thought

PAIR = (Thought(open=("<a>",), close=("</a>",)),)


def dialect(**values: tuple[object, ...]) -> Dialect:
    return Dialect(name="d", summary="", kind=Kind.TAG, aliases={}, **values)  # type: ignore[arg-type]


def test_what_is_left_out_is_the_careful_reading() -> None:
    assert (dialect().starts_in, dialect().reopen, dialect().promote) == ("content", Reopen.NEVER, True)
