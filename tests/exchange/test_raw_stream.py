"""Text completions and `/generate` through the exchange: split or left, streamed and plain, at any cut and any end.

The expected values are those of the reader's specification, whatever the endpoint (contract rule 1).
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import EngineTruncated, IntegrityError
from gateway.exchange import Overrides
from gateway.limits import Limits
from gateway.policy import Profile, ReasoningField
from gateway.protocols.legal import CHECKERS
from tests.exchange.driver import route
from tests.support.atoms import dialects, texts
from tests.support.raw_text import (
    DONE,
    ENDINGS,
    WIRES,
    Completions,
    Generate,
    Told,
    Wire,
    cut,
    frame,
    opened,
    plain,
    split_route,
    stream,
    values,
)

THOUGHT = "<think>Let me think. 2 < 3</think>The answer <b> is 42."
SAID = ("Let me think. 2 < 3", "The answer <b> is 42.")
ARRAYS: dict[str, Wire] = {
    "completions": Completions(logprobs=True, ids=True),
    "generate": Generate(logprobs=True),
    "generate, pieces": Generate(logprobs=True, pieces=True),
}
wires = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES.keys())
arrays = pytest.mark.parametrize("wire", ARRAYS.values(), ids=ARRAYS.keys())
REPORTED = Overrides(report=True)


# ---------------------------------------------------------------------- split


@wires
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_the_thought_stands_beside_the_text_streamed_as_plain(wire: Wire, size: int) -> None:
    tokens = cut(THOUGHT, size)
    streamed = stream(wire, [*wire.events(tokens), DONE])
    assert (streamed.said, streamed.complete, streamed.findings) == (SAID, True, {})
    assert streamed.choices[0].finishes == ["stop"]
    whole = plain(wire, wire.body(tokens))
    assert (whole.said, whole.headers) == (SAID, {})
    assert streamed.body.endswith(DONE)


@wires
def test_untouched_events_keep_their_bytes_until_something_changes(wire: Wire) -> None:
    events = wire.events(cut("The answer is 42. No tag.", 5))
    assert stream(wire, [*events, DONE]).body == b"".join([*events, DONE])
    body = wire.body(cut("The answer is 42.", 5))
    assert plain(wire, body).body == body
    later = wire.events([["a"], ["b"], ["</thin"], ["g>"], ["c"]])
    sent = stream(wire, [*later, DONE]).body
    assert sent.startswith(b"".join(later[:2])) and sent.endswith(later[-1] + DONE)


@wires
def test_the_names_of_the_thought_are_those_of_the_route(wire: Wire) -> None:
    events = wire.events(cut(THOUGHT, 9))
    for names, field in (
        ({"reasoning"}, ReasoningField.REASONING),
        ({"reasoning_content"}, ReasoningField.REASONING_CONTENT),
        ({"reasoning", "reasoning_content"}, ReasoningField.BOTH),
        ({"reasoning"}, ReasoningField.AS_UPSTREAM),
        (set(), ReasoningField.NONE),
    ):
        body = stream(wire, [*events, DONE], split_route(reasoning_field=field)).body
        found = {name for name in ("reasoning", "reasoning_content") if b'"%b":"' % name.encode() in body}
        assert found == names


@wires
def test_a_prompt_that_opens_the_thought_starts_it(wire: Wire) -> None:
    field = "text" if wire.path == "/generate" else "prompt"
    text = "hm</think>Hi"
    for size in (1, 100):
        events = [*wire.events(cut(text, size)), DONE]
        assert stream(wire, events, request={field: "assistant\n<think>\n"}).said == ("hm", "Hi")
        assert stream(wire, events, request={field: "hi"}).said == ("", "hm</think>Hi")
        told = split_route(starts_in="reasoning")
        assert stream(wire, events, told, request={field: "hi"}).said == ("hm", "Hi")
    assert plain(wire, wire.body(cut(text, 3)), request={field: "<think>"}).said == ("hm", "Hi")


@wires
def test_calls_stay_text_whatever_the_request_says(wire: Wire) -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    for request in ({}, {"tools": tools}, {"tools": tools, "tool_choice": "none"}):
        answer = stream(wire, [*wire.events(cut(call, 4)), DONE], split_route("qwen"), request=request)
        assert (answer.said, answer.choices[0].finishes) == (("", call), ["stop"])
        assert plain(wire, wire.body(cut(call, 4)), split_route("qwen"), request=request).said == ("", call)
    control = "<|open|>tools<|sep|>f<|close|>tools<|sep|>"
    assert stream(wire, [*wire.events(cut(control, 4)), DONE], split_route("kimi_k3")).said[1] == control


@wires
def test_answers_that_come_interleaved_are_read_apart(wire: Wire) -> None:
    one, other = wire.events(cut(THOUGHT, 4), index=0), wire.events(cut("x</think>y <think>", 3), index=1)
    reads = [each for pair in zip(one, other, strict=False) for each in pair] + one[len(other) :] + other[len(one) :]
    answer = stream(wire, [*reads, DONE], request={"prompt": ["hi", "<think>"], "text": ["hi", "<think>"]})
    assert {index: told.said for index, told in answer.choices.items()} == {0: SAID, 1: ("x", "y <think>")}
    assert [told.finishes for told in answer.choices.values()] == [["stop"], ["stop"]]


@wires
def test_a_plain_body_of_several_prompts_is_read_answer_by_answer(wire: Wire) -> None:
    body = wire.body(cut(THOUGHT, 4), cut("x</think>y", 3))
    answer = plain(wire, body, request={"prompt": ["hi", "<think>"], "text": ["hi", "<think>"]}, overrides=REPORTED)
    assert {index: told.said for index, told in answer.choices.items()} == {0: SAID, 1: ("x", "y")}
    assert body.count(b'"finish_reason"') == answer.body.count(b'"finish_reason"')


# ---------------------------------------------------------------------- arrays


@arrays
@pytest.mark.parametrize("size", [1, 3, 7])
def test_arrays_are_those_of_the_text(wire: Wire, size: int) -> None:
    tokens = cut(THOUGHT, size)
    streamed = stream(wire, [*wire.events(tokens), DONE]).choices[0]
    whole = plain(wire, wire.body(tokens)).choices[0]
    assert (streamed.tokens, streamed.ids, streamed.offsets) == (whole.tokens, whole.ids, whole.offsets)
    assert "".join(streamed.tokens).endswith(SAID[1])
    assert len("".join(streamed.tokens)) < len(SAID[1]) + size
    assert streamed.ids == list(range(len(tokens) - len(streamed.ids), len(tokens)))


DIALECTS = dialects()


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[list[str]]]:
    """A dialect, and a text full of its markers as the tokens of events."""
    name = draw(st.sampled_from(sorted(DIALECTS)))
    text = "".join([each for each in draw(texts(DIALECTS[name], size=10)) if not "\ud800" <= each <= "\udfff"])
    events: list[list[str]] = []
    while text:
        sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        tokens = []
        for size in sizes:
            tokens, text = [*tokens, text[:size]], text[size:]
        events.append([token for token in tokens if token])
    return name, events


def assert_in_step(told: Told) -> None:
    """Every character of the text has its token, in order, and every token its place."""
    ends = [*told.offsets[1:], len(told.text)][: len(told.tokens)]
    assert told.offsets == sorted(told.offsets) and told.offsets[:1] == [0] * bool(told.text or told.tokens)
    for token, begin, end in zip(told.tokens, told.offsets, ends, strict=True):
        letters = iter(token)
        assert all(letter in letters for letter in told.text[begin:end])


@given(st.data(), answers())
def test_any_text_reads_alike_on_every_wire_and_its_arrays_stay_in_step(
    data: st.DataObject, answer: tuple[str, list[list[str]]]
) -> None:
    name, events = answer
    rules = split_route(
        read_as=DIALECTS[name],
        profile=data.draw(st.sampled_from([Profile.REPAIR, Profile.FULL])),
        starts_in=data.draw(st.sampled_from(["auto", "content", "reasoning"])),
        reasoning_field=data.draw(st.sampled_from([ReasoningField.BOTH, ReasoningField.NONE])),
    )
    finish, reason = data.draw(st.sampled_from([*ENDINGS.values()]))
    said = set()
    for wire in ARRAYS.values():
        if finish is None and len(events) < 2:  # whether one event is a piece or all, nothing tells
            continue
        streamed = stream(wire, [*wire.events(events, finish=finish, reason=reason), DONE], rules).choices.get(
            0, Told()
        )
        whole = plain(wire, wire.body(events, finish=finish, reason=reason), rules).choices[0]
        assert streamed.said == whole.said
        said.add(whole.said)
        if DIALECTS[name].replay:  # an answer that is sent again has no tokens
            continue
        assert finish is None or (streamed.tokens, streamed.ids) == (whole.tokens, whole.ids)
        if isinstance(wire, Completions):
            assert_in_step(streamed)
            assert_in_step(whole)
    assert len(said) <= 1


@arrays
def test_hidden_reasoning_is_in_no_field_and_no_array(wire: Wire) -> None:
    rules = split_route(reasoning_field=ReasoningField.NONE)
    tokens = cut("<think>SECRET</think>Hi <b", 2)
    streamed = stream(wire, [*wire.events(tokens), DONE], rules)
    whole = plain(wire, wire.body(tokens), rules)
    for answer in (streamed, whole):
        assert answer.said == ("", "Hi <b")
        assert not any(piece in answer.body for piece in (b"SE", b"CR", b"ET"))
    left = stream(wire, [*wire.events(tokens), DONE], route(reasoning_field=ReasoningField.NONE))
    assert left.body == streamed.body  # what is hidden is split, whatever `raw_text` says


# ---------------------------------------------------------------------- endings


@wires
def test_a_stream_without_a_finish_reason_gets_one_where_the_profile_says_so(wire: Wire) -> None:
    reads = [*wire.events(cut(THOUGHT, 5), finish=None), DONE]
    answer = stream(wire, reads)
    assert (answer.said, answer.choices[0].finishes) == (SAID, ["stop"])
    assert answer.findings == {"finish_reason_fixed/added": 1}
    repaired = stream(wire, reads, split_route(profile=Profile.REPAIR))
    assert (repaired.said, repaired.choices[0].finishes) == (SAID, [])


def whole_events(body: bytes) -> bytes:
    """The events of a body that breaks off; one that only lacks its blank line is one (WHATWG HTML 9.2.6)."""
    *frames, rest = body.split(b"\n\n")
    with contextlib.suppress(ValueError):
        json.loads(rest.removeprefix(b"data: "))
        frames.append(rest.rstrip(b"\n"))
    return b"".join([each + b"\n\n" for each in frames])


def assert_breaks_off(wire: Wire, body: bytes) -> None:
    """A stream of which only `body` came ends in an error, and says all the text that came."""
    exchange = opened(wire, split_route(), {})
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    sent = exchange.data(body)
    ending = exchange.broken(EngineTruncated("gone"))
    assert CHECKERS[exchange.protocol.name](sent + ending.data) == []
    *events, error = values(sent + ending.data)
    assert (ending.complete, error["error"]["code"][:10]) == (False, "integrity_")
    came = wire.streamed(whole_events(body)).get(0, Told()).text
    told = wire.streamed(b"".join([frame(each) for each in events])).get(0, Told())
    assert told.reasoning + told.text == came.replace("<think>", "").replace("</think>", "")


@wires
def test_a_stream_that_breaks_off_at_any_byte_loses_no_text_and_ends_in_an_error(wire: Wire) -> None:
    body = b"".join([*wire.events(cut("<think>a <b</think>Hi <b", 6)), DONE])
    for at in range(len(body.rstrip())):  # a whole `[DONE]` ends the answer
        assert_breaks_off(wire, body[:at])


@wires
def test_a_stream_that_breaks_off_behind_any_event_loses_no_text_and_ends_in_an_error(wire: Wire) -> None:
    events = wire.events(cut(THOUGHT, 1))
    for at in range(len(events)):
        assert_breaks_off(wire, b"".join(events[:at]))


@wires
def test_a_stream_that_ends_without_its_last_event_is_complete_only_behind_the_finish(wire: Wire) -> None:
    events = wire.events(cut(THOUGHT, 5))
    cut_off = stream(wire, events[:-1])
    assert not cut_off.complete and values(cut_off.body)[-1]["error"]
    assert stream(wire, events).complete
    assert not stream(wire, []).complete


@wires
def test_an_error_of_the_engine_comes_behind_what_was_held(wire: Wire) -> None:
    error = b'data: {"error":{"message":"m","type":"t","code":500}}\n\n'
    answer = stream(wire, [*wire.events([["a"], ["<"]], finish=None), error, DONE])
    assert (answer.said, answer.choices[0].finishes) == (("", "a<"), [])
    assert answer.body.endswith(error + DONE)


# ---------------------------------------------------------------------- left


@wires
@pytest.mark.parametrize("profile", Profile)
def test_text_that_is_left_keeps_its_bytes_and_is_counted(wire: Wire, profile: Profile) -> None:
    rules = route(profile=profile)
    counted = {"reasoning_leak/would_move": 1, "boundary_token/would_strip": 2}
    for size in (1, 5, 100):
        events = [*wire.events(cut(THOUGHT, size)), DONE]
        streamed = stream(wire, events, rules)
        assert (streamed.body, streamed.findings) == (b"".join(events), counted)
        body = wire.body(cut(THOUGHT, size))
        whole = plain(wire, body, rules)
        assert (whole.body, whole.findings) == (body, counted)


@wires
def test_a_split_that_is_only_observed_changes_nothing_and_finds_nothing(wire: Wire) -> None:
    events = [*wire.events(cut(THOUGHT, 5)), DONE]
    answer = stream(wire, events, split_route(profile=Profile.OBSERVE))
    assert (answer.body, answer.findings) == (b"".join(events), {})
    observed = stream(wire, events, split_route(), overrides=Overrides(observe=True))
    assert (observed.body, observed.findings) == (b"".join(events), {})


@wires
def test_a_stream_that_is_left_and_breaks_off_ends_in_an_error(wire: Wire) -> None:
    exchange = opened(wire, route(), {})
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    events = b"".join(wire.events([["<think>"], ["a <"]], finish=None))
    assert exchange.data(events) == events
    assert exchange.holding is None
    ending = exchange.broken(EngineTruncated("gone"))
    assert (len(values(ending.data)), ending.complete) == (1, False)


@wires
def test_a_stream_that_is_left_gets_no_finish_reason(wire: Wire) -> None:
    reads = [*wire.events(cut("Hi", 1), finish=None), DONE]
    answer = stream(wire, reads, route())
    assert (answer.body, answer.findings) == (b"".join(reads), {"finish_reason_fixed/would_add": 1})


@wires
def test_a_thought_that_the_prompt_opened_is_counted_where_it_is_left(wire: Wire) -> None:
    events = [*wire.events(cut("hm</think>Hi", 3)), DONE]
    request = {"prompt": "<think>", "text": "<think>"}
    assert stream(wire, events, route(), request=request).findings["reasoning_leak/would_move"] == 1


# ---------------------------------------------------------------------- echo


PROMPT = "Q: what is </think>?\n<think>\n"


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("logprobs", [True, False])
def test_an_echoed_prompt_is_not_read(size: int, logprobs: bool) -> None:
    wire = Completions(logprobs=logprobs, ids=logprobs)
    request = {"prompt": PROMPT, "echo": True}
    tokens = cut(PROMPT + "hm</think>Hi", size)
    streamed = stream(wire, [*wire.events(tokens), DONE], request=request)
    whole = plain(wire, wire.body(tokens), request=request)
    assert streamed.said == whole.said == ("hm", PROMPT + "Hi")
    assert streamed.choices[0].offsets == whole.choices[0].offsets
    left = stream(wire, [*wire.events(tokens), DONE], route(), request=request)
    assert left.body == b"".join([*wire.events(tokens), DONE])
    assert left.findings == {"reasoning_leak/would_move": 1, "boundary_token/would_strip": 1}


@pytest.mark.parametrize("prompt", [[1, 2, 3], "another prompt", None])
def test_where_the_border_of_an_echo_is_not_to_be_told_nothing_changes(prompt: Any) -> None:
    wire = Completions(logprobs=True)
    request = {"prompt": prompt, "echo": True}
    reads = [*wire.events(cut(PROMPT + THOUGHT, 4)), DONE]
    answer = stream(wire, reads, request=request)
    assert answer.body == b"".join(reads)
    assert (answer.findings, dict(answer.exchange.tally.uninspected)) == ({}, {"echo": 1})
    body = wire.body(cut(PROMPT + THOUGHT, 4))
    assert plain(wire, body, request=request).body == body


# ---------------------------------------------------------------------- what else a stream has


def test_usage_and_comments_stay_and_usage_that_never_came_is_told() -> None:
    wire = Completions()
    asked = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    usage = b'"usage":{"total_tokens":3}'
    events = [event[:-3] + b"," + usage + b"}\n\n" for event in wire.events([["<think>"], ["a"], ["</think>"], ["b"]])]
    last = frame({"choices": [], "usage": {"total_tokens": 9}})
    comment = b": keep-alive\n\n"
    answer = stream(wire, [events[0], comment, *events[1:], last, DONE], request=asked)
    assert (answer.said, answer.findings) == (("a", "b"), {})
    assert answer.body.count(usage) == len(events)  # an event whose text went still tells its usage
    assert comment in answer.body and answer.body.endswith(last + DONE)
    silent = stream(wire, [*wire.events([["b"]]), DONE], request=asked)
    assert silent.findings == {"usage_missing/flagged": 1}


@wires
@pytest.mark.parametrize("profile", Profile)
def test_the_report_has_its_place(wire: Wire, profile: Profile) -> None:
    for rules in (split_route(profile=profile), route(profile=profile)):
        events = wire.events(cut("a</think>b", 4))
        answer = stream(wire, [*events, DONE], rules, overrides=REPORTED)
        last = values(answer.body)[-1]
        report = last["meta_info"]["integrity"] if wire.path == "/generate" else last["integrity"]
        assert (report["profile"], report["source"], report["dialect"]) == (str(profile), "text", "think")
        assert answer.body.endswith(DONE) and answer.body.count(b'"integrity"') == 1
        quiet = stream(wire, [*events, DONE], rules)
        assert answer.said == quiet.said  # the event that carries it repeats nothing, and takes nothing back
        whole = json.loads(plain(wire, wire.body(cut("a", 1)), rules, overrides=REPORTED).body)
        assert "integrity" in (whole["meta_info"] if wire.path == "/generate" else whole)


@wires
def test_halves_of_one_character_in_two_events_arrive_whole(wire: Wire) -> None:
    if wire == WIRES["generate"]:  # cumulative text never ends in a half
        return
    reads = [*wire.events([["</think>x"], ["\ud83d"], ["\ude00"]]), DONE]
    assert stream(wire, reads).said == ("", "x\U0001f600")


@wires
def test_bytes_of_another_protocol_go_on_as_they_came_unless_reasoning_is_hidden(wire: Wire) -> None:
    strange = b'data: {"choices":[{"delta":{"content":"<think>a"}}]}\n\n'
    answer = stream(wire, [strange, DONE])
    assert answer.body == strange + DONE
    hidden = stream(wire, [strange, DONE], split_route(reasoning_field=ReasoningField.NONE))
    assert (values(hidden.body)[-1]["error"]["code"][:10], hidden.complete) == ("integrity_", False)
    body = b'{"choices":[{"message":{"content":"<think>"}}]}'
    assert plain(wire, body).body == body
    with pytest.raises(IntegrityError):
        plain(wire, body, split_route(reasoning_field=ReasoningField.NONE))


@wires
def test_an_answer_whose_index_is_no_number_is_not_read(wire: Wire) -> None:
    index = b'"index":0,' if wire.path != "/generate" else b'"text":'
    odd = b'"index":"0",' if wire.path != "/generate" else b'"index":"0","text":'
    reads = [event.replace(index, odd) for event in wire.events([["<think>a"]])]
    answer = stream(wire, [*reads, DONE])
    assert answer.body == b"".join([*reads, DONE])
    assert dict(answer.exchange.tally.uninspected) == {"choice_index": len(reads)}


@wires
def test_more_answers_than_are_tracked_are_not_shown_where_reasoning_is_hidden(wire: Wire) -> None:
    few = Limits(choices=1)
    reads = [*wire.events(cut(THOUGHT, 9)), *wire.events(cut(THOUGHT, 9), index=1), DONE]
    body = wire.body(cut(THOUGHT, 9), cut(THOUGHT, 9))
    shown = stream(wire, reads, split_route(limits=few)).choices
    assert (shown[0].said, shown[1].said) == (SAID, ("", THOUGHT))
    assert plain(wire, body, split_route(limits=few)).choices[1].said == ("", THOUGHT)
    rules = split_route(limits=few, reasoning_field=ReasoningField.NONE)
    hidden = stream(wire, reads, rules)
    assert b"Let me" not in hidden.body and values(hidden.body)[-1]["error"]
    with pytest.raises(IntegrityError):
        plain(wire, body, rules)
