"""What a profile does about a finding (contract sections 1, 3 and 5 rule 4)."""

from __future__ import annotations

import pytest

from gateway.findings import Finding
from gateway.policy import Dedup, Mode, Policy, Profile, ReasoningField, ToolRescue, policy_for

OBSERVE, REPAIR, FULL = Profile.OBSERVE, Profile.REPAIR, Profile.FULL


@pytest.mark.parametrize("finding", Finding)
def test_observe_enforces_nothing_and_full_everything_but_the_removal_of_malformed_calls(finding: Finding) -> None:
    enforced = finding is not Finding.TOOL_MARKUP_LEAK  # rule 5: the text stays, removed only when enforced
    assert policy_for(OBSERVE).mode(finding) is Mode.OBSERVE
    assert policy_for(FULL).mode(finding) is (Mode.ENFORCE if enforced else Mode.OBSERVE)
    assert (policy_for(OBSERVE).enforces(finding), policy_for(FULL).enforces(finding)) == (False, enforced)


@pytest.mark.parametrize("finding", Finding)
def test_repair_leaves_to_full_what_only_full_promises(finding: Finding) -> None:
    observed = (Finding.FINISH_REASON_FIXED, Finding.TOOL_MARKUP_LEAK)  # rule 4: added and counted in full
    assert policy_for(REPAIR).enforces(finding) is (finding not in observed)


@pytest.mark.parametrize(
    ("profile", "changes", "modes"),
    [
        (FULL, {}, "enforce observe observe"),
        (REPAIR, {}, "enforce observe observe"),
        (OBSERVE, {}, "observe observe observe"),  # the profile's off-switch beats the keys
        (OBSERVE, {"tool_rescue": ToolRescue(content=Mode.OFF, markerless=Mode.ENFORCE)}, "off observe observe"),
        (
            FULL,
            {"tool_rescue": ToolRescue(content=Mode.OBSERVE, reasoning=Mode.ENFORCE, markerless=Mode.OFF)},
            "observe enforce off",
        ),
        (FULL, {"findings": {Finding.TOOL_RESCUED: Mode.OFF}}, "off off off"),  # the finding's key beats the block
        (FULL, {"findings": {Finding.TOOL_RESCUED: Mode.ENFORCE}}, "enforce enforce enforce"),
        (OBSERVE, {"findings": {Finding.TOOL_RESCUED: Mode.ENFORCE}}, "observe observe observe"),
    ],
)
def test_a_call_left_as_text_is_rescued_by_where_it_stands(
    profile: Profile, changes: dict[str, object], modes: str
) -> None:
    policy = policy_for(profile, **changes)
    assert [str(policy.rescue(where)) for where in ("content", "reasoning", "markerless")] == modes.split()


@pytest.mark.parametrize(
    ("profile", "written", "mode"),
    [
        (FULL, Mode.OFF, Mode.OFF),
        (FULL, Mode.OBSERVE, Mode.OBSERVE),
        (REPAIR, Mode.ENFORCE, Mode.ENFORCE),
        (OBSERVE, Mode.OFF, Mode.OFF),
        (OBSERVE, Mode.ENFORCE, Mode.OBSERVE),  # the profile's off-switch beats the key
    ],
)
def test_a_findings_own_key_beats_the_profile_but_not_its_off_switch(
    profile: Profile, written: Mode, mode: Mode
) -> None:
    policy = policy_for(profile, findings={Finding.FINISH_REASON_FIXED: written})
    assert policy.mode(Finding.FINISH_REASON_FIXED) is mode
    assert policy.mode(Finding.REASONING_LEAK) is (Mode.OBSERVE if profile is OBSERVE else Mode.ENFORCE)


@pytest.mark.parametrize(
    ("profile", "field", "asks"),
    [
        (OBSERVE, ReasoningField.AS_UPSTREAM, ("leave", "engine", "never")),
        (REPAIR, ReasoningField.BOTH, ("leave", "engine", "never")),
        (FULL, ReasoningField.BOTH, ("auto", "auto", "auto")),
    ],
)
def test_a_profile_has_the_defaults_of_the_contract(
    profile: Profile, field: ReasoningField, asks: tuple[str, str, str]
) -> None:
    history, stop, tokens = asks
    assert policy_for(profile) == Policy(
        profile=profile,
        reasoning_field=field,
        findings={},
        dedup=Dedup(enabled=True, match="trim", min_length=1),
        tool_rescue=ToolRescue(
            content=Mode.ENFORCE, reasoning=Mode.OBSERVE, markerless=Mode.OBSERVE, stream="complete", deny=()
        ),
        promote_reasoning="thinking_off",
        on_internal_error="pass",
        stop=stop,
        tokens=tokens,
        history=history,
    )


def test_changes_go_over_the_defaults() -> None:
    policy = policy_for(OBSERVE, reasoning_field=ReasoningField.NONE, promote_reasoning="never")
    assert (policy.reasoning_field, policy.promote_reasoning) == (ReasoningField.NONE, "never")


def test_the_reasoning_field_is_changed_alone() -> None:
    policy = policy_for(FULL, promote_reasoning="never")
    assert policy.with_field(ReasoningField.NONE) == policy_for(
        FULL, promote_reasoning="never", reasoning_field=ReasoningField.NONE
    )
