"""An engine made of bytes: it says what a test wrote, when the test wants it, and breaks as the test wants it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.support.http import Message, read_message

JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of the chunked coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def plain(body: bytes, head: bytes = JSON) -> bytes:
    """A whole answer with a length."""
    return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)


class Talk:
    """One request and the connection it came on."""

    def __init__(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request, self.reader, self.writer = request, reader, writer

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_left(self) -> None:
        """Returns when the other side has closed or reset the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def close(self) -> None:
        """FIN."""
        self.writer.close()

    def reset(self) -> None:
        """RST: what was not read yet is lost."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Talk], Awaitable[None]]


def saying(*pieces: bytes) -> Script:
    """A script that says `pieces` and keeps the connection."""

    async def script(talk: Talk) -> None:
        for piece in pieces:
            await talk.say(piece)

    return script


def answering(frames: Sequence[bytes], whole: bytes) -> Script:
    """A script that streams `frames` where the request asks for a stream, and says `whole` where not."""

    async def script(talk: Talk) -> None:
        if json.loads(talk.request.body).get("stream"):
            await saying(SSE, *map(chunk, frames), LAST_CHUNK)(talk)
        else:
            await talk.say(plain(whole))

    return script


def closing(*pieces: bytes) -> Script:
    """A script that says `pieces` and closes."""

    async def script(talk: Talk) -> None:
        await saying(*pieces)(talk)
        talk.close()

    return script


def resetting(*pieces: bytes, when: asyncio.Event) -> Script:
    """A script that says `pieces` and resets the connection when the test says so: a reset takes back what is
    unread."""

    async def script(talk: Talk) -> None:
        await saying(*pieces)(talk)
        await when.wait()
        talk.reset()

    return script


async def stalling(talk: Talk) -> None:
    """A script that says nothing until the other side leaves."""
    await talk.until_left()


@dataclass
class Engine:
    """A listening engine. Each request takes the next script; the last one is played again and again.

    `about`: path to JSON body, or what makes one of the question's: what it says to the gateway's own questions about
    it; those are neither in `seen` nor do they take a script. `questions`: how many there were. `connections`: those
    that carried another request.
    """

    url: str
    scripts: list[Script]
    seen: list[Message]
    about: Mapping[str, object]
    connections: int = 0
    questions: int = 0

    @property
    def last(self) -> Message:
        return self.seen[-1]


async def _tell(talk: Talk, about: Mapping[str, object]) -> None:
    said = about.get(talk.request.target)
    if callable(said):
        said = said(json.loads(talk.request.body))
    await talk.say(plain(json.dumps(said).encode(), JSON if said is not None else JSON.replace(b"200 OK", b"404 No")))


@contextlib.asynccontextmanager
async def engine(*scripts: Script, about: Mapping[str, object] | None = None) -> AsyncIterator[Engine]:
    """An engine on a free port of the loopback."""
    state = Engine(url="", scripts=list(scripts), seen=[], about={} if about is None else about)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        used = False
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                request = await read_message(reader)
                if (request.get("user-agent") or "").startswith("integrity-gateway/"):
                    state.questions += 1
                    await _tell(Talk(request, reader, writer), state.about)
                    continue
                state.connections += not used
                used = True
                state.seen.append(request)
                script = state.scripts.pop(0) if len(state.scripts) > 1 else state.scripts[0]
                await script(Talk(request, reader, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield state
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
