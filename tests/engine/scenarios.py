"""`scenarios.yaml` and `modes.yaml` as values. Knows how they are written; runs and judges nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
SHAPES = ("plain", "streamed")
DIRECT = "direct"
RECEIVED = "received"

PATHS: Mapping[str, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
TURN = [{"role": "user", "content": "hi"}]
BODIES: Mapping[str, Mapping[str, Any]] = {
    "chat": {"messages": TURN, "max_tokens": 200},
    "completions": {"prompt": "hi", "max_tokens": 200},
    "responses": {"input": "hi", "max_output_tokens": 200},
    "messages": {"messages": TURN, "max_tokens": 200},
}
PAUSE_MS = 5
"""Between two tokens: where the engine's front end lags behind, it joins tokens, and #51641 loses other letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What the client of one choice should get. `calls`: name and arguments of each."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One exchange. `emit`: for each choice a text, or texts encoded apart. The keys are those of `scenarios.yaml`."""

    name: str
    endpoint: str
    emit: tuple[str | list[str], ...]
    request: Mapping[str, Any]
    right: tuple[Right, ...]
    right_by_ids: tuple[Right, ...]

    def body(self, group: Group, shape: str) -> dict[str, Any]:
        """The request that makes the engine of `group` emit it."""
        forced = {f"emit_{seed}": text for seed, text in enumerate(self.emit)}
        single = {"emit": self.emit[0]} if len(self.emit) == 1 else forced
        made = {"model": "tiny", **BODIES[self.endpoint], **group.request, **self.request}
        return {**made, "stream": shape == "streamed", "vllm_xargs": {**single, "pause_ms": PAUSE_MS}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One start of the engine with `flags`, and what the operator of such an engine writes into the `route`."""

    name: str
    flags: tuple[str, ...]
    route: Mapping[str, Any]
    scenarios: tuple[Scenario, ...]
    request: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One gateway. `config`: its configuration without routes, `route`: more keys of the one route.

    `reads_ids`: it knows markers by their token ids. `asks_otherwise`: it asks the engine for something else than
    the client did, so the generation may be another one.
    """

    name: str
    config: Mapping[str, Any]
    route: Mapping[str, str] = field(default_factory=dict)
    reads_ids: bool = False
    asks_otherwise: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Case:
    """One answer of one scenario, as it is written in `expected.yaml`."""

    group: str
    scenario: str
    shape: str

    def __str__(self) -> str:
        return f"{self.group}/{self.scenario}/{self.shape}"


def _scenario(name: str, row: dict[str, Any]) -> Scenario:
    emit = row["emit"]
    choices = [pieces if len(pieces) > 1 else pieces[0] for pieces in emit] if isinstance(emit[0], list) else [emit]
    calls = tuple((called, arguments) for called, arguments in row.get("calls", ()))
    right = tuple(Right(reasoning=r, content=c, calls=calls) for r, c in _both(row))
    by_ids = tuple(Right(reasoning=r, content=c) for r, c in _both(row["by_ids"])) if "by_ids" in row else right
    assert len(right) == len(choices), name
    return Scenario(
        name=name,
        endpoint=row.get("endpoint", "chat"),
        emit=tuple(choices),
        request=row.get("request", {}),
        right=right,
        right_by_ids=by_ids,
    )


def _both(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    texts = [[text] if isinstance(text, str) else text for text in (row["reasoning"], row["content"])]
    yield from zip(*texts, strict=True)


def _load() -> tuple[dict[str, Scenario], dict[str, Group]]:
    data = yaml.safe_load((HERE / "scenarios.yaml").read_text("utf-8"))
    scenarios = {name: _scenario(name, row) for name, row in data["scenarios"].items()}
    groups = {
        name: Group(
            name=name,
            flags=tuple(row["flags"]),
            route=row["route"],
            request=row.get("request", {}),
            scenarios=tuple(scenarios[wanted] for wanted in row["scenarios"]),
        )
        for name, row in data["groups"].items()
    }
    return scenarios, groups


SCENARIOS, GROUPS = _load()
MODES = [Mode(**row) for row in yaml.safe_load((HERE / "modes.yaml").read_text("utf-8"))]
COLUMNS = (DIRECT, *(mode.name for mode in MODES))


def cases(group: Group) -> list[Case]:
    """Every answer of a group."""
    return [Case(group=group.name, scenario=s.name, shape=shape) for s in group.scenarios for shape in SHAPES]


def right_in(column: str, scenario: Scenario) -> tuple[Right, ...]:
    """What is right in a column: one mode may know what another cannot."""
    by_ids = any(mode.reads_ids for mode in MODES if mode.name == column)
    return scenario.right_by_ids if by_ids else scenario.right
