"""How a body of calls is written: the counterpart of the body readers, for samples that are made.

Tags and names are taken from raw samples of the format, with another name in them; so no expression has to be turned
round, and a body that no sample shows cannot be written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

from gateway.rulebook.dialect import ToolRegion
from gateway.streams.calls.brace_body import BracesBody
from gateway.streams.calls.call import Body
from gateway.streams.calls.element_body import ElementsBody, Tag
from gateway.streams.calls.json_body import ArgumentsBody, JsonBody
from gateway.streams.calls.named_body import NamedBody
from gateway.streams.calls.nested_body import NestedBody
from gateway.streams.calls.pair_body import PairsBody
from gateway.streams.calls.python_body import PythonBody

Calls = Sequence[tuple[str, Mapping[str, Any]]]
Named = Callable[[str], str]  # a name to a tag, or to what stands for a name, with the name in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """One way of writing a body. `write`: the text of calls. `said`: a value as it is read again.

    `joins`: calls may follow each other in one region. `around`: literals of the body that may stand in a value,
    `closers`: those that end one.
    """

    write: Callable[[Calls], str]
    said: Callable[[Any], Any]
    joins: bool
    around: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()


def writings(body: Body, region: ToolRegion, raws: Sequence[str]) -> Iterator[Writing]:
    """Each way of writing `body`, as far as `raws` show it: whole outputs of its format."""
    yield from _KINDS[type(body)](body, region, raws)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    """A value without a type: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else _json(value)


def _each(write: Callable[[str, Mapping[str, Any]], str]) -> Callable[[Calls], str]:
    return lambda calls: "".join(write(name, arguments) for name, arguments in calls)


# ---------------------------------------------------------------- JSON, with and without a name


