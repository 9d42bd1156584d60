"""Recorded streams of all endpoints: real engines are legal but for what is listed, and nothing of ours changes that.

The recordings are the ground truth for what engines send: a rule that they break without a reason is no rule.
"""

from __future__ import annotations

import re

import pytest

from gateway.policy import Profile
from gateway.protocols.legal import CHECKERS
from gateway.protocols.legal.bodies import body_violations
from tests.traces.recordings import Recording, recordings
from tests.traces.replay import send
from tests.traces.routes import route_of

FOLDERS = {"chat": "", "completions": "completions", "messages": "messages", "responses": "responses"}
STREAMS = [(name, each) for name, folder in FOLDERS.items() for each in recordings(folder) if each.stream]

KNOWN = {
    ("llama.cpp-b11434", "chat"): {
        "its created is missing, or another one"
    },  # the time of the chunk, not of the answer
    ("vllm-0.28.0", "responses"): {"the response has other items than the events told"},  # they get other ids
}
"""What an engine does against the documentation, by server and protocol."""


def wrong(name: str, body: bytes, *, ended: bool = True) -> set[str]:
    """What is not legal, without the events."""
    return {re.sub(r"^event \d+( [\w.]+)?: ", "", each) for each in CHECKERS[name](body, ended=ended)}


@pytest.mark.parametrize(("name", "recording"), STREAMS, ids=lambda value: str(value))
def test_a_recorded_stream_is_legal_but_for_what_its_engine_is_known_for(name: str, recording: Recording) -> None:
    assert wrong(name, recording.body, ended=recording.complete) <= KNOWN.get((recording.server, name), set())


def test_every_recorded_plain_answer_is_legal() -> None:
    plain = [(name, each) for name, folder in FOLDERS.items() for each in recordings(folder) if not each.stream]
    answers = [(name, each) for name, each in plain if each.status == 200]
    found = {f"{name}/{each}": body_violations(name, each.body) for name, each in answers}
    assert len(answers) > 200
    assert {each: wrong for each, wrong in found.items() if wrong} == {}


def test_every_known_fault_is_in_a_recording() -> None:
    seen: dict[tuple[str, str], set[str]] = {}
    for name, recording in STREAMS:
        seen.setdefault((recording.server, name), set()).update(wrong(name, recording.body, ended=recording.complete))
    assert {place: faults for place, faults in seen.items() if faults} == KNOWN


@pytest.mark.parametrize("profile", [Profile.REPAIR, Profile.FULL])
def test_what_is_made_of_a_recorded_stream_of_chat_is_as_legal_as_it_was(profile: Profile) -> None:
    for name, recording in STREAMS:
        if name == "chat":
            faults = wrong(name, send(recording, route_of(recording), profile).body)
            assert faults <= KNOWN.get((recording.server, name), set()), recording
