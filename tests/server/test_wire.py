"""The reader of an engine's response: RFC 9112 cases, whole, cut everywhere, byte by byte, with bytes after the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import EngineFault, EngineTruncated, EngineUnreachable
from gateway.server.wire import CHUNK_LINE_BYTES, HEAD_BYTES, ResponseReader

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

COMPLETE = {
    "a length": (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "a length of zero": (OK + b"Content-Length: 0\r\n\r\n", b""),
    "equal lengths": (OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
    "one chunk": (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    "no chunk": (CHUNKED + b"0\r\n\r\n", b""),
    "many chunks": (CHUNKED + b"1\r\na\r\n0a\r\nbcdefghijk\r\n2\r\n\r\n\r\n0\r\n\r\n", b"abcdefghijk\r\n"),
    "RFC 9112 7.1.1: chunk extensions": (CHUNKED + b'3;a;b="c"\r\nabc\r\n0;last\r\n\r\n', b"abc"),
    "RFC 9112 7.1.2: trailers": (CHUNKED + b"1\r\na\r\n0\r\nContent-Length: 9\r\nX: y\r\n\r\n", b"a"),
    "upper case coding": (OK + b"transfer-encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    "100 and 103 first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!",
        b"!",
    ),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "304 with a length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", b""),
    "no reason": (b"HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx", b"x"),
    "no space before no reason": (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", b"x"),
}

AMBIGUOUS = b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "raw"),
    [
        ("HEAD", OK + AMBIGUOUS),
        ("HEAD", OK + b"Content-Length: 5, 5\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n" + AMBIGUOUS),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: x\r\n\r\n"),
    ],
)
def test_a_length_that_is_ambiguous_is_a_fault_where_there_is_no_body_too(method: str, raw: bytes) -> None:
    """The client would get it, and take it for the length of something."""
    got, reader = read([raw], method=method)
    assert (got, reader.head, reader.reusable) == (b"", None, False)
    assert isinstance(reader.fault, EngineFault)


def read(pieces: list[bytes], *, method: str = "POST", upgrade: bool = False) -> tuple[bytes, ResponseReader]:
    reader = ResponseReader(method=method, upgrade=upgrade)
    return b"".join([reader.feed(piece) for piece in pieces]), reader


@pytest.mark.parametrize("case", COMPLETE)
def test_a_complete_answer_is_read_at_every_cut(case: str) -> None:
    raw, body = COMPLETE[case]
    cuts = [[raw], [raw[i : i + 1] for i in range(len(raw))], *([raw[:i], raw[i:]] for i in range(1, len(raw)))]
    for pieces in cuts:
        got, reader = read(pieces)
        assert (got, reader.ended, reader.fault, reader.reusable) == (body, True, None, True), pieces


@pytest.mark.parametrize("case", COMPLETE)
def test_no_answer_ends_before_its_last_byte(case: str) -> None:
    raw, _ = COMPLETE[case]
    for end in range(len(raw)):
        _, reader = read([raw[:end]])
        assert not reader.ended, raw[:end]


@pytest.mark.parametrize("case", COMPLETE)
def test_bytes_after_the_end_are_dropped_and_end_the_reuse(case: str) -> None:
    raw, body = COMPLETE[case]
    for pieces in ([raw + b"HTTP/1.1 200 OK\r\n"], [raw, b"x"]):
        got, reader = read(pieces)
        assert (got, reader.ended, reader.reusable) == (body, True, False)


@given(st.lists(st.binary(max_size=40)), st.data())
def test_chunks_carry_any_bytes_at_any_cut(parts: list[bytes], data: st.DataObject) -> None:
    raw = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[i:j] for i, j in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    got, reader = read([piece for piece in pieces if piece])
    assert (got, reader.ended) == (b"".join(parts), True)


def test_the_bytes_of_a_chunk_do_not_wait_for_its_end() -> None:
    got, reader = read([CHUNKED + b"ff\r\nabc"])
    assert (got, reader.ended) == (b"abc", False)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 099 Odd\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"HTTP/1.1 200 a\x00b\r\n\r\n",
        OK + b"a: b\rc\r\n\r\n",
        OK + b"a: b\nc: d\r\n\r\n",
        OK + b"a: b\x00\r\n\r\n",
        OK + b"a: b\r\n folded\r\n\r\n",
        OK + b"a : b\r\n\r\n",
        OK + b": b\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        OK + b"Content-Length: 1, 1\r\n\r\n",
        OK + b"Content-Length: +1\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 1_0\r\n\r\n",
        OK + b"Content-Length:\r\n\r\n",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
        CHUNKED + b"0x5\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"1_0\r\n",
        CHUNKED + b"5\nhello",
        CHUNKED + b"5;a\nb\r\nhello",
        CHUNKED + b"1\r\naX1\r\n",
        CHUNKED + b"1\r\na\rX",
        CHUNKED + b"10000000000000000\r\n",
        CHUNKED + b"\r\n",
    ],
)
def test_what_no_engine_sends_is_a_fault_and_is_not_quoted(raw: bytes) -> None:
    for pieces in ([raw], [raw[i : i + 1] for i in range(len(raw))]):
        _, reader = read(pieces)
        assert type(reader.fault) is EngineFault
        assert not reader.reusable
        assert not reader.ended


def test_bytes_before_a_fault_are_not_lost() -> None:
    got, reader = read([CHUNKED + b"5\r\nhello\r\nbogus\r\n"])
    assert (got, reader.fault is None) == (b"hello", False)


@pytest.mark.parametrize(
    ("prefix", "filler", "limit"),
    [
        (OK, b"a", HEAD_BYTES - len(OK)),
        (CHUNKED, b"0", CHUNK_LINE_BYTES),
        (CHUNKED + b"0\r\n", b"a", HEAD_BYTES),
    ],
    ids=["head", "chunk line", "trailers"],
)
def test_what_never_ends_is_a_fault_at_its_cap(prefix: bytes, filler: bytes, limit: int) -> None:
    for size, broken in ((limit - 1, False), (limit, False), (limit + 1, True)):
        _, reader = read([prefix + filler * size])
        assert (reader.fault is not None) is broken, size


def test_a_head_of_exactly_the_cap_is_read() -> None:
    for size, fine in ((HEAD_BYTES, True), (HEAD_BYTES + 1, False)):
        filler = b"a" * (size - len(OK + b"content-length: 0\r\nx: "))
        _, reader = read([OK + b"content-length: 0\r\nx: " + filler + b"\r\n\r\n"])
        assert reader.ended is fine


def test_a_thousand_interim_answers_are_swallowed() -> None:
    _, reader = read([b"HTTP/1.1 100 Continue\r\n\r\n" * 3000 + OK + b"Content-Length: 0\r\n\r\n"])
    assert reader.ended


def test_the_head_is_kept_as_sent() -> None:
    _, reader = read([b"HTTP/1.0 404 N\xc3\xb8pe\r\nSet-Cookie: a\r\nset-cookie:\tb \r\nX-Empty:\r\n\r\n"])
    head = reader.head
    assert head is not None
    assert (head.minor, head.status, head.reason) == (0, 404, b"N\xc3\xb8pe")
    assert head.fields == ((b"Set-Cookie", b"a"), (b"set-cookie", b"b"), (b"X-Empty", b""))
    assert (head.all(b"set-cookie"), head.text(b"set-cookie"), head.text(b"x")) == ([b"a", b"b"], "a", None)


def test_the_answer_of_a_head_request_has_no_body() -> None:
    _, reader = read([OK + b"Content-Length: 5\r\n\r\n"], method="HEAD")
    assert (reader.ended, reader.reusable) == (True, True)


def test_an_upgrade_that_was_asked_for_has_a_body_without_end() -> None:
    got, reader = read([b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x00", b"\x88\x00"], upgrade=True)
    assert (got, reader.ended, reader.fault) == (b"\x81\x00\x88\x00", False, None)
    reader.close(broken=False)
    assert (reader.ended, reader.reusable) == (True, False)


@pytest.mark.parametrize(
    ("raw", "broken", "fault"),
    [
        (b"", False, EngineUnreachable),
        (b"HTTP/1.1 2", False, EngineUnreachable),
        (OK + b"Content-Length: 5\r\n\r\nhell", False, EngineTruncated),
        (CHUNKED + b"5\r\nhello\r\n", False, EngineTruncated),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", False, EngineTruncated),
        (OK + b"\r\nhello", True, EngineTruncated),
        (OK + b"\r\nhello", False, None),
        (OK + b"Content-Length: 5\r\n\r\nhello", True, None),
    ],
)
def test_the_close_decides_what_the_framing_left_open(
    raw: bytes, broken: bool, fault: type[EngineFault] | None
) -> None:
    _, reader = read([raw])
    reader.close(broken=broken)
    assert (type(reader.fault) if reader.fault else None) is fault
    assert reader.ended is (fault is None)
    assert not reader.reusable


@pytest.mark.parametrize(
    ("fields", "reusable"),
    [(b"Connection: close\r\n", False), (b"Connection: x, Close\r\n", False), (b"Connection: keep-alive\r\n", True)],
)
def test_the_connection_header_decides_about_reuse(fields: bytes, reusable: bool) -> None:
    _, reader = read([OK + fields + b"Content-Length: 0\r\n\r\n"])
    assert reader.reusable is reusable
