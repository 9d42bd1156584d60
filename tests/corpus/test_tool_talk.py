"""Answers that talk about tool syntax: on no route is one call made of them, and not one character changes.

Every route reads with everything enforced that may be. Each family, and each call format on its own; raw text, and
fields that the engine split. The request declares every tool that a text names, and holds none of the texts, so that
the echo guard does not help.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.rulebook.checks import markers_of
from gateway.rulebook.load import load_rulebook
from tests.corpus.talk import TOOLS, Text, quoted, routes, written
from tests.support.cases import Case, Got, plain, recut, rules, streamed

ROUTES = routes()
BOOK = load_rulebook()
SOURCES = ("fields", "text")
CUTS = (2, 7, 23)
SCHEMA = {"type": "object", "properties": {}}
REQUEST = {
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in TOOLS],
}


def case(route: str, source: str) -> Case:
    dialect, engine = ROUTES[route]
    common: dict[str, Any] = {"starts_in": "content", "request": REQUEST, "finish": "stop"}
    return {"dialect": dialect, "engine": engine, "source": source, **common}


def changed(text: str, got: Got) -> bool:
    """Is it another answer than the text? Of the findings only the one that lets text stay may be raised."""
    same = (got.reasoning, got.content, got.calls, got.finish, got.wrong) == ("", text, {}, "stop", [])
    return not same or bool(got.findings - {"tool_markup_leak"})


def read_wrongly(texts: list[Text], route: str, source: str) -> list[str]:
    """The texts that came out otherwise, whole or in pieces."""
    made = case(route, source)
    dialect = rules(made).dialect
    assert dialect is not None
    literals = [literal for _, literal in markers_of(dialect)]
    found = []
    for number, each in enumerate(texts):
        if (each.fields and source == "text") or each.but == route:
            continue
        answers = {"plain": plain(made, {"content": each.text})}
        if any(literal in each.text for literal in literals):  # else the reader sees no marker at any cut
            size = CUTS[number % len(CUTS)]
            answers[f"cut {size}"] = streamed(made, list(recut([{"content": each.text}], size)))
        found += [f"{each.id}, {way}: {got}" for way, got in answers.items() if changed(each.text, got)]
    return found


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("route", ROUTES)
def test_a_text_about_tool_syntax_is_no_call_and_stays_as_it_is(route: str, source: str) -> None:
    assert read_wrongly(list(written()), route, source) == []


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("route", [name for name in BOOK.calls if name in ROUTES or not BOOK.calls[name].aliases])
def test_a_sample_of_a_format_that_is_quoted_is_no_call_and_stays_as_it_is(route: str, source: str) -> None:
    reader = route if route in ROUTES else "generic"  # the family that reads what no engine claims
    assert read_wrongly(list(quoted(route, BOOK.calls[route])), reader, source) == []


def test_the_samples_are_calls_where_nothing_quotes_them() -> None:
    """Otherwise the test above would hold for a reader that reads nothing."""
    for name, form in BOOK.calls.items():
        made = case(name if name in ROUTES else "generic", "text")
        for sample in form.samples:
            assert plain(made, {"content": sample.raw}).calls, (name, sample.raw)


def test_there_are_texts_enough_and_each_has_a_name_of_its_own() -> None:
    names = [each.id for each in written()]
    assert len(names) == len(set(names)) >= 150
    named = [tool for tool in TOOLS if len(tool) > 1]
    assert [each.id for each in written() if not any(re.search(rf"\b{tool}\b", each.text) for tool in named)] == []
    assert sum(each.fields or each.but is not None for each in written()) <= len(names) // 8
