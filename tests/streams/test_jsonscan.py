"""JSON spliced in place: values as asked, every other byte kept, checked against `json` and against known spans."""

from __future__ import annotations

import gc
import json
import math
import time
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.streams.jsonscan import (
    DROP,
    MAX_DEPTH,
    Changes,
    copy_member,
    edit,
    encode_string,
    items,
    loads,
    member,
    only_member,
    swap,
)

CHUNK = (
    b'{"id":"c","created":1700000000, "choices" : [ {"index":0,"delta":{"content":"4\\u0032.</th\\"i"},'
    b'"logprobs":null,"x":1.50e+3}],"u":{"n":12345678901234567890123}}'
)

# --- documents as bytes, with white space and spellings that a re-encoding would lose

SPACE = st.sampled_from([b"", b"", b" ", b"\n\t", b"\r\n "])
NAMES = st.sampled_from(["a", "b", "", 'q"', "\\", "é", "\ud83d", "😀", "{", "]"])
LEAVES = st.one_of(
    st.sampled_from([b"null", b"true", b"false", b"0", b"-0", b"1.50", b"1E+2", b"12345678901234567890123"]),
    st.sampled_from([b'"\\/\\u0041"', b'"\\ud83d"']),
    st.text().map(json.dumps).map(str.encode),
    st.sampled_from(['"{"', '"]"', '"\\\\"', '"\\""', '"a\\"b:"', '"é,"']).map(str.encode),
)


@st.composite
def spelt(draw: st.DrawFn, name: str) -> bytes:
    """A name, as it is or in escapes."""
    escaped = json.dumps(name)
    return escaped.encode() if draw(st.booleans()) else encode_string(name)


