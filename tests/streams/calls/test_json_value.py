"""The end of a JSON value, against the standard library's parser and the examples of RFC 8259."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.calls.call import Status
from gateway.streams.calls.json_value import DEPTH_CAP, JsonValue

OPEN, DONE, BROKEN = Status.OPEN, Status.DONE, Status.BROKEN
Found = tuple[Status, int]


def read(parts: Iterable[str], *, final: bool = True) -> Found:
    """The status and the place in all of the text. At OPEN every character of it has been read."""
    value, gone = JsonValue(), 0
    for part in parts:
        at = value.read(part, 0, final=False)
        gone += at
        if value.status is not OPEN:
            return value.status, gone
        assert at == len(part)
    assert value.read("", 0, final=final) == 0
    return value.status, gone


# The two texts of RFC 8259 section 13.
IMAGE = """{
  "Image": {
      "Width":  800,
      "Height": 600,
      "Title":  "View from 15th Floor",
      "Thumbnail": {
          "Url":    "http://www.example.com/image/481989943",
          "Height": 125,
          "Width":  100
      },
      "Animated" : false,
      "IDs": [116, 943, 234, 38793]
    }
}"""
PLACES = """[
  {"precision": "zip", "Latitude": 37.7668, "Longitude": -122.3959, "Zip": "94107"},
  {"precision": "zip", "Latitude":  37.371991, "Longitude": -122.026020, "Zip": "94085"}
]"""


@pytest.mark.parametrize(
    "value",
    [
        IMAGE,
        PLACES,
        "{}",
        " \t\r\n[ ]",
        '{"a": [{}, [], "", {"b": null}], "c" : true , "d":false}',
        "[0, -0, 10, 1.5, -0.5e1, 1E+2, 2e-3, 0e0, 0.0E0]",
        '"plain"',
        r'"\" \\ \/ \b \u00e9 \ud83d\ude00 }]"',
        r'{"a\"": "}", "\\": "]"}',
        '"a line\nbreak\tand \x00"',
        r'"\d \ "',
        '"😀 日本"',
        "true",
        "null",
        "[" * DEPTH_CAP + "]" * DEPTH_CAP,
    ],
)
def test_a_value_ends_right_behind_its_last_character(value: str) -> None:
    for text in (value, value + " }]", value + '"', value + "x"):
        for parts in ([text], list(text)):
            assert read(parts) == (DONE, len(value))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hello", 0),
        ("{hello", 1),
        ("{'a': 1}", 1),
        ("{,", 1),
        ('{"a" 1', 5),
        ('{"a":,', 5),
        ('{"a": 1 "b"', 8),
        ('{"a": 1,}', 8),
        ('{"a": 1, 2', 9),
        ('{"a": 1]', 7),
        ("[1,]", 3),
        ("[1}", 2),
        ("[1 2", 3),
        ("[,", 1),
        ("[01", 2),
        ("[1.]", 3),
        ("[.5", 1),
        ("[+1", 1),
        ("[-]", 2),
        ("[-x", 2),
        ("[1e]", 3),
        ("[1e+]", 4),
        ("[1.5.", 4),
        ("[1ee", 3),
        ("[1e5e", 4),
        ("[NaN", 1),
        ("[Infinity", 1),
        ("[nan", 2),
        ("[tru]", 4),
        ("[True", 1),
        ("[truex", 5),
        ("[undefined", 1),
        ("// x", 0),
        ("}", 0),
        ("]", 0),
        ("[" * (DEPTH_CAP + 1), DEPTH_CAP),
        ('{"a":' * (DEPTH_CAP + 1), 5 * DEPTH_CAP),
    ],
)
def test_what_is_no_json_breaks_at_the_first_character_that_cannot_stand_there(text: str, place: int) -> None:
    assert read([text]) == (BROKEN, place)
    assert read(list(text)) == (BROKEN, place)
    assert read([text[:place]])[0] is not BROKEN


def test_every_truncation_is_open_and_the_last_character_ends_it() -> None:
    for size in range(len(IMAGE)):
        assert read([IMAGE[:size]]) == (OPEN, size)
    assert read([IMAGE]) == (DONE, len(IMAGE))


@pytest.mark.parametrize(
    ("text", "final", "status"),
    [
        ("12", False, OPEN),
        ("12", True, DONE),
        ("0", True, DONE),
        ("1.5", True, DONE),
        ("1e5", True, DONE),
        ("-", True, OPEN),
        ("1.", True, OPEN),
        ("[12", True, OPEN),
        ("tru", True, OPEN),
        ('"x', True, OPEN),
        ("", True, OPEN),
    ],
)
def test_the_end_of_all_text_ends_a_number_and_nothing_else(text: str, final: bool, status: Status) -> None:
    assert read([text], final=final) == (status, len(text))


def test_a_number_ends_before_what_is_no_part_of_it() -> None:
    for text in ("12 ", "12,", "12}", "12x", "0 ", "01", "1.5-", "1e5."):
        assert read([text]) == (DONE, len(text) - 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CONTAINER = st.lists(JSON, max_size=4) | st.dictionaries(st.text(), JSON, max_size=4)


@given(CONTAINER, st.booleans(), st.text(max_size=5), st.integers(1, 9))
def test_what_the_standard_library_writes_is_read_to_its_end(
    value: object, ascii_only: bool, more: str, size: int
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    parts = [(text + more)[at : at + size] for at in range(0, len(text + more), size)]
    assert read(parts) == (DONE, len(text))


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant)


@given(CONTAINER, st.data())
def test_a_damaged_value_ends_where_the_standard_parser_says_or_nowhere(value: object, data: st.DataObject) -> None:
    text = json.dumps(value)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.text('{}[]",: 01.eE+-truefalsn', max_size=2)) + text[at + 1 :]
    status, place = read([text])
    assert read(list(text)) == (status, place)
    if not text or text[0] not in '{["':
        return  # of a number the standard parser takes the beginning that is one
    try:
        end = DECODER.raw_decode(text)[1]
    except ValueError:
        assert status is not DONE or "\\" in text  # any character may stand behind a backslash
    else:
        assert (status, place) == (DONE, end)
