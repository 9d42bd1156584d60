"""Is an answer legal in its protocol? One checker for each, written from that protocol's documentation.

They judge what goes to a client: in tests, and for `scan`. Nothing of them runs on the way of an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from gateway.protocols.legal import chat, completions, generate, messages, responses


class Checker(Protocol):
    """Says what is not legal in the body of a streamed answer: number and type of the event, and what is wrong."""

    def __call__(self, body: bytes, *, ended: bool = True) -> list[str]:
        """Empty: nothing. `ended` False: the body is not all of the stream."""


CHECKERS: Final[Mapping[str, Checker]] = {
    "chat": chat.violations,
    "completions": completions.violations,
    "generate": generate.violations,
    "messages": messages.violations,
    "responses": responses.violations,
}
"""By the name of a protocol (`WireProtocol.name`)."""
