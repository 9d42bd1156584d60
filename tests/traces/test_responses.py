"""Recorded exchanges of `/v1/responses`: observed ones keep every byte, repaired ones say what the script says.

What the script says is told by `oracle`, which reads chat recordings too, so that an answer is the same in both.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.exchange import StoredExchange
from gateway.policy import Profile, ReasoningField
from gateway.protocols import STORED
from tests.exchange.driver import NO_OVERRIDES
from tests.support.responses import Answer, plain, streamed
from tests.traces.answers import value
from tests.traces.oracle import expected, visible
from tests.traces.recordings import Recording, recordings
from tests.traces.replay import cut, rules_of
from tests.traces.routes import route_of

ANSWERED = [recording for recording in recordings("responses") if recording.status == 200]
IDS = [str(recording) for recording in ANSWERED]
LOST = "r1-responses-stop-stream"  # the engine's parser lost its way at a stop string (reference/vllm.md 4.1)


def replayed(recording: Recording, profile: Profile, *, reads: list[bytes] | None = None, **policy: Any) -> Answer:
    """The recorded answer through a gateway with the route that its operator would write."""
    rules = rules_of(route_of(recording), profile, **policy)
    request = json.loads(recording.request_body)
    if not recording.stream:
        return plain(recording.body, rules, request=request)
    return streamed(recording.reads if reads is None else reads, rules, request=request)


# No response tells the stop strings of its request, so that what they did to it is not known when it is fetched.
@pytest.mark.parametrize("recording", [each for each in ANSWERED if "stop" not in each.request], ids=str)
@pytest.mark.parametrize("profile", Profile)
def test_an_answer_is_the_same_when_it_is_fetched_from_the_engines_store(
    recording: Recording, profile: Profile
) -> None:
    """What a real engine's response says of its request is enough."""
    rules = rules_of(route_of(recording), profile)
    stored = StoredExchange(protocol=STORED, body=b"", rules=rules, by_model={}, overrides=NO_OVERRIDES)
    kind = "text/event-stream" if recording.stream else "application/json"
    stored.head(status=200, content_type=kind, content_encoding=None)
    fetched = b"".join([stored.data(read) for read in recording.reads]) + stored.end().data
    assert fetched == replayed(recording, profile).body
    assert stored.inspected


@pytest.mark.parametrize("recording", ANSWERED, ids=IDS)
def test_an_observed_answer_keeps_every_byte(recording: Recording) -> None:
    for reads in (None, cut(recording.body, 1), cut(recording.body, 777), [recording.body]):
        answer = replayed(recording, Profile.OBSERVE, reads=reads)
        assert (answer.body, answer.complete) == (recording.body, True)


@pytest.mark.parametrize("recording", ANSWERED, ids=IDS)
def test_the_client_gets_what_the_model_emitted(recording: Recording) -> None:
    route = route_of(recording)
    emitted = recording.emitted(0) or ""
    shown = visible(emitted, stop=recording.request.get("stop", ()), specials=True)
    cut_off = "length" in recording.name
    script = "<think>Let me think" if cut_off else shown  # five tokens
    tools = "offered" if "tools" in recording.request else "absent"
    wanted = expected(script, dialect=route.dialect, opens=route.opens, stopped=not cut_off, tools=tools)
    for profile in (Profile.REPAIR, Profile.FULL):
        answer = replayed(recording, profile)
        said = answer.said
        if recording.name != LOST:
            assert said[:2] == (wanted.reasoning, wanted.content)
        assert tuple((name, value(arguments)) for name, arguments in said[2]) == wanted.calls
        if recording.stream:
            assert answer.legal(ids=recording.server != "vllm-0.28.0").complete


def test_a_thought_that_the_engine_cut_at_the_wrong_place_is_whole_but_for_what_is_lost() -> None:
    for recording in ANSWERED:
        if recording.name == LOST:
            assert replayed(recording, Profile.FULL).legal().said == ("Let  about it.", "The answer is 42.", [])


@pytest.mark.parametrize("recording", ANSWERED, ids=IDS)
def test_hidden_reasoning_shows_nowhere(recording: Recording) -> None:
    answer = replayed(recording, Profile.FULL, reasoning_field=ReasoningField.NONE)
    assert b"Let" not in answer.body
    if recording.stream:
        answer.legal()


@pytest.mark.parametrize("recording", [r for r in ANSWERED if "harmony" in r.name or "think" in r.name], ids=str)
def test_a_recorded_stream_that_ends_early_ends_with_an_error(recording: Recording) -> None:
    if recording.stream:
        frames = [frame + b"\n\n" for frame in recording.body.split(b"\n\n") if frame.strip()]
        for end in range(len(frames)):
            answer = replayed(recording, Profile.FULL, reads=frames[:end]).legal(ended=False)
            assert (answer.events[-1]["type"], answer.complete) == ("error", False)


def test_an_error_is_handed_on() -> None:
    errors = [recording for recording in recordings("responses") if recording.status != 200]
    assert errors
    for recording in errors:
        assert json.loads(recording.body)["error"]["code"] == recording.status
