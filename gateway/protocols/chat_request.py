"""What a chat request says about thinking and about what its client reads (contract section 3, reader_spec 5.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from gateway.protocols.protocol import LastTurn, RequestFacts, Tools

_CONSTRAINTS: Final = (
    "structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice", "regex", "ebnf",
)  # fmt: skip
_Choice = Literal["auto", "none", "required", "named"]
_CHOICES: Final[Mapping[str, _Choice]] = {"none": "none", "required": "required"}
_DECLARE: Final = ("system", "developer", "root")  # roles whose messages may declare tools (reference/sglang.md 3.1)
_TOKENS: Final = (("ids", "return_token_ids"), ("logprobs", "logprobs"))
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
    decision, why = thinking(request)
    echoed = _echoed(request)
    return RequestFacts(
        model=model if isinstance(model, str) else None,
        stream=request.get("stream") is True,
        thinking=decision,
        thinking_why=why,
        wants_reasoning=request.get("include_reasoning") is True or asks_to_think,
        hides_reasoning=request.get("include_reasoning") is False,
        unsplit=request.get("separate_reasoning") is False,
        constrained=_constrained(request),
        structured=_structured(request),
        stops=_stops(request.get("stop")),
        keeps_stop=request.get("include_stop_str_in_output") is True,
        wants_usage=_at(request, "stream_options.include_usage") is True,
        tools=_tools(request),
        asks_tokens=frozenset(name for name, member in _TOKENS if request.get(member) is True),
        names_tokens=request.get("return_tokens_as_token_ids") is True,
        wants_each_usage=_at(request, "stream_options.continuous_usage_stats") is True,
        prompts=echoed,
        samples=_samples(request),
        echo=bool(echoed),
        last_turn=_last_turn(request),
    )


def thinking(request: Mapping[str, Any]) -> tuple[str, str]:
    """`on`, `off` or `unknown`, and the member that decided, for people; its value where it is one of the table's."""
    for path, values, decision in _THINKING:
        value = _at(request, path)
        if any(value is one or (isinstance(value, str) and one in (value, str)) for one in values):
            return decision, f"{path} is {value}" if value in values else f"{path} is there"
    return "unknown", "no member says it"


def _last_turn(request: Mapping[str, Any]) -> LastTurn | None:
    """The turn that `continue_final_message` opens again (reference/vllm.md 3.7, sglang.md 3.1).

    SGLang goes on with a string only (`_handle_last_assistant_message`). A turn with calls may go on behind them.
    """
    last = _last_message(request)
    if request.get("continue_final_message") is not True or last.get("role") != "assistant" or last.get("tool_calls"):
        return None
    text = _text_of(last.get("content"))
    parts = isinstance(last.get("content"), list)
    return LastTurn(text=text, engines=("vllm",) if parts else ()) if text else None


def _echoed(request: Mapping[str, Any]) -> tuple[str | None, ...]:
    """What `echo` puts before each answer: the last message, where its role is the answer's; None: not to be told.

    vLLM 0.33, chat_completion/serving.py: the answer's role is the last message's where no turn is begun.
    """
    last = _last_message(request)
    begins = request.get("add_generation_prompt") is not False
    if request.get("echo") is not True or not last.get("content") or (begins and last.get("role") != "assistant"):
        return ()
    return (_text_of(last["content"]),)


def _samples(request: Mapping[str, Any]) -> int:
    number = request.get("n")
    return number if type(number) is int and number > 0 else 1


def _last_message(request: Mapping[str, Any]) -> dict[str, Any]:
    messages = request.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return last if isinstance(last, dict) else {}


def _text_of(content: object) -> str | None:
    """The text of a message, its parts joined as vLLM joins them; None where some of it is none."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content]
    kept = [text for text in texts if isinstance(text, str)]
    return "\n".join(kept) if len(kept) == len(texts) else None


def _at(request: Mapping[str, Any], path: str) -> object:
    """The value of a member, or of a member's member; None where there is none."""
    value: object = request
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _tools(request: Mapping[str, Any]) -> Tools | None:
    schemas = {
        function["name"]: function.get("parameters")
        for function in _declared(request)
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    }
    if not schemas:
        return None
    choice, named = _choice(request.get("tool_choice", request.get("function_call")))
    return Tools(
        schemas=schemas,
        choice=choice,
        named=named,
        parallel=request.get("parallel_tool_calls") is not False,
        calls_before=sum(map(_calls_in, _dicts(request.get("messages")))),
    )


def _choice(value: object) -> tuple[_Choice, str | None]:
    """Whether to call a tool, and the one that has to be called."""
    if isinstance(value, dict):
        named = _at(value, "function.name") or value.get("name")
        if isinstance(named, str):
            return "named", named
        value = _at(value, "allowed_tools.mode") or value.get("mode") or "required"
    return _CHOICES.get(value, "auto") if isinstance(value, str) else "auto", None


def _declared(request: Mapping[str, Any]) -> Iterator[object]:
    """Everything declared as a function, in whatever shape: as a tool, the older way, or in a message of SGLang's."""
    messages = (each for each in _dicts(request.get("messages")) if "tools" in each and each.get("role") in _DECLARE)
    for holder in (request, *messages):
        yield from (tool.get("function") for tool in _dicts(holder.get("tools")))
    yield from _dicts(request.get("functions"))


def _calls_in(message: Mapping[str, Any]) -> int:
    if message.get("role") != "assistant":
        return 0
    return len(_dicts(message.get("tool_calls"))) or int(isinstance(message.get("function_call"), dict))


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


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
