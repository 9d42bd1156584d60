"""Where a region of calls ends, whether it is one at all, and which calls stand in it (contract rule 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.streams.calls.call import NAME_CAP, Status
from gateway.streams.calls.element_body import ElementsBody, Tag
from gateway.streams.calls.json_body import ArgumentsBody, JsonBody
from gateway.streams.calls.region import GAP, CallRegion, RegionRules, region_rules
from tests.support.bodies import CUTS, pieces

ELEMENTS = ElementsBody(
    call=Tag(("<f ",), ">", r"(?P<name>\w+)"),
    close=("</f>",),
    argument=Tag(("<a ",), ">", r"(?P<name>\w+)"),
    argument_close=("</a>",),
)


def rules(**changes: Any) -> RegionRules:
    """A region of `<calls>` … `</calls>`, `changes` laid over it."""
    given_: dict[str, Any] = {"open": ("<calls>",), "close": ("</calls>",), "ended_by": ("<end>",), "between": (";",)}
    given_ |= {"bodies": (ELEMENTS,), "head": None, "markerless": False, "control": False, "ends_thought": False}
    return region_rules(**given_ | changes)


SECTION = rules()  # bodies have closers of their own
TAGGED = rules(bodies=(JsonBody(),))
BARE = rules(open=("<f ",))  # the opener is the beginning of the body
LOOSE = rules(close=(), bodies=(JsonBody(),))  # there is nothing that closes it
PLAIN = rules(close=(), ended_by=(), between=(), bodies=(JsonBody(),))
BRACE = rules(open=("{",), close=(), ended_by=(), between=(), bodies=(JsonBody(),), markerless=True)
HEADED = rules(open=(), bodies=(ArgumentsBody(),), head=r"to=(?P<name>\w+)")
UNKNOWN = rules(bodies=())

F, G = '{"name": "f", "arguments": {"a": 1.0}}', '{"name": "g"}'
EF, EG = "<f f><a x></calls></a></f>", "<f g></f>"


HELD = max(2 * GAP, NAME_CAP) + 16  # characters: white space around what joins a body, or attributes; and a marker


@dataclass(frozen=True)
class Told:
    """A region in short. `place`: its end, None while it is open. `calls`: name, and the text it was read from; a call
    that is not whole is `name?`.
    """

    status: Status
    place: int | None
    said: str
    calls: list[tuple[str, str]]


def one_reading(made: RegionRules, text: str, *, head: str = "", begin: int = 0, final: bool = True) -> Told:
    """The reading of `text`, the same at every cut."""
    results = [_read(made, pieces(text, size), head=head, begin=begin, final=final) for size in (len(text) or 1, *CUTS)]
    assert all(result == results[0] for result in results), results
    return results[0]


def _read(made: RegionRules, parts: list[str], *, head: str, begin: int, final: bool) -> Told:
    """Feed the parts as they come, until the region has ended. `begin`: where they stand in the region's text."""
    region = CallRegion(made, head=head, begin=begin)
    held, gone = "", 0
    for part, last in [*((part, False) for part in parts), *([("", True)] if final else [])]:
        if region.status is Status.OPEN:
            held += part
            at = region.read(held, 0, final=last)
            held, gone = held[at:], gone + at
            assert region.status is not Status.OPEN or len(held) <= HELD
    place = None if region.status is Status.OPEN else gone
    words = [word for word in ("closed", "complete", "rest", "begun") if getattr(region, word)]
    begun, text = region.begun_calls, head[:begin] + "".join(parts)
    calls = region.finish()
    assert list(begun) == calls or not begun  # a call without a body is only made at the end
    told = [(call.name + "?" * (not call.closed), text[call.begin : call.end]) for call in calls]
    return Told(region.status, place, " ".join(words), told)


OPEN, DONE, BROKEN = Status


@pytest.mark.parametrize(
    ("made", "text", "said", "calls"),
    [
        (TAGGED, f"\n{F}\n</calls>", "closed complete begun", [("f", F)]),
        (TAGGED, f"{F}\n ; \n{G};</calls>", "closed complete begun", [("f", F), ("g", G)]),
        (TAGGED, f"[{F}, {G}]</calls>", "closed complete begun", [("f", f"[{F}, {G}]"), ("g", f"[{F}, {G}]")]),
        (TAGGED, " </calls>", "closed", []),
        (SECTION, f"{EF} {EG}</calls>", "closed complete begun", [("f", EF), ("g", EG)]),
        (SECTION, f"{EF}so</f> {EG}</calls>", "closed rest begun", [("f", EF)]),
        (SECTION, f"{EF};;so ; <f 1 2></calls>", "closed rest begun", [("f", EF)]),
        (SECTION, f"{EF}<f g><b></f>;</calls>", "closed rest begun", [("f", EF)]),
        (UNKNOWN, "any ;thing</calls>", "closed", []),
    ],
)
def test_a_region_ends_behind_its_closer(made: RegionRules, text: str, said: str, calls: list[tuple[str, str]]) -> None:
    assert one_reading(made, text + " and <end>") == Told(DONE, len(text), said, calls)


