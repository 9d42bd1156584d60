"""Floor 3: wire shapes. Never imports integrity; adding a protocol is one module and one line here."""

from __future__ import annotations

from typing import Final

from gateway.protocols.chat import Chat
from gateway.protocols.completions import Completions
from gateway.protocols.generate import Generate
from gateway.protocols.messages import Messages
from gateway.protocols.protocol import WireProtocol
from gateway.protocols.responses import Responses

PROTOCOLS: Final[dict[str, WireProtocol]] = {
    "/v1/chat/completions": Chat(),
    "/v1/completions": Completions(),
    "/generate": Generate(),
    "/v1/messages": Messages(),
    "/v1/responses": Responses(),
}


def protocol_for(raw_path: str) -> WireProtocol | None:
    """The protocol inspected at a raw request path (no query, no normalisation), with or without a prefix before `/v1`.

    None: the route is not inspected. `/inference/v1/generate` and `/api/generate` are other protocols.
    """
    for route, protocol in PROTOCOLS.items():
        if raw_path == route or (route.startswith("/v1/") and raw_path.endswith(route)):
            return protocol
    return None
