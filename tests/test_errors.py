"""Errors are sorted by who is at fault, and tell a client whether to try again (RFC 9110 section 15 for the status)."""

from __future__ import annotations

import pytest

from gateway import errors
from gateway.errors import ClientFault, EngineFault, IntegrityError

EVERY = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, IntegrityError)]


@pytest.mark.parametrize(
    ("kind", "base", "status", "retryable"),
    [
        (errors.IntegrityError, Exception, 500, False),
        (errors.ConfigError, IntegrityError, 500, False),
        (errors.ClientFault, IntegrityError, 400, False),
        (errors.NotForwarded, ClientFault, 404, False),
        (errors.EngineFault, IntegrityError, 502, True),
        (errors.EngineUnreachable, EngineFault, 502, True),
        (errors.EngineTimeout, EngineFault, 504, True),
        (errors.EngineTruncated, EngineFault, 502, True),
        (errors.FrameTooLarge, EngineFault, 502, True),
        (errors.Draining, IntegrityError, 503, True),
    ],
)
def test_an_error_says_whose_fault_it_is_and_whether_to_retry(
    kind: type[IntegrityError], base: type, status: int, retryable: bool
) -> None:
    assert issubclass(kind, base)
    assert (kind.status, kind.retryable) == (status, retryable)
    assert issubclass(kind, ClientFault) is (400 <= status < 500)


def test_every_code_starts_with_the_prefix_of_the_contract_and_is_used_once() -> None:
    codes = [kind.code for kind in EVERY]
    assert all(code.startswith("integrity_") for code in codes)
    assert len(set(codes)) == len(codes) == 10
