"""The real engine, directly and through every gateway: what comes out is what `expected.yaml` says.

Needs a built engine (`make engine-test`); a group starts the engine once, on the first of its answers.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.engine.pins import PINS, expected
from tests.engine.run import Seen, run
from tests.engine.scenarios import GROUPS, Case, cases


@cache
def seen(group: str) -> Seen | RuntimeError:
    """Every answer of a group, or why the engine does not serve it: that is not tried again for each answer."""
    try:
        return run(GROUPS[group])
    except RuntimeError as error:
        return error


@pytest.mark.parametrize("case", [case for group in GROUPS.values() for case in cases(group)], ids=str)
def test_an_answer_of_the_real_engine_is_as_expected_in_every_mode(case: Case) -> None:
    """One that is better fails too: then its row goes, or its number comes down."""
    answers = seen(case.group)
    if isinstance(answers, RuntimeError):
        raise answers
    assert answers[case] == expected(case, PINS)
