"""Header fields between client and engine: what is hop-by-hop, what stays here, how a head is written.

Owns RFC 9110 section 7.6.1 and the two head writers; fields are bytes as on the wire, so names keep their case and
values their octets. Must not know routes, bodies or the connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus

from gateway.server.wire import Field

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110 section 7.6.1 and RFC 9112 section 9; fields named by `Connection` are added to it, message by message."""

_KEPT_HERE = HOP_BY_HOP | {b"host", b"content-length", b"expect"}
_OUR_PREFIX = b"x-integrity-"
_PHRASES = {int(status): status.phrase.encode("ascii") for status in HTTPStatus}
UPGRADE: tuple[Field, ...] = ((b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"))


def _named_by_connection(fields: Iterable[Field]) -> frozenset[bytes]:
    values = (value for name, value in fields if name.lower() == b"connection")
    return frozenset(option.strip().lower() for value in values for option in value.split(b","))


def values_of(fields: Iterable[Field], name: bytes) -> list[bytes]:
    """The values of every field of that lower-case name, in order."""
    return [value for key, value in fields if key.lower() == name]


def for_engine(fields: Sequence[Field], *, identity: bool, upgrade: bool) -> list[Field]:
    """The client's `fields` for the upstream request; `Host` and the framing of the body are added by the caller.

    `identity`: answers must be readable, so no content coding is accepted. `upgrade`: asks for a WebSocket.
    """
    dropped = _KEPT_HERE | _named_by_connection(fields)
    if identity:
        dropped |= {b"accept-encoding"}
    kept = [field for field in fields if not _stays(field[0].lower(), dropped)]
    if identity:
        kept.append((b"Accept-Encoding", b"identity"))
    return [*kept, *UPGRADE] if upgrade else kept


def _stays(name: bytes, dropped: frozenset[bytes]) -> bool:
    return name in dropped or name.startswith(_OUR_PREFIX)


def for_client(fields: Sequence[Field]) -> list[Field]:
    """The engine's `fields` for the client's answer; the framing of the body is added by the caller."""
    dropped = HOP_BY_HOP | _named_by_connection(fields) | {b"content-length"}
    return [field for field in fields if field[0].lower() not in dropped]


def request_head(method: str, target: bytes, fields: Iterable[Field]) -> bytes:
    """The head of a request, with the empty line."""
    return _head(b"%b %b HTTP/1.1" % (method.encode("ascii"), target), fields)


def response_head(status: int, reason: bytes, fields: Iterable[Field], *, minor: int) -> bytes:
    """The head of a response to a client that speaks HTTP/1.`minor`, with the empty line."""
    return _head(b"HTTP/1.%d %d %b" % (minor, status, reason or phrase(status)), fields)


def phrase(status: int) -> bytes:
    """The reason phrase of the registry; empty for a status it does not know."""
    return _PHRASES.get(status, b"")


def _head(start: bytes, fields: Iterable[Field]) -> bytes:
    lines = [start, *(b"%b: %b" % field for field in fields)]
    return b"\r\n".join(lines) + b"\r\n\r\n"