@pytest.mark.parametrize(
    ("made", "text", "said", "calls"),
    [
        (TAGGED, f"{F} ", "complete begun", [("f", F)]),
        (SECTION, f"{EF}so ", "rest begun", [("f", EF)]),
        (LOOSE, f"{F}\n", "complete begun", [("f", F)]),
        (UNKNOWN, "any thing", "", []),
    ],
)
def test_a_marker_of_the_message_ends_a_region_and_is_no_part_of_it(
    made: RegionRules, text: str, said: str, calls: list[tuple[str, str]]
) -> None:
    assert one_reading(made, text + "<end>x") == Told(DONE, len(text), said, calls)


@pytest.mark.parametrize(
    ("made", "text", "place"),
    [
        (TAGGED, "x then", 0),
        (TAGGED, "\n x", 2),
        (TAGGED, f"{F}\nso", len(F) + 1),
        (TAGGED, f"{F} {{}}</calls>", len(F) + 1),
        (TAGGED, '{"name": 5}', 9),
        (SECTION, "<f f>x</f>", 5),
        (SECTION, "; </call>", 2),
        (LOOSE, "so", 0),
        (LOOSE, '{"name": "f"] ', 12),
        (BARE, "<f f>x</f>", 5),
    ],
)
def test_what_is_no_call_where_one_must_come_breaks_the_region_as_early_as_it_can_be_told(
    made: RegionRules, text: str, place: int
) -> None:
    found = one_reading(made, text)
    assert (found.status, found.place, found.said.split()[:1]) == (BROKEN, place, found.said.split()[:1])
    assert "closed" not in found.said.split()


@pytest.mark.parametrize(
    ("made", "text", "rest"),
    [
        (LOOSE, f"{F};\n{G}", "\nso"),
        (LOOSE, f"{F};\n{G}", " ; so"),
        (LOOSE, F, " " * (GAP + 1) + f";{G}"),
        (LOOSE, F, ";" + " " * (GAP + 1) + G),
        (LOOSE, F, f"\n{G}"),  # nothing joins it
        (PLAIN, F, ""),
        (PLAIN, F, f" {G}"),
        (BARE, f"{EF}\n{EG}", "\nso"),
        (BARE, EF, " " * (GAP + 1) + "</calls>"),
        (BARE, EF, " " * (GAP + 1) + EG),
    ],
)
def test_a_region_without_a_closer_ends_behind_its_last_body(made: RegionRules, text: str, rest: str) -> None:
    head = "<f " if made is BARE else ""
    found = one_reading(made, text + rest, head=head)
    assert (found.status, found.place, found.said) == (DONE, len(text), "closed complete begun")


@pytest.mark.parametrize("gap", ["", " " * GAP])
@pytest.mark.parametrize(
    ("made", "text"),
    [(BARE, f"{EF}{{}}</calls>"), (BARE, f"{EF}{{}}{EG}{{}};{EG}</calls>"), (LOOSE, f"{F}{{}};{{}}{G};{G}")],
)
def test_a_closer_or_another_body_may_follow_white_space_up_to_the_gap(made: RegionRules, text: str, gap: str) -> None:
    text = text.replace("{}", gap)
    found = one_reading(made, text + " and", head="<f " if made is BARE else "")
    assert (found.status, found.place, "closed" in found.said) == (DONE, len(text), True)


def test_a_beginning_of_what_may_join_is_waited_for_until_it_is_told() -> None:
    text = f"{EF}\n"
    for more, status in (("", OPEN), ("</cal", OPEN), ("<", OPEN), ("<f", OPEN), ("<g", DONE), ("</call>", DONE)):
        assert one_reading(BARE, text + more, head="<f ", final=False).status is status, more
    assert one_reading(BARE, f"{text}</cal", head="<f ").place == len(EF)


