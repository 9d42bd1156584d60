"""A corpus from a dialect's own markers: outputs whose reading follows from the contract alone (5.3, 5.4).

So a family is tested by having a file. Knows no reader; what headers lead to is left to the file's samples, calls to
`call_corpus`.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.rulebook.checks import HEADER_CLOSER, markers_of
from gateway.rulebook.dialect import Dialect, Sample


def generated_samples(dialect: Dialect) -> Iterator[Sample]:
    """Complete outputs without calls, to be read with `stopped=True`, and their readings."""
    for make in (_thoughts, _answers, _endings, _quotes, _cut_short):
        yield from make(dialect)


def _thoughts(dialect: Dialect) -> Iterator[Sample]:
    first = dialect.invented[0] if dialect.invented else ""
    if first:
        yield Sample(raw=f"{first}answer", reasoning="", content="answer")
    for thought in dialect.thoughts:
        for close in thought.close:
            yield Sample(raw=f"{first}plan{close}answer", reasoning="plan", content="answer", starts_in="reasoning")
            for start in thought.open:
                yield Sample(raw=f"{first}{start}plan{close}answer", reasoning="plan", content="answer")
                if dialect.suffixed:
                    raw = f"{first}{_suffixed(start)}plan{_suffixed(close)}answer"
                    yield Sample(raw=raw, reasoning="plan", content="answer")


def _answers(dialect: Dialect) -> Iterator[Sample]:
    for thought in dialect.thoughts:
        for start in dialect.answer_open:
            for end in dialect.answer_close:
                raw = f"plan{thought.close[0]}{start}answer{end}"
                yield Sample(raw=raw, reasoning="plan", content="answer", starts_in="reasoning")


def _endings(dialect: Dialect) -> Iterator[Sample]:
    for literal in (*dialect.framing, *dialect.end_of_turn, *dialect.message_close):
        yield Sample(raw=f"answer{literal}", reasoning="", content="answer")
    for literal in dialect.special:
        yield Sample(raw=f"an{literal}swer", reasoning="", content="answer")


def _quotes(dialect: Dialect) -> Iterator[Sample]:
    for thought in dialect.thoughts:
        for literal in (*thought.open, *thought.close):
            yield _untouched(f"Say `{literal}` here.")


def _cut_short(dialect: Dialect) -> Iterator[Sample]:
    markers = [literal for group, literal in markers_of(dialect) if group != HEADER_CLOSER]
    starts = {marker[:size] for marker in markers for size in range(1, len(marker))}
    for start in sorted(starts):
        if not any(marker in start for marker in markers):
            yield _untouched(f"answer{start}")


def _suffixed(tag: str) -> str:
    return f"{tag[:-1]}:6124c78e>"


def _untouched(text: str) -> Sample:
    return Sample(raw=text, reasoning="", content=text)
