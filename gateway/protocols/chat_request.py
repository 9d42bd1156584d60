"""What a chat request says about thinking and about what its client reads (contract section 3, reader_spec 5.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.protocols.protocol import RequestFacts

_NO_EFFORT: Final = ("none", "no_think")
_CONSTRAINTS: Final = (
    "structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice", "regex", "ebnf",
)  # fmt: skip


def chat_facts(request: dict[str, Any]) -> RequestFacts:
    """The facts of a chat request; whatever has an unexpected type says nothing."""
    model, kind = request.get("model"), _type_of_thinking(request)
    return RequestFacts(
        model=model if isinstance(model, str) else None,
        stream=request.get("stream") is True,
        thinking=thinking(request),
        wants_reasoning=request.get("include_reasoning") is True or kind not in (None, "disabled"),
        hides_reasoning=request.get("include_reasoning") is False,
        unsplit=request.get("separate_reasoning") is False,
        constrained=_constrained(request),
    )


def thinking(request: Mapping[str, Any]) -> str:
    """`on`, `off` or `unknown`. An explicit flag beats an effort."""
    kwargs = _mapping(request.get("chat_template_kwargs"))
    flags = [kwargs.get("enable_thinking"), kwargs.get("thinking")]
    kind = _type_of_thinking(request)
    if False in flags or kwargs.get("thinking_mode") == "disabled" or kind == "disabled":
        return "off"
    if True in flags or kwargs.get("thinking_mode") == "enabled" or kind is not None:
        return "on"
    efforts = (
        request.get("reasoning_effort"),
        _mapping(request.get("reasoning")).get("effort"),
        kwargs.get("reasoning_effort"),
    )
    return "off" if any(effort in _NO_EFFORT for effort in efforts if isinstance(effort, str)) else "unknown"


def _type_of_thinking(request: Mapping[str, Any]) -> str | None:
    kind = _mapping(request.get("thinking")).get("type")
    return kind if isinstance(kind, str) else None


def _constrained(request: Mapping[str, Any]) -> bool:
    format_ = _mapping(request.get("response_format")).get("type")
    choice = request.get("tool_choice")
    forced = choice == "required" or isinstance(choice, dict)
    return forced or format_ not in (None, "text") or any(request.get(name) for name in _CONSTRAINTS)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