@st.composite
def arrays(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> bytes:
    items = [draw(SPACE) + item + draw(SPACE) for item in draw(st.lists(values, max_size=3))]
    return b"[" + (b",".join(items) or draw(SPACE)) + b"]"


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> bytes:
    members = [
        draw(SPACE) + draw(spelt(draw(NAMES))) + draw(SPACE) + b":" + draw(SPACE) + value + draw(SPACE)
        for value in draw(st.lists(values, max_size=4))
    ]
    return b"{" + (b",".join(members) or draw(SPACE)) + b"}"


DOCUMENTS = st.recursive(LEAVES, lambda values: arrays(values) | objects(values), max_leaves=12)


@st.composite
def holes(draw: st.DrawFn) -> tuple[bytes, tuple[str | int, ...], bytes]:
    """What stands before a value, the path to it, and what stands behind it. Names before it may be its own."""
    before, path, behind = b"", (), b""
    for _ in range(draw(st.integers(1, 7))):
        siblings = draw(st.lists(DOCUMENTS, max_size=2))
        if draw(st.booleans()):
            head = b"".join(draw(SPACE) + item + draw(SPACE) + b"," for item in siblings)
            before = b"[" + head + draw(SPACE) + before
            path = (len(siblings), *path)
            behind += draw(SPACE) + draw(st.sampled_from([b"]", b',"t"]']))
        else:
            name = draw(NAMES)
            head = b"".join(draw(spelt(draw(NAMES))) + b":" + item + draw(SPACE) + b"," for item in siblings)
            before = b"{" + head + draw(SPACE) + draw(spelt(name)) + draw(SPACE) + b":" + draw(SPACE) + before
            path = (name, *path)
            behind += draw(SPACE) + draw(st.sampled_from([b"}", b' ,"tail" :{"a":[]}}']))
    return draw(SPACE) + before, path, behind + draw(SPACE)


def exact(raw: bytes) -> Any:
    """The value with every number as it is written."""
    return json.loads(raw.decode(), parse_int=str, parse_float=str)


def at_path(path: tuple[str | int, ...], change: Any) -> Any:
    for step in reversed(path):
        change = {step: change}
    return change


# --- spans and edits


@given(holes(), DOCUMENTS, st.sampled_from([b"1", b'"new"', b"{}"]))
def test_a_replaced_value_leaves_every_byte_around_it(
    hole: tuple[bytes, tuple[str | int, ...], bytes], old: bytes, new: bytes
) -> None:
    before, path, behind = hole
    raw = before + old + behind
    assert member(raw, path) == (len(before), len(before) + len(old))
    assert edit(raw, at_path(path, new)) == before + new + behind


@st.composite
def changes_of(draw: st.DrawFn, value: Any) -> tuple[dict[Any, Any], Any]:
    """Changes that fit `value`, and what they make of it, by way of Python objects."""
    changes: dict[Any, Any] = {}
    wanted = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    absent = draw(st.lists(st.sampled_from(["a", "new", "z\ud83d"]), unique=True)) if isinstance(value, dict) else []
    for key in [*wanted, *(name for name in absent if name not in wanted)]:
        action = draw(st.sampled_from(["keep", "set", "drop", "inside"]))
        if action == "set":
            changes[key], wanted[key] = b'["n"]', ["n"]
        elif action == "drop":
            changes[key] = DROP
            wanted.pop(key, None)
        elif action == "inside" and isinstance(wanted.get(key), dict | list):
            changes[key], wanted[key] = draw(changes_of(wanted[key]))
    return changes, wanted if isinstance(value, dict) else [wanted[i] for i in sorted(wanted)]


@given((arrays(DOCUMENTS) | objects(DOCUMENTS)), st.data())
def test_any_set_of_changes_gives_what_python_objects_give(raw: bytes, data: st.DataObject) -> None:
    changes, wanted = data.draw(changes_of(exact(raw)))
    assert exact(edit(raw, changes)) == wanted


@pytest.mark.parametrize(
    ("raw", "changes", "result"),
    [
        (b'{"a":1,"b":2}', {"a": DROP}, b'{"b":2}'),
        (b'{"a":1,"b":2}', {"b": DROP}, b'{"a":1}'),
        (b'{"a":1,"b":2,"c":3}', {"a": DROP, "b": DROP}, b'{"c":3}'),
        (b'{"a":1,"b":2,"c":3}', {"b": DROP, "c": DROP}, b'{"a":1}'),
        (b'{"a":1 , "b":2, "c":3}', {"b": DROP}, b'{"a":1, "c":3}'),
        (b'{ "a":1, "b":2 }', {"a": DROP, "b": DROP}, b"{  }"),
        (b'{"a":1}', {"b": DROP}, b'{"a":1}'),
        (b'{"a":1 }', {"b": b"2"}, b'{"a":1,"b":2 }'),
        (b"{ }", {"b": b"2", "c": b"3"}, b'{"b":2,"c":3 }'),
        (b'{"a":1}', {"a": DROP, "b": b"2"}, b'{"b":2}'),
        (b'{"a":1,"a":2}', {"a": b"3"}, b'{"a":1,"a":3}'),
        (b'{"a":1,"b":0,"a":2}', {"a": DROP}, b'{"b":0}'),
        (b'{"\\u0061":1}', {"a": b"2"}, b'{"\\u0061":2}'),
        (b"[1, 2,3]", {1: DROP}, b"[1,3]"),
        (b"[1]", {0: DROP}, b"[]"),
        (b"[[1],[2]]", {0: {0: b"9"}, 1: {0: DROP}}, b"[[9],[]]"),
        (b' {"a":{}} ', {"a": {"b": b"1"}, "c": b"2"}, b' {"a":{"b":1},"c":2} '),
    ],
)
def test_members_come_and_go_with_one_comma(raw: bytes, changes: Changes, result: bytes) -> None:
    assert edit(raw, changes) == result


@pytest.mark.parametrize("changes", [{}, {"nope": DROP}, {"choices": {0: {"delta": {}}}}])
def test_an_edit_that_changes_nothing_returns_the_same_object(changes: Changes) -> None:
    assert edit(CHUNK, changes) is CHUNK


@pytest.mark.parametrize(
    "changes",
    [
        {"missing": {"a": b"1"}},
        {"id": {"a": b"1"}},
        {"id": {0: b"1"}},
        {"choices": {"a": b"1"}},
        {"choices": {1: b"1"}},
        {"choices": {1: DROP}},
        {"choices": {1: {}}},
        {"choices": {-1: b"1"}},
        {0: b"1"},
        {0: DROP},
    ],
)
def test_a_path_that_leads_nowhere_is_an_error(changes: Changes) -> None:
    with pytest.raises(ValueError, match="path leads"):
        edit(CHUNK, changes)


@pytest.mark.parametrize("raw", [b"1", b'"a"', b" null "])
def test_a_document_that_is_no_container_has_no_members(raw: bytes) -> None:
    assert member(raw, ("a",)) is None
    with pytest.raises(ValueError, match="no container"):
        edit(raw, {"a": b"1"})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), CHUNK),
        (("id",), b'"c"'),
        (("choices", 0, "delta"), b'{"content":"4\\u0032.</th\\"i"}'),
        (("choices", 0, "x"), b"1.50e+3"),
        (("u", "n"), b"12345678901234567890123"),
        (("choices", 1), None),
        (("choices", "0"), None),
        (("choices", -1), None),
        (("u", "m"), None),
        (("u", 0), None),
        (("id", "c"), None),
    ],
)
def test_a_member_is_found_by_names_and_indexes(path: tuple[str | int, ...], value: bytes | None) -> None:
    span = member(CHUNK, path)
    assert (span and CHUNK[slice(*span)]) == value


