"""A corpus from a dialect's own markers: outputs whose reading follows from the contract alone (5.3 to 5.5).

So a family is tested by having a file. Knows no reader; what headers lead to is left to the file's samples.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.rulebook.checks import HEADER_CLOSER, markers_of
from gateway.rulebook.dialect import Dialect, Kind, Sample, ToolRegion


def generated_samples(dialect: Dialect) -> Iterator[Sample]:
    """Complete outputs, to be read with `stopped=True`, and their readings. Tool regions are part of the content."""
    for make in (_thoughts, _answers, _endings, _quotes, _cut_short, _regions):
        yield from make(dialect)


def _thoughts(dialect: Dialect) -> Iterator[Sample]:
    for thought in dialect.thoughts:
        for close in thought.close:
            yield Sample(raw=f"plan{close}answer", reasoning="plan", content="answer", starts_in="reasoning")
            for start in thought.open:
                yield Sample(raw=f"{start}plan{close}answer", reasoning="plan", content="answer")
                if dialect.suffixed:
                    raw = f"{_suffixed(start)}plan{_suffixed(close)}answer"
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


def _regions(dialect: Dialect) -> Iterator[Sample]:
    thought = next(iter(dialect.thoughts), None)
    for region in dialect.regions:
        inside = (text for text in (*thought.open, *thought.close) if text not in region.close) if thought else ("x",)
        foreign = "".join(inside)
        for start in region.open:
            for text in _bodies(region, start, foreign):
                yield _untouched(text)
                # Whether a tag family's thought ends here depends on the request, which a reader does not know.
                if thought and region.ends_thought and dialect.kind is Kind.CONTROL:
                    yield Sample(raw=f"plan{text}", reasoning="plan", content=text, starts_in="reasoning")


def _bodies(region: ToolRegion, start: str, foreign: str) -> Iterator[str]:
    for close in region.close or ("",):
        yield f"{start}call {foreign}{close}"
        if region.argument_open:
            yield f"{start}call {region.argument_open}{foreign}{close}{region.argument_close}{close}"


def _suffixed(tag: str) -> str:
    return f"{tag[:-1]}:6124c78e>"


def _untouched(text: str) -> Sample:
    return Sample(raw=text, reasoning="", content=text)
