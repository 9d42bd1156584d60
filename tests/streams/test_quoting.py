"""Fences and inline code: CommonMark 0.31.2 (4.5, 6.1) as far as contract rule 3 follows it, and an oracle by lines."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.quoting import Quoting
from tests.support.reader import CHUNK_SIZES, cut


def after(*pieces: str) -> Quoting:
    quoting = Quoting()
    quoting.pieces.extend(pieces)
    return quoting


# The example of CommonMark, the text up to a place, and whether the place is code.
COMMONMARK = [
    (119, "```\n<", True),
    (119, "```\n<\n >\n```\n", False),
    (120, "~~~\n<\n >\n~~~\n", False),
    (122, "```\naaa\n~~~\n", True),
    (122, "```\naaa\n~~~\n```\n", False),
    (123, "~~~\naaa\n```\n", True),
    (123, "~~~\naaa\n```\n~~~\n", False),
    (124, "````\naaa\n```\n", True),
    (124, "````\naaa\n```\n``````\n", False),
    (125, "~~~~\naaa\n~~~\n", True),
    (125, "~~~~\naaa\n~~~\n~~~~\n", False),
    (126, "```", True),
    (127, "`````\n\n```\naaa", True),
    (129, "```\n\n  \n```\n", False),
    (130, "```\n```\n", False),
    (131, " ```\n aaa\naaa\n```\n", False),
    (135, "```\naaa\n  ```\n", False),
    (136, "   ```\naaa\n  ```\n", False),
    (138, "``` ```\naaa", False),
    (139, "~~~~~~\naaa\n~~~ ~~\n", True),
    (140, "foo\n```\nbar", True),
    (140, "foo\n```\nbar\n```\nbaz", False),
    (142, "```ruby\ndef foo(x)", True),
    (142, "```ruby\ndef foo(x)\n  return 3\nend\n```\n", False),
    (143, "~~~~    ruby startline=3 $%@#$\ndef foo(x)", True),
    (144, "````;\n````\n", False),
    (145, "``` aa ```\nfoo", False),
    (146, "~~~ aa ``` ~~~\nfoo", True),
    (147, "```\n``` aaa\n", True),
    (147, "```\n``` aaa\n```\n", False),
    (328, "`foo", True),
    (328, "`foo`", False),
    (329, "`` foo ` bar", True),
    (329, "`` foo ` bar ``", False),
    (330, "` ``", True),
    (330, "` `` `", False),
]


@pytest.mark.parametrize(("example", "text", "quoted"), COMMONMARK)
def test_a_place_is_code_where_commonmark_says_so(example: int, text: str, quoted: bool) -> None:
    for size in (*CHUNK_SIZES, len(text)):
        assert after(*cut(text, size)).quoted is quoted, (example, size)


@pytest.mark.parametrize(
    ("text", "quoted", "rule"),
    [
        ("`foo\nbar", False, "inline code never crosses a line break"),
        ("``\nfoo\n``\n", False, "nor does a run of two at a line start"),
        ("`foo``bar``", True, "a run that is open counts until one of its length comes"),
        ("> ```\n> a", True, "a fence may stand in a quotation"),
        ("> ```\n> a\n> ```\n", False, "and ends there"),
        ("1. - ```\n a", True, "or in a list"),
        ("      ```\na", True, "at any indentation"),
        ("word ```\na", False, "but not behind a word"),
        ("~~ ~~~\na", False, "nor behind another run"),
        ("~~~", True, "a run at the very end may be a fence"),
        ("~~", False, "two tildes are none"),
        ("a ~~~", False, "tildes are no inline code"),
        ("```\na\n``` ", True, "a closing fence may still turn out to be none"),
        ("```\na\n``` \t\n", False, "white space may follow it"),
        ("```\na\n```\r\n", False, "a carriage return is white space"),
        ("```\na\n``` x\n", True, "words may not"),
        ("```\na\n``` ```\n", True, "nor may another run"),
        ("```\na\nb ```\n", True, "and nothing but marks stands before it"),
    ],
)
def test_a_place_is_code_where_contract_rule_3_says_so(text: str, quoted: bool, rule: str) -> None:
    for size in (*CHUNK_SIZES, len(text)):
        assert after(*cut(text, size)).quoted is quoted, (rule, size)


MARKS = re.compile(r"[\s>*+\-\d.)]*")
RUN = re.compile(r"`+|~+")


def oracle(text: str) -> bool:
    """Whether the end of `text` is code: one line at a time, a fence held over lines, runs counted on the last."""
    *lines, last = text.split("\n")
    fence = ""
    for line in lines:
        body = line[MARKS.match(line).end() :]
        run = RUN.match(body)
        rest = body[run.end() :] if run else ""
        if fence:
            closes = run and run[0][0] == fence[0] and len(run[0]) >= len(fence) and not rest.strip()
            fence = "" if closes else fence
        elif run and len(run[0]) >= 3 and not (run[0][0] == "`" and "`" in rest):
            fence = run[0]
    body = last[MARKS.match(last).end() :]
    run = RUN.match(body)
    opens = run and len(run[0]) >= 3 and not (run[0][0] == "`" and "`" in body[run.end() :])
    if fence or opens:
        return True
    open_run = 0
    for ticks in map(len, re.findall("`+", last)):
        open_run = ticks if not open_run else 0 if open_run == ticks else open_run
    return bool(open_run)


ATOMS = ["`", "``", "```", "~", "~~~", "\n", " ", "a", "> ", "- ", "\n```\n", "\n~~~~"]
LIKELY = st.lists(st.sampled_from(ATOMS), max_size=24)


@given(LIKELY.map("".join))
def test_the_oracle_by_lines_agrees_at_every_place_and_chunking(text: str) -> None:
    for end in range(len(text) + 1):
        assert after(text[:end]).quoted is oracle(text[:end]), text[:end]
        assert after(*text[:end]).quoted is oracle(text[:end]), text[:end]


@given(LIKELY.map("".join), st.lists(st.integers(0, 60)))
def test_asking_changes_nothing(text: str, places: list[int]) -> None:
    asked = Quoting()
    for start, end in pairwise([0, *sorted(min(place, len(text)) for place in places), len(text)]):
        asked.pieces.append(text[start:end])
        answers = asked.quoted, asked.line_start, asked.mid_sentence
        fresh = after(text[:end])
        assert answers == (fresh.quoted, fresh.line_start, fresh.mid_sentence), text[:end]


def test_a_closing_fence_that_words_follow_in_a_later_piece_closes_nothing() -> None:
    quoting = after("```\na\n``` ")
    assert quoting.quoted
    quoting.pieces.append("x\nb")
    assert quoting.quoted


@given(LIKELY.map("".join), st.lists(st.integers(0, 60)))
def test_folding_at_any_place_changes_nothing_and_keeps_nothing(text: str, places: list[int]) -> None:
    folded = Quoting()
    for start, end in pairwise([0, *sorted(min(place, len(text)) for place in places), len(text)]):
        folded.pieces.append(text[start:end])
        folded.fold()
        assert folded.pieces == []
    assert folded.quoted is oracle(text)


@pytest.mark.parametrize(
    ("text", "line_start"),
    [("", True), ("a\n", True), ("a\n \t", True), ("a", False), ("> ", False), ("a\n`", False), ("a\n` \n", True)],
)
def test_a_line_starts_where_only_white_space_stands_before_on_it(text: str, line_start: bool) -> None:
    assert after(text).line_start is line_start
    assert after(*text).line_start is line_start


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        *((f"the{character}", True) for character in " \t\"'(“‘«„[*_"),
        *((f"the{character}", False) for character in "e.!?)”’»]`。"),
        ("", False),
        ("a\n", False),
        ("a\n  ", False),
        ("a\n- ", True),
    ],
)
def test_a_mention_stands_behind_a_blank_a_bracket_or_an_opening_quotation_mark(text: str, mention: bool) -> None:
    assert after(text).mid_sentence is mention
    assert after(*text).mid_sentence is mention


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        *((f"the{character}", True) for character in "e9ёé.!?)”’»]}`。！😀"),
        *((f"the{character}", False) for character in " \t\"'(“‘«„[*_,;:/=|<，：、（「四あไ가"),
        ("", False),
        ("a\n", False),
        ("a\n  ", False),
    ],
)
def test_a_word_or_a_sentence_ends_where_no_mention_would_begin(text: str, ends: bool) -> None:
    assert after(text).word_end is ends
    assert after(*text).word_end is ends


@pytest.mark.parametrize(("text", "closing"), [('say "', '"'), ("say “", "”"), ("„", "“"), ("a", ""), ("", "")])
def test_the_quotation_mark_right_before_a_place_has_its_partner(text: str, closing: str) -> None:
    assert after(text).open_quote == closing


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("a\n> b", True),
        ("> a\nb", False),
        ('a "b', True),
        ('a "b\n', False),
        ('a `"` b', False),  # in code a mark is code
        ("```\n> a", False),
        ("```\n> a\n```\n> b", True),
        ('`a`"', True),
        ('a`"`"', True),
    ],
)
def test_a_place_is_cited_in_a_block_quote_or_in_quotation_marks_of_its_line(text: str, cited: bool) -> None:
    for size in (*CHUNK_SIZES, len(text)):
        assert after(*cut(text, size)).cited is cited
        asked = Quoting()
        for piece in cut(text, size):
            asked.pieces.append(piece)
            asked.fold()
        assert asked.cited is cited


@pytest.mark.parametrize(
    ("text", "ends"), [("Done.", True), ("完了。", True), ("Done. ", False), ("Done", False), ("", False)]
)
def test_a_sentence_ends_behind_its_last_sign(text: str, ends: bool) -> None:
    assert after(text).sentence_end is ends
