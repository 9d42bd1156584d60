"""The metric table of the operations page is the catalogue; the page's promises name what exists."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.protocols import UNREAD_TEXT
from gateway.server.catalogue import ACTIONS, CATALOGUE, FALLBACKS, MODELS_KEPT
from gateway.server.config import Timeouts
from gateway.server.engines import KNOWN_SECONDS, UNKNOWN_SECONDS

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")


def test_the_page_has_one_row_for_each_metric_with_its_labels_and_its_help() -> None:
    rows = re.findall(r"^\| `(integrity_\w+)` \| (\w+) \| ([^|]*) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    expected = [
        (family.exposed, family.kind, ", ".join(f"`{label}`" for label in family.labels), family.help)
        for family in CATALOGUE
    ]
    assert rows == expected


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"Every {KNOWN_SECONDS:g} seconds, and every {UNKNOWN_SECONDS:g} until" in PAGE
    assert f"at most {MODELS_KEPT} in the life of a process" in PAGE
    assert f"`timeouts.heartbeat` ({Timeouts().heartbeat:g} s)" in PAGE


def test_the_page_names_every_route_whose_text_is_not_read() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (`[^|]+`) \|$", PAGE, re.MULTILINE)
    said = {name: tuple(re.findall(r"`([^`]+)`", routes.replace("…", "*"))) for name, routes in rows}
    assert said == UNREAD_TEXT
    assert set(UNREAD_TEXT) <= set(FALLBACKS)


def test_metrics_that_the_page_speaks_of_exist() -> None:
    known = {family.exposed for family in CATALOGUE}
    assert set(re.findall(r"integrity_\w+", PAGE)) <= known


def test_no_action_of_the_start_is_one_that_was_not_done() -> None:
    assert not [action for actions in ACTIONS.values() for action in actions if action.startswith("would_")]
