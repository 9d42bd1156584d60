"""The corpus made from a dialect's markers: what must be in it, with readings taken from contract rules 3 and 4."""

from __future__ import annotations

from dataclasses import replace

from gateway.rulebook.corpus import generated_samples
from gateway.rulebook.dialect import Dialect, Header, HeaderRule, Kind, Target, Thought, ToolRegion

TAG = Dialect(
    name="t",
    summary="",
    kind=Kind.TAG,
    aliases={},
    thoughts=(Thought(open=("<a>",), close=("</a>",)),),
    end_of_turn=("<e>",),
    regions=(ToolRegion(open=("<c>",), close=("</c>",), ends_thought=True), ToolRegion(open=("[C]",))),
)


def rows(dialect: Dialect) -> set[tuple[str, str, str, str]]:
    return {(s.raw, s.starts_in, s.reasoning, s.content) for s in generated_samples(dialect)}


def untouched(text: str) -> tuple[str, str, str, str]:
    return text, "content", "", text


def test_a_tag_dialect_yields_thoughts_endings_quotes_and_cuts() -> None:
    assert rows(TAG) == {
        ("plan</a>answer", "reasoning", "plan", "answer"),
        ("<a>plan</a>answer", "content", "plan", "answer"),
        ("answer<e>", "content", "", "answer"),
        untouched("Say `<a>` here."),
        untouched("Say `</a>` here."),
        *(untouched(f"answer{start}") for start in ("<", "<a", "</", "</a", "<e", "<c", "</c", "[", "[C")),
    }


def test_a_control_dialect_also_yields_wrappers_and_ends_of_messages() -> None:
    wrapper = replace(TAG, kind=Kind.CONTROL, answer_open=("<r>",), answer_close=("</r>",))
    made = rows(replace(wrapper, framing=("<f>",), message_close=("<m>",)))
    assert made >= {
        ("plan</a><r>answer</r>", "reasoning", "plan", "answer"),
        ("answer<f>", "content", "", "answer"),
        ("answer<m>", "content", "", "answer"),
    }


def test_a_suffixed_dialect_yields_thoughts_with_a_suffix_on_both_tags() -> None:
    made = rows(replace(TAG, suffixed=True))
    assert made - rows(TAG) == {("<a:6124c78e>plan</a:6124c78e>answer", "content", "plan", "answer")}


def test_what_the_engines_parser_writes_stands_before_every_thought() -> None:
    made = rows(replace(TAG, suffixed=True, invented=("<a>",)))
    assert made - rows(TAG) == {
        ("<a>answer", "content", "", "answer"),
        ("<a>plan</a>answer", "reasoning", "plan", "answer"),
        ("<a><a>plan</a>answer", "content", "plan", "answer"),
        ("<a><a:6124c78e>plan</a:6124c78e>answer", "content", "plan", "answer"),
    }


def test_a_special_token_is_dropped_in_the_middle_of_a_word() -> None:
    assert ("an<s>swer", "content", "", "answer") in rows(replace(TAG, special=("<s>",)))


def test_a_start_that_holds_a_whole_marker_is_not_called_untouched() -> None:
    made = rows(replace(TAG, thoughts=(Thought(open=("<a>x\n", "<a>"), close=("</a>",)),)))
    assert not any(row[0].startswith("answer<a>") for row in made)
    assert untouched("answer<a") in made


def test_a_header_dialect_yields_no_thoughts_but_its_openers_cut_short() -> None:
    header = Header(open=("<|h|>",), close="\n", rules=(HeaderRule(text="x", to=Target.REASONING),))
    region = ToolRegion(open=("<c>",), ends_thought=True)
    dialect = Dialect(name="h", summary="", kind=Kind.CONTROL, aliases={}, headers=(header,), regions=(region,))
    assert rows(dialect) == {untouched(f"answer{start}") for start in ("<", "<|", "<|h", "<|h|", "<c")}
