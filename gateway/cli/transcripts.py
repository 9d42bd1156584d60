"""What `scan` reads: files with answers of engines, as one answer after the other. Judges none of them.

    JSON      one answer of chat completions, text completions, Responses, Messages or `/generate`; a list of them
    JSONL     one such value a line
    SSE       the stream of one answer, as `curl -N` shows it
    text      what a model said, as a client saw it

In place of an answer in JSON may stand a record, `{"request": …, "response": …}`, where `response` is an answer, a
stream or a text, or an object with the answer as `body` (the output of a batch); and a JSON string, which is a stream
or a text. Without its request an answer is read as one to a request that says nothing: no tools, thinking unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gateway.errors import ConfigError
from gateway.protocols import PROTOCOLS
from gateway.protocols.protocol import WireProtocol
from gateway.streams.jsonscan import loads
from gateway.streams.sse import SSEReader

KINDS: Final = ("auto", "json", "sse", "text")
_SSE: Final = re.compile(rb"(?:data|event|id|retry)?:")
_BOM: Final = b"\xef\xbb\xbf"
_BY_NAME: Final = {protocol.name: protocol for protocol in PROTOCOLS.values()}
_OBJECTS: Final = {
    "chat.completion": "chat",
    "chat.completion.chunk": "chat",
    "text_completion": "completions",
    "response": "responses",
}
"""What answers and events say they are."""
_TYPES: Final = {"message": "messages", "message_start": "messages", "ping": "messages"}
_STREAMED: Final = ("chat.completion.chunk", "message_start", "ping")
_MEMBERS: Final = {"message": "chat", "delta": "chat", "text": "completions"}
"""Members of a choice that tell its protocol, for servers that leave `object` out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One answer and where it stands. `protocol` None: `body` is what `why` says, and no answer.

    `file` as it was named, `line` from one. `stream`: the body is an event stream. `request`: its body, `{}` where it
    is not known. `raw`: the body was made of a text.
    """

    file: str
    line: int
    protocol: WireProtocol | None = None
    body: bytes = b""
    stream: bool = False
    request: bytes = b"{}"
    raw: bool = False
    why: str = ""


def transcripts(file: str, raw: bytes, *, kind: str = "auto") -> Iterator[Transcript]:
    """The answers in a file. `kind`: one of `KINDS`. Raises ConfigError for what is none, with file and line."""
    raw = raw.removeprefix(_BOM)
    kind = _kind(raw) if kind == "auto" else kind
    if kind == "json":
        for line, value in _values(file, raw):
            yield from _of_value(file, line, value, b"{}")
    elif raw.strip():
        yield _of_text(file, 1, raw, b"{}", kind=kind)


def _kind(raw: bytes) -> str:
    start = raw.lstrip()
    if start[:1] in (b"{", b"["):
        return "json"
    return "sse" if _SSE.match(start) else "text"


def _values(file: str, raw: bytes) -> Iterator[tuple[int, Any]]:
    """The value of a file, or those of its lines."""
    try:
        yield 1, loads(raw)
        return
    except ValueError:
        pass
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if line.strip():
            try:
                value = loads(line)
            except ValueError:
                raise ConfigError(f"{file}:{number}: expected JSON, or one JSON value a line") from None
            yield number, value


def _of_value(file: str, line: int, value: Any, request: bytes) -> Iterator[Transcript]:
    """The answers of a JSON value: of a list each, of a record its response."""
    if isinstance(value, list):
        for each in value:
            yield from _of_value(file, line, each, request)
    elif isinstance(value, str):
        raw = value.encode("utf-8", "surrogatepass")
        yield _of_text(file, line, raw, request, kind="sse" if _SSE.match(raw) else "text")
    elif isinstance(value, dict) and "object" not in value and value.get("response") is not None:
        asked, answer = value.get("request"), value["response"]
        answer = answer.get("body", answer) if isinstance(answer, dict) else answer
        sent = json.dumps(asked).encode() if isinstance(asked, dict) else request
        yield from _of_value(file, line, answer, sent)
    else:
        yield _of_answer(file, line, value, request)


def _of_answer(file: str, line: int, value: Any, request: bytes) -> Transcript:
    protocol = _protocol_of(value)
    if isinstance(value, dict) and protocol is None and value.get("error"):
        return Transcript(file=file, line=line, why="an error of the engine")
    if protocol is None or value.get("object", value.get("type")) in _STREAMED:
        raise ConfigError(
            f"{file}:{line}: expected an answer of chat completions, text completions, Responses, Messages or /generate"
        )
    body = json.dumps(value).encode()
    return Transcript(file=file, line=line, protocol=protocol, body=body, request=request)


def _of_text(file: str, line: int, raw: bytes, request: bytes, *, kind: str) -> Transcript:
    if kind == "sse":
        protocol = _protocol_of_stream(raw)
        if protocol is None:
            raise ConfigError(f"{file}:{line}: expected the event stream of an answer")
        return Transcript(file=file, line=line, protocol=protocol, body=raw, stream=True, request=request)
    choice = {"index": 0, "text": raw.decode(errors="replace"), "logprobs": None, "finish_reason": "stop"}
    body = json.dumps({"object": "text_completion", "choices": [choice]}).encode()
    return Transcript(file=file, line=line, protocol=_BY_NAME["completions"], body=body, request=request, raw=True)


def _protocol_of_stream(raw: bytes) -> WireProtocol | None:
    """The protocol of the first event that tells one; an error alone is told in the way of chat."""
    reader = SSEReader(max_line=len(raw) + 2, max_event=len(raw) + 2)
    failed = False
    for frame in reader.feed(raw + b"\n\n"):
        try:
            value = loads(frame.data or b"")
        except ValueError:
            continue
        found = _protocol_of(value)
        if found is not None:
            return found
        failed = failed or (isinstance(value, dict) and bool(value.get("error")))
    return _BY_NAME["chat"] if failed else None


def _protocol_of(value: Any) -> WireProtocol | None:
    """The protocol of an answer, or of an event of one."""
    if not isinstance(value, dict):
        return None
    kind, choices = value.get("type"), value.get("choices")
    name = _OBJECTS.get(str(value.get("object"))) or _TYPES.get(str(kind))
    if name is None and isinstance(kind, str) and kind.startswith("response."):
        name = "responses"
    if name is None and "meta_info" in value:
        name = "generate"
    if name is None and isinstance(choices, list) and choices and isinstance(choices[0], dict):
        name = next((protocol for member, protocol in _MEMBERS.items() if member in choices[0]), None)
    return _BY_NAME[name] if name else None
