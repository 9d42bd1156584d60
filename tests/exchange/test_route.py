"""What an exchange is told about its route."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.exchange.route import Overrides, RouteRules
from tests.exchange.driver import route


def test_headers_ask_for_nothing_unless_they_say_so() -> None:
    assert Overrides() == Overrides(report=False, reasoning_field=None, observe=False)


def test_the_values_of_a_route_cannot_be_changed_behind_an_exchange() -> None:
    rules = route()
    assert isinstance(rules, RouteRules)
    with pytest.raises(dataclasses.FrozenInstanceError):
        rules.source = "text"  # type: ignore[misc]


def test_a_route_has_no_reasoning_end_string_of_its_own() -> None:
    assert route().reasoning_end_string is None
