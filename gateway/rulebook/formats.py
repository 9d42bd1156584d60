"""Plain data of a call format (`rules/calls`) to its values, with each spelling of its literals written out.

Owns what each key of a region and of a body means to the code that reads it. Knows no file and no text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from gateway.rulebook.dialect import CallFormat, CallSample, ToolRegion
from gateway.streams.calls.brace_body import BracesBody
from gateway.streams.calls.call import Body
from gateway.streams.calls.element_body import ElementsBody, Tag
from gateway.streams.calls.json_body import ArgumentsBody, JsonBody
from gateway.streams.calls.named_body import NamedBody
from gateway.streams.calls.nested_body import NestedBody
from gateway.streams.calls.pair_body import PairsBody
from gateway.streams.calls.python_body import PythonBody

_KINDS: Final[Mapping[str, Callable[..., Body]]] = {
    "json": JsonBody,
    "arguments": ArgumentsBody,
    "named": partial(NamedBody, open=()),
    "elements": ElementsBody,
    "pairs": partial(PairsBody, open=(), separator=()),
    "nested": NestedBody,
    "python": PythonBody,
    "braces": BracesBody,
}
_EXPRESSIONS: Final = ("head", "words", "name")  # keys whose text is a regular expression
_SYNTAX: Final = r"\(\?(?:P<\w+>|P=\w+\)|<?[=!])"  # of an expression, whatever piece of it is spelled otherwise


def make_call_format(data: Mapping[str, Any]) -> CallFormat:
    """The format that valid data of a file in `calls/` describes."""
    return CallFormat(
        name=data["name"],
        summary=data["summary"],
        aliases=_lists(data["aliases"]),
        regions=tuple(map(_region, spelled_regions(data))),
        variants=_lists(data.get("variants", {})),
        ident=data.get("ident"),
        samples=tuple(map(_sample, data.get("samples", ()))),
    )


def spelled_regions(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The regions of a format, its `bodies` in those that name none, once more for each other spelling of a piece that
    occurs in one.
    """
    bodies = data.get("bodies", [])
    regions = [{"bodies": bodies, **region} for region in data["regions"]]
    others = [
        {key: _spelled(value, piece, spelling, key) for key, value in region.items()}
        for piece, spelling in spellings(data.get("variants", {}))
        for region in regions
        if any(piece in text for text in region["open"])
    ]
    return regions + others


def spellings(variants: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each piece of a format's literals with each other spelling of it."""
    yield from ((piece, spelling) for piece, listed in variants.items() for spelling in listed)


def written_out(form: CallFormat, region: ToolRegion) -> bool:
    """Whether a region of `form` is one that stands in its file in another spelling."""
    return any(spelling in text for _, spelling in spellings(form.variants) for text in region.open)


def _spelled(value: Any, piece: str, spelling: str, key: str) -> Any:
    """Plain data with another spelling of a piece in every text."""
    if isinstance(value, dict):
        return {name: _spelled(item, piece, spelling, name) for name, item in value.items()}
    if isinstance(value, list):  # of literals or of mappings
        return [_spelled(item, piece, spelling, "") for item in value]
    if not isinstance(value, str):
        return value
    if key not in _EXPRESSIONS:
        return value.replace(piece, spelling)
    other = re.escape(spelling)
    return re.sub(f"{_SYNTAX}|{re.escape(piece)}", lambda found: other if found[0] == piece else found[0], value)


def _region(data: Mapping[str, Any]) -> ToolRegion:
    plain = {key: _plain(value) for key, value in data.items() if key != "bodies"}
    return ToolRegion(**plain, bodies=tuple(map(_body, data["bodies"])))


def _body(data: Mapping[str, Any]) -> Body:
    return _KINDS[data["kind"]](**{key: _plain(value) for key, value in data.items() if key != "kind"})


def _plain(value: Any) -> Any:
    """A list as a tuple, a tag as a `Tag`, a table of words as one that cannot change."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict):
        is_tag = "words" in value
        return Tag(**{key: _plain(item) for key, item in value.items()}) if is_tag else MappingProxyType(value)
    return value


def _sample(data: Mapping[str, Any]) -> CallSample:
    calls = tuple((call["name"], MappingProxyType(call["arguments"])) for call in data["calls"])
    return CallSample(raw=data["raw"], calls=calls, content=data.get("content", ""))


def _lists(data: Mapping[str, list[str]]) -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType({key: tuple(values) for key, values in data.items()})
