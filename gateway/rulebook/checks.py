"""What a JSON Schema cannot say about rule files: names, aliases, references, and literals that would mean two things.

Works on the plain YAML data, whatever its shape, so that these problems are reported beside the schema's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.rulebook.dialect import CallFormat, Dialect, ToolRegion
from gateway.rulebook.yamlpos import KeyPath, Lines, key_text, line_of

NO_GRAMMAR = ("hf", "beam", "response_template")
"""Parser names whose grammar comes with the checkpoint; read as `auto` (contract section 3)."""

RESERVED = ("auto", "none", *NO_GRAMMAR)
"""Words of the `dialect` key that a family cannot be called."""

THINK_OPENER, THINK_CLOSER = "think opener", "think closer"
ANSWER_OPENER, ANSWER_CLOSER = "answer opener", "answer closer"
HEADER_OPENER, HEADER_CLOSER = "header opener", "header closer"
MESSAGE_CLOSER, FRAMING, END_OF_TURN, SPECIAL = "message closer", "framing", "end of turn", "special token"
DANGLING, INVENTED = "dangling markup", "opener of the engine's parser"
TOOL_OPENER, TOOL_CLOSER, ENDED_BY = "tool opener", "tool closer", "end of an unclosed region"

_GROUPS: dict[tuple[str, ...], str] = {
    ("thoughts", "open"): THINK_OPENER,
    ("thoughts", "close"): THINK_CLOSER,
    ("answer", "open"): ANSWER_OPENER,
    ("answer", "close"): ANSWER_CLOSER,
    ("header", "open"): HEADER_OPENER,
    ("header", "first"): HEADER_OPENER,
    ("header", "close"): HEADER_CLOSER,
    ("message_close",): MESSAGE_CLOSER,
    ("framing",): FRAMING,
    ("end_of_turn",): END_OF_TURN,
    ("special",): SPECIAL,
    ("dangling",): DANGLING,
    ("invented",): INVENTED,
    ("regions", "open"): TOOL_OPENER,
    ("regions", "close"): TOOL_CLOSER,
    ("regions", "ended_by"): ENDED_BY,
}
"""Where markers stand in rule files. `header.within` is no marker: it only says what a header's text may hold."""

# Thoughts and regions are told apart by their openers; a closer may serve several.
_TELLING = (THINK_OPENER, TOOL_OPENER)

# Pairs that never compete. Inside a tool region only its own closers are live, outside only the other meaning. What
# closes every message closes a thought too. A role token may end one turn and open the next. What the engine's parser
# writes is told by its place.
_MAY_MEET = (
    frozenset({ENDED_BY, FRAMING}),
    frozenset({ENDED_BY, END_OF_TURN}),
    frozenset({TOOL_CLOSER, MESSAGE_CLOSER}),
    frozenset({TOOL_CLOSER, THINK_CLOSER}),
    frozenset({THINK_CLOSER, MESSAGE_CLOSER}),
    frozenset({END_OF_TURN, HEADER_OPENER}),
    frozenset({THINK_OPENER, INVENTED}),
)


@dataclass(frozen=True, slots=True)
class RuleData:
    """One rule file as plain data. `kind`: the folder it lies in, `dialects`, `calls`, `leaks` or `engines`."""

    kind: str
    stem: str
    source: str
    data: Any
    lines: Lines

    def problem(self, path: KeyPath, reason: str) -> str:
        """A problem at `path` as `source:line: key: reason`."""
        return f"{self.source}:{line_of(self.lines, path)}: {key_text(path)}: {reason}"


def file_problems(file: RuleData, calls: Mapping[str, RuleData]) -> Iterator[str]:
    """Problems of one file: its name, the call formats it names, and literals with two meanings."""
    found = list(_leaves(file.data))
    for path, value in found:
        if path == ("name",) and value != file.stem:
            yield file.problem(path, f"got {value!r}, expected the file's name without .yaml, {file.stem!r}")
        elif path == ("name",) and value in RESERVED:
            yield file.problem(path, f"{value!r} has a meaning of its own in the `dialect` key")
        elif path[:1] == ("calls",) and value not in calls:
            yield file.problem(path, f"no call format {value!r} among {', '.join(sorted(calls))}")
    called = [(path, calls[name]) for path, name in found if path[:1] == ("calls",) and name in calls]
    for path, reason in (*clashes([*_grouped(found), *_borrowed(called)]), *_header_problems(found)):
        yield file.problem(path, reason)
    if file.kind == "calls" and isinstance(file.data, dict):
        for path, reason in (*_group_problems(file.data, ()), *_region_problems(file.data)):
            yield file.problem(path, reason)


def _borrowed(called: Iterable[tuple[KeyPath, RuleData]]) -> Iterator[tuple[str, str, KeyPath]]:
    """The markers of the call formats that a dialect names. Two of them may share an opener with all its closers: they
    write their calls in the same wrapper, and it is one region with the bodies of both.
    """
    wrappers: dict[str, tuple[str, Any]] = {}
    for path, call in called:
        for group, text, place in _grouped(_leaves(call.data)):
            if group == TOOL_OPENER:
                form, close = call.stem, call.data["regions"][place[1]].get("close")
                other, others_close = wrappers.setdefault(text, (form, close))
                if other != form and others_close == close:
                    continue
            yield group, text, path


def _header_problems(found: Iterable[tuple[KeyPath, Any]]) -> Iterator[tuple[KeyPath, str]]:
    """Openers that two headers of a list have: it is told by the opener which of them it is."""
    headers: dict[Any, object] = {}
    for path, literal in found:
        opens = path[:1] == ("header",) and path[2:3] in (("open",), ("first",))
        if opens and headers.setdefault(literal, path[1]) != path[1]:
            yield path, f"{literal!r} opens another header of this dialect as well"


