"""YAML text to plain data, with the line of every key, so that an error can name its place.

Owns how YAML is read everywhere in the gateway. Knows no schema and no meaning of any key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.reader import ReaderError

from gateway.errors import ConfigError

KeyPath = tuple[str | int, ...]
Lines = dict[KeyPath, int]

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """YAML 1.2 core scalars. YAML 1.1, PyYAML's default, reads `off`, `no` and `on` as booleans, `8:30` as a number,
    `010` as eight and `2026-11-30` as a date; in our files all of these are text.
    """


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("merge", r"<<", "<"),
):
    # The empty string stands for an empty scalar, which only null may be.
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_pattern})\\Z"), [*_first, ""])


def load_yaml_with_lines(text: str, *, source: str) -> tuple[Any, Lines]:
    """The data of one YAML document, and the line (from 1) of every key and list item by its path; `()` is the root.

    Scalars follow the YAML 1.2 core schema: only `true` and `false` are booleans. An empty document is None.
    Raises ConfigError (`source:line: …`) on bad YAML, more than one document, a key given twice, a key that is no text.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {(): 1}
        lines: Lines = {(): _line(node)}
        lines.update(_places(node, (), source=source, inside=()))
        return loader.construct_document(node), lines
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}:{_error_line(error, text)}: not YAML: {_error_text(error)}") from error
    except ValueError as error:  # a scalar behind an explicit tag, such as `!!int x`
        raise ConfigError(f"{source}:1: not YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{source}:1: not YAML: nested too deeply") from error


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _places(node: yaml.Node, path: KeyPath, *, source: str, inside: tuple[int, ...]) -> Iterator[tuple[KeyPath, int]]:
    if id(node) in inside:
        raise ConfigError(f"{source}:{_line(node)}: {key_text(path)}: contains itself")
    inside = (*inside, id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield (*path, index), _line(item)
            yield from _places(item, (*path, index), source=source, inside=inside)
    elif isinstance(node, yaml.MappingNode):
        # Merged members first, so that the mapping's own keys have the last word.
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                for merged in reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]:
                    yield from _places(merged, path, source=source, inside=inside)
        for key, value in _own_items(node, path, source=source):
            yield (*path, key.value), _line(key)
            yield from _places(value, (*path, key.value), source=source, inside=inside)


def _own_items(node: yaml.MappingNode, path: KeyPath, *, source: str) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    seen: set[str] = set()
    for key, value in node.value:
        if key.tag == _TAG + "merge":
            continue
        if key.tag != _TAG + "str":
            raise ConfigError(f"{source}:{_line(key)}: {key_text(path)}: a key must be text; quote it")
        if key.value in seen:
            raise ConfigError(f"{source}:{_line(key)}: {key_text((*path, key.value))}: the key is given twice")
        seen.add(key.value)
        yield key, value


def _error_line(error: yaml.YAMLError, text: str) -> int:
    if isinstance(error, ReaderError):  # a character that YAML does not allow
        return text.count("\n", 0, error.position) + 1
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark else 1


def _error_text(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).splitlines()[0]


def key_text(path: KeyPath) -> str:
    """A path as users write it: `routes[0].match.models`. The root is `(file)`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "(file)"


def line_of(lines: Lines, path: KeyPath) -> int:
    """The line of `path`, or of the nearest thing around it that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)
