"""Which of the configured API keys a request carries, by the key's name.

Owns where a key stands in a request and how it is compared: against SHA-256 digests, all of them each time, so that
neither the configuration nor the time an answer takes tells a key. A key chooses a route and admits nobody: that is the
engine's. Must not know routes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping


class Keys:
    """`digests`: name of a key to the SHA-256 of it, in hexadecimal."""

    def __init__(self, digests: Mapping[str, str]) -> None:
        self._digests = [(name, bytes.fromhex(digest)) for name, digest in digests.items()]

    def name_of(self, headers: Mapping[str, str]) -> str | None:
        """The name of the key in `Authorization: Bearer …` or `X-Api-Key`; None where it is none of these.

        `headers` must answer to names in any case.
        """
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        given = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        same = [name for name, digest in self._digests if hmac.compare_digest(given, digest)]
        return same[0] if same else None
