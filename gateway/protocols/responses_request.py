"""What a Responses request says of its answer, and its input with the assistant's items shaped (contract 3 and 5).

Knows the shapes of `input` items and of flat tools (OpenAI's reference; reference/vllm.md 3.5). Which rule applies is
decided by others, and no item of a user, a system or a tool is touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, Literal

from gateway.events import REASONING
from gateway.protocols.chat_history import is_json, repeats, split_thought
from gateway.protocols.chat_request import chat_facts
from gateway.protocols.protocol import HistoryRule, LastTurn, RequestFacts, Tools
from gateway.protocols.responses_items import CALL, MESSAGE, THOUGHT, new_item, new_part, parts_of, texts_of
from gateway.protocols.responses_output import COMMENTARY
from gateway.streams.jsonscan import DROP, Changes, Drop, edit, encode_string, items, loads

_Choice = Literal["auto", "none", "required", "named"]
_CHOICES: Final[Mapping[object, _Choice]] = {"none": "none", "required": "required"}
_STRUCTURED: Final = ("json_schema", "json_object")
_CALLS: Final = (CALL, "custom_tool_call")
_UNFINISHED: Final = ("in_progress", "incomplete")
_INVALID: Final = "arguments_invalid"  # counted, replaced or not


def responses_facts(request: dict[str, Any]) -> RequestFacts:
    """The facts of a Responses request; whatever has an unexpected type says nothing.

    Reasoning was asked for where a summary of it was (reader_spec 5.4): an effort alone does not say who reads it.
    """
    reasoning, choice = _dict(request.get("reasoning")), request.get("tool_choice")
    form = _dict(_dict(request.get("text")).get("format")).get("type")
    facts = chat_facts(request)
    summary = any(isinstance(reasoning.get(name), str) for name in ("summary", "generate_summary"))
    forced = isinstance(choice, dict) or choice == "required"
    return replace(
        facts,
        wants_reasoning=facts.wants_reasoning or summary,
        constrained=facts.constrained or forced or form not in (None, "text"),
        structured=facts.structured or form in _STRUCTURED,
        wants_usage=False,  # a stream always ends with it
        tools=_tools(request, choice),
        prompts=(),
        echo=False,
        last_turn=_last_turn(request),
    )


def _last_turn(request: Mapping[str, Any]) -> LastTurn | None:
    """A last message of the assistant that its status calls unfinished: vLLM goes on with the first part of it.

    vLLM 0.14 and later, responses/utils.py: `should_continue_final_message`.
    """
    listed = request.get("input")
    last = _dict(listed[-1]) if isinstance(listed, list) and listed else {}
    if not _is_said(last) or last.get("status") not in _UNFINISHED:
        return None
    content = last.get("content")
    text = next((part.get("text") for part in parts_of(last, "content")), "") if isinstance(content, list) else content
    return LastTurn(text=text, engines=("vllm",)) if isinstance(text, str) and text else None


def _tools(request: Mapping[str, Any], choice: object) -> Tools | None:
    functions = [tool for tool in _dicts(request.get("tools")) if tool.get("type") == "function"]
    schemas = {tool["name"]: tool.get("parameters") for tool in functions if isinstance(tool.get("name"), str)}
    if not schemas:
        return None
    kind, named = _choice(choice)
    return Tools(
        schemas=schemas,
        choice=kind,
        named=named,
        parallel=request.get("parallel_tool_calls") is not False,
        calls_before=sum(item.get("type") in _CALLS for item in _dicts(request.get("input"))),
    )


def _choice(value: object) -> tuple[_Choice, str | None]:
    """Whether to call a tool, and the function that has to be called."""
    if isinstance(value, dict):
        named = value.get("name")
        if isinstance(named, str):
            return "named", named
        value = value.get("mode") or "required"
    return _CHOICES.get(value, "auto") if isinstance(value, str) else "auto", None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# ---------------------------------------------------------------------- history


def shape_history(body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
    """The request body with the assistant's items shaped, and what was done; the same object when nothing was.

    As for chat, where the thought is an item of its own. What is encrypted is not touched; a phase stays as it is.
    Raises ValueError when `body` is no JSON.
    """
    done: Counter[str] = Counter()
    listed = _dict(loads(body)).get("input")
    values = [_dict(value) for value in listed] if isinstance(listed, list) else []
    answers = (place for place in range(len(values)) if _is_answer(values, place))
    last_answer = max(answers, default=-1)
    changes: dict[str | int, bytes | Drop | Changes] = {}
    for place in range(len(values)):
        keeps = rule.keep in ("keep", "leave") or (rule.keep == "tool_loop" and place > last_answer)
        change = _shaped(body, values, place, rule, done, keeps=keeps)
        if change is not None:
            changes[place] = change
    return (edit(body, {"input": changes}), done) if changes else (body, done)


def _is_answer(values: list[dict[str, Any]], place: int) -> bool:
    """True for a message that calls no tool: reasoning up to the last one is over (gpt-oss)."""
    calls = any(item.get("type") in _CALLS for item in values[place + 1 : place + 2])
    return _is_said(values[place]) and not calls and values[place].get("phase") != COMMENTARY


def _is_said(item: Mapping[str, Any]) -> bool:
    return item.get("type", MESSAGE) == MESSAGE and item.get("role") == "assistant"


def _shaped(
    body: bytes, values: list[dict[str, Any]], place: int, rule: HistoryRule, done: Counter[str], *, keeps: bool
) -> bytes | Drop | Changes | None:
    """What becomes of one item; None: it stays."""
    item = values[place]
    if item.get("type") == CALL:
        return _call(item, rule, done)
    if item.get("type") == REASONING:
        after = values[place + 1] if place + 1 < len(values) else {}
        return _thought(item, after, rule, done, keeps=keeps)
    if not _is_said(item):
        return None
    before = values[place - 1] if place else {}
    kept = keeps and before.get("type") == REASONING
    return None if rule.keep == "leave" or kept else _split(body, item, place, rule, done, keeps=keeps)


def _call(item: Mapping[str, Any], rule: HistoryRule, done: Counter[str]) -> Changes | None:
    """Arguments that are no JSON become `{}`: the engine's template would refuse every later request of the session."""
    arguments = item.get("arguments")
    if not isinstance(arguments, str) or is_json(arguments):
        return None
    done[_INVALID] += 1
    return {"arguments": encode_string("{}")} if rule.repair_arguments else None


