"""Chat completions on the wire: what is read and what is written, byte by byte (reference/vllm.md 3.1 to 3.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import ClientFault, EngineTimeout
from gateway.events import CONTENT, REASONING, REPLAY
from gateway.protocols.chat import Chat
from gateway.protocols.protocol import NotThisProtocol, Part

CHAT = Chat()
BOTH = ("reasoning", "reasoning_content")
HEAD = b'"id":"chatcmpl-ID","object":"chat.completion.chunk","created":1,"model":"m",'
OURS = b'{"object":"chat.completion.chunk","id":"chatcmpl-ID","created":1,"model":"m","choices":['


def event(delta: bytes, *, choice: bytes = b"", top: bytes = b"") -> bytes:
    """The data of one chunk of vLLM 0.33."""
    end = b'"logprobs":null,"finish_reason":null,"token_ids":null%b}],"kv_transfer_params":null%b}' % (choice, top)
    return b'{%b"choices":[{"index":0,"delta":%b,%b' % (HEAD, delta, end)


def part(delta: bytes, **choice: Any) -> Part:
    """The one part of a chunk."""
    [found] = CHAT.decode_event(b'{"choices":[%b]}' % json.dumps({"delta": json.loads(delta), **choice}).encode()).parts
    return found


def rewritten(data: bytes, *pieces: tuple[str, str], names: tuple[str, ...] = BOTH) -> list[bytes]:
    """The events that say `pieces` in stead of the first part's text."""
    return CHAT.rewrite(CHAT.decode_event(data), {0: list(pieces)}, names)


# ---------------------------------------------------------------------- in


@pytest.mark.parametrize(
    ("delta", "reasoning", "content", "names"),
    [
        (b'{"role":"assistant","content":""}', "", "", ()),
        (b'{"reasoning":"abc"}', "abc", "", ("reasoning",)),
        (b'{"content":null,"reasoning":"abc"}', "abc", "", ("reasoning",)),
        (b'{"content":"def"}', "", "def", ()),
        (b'{"content":"def","reasoning":"abc"}', "abc", "def", ("reasoning",)),
        (b'{"reasoning_content":"abc"}', "abc", "", ("reasoning_content",)),
        (b'{"reasoning":"abc","reasoning_content":"abc"}', "abc", "", BOTH),
        (b'{"reasoning":null,"reasoning_content":"abc"}', "abc", "", ("reasoning_content",)),
        (b'{"reasoning":"abc","reasoning_content":null}', "abc", "", ("reasoning",)),
        (b'{"reasoning":"","reasoning_content":""}', "", "", ()),
        (b'{"role":"assistant","reasoning_content":null}', "", "", ()),
        (b"{}", "", "", ()),
    ],
)
def test_the_text_of_a_delta_is_read_under_either_name(
    delta: bytes, reasoning: str, content: str, names: tuple[str, ...]
) -> None:
    found = part(delta)
    assert (found.reasoning, found.content, found.names) == (reasoning, content, names)
    assert (found.tools, found.refusal, found.finish, found.stop_reason) == (False, False, None, None)


@pytest.mark.parametrize(
    ("delta", "tools", "refusal"),
    [
        (b'{"tool_calls":[{"index":0}]}', True, False),
        (b'{"tool_calls":[]}', False, False),  # vLLM 0.11 to 0.15
        (b'{"tool_calls":null,"function_call":null}', False, False),
        (b'{"function_call":{"name":"f"}}', True, False),
        (b'{"refusal":"I cannot."}', False, True),
        (b'{"refusal":null}', False, False),
    ],
)
def test_calls_and_refusals_are_told_from_null_members(delta: bytes, tools: bool, refusal: bool) -> None:
    found = part(delta)
    assert (found.tools, found.refusal) == (tools, refusal)


