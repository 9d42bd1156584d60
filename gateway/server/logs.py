"""Log lines: one JSON object each, on one line, without model text, prompts or credentials.

Owns the format and what may be said about an exception: its type and where it happened, never its message, which may
quote a request. Must not know what is logged.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

LOGGER = logging.getLogger("gateway")


def say(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """One line. `event` names it; `fields` are JSON values."""
    LOGGER.log(level, event, extra={"fields": fields})


def where(error: BaseException) -> str:
    """Type and place of an exception: `KeyError at exchange.py:120 in head`. Its message is left out."""
    frames = traceback.extract_tb(error.__traceback__)
    name = type(error).__name__
    if not frames:
        return name
    last = frames[-1]
    return f"{name} at {last.filename.rpartition('/')[2]}:{last.lineno} in {last.name}"


class JsonLines(logging.Formatter):
    """`{"event": …, fields…, "level": …, "time": …}`. Lines of libraries keep the first line of their template, no
    argument."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        fields: dict[str, Any] | None = getattr(record, "fields", None)
        if fields is None:
            message = str(record.msg).partition("\n")[0]
            line: dict[str, Any] = {"event": "library", "logger": record.name, "message": message}
            if record.exc_info and record.exc_info[1] is not None:
                line["error"] = where(record.exc_info[1])
        else:
            line = {"event": record.msg, **fields}
        line["level"] = record.levelname.lower()
        line["time"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps(line, default=str)


def log_to(stream: TextIO = sys.stderr, *, level: int = logging.INFO) -> None:
    """Send every log line of the process to `stream`: ours from `level`, those of libraries from warnings on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    LOGGER.setLevel(level)
