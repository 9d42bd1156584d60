"""What `dialect: auto` and `engine: auto` come to, once engines have said what they are (contract section 3, rule 9).

Owns which statement counts as a fact: the parser an engine runs, the model it serves. What a request calls its model is
none: it only chooses among the models served. Must not know sockets, or when an engine was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.errors import ConfigError
from gateway.rulebook.load import Rulebook
from gateway.rulebook.select import ENGINES
from gateway.server.config_routes import Route, with_markers


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One model of an engine. `id`: what requests call it. `names`: that, and what it was loaded from."""

    id: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What one engine said about itself.

    `engine`: `vllm`, `sglang` or `other`. `version`: empty where it was not told. `parsers`: the flags it runs with,
    `reasoning` and `tools`, as far as it tells them (SGLang does, vLLM does not). `tokens`: the ids of strings that its
    tokenizer has as one token, of those that were asked for.
    """

    engine: str
    version: str
    models: tuple[Served, ...]
    parsers: tuple[tuple[str, str], ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)


def informed(route: Route, engines: Sequence[EngineFacts], rulebook: Rulebook) -> Route:
    """`route` as the facts of its engines have it; as configured where there are none.

    One answer for all models is the route's own; where they differ, each has a route of its own in `by_model`, and the
    route itself, for a model nobody serves, stays `generic`.
    """
    kinds = {facts.engine for facts in engines}
    if route.rules.engine == "auto" and len(kinds) == 1 and kinds <= set(ENGINES):
        route = replace(route, rules=replace(route.rules, engine=min(kinds)))
    versions = {facts.version for facts in engines}
    if len(versions) == 1 and not route.rules.engine_version:
        route = replace(route, rules=replace(route.rules, engine_version=min(versions)))
    tokens = _tokens(engines)
    if not route.auto:
        return with_markers(route, tokens)
    variants = {
        model.id: with_markers(_read(route, facts, model, rulebook), tokens)
        for facts in engines
        for model in facts.models
    }
    read = list(variants.values())
    if not read:
        return route
    if len({variant.dialect_name for variant in read}) == 1:
        return read[0]
    why = f"`auto`: the engine serves models of different families; {route.dialect_name} for a name it does not serve"
    return replace(_because(route, why), by_model=variants)


def _tokens(engines: Sequence[EngineFacts]) -> Mapping[str, int]:
    """The ids that all engines of a route have for the same string."""
    told = [dict(facts.tokens) for facts in engines]
    return {text: ident for text, ident in (told[0] if told else {}).items() if all(x.get(text) == ident for x in told)}


def _read(route: Route, facts: EngineFacts, model: Served, rulebook: Rulebook) -> Route:
    spec = dict(facts.parsers)
    if "reasoning" in spec:
        try:
            found = rulebook.resolve(spec, engine=facts.engine)
        except ConfigError:  # a parser that we have no rules for, or two that do not go together
            pass
        else:
            why = f"`auto`: the engine says that it runs {found.why}"
            parsers = {"parser": spec["reasoning"], "tools_parser": spec.get("tools", "")}
            return _because(route, why, dialect=found.dialect, dialect_name=found.name, **parsers)
    for name in model.names:
        dialect = rulebook.match_model(name)
        if dialect is not None:
            why = f"`auto`: the engine serves {_shown(model)}, by its name a model of {dialect.name}"
            return _because(route, why, dialect=dialect, dialect_name=dialect.name)
    why = f"`auto`: the engine serves {_shown(model)}, a name of no family: the common think tags"
    return _because(route, why)


def _because(route: Route, why: str, **changes: Any) -> Route:
    """The route with the reason of its dialect, and another dialect where `changes` has one."""
    name = changes.pop("dialect_name", route.dialect_name)
    return replace(route, rules=replace(route.rules, dialect_why=why, **changes), dialect_name=name)


def _shown(model: Served) -> str:
    source = [name for name in model.names if name != model.id][:1]
    return " from ".join([model.id, *source])
