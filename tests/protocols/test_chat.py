"""Chat completions on the wire: what is read and what is written, byte by byte (reference/vllm.md 3.1 to 3.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import ClientFault, EngineTimeout
from gateway.events import CALL, CONTENT, REASONING, REPLAY
from gateway.limits import Limits
from gateway.protocols.chat import Chat
from gateway.protocols.protocol import (
    UNSAID,
    CallChange,
    Fragment,
    HistoryRule,
    NotThisProtocol,
    NumberedCall,
    Part,
    Said,
)
from gateway.streams.jsonscan import member

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


def rewritten(data: bytes, *pieces: Said, names: tuple[str, ...] = BOTH) -> list[bytes]:
    """What says `pieces` in stead of the first part's text: events of our own, and the chunk if anything is left."""
    own, chunk = CHAT.rewrite(CHAT.decode_event(data), {0: list(pieces)}, names)
    return own if chunk is None else [*own, chunk]


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
        (b'{"audio":{"data":"AAA="}}', False, True),
        (b'{"audio":null}', False, False),
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


@pytest.mark.parametrize("choice", [b'"delta":null,', b"", b'"message":null,"text":null,'])
def test_a_choice_without_a_delta_says_nothing_but_its_end(choice: bytes) -> None:
    data = b'{"choices":[{%b"finish_reason":"stop"}]}' % choice
    [found] = CHAT.decode_event(data).parts
    assert (found.reasoning, found.content, found.tools, found.finish) == ("", "", False, "stop")
    own = b'{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,'
    assert rewritten(data, (CONTENT, "a")) == [own + b'"finish_reason":null}]}', data]


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
        (b'{"choices":[{"message":{"content":"a"}}]}', "no chat completion"),
        (b'{"choices":[{"delta":null,"text":"a"}]}', "no chat completion"),
        (b'{"choices":[{"delta":0}]}', "no chat completion"),
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


@pytest.mark.parametrize(
    ("delta", "names"),
    [
        (b'{"content":"a"}', ()),
        (b'{"reasoning_content":null,"content":"a"}', ("reasoning_content",)),
        (b'{"reasoning":"a"}', ("reasoning",)),
        (b'{"reasoning_content":"","reasoning":null}', BOTH),
    ],
)
def test_the_engine_shows_the_name_of_the_reasoning_with_text_or_without(delta: bytes, names: tuple[str, ...]) -> None:
    assert CHAT.names_shown(part(delta)) == names


TOKENS = b'"logprobs":{"content":[]},"x":1.10,"token_ids":[5]'


@pytest.mark.parametrize("holder", [b"delta", b"message"])
def test_what_spells_out_the_text_of_a_choice_is_taken_out_and_every_other_byte_stays(holder: bytes) -> None:
    data = b'{"choices":[{"%b":{"content":"a"},%%b},{"%b":{},%b}],"token_ids":[7]}' % (holder, holder, TOKENS)
    decode = CHAT.decode_event if holder == b"delta" else CHAT.decode_body
    message, taken = CHAT.without_tokens(decode(data % TOKENS), [0], whole=False)
    assert message.data == data % b'"x":1.10'
    assert taken == {"logprobs": 1, "token_ids": 1}
    assert message.parts[0].content == "a"


def test_what_spells_out_an_answer_of_sglang_is_taken_out_too() -> None:  # reference/sglang.md 3.1
    own = b'"response_token_ids":[5],"meta_info":{"id":"x"},"hidden_states":[[0.1]],"prompt_token_ids":[7]'
    data = b'{"choices":[{"message":{"content":"a"},%b}],"sglext":{"input_ids":[7]%b}}'
    message = CHAT.decode_body(data % (own, b',"output_ids":[[5]]'))
    kept, taken = CHAT.without_tokens(message, [0], whole=True)
    assert kept.data == data % (b'"prompt_token_ids":[7]', b"")
    assert taken == dict.fromkeys(("response_token_ids", "meta_info", "hidden_states", "sglext"), 1)
    assert CHAT.without_tokens(message, [], whole=False) == (message, {})
    audit = CHAT.decode_event(b'{"choices":[],"sglext":{"output_ids":[[5]]}}')
    assert CHAT.without_tokens(audit, [], whole=True)[0].data == b'{"choices":[],"sglext":{}}'


