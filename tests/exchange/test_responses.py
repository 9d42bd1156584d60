"""Responses from the engine to the client: legal at every change, the same text as chat reads, streamed and plain.

Contract rules 1, 2, 6 and 7; reference/vllm.md 3.5 and sglang.md 3.5 for what engines send.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.exchange import Overrides
from gateway.policy import Profile, ReasoningField, ToolRescue
from gateway.rulebook.load import load_rulebook
from tests.exchange import driver
from tests.exchange.driver import route
from tests.support.responses import Answer, Piece, body, event, opened, plain, response, stream, streamed

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: dict[str, Any] = {"tools": [{"type": "function", "name": "f", "parameters": CITY}]}
CHAT_TOOLS: dict[str, Any] = {"tools": [{"type": "function", "function": {"name": "f", "parameters": CITY}}]}
OSLO = '{"city": "Oslo"}'
MARKUP = f'<tool_call>\n{{"name": "f", "arguments": {OSLO}}}\n</tool_call>'


def hermes(**given: Any) -> Any:
    """A route of Qwen3 with calls as JSON in tags."""
    found = load_rulebook().resolve({"reasoning": "qwen3", "tools": "hermes"}, engine="vllm")
    return route(read_as=found.dialect, **given)


HERMES = hermes()
RAW = hermes(source="text")
HIDDEN = hermes(reasoning_field=ReasoningField.NONE)


def chars(kind: str, text: str, size: int = 1) -> list[Piece]:
    """A text in pieces of so many characters."""
    return [(kind, text[at : at + size]) for at in range(0, len(text), size)]


def types(answer: Answer) -> list[str]:
    """The types of the events, without what they all begin with."""
    return [value["type"].removeprefix("response.") for value in answer.events]


# ---------------------------------------------------------------------- what does not change keeps its bytes

CLEAN: dict[str, list[Piece]] = {
    "thought and answer": [("reasoning", "Let me"), ("reasoning", " think."), ("content", "4"), ("content", "2.")],
    "answer": [("content", "The answer"), ("content", " is 42.")],
    "thought": [("reasoning", "Hm.")],
    "call": [("reasoning", "Hm."), ("call", ("c1", "f", ['{"city": ', '"Oslo"}']))],
    "answer and call": [("content", "Look."), ("call", ("c1", "f", [OSLO])), ("call", ("c2", "f", [OSLO]))],
    "progress": [("commentary", "Looking <think>"), ("reasoning", "Hm."), ("content", "42.")],
    "two thoughts": [("reasoning", "a"), ("other", {"id": "ws", "type": "web_search_call"}), ("reasoning", "b")],
    "refusal": [("reasoning", "Hm."), ("refusal", "I can"), ("refusal", "not.")],
    "nothing": [],
}


@pytest.mark.parametrize("shape", [{}, {"old": True}, {"summary": True}, {"tokens": True}], ids=str)
@pytest.mark.parametrize("pieces", CLEAN.values(), ids=CLEAN.keys())
@pytest.mark.parametrize("rules", [HERMES, route(profile=Profile.REPAIR), route("none")])
def test_a_right_stream_keeps_every_byte(pieces: list[Piece], shape: dict[str, bool], rules: Any) -> None:
    frames = stream(pieces, **shape)
    answer = streamed(frames, rules, request=TOOLS).legal()
    assert answer.body == b"".join(frames)
    assert plain(body(pieces), rules, request=TOOLS).body == body(pieces)


def test_frames_of_another_form_keep_their_bytes() -> None:
    frames = [
        b"id: 7\r\n" + frame.replace(b"\n", b"\r\n") + b": keep-alive\n\n"
        for frame in stream(CLEAN["thought and answer"])
    ]
    assert streamed(frames, HERMES).body.replace(b": keep-alive\n\n", b"") == b"".join(frames).replace(
        b": keep-alive\n\n", b""
    )


@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_an_answer_that_did_not_end_by_itself_keeps_every_byte(status: str) -> None:
    frames = stream(CLEAN["thought and answer"], status=status)
    answer = streamed(frames, HERMES)
    assert (answer.body, answer.complete) == (b"".join(frames), True)


def test_what_stands_around_text_waits_for_the_next_text_and_no_text_does() -> None:
    frames = stream(CLEAN["thought and answer"])
    exchange = opened({}, HERMES)
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = [exchange.data(frame) for frame in frames]
    late = {n for n, (frame, sent) in enumerate(zip(frames, out, strict=True)) if not sent}
    assert all(b".delta" not in frames[place] and b"event: response.completed" not in frames[place] for place in late)
    assert b"".join(out) == b"".join(frames)


# ---------------------------------------------------------------------- repairs

LEAKS: dict[str, tuple[Any, list[Piece], tuple[str, str], list[str]]] = {
    "a closer in the answer": (
        HERMES,
        [("reasoning", "a"), ("content", "</think>"), ("content", "b")],
        ("a", "b"),
        ["reasoning", "message"],
    ),
    "a thought in the answer": (HERMES, [("content", "<think>a</think>b")], ("a", "b"), ["reasoning", "message"]),
    "more of the thought behind it": (
        HERMES,
        [("reasoning", "a"), ("content", "<think>"), ("content", "b</think>c")],
        ("ab", "c"),
        ["reasoning", "message"],
    ),
    "raw text": (RAW, [("content", "<think>a</think>b")], ("a", "b"), ["reasoning", "message"]),
    "an answer in the thought": (
        HERMES,
        [("reasoning", "a</think>b"), ("content", "c")],
        ("a", "bc"),
        ["reasoning", "message"],
    ),
    "an end of turn": (HERMES, [("content", "a<|im_end|>")], ("", "a"), ["message"]),
    "held to the end": (HERMES, [("content", "a"), ("content", "<thi")], ("", "a<thi"), ["message"]),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(("rules", "pieces", "said", "kinds"), LEAKS.values(), ids=LEAKS.keys())
def test_a_leak_is_repaired_streamed_and_plain(
    rules: Any, pieces: list[Piece], said: tuple[str, str], kinds: list[str], size: int
) -> None:
    cut = [piece for kind, text in pieces for piece in chars(kind, text, size)]
    for shape in ({}, {"old": True}, {"tokens": True}, {"bare": True}):
        answer = streamed(stream(cut, **shape), rules).legal()
        assert (answer.said[:2], answer.kinds) == (said, kinds)
        assert answer.response["usage"] == {"input_tokens": 3, "output_tokens": 7, "total_tokens": 10}
    whole = plain(body(pieces), rules)
    assert (whole.said[:2], whole.kinds) == (said, kinds)


def test_the_engines_ids_stay_and_ours_are_the_same_each_time() -> None:
    pieces = [("reasoning", "a"), ("content", "b\n<think>c</think>d")]
    first, second = (streamed(stream(pieces), HERMES).legal() for _ in range(2))
    assert first.body == second.body
    assert [item["id"] for item in first.response["output"]][:2] == ["rs_0", "msg_1"]


def test_unknown_members_survive_a_change() -> None:
    frames = [
        frame.replace(b'"delta":', b'"obfuscation":"x","big":12345678901234567890,"rate":1.10,"delta":')
        .replace(b'"annotations":[]', b'"annotations":[{"n":1E5}]')
        .replace(b'"role":"assistant"', b'"role":"assistant","weight":1.10')
        for frame in stream([("content", "<think>a</think>"), ("content", "b")])
    ]
    answer = streamed(frames, HERMES)
    assert answer.body.count(b'"obfuscation":"x","big":12345678901234567890,"rate":1.10,"delta":"b"') == 1
    assert (
        answer.body.count(b'"annotations":[{"n":1E5}]') == 4
    )  # the part begins and ends, the item and the response end
    assert answer.body.count(b'"weight":1.10') == 3
    whole = body([("content", "<think>a</think>b")]).replace(b'"temperature":0.0', b'"temperature":1.10,"n":1E5')
    assert b'"temperature":1.10,"n":1E5' in plain(whole, HERMES).body


def test_the_terminal_event_says_what_the_deltas_said_where_the_engine_tells_otherwise() -> None:
    frames = stream([("reasoning", "a"), ("content", "b")])  # vLLM 0.28 reads the whole text a second time
    frames[-1] = frames[-1].replace(b'"text":"b"', b'"text":"<think>b"').replace(b'"id":"rs_0"', b'"id":"rs_other"')
    answer = streamed(frames, HERMES).legal()
    assert answer.body.startswith(b"".join(frames[:-1]))
    same = stream([("reasoning", "a"), ("content", "b")])
    same[-1] = same[-1].replace(b'"id":"rs_0"', b'"id":"rs_other"')
    assert streamed(same, HERMES).legal(ids=False).body == b"".join(same)


def test_an_answer_in_one_event_is_read_as_a_plain_one() -> None:
    for pieces in ([("content", "<think>a</think>b")], [("content", f"a\n{MARKUP}")]):
        whole = json.loads(body(pieces))
        created = event({"type": "response.created", "response": response([], "in_progress"), "sequence_number": 0})
        done = event({"type": "response.completed", "response": whole, "sequence_number": 1})
        answer = streamed([created, done], HERMES, request=TOOLS)
        assert answer.response == plain(body(pieces), HERMES, request=TOOLS).response
    clean = json.loads(body([("reasoning", "a"), ("content", "b")]))
    done = event({"type": "response.completed", "response": clean, "sequence_number": 1})
    assert streamed([created, done], HERMES).body == created + done
    hidden = streamed([created, done], HIDDEN)
    assert (hidden.said, hidden.kinds) == (("", "", []), ["message"])


# ---------------------------------------------------------------------- calls

ENGINE_CALLS = [
    (['{"city": ', '"Oslo"}'], OSLO, {}),
    ([OSLO + "}", "</s"], OSLO, {"tool_args_repaired/repaired": 1}),
    ([OSLO, OSLO, OSLO[:4]], OSLO, {"tool_args_repaired/repaired": 1}),
    ([OSLO[:-1]], OSLO, {"tool_args_repaired/repaired": 1}),
    (["{}"], "{}", {"tool_args_invalid/flagged": 1, "regen_wanted/flagged": 1}),
    (['{"city": "Os'], '{"city": "Os', {"tool_args_invalid/flagged": 1, "regen_wanted/flagged": 1}),
]


@pytest.mark.parametrize(("given_", "arguments", "found"), ENGINE_CALLS)
@pytest.mark.parametrize("after", [[], [("content", "done")], [("call", ("c2", "f", [OSLO]))]], ids=str)
@pytest.mark.parametrize("bare", [False, True])
def test_a_call_is_repaired_in_every_event_that_tells_it(
    given_: list[str], arguments: str, found: dict[str, int], after: list[Piece], bare: bool
) -> None:
    pieces = [("reasoning", "a"), ("call", ("c1", "f", given_)), *after]
    more = [("f", OSLO)] if after and after[0][0] == "call" else []
    answer = streamed(stream(pieces), HERMES, request=TOOLS).legal()
    assert answer.said[2] == [("f", arguments), *more]
    assert answer.findings == found
    whole = plain(body(pieces), HERMES, request=TOOLS)
    assert (whole.said, whole.findings) == (answer.said, found)


def test_a_call_with_another_name_gets_the_declared_one() -> None:
    for pieces in ([("call", ("c1", "functions.f", [OSLO]))], [("call", ("c1", "functions.f", []))]):
        answer = streamed(stream(pieces), HERMES, request=TOOLS).legal()
        assert answer.said[2][0][0] == "f"
        assert plain(body(pieces), HERMES, request=TOOLS).said == answer.said


def test_calls_that_were_not_asked_for_do_not_go_out() -> None:
    pieces = [("reasoning", "a"), ("call", ("c1", "f", [OSLO])), ("content", "b"), ("call", ("c2", "f", [OSLO]))]
    none = TOOLS | {"tool_choice": "none"}
    answer = streamed(stream(pieces), HERMES, request=none).legal()
    assert (answer.said, answer.kinds) == (("a", "b", []), ["reasoning", "message"])
    assert plain(body(pieces), HERMES, request=none).said == answer.said


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("rules", [HERMES, RAW, hermes(source="text", tool_rescue=ToolRescue(stream="incremental"))])
def test_a_call_left_as_text_becomes_an_item(rules: Any, size: int) -> None:
    text = f"<think>a</think>Look.\n{MARKUP}"
    answer = streamed(stream(chars("content", text, size)), rules, request=TOOLS).legal()
    assert answer.said == ("a", "Look.\n", [("f", OSLO)])
    assert answer.kinds == ["reasoning", "message", "function_call"]
    whole = plain(body([("content", text)]), rules, request=TOOLS)
    assert (whole.said, whole.kinds) == (answer.said, answer.kinds)
    only = streamed(stream(chars("content", MARKUP, size)), rules, request=TOOLS).legal()
    assert (only.said, only.kinds) == (("", "", [("f", OSLO)]), ["function_call"])
    assert plain(body([("content", MARKUP)]), rules, request=TOOLS).kinds == ["function_call"]


@pytest.mark.parametrize("text", [MARKUP, f"{MARKUP}\nDone."])
@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize("bare", [False, True])
def test_the_engines_call_behind_a_rescued_one_keeps_its_arguments(text: str, size: int, bare: bool) -> None:
    own = [("call", ("c1", "f", ['{"city": ', '"Bergen"}']))]
    answer = streamed(stream([*chars("content", text, size), *own], bare=bare), RAW, request=TOOLS)
    assert bare or answer.legal()
    assert answer.said[2] == [("f", OSLO), ("f", '{"city": "Bergen"}')]
    whole = plain(body([("content", text), *own]), RAW, request=TOOLS)  # ours stand behind the engine's own
    assert (whole.said[1], sorted(whole.said[2])) == (answer.said[1], sorted(answer.said[2]))


def test_the_ids_of_a_rescued_call_are_the_same_streamed_and_plain() -> None:
    calls = [
        next(item for item in answer.response["output"] if item["type"] == "function_call")
        for answer in (
            streamed(stream([("content", MARKUP)]), HERMES, request=TOOLS),
            plain(body([("content", MARKUP)]), HERMES, request=TOOLS),
        )
    ]
    assert calls[0] == calls[1]
    assert calls[0]["status"] == "completed"


def test_a_call_that_went_out_and_never_came_right_fails() -> None:
    rules = hermes(source="text", tool_rescue=ToolRescue(stream="incremental"))
    text = MARKUP[:-24]
    answer = streamed(stream(chars("content", text, 3)), rules, request=TOOLS)
    last = answer.events[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "failed"
    assert answer.legal(ended=False).body.count(b"event: response.failed") == 1


# ---------------------------------------------------------------------- progress messages


@pytest.mark.parametrize("drop", [False, True])
def test_progress_is_kept_or_dropped_and_is_no_answer(drop: bool) -> None:
    rules = hermes(phase_commentary="drop" if drop else "keep")
    pieces = [
        ("commentary", "Looking.</think>"),
        ("reasoning", "a"),
        ("commentary", "Still."),
        ("content", "<think>b</think>c"),
    ]
    answer = streamed(stream(pieces), rules).legal()
    assert answer.said == ("ab", "c", [])
    progress = [] if drop else ["Looking.</think>", "Still."]
    assert [i["content"][0]["text"] for i in answer.response["output"] if i.get("phase") == "commentary"] == progress
    whole = plain(body(pieces), rules)
    assert whole.said == answer.said
    assert [i["content"][0]["text"] for i in whole.response["output"] if i.get("phase") == "commentary"] == progress


def test_only_observed_progress_stays() -> None:
    pieces = [("commentary", "Looking."), ("content", "a")]
    rules = hermes(phase_commentary="drop")
    for overrides in (Overrides(observe=True), Overrides(observe=True, report=False)):
        assert streamed(stream(pieces), rules, overrides=overrides).body == b"".join(stream(pieces))
        assert plain(body(pieces), rules, overrides=overrides).body == body(pieces)


# ---------------------------------------------------------------------- hidden reasoning


@pytest.mark.parametrize("shape", [{}, {"summary": True}, {"old": True}], ids=str)
@pytest.mark.parametrize(
    "pieces",
    [
        [("reasoning", "secret"), ("content", "b")],
        [("content", "<think>secret</think>b")],
        [("reasoning", "sec"), ("commentary", ""), ("reasoning", "ret"), ("content", "b")],
    ],
)
def test_hidden_reasoning_shows_in_no_event(pieces: list[Piece], shape: dict[str, bool]) -> None:
    for tokens in (False, True):
        answer = streamed(stream(pieces, tokens=tokens, **shape), HIDDEN).legal()
        assert b"sec" not in answer.body
        assert answer.said == ("", "b", [])
        assert "reasoning" not in answer.kinds
        whole = plain(body(pieces, tokens=tokens), HIDDEN)
        assert (b"sec" in whole.body, whole.said) == (False, answer.said)
        assert "reasoning" not in whole.kinds


def test_encrypted_reasoning_stays_and_is_hidden_with_the_rest() -> None:
    sealed = {"id": "rs_9", "type": "reasoning", "summary": [], "encrypted_content": "xyz", "status": "completed"}
    pieces = [("other", sealed), ("content", "<think>a</think>b")]
    answer = streamed(stream(pieces), HERMES)
    assert answer.response["output"][0]["id"] == "rs_9"
    assert b"xyz" in plain(body(pieces), HERMES).body
    assert b"xyz" not in streamed(stream(pieces), HIDDEN).body
    assert b"xyz" not in plain(body(pieces), HIDDEN).body


# ---------------------------------------------------------------------- tokens


def test_no_token_of_a_thought_stands_beside_the_same_text_of_the_answer() -> None:
    def spelled(frames: list[bytes]) -> list[bytes]:
        """The same with log probabilities that tell the tokens apart: 1 for the first, 2 for the next."""
        number = 0
        out = []
        for frame in frames:
            while b'"logprob":-0.5' in frame and b".delta" in frame:
                number += 1
                frame = frame.replace(b'"logprob":-0.5', b'"logprob":-%d' % number, 1)
            out.append(frame)
        return out

    text = ["<think>", " 4", "2?", "</think>", " 4", "2", "."]
    for size in (1, 3, 7):
        joined = ["".join(text[at : at + size]) for at in range(0, len(text), size)]
        frames = spelled(stream([("content", each) for each in joined], tokens=True))
        raw = hermes(source="text", reasoning_field=ReasoningField.NONE)
        answer = streamed(frames, raw).legal()
        deltas = [event for event in answer.events if event["type"].endswith("output_text.delta")]
        shown = [(token["token"], token["logprob"]) for event in deltas for token in event["logprobs"]]
        assert answer.said[1] == " 42."
        assert all(logprob < -2 for _, logprob in shown), shown


def test_tokens_go_with_their_text() -> None:
    pieces = [("content", "<think>a b</think>c d"), ("content", " e")]
    answer = streamed(stream(pieces, tokens=True), HERMES).legal()
    deltas = [
        (e["delta"], [t["token"] for t in e["logprobs"]])
        for e in answer.events
        if e["type"].endswith("output_text.delta")
    ]
    assert deltas == [("c d", [" d"]), (" e", [" e"])]
    done = next(e for e in answer.events if e["type"] == "response.output_text.done")
    assert [token["token"] for token in done["logprobs"]] == [" d", " e"]
    whole = plain(body(pieces, tokens=True), HERMES)
    message = next(item for item in whole.response["output"] if item["type"] == "message")
    assert [token["token"] for token in message["content"][0]["logprobs"]] == [" d", " e"]


# ---------------------------------------------------------------------- the report


@pytest.mark.parametrize("profile", [Profile.OBSERVE, Profile.REPAIR])
def test_the_report_stands_in_the_response(profile: Profile) -> None:
    pieces = [("content", "<think>a</think>b")]
    rules = hermes(profile=profile)
    answer = streamed(stream(pieces), rules, overrides=Overrides(report=True)).legal()
    report = answer.response["integrity"]
    assert {row["finding"] for row in report["findings"]} == {"reasoning_leak", "boundary_token"}
    assert plain(body(pieces), rules, overrides=Overrides(report=True)).response["integrity"] == report
    assert b"integrity" not in streamed(stream(pieces), rules).body
    cut = streamed(stream(pieces)[:-1], rules, overrides=Overrides(report=True))
    assert b"integrity" not in cut.body.replace(b"integrity_", b"")


# ---------------------------------------------------------------------- endings


@pytest.mark.parametrize("rules", [HERMES, RAW, HIDDEN])
@pytest.mark.parametrize("broken", [False, True])
def test_a_stream_that_breaks_off_ends_with_an_error_and_loses_no_text(rules: Any, broken: bool) -> None:
    pieces = [
        ("reasoning", "ab"),
        ("content", "c\n<thi"),
        ("content", "s d"),
        ("call", ("c1", "f", ['{"city":', ' "x"}'])),
    ]
    frames = stream(pieces)
    for cut in range(len(frames)):
        answer = streamed(frames[:cut], rules, request=TOOLS, broken=broken).legal(ended=False)
        whole = "".join(e.get("delta", "") for e in Answer(b"".join(frames[:cut]), True, answer.exchange).events)
        kept = "".join(e.get("delta", "") for e in answer.events)
        assert kept == (whole.removeprefix("ab") if rules is HIDDEN else whole)
        assert answer.events[-1]["type"] == "error"
        assert (answer.complete, types(answer).count("completed")) == (False, 0)


def test_a_stream_that_is_cut_anywhere_ends_with_one_error() -> None:
    sent = b"".join(stream([("reasoning", "a"), ("content", "b<thi")]))
    for cut in range(0, len(sent) - 2):
        answer = streamed([sent[:cut]], HERMES).legal(ended=False)
        assert (types(answer).count("error"), answer.complete) == (1, False), cut


def test_an_error_of_the_engine_comes_behind_what_is_held() -> None:
    frames = stream([("content", "a<thi")])[:-4]
    error = event({"type": "error", "code": "server_error", "message": "x", "param": None, "sequence_number": 5})
    answer = streamed([*frames, error], HERMES).legal(ended=False)
    assert (answer.said[1], answer.events[-1]["message"], answer.complete) == ("a<thi", "x", True)
    bare = event({"type": "response.failed", "response": response([], "failed"), "sequence_number": 5})
    answer = streamed([*frames, bare], HERMES).legal(ended=False)
    assert (answer.said[1], answer.response["status"]) == ("a<thi", "failed")
    nested = b'data: {"error":{"message":"x","type":"y","param":null,"code":500}}\n\n'  # SGLang (sglang.md 3.2)
    assert streamed([*frames, nested], HERMES).body.endswith(nested)


def test_a_done_without_a_terminal_event_gets_one_in_full() -> None:
    frames = [*stream([("content", "a<thi")])[:-1], b"data: [DONE]\n\n"]
    answer = streamed(frames, HERMES)
    assert answer.legal(ended=False).response["status"] == "completed"
    assert answer.said[1] == "a<thi"
    assert answer.findings == {"finish_reason_fixed/added": 1}
    repaired = streamed(frames, hermes(profile=Profile.REPAIR))
    assert "completed" not in types(repaired)
    behind = [*stream(CLEAN["answer"]), b"data: [DONE]\n\n"]
    assert streamed(behind, HERMES).body == b"".join(behind)


@pytest.mark.parametrize("rules", [RAW, HIDDEN], ids=["leak", "hidden"])
def test_an_event_of_several_lines_is_one_event_when_it_is_written_again(rules: Any) -> None:
    frames = stream([("content", "<think>a</think>b")])
    spread = [frame.replace(b'{"type"', b'{\ndata: "type"') for frame in frames]
    assert streamed(spread, rules).legal().events == streamed(frames, rules).events


def test_what_is_no_event_of_responses_goes_on_as_it_came() -> None:
    for strange in (b"data: 7\n\n", b'data: {"choices":[]}\n\n', b'data: {"type":"response.output_text.delta"}\n\n'):
        frames = stream(CLEAN["answer"])
        answer = streamed([frames[0], strange, *frames[1:]], HERMES)
        assert answer.body == frames[0] + strange + b"".join(frames[1:])
        assert answer.exchange.tally.uninspected.total() == 1


STATUS = {"completed": "stop", "incomplete": "length", "cancelled": "abort", "failed": "error"}
OFF: dict[str, Any] = {"reasoning": {"effort": "none"}}


@pytest.mark.parametrize("status", STATUS)
def test_thinking_off_a_lone_thought_is_the_answer_only_where_the_model_ended_by_itself(status: str) -> None:
    pieces = [("reasoning", "The answer."), ("reasoning", " 42.")]
    said = ("", "The answer. 42.", []) if status == "completed" else ("The answer. 42.", "", [])
    kinds = ["message"] if status == "completed" else ["reasoning"]
    answer = streamed(stream(pieces, status=status), HERMES, request=OFF).legal(ended=False)
    assert answer.said == said
    whole = plain(body(pieces, status=status), HERMES, request=OFF)
    assert (whole.said, whole.kinds) == (said, kinds)


# ---------------------------------------------------------------------- the same text as chat, at every cut

ATOMS = [
    "a", " ", "\n", "<think>", "</think>", "<thi", "<|im_end|>", "`", "```\n", MARKUP, MARKUP[:30], "42.",
    "\ud83d\ude00",
]  # fmt: skip
FIELDS = st.lists(
    st.tuples(st.sampled_from(["reasoning", "content"]), st.lists(st.sampled_from(ATOMS), max_size=4).map("".join)),
    max_size=5,
)


def chat(pieces: list[Piece], rules: Any, finish: str) -> tuple[str, str, list[tuple[str, str]]]:
    """The same fields as chat deltas, and what their client gets."""
    deltas = [driver.delta(**{kind: text}) for kind, text in pieces if text]
    answer = driver.streamed([*deltas, driver.delta(finish=finish), driver.DONE], rules, request=CHAT_TOOLS)
    calls: dict[int, list[str]] = {}
    for delta in answer.deltas:
        for entry in delta.get("tool_calls", ()):
            call = calls.setdefault(entry["index"], ["", ""])
            call[0] += entry["function"].get("name") or ""
            call[1] += entry["function"].get("arguments") or ""
    return *answer.said, [(name, arguments) for name, arguments in calls.values()]


@given(FIELDS, st.sampled_from([HERMES, RAW, HIDDEN]), st.sampled_from(["completed", "incomplete"]), st.booleans())
def test_what_the_client_gets_is_what_chat_gives(pieces: list[Piece], rules: Any, status: str, tokens: bool) -> None:
    pieces = [(kind, text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")) for kind, text in pieces]
    whole = [("".join([kind]), text) for kind, text in pieces if text]
    for size in (1, 4, 1000):
        cut = [piece for kind, text in whole for piece in chars(kind, text, size)]
        answer = streamed(stream(cut, status=status, tokens=tokens), rules, request=TOOLS).legal()
        assert answer.said == chat(cut, rules, STATUS[status])
        kinds = answer.kinds
        assert all(pair != ("reasoning", "reasoning") for pair in pairwise(kinds))


@given(FIELDS, st.sampled_from([HERMES, RAW]), st.lists(st.integers(0, 3000), max_size=5))
def test_how_the_network_cuts_the_stream_changes_no_byte(pieces: list[Piece], rules: Any, cuts: list[int]) -> None:
    pieces = [(kind, text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")) for kind, text in pieces if text]
    frames = stream(pieces)
    sent = b"".join(frames)
    places = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    reads = [sent[a:b] for a, b in pairwise(places)]
    assert streamed(reads, rules, request=TOOLS).body == streamed(frames, rules, request=TOOLS).body


@given(st.lists(st.sampled_from(ATOMS), max_size=6).map("".join), st.sampled_from(["completed", "incomplete"]))
def test_raw_text_is_the_same_streamed_and_plain(text: str, status: str) -> None:
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    pieces = [("content", text)] if text else []
    whole = plain(body(pieces, status=status), RAW, request=TOOLS)
    answer = streamed(stream(chars("content", text), status=status), RAW, request=TOOLS).legal()
    assert (whole.said, set(whole.kinds)) == (answer.said, set(answer.kinds))


@given(*[st.lists(st.sampled_from(ATOMS), max_size=4).map("".join)] * 2, st.sampled_from([HERMES, HIDDEN]))
def test_the_engines_own_split_makes_the_same_items_streamed_and_plain(thought: str, text: str, rules: Any) -> None:
    fields = [("reasoning", thought), ("content", text)]
    pieces = [(kind, said.encode("utf-16-le", "surrogatepass").decode("utf-16-le")) for kind, said in fields if said]
    whole = plain(body(pieces), rules, request=TOOLS)
    cut = [piece for kind, said in pieces for piece in chars(kind, said)]
    answer = streamed(stream(cut), rules, request=TOOLS).legal()
    assert (whole.said, set(whole.kinds)) == (answer.said, set(answer.kinds))


@pytest.mark.parametrize("size", [1, 3, 50])
def test_vllm_goes_on_with_an_unfinished_message_and_its_answer_starts_there(size: int) -> None:
    def said(rules: Any, turn: str, *given: Piece) -> list[Any]:
        asked = {"input": [{"role": "assistant", "content": turn, "status": "incomplete"}]}
        pieces = [piece for kind, text in given for piece in chars(kind, text, size)]
        answers = (streamed(stream(pieces), rules, request=asked), plain(body(pieces), rules, request=asked))
        return [answer.said for answer in answers]

    vllm, sglang = (replace(route(), engine=engine) for engine in ("vllm", "sglang"))
    assert said(vllm, "The best answer is (", ("reasoning", "B)")) == [("", "B)", [])] * 2  # vLLM #32100 and #38749
    assert said(sglang, "The best answer is (", ("reasoning", "B)")) == [("B)", "", [])] * 2
    assert said(vllm, "<think>Okay", ("content", ", so</think>B")) == [(", so", "B", [])] * 2
