"""What a chat request says about thinking and about what its client reads (contract section 3, reader_spec 5.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.protocols.protocol import RequestFacts

_CONSTRAINTS: Final = (
    "structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice", "regex", "ebnf",
)  # fmt: skip
_JSON: Final = ("guided_json", "structured_outputs.json", "structured_outputs.json_object")
# The thinking decision: the first row whose member has one of the values decides. An explicit flag beats an effort.
_THINKING: Final[tuple[tuple[str, tuple[object, ...], str], ...]] = (
    ("chat_template_kwargs.enable_thinking", (False,), "off"),
    ("chat_template_kwargs.thinking", (False,), "off"),
    ("chat_template_kwargs.thinking_mode", ("disabled",), "off"),
    ("thinking.type", ("disabled",), "off"),
    ("chat_template_kwargs.enable_thinking", (True,), "on"),
    ("chat_template_kwargs.thinking", (True,), "on"),
    ("chat_template_kwargs.thinking_mode", ("enabled",), "on"),
    ("thinking.type", (str,), "on"),
    ("reasoning_effort", ("none", "no_think"), "off"),
    ("reasoning.effort", ("none", "no_think"), "off"),
    ("chat_template_kwargs.reasoning_effort", ("none", "no_think"), "off"),
)


def chat_facts(request: dict[str, Any]) -> RequestFacts:
    """The facts of a chat request; whatever has an unexpected type says nothing."""
    model, kind = request.get("model"), _at(request, "thinking.type")
    asks_to_think = isinstance(kind, str) and kind != "disabled"
    return RequestFacts(
        model=model if isinstance(model, str) else None,
        stream=request.get("stream") is True,
        thinking=thinking(request)[0],
        wants_reasoning=request.get("include_reasoning") is True or asks_to_think,
        hides_reasoning=request.get("include_reasoning") is False,
        unsplit=request.get("separate_reasoning") is False,
        constrained=_constrained(request),
        structured=_structured(request),
        stops=_stops(request.get("stop")),
        wants_usage=_at(request, "stream_options.include_usage") is True,
    )


def thinking(request: Mapping[str, Any]) -> tuple[str, str]:
    """`on`, `off` or `unknown`, and the member that decided with its value, for people."""
    for path, values, decision in _THINKING:
        value = _at(request, path)
        if any(value is one or (isinstance(value, str) and one in (value, str)) for one in values):
            return decision, f"{path} is {value}"
    return "unknown", "no member says it"


def _at(request: Mapping[str, Any], path: str) -> object:
    """The value of a member, or of a member's member; None where there is none."""
    value: object = request
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _constrained(request: Mapping[str, Any]) -> bool:
    choice = request.get("tool_choice")
    forced = choice == "required" or isinstance(choice, dict)
    free = _at(request, "response_format.type") in (None, "text")
    return forced or not free or any(request.get(name) for name in _CONSTRAINTS)


def _structured(request: Mapping[str, Any]) -> bool:
    wanted = _at(request, "response_format.type") in ("json_object", "json_schema")
    return wanted or any(_at(request, path) not in (None, False) for path in _JSON)


def _stops(value: object) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else [value]
    return tuple(text for text in texts if isinstance(text, str) and text)
