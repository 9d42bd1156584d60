"""Assistant turns of a request (contract section 5, requests; corpus rows HIS-02, 04, 06, 08)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits import Limits
from gateway.protocols.chat_history import shape_histories, shape_history
from gateway.protocols.protocol import HistoryRule
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.load import load_rulebook

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}
BROKEN = CALL | {"function": {"name": "w", "arguments": "{"}}
ANALYSIS = "<|channel|>analysis<|message|>"
VLLM, SGLANG = "reasoning", "reasoning_content"


@cache
def rule(
    keep: str = "keep", field: str | None = VLLM, dialect: str | None = "think", *, repair: bool = True
) -> HistoryRule:
    """A rule; `dialect` tells thoughts in the content."""
    grammar = compile_dialect(load_rulebook().dialects[dialect]) if dialect else None
    return HistoryRule(keep=keep, field=field, grammar=grammar, repair_arguments=repair, limits=Limits())


def shaped(*turns: dict[str, Any], by: HistoryRule | None = None) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The turns of a request as the engine gets them, and what was done."""
    body, done = shape_history(json.dumps({"messages": turns}).encode(), by or rule())
    return json.loads(body)["messages"], dict(+done)


def turn(**members: Any) -> dict[str, Any]:
    """An assistant turn."""
    return {"role": "assistant", **members}


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"messages":null}',
        b'{ "messages" : [ "hi", {"role":"user","content":"<think>t</think>a","reasoning":"r"} ] }',
        b'{"messages":[{"role":"assistant","content":"a","reasoning":null,"tool_calls":null}]}',
        b'{"messages":[{"role":"assistant","content":[{"type":"text","text":"<think>t</think>a"}]}]}',
        b'{"messages":[{"role":"assistant","content":"a","reasoning":"","tool_calls":["?",{"function":1}]}]}',
        b'{"messages":[{"role":"assistant","content":"a","reasoning":"r"}],"n":1.10}',
    ],
)
def test_a_request_that_needs_no_change_stays_the_same_object(body: bytes) -> None:
    assert shape_history(body, rule()) == (body, {})
    assert shape_history(body, rule())[0] is body


@pytest.mark.parametrize(
    ("members", "field", "expected"),
    [
        ({"reasoning": "r"}, SGLANG, {"reasoning_content": "r"}),  # HIS-02
        ({"reasoning_content": "r"}, VLLM, {"reasoning": "r"}),
        ({"reasoning": "r", "reasoning_content": "r"}, SGLANG, {"reasoning_content": "r"}),
        ({"reasoning": "", "reasoning_content": "r"}, VLLM, {"reasoning": "r"}),
        ({"reasoning": "a", "reasoning_content": "b"}, SGLANG, {"reasoning_content": "b"}),
        ({"reasoning_content": "r"}, None, {"reasoning_content": "r"}),  # an engine that is not known
    ],
)
def test_reasoning_goes_under_the_name_that_the_engine_reads(
    members: dict[str, str], field: str | None, expected: dict[str, str]
) -> None:
    messages, _ = shaped(USER, turn(content="yes", **members), by=rule("keep", field))
    assert messages == [USER, turn(content="yes", **expected)]


TOOL_LOOP = [
    turn(content="one", reasoning="r1"),
    USER,
    turn(content=None, reasoning="r2", tool_calls=[CALL]),
    {"role": "tool", "tool_call_id": "c1", "content": "<think>no</think>", "reasoning": "t"},
    turn(content=None, reasoning="r3", tool_calls=[CALL]),
]


@pytest.mark.parametrize(
    ("keep", "left", "stripped"),
    [("keep", ["r1", "r2", "r3"], 0), ("strip", [], 3), ("tool_loop", ["r2", "r3"], 1)],
)
def test_a_rule_keeps_all_reasoning_none_or_what_follows_the_last_answer(
    keep: str, left: list[str], stripped: int
) -> None:
    messages, done = shaped(*TOOL_LOOP, by=rule(keep))
    assert [m["reasoning"] for m in messages if m["role"] == "assistant" and "reasoning" in m] == left
    assert done == ({"stripped": stripped} if stripped else {})
    assert messages[3] == TOOL_LOOP[3]


