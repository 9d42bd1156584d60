"""What every test that streams an answer checks in passing: a legal answer does not become an illegal one."""

from __future__ import annotations

from gateway.protocols.legal import CHECKERS
from gateway.protocols.legal.bodies import body_violations


def stays_legal(protocol: str, sent: bytes, got: bytes) -> None:
    """Assert that the client's stream is legal where the engine's is; what the engine gets wrong is no mistake of ours.

    `protocol`: its name. `sent`: the bytes of the engine, `got`: those of the client.
    """
    if got != sent and not CHECKERS[protocol](sent):
        assert CHECKERS[protocol](got) == [], got.decode(errors="replace")


def body_stays_legal(protocol: str, sent: bytes, got: bytes) -> None:
    """The same of a plain answer."""
    if got != sent and not body_violations(protocol, sent):
        assert body_violations(protocol, got) == [], got.decode(errors="replace")
