"""Floor 0: every error the gateway raises on purpose, sorted by who is at fault.

Any other exception is a bug; the two fences (exchange, server) turn it into fail-open behaviour.
"""

from __future__ import annotations


class IntegrityError(Exception):
    """Base. `code` starts with `integrity_`; `status` is the HTTP status for it; `retryable` helps clients decide."""

    code = "integrity_internal"
    status = 500
    retryable = False


class ConfigError(IntegrityError):
    """A config or rule file cannot be used. The message is `file:line: key: what is wrong, what was expected`."""

    code = "integrity_config"


class ClientFault(IntegrityError):
    """The request cannot be served; nothing was sent upstream."""

    code = "integrity_bad_request"
    status = 400


class NotForwarded(ClientFault):
    """`passthrough` does not forward this route."""

    code = "integrity_route_not_forwarded"
    status = 404


class EngineFault(IntegrityError):
    """The upstream broke its side of the protocol."""

    code = "integrity_upstream_error"
    status = 502
    retryable = True


class EngineUnreachable(EngineFault):
    """No connection could be made, or it broke before a response head arrived."""

    code = "integrity_upstream_unreachable"


class EngineTimeout(EngineFault):
    """The upstream stayed silent longer than a documented timeout."""

    code = "integrity_upstream_timeout"
    status = 504


class EngineTruncated(EngineFault):
    """The answer ended without its protocol's terminal event."""

    code = "integrity_upstream_truncated"


class FrameTooLarge(EngineFault):
    """An SSE line or event exceeds its cap: inspection ends, the bytes are forwarded."""

    code = "integrity_frame_too_large"


class Draining(IntegrityError):
    """The gateway is shutting down."""

    code = "integrity_draining"
    status = 503
    retryable = True
