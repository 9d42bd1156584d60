"""The declared windows, as the page `docs/holding.md` and the hold metrics are made from them."""

from __future__ import annotations

import dataclasses

from gateway.integrity.holds import HOLDS, Hold
from gateway.limits import Limits

RULE_8 = {
    "marker",
    "tool_region",
    "dedup",
    "promote",
    "unknown_start",
    "stop",
}  # of contract rule 8, what this version does
FORMS_OF_A_MARKER = {"header", "quoted_end", "end_string"}  # which need more text to be told


def test_only_the_windows_of_the_contract_are_declared() -> None:
    assert {hold.cause for hold in HOLDS} == RULE_8 | FORMS_OF_A_MARKER


BY_LENGTH = {"marker", "stop"}  # bounded by the length of what is looked for


def test_every_other_window_has_a_cap_of_its_own_in_the_limits() -> None:
    caps = {field.name for field in dataclasses.fields(Limits)}
    assert {hold.cap for hold in HOLDS if hold.cause not in BY_LENGTH} <= caps


def test_a_window_says_what_it_holds_why_and_until_when() -> None:
    assert not [hold for hold in HOLDS if not all(dataclasses.astuple(hold))]
    assert isinstance(HOLDS[0], Hold)
