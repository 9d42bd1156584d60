"""SGLang's `/generate` on the wire, and LMDeploy's pieces: what is read, what is written (reference/sglang.md 3.4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.errors import ClientFault, EngineTimeout
from gateway.events import CONTENT, REASONING
from gateway.protocols.generate import Generate
from gateway.protocols.protocol import UNSAID, Fate, Message, NotThisProtocol, Said
from gateway.protocols.raw_ids import IdsRead
from gateway.streams.tokens import STRUCTURAL, Markers

BOTH = ("reasoning", "reasoning_content")
TAIL = b',"prompt_tokens":3,"weight_version":"1.10","e2e_latency":1E-5'


def event(
    text: bytes, ids: Sequence[int], *, count: int | None = None, finish: bytes = b"null", meta: bytes = b""
) -> bytes:
    """One event of SGLang 0.5.23."""
    tokens = len(ids) if count is None else count
    info = b'{"id":"g1","finish_reason":%b%b,"completion_tokens":%d%b}' % (finish, TAIL, tokens, meta)
    written = json.dumps([*ids], separators=(",", ":")).encode()
    return b'{"text":%b,"output_ids":%b,"meta_info":%b}' % (text, written, info)


STOP = b'{"type":"stop","matched":2}'


class Stream:
    """One stream, as the exchange drives it: every event is placed before it is written."""

    def __init__(self, names: tuple[str, ...] = BOTH) -> None:
        self.protocol = Generate().stream(rewrites=False)
        self.names = names

    def read(self, data: bytes) -> Message:
        return self.protocol.decode_event(data)

    def send(self, data: bytes, fates: Sequence[Fate] | None, *said: Said, changed: bool = True) -> bytes:
        """What goes out for an event whose text became `said`; `changed` False: the pipeline left it as it came."""
        message = self.read(data)
        message.parts[0].fates = fates
        pieces = self.protocol.placed(message, {0: [*said]} if changed else {})
        if not pieces:
            return message.data
        events, last = self.protocol.rewrite(message, pieces, self.names)
        assert events == [] and last is not None
        return last


def new_texts(*events: bytes) -> list[str]:
    """What each event says that the ones before did not."""
    protocol = Generate().stream(rewrites=False)
    return [protocol.decode_event(data).parts[0].content for data in events]


# ---------------------------------------------------------------------- in


@pytest.mark.parametrize(
    ("reason", "finish", "stop_reason"),
    [
        (None, None, None),
        ({"type": "stop", "matched": 2}, "stop", 2),
        ({"type": "stop", "matched": "END"}, "stop", "END"),
        ({"type": "stop"}, "stop", UNSAID),
        ({"type": "length", "length": 9}, "length", UNSAID),
        ({"type": "abort", "message": "m", "status_code": 500, "err_type": "e"}, "abort", UNSAID),
        ("stop", "stop", UNSAID),
    ],
)
def test_the_end_of_an_answer_stands_in_its_meta_info(reason: Any, finish: str | None, stop_reason: Any) -> None:
    data = json.dumps({"text": "a", "meta_info": {"finish_reason": reason}}).encode()
    for message in (Generate().decode_body(data), Stream().read(data)):
        [part] = message.parts
        assert (part.content, part.index, part.finish, part.stop_reason) == ("a", 0, finish, stop_reason)


def test_a_list_of_prompts_has_a_list_of_answers() -> None:
    body = b'[{"text":"a","index":0},{"text":"b","index":1}]'
    message = Generate().decode_body(body)
    assert [(part.place, part.index, part.content) for part in message.parts] == [(0, 0, "a"), (1, 1, "b")]
    assert Generate().answer_id(message) == ""


def test_the_id_of_an_answer_stands_in_its_meta_info() -> None:
    message = Generate().decode_body(event(b'"a"', [1]))
    assert (Generate().answer_id(message), Generate().has_usage(message)) == ("g1", False)
    assert Generate().answer_id(Generate().decode_body(b'{"text":"a","meta_info":null}')) == ""


def test_an_error_is_told() -> None:
    failed = Stream().read(b'{"error":{"message":"m","type":"t","code":500,"retryable":false}}')
    assert (failed.parts, failed.error) == ([], True)


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"7",
        b"{}",
        b'{"output_ids":[1]}',  # --skip-tokenizer-init
        b'{"text":7}',
        b'{"text":"a","reasoning":7}',
        b"no json",
    ],
)
def test_bytes_of_another_shape_are_not_of_this_protocol(data: bytes) -> None:
    with pytest.raises(NotThisProtocol):
        Stream().read(data)
    if data != b"[]":
        with pytest.raises(NotThisProtocol):
            Generate().decode_body(data)


def test_a_request_is_read() -> None:
    assert Generate().facts({"text": ["a", "b"]}).prompts == ("a", "b")


# ---------------------------------------------------------------------- all of it, or pieces


def test_events_that_repeat_the_tokens_before_them_are_cumulative() -> None:
    assert new_texts(event(b'"a"', [1]), event(b'"ab"', [1, 2]), event(b'"ab"', [1, 2], finish=STOP)) == ["a", "b", ""]


def test_events_with_other_tokens_are_pieces() -> None:
    assert new_texts(event(b'"a"', [1]), event(b'"b"', [2], count=2), event(b'""', [], count=2)) == ["a", "b", ""]


def test_a_token_that_comes_again_is_told_by_the_count_of_tokens() -> None:
    assert new_texts(event(b'"a"', [1]), event(b'"a"', [1], count=2)) == ["a", "a"]
    assert new_texts(event(b'"a"', [1]), event(b'"a"', [1], count=1, finish=STOP)) == ["a", ""]
    assert new_texts(event(b'"a"', [1]), event(b'"ab"', [1, 2], count=9)) == ["a", "b"]


def test_text_tells_where_there_are_no_tokens() -> None:
    whole = [b'{"text":"a"}', b'{"text":"ab"}', b'{"text":"abc"}']
    assert new_texts(*whole) == ["a", "b", "c"]
    assert new_texts(b'{"text":"a"}', b'{"text":"b"}') == ["a", "b"]


def test_an_empty_beginning_tells_nothing() -> None:
    assert new_texts(event(b'""', []), event(b'"a"', [1]), event(b'"b"', [2], count=2)) == ["", "a", "b"]
    assert new_texts(event(b'""', []), event(b'"a"', [1]), event(b'"ab"', [1, 2])) == ["", "a", "b"]


def test_answers_that_come_interleaved_are_told_by_their_index() -> None:
    first = [b'{"text":"a","output_ids":[1],"index":0}', b'{"text":"ab","output_ids":[1,2],"index":0}']
    other = [b'{"text":"x","output_ids":[7],"index":1}', b'{"text":"xy","output_ids":[7,8],"index":1}']
    assert new_texts(first[0], other[0], first[1], other[1]) == ["a", "x", "b", "y"]


@pytest.mark.parametrize("later", [event(b'"x"', [1, 2, 3]), event(b'"ab"', [1])])
def test_text_that_is_taken_back_ends_the_reading(later: bytes) -> None:
    stream = Stream()
    stream.read(event(b'"a"', [1]))
    stream.read(event(b'"ab"', [1, 2]))
    for data in (later, event(b'"abc"', [1, 2, 3])):
        with pytest.raises(NotThisProtocol, match="text taken back"):
            stream.read(data)


def test_reasoning_that_stands_beside_the_text_is_cumulative_too() -> None:
    """A gateway behind a gateway."""
    stream = Stream()
    stream.read(b'{"text":"","output_ids":[1],"reasoning":"r"}')
    [part] = stream.read(b'{"text":"a","output_ids":[1,2],"reasoning":"rs"}').parts
    assert (part.reasoning, part.content, part.names) == ("s", "a", ("reasoning",))
    with pytest.raises(NotThisProtocol, match="text taken back"):
        stream.read(b'{"text":"ab","output_ids":[1,2,3],"reasoning":"x"}')


# ---------------------------------------------------------------------- cumulative, out


def test_events_that_nobody_changed_keep_their_bytes() -> None:
    stream = Stream()
    for data in (event(b'"a"', [1]), event(b'"a\\u0062"', [1, 2])):
        assert stream.send(data, [(1, True)], changed=False) == data


def test_thought_and_text_are_cumulative_with_everything_else_as_it_came() -> None:
    stream = Stream()
    first = event(b'"<think>hm"', [1, 2], count=2)
    names = b',"reasoning":"hm","reasoning_content":"hm"}'
    sent = stream.send(first, [(7, False), (2, False)], (REASONING, "hm"))
    assert sent == event(b'""', [], count=2)[:-1] + names
    end = event(b'"<think>hm</think>Hi"', [1, 2, 3, 4], finish=STOP)
    sent = stream.send(end, [(8, False), (2, True)], (CONTENT, "Hi"))
    # The two tokens of the event cannot be told apart from its text: see the test of log probabilities.
    assert sent == event(b'"Hi"', [], count=4, finish=STOP)[:-1] + names


def test_after_the_first_change_every_event_is_written_again() -> None:
    stream = Stream(("reasoning",))
    stream.send(event(b'"</think>"', [1]), [(8, False)])
    sent = stream.send(event(b'"</think>Hi"', [1, 2]), [(2, True)], changed=False)
    assert sent == event(b'"Hi"', [2], count=2)
    again = stream.send(event(b'"</think>Hi!"', [1, 2, 3]), [(1, True)], changed=False)
    assert again == event(b'"Hi!"', [2, 3], count=3)


def test_held_text_makes_an_event_short_until_it_is_let_go() -> None:
    stream = Stream()
    assert stream.send(event(b'"a<"', [1]), [(1, True)], (CONTENT, "a")) == event(b'"a"', [1])
    assert stream.send(event(b'"a<b"', [1, 2]), [(2, True)], (CONTENT, "<b")) == event(b'"a<b"', [1, 2])
    whole = event(b'"a<bc"', [1, 2, 3])
    assert stream.send(whole, [(1, True)], changed=False) is whole


def test_log_probabilities_tell_tokens_apart_and_keep_their_digits() -> None:
    rows = b',"output_token_logprobs":%b,"output_token_logprobs_length":%d,"output_top_logprobs":%b'
    think, hi = b'[-0.10, 1, "</think>"]', b'[-1E-5,2,"Hi"]'
    stream = Stream()
    first = event(b'"</think>"', [1], meta=rows % (b"[%b]" % think, 1, b"[[1]]"))
    sent = stream.send(first, [(8, False)])
    assert sent == event(b'""', [], count=1, meta=rows % (b"[]", 0, b"[]"))
    both = event(b'"</think>Hi"', [1, 2], meta=rows % (b"[%b,%b]" % (think, hi), 2, b"[[1] , [2.50]]"))
    sent = stream.send(both, [(2, True)], changed=False)
    assert sent == event(b'"Hi"', [2], count=2, meta=rows % (b"[%b]" % hi, 1, b"[[2.50]]"))
    more = event(b'"</think>Hi!"', [1, 2, 3], meta=rows % (b"[%b,%b,[3]]" % (think, hi), 3, b"[[1] , [2.50],[3.0]]"))
    sent = stream.send(more, [(1, True)], changed=False)
    assert sent == event(b'"Hi!"', [2, 3], count=3, meta=rows % (b"[%b,[3]]" % hi, 2, b"[[2.50],[3.0]]"))


def test_rows_that_are_written_otherwise_than_before_are_counted() -> None:
    stream = Stream()
    meta = b',"output_token_logprobs":%b'
    stream.send(
        event(b'"</think>a"', [1, 2], meta=meta % b'[[1,1,"</think>"],[1,2,"a"]]'),
        [(8, False), (1, True)],
        (CONTENT, "a"),
    )
    sent = stream.send(
        event(b'"</think>ab"', [1, 2, 3], meta=meta % b'[[1.0,1,"x"],[1,2,"a"],[3,3,"b"]]'), [(1, True)], changed=False
    )
    assert sent == event(b'"ab"', [2, 3], count=3, meta=meta % b'[[1,2,"a"],[3,3,"b"]]')


def test_where_halves_of_characters_come_every_array_goes() -> None:
    sent = Stream().send(event(b'"\\ud83d"', [1]), [(1, True)], (CONTENT, "\ud83d"))
    assert sent == event(b'"\\ud83d"', [], count=1)


def test_an_answer_that_is_not_read_stays() -> None:
    data = b'{"text":"<think>","index":"0","output_ids":[1]}'
    assert Stream().send(data, None, changed=False) == data


def test_reasoning_that_stands_there_already_gets_the_names_of_the_route() -> None:
    stream = Stream(("reasoning_content",))
    data = b'{"text":"a","output_ids":[1],"reasoning":"r"}'
    sent = stream.send(data, [(1, True)], changed=False)
    assert sent == b'{"text":"a","output_ids":[1],"reasoning_content":"r"}'
    hidden = Stream(()).send(data, [(1, True)], (CONTENT, "a"))
    assert hidden == b'{"text":"a","output_ids":[1]}'


# ---------------------------------------------------------------------- pieces, out


def pieces() -> Stream:
    """A stream that is known to come in pieces."""
    stream = Stream()
    for data in (event(b'"a"', [1]), event(b'"b"', [2], count=2)):
        assert stream.send(data, [(1, True)], changed=False) == data
    return stream


def test_of_pieces_only_those_that_change_are_written_again() -> None:
    stream = pieces()
    thought = stream.send(event(b'"<think>hm"', [3, 4], count=4), [(9, False)], (REASONING, "hm"))
    assert thought == event(b'""', [], count=4)[:-1] + b',"reasoning":"hm","reasoning_content":"hm"}'
    data = event(b'"Hi"', [5], count=5)
    assert stream.send(data, [(2, True)], changed=False) == data


def test_tokens_of_a_held_piece_go_out_with_it() -> None:
    stream = pieces()
    assert stream.send(event(b'"<"', [3], count=3), []) == event(b'""', [], count=3)
    assert stream.send(event(b'"c"', [4], count=4), [(2, True)], (CONTENT, "<c")) == event(b'"<c"', [3, 4], count=4)


def test_a_token_without_text_goes_with_the_thought_before_it() -> None:
    stream = pieces()
    stream.send(event(b'"</think>"', [3], count=3), [(8, False)])
    assert stream.send(event(b'""', [4], count=4), [], changed=False) == event(b'""', [], count=4)


# ---------------------------------------------------------------------- events of our own


def test_text_that_goes_out_without_an_event_of_the_engine_repeats_the_last_one() -> None:
    stream = Stream()
    stream.send(event(b'"a<"', [1, 2]), [(1, True)], (CONTENT, "a"))
    stream.protocol.ended(0, [(1, True)])
    text = stream.protocol.text_event(None, 0, CONTENT, "<", BOTH)
    assert text == event(b'"a<"', [1, 2])
    thought = stream.protocol.text_event(None, 0, REASONING, "r", ("reasoning",))
    assert thought == event(b'"a<"', [1, 2])[:-1] + b',"reasoning":"r"}'


def test_of_pieces_it_is_the_next_one() -> None:
    stream = pieces()
    stream.send(event(b'"<"', [3], count=3), [])
    stream.protocol.ended(0, [(1, True)])
    assert stream.protocol.text_event(None, 0, REASONING, "r", ("reasoning",)) == (
        event(b'""', [], count=3)[:-1] + b',"reasoning":"r"}'
    )
    assert stream.protocol.text_event(None, 0, CONTENT, "<", BOTH) == event(b'"<"', [3], count=3)
    assert stream.protocol.text_event(None, 0, CONTENT, "b", BOTH) == event(b'"b"', [], count=3)


def test_an_end_that_is_added_has_the_shape_of_one() -> None:
    stop = b'{"type":"stop","matched":null}'
    stream = Stream()
    stream.send(event(b'"</think>a"', [1]), [(8, False), (1, True)], (CONTENT, "a"))
    assert stream.protocol.finish_event(None, 0, "stop") == event(b'"a"', [1], finish=stop)
    assert pieces().protocol.finish_event(None, 0, "stop") == event(b'""', [], count=2, finish=stop)


def test_a_finish_reason_in_another_word() -> None:
    stream = Stream()
    message = stream.read(event(b'"a"', [1], finish=STOP))
    message.parts[0].fates = [(1, True)]
    said = {0: [(CONTENT, "a")]}
    stream.protocol.placed(message, dict(said))
    _, sent = stream.protocol.rewrite(message, said, BOTH, {0: "error"})
    assert sent == event(b'"a"', [1], finish=b'{"type":"error","matched":null}')


def test_the_report_stands_in_the_last_event_once_more() -> None:
    report = b',"integrity":{"a":1}}}'
    stream = Stream()
    data = event(b'"</think>a"', [1], finish=STOP)
    message = stream.read(data)
    watched = stream.protocol.report_event(message, {"a": 1})  # nothing was placed: the engine's own events go out
    assert watched == data[:-2] + report
    stream = Stream()
    stream.send(data, [(8, False), (1, True)], (CONTENT, "a"))
    assert stream.protocol.report_event(message, {"a": 1}) == event(b'"a"', [1], finish=STOP)[:-2] + report
    last = pieces()
    sent = last.protocol.report_event(last.read(event(b'"c"', [3], count=3)), {"a": 1})
    assert sent == event(b'""', [], count=3)[:-2] + report


def test_the_report_has_a_place_where_there_is_no_meta_info_and_no_event() -> None:
    alone = b'{"text":"","output_ids":[],"meta_info":{"integrity":{}}}'
    assert Generate().report_event(None, {}) == alone
    stream = Stream()
    assert stream.protocol.report_event(stream.read(b'{"text":"a","index":"0"}'), {}) == alone
    bare = stream.read(b'{"text":"a","meta_info":null}')
    assert stream.protocol.report_event(bare, {}) == b'{"text":"a","meta_info":{"integrity":{}}}'


# ---------------------------------------------------------------------- plain bodies


def rewritten(body: bytes, fates: dict[int, Sequence[Fate]], said: dict[int, list[Said]]) -> bytes:
    protocol = Generate()
    message = protocol.decode_body(body)
    for place, each in fates.items():
        message.parts[place].fates = each
    return protocol.rewrite_body(message, said, BOTH)


def test_a_plain_body_is_spliced() -> None:
    meta = b',"output_token_logprobs":[[-1.10,1,"</think>"],[-2.50,2,"Hi"]]'
    body = event(b'"</think>Hi"', [1, 2], finish=STOP, meta=meta)
    sent = rewritten(body, {0: [(8, False), (2, True)]}, {0: [(REASONING, "hm"), (CONTENT, "Hi")]})
    wanted = event(b'"Hi"', [2], count=2, finish=STOP, meta=b',"output_token_logprobs":[[-2.50,2,"Hi"]]')
    assert sent == wanted[:-1] + b',"reasoning":"hm","reasoning_content":"hm"}'


def test_of_a_list_each_answer_is_spliced_in_its_place() -> None:
    body = b"[%b, %b]" % (event(b'"a"', [1]), event(b'"</think>b"', [2]))
    sent = rewritten(body, {1: [(8, False), (1, True)]}, {1: [(CONTENT, "b")]})
    assert sent == b"[%b, %b]" % (event(b'"a"', [1]), event(b'"b"', [2]))
    assert rewritten(body, {}, {}) is body


def test_an_answer_without_arrays_has_none_afterwards() -> None:
    assert rewritten(b'{"text":"</think>a"}', {0: [(9, False)]}, {0: [(CONTENT, "a")]}) == b'{"text":"a"}'
    assert rewritten(b'{"text":"</think>"}', {}, {0: []}) == b'{"text":""}'


def test_the_report_of_a_plain_body_stands_in_its_meta_info_and_of_a_list_in_the_last() -> None:
    one = b'{"text":"a","meta_info":{"id":"g"}}'
    reported = b'{"text":"a","meta_info":{"id":"g","integrity":{}}}'
    assert Generate().add_report(one, {}) == reported
    assert Generate().add_report(b"[%b,%b]" % (one, one), {}) == b"[%b,%b]" % (one, reported)
    assert Generate().add_report(b'{"text":"a"}', {}) == b'{"text":"a","meta_info":{"integrity":{}}}'
    assert Generate().add_report(b"[]", {}) == b"[]"


# ---------------------------------------------------------------------- errors


def test_errors_have_the_shape_of_the_engines() -> None:
    error = json.loads(Generate().error_body(EngineTimeout("slow")))["error"]
    assert (error["message"], error["type"], error["code"][:10]) == ("slow", "InternalServerError", "integrity_")
    assert json.loads(Generate().error_body(ClientFault("bad")))["error"]["type"] == "BadRequestError"
    frame = Generate().error_event(EngineTimeout("slow"))
    assert frame.startswith(b'data: {"error":{"message":"slow",') and frame.endswith(b',"retryable":false}}\n\n')


# ---------------------------------------------------------------------- read from its ids

IDS = IdsRead(
    markers=Markers(texts=frozenset({"<t>"}), ids={9: "<t>"}),
    spelling=lambda: {1: "a", 2: "b", 9: "<t>"}.__getitem__,
    unshown=frozenset({9}),
    keeps_end=False,
)


@pytest.mark.parametrize("pieces", [False, True])
def test_the_marked_text_is_what_is_new_in_the_ids(pieces: bool) -> None:
    protocol = Generate(IDS).stream(rewrites=False)
    sent = [event(b'""', [9]), event(b'"a"', [1] if pieces else [9, 1], count=2)]
    sent.append(event(b'""' if pieces else b'"a"', [2] if pieces else [9, 1, 2], count=3, finish=STOP))
    found = [protocol.decode_event(data).parts[0] for data in sent]
    assert [part.marked for part in found] == [f"{STRUCTURAL}<t>", "a", ""]  # the last one is the stop token
    assert [part.content for part in found] == ["", "a", ""]


def test_text_that_is_taken_back_matters_only_where_it_is_read() -> None:
    events = [event(b'"ab"', [1, 2]), event(b'"a"', [1, 2, 1])]
    assert [Generate(IDS).decode_event(data).parts[0].marked for data in events] == ["ab", "aba"]
    protocol = Generate(IDS)
    assert [protocol.decode_event(data).parts[0].marked for data in events] == ["ab", "a"]
    protocol = Generate()
    protocol.decode_event(events[0])
    with pytest.raises(NotThisProtocol, match="text taken back"):
        protocol.decode_event(events[1])


def test_an_answer_that_has_no_ids_is_its_text_and_one_that_loses_them_is_none() -> None:
    bare = event(b'"a"', [1]).replace(b"output_ids", b"ids")
    assert Generate(IDS).decode_event(bare).parts[0].marked is None
    protocol = Generate(IDS)
    protocol.decode_event(event(b'"a"', [1]))
    with pytest.raises(NotThisProtocol, match="text taken back"):
        protocol.decode_event(bare)


def test_a_body_has_the_text_of_its_ids_and_its_own() -> None:
    bare = event(b'"a"', [1]).replace(b"output_ids", b"ids")
    protocol = Generate(IDS)
    message = protocol.decode_body(b"[%b,%b]" % (event(b'"a"', [9, 1, 2], finish=STOP), bare))
    assert [(part.content, part.marked) for part in message.parts] == [("a", f"{STRUCTURAL}<t>a"), ("a", None)]
    message.parts[0].fates = [(3, False), (1, True)]
    body = json.loads(protocol.rewrite_body(message, {0: [(REASONING, "x"), (CONTENT, "a")]}, BOTH))
    assert (body[0]["text"], body[0]["reasoning"], body[0]["output_ids"]) == ("a", "x", [])


def test_an_event_whose_ids_say_more_than_its_text_is_written_again() -> None:
    stream = Stream()
    stream.protocol = Generate(IDS).stream(rewrites=False)
    out = stream.send(event(b'""', [1]), [(1, True)], changed=False)
    assert json.loads(out)["text"] == "a"
