"""One reader, two ways out (contract rule 1): an answer is the same streamed, at any cut, and plain."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.exchange import RouteRules
from gateway.limits import Limits
from gateway.policy import Profile, ReasoningField
from tests.exchange.driver import DONE, LIMITS, OFF, WANTED, Answer, delta, message, plain, route, streamed
from tests.support.atoms import dialects, texts

DIALECTS = dialects()
TIGHT = Limits(promote=7, unknown_start=9, dedup=11, channel_text=13)


@st.composite
def answers(draw: st.DrawFn) -> tuple[RouteRules, dict[str, Any], str, str, str]:
    """A route, a request, and reasoning, content and finish reason of its answer."""
    name = draw(st.sampled_from(sorted(DIALECTS)))
    source = draw(st.sampled_from(["fields", "fields", "text"]))
    rules = route(
        read_as=DIALECTS[name],
        source=source,
        starts_in=draw(st.sampled_from(["auto", "content", "reasoning"])),
        limits=draw(st.sampled_from([LIMITS, TIGHT])),
        profile=draw(st.sampled_from([Profile.REPAIR, Profile.FULL])),
        reasoning_field=draw(st.sampled_from(ReasoningField)),
    )
    text = texts(DIALECTS[name], size=10)
    reasoning, content = draw(text) if source == "fields" else "", draw(text)
    if draw(st.booleans()) and source == "fields":
        content = draw(st.sampled_from([reasoning, "\n" + reasoning, reasoning[:-1]]))
    request = draw(st.sampled_from([{}, OFF, WANTED]))
    return rules, request, reasoning, content, draw(st.sampled_from(["stop", "length", "content_filter"]))


def counted(answer: Answer) -> dict[Any, int]:
    """The findings; where both fields are cut into one chunk differs by nature."""
    return dict(answer.exchange.tally.rows)


@given(st.data(), answers())
def test_an_answer_is_the_same_streamed_and_plain(
    data: st.DataObject, answer: tuple[RouteRules, dict[str, Any], str, str, str]
) -> None:
    rules, request, reasoning, content, finish = answer
    chunks = []
    for field, text in (("reasoning", reasoning), ("content", content)):
        places = sorted(data.draw(st.sets(st.integers(1, max(1, len(text) - 1)))))
        pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
        chunks += [delta(**{field: piece}) for piece in pieces if piece]
    stream = b"".join([*chunks, delta(finish=finish), DONE])
    size = data.draw(st.sampled_from([7, 100, len(stream)]))
    live = streamed([stream[at : at + size] for at in range(0, len(stream), size)], rules, request=request)
    whole = plain(message(finish, reasoning=reasoning or None, content=content or None), rules, request=request)
    assert (live.exchange.fault, whole.exchange.fault) == (None, None)
    assert live.said == whole.said
    assert counted(live) == counted(whole)
    assert (live.complete, live.body.endswith(DONE)) == (True, True)


@given(answers())
def test_hidden_reasoning_stays_hidden_and_the_rest_is_the_same(
    answer: tuple[RouteRules, dict[str, Any], str, str, str],
) -> None:
    rules, request, reasoning, content, finish = answer
    chunks = [delta(reasoning=reasoning), delta(content=content), delta(finish=finish), DONE]
    hidden = route(
        read_as=rules.dialect, source=rules.source, starts_in=rules.starts_in, reasoning_field=ReasoningField.NONE
    )
    got = streamed(chunks, hidden, request=request)
    assert (got.said[0], got.exchange.fault) == ("", None)
    assert b'"reasoning' not in json.dumps(got.deltas).encode()
    shown = streamed(chunks, route(read_as=rules.dialect, source=rules.source, starts_in=rules.starts_in), request={})
    if request == {}:  # hidden reasoning changes what may be promoted and suppressed
        assert got.said[1] == shown.said[1]
