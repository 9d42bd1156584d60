"""What a dialect can say, as values. `load.py` fills them from YAML; `compile.py` makes the reader's grammar of them.

The engine has no model names: everything it knows of a family stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """Which guards the markers of a dialect need (contract rule 3)."""

    TAG = "tag"  # ordinary-looking tags that prose may mention: `<think>`, `[THINK]`
    CONTROL = "control"  # control tokens: K3, Gemma, PLaMo, Harmony
    TEXT = "text"  # plain sentences (Granite 3.2): an opener counts at the very start, a closer only inside a thought


class Reopen(StrEnum):
    """Where an answer may go back to thinking."""

    NEVER = "never"
    AFTER_CLOSER = "after_closer"
    LINE_START = "line_start"  # right after a closer, or at a line start outside fences


class Target(StrEnum):
    """Where the body behind a channel header belongs."""

    REASONING = "reasoning"
    ANSWER = "answer"
    TOOL = "tool"
    FOREIGN = "foreign"  # another role: suppressed


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """One way to mark a thought. A thought opened by `open` is closed only by its own `close`."""

    open: tuple[str, ...]
    close: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderRule:
    """A regular expression over the whole header text, and where the body goes."""

    text: str
    to: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A channel header: an opening literal, a bounded text, a closing literal (Harmony, Gemma labels).

    The text never spans a line break unless `close` is one. `within` lists literals that may stand inside it. `first`:
    openers that count at the start of a message only, where the prompt has written the rest of the header. `close`
    empty: the opener is the whole header (role tokens), and a rule looks behind at it.
    """

    open: tuple[str, ...]
    close: str
    rules: tuple[HeaderRule, ...]
    within: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRegion:
    """A stretch that belongs to the tool stage. Nothing is live in it but its closer, `ended_by` and its arguments.

    `close` empty: the region runs to the end of the output. `ends_thought`: the opener is a control token that ends a
    thought at once. `argument_open` / `argument_close`: inside an argument only `argument_close` is live.
    """

    open: tuple[str, ...]
    close: tuple[str, ...] = ()
    ended_by: tuple[str, ...] = ()
    ends_thought: bool = False
    argument_open: str | None = None
    argument_close: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormat:
    """One way a family writes tool calls. `aliases`: engine name to the engine's `--tool-call-parser` names."""

    name: str
    summary: str
    aliases: Mapping[str, tuple[str, ...]] = field(hash=False)
    regions: tuple[ToolRegion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A raw output of the family and how it reads; executed by `dialects test` and by the test suite."""

    raw: str
    reasoning: str
    content: str
    starts_in: str = "content"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The markers of one model family.

    `aliases`: engine name (`vllm`, `sglang`) to the engine's `--reasoning-parser` names. `starts_in`: what
    `starts_in: auto` means for raw text. `message_close` ends a message body, after which a header may follow.
    `promote`: whether a thought may be the answer when thinking is off (never for Harmony analysis). `history`: what
    becomes of reasoning in earlier assistant turns (`keep`, `strip`, `tool_loop`, or `leave` where the family has no
    rule that is known). `replay`: an answer closer inside a thought is the skipped-channel signal. `suffixed`: a
    checkpoint may put `:NAME` before the last character of each tag (Hunyuan `<think:6124c78e>`). `spaced`: control
    tokens may be decoded with a blank beside the word between them (K3 `<|open|> think <|sep|>`). `special`: tokens
    that are never text, dropped wherever they are not quoted. `header` in a tag dialect is the header of a turn: it
    counts at the start and behind an end of turn only.
    """

    name: str
    summary: str
    kind: Kind
    aliases: Mapping[str, tuple[str, ...]] = field(hash=False)
    models: tuple[str, ...] = ()
    starts_in: str = "content"
    reopen: Reopen = Reopen.NEVER
    promote: bool = True
    replay: bool = False
    history: str = "leave"
    suffixed: bool = False
    spaced: bool = False
    thoughts: tuple[Thought, ...] = ()
    answer_open: tuple[str, ...] = ()
    answer_close: tuple[str, ...] = ()
    message_close: tuple[str, ...] = ()
    framing: tuple[str, ...] = ()
    end_of_turn: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    header: Header | None = None
    calls: tuple[str, ...] = ()
    regions: tuple[ToolRegion, ...] = field(default=())
    samples: tuple[Sample, ...] = ()
