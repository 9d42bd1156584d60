"""The page `docs/leaks.md`: what a client saw of every recorded chat exchange, directly and through the gateway.

    python -m tests.traces.table

Prints the page. Owns its words and its look; right and wrong are `verdict`'s, the reasons `known.yaml`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from gateway.policy import Profile
from tests.traces.answers import Choice, read_answer
from tests.traces.known import KNOWN
from tests.traces.oracle import CALL, Answer
from tests.traces.recordings import Recording, recordings
from tests.traces.replay import send
from tests.traces.routes import group_of, route_of
from tests.traces.verdict import ENDED, called_as, fits, wanted

OK, ERROR = "ok", "error"
WORDS: Mapping[str, str] = {
    OK: "every text in its field, as the script says",
    "leak": "a field has text that it should not have: a marker, the other field's text, what follows a stop string",
    "mixed": "one event carried reasoning and content together; clients that read one of them drop the other",
    "tool call": "the markup of a call stands in the text, or a call is missing or is another than the script's",
    "lost": "text of the script is in no field, because the engine dropped it. No proxy can bring it back from the "
    "fields; that takes the model's tokens (`source: tokens`, a later version)",
    "differs": "nothing lost and no leak, and still another answer than the script's",
    ERROR: "the engine failed or refused; its error is passed on, and what came before it is right",
}

CONFIGURATIONS: Mapping[str, str] = {
    "q3h": "qwen3 + hermes",
    "q3h-s": "qwen3 + hermes",
    "q3h-iv5": "qwen3 + hermes, `--stream-interval 5`",
    "q3x": "qwen3 + qwen3_xml",
    "q3-budget": "qwen3, thinking budget",
    "q3-off": "qwen3, thinking off by default",
    "r1": "deepseek_r1 + hermes",
    "r1-raw": "deepseek_r1 + hermes",
    "dsr1-x": "deepseek_r1 + hermes",
    "dsv3": "deepseek_v3",
    "dsv3-on": "deepseek_v3",
    "glm45": "glm45 + glm45",
    "kimi-k2": "kimi_k2 + kimi_k2",
    "m2": "minimax_m2",
    "nemotron": "nemotron_v3",
    "step3": "step3",
    "none": "no parser",
    "xonly": "none + qwen3_xml",
    "honly": "none + hermes",
    "m2-append": "minimax_m2_append_think",
    "kimi-k3": "kimi_k3 + kimi_k3",
    "harmony": "openai_gptoss + openai",
    "ernie": "ernie45",
    "granite": "granite",
    "hunyuan": "hunyuan_a13b",
    "seed": "seed_oss",
    "gemma": "the default template",
    "gemmatmpl": "`--chat-template gemma`",
    "qwen": "a Qwen3 template, `--reasoning-format auto`",
}
"""Reasoning parser and tool parser of each group, or what llama.cpp has instead (`flags` of the recordings)."""

HEAD = """<!-- Written by `make docs` (`python -m tests.traces.table`); edit the code, not this file. -->

# What leaked, directly and through the gateway

Chat exchanges recorded from unmodified engines whose model was made to emit a script: the right answer is known. (Some
of llama.cpp's were written freely: there the engine's own split, or its raw text, is taken for what was emitted.)
*Directly* is what the engine sent; *through the gateway* is the same bytes through the profile `full`; *made wrong* was
right directly and is not so through the gateway. The recordings are tests as well (`tests/traces`).

"""

READING = """
## How to read it

A row is a scenario of one engine version and configuration (reasoning parser + tool parser), plain and streamed:
*directly → through the gateway*. `ok` alone is both; `–` was not recorded. What is right in every column is summed up
in the first row of its configuration. Some configurations leak because nothing in them splits the text (`none`,
`honly`, `xonly`, `m2-append`, `gemma`, `gemmatmpl`): the route says `source: text` there. The number behind a cell that
is still wrong is its reason, in the second list.