def _json_body(body: JsonBody, region: ToolRegion, raws: Sequence[str]) -> Iterator[Writing]:
    def one(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {name: arguments} if body.keyed else {body.name[0]: name, body.arguments[0]: arguments}

    def write(calls: Calls) -> str:
        objects = [one(*call) for call in calls]
        return _json(objects if len(objects) > 1 or "[" in region.open else objects[0])

    yield Writing(write=write, said=_same, joins=True)


def _arguments_body(body: ArgumentsBody, region: ToolRegion, raws: Sequence[str]) -> Iterator[Writing]:
    yield Writing(write=_each(lambda name, arguments: _json(arguments)), said=_same, joins=False)


def _named_body(body: NamedBody, region: ToolRegion, raws: Sequence[str]) -> Iterator[Writing]:
    close = "".join(body.close[:1])
    around = (*body.begin, *filter(None, body.separator), *body.close)
    for begin, separator in product(body.begin or ("",), body.separator):
        written = _written_name(body, begin or region.open[0], separator, raws)
        if written is None:
            continue

        def write(name: str, given: Mapping[str, Any], *, begin: str = begin, named: Named = written,
                  separator: str = separator) -> str:  # fmt: skip
            return f"{begin}{named(name)}{separator}{_json(given)}{close}"

        yield Writing(write=_each(write), said=_same, joins=bool(close), around=around)


def _written_name(body: NamedBody, begin: str, separator: str, raws: Sequence[str]) -> Named | None:
    """How a name is written between the two, in the first sample that shows it."""
    between = re.compile(rf"{re.escape(begin)}\s*(\S+?)\s*{re.escape(separator or '{')}")
    for found in (found for raw in raws for found in between.finditer(raw)):
        match = body.name.fullmatch(found[1])
        if match and match["name"]:
            return partial(_renamed, match)
    return None


def _renamed(match: re.Match[str], name: str) -> str:
    return _replaced(match, {"name": name})


def _replaced(match: re.Match[str], words: Mapping[str, str]) -> str:
    """The matched text with other words in place of groups, as far as these took part."""
    text = match.string
    for group in sorted((each for each in words if match[each]), key=match.start, reverse=True):
        text = text[: match.start(group)] + words[group] + text[match.end(group) :]
    return text


# ---------------------------------------------------------------- elements and pairs


def _elements_body(body: ElementsBody, region: ToolRegion, raws: Sequence[str]) -> Iterator[Writing]:
    call, argument = _tag(body.call, raws), _tag(body.argument, raws)
    words = {kind: word for word, kind in [*body.types.items()][::-1]}
    line = "\n" if body.newlines else ""
    around = (*body.close, *body.call.open, *body.argument.open)
    if call is None:
        return
    if argument is not None:

        def write(name: str, given: Mapping[str, Any]) -> str:
            values = "".join(
                f"{argument(key, words.get(_kind(value), ''))}{line}{_text(value)}{line}{body.argument_close[0]}"
                for key, value in given.items()
            )
            return f"{call(name, '')}{values}{body.close[0]}"

        said = _same if words else _text
        yield Writing(write=_each(write), said=said, joins=True, around=around, closers=body.argument_close)
    if body.json:
        yield Writing(
            write=_each(lambda name, given: f"{call(name, '')}{_json(given)}{body.close[0]}"),
            said=_same,
            joins=True,
            around=(*around, *body.argument_close),
        )


def _tag(tag: Tag, raws: Sequence[str]) -> Callable[[str, str], str] | None:
    """How an opening tag is written with a name and a type word, in the first sample that shows one."""
    opens = "|".join(map(re.escape, sorted(tag.open, key=len, reverse=True)))
    whole = re.compile(rf"(?P<open>{opens})(?P<words>.*?)\s*/?{re.escape(tag.end)}", re.DOTALL)
    for found in (found for raw in raws for found in whole.finditer(raw)):
        match = re.compile(tag.words).fullmatch(found["words"])
        if match and match["name"]:
            return partial(_opening, found["open"], match, tag.end)
    return None


def _opening(begin: str, match: re.Match[str], end: str, name: str, word: str) -> str:
    words = {"name": name, "type": word} if "type" in match.groupdict() else {"name": name}
    return f"{begin}{_replaced(match, words)}{end}"


def _pairs_body(body: PairsBody, region: ToolRegion, raws: Sequence[str]) -> Iterator[Writing]:
    begin, close = "".join(body.begin[:1]), "".join(body.close[:1])
    around = (*body.begin, *body.separator, *body.close, body.key[1], body.value[0])  # with both openers: no value
    words = {kind: word for word, kind in [*body.types.items()][::-1]}

    def written(separator: str, *, typed: bool) -> Writing:
        def pair(key: str, value: Any) -> str:
            kind = f"{body.type[0]}{words[_kind(value)]}{body.type[1]}" if body.type and typed else ""
            return f"{body.key[0]}{key}{body.key[1]}{kind}{body.value[0]}{_text(value)}{body.value[1]}"

        def write(name: str, given: Mapping[str, Any]) -> str:
            return f"{begin}{name}{separator}{''.join(pair(*each) for each in given.items())}{close}"

        said = _same if typed else _text
        return Writing(write=_each(write), said=said, joins=bool(close), around=around, closers=(body.value[1],))

    yield from (written(separator, typed=False) for separator in ("", "\n", *body.separator))
    if body.type:
        yield written("", typed=True)
    if body.json:
        inner = next(_json_body(JsonBody(), region, raws))
        yield Writing(
            write=lambda calls: "".join(f"{begin}{inner.write([call])}{close}" for call in calls),
            said=_same,
            joins=bool(close),
            around=(*around, body.value[1]),
        )


def _kind(value: Any) -> str:
    return "string" if isinstance(value, str) else "json"


def _nested_body(body: NestedBody, region: ToolRegion, raws: Sequence[str]) -> Iterator[Writing]:
    call = _tag(body.call, raws)

    def tree(key: str, value: Any) -> str:
        if isinstance(value, dict):
            inner = "".join(tree(*each) for each in value.items())
        elif isinstance(value, list):
            inner = "".join(tree(body.item, each) for each in value)
        else:
            inner = value
        return f"{body.prefix}<{key}>{inner}{body.prefix}</{key}>"

    if call:
        yield Writing(
            write=_each(
                lambda name, given: (
                    f"{body.prefix}{call(name, '')}{''.join(tree(*each) for each in given.items())}"
                    f"{body.prefix}{body.close[0]}"
                )
            ),
            said=_same,
            joins=True,
            around=(*body.close, *body.call.open),
            closers=(body.prefix,),
        )


# ---------------------------------------------------------------- literals of a language


def _python_body(body: PythonBody, region: ToolRegion, raws: Sequence[str]) -> Iterator[Writing]:
    def write(calls: Calls) -> str:
        texts = [f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})" for name, given in calls]
        return f"[{', '.join(texts)}]" if body.brackets else "\n".join(texts)

    yield Writing(write=write, said=_same, joins=True)


def _braces_body(body: BracesBody, region: ToolRegion, raws: Sequence[str]) -> Iterator[Writing]:
    quote = body.quote[0]

    def literal(value: Any) -> str:
        if isinstance(value, dict):
            return f"{{{','.join(f'{key}:{literal(each)}' for key, each in value.items())}}}"
        if isinstance(value, list):
            return f"[{','.join(map(literal, value))}]"
        return f"{quote}{value}{quote}"

    for begin in body.begin:

        def write(name: str, given: Mapping[str, Any], *, begin: str = begin) -> str:
            return f"{begin}{name}{literal(dict(given))}"

        yield Writing(
            write=_each(write),
            said=_same,
            joins=False,
            around=body.begin,
            closers=body.quote,
        )


_KINDS: Final[Mapping[type, Callable[[Any, ToolRegion, Sequence[str]], Iterable[Writing]]]] = {
    JsonBody: _json_body,
    ArgumentsBody: _arguments_body,
    NamedBody: _named_body,
    ElementsBody: _elements_body,
    PairsBody: _pairs_body,
    NestedBody: _nested_body,
    PythonBody: _python_body,
    BracesBody: _braces_body,
}
