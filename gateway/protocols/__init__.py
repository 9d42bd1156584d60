"""Floor 3: wire shapes. Never imports integrity; adding a protocol is one module and one line here."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final

from gateway.protocols.chat import Chat
from gateway.protocols.chat_batch import ChatBatch
from gateway.protocols.completions import Completions
from gateway.protocols.generate import Generate
from gateway.protocols.messages import Messages
from gateway.protocols.protocol import WireProtocol
from gateway.protocols.responses import Responses, StoredResponses

PROTOCOLS: Final[dict[str, WireProtocol]] = {
    "/v1/chat/completions": Chat(),
    "/v1/chat/completions/batch": ChatBatch(),
    "/v1/completions": Completions(),
    "/generate": Generate(),
    "/v1/messages": Messages(),
    "/v1/responses": Responses(),
}
"""By the route that makes an answer, with POST."""

STORED: Final = StoredResponses()
_STORED: Final = {
    "GET": re.compile(r".*/v1/responses/[^/]+", re.DOTALL),
    "POST": re.compile(r".*/v1/responses/[^/]+/cancel", re.DOTALL),
}
"""By method: the routes whose answer is a response that the engine has kept (reference/vllm.md 3.8, sglang.md 3.5)."""

UNREAD_TEXT: Final = {
    "gemini": ("*:generateContent", "*:streamGenerateContent"),
    "cohere": ("/cohere/v2/chat",),
    "ollama": ("/api/chat", "/api/generate"),
    "inference": ("/inference/v1/generate",),
    "invocations": ("/invocations",),
    "vertex": ("/vertex_generate",),
}
"""Routes, as globs, on which a model answers in a shape that nobody reads here, by what they are counted as: Google's
Gemini and Vertex AI shapes, and those of vLLM and SGLang (reference/vllm.md 3.8, sglang.md 3.8). An engine, or a proxy
before it, may have others that an operator has named."""


def protocol_for(raw_path: str) -> WireProtocol | None:
    """The protocol of the answer made at a raw request path (no query, no normalisation), with or without a prefix
    before `/v1`.

    None: the route is not inspected. `/inference/v1/generate` and `/api/generate` are other protocols.
    """
    for route, protocol in PROTOCOLS.items():
        if raw_path == route or (route.startswith("/v1/") and raw_path.endswith(route)):
            return protocol
    return None


def protocol_of(method: str, raw_path: str) -> WireProtocol | None:
    """The protocol of a request's answer: of one that is made, or of one that was stored. None: it is not inspected."""
    made = protocol_for(raw_path) if method == "POST" else None
    if made is None and method in _STORED and _STORED[method].fullmatch(raw_path):
        return STORED
    return made


def unread_text(method: str, raw_path: str) -> str | None:
    """What an answer counts as that has a model's text and is not read; None for every other route."""
    if method != "POST":
        return None
    found = (name for name, globs in UNREAD_TEXT.items() if any(fnmatchcase(raw_path, glob) for glob in globs))
    return next(found, None)