@pytest.mark.parametrize(
    ("logprobs", "begins"),
    [
        (b'{"content":[{"token":"a"},{"token":"b"}]}', True),
        (b'{"content":[{"token":"ab"},{"token":"<end>"}]}', True),
        (b'{"content":[{"token":"r"},{"token":"ab"}]}', False),
        (b'{"content":[{"token":7},7,{}]}', False),
        (b'{"content":null}', False),
        (b"null", False),
        (b"[]", False),
    ],
)
def test_the_tokens_beside_a_text_are_known_to_spell_it_or_not(logprobs: bytes, begins: bool) -> None:
    data = b'{"choices":[{"delta":{"content":"ab"},"logprobs":%b}]}' % logprobs
    assert CHAT.spells(CHAT.decode_event(data).parts[0], "ab") is begins


def test_a_choice_that_shows_no_tokens_is_left_alone() -> None:
    message = CHAT.decode_event(event(b'{"content":"a"}'))
    assert CHAT.without_tokens(message, [0], whole=True) == (message, {})
    assert CHAT.without_tokens(message, [], whole=True)[0] is message


# ---------------------------------------------------------------------- frames with other text


def test_one_piece_stays_in_the_frame_and_every_other_byte_stays() -> None:
    data = b'{ "n":1.10,"choices" : [ {"delta":{"content":"a<","x":"\\u00e9"},"e":1E5} ]}'
    assert rewritten(data, (CONTENT, "a")) == [data.replace(b'"a<"', b'"a"')]


def test_each_piece_but_the_last_is_an_event_before_the_frame() -> None:
    data = event(b'{"role":"assistant","content":"c","reasoning":"r"}')
    assert rewritten(data, (REASONING, "r"), (CONTENT, "c")) == [
        OURS + b'{"index":0,"delta":{"role":"assistant","reasoning":"r","reasoning_content":"r"},"logprobs":null,'
        b'"finish_reason":null}]}',
        event(b'{"content":"c"}'),
    ]


