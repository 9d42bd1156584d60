"""Floor 0: what a route wants done, as plain values. Filled by `gateway.server.config`, read by every floor above."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gateway.findings import Finding


class Profile(StrEnum):
    """The three promises (contract section 1)."""

    OBSERVE = "observe"
    REPAIR = "repair"
    FULL = "full"


class Mode(StrEnum):
    """What happens to one finding."""

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"


class ReasoningField(StrEnum):
    """The name(s) under which a client receives the reasoning."""

    BOTH = "both"
    REASONING = "reasoning"
    REASONING_CONTENT = "reasoning_content"
    NONE = "none"
    AS_UPSTREAM = "as_upstream"


# What a profile does about a finding that the configuration does not name; everything else is enforced.
_DEFAULT: Mapping[Profile, Mapping[Finding, Mode]] = {
    Profile.OBSERVE: {},
    Profile.REPAIR: {Finding.FINISH_REASON_FIXED: Mode.OBSERVE, Finding.TOOL_MARKUP_LEAK: Mode.OBSERVE},
    Profile.FULL: {Finding.TOOL_MARKUP_LEAK: Mode.OBSERVE},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedup:
    """Suppression of an answer that only repeats the reasoning."""

    enabled: bool = True
    match: str = "trim"  # trim | exact
    min_length: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRescue:
    """Calls left as text become calls. `content`: marked ones at the end of the answer. `reasoning`: one that ends the
    output inside a thought. `markerless`: bare JSON and Python lists. `deny`: globs of tool names that are never
    rescued. `stream`: a call goes out when its structure has closed (`complete`), or as it comes (`incremental`).
    """

    content: Mode = Mode.ENFORCE
    reasoning: Mode = Mode.OBSERVE
    markerless: Mode = Mode.OBSERVE
    stream: str = "complete"
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The `policy` block of a route after defaults of the profile are in."""

    profile: Profile
    reasoning_field: ReasoningField
    findings: Mapping[Finding, Mode] = field(default_factory=dict)
    dedup: Dedup = Dedup()
    tool_rescue: ToolRescue = ToolRescue()
    promote_reasoning: str = "thinking_off"  # never | thinking_off
    on_internal_error: str = "pass"  # pass | error
    history: str = "leave"  # leave | auto | keep | strip | tool_loop; acts in full only
    stop: str = "engine"  # engine | auto | in_step | gateway: who matches stop strings; acts in full only
    tokens: str = "never"  # never | auto | ids | logprobs: what is asked for of the tokens; acts in full only
    raw_text: str = "leave"  # leave | split: text of endpoints that engines never split
    phase_commentary: str = "keep"  # keep | drop: progress messages of the Responses API

    def mode(self, finding: Finding) -> Mode:
        """What to do about `finding`. The profile's off-switch beats the finding's own key (contract section 3)."""
        wanted = self.findings.get(finding, _DEFAULT[self.profile].get(finding, Mode.ENFORCE))
        if self.profile is Profile.OBSERVE and wanted is Mode.ENFORCE:
            return Mode.OBSERVE
        return wanted

    def rescue(self, where: str) -> Mode:
        """What to do about a call left as text: `where` is a key of `ToolRescue`. The finding's own key beats it."""
        wanted: Mode = self.findings.get(Finding.TOOL_RESCUED, getattr(self.tool_rescue, where))
        return Mode.OBSERVE if self.profile is Profile.OBSERVE and wanted is Mode.ENFORCE else wanted

    def with_field(self, name: ReasoningField) -> Policy:
        """The same policy with the reasoning under another name."""
        return replace(self, reasoning_field=name)

    def enforces(self, finding: Finding) -> bool:
        """True where the action of `finding` is carried out."""
        return self.mode(finding) is Mode.ENFORCE


def policy_for(profile: Profile, **changes: object) -> Policy:
    """The profile's defaults with `changes` laid over them."""
    as_upstream = profile is Profile.OBSERVE
    reasoning_field = ReasoningField.AS_UPSTREAM if as_upstream else ReasoningField.BOTH
    asks = {"history": "auto", "stop": "auto", "tokens": "auto"} if profile is Profile.FULL else {}
    values: dict[str, object] = {"reasoning_field": reasoning_field, **asks, **changes}
    return Policy(profile=profile, **values)  # type: ignore[arg-type]