@pytest.mark.parametrize(
    ("choice", "finish", "stop_reason"),
    [
        ({"finish_reason": "stop", "stop_reason": None}, "stop", None),
        ({"finish_reason": "stop", "stop_reason": "END"}, "stop", "END"),
        ({"finish_reason": "stop", "stop_reason": 151645}, "stop", 151645),
        ({"finish_reason": None, "stop_reason": "END"}, None, None),
        ({}, None, None),
    ],
)
def test_the_end_of_a_choice_is_its_finish_reason(choice: dict[str, Any], finish: str | None, stop_reason: Any) -> None:
    found = part(b"{}", **choice)
    assert (found.finish, found.stop_reason) == (finish, stop_reason)


def test_choices_are_told_by_index_and_place() -> None:
    parts = CHAT.decode_event(b'{"choices":[{"index":7,"delta":{}},{"delta":{}}]}').parts
    assert [(each.place, each.index) for each in parts] == [(0, 7), (1, 1)]


def test_a_plain_message_is_read_as_a_delta_is() -> None:
    body = b'{"choices":[{"index":0,"message":{"content":"c","reasoning":"r"},"finish_reason":"stop"}]}'
    message = CHAT.decode_body(body)
    [found] = message.parts
    assert (found.reasoning, found.content, found.finish) == ("r", "c", "stop")
    assert (message.data, message.error, message.odd) == (body, False, False)


@pytest.mark.parametrize(
    ("data", "error", "parts"),
    [
        (b'{"error":{"message":"x","code":500}}', True, 0),
        (b'{"error":null,"choices":[]}', False, 0),
        (b'{"choices":[],"usage":{"total_tokens":7}}', False, 0),
        (b'{"choices":null}', False, 0),
        (b"{}", False, 0),
    ],
)
def test_an_event_without_choices_has_no_parts(data: bytes, error: bool, parts: int) -> None:
    message = CHAT.decode_event(data)
    assert (message.error, len(message.parts)) == (error, parts)


@pytest.mark.parametrize("text", [b"a\\ud83d", b"\\ude00"])
def test_a_surrogate_half_is_text_and_the_message_is_odd(text: bytes) -> None:
    message = CHAT.decode_event(b'{"choices":[{"delta":{"content":"%b"}}]}' % text)
    assert message.odd
    assert message.parts[0].content == json.loads(b'"%b"' % text)


def test_a_number_that_is_no_json_number_makes_a_message_odd_and_no_more() -> None:
    message = CHAT.decode_event(b'{"choices":[{"delta":{"content":"a"}}],"x":NaN}')
    assert (message.odd, message.parts[0].content) == (True, "a")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no JSON"),
        (b"[DONE]", "no JSON"),
        (b'{"choices":', "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 2000 + b"]" * 2000, "no JSON"),
        (b"7", "no chat completion"),
        (b"[]", "no chat completion"),
        (b'{"choices":7}', "no chat completion"),
        (b'{"choices":[7]}', "no chat completion"),
        (b'{"choices":["delta"]}', "no chat completion"),
        (b'{"choices":[{"text":"a"}]}', "no chat completion"),
        (b'{"choices":[{"delta":null}]}', "no chat completion"),
        (b'{"choices":[{"delta":{"content":["a"]}}]}', "no chat completion"),
        (b'{"choices":[{"delta":{"reasoning":{"a":1}}}]}', "no chat completion"),
        (b'{"choices":[{"delta":{"reasoning":"a","reasoning_content":"b"}}]}', "no chat completion"),
    ],
)
def test_what_is_no_chat_chunk_is_said_so_and_not_quoted(data: bytes, why: str) -> None:
    with pytest.raises(NotThisProtocol) as refused:
        CHAT.decode_event(data)
    assert str(refused.value) == why


def test_a_plain_body_is_no_event_and_an_event_no_body() -> None:
    for decode, data in (
        (CHAT.decode_body, b'{"choices":[{"delta":{}}]}'),
        (CHAT.decode_event, b'{"choices":[{"message":{}}]}'),
    ):
        with pytest.raises(NotThisProtocol):
            decode(data)


# ---------------------------------------------------------------------- the name of the reasoning

SPACED = (
    b'{ "choices":[ {"delta":{ "reasoning" : "caf\\u00e9\\n" ,"n":1.10} } ] , "big":123456789012345678901234567890 }'
)