def test_only_the_first_of_several_events_has_the_role() -> None:
    events = rewritten(event(b'{"role":"assistant","content":"x"}'), (REASONING, "r"), (CONTENT, "c"), (REPLAY, "p"))
    assert [json.loads(each)["choices"][0]["delta"] for each in events] == [
        {"role": "assistant", **dict.fromkeys(BOTH, "r")},
        {"content": "c"},
        {"content": "p"},
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


def test_text_that_changes_goes_before_a_call_which_may_have_to_wait() -> None:
    call = b'"tool_calls":[{"index":0}]'
    data = event(b'{"reasoning":"r",%b}' % call)
    before = (
        OURS + b'{"index":0,"delta":{"reasoning":"r","reasoning_content":"r"},"logprobs":null,"finish_reason":null}]}'
    )
    assert rewritten(data, (REASONING, "r")) == [before, event(b"{%b}" % call)]
    before = before.replace(b'"reasoning":"r","reasoning_content":"r"', b'"content":"d"')
    assert rewritten(event(b'{"content":"c",%b}' % call), (CONTENT, "d")) == [before, event(b"{%b}" % call)]


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


# ---------------------------------------------------------------------- calls

MADE = NumberedCall(1, "call_1", "f", '{"a": 1.10}')
OPENING = b'[{"index":1,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]'
ARGUMENTS = b'[{"index":1,"function":{"arguments":"{\\"a\\": 1.10}"}}]'
LISTED = b'{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\\"a\\": 1.10}"}}'
OWN = b'{"id":"c","type":"function","index":0,"function":{"name":"f","arguments":{"n": 1.10}}}'


def ours(delta: bytes) -> bytes:
    """The data of a chunk of our own."""
    return OURS + b'{"index":0,"delta":{%b},"logprobs":null,"finish_reason":null}]}' % delta


def test_a_call_among_the_pieces_is_two_events_in_its_place() -> None:
    events = rewritten(event(b'{"role":"assistant","content":"x"}'), (CONTENT, "c"), (CALL, MADE), (CONTENT, "d"))
    assert events == [
        ours(b'"role":"assistant","content":"c"'),
        ours(b'"tool_calls":' + OPENING),
        ours(b'"tool_calls":' + ARGUMENTS),
        event(b'{"content":"d"}'),
    ]


def test_a_call_at_the_end_leaves_no_text_in_the_frame_and_a_finish_reason_behind_it() -> None:
    data = event(b'{"role":"assistant","content":"x"}').replace(b'"finish_reason":null', b'"finish_reason":"stop"')
    message = CHAT.decode_event(data)
    own, last = CHAT.rewrite(message, {0: [(CALL, MADE)]}, BOTH, {0: "tool_calls"})
    assert own == [ours(b'"role":"assistant","tool_calls":' + OPENING), ours(b'"tool_calls":' + ARGUMENTS)]
    assert last == data.replace(b'"role":"assistant","content":"x"', b"").replace(b'"stop"', b'"tool_calls"')
    assert CHAT.call_events(message, 0, MADE) == [own[0].replace(b'"role":"assistant",', b""), own[1]]


def test_a_frame_of_calls_alone_is_gone() -> None:
    assert len(rewritten(b'{"choices":[{"index":0,"delta":{"content":"x"}}]}', (CALL, MADE))) == 2


def test_another_word_for_a_finish_reason_changes_nothing_else() -> None:
    data = b'{"n":1.10,"choices":[{"delta":{"content":"a"}},{"delta":{},"finish_reason":"stop"}]}'
    own, last = CHAT.rewrite(CHAT.decode_event(data), {}, BOTH, {1: "tool_calls"})
    assert (own, last) == ([], data.replace(b"stop", b"tool_calls"))
    body = b'{"choices":[{"message":{"content":"a"},"finish_reason":"tool_calls"}]}'
    assert CHAT.rewrite_body(CHAT.decode_body(body), {}, BOTH, {0: "stop"}) == body.replace(b"tool_calls", b"stop")


@pytest.mark.parametrize(
    ("message", "pieces", "written"),
    [
        (b'{"content":"x"}', [(CALL, MADE)], b'{"content":null,"tool_calls":[%b]}' % LISTED),
        (b'{"content":null}', [(CALL, MADE)], b'{"content":null,"tool_calls":[%b]}' % LISTED),
        (b'{"content":"x","tool_calls":[]}', [(CALL, MADE)], b'{"content":null,"tool_calls":[%b]}' % LISTED),
        (
            b'{"content":"x","tool_calls":null}',
            [(CONTENT, "y"), (CALL, MADE)],
            b'{"content":"y","tool_calls":[%b]}' % LISTED,
        ),
        (
            b'{"content":"x","tool_calls":[ %b ],"n":1.10}' % OWN,
            [(CALL, MADE), (REASONING, "r")],
            b'{"content":null,"tool_calls":[ %b,%b],"n":1.10,"reasoning":"r"}' % (OWN, LISTED),
        ),
    ],
)
def test_the_calls_of_a_plain_body_stand_behind_the_engines_and_no_empty_content_beside_them(
    message: bytes, pieces: list[Said], written: bytes
) -> None:
    body = b'{"choices":[{"message":{"content":"z"}},{"message":%b}]}'
    assert CHAT.rewrite_body(CHAT.decode_body(body % message), {1: pieces}, ("reasoning",)) == body % written


def test_the_engines_calls_are_read_where_they_stand() -> None:
    body = b'{"choices":[{"message":{}},{"message":{"tool_calls":[%b]}}]}' % OWN
    message = CHAT.decode_body(body)
    found = Fragment(place=0, index=0, ident="c", name="f", arguments='{"n": 1.10}', text=False)
    assert [CHAT.fragments(message, part) for part in message.parts] == [[], [found]]
    data = event(b'{"tool_calls":[%b]}' % OWN)
    message = CHAT.decode_event(data)
    assert CHAT.fragments(message, message.parts[0]) == [found]


def test_the_engines_calls_are_changed_where_they_stand() -> None:
    data = event(b'{"tool_calls":[%b,%b]}' % (OWN, OWN))
    changes = {0: {0: CallChange(gone=True), 1: CallChange(arguments="{}")}}
    changed = event(b'{"tool_calls":[%b]}' % OWN.replace(b'{"n": 1.10}', b'"{}"'))
    assert CHAT.change_calls(CHAT.decode_event(data), changes) == changed
    body = b'{"choices":[{"message":{"content":null,"tool_calls":[%b]}}]}' % OWN
    gone = {0: {0: CallChange(gone=True)}}
    assert CHAT.change_calls(CHAT.decode_body(body), gone) == b'{"choices":[{"message":{"content":null}}]}'


@pytest.mark.parametrize(
    ("rest", "stays"),
    [
        (b"", False),
        (b',"content":null', False),
        (b',"content":"a"', True),
        (b',"reasoning":"a"', True),
        (b',"role":"assistant"', True),
    ],
)
def test_an_event_without_its_calls_stays_if_anything_is_left_in_it(rest: bytes, stays: bool) -> None:
    data = b'{"choices":[{"delta":{"tool_calls":[%b]%b}}]}' % (OWN, rest)
    changed = CHAT.change_calls(CHAT.decode_event(data), {0: {0: CallChange(gone=True)}})
    assert changed == (b'{"choices":[{"delta":{%b}}]}' % rest[1:] if stays else None)


def test_an_event_that_tells_the_usage_stays_without_its_calls() -> None:
    data = b'{"choices":[{"delta":{"tool_calls":[%b]}}],"usage":{}}' % OWN
    gone = {0: {0: CallChange(gone=True)}}
    assert CHAT.change_calls(CHAT.decode_event(data), gone) == b'{"choices":[{"delta":{}}],"usage":{}}'


@pytest.mark.parametrize(
    ("data", "ident"), [(b'{"id":"a"}', "a"), (b'{"id":null}', ""), (b"{}", ""), (b'{"id":7}', "7")]
)
def test_an_answer_may_have_an_id(data: bytes, ident: str) -> None:
    assert CHAT.answer_id(CHAT.decode_event(data)) == ident


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


def test_the_head_of_a_long_answer_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counting(data: bytes, path: tuple[str | int, ...]) -> tuple[int, int] | None:
        nonlocal looks
        looks += 1
        return member(data, path)

    monkeypatch.setattr("gateway.protocols.frames.member", counting)
    like = CHAT.decode_event(event(b'{"content":"x"}'))
    own, _ = CHAT.rewrite(like, {0: [(REPLAY, "a")] * 50}, BOTH)
    own += [CHAT.text_event(like, 0, CONTENT, "a", BOTH), CHAT.finish_event(like, 0, "stop")]
    assert [each.startswith(OURS) for each in own] == [True] * 51
    assert looks == 3


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


# ---------------------------------------------------------------------- empty lists of calls, usage, stop strings


@pytest.mark.parametrize("names", [BOTH, ("reasoning",), None])
def test_an_empty_list_of_tool_calls_is_taken_out_and_every_other_byte_stays(names: tuple[str, ...] | None) -> None:
    data = event(b'{"content":"a","tool_calls":[ ],"x":1.10}')
    assert CHAT.rename(CHAT.decode_event(data), names) == event(b'{"content":"a","x":1.10}')
    assert CHAT.rename(CHAT.decode_event(event(b'{"content":"a"}')), names) is None


def test_it_is_taken_out_of_every_choice_beside_the_new_name_of_the_reasoning() -> None:
    body = b'{"choices":[{"message":{"reasoning":"r","tool_calls":[]}},{"message":{"tool_calls":[],"content":"a"}}]}'
    expected = b'{"choices":[{"message":{"reasoning_content":"r"}},{"message":{"content":"a"}}]}'
    renamed = CHAT.rename(CHAT.decode_body(body), ("reasoning_content",))
    assert renamed is not None
    assert json.loads(renamed) == json.loads(expected)


def test_it_goes_with_the_text_that_is_written_anew_and_does_not_keep_a_frame() -> None:
    data = event(b'{"content":"<think>","tool_calls":[]}')
    assert rewritten(data, (CONTENT, "a")) == [event(b'{"content":"a"}')]
    assert rewritten(event(b'{"content":"<think>","tool_calls":[]}').replace(b'"logprobs":null', b'"x":null')) == []


@pytest.mark.parametrize("members", [b'{"tool_calls":null}', b'{"tool_calls":[{"index":0}]}', b"{}"])
def test_no_other_value_is_an_empty_list_of_tool_calls(members: bytes) -> None:
    assert not part(members).no_calls


@pytest.mark.parametrize(
    ("top", "told"),
    [(b',"usage":{"total_tokens":7}', True), (b',"usage":null', False), (b"", False)],
)
def test_a_frame_tells_the_usage_when_it_has_one(top: bytes, told: bool) -> None:
    assert CHAT.has_usage(CHAT.decode_event(event(b"{}", top=top))) is told


@pytest.mark.parametrize(
    ("choice", "stop_reason"),
    [
        ({"finish_reason": "stop", "matched_stop": "END"}, "END"),  # SGLang
        ({"finish_reason": "stop", "matched_stop": 2}, 2),
        ({"finish_reason": "stop", "stop_reason": None, "matched_stop": "END"}, None),
        ({"finish_reason": "stop"}, UNSAID),
    ],
)
def test_the_stop_reason_has_two_names_or_none(choice: dict[str, Any], stop_reason: Any) -> None:
    assert part(b"{}", **choice).stop_reason == stop_reason


def test_the_history_is_shaped_by_the_rule_that_is_given() -> None:
    rule = HistoryRule(keep="strip", field=None, grammar=None, repair_arguments=True, limits=Limits())
    body = b'{"messages":[{"role":"assistant","content":"a","reasoning":"r"}]}'
    assert CHAT.shape_history(body, rule) == (b'{"messages":[{"role":"assistant","content":"a"}]}', {"stripped": 1})
