"""Calls written as a name and an object. The texts are those of the engines' parsers (vLLM 0.33.0, SGLang 0.5.23),
mistral-common 1.13.1 (`[CALL_ID]`, tokenizer v11) and their tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.calls.call import NAME_CAP, Status
from gateway.streams.calls.named_body import NamedBody
from tests.support.bodies import led, pieces, read, same_at_every_cut

KIMI_K2 = NamedBody(
    open=("<|tool_call_begin|>",),
    name=r"(?:functions\.)?(?P<name>[\w.-]+?)(?::(?P<ident>\d+))?",
    separator=("<|tool_call_argument_begin|>",),
    close=("<|tool_call_end|>",),
)
DEEPSEEK_V3 = NamedBody(
    open=("<｜tool▁call▁begin｜>function<｜tool▁sep｜>",),
    name=r"(?P<name>[\w.-]+)",
    separator=("\n```json\n",),
    close=("\n```<｜tool▁call▁end｜>",),
)
DEEPSEEK_V31 = NamedBody(
    open=("<｜tool▁call▁begin｜>",),
    name=r"(?P<name>[\w.-]+)",
    separator=("<｜tool▁sep｜>",),
    close=("<｜tool▁call▁end｜>",),
)
MISTRAL = NamedBody(name=r"(?P<name>[\w.-]+?)(?:\[CALL_ID\]\w+)?", separator=("[ARGS]", ""))
PLAMO3 = NamedBody(
    open=("<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>",),
    name=r"(?P<name>[\w.-]+)",
    separator=(
        "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>",
    ),
    close=("<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",),
)
PARIS = '{"city": "Paris", "days": 3}'
MARKUP = r'{"city": "if a < b && c > d: \"q\" \\n </x>", "days": 3}'
CLOSERS = r'{"a": "<|tool_call_end|>\n```<｜tool▁call▁end｜>}", "b": "[TOOL_CALLS]g{}"}'


def call(
    name: str, arguments: str, *, ident: str | None = None, repaired: bool = False, closed: bool = True
) -> tuple[object, ...]:
    """A call as the driver tells it."""
    return name, ident, arguments, (), repaired, closed


def kimi(written: str, arguments: str) -> str:
    return f"<|tool_call_begin|>{written}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def v3(arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


def v31(arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>f<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


def plamo(arguments: str) -> str:
    return PLAMO3.begin[0] + "f" + PLAMO3.separator[0] + arguments + PLAMO3.close[0]


@pytest.mark.parametrize("arguments", [PARIS, MARKUP, CLOSERS, "{}", '{\n  "x": 1,\n  "y": [\n    {}\n  ]\n}'])
@pytest.mark.parametrize(
    ("body", "write"),
    [
        (DEEPSEEK_V3, v3),
        (DEEPSEEK_V31, v31),
        (PLAMO3, plamo),
        (MISTRAL, "f[ARGS]{}".format),
        (MISTRAL, "f{}".format),
        (MISTRAL, "f[CALL_ID]Xy3456789[ARGS]{}".format),
        (KIMI_K2, lambda arguments: kimi("f", arguments)),
    ],
    ids=["deepseek_v3", "deepseek_v31", "plamo3", "mistral v13", "mistral v11", "mistral with id", "kimi_k2"],
)
def test_every_format_is_read_to_its_closer(body: NamedBody, write: Callable[[str], str], arguments: str) -> None:
    text = write(arguments)
    found = same_at_every_cut(body, text + "<x>{")
    assert (found.status, found.place, found.complete) == (Status.DONE, len(text), True)
    assert found.calls == (call("f", arguments),)
    assert led(body, text)


@pytest.mark.parametrize(
    ("written", "name", "ident"),
    [
        ("functions.get_weather:0", "get_weather", "functions.get_weather:0"),
        ("functions.get_weather:12\n", "get_weather", "functions.get_weather:12"),
        (" get_weather:0 ", "get_weather", "get_weather:0"),
        (
            "functions.mcp__portal__search-documents:0",
            "mcp__portal__search-documents",
            "functions.mcp__portal__search-documents:0",
        ),
        ("functions.a.b:1", "a.b", "functions.a.b:1"),
        ("functions.invalid.0 ", "invalid.0", None),
        ("functions.f", "f", None),
        ("f", "f", None),
    ],
)
def test_the_written_name_is_the_id_where_it_holds_a_number(written: str, name: str, ident: str | None) -> None:
    assert same_at_every_cut(KIMI_K2, kimi(written, PARIS)).calls == (call(name, PARIS, ident=ident),)


def test_a_name_that_the_expression_can_do_without_may_be_missing() -> None:
    body = NamedBody(open=("<c>",), name=r"(?P<name>[a-z]\w*)?:?(?P<ident>\d+)?", separator=("<a>",), close=("</c>",))
    for written, name, ident in (("7", "", "7"), ("", "", None), ("f:7", "f", "f:7")):
        found = same_at_every_cut(body, f"<c>{written}<a>{{}}</c>")
        assert found.calls == (call(name, "{}", ident=ident),)


def test_white_space_between_the_parts_is_free() -> None:
    text = "<｜tool▁call▁begin｜>function<｜tool▁sep｜> f \n\n ```json {} ```<｜tool▁call▁end｜>"
    found = same_at_every_cut(DEEPSEEK_V3, text)
    assert (found.status, found.place, found.calls) == (Status.DONE, len(text), (call("f", "{}"),))
    assert same_at_every_cut(MISTRAL, " f [ARGS] \n{}x").place == len(" f [ARGS] \n{}")


def test_the_longest_separator_and_the_first_one_count() -> None:
    body = NamedBody(name=r"(?P<name>\w+)", separator=("```", "```json", ""), close=("```",))
    for text in ("f```json{}```", "f```{}```", "f{}```", "f ```json\n{}\n```"):
        assert same_at_every_cut(body, text).calls == (call("f", "{}"),), text
    assert same_at_every_cut(body, "f```js{}```").status is Status.BROKEN


@pytest.mark.parametrize(
    ("body", "text", "place"),
    [
        (KIMI_K2, "<|tool_call_end|>", 0),
        (KIMI_K2, "<|tool_call_begin|>is what a call begins with", 19),
        (KIMI_K2, kimi("two words", PARIS), 19),
        (KIMI_K2, kimi("", PARIS), 19),
        (KIMI_K2, kimi("<b>", PARIS), 19),
        (KIMI_K2, kimi("f", "[1]"), 48),
        (KIMI_K2, kimi("f", " nothing"), 49),
        (KIMI_K2, kimi("f", "{x}"), 49),
        (KIMI_K2, kimi("f", '{"a": 1,}'), 56),
        (KIMI_K2, kimi("n" * (NAME_CAP + 1), PARIS), 19),
        (KIMI_K2, "<|tool_call_begin|>" + "n" * (NAME_CAP + 9), 19),
        (MISTRAL, "{}", 0),
        (MISTRAL, "f [ARGS] prose", 9),
        (MISTRAL, " is the marker {", 0),
    ],
)
def test_what_is_no_call_breaks_where_that_is_certain(body: NamedBody, text: str, place: int) -> None:
    found = same_at_every_cut(body, text)
    assert (found.status, found.place, found.complete) == (Status.BROKEN, place, False)


def test_a_name_breaks_as_soon_as_it_cannot_be_one() -> None:
    for text in ("<|tool_call_begin|>is w", "<|tool_call_begin|>\nis\tw", "<|tool_call_begin|>" + "n" * (NAME_CAP + 1)):
        assert read(KIMI_K2, [text]).status is Status.BROKEN
        assert read(KIMI_K2, [text[:-1]]).status is Status.OPEN


@pytest.mark.parametrize("body", [KIMI_K2, DEEPSEEK_V3, PLAMO3, MISTRAL])
def test_a_name_may_have_as_many_characters_as_the_cap_says(body: NamedBody) -> None:
    text = "".join(body.begin) + "n" * NAME_CAP + body.separator[0] + "{}"
    found = same_at_every_cut(body, text, hold=NAME_CAP + len(body.separator[0]) - 1)
    assert found.calls[0][:3] == ("n" * NAME_CAP, None, "{}")


@pytest.mark.parametrize(
    ("body", "text", "answer"),
    [
        (KIMI_K2, "<|tool_call_begin|>", True),
        (KIMI_K2, "<|tool_call_b", False),
        (KIMI_K2, "<|tool_calls", False),
        (KIMI_K2, "f", False),
        (MISTRAL, "f[ARGS]", True),
        (MISTRAL, "f{", True),
        (MISTRAL, "f \n{", True),
        (MISTRAL, "f[CALL_ID]x[ARGS]", True),
        (MISTRAL, "f", False),
        (MISTRAL, "", False),
        (MISTRAL, "{", False),
        (MISTRAL, "[{", False),
        (MISTRAL, "[TOOL_CALLS]", False),
        (MISTRAL, "is how", False),
        (MISTRAL, "f." * NAME_CAP, False),
    ],
)
def test_the_opener_leads_in_a_body_and_without_one_the_name_and_what_follows_it(
    body: NamedBody, text: str, answer: bool
) -> None:
    assert led(body, text) is answer


@pytest.mark.parametrize(
    "behind", ["<|tool_call_begin|>", "<|tool_calls_section_end|>", "<|tool_call_endx", "and then", "}"]
)
def test_a_missing_closer_is_a_repair_since_the_end_of_an_object_is_certain(behind: str) -> None:
    text = kimi("f:0", PARIS).removesuffix("<|tool_call_end|>")
    for space in ("", " \n"):
        found = same_at_every_cut(KIMI_K2, text + space + behind)
        assert (found.status, found.place) == (Status.DONE, len(text + space))
        assert found.calls == (call("f", PARIS, ident="f:0", repaired=True),)


@pytest.mark.parametrize("body", [KIMI_K2, DEEPSEEK_V3, PLAMO3])
def test_it_is_complete_from_the_last_bracket_on_and_open_until_the_closer_has_come(body: NamedBody) -> None:
    text = f"{body.begin[0]}f{body.separator[0]}{PARIS}\n{body.close[0]}"
    for size in range(len(text)):
        found = read(body, [text[:size]])
        assert (found.status, found.complete) == (Status.OPEN, size >= text.index(PARIS) + len(PARIS))
    assert found.calls == (call("f", PARIS, closed=False),)


def test_a_call_is_there_as_soon_as_its_name_is_known() -> None:
    reader = MISTRAL.open(until=())
    assert reader.read("f", 0, final=False) == 0 and not reader.calls
    assert reader.read("f[ARGS]", 0, final=False) == 7
    assert [(one.name, one.json, one.closed) for one in reader.calls] == [("f", [], False)]
    assert reader.read('{"a": ', 0, final=False) == 6
    assert reader.calls[0].json == ['{"a": ']


@pytest.mark.parametrize("size", [4, 4096])
def test_twice_the_argument_is_twice_the_work(size: int) -> None:
    def work(length: int) -> int:
        return read(KIMI_K2, pieces(kimi("f", '{"a": "' + "<|tool_" * (length // 7) + '"}'), size)).work

    assert work(200_000) <= 2.6 * work(100_000)
    assert work(100_000) <= 1.1 * 100_000


def test_formats_are_compared_by_what_they_say_and_a_bad_expression_is_an_error() -> None:
    def made(name: str) -> NamedBody:
        return NamedBody(open=("<c>",), name=name, separator=("\n```json\n",))

    assert made(r"(?P<name>\w+)") == made(r"(?P<name>\w+)")
    assert len({made(r"(?P<name>\w+)"), made(r"(?P<name>\w+)"), made(r"(?P<name>\d+)")}) == 2
    with pytest.raises(re.error):
        made("(")


NAME = st.from_regex(r"[A-Za-z_][\w-]{0,20}", fullmatch=True)
VALUE = st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text(), max_size=3), max_size=3)


@given(
    NAME, VALUE, st.lists(st.integers(1, 30), max_size=30), st.sampled_from([KIMI_K2, DEEPSEEK_V31, PLAMO3, MISTRAL])
)
def test_a_call_that_was_written_is_read_back_at_any_cut(
    name: str, value: dict[str, object], cuts: list[int], body: NamedBody
) -> None:
    begin, close = "".join(body.begin), "".join(body.close)
    text = begin + name + body.separator[0] + json.dumps(value) + close
    parts, rest = [], text + "<"
    for size in cuts:
        parts.append(rest[:size])
        rest = rest[size:]
    found = read(body, [*parts, rest])
    assert (found.status, found.place) == (Status.DONE, len(text))
    assert found.calls == (call(name, json.dumps(value)),)
