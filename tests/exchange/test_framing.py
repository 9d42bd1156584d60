"""New data in the bytes of the event it came in (WHATWG HTML 9.2.6): only its data lines are others."""

from __future__ import annotations

import pytest

from gateway.exchange.framing import framed
from gateway.streams.sse import SSEReader


@pytest.mark.parametrize(
    ("raw", "new"),
    [
        (b"data: old\n\n", b"data: NEW\n\n"),
        (b"data:old\n\n", b"data: NEW\n\n"),
        (b"id: 7\ndata: old\n\n", b"id: 7\ndata: NEW\n\n"),
        (b": note\nevent: e\ndata: old\nretry: 5\n\n", b": note\nevent: e\ndata: NEW\nretry: 5\n\n"),
        (b"data: old\r\nid: 7\r\n\r\n", b"data: NEW\r\nid: 7\r\n\r\n"),
        (b"id: 7\rdata: old\r\r", b"id: 7\rdata: NEW\r\r"),
        (b"data: o\nid: 7\ndata: ld\n\n", b"data: NEW\nid: 7\n\n"),
        (b"data\nid: 7\n\n", b"data: NEW\nid: 7\n\n"),
        (b"\xef\xbb\xbfdata: old\n\n", b"\xef\xbb\xbfdata: NEW\n\n"),
        (b"database: x\ndata: old\n\n", b"database: x\ndata: NEW\n\n"),
    ],
)
def test_every_line_that_is_no_data_stays(raw: bytes, new: bytes) -> None:
    [frame] = SSEReader(max_line=100, max_event=100).feed(raw + b": next\n\n")[:1]
    assert frame.raw == raw
    assert framed(frame, b"NEW") == new


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_data_of_two_lines_stays_one_event(end: bytes) -> None:
    raw = b"id: 7" + end + b"data: {" + end + b"data: }" + end + end
    [frame] = SSEReader(max_line=100, max_event=100).feed(raw + b": next\n\n")[:1]
    assert frame.data is not None
    assert framed(frame, frame.data) == raw
