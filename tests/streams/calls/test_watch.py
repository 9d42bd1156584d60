"""Text that goes out as it comes is followed only as long as it may end with a call (contract rule 5)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.streams.calls.element_body import ElementsBody, Tag
from gateway.streams.calls.json_body import JsonBody
from gateway.streams.calls.region import RegionRules, region_rules
from gateway.streams.calls.watch import Watch
from tests.support.bodies import CUTS, pieces

ELEMENTS = ElementsBody(
    call=Tag(("<f ",), ">", r"(?P<name>\w+)"),
    close=("</f>",),
    argument=Tag(("<a ",), ">", r"(?P<name>\w+)"),
    argument_close=("</a>",),
)


def rules(**changes: Any) -> RegionRules:
    given: dict[str, Any] = {"open": ("<calls>",), "close": ("</calls>",), "ended_by": (), "between": ()}
    given |= {"bodies": (ELEMENTS,), "head": None, "markerless": False, "control": False, "ends_thought": False}
    return region_rules(**given | changes)


SECTION, BARE = rules(), rules(open=("<f ",))
BRACE = rules(open=("{",), close=(), bodies=(JsonBody(),), markerless=True)
F = "<f f><a x>1</a></f>"


def ends_with(made: RegionRules, text: str, *, cap: int = 1 << 20) -> tuple[list[str], int | None]:
    """The names of the calls that `text`, from the opener on, ends with, and the place from which on there can be none.

    The calls are the same at every cut; the place is the first that can be, so it is told at the smallest cut.
    """
    opener = next(iter(made.inside), "<calls>")
    behind = text.removeprefix(opener)
    found: list[tuple[list[str], int | None]] = []
    for size in (*CUTS, len(text)):
        watch, read, over = Watch(made, opener=opener, cap=cap), 0, None
        for piece in pieces(behind, size):
            read += len(piece)
            if not watch.take(piece):
                over = read
                break
        names = [] if over else [call.name for call in watch.finish() if call.closed]
        found.append((names, over))
    assert [names for names, _ in found] == [found[0][0]] * len(found), found
    return found[0]


@pytest.mark.parametrize(
    ("made", "text", "names"),
    [
        (SECTION, f"<calls>{F}</calls>", ["f"]),
        (SECTION, f"<calls>\n{F}{F}\n</calls>\n ", ["f", "f"]),
        (SECTION, f"<calls>{F}", ["f"]),
        (SECTION, "<calls><f f><a x>1</a>", ["f"]),
        (SECTION, "<calls><f f><a x>1", []),
        (SECTION, "<calls></calls>", []),
        (SECTION, "<calls>", []),
        (SECTION, f"<calls>{F}so", []),
        (BARE, F, ["f"]),
        (BARE, f"{F}\n", ["f"]),
        (BRACE, '{"name": "f"}\n', ["f"]),
        (BRACE, '{"name": "f"', []),
    ],
)
def test_the_calls_that_a_text_ends_with_are_told(made: RegionRules, text: str, names: list[str]) -> None:
    assert ends_with(made, text) == (names, None)


@pytest.mark.parametrize(
    ("made", "text", "place"),
    [
        (SECTION, f"<calls>{F}</calls> so", len(F) + 10),
        (SECTION, "<calls>so", 1),
        (BARE, f"{F}\nso", len(F) - 3 + 2),
        (BRACE, '{"name": "f"} so', 14),
        (BRACE, "{so", 1),
    ],
)
def test_what_follows_a_call_or_is_none_ends_the_watch(made: RegionRules, text: str, place: int) -> None:
    assert ends_with(made, text) == ([], place)


def test_past_the_cap_nothing_is_waited_for() -> None:
    text = f"<calls>{F}</calls>"
    assert ends_with(SECTION, text, cap=len(F) + 8) == (["f"], None)
    assert ends_with(SECTION, f"<calls>{F}{F}", cap=len(F) + 8) == ([], len(F) + 9)
    assert ends_with(SECTION, text, cap=len(F) + 7) == ([], len(F) + 8)
    assert ends_with(SECTION, f"<calls>{F}</calls>so", cap=len(F) + 8) == ([], len(F) + 9)


def test_white_space_behind_a_call_may_be_as_long_as_it_likes() -> None:
    assert ends_with(SECTION, f"<calls>{F}</calls>" + " " * 300, cap=99) == (["f"], None)
