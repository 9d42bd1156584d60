"""What every test that streams an answer checks in passing: a legal stream does not become an illegal one."""

from __future__ import annotations

from gateway.protocols.legal import CHECKERS


def stays_legal(protocol: str, sent: bytes, got: bytes) -> None:
    """Assert that the client's stream is legal where the engine's is; what the engine gets wrong is no mistake of ours.

    `protocol`: its name. `sent`: the bytes of the engine, `got`: those of the client.
    """
    if got != sent and not CHECKERS[protocol](sent):
        assert CHECKERS[protocol](got) == [], got.decode(errors="replace")
