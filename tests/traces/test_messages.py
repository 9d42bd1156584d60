"""Recorded exchanges of `/v1/messages`: observed ones keep every byte, repaired ones say what the script says.

What the script says is told by `oracle`, which reads chat recordings too, so that an answer is the same in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.policy import Profile, ReasoningField
from tests.support.messages import Answer, frames, plain, streamed
from tests.traces.oracle import expected, visible
from tests.traces.recordings import Recording, recordings
from tests.traces.replay import cut, rules_of
from tests.traces.routes import route_of

ANSWERED = [recording for recording in recordings("messages") if recording.status == 200]
STREAMS = [recording for recording in ANSWERED if recording.stream]
LOST = "r1-messages-stop-stream"  # the engine's parser lost its way at a stop string (reference/vllm.md 4.1)


def replayed(recording: Recording, profile: Profile, *, reads: Iterable[bytes] | None = None, **policy: Any) -> Answer:
    """The recorded answer through a gateway with the route that its operator would write."""
    rules = rules_of(route_of(recording), profile, **policy)
    request = json.loads(recording.request_body)
    if not recording.stream:
        return plain(recording.body, rules, request=request)
    return streamed(recording.reads if reads is None else reads, rules, request=request)


def test_all_recorded_exchanges_are_here() -> None:
    assert (len(ANSWERED), len(STREAMS)) == (17, 9)
    assert [recording.status for recording in recordings("messages") if recording not in ANSWERED] == [400]


@pytest.mark.parametrize("recording", ANSWERED, ids=str)
def test_an_observed_answer_keeps_every_byte(recording: Recording) -> None:
    for reads in (None, cut(recording.body, 1), cut(recording.body, 777), [recording.body]):
        answer = replayed(recording, Profile.OBSERVE, reads=reads)
        assert (answer.raw, answer.complete) == (recording.body, True)


@pytest.mark.parametrize("recording", ANSWERED, ids=str)
def test_the_client_gets_what_the_model_emitted(recording: Recording) -> None:
    route = route_of(recording)
    cut_off = "length" in recording.name  # five tokens
    stops = recording.request.get("stop_sequences", ())
    shown = visible(recording.emitted(0) or "", stop=stops, specials=True)
    script = "<think>Let me think" if cut_off else shown
    tools = "offered" if "tools" in recording.request else "absent"
    wanted = expected(script, dialect=route.dialect, opens=route.opens, stopped=not cut_off, tools=tools)
    reason = "tool_use" if wanted.calls else "stop_sequence" if stops else "max_tokens" if cut_off else "end_turn"
    for profile in (Profile.REPAIR, Profile.FULL):
        answer = replayed(recording, profile)
        if recording.name != LOST:
            assert answer.said == (wanted.reasoning, wanted.content)
        assert tuple(answer.calls) == wanted.calls
        assert (answer.reason, answer.complete) == (reason, True)


@pytest.mark.parametrize("recording", STREAMS, ids=str)
def test_a_recorded_stream_is_the_same_at_every_cut_and_has_the_blocks_of_the_body(recording: Recording) -> None:
    answer = replayed(recording, Profile.FULL)
    for reads in (cut(recording.body, 1), cut(recording.body, 777), [recording.body]):
        assert replayed(recording, Profile.FULL, reads=reads).raw == answer.raw
    pair = recording.name.removesuffix("-stream") + "-full"
    for whole in (other for other in ANSWERED if other.name == pair and recording.name != LOST):
        kept = replayed(whole, Profile.FULL)
        assert (kept.kinds, kept.said, kept.calls) == (answer.kinds, answer.said, answer.calls)


@pytest.mark.parametrize("recording", ANSWERED, ids=str)
def test_a_clean_answer_is_not_touched(recording: Recording) -> None:
    answer = replayed(recording, Profile.FULL)
    leaks = recording.name.startswith("none-") or recording.name == LOST  # no parser, or one that lost its way
    assert (answer.raw != recording.body) == leaks


def test_a_thought_that_the_engine_cut_at_the_wrong_place_is_whole_but_for_what_is_lost() -> None:
    [lost] = [recording for recording in ANSWERED if recording.name == LOST]
    assert replayed(lost, Profile.FULL).said == ("Let  about it.", "The answer is 42.")


@pytest.mark.parametrize("recording", ANSWERED, ids=str)
def test_hidden_reasoning_shows_nowhere(recording: Recording) -> None:
    answer = replayed(recording, Profile.FULL, reasoning_field=ReasoningField.NONE)
    assert b"Let" not in answer.raw
    assert "thinking" not in answer.kinds


@pytest.mark.parametrize("recording", STREAMS, ids=str)
def test_a_recorded_stream_that_ends_early_ends_with_an_error(recording: Recording) -> None:
    whole = [frame + b"\n\n" for frame in recording.body.split(b"\n\n") if frame.strip()]
    for end in range(len(whole)):
        answer = replayed(recording, Profile.FULL, reads=whole[:end])
        assert not answer.complete
        assert list(frames(answer.raw))[-1][0] == "error"
