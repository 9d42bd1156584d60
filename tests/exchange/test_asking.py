"""What an engine is asked beyond the client's request, by route, policy and request (contract, `policy.request`)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.exchange import RouteRules
from gateway.exchange.asking import NOTHING, asked, asking_of
from gateway.policy import Profile
from gateway.protocols import protocol_for
from tests.exchange.driver import chat, route

STOPS = {"stop": ["END", "\n\n"]}


def rules(engine: str = "vllm", *, source: str = "auto", spelled: bool = False, **changes: Any) -> RouteRules:
    """A route whose engine is known. `spelled`: it has a tokenizer file."""
    made = route(source=source, **changes)
    return replace(made, engine=engine, spelling=(lambda: str) if spelled else None)


def sent(request: dict[str, Any], made: RouteRules, *, path: str = "/v1/chat/completions") -> dict[str, Any]:
    """The members that the engine gets other than the client wrote them; `None` for one that is gone."""
    protocol = protocol_for(path)
    assert protocol
    asking = asking_of(protocol.facts(request), made, made.policy, protocol=protocol.name)
    body = json.dumps(request).encode()
    out, done = asked(body, asking, made)
    got = json.loads(out)
    assert (out is body) is not (done or asking.tokens)
    changed = {name: value for name, value in got.items() if request.get(name, ...) != value}
    return changed | {name: None for name in request if name not in got}


@pytest.mark.parametrize(
    ("engine", "tokens", "spelled", "wanted"),
    [
        ("vllm", "auto", False, {"return_token_ids": True, "logprobs": True}),
        ("vllm", "ids", False, {"return_token_ids": True, "logprobs": True}),  # ids alone are no text
        ("vllm", "ids", True, {"return_token_ids": True}),
        ("vllm", "auto", True, {"return_token_ids": True}),
        ("vllm", "logprobs", True, {"logprobs": True}),
        ("sglang", "ids", True, {"logprobs": True}),  # refuses ids in a stream
        ("auto", "auto", False, {"logprobs": True}),
        ("vllm", "never", True, {}),
    ],
)
def test_tokens_are_asked_for_as_the_engine_can_tell_them(
    engine: str, tokens: str, spelled: bool, wanted: dict[str, Any]
) -> None:
    assert sent({"model": "m"}, rules(engine, source="tokens", spelled=spelled, tokens=tokens)) == wanted


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ({"logprobs": True}, {"return_token_ids": True}),
        ({"logprobs": True, "return_token_ids": True}, {}),
        ({"logprobs": False}, {"return_token_ids": True, "logprobs": True}),
        ({"include_reasoning": False}, {"return_token_ids": True, "logprobs": True, "include_reasoning": None}),
        ({"separate_reasoning": False}, {}),
        ({"return_tokens_as_token_ids": True, "logprobs": True}, {}),
    ],
)
def test_what_the_client_asks_for_is_not_asked_twice_and_what_it_wants_stays(
    request_: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert sent(request_, rules(source="tokens")) == wanted


@pytest.mark.parametrize("source", ["auto", "fields", "text"])
def test_another_source_asks_for_no_tokens(source: str) -> None:
    assert sent({"model": "m"}, rules(source=source, tokens="ids")) == {}


@pytest.mark.parametrize(
    ("engine", "stop", "request_", "wanted"),
    [
        ("vllm", "in_step", STOPS, {"include_stop_str_in_output": True}),
        ("sglang", "in_step", STOPS, {"no_stop_trim": True}),
        ("auto", "in_step", STOPS, {}),  # which member does it is not known
        ("vllm", "in_step", {}, {}),
        ("vllm", "in_step", STOPS | {"include_stop_str_in_output": True}, {}),
        ("vllm", "gateway", STOPS, {"stop": None}),
        ("auto", "gateway", {"stop": "END"}, {"stop": None}),
        ("vllm", "engine", STOPS, {}),
    ],
)
def test_stop_strings_are_matched_by_whom_the_policy_says(
    engine: str, stop: str, request_: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert sent(request_, rules(engine, stop=stop)) == wanted


def test_where_tokens_are_read_the_engines_own_stop_is_in_step() -> None:
    made = rules(source="tokens", stop="in_step")
    assert sent(STOPS, made) == {"return_token_ids": True, "logprobs": True}
    asking = asking_of(chat().facts(STOPS), made, made.policy, protocol="chat")
    assert (asking.stop, asking.stops) == ("engine", ("END", "\n\n"))


@pytest.mark.parametrize("profile", [Profile.OBSERVE, Profile.REPAIR])
def test_a_request_is_changed_in_profile_full_only(profile: Profile) -> None:
    made = rules(source="tokens", profile=profile, stop="gateway", tokens="ids")
    assert asking_of(chat().facts(STOPS), made, made.policy, protocol="chat") is NOTHING


@pytest.mark.parametrize("path", ["/v1/completions", "/generate", "/v1/messages", "/v1/responses"])
def test_only_chat_is_asked_otherwise(path: str) -> None:
    assert sent({"stop": ["END"]}, rules(source="tokens", stop="gateway"), path=path) == {}


def test_without_a_dialect_no_tokens_are_read() -> None:
    made = replace(rules(source="tokens"), dialect=None)
    assert asking_of(chat().facts({}), made, made.policy, protocol="chat") == NOTHING


def test_each_change_is_counted_and_other_bytes_stay() -> None:
    made = rules(source="tokens", stop="gateway")
    body = b'{ "stop":["END"],"temperature":1.10,"x":1E5}'
    out, done = asked(body, asking_of(chat().facts(STOPS), made, made.policy, protocol="chat"), made)
    assert out.startswith(b'{ "temperature":1.10,"x":1E5,') or b'"temperature":1.10,"x":1E5' in out
    assert done == {"tokens_asked": 1, "stop_removed": 1}
    only = rules(stop="in_step")
    _, done = asked(body, asking_of(chat().facts(STOPS), only, only.policy, protocol="chat"), only)
    assert done == {"stop_in_step": 1}
