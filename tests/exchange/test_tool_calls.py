"""Tool calls from the engine to the client, streamed and plain: the same calls, each of them whole (contract rule 5).

Broken ones are those of the issues that `corpus/bugs.jsonl` cites. Shapes: reference/vllm.md 3.1 and 3.2.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import EngineTimeout
from gateway.exchange.route import RouteRules
from gateway.findings import Finding
from gateway.limits import Limits
from gateway.policy import Mode, Profile, ReasoningField, ToolRescue
from gateway.rulebook.load import load_rulebook
from tests.exchange.driver import DONE, Answer, chunk, delta, message, opened, plain, route, streamed

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"function": {"name": "f", "parameters": CITY}}, {"function": {"name": "g"}}]
REQUEST: dict[str, Any] = {"tools": TOOLS}
OSLO = '{"city": "Oslo"}'
MARKUP = '<tool_call>\n{"name": "f", "arguments": {"city": "Oslo"}}\n</tool_call>'
Call = tuple[str, str, str]


def hermes(**given: Any) -> RouteRules:
    """A route of Qwen3 with calls as JSON in tags."""
    found = load_rulebook().resolve({"reasoning": "qwen3", "tools": "hermes"}, engine="vllm")
    return route(read_as=found.dialect, **given)


HERMES = hermes()


def first(arguments: str = "", *, index: int = 0, name: str = "f") -> bytes:
    """The chunk in which a call begins."""
    function = {"name": name, "arguments": arguments}
    return delta(tool_calls=[{"index": index, "id": f"c{index}", "type": "function", "function": function}])


def more(arguments: str, index: int = 0) -> bytes:
    """A later one."""
    return delta(tool_calls=[{"index": index, "function": {"arguments": arguments}}])


def calls_of(answer: Answer) -> tuple[list[Call], str | None]:
    """Id, name and arguments of each call as a client joins them, and the finish reason. Checks the shape too."""
    if answer.body.startswith(b"{"):
        choice = json.loads(answer.body)["choices"][0]
        listed = choice["message"].get("tool_calls", [])
        return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in listed], choice["finish_reason"]
    calls: dict[int, list[str]] = {}
    finish = None
    for choice in [c for event in answer.events if event != "[DONE]" for c in event["choices"]]:
        finish = choice["finish_reason"] or finish
        for entry in choice["delta"].get("tool_calls", ()):
            call = calls.setdefault(entry["index"], ["", "", ""])
            assert not call[0] or entry.get("id") in (None, call[0])
            call[0] = entry.get("id") or call[0]
            call[1] += entry["function"].get("name") or ""
            call[2] += entry["function"].get("arguments") or ""
    return [(a, b, c) for _, (a, b, c) in sorted(calls.items())], finish


def both(
    calls: list[tuple[str, list[str]]], *, finish: str = "tool_calls", request: dict[str, Any] = REQUEST, **given: Any
) -> list[Answer]:
    """A streamed answer with these calls (name, pieces of the arguments), and the plain one."""
    rules = route("none", **given)
    reads, listed = [], []
    for index, (name, pieces) in enumerate(calls):
        reads += [first(index=index, name=name), *[more(each, index) for each in pieces]]
        function = {"name": name, "arguments": "".join(pieces)}
        listed.append({"id": f"c{index}", "type": "function", "function": function})
    body = message(finish, content=None, tool_calls=listed)
    return [streamed([*reads, delta(finish=finish), DONE], rules, request=request), plain(body, rules, request=request)]


# ---------------------------------------------------------------------- the engine's own


@pytest.mark.parametrize(
    ("pieces", "arguments", "found"),
    [
        (['{"city": ', '"Oslo"}', OSLO], OSLO, {"tool_args_repaired/repaired": 1}),  # vllm-project/vllm#51697
        ([OSLO + "}", "</s"], OSLO, {"tool_args_repaired/repaired": 1}),  # vllm-project/vllm#51701
        (['{"city": ""Oslo"', OSLO], OSLO, {"tool_args_repaired/repaired": 1}),  # vllm-project/vllm#10395
        ([OSLO, OSLO, OSLO[:4]], OSLO, {"tool_args_repaired/repaired": 1}),
        ([OSLO[:-1]], OSLO, {"tool_args_repaired/repaired": 1}),
        ([OSLO, '{"city": "Rome"}'], None, {"tool_args_invalid/flagged": 1, "regen_wanted/flagged": 1}),
        (["{}"], None, {"tool_args_invalid/flagged": 1, "regen_wanted/flagged": 1}),
        (['{"city": "Os'], None, {"tool_args_invalid/flagged": 1, "regen_wanted/flagged": 1}),
        ([OSLO], None, {}),
    ],
)
def test_a_call_is_the_same_streamed_and_plain(pieces: list[str], arguments: str | None, found: dict[str, int]) -> None:
    for answer in both([("f", pieces)]):
        expected = arguments or "".join(pieces)
        assert calls_of(answer) == ([("c0", "f", expected)], "tool_calls")
        assert answer.findings == found


BROKEN = [
    OSLO,
    OSLO + OSLO,
    OSLO + "}}</s",
    OSLO + '{"city": "Rome"}',
    OSLO + '{"ci',
    '{"city": ""Oslo"' + OSLO,
    '{"city": "\U0001f30d } {"',
    "{}" + OSLO,
    "{}{}",
    OSLO + '{"a": {"b": 1}}' + OSLO,
    json.dumps(OSLO),
    '<tool_call>{"city": "a\nb"}</tool_call>',
    '{"city": 3}',
    '{"city": 3}' + OSLO,
    "[1] 2",
    "null",
    "",
]


@given(st.sampled_from(BROKEN), st.lists(st.integers(0, 60), max_size=6), st.sampled_from(["tool_calls", "length"]))
def test_however_the_arguments_are_cut_the_call_is_the_plain_one(text: str, cuts: list[int], finish: str) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    stream, whole = both([("f", pieces), ("g", ["{}"])], finish=finish)
    assert (calls_of(stream), stream.findings) == (calls_of(whole), whole.findings)


def test_two_clean_calls_keep_every_byte_and_the_first_is_not_late() -> None:
    exchange = opened(REQUEST, route("none"))
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    reads = [first(), more('{"city": '), more('"Oslo"}'), first(index=1, name="g"), more("{}", 1)]
    comment = b": keep-alive\n\n"
    out = [exchange.data(read) + exchange.data(comment) for read in reads]
    assert out == [comment, comment, b"".join(reads[:3]) + comment, comment, comment]
    assert exchange.holding == "tool_region"
    end = exchange.data(delta(finish="tool_calls"))
    assert (end, exchange.holding) == (reads[3] + reads[4] + delta(finish="tool_calls"), None)
    assert exchange.data(DONE) == DONE


def test_text_behind_a_call_waits_with_it_and_shows_that_a_whole_one_is_over() -> None:
    reads = [delta(content="a"), first("{}", name="g"), delta(content="b"), delta(finish="tool_calls"), DONE]
    exchange = opened(REQUEST, route("none"))
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    assert [exchange.data(read) for read in reads[:3]] == [reads[0], b"", reads[1] + reads[2]]


def test_text_that_a_call_lets_go_is_not_late() -> None:
    exchange = opened(REQUEST, HERMES)
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    answer = b"".join([exchange.data(delta(content="a<thi")), exchange.data(first("{"))])
    assert b'"content":"<thi"' in answer
    assert b"tool_calls" not in answer


def test_everything_behind_a_call_that_waits_keeps_its_order() -> None:
    usage = b'data: {"choices":[],"usage":{"total_tokens":1}}\n\n'
    reads = [first('{"a"', name="g"), delta(content="x<thi"), usage, delta(content="nk>y", index=1), more(": 1}")]
    reads += [delta(finish="tool_calls"), delta(finish="stop", index=1), DONE]
    answer = streamed(reads, hermes(reasoning_field=ReasoningField.REASONING), request=REQUEST)
    assert answer.told(0)[1] == "x<thi"
    assert answer.told(1) == ("", "nk>y")
    assert calls_of(answer)[0] == [("c0", "g", '{"a": 1}')]
    assert answer.body.index(usage) < answer.body.index(b'"nk>y"')


@pytest.mark.parametrize("fields", [{"content": "<think>a"}, {"content": "</think>\n\nb", "role": "assistant"}])
def test_a_frame_with_text_that_changes_and_a_call_that_is_repaired_has_both(fields: dict[str, str]) -> None:
    entry = {"index": 0, "id": "c0", "function": {"name": "f", "arguments": OSLO + "}"}}
    reads = [delta(tool_calls=[entry], **fields), delta(finish="tool_calls"), DONE]
    answer = streamed(reads, HERMES, request=REQUEST)
    assert calls_of(answer) == ([("c0", "f", OSLO)], "tool_calls")
    assert "".join(answer.said).strip() == fields["content"][-1]


def test_a_call_whose_index_was_sent_twice_moves_in_a_frame_with_text_that_changes() -> None:
    entry = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": OSLO}}
    reads = [first(OSLO), delta(content="</think>\n\nb", tool_calls=[entry]), delta(finish="tool_calls"), DONE]
    answer = streamed(reads, HERMES, request=REQUEST)
    assert calls_of(answer) == ([("c0", "f", OSLO), ("c1", "f", OSLO)], "tool_calls")
    assert (answer.said, answer.findings["tool_args_repaired/repaired"]) == (("", "\n\nb"), 1)


def test_an_object_in_stead_of_its_text_becomes_text() -> None:
    """huggingface/text-generation-inference#2136."""
    entry = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"city": "Oslo"}}}
    answer = plain(message("tool_calls", content=None, tool_calls=[entry]), route("none"), request=REQUEST)
    assert calls_of(answer) == ([("c", "f", '{"city":"Oslo"}')], "tool_calls")
    answer = streamed([delta(tool_calls=[{"index": 0, **entry}]), DONE], route("none"), request=REQUEST)
    assert calls_of(answer) == ([("c", "f", '{"city":"Oslo"}')], "tool_calls")