def _thought(
    item: Mapping[str, Any], after: Mapping[str, Any], rule: HistoryRule, done: Counter[str], *, keeps: bool
) -> Drop | None:
    text = "".join(texts_of(item))
    if rule.keep == "leave" or item.get("encrypted_content") or not text:
        return None
    if _is_said(after) and repeats(text, _content(after)):
        done["repeat_dropped"] += 1
        return DROP
    if not keeps:
        done["stripped"] += 1
        return DROP
    return None


def _content(item: Mapping[str, Any]) -> str:
    """The text of a turn, which may be a list of parts."""
    content = item.get("content")
    texts = [part.get("text") for part in parts_of(item, "content")] if isinstance(content, list) else [content]
    return "".join([text for text in texts if isinstance(text, str)])


def _split(
    body: bytes, item: Mapping[str, Any], place: int, rule: HistoryRule, done: Counter[str], *, keeps: bool
) -> bytes | Changes | None:
    """A turn that begins with a complete thought: without it, and behind it as an item where it is kept."""
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    first = parts[0].get("text") if parts and isinstance(parts[0], dict) else None
    split = split_thought(first if parts else content, replace(rule, field=rule.field or REASONING), keeps=keeps)
    if split is None:
        return None
    thought, text = split
    done["split"] += 1
    value: Changes | bytes = {0: {"text": encode_string(text)}} if parts else encode_string(text)
    if not thought or not keeps or repeats(thought, text):
        done["stripped"] += bool(thought) and not keeps
        return {"content": value}
    ident = f"rs_{sha256(f'{place}{thought}'.encode('utf-8', 'replace')).hexdigest()[:16]}"
    own = new_item(REASONING, ident, "completed", [new_part(THOUGHT, thought)])
    return own + b"," + edit(items(body, ("input",))[place], {"content": value})
