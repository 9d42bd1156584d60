"""What stands behind a marker: each question, and what it waits for (contract rules 3 and 8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect, Header, HeaderRule, Kind, Target, Thought
from gateway.streams.grammar import Grammar
from gateway.streams.lookahead import Lookahead, either, line_end

DIALECT = Dialect(
    name="d",
    summary="",
    kind=Kind.CONTROL,
    aliases={},
    thoughts=(Thought(open=("<a>",), close=("</a>",)),),
    end_of_turn=("<end>",),
    headers=(
        Header(open=("<h>",), close="<m>", rules=(HeaderRule(text="x", to=Target.ANSWER),)),
        Header(open=("<role>",), close="", rules=(HeaderRule(text="", to=Target.FOREIGN),)),
    ),
)
GRAMMAR = compile_dialect(DIALECT)
BARE = compile_dialect(Dialect(name="bare", summary="", kind=Kind.TAG, aliases={}))
CAP = 8
YES, NO, OPEN = True, False, None
Answer = bool | None


def ahead(grammar: Grammar = GRAMMAR) -> Lookahead:
    return Lookahead(grammar, cap=CAP)


@pytest.mark.parametrize(
    ("behind", "so_far", "at_the_end"),
    [
        ("", OPEN, YES),
        (" \n", OPEN, YES),
        ("<end>", OPEN, YES),
        ("</a><en", OPEN, NO),
        ("</a> <end>", NO, YES),  # past the cap nothing waits for the end
        ("<en", OPEN, NO),
        ("x", NO, NO),
        ("<end>x", NO, NO),
        ("<a>", NO, NO),
        (" " * (CAP - 1), OPEN, YES),
        (" " * CAP, NO, YES),
        (" " * (CAP + 1), NO, NO),
        (f"{' ' * (CAP - 1)}<end>", NO, YES),
        (f"{' ' * CAP}<end>", NO, NO),
    ],
)
def test_an_output_ends_where_only_white_space_and_closers_follow(
    behind: str, so_far: Answer, at_the_end: Answer
) -> None:
    assert (ahead().ending(f"m{behind}", 1, False), ahead().ending(f"m{behind}", 1, True)) == (so_far, at_the_end)


@pytest.mark.parametrize(
    ("behind", "so_far", "at_the_end"),
    [
        ("", OPEN, YES),
        ("  ", OPEN, YES),
        ("<a>", YES, YES),
        (" <end>x", YES, YES),
        ("<role>", YES, YES),
        ("<ro", OPEN, NO),
        ("<x", NO, NO),
        ("x<a>", NO, NO),
        (f"{' ' * (CAP - 1)}<a>", YES, YES),
        (f"{' ' * CAP}<a>", NO, NO),
    ],
)
def test_structure_follows_where_the_next_thing_is_a_marker_or_the_end(
    behind: str, so_far: Answer, at_the_end: Answer
) -> None:
    question = ahead().structure
    assert (question(f"m{behind}", 1, False), question(f"m{behind}", 1, True)) == (so_far, at_the_end)


@pytest.mark.parametrize(
    ("behind", "at_once", "behind_blanks"),
    [
        ("<h>x", YES, YES),
        ("<role>", YES, YES),
        ("<ro", OPEN, OPEN),
        ("", OPEN, OPEN),
        (" ", NO, OPEN),
        (" \n<role>", NO, YES),
        (" <ro", NO, OPEN),
        (" <end>", NO, NO),
        ("<rolf>", NO, NO),
        (f"{' ' * (CAP - 1)}<h>", NO, YES),
        (f"{' ' * CAP}<h>", NO, NO),
    ],
)
def test_the_next_turn_opens_with_any_of_the_headers(behind: str, at_once: Answer, behind_blanks: Answer) -> None:
    question = ahead().turn_opens
    answers = [question(f"m{behind}", 1, False, blanks=blanks) for blanks in (False, True)]
    assert answers == [at_once, behind_blanks]
    final = [question(f"m{behind}", 1, True, blanks=blanks) for blanks in (False, True)]
    assert final == [answer is YES for answer in answers]


@pytest.mark.parametrize(
    ("words", "found"),
    [("x <end>", True), ("</a>", True), ("<h>", True), ("a<role>b", True), ("<m> <a> <en", False), ("", False)],
)
def test_a_marker_in_a_headers_text_is_an_ender_or_another_header(words: str, found: bool) -> None:
    assert ahead().marker_in(words) is found


def test_where_a_grammar_has_no_markers_only_the_end_follows() -> None:
    bare = ahead(BARE)
    assert [bare.ending("m", 1, True), bare.ending("mx", 1, True), bare.structure("mx", 1, False)] == [YES, NO, NO]
    assert [bare.turn_opens("mx", 1, False, blanks=True), bare.marker_in("x")] == [NO, NO]
    assert [bare.structure("m", 1, False), bare.structure("m", 1, True)] == [OPEN, YES]


def test_a_suffixed_closer_ends_an_output_as_well() -> None:
    suffixed = ahead(compile_dialect(replace(DIALECT, suffixed=True)))
    assert [suffixed.ending("m</a:x>", 1, True), suffixed.ending("m</a:>", 1, True)] == [YES, NO]


@pytest.mark.parametrize(
    ("text", "end", "so_far", "at_the_end"),
    [("m\n", 1, YES, YES), ("m\r", 1, YES, YES), ("m ", 1, NO, NO), ("m", 1, OPEN, YES), ("m\nx", 2, YES, YES)],
)
def test_a_line_ends_at_a_break_behind_the_marker_or_in_it(
    text: str, end: int, so_far: Answer, at_the_end: Answer
) -> None:
    assert (line_end(text, end, False), line_end(text, end, True)) == (so_far, at_the_end)


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [(YES, NO, YES), (NO, YES, YES), (YES, OPEN, YES), (OPEN, NO, OPEN), (NO, OPEN, OPEN), (NO, NO, NO)],
)
def test_either_is_open_while_one_answer_that_could_be_yes_is(one: Answer, other: Answer, answer: Answer) -> None:
    assert either(one, other) is answer
