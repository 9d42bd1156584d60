"""Chat frames whose text is what their tokens say. Shapes: recordings of vLLM 0.32 (`r1-raw-chat-stop-*`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.protocols.chat_tokens import IDS, LOGPROBS, RUNS_ASKED, ChatTokens, TokensAsked, unspelled
from gateway.streams.tokens import STRUCTURAL, Markers, Run

CLOSER = Markers(texts=frozenset({"</think>"}), ids={9: "</think>"})
WORDS = {1: "so ", 2: "be", 3: " it", 9: "</think>", 7: "<eos>"}


def asked(
    *ours: str, theirs: frozenset[str] = frozenset(), spelled: bool = False, ends_in_token: bool = True
) -> TokensAsked:
    return TokensAsked(
        ours=frozenset(ours), theirs=theirs, markers=CLOSER, ends_in_token=ends_in_token,
        spelling=(lambda: lambda ident: WORDS[ident]) if spelled else None,
    )  # fmt: skip


BOTH = asked(IDS, LOGPROBS)


def entries(*texts: str) -> dict[str, Any]:
    """`logprobs` of tokens."""
    return {"content": [{"token": t, "logprob": -1.5, "bytes": [*t.encode()], "top_logprobs": []} for t in texts]}


def chunk(delta: Any, *texts: str, finish: str | None = None, **choice: Any) -> bytes:
    """One chunk with the tokens `texts`."""
    logprobs = entries(*texts) if texts else None
    value = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish, "token_ids": None, **choice}
    return json.dumps({"id": "c", "created": 1.10, "choices": [value]}).encode()


def read(tokens: ChatTokens, data: bytes) -> tuple[dict[str, Any], str]:
    """The first choice of a chunk as it goes on, and the text of its tokens."""
    out, texts = tokens.event(data)
    return json.loads(out)["choices"][0], texts[0]


def test_the_text_of_the_tokens_stands_where_the_engines_split_stood() -> None:
    tokens = ChatTokens(BOTH)
    choice, text = read(tokens, chunk({"reasoning": "what the", "role": "assistant"}, "so ", "be"))
    assert (choice["delta"], text) == ({"role": "assistant", "content": "so be"}, "so be")
    assert (choice["logprobs"], choice["token_ids"]) == (None, None)
    choice, text = read(tokens, chunk({"content": "k>"}, "</think>"))
    assert (choice["delta"], text) == ({"content": "</think>"}, f"{STRUCTURAL}</think>")
    choice, text = read(tokens, chunk({"content": " late"}))  # of tokens that came before
    assert (choice["delta"], text) == ({"content": ""}, "")


def test_numbers_and_members_of_others_keep_their_bytes() -> None:
    data = b'{"id":"c","created":1.10,"x":1E5,"choices":[{"delta":{"reasoning":"a","z":30.0},"logprobs":%b}]}'
    out, _ = ChatTokens(BOTH).event(data % json.dumps(entries("b")).encode())
    assert out == b'{"id":"c","created":1.10,"x":1E5,"choices":[{"delta":{"z":30.0,"content":"b"},"logprobs":null}]}'


def test_what_the_client_asked_for_itself_stays() -> None:
    mine = asked(IDS, theirs=frozenset({LOGPROBS}))
    choice, _ = read(ChatTokens(mine), chunk({"content": "x"}, "so ", token_ids=[1]))
    assert (choice["logprobs"], choice["token_ids"]) == (entries("so "), None)
    both = asked(theirs=frozenset({IDS, LOGPROBS}))
    choice, _ = read(ChatTokens(both), chunk({"content": "x"}, "so ", token_ids=[1]))
    assert (choice["logprobs"], choice["token_ids"]) == (entries("so "), [1])


@pytest.mark.parametrize(
    ("asked_", "out"), [(BOTH, None), (asked(LOGPROBS), [4, 5]), (asked(theirs=frozenset({IDS})), [4, 5])]
)
def test_the_ids_of_the_prompt_go_where_only_we_asked_for_them(asked_: TokensAsked, out: Any) -> None:
    data = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"prompt_token_ids":[4,5]}'
    value = json.loads(ChatTokens(asked_).event(data)[0])
    assert value["prompt_token_ids"] == out
    assert value["choices"][0]["delta"] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("finish", "stop_reason", "ends_in_token", "text"),
    [
        ("stop", None, True, "so "),
        ("stop", 7, True, "so "),
        ("tool_calls", None, True, "so "),
        ("stop", "<eos>", True, "so <eos>"),  # a stop string; where it is cut is told by the text
        ("length", None, True, "so <eos>"),
        ("stop", None, False, "so <eos>"),
    ],
)
def test_a_token_that_ended_the_answer_is_no_text_of_it(
    finish: str, stop_reason: Any, ends_in_token: bool, text: str
) -> None:
    tokens = ChatTokens(asked(LOGPROBS, ends_in_token=ends_in_token))
    choice, said = read(tokens, chunk({}, "so ", "<eos>", finish=finish, stop_reason=stop_reason))
    assert (said, choice["delta"].get("content")) == (text, text)
    assert choice["finish_reason"] == ("stop" if finish == "tool_calls" else finish)


def test_the_engines_own_calls_go_since_their_text_is_read() -> None:
    calls = [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]
    choice, _ = read(ChatTokens(BOTH), chunk({"tool_calls": calls}, "<tool_call>"))
    assert choice["delta"] == {"content": "<tool_call>"}


def test_ids_alone_are_text_where_something_can_spell_them() -> None:
    tokens = ChatTokens(asked(IDS, spelled=True))
    texts = [read(tokens, chunk({"content": "?"}, token_ids=ids))[1] for ids in ([1, 2], [9], [3])]
    assert texts == ["so be", f"{STRUCTURAL}</think>", " it"]


def test_ids_and_logprobs_together_tell_a_marker_by_its_id() -> None:
    tokens = ChatTokens(BOTH)
    assert read(tokens, chunk({}, "</think>", token_ids=[9]))[1] == f"{STRUCTURAL}</think>"
    assert read(tokens, chunk({}, "</think>", token_ids=[8]))[1] == "</think>"
    assert read(tokens, chunk({}, "</think>", token_ids=[8, 9]))[1] == f"{STRUCTURAL}</think>"  # not one id a token


@pytest.mark.parametrize("asked_", [asked(IDS, spelled=True), BOTH])
@pytest.mark.parametrize("beside", [{}, {"token_ids": ["9"]}, {"token_ids": 9}, {"logprobs": {"content": 3}}])
def test_text_without_tokens_stays_as_the_engine_split_it(asked_: TokensAsked, beside: dict[str, Any]) -> None:
    tokens = ChatTokens(asked_)
    data = chunk({"reasoning": "so"}, **beside)
    out, texts = tokens.event(data)
    assert (json.loads(out)["choices"][0]["delta"], texts, tokens.missing) == ({"reasoning": "so"}, {}, {0})
    later, texts = tokens.event(chunk({"content": "it"}, "other"))  # once split, the choice stays so
    assert (json.loads(later)["choices"][0]["delta"], texts) == ({"content": "it"}, {})


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"token": "a", "bytes": None}, "a"),
        ({"token": "a"}, "a"),
        ({"token": "a", "bytes": [300, -1]}, "a"),
        ({"token": "a", "bytes": [True]}, "a"),
        ({"token": 5, "bytes": None}, ""),
        ({"bytes": [195, 169]}, "é"),
        ("a", ""),
    ],
)
def test_a_token_without_bytes_is_its_text(entry: Any, text: str) -> None:
    assert read(ChatTokens(BOTH), chunk({}, logprobs={"content": [entry]}))[1] == text


def test_a_character_that_never_came_whole_is_one_replacement_at_the_end() -> None:
    tokens, half = ChatTokens(BOTH), {"content": [{"token": "\ufffd", "bytes": [195]}]}
    assert read(tokens, chunk({"content": ""}, logprobs=half)) == (json.loads(chunk({"content": ""}))["choices"][0], "")
    assert read(tokens, chunk({}, finish="length"))[1] == "\ufffd"


def test_choices_are_apart_and_a_choice_without_a_delta_gets_one() -> None:
    tokens = ChatTokens(BOTH)
    one = {"index": 0, "delta": None, "logprobs": entries("a")}
    two = {"index": 1, "delta": {"content": "?"}, "logprobs": entries("b")}
    out, texts = tokens.event(json.dumps({"choices": [one, two, 3]}).encode())
    assert texts == {0: "a", 1: "b"}
    assert [choice["delta"] for choice in json.loads(out)["choices"][:2]] == [{"content": "a"}, {"content": "b"}]


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"3",
        b"[]",
        b'{"choices":null}',
        b'{"choices":[]}',
        b'{"choices":[{"delta":4}]}',
        b'{"choices":[{"index":[],"delta":{"content":"a"}}]}',
    ],
)
def test_what_is_no_chunk_with_choices_stays_as_it_is(data: bytes) -> None:
    out, texts = ChatTokens(BOTH).event(data)
    assert (out, texts) == (data, {})
    assert out is data


def test_a_plain_answer_is_read_alike() -> None:
    message = {"role": "assistant", "content": "k>it", "reasoning": "so", "tool_calls": []}
    choice = {"index": 0, "message": message, "logprobs": entries("so ", "</think>", "it", "<eos>")}
    body = json.dumps({"choices": [choice | {"finish_reason": "stop", "stop_reason": None}]}).encode()
    out, texts = ChatTokens(BOTH).body(body)
    assert texts == {0: f"so {STRUCTURAL}</think>it"}
    assert json.loads(out)["choices"][0]["message"] == {
        "role": "assistant", "content": "so </think>it", "tool_calls": [],
    }  # fmt: skip


def whole(*ids: int, **choice: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"content": "?"}, "finish_reason": "stop", "token_ids": [*ids], **choice}


def body_of(*choices: Any) -> bytes:
    return json.dumps({"choices": [*choices]}).encode()


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        (body_of(whole(1, 9, 2, 3, 7)), [(1,), (9, 2, 3)]),  # 7 ended it
        (body_of(whole(1, 9, 2, finish_reason="length")), [(1,), (9, 2)]),
        (body_of(whole(9, 7)), []),  # a marker alone is known
        (body_of(whole(1, 7), whole(1, 7), whole(2, 7)), [(1,), (2,)]),
        (body_of(whole(1, 7, logprobs=entries("so "))), []),
        (body_of(whole(*[1, 9] * 31, 1, 7)), [(1,), (9, 1)]),
        (body_of(*(whole(n, 7) for n in range(100, 100 + RUNS_ASKED))), [(n,) for n in range(100, 100 + RUNS_ASKED)]),
        (body_of(*(whole(n, 7) for n in range(100, 101 + RUNS_ASKED))), []),
        (body_of(whole(1, 7, token_ids=["1"]), 3, whole(1, 7, token_ids=None)), []),
        (b"[]", []),
        (b"x", []),
        (b'{"choices":{}}', []),
    ],
)
def test_what_is_told_by_ids_alone_is_asked_for_in_runs(body: bytes, runs: list[Run]) -> None:
    assert unspelled(body, asked(IDS)) == runs
    assert unspelled(body, asked(IDS, spelled=True)) == []


def test_a_plain_answer_whose_runs_were_spelled_is_read_from_them() -> None:
    data = body_of(whole(1, 9, 2, 7), whole(3, 7, index=1), whole(8, 7, index=2))
    tokens = ChatTokens(asked(IDS), texts={(1,): "so ", (9, 2): "</think>be", (3,): "</think>"})
    out, texts = tokens.body(data)
    assert texts == {0: f"so {STRUCTURAL}</think>be", 1: "</think>"}  # one spelt with ordinary tokens is text
    assert tokens.missing == {2}
    assert [choice["message"]["content"] for choice in json.loads(out)["choices"]] == ["so </think>be", "</think>", "?"]
    assert [choice["token_ids"] for choice in json.loads(out)["choices"]] == [None] * 3


def test_the_request_asks_for_what_is_missing_and_hides_nothing() -> None:
    assert {name: value for name, value in BOTH.changes().items() if isinstance(value, bytes)} == {
        "return_token_ids": b"true", "logprobs": b"true",
    }  # fmt: skip
    assert "include_reasoning" in BOTH.changes()