@pytest.mark.parametrize(
    ("data", "names", "renamed"),
    [
        (SPACED, ("reasoning",), None),
        (SPACED, BOTH, SPACED.replace(b'\\n" ,', b'\\n","reasoning_content":"caf\\u00e9\\n" ,')),
        (SPACED, ("reasoning_content",), SPACED.replace(b'"reasoning" : "caf\\u00e9\\n" ,', b"").replace(
            b'"n":1.10', b'"n":1.10,"reasoning_content":"caf\xc3\xa9\\n"')),
        (SPACED, (), SPACED.replace(b'"reasoning" : "caf\\u00e9\\n" ,', b"")),
        (event(b'{"content":"a"}'), BOTH, None),
        (event(b'{"content":"a"}'), (), None),
        (event(b'{"reasoning":"a","reasoning_content":"a"}'), BOTH, None),
        (event(b'{"reasoning":"a","reasoning_content":"a"}'), ("reasoning",), event(b'{"reasoning":"a"}')),
        (event(b'{"reasoning":"a","reasoning_content":"a"}'), (), event(b"{}")),
        (event(b'{"reasoning":"a","reasoning_content":null}'), BOTH,
         event(b'{"reasoning":"a","reasoning_content":"a"}')),
        (event(b'{"reasoning_content":"a"}'), BOTH, event(b'{"reasoning_content":"a","reasoning":"a"}')),
        # the name stands twice, so that it is looked up the long way
        (event(b'{"reasoning":"a","x":{"reasoning":1}}'), BOTH,
         event(b'{"reasoning":"a","x":{"reasoning":1},"reasoning_content":"a"}')),
        (event(b'{"reasoning":"\\ud83d"}'), BOTH, event(b'{"reasoning":"\\ud83d","reasoning_content":"\\ud83d"}')),
    ],
)  # fmt: skip
def test_reasoning_is_renamed_and_every_other_byte_stays(
    data: bytes, names: tuple[str, ...], renamed: bytes | None
) -> None:
    assert CHAT.rename(CHAT.decode_event(data), names) == renamed


def test_every_choice_of_a_frame_is_renamed() -> None:
    two = b'{"choices":[{"delta":{"reasoning":"a"}},{"delta":{"content":"b"}},{"delta":{"reasoning_content":"c"}}]}'
    assert CHAT.rename(CHAT.decode_event(two), ("reasoning",)) == (
        b'{"choices":[{"delta":{"reasoning":"a"}},{"delta":{"content":"b"}},{"delta":{"reasoning":"c"}}]}'
    )
    assert CHAT.rename(CHAT.decode_event(two.replace(b"_content", b"")), ("reasoning",)) is None


def test_a_plain_body_is_renamed_too() -> None:
    body = b'{"choices":[{"message":{"reasoning":"a","content":"b"}}]}'
    assert CHAT.rename(CHAT.decode_body(body), ("reasoning_content",)) == (
        b'{"choices":[{"message":{"content":"b","reasoning_content":"a"}}]}'
    )


# ---------------------------------------------------------------------- frames with other text


def test_one_piece_stays_in_the_frame_and_every_other_byte_stays() -> None:
    data = b'{ "n":1.10,"choices" : [ {"delta":{"content":"a<","x":"\\u00e9"},"e":1E5} ]}'
    assert rewritten(data, (CONTENT, "a")) == [data.replace(b'"a<"', b'"a"')]


def test_each_piece_but_the_last_is_an_event_before_the_frame() -> None:
    data = event(b'{"role":"assistant","content":"c","reasoning":"r"}')
    assert rewritten(data, (REASONING, "r"), (CONTENT, "c")) == [
        OURS + b'{"index":0,"delta":{"role":"assistant","reasoning":"r","reasoning_content":"r"},"logprobs":null,'
        b'"finish_reason":null}]}',
        event(b'{"role":"assistant","content":"c"}'),
    ]


