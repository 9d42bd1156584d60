"""Every cap has a value, a unit, a reason and a behaviour (contract section 3: documented beside its default)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gateway.limits import Limits

FIELDS = dataclasses.fields(Limits)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("promote", 64 * 1024),
        ("unknown_start", 4 * 1024),
        ("dedup", 1024 * 1024),
        ("channel_text", 8 * 1024 * 1024),
    ],
)
def test_a_cap_that_the_contract_names_has_its_value(name: str, value: int) -> None:
    assert getattr(Limits(), name) == value


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_cap_says_its_unit_its_reason_and_what_happens_at_it(field: dataclasses.Field[Any]) -> None:
    assert field.default > 0
    assert field.metadata["unit"] in ("characters", "bytes", "choices", "connections")
    assert field.metadata["why"] and field.metadata["at_cap"]


def test_what_cannot_be_read_whole_is_never_dropped() -> None:
    for name in ("request_body", "response_body", "sse_line", "sse_event"):
        [field] = [field for field in FIELDS if field.name == name]
        assert "forwarded" in field.metadata["at_cap"]


def test_a_line_fits_into_an_event() -> None:
    assert Limits().sse_line <= Limits().sse_event


def test_caps_are_values() -> None:
    assert Limits(header=7) == dataclasses.replace(Limits(), header=7)
