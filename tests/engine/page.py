"""The page `docs/engine-tests.md`: what the real engine sent, and what came through the gateway in every mode.

    python -m tests.engine.page

Prints the page. Owns its words and its look. It is made of `expected.yaml`, which `make engine-test` holds to what the
engine does.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.engine.pins import PINS, Row, expected
from tests.engine.scenarios import (
    COLUMNS,
    DIRECT,
    GROUPS,
    MODES,
    RECEIVED,
    Case,
    Group,
    Mode,
    Scenario,
    cases,
    right_in,
)
from tests.engine.verdict import ALSO, RIGHT, shown

HEAD = """<!-- Written by `make docs` (`python -m tests.engine.page`); edit tests/engine, not this file. -->

# The real engine, directly and through the gateway

`make engine-test` builds vLLM 0.32.0 for the CPU, with a model that emits what the request says, into `.engine`, and
sends every scenario of `tests/engine/scenarios.yaml` to it directly and through a gateway of every mode, plain and
streamed. The engine is unmodified behind its logits: detokenizer, stop strings, parsers and framing are its own. The
run fails where an answer is not what this page says, for better or worse. It takes about fourteen minutes on two cores,
the first time two more for the build; nothing of it runs in `make test`.

"""

TALLY = ("right", "better", "as it came", "worse")

READING = """
*Right*: what the engine sent is right, or was made right. *Better*: less is wrong with it than directly.
*Worse*: more is, or another thing. It happens only in a mode that asks the engine for something else than the client
did (`asks_otherwise`); the reason says what.

## How to read it

A row is one answer that is not right directly or in some mode; the others are summed up in the first row of their
group. `right`: every text is in its field, as the emitted text says. Otherwise:

* `leaked N`: so many characters are in a field that should not have them: a marker or a piece of one, or the other
  field's text.
* `lost N`: so many characters of what is right are in no field, because the engine dropped them.
"""

BEHIND = """
*Should be* and *came directly* are reasoning ¦ content; `‖` stands between choices. A column is a mode of the gateway:
`=` is what came directly, `right` is repaired. The number is the reason, in the list below.

"""

MORE = """
## Another mode

A mode is a row of `tests/engine/modes.yaml`: a name and the top of a configuration, and `reads_ids: true` where the
gateway tells markers by token ids (then `by_ids` of a scenario is what is right) and `asks_otherwise: true` where it
may get another answer than the client's own request would. `python -m tests.engine.run` prints
`tests/engine/expected.yaml` with the new column; look at it, give new rows their reason, and run `make docs`.
"""


def page(pins: list[Row]) -> str:
    """The page as Markdown."""
    numbers = {row.why: number for number, row in enumerate(pins, 1)}
    words = "".join(f"* `{word}`: {meaning}.\n" for word, meaning in ALSO.items())
    reasons = "".join(f"{number}. {why}\n" for why, number in numbers.items())
    parts = [HEAD, _totals(pins), READING, words, BEHIND, reasons]
    parts += [_group(group, pins, numbers) for group in GROUPS.values()]
    return "".join([*parts, MORE])


def _totals(pins: list[Row]) -> str:
    every = [expected(case, pins) for group in GROUPS.values() for case in cases(group)]
    lines = [["mode", "configuration", "answers", *TALLY]]
    for name, config in [(DIRECT, "no gateway"), *((mode.name, _config(mode)) for mode in MODES)]:
        counts = Counter(_compared(cells[DIRECT], cells[name]) for cells in every)
        lines.append([name, config, str(len(every)), *(str(counts[kind]) for kind in TALLY)])
    return _markdown(lines)


def _config(mode: Mode) -> str:
    keys = {**mode.config, **{f"route {key}": value for key, value in mode.route.items()}}
    return ", ".join(f"`{key}: {value}`" for key, value in keys.items())


def _compared(direct: str, through: str) -> str:
    """One of `TALLY`."""
    if through == RIGHT:
        return "right"
    if through == direct:
        return "as it came"
    return "better" if wrong(through) < wrong(direct) else "worse"


def wrong(words: str) -> int:
    """Characters that are wrong."""
    return sum(map(int, re.findall(r"\d+", words)))


def _group(group: Group, pins: list[Row], numbers: Mapping[str, int]) -> str:
    names = {scenario.name: scenario for scenario in group.scenarios}
    flags = " ".join(group.flags)
    lines = [["scenario", "", "should be", "came directly", *COLUMNS, ""]]
    listed = [case for case in cases(group) if any(case in row.cells for row in pins)]
    if right := len(cases(group)) - len(listed):
        lines.append([f"*{right} right*", "", "", "", *[RIGHT] * len(COLUMNS), ""])
    lines += [_line(case, names[case.scenario], pins, numbers) for case in listed]
    return f"\n## {group.name}\n\n{f'`{flags}`' if flags else 'No parser.'}\n\n{_markdown(lines)}"


def _line(case: Case, scenario: Scenario, pins: list[Row], numbers: Mapping[str, int]) -> list[str]:
    cells = expected(case, pins)
    should = shown([(right.reasoning, right.content) for right in right_in(DIRECT, scenario)])
    why = next(row.why for row in pins if case in row.cells)
    columns = [cells[name] if name == DIRECT or cells[name] != cells[DIRECT] else "=" for name in COLUMNS]
    return [case.scenario, case.shape, _code(should), _code(cells.get(RECEIVED, "")), *columns, f"({numbers[why]})"]


def _code(text: str) -> str:
    """Model output as a cell: it may have pipes and backticks."""
    escaped = html.escape(text, quote=False).replace("|", "&#124;").replace("\n", "⏎").replace("`", "&#96;")
    return f"<code>{escaped}</code>" if text else ""


def _markdown(lines: Iterable[Sequence[str]]) -> str:
    return "".join(_rows(lines))


def _rows(lines: Iterable[Sequence[str]]) -> Iterator[str]:
    for number, cells in enumerate(lines):
        yield f"| {' | '.join(cells)} |\n"
        if number == 0:
            yield f"| {' | '.join(['---'] * len(cells))} |\n"


if __name__ == "__main__":
    print(page(PINS), end="")