@pytest.mark.parametrize(
    ("made", "text", "said", "calls"),
    [
        (TAGGED, "", "", []),
        (TAGGED, f"{F}\n", "complete begun", [("f", F)]),
        (TAGGED, f"{F}</cal", "complete begun", [("f", F)]),
        (TAGGED, f"[{F}", "complete begun", [("f", f"[{F}")]),
        (TAGGED, F[:-1], "begun", [("f?", F[:-1])]),
        (TAGGED, "{", "begun", []),  # cut before it could be told from anything else
        (TAGGED, f"{F}\n</cal", "complete begun", [("f", F)]),
        (TAGGED, f"{F}[", "complete begun", [("f", F)]),
        (SECTION, "<f f", "begun", []),
        (SECTION, "<f f><a x>1</a>", "complete begun", [("f", "<f f><a x>1</a>")]),
        (SECTION, f"{EF}<f g><a x>1", "begun", [("f", EF), ("g?", "<f g><a x>1")]),
        (SECTION, f"{EF}so", "rest begun", [("f", EF)]),
        (UNKNOWN, "any", "", []),
        (BARE, "<f", "begun", []),
    ],
)
def test_a_text_that_ends_in_a_region_leaves_it_open_and_tells_what_is_whole(
    made: RegionRules, text: str, said: str, calls: list[tuple[str, str]]
) -> None:
    found = one_reading(made, text)
    assert (found.status, found.said, found.calls) == (OPEN, said, calls)


@pytest.mark.parametrize(("made", "text"), [(TAGGED, "x"), (TAGGED, "</cull"), (SECTION, "<g"), (LOOSE, ";x")])
def test_a_text_that_ends_in_what_cannot_be_a_call_is_no_region(made: RegionRules, text: str) -> None:
    assert one_reading(made, text).status is BROKEN


def test_a_region_ends_behind_its_closer_before_the_text_does() -> None:
    for text in (f"{EF}so</calls>", f"{EF}{EG}</calls>"):
        assert one_reading(SECTION, text + " and", final=False).place == len(text)


def test_a_region_that_may_go_on_waits() -> None:
    for text in ("", "\n", "{", "<", "</calls", f"{F} </", f"{F} ; "):
        assert one_reading(TAGGED, text, final=False).status is OPEN, text


# ---------------------------------------------------------------------- the name in the header


@pytest.mark.parametrize(
    ("text", "status", "said", "calls"),
    [
        ('{"a": 1}</calls>', DONE, "closed complete begun", [("f", '<h to=f>{"a": 1}')]),
        ("</calls>", DONE, "closed complete begun", [("f", "<h to=f></calls>")]),
        ("\n", OPEN, "complete begun", [("f", "<h to=f>\n")]),
        ('{"a": 1}', OPEN, "complete begun", [("f", '<h to=f>{"a": 1}')]),
        ('{"a": 1', OPEN, "begun", [("f?", '<h to=f>{"a": 1')]),
        ("so", BROKEN, "complete begun", [("f", "<h to=f>")]),
    ],
)
def test_the_header_names_the_call_which_begins_with_it(
    text: str, status: Status, said: str, calls: list[tuple[str, str]]
) -> None:
    found = one_reading(HEADED, text, head="<h to=f>", begin=8)
    assert (found.status, found.said, found.calls) == (status, said, calls)


def test_a_header_without_a_name_makes_no_call_of_nothing() -> None:
    found = one_reading(HEADED, "</calls>", head="<h>")
    assert (found.said, found.calls) == ("closed", [])
    assert one_reading(HEADED, "{}</calls>", head="<h>").calls == [("", "{}")]


# ---------------------------------------------------------------------- what the rules say


def test_the_rules_know_openers_that_begin_a_body_and_bodies_that_close_themselves() -> None:
    told = {made: (made.section, set(made.inside)) for made in (SECTION, TAGGED, BARE, BRACE, UNKNOWN)}
    expected = [(True, set()), (False, set()), (True, {"<f "}), (False, {"{"}), (False, set())]
    assert list(told.values()) == expected


def test_a_literal_that_closes_a_region_is_nothing_else_in_it() -> None:
    made = rules(close=("<x>",), ended_by=("<x>", "<y>"), between=("<x>", "<y>", "<z>"))
    assert made.plan.rules == {"<x>": "close", "<y>": "ended_by", "<z>": "between"}


PARTS = st.sampled_from(
    [F, G, EF, EG, "<f ", "{", "[", "}", "</calls>", "<end>", ";", " ", "\n" * 40, "x", "</", "<a x>"]
)
KINDS = st.sampled_from([SECTION, TAGGED, BARE, LOOSE, PLAIN, BRACE, UNKNOWN])


@given(KINDS, st.lists(PARTS, max_size=8), st.booleans())
@example(made=SECTION, parts=["<f ", F, F, F, F], final=True)  # attributes without an end
def test_the_cuts_change_nothing(made: RegionRules, parts: list[str], final: bool) -> None:
    one_reading(made, "".join(parts), head=next(iter(made.inside), ""), final=final)
