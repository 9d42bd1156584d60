"""What one exchange is told about its route: values only, filled by `gateway.server.config`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gateway.limits import Limits
from gateway.policy import Policy, ReasoningField
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.faults import KnownFault, faults_known, faults_of
from gateway.rulebook.openings import Opening
from gateway.streams.tokens import UNLEARNED, Markers, Spell


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRules:
    """How answers on a route are read and what is done about them.

    `dialect` is None for `dialect: none`: no text is read, only fields are; `dialect_why` says in a line why it is this
    one. `source`: `auto`, `fields`, `text` or `tokens`
    (contract section 3). `starts_in`: `auto`, `content` or `reasoning`. `thinking_default`: `auto`, `on` or `off`.
    `engine`: `auto`, `vllm`, `sglang` …: whose templates read the request; `engine_version`: as it says itself, else
    empty. `parser`, `tools_parser`: the engine's parsers as `dialect` names them, else empty.
    `reasoning_end_string`: as given to the engine's `--reasoning-config`, or None. `openings`: beginnings of an answer
    that are counted. `faults`: what is known to go wrong in engines, of all of them. `markers`: what of the dialect the
    model's vocabulary has as one token, as far as it was learned. `spelling`: makes text of the ids of one output, None
    where there is no tokenizer. `special`: the ids of special tokens, which engines leave out of text.
    """

    name: str
    dialect: Dialect | None
    source: str
    starts_in: str
    thinking_default: str
    policy: Policy
    limits: Limits
    dialect_why: str = ""
    engine: str = "auto"
    engine_version: str = ""
    parser: str = ""
    tools_parser: str = ""
    reasoning_end_string: str | None = None
    openings: tuple[Opening, ...] = ()
    faults: tuple[KnownFault, ...] = ()
    markers: Markers = UNLEARNED
    spelling: Callable[[], Spell] | None = None
    special: frozenset[int] = frozenset()

    def faults_known(self) -> tuple[KnownFault, ...]:
        """The known faults of the route's engine, as it runs there."""
        return faults_known(
            self.faults,
            engine=self.engine,
            version=self.engine_version,
            parser=self.parser,
            tools_parser=self.tools_parser,
        )

    def faults_met(
        self, *, endpoint: str, stream: bool, asked: bool, conditions: Collection[str]
    ) -> tuple[KnownFault, ...]:
        """Those of them that a request meets; arguments as `gateway.rulebook.faults.faults_of` has them."""
        return faults_of(
            self.faults,
            engine=self.engine,
            version=self.engine_version,
            parser=self.parser,
            tools_parser=self.tools_parser,
            endpoint=endpoint,
            stream=stream,
            asked=asked,
            conditions=conditions,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the request's `X-Integrity-*` headers ask for, after the allow-list; they only narrow."""

    report: bool = False
    reasoning_field: ReasoningField | None = None
    observe: bool = False
