"""The tool-call corpora, row by row, at every way of sending the same answer: none disagrees, each is as expected.

`bugs_tools`: failures that people reported. `vllm_tools`, `sglang_tools`: the engines' own parser tests.
`tool_literals`: one text per syntax and engine parser. `injection`: calls that stand in the request, and answers that
repeat them. `make_calls.py` wrote the files. `divergences.yaml` names each row that is read otherwise here, and says
which rule decides.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.support.cases import CORPUS, CUTS, Case, alike, rows, value, variants, wrong

FILES = {"bugs_tools": 52, "vllm_tools": 448, "sglang_tools": 140, "tool_literals": 184, "injection": 60}
FINE = (1, 2, 3, 5, 7, 11, 23, 1 << 30)  # the cuts of the literals
DIVERGENCES: dict[str, str] = yaml.safe_load((CORPUS / "divergences.yaml").read_text("utf-8"))
ROWS = {name: rows(name) for name in FILES}


def errors(case: Case, *, cuts: tuple[int, ...]) -> dict[str, list[str]]:
    """What is wrong, by variant. Variants that disagree are an error of their own."""
    got = variants(case, cuts)
    assert len({one.same(case) for one in got.values()}) == 1, f"{case['id']} depends on how it is cut: {got}"
    judged = {name: wrong(case, one, findings=case["judge_findings"] and name != "quiet") for name, one in got.items()}
    return {name: found for name, found in judged.items() if found}


@pytest.mark.parametrize("name", FILES)
def test_every_row_is_as_expected_at_every_cut_or_a_rule_says_why_not(name: str) -> None:
    found = {case["id"]: errors(case, cuts=FINE if name == "tool_literals" else CUTS) for case in ROWS[name]}
    wrong_rows = {identity: reasons for identity, reasons in found.items() if reasons and identity not in DIVERGENCES}
    assert wrong_rows == {}
    listed_but_right = [identity for identity, reasons in found.items() if not reasons and identity in DIVERGENCES]
    assert listed_but_right == []


@pytest.mark.parametrize(("name", "size"), FILES.items())
def test_the_files_hold_what_their_sources_hold(name: str, size: int) -> None:
    assert len({case["id"] for case in ROWS[name]}) == len(ROWS[name]) == size


@pytest.mark.parametrize("name", ["vllm_tools", "sglang_tools", "tool_literals"])
def test_of_the_engines_own_rows_at_least_95_of_100_are_read_as_the_engine_does(name: str) -> None:
    same = [case["id"] not in DIVERGENCES for case in ROWS[name]]
    assert sum(same) >= 0.95 * len(same)


def test_every_divergence_is_a_row_and_names_the_rule_that_decides() -> None:
    assert set(DIVERGENCES) <= {case["id"] for cases in ROWS.values() for case in cases}
    assert [reason for reason in DIVERGENCES.values() if not re.match(r"(rule \d+|section \d): \w", reason)] == []


# ---------------------------------------------------------------------- the judge itself


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"content": "x"}, "content"),
        ({"reasoning": "x"}, "reasoning"),
        ({"tool_calls": [{"name": "f", "arguments": "{}"}]}, "calls"),
        ({"finish_reason": "length"}, "finish"),
        ({"flags": ["truncated"]}, "findings"),
    ],
)
def test_the_judge_sees_each_kind_of_difference(change: dict[str, Any], said: str) -> None:
    case = ROWS["injection"][0]
    (got, *_) = variants(case, cuts=()).values()
    assert wrong(case, got, findings=True) == []
    (first, *_) = wrong(case | {"expect": case["expect"] | change}, got, findings=True)
    assert first.startswith(said)


def test_values_are_compared_as_json_with_true_apart_from_1() -> None:
    assert alike(value('{"a": 1.0, "b": [1]}'), {"b": [1], "a": 1})
    assert not alike({"a": True}, {"a": 1}) and not alike([1], [1, 2]) and not alike({"a": 1}, {"b": 1})
    assert value("{") == "{"
