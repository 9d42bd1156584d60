"""The rulebook, and which dialect a route's `dialect` key means (contract section 3).

Knows parser names and families, no files: `load.py` fills it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from gateway.errors import ConfigError
from gateway.rulebook.checks import NO_GRAMMAR, RESERVED, clashes, markers_of
from gateway.rulebook.dialect import CallFormat, Dialect, ToolRegion
from gateway.rulebook.faults import KnownFault
from gateway.rulebook.openings import Opening
from gateway.rulebook.schema import nearest

ENGINES = ("vllm", "sglang")
"""Engines with a registry of parser names; the first is asked first where the route does not say."""

_FLAGS = {"reasoning": "--reasoning-parser", "tools": "--tool-call-parser"}
HALVES = tuple(_FLAGS)
"""The keys of a `dialect` mapping, each with a registry of its own."""


class UnknownDialect(ConfigError):
    """No family or parser has this name. `name` is what was written, `near` what may have been meant."""

    def __init__(self, name: str, near: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.name = name
        self.near = near


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a `dialect` key means. `dialect` is None for `none`; `name` is its name; `why` is one line for the log."""

    dialect: Dialect | None
    name: str
    why: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Half:
    """What one parser name means: a dialect or a call format; None for a name without a fixed grammar."""

    meaning: Dialect | CallFormat | None
    why: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Rulebook:
    """All rules. `digest`: twelve hex digits over names and bytes of the rule files."""

    dialects: Mapping[str, Dialect]
    calls: Mapping[str, CallFormat]
    openings: tuple[Opening, ...]
    faults: tuple[KnownFault, ...]
    digest: str

    def resolve(
        self, spec: str | Mapping[str, str], *, engine: str | None, checkpoint: Resolved | None = None
    ) -> Resolved:
        """The dialect that `spec` names: a family, `auto`, `none`, or `{reasoning: NAME, tools: NAME}`.

        `vllm/NAME` and `sglang/NAME` as a plain text are the reasoning half alone, for command lines.
        `engine`: whose registry of parser names is asked first, `vllm` or `sglang`; anything else asks vLLM's first and
        warns where the two differ. `checkpoint`: the grammar that comes with the model, for a `spec` that leaves it to
        the checkpoint; beside one that names a dialect it is refused. Raises UnknownDialect for a name nobody has, and
        for a parser name written as a family, with what to write instead.
        """
        if checkpoint is not None:
            return self._of_checkpoint(spec, engine, checkpoint)
        if isinstance(spec, str):
            return self._named(spec)
        unknown = sorted(set(spec) - set(_FLAGS))
        if unknown or not spec:
            raise ConfigError(f"got {', '.join(unknown) or 'no key'}, expected reasoning and tools, or one of the two")
        first = self._half("reasoning", spec["reasoning"], engine) if "reasoning" in spec else _Half(None, "")
        second = self._half("tools", spec["tools"], engine) if "tools" in spec else _Half(None, "")
        base = first.meaning if isinstance(first.meaning, Dialect) else self._without_reasoning(second.meaning)
        why = [first.why or f"no reasoning parser is named, so {base.name}", second.why]
        dialect = with_calls(base, second.meaning) if isinstance(second.meaning, CallFormat) else base
        if "tools" not in spec and first.meaning is not None:
            dialect = replace(dialect, reads_calls=False)
        warnings = tuple(dict.fromkeys(first.warnings + second.warnings))
        return Resolved(dialect, dialect.name, "; ".join(filter(None, why)), warnings)

    def match_model(self, model: str) -> Dialect | None:
        """The family whose `models` globs know this model name; the longest glob that matches decides."""
        globs = [(len(glob), d.name) for d in self.dialects.values() for glob in d.models
                 if fnmatchcase(model.lower(), glob.lower())]  # fmt: skip
        return self.dialects[max(globs)[1]] if globs else None

    def reading(self, call: CallFormat) -> Dialect:
        """A family that writes its calls so, or the generic reading with this format."""
        families = (dialect for dialect in self.dialects.values() if call.name in dialect.calls)
        return next(families, None) or with_calls(self._without_reasoning(call), call)

    def meanings(self, half: str, name: str) -> dict[str, Dialect | CallFormat]:
        """Engine to what its parser `name` means, vLLM first; `vllm/NAME` and `sglang/NAME` ask one engine only.

        `half`: `reasoning` or `tools`.
        """
        forced, slash, bare = name.rpartition("/")
        engines = (forced,) if slash else ENGINES
        return {engine: entry for engine in engines for entry in self._entries(half)
                if bare in entry.aliases.get(engine, ())}  # fmt: skip

    def _of_checkpoint(self, spec: str | Mapping[str, str], engine: str | None, checkpoint: Resolved) -> Resolved:
        halves = {"reasoning": spec} if isinstance(spec, str) else spec
        name = halves.get("reasoning", "auto")
        if name.rpartition("/")[2] not in ("auto", *NO_GRAMMAR):
            advice = "leave `dialect` out, or write {reasoning: response_template}"
            raise ConfigError(f"{name!r} leaves nothing to the checkpoint, so no response template is read; {advice}")
        tools = self._half("tools", halves["tools"], engine) if "tools" in halves else _Half(None, "")
        if checkpoint.dialect is None or not isinstance(tools.meaning, CallFormat):
            return checkpoint
        base = replace(checkpoint.dialect, regions=(), reads_calls=True)
        dialect = with_calls(base, tools.meaning)
        why, warnings = f"{checkpoint.why}; {tools.why}", (*checkpoint.warnings, *tools.warnings)
        return Resolved(dialect, dialect.name, why, warnings)

    def _without_reasoning(self, tools: Dialect | CallFormat | None) -> Dialect:
        """What is read where no reasoning parser is named: the family that alone writes its calls in that format, which
        may take its headers to tell them; else the common think tags, without call formats of their own."""
        if tools is None:
            return self.dialects["generic"]
        families = [dialect for dialect in self.dialects.values() if tools.name in dialect.calls]
        return families[0] if len(families) == 1 else replace(self.dialects["generic"], calls=(), regions=())

    def _named(self, name: str) -> Resolved:
        if name == "none":
            return Resolved(None, "none", "`none`: nothing is read")
        if name == "auto":
            return Resolved(self.dialects["generic"], "generic", "`auto` without evidence: the common think tags")
        if name in NO_GRAMMAR:
            half = _no_grammar(name)
            return Resolved(self.dialects["generic"], "generic", half.why, half.warnings)
        if name in self.dialects:
            return Resolved(self.dialects[name], name, f"the family {name}")
        found = {half: self.meanings(half, name) for half in HALVES}
        if name.rpartition("/")[0] in ENGINES and (found["reasoning"] or not found["tools"]):
            return self.resolve({"reasoning": name}, engine=None)
        if any(found.values()):
            halves = f"{{{', '.join(f'{half}: {name}' for half, known in found.items() if known)}}}"
            engines = found["reasoning"]
            flag = f"on a command line write --dialect {next(iter(engines))}/{name}, " if engines else ""
            advice = f"{flag}behind `dialect:` in YAML write {halves}"
            raise UnknownDialect(name, (halves,), f"{name!r} is an engine's parser name, not a family; {advice}")
        near = nearest(name, [*self.dialects, *RESERVED])
        hint = _did_you_mean(near) or f"expected one of {', '.join(self.dialects)}"
        raise UnknownDialect(name, near, f"no family {name!r}; {hint}")

    def _half(self, half: str, name: str, engine: str | None) -> _Half:
        if name.rpartition("/")[2] in NO_GRAMMAR:
            return _no_grammar(name)
        found = self.meanings(half, name)
        if not found:
            names = {alias for entry in self._entries(half) for known in entry.aliases.values() for alias in known}
            near = nearest(name.rpartition("/")[2], sorted(names))
            hint = _did_you_mean(near) or "`integrity-gateway dialects list` shows those that have"
            raise UnknownDialect(name, near, f"no rules for {_FLAGS[half]} {name!r}; {hint}")
        chosen = engine if engine in found else next(iter(found))
        meaning = found[chosen]
        warnings = []
        if engine not in ENGINES and len({other.name for other in found.values()}) > 1:
            others = ", ".join(f"{other}/{name} is {found[other].name}" for other in found)
            warnings.append(f"{name!r} means different formats: {others}; read as {chosen}/{name}")
        return _Half(meaning, f"{_FLAGS[half]} {name} of {chosen} is {meaning.name}", tuple(warnings))

    def _entries(self, half: str) -> list[Dialect | CallFormat]:
        return [*self.dialects.values()] if half == "reasoning" else [*self.calls.values()]


