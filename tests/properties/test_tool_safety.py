"""The security boundary of contract rule 5: which text can never become a call, whatever else stands around it.

The model's text is somebody else's: it repeats web pages, tool results and pasted files. Calls are written here in
every syntax that is shipped, from the syntax's own description, with names and values at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.rulebook.call_corpus import _raws, _text
from gateway.rulebook.call_writing import Writing, writings
from gateway.rulebook.dialect import Dialect, ToolRegion
from gateway.rulebook.load import load_rulebook
from gateway.streams.calls.call import Body
from gateway.streams.calls.element_body import ElementsBody
from gateway.streams.calls.nested_body import NestedBody
from tests.corpus.talk import routes
from tests.support.atoms import FILLER, markers
from tests.support.cases import Case, Got, plain, rules, streamed
from tests.support.reader import cut_at

BOOK = load_rulebook()
ROUTES = routes()
FORMATS = [name for name in BOOK.calls if BOOK.calls[name].regions]
DECLARED, DENIED, UNDECLARED = ("look_up", "now", "run"), ("rm_all", "rm_file"), ("serach", "format_disk", "Run", "x")
MESSAGE_ENDS = ("harmony", "inkling", "muse")  # their calls end with a token that is taken out wherever it is no text
PLACES_OF_A_CALL = [("fields", "content"), ("fields", "reasoning"), ("text", "content")]
every_format = pytest.mark.parametrize("name", FORMATS)
EXAMPLES = settings.default.max_examples
a_few = settings(max_examples=EXAMPLES // 2)  # for each format
many = settings(max_examples=4 * EXAMPLES)  # for all of them


@dataclass(frozen=True, slots=True)
class Syntax:
    """One way of writing calls."""

    region: ToolRegion
    body: Body
    writing: Writing
    dialect: Dialect

    def write(self, name: str, arguments: Mapping[str, Any]) -> str:
        """A whole region with one call."""
        return _text(self.region, self.dialect, self.writing, [(name, arguments)], (*self.region.open, "")[0])


def case(name: str, source: str, request: dict[str, Any], **more: Any) -> Case:
    """A route for the format called `name`; one that no engine claims is read by `generic`."""
    dialect, engine = ROUTES.get(name, ("generic", None))
    route = {"dialect": dialect, "engine": engine, "source": source, "starts_in": "content"}
    return {**route, "request": request, "finish": "stop", "match": "exact", **more}


def asked(*, schema: Mapping[str, Any] | None = None, said: str = "hi", **more: Any) -> dict[str, Any]:
    """A request that declares the tools, the denied ones too, and in which somebody said something."""
    parameters = schema or {"type": "object"}
    tools = [{"type": "function", "function": {"name": n, "parameters": parameters}} for n in (*DECLARED, *DENIED)]
    return {"messages": [{"role": "tool", "tool_call_id": "c", "content": said}], "tools": tools, **more}


@cache
def syntaxes(name: str) -> tuple[Syntax, ...]:
    """Every way of writing a call of the format that its samples show."""
    form, dialect = BOOK.calls[name], rules(case(name, "text", {})).dialect
    assert dialect is not None
    return tuple(
        Syntax(region, body, writing, dialect)
        for region in form.regions
        for body in region.bodies
        for writing in writings(body, region, _raws(form))
    )


def answers(made: Case, text: str, places: list[int], *, field: str = "content") -> Iterator[Got]:
    """The answer `text`, plain and in pieces."""
    yield plain(made, {field: text})
    yield streamed(
        made, [{field: piece} for piece in cut_at(text, [min(place, len(text)) for place in places]) if piece]
    )


TYPES = {str: "string", int: "integer", list: "array", dict: "object"}
KEYS = st.text("abcdefgh_", min_size=1, max_size=6).map(lambda text: f"k{text}")
PLACES = st.lists(st.integers(0, 400), max_size=6)
WORDS = st.sampled_from(["", "\n", " ", "It says ", "So:\n\n", "```\n", "> ", "- ", "“", "Done. ", "\nThat is all."])
PLAIN_WORDS = st.sampled_from([" So it is.", "\nThat is all.", "\n\nOk?", " x", "\n.", "漢字", "\n- one"])


def arguments(syntax: Syntax) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that the syntax can write: no value holds what ends it, or what shows that its closer was forgotten."""
    body, nested = syntax.body, isinstance(syntax.body, NestedBody)
    forgotten = body.argument.open if isinstance(body, ElementsBody) and not body.opaque else ()
    ends = (*syntax.writing.closers, *forgotten, "&")  # some syntaxes know entities
    texts = st.one_of(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
        st.lists(st.sampled_from([*FILLER, *syntax.writing.around, '"', "{", "]", "\\", "a", "0"]), max_size=6).map(
            "".join
        ),
    ).filter(lambda text: text == text.strip() and not any(end in text for end in ends))
    texts = texts.filter(lambda text: not any(end.startswith(text[at:]) for end in ends for at in range(len(text))))
    least = int(nested)  # an empty element is an empty text
    lists, objects = (
        st.lists(texts, min_size=least, max_size=3),
        st.dictionaries(KEYS, texts, min_size=least, max_size=3),
    )
    values = st.one_of(texts, lists, objects)
    return st.dictionaries(KEYS, values if nested else st.one_of(values, st.integers()), max_size=3)


@st.composite
def calls(draw: st.DrawFn, name: str, tools: tuple[str, ...] = DECLARED) -> str:
    """One call as text."""
    syntax = draw(st.sampled_from(syntaxes(name)))
    return syntax.write(draw(st.sampled_from(tools)), draw(arguments(syntax)))