def test_only_the_first_of_several_events_has_the_role() -> None:
    events = rewritten(event(b'{"role":"assistant","content":"x"}'), (REASONING, "r"), (CONTENT, "c"), (REPLAY, "p"))
    assert [json.loads(each)["choices"][0]["delta"] for each in events] == [
        {"role": "assistant", **dict.fromkeys(BOTH, "r")},
        {"content": "c"},
        {"role": "assistant", "content": "p"},
    ]


@pytest.mark.parametrize(
    ("delta", "piece", "written"),
    [
        (b'{"content":"a"}', (REASONING, "a"), b'{"reasoning":"a","reasoning_content":"a"}'),
        (b'{"reasoning":"a"}', (CONTENT, "a"), b'{"content":"a"}'),
        (b'{"reasoning":"a","content":null}', (CONTENT, "a"), b'{"content":"a"}'),
        (b'{"reasoning":"a","reasoning_content":null}', (CONTENT, "b"), b'{"reasoning_content":null,"content":"b"}'),
        (b'{"content":"a"}', (CONTENT, "\ud83d"), b'{"content":"\\ud83d"}'),
    ],
)
def test_a_piece_goes_into_the_field_of_its_channel(delta: bytes, piece: tuple[str, str], written: bytes) -> None:
    assert rewritten(event(delta), piece) == [event(written)]


@pytest.mark.parametrize(
    ("delta", "choice", "top"),
    [
        (b'{"content":"<"}', b"", b""),
        (b'{"content":"<","tool_calls":null}', b'"stop_reason":null', b'"usage":null,"prompt_token_ids":null'),
        (b'{"reasoning":"<"}', b"", b'"system_fingerprint":"fp","service_tier":"default"'),
    ],
)
def test_a_frame_that_says_nothing_any_more_is_dropped(delta: bytes, choice: bytes, top: bytes) -> None:
    choice, top = (b"," + more if more else b"" for more in (choice, top))
    assert rewritten(event(delta, choice=choice, top=top)) == []


@pytest.mark.parametrize(
    ("delta", "choice", "top"),
    [
        (b'{"role":"assistant"}', b"", b""),
        (b'{"tool_calls":[{"index":0}]}', b"", b""),
        (b'{"refusal":"no"}', b"", b""),
        (b"{}", b',"token_ids":[5]', b""),
        (b"{}", b',"logprobs":{"content":[]}', b""),
        (b"{}", b',"finish_reason":"stop"', b""),
        (b"{}", b',"matched_stop":0', b""),
        (b"{}", b"", b',"usage":{"total_tokens":1}'),
        (b"{}", b"", b',"prompt_token_ids":[1,2]'),
        (b"{}", b"", b',"of_another_version":false'),
    ],
)
def test_a_frame_is_kept_for_what_it_says_besides_its_text(delta: bytes, choice: bytes, top: bytes) -> None:
    with_text = delta[:-1] + (b"," if delta != b"{}" else b"") + b'"content":"<"}'
    assert rewritten(event(with_text, choice=choice, top=top)) == [event(delta, choice=choice, top=top)]


def test_a_frame_is_kept_for_its_other_choices() -> None:
    two = b'{"choices":[{"index":0,"delta":{"content":"<"}},{"index":1,"delta":{"%b":"b"}}]}'
    for field in (b"content", b"reasoning"):
        kept = two.replace(b'{"content":"<"}', b"{}", 1) % field
        assert rewritten(two % field) == [kept]
    assert rewritten(b'{"choices":[{"index":0,"delta":{"content":"<"}},{"index":1,"delta":{}}]}') == []
    finish = b'{"choices":[{"delta":{"content":"<"}},{"delta":{},"finish_reason":"stop"}]}'
    assert rewritten(finish) == [finish.replace(b'{"content":"<"}', b"{}")]


