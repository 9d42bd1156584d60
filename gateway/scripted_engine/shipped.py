"""Reads the cases that ship with the package (`data/`) and recorded exchanges in the trace format.

A trace is one JSON file: `request {body}`, `response {status, headers, chunks [{data | data_b64}]}`, more keys unread;
`request.body.vllm_xargs.script` is the text the model emitted.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from gateway.rulebook.yamlpos import load_yaml_with_lines
from gateway.scripted_engine.cases import Exchange, Recording, Script

DATA = Path(__file__).parent / "data"
OWN_FIELDS = frozenset({"model", "messages", "stream", "stream_options", "max_tokens", "vllm_xargs"})


def _rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a YAML list, with tuples where a case has them."""
    data, _ = load_yaml_with_lines(path.read_text(encoding="utf-8"), source=str(path))
    return [{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()} for row in data]


def load_scripts(path: Path = DATA / "scripts.yaml") -> tuple[Script, ...]:
    """The scripts of a YAML list, one row a script with the fields of `Script`; an unknown field is a TypeError."""
    return tuple(Script(**row) for row in _rows(path))


def read_trace(path: Path) -> Exchange:
    """One recorded exchange."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    body, response = trace["request"]["body"], trace["response"]
    return Exchange(
        status=response["status"],
        headers=tuple((name, value) for name, value in response["headers"]),
        chunks=tuple(_bytes(chunk) for chunk in response["chunks"]),
        request={name: value for name, value in body.items() if name not in OWN_FIELDS},
        emitted=body["vllm_xargs"]["script"],
    )


def _bytes(chunk: dict[str, Any]) -> bytes:
    if "data_b64" in chunk:
        return base64.b64decode(chunk["data_b64"])
    data: str = chunk["data"]
    return data.encode()


def load_recordings(path: Path = DATA / "recordings.yaml") -> tuple[Recording, ...]:
    """The recordings of a YAML list: the fields of `Case`, with `stream` and `whole` as trace files beside it.

    `request` is what the recorded request asked for.
    """
    folder = path.parent / "recordings"
    recordings = []
    for row in _rows(path):
        stream = read_trace(folder / row.pop("stream"))
        whole = read_trace(folder / row.pop("whole")) if "whole" in row else None
        recordings.append(Recording(**row, stream=stream, whole=whole, request=stream.request))
    return tuple(recordings)