def test_what_is_left_only_gets_the_name_that_the_engine_reads() -> None:
    turns = (turn(content="<think>t</think>a"), turn(content="a", reasoning="a"), turn(content="b", reasoning="r"))
    messages, done = shaped(*turns, by=rule("leave", SGLANG))
    assert messages == [turns[0], turn(content="a", reasoning_content="a"), turn(content="b", reasoning_content="r")]
    assert done == {"renamed": 2}


def test_without_an_answer_so_far_the_tool_loop_keeps_everything() -> None:
    assert shaped(*TOOL_LOOP[1:], by=rule("tool_loop")) == (TOOL_LOOP[1:], {})


@pytest.mark.parametrize(
    ("dialect", "content", "reasoning", "answer"),
    [
        ("think", "<think>think</think>\n\nyes", "think", "yes"),  # HIS-06
        ("think", " \n<think>\na\n</think>yes", "a", "yes"),
        ("generic", "<think>a</think><think>b</think>yes", "ab", "yes"),
        ("harmony", f"{ANALYSIS}a<|end|><|start|>assistant<|channel|>final<|message|>yes", "a", "yes"),
        # K3: an answer written into a skipped thought is the answer, and no reasoning beside it
        ("kimi_k3", "<|open|>think<|sep|>yes<|close|>response<|sep|>", "", "yes"),
    ],
)
def test_a_thought_that_leads_the_content_goes_into_its_field(
    dialect: str, content: str, reasoning: str, answer: str
) -> None:
    expected = turn(content=answer, **({"reasoning": reasoning} if reasoning else {}))
    messages, done = shaped(turn(content=content), by=rule("keep", VLLM, dialect))
    assert (messages, done["split"]) == ([expected], 1)
    dropped, done = shaped(turn(content=content), by=rule("strip", None, dialect))
    assert (dropped, done["split"]) == ([turn(content=answer)], 1)


@pytest.mark.parametrize(
    ("content", "by"),
    [
        ("yes <think>no</think>", rule()),  # it does not lead
        ("`<think>` opens a thought, `</think>` closes it", rule()),
        ("<think>half a thought", rule()),
        ("</think>yes", rule()),
        ("<think>a</think>yes", rule("keep", None)),  # nobody knows where to
        ("<think>a</think>yes", rule("strip", VLLM, None)),  # nobody knows how a thought is told
        (f"{ANALYSIS}a<|end|><|start|>user<|message|>b", rule("strip", VLLM, "harmony")),
    ],
)
def test_content_that_is_not_a_complete_thought_and_an_answer_stays(content: str, by: HistoryRule) -> None:
    assert shaped(turn(content=content), by=by) == ([turn(content=content)], {})


def test_a_turn_whose_reasoning_is_kept_is_not_split() -> None:
    given_ = turn(content="<think>a</think>yes", reasoning="r")
    assert shaped(given_) == ([given_], {})
    assert shaped(given_, by=rule("strip")) == ([turn(content="yes")], {"split": 1, "stripped": 1})


@pytest.mark.parametrize("keep", ["keep", "strip"])
def test_reasoning_that_only_repeats_the_content_is_dropped(keep: str) -> None:
    messages, done = shaped(turn(content="Hi.\n", reasoning_content=" Hi."), by=rule(keep))
    assert (messages, done) == ([turn(content="Hi.\n")], {"repeat_dropped": 1})


