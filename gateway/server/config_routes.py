"""The `routes` and `policy` blocks of a valid configuration, as values.

Owns: what belongs to a route, how its policy follows from the profile and both policy blocks, which dialect it reads.
Must not know the file the data came from; that is `gateway.server.config`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain, count
from pathlib import Path
from typing import Any

from gateway.errors import ConfigError
from gateway.exchange.route import RouteRules
from gateway.findings import Finding
from gateway.limits import Limits
from gateway.policy import Dedup, Mode, Policy, Profile, ReasoningField, ToolRescue, policy_for
from gateway.rulebook.load import Resolved, Rulebook, UnknownDialect
from gateway.rulebook.marked import atoms_of
from gateway.rulebook.template import load_template
from gateway.rulebook.yamlpos import KeyPath
from gateway.server.config_check import SCHEMA, Problem
from gateway.server.vocabulary import Vocabulary
from gateway.streams.tokens import Markers

_ROUTE: Mapping[str, Any] = SCHEMA["$defs"]["route"]["properties"]
_ACTING = frozenset(finding.value for finding in Finding)
_RULES = ("source", "starts_in", "thinking_default", "engine")  # route keys that `RouteRules` has under the same name
_LABEL = re.compile(r"[0-9A-Za-z_](?:[0-9A-Za-z_-]*[0-9A-Za-z_])?")
_AS_WRITTEN = ("promote_reasoning", "on_internal_error", "raw_text", "phase_commentary")  # keys of `Policy` too
NO_IDS: Mapping[str, int] = {}
_OBSERVE = {"reasoning_field": "as_upstream", "on_internal_error": "pass", "phase_commentary": "keep"}
"""What profile `observe` decides over both policy blocks: it promises not to change a byte, and the one edit of the
profile must be enough to keep that promise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which requests belong to a route. Shell globs, case-sensitive; an empty tuple accepts all.

    `headers`: pairs of lower-case name and glob, all of which must accept. `keys`: names of keys, no globs.
    """

    models: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()

    def accepts(self, *, path: str, model: str | None, headers: Mapping[str, str], key: str | None = None) -> bool:
        """True where the request belongs to the route.

        `path` is raw and without query; `model` is None where the request names none, which only the glob `*` accepts;
        `headers` must answer to lower-case names; `key` is the name of the key that the request carries.
        """
        return (
            (not self.keys or key in self.keys)
            and _accepted(model, self.models)
            and _accepted(path, self.paths)
            and all(name in headers and fnmatchcase(headers[name], glob) for name, glob in self.headers)
        )

    @property
    def accepts_all(self) -> bool:
        """True where no request can be refused."""
        return (not self.models or "*" in self.models) and not (self.paths or self.headers or self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One deployment: what belongs to it, where it is (base URLs without a final slash), how its answers are read.

    `auto`: the dialect follows from what the engine says about itself. `by_model`: the same route for a model that an
    engine serves, where that one is read otherwise. `vocabulary`: of the model, where the configuration names its file.
    """

    match: Match
    upstream: tuple[str, ...]
    rules: RouteRules
    dialect_name: str
    auto: bool = False
    by_model: Mapping[str, Route] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None

    @property
    def atoms(self) -> tuple[str, ...]:
        """What of the dialect may be one token; nothing where no tokens are read."""
        rules = self.rules
        reads = rules.policy.profile is Profile.FULL and rules.policy.tokens != "never"
        reads = reads and rules.source in ("auto", "tokens")
        return atoms_of(rules.dialect) if reads and rules.dialect else ()

    @property
    def dialect_why(self) -> str:
        """Why it is read so, in one line."""
        return self.rules.dialect_why


def tokenizer_file(route: Mapping[str, Any], folder: Path) -> Path | None:
    """The model's tokenizer file, as the configuration in `folder` names it."""
    name = route.get("tokenizer")
    return None if name is None else folder / name


def find_vocabularies(
    routes: Sequence[Mapping[str, Any]], folder: Path
) -> tuple[list[Vocabulary | None], list[Problem]]:
    """The vocabulary of each of the configured `routes` that names one, and what is wrong with the files."""
    found: list[Vocabulary | None] = []
    problems: list[Problem] = []
    for index, route in enumerate(routes):
        file = tokenizer_file(route, folder)
        try:
            found.append(None if file is None else Vocabulary(file))
        except ConfigError as error:
            problems.append((("routes", index, "tokenizer"), str(error)))
    return found, problems


