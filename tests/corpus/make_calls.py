"""Makes the tool-call corpora of this folder from the shared ones: one shape of row, read by `tests.support.cases`.

    python -m tests.corpus.make_calls SHARED_FOLDER

Run by hand when a shared corpus changes. Which rows are about calls, and what each kind of row means, is decided by the
black-box program beside the corpora (`blackbox/cases.py`); here only its cases are written down, without what no test
in this repository reads.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILES: dict[str, tuple[str, list[str], str]] = {  # ours: the shared file, its rows, the subset of its cases
    "bugs_tools": ("bugs", [], "tools"),
    "vllm_tools": ("vllm", ["scope=tool,full"], "all"),
    "sglang_tools": ("sglang", ["options.kind=tool"], "all"),
    "tool_literals": ("tool_literals", [], "all"),
    "injection": ("injection", [], "all"),
}


def row(case: dict[str, Any], route: dict[str, Any], source: str) -> dict[str, Any]:
    """One case as a line: what the request says, what the engine sends, what the client must get."""
    upstream = case["upstream"]
    unknown = set(upstream) - {"stream_chunks", "message", "finish_reason"}
    if unknown or set(route) - {"dialect", "source", "starts_in", "engine"}:
        raise ValueError(f"{case['id']}: {unknown or route}")
    wanted = {key: value for key, value in case["expect"].items() if value not in (None, [], "")}
    said = {"message": upstream["message"]} if "message" in upstream else {"pieces": upstream["stream_chunks"]}
    return {
        "id": case["id"],
        "from": source,
        **route,
        "request": {"messages": [{"role": "user", "content": "hi"}], **case["request"]},
        **said,
        "finish": upstream["finish_reason"],
        "expect": wanted,
        "match": case["match"],
        "cut": case["rechunk"],
        "judge_findings": not case.get("no_flags"),
    }


def write(shared: Path) -> None:
    """Writes every file of `FILES`."""
    sys.path.insert(0, str(shared / "blackbox"))
    cases, routes = importlib.import_module("cases"), importlib.import_module("routes")
    for name, (file, where, subset) in FILES.items():
        path = shared / "corpus" / f"{file}.jsonl"
        sources = {line["id"]: line for line in map(json.loads, path.read_text("utf-8").splitlines())}
        found, _ = cases.load([str(path)], where)
        rows = [
            row(case, routes.route_of(case), sources[case["id"]].get("source") or sources[case["id"]]["note"])
            for case in found
            if cases.SUBSETS[subset](case)
        ]
        lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in rows]
        # A lone surrogate, which one row is about, has no UTF-8: it stays the escape that it is in the source.
        (HERE / f"{name}.jsonl").write_bytes("".join(lines).encode("utf-8", "backslashreplace"))
        print(name, len(rows))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
