"""Two answers in two columns, the leaked text marked, and the table of leaks: text in, lines out.

Owns the layout of `demo`. Knows no socket, no gateway, no terminal: the width and whether to colour are given.
A character is taken to be one column wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

LEAK, DIM, BOLD, RESET = "\x1b[1;37;41m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
RULE = " | "
INDENT = "  "
EMPTY = "(nothing)"

Atom = tuple[str, bool]
"""One character as it is shown, and whether it leaked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """`width` in columns of the terminal; `colour` off prints no escape sequence at all."""

    width: int
    colour: bool

    def paint(self, code: str, text: str) -> str:
        return f"{code}{text}{RESET}" if self.colour and text else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One labelled text of an answer. `expected` is what should stand there: the rest of `text` leaked."""

    label: str
    text: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakRow:
    """One line of the leak table. `direct` and `through`: how often a client sees it without and with the gateway."""

    case: str
    finding: str
    leaked: str
    direct: int
    through: int


def visible(text: str) -> str:
    """`text` on one line: line breaks and control characters as escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def leaked_parts(text: str, expected: str) -> tuple[str, str]:
    """What stands before and behind the last occurrence of `expected`; all of `text` where it does not occur."""
    before, found, behind = text.rpartition(expected) if expected else ("", "", "")
    return (before, behind) if found else (text, "")


def _atoms(part: Part) -> list[Atom]:
    before, behind = leaked_parts(part.text, part.expected)
    kept = range(len(before), len(part.text) - len(behind))
    return [(visible(char), at not in kept) for at, char in enumerate(part.text)]


def _fitting(atoms: Sequence[Atom], width: int) -> int:
    """How many atoms go on a line: up to the last space that fits, else as many as fit, at least one."""
    used = space = 0
    for count, (shown, _) in enumerate(atoms):
        used += len(shown)
        if used > width:
            return space or count or 1
        if shown == " ":
            space = count + 1
    return len(atoms)


def wrap(atoms: Sequence[Atom], width: int) -> Iterator[list[Atom]]:
    """Lines of at most `width` columns, broken behind a space where there is one."""
    while atoms:
        count = _fitting(atoms, width)
        yield list(atoms[:count])
        atoms = atoms[count:]


def _cell(part: Part, width: int, style: Style) -> list[str]:
    """The label and the wrapped text under it, each line padded to `width` columns."""
    lines = [style.paint(DIM, part.label.ljust(width))]
    if not part.text:
        return [*lines, style.paint(DIM, (INDENT + EMPTY).ljust(width))]
    room = width - len(INDENT)
    for line in wrap(_atoms(part), room):
        runs = [(leaked, "".join(shown for shown, _ in run)) for leaked, run in groupby(line, key=lambda atom: atom[1])]
        painted = "".join(style.paint(LEAK, text) if leaked else text for leaked, text in runs)
        lines.append(INDENT + painted + " " * (room - sum(len(text) for _, text in runs)))
    return lines


def side_by_side(titles: tuple[str, str], left: Sequence[Part], right: Sequence[Part], style: Style) -> list[str]:
    """The parts of two answers, row by row."""
    width = (style.width - len(RULE)) // 2
    blank = " " * width
    lines = [RULE.join(style.paint(BOLD, title.ljust(width)) for title in titles), "-+-".join(["-" * width] * 2)]
    for one, other in zip(left, right, strict=True):
        cells = _cell(one, width, style), _cell(other, width, style)
        height = max(map(len, cells))
        columns = (cell + [blank] * (height - len(cell)) for cell in cells)
        lines += [RULE.join(row) for row in zip(*columns, strict=True)]
    return [line.rstrip() for line in lines]


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 2] + ".."


def leak_table(rows: Iterable[LeakRow], style: Style) -> list[str]:
    """Case, finding, what leaked, and the two counts; a case's name stands in its first row only."""
    cells = [("case", "finding", "what leaked", "direct", "gateway")]
    last = ""
    for row in rows:
        name = "" if row.case == last else row.case
        cells.append((name, row.finding, visible(row.leaked), str(row.direct), str(row.through)))
        last = row.case
    case, finding, _, direct, through = (max(len(line[column]) for line in cells) for column in range(5))
    leaked = max(style.width - case - finding - direct - through - 4, 1)
    lines = [
        f"{a:<{case}} {b:<{finding}} {_clipped(c, leaked):<{leaked}} {d:>{direct}} {e:>{through}}"
        for a, b, c, d, e in cells
    ]
    return [style.paint(BOLD, lines[0]), "-" * style.width, *lines[1:]]
