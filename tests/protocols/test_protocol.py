"""Which routes are inspected (contract section 6), and that their protocols offer what an exchange asks for."""

from __future__ import annotations

import inspect

import pytest

from gateway.protocols import PROTOCOLS, protocol_for
from gateway.protocols.protocol import NotThisProtocol, WireProtocol

CHAT = PROTOCOLS["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("path", "inspected"),
    [
        ("/v1/chat/completions", True),
        ("/proxy/eu/v1/chat/completions", True),
        ("/v1/chat/completions/", False),  # raw paths, no normalisation
        ("/v1/chat/completions/batch", False),
        ("/v1/chat//completions", False),
        ("/V1/chat/completions", False),
        ("/v1/chat/completions?stream=1", False),
        ("/v1/models", False),
        ("", False),
    ],
)
def test_a_route_is_inspected_with_or_without_a_prefix_before_v1(path: str, inspected: bool) -> None:
    assert protocol_for(path) is (CHAT if inspected else None)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/completions", "completions"),
        ("/proxy/v1/completions", "completions"),
        ("/v1/chat/completions", "chat"),
        ("/v1/completions/render", None),
        ("/completions", None),
        ("/generate", "generate"),
        ("/v1/generate", None),
        ("/inference/v1/generate", None),  # vLLM's own, of tokens
        ("/api/generate", None),  # Ollama's, of lines
        ("/vertex_generate", None),
        ("/generate/", None),
    ],
)
def test_routes_of_raw_text_are_told_from_those_that_end_alike(path: str, name: str | None) -> None:
    found = protocol_for(path)
    assert (found.name if found else None) == name


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_every_protocol_has_the_calls_of_the_interface(protocol: WireProtocol) -> None:
    for name, wanted in inspect.getmembers(WireProtocol, inspect.isfunction):
        if not name.startswith("_"):
            offered = getattr(protocol, name)
            assert list(inspect.signature(offered).parameters) == list(inspect.signature(wanted).parameters)[1:]
    assert (isinstance(protocol.name, str), isinstance(protocol.done, bytes)) == (True, True)


def test_bytes_of_another_protocol_are_a_value_error() -> None:
    assert issubclass(NotThisProtocol, ValueError)
