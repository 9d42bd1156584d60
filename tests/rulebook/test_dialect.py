"""The value model: defaults and the one derived fact."""

from __future__ import annotations

from gateway.rulebook.dialect import Dialect, Kind, Reopen, Thought, ToolRegion
from gateway.streams.calls.element_body import ElementsBody, Tag
from gateway.streams.calls.json_body import JsonBody

PAIR = (Thought(open=("<a>",), close=("</a>",)),)


def dialect(**values: tuple[object, ...]) -> Dialect:
    return Dialect(name="d", summary="", kind=Kind.TAG, aliases={}, **values)  # type: ignore[arg-type]


def test_a_region_is_bare_where_its_opener_is_what_a_body_begins_with() -> None:
    invoke = Tag(open=("<f ",), end=">", words="(?P<name>.+)")
    elements = ElementsBody(call=invoke, close=("</f>",), argument=invoke, argument_close=("</a>",))
    for opener, body, markerless, bare in (
        ("<f ", elements, False, True), ("<c>", elements, False, False), ("{", JsonBody(), True, True),
        ("functools", JsonBody(), True, False),
    ):  # fmt: skip
        region = ToolRegion(open=("<x>", opener), bodies=(body,), markerless=markerless)
        assert region.bare is bare, opener
    assert not ToolRegion(open=(), bodies=(elements,)).bare
    assert not ToolRegion(open=("<f ",)).bare


def test_what_is_left_out_is_the_careful_reading() -> None:
    assert (dialect().starts_in, dialect().reopen, dialect().promote) == ("content", Reopen.NEVER, True)