@pytest.mark.parametrize("arguments", ['{"t": "a', "", "{'t': 1}"])
def test_arguments_that_are_no_json_become_an_empty_object(arguments: str) -> None:
    broken = CALL | {"function": {"name": "w", "arguments": arguments}}
    messages, done = shaped(turn(content=None, tool_calls=[CALL, broken]))  # HIS-08
    assert messages == [turn(content=None, tool_calls=[CALL, CALL])]
    assert done == {"arguments_invalid": 1}
    observed, done = shaped(turn(content=None, tool_calls=[broken]), by=rule(repair=False))
    assert (observed, done) == ([turn(content=None, tool_calls=[broken])], {"arguments_invalid": 1})


def test_half_a_character_in_arguments_is_still_json() -> None:
    body = b'{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\\"a\\":\\"\\ud83d\\"}"}}]}]}'
    assert shape_history(body, rule()) == (body, {})


TEXT = st.text(alphabet="ab \n<`", max_size=4)
CONTENT = st.builds(
    lambda pieces, rest: "".join([f"<think>{piece}</think>" for piece in pieces]) + rest,
    st.lists(TEXT, max_size=2), TEXT,
)  # fmt: skip
ASSISTANT = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.one_of(st.none(), CONTENT)},
    optional={
        "reasoning": TEXT,
        "reasoning_content": TEXT,
        "tool_calls": st.lists(st.sampled_from([CALL, BROKEN]), max_size=2),
    },
)
OTHER = st.builds(
    lambda role, content: {"role": role, "content": content, "reasoning": "r", "tool_calls": [CALL]},
    st.sampled_from(["user", "system", "tool"]), CONTENT,
)  # fmt: skip
NUMBER = "1.10000000000000000000001E5"


@given(
    st.lists(st.one_of(ASSISTANT, OTHER), max_size=4),
    st.sampled_from(["keep", "strip", "tool_loop"]),
    st.sampled_from([VLLM, SGLANG, None]),
    st.booleans(),
)
def test_other_turns_and_unknown_members_keep_their_bytes_and_a_second_time_changes_nothing(
    turns: list[dict[str, Any]], keep: str, field: str | None, ascii_only: bool
) -> None:
    raw = [json.dumps(each, ensure_ascii=ascii_only)[:-1] + f', "x" : {NUMBER}}}' for each in turns]
    body = f'{{"n" : {NUMBER}, "messages": [{", ".join(raw)}] , "x":"\\u00e4"}}'.encode()
    by = rule(keep, field, "generic")
    once, _ = shape_history(body, by)
    again, done = shape_history(once, by)
    assert (again, dict(+done)) == (once, {})
    assert once.count(NUMBER.encode()) == len(turns) + 1
    others = [text.encode() for text, each in zip(raw, turns, strict=True) if each["role"] != "assistant"]
    at = 0
    for text in others:
        at = once.index(text, at) + len(text)
    assert once.startswith(b'{"n" : ') and once.endswith(b'] , "x":"\\u00e4"}')


# ---------------------------------------------------------------------- several conversations


def test_each_conversation_is_shaped_for_itself() -> None:
    """A last answer, up to which gpt-oss forgets its reasoning, is one of its own conversation."""
    called, said = turn(reasoning="r", tool_calls=[CALL]), turn(content="a", reasoning="r")
    body = json.dumps({"messages": [[USER, called], [USER, called, USER, said], [said]]}).encode()
    shaped, done = shape_histories(body, rule("tool_loop"))
    cut = [{name: value for name, value in each.items() if name != "reasoning"} for each in (called, said)]
    assert json.loads(shaped)["messages"] == [[USER, called], [USER, cut[0], USER, cut[1]], [cut[1]]]
    assert done == {"stripped": 3}


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"messages":null}',
        b'{"messages":[]}',
        b'{"messages":["hi",1,[],[null],{"role":"assistant","content":"a","reasoning":"r"}]}',
        b'{ "messages" : [[{"role":"user","content":"<think>t</think>a","reasoning":"r"}]], "n":1.10 }',
    ],
)
def test_conversations_that_need_no_change_stay_the_same_object(body: bytes) -> None:
    shaped, done = shape_histories(body, rule("strip"))
    assert (shaped is body, done) == (True, {})
