"""One HTTP/1.1 response as bytes: its head, its framing (RFC 9112), the bytes of its body.

Owns where an engine's answer begins, ends and is broken. Sans-IO, and stricter than a browser: what an engine would
never send is a fault, so that two readers of one connection cannot disagree. Must not know the pool, the client, a
protocol. Why not aiohttp's client: it wakes a task and copies through a StreamReader for every read, a quarter of the
whole cost of an event; it takes a body without length that ends by RST for complete; and it does not tell a stale
connection apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.errors import EngineFault, EngineTruncated, EngineUnreachable

Field = tuple[bytes, bytes]
"""A header field as on the wire: name, value without the white space around it."""

HEAD_BYTES = 64 * 1024
"""Cap of a response head and of trailers, as Envoy's; past it the answer is a fault."""
CHUNK_LINE_BYTES = 4096
"""Cap of one chunk-size line with its extensions, which are dropped."""

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)\r\n")
_SIZE = rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n"
_FIRST_CHUNK = re.compile(_SIZE)
_NEXT_CHUNK = re.compile(rb"\r\n" + _SIZE)
_DIGITS = re.compile(rb"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Status line and header fields of a final response. `minor`: of its HTTP/1.x version."""

    minor: int
    status: int
    reason: bytes
    fields: Sequence[Field]

    def all(self, name: bytes) -> list[bytes]:
        """The values of every field of that lower-case name, in order."""
        return [value for key, value in self.fields if key.lower() == name]

    def text(self, name: bytes) -> str | None:
        """The value of the first field of that lower-case name."""
        return next((value.decode("latin-1") for value in self.all(name)), None)


class ResponseReader:
    """Reads one response to a request of `method`. `upgrade`: the request asked for one, so 101 is an answer.

    `feed(data)` returns the bytes of the body in `data`. After it: `head` once that is complete, `ended` when the
    response is, `fault` when it is broken; what came before the fault is still returned. `received`: any byte came.
    `reusable`: the connection can carry another request.
    """

    __slots__ = (
        "_chunk_line",
        "_held",
        "_left",
        "_method",
        "_upgrade",
        "ended",
        "fault",
        "feed",
        "head",
        "received",
        "reusable",
    )

    def __init__(self, *, method: str, upgrade: bool = False) -> None:
        self._method, self._upgrade = method, upgrade
        self._held = b""
        self._left = 0
        self._chunk_line = _FIRST_CHUNK
        self.feed: Callable[[bytes], bytes] = self._read_head
        self.head: Head | None = None
        self.ended = self.received = self.reusable = False
        self.fault: EngineFault | None = None

    def close(self, *, broken: bool) -> None:
        """The peer closed the connection; `broken`: by a reset or an error. Sets `ended` or `fault`."""
        self.reusable = False
        if self.ended or self.fault:
            return
        if self.feed in (self._read_to_the_close, self._read_upgraded) and not broken:
            self.ended = True
        else:
            self.fault = (
                EngineUnreachable("the engine closed the connection without an answer")
                if self.head is None
                else EngineTruncated("the engine closed the connection before the end of its answer")
            )

    # ------------------------------------------------------------------ head

    def _read_head(self, data: bytes) -> bytes:
        self.received = True
        searched = max(0, len(self._held) - 3)
        data, self._held = self._held + data, b""
        start = 0
        while True:
            end = data.find(b"\r\n\r\n", max(start, searched))
            if end < 0 or end - start > HEAD_BYTES:
                self._held = data[start:]
                return self._broken("its head is too long") if len(self._held) > HEAD_BYTES else b""
            head = _parse_head(data[start : end + 2])
            start = end + 4
            if head is None:
                return self._broken("its head is malformed")
            if head.status == 101 and not self._upgrade:
                return self._broken("it switched protocols unasked")
            if head.status >= 200 or head.status == 101:
                break  # any other 1xx is swallowed
        self._choose_body(head)
        if self.fault is not None:
            return b""
        self.head = head
        return self.feed(data[start:])

    def _choose_body(self, head: Head) -> None:
        """How the end of the body is found: RFC 9112 section 6.3, with every doubtful case a fault."""
        coding, length = head.all(b"transfer-encoding"), head.all(b"content-length")
        options = b",".join(head.all(b"connection")).lower().replace(b" ", b"").split(b",")
        self.reusable = head.minor == 1 and b"close" not in options
        if len(set(length)) > 1 or not all(map(_DIGITS.fullmatch, length)):
            self._broken("its length is ambiguous")
        elif head.status == 101:
            self.feed = self._read_upgraded
        elif self._method == "HEAD" or head.status in (204, 304):
            self.feed = self._read_surplus
            self.ended = True
        elif coding:
            if [value.lower() for value in coding] != [b"chunked"] or length or head.minor == 0:
                self._broken("its framing is ambiguous")
            self.feed = self._read_chunks
        elif length:
            self._left = int(length[0])
            self.ended = self._left == 0
            self.feed = self._read_length
        else:
            self.feed = self._read_to_the_close

    # ------------------------------------------------------------------ body

    def _read_chunks(self, data: bytes) -> bytes:
        if self._held:
            data, self._held = self._held + data, b""
        pieces = []
        at = 0
        while True:
            if self._left:
                end = at + self._left
                pieces.append(data[at:end])
                if data.startswith(b"\r\n", end):
                    at, self._left, self._chunk_line = end + 2, 0, _FIRST_CHUNK
                    if at == len(data):
                        break
                else:
                    self._left = max(0, end - len(data))
                    if self._left:
                        break
                    at, self._chunk_line = end, _NEXT_CHUNK
            line = self._chunk_line.match(data, at)
            if line is None:
                self._hold_chunk_line(data[at:])
                break
            at = line.end()
            self._left = int(line[1], 16)
            if not self._left:
                self.feed = self._read_trailers
                self._read_trailers(data[at:])
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _hold_chunk_line(self, rest: bytes) -> None:
        """`rest` is no complete chunk line: the beginning of one, or garbage."""
        self._held = rest
        start = 2 if self._chunk_line is _NEXT_CHUNK else 0
        if not b"\r\n".startswith(rest[:start]) or b"\n" in rest[start:] or len(rest) > CHUNK_LINE_BYTES:
            self._broken("its chunked coding is malformed")

    def _read_trailers(self, data: bytes) -> bytes:
        """Trailers are dropped: nothing may merge them into the head (RFC 9110 section 6.5.1)."""
        data = self._held + data
        # The line end of the last chunk line counts as the one before an empty trailer section.
        end = (b"\r\n" + data).find(b"\r\n\r\n")
        if end >= 0:
            self._held = b""
            self._end(surplus=len(data) > end + 2)
        elif len(data) > HEAD_BYTES:
            self._broken("its trailers are too long")
        else:
            self._held = data
        return b""

    def _read_length(self, data: bytes) -> bytes:
        piece = data[: self._left]
        self._left -= len(piece)
        if not self._left:
            self._end(surplus=len(data) > len(piece))
        return piece

    def _read_surplus(self, data: bytes) -> bytes:
        """Bytes after the end belong to no response: RFC 9112 section 6.3 has them discarded, with the connection."""
        self.reusable = self.reusable and not data
        return b""

    def _read_to_the_close(self, data: bytes) -> bytes:
        self.reusable = False
        return data

    def _read_upgraded(self, data: bytes) -> bytes:
        self.reusable = False
        return data

    def _end(self, *, surplus: bool) -> None:
        self.ended = True
        self.feed = self._read_surplus
        self.reusable = self.reusable and not surplus

    def _broken(self, why: str) -> bytes:
        # The offending bytes are not part of the message: it may reach a client.
        self.fault = EngineFault(f"the engine's answer cannot be read: {why}")
        self.reusable = False
        return b""


def _parse_head(data: bytes) -> Head | None:
    """The head in `data` (up to and with the last line end), None when any byte of it is out of place."""
    start = _STATUS.match(data)
    if start is None:
        return None
    fields: list[Field] = []
    at = start.end()
    while at < len(data):
        line = _FIELD.match(data, at)
        if line is None:
            return None
        fields.append((line[1], line[2].strip(b" \t")))
        at = line.end()
    return Head(minor=int(start[1]), status=int(start[2]), reason=start[3] or b"", fields=tuple(fields))
