"""Floor 1: server-sent events on bytes (WHATWG HTML, section 9.2 "Server-sent events"). Runs for every streamed token.

Owns the cut of a byte stream into frames and the reading of `data` and `event` fields. Keeps every byte: the raw bytes
of all frames, then `pending`, are what was fed. Must not know what the data means: no JSON, no protocol, no model.

Where a frame ends. A line ends with LF, CR LF or CR; a frame ends with its empty line. CR at the end of what was fed
may be half a CR LF, so it waits for the next byte, except after another CR: CR CR is an empty line whatever follows,
and a stream that uses CR alone is not one frame late. LF after such a CR CR is an empty line of its own, which
dispatches nothing. Frames are therefore the same at every chunking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.errors import FrameTooLarge

_LF: Final = 10
_CR: Final = 13
_BOM: Final = b"\xef\xbb\xbf"
_EMPTY_LINE: Final = re.compile(rb"\n|\r\n|\r(?=[^\n])")
_FRAME_END: Final = re.compile(rb"\n(?:\n|\r\n|\r(?=[^\n]))|\r\r")
_END_OVERLAP: Final = 2  # the longest end that can be cut is three bytes, `_FRAME_END`'s look-ahead included
_JOINED: Final = 4096  # an unfinished frame up to this size is read again together with what follows it


# Not frozen: a frozen dataclass costs 0.3 us more to make, half of the budget of a frame.
@dataclass(slots=True)
class Frame:
    """One event of a stream with its original bytes, from its first byte to the end of its empty line.

    `data` is the data lines joined by LF, None when there is none (a comment, an empty line). `event` is the event
    type, empty when none was given.
    """

    raw: bytes
    data: bytes | None
    event: bytes = b""


class SSEReader:
    """Cuts a byte stream into frames.

    `max_line` caps one line without its line end, `max_event` one frame with all its bytes. Both in bytes.
    """

    __slots__ = ("_buffer", "_line", "_max_event", "_max_line", "_seen", "_small", "_started")

    def __init__(self, *, max_line: int, max_event: int) -> None:
        self._max_line = max_line
        self._max_event = max_event
        self._small = min(max_line, max_event)  # a chunk up to this size cannot break a cap
        self._buffer = bytearray()
        self._seen = 0  # no frame ends before this place of the buffer
        self._line = 0  # where the unfinished line of the buffer starts
        self._started = False  # a byte-order mark counts only at the start of the stream

    @property
    def pending(self) -> bytes:
        """The bytes that were fed and not returned in a frame."""
        return bytes(self._buffer)

    def take_pending(self) -> bytes:
        """Return `pending` and forget it."""
        pending = bytes(self._buffer)
        self._buffer.clear()
        self._seen = self._line = 0
        return pending

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that `chunk` completes.

        Raises FrameTooLarge over a cap; then every byte not returned by an earlier call is in `pending`.
        """
        buffer = self._buffer
        one = not buffer and chunk[:6] == b"data: " and chunk[-1] == _LF and _CR not in chunk
        if one and len(chunk) <= self._small and chunk.find(b"\n") == len(chunk) - 2:
            self._started = True
            return [Frame(chunk, chunk[6:-2])]
        if len(buffer) <= _JOINED:
            joined = bytes(buffer) + chunk
            if len(joined) <= self._small and _CR not in joined and joined[:1] != b"\n" and b"\n\n\n" not in joined:
                *blocks, rest = joined.split(b"\n\n")
                frames = [self._read(block + b"\n\n", block) for block in blocks]
                buffer[:] = rest
                self._line = rest.rfind(b"\n") + 1
                self._seen = max(0, len(rest) - _END_OVERLAP)
                return frames
        buffer += chunk
        return self._scan()

    def _scan(self) -> list[Frame]:
        """Take the complete frames off the buffer; nothing is taken when a cap is broken."""
        buffer, at = self._buffer, 0
        frames: list[Frame] = []
        while end := self._frame_end(at):
            raw = bytes(buffer[at:end])
            frames.append(self._read(raw, raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip(b"\n")))
            at = end
        line_end = max(buffer.rfind(b"\n", self._seen), buffer.rfind(b"\r", self._seen))
        self._line = max(self._line, line_end + 1)
        self._check(len(buffer) - self._line, len(buffer) - at)
        del buffer[:at]
        self._line -= at
        self._seen = max(0, len(buffer) - _END_OVERLAP)
        return frames

    def _frame_end(self, at: int) -> int:
        """Where the frame that starts at `at` ends in the buffer; 0 when it is not complete."""
        end = _EMPTY_LINE.match(self._buffer, at) or _FRAME_END.search(self._buffer, max(at, self._seen))
        return end.end() if end else 0

    def _read(self, raw: bytes, text: bytes) -> Frame:
        """The fields of one complete frame; `text` is `raw` up to its empty line with LF for every line end."""
        if len(raw) > self._small:
            self._check(max(map(len, text.split(b"\n"))), len(raw))
        first, self._started = not self._started, True
        if text[:6] == b"data: " and _LF not in text:
            return Frame(raw, text[6:])
        if text[:7] == b"event: ":  # the two-line shape of Messages and Responses
            event, _, data = text[7:].partition(b"\ndata: ")
            if data and _LF not in data and _LF not in event:
                return Frame(raw, data, event)
        return _fields(raw, text.removeprefix(_BOM) if first else text)

    def _check(self, line: int, event: int) -> None:
        """Raise FrameTooLarge when a line or an event of these sizes breaks a cap."""
        if line > self._max_line:
            raise FrameTooLarge(f"a line of the event stream is longer than {self._max_line} bytes")
        if event > self._max_event:
            raise FrameTooLarge(f"an event of the event stream is longer than {self._max_event} bytes")


def _fields(raw: bytes, text: bytes) -> Frame:
    """A frame read line by line: names that are not `data` or `event` mean nothing here (comments have no name)."""
    data: list[bytes] = []
    event = b""
    for line in text.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            event = value.removeprefix(b" ")
    return Frame(raw, b"\n".join(data) if data else None, event)


def encode(data: bytes, *, event: bytes = b"") -> bytes:
    """One frame. Data with line ends becomes several data lines, which a reader joins with LF.

    Raises ValueError when `event` holds a line end: it would write a field of its own.
    """
    if b"\n" in event or b"\r" in event:
        raise ValueError("an event type has no line end")
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    head = b"event: " + event + b"\n" if event else b""
    return head + b"data: " + data + b"\n\n"
