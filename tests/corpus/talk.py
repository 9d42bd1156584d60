"""Texts that talk about tool syntax: those of `tool_talk_*.txt`, and every sample of every format, quoted in many ways.

What belongs here: an answer in which no reader may find a call, although every tool it names is declared. A text that
is a call by the contract's letter (raw text, outside quotes, a declared name, complete) does not; where that is so for
some routes only, the text says which, and why.

    fields          the engine split the answer: a call counts at its end only, so one with words behind it is text
    not FORMAT      a syntax in which the quoting itself, or what is quoted, is markup
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gateway.rulebook.dialect import CallFormat
from gateway.rulebook.load import load_rulebook

TOOLS = ("get_weather", "search", "run", "read_file", "delete_file", "send_mail", "f", "g")
_TEXT = re.compile(r"^%%%% (?P<id>\S+) \| (?P<where>[^\n]+)\n(?P<text>.*?)\n(?=%%%% |\Z)", re.M | re.S)
_WHERE = re.compile(r"everywhere|(?P<fields>fields): .{20,}|not (?P<but>\w+): .{20,}")


@dataclass(frozen=True, slots=True)
class Text:
    """`fields`: only where the engine split the answer. `but`: the format that it is not tried in."""

    id: str
    text: str
    fields: bool = False
    but: str | None = None


@cache
def written() -> tuple[Text, ...]:
    """The texts of the files. Raises ValueError where one does not say where it is tried, or why not everywhere."""
    found = []
    for path in sorted(Path(__file__).parent.glob("tool_talk_*.txt")):
        for match in _TEXT.finditer(path.read_text("utf-8")):
            where = _WHERE.fullmatch(match["where"])
            if where is None:
                raise ValueError(f"{path.name}: {match['id']}")
            found.append(Text(match["id"], match["text"], fields=where["fields"] is not None, but=where["but"]))
    return tuple(found)


# ---------------------------------------------------------------------- every sample, quoted


def _lines(text: str, mark: str) -> str:
    return "".join(mark + line for line in text.splitlines(keepends=True))


def _fence(text: str, run: str = "```", info: str = "") -> str:
    return f"{run}{info}\n{text}\n{run}"


QUOTED = {
    "a fence": lambda raw: f"It writes:\n\n{_fence(raw)}\n\nThe server reads that.",
    "a fence at the end": lambda raw: f"It writes:\n\n{_fence(raw, info='xml')}",
    "a fence of tildes": lambda raw: f"It writes:\n\n{_fence(raw, '~~~', 'text')}\n",
    "a fence in a fence": lambda raw: f"So:\n\n````md\n# Calls\n\n{_fence(raw)}\n````",
    "a fence in a list": lambda raw: f"1. It writes:\n\n{_lines(_fence(raw), '   ')}\n\n2. The server reads.",
    "a fence in a block quote": lambda raw: _lines(f"So:\n{_fence(raw)}\n", "> "),
    "a diff": lambda raw: f"The change:\n\n{_fence(_lines(raw, '+'), info='diff')}",
    "an open fence with words behind": lambda raw: f"It writes:\n\n```python\n{raw}\n\nand so on",
    "a string of JSON in a fence": lambda raw: _fence(json.dumps({"text": raw}, ensure_ascii=False, indent=1)),
    "half of it in a fence": lambda raw: f"It stopped at\n{_fence(raw[: len(raw) * 2 // 3])}",
}
"""Ways of quoting that hold for every syntax, raw text or not."""

IN_A_LINE = {
    "inline code": lambda raw: f"It writes `{raw}` and stops.",
    "inline code at the end": lambda raw: f"It writes `{raw}`",
    "two backticks": lambda raw: f"It writes `` {raw} `` and stops.",
    "a table": lambda raw: f"| family | call |\n| --- | --- |\n| this | `{raw}` |\n",
    "Chinese": lambda raw: f"模型会输出`{raw}`，然后由服务器读取。",
}
"""The same, for samples of one line."""

CITED = {
    "a block quote": lambda raw: f"{_lines(raw, '> ')}\n\nThat is what he sent.",
    "a block quote at the end": lambda raw: f"He sent:\n\n{_lines(raw, '> ')}",
    "an open fence at the end": lambda raw: f"It writes:\n\n```\n{raw}",
}
"""Quoted as well, but a token that ends a message is taken out of them at a line's end (contract rules 3 and 11)."""

FOLLOWED = {
    "the middle of a sentence": lambda raw: f"The model then emits {raw} which the server reads.",
    "lines of its own": lambda raw: f"The model then emits\n{raw}\nand the server reads it.",
    "indented code": lambda raw: f"The model then emits\n\n{_lines(raw, '    ')}\n\nand the server reads it.",
    "an element of HTML": lambda raw: f"<pre><code>{raw}</code></pre>",
    "escaped HTML": lambda raw: f"<pre>{html.escape(raw)}</pre>",
    "a transcript": lambda raw: f"user: hi\nassistant: {raw}\ntool: 21\nassistant: It is 21.",
    "half of it": lambda raw: f"It stopped at\n{raw[: len(raw) * 2 // 3]}\nand never went on.",
}
"""Outside quotes, with words behind: text where the engine split the answer."""

_ENDS_MESSAGES = ("harmony", "inkling", "muse")  # whose calls end with a token that ends a message
_OWN_FENCES = ("xlam",)  # whose calls may stand in a fence


def quoted(name: str, form: CallFormat) -> Iterator[Text]:
    """The samples of a format in every way of quoting that its own markup leaves open."""
    kinds = [(QUOTED, False), (FOLLOWED, True)]
    if name not in _ENDS_MESSAGES:
        kinds.append((CITED, False))
    for number, sample in enumerate(form.samples):
        inline = [(IN_A_LINE, False)] if not {"\n", "`"} & set(sample.raw) else []
        for ways, fields in [*kinds, *inline]:
            for way, write in ways.items():
                if name in _OWN_FENCES and "`" in sample.raw:
                    continue  # a fence in a fence of the same length ends it
                if name in _ENDS_MESSAGES and way in ("a transcript", "lines of its own", "indented code"):
                    continue
                yield Text(f"{name} {number} in {way}", write(sample.raw), fields=fields)


def routes() -> dict[str, tuple[object, str | None]]:
    """Every family, and every call format on its own: what a route's `dialect` says, and the engine."""
    book = load_rulebook()
    found: dict[str, tuple[object, str | None]] = {name: (name, None) for name in book.dialects}
    for name, form in book.calls.items():
        for engine in ("vllm", "sglang"):
            if form.aliases.get(engine) and name not in found and form.regions:
                found[name] = ({"tools": form.aliases[engine][0]}, engine)
    return found