def test_a_character_cut_in_two_arrives_whole() -> None:
    """openclaw/openclaw#115536."""
    halves = [b'{"city": "\\\\ud83c'.replace(b"\\\\", b"\\"), b'\\udf0d"}']
    reads = [first(), *[more("X").replace(b'"X"', b'"' + half.replace(b'"', b'\\"') + b'"') for half in halves]]
    answer = streamed([*reads, delta(finish="tool_calls"), DONE], route("none"), request=REQUEST)
    assert (calls_of(answer)[0], answer.findings) == ([("c0", "f", '{"city": "\U0001f30d"}')], {})


@pytest.mark.parametrize(
    "rules",
    [
        route("none", profile=Profile.OBSERVE),
        route("none", tool_rescue=ToolRescue(stream="incremental")),
        route("none", limits=Limits(tool_region=8)),
    ],
)
def test_where_nothing_waits_every_frame_goes_out_at_once(rules: RouteRules) -> None:
    reads = [first(), more('{"city": "Oslo"'), more("}"), more("}"), delta(finish="tool_calls"), DONE]
    exchange = opened(REQUEST, rules)
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = [exchange.data(read) for read in reads]
    if rules.limits.tool_region == 8:
        assert (b"".join(out), out[2:]) == (b"".join(reads), reads[2:])
    else:
        assert out == reads


