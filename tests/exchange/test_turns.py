"""Where an answer starts that goes on with the last assistant turn (contract rule 9; vllm.md 3.7, sglang.md 3.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.exchange.turns import INSIDE, PAST, Thinking, turn_says
from gateway.limits import Limits
from gateway.protocols.chat_request import chat_facts
from gateway.protocols.protocol import LastTurn
from tests.exchange.driver import DONE, Answer, delta, message, plain, route, streamed


def says(text: str, name: str = "think", *, engine: str = "auto", engines: tuple[str, ...] = (), **keys: Any) -> object:
    """What the turn that says `text` tells on a route of that dialect and engine."""
    facts = replace(chat_facts({}), last_turn=LastTurn(text=text, engines=engines))
    return turn_says(facts, replace(route(name, **keys), engine=engine))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "auto"])
@pytest.mark.parametrize(
    ("name", "text", "thinking"),
    [
        ("think", "<think>\nOkay, let's", INSIDE),  # SGLang #17065
        ("think", "<think>", INSIDE),
        ("think", "Let me solve this step by step.\n<think>", INSIDE),  # a prompt's last words
        ("think", "<think>\n\n</think>\n\nThe best answer is (", PAST),  # vLLM #32100, as Qwen3's template renders it
        ("think", "<think>a</think>", PAST),
        ("think", "a</think>b", None),  # a closer in the middle of a line is text
        ("minimax_append", "<think>Okay, let's", INSIDE),  # in an answer its opener would be the parser's own
        ("mistral", "[THINK]Okay", INSIDE),
        ("mistral", "[THINK]a[/THINK]b", PAST),
        ("kimi_k3", "<|open|>think<|sep|>Okay", INSIDE),
        ("kimi_k3", "<|open|>think<|sep|>a<|close|>think<|sep|>", PAST),
    ],
)
def test_a_turn_with_a_thought_tells_whether_it_is_over(
    name: str, text: str, thinking: Thinking | None, engine: str
) -> None:
    expected = thinking or (PAST if engine == "vllm" else None)
    assert says(text, name, engine=engine) == expected


@pytest.mark.parametrize(("engine", "thinking"), [("vllm", PAST), ("sglang", None), ("auto", None), ("other", None)])
@pytest.mark.parametrize("text", ["The best answer is (", '{"answer":', "the tag `<think>` is"])
def test_visible_text_alone_is_past_the_thought_where_the_engine_renders_the_turn(
    text: str, engine: str, thinking: Thinking | None
) -> None:
    assert says(text, engine=engine) == thinking


@pytest.mark.parametrize("text", ["", " \n", "<|im_end|>"])
def test_a_turn_that_says_nothing_visible_tells_nothing(text: str) -> None:
    assert says(text, engine="vllm") is None


def test_a_turn_tells_nothing_where_its_markers_are_not_known_or_it_is_too_long() -> None:
    text = "<think>a</think>b"
    assert says(text, "none") is None
    assert says("<|channel|>analysis<|message|>Okay", "harmony", engine="vllm") is None
    assert says(text, limits=Limits(last_turn=len(text))) == PAST
    assert says(text, limits=Limits(last_turn=len(text) - 1)) is None


def test_a_turn_tells_nothing_where_the_engine_does_not_go_on_with_it() -> None:
    told = [says("<think>a", engine=engine, engines=("vllm",)) for engine in ("vllm", "sglang", "auto")]
    assert told == [INSIDE, None, None]
    assert turn_says(chat_facts({}), route()) is None


# ---------------------------------------------------------------------- whole exchanges

ECHO = "So <think>x</think> it is </think>"


def both(
    turn: str, cut: int, *, echo: bool = False, source: str = "auto", finish: str = "stop", **fields: str
) -> list[Answer]:
    """The answer of vLLM to a request that ends with `turn`, streamed in deltas of `cut` characters, and plain."""
    rules = replace(route(source=source), engine="vllm")
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": turn}]
    request = {"messages": messages, "continue_final_message": True, "add_generation_prompt": False, "echo": echo}
    cuts = [(name, text[at : at + cut]) for name, text in fields.items() for at in range(0, len(text), cut)]
    deltas = [delta(role="assistant", content=""), *([delta(content=turn)] if echo else [])]
    deltas += [delta(**{name: piece}) for name, piece in cuts]
    whole = {**fields, "content": (turn if echo else "") + fields.get("content", "")}
    return [
        streamed([*deltas, delta(finish=finish), DONE], rules, request=request),
        plain(message(finish, **whole), rules, request=request),
    ]


@pytest.mark.parametrize("cut", range(1, 20))
@pytest.mark.parametrize(
    ("turn", "source", "fields", "said"),
    [
        # raw text that goes on in the thought, and behind it
        ("<think>Okay", "text", {"content": ", so</think>\n42."}, (", so", "\n42.")),
        ("<think>Okay</think>It is", "text", {"content": " 42."}, ("", " 42.")),
        ("The answer is", "text", {"content": " 42."}, ("", " 42.")),
        # no parser ran, or it did not see that the thought was open (SGLang #17065)
        ("Step by step.\n<think>", "auto", {"content": "Okay</think>42."}, ("Okay", "42.")),
        # a parser that starts in the thought takes the answer for it (vLLM #38749)
        ("The answer is", "auto", {"reasoning": " 42."}, ("", " 42.")),
        ("<think>Okay</think>It is", "auto", {"reasoning": " 42."}, ("", " 42.")),
        ("<think>Okay", "auto", {"reasoning": ", so", "content": "42."}, (", so", "42.")),
        ("<think>Okay", "auto", {"reasoning": ", so"}, (", so", "")),  # it thought to the end
        ("The answer is", "auto", {"content": " 42."}, ("", " 42.")),
    ],
)
def test_streamed_and_plain_go_on_with_the_turn_alike_at_every_cut(
    turn: str, source: str, fields: dict[str, str], said: tuple[str, str], cut: int
) -> None:
    assert [answer.said for answer in both(turn, cut, source=source, **fields)] == [said, said]


def test_an_answer_that_was_cut_is_not_promoted() -> None:
    for answer in both("The answer is", 2, finish="length", reasoning=" 42."):
        assert answer.said == (" 42.", "")


@pytest.mark.parametrize("cut", range(1, 20))
@pytest.mark.parametrize(
    ("source", "fields", "said"),
    [
        ("auto", {"content": "<think>t</think>42."}, ("t", "42.")),
        ("text", {"content": "<think>t</think>42."}, ("t", "42.")),
        ("auto", {"reasoning": " 42."}, ("", " 42.")),
        ("auto", {"content": " 42."}, ("", " 42.")),
    ],
)
def test_an_echoed_turn_is_not_read_and_the_answer_behind_it_is(
    source: str, fields: dict[str, str], said: tuple[str, str], cut: int
) -> None:
    for answer in both(ECHO, cut, echo=True, source=source, **fields):
        assert (answer.said, answer.uninspected) == ((said[0], ECHO + said[1]), {})


def test_an_echo_and_a_clean_answer_keep_their_bytes() -> None:
    reads = [
        delta(role="assistant", content=""),
        delta(content=ECHO),
        delta(content=" 42."),
        delta(finish="stop"),
        DONE,
    ]
    request = {"messages": [{"role": "assistant", "content": ECHO}], "echo": True}
    assert streamed(reads, request=request).body == b"".join(reads)


def test_an_answer_without_the_echo_that_was_asked_for_goes_out_as_it_came() -> None:
    reads = [delta(content="<think>t</think>42."), delta(finish="stop"), DONE]
    request = {"messages": [{"role": "assistant", "content": ECHO}], "echo": True}
    answer = streamed(reads, request=request)
    assert (answer.body, answer.uninspected, answer.findings) == (b"".join(reads), {"echo": 1}, {})


def test_every_choice_has_an_echo_of_its_own() -> None:
    request = {"messages": [{"role": "assistant", "content": ECHO}], "echo": True, "n": 2}
    reads = [delta(index=index, content=ECHO) for index in (0, 1)]
    reads += [delta(index=index, content=text) for text in ("<think>t", "</think>42.") for index in (1, 0)]
    answer = streamed([*reads, delta(finish="stop"), delta(index=1, finish="stop"), DONE], request=request)
    assert [answer.told(index) for index in (0, 1)] == [("t", ECHO + "42.")] * 2
