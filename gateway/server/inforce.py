"""The configuration in force and what the engines said about themselves, as one value that is replaced as a whole.

An exchange keeps the value it began with: a change reaches new exchanges only, and never half of one. Owns what may
change while the gateway runs. Must not know files, sockets, signals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gateway.errors import ConfigError
from gateway.server.auto import EngineFacts, informed
from gateway.server.config import Address, Config, Route
from gateway.server.connection import Target, target_of
from gateway.server.routing import Routing

_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What new exchanges follow.

    `config`: its routes read what the engines' facts say. `models`: names a metric may have as label: those that an
    engine serves, and those that a route's `match` spells out.
    """

    config: Config
    routing: Routing
    models: frozenset[str]

    def strings(self, target: Target) -> tuple[str, ...]:
        """Of which it matters whether they are one token at `target`: those of routes without a tokenizer file."""
        asks = (route for route in self.config.routes if route.vocabulary is None)
        here = (route for route in asks if target in map(target_of, route.upstream))
        read = (each for route in here for each in (route, *route.by_model.values()))
        return tuple(dict.fromkeys(atom for route in read for atom in route.atoms))


class InForce:
    """`now` is what stands. `changed` hears of every replacement, after it."""

    def __init__(self, config: Config, *, changed: Callable[[Standing], None]) -> None:
        self._config = config
        self._facts: Mapping[Target, EngineFacts] = {}
        self._changed = changed
        self.now = self._stand()

    def adopt(self, config: Config) -> None:
        """Another configuration. Raises ConfigError where it asks for what only a restart can do."""
        for key in ("listen", "admin_listen"):
            was, wanted = getattr(self._config, key), getattr(config, key)
            if was != wanted:
                where = config.source or "command line"
                problem = f"got {_shown(wanted)}, but the gateway listens on {_shown(was)}; a restart changes it"
                raise ConfigError(f"{where}: {key}: {problem}")
        self._config = config
        self._replace()

    def learn(self, facts: Mapping[Target, EngineFacts]) -> None:
        """What engines say now; an engine that is not among them is as it was last known."""
        known = {**self._facts, **facts}
        if known != self._facts:
            self._facts = known
            self._replace()

    @property
    def facts(self) -> list[EngineFacts]:
        """What is known of the engines in use."""
        return [self._facts[engine] for engine in self.now.routing.engines if engine in self._facts]

    def _replace(self) -> None:
        self.now = self._stand()
        self._changed(self.now)

    def _stand(self) -> Standing:
        routes = tuple(informed(route, self._of(route), self._config.rulebook) for route in self._config.routes)
        config = replace(self._config, routes=routes)
        served = {model.id for route in routes for facts in self._of(route) for model in facts.models}
        spelt = {glob for route in routes for glob in route.match.models if not _GLOB & set(glob)}
        return Standing(config=config, routing=Routing(config), models=frozenset(served | spelt))

    def _of(self, route: Route) -> list[EngineFacts]:
        return [self._facts[target] for target in map(target_of, route.upstream) if target in self._facts]


def _shown(address: Address) -> str:
    return f"{address.host}:{address.port}"
