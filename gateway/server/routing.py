"""Where a request goes: is its route inspected, is it forwarded at all, to which engines.

Owns the order of routes and the `passthrough` policy (contract sections 3 and 6). Paths are raw: nothing is decoded or
normalised before it is forwarded. Must not know bodies, connections, answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import unquote

from aiohttp import hdrs

from gateway.errors import NotForwarded
from gateway.protocols import protocol_for
from gateway.protocols.protocol import WireProtocol
from gateway.server.config import Config, Route
from gateway.server.connection import Target, target_of

SERVING: tuple[str, ...] = (
    "/health",
    "/health_generate",
    "/ready",
    "/ping",
    "/version",
    "/load",
    "/v1/loads",
    "/metrics",
    "/model_info",
    "/get_model_info",
    "/v1/models",
    "/v1/models/*",
    "/v1/chat/completions",
    "/v1/chat/completions/*",
    "/v1/completions",
    "/v1/completions/*",
    "/v1/responses",
    "/v1/responses/*",
    "/v1/messages",
    "/v1/messages/*",
    "/generate",
    "/v1/embeddings",
    "/v2/embed",
    "/embed",
    "/encode",
    "/pooling",
    "/classify",
    "/v1/classify",
    "/score",
    "/v1/score",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
    "/generative_scoring",
    "/tokenize",
    "/v1/tokenize",
    "/detokenize",
    "/v1/detokenize",
    "/tokenizer_info",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/realtime",
    "/v1/decisions",
    "/v1/systemone",
    "/cohere/v2/chat",
    "/cohere/v2/chat/render",
    "/inference/v1/generate",
    "/invocations",
)
"""What `passthrough: serving` forwards: vLLM's and SGLang's routes that ask a model or look at the server; none that
changes it (reference/vllm.md and sglang.md, route lists)."""


class NoRoute(NotForwarded):
    """No route accepts the request, and it is not clear which engine would."""

    code = "integrity_no_route"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`route` None: no route accepted the request, it is forwarded untouched."""

    route: Route | None
    targets: tuple[Target, ...]


class Routing:
    """The routes of one configuration."""

    def __init__(self, config: Config) -> None:
        self._routes = [(route, tuple(map(target_of, route.upstream))) for route in config.routes]
        self._passthrough = config.passthrough
        engines = list(dict.fromkeys(targets for _, targets in self._routes))
        self._only = engines[0] if len(engines) == 1 else None
        self.by_model = any(route.match.models and "*" not in route.match.models for route in config.routes)
        self.engines = tuple(dict.fromkeys(target for targets in engines for target in targets))

    def inspected(self, *, method: str, path: str) -> WireProtocol | None:
        """The protocol that reads the route; `path` is raw, without query."""
        return protocol_for(path) if method == hdrs.METH_POST else None

    def check_forwarded(self, path: str) -> None:
        """Raises NotForwarded where `passthrough` does not let an uninspected route through."""
        if self._passthrough == "all":
            return
        listed = SERVING if isinstance(self._passthrough, str) else self._passthrough
        # A list would be no list if an engine, or a proxy before it, resolved `..` behind our back.
        walks = ".." in unquote(path)
        if walks or not any(fnmatchcase(path, glob) for glob in listed):
            raise NotForwarded("this gateway forwards only the routes listed under `passthrough`")

    def choose(self, *, path: str, model: str | None, headers: Mapping[str, str]) -> Choice:
        """The first route that accepts the request. Raises NoRoute."""
        for route, targets in self._routes:
            if route.match.accepts(path=path, model=model, headers=headers):
                return Choice(route=route, targets=targets)
        if self._only is None:
            raise NoRoute("no route accepts this model, path and headers, and there is more than one engine")
        return Choice(route=None, targets=self._only)
