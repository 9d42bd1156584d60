"""What holds for every text in every dialect: one reading at every cutting, nothing lost, little held, no error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.events import CONTENT, REASONING, REPLAY, Decision, Effect, Segment, ToolText
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect
from gateway.streams.calls.call import NAME_CAP
from gateway.streams.calls.region import GAP
from gateway.streams.grammar import ANY, State, Take
from gateway.streams.regions import REPLAY_PIECE, RegionReader
from tests.support.atoms import dialects, markers, texts
from tests.support.reader import Setup, comparable, cut, cut_at, joined, read, text_of
from tests.support.tagged import EVERYTHING, NOTHING, WATCHED

DIALECTS = dialects()
HELD_OF_CALLS = NAME_CAP + 2 * GAP
every_dialect = pytest.mark.parametrize("name", DIALECTS)


def setups(dialect: Dialect) -> st.SearchStrategy[Setup]:
    return st.builds(
        Setup,
        grammar=st.just(compile_dialect(dialect)),
        starts_open=st.booleans(),
        split=st.booleans(),
        header_cap=st.sampled_from([5, 20, 96]),
        run_cap=st.sampled_from([1, 8, 64]),
        replay_cap=st.sampled_from([3, 1 << 20]),
        region_cap=st.sampled_from([40, 1 << 20]),
        takes=st.sampled_from([NOTHING, WATCHED, EVERYTHING]),
    )


def rebuilt(segments: Iterable[Segment]) -> str:
    """The input, out of everything that was said about it: text where it went, and the markers that were dropped.

    input = reasoning + content + tool regions + foreign text + dropped markers, in order; a replay is said twice. A
    call that may end a thought is said later than the end of the turn behind it.
    """
    parts: list[str] = []
    for channel, said in segments:
        if isinstance(said, Decision):
            parts += [said.text] if said.effect is Effect.DROP else []
        elif isinstance(said, ToolText):
            parts.append(said.text)
        elif channel != REPLAY:
            parts.append(said)
    return "".join(parts)


def in_order(made: Setup, text: str) -> str | Counter[str]:
    """`text` as it is to be compared with another one."""
    return Counter(text) if made.takes.thought is Take.HOLD else text


@every_dialect
@given(data=st.data())
def test_a_text_has_one_reading_whatever_the_cutting(name: str, data: st.DataObject) -> None:
    made, text = data.draw(setups(DIALECTS[name])), data.draw(texts(DIALECTS[name]))
    stopped, places = data.draw(st.booleans()), data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    whole = comparable(read(made, [text], stopped=stopped))
    assert comparable(read(made, text, stopped=stopped)) == whole
    assert comparable(read(made, cut_at(text, places), stopped=stopped)) == whole


@every_dialect
@given(data=st.data())
def test_nothing_is_lost_and_nothing_invented_at_any_step(name: str, data: st.DataObject) -> None:
    made, text = data.draw(setups(DIALECTS[name])), data.draw(texts(DIALECTS[name]))
    reader = made.reader()
    segments: list[Segment] = []
    fed = ""
    for piece in cut(text, data.draw(st.sampled_from([1, 3, 64]))):
        segments += reader.feed(piece)
        fed += piece
        assert in_order(made, rebuilt(segments) + reader.held) == in_order(made, fed)
    segments += reader.finish(stopped=data.draw(st.booleans()))
    assert (in_order(made, rebuilt(segments)), reader.held) == (in_order(made, text), "")
    for _, found in segments:
        if isinstance(found, Decision):
            assert text.startswith(found.text, found.at)


@every_dialect
@given(data=st.data())
def test_settling_and_leaving_at_any_place_lose_nothing(name: str, data: st.DataObject) -> None:
    made, text = data.draw(setups(DIALECTS[name])), data.draw(texts(DIALECTS[name]))
    reader = made.reader()
    segments: list[Segment] = []
    for piece in cut_at(text, data.draw(st.lists(st.integers(0, len(text)), max_size=6))):
        segments += reader.feed(piece)
        segments += data.draw(st.sampled_from([reader.settle, lambda: reader.leave(to_tools=True), list]))()
    segments += reader.finish(stopped=False)
    assert in_order(made, rebuilt(segments)) == in_order(made, text)


@every_dialect
@given(data=st.data())
def test_a_replay_repeats_reasoning_in_full_pieces(name: str, data: st.DataObject) -> None:
    made, text = data.draw(setups(DIALECTS[name])), data.draw(texts(DIALECTS[name]))
    segments = read(made, [text], stopped=True)
    replays = [list(run) for channel, run in groupby(segments, key=itemgetter(0)) if channel == REPLAY]
    assert not replays or DIALECTS[name].replay
    for run in replays:
        assert all(len(str(piece)) == REPLAY_PIECE for _, piece in run[:-1])
        assert 0 < len(str(run[-1][1])) <= REPLAY_PIECE
        assert text_of(run, REPLAY) in text_of(segments, REASONING)


def assert_declared_hold(dialect: Dialect, made: Setup, reader: RegionReader) -> None:
    """Contract rule 8: the start of a marker; a whole one that waits for what its rule names; a region; each capped."""
    pairs = [f"<{text[2:]}" for text in dialect.end_of_turn if text.startswith("</")]  # `<s>` of the end `</s>`
    held, literals = reader.held, [*markers(dialect), *pairs]
    if reader.waits_for == "tool_region":  # and as much again of calls that may end a thought
        assert len(held) <= 2 * made.region_cap
        return
    if reader.state is State.TOOLS:  # what the readers of calls have not read
        assert len(held) <= HELD_OF_CALLS
        return
    dangling = next((text for text in dialect.dangling if held.startswith(text)), "")
    if dangling and held[len(dangling) :].strip() == "":
        assert len(held) < len(dangling) + made.run_cap
        return
    if not held or any(marker.startswith(held) and marker != held for marker in literals):
        assert len(held) < made.grammar.longest
        return
    ender = made.grammar.enders and made.grammar.enders.match(held)
    openers = {text: header for header in dialect.headers for text in (*header.open, *header.first)}
    live = made.grammar.plan(reader.state, ANY).rules
    opener = max((text for text in live if held.startswith(text)), key=len, default="")
    if opener in openers and len(opener) > (ender.end() if ender else 0):
        header = openers[opener]
        body = held[len(opener) :]
        if header.close in body:  # a whole header: is it only mentioned?
            behind = body[body.index(header.close) + len(header.close) :]
            assert_may_be_structure(made, behind)
        else:
            assert len(body) < made.header_cap + len(header.close)
        return
    if dialect.suffixed and any(held.startswith(f"{tag[:-1]}:") for tag in literals):
        assert len(held) < made.grammar.longest
        return
    literal = max((text for text in literals if held.startswith(text)), key=len)
    rest = held[len(literal) :]
    if len(rest) < made.run_cap + made.grammar.longest and any(text.startswith(rest.lstrip()) for text in openers):
        return  # the next turn may open
    if rest.lstrip() == "" or rest.lstrip() in made.grammar.structure_prefixes:
        assert_may_be_structure(made, rest)  # "": one character of look-ahead, for the line end
        return
    assert made.grammar.enders is not None
    run = made.grammar.enders.sub("", rest).strip()
    assert len(rest) < made.run_cap and (run == "" or run in made.grammar.ender_prefixes)


def assert_may_be_structure(made: Setup, behind: str) -> None:
    """White space within the cap, then what may become a marker: then the one before it is no mention."""
    start = behind.lstrip()
    assert len(behind) - len(start) <= made.run_cap
    assert start == "" or start in made.grammar.structure_prefixes


@every_dialect
@given(data=st.data())
def test_nothing_is_held_but_what_the_contract_declares(name: str, data: st.DataObject) -> None:
    made, text = data.draw(setups(DIALECTS[name])), data.draw(texts(DIALECTS[name]))
    reader = made.reader()
    for character in text:
        reader.feed(character)
        assert_declared_hold(DIALECTS[name], made, reader)


@every_dialect
@given(data=st.data())
def test_a_delivery_has_one_piece_for_each_run_of_a_channel(name: str, data: st.DataObject) -> None:
    made, text = data.draw(setups(DIALECTS[name])), data.draw(texts(DIALECTS[name]))
    reader = made.reader()
    for piece in cut(text, 11):
        said = reader.feed(piece)
        assert said == joined(said)
        assert all(text for _, text in said)


@every_dialect
@given(text=st.text(st.characters()), starts_open=st.booleans(), split=st.booleans())
def test_a_text_without_a_marker_comes_out_as_it_came(name: str, text: str, starts_open: bool, split: bool) -> None:
    made = Setup(grammar=compile_dialect(DIALECTS[name]), starts_open=starts_open, split=split)
    if not any(marker in text for marker in markers(DIALECTS[name])):
        channel = REASONING if starts_open else CONTENT
        assert read(made, text, stopped=True) == ([(channel, text)] if text else [])