def test_a_document_cut_anywhere_is_malformed() -> None:
    for cut in range(len(CHUNK)):
        for call in (lambda raw: edit(raw, {}), lambda raw: member(raw, ()), loads):
            with pytest.raises(ValueError):
                call(CHUNK[:cut])


# --- the parser


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a":[1,2.5,"\\u00e9"]}', {"a": [1, 2.5, "é"]}),
        (b'"\\ud83d"', "\ud83d"),
        (b'{"\\ude00":"\\ud83d\\ude00"}', {"\ude00": "😀"}),
        (b"[Infinity,-Infinity]", [math.inf, -math.inf]),
        (b"1e999", math.inf),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_what_engines_send_is_parsed(raw: bytes, value: object) -> None:
    assert loads(raw) == value


def test_nan_is_parsed() -> None:
    value = loads(b"[NaN]")
    assert isinstance(value, list)
    assert math.isnan(value[0])


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"nul", b"[1,]", b'"\xff"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf{}", b"01", b'"\n"', b"'a'", b"{}x"]
)
def test_what_is_no_json_in_utf8_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):
        loads(raw)


@given(st.text(alphabet='[]{}":,\\u0dD8eE+-.1 truefalsnN\t\x01é').map(str.encode))
def test_exactly_what_the_standard_parser_accepts_is_accepted(raw: bytes) -> None:
    def accepts(parse: Any) -> bool:
        try:
            parse(raw)
        except ValueError:
            return False
        return True

    assert accepts(loads) == accepts(lambda text: json.loads(text.decode()))


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 10_000 + b"]" * 10_000,
        b"[" * 10_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b"[" * 10_000 + b"NaN" + b"]" * 10_000,
    ],
)
def test_ten_thousand_levels_are_refused_not_a_crash(raw: bytes) -> None:
    for call in (lambda raw: edit(raw, {}), lambda raw: member(raw, (0,)), loads):
        with pytest.raises(ValueError, match="deep"):
            call(raw)


@pytest.mark.parametrize(("depth", "fits"), [(MAX_DEPTH - 1, True), (MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_what_orjson_refuses_may_be_nested_up_to_the_cap(depth: int, fits: bool) -> None:
    raw = b"[" * depth + b'"[\\ud83d"' + b"]" * depth
    if fits:
        assert loads(raw) == json.loads(raw)
    else:
        with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH}"):
            loads(raw)


@pytest.mark.parametrize("depth", [1, 3, 4, 5, 6, 200])
def test_a_value_is_edited_at_any_depth_between_siblings_of_any_depth(depth: int) -> None:
    before, behind = b'[{"k":1},[[[[[["]"]]]]]],' * depth, b',{"t":[[[[[[]]]]]]}]' * depth
    assert edit(before + b'"old"' + behind, at_path((2,) * depth, b"2")) == before + b"2" + behind


# --- strings


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("", b'""'),
        ('a"\\/\n\x00', b'"a\\"\\\\/\\n\\u0000"'),
        ("é😀", '"é😀"'.encode()),
        ("\ud83d", b'"\\ud83d"'),
        ("é\ude00\n", '"é\\ude00\\n"'.encode()),
    ],
)
def test_a_string_is_written_as_json(text: str, raw: bytes) -> None:
    assert encode_string(text) == raw


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\ud83d\udbff"))))
def test_any_string_is_read_back(text: str) -> None:
    raw = encode_string(text)
    assert json.loads(raw.decode()) == text
    assert loads(raw) == text


# --- the hot path


@pytest.mark.parametrize(
    ("raw", "result"),
    [
        (b'{"a":"x"}', b'{"a":"x","b":"x"}'),
        (b'{"a" : "x" , "c":1}', b'{"a" : "x","b":"x" , "c":1}'),
        (b'{"a":"\\"\\\\","c":1}', b'{"a":"\\"\\\\","b":"\\"\\\\","c":1}'),
        (b'{"d":[{"a":"\\u00e9\\ud83d"}]}', b'{"d":[{"a":"\\u00e9\\ud83d","b":"\\u00e9\\ud83d"}]}'),
        (b'{"t":"a","a":"x"}', b'{"t":"a","a":"x","b":"x"}'),
        (b'{"x\\"a":"y","a":"x"}', b'{"x\\"a":"y","a":"x","b":"x"}'),
        (b'{"a":""}', b'{"a":"","b":""}'),
        (b'{"c":"x"}', None),
        (b'{"t":"a"}', None),
        (b'"a"', None),
        (b'{"x\\"a":"y"}', None),
        (b'{"t":"say \\"a\\": \\"x\\""}', None),
        (b'{"a":null}', None),
        (b'{"a":{"c":"x"}}', None),
        (b'{"a":"x","d":{"a":"y"}}', None),
        (b'{"a":"x","d":{"a":null}}', None),
        (b'{"a":"x","b":"y"}', None),
        (b'{"\\u0061":"x"}', None),
    ],
)
def test_a_string_is_copied_under_a_second_name_where_that_is_beyond_doubt(raw: bytes, result: bytes | None) -> None:
    assert copy_member(raw, b"a", b"b") == result


