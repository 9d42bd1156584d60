"""The pipeline of an answer read from its tokens: marks go no further than the reader, the stop string goes.

`*` stands for the mark of a token that is a marker.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.events import CALL, CONTENT, REASONING, ToolCall
from gateway.integrity.outlet import Piece
from gateway.integrity.tally import Tally
from gateway.integrity.tokens import TokenPipeline
from gateway.rulebook.compile import compile_dialect
from gateway.streams.tokens import STRUCTURAL
from tests.integrity.settings import setting, tooling
from tests.support.reader import dialect
from tests.support.tagged import EVERYTHING

ATOMS = frozenset({"<think>", "</think>", "<tool_call>", "</tool_call>"})
ENDED = {"stopped": True, "length": False, "promotable": True, "stop_string": False, "looped": False}
STOPPED = ENDED | {"stop_string": True}


def pipeline(*stops: str, keeps: bool = False, **changes: object) -> TokenPipeline:
    read = dialect({"reasoning": "qwen3", "tools": "hermes"})
    made = replace(setting("tagged", raw=True, **changes), grammar=compile_dialect(read, ATOMS))
    return TokenPipeline(made, Tally(made.policy), stops=stops, keeps=keeps)


def push(made: TokenPipeline, *texts: str) -> list[list[Piece] | None]:
    return [made.push("", text.replace("*", STRUCTURAL)) for text in texts]


def test_what_comes_out_has_no_marks_and_a_plain_delta_goes_as_it_came() -> None:
    made = pipeline()
    assert push(made, "*<think>", "a </think>", "*</think>b", "c") == [
        [], [(REASONING, "a </think>")], [(CONTENT, "b")], None,
    ]  # fmt: skip
    assert made.finish(**ENDED) == []


def test_a_token_that_stays_text_is_told_without_its_mark() -> None:
    made = pipeline()
    out = push(made, "*<think>a *<think> b*</think>c")
    assert out == [[(REASONING, "a <think> b"), (CONTENT, "c")]]


def test_a_stray_closer_is_counted_without_its_mark() -> None:
    made = pipeline()
    push(made, "a*</think>b")
    made.finish(**ENDED)
    assert [row["marker"] for row in made._tally.report()] == ["</think>"]


def test_calls_have_no_marks_in_their_values() -> None:
    made = pipeline(takes=EVERYTHING, tooling=tooling("f", "g"))
    out = push(made, '*<tool_call>{"name": "f", "arguments": {"a": "*</think>"}}*</tool_call>')
    assert out == [[(CALL, ToolCall("f", '{"a": "</think>"}', None))]]
    assert made.finish(**ENDED) == []


@pytest.mark.parametrize(
    ("keeps", "fired", "content"),
    [(False, True, "b"), (True, True, "bEND"), (False, False, "bENDx")],
)
def test_the_stop_string_is_cut_off_the_end_where_it_fired(keeps: bool, fired: bool, content: str) -> None:
    made = pipeline("END", keeps=keeps)
    out = push(made, "*<think>a*</think>b", "EN", "Dx")
    assert made.holding == "stop"
    end = made.finish(**(STOPPED if fired else ENDED))
    said = [piece for pieces in out for piece in pieces or ()] + end
    assert said[0] == (REASONING, "a")
    assert "".join(str(text) for channel, text in said if channel == CONTENT) == content
    assert made.holding is None


def test_a_delta_of_which_nothing_was_held_goes_as_it_came() -> None:
    made = pipeline("END")
    assert push(made, "b", "c E", "d") == [None, [(CONTENT, "c ")], [(CONTENT, "Ed")]]
    assert push(made, "e") == [None]


@pytest.mark.parametrize("read", [True, False])
def test_what_is_held_goes_out_when_the_answer_breaks_off(read: bool) -> None:
    made = pipeline("END")
    push(made, "b", "<", "E", "N")
    assert "".join(str(said) for _, said in made.release(read=read)) == "<EN"
    assert pipeline().release(read=read) == []
