"""HTTP/1.1 as bytes, for tests that care about them: a reader of messages and a raw client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Message:
    """A request or a response. `fields`: names as sent. `complete`: its framing says that it ended."""

    start: str
    fields: list[tuple[str, str]]
    body: bytes = b""
    complete: bool = True
    chunks: tuple[bytes, ...] = ()

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def get(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)

    @property
    def status(self) -> int:
        return int(self.start.split(" ")[1])

    @property
    def target(self) -> str:
        return self.start.split(" ")[1]


async def read_head(reader: asyncio.StreamReader) -> Message:
    """Start line and fields."""
    head = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
    fields = [(name, value.strip(" \t")) for name, _, value in (line.partition(":") for line in head[1:])]
    return Message(head[0], fields)


async def read_message(reader: asyncio.StreamReader, *, to_head: bool = False) -> Message:
    """One message with its body. `to_head`: the answer of a HEAD request. A body cut short has `complete` False."""
    message = await read_head(reader)
    response = message.start.startswith("HTTP/")
    if to_head or (response and message.status in (101, 204, 304)):
        return message
    length = message.get("content-length")
    try:
        if message.get("transfer-encoding") == "chunked":
            await _read_chunks(reader, message)
        elif length is not None:
            message.body = await reader.readexactly(int(length))
        elif response:
            message.body = await reader.read()
    except asyncio.IncompleteReadError as error:
        message.body += error.partial
        message.complete = False
    except ConnectionError:
        message.complete = False
    return message


async def _read_chunks(reader: asyncio.StreamReader, message: Message) -> None:
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        piece = await reader.readexactly(size)
        assert await reader.readexactly(2) == b"\r\n"
        message.body += piece
        message.chunks += (piece,)
    assert await reader.readexactly(2) == b"\r\n"


class Client:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> Message:
        return await asyncio.wait_for(read_head(self.reader), 5)

    async def answer(self, *, to_head: bool = False) -> Message:
        return await asyncio.wait_for(read_message(self.reader, to_head=to_head), 5)

    async def ask(self, data: bytes) -> Message:
        self.send(data)
        return await self.answer(to_head=data.startswith(b"HEAD "))

    async def closed(self) -> bool:
        """True when the other side closes without another byte."""
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(self.reader.read(), 5) == b""
        return True

    def leave(self) -> None:
        """Close at once: RST when anything is unread, FIN else."""
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncIterator[Client]:
    """A raw connection to the host of `url`."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, **options)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def fetch(url: str, data: bytes) -> Message:
    """One request on a connection of its own."""
    async with connected(url) as client:
        return await client.ask(data)


def get(target: str = "/v1/models", *fields: str) -> bytes:
    """A GET request; `fields` are whole lines."""
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: gateway", *fields, "", ""]).encode("latin-1")


def post(body: bytes, *fields: str, target: str = "/v1/chat/completions") -> bytes:
    """A POST request with a length; `fields` are whole lines."""
    lines = [f"POST {target} HTTP/1.1", "Host: gateway", "Content-Type: application/json", *fields]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body
