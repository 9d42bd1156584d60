"""The value model: defaults and the one derived fact."""

from __future__ import annotations

import pytest

from gateway.rulebook.dialect import Dialect, Kind, Reopen, Thought

PAIR = (Thought(open=("<a>",), close=("</a>",)),)


def dialect(**values: tuple[object, ...]) -> Dialect:
    return Dialect(name="d", summary="", kind=Kind.TAG, aliases={}, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "replays"),
    [({}, False), ({"thoughts": PAIR}, False), ({"answer_close": ("</r>",)}, False),
     ({"thoughts": PAIR, "answer_close": ("</r>",)}, True)],
)  # fmt: skip
def test_a_skipped_channel_can_be_told_with_thoughts_and_an_answer_closer(
    values: dict[str, tuple[object, ...]], replays: bool
) -> None:
    assert dialect(**values).replays is replays


def test_what_is_left_out_is_the_careful_reading() -> None:
    assert (dialect().starts_in, dialect().reopen, dialect().promote) == ("content", Reopen.NEVER, True)
