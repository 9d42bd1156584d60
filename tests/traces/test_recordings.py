"""Every recorded chat exchange: observe changes no byte, full leaves clean answers alone and repairs the others.

The right answers are decided by `oracle` from the text that the model was made to emit. What cannot or does not come
out so stands in `known.yaml`, by rule.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from gateway.policy import Mode, Profile, ToolRescue
from tests.traces.answers import Choice, doubled, read_answer
from tests.traces.known import KNOWN, Difference
from tests.traces.oracle import CALL
from tests.traces.recordings import Recording, recordings
from tests.traces.replay import cut, dialect, send
from tests.traces.routes import ROUTES, Known, group_of, route_of
from tests.traces.verdict import called_as, fits, wanted

Choices = dict[int, Choice]
IN_A_THOUGHT = "unless `tool_rescue.reasoning` is `enforce`"
FIRST_CHARACTERS = "<◁"  # of the markers in use: a delta without them is never held


def engine_answer(recording: Recording) -> Choices:
    return read_answer(recording.body, stream=recording.stream)


def client_answer(recording: Recording) -> Choices:
    return read_answer(send(recording, route_of(recording), Profile.FULL).body, stream=recording.stream)


def as_the_script_says(recording: Recording, choices: Choices) -> bool:
    """True when `choices` are what the script allows, and no event carries two channels."""
    engine = engine_answer(recording)
    fit = [fits(recording, route_of(recording), index, engine[index], choice) for index, choice in choices.items()]
    return all(fit) and not any(choice.mixed for choice in choices.values()) and choices.keys() == engine.keys()


def kept(recording: Recording) -> bool:
    """True when nothing changed but that the reasoning has its second name.

    Text that may be the start of a marker is held, so that a stream with such text may say the same in other events.
    """
    sent = send(recording, route_of(recording), Profile.FULL)
    if not recording.complete:  # the client left; what follows is the gateway's own error event
        return sent.body.startswith(doubled(recording.body)) and not sent.complete
    texts = "".join(choice.reasoning + choice.content for choice in engine_answer(recording).values())
    if recording.stream and any(character in texts for character in FIRST_CHARACTERS):
        return client_answer(recording) == engine_answer(recording)
    return sent.body == doubled(recording.body)


ALL = recordings()
ANSWERED = [recording for recording in ALL if recording.status == 200]
REFUSED = [recording for recording in ALL if recording.status != 200]
LISTED = [recording for recording in ANSWERED if any(row.covers(recording) for row in KNOWN)]
RIGHT = [recording for recording in ANSWERED if recording not in LISTED]
CLEAN = [recording for recording in RIGHT if as_the_script_says(recording, engine_answer(recording))]
UNSPLIT = [recording for recording in ANSWERED if not any(c.reasoning for c in engine_answer(recording).values())]
UNMARKED = [
    recording
    for recording in ANSWERED
    if recording.server.startswith("vllm") and route_of(recording).source == "fields" and not recording.marks
]


def every(chosen: list[Recording]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("recording", chosen, ids=str)


# ------------------------------------------------------------------ observe, and answers that are none


@every(list(ALL))
def test_observe_returns_the_engines_bytes(recording: Recording) -> None:
    assert send(recording, route_of(recording), Profile.OBSERVE).body == recording.body


@every(REFUSED)
def test_an_error_of_the_engine_keeps_its_bytes(recording: Recording) -> None:
    sent = send(recording, route_of(recording), Profile.FULL)
    assert (sent.body, sent.complete, sent.tally.events) == (recording.body, True, 0)


# ------------------------------------------------------------------ full


@every(RIGHT)
def test_an_answer_comes_out_as_the_script_says(recording: Recording) -> None:
    engine, client = engine_answer(recording), client_answer(recording)
    assert as_the_script_says(recording, client), [
        (wanted(recording, route_of(recording), index, engine[index]), choice) for index, choice in client.items()
    ]
    for index, choice in client.items():
        more = len(choice.calls) > len(engine[index].calls)
        assert choice.finish == ("tool_calls" if more else engine[index].finish)


@every(CLEAN)
def test_a_clean_answer_is_unchanged_but_for_the_second_name_of_its_reasoning(recording: Recording) -> None:
    assert kept(recording)


@every(LISTED)
def test_a_known_difference_is_still_there(recording: Recording) -> None:
    right = as_the_script_says(recording, client_answer(recording))
    assert not right or (as_the_script_says(recording, engine_answer(recording)) and not kept(recording))


@every([recording for recording in LISTED if any("51641" in row.why and row.covers(recording) for row in KNOWN)])
def test_of_a_thought_that_was_cut_late_only_what_the_engine_lost_is_missing(recording: Recording) -> None:
    sent = send(recording, route_of(recording), Profile.FULL)
    choice = read_answer(sent.body, stream=True)[0]
    script = wanted(recording, route_of(recording), 0, engine_answer(recording)[0])
    assert (choice.content.strip(), called_as(script, choice)) == (script.content.strip(), True)
    lost = len(script.reasoning) - len(choice.reasoning)
    assert 0 < lost <= len("</think>")  # reference/vllm.md 4.1: as much as the closer is long
    starts = range(len(choice.reasoning) + 1)
    assert any(script.reasoning[:at] + script.reasoning[at + lost :] == choice.reasoning for at in starts)
    moved = [(row.finding, row.action) for row in sent.tally.rows if row.rule == "stop_desync"]
    assert moved == [("reasoning_leak", "moved"), ("boundary_token", "stripped")]


@every([recording for recording in LISTED if any(IN_A_THOUGHT in row.why and row.covers(recording) for row in KNOWN)])
def test_a_call_that_ends_a_thought_is_one_where_the_route_says_so(recording: Recording) -> None:
    enforced = ToolRescue(reasoning=Mode.ENFORCE)
    body = send(recording, route_of(recording), Profile.FULL, tool_rescue=enforced).body
    choices = read_answer(body, stream=recording.stream)
    assert as_the_script_says(recording, choices)
    assert [choice.finish for choice in choices.values()] == ["tool_calls"]


@every(UNMARKED)
def test_no_text_changes_where_the_recorder_saw_nothing_wrong(recording: Recording) -> None:
    assert client_answer(recording) == engine_answer(recording)


# ------------------------------------------------------------------ nothing lost, nothing invented


OTHER_TURN = re.compile(r"(?<=<\|im_end\|>\n)<\|im_start\|>(?!assistant)\w+\n(.*)", re.DOTALL)  # contract rule 11


def letters(choices: Choices, markers: list[str], *, replayed: bool = False) -> Counter[str]:
    """The characters of an answer without markers; a replayed answer stands in the reasoning as well."""
    texts = [choice.reasoning + ("" if replayed else choice.content) for choice in choices.values()]
    texts = [OTHER_TURN.sub("", text) for text in texts]
    for marker in markers:
        texts = [text.replace(marker, "") for text in texts]
    return Counter("".join(texts))


def assert_conserved(recording: Recording, known: Known) -> None:
    """Every character is emitted, or part of a marker of the dialect, or counted as suppressed (contract rule 2)."""
    sent = send(recording, known, Profile.FULL)
    spec = dialect(known)
    markers = [marker for thought in spec.thoughts for marker in (*thought.open, *thought.close)]
    markers += [*spec.answer_open, *spec.answer_close, *spec.message_close, *spec.framing, *spec.end_of_turn]
    before = letters(engine_answer(recording), markers)
    replayed = any(row.action == "replayed" for row in sent.tally.rows)
    after = letters(read_answer(sent.body, stream=recording.stream), markers, replayed=replayed)
    others = [turn for choice in engine_answer(recording).values() for turn in OTHER_TURN.findall(choice.content)]
    suppressed = sent.tally.characters_suppressed + sum(map(len, rescued(recording, sent.body)))
    ends = [row.marker for row in sent.tally.rows if row.rule == "stop_desync" and row.marker]  # of a marker, mostly
    suppressed += sum(len(end) for end in ends if end not in markers)
    assert not after - before
    assert (before - after).total() + len("".join(others)) == suppressed


def rescued(recording: Recording, body: bytes) -> list[str]:
    """The markup in the engine's answer, of choices that have more calls in the client's."""
    client, engine = read_answer(body, stream=recording.stream), engine_answer(recording)
    more = [choice for index, choice in engine.items() if len(client[index].calls) > len(choice.calls)]
    return [block[0] for choice in more for block in CALL.finditer(choice.reasoning + choice.content)]


@every(ANSWERED)
def test_the_servers_own_dialect_loses_no_text(recording: Recording) -> None:
    assert_conserved(recording, route_of(recording))


@every(ANSWERED)
def test_the_generic_dialect_loses_no_text_of_any_server(recording: Recording) -> None:
    assert_conserved(recording, Known(dialect="generic"))


@every(UNSPLIT)
def test_the_generic_dialect_loses_no_raw_text_of_any_server(recording: Recording) -> None:
    assert_conserved(recording, Known(dialect="generic", source="text"))


# ------------------------------------------------------------------ chunking


@every([recording for recording in ANSWERED if recording.stream])
@pytest.mark.parametrize("size", [1, 7])
def test_the_cuts_of_the_network_change_nothing(recording: Recording, size: int) -> None:
    """Events count, not reads: the same body in reads of `size` bytes gives the same bytes."""
    pieces = cut(recording.body, size)
    whole = send(recording, route_of(recording), Profile.FULL)
    assert send(recording, route_of(recording), Profile.FULL, reads=pieces).body == whole.body
    assert send(recording, route_of(recording), Profile.OBSERVE, reads=pieces).body == recording.body


# ------------------------------------------------------------------ the tables


def test_every_recording_has_a_group_and_every_group_a_recording() -> None:
    assert {group_of(recording) for recording in ALL} == set(ROUTES)


@pytest.mark.parametrize("row", KNOWN, ids=[row.why for row in KNOWN])
def test_every_glob_of_a_known_difference_names_a_recording(row: Difference) -> None:
    for name in row.match:
        single = Difference(match=[name], why=row.why, server=row.server)
        assert any(single.covers(recording) for recording in ANSWERED), name


def test_no_recording_is_known_for_two_reasons() -> None:
    assert not [str(recording) for recording in LISTED if sum(row.covers(recording) for row in KNOWN) > 1]
