"""What the scripted engine can answer: scripts (deltas written down) and recordings (bytes a real engine sent).

Owns the values and how an answer is cut. Knows no wire shape (`wire`), no socket (`engine`), no file (`shipped`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import Any

from gateway.errors import ClientFault

Delta = Mapping[str, Any]
"""The `delta` object of one vLLM chunk: `content`, `reasoning` (or `reasoning_content`), `tool_calls`."""

TEXT_FIELDS = ("content", "reasoning", "reasoning_content")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One model the engine serves, the route it needs, and what a client should get through the gateway.

    `name` is the model name that selects the case. `dialect`, `source`, `starts_in` and `policy` are the keys of a
    route (contract section 3). `request`: fields the request must carry for the case to mean something. `note`: where
    the leak was seen. `expect_calls`: each tool call as its name and, in parentheses, the text of its arguments.
    """

    name: str
    title: str
    dialect: str | Mapping[str, str]
    source: str = "auto"
    starts_in: str = "auto"
    policy: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    note: str
    expect_reasoning: str
    expect_content: str
    expect_calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script(Case):
    """A case whose answer is written down delta by delta and played in vLLM's wire shape."""

    deltas: tuple[Delta, ...]
    finish_reason: str = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A response as it was recorded. `chunks` joined are the exact body; each is one HTTP chunk or socket read.

    `emitted` is the text the model generated, special tokens included: the ground truth.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    chunks: tuple[bytes, ...]
    request: Mapping[str, Any]
    emitted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording(Case):
    """A case whose answer is replayed byte for byte. `whole` is the same exchange without `stream`, where recorded."""

    stream: Exchange
    whole: Exchange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Playback:
    """How an answer is cut and paced; a request chooses it in `vllm_xargs`, which a proxy leaves alone.

    `characters`: characters per delta of a script, None as written. `bytes_per_write`: the body cut into writes of
    that size instead of one write per event. `events_per_second`: 0 as fast as possible. `finish_with_last`: the
    finish reason rides on the last delta, as vLLM does when the last step brings text.
    """

    characters: int | None = None
    bytes_per_write: int | None = None
    events_per_second: float = 0.0
    finish_with_last: bool = False

    def asked(self, request: Mapping[str, Any]) -> Playback:
        """This playback with what `request` asks for laid over it. Raises `ClientFault` on a value that cannot be."""
        xargs = request.get("vllm_xargs") or {}
        if not isinstance(xargs, dict):
            raise ClientFault("vllm_xargs: expected an object")
        values = {item.name: xargs.get(item.name, getattr(self, item.name)) for item in fields(self)}
        for name in ("characters", "bytes_per_write"):
            if values[name] is not None and (type(values[name]) is not int or values[name] < 1):
                raise ClientFault(f"vllm_xargs.{name}: expected an integer from 1")
        pace = values["events_per_second"]
        if type(pace) not in (int, float) or not 0 <= pace < float("inf"):
            raise ClientFault("vllm_xargs.events_per_second: expected a number from 0")
        return Playback(**values)


def _text_field(delta: Delta) -> str | None:
    """The field of a delta that is one piece of text and nothing else, else None."""
    [name, *others] = delta
    return name if not others and name in TEXT_FIELDS else None


def cut(deltas: Iterable[Delta], characters: int | None) -> list[Delta]:
    """The same answer in deltas of `characters` characters; None leaves them as they are.

    Only runs of one text field are cut: a delta that carries more (two fields at once, a tool call) is a shape of its
    own and stays whole.
    """
    if characters is None:
        return list(deltas)
    pieces: list[Delta] = []
    for name, run in groupby(deltas, key=_text_field):
        if name is None:
            pieces += run
        else:
            text = "".join(delta[name] for delta in run)
            pieces += [{name: text[at : at + characters]} for at in range(0, len(text), characters)]
    return pieces


def without_reasoning(deltas: Iterable[Delta]) -> list[Delta]:
    """What vLLM sends under `include_reasoning: false`: reasoning fields gone, deltas with nothing else skipped."""
    kept = [{name: value for name, value in delta.items() if name in ("content", "tool_calls")} for delta in deltas]
    return [delta for delta in kept if delta]


def recut(chunks: Iterable[bytes], bytes_per_write: int | None) -> list[bytes]:
    """The same bytes in writes of another size; None keeps the chunks."""
    if bytes_per_write is None:
        return list(chunks)
    body = b"".join(chunks)
    return [body[at : at + bytes_per_write] for at in range(0, len(body), bytes_per_write)]
