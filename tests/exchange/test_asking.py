"""What an engine is asked beyond the client's request, by route, policy and request (contract, `policy.request`)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.exchange import RouteRules
from gateway.exchange.asking import NOTHING, asked, asking_of, ids_read
from gateway.policy import Profile, policy_for
from gateway.protocols import protocol_for
from gateway.rulebook.load import load_rulebook
from gateway.streams.tokens import UNLEARNED, Markers
from tests.exchange.driver import chat, route

STOPS = {"stop": ["END", "\n\n"]}
LEARNED = Markers(texts=frozenset({"</think>"}), ids={9: "</think>"})


def rules(
    engine: str = "vllm", *, source: str = "auto", spelled: bool = False, markers: Markers = UNLEARNED, **changes: Any
) -> RouteRules:
    """A route whose engine is known. `spelled`: it has a tokenizer file."""
    made = route(source=source, **changes)
    return replace(made, engine=engine, spelling=(lambda: str) if spelled else None, markers=markers)


def sent(request: dict[str, Any], made: RouteRules, *, path: str = "/v1/chat/completions") -> dict[str, Any]:
    """The members that the engine gets other than the client wrote them; `None` for one that is gone."""
    protocol = protocol_for(path)
    assert protocol
    asking = asking_of(protocol.facts(request), made, made.policy, protocol=protocol.name)
    body = json.dumps(request).encode()
    out, done = asked(body, asking, made)
    got = json.loads(out)
    assert bool(done) is (out is not body) or asking.tokens is not None
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
    ("tokens", "markers", "stream", "wanted"),
    [
        ("ids", LEARNED, False, {"return_token_ids": True}),
        ("ids", LEARNED, True, {"return_token_ids": True, "logprobs": True}),
        ("ids", UNLEARNED, False, {"return_token_ids": True, "logprobs": True}),
        ("auto", LEARNED, False, {"return_token_ids": True, "logprobs": True}),
    ],
)
def test_ids_alone_are_asked_for_where_the_engine_can_spell_a_whole_answer(
    tokens: str, markers: Markers, stream: bool, wanted: dict[str, Any]
) -> None:
    made = rules(source="tokens", tokens=tokens, markers=markers)
    assert sent({"model": "m", "stream": stream}, made) == wanted


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ({"logprobs": True}, {"return_token_ids": True}),
        ({"logprobs": True, "return_token_ids": True}, {}),
        ({"logprobs": False}, {"return_token_ids": True, "logprobs": True}),
        ({"include_reasoning": False}, {"return_token_ids": True, "logprobs": True, "include_reasoning": None}),
        ({"logprobs": True, "return_token_ids": True, "include_reasoning": False}, {"include_reasoning": None}),
        ({"separate_reasoning": False}, {}),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, {}),  # `think` has no format of calls
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
        ("vllm", "gateway", STOPS | {"include_stop_str_in_output": True}, {}),
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
    body = b'{ "stop":["END"],"temperature":1.10,"x":1E5}'
    for made, out, counted in (
        (rules(source="tokens", tokens="logprobs"), body[:-1] + b',"logprobs":true}', "tokens_asked"),
        (rules(stop="gateway"), b'{ "temperature":1.10,"x":1E5}', "stop_removed"),
        (rules(stop="in_step"), body[:-1] + b',"include_stop_str_in_output":true}', "stop_in_step"),
    ):
        asking = asking_of(chat().facts(STOPS), made, made.policy, protocol="chat")
        assert asked(body, asking, made) == (out, {counted: 1})


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ({"include_usage": True}, {"include_usage": True, "continuous_usage_stats": True}),
        ({"include_usage": True, "continuous_usage_stats": True}, None),
        ({"include_usage": False}, None),
    ],
)
def test_an_engine_that_may_be_left_early_is_asked_for_the_usage_of_each_chunk(
    request_: dict[str, Any], wanted: dict[str, Any] | None
) -> None:
    changed = sent(STOPS | {"stream": True, "stream_options": request_}, rules(stop="gateway"))
    assert changed == {"stop": None} | ({"stream_options": wanted} if wanted else {})


FAULTS = load_rulebook().faults
LATE = {"parser": "deepseek_r1", "faults": FAULTS, "engine_version": "0.32.0"}
EATEN = {"tools_parser": "qwen3_xml", "faults": FAULTS, "engine_version": "0.28.0"}


@pytest.mark.parametrize(
    ("known", "request_", "wanted", "why"),
    [
        (LATE, STOPS | {"stream": True}, {"include_stop_str_in_output": True}, ("stop-desync",)),
        (LATE, STOPS, {}, ()),  # a plain answer is right
        (LATE, {"stream": True}, {}, ()),
        (LATE, {"stream": True, "stop": "."}, {}, ()),  # nothing is kept back for one character
        (LATE | {"engine_version": "9.9.0"}, STOPS | {"stream": True}, {}, ()),  # of which nothing is known
        (LATE | {"parser": "qwen3"}, STOPS | {"stream": True}, {}, ()),
        (LATE | {"parser": "kimi_k3"}, STOPS | {"stream": True}, {"stop": None}, ("stop-desync-kimi-k3",)),
        (EATEN, {"stream": True}, {"return_token_ids": True, "logprobs": True}, ("tool-parser-eats-closer",)),
        (EATEN, {}, {"return_token_ids": True, "logprobs": True}, ("tool-parser-eats-closer",)),
        (EATEN | {"engine_version": "0.32.0"}, {"stream": True}, {}, ()),
    ],
)
def test_auto_asks_for_what_helps_against_a_fault_that_the_request_meets(
    known: dict[str, Any], request_: dict[str, Any], wanted: dict[str, Any], why: tuple[str, ...]
) -> None:
    made = replace(rules(), **known)
    assert sent(request_, made) == wanted
    assert asking_of(chat().facts(request_), made, made.policy, protocol="chat").why == why
    left = replace(made, policy=policy_for(Profile.FULL, stop="engine", tokens="never"))
    assert asking_of(chat().facts(request_), left, left.policy, protocol="chat") == NOTHING


# ---------------------------------------------------------------------- the ids of /generate


@pytest.mark.parametrize(
    ("changes", "request_", "read"),
    [
        ({}, {}, True),
        ({"profile": Profile.REPAIR}, {}, False),
        ({"source": "text"}, {}, False),
        ({"tokens": "never"}, {}, False),
        ({"spelled": False}, {}, False),
        ({}, {"sampling_params": [{}]}, False),  # each answer has its own
    ],
)
def test_ids_that_come_unasked_are_read_where_the_route_reads_tokens(
    changes: dict[str, Any], request_: dict[str, Any], read: bool
) -> None:
    protocol = protocol_for("/generate")
    assert protocol
    made = rules("sglang", **{"source": "tokens", "spelled": True, **changes})
    facts = protocol.facts(request_)
    assert (ids_read(facts, made, made.policy, protocol="generate") is not None) is read
    assert ids_read(facts, made, made.policy, protocol="completions") is None
    assert ids_read(facts, replace(made, dialect=None), made.policy, protocol="generate") is None


@pytest.mark.parametrize(
    ("sampling", "unshown", "keeps_end"),
    [({}, {7}, False), ({"skip_special_tokens": False}, set(), False), ({"no_stop_trim": True}, {7}, True)],
)
def test_what_of_the_ids_is_text_the_request_says(sampling: Any, unshown: set[int], keeps_end: bool) -> None:
    protocol = protocol_for("/generate")
    assert protocol
    made = replace(rules("sglang", source="tokens", spelled=True), special=frozenset({7}))
    found = ids_read(protocol.facts({"sampling_params": sampling}), made, made.policy, protocol="generate")
    assert found and (found.unshown, found.keeps_end) == (unshown, keeps_end)