@pytest.mark.parametrize(
    ("raw", "values", "result"),
    [
        (b'{"a":{"b":"x"},"c":null}', {b"b": b"1", b"c": b"[2]"}, b'{"a":{"b":1},"c":[2]}'),
        (b'{"a" : {"b":"x"} , "c":1.10}', {b"c": b"2", b"a": b"{}"}, b'{"a" : {} , "c":2}'),
        (b'{"a":"\\"b\\":1","b":[1,{"z":2}]}', {b"b": b"0"}, b'{"a":"\\"b\\":1","b":0}'),
        (b'{"a":1}', {}, b'{"a":1}'),
        (b'{"a":1}', {b"b": b"0"}, None),  # it is not there
        (b'{"a":1,"x":{"a":2}}', {b"a": b"0"}, None),  # which of the two?
        (b'{"a":{"b":1}}', {b"a": b"0", b"b": b"0"}, None),  # one is inside the other
        (b'{"a":[[[[[[1]]]]]]}', {b"a": b"0"}, None),  # deeper than an engine's are
    ],
)
def test_values_are_swapped_where_that_is_beyond_doubt(
    raw: bytes, values: dict[bytes, bytes], result: bytes | None
) -> None:
    assert swap(raw, values) == result


@given(st.dictionaries(st.sampled_from("abc"), st.text() | st.none() | st.lists(st.integers(), max_size=2), min_size=1))
def test_a_swap_is_the_edit_of_the_same_members(value: dict[str, Any]) -> None:
    raw = json.dumps({"top": value}).encode()
    assert swap(raw, {name.encode(): b"7" for name in value}) == edit(raw, {"top": dict.fromkeys(value, b"7")})


def test_the_only_member_is_told_with_its_name_and_value() -> None:
    raw = b'{"t":"content", "content" : "x\\"y" }'
    found = only_member(raw, b"content")
    assert found is not None
    name, value, end = found
    assert (raw[name:].startswith(b'"content" :'), raw[value:end]) == (True, b'"x\\"y"')


@given(holes(), st.text().map(encode_string))
def test_a_copied_member_stands_beside_the_first_and_nothing_else_moves(
    hole: tuple[bytes, tuple[str | int, ...], bytes], text: bytes
) -> None:
    before, _, behind = hole
    raw = before + b'{"reasoning":' + text + b"}" + behind
    assume(b'"reasoning_content"' not in raw)  # then nothing is copied
    copied = b'{"reasoning":' + text + b',"reasoning_content":' + text + b"}"
    assert copy_member(raw, b"reasoning", b"reasoning_content") == before + copied + behind


# --- work


@pytest.mark.parametrize(
    "unit",
    [b"\\n" * 100, b'","' * 30, b'",[[]],{"b":[{}]},"' * 5, b'",[[[[[[[1]]]]]]],"' * 5, b'\\"{' * 30],
    ids=["escapes", "strings", "shallow containers", "deep containers", "quoted brackets"],
)
def test_ten_times_the_bytes_cost_about_ten_times_the_work(unit: bytes) -> None:
    def cost(units: int) -> float:
        raw = b'{"s":["' + unit * units + b'"],"a":"x"}'
        changes: Changes = {"a": b"2", "s": {0: b"1"}}
        gc.collect()
        gc.disable()  # its passes over many small spans grow with everything else the process holds
        try:
            return min(spent(raw, changes) for _ in range(3))
        finally:
            gc.enable()

    assert cost(5_000) < 40 * cost(500)  # quadratic work would be a hundred times


def spent(raw: bytes, changes: Changes) -> float:
    started = time.process_time()
    edit(raw, changes)
    copy_member(raw, b"a", b"b")
    return time.process_time() - started


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (("a",), [b"1.10", b"1E5", b'"x,]"', b"[1, 2]", b'{"b":[]}', b"12345678901234567890123", b"null"]),
        (("a", 3), [b"1", b"2"]),
        (("a", 4, "b"), []),
        (("a", 0), []),
        (("a", 4), []),
        (("none",), []),
    ],
)
def test_the_items_of_an_array_are_its_own_bytes(path: tuple[str | int, ...], found: list[bytes]) -> None:
    raw = b'{"a" : [1.10, 1E5,"x,]" ,[1, 2],{"b":[]},12345678901234567890123,null ]}'
    assert items(raw, path) == found


def test_items_are_those_of_a_whole_text_too_and_of_json_only() -> None:
    assert items(b" [1, [2]] ", ()) == [b"1", b"[2]"]
    with pytest.raises(ValueError):
        items(b"[1,", ())