def test_reasoning_goes_before_a_call_and_content_may_stay_beside_it() -> None:
    call = b'"tool_calls":[{"index":0}]'
    data = event(b'{"reasoning":"r",%b}' % call)
    before = (
        OURS + b'{"index":0,"delta":{"reasoning":"r","reasoning_content":"r"},"logprobs":null,"finish_reason":null}]}'
    )
    assert rewritten(data, (REASONING, "r")) == [before, event(b"{%b}" % call)]
    assert rewritten(event(b'{"content":"c",%b}' % call), (CONTENT, "d")) == [event(b'{"content":"d",%b}' % call)]


def test_a_plain_body_says_its_pieces_joined() -> None:
    body = b'{"x":1.10,"choices":[{"message":{"role":"assistant","content":"<think>r</think>c","reasoning":null}}]}'
    pieces = {0: [(REASONING, "r"), (CONTENT, "c"), (REPLAY, "p")]}
    assert CHAT.rewrite_body(CHAT.decode_body(body), pieces, BOTH) == (
        b'{"x":1.10,"choices":[{"message":{"role":"assistant","content":"cp","reasoning":"r","reasoning_content":"r"}}]}'
    )


@pytest.mark.parametrize(
    ("message", "pieces", "written"),
    [
        (b'{"content":"a","reasoning":"a"}', [(REASONING, "a")], b'{"content":"","reasoning":"a"}'),
        (b'{"content":null,"reasoning":"a"}', [(CONTENT, "a")], b'{"content":"a"}'),
        (b'{"content":null,"reasoning":"a"}', [(REASONING, "b")], b'{"content":null,"reasoning":"b"}'),
    ],
)
def test_an_emptied_content_is_empty_and_one_that_was_null_stays_so(
    message: bytes, pieces: list[tuple[str, str]], written: bytes
) -> None:
    body = b'{"choices":[{"message":{"content":"z"}},{"message":%b}]}'
    assert CHAT.rewrite_body(CHAT.decode_body(body % message), {1: pieces}, ("reasoning",)) == body % written


def test_the_report_stands_at_the_top_level_of_a_plain_body() -> None:
    assert CHAT.add_report(b'{ "n":1.10 }', {"findings": []}) == b'{ "n":1.10,"integrity":{"findings":[]} }'


# ---------------------------------------------------------------------- frames of our own


def test_our_own_events_repeat_the_head_of_the_answer_in_the_engines_bytes() -> None:
    like = CHAT.decode_event(b'{"id":"caf\\u00e9 \\ud83d","created":1.10,"model":null,"choices":[]}')
    assert CHAT.text_event(like, 3, REASONING, "t", BOTH) == (
        b'{"object":"chat.completion.chunk","id":"caf\\u00e9 \\ud83d","created":1.10,"model":null,"choices":['
        b'{"index":3,"delta":{"reasoning":"t","reasoning_content":"t"},"logprobs":null,"finish_reason":null}]}'
    )


def test_our_own_events_stand_alone_where_no_chunk_came() -> None:
    assert CHAT.finish_event(None, 0, "stop") == (
        b'{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}'
    )
    assert CHAT.report_event(None, {"a": 1}) == b'{"object":"chat.completion.chunk","choices":[],"integrity":{"a":1}}'


@pytest.mark.parametrize("channel", [CONTENT, REPLAY])
def test_a_replay_is_content(channel: str) -> None:
    delta = json.loads(CHAT.text_event(None, 0, channel, "t", BOTH))["choices"][0]["delta"]
    assert delta == {"content": "t"}


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (EngineTimeout("the engine was silent"), "InternalServerError", "integrity_upstream_timeout"),
        (ClientFault("no model"), "BadRequestError", "integrity_bad_request"),
    ],
)
def test_an_error_has_the_shape_of_the_protocol(error: Any, kind: str, code: str) -> None:
    body = CHAT.error_body(error)
    assert json.loads(body) == {"error": {"message": str(error), "type": kind, "param": None, "code": code}}
    assert CHAT.error_event(error) == b"data: " + body + b"\n\n"


def test_the_facts_of_a_request_are_those_of_chat() -> None:
    assert CHAT.facts({"model": "m"}).model == "m"
    assert (CHAT.name, CHAT.done) == ("chat", b"[DONE]")
