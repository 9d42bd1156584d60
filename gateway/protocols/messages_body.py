"""A plain answer of Anthropic Messages: its blocks read as one text of each kind, and written again where it changed.

Knows the members of a content block (reference/vllm.md 3.6). Blocks that say what they said keep their bytes and their
place; what is new stands where a stream would have it. Never judges text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from gateway.events import REASONING
from gateway.protocols.messages_stream import REDACTED, TEXT, THINKING, TOOL_USE
from gateway.protocols.protocol import CallChange, Fragment, NumberedCall, Said
from gateway.streams.jsonscan import Changes, edit, encode_string, loads, member

_TEXTS: Final = (THINKING, TEXT)
_Own = tuple[Mapping[str, Any], bytes]  # a block of the engine's, parsed and as it is written


def text_of(blocks: Sequence[Any], kind: str) -> str:
    """The text of all blocks of a kind. Raises TypeError where some of it is no string."""
    return "".join([block.get(kind) or "" for block in blocks if block.get("type") == kind])


def fragment(
    data: bytes, path: tuple[str | int, ...], block: Mapping[str, Any], *, place: int, index: int | None
) -> Fragment:
    """The call of the block `block`, which stands at `path`; without an input it may go on.

    An input that is a string is text where a value should be.
    """
    made = block.get("input")
    text = made if isinstance(made, str) else ""
    span = member(data, (*path, "input")) if made is not None and not text else None
    return Fragment(
        place=place,
        index=index,
        ident=_word(block.get("id")),
        name=_word(block.get("name")),
        arguments=data[slice(*span)].decode() if span else text,  # its own bytes, so that numbers keep their digits
        text=not text,
    )


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def call_changed(change: CallChange) -> Changes:
    """The members of a call's block that change."""
    members: dict[str | int, bytes] = {}
    if change.name is not None:
        members["name"] = encode_string(change.name)
    if change.arguments is not None:
        members["input"] = _input(change.arguments)
    return members


def _input(arguments: str) -> bytes:
    """The arguments of a call as a value; what is no JSON stays a string."""
    data = arguments.encode("utf-8", "backslashreplace")
    try:
        loads(data)
    except ValueError:
        return encode_string(arguments)
    return data


# ---------------------------------------------------------------------- writing


@dataclass(slots=True)
class _Run:
    """Pieces of one kind in a row. `text`: all of them; `ends`: where each ends. Between `at` and `to` is left.

    Of a call the one piece is its block as it is written.
    """

    kind: str
    text: str
    ends: list[int]
    at: int
    to: int

    @property
    def pieces(self) -> list[str]:
        """What is left, piece by piece."""
        cuts = [self.at, *(end for end in self.ends if self.at < end < self.to), self.to]
        return [self.text[start:end] for start, end in pairwise(cuts)]


def content_saying(own: Sequence[_Own], said: Sequence[Said], *, hides: bool) -> bytes:
    """The content that says `said` where the engine's was `own`. `hides`: no thought goes out.

    Blocks at both ends that say the same stay. Between them text is written anew, in the engine's blocks as far as
    there are some of its kind; those of other kinds follow it. Calls that end the answer stand behind all blocks.
    """
    own = [each for each in own if not (hides and each[0].get("type") in (THINKING, REDACTED))]
    runs = _runs([piece for piece in said if not (hides and piece[0] == REASONING)])
    ending: deque[_Run] = deque()
    while runs and runs[-1].kind == TOOL_USE:
        ending.appendleft(runs.pop())
    first, last = 0, len(own)
    while first < last and _starts(runs, own[first][0]):
        first += 1
    while first < last and _ends(runs, own[last - 1][0]):
        last -= 1
    out = _Written(own[:first], own[first:last])
    for run in runs:
        out.say(run)
    others = [raw for block, raw in own[first:last] if block.get("type") not in _TEXTS]
    calls = [run.text.encode() for run in ending]
    return b"[%b]" % b",".join([*out.blocks, *others, *(raw for _, raw in own[last:]), *calls])


def _runs(said: Sequence[Said]) -> deque[_Run]:
    runs: list[tuple[str, list[str]]] = []
    for channel, each in said:
        if isinstance(each, NumberedCall):
            runs.append((TOOL_USE, [_call(each).decode()]))
            continue
        kind = THINKING if channel == REASONING else TEXT
        if each and runs and runs[-1][0] == kind:
            runs[-1][1].append(each)
        elif each:
            runs.append((kind, [each]))
    return deque(_run(kind, pieces) for kind, pieces in runs)


def _run(kind: str, pieces: list[str]) -> _Run:
    text = "".join(pieces)
    return _Run(kind, text, list(accumulate(map(len, pieces))), 0, len(text))


def _starts(runs: deque[_Run], block: Mapping[str, Any]) -> bool:
    """True for a block that is no text, or says what comes first; that is said then."""
    text = block.get(block["type"]) if block.get("type") in _TEXTS else None
    if not text:
        return True
    run = runs[0] if runs else None
    if run is None or run.kind != block["type"] or not run.text.startswith(text, run.at, run.to):
        return False
    run.at += len(text)
    if run.at == run.to:
        runs.popleft()
    return True


def _ends(runs: deque[_Run], block: Mapping[str, Any]) -> bool:
    """True for a block that is no text, or says what comes last; that is said then."""
    text = block.get(block["type"]) if block.get("type") in _TEXTS else None
    if not text:
        return True
    run = runs[-1] if runs else None
    if run is None or run.kind != block["type"] or not run.text.endswith(text, run.at, run.to):
        return False
    run.to -= len(text)
    if run.at == run.to:
        runs.pop()
    return True


class _Written:
    """Blocks as they are written. `before`: those that stay; `free`: those whose text may become another."""

    def __init__(self, before: Sequence[_Own], free: Sequence[_Own]) -> None:
        self.blocks = [raw for _, raw in before]
        self._free = {kind: deque(each for each in free if each[0].get("type") == kind) for kind in _TEXTS}
        self._last: Mapping[str, Any] = before[-1][0] if before else {}

    def say(self, run: _Run) -> None:
        """One run: in the next block of the engine's that is free, behind text of its kind, or in a block of its own.

        A signature stands behind the text of one piece: what the engine did not sign goes elsewhere.
        """
        pieces = run.pieces
        if run.kind == TOOL_USE:
            self._put({}, run.text.encode())
            return
        if self._free[run.kind]:
            block, raw = self._free[run.kind].popleft()
            text = pieces.pop(0) if block.get("signature") else "".join(pieces)
            self._put({**block, run.kind: text}, edit(raw, {run.kind: encode_string(text)}))
            pieces = pieces if block.get("signature") else []
        text = "".join(pieces)
        if text and self._last.get("type") == run.kind and not self._last.get("signature"):
            text = self._last[run.kind] + text
            raw = edit(self.blocks.pop(), {run.kind: encode_string(text)})
            self._put({**self._last, run.kind: text}, raw)
        elif text:
            kind = run.kind.encode()
            raw = b'{"type":"%b","%b":%b}' % (kind, kind, encode_string(text))
            self._put({"type": run.kind, run.kind: text}, raw)

    def _put(self, block: Mapping[str, Any], raw: bytes) -> None:
        self._last = block
        self.blocks.append(raw)


def _call(call: NumberedCall) -> bytes:
    ident, name = encode_string(call.ident), encode_string(call.name)
    return b'{"type":"tool_use","id":%b,"name":%b,"input":%b}' % (ident, name, _input(call.arguments))
