"""Which regular expressions are lists of literals. Patterns of checkpoints: TRL 1.16 and SGLang 0.5.23 (`beam`)."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.rulebook.literals import MOST, Literals, literals


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"</think>\s*", Literals(("</think>",), blanks=True)),
        (r"\s*?<a>", Literals(("<a>",), blanks=True)),
        (r"\s?<a>", Literals(("<a>",), blanks=True)),
        (r"<\|start\|>assistant", Literals(("<|start|>assistant",))),
        (r"<\|user\|>\s*|$", Literals(("<|user|>",), blanks=True, at_end=True)),
        (
            r"(?:<turn\|>|<\|tool_response>|<eos>)\s*|\Z",
            Literals(("<turn|>", "<|tool_response>", "<eos>"), blanks=True, at_end=True),
        ),
        (r"\)(?:\]<\|tool_call_end\|>)?\s*", Literals((")]<|tool_call_end|>", ")"), blanks=True)),
        (r"<think>\n?", Literals(("<think>\n", "<think>"))),
        (r"a\r\tb", Literals(("a\r\tb",))),
        ("<｜end▁of▁sentence｜>", Literals(("<｜end▁of▁sentence｜>",))),
        ("$", Literals((), at_end=True)),
        ("a|a", Literals(("a",))),
    ],
)
def test_a_list_in_disguise_is_found(pattern: str, found: Literals) -> None:
    assert literals(pattern) == found


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=[\s\S]*?</think>)",
        r"<tool_call>\s*<function=(?P<name>[^\n>]+)>",
        r"commentary\s+json",
        r"<a>\s+",
        r" to=(?P<name>[^\s<]+)",
        "a*",
        "[ab]",
        r"\d",
        "^a",
        "a.",
        "a??",
        "?",
        "a$",
        "(?:$)?",
        "(?:a",
        "a)",
        "a(b)",
        "\\",
        "a\0",
        "",
        r"\s*",
        "(?:)",
        "a?",
        "a|",
        "a|ab",  # the shorter one is preferred
    ],
)
def test_every_other_pattern_is_none(pattern: str) -> None:
    assert literals(pattern) is None


def test_a_pattern_of_too_many_literals_is_none() -> None:
    assert len(literals("(?:a|b)" * 6).texts) == MOST  # type: ignore[union-attr]
    assert literals("(?:a|b)" * 7) is None


def grouped(patterns: list[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


LISTS = st.recursive(
    st.sampled_from(["a", "b", r"\|", "ab", "ba"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(grouped),
        inner.map(lambda pattern: f"(?:{pattern})?"),
    ),
    max_leaves=5,
)


@given(before=st.sampled_from(["", r"\s*"]), marker=LISTS, behind=st.sampled_from(["", r"\s*", "|$"]), data=st.data())
def test_a_list_matches_where_its_pattern_does(before: str, marker: str, behind: str, data: st.DataObject) -> None:
    """Both find the same first marker. White space around it is no part of the comparison, nor is the end alone."""
    pattern = f"{before}{marker}{behind}"
    found = literals(pattern)
    assume(found is not None)
    assert found is not None
    text = data.draw(st.lists(st.sampled_from([*found.texts, "a", "b", "|", "\n", " "]), max_size=8).map("".join))
    listed = re.search("|".join(map(re.escape, found.texts)), text)
    own = next((match for match in re.finditer(pattern, text) if match[0].strip()), None)
    assert (own and own[0].strip()) == (listed and listed[0])
