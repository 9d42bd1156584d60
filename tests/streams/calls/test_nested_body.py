"""Calls written as a tree of elements, every tag behind a prefix: MiniMax M3 (vLLM 0.33.0, SGLang 0.5.23)."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.calls.call import NAME_CAP, Status
from gateway.streams.calls.element_body import Tag
from gateway.streams.calls.nested_body import DEPTH_CAP, NestedBody
from tests.support.bodies import led, pieces, read, same_at_every_cut

PREFIX = "]<]minimax[>["
M3 = NestedBody(
    prefix=PREFIX, call=Tag(("<invoke ",), ">", r"""name\s*=\s*["']?(?P<name>[^"'>]+)["']?"""), close=("</invoke>",)
)
UNTIL = (PREFIX + "</tool_call>",)

MARKUP = 'if a < b && c > d: "q" \\n </x>'  # the value with markup characters of corpus/tool_literals.jsonl

Arguments = list[tuple[str, str, str | None]]


def marked(text: str) -> str:
    """The prefix for every `~`."""
    return text.replace("~", PREFIX)


def call(name: str, arguments: Arguments, *, repaired: bool = False) -> tuple[object, ...]:
    """A whole call as the driver tells it."""
    return name, None, None, tuple(arguments), repaired, True


# A body, and the call in it.
FORMATS = [
    (
        "flat",
        '~<invoke name="get_weather">~<city>Paris~</city>~<days>3~</days>~</invoke>',
        call("get_weather", [("city", "Paris", None), ("days", "3", None)]),
    ),
    ("no argument", '~<invoke name="now">\n~</invoke>', call("now", [])),
    ("self-closing", '~<invoke name="now"/>', call("now", [])),
    ("line breaks", '~<invoke name="f">\n~<a>\nx \n~</a>\n~</invoke>', call("f", [("a", "\nx \n", None)])),
    (
        "white space behind the prefix",
        '~ <invoke name="f">~\n<a>x~ </a>~\n<o>~\t<k>v~ </k>~ </o>~ </invoke>',
        call("f", [("a", "x", None), ("o", '{"k": "v"}', "tree")]),
    ),
    ("markup", f'~<invoke name="f">~<city>{MARKUP}~</city>~</invoke>', call("f", [("city", MARKUP, None)])),
    (
        "closers without the prefix, and a prefix before no tag",
        '~<invoke name="f">~<a></a></invoke>~ ]<]mini~/a>~~</a>~</invoke>',
        call("f", [("a", marked("</a></invoke>~ ]<]mini~/a>~"), None)]),
    ),
    ("nothing in it", '~<invoke name="f">~<tags>~</tags>~</invoke>', call("f", [("tags", "", None)])),
    (
        "an object and an array",
        '~<invoke name="f">~<location>~<city>NYC~</city>~<zip>10001~</zip>~</location>'
        "~<tags>~<item>red~</item>~<item>~</item>~</tags>~</invoke>",
        call("f", [("location", '{"city": "NYC", "zip": "10001"}', "tree"), ("tags", '["red", ""]', "tree")]),
    ),
    (
        "one item",
        '~<invoke name="f">~<tags>\n ~<item>red~</item>\n~</tags>~</invoke>',
        call("f", [("tags", '["red"]', "tree")]),
    ),
    (
        "arrays of objects, and a name more than once",
        '~<invoke name="f">~<items>~<item>~<sku>b-1~</sku>~<n>2~</n>~</item>~<item>~<sku>"é"~</sku>~</item>~</items>'
        "~<o>~<k>1~</k>~<item>2~</item>~<k>3~</k>~</o>~</invoke>",
        call(
            "f",
            [
                ("items", '[{"sku": "b-1", "n": "2"}, {"sku": "\\"é\\""}]', "tree"),
                ("o", '{"k": ["1", "3"], "item": "2"}', "tree"),
            ],
        ),
    ),
    (
        "names of elements as they are",
        '~<invoke name="f">~<user id>x~</user id>~< k >y~</ k >~<invoke>z~</invoke>~</invoke>',
        call("f", [("user id", "x", None), ("k", "y", None), ("invoke", "z", None)]),
    ),
    ("single quotation marks", "~<invoke name='f'>~</invoke>", call("f", [])),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in FORMATS], ids=[row[0] for row in FORMATS])
def test_the_format_is_read_exactly_at_every_cut(text: str, expected: tuple[object, ...]) -> None:
    whole = marked(text)
    found = same_at_every_cut(M3, f"{whole}\n{UNTIL[0]} and more", until=UNTIL)
    assert (found.status, found.place, found.complete, found.calls) == (Status.DONE, len(whole), True, (expected,))
    assert led(M3, whole)


# Where a text stops being a body stands a ¦.
MALFORMED = [
    ("prose behind the opener", "¦use it"),
    ("another tag", "~¦<call>"),
    ("a tag that says something else", '~<invoke ¦id="f">'),
    ("text between arguments", '~<invoke name="f"> ¦x~</invoke>'),
    ("a closer of another element", '~<invoke name="f">~<city>Beijing~¦</wrong>~</invoke>'),
    ("a closer where none is open", '~<invoke name="f">~¦</city>'),
    ("no tag behind a prefix", '~<invoke name="f">~ ¦x'),
    ("an element without a name", '~<invoke name="f">~¦<>'),
    ("an element with a blank name", '~<invoke name="f">~¦< >'),
    ("an element with a tag in its name", '~<invoke name="f">~¦<a <b>'),
    ("an endless name", '~<invoke name="f">~¦<' + "a" * NAME_CAP),
    ("text and elements", '~<invoke name="f">~<a>text~¦<b>'),
    ("elements and text", '~<invoke name="f">~<a>~<b>1~</b> ¦]text'),
    ("elements and a prefix", '~<invoke name="f">~<a>~<b>1~</b>~ ¦x'),
    ("a tree that is too deep", '~<invoke name="f">' + "~<a>" * DEPTH_CAP + "~¦<a>"),
]


@pytest.mark.parametrize("text", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_what_is_no_such_body_breaks_at_one_place_at_every_cut(text: str) -> None:
    whole = marked(text)
    found = same_at_every_cut(M3, whole.replace("¦", ""), until=UNTIL)
    assert (found.status, found.place, found.complete) == (Status.BROKEN, whole.index("¦"), False)


def test_a_tree_may_be_as_deep_as_the_cap() -> None:
    text = '~<invoke name="f">' + "~<a>" * DEPTH_CAP + "x" + "~</a>" * DEPTH_CAP + "~</invoke>"
    (told,) = read(M3, [marked(text)]).calls
    assert told == call("f", [("a", '{"a": ' * (DEPTH_CAP - 1) + '"x"' + "}" * (DEPTH_CAP - 1), "tree")])


def test_a_region_s_closer_ends_a_call_that_lacks_its_own_and_is_not_read() -> None:
    text = marked('~<invoke name="f">~<a>1~</a>\n~</tool_call>')
    found = same_at_every_cut(M3, text, until=UNTIL)
    assert (found.status, found.place) == (Status.DONE, len(text) - len(UNTIL[0]))
    assert found.calls == (call("f", [("a", "1", None)], repaired=True),)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("~", False),
        ('~<invoke name="f">', False),
        ('~<invoke name="f">~<a>1', False),
        ('~<invoke name="f">~<a>1~', False),
        ('~<invoke name="f">~<a>1~</a', False),
        ('~<invoke name="f">~<a>1~</a>', True),
        ('~<invoke name="f">~<a>1~</a>\n', True),
        ('~<invoke name="f">~<a>1~</a>]<]mini', False),
        ('~<invoke name="f">~<a>1~</a>~', False),
        ('~<invoke name="f">~<a>1~</a>~<', False),
        ('~<invoke name="f">~<a>1~</a>~</inv', True),
        ('~<invoke name="f">~</', True),
        ('~<invoke name="f">~<a>~<b>1~</b>', False),
        ('~<invoke name="f">~<a', False),
    ],
)
def test_only_between_arguments_does_nothing_but_closers_miss(text: str, complete: bool) -> None:
    found = same_at_every_cut(M3, marked(text), until=UNTIL)
    assert (found.status, found.complete) == (Status.OPEN, complete)


@pytest.mark.parametrize(
    ("text", "leads"),
    [
        ("~<invoke ", True),
        ("~\n <invoke ", True),
        ("~<tool_call>", False),
        ("~" + " " * (NAME_CAP + 1), False),
        ("<invoke ", False),
        ("~<inv", False),
        ("]<]m", False),
    ],
)
def test_an_opener_behind_a_prefix_leads_a_body(text: str, leads: bool) -> None:
    assert led(M3, marked(text)) is leads


@pytest.mark.parametrize(
    "text", ["~<invoke name=f>~<a>{}~</a>", "~<invoke name=f>~<a>~<item>{}~</item>~<item>{}~</item>~</a>"]
)
def test_the_work_grows_with_a_value_and_no_faster(text: str) -> None:
    def work(size: int) -> int:
        return read(M3, pieces(marked(text).replace("{}", "]<]minimax <a> " * (size // 15)), 5)).work

    assert work(100_000) <= 2.1 * work(50_000)


SHARDS = (
    "~",
    "~<a>",
    "~</a>",
    "~<item>",
    "~</item>",
    "x",
    " ",
    "~ ",
    "<",
    "</",
    "]<",
    ">",
    "~</invoke>",
    *UNTIL,
    "~<a>1~</a>",
)


@given(st.lists(st.sampled_from(SHARDS), max_size=12), st.lists(st.integers(0, 300), max_size=8))
def test_the_cuts_never_matter(shards: list[str], cuts: list[int]) -> None:
    text = marked("~<invoke name=f>" + "".join(shards))
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    parts = [text[begin:end] for begin, end in pairwise(places)]
    found, expected = (read(M3, fed, until=UNTIL) for fed in (parts, [text]))
    assert replace(found, work=0) == replace(expected, work=0)


LEAVES = st.text().filter(lambda text: PREFIX not in text)
KEYS = st.sampled_from(["a", "b", "c"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS, inner, min_size=1),
    max_leaves=8,
)


def written(value: object) -> str:
    """A tree as the model's template writes it."""
    if isinstance(value, str):
        return value
    pairs = value.items() if isinstance(value, dict) else [("item", item) for item in value]  # type: ignore[attr-defined]
    return "".join(f"{PREFIX}<{key}>{written(item)}{PREFIX}</{key}>" for key, item in pairs)


@given(TREES)
def test_a_tree_comes_out_as_the_json_that_it_was_written_from(value: object) -> None:
    text = marked("~<invoke name=f>~<a>") + written(value) + marked("~</a>~</invoke>")
    ((_, _, _, ((_, told, kind),), *_),) = read(M3, pieces(text, 7)).calls
    assert (json.loads(told) if kind else told) == value
