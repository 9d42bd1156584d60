"""Every row of every corpus as a stream of every protocol that has words for it: what goes out is legal.

What a row should say is judged elsewhere. `INTEGRITY_CORPUS` names a folder of further files (`*.jsonl`), whose rows
are read as the black-box program reads them: raw text, or the deltas of an engine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigError
from gateway.exchange import RouteRules
from gateway.policy import Mode, Profile, ToolRescue
from gateway.protocols.legal import CHECKERS
from gateway.rulebook.load import load_rulebook
from tests.exchange import driver
from tests.support import cases
from tests.support.protocols import FRAMES, PATHS, Delta, Said, recut, send

OURS = sorted(path.stem for path in cases.CORPUS.glob("*.jsonl"))
MORE = sorted(Path(os.environ["INTEGRITY_CORPUS"]).glob("*.jsonl")) if "INTEGRITY_CORPUS" in os.environ else []
WHOLE = 1 << 30
CUTS = (3, WHOLE)  # characters; other cuts, and those of bytes, are `properties/test_legal.py`
ENDINGS = {"settle": "stop", "settle_cut": "length", "release": "stop"}  # of the rows of `dedup`
SHOWN = {"include_reasoning": True}
READER = {"think": {"reasoning": "qwen3"}, "mm_think": {"reasoning": "minimax_m3"}, "kimi_k3": {"reasoning": "kimi_k3"}}


@cache
def rules(dialect: str, source: str, starts_in: str) -> RouteRules:
    """A route that does everything. `dialect`: a name or a mapping of names, as JSON; an unknown one is `generic`."""
    try:
        found = load_rulebook().resolve(json.loads(dialect), engine=None).dialect
    except ConfigError:
        found = driver.dialect("generic")
    rescue = ToolRescue(**{name: Mode.ENFORCE for name in ("content", "reasoning", "markerless")})
    given: dict[str, Any] = {"source": source, "starts_in": starts_in, "tool_rescue": rescue, "raw_text": "split"}
    return driver.route(profile=Profile.FULL, read_as=found, **given)


def named(row: dict[str, Any]) -> Any:
    """The dialect of a row, as a configuration names it."""
    known = row.get("dialect_config") or row.get("bb_dialect") or row.get("dialect")
    if known is None:
        return {"reasoning": row["parser"]} if "parser" in row else "think"
    return READER.get(known, known) if isinstance(known, str) else known


def deltas(row: dict[str, Any]) -> list[Delta]:
    """What the engine sends of a row; empty where the row is in the words of another protocol than chat."""
    upstream = row.get("upstream", {})
    if row.get("endpoint", PATHS["chat"]) != PATHS["chat"]:
        return []
    if "raw_text" in row:
        return [{"content": row["raw_text"]}]
    if "ops" in row:
        return [{name: text} for name, *texts in row["ops"] if name in ("reasoning", "content") for text in texts]
    message = row.get("message") or upstream.get("message")
    if message:
        said = {name: part for name, part in message.items() if name != "role" and part}
        calls = said.pop("tool_calls", [])
        whole = [{"index": place, **call} for place, call in enumerate(calls)]
        return [*({name: part} for name, part in said.items()), *([{"tool_calls": whole}] if whole else [])]
    pieces = row.get("pieces") or upstream.get("stream_chunks") or ()
    given = [{"content": each} if isinstance(each, str) else each for each in pieces]
    return [each for each in ({name: part for name, part in one.items() if name != "role"} for one in given) if each]


def said(row: dict[str, Any]) -> Said:
    """A row as an answer."""
    raw = "raw_text" in row or row.get("profile", {}).get("parsers") == "off"
    source = row.get("source") if row.get("source") in ("fields", "text") else "text" if raw else "fields"
    opened = row.get("starts_open", row.get("bb_start")) or row.get("profile", {}).get("prefill") == "think_open"
    finish = row.get("finish") or row.get("upstream", {}).get("finish_reason")
    if "ops" in row:
        finish = ENDINGS.get(row["ops"][-1][0])
    off = {"chat_template_kwargs": {"enable_thinking": False}} if row.get("thinking") is False else {}
    return Said(
        deltas=deltas(row),
        rules=rules(json.dumps(named(row)), str(source), "reasoning" if opened else "content"),
        finish=finish or ("stop" if row.get("stopped", True) else "length"),
        request=row.get("request") or (SHOWN if "ops" in row else off),
    )


def found(rows: list[dict[str, Any]], name: str) -> Iterator[tuple[str, list[str]]]:
    """What is not legal, by row and cut."""
    for row in rows:
        answer = said(row)
        for size in CUTS:
            cut = Said(
                deltas=recut(answer.deltas, size), rules=answer.rules, finish=answer.finish, request=answer.request
            )
            frames = FRAMES[name](cut)
            if not answer.deltas or frames is None:
                break
            got = send(name, frames, cut, report=size == WHOLE)
            if wrong := CHECKERS[got.exchange.protocol.name](got.body):
                yield f"{row['id']}/{size}", wrong


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("file", OURS)
def test_every_row_of_the_corpus_is_legal_in_every_protocol(file: str, name: str) -> None:
    assert dict(found(cases.rows(file), name)) == {}


@pytest.mark.skipif(not MORE, reason="INTEGRITY_CORPUS names no folder")
@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("file", MORE, ids=lambda path: path.stem)
def test_every_row_of_another_corpus_is_legal_in_every_protocol(file: Path, name: str) -> None:
    assert dict(found([json.loads(line) for line in file.read_text("utf-8").splitlines()], name)) == {}


@pytest.mark.parametrize(
    ("name", "least"), [("chat", 1200), ("messages", 1200), ("responses", 1200), ("generate", 1000)]
)
def test_most_rows_have_words_in_every_protocol(name: str, least: int) -> None:
    answers = [said(row) for file in OURS for row in cases.rows(file)]
    assert sum(bool(each.deltas) and FRAMES[name](each) is not None for each in answers) > least
