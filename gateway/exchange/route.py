"""What one exchange is told about its route: values only, filled by `gateway.server.config`."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.limits import Limits
from gateway.policy import Policy, ReasoningField
from gateway.rulebook.dialect import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRules:
    """How answers on a route are read and what is done about them.

    `dialect` is None for `dialect: none`: no text is read, only fields are. `source`: `auto`, `fields` or `text`
    (contract section 3). `starts_in`: `auto`, `content` or `reasoning`. `thinking_default`: `auto`, `on` or `off`.
    `reasoning_end_string`: as given to the engine's `--reasoning-config`, or None.
    """

    name: str
    dialect: Dialect | None
    source: str
    starts_in: str
    thinking_default: str
    policy: Policy
    limits: Limits
    reasoning_end_string: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the request's `X-Integrity-*` headers ask for, after the allow-list; they only narrow."""

    report: bool = False
    reasoning_field: ReasoningField | None = None
    observe: bool = False