def test_what_waits_goes_out_before_an_error_and_when_the_inspection_ends() -> None:
    waiting = [first(), more('{"city": ')]
    exchange = opened(REQUEST, route("none"))
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    assert b"".join([exchange.data(read) for read in waiting]) == b""
    assert exchange.broken(EngineTimeout("silent")).data.startswith(b"".join(waiting) + b'data: {"error"')
    error = b'data: {"error":{"message":"x"}}\n\n'
    answer = streamed([*waiting, error, DONE], route("none"), request=REQUEST)
    assert answer.body == b"".join(waiting) + error + DONE
    answer = streamed([*waiting, b"data: no JSON\n\n", more("}"), DONE], route("none"), request=REQUEST)
    assert answer.body.startswith(b"".join(waiting) + b"data: no JSON\n\n" + more("}"))
    answer = streamed(waiting, route("none"), request=REQUEST)
    assert (answer.body.startswith(b"".join(waiting) + b'data: {"error"'), answer.complete) == (True, False)


# ---------------------------------------------------------------------- finish reasons


@pytest.mark.parametrize(
    ("calls", "finish", "choice", "right", "found"),
    [
        ([("f", [OSLO])], "stop", "required", "tool_calls", {"finish_reason_fixed/repaired": 1}),
        ([("f", [OSLO])], "stop", {"function": {"name": "f"}}, "stop", {}),
        ([("f", [OSLO])], "tool_calls", "auto", "tool_calls", {}),
        ([], "tool_calls", "auto", "stop", {"empty_response/flagged": 1, "finish_reason_fixed/repaired": 1}),
        ([("f", ['{"city": "Os'])], "length", "auto", "length", {"truncated/flagged": 1}),
        (
            [("f", [OSLO])],
            "tool_calls",
            "none",
            "stop",
            {"tool_markup_leak/removed": 1, "empty_response/flagged": 1, "regen_wanted/flagged": 1},
        ),
    ],
)
def test_the_finish_reason_says_whether_there_are_calls(
    calls: list[tuple[str, list[str]]], finish: str, choice: object, right: str, found: dict[str, int]
) -> None:
    for answer in both(calls, finish=finish, request={**REQUEST, "tool_choice": choice}):
        assert calls_of(answer)[1] == right
        findings = {key: count for key, count in answer.findings.items() if key != "regen_wanted/flagged"}
        assert findings == {key: count for key, count in found.items() if key != "regen_wanted/flagged"}


def test_calls_that_the_request_did_not_want_leave_no_trace() -> None:
    """vllm-project/vllm#42747."""
    for answer in both([("f", [OSLO])], request={**REQUEST, "tool_choice": "none"}):
        assert calls_of(answer) == ([], "stop")
        assert b"tool_calls" not in answer.body


