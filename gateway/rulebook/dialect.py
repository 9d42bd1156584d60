"""What a dialect can say, as values. `load.py` fills them from YAML; `compile.py` makes the reader's grammar of them.

The engine has no model names: everything it knows of a family stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gateway.streams.calls.call import Body


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
    """A stretch of text that holds calls. Nothing of the dialect is live in it but its closers and `ended_by`.

    `open` empty: the dialect's header opens it, a message to a tool. `close` empty: nothing closes the region, it ends
    behind the last body. `bodies`: the ways of writing calls that may stand in it, tried in order at each place; empty:
    everything up to the closer is the region. `between`: literals that may stand beside a body (`;`, a second wrapper).
    `ended_by`: what ends an unclosed region and is no part of it (framing). `ends_thought`: the opener is a control
    token that ends a thought at once. `head`: a regular expression with a group `name`, searched in the text of the
    header that opened the region. `markerless`: the openers are ordinary text (`{`, `[`), which counts at a line start
    only. `control`: channel or special-token markup, never a client's text; ordinary tags and JSON are not. `example`:
    a header that opens the region, `{name}` in it for the tool's, for samples that are made.
    """

    open: tuple[str, ...]
    close: tuple[str, ...] = ()
    bodies: tuple[Body, ...] = field(default=(), hash=False)
    between: tuple[str, ...] = ()
    ended_by: tuple[str, ...] = ()
    ends_thought: bool = False
    head: str | None = None
    markerless: bool = False
    control: bool = False
    example: str | None = None

    @property
    def bare(self) -> bool:
        """There is no wrapper: an opener is what a body begins with, belongs to it, and needs none of the closers."""
        leads = (body.lead(text, 0, final=not self.markerless) for text in self.open for body in self.bodies)
        return any(lead is not False for lead in leads)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSample:
    """A raw output with calls in it, executed by `dialects test` and by the test suite.

    `calls`: names and arguments as written: a value that neither the format types nor JSON does is its text.
    `content`: the answer around the calls.
    """

    raw: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = field(hash=False)
    content: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormat:
    """One way a family writes tool calls. `aliases`: engine name to the engine's `--tool-call-parser` names.

    `variants`: a piece of the literals to its other spellings; `regions` holds each spelling already. `ident`: the
    template of the ids that the family counts itself (`functions.{name}:{number}`), None: it has none.
    """

    name: str
    summary: str
    aliases: Mapping[str, tuple[str, ...]] = field(hash=False)
    regions: tuple[ToolRegion, ...]
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    ident: str | None = None
    samples: tuple[CallSample, ...] = ()


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
    that are never text, dropped wherever they are not quoted. `dangling`: beginnings of markup, dropped where a field
    ends with one. `unmarked`: how a thought begins whose control tokens the engine dropped: content that begins so and
    ends in the engine's own tool call is the thought. `headers` of a tag dialect are those of a turn: they count at the
    start and behind an end of turn only. `invented`: openers that the engine's parser writes itself as the first thing
    of raw text, whatever the model said: dropped there once. `reads_calls`: whether tool regions are read as calls; a
    route that names a reasoning parser alone has none, and its regions are the client's text. `ident`: as
    `CallFormat.ident`.
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
    dangling: tuple[str, ...] = ()
    unmarked: tuple[str, ...] = ()
    headers: tuple[Header, ...] = ()
    invented: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    regions: tuple[ToolRegion, ...] = field(default=())
    reads_calls: bool = True
    ident: str | None = None
    samples: tuple[Sample, ...] = ()