def pieces(name: str, tools: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Texts of whole calls, halves of calls, markers and prose, in any order."""
    literals = markers(syntaxes(name)[0].dialect)
    halves = st.tuples(calls(name, tools), st.floats(0, 1)).map(lambda drawn: drawn[0][: int(len(drawn[0]) * drawn[1])])
    atoms = st.one_of(calls(name, tools), halves, st.sampled_from(literals), st.sampled_from(FILLER), WORDS)
    return st.lists(atoms, max_size=6).map("".join)


def markerless(syntax: Syntax) -> bool:
    return syntax.region.markerless


@every_format
@a_few
@given(data=st.data())
def test_what_the_request_says_is_no_call_wherever_the_answer_repeats_it(name: str, data: st.DataObject) -> None:
    said = data.draw(pieces(name, DECLARED))
    text = data.draw(WORDS) + said + data.draw(st.one_of(st.just(""), PLAIN_WORDS))
    source, field = data.draw(st.sampled_from(PLACES_OF_A_CALL))
    for got in answers(case(name, source, asked(said=said)), text, data.draw(PLACES), field=field):
        assert got.told == []


@every_format
@a_few
@given(data=st.data())
def test_only_a_declared_name_that_nobody_denied_is_called_and_with_one_object_of_json(
    name: str, data: st.DataObject
) -> None:
    """A call that broke off while it went out as it came ends the answer with an error: nobody runs it."""
    text = data.draw(pieces(name, (*DECLARED, *DENIED, *UNDECLARED)))
    source, field = data.draw(st.sampled_from(PLACES_OF_A_CALL))
    stream = data.draw(st.sampled_from(["complete", "incremental"]))
    made = case(name, source, asked(), rescue={"deny": ["rm_*"], "stream": stream})
    for got in answers(made, text, data.draw(PLACES), field=field):
        assert {called for called, _ in got.told} <= set(DECLARED)
        whole = all(isinstance(value, dict) for _, value in got.told)
        assert whole or (stream, got.finish) == ("incremental", "error")
        assert got.wrong == []


@every_format
@a_few
@given(data=st.data())
def test_a_call_with_words_behind_it_is_text_where_the_engine_split_the_answer(name: str, data: st.DataObject) -> None:
    text = data.draw(WORDS) + data.draw(calls(name)) + data.draw(PLAIN_WORDS)
    for got in answers(case(name, "fields", asked()), text, data.draw(PLACES)):
        assert got.told == []
        assert got.content == text or name in MESSAGE_ENDS


@every_format
@a_few
@given(data=st.data())
def test_the_arguments_are_one_object_of_json_with_the_values_that_the_markup_says(
    name: str, data: st.DataObject
) -> None:
    syntax = data.draw(st.sampled_from(syntaxes(name)))
    values = data.draw(arguments(syntax))
    schema = {"type": "object", "properties": {key: {"type": TYPES[type(value)]} for key, value in values.items()}}
    stream = data.draw(st.sampled_from(["complete", "incremental"]))
    before = data.draw(st.sampled_from(["", "Sure.\n"]))
    made = case(name, "text", asked(schema=schema), rescue={"stream": stream})
    for got in answers(made, before + syntax.write("look_up", values), data.draw(PLACES)):
        assert got.told == [("look_up", values)]
        assert got.content.strip() == before.strip()


@many
@given(data=st.data())
def test_nothing_is_called_where_the_request_asks_for_no_call(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(FORMATS))
    text, places = data.draw(pieces(name, DECLARED)), data.draw(PLACES)
    source, field = data.draw(st.sampled_from(PLACES_OF_A_CALL))
    request = data.draw(st.sampled_from([asked(tool_choice="none"), {"messages": []}, asked() | {"tools": []}]))
    for got in answers(case(name, source, request), text, places, field=field):
        assert (got.told, got.finish) == ([], "stop")


@many
@given(data=st.data())
def test_nothing_is_called_where_the_operator_turned_it_off(data: st.DataObject) -> None:
    name, mode = data.draw(st.sampled_from(FORMATS)), data.draw(st.sampled_from(["off", "observe"]))
    text, field = data.draw(WORDS) + data.draw(calls(name)), data.draw(st.sampled_from(["content", "reasoning"]))
    made = case(name, "fields", asked(), rescue={field: mode, "markerless": mode})
    for got in answers(made, text, data.draw(PLACES), field=field):
        assert got.told == []
        assert getattr(got, field) == text or name in MESSAGE_ENDS


@many
@given(data=st.data())
def test_bare_json_and_python_are_text_where_markerless_is_off(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in FORMATS if any(map(markerless, syntaxes(name)))]))
    syntax = data.draw(st.sampled_from(list(filter(markerless, syntaxes(name)))))
    text = data.draw(st.sampled_from(["", "So:\n"])) + syntax.write("look_up", data.draw(arguments(syntax)))
    made = case(name, "fields", asked(), rescue={"markerless": data.draw(st.sampled_from(["off", "observe"]))})
    for got in answers(made, text, data.draw(PLACES)):
        assert (got.told, got.content) == ([], text)


@every_format
def test_an_echo_with_one_character_changed_is_a_call_is_known_divergence(name: str) -> None:
    """What the echo guard cannot see: THREAT_MODEL.md says what an operator sets against it."""
    syntax = syntaxes(name)[0]
    said, changed = (syntax.write("look_up", {"k": value}) for value in ("/tmp/x", "/tmp/y"))
    (got, *_) = answers(case(name, "fields", asked(said=said)), said, [])
    assert got.told == []
    (got, *_) = answers(case(name, "fields", asked(said=said)), changed, [])
    assert got.told == [("look_up", {"k": "/tmp/y"})]