def test_done_behind_calls_without_a_finish_reason_gets_the_right_one() -> None:
    answer = streamed([first(OSLO), DONE], route("none"), request=REQUEST)
    assert calls_of(answer) == ([("c0", "f", OSLO)], "tool_calls")
    answer = streamed([first(OSLO[:-1]), DONE], route("none"), request=REQUEST)
    assert calls_of(answer) == ([("c0", "f", OSLO[:-1])], "tool_calls")


# ---------------------------------------------------------------------- calls that the gateway writes


def test_a_call_in_the_text_is_the_same_call_streamed_and_plain() -> None:
    answers = [
        streamed(
            [delta(content="Sure.\n"), delta(content=MARKUP), delta(finish="stop"), DONE], HERMES, request=REQUEST
        ),
        plain(message(content="Sure.\n" + MARKUP), HERMES, request=REQUEST),
    ]
    for answer in answers:
        [(ident, name, arguments)], finish = calls_of(answer)
        assert (name, arguments, finish, answer.said[1].strip()) == ("f", OSLO, "tool_calls", "Sure.")
        assert (ident[:5], len(ident)) == ("call_", 29)
        assert answer.findings == {"tool_rescued/rescued": 1}
    assert calls_of(answers[0]) == calls_of(answers[1])


def test_content_that_was_a_call_alone_is_null() -> None:
    answer = plain(message(content=MARKUP), HERMES, request=REQUEST)
    assert json.loads(answer.body)["choices"][0]["message"]["content"] is None


def test_a_call_of_raw_text_goes_out_where_it_stands() -> None:
    reads = [delta(content=f"a\n{MARKUP}\n"), delta(content="b"), delta(finish="stop"), DONE]
    answer = streamed(reads, hermes(source="text"), request=REQUEST)
    assert len(calls_of(answer)[0]) == 1
    deltas = [name for each in answer.deltas for name in each]
    assert deltas.index("tool_calls") < len(deltas) - 1
    assert deltas[-1] == "content"


def test_a_call_in_the_text_and_the_engines_own_are_one() -> None:
    """mudler/LocalAI#10346."""
    reads = [delta(content=MARKUP), first(OSLO), delta(finish="tool_calls"), DONE]
    answer = streamed(reads, HERMES, request=REQUEST)
    assert calls_of(answer) == ([("c0", "f", OSLO)], "tool_calls")
    assert answer.said == ("", "")
    own = {"id": "c0", "type": "function", "function": {"name": "f", "arguments": OSLO}}
    answer = plain(message("tool_calls", content=MARKUP, tool_calls=[own]), HERMES, request=REQUEST)
    assert (calls_of(answer), answer.said[1]) == (([("c0", "f", OSLO)], "tool_calls"), "")


def test_another_call_in_the_text_stands_behind_the_engines_own() -> None:
    own = {"id": "c0", "type": "function", "function": {"name": "g", "arguments": "{}"}}
    answer = plain(message("tool_calls", content=MARKUP, tool_calls=[own]), HERMES, request=REQUEST)
    [engines, (_, name, arguments)], finish = calls_of(answer)
    assert (engines, name, arguments, finish) == (("c0", "g", "{}"), "f", OSLO, "tool_calls")


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("stream", ["complete", "incremental"])
def test_the_engines_own_call_is_never_joined_to_one_that_was_written_before_it(mode: Mode, stream: str) -> None:
    rules = hermes(source="text", findings={Finding.TOOL_ARGS_REPAIRED: mode}, tool_rescue=ToolRescue(stream=stream))
    reads = [delta(content=f"{MARKUP}\n"), first("", name="g"), more("{}"), delta(finish="stop"), DONE]
    answer = streamed(reads, rules, request={**REQUEST, "stream": True})
    assert [call[1:] for call in calls_of(answer)[0]] == [("f", OSLO), ("g", "{}")]
    assert "tool_args_repaired/repaired" not in answer.findings


def test_a_call_that_waits_at_the_end_without_a_finish_reason_is_text() -> None:
    answer = streamed([delta(content=MARKUP), DONE], HERMES, request=REQUEST)
    assert (calls_of(answer)[0], answer.said[1]) == ([], MARKUP)


def test_reasoning_that_is_held_behind_a_call_stays_hidden() -> None:
    hidden = hermes(reasoning_field=ReasoningField.NONE)
    reads = [first('{"city": '), chunk([{"index": 0, "delta": {"reasoning": "secret <thi"}}])]
    exchange = opened(REQUEST, hidden)
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = b"".join([exchange.data(read) for read in reads]) + exchange.broken(EngineTimeout("silent")).data
    assert b"secret" not in out and b"<thi" not in out
    assert out.startswith(reads[0])
