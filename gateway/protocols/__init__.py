"""Floor 3: wire shapes. Never imports integrity; adding a protocol is one module and one line here."""

from __future__ import annotations

from typing import Final

from gateway.protocols.chat import Chat
from gateway.protocols.protocol import WireProtocol

PROTOCOLS: Final[dict[str, WireProtocol]] = {"/v1/chat/completions": Chat()}


def protocol_for(raw_path: str) -> WireProtocol | None:
    """The protocol inspected at a raw request path (no query, no normalisation), with or without a prefix before `/v1`.

    None: the route is not inspected.
    """
    for route, protocol in PROTOCOLS.items():
        if raw_path.endswith(route):
            return protocol
    return None
