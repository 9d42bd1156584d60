"""The counts of one exchange and the report made of them (contract section 4)."""

from __future__ import annotations

import pytest

from gateway.findings import Finding
from gateway.integrity.tally import Row, Tally
from gateway.policy import Mode, Profile, policy_for


def tally(profile: Profile = Profile.FULL, **modes: Mode) -> Tally:
    """An empty tally."""
    return Tally(policy_for(profile, findings=modes))


@pytest.mark.parametrize(
    ("profile", "modes", "action", "done"),
    [
        (Profile.FULL, {}, "moved", "moved"),
        (Profile.OBSERVE, {}, "moved", "would_move"),
        (Profile.FULL, {"reasoning_leak": Mode.OBSERVE}, "moved", "would_move"),
        (Profile.FULL, {"reasoning_leak": Mode.OFF}, "moved", None),
        (Profile.OBSERVE, {"reasoning_leak": Mode.OFF}, "moved", None),
        (Profile.OBSERVE, {}, "flagged", "flagged"),  # nothing is done in any mode
        (Profile.OBSERVE, {}, "kept", "kept"),
        (Profile.OBSERVE, {}, "capped", "capped"),
    ],
)
def test_an_action_is_counted_as_what_was_done_or_would_have_been(
    profile: Profile, modes: dict[str, Mode], action: str, done: str | None
) -> None:
    counted = tally(profile, **modes)
    counted.add(Finding.REASONING_LEAK, action)
    assert [row.action for row in counted.rows] == ([done] if done else [])


@pytest.mark.parametrize(
    ("profile", "mode", "done", "action"),
    [
        (Profile.FULL, Mode.OBSERVE, True, "removed"),  # its mode is of what is malformed, but a cut call goes
        (Profile.FULL, Mode.ENFORCE, False, "would_remove"),
        (Profile.FULL, Mode.OFF, True, None),
        (Profile.OBSERVE, Mode.ENFORCE, False, "would_remove"),
    ],
)
def test_where_something_else_than_the_mode_decides_it_is_told(
    profile: Profile, mode: Mode, done: bool, action: str | None
) -> None:
    counted = tally(profile, tool_markup_leak=mode)
    counted.add(Finding.TOOL_MARKUP_LEAK, "removed", done=done)
    assert [row.action for row in counted.rows] == ([action] if action else [])


@pytest.mark.parametrize(
    ("action", "undone"),
    [
        ("moved", "would_move"),
        ("stripped", "would_strip"),
        ("promoted", "would_promote"),
        ("replayed", "would_replay"),
        ("suppressed", "would_suppress"),
        ("split", "would_split"),
        ("hidden", "would_hide"),
        ("added", "would_add"),
        ("emptied", "would_empty"),
        ("rescued", "would_rescue"),
        ("removed", "would_remove"),
        ("repaired", "would_repair"),
        ("left", "left"),
    ],
)
def test_what_is_not_done_has_the_base_form_of_its_action(action: str, undone: str) -> None:
    counted = tally(Profile.OBSERVE)
    counted.add(Finding.REASONING_LEAK, action)
    assert [row.action for row in counted.rows] == [undone]


def test_equal_findings_are_one_row() -> None:
    counted = tally()
    for marker in ("<think>", "</think>", "<think>"):
        counted.add(Finding.BOUNDARY_TOKEN, "stripped", marker=marker, where="content")
    assert counted.report() == [
        {"finding": "boundary_token", "action": "stripped", "count": 1, "marker": "</think>", "where": "content"},
        {"finding": "boundary_token", "action": "stripped", "count": 2, "marker": "<think>", "where": "content"},
    ]


def test_the_report_has_the_order_of_the_vocabulary_whatever_came_first() -> None:
    forward, backward = tally(), tally()
    for counted, order in ((forward, 1), (backward, -1)):
        for finding in list(Finding)[::order]:
            for where in ("content", "reasoning")[::order]:
                counted.add(finding, "flagged", where=where, rule="r")
    assert forward.report() == backward.report()
    assert [entry["finding"] for entry in forward.report()][::2] == [str(finding) for finding in Finding]


def test_the_header_has_one_count_a_finding() -> None:
    counted = tally()
    counted.add(Finding.TRUNCATED, "flagged", where="content")
    counted.add(Finding.BOUNDARY_TOKEN, "stripped", marker="<think>")
    counted.add(Finding.BOUNDARY_TOKEN, "stripped", marker="</think>")
    assert counted.header() == "boundary_token=2,truncated=1"
    assert tally().header() == ""


@pytest.mark.parametrize(
    ("finding", "leaky"), [(Finding.REASONING_LEAK, True), (Finding.TRUNCATED, False), (Finding.EMPTY_RESPONSE, False)]
)
@pytest.mark.parametrize("profile", [Profile.FULL, Profile.OBSERVE])
def test_an_answer_is_leaky_whether_it_was_repaired_or_not(profile: Profile, finding: Finding, leaky: bool) -> None:
    counted = tally(profile)
    assert counted.leaky == set()
    counted.add(finding, "moved", where="content")
    counted.add(finding, "moved", where="reasoning")
    assert counted.leaky == ({finding} if leaky else set())
    assert counted.delivered == ({finding} if leaky and profile is Profile.OBSERVE else set())


@pytest.mark.parametrize(("action", "delivered"), [("moved", False), ("kept", True), ("capped", True)])
def test_a_leak_about_which_nothing_could_be_done_reached_the_client(action: str, delivered: bool) -> None:
    counted = tally()
    counted.add(Finding.REASONING_LEAK, action)
    assert bool(counted.delivered) is delivered


@pytest.mark.parametrize(("profile", "suppressed"), [(Profile.REPAIR, 5), (Profile.OBSERVE, 0)])
def test_nothing_is_suppressed_where_the_engines_own_bytes_go_out(profile: Profile, suppressed: int) -> None:
    counted = tally(profile)
    counted.characters_suppressed += 5
    assert counted.suppressed == suppressed


def test_findings_come_with_their_counts() -> None:
    counted = tally()
    counted.add(Finding.REASONING_LEAK, "moved", where="content")
    assert counted.findings == [(Row(Finding.REASONING_LEAK, "moved", None, None, "content"), 1)]