def template_file(route: Mapping[str, Any], folder: Path) -> Path | None:
    """The file of the checkpoint's response template, as the configuration in `folder` names it."""
    name = route.get("dialect_options", {}).get("response_template")
    return None if name is None else folder / name


def find_dialects(
    routes: Sequence[Mapping[str, Any]], rulebook: Rulebook, folder: Path
) -> tuple[list[Resolved], list[Problem]]:
    """The dialect of each of the configured `routes`, and what is wrong with those that have none.

    `folder`: what the files of response templates are relative to. They are read each time.
    """
    found: list[Resolved] = []
    problems: list[Problem] = []
    for index, route in enumerate(routes):
        spec = route.get("dialect", _ROUTE["dialect"]["default"])
        file = template_file(route, folder)
        try:
            checkpoint = None if file is None else load_template(file)
        except ConfigError as error:
            key = ("routes", index, "dialect_options", "response_template")
            problems += [(key, line) for line in str(error).splitlines()]
            continue
        try:
            found.append(rulebook.resolve(spec, engine=route.get("engine"), checkpoint=checkpoint))
        except UnknownDialect as error:
            halves = [half for half, name in spec.items() if name == error.name] if isinstance(spec, dict) else []
            problems.append(((*_dialect_key(index), *(halves if len(halves) == 1 else ())), str(error)))
        except ConfigError as error:
            problems.append((_dialect_key(index), str(error)))
    return found, problems


def make_routes(
    data: Mapping[str, Any],
    *,
    dialects: Sequence[Resolved],
    vocabularies: Sequence[Vocabulary | None],
    profile: Profile,
    limits: Limits,
    rulebook: Rulebook,
) -> tuple[Route, ...]:
    """The routes of a configuration, in its order; `dialects` and `vocabularies` have one for each."""
    routes = data["routes"]
    matches = [_match(route.get("match", {})) for route in routes]
    names = _names(matches)
    made = [
        Route(
            match=match,
            upstream=upstreams(route["upstream"]),
            rules=RouteRules(
                name=name,
                dialect=found.dialect,
                dialect_why=found.why,
                policy=_policy(profile, top=data.get("policy", {}), own=route.get("policy", {})),
                limits=limits,
                engine_version=route.get("engine_version", "auto").replace("auto", ""),
                parser=_parser(route.get("dialect"), "reasoning"),
                tools_parser=_parser(route.get("dialect"), "tools"),
                reasoning_end_string=route.get("reasoning_end_string"),
                openings=rulebook.openings,
                faults=rulebook.faults,
                **{key: route.get(key, _ROUTE[key]["default"]) for key in _RULES},
            ),
            dialect_name=found.name,
            auto=route.get("dialect", _ROUTE["dialect"]["default"]) == "auto" and template_file(route, Path()) is None,
            vocabulary=vocabulary,
        )
        for route, match, name, found, vocabulary in zip(routes, matches, names, dialects, vocabularies, strict=True)
    ]
    return tuple(map(with_markers, made))


def with_markers(route: Route, ids: Mapping[str, int] = NO_IDS) -> Route:
    """The route with what of its dialect is one token: as its vocabulary says, else `ids`, the engine's own words."""
    if route.vocabulary and route.atoms:
        vocabulary = route.vocabulary
        markers = vocabulary.markers(route.atoms)
        rules = replace(route.rules, markers=markers, spelling=vocabulary.spelling, special=vocabulary.special)
    else:
        known = {ids[atom]: atom for atom in route.atoms if atom in ids}
        rules = replace(route.rules, markers=Markers(texts=frozenset(known.values()), ids=known))
    return replace(route, rules=rules)


def route_notes(routes: Sequence[Route], dialects: Sequence[Resolved]) -> Iterator[Problem]:
    """What works and is probably not meant."""
    for index, found in enumerate(dialects):
        yield from ((_dialect_key(index), warning) for warning in found.warnings)
    first = next((index for index, route in enumerate(routes) if route.match.accepts_all), len(routes))
    for index in range(first + 1, len(routes)):
        yield ("routes", index), f"is never reached: routes[{first}] accepts every request"
    for index, route in enumerate(routes):
        if any(url.endswith("/v1") for url in route.upstream):
            yield ("routes", index, "upstream"), "ends in /v1, which the paths of clients begin with: /v1/v1/… is asked"
    if first == len(routes) and len({route.upstream for route in routes}) > 1:
        yield ("routes",), f"no route accepts every request; what none accepts goes to {routes[0].upstream[0]}, unread"


