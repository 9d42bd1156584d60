"""New data inside the bytes of the frame it came in, so that an event keeps its `id`, its `event` and its comments.

Knows lines. Must not know what the data means.
"""

from __future__ import annotations

from typing import Final

from gateway.streams.sse import Frame

BOM: Final = b"\xef\xbb\xbf"
"""What a stream may begin with: it is no part of the first field's name."""
_DATA: Final = (b"data", BOM + b"data")


def framed(frame: Frame, data: bytes) -> bytes:
    """The frame with `data` where its first data line stood and without its others; every other line stays.

    Data with LF in it becomes several data lines, which a reader joins again. `frame` has data.
    """
    raw = frame.raw
    if raw[:6] == b"data: " and raw.find(b"\n") == len(raw) - 2:  # one line, and nothing else: nearly every frame
        return b"data: " + data + b"\n\n"
    out: list[bytes] = []
    written = False
    for line in raw.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        name = text.partition(b":")[0]
        if name not in _DATA:
            out.append(line)
        elif not written:
            written = True
            end = line[len(text) :]
            out += [name.removesuffix(b"data"), *(b"data: " + each + end for each in data.split(b"\n"))]
    return b"".join(out)
