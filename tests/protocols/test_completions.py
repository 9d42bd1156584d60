"""Text completions on the wire: what is read, what is written, by bytes (reference/vllm.md 3.4, sglang.md 3.3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.errors import ClientFault, EngineTimeout
from gateway.events import CONTENT, REASONING, REPLAY
from gateway.protocols.completions import Completions
from gateway.protocols.protocol import UNSAID, Fate, Message, NotThisProtocol, Part, Said

BOTH = ("reasoning", "reasoning_content")
HEAD = b'"id":"cmpl-ID","object":"text_completion","created":1,"model":"m",'
OURS = b'{"object":"text_completion","id":"cmpl-ID","created":1,"model":"m","choices":['
NO_ARRAYS = b'"logprobs":null,"finish_reason":null,"stop_reason":null,"token_ids":null'


def event(text: bytes, *, choice: bytes = NO_ARRAYS, top: bytes = b"") -> bytes:
    """The data of one chunk of vLLM 0.33."""
    return b'{%b"choices":[{"index":0,"text":%b,%b}],"kv_transfer_params":null%b}' % (HEAD, text, choice, top)


def ours(members: bytes, finish: bytes = b"null") -> bytes:
    """The data of an event of our own."""
    return OURS + b'{"index":0,%b,"finish_reason":%b}]}' % (members, finish)


def part(**choice: Any) -> Part:
    """The one part of a chunk."""
    [found] = Completions().decode_event(b'{"choices":[%b]}' % json.dumps(choice).encode()).parts
    return found


class Stream:
    """One stream, as the exchange drives it: every event is placed before it is written."""

    def __init__(self, names: tuple[str, ...] = BOTH) -> None:
        self.protocol = Completions().stream(rewrites=False)
        self.names = names

    def send(self, data: bytes, fates: Sequence[Fate] | None, *said: Said, changed: bool = True) -> list[bytes]:
        """What goes out for an event whose text became `said`; `changed` False: the pipeline left it as it came."""
        message = self.protocol.decode_event(data)
        message.parts[0].fates = fates
        pieces = self.protocol.placed(message, {0: [*said]} if changed else {})
        if not pieces:
            return [message.data]
        events, last = self.protocol.rewrite(message, pieces, self.names)
        return events if last is None else [*events, last]


# ---------------------------------------------------------------------- in


@pytest.mark.parametrize(
    ("choice", "content", "finish", "reason"),
    [
        ({"index": 0, "text": "abc", "finish_reason": None, "stop_reason": None}, "abc", None, None),
        ({"text": "", "finish_reason": "stop", "stop_reason": None}, "", "stop", None),
        ({"text": "x", "finish_reason": "stop", "stop_reason": "END"}, "x", "stop", "END"),
        ({"text": "", "finish_reason": "stop", "matched_stop": 151645}, "", "stop", 151645),  # SGLang
        ({"text": "", "finish_reason": "length", "matched_stop": None}, "", "length", None),
        ({"text": "a", "finish_reason": "stop"}, "a", "stop", UNSAID),
        ({"text": None, "finish_reason": "stop", "stop_reason": None}, "", "stop", None),
        ({"delta": None, "message": None, "finish_reason": "abort"}, "", "abort", UNSAID),
    ],
)
def test_a_choice_is_its_text_and_its_end(choice: Any, content: str, finish: str | None, reason: Any) -> None:
    found = part(**choice)
    assert (found.index, found.content, found.reasoning) == (0, content, "")
    assert (found.finish, found.stop_reason) == (finish, reason)


def test_choices_are_told_by_index_and_place() -> None:
    data = b'{"choices":[{"index":3,"text":"a"},{"text":"b"}]}'
    assert [(each.place, each.index) for each in Completions().decode_event(data).parts] == [(0, 3), (1, 1)]


def test_a_plain_body_is_read_as_an_event_is() -> None:
    body = b'{"id":"cmpl-1","choices":[{"index":0,"text":"a"}],"usage":{"total_tokens":3}}'
    message = Completions().decode_body(body)
    assert [each.content for each in message.parts] == ["a"]
    assert (Completions().answer_id(message), Completions().has_usage(message)) == ("cmpl-1", True)


def test_usage_errors_and_odd_text_are_told() -> None:
    usage = Completions().decode_event(b'{"choices":[],"usage":{"total_tokens":7}}')
    assert (usage.parts, usage.error, Completions().has_usage(usage)) == ([], False, True)
    failed = Completions().decode_event(b'{"error":{"message":"m"}}')
    assert (failed.parts, failed.error, Completions().answer_id(failed)) == ([], True, "")
    assert Completions().decode_event(b'{"choices":[{"text":"\\ud83d"}]}').odd


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"7",
        b'{"choices":[7]}',
        b'{"choices":7}',
        b'{"choices":[{"text":7}]}',
        b'{"choices":[{"delta":{"content":"a"}}]}',  # a chat completion
        b'{"choices":[{"message":{"content":"a"}}]}',
        b"no json",
    ],
)
def test_bytes_of_another_shape_are_not_of_this_protocol(data: bytes) -> None:
    with pytest.raises(NotThisProtocol):
        Completions().decode_event(data)


def test_a_request_is_read() -> None:
    assert Completions().facts({"model": "m", "prompt": "hi"}).prompts == ("hi",)


# ---------------------------------------------------------------------- out, without arrays


def test_an_event_that_nobody_changed_keeps_its_bytes() -> None:
    data = event(b'"a\\u0062"', top=b',"x":1.10')
    assert Stream().send(data, [(2, True)], changed=False) == [data]


def test_a_thought_stands_beside_an_empty_text() -> None:
    data = event(b'"<think>hm"', top=b',"x":1E5,"n":123456789012345678901234567890')
    [sent] = Stream().send(data, [(7, False), (2, False)], (REASONING, "hm"))
    rest = b',"reasoning":"hm","reasoning_content":"hm"}],"kv'
    assert sent == data.replace(b'"<think>hm"', b'""').replace(b'}],"kv', rest)
    [one] = Stream(("reasoning",)).send(data, [(9, False)], (REASONING, "hm"))
    assert one == data.replace(b'"<think>hm"', b'""').replace(b'}],"kv', b',"reasoning":"hm"}],"kv')


def test_each_piece_but_the_last_is_an_event_of_its_own() -> None:
    data = event(b'"hm</think>Hi"')
    sent = Stream().send(data, [(10, False), (2, True)], (REASONING, "hm"), (CONTENT, "Hi"))
    first = ours(b'"text":"","logprobs":null,"reasoning":"hm","reasoning_content":"hm"')
    assert sent == [first, data.replace(b'"hm</think>Hi"', b'"Hi"')]
    again = Stream().send(data, [(12, False)], (CONTENT, "a"), (REPLAY, "b"), (REASONING, "c"))
    assert again[:2] == [ours(b'"text":"a","logprobs":null'), ours(b'"text":"b","logprobs":null')]


def test_an_event_that_says_nothing_does_not_go_out() -> None:
    assert Stream().send(event(b'"<"'), []) == []


@pytest.mark.parametrize(
    ("choice", "top"),
    [
        (b'"finish_reason":"stop"', b""),
        (b'"prompt_token_ids":[1]', b""),
        (b'"unknown":0', b""),
        (NO_ARRAYS, b',"usage":{"total_tokens":3}'),  # continuous_usage_stats
    ],
)
def test_what_else_it_says_goes_out(choice: bytes, top: bytes) -> None:
    data = event(b'"<"', choice=choice, top=top)
    assert Stream().send(data, []) == [data.replace(b'"<"', b'""')]


def test_of_several_choices_in_one_event_each_is_its_own() -> None:
    data = b'{%b"choices":[{"index":1,"text":"<think>"},{"index":0,"text":"b"}]}' % HEAD
    protocol = Completions().stream(rewrites=False)
    message = protocol.decode_event(data)
    message.parts[0].fates, message.parts[1].fates = [(7, False)], [(1, True)]
    assert protocol.rewrite(message, protocol.placed(message, {0: []}), BOTH) == ([], data.replace(b"<think>", b""))


def test_a_thought_that_was_there_goes_where_it_is_not_shown() -> None:
    data = b'{"choices":[{"index":0,"text":"a","reasoning":"r"}]}'
    assert Stream(()).send(data, [(1, True)], (CONTENT, "a")) == [data.replace(b',"reasoning":"r"', b"")]


def test_a_choice_that_is_not_read_stays() -> None:
    data = event(b'"<think>"', choice=b'"logprobs":null,"token_ids":[1,2]')
    assert Stream().send(data, None, changed=False) == [data]


# ---------------------------------------------------------------------- arrays beside the text


def arrays(*rows: tuple[str, bytes, int]) -> bytes:
    """What stands beside tokens: their words, log probabilities as written, offsets, and ids counted from 400."""
    columns = (
        b'{"text_offset":[%b]' % b",".join([b"%d" % offset for _, _, offset in rows]),
        b'"token_logprobs":[%b]' % b",".join([probability for _, probability, _ in rows]),
        b'"tokens":[%b]' % b",".join([json.dumps(word).encode() for word, _, _ in rows]),
        b'"top_logprobs":[%b]}' % b",".join([b"{%b:%b}" % (json.dumps(w).encode(), p) for w, p, _ in rows]),
    )
    ids = b",".join([b"%d" % (400 + offset) for _, _, offset in rows])
    return b'"logprobs":%b,"finish_reason":null,"token_ids":[%b]' % (b",".join(columns), ids)


GONE = b'"logprobs":null,"finish_reason":null,"token_ids":[]'
THINK, HM, END, HI = ("<think>", b"-0.10", 0), ("hm", b"-1E-5", 7), ("</think>", b"-0.0", 9), ("Hi", b"-2.50", 17)


def test_arrays_go_with_what_is_taken_out_and_offsets_stay_in_step() -> None:
    stream = Stream()
    assert stream.send(event(b'"<think>"', choice=arrays(THINK)), [(7, False)]) == []
    [thought] = stream.send(event(b'"hm"', choice=arrays(HM)), [(2, False)], (REASONING, "hm"))
    assert json.loads(thought)["choices"][0]["logprobs"] is None
    assert json.loads(thought)["choices"][0]["token_ids"] == []
    assert stream.send(event(b'"</think>"', choice=arrays(END)), [(8, False)]) == []
    data = event(b'"Hi"', choice=arrays(HI))
    assert stream.send(data, [(2, True)], changed=False) == [data.replace(b"[17]", b"[0]")]
    end = event(b'""', choice=b'"logprobs":null,"finish_reason":"stop","token_ids":[2]')
    assert stream.send(end, [], changed=False) == [end]


def test_numbers_of_an_array_keep_their_digits() -> None:
    rows = [THINK, HM, END, HI]
    data = event(b'"<think>hm</think>Hi"', choice=arrays(*rows))
    sent = Stream().send(data, [(17, False), (2, True)], (REASONING, "hm"), (CONTENT, "Hi"))
    assert sent[0] == ours(b'"text":"","logprobs":null,"reasoning":"hm","reasoning_content":"hm"')
    assert sent[1] == event(b'"Hi"', choice=arrays(("Hi", b"-2.50", 0)).replace(b"[400]", b"[417]"))


def test_arrays_of_held_text_wait_for_it() -> None:
    stream = Stream()
    assert stream.send(event(b'"<"', choice=arrays(("<", b"-1.0", 0))), []) == []
    [sent] = stream.send(event(b'"b"', choice=arrays(("b", b"-2.0", 1))), [(2, True)], (CONTENT, "<b"))
    assert sent == event(b'"<b"', choice=arrays(("<", b"-1.0", 0), ("b", b"-2.0", 1)))


def test_arrays_that_waited_go_out_in_an_event_that_has_none_of_its_own() -> None:
    stream = Stream()
    stream.send(event(b'"<"', choice=arrays(("<", b"-1.0", 0))), [])
    end = event(b'""', choice=b'"logprobs":null,"finish_reason":"stop"')
    [sent] = stream.send(end, [(1, True)], (CONTENT, "<"))
    choice = json.loads(sent)["choices"][0]
    assert (choice["text"], choice["token_ids"], choice["finish_reason"]) == ("<", [400], "stop")
    assert choice["logprobs"] == {
        "text_offset": [0],
        "token_logprobs": [-1.0],
        "tokens": ["<"],
        "top_logprobs": [{"<": -1.0}],
    }


def test_arrays_of_text_that_goes_out_without_an_event_of_the_engine_go_with_it() -> None:
    stream = Stream()
    held = event(b'"<"', choice=arrays(("<", b"-1.10", 0)))
    stream.send(held, [])
    stream.protocol.ended(0, [(1, True)])
    text = stream.protocol.text_event(like(held), 0, CONTENT, "<", BOTH)
    choice = json.loads(text)["choices"][0]
    assert (choice["text"], choice["token_ids"], choice["logprobs"]["text_offset"]) == ("<", [400], [0])
    assert b'"token_logprobs":[-1.10]' in text
    more = stream.protocol.text_event(like(held), 0, CONTENT, "b", BOTH)
    assert more == ours(b'"text":"b","logprobs":null')


def test_ids_alone_are_told_apart_by_event() -> None:
    stream = Stream()
    ids = b'"logprobs":null,"token_ids":[%b]'
    assert stream.send(event(b'"</think>"', choice=ids % b"1"), [(8, False)]) == []
    mixed = event(b'"m</think>H"', choice=ids % b"2,3,4")
    [_, sent] = stream.send(mixed, [(9, False), (1, True)], (REASONING, "m"), (CONTENT, "H"))
    assert json.loads(sent)["choices"][0]["token_ids"] == []  # which of the three is the text's is not to be told
    data = event(b'"Hi"', choice=ids % b"5,6")
    assert stream.send(data, [(2, True)], changed=False) == [data]


def test_offsets_that_sglang_does_not_count_stay_as_they_are() -> None:
    stream = Stream()
    stream.send(event(b'"<think>"', choice=arrays(("<think>", b"-1.0", -1))), [(7, False)])
    data = event(b'"Hi"', choice=arrays(("Hi", b"-2.0", -1)))
    assert stream.send(data, [(2, True)], changed=False) == [data]


def test_log_probabilities_in_the_chat_form_are_cut_as_well() -> None:
    """llama.cpp."""
    rows = b'"logprobs":{"content":[%b]}'
    row = b'{"id":%d,"token":"%b","logprob":-1.10}'
    both = rows % b",".join([row % (1, b"</think>"), row % (2, b"Hi")])
    [sent] = Stream().send(event(b'"</think>Hi"', choice=both), [(8, False), (2, True)], (CONTENT, "Hi"))
    assert sent == event(b'"Hi"', choice=rows % (row % (2, b"Hi")))
    broken = b'"logprobs":{"content":[7]}'
    assert Stream().send(event(b'"Hi"', choice=broken), [(2, True)], changed=False) == [event(b'"Hi"', choice=broken)]


def test_log_probabilities_of_an_unknown_form_stay() -> None:
    data = event(b'"Hi"', choice=b'"logprobs":7,"token_ids":[1]')
    assert Stream().send(data, [(2, True)], changed=False) == [data]


@pytest.mark.parametrize("name", [b"tokens", b"text_offset", b"content"])
def test_an_array_that_is_none_stays_too(name: bytes) -> None:
    data = event(b'"Hi"', choice=b'"logprobs":{"%b":7},"token_ids":[1]' % name)
    assert Stream().send(data, [(2, True)], changed=False) == [data]


def test_where_halves_of_characters_come_every_array_goes() -> None:
    data = event(b'"\\ud83d"', choice=b'"token_ids":[1]')
    [sent] = Stream().send(data, [(1, True)], (CONTENT, "\ud83d"))
    assert json.loads(sent)["choices"][0]["token_ids"] == []


# ---------------------------------------------------------------------- plain bodies


def rewritten(body: bytes, fates: Sequence[Fate], *said: Said, finishes: dict[int, str] | None = None) -> bytes:
    protocol = Completions()
    message = protocol.decode_body(body)
    message.parts[0].fates = fates
    return protocol.rewrite_body(message, {0: said} if said else {}, BOTH, finishes or {})


@pytest.mark.parametrize("index", [b"[]", b"0", b"null"])
def test_the_choices_of_a_plain_body_are_told_apart_by_their_place(index: bytes) -> None:
    one = b'{"index":%b,"text":"<think>hm</think>Hi","logprobs":null,"token_ids":[1]}' % index
    message = Completions().decode_body(b'{"choices":[%b,%b]}' % (one, one))
    for part in message.parts:
        part.fates = [(17, False), (2, True)]
    said: list[Said] = [(REASONING, "hm"), (CONTENT, "Hi")]
    first, second = json.loads(Completions().rewrite_body(message, {0: said, 1: said}, BOTH))["choices"]
    assert first == second
    assert (first["text"], first["token_ids"]) == ("Hi", [1])


def test_a_plain_body_is_spliced() -> None:
    body = event(b'"<think>hm</think>Hi"', choice=arrays(THINK, HM, END, HI))
    sent = rewritten(body, [(17, False), (2, True)], (REASONING, "hm"), (CONTENT, "Hi"))
    names = b',"reasoning":"hm","reasoning_content":"hm"}],"kv'
    wanted = event(b'"Hi"', choice=arrays(("Hi", b"-2.50", 0)).replace(b"[400]", b"[417]"))
    assert sent == wanted.replace(b'}],"kv', names)


def test_a_plain_body_whose_text_stays_keeps_its_bytes_and_may_end_in_another_word() -> None:
    body = event(b'"Hi"', choice=arrays(("Hi", b"-2.50", 0)))
    assert rewritten(body, [(2, True)]) == body
    assert rewritten(body, [(2, True)], finishes={0: "stop"}) == body.replace(
        b'"finish_reason":null', b'"finish_reason":"stop"'
    )


def test_a_finish_reason_in_another_word() -> None:
    data = event(b'""', choice=b'"finish_reason":"stop"')
    events, sent = Completions().rewrite(Completions().decode_event(data), {}, BOTH, {0: "error"})
    assert (events, sent) == ([], data.replace(b'"stop"', b'"error"'))


def test_the_report_of_a_plain_body_stands_at_its_top() -> None:
    assert Completions().add_report(b'{"id":"c"}', {"a": 1}) == b'{"id":"c","integrity":{"a":1}}'


# ---------------------------------------------------------------------- frames of our own


def like(data: bytes = b"") -> Message:
    return Completions().decode_event(data or event(b'"a"'))


def test_an_event_of_our_own_looks_like_the_engines() -> None:
    protocol = Completions()
    assert protocol.text_event(like(), 0, CONTENT, 'a"', BOTH) == ours(b'"text":"a\\"","logprobs":null')
    thought = protocol.text_event(like(), 0, REASONING, "r", ("reasoning",))
    assert thought == ours(b'"text":"","logprobs":null,"reasoning":"r"')
    assert protocol.finish_event(like(), 0, "stop") == ours(b'"text":"","logprobs":null', b'"stop"')
    assert protocol.report_event(like(), {"a": 1}) == OURS + b'],"integrity":{"a":1}}'
    bare = b'{"object":"text_completion","choices":[],"integrity":{}}'
    assert protocol.report_event(None, {}) == bare
    assert protocol.report_event(like(b'{"choices":[]}'), {}) == bare


def test_the_head_is_looked_for_once() -> None:
    message = like()
    first = Completions().text_event(message, 0, CONTENT, "a", BOTH)
    message.data = b"{}"
    assert Completions().text_event(message, 0, CONTENT, "a", BOTH) == first


def test_errors_have_the_shape_of_the_engines() -> None:
    body = Completions().error_body(EngineTimeout("slow"))
    error = json.loads(body)["error"]
    assert (error["message"], error["type"], error["param"]) == ("slow", "InternalServerError", None)
    assert error["code"].startswith("integrity_")
    assert json.loads(Completions().error_body(ClientFault("bad")))["error"]["type"] == "BadRequestError"
    assert Completions().error_event(EngineTimeout("slow")) == b"data: " + body + b"\n\n"
    assert Completions().frame(b"{}") == b"data: {}\n\n"
