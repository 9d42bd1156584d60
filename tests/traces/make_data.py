"""Makes `data/` from the folder of recorded exchanges: one gzip'd JSONL an engine version, in a folder for each path.

    python -m tests.traces.make_data TRACES_FOLDER

Run by hand when recordings are added. Same recordings, same bytes: the files carry no time and no path. Only what the
tests read is kept: the request as it was sent, the head of the answer, its body read by read, the recorder's marks.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
ENDPOINTS = {
    "": "/v1/chat/completions",
    "completions": "/v1/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
"""Folder of `data/` to the path whose exchanges it has."""


def rows(folder: Path, path: str) -> Iterator[dict[str, Any]]:
    """The exchanges of one path and engine version, by name."""
    marks = index_marks(folder / "INDEX.tsv")
    for file in sorted(folder.glob("*.json")):
        recorded = json.loads(file.read_text("utf-8"))
        request, response = recorded["request"], recorded["response"]
        if (request["method"], request["path"]) == ("POST", path):
            heads = {name.lower(): value for name, value in response["headers"]}
            yield {
                "name": file.stem,
                "marks": marks.get(file.name, []),
                "request": request["body"],
                "status": response["status"],
                "content_type": heads.get("content-type", ""),
                "complete": response["eof"] == "complete",
                "reads": reads(response["chunks"]),
            }


def index_marks(index: Path) -> dict[str, list[str]]:
    """File name to its marks in INDEX.tsv; empty where a version has none."""
    if not index.exists():
        return {}
    head, *lines = (line.split("\t") for line in index.read_text("utf-8").splitlines())
    return {line[head.index("file")]: line[head.index("marks")].split() for line in lines}


def reads(chunks: list[dict[str, Any]]) -> list[str]:
    """The body, one text a socket read. Raises UnicodeDecodeError where a read ends inside a character."""
    return [b"".join(map(data, same)).decode() for _, same in groupby(chunks, key=lambda chunk: chunk["recv"])]


def data(chunk: dict[str, Any]) -> bytes:
    """The bytes of one recorded chunk."""
    return base64.b64decode(chunk["data_b64"]) if "data_b64" in chunk else chunk["data"].encode()


def write(folder: Path, kind: str) -> Path | None:
    """Writes the file of one engine version and returns its path; None where nothing was recorded."""
    target = DATA / kind / f"{folder.name}.jsonl.gz"
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows(folder, ENDPOINTS[kind])]
    if not lines:
        return None
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    return target


if __name__ == "__main__":
    for version in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
        for kind in ENDPOINTS:
            print(write(version, kind))
