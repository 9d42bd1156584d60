"""A corpus of calls from a format's own description: outputs that hold calls, and the calls they hold.

So a call format is tested by having a file. How a body is written is `call_writing`'s. Knows no reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.rulebook.call_writing import Calls, Writing, writings
from gateway.rulebook.checks import markers_of
from gateway.rulebook.dialect import CallFormat, CallSample, Dialect, ToolRegion
from gateway.rulebook.formats import spellings, written_out

BIG: Final = 20_000
"""Characters of the longest argument, in the format's first region."""

_CASES: Final[tuple[Calls, ...]] = (
    (("look_up", {"a": "x"}),),
    (("look_up", {"a": "x"}), ("send", {"b": "y", "c": "z"})),
    (("now", {}),),
    (("look_up", {"o": {"k": ["i", {"z": "s"}], "t": {"u": "v w"}}, "l": ["a", "b"]}),),
    (("look_up", {"a": "北京 🌍 é Ġ ’ß"}),),
    (("look_up", {"a": "say \"hi\", {x: [1]} 'y' \\ \\n `z` ]}"}),),
)


def generated_calls(form: CallFormat, dialect: Dialect) -> Iterator[CallSample]:
    """Complete outputs of `dialect`, which has the format's regions: to be read with calls taken and `stopped=True`.

    One call behind each opener, two, one without arguments, nested arguments, other alphabets, quotes and braces, the
    literals around a value in it, and one argument of `BIG` characters; fewer in another spelling of a region. A body
    that no sample of the format shows is left out.
    """
    raws = _raws(form)
    big: Calls = (("write", {"a": ('if a < b && c["d"] > {e}: # </z>\n' * BIG)[: BIG - 1] + "."}),)
    for region in form.regions:
        for writing in (each for body in region.bodies for each in writings(body, region, raws)):
            cases = [*_CASES, _marked(region, writing, dialect), *([big] if region is form.regions[0] else [])]
            if written_out(form, region):  # the same in other characters
                cases = [*_CASES[:2], cases[-1]]
            for opener in region.open[:1] or ("",):
                yield from (_sample(region, dialect, writing, calls, opener) for calls in cases)
            for opener in region.open[1:]:
                yield _sample(region, dialect, writing, _CASES[0], opener)


def unshown(form: CallFormat) -> bool:
    """Whether some body of the format is written in no sample, so that no output can be made of it."""
    raws = _raws(form)
    return not all(any(writings(body, region, raws)) for region in form.regions for body in region.bodies)


def _raws(form: CallFormat) -> list[str]:
    """The samples of the format in every spelling."""
    raws = [sample.raw for sample in form.samples]
    return raws + [raw.replace(piece, spelling) for piece, spelling in spellings(form.variants) for raw in raws]


def _marked(region: ToolRegion, writing: Writing, dialect: Dialect) -> Calls:
    """One call with every literal around its value in it, the dialect's markers too, but those that end the value."""
    markers = [text for _, text in markers_of(dialect)]
    around = [*region.open, *region.close, *region.between, *writing.around, *markers]
    kept = [text for text in around if not any(closer in text for closer in writing.closers)]
    return (("look_up", {"a": f"a {' '.join(dict.fromkeys(kept))} z"}),)


def _sample(region: ToolRegion, dialect: Dialect, writing: Writing, calls: Calls, opener: str) -> CallSample:
    said = tuple((name, {key: writing.said(value) for key, value in arguments.items()}) for name, arguments in calls)
    return CallSample(raw=_text(region, dialect, writing, calls, opener), calls=said)


def _text(region: ToolRegion, dialect: Dialect, writing: Writing, calls: Calls, opener: str) -> str:
    """The calls in one region where it can hold them all, else in several."""
    if not region.open:
        close = (*region.close, *dialect.message_close, *dialect.end_of_turn)[0]
        headers = ((region.example or "").replace("{name}", name) for name, _ in calls)
        bodies = (writing.write([call]) for call in calls)
        return "".join(f"{header}{body}{close}" for header, body in zip(headers, bodies, strict=True))
    if region.bare:
        together = writing.write(calls)
        joint = f"{region.between[0]} " if region.between else ""
        return together if together.startswith(opener) else joint.join(writing.write([call]) for call in calls)
    close = region.close[0] if region.close else ""
    groups = [calls] if writing.joins else [[call] for call in calls]
    return "".join(f"{opener}{writing.write(group)}{close}" for group in groups)
