"""What a profile does about a finding (contract sections 1, 3 and 5 rule 4)."""

from __future__ import annotations

import pytest

from gateway.findings import Finding
from gateway.policy import Dedup, Mode, Policy, Profile, ReasoningField, policy_for

OBSERVE, REPAIR, FULL = Profile.OBSERVE, Profile.REPAIR, Profile.FULL


@pytest.mark.parametrize("finding", Finding)
def test_observe_enforces_nothing_and_full_everything(finding: Finding) -> None:
    assert policy_for(OBSERVE).mode(finding) is Mode.OBSERVE
    assert policy_for(FULL).mode(finding) is Mode.ENFORCE
    assert (policy_for(OBSERVE).enforces(finding), policy_for(FULL).enforces(finding)) == (False, True)


@pytest.mark.parametrize("finding", Finding)
def test_repair_enforces_all_but_what_only_full_promises(finding: Finding) -> None:
    enforced = finding is not Finding.FINISH_REASON_FIXED  # rule 4: added and counted in full
    assert policy_for(REPAIR).enforces(finding) is enforced


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
    ("profile", "field", "history"),
    [
        (OBSERVE, ReasoningField.AS_UPSTREAM, "leave"),
        (REPAIR, ReasoningField.BOTH, "leave"),
        (FULL, ReasoningField.BOTH, "auto"),
    ],
)
def test_a_profile_has_the_defaults_of_the_contract(profile: Profile, field: ReasoningField, history: str) -> None:
    assert policy_for(profile) == Policy(
        profile=profile,
        reasoning_field=field,
        findings={},
        dedup=Dedup(enabled=True, match="trim", min_length=1),
        promote_reasoning="thinking_off",
        on_internal_error="pass",
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