"""


@dataclass(frozen=True, slots=True)
class Seen:
    """One exchange in two of `WORDS`; `why`: of what is still wrong through the gateway, else empty."""

    direct: str
    through: str
    why: str = ""


MODES = ("plain", "streamed")
RIGHT = (OK, ERROR)
APART = ("lost", "tool call")  # counted apart
Key = tuple[str, str, str]  # server, configuration, scenario
Row = dict[str, Seen]  # by mode


# ------------------------------------------------------------------ words


def seen(recording: Recording) -> Seen:
    """What a client would have seen of one exchange."""
    through = _word(recording, send(recording, route_of(recording), Profile.FULL).body)
    why = next((row.why for row in KNOWN if row.covers(recording)), "")
    return Seen(_word(recording, recording.body), through, "" if through in RIGHT else why)


def _word(recording: Recording, body: bytes) -> str:
    """The first thing wrong with an answer to the request of `recording`."""
    if recording.status != 200:
        return ERROR
    route, stream = route_of(recording), recording.stream
    engine, client = read_answer(recording.body, stream=stream), read_answer(body, stream=stream)
    assert engine.keys() == client.keys()
    for index, choice in client.items():
        if not fits(recording, route, index, engine[index], choice):
            return wrong(wanted(recording, route, index, engine[index]), choice)
        if choice.mixed:
            return "mixed"
    failed = recording.complete and b'\ndata: {"error"' in body  # else the error is ours: the client had left
    return ERROR if failed else OK


def wrong(right: Answer, choice: Choice) -> str:
    """The word for a choice that is not what its script says. An answer cut short is never `lost`."""
    texts = choice.reasoning + choice.content
    if not called_as(right, choice) or (CALL.search(texts) and not CALL.search(right.reasoning + right.content)):
        return "tool call"
    if choice.finish in ENDED and not (_in_order(right.reasoning, texts) and _in_order(right.content, texts)):
        return "lost"
    extra = _letters(choice.reasoning) - _letters(right.reasoning) or _letters(choice.content) - _letters(right.content)
    return "leak" if extra else "differs"


def _in_order(part: str, text: str) -> bool:
    """True when all of `part` stands in `text`, in its order, white space and what is between aside."""
    rest = iter(text)
    return all(letter in rest for letter in "".join(part.split()))


def _letters(text: str) -> Counter[str]:
    return Counter("".join(text.split()))


# ------------------------------------------------------------------ the page


def scenario(recording: Recording) -> tuple[str, str]:
    """Its name without server, configuration and mode, and the mode."""
    rest = recording.name.removeprefix(f"{group_of(recording)}-").removeprefix("chat-")
    return rest.removesuffix("-full").removesuffix("-stream"), MODES[rest.endswith("-stream")]


def rows() -> dict[Key, Row]:
    """Every exchange by server, configuration and scenario, in that order."""
    table: dict[Key, Row] = {}
    for recording in recordings():
        name, mode = scenario(recording)
        table.setdefault((recording.server, group_of(recording), name), {})[mode] = seen(recording)
    return dict(sorted(table.items()))


def page() -> str:
    """The page as Markdown."""
    table = rows()
    whys = dict.fromkeys(cell.why for row in table.values() for cell in row.values() if cell.why)
    numbers = {why: number for number, why in enumerate(whys, 1)}
    meanings = "".join(f"* `{word}`: {meaning}.\n" for word, meaning in WORDS.items())
    reasons = "".join(f"{number}. {why}\n" for why, number in numbers.items())
    parts = [HEAD, _totals(table), READING, meanings, "\n", reasons]
    for server, keys in groupby(table, key=lambda key: key[0]):
        lines = [["configuration", "scenario", "plain", "streamed"]]
        for group, names in groupby(keys, key=lambda key: key[1]):
            lines += _configuration(group, {name: table[server, group, name] for *_, name in names}, numbers)
        parts.append(f"\n## {server}\n\n{_markdown(lines)}")
    return "".join(parts)


def _totals(table: Mapping[Key, Row]) -> str:
    apart = [f"of these `{word}`" for word in APART]
    lines = [["engine", "exchanges", f"`{ERROR}`", "wrong directly", "wrong through the gateway", *apart, "made wrong"]]
    for server, keys in groupby(table, key=lambda key: key[0]):
        cells = [cell for key in keys for cell in table[key].values()]
        through = Counter(cell.through for cell in cells if cell.through not in RIGHT)
        counts = [
            len(cells),
            sum(cell.through == ERROR for cell in cells),
            sum(cell.direct not in RIGHT for cell in cells),
            through.total(),
            *(through[word] for word in APART),
            sum(cell.direct in RIGHT and cell.through not in RIGHT for cell in cells),
        ]
        lines.append([f"[{server}](#{server.replace('.', '')})", *map(str, counts)])
    return _markdown(lines)


def _configuration(group: str, table: Mapping[str, Row], numbers: Mapping[str, int]) -> Iterator[list[str]]:
    """The lines of one configuration: how many scenarios are right everywhere, then each of the others."""
    title = f"`{group}`: {CONFIGURATIONS[group]}"
    others = {name: row for name, row in table.items() if set(row.values()) != {Seen(OK, OK)}}
    if right := [row for name, row in table.items() if name not in others]:
        yield [title, f"*{len(right)} right*", *(OK if any(mode in row for row in right) else "–" for mode in MODES)]
    for name, row in others.items():
        yield [title, name, *(_cell(row[mode], numbers) if mode in row else "–" for mode in MODES)]


def _cell(cell: Seen, numbers: Mapping[str, int]) -> str:
    if cell == Seen(OK, OK):
        return OK
    return f"{cell.direct} → {cell.through}" + (f" ({numbers[cell.why]})" if cell.why else "")


def _markdown(lines: Iterable[list[str]]) -> str:
    head, *body = lines
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *body))


if __name__ == "__main__":
    print(page(), end="")