def _group_problems(data: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Regular expressions of a call format that name nothing."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    named = isinstance(data, dict) and data.get("kind") == "named"
    for key, value in items:
        if isinstance(value, str) and (key in ("words", "head") or (named and key == "name")):
            try:
                groups = re.compile(value).groupindex
            except re.error:  # the schema's to tell
                continue
            if "name" not in groups:
                yield (*path, key), f"got {value!r}, expected a regular expression with a group (?P<name>…)"
        yield from _group_problems(value, (*path, key))


def _region_problems(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Regions that could not be read, and spellings of what is written nowhere."""
    regions = data.get("regions")
    listed = regions if isinstance(regions, list) else []
    for index, region in enumerate(listed):
        if not isinstance(region, dict):
            continue
        bodies = region.get("bodies", data.get("bodies"))
        if not bodies and not region.get("close"):
            yield ("regions", index), "a region without bodies needs a closer: nothing else tells where it ends"
        if region.get("open") and "example" in region:
            yield ("regions", index, "example"), "only a region that a header opens (`open: []`) has an example of one"
    openers = [text for region in listed if isinstance(region, dict) for _, text in _leaves(region.get("open"))]
    variants = data.get("variants")
    for piece in variants if isinstance(variants, dict) else ():
        if not any(isinstance(text, str) and piece in text for text in openers):
            yield ("variants", piece), f"{piece!r} stands in no opener"


def spelling_problems(
    files: Iterable[RuleData], calls: Mapping[str, CallFormat], dialects: Mapping[str, Dialect]
) -> Iterator[str]:
    """Literals that mean two things in another spelling only. `calls`, `dialects`: made of `files`, which are valid."""
    for file in files:
        if file.kind == "calls":
            markers, path = list(_region_markers(calls[file.stem].regions)), ("variants",)
        elif file.kind == "dialects":
            markers, path = list(dict.fromkeys(markers_of(dialects[file.stem]))), ("calls",)
        else:
            continue
        for _, reason in clashes((group, literal, ()) for group, literal in markers):
            yield file.problem(path, reason)


def alias_problems(files: Iterable[RuleData]) -> Iterator[str]:
    """Parser names claimed twice within one engine and kind of file."""
    seen: dict[tuple[object, ...], str] = {}
    for file in files:
        for path, value in _leaves(file.data):
            if path[:1] == ("aliases",):
                here = f"{file.source}:{line_of(file.lines, path)}"
                first = seen.setdefault((file.kind, path[1:2], value), here)
                if first is not here:
                    yield file.problem(path, f"{value!r} is already claimed at {first}")


def repeated_faults(files: Iterable[RuleData]) -> Iterator[str]:
    """Known faults of the same name, which `/rules` could not tell apart."""
    seen: dict[object, str] = {}
    for file in (file for file in files if file.kind == "engines"):
        for path, value in _leaves(file.data):
            if path[:1] == ("faults",) and path[2:] == ("id",):
                here = f"{file.source}:{line_of(file.lines, path)}"
                first = seen.setdefault(value, here)
                if first is not here:
                    yield file.problem(path, f"{value!r} is already the name of the fault at {first}")


def clashes(markers: Iterable[tuple[str, str, KeyPath]]) -> Iterator[tuple[KeyPath, str]]:
    """Literals that would mean two things. `markers`: (group, literal, place); yields the later place and why."""
    seen: dict[str, set[str]] = {}
    for group, literal, path in markers:
        if group == HEADER_CLOSER:  # looked for behind a header's opener only, where nothing else is live
            continue
        earlier = seen.setdefault(literal, set())
        for other in sorted(earlier):
            fine = group not in _TELLING if other == group else frozenset({other, group}) in _MAY_MEET
            if not fine:
                yield path, f"{literal!r} is {group} here and {other} elsewhere"
        earlier.add(group)


def markers_of(dialect: Dialect) -> Iterator[tuple[str, str]]:
    """Every marker of a dialect with its group, in the order of the rule file."""
    by_group: dict[str, Iterable[str]] = {
        THINK_OPENER: [text for thought in dialect.thoughts for text in thought.open],
        THINK_CLOSER: [text for thought in dialect.thoughts for text in thought.close],
        ANSWER_OPENER: dialect.answer_open,
        ANSWER_CLOSER: dialect.answer_close,
        HEADER_OPENER: [text for header in dialect.headers for text in (*header.open, *header.first)],
        HEADER_CLOSER: [header.close for header in dialect.headers if header.close],
        MESSAGE_CLOSER: dialect.message_close,
        FRAMING: dialect.framing,
        END_OF_TURN: dialect.end_of_turn,
        SPECIAL: dialect.special,
        DANGLING: dialect.dangling,
        INVENTED: dialect.invented,
    }
    for group, literals in by_group.items():
        for literal in literals:
            yield group, literal
    yield from _region_markers(dialect.regions)


def _region_markers(regions: Iterable[ToolRegion]) -> Iterator[tuple[str, str]]:
    listed = list(regions)
    wrappers = dict.fromkeys((text, region.close) for region in listed for text in region.open)
    yield from ((TOOL_OPENER, text) for text, _ in wrappers)
    yield from ((TOOL_CLOSER, text) for region in listed for text in region.close)
    yield from ((ENDED_BY, text) for region in listed for text in region.ended_by)


def _grouped(leaves: Iterable[tuple[KeyPath, Any]]) -> Iterator[tuple[str, str, KeyPath]]:
    for path, value in leaves:
        group = _GROUPS.get(tuple(part for part in path if isinstance(part, str)))
        if group and isinstance(value, str):
            yield group, value, path


def _leaves(data: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every scalar of plain data with its path, in document order."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _leaves(value, (*path, index))
    else:
        yield path, data
