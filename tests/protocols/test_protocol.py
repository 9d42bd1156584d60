"""Which routes are inspected (contract section 6), and that their protocols offer what an exchange asks for."""

from __future__ import annotations

import inspect

import pytest

from gateway.protocols import PROTOCOLS, STORED, protocol_for, protocol_of, unread_text
from gateway.protocols.protocol import NotThisProtocol, WireProtocol

CHAT = PROTOCOLS["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("path", "inspected"),
    [
        ("/v1/chat/completions", True),
        ("/proxy/eu/v1/chat/completions", True),
        ("/v1/chat/completions/", False),  # raw paths, no normalisation
        ("/v1/chat/completions/render", False),
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
        ("/v1/chat/completions/batch", "chat"),
        ("/proxy/v1/chat/completions/batch", "chat"),
        ("/v1/chat/completions/batch/", None),
        ("/v1/messages/batches", None),
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


@pytest.mark.parametrize(
    ("method", "path", "stored"),
    [
        ("GET", "/v1/responses/resp_1", True),
        ("GET", "/proxy/eu/v1/responses/resp_1", True),
        ("POST", "/v1/responses/resp_1/cancel", True),
        ("POST", "/proxy/v1/responses/resp_1/cancel", True),
        ("GET", "/v1/responses/a%2Fb", True),
        ("GET", "/v1/responses", False),
        ("GET", "/v1/responses/", False),
        ("GET", "/v1/responses/resp_1/", False),
        ("GET", "/v1/responses/resp_1/input_items", False),
        ("GET", "/v1/responses/resp_1/cancel", False),
        ("DELETE", "/v1/responses/resp_1", False),
        ("POST", "/v1/responses/resp_1", False),
        ("POST", "/v1/responses/render", False),
        ("POST", "/v1/responses/compact", False),
        ("POST", "/v1/responses//cancel", False),
        ("POST", "/v1/responses/cancel", False),
        ("GET", "/v1/chat/completions/chatcmpl-1", False),
        ("GET", "/xv1/responses/resp_1", False),
    ],
)
def test_a_stored_response_is_inspected_where_it_is_fetched_and_where_it_is_cancelled(
    method: str, path: str, stored: bool
) -> None:
    assert protocol_of(method, path) is (STORED if stored else None)


def test_an_answer_is_made_with_post_alone() -> None:
    assert [protocol_of("POST", path) for path in PROTOCOLS] == list(PROTOCOLS.values())
    assert [protocol_of(method, path) for path in PROTOCOLS for method in ("GET", "PUT", "HEAD")] == [None] * 18


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("POST", "/v1beta/models/gemini-pro:generateContent", "gemini"),
        ("POST", "/v1beta/models/gemini-pro:streamGenerateContent", "gemini"),
        ("POST", "/v1/models/m:generateContent", "gemini"),
        ("POST", "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", "gemini"),
        ("POST", "/v1beta/models/gemini-pro:countTokens", None),
        ("POST", "/v1beta/models/gemini-pro:embedContent", None),
        ("GET", "/v1beta/models/gemini-pro", None),
        ("POST", "/cohere/v2/chat", "cohere"),
        ("POST", "/cohere/v2/chat/render", None),
        ("POST", "/api/chat", "ollama"),
        ("POST", "/api/generate", "ollama"),
        ("GET", "/api/generate", None),
        ("POST", "/inference/v1/generate", "inference"),
        ("POST", "/invocations", "invocations"),
        ("POST", "/vertex_generate", "vertex"),
        ("POST", "/v1/chat/completions", None),
        ("POST", "/v1/embeddings", None),
    ],
)
def test_routes_with_a_models_text_that_is_not_read_have_a_name(method: str, path: str, reason: str | None) -> None:
    """Google's reference of the Gemini API; reference/vllm.md 3.8, sglang.md 3.8."""
    assert unread_text(method, path) == reason


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_every_protocol_has_the_calls_of_the_interface(protocol: WireProtocol) -> None:
    for name, wanted in inspect.getmembers(WireProtocol, inspect.isfunction):
        if not name.startswith("_"):
            offered = getattr(protocol, name)
            assert list(inspect.signature(offered).parameters) == list(inspect.signature(wanted).parameters)[1:]
    assert (isinstance(protocol.name, str), isinstance(protocol.done, bytes)) == (True, True)


def test_bytes_of_another_protocol_are_a_value_error() -> None:
    assert issubclass(NotThisProtocol, ValueError)
