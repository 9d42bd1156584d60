"""What is known to go wrong in engines and clients themselves, and which of it counts where.

The facts are data (`rules/engines/NAME.yaml`), each with its source. A row counts by what a route and a request say of
themselves; what may be lost and what helps is told, and nothing is done. Knows no text, no route and no request.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Version = tuple[int, ...]

STOP_DESYNC: Final = "stop_desync"
"""The rule of `request_lint` with which a request is counted that invites a stream to be cut at the wrong place."""

_SETS: Final = ("parsers", "asked", "tools", "endpoints", "modes", "when")
_AS_WRITTEN: Final = ("symptom", "remedy", "bound", "source", "status")
_NO_PARSER: Final = "none"
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFault:
    """One row of a file, whose keys rules/README.md explains.

    `engine`: the name of the file. `newest`: its newest version of which anything is known, `since` the first with the
    fault, `until` the first known to be without it; None: not known, or not yet. `checked`: day and version.
    """

    ident: str
    engine: str
    newest: Version | None
    issues: tuple[str, ...]
    since: Version | None
    until: Version | None
    parsers: frozenset[str]
    asked: frozenset[str]
    tools: frozenset[str]
    endpoints: frozenset[str]
    modes: frozenset[str]
    when: frozenset[str]
    symptom: str
    remedy: str
    bound: str
    source: str
    checked: tuple[str, str] | None
    status: str
    lint: str | None


def faults_of(
    faults: Iterable[KnownFault],
    *,
    engine: str,
    version: str,
    parser: str,
    tools_parser: str,
    endpoint: str,
    stream: bool,
    asked: bool,
    conditions: Collection[str],
) -> tuple[KnownFault, ...]:
    """The faults that a request meets, in the order of the rules; the first arguments are those of `faults_known`.

    `endpoint`: as a protocol calls itself. `asked`: thinking was asked for. `conditions`: what the request has of those
    that rows name in `when`; a row with several wants all of them.
    """
    mode, name = "stream" if stream else "plain", _bare(parser)
    known = faults_known(faults, engine=engine, version=version, parser=parser, tools_parser=tools_parser)
    return tuple(
        fault
        for fault in known
        if endpoint in fault.endpoints
        and mode in fault.modes
        and fault.when.issubset(conditions)
        and (asked or not fault.asked or name in fault.parsers)
    )


def faults_known(
    faults: Iterable[KnownFault], *, engine: str, version: str, parser: str, tools_parser: str
) -> tuple[KnownFault, ...]:
    """The faults of an engine as it runs, whatever a request says, in the order of the rules.

    `engine`: what runs there, `vllm`, `sglang` or anything else. `version`: as it says itself, empty where it is not
    known: then what is fixed in some version does not count, and everything else does. Of a version newer than the
    newest that was tried nothing is known. `parser`, `tools_parser`: as a route names them, `NAME` or `ENGINE/NAME`,
    empty where it names none.
    """
    software = next((name.rpartition("/")[0] for name in (parser, tools_parser) if "/" in name), engine)
    running = _version(version)
    return tuple(
        fault
        for fault in faults
        if fault.engine == software and _covers(fault, running) and _names(fault, _bare(parser), _bare(tools_parser))
    )


def make_faults(data: Mapping[str, Any]) -> tuple[KnownFault, ...]:
    """The rows of one valid rule file."""
    newest = _version(data.get("newest"))
    return tuple(_fault(row, engine=data["name"], newest=newest) for row in data["faults"])


def fault_problems(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Rows of valid data that contradict themselves, each with its place."""
    newest = _version(data.get("newest"))
    for place, row in enumerate(data["faults"]):
        for key, reason in _contradictions(_fault(row, engine=data["name"], newest=newest)):
            yield ("faults", place, *key), reason


def _contradictions(fault: KnownFault) -> Iterator[tuple[tuple[str, ...], str]]:
    if (fault.status == "fixed") is (fault.until is None):
        yield ("status",), "a fault is `fixed` where `versions.until` says since when, and nowhere else"
    if fault.until is not None and not (fault.since or ()) < fault.until:
        yield ("versions", "until"), "is not behind `since`"
    if fault.until is not None and fault.newest is not None and _beyond(fault.until, fault.newest):
        yield ("versions", "until"), "is newer than `newest`, of which nothing is known"
    if fault.status == "reproduced" and fault.checked is None:
        yield ("checked",), "a fault is `reproduced` on a version: say on which, and when"
    if fault.parsers & fault.asked:
        yield ("asked",), "names a parser that `parsers` has: it either splits by itself or only where it is asked to"
    if _NO_PARSER in fault.parsers and not fault.tools:
        yield ("parsers",), "`none` needs `tools`: a route that names no parser at all may have any"


def _fault(row: Mapping[str, Any], *, engine: str, newest: Version | None) -> KnownFault:
    checked, versions = row["checked"], row["versions"]
    values: dict[str, Any] = {key: row[key] for key in _AS_WRITTEN}
    values |= {key: frozenset(row.get(key, ())) for key in _SETS}
    return KnownFault(
        ident=row["id"],
        engine=engine,
        newest=newest,
        issues=tuple(row["issue"]),
        since=_version(versions["since"]),
        until=_version(versions["until"]),
        checked=None if checked is None else (checked["on"], checked["version"]),
        lint=row.get("lint"),
        **values,
    )


def _names(fault: KnownFault, parser: str, tools: str) -> bool:
    """True where the row is about these parsers. One that names none is about all of them, and about none."""
    named = fault.parsers | fault.asked
    return (not named or (parser or _NO_PARSER) in named) and (not fault.tools or tools in fault.tools)


def _covers(fault: KnownFault, running: Version | None) -> bool:
    since, until, newest = fault.since, fault.until, fault.newest
    if running is None:
        return until is None
    return (
        (newest is None or not _beyond(running, newest))
        and (since is None or running >= since)
        and (until is None or running < until)
    )


def _beyond(version: Version, newest: Version) -> bool:
    """True for a newer one, as exactly as `newest` is given: 0.33.1 is not beyond 0.33."""
    return version[: len(newest)] > newest


def _version(text: str | None) -> Version | None:
    """The numbers at the beginning, `0.32.0+cpu` as 0.32.0; None where there are fewer than two."""
    numbers = _NUMBERS.match(text or "")
    return None if numbers is None else tuple(map(int, numbers[0].split(".")))


def _bare(name: str) -> str:
    return name.rpartition("/")[2]
