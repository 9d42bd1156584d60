"""Server-sent events: the WHATWG rules, the bytes kept, the caps, linear work."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import FrameTooLarge
from gateway.streams.sse import Frame, SSEReader, encode

BOM = b"\xef\xbb\xbf"
PLENTY = 1 << 20

Events = list[tuple[bytes, bytes]]


def reader(*, max_line: int = PLENTY, max_event: int = PLENTY) -> SSEReader:
    return SSEReader(max_line=max_line, max_event=max_event)


def read(chunks: Iterable[bytes]) -> tuple[list[Frame], bytes]:
    """The frames of `chunks` and what stays, with the bytes counted after each chunk."""
    stream, frames, fed = reader(), [], b""
    for chunk in chunks:
        fed += chunk
        frames += stream.feed(chunk)
        assert b"".join(frame.raw for frame in frames) + stream.pending == fed
    return frames, stream.pending


def tr(stream: bytes) -> list[Frame]:
    """The frames of `stream`: whole, cut in two everywhere, byte by byte, and with an unfinished frame behind."""
    frames, rest = read([stream])
    for cut in range(len(stream) + 1):
        assert read([stream[:cut], stream[cut:]]) == (frames, rest), cut
    assert read(stream[i : i + 1] for i in range(len(stream))) == (frames, rest)
    if not rest:
        assert read([stream + b"data: unfin"]) == (frames, b"data: unfin")
    return frames


def dispatched(frames: Iterable[Frame]) -> Events:
    return [(frame.event, frame.data) for frame in frames if frame.data is not None]


def by_the_standard(stream: bytes) -> Events:
    """WHATWG 9.2.6 "Interpreting an event stream", line by line. The last line is unfinished."""
    events: Events = []
    data: list[bytes] = []
    kind = b""
    for line in re.split(rb"\r\n|\n|\r", stream.removeprefix(BOM))[:-1]:
        if line == b"":
            if data:
                events.append((kind, b"\n".join(data)))
            data, kind = [], b""
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if field == b"data":
                data.append(value)
            elif field == b"event":
                kind = value
    return events


# The examples of the standard, each with the events it says are dispatched.
STANDARD: list[tuple[bytes, Events]] = [
    (
        b"data: This is the first message.\n\n"
        b"data: This is the second message, it\ndata: has two lines.\n\n"
        b"data: This is the third message.\n\n",
        [
            (b"", b"This is the first message."),
            (b"", b"This is the second message, it\nhas two lines."),
            (b"", b"This is the third message."),
        ],
    ),
    (
        b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: add\ndata: 113411\n\n",
        [(b"add", b"73857293"), (b"remove", b"2153"), (b"add", b"113411")],
    ),
    (b"data: YHOO\ndata: +2\ndata: 10\n\n", [(b"", b"YHOO\n+2\n10")]),
    (
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        [(b"", b"first event"), (b"", b"second event"), (b"", b" third event")],
    ),
    (b"data\n\ndata\ndata\n\ndata:", [(b"", b""), (b"", b"\n")]),
    (b"data:test\n\ndata: test\n\n", [(b"", b"test"), (b"", b"test")]),
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize(("stream", "events"), STANDARD)
def test_the_examples_of_the_standard_hold_at_every_cut_and_line_end(stream: bytes, events: Events, end: bytes) -> None:
    assert dispatched(tr(stream.replace(b"\n", end))) == events


@pytest.mark.parametrize(
    ("stream", "frames"),
    [
        (b"data: {}\n\n", [Frame(b"data: {}\n\n", b"{}")]),
        (b": ping\n\n", [Frame(b": ping\n\n", None)]),
        (b"\n", [Frame(b"\n", None)]),
        (b"\r\n\n", [Frame(b"\r\n", None), Frame(b"\n", None)]),
        (b"data: a\n\n\ndata: b\n\n", [Frame(b"data: a\n\n", b"a"), Frame(b"\n", None), Frame(b"data: b\n\n", b"b")]),
        (b"data: a\n\n\n\n", [Frame(b"data: a\n\n", b"a"), Frame(b"\n", None), Frame(b"\n", None)]),
        (b"event: x\n\n", [Frame(b"event: x\n\n", None, b"x")]),
        (b"event: x\ndata: \n\n", [Frame(b"event: x\ndata: \n\n", b"", b"x")]),
        (b"event: x\ndata: a\ndata: b\n\n", [Frame(b"event: x\ndata: a\ndata: b\n\n", b"a\nb", b"x")]),
        (b"event: x\nid: 1\ndata: a\n\n", [Frame(b"event: x\nid: 1\ndata: a\n\n", b"a", b"x")]),
        (b"data: a\nevent: x\nevent:y\n\n", [Frame(b"data: a\nevent: x\nevent:y\n\n", b"a", b"y")]),
        (b"retry: 9\nDATA: 1\nxdata: 2\n data: 3\n\n", [Frame(b"retry: 9\nDATA: 1\nxdata: 2\n data: 3\n\n", None)]),
        (b"data: a\r\n\r\n", [Frame(b"data: a\r\n\r\n", b"a")]),
        (b"data: a\n\r\n", [Frame(b"data: a\n\r\n", b"a")]),
        (b"data: a\r\n\n", [Frame(b"data: a\r\n\n", b"a")]),
        (b"data: a\rdata: b\r\n\r\n", [Frame(b"data: a\rdata: b\r\n\r\n", b"a\nb")]),
        (b"data: a\n\rdata: b\n\n", [Frame(b"data: a\n\r", b"a"), Frame(b"data: b\n\n", b"b")]),
        (b"\rdata: b\n\n", [Frame(b"\r", None), Frame(b"data: b\n\n", b"b")]),
        (b"data: a\r\r\n", [Frame(b"data: a\r\r", b"a"), Frame(b"\n", None)]),
        (BOM + b"data: a\n\n", [Frame(BOM + b"data: a\n\n", b"a")]),
        (BOM + b"event: x\ndata: a\n\n", [Frame(BOM + b"event: x\ndata: a\n\n", b"a", b"x")]),
        (BOM + BOM + b"data: a\n\n", [Frame(BOM + BOM + b"data: a\n\n", None)]),
        (b": c\n\n" + BOM + b"data: a\n\n", [Frame(b": c\n\n", None), Frame(BOM + b"data: a\n\n", None)]),
        (b"data: a\n\n" + BOM + b"data: b\n\n", [Frame(b"data: a\n\n", b"a"), Frame(BOM + b"data: b\n\n", None)]),
        ("data: é😀\n\n".encode(), [Frame("data: é😀\n\n".encode(), "é😀".encode())]),
        (b"data: \x00\xff\x0b\xc2\x85\n\n", [Frame(b"data: \x00\xff\x0b\xc2\x85\n\n", b"\x00\xff\x0b\xc2\x85")]),
    ],
)
def test_a_frame_has_its_bytes_and_its_fields_at_every_cut(stream: bytes, frames: list[Frame]) -> None:
    assert tr(stream) == frames


@pytest.mark.parametrize("stream", [b"", b"data: a\n", b"data: a", b"data: a\r\n\r", b"data: a\n\r", BOM, b"\r"])
def test_an_unfinished_frame_stays_pending(stream: bytes) -> None:
    assert tr(stream) == []
    assert read([stream])[1] == stream


def test_a_stream_with_lone_cr_is_not_one_frame_late() -> None:
    stream = reader()
    assert [frame.data for frame in stream.feed(b"data: a\r\r")] == [b"a"]
    assert stream.pending == b""


def test_frames_fed_one_by_one_equal_frames_fed_together() -> None:
    parts = [b"data: %d\n\n" % number for number in range(9)] + [b"event: e\ndata: x\n\n", b"data: [DONE]\n\n"]
    assert read(parts) == read([b"".join(parts)])


def test_a_single_whole_chunk_is_its_own_frame_without_a_copy() -> None:
    chunk = b'data: {"a":1}\n\n'
    assert reader().feed(chunk)[0].raw is chunk


PIECES = st.sampled_from(
    [b"data", b"data: ", b"event", b"event: ", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"x", b"id", BOM, b"\xe2"]
)


@given(st.lists(PIECES, max_size=40).map(b"".join), st.data())
def test_every_chunking_of_any_bytes_gives_the_events_of_the_standard(stream: bytes, data: st.DataObject) -> None:
    stream += b"x"  # so that a CR at the end is no half of a line end
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    frames, _ = read(stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True))
    assert frames == read([stream])[0]
    assert dispatched(frames) == by_the_standard(stream)


CAP = 5_000  # above the size up to which an unfinished frame is joined with what follows
CHUNKINGS: list[Callable[[bytes], list[bytes]]] = [
    lambda stream: [stream],
    lambda stream: [stream[: len(stream) // 2], stream[len(stream) // 2 :]],
    lambda stream: [stream[i : i + 1] for i in range(len(stream))],
]


@pytest.mark.parametrize("chunking", CHUNKINGS, ids=["whole", "halves", "bytes"])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\nid\n\n"])
@pytest.mark.parametrize(("size", "fits"), [(CAP - 1, True), (CAP, True), (CAP + 1, False)])
def test_a_line_may_be_as_long_as_its_cap(
    size: int, fits: bool, end: bytes, chunking: Callable[[bytes], list[bytes]]
) -> None:
    stream = b"data: " + b"x" * (size - 6) + end
    check_cap(reader(max_line=CAP), chunking(stream), frames=[(b"", b"x" * (size - 6))] if fits else None)


@pytest.mark.parametrize("chunking", CHUNKINGS, ids=["whole", "halves", "bytes"])
@pytest.mark.parametrize(("size", "fits"), [(CAP - 1, True), (CAP, True), (CAP + 1, False)])
def test_an_event_may_be_as_long_as_its_cap(size: int, fits: bool, chunking: Callable[[bytes], list[bytes]]) -> None:
    stream = b"data: a\n" + b"data: " + b"x" * (size - 16) + b"\n\n"
    assert len(stream) == size
    check_cap(reader(max_event=CAP), chunking(stream), frames=[(b"", b"a\n" + b"x" * (size - 16))] if fits else None)


def check_cap(stream: SSEReader, chunks: list[bytes], *, frames: Events | None) -> None:
    """Feed `chunks`: either these frames come, or FrameTooLarge and every byte fed is pending."""
    got: list[Frame] = []
    for number, chunk in enumerate(chunks):
        try:
            got += stream.feed(chunk)
        except FrameTooLarge as error:
            assert frames is None
            assert str(CAP) in str(error)
            assert stream.pending == b"".join(chunks[: number + 1])
            return
    assert frames == dispatched(got)


def test_an_unfinished_line_over_its_cap_is_refused_at_once() -> None:
    stream = reader(max_line=CAP)
    assert stream.feed(b"data: a\n" + b"x" * CAP) == []
    with pytest.raises(FrameTooLarge):
        stream.feed(b"x")


def test_an_unfinished_event_may_be_as_long_as_its_cap() -> None:
    stream = reader(max_event=CAP)
    assert stream.feed(b"data: a\n" + b"x" * (CAP - 9)) == []
    assert stream.feed(b"x") == []
    with pytest.raises(FrameTooLarge):
        stream.feed(b"x")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 700, 4_000, CAP])
def test_the_line_cap_counts_each_line_of_an_unfinished_event_by_itself(size: int, end: bytes) -> None:
    stream, line = reader(max_line=CAP), b"x" * (CAP - 1)
    event = end.join([b"data: a", line, b"", line, line, b"data: b", b"x" * CAP])
    frames = [frame for at in range(0, len(event), size) for frame in stream.feed(event[at : at + size])]
    assert dispatched(frames) == [(b"", b"a")]
    with pytest.raises(FrameTooLarge):
        stream.feed(b"x")


def test_frames_read_in_the_call_that_breaks_a_cap_stay_pending_and_it_breaks_again() -> None:
    stream = reader(max_line=10)
    assert len(stream.feed(b"data: one\n\n")) == 1
    rest = b"data: two\n\n" + b"data: three is long\n\n" + b"data: 4\n\n"
    with pytest.raises(FrameTooLarge):
        stream.feed(rest)
    with pytest.raises(FrameTooLarge):
        stream.feed(b"more")
    assert stream.pending == rest + b"more"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_taking_what_is_pending_empties_it_and_reading_goes_on(end: bytes) -> None:
    stream, unfinished, frame = reader(max_line=20), b"event: x" + end + b"data: a long line", b"data: b" + end * 2
    stream.feed(unfinished)
    assert stream.take_pending() == unfinished
    assert stream.pending == stream.take_pending() == b""
    assert stream.feed(frame) == [Frame(frame, b"b")]
    with pytest.raises(FrameTooLarge):
        stream.feed(b"x" * 21)


@pytest.mark.parametrize(
    ("data", "event", "frame"),
    [
        (b"{}", b"", b"data: {}\n\n"),
        (b"{}", b"ping", b"event: ping\ndata: {}\n\n"),
        (b"a\nb", b"", b"data: a\ndata: b\n\n"),
        (b"a\r\nb\rc", b"", b"data: a\ndata: b\ndata: c\n\n"),
        (b"", b"", b"data: \n\n"),
    ],
)
def test_encode_writes_one_frame(data: bytes, event: bytes, frame: bytes) -> None:
    assert encode(data, event=event) == frame


@given(st.binary(), st.binary().filter(lambda event: not set(event) & set(b"\r\n")))
def test_what_is_encoded_is_read_back(data: bytes, event: bytes) -> None:
    (frame,) = tr(encode(data, event=event))
    assert frame.event == event
    assert frame.data == data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@pytest.mark.parametrize("event", [b"a\nb", b"a\rb"])
def test_an_event_type_with_a_line_end_is_refused(event: bytes) -> None:
    with pytest.raises(ValueError, match="line end"):
        encode(b"{}", event=event)


@pytest.mark.parametrize(
    "piece",
    [b"x" * 64, b"xxx\n" * 16, b"xx\r\n" * 16, b"data: x\n\n" * 8, b"data: x\r\r" * 8],
    ids=["one line", "lines of one event", "CRLF lines", "frames", "CR frames"],
)
def test_ten_times_the_bytes_cost_about_ten_times_the_work(piece: bytes) -> None:
    def cost(pieces: int) -> float:
        return min(spent(reader(max_line=1 << 24, max_event=1 << 24), piece, pieces) for _ in range(3))

    assert cost(20_000) < 30 * cost(2_000)  # quadratic work would be a hundred times


def spent(stream: SSEReader, piece: bytes, pieces: int) -> float:
    started = time.process_time()
    for _ in range(pieces):
        stream.feed(piece)
    return time.process_time() - started
