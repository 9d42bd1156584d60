"""The scanner against the table of reader_spec section 2, and against a reference that tries each position in turn."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest

from gateway.streams.markers import Plan
from tests.support.reader import CHUNK_SIZES, cut, cut_at

K3_ANSWER = (
    "<|open|>message<|sep|>",
    "<|close|>message<|sep|>",
    "<|end_of_msg|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "<|open|>tools<|sep|>",
    "<|open|>call ",
)

Event = tuple[str, str]  # ("text" | "hit", characters)


class Scan:
    """A caller of a plan, as a reader is one: keeps the held text. `work`: characters offered to the search."""

    def __init__(self, markers: Iterable[str]) -> None:
        self.plan = Plan(dict.fromkeys(markers))
        self.held = ""
        self.work = 0
        self.events: list[Event] = []

    def feed(self, piece: str, *, final: bool = False) -> None:
        buffer, at = self.held + piece, 0
        while True:
            begin, end, stop = self.plan.next(buffer, at, final=final)
            self.work += (end if begin >= 0 else len(buffer)) - at
            self._text(buffer[at : stop if begin < 0 else begin])
            if begin < 0:
                break
            self.events.append(("hit", buffer[begin:end]))
            at = end
        self.held = buffer[stop:]

    def _text(self, text: str) -> None:
        if text and self.events and self.events[-1][0] == "text":
            self.events[-1] = ("text", self.events[-1][1] + text)
        elif text:
            self.events.append(("text", text))


def scanned(markers: Iterable[str], pieces: Sequence[str]) -> list[Event]:
    scan = Scan(markers)
    for piece in pieces:
        scan.feed(piece)
    scan.feed("", final=True)
    return scan.events


def reference(markers: Iterable[str], text: str) -> list[Event]:
    """Leftmost, then longest, over the whole text, one position at a time."""
    events: list[Event] = []
    at = 0
    while at < len(text):
        found = max((marker for marker in markers if text.startswith(marker, at)), key=len, default="")
        if found:
            events.append(("hit", found))
        elif events and events[-1][0] == "text":
            events[-1] = ("text", events[-1][1] + text[at])
        else:
            events.append(("text", text[at]))
        at += len(found) or 1
    return events


def undecided(markers: Iterable[str], text: str) -> str:
    """The longest end of `text` that is the start of a marker and no whole one."""
    starts = {marker[:size] for marker in markers for size in range(1, len(marker))}
    return next((text[at:] for at in range(len(text)) if text[at:] in starts), "")


@pytest.mark.parametrize(
    ("markers", "pieces", "events"),
    [
        (["<think>", "<thinking>"], ["x<thinking>y"], [("text", "x"), ("hit", "<thinking>"), ("text", "y")]),
        (["ab", "abc"], ["a", "b", "c"], [("hit", "abc")]),
        (["ab", "abc"], ["a", "b", "d"], [("hit", "ab"), ("text", "d")]),
        (["ab", "abc"], ["a", "b"], [("hit", "ab")]),
        (["<a<b>c", "<b>"], ["<a<b>", "d"], [("text", "<a"), ("hit", "<b>"), ("text", "d")]),
        (["ab", "bc"], ["abc"], [("hit", "ab"), ("text", "c")]),
        (["<tool_call>"], ["if (a < b)"], [("text", "if (a < b)")]),
        (["<<think>"], ["x<", "<"], [("text", "x<<")]),
        (K3_ANSWER, ["Use <|open|>"], [("text", "Use <|open|>")]),
    ],
)
def test_the_table_of_the_specification_holds(markers: Sequence[str], pieces: list[str], events: list[Event]) -> None:
    assert scanned(markers, pieces) == events
    assert scanned(reversed(markers), list("".join(pieces))) == events


@pytest.mark.parametrize(
    ("markers", "pieces", "held"),
    [
        (["ab", "abc"], ["a", "b"], "ab"),
        (["<a<b>c", "<b>"], ["<a<b>"], "<a<b>"),
        (["<tool_call>"], ["if (a < b)"], ""),
        (["<tool_call>"], ["if (a <"], "<"),
        (["<<think>"], ["x<", "<"], "<<"),
        (K3_ANSWER, ["Use <|open|>"], "<|open|>"),
        ([], ["anything <"], ""),
    ],
)
def test_what_is_held_is_the_longest_start_of_a_marker(markers: list[str], pieces: list[str], held: str) -> None:
    scan = Scan(markers)
    for piece in pieces:
        scan.feed(piece)
    assert scan.held == held


def cases(seed: int, count: int) -> Iterable[tuple[list[str], str]]:
    """Small alphabets make prefix pairs, overlaps and short markers inside long ones."""
    chance = random.Random(seed)
    for _ in range(count):
        letters = chance.choice(["ab", "abc", "<a>", "<|>t"])
        markers = ["".join(chance.choices(letters, k=chance.randint(1, 5))) for _ in range(chance.randint(1, 5))]
        if chance.random() < 0.5:
            markers.append(markers[0] + chance.choice(letters))
        yield markers, "".join(chance.choices(letters, k=chance.randint(0, 70)))


@pytest.mark.parametrize("seed", range(4))
def test_the_reference_is_met_at_every_chunking(seed: int) -> None:
    chance = random.Random(seed)
    for markers, text in cases(seed, 120):
        expected = reference(markers, text)
        for size in (*CHUNK_SIZES, len(text) + 1):
            assert scanned(markers, cut(text, size)) == expected, (markers, text, size)
        places = chance.choices(range(len(text) + 1), k=6)
        assert scanned(markers, cut_at(text, places)) == expected, (markers, text, places)


def test_the_cases_contain_prefix_pairs_that_a_shorter_first_search_would_read_otherwise() -> None:
    def shortest_first(markers: Iterable[str], text: str) -> list[Event]:
        minimal = [m for m in markers if not any(m != other and m.startswith(other) for other in markers)]
        return reference(minimal, text)

    assert any(shortest_first(markers, text) != reference(markers, text) for markers, text in cases(0, 120))


def test_every_step_conserves_the_text_and_holds_no_more_than_is_undecided() -> None:
    for markers, text in cases(7, 200):
        scan = Scan(markers)
        for fed, character in enumerate(text, start=1):
            scan.feed(character)
            assert len(scan.held) <= scan.plan.span == max(map(len, markers)) - 1
            assert "".join(part for _, part in scan.events) + scan.held == text[:fed]
            assert scan.held == undecided(markers, scan.held)


@pytest.mark.parametrize("size", [*CHUNK_SIZES, 1 << 20])
def test_a_feed_offers_each_character_once_and_a_held_tail_once_more(size: int) -> None:
    scan = Scan(K3_ANSWER)
    text = "a < b <|open|>to x <|end_of_msg|>" * 200
    pieces = cut(text, size)
    for piece in pieces:
        scan.feed(piece)
    scan.feed("", final=True)
    assert scan.work <= len(text) + scan.plan.span * (len(pieces) + 1)


class Watched(str):
    """Counts the characters that the cut looks at."""

    seen = 0

    def find(self, *arguments: int | str) -> int:
        start, end = arguments[1:]
        Watched.seen += end - start
        return str.find(self, *arguments)

    def __getitem__(self, key: slice) -> str:
        found = str.__getitem__(self, key)
        Watched.seen += len(found)
        return found


def cut_work(text: str) -> int:
    plan, at, Watched.seen = Plan(dict.fromkeys(K3_ANSWER)), 0, 0
    watched = Watched(text)
    while at >= 0:
        begin, end, _ = plan.next(watched, at, final=False)
        at = end if begin >= 0 else -1
    return Watched.seen


@pytest.mark.parametrize("unit", ["<|end_of_msg|><", "<x"])
def test_a_long_text_looks_for_the_cut_at_its_end_only(unit: str) -> None:
    once, twice = cut_work(unit * 300), cut_work(unit * 600)
    assert 0 < once <= twice <= 2.6 * once
    assert twice < 10 * max(map(len, K3_ANSWER)) ** 2


def test_an_empty_live_set_lets_everything_pass() -> None:
    plan: Plan[None] = Plan({})
    assert (plan.span, plan.leads, plan.next("a<b", 1, final=False)) == (0, (), (-1, -1, 3))


def test_an_empty_marker_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        Plan({"": 1, "a": 2})


def test_a_plan_says_what_starts_its_markers_and_keeps_the_rule_of_each() -> None:
    plan = Plan({"<b>": 1, "[c]": 2, "<a>": 3})
    assert (plan.leads, plan.rules["[c]"], plan.span) == (("<", "["), 2, 2)
