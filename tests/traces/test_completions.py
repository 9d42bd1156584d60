"""The recorded text completions: bytes where nothing changes, else what the script says, streamed as plain."""

from __future__ import annotations

import json

import pytest

from gateway.policy import Profile
from tests.exchange.driver import dialect, route
from tests.support.raw_text import Answer, Completions, plain, stream
from tests.traces.recordings import Recording, recordings
from tests.traces.replay import cut

ALL = recordings("completions")
WIRE = Completions()
HARMONY = "harmony-"
SKIPPED = "analysisLet me think.assistantfinalThe answer is 42."  # vLLM skips special tokens: no marker is left
every = pytest.mark.parametrize("recording", ALL, ids=str)
pairs = pytest.mark.parametrize("name", sorted({each.name.rpartition("-")[0] for each in ALL}))


def send(recording: Recording, profile: Profile, raw_text: str, *, size: int | None = None) -> Answer:
    """The recorded answer through a gateway. `size`: the body cut otherwise than it arrived."""
    family = "harmony" if recording.name.startswith(HARMONY) else "think"
    rules = route(read_as=dialect(family), profile=profile, raw_text=raw_text)
    request = json.loads(recording.request_body)
    if recording.stream:
        reads = recording.reads if size is None else cut(recording.body, size)
        return stream(WIRE, reads, rules, request=request)
    return plain(WIRE, recording.body, rules, request=request)


def said(recording: Recording) -> tuple[str, str]:
    """What the script says."""
    if recording.name.startswith(HARMONY):
        return "", SKIPPED
    thought, closer, text = (recording.emitted(0) or "").removeprefix("<think>").partition("</think>")
    assert closer
    return thought, text


def test_there_are_recordings() -> None:
    assert (len(ALL), {recording.status for recording in ALL}) == (11, {200})


@every
@pytest.mark.parametrize("raw_text", ["leave", "split"])
def test_observe_returns_the_engines_bytes(recording: Recording, raw_text: str) -> None:
    assert send(recording, Profile.OBSERVE, raw_text).body == recording.body


@every
@pytest.mark.parametrize("profile", [Profile.REPAIR, Profile.FULL])
def test_text_that_is_left_keeps_the_engines_bytes(recording: Recording, profile: Profile) -> None:
    answer = send(recording, profile, "leave")
    leaks = {} if said(recording)[0] == "" else {"reasoning_leak/would_move": 1, "boundary_token/would_strip": 2}
    assert (answer.body, answer.findings) == (recording.body, leaks)


@every
@pytest.mark.parametrize("profile", [Profile.REPAIR, Profile.FULL])
def test_a_split_answer_is_what_the_script_says(recording: Recording, profile: Profile) -> None:
    answer = send(recording, profile, "split")
    assert (answer.said, answer.findings, answer.complete) == (said(recording), {}, True)
    assert answer.choices[0].finishes == ["stop"]
    if said(recording)[0] == "":
        assert answer.body == recording.body


@pytest.mark.parametrize("recording", [each for each in ALL if each.stream], ids=str)
@pytest.mark.parametrize("size", [1, 7])
def test_the_cuts_of_the_network_change_nothing(recording: Recording, size: int) -> None:
    whole = send(recording, Profile.FULL, "split")
    assert send(recording, Profile.FULL, "split", size=size).body == whole.body


@pairs
def test_the_streamed_answer_agrees_with_the_plain_one(name: str) -> None:
    both = [send(each, Profile.FULL, "split").choices[0] for each in ALL if each.name.rpartition("-")[0] == name]
    assert len({told.said for told in both}) == 1
    assert len({(tuple(told.tokens), tuple(told.offsets)) for told in both}) == 1


def test_what_stands_beside_the_thought_is_gone_and_the_rest_is_in_step() -> None:
    [recording] = [each for each in ALL if each.name == "q3h-completions-logprobs-stream"]
    told = send(recording, Profile.FULL, "split").choices[0]
    assert (told.tokens, told.offsets) == (["H", "i", "<|im_end|>"], [0, 1, 2])
    [recording] = [each for each in ALL if each.name == "r1-raw-completions-token-ids-stream"]
    assert send(recording, Profile.FULL, "split").choices[0].ids == [926, 744, 301, 939, 17, 13, 4002]