def _no_grammar(name: str) -> _Half:
    why = f"{name} takes its grammar from the checkpoint, so it is read as `auto`"
    advice = "name the model's family where there is one, or the checkpoint's file in dialect_options.response_template"
    return _Half(None, why, (f"{why}; {advice}",))


def _did_you_mean(near: tuple[str, ...]) -> str:
    return f"did you mean {' or '.join(near)}?" if near else ""


def with_calls(dialect: Dialect, call: CallFormat) -> Dialect:
    """`dialect` with the regions of `call` beside its own. Where both have an opener, that of `call` counts.

    Raises ConfigError where a literal would mean two things in the two together.
    """
    if call.name in dialect.calls:
        return dialect
    taken = {text for region in call.regions for text in region.open}
    regions = (*_without(dialect.regions, taken), *call.regions)
    joined = replace(
        dialect,
        name=f"{dialect.name}+{call.name}",
        calls=(*dialect.calls, call.name),
        regions=regions,
        ident=call.ident,
    )
    for _, reason in clashes((group, literal, ()) for group, literal in markers_of(joined)):
        raise ConfigError(f"{dialect.name} and {call.name} do not go together: {reason}")
    return joined


def _without(regions: tuple[ToolRegion, ...], taken: set[str]) -> Iterator[ToolRegion]:
    for region in regions:
        left = tuple(text for text in region.open if text not in taken)
        if left:
            yield replace(region, open=left)
