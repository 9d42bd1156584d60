"""Where a request goes: is its route inspected, is it forwarded at all, to which engines.

Owns the order of routes and the `passthrough` policy (contract sections 3 and 6). Paths are raw: nothing is decoded or
normalised before it is forwarded. Must not know bodies, connections, answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from posixpath import normpath
from urllib.parse import unquote

from gateway.errors import ClientFault, NotForwarded
from gateway.policy import ReasoningField
from gateway.protocols import protocol_of
from gateway.protocols.protocol import WireProtocol
from gateway.server.config import Config, Route
from gateway.server.connection import Target, target_of
from gateway.server.keys import Keys

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


_DECODINGS = 3
"""Servers in a row that may each decode a path once."""


class NoRoute(NotForwarded):
    """No route accepts the request, and an engine's answer could show the reasoning that a route hides."""

    code = "integrity_no_route"


class Disguised(ClientFault):
    """A path that the engine, or a proxy before it, may take for an inspected one."""

    code = "integrity_path_disguised"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`route` None: no route accepted the request, it is forwarded untouched, to the first route's engine."""

    route: Route | None
    targets: tuple[Target, ...]


class Routing:
    """The routes of one configuration."""

    def __init__(self, config: Config) -> None:
        self.routes = config.routes
        self._routes = [(route, tuple(map(target_of, route.upstream))) for route in config.routes]
        self._passthrough = config.passthrough
        self._keys = Keys(config.keys) if any(route.match.keys for route in config.routes) else None
        engines = list(dict.fromkeys(targets for _, targets in self._routes))
        self._unmatched = engines[0] if len(engines) == 1 else engines[0][:1]
        self._hides = any(route.rules.policy.reasoning_field is ReasoningField.NONE for route in config.routes)
        self.by_model = any(route.match.models and "*" not in route.match.models for route in config.routes)
        self.engines = tuple(dict.fromkeys(target for targets in engines for target in targets))

    def inspected(self, *, method: str, path: str) -> WireProtocol | None:
        """The protocol that reads the route; `path` is raw, without query."""
        return protocol_of(method, path) if "#" not in path else None

    def check_forwarded(self, *, method: str, path: str) -> None:
        """Raises NotForwarded where `passthrough` does not let an uninspected route through.

        Raises Disguised where reasoning is hidden and the path is an inspected one in other letters.
        """
        if self._hides and _may_be_inspected(method, path):
            raise Disguised("the path must be written without escapes, dot segments, empty segments and parameters")
        if self._passthrough == "all":
            return
        listed = SERVING if isinstance(self._passthrough, str) else self._passthrough
        # A list would be no list if an engine, or a proxy before it, resolved `..` behind our back.
        walks = ".." in unquote(path)
        if walks or not any(fnmatchcase(path, glob) for glob in listed):
            raise NotForwarded("this gateway forwards only the routes listed under `passthrough`")

    def choose(self, *, path: str, model: str | None, headers: Mapping[str, str], inspected: bool) -> Choice:
        """The first route that accepts the request; without one the first route's engine, which answers for itself.

        Raises NoRoute where that answer would be one of an `inspected` route, and some route hides reasoning.
        """
        key = self._keys.name_of(headers) if self._keys is not None else None
        for route, targets in self._routes:
            if route.match.accepts(path=path, model=model, headers=headers, key=key):
                return Choice(route=route.by_model.get(model or "", route), targets=targets)
        if self._hides and inspected:
            raise NoRoute("no route accepts this model, path, headers and key")
        return Choice(route=None, targets=self._unmatched)


def _may_be_inspected(method: str, path: str) -> bool:
    """True where some server may take `path` for that of an inspected route."""
    return ("#" in path and method in ("GET", "POST")) or protocol_of(method, _undisguised(path)) is not None


def _undisguised(path: str) -> str:
    """`path` as the most obliging server would read it: decoded, resolved, without parameters, in lower case."""
    for _ in range(_DECODINGS):
        path = unquote(path)
    path = path.replace("\\", "/").partition("?")[0]
    return normpath("/".join(segment.partition(";")[0].strip() for segment in path.lower().split("/")))
