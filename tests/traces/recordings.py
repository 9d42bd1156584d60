"""The recorded exchanges of `data/` as values. Knows how a recording is stored; judges nothing."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
FORCED = frozenset({"vllm_xargs", "grammar"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One exchange. `server`: engine and version. `reads`: the body of the answer, one item a socket read.

    `marks`: what the recorder's own heuristic saw (README of the recordings). `complete` False: the client left early.
    """

    server: str
    name: str
    marks: tuple[str, ...]
    request: Any
    status: int
    content_type: str
    complete: bool
    reads: tuple[bytes, ...]

    def __str__(self) -> str:
        return f"{self.server}/{self.name}"

    @property
    def request_body(self) -> bytes:
        """The request as a client would send it: without what makes the model of the lab emit its script."""
        if isinstance(self.request, str):
            return self.request.encode()
        sent = {name: value for name, value in self.request.items() if name not in FORCED}
        return json.dumps(sent, ensure_ascii=False).encode()

    @property
    def body(self) -> bytes:
        """The whole body of the answer."""
        return b"".join(self.reads)

    @property
    def stream(self) -> bool:
        """True for an event stream."""
        return self.content_type.startswith("text/event-stream")

    def emitted(self, index: int) -> str | None:
        """What the model was made to emit for choice `index`, special tokens included; None: it wrote freely."""
        text: str | None = None
        forced = self.request.get("vllm_xargs", {})
        if "grammar" in self.request:  # llama.cpp: a grammar of one literal
            text = json.loads(self.request["grammar"].removeprefix("root ::= "))
        elif "script_pieces" in forced:
            text = "".join(forced["script_pieces"])
        else:
            text = forced.get("script", forced.get(f"script_{index}"))
        return text


@cache
def recordings(kind: str = "") -> tuple[Recording, ...]:
    """All of a folder of `data/` (empty: chat), by server and name."""
    return tuple(
        _recording(file.name.removesuffix(".jsonl.gz"), json.loads(line))
        for file in sorted((DATA / kind).glob("*.jsonl.gz"))
        for line in gzip.decompress(file.read_bytes()).decode().splitlines()
    )


def _recording(server: str, row: dict[str, Any]) -> Recording:
    texts = tuple(read.encode() for read in row.pop("reads"))
    return Recording(server=server, reads=texts, marks=tuple(row.pop("marks")), **row)