def is_host(name: str) -> bool:
    """True for an address, and for a name that a resolver would be asked for (RFC 1123 section 2.1, and `_`)."""
    try:
        labels = name.removesuffix(".").encode("idna").decode().split(".")
    except UnicodeError:
        return False
    return ":" in name or all(_LABEL.fullmatch(label) for label in labels)


def token_problems(routes: Sequence[Route]) -> Iterator[Problem]:
    """Routes that read tokens which nobody asks for."""
    for index, route in enumerate(routes):
        policy = route.rules.policy
        if route.rules.source == "tokens" and (policy.profile is Profile.REPAIR or policy.tokens == "never"):
            yield ("routes", index, "source"), "tokens needs profile full, and policy.request.tokens other than never"


def observe_notes(data: Mapping[str, Any]) -> Iterator[Problem]:
    """The keys of the policy blocks that profile `observe` decides otherwise."""
    blocks: dict[KeyPath, Mapping[str, Any]] = {("policy",): data.get("policy", {})}
    blocks |= {("routes", index, "policy"): route.get("policy", {}) for index, route in enumerate(data["routes"])}
    for path, block in blocks.items():
        decided = {key: value for key, value in _OBSERVE.items() if block.get(key, value) != value}
        yield from (((*path, key), f"acts as {value} in profile observe") for key, value in decided.items())


def _parser(spec: object, half: str) -> str:
    """The engine's parser, `reasoning` or `tools`, where the route names one and not a family."""
    if isinstance(spec, dict):
        return str(spec.get(half, ""))
    return spec if half == "reasoning" and isinstance(spec, str) and "/" in spec else ""


def _dialect_key(index: int) -> KeyPath:
    return ("routes", index, "dialect")


def _accepted(value: str | None, globs: Sequence[str]) -> bool:
    if not globs or value is None:
        return not globs or "*" in globs
    return any(fnmatchcase(value, glob) for glob in globs)


def _match(block: Mapping[str, Any]) -> Match:
    headers = tuple((name.lower(), glob) for name, glob in block.get("headers", {}).items())
    models, paths, keys = (tuple(block.get(key, ())) for key in ("models", "paths", "keys"))
    return Match(models=models, paths=paths, headers=headers, keys=keys)


def _names(matches: Sequence[Match]) -> list[str]:
    """A name for each route, for metrics and logs: what it matches, numbered where another one has that name."""
    names: list[str] = []
    for match in matches:
        headers = (f"{name}={glob}" for name, glob in match.headers)
        name = ",".join(match.models or match.paths or match.keys or headers) or "*"
        numbered = (f"{name}#{number}" for number in count(2))
        names.append(next(free for free in chain([name], numbered) if free not in names))
    return names


def upstreams(urls: str | Sequence[str]) -> tuple[str, ...]:
    """The base URLs of a route's `upstream`, without a final slash."""
    return tuple(url.rstrip("/") for url in ([urls] if isinstance(urls, str) else urls))


def _policy(profile: Profile, *, top: Mapping[str, Any], own: Mapping[str, Any]) -> Policy:
    """`own` laid over `top`, key by key, over the profile's defaults."""
    keys = {**top, **own, **(_OBSERVE if profile is Profile.OBSERVE else {})}
    findings = {**top.get("findings", {}), **own.get("findings", {})}
    if keys.get("preamble") == "off":
        findings.setdefault(Finding.PREAMBLE, Mode.OFF)
    changes: dict[str, object] = {
        "findings": {Finding(name): Mode(mode) for name, mode in findings.items() if name in _ACTING},
        "dedup": Dedup(**{**top.get("dedup", {}), **own.get("dedup", {})}),
        "tool_rescue": _tool_rescue({**top.get("tool_rescue", {}), **own.get("tool_rescue", {})}),
        **{key: keys[key] for key in _AS_WRITTEN if key in keys},
    }
    request = {**top.get("request", {}), **own.get("request", {})}
    changes |= {name: request[name] for name in ("history", "stop", "tokens") if name in request}
    if "reasoning_field" in keys:
        changes["reasoning_field"] = ReasoningField(keys["reasoning_field"])
    return policy_for(profile, **changes)


def _tool_rescue(keys: Mapping[str, Any]) -> ToolRescue:
    modes = {key: Mode(keys[key]) for key in ("content", "reasoning", "markerless") if key in keys}
    return ToolRescue(**modes, stream=keys.get("stream", "complete"), deny=tuple(keys.get("deny", ())))
