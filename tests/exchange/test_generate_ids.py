"""`/generate` read from its token ids (`source: tokens`): events shaped as SGLang 0.5.23 sends them, at any cut.

The text beside the ids is what the `tokenizers` library makes of them as SGLang calls it, without special tokens; what
a client gets is written down here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import EngineTruncated
from gateway.exchange import RouteRules
from gateway.policy import Profile, ReasoningField
from gateway.rulebook.marked import atoms_of
from tests.exchange.driver import dialect
from tests.support.raw_text import DONE, Answer, Generate, frame, opened, plain, split_route, stream
from tests.support.vocabulary import tiny, tokenizer

THINK, THOUGHT_END, EOS, CHANNEL, BIG, BIG_END = 4035, 4036, 4002, 4004, 4025, 4026
LET = [43, 317, 392, 1094, 982, 464, 13]  # Let me think about it.
ANSWER = [926, 744, 301, 939, 17, 13]  # The answer is 42.
QUOTED = [27, 14, 467, 1034, 29]  # </think>, of ordinary tokens
ENDS = [668, 45, 35]  # " END"
E_ACUTE = [127, 102]
SAID = ("Let me think about it.", "The answer is 42.")
WIRES = {"cumulative": Generate(), "pieces": Generate(pieces=True)}
wires = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES.keys())


def rules(name: str = "think", *, source: str = "tokens", **changes: Any) -> RouteRules:
    """A route that reads ids, of a model that has the markers of the dialect called `name`."""
    made, read = split_route(name, source=source, **changes), dialect(name)
    assert read
    vocabulary = tiny()
    return replace(
        made,
        engine="sglang",
        markers=vocabulary.markers(atoms_of(read)),
        spelling=vocabulary.spelling,
        special=vocabulary.special,
    )


def text_of(ids: Sequence[int], matched: object, shown: bool) -> str:
    """What SGLang writes as `text`: a stop token and a stop string are trimmed, a cut character waits."""
    kept = ids[:-1] if isinstance(matched, int) and ids[-1:] == [matched] else ids
    text = tokenizer().decode(list(kept), skip_special_tokens=not shown)
    text = text[: text.find(matched)] if isinstance(matched, str) and matched in text else text
    return text.rstrip("\ufffd")


def event(ids: Sequence[int], old: int, matched: object = ..., *, pieces: bool, shown: bool = False) -> dict[str, Any]:
    """One event with all of `ids` so far, `old` of which came before it."""
    said = text_of(ids, matched, shown)
    meta = {"id": "g", "finish_reason": None, "completion_tokens": len(ids)}
    if matched is not ...:
        meta["finish_reason"] = {"type": "stop", "matched": matched}
    if pieces:
        return {"text": said[len(text_of(ids[:old], ..., shown)) :], "output_ids": ids[old:], "meta_info": meta}
    return {"text": said, "output_ids": list(ids), "meta_info": meta}


def events(wire: Generate, ids: Sequence[int], cuts: Sequence[int], matched: object = EOS, **more: Any) -> list[bytes]:
    """The events of an answer whose ids are cut at `cuts`."""
    places = [0, *sorted({cut for cut in cuts if 0 < cut < len(ids)}), len(ids)]
    out = []
    for old, new in pairwise(places):
        ends = matched if new == len(ids) else ...
        out.append(frame(event(ids[:new], old, ends, pieces=wire.pieces, **more)))
    return out


def whole(ids: Sequence[int], matched: object = EOS, **more: Any) -> bytes:
    """The plain answer."""
    return json.dumps(event(ids, 0, matched, pieces=False, **more)).encode()


def read(
    wire: Generate, ids: Sequence[int], matched: object = EOS, request: dict[str, Any] | None = None, **changes: Any
) -> tuple[str, str]:
    """What the client has, streamed an id an event, in one event, and plain: the same."""
    made = rules(**changes)
    shown = bool((request or {}).get("sampling_params", {}).get("skip_special_tokens") is False)
    each = stream(wire, [*events(wire, ids, range(len(ids)), matched, shown=shown), DONE], made, request=request)
    once = stream(wire, [*events(wire, ids, (), matched, shown=shown), DONE], made, request=request)
    body = plain(wire, whole(ids, matched, shown=shown), made, request=request)
    assert each.said == once.said == body.said
    assert each.complete and each.exchange.tally.uninspected == {}
    return each.said


def uninspected(answer: Answer) -> dict[str, int]:
    return dict(answer.exchange.tally.uninspected)


@wires
def test_a_marker_is_structure_where_it_is_its_token_and_text_where_it_is_spelled(wire: Generate) -> None:
    assert read(wire, [THINK, *LET, THOUGHT_END, *ANSWER, EOS]) == SAID
    quoted = [THINK, *LET, *QUOTED, *LET, THOUGHT_END, *QUOTED, *ANSWER, EOS]
    assert read(wire, quoted) == (f"{SAID[0]}</think>{SAID[0]}", f"</think>{SAID[1]}")


@wires
def test_markers_that_the_engine_leaves_out_of_the_text_are_in_the_ids(wire: Generate) -> None:
    ids = [BIG, *LET, BIG_END, *ANSWER, EOS]
    assert text_of(ids, EOS, False) == "".join(SAID)
    assert read(wire, ids, name="mistral") == SAID
    assert read(wire, ids, name="mistral", source="text") == ("", "".join(SAID))


@wires
def test_other_special_tokens_are_text_only_where_the_client_wants_them_there(wire: Generate) -> None:
    ids = [THINK, *LET, THOUGHT_END, CHANNEL, *ANSWER, EOS]
    assert read(wire, ids) == SAID
    shown = {"sampling_params": {"skip_special_tokens": False}}
    assert read(wire, ids, request=shown) == (SAID[0], f"<|channel|>{SAID[1]}")


@wires
def test_the_token_that_ended_the_answer_is_no_text(wire: Generate) -> None:
    assert read(wire, [*ANSWER, 29], 29) == ("", SAID[1])
    kept = {"sampling_params": {"no_stop_trim": True}}
    streamed = stream(wire, [*events(wire, [*ANSWER, 29], (), 29), DONE], rules(), request=kept)
    assert streamed.said == ("", SAID[1] + ">")


@wires
def test_a_stop_string_is_cut_off_the_end_unless_it_is_to_stay(wire: Generate) -> None:
    asked = {"sampling_params": {"stop": [" END"]}}
    ids = [THINK, *LET, THOUGHT_END, *ANSWER, *ENDS]
    assert read(wire, ids, " END", asked) == SAID
    assert read(wire, [*ENDS, *ANSWER, EOS], EOS, asked) == ("", f" END{SAID[1]}")
    kept = {"sampling_params": {"stop": [" END"], "no_stop_trim": True}}
    streamed = stream(wire, [*events(wire, ids, range(99), " END"), DONE], rules(), request=kept)
    assert streamed.said == (SAID[0], f"{SAID[1]} END")


@wires
def test_a_stop_string_that_the_engine_takes_back_never_goes_out(wire: Generate) -> None:
    asked = {"sampling_params": {"stop": [" END"]}}
    sent = events(wire, [*ANSWER, *ENDS], [len(ANSWER) + 2], " END")
    assert b" EN" in sent[0]
    answer = stream(wire, [*sent, DONE], rules(), request=asked)
    assert answer.said == ("", SAID[1]) and b" EN" not in answer.body.replace(b'" END"', b"")


@wires
def test_the_ids_of_a_stop_go_with_the_text_before_it(wire: Generate) -> None:
    asked = {"sampling_params": {"stop": [" END"]}}
    ids = [THINK, *LET, THOUGHT_END, *ANSWER, *ENDS]
    answer = stream(wire, [*events(wire, ids, range(99), " END"), DONE], rules(), request=asked)
    assert answer.choices[0].ids == [*ANSWER, *ENDS]
    in_thought = [THINK, *LET, *ENDS]
    answer = stream(wire, [*events(wire, in_thought, range(99), " END"), DONE], rules(), request=asked)
    assert answer.choices[0].ids == []


@wires
def test_an_answer_whose_ids_are_its_text_keeps_its_bytes(wire: Generate) -> None:
    ids = [*ANSWER, *E_ACUTE, *LET, EOS]
    sent = [*events(wire, ids, range(len(ids))), DONE]
    assert stream(wire, sent, rules()).body == b"".join(sent)
    assert plain(wire, whole(ids), rules()).body == whole(ids)
    stopped = {"sampling_params": {"stop": [" END"]}}
    body = whole([*ANSWER, *ENDS], " END")
    assert plain(wire, body, rules(), request=stopped).body == body


@wires
def test_an_id_that_the_vocabulary_does_not_have_is_a_replacement(wire: Generate) -> None:
    ended = {"finish_reason": {"type": "length", "length": 2}, "completion_tokens": 2}
    sent = {"text": "", "output_ids": [10**6, -1], "meta_info": ended}
    answer = stream(wire, [frame(sent), DONE], rules())
    assert answer.said[1] == "\ufffd\ufffd"
    assert plain(wire, json.dumps(sent).encode(), rules()).said == ("", "\ufffd\ufffd")


@wires
def test_several_answers_are_read_apart_and_one_without_ids_from_its_text(wire: Generate) -> None:
    ids = [BIG, *LET, BIG_END, *ANSWER, EOS]
    first = events(wire, ids, range(len(ids)))
    other = []
    for old in range(len(ids)):
        value = event(ids[: old + 1], old, EOS if old == len(ids) - 1 else ..., pieces=wire.pieces)
        other.append(frame(value | {"index": 1}))
    text = Generate(pieces=wire.pieces).events([["[THINK]so"], ["[/THINK]"], ["yes"]], index=2)
    bare = [raw.replace(b'"output_ids"', b'"ids"') for raw in text]
    mixed = [each for pair in zip(first, other, strict=True) for each in pair]
    answer = stream(wire, [*mixed, *bare, DONE], rules("mistral"), request={"sampling_params": {"n": 3}})
    told = {index: (each["reasoning"], each["text"]) for index, each in joined(answer, wire).items()}
    assert told == {0: SAID, 1: SAID, 2: ("so", "yes")}
    assert uninspected(answer) == {"tokens_missing": 1}


def joined(answer: Answer, wire: Generate) -> dict[int, dict[str, str]]:
    """Reasoning and text of each answer, as a client makes them of a stream."""
    out: dict[int, dict[str, str]] = {}
    for line in answer.body.decode().split("\n"):
        if line.startswith("data: {"):
            value = json.loads(line[6:])
            known = out.setdefault(value.get("index", 0), {"reasoning": "", "text": ""})
            for name in known:
                known[name] = (known[name] if wire.pieces else "") + (value.get(name) or "")
    return out


def test_a_plain_list_is_read_answer_by_answer() -> None:
    wire, ids = Generate(), [BIG, *LET, BIG_END, *ANSWER, EOS]
    told = json.loads(whole(ids))
    bare = {"text": "[THINK]so[/THINK]yes", "output_ids": ["a"], "meta_info": told["meta_info"], "index": 1}
    answer = plain(wire, json.dumps([told | {"index": 0}, bare]).encode(), rules("mistral"))
    assert [answer.choices[index].said for index in (0, 1)] == [SAID, ("so", "yes")]
    assert uninspected(answer) == {"tokens_missing": 1}


@wires
def test_ids_that_end_in_mid_stream_end_the_reading(wire: Generate) -> None:
    first, *others = events(wire, [*ANSWER, EOS], range(99))
    bare = [raw.replace(b'"output_ids"', b'"ids"') for raw in others]
    answer = stream(wire, [first, *bare, DONE], rules())
    assert answer.body == b"".join([first, *bare, DONE])
    assert uninspected(answer) == {"text_taken_back": len(bare)}


@wires
def test_a_stream_that_breaks_off_loses_nothing_that_was_held(wire: Generate) -> None:
    exchange = opened(wire, rules(), {"sampling_params": {"stop": [" END now"]}})
    exchange.head(status=200, content_type="text/event-stream", content_encoding=None)
    out = b"".join(map(exchange.data, events(wire, [*ANSWER, *ENDS, 0], range(99))[:-1]))
    ending = exchange.broken(EngineTruncated("gone"))
    assert wire.streamed(out + ending.data)[0].text == f"{SAID[1]} END"


def test_hidden_reasoning_is_in_no_field_and_no_array() -> None:
    made = rules("mistral", reasoning_field=ReasoningField.NONE)
    ids = [BIG, *LET, BIG_END, *ANSWER, EOS]
    for wire in WIRES.values():
        answer = stream(wire, [*events(wire, ids, range(99)), DONE], made)
        assert (answer.said, answer.choices[0].ids) == (("", SAID[1]), [*ANSWER, EOS])


@pytest.mark.parametrize(
    ("changes", "request_"),
    [
        ({"profile": Profile.REPAIR}, {}),
        ({"source": "auto"}, {}),
        ({"tokens": "never"}, {}),
        ({}, {"text": ["a", "b"], "sampling_params": [{"stop": "x"}, {}]}),  # each answer ends its own way
    ],
)
def test_elsewhere_the_text_is_read(changes: dict[str, Any], request_: dict[str, Any]) -> None:
    ids = [BIG, *LET, BIG_END, *ANSWER, EOS]
    answer = plain(Generate(), whole(ids), rules("mistral", **changes), request=request_)
    assert (answer.said, uninspected(answer)) == (("", "".join(SAID)), {})


def test_the_request_stays_and_a_refusal_of_it_is_the_clients() -> None:
    exchange = opened(Generate(), rules(), {"text": "a", "sampling_params": {"stop": "x"}})
    assert json.loads(exchange.upstream_body) == {"model": "m", "text": "a", "sampling_params": {"stop": "x"}}
    assert not exchange.asks


IDS = st.lists(
    st.sampled_from([THINK, THOUGHT_END, CHANNEL, *QUOTED, *LET, *ANSWER, *ENDS, *E_ACUTE]), max_size=12
).map(lambda ids: [*ids, 13, EOS])


@given(IDS, st.lists(st.integers(1, 13)), st.sampled_from([*WIRES]))
def test_any_ids_read_alike_at_any_cut(ids: list[int], cuts: list[int], kind: str) -> None:
    wire = WIRES[kind]
    request = {"sampling_params": {"stop": [" END", "> <"]}}
    streamed = stream(wire, [*events(wire, ids, cuts), DONE], rules(), request=request)
    once = plain(wire, whole(ids), rules(), request=request)
    assert streamed.said == once.said
    assert CHANNEL not in tokenizer().encode("".join(streamed.said)).ids
