"""Assistant turns of a chat request, shaped for what the engine's template reads (contract section 5, requests).

Only assistant turns are touched, and only members that change: the rest of the body keeps its bytes. Knows message
shapes and the reader; which rule applies is decided by others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from gateway.events import CONTENT, FOREIGN, REASONING, REPLAY, TOOL, Decision, Effect, Group, Segment
from gateway.protocols.protocol import HistoryRule
from gateway.streams.grammar import Takes
from gateway.streams.jsonscan import DROP, Changes, edit, encode_string, loads
from gateway.streams.regions import RegionReader

FIELDS: Final = ("reasoning", "reasoning_content")
_OPENERS: Final = (Group.THINK_OPEN, Group.HEADER)
_CLOSERS: Final = (Group.THINK_CLOSE, Group.ANSWER_OPEN, Group.MESSAGE_CLOSE, Group.HEADER)
_Members = dict[str | int, Any]


def shape_history(body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
    """The request body with its assistant turns shaped, and what was done, by name; the same object when nothing was.

    `arguments_invalid` counts tool call arguments that are no JSON, replaced or not; every other name is a change.
    Raises ValueError when `body` is no JSON.
    """
    done: Counter[str] = Counter()
    changes = _turns(_messages(body), rule, done)
    return (edit(body, {"messages": changes}), done) if changes else (body, done)


def shape_histories(body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
    """As `shape_history`, where `messages` is a list of conversations: each for itself."""
    done: Counter[str] = Counter()
    turns = {place: _turns(talk, rule, done) for place, talk in enumerate(_messages(body)) if isinstance(talk, list)}
    changes: Changes = {place: change for place, change in turns.items() if change}
    return (edit(body, {"messages": changes}), done) if changes else (body, done)


def _messages(body: bytes) -> list[Any]:
    request = loads(body)
    messages = request.get("messages") if isinstance(request, dict) else None
    return messages if isinstance(messages, list) else []


def _turns(messages: list[Any], rule: HistoryRule, done: Counter[str]) -> Changes:
    """The changes of one conversation, by the place of the turn."""
    last_answer = _last_answer(messages)
    changes: dict[str | int, Changes] = {}
    for place, message in enumerate(messages):
        if _is_assistant(message):
            keeps = rule.keep in ("keep", "leave") or (rule.keep == "tool_loop" and place > last_answer)
            turn = _turn(message, rule, done, keeps=keeps)
            if turn:
                changes[place] = turn
    return changes


def _is_assistant(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"


def _last_answer(messages: list[Any]) -> int:
    """The place of the last assistant turn that called no tool: reasoning up to it is over (gpt-oss)."""
    answers = (place for place, m in enumerate(messages) if _is_assistant(m) and not m.get("tool_calls"))
    return max(answers, default=-1)


def _turn(message: Mapping[str, Any], rule: HistoryRule, done: Counter[str], *, keeps: bool) -> Changes:
    """The changes of one assistant turn."""
    came = {name: message[name] for name in FIELDS if isinstance(message.get(name), str) and message[name]}
    reasoning = came.get(rule.field or "") or next(iter(came.values()), "")
    content = message.get("content")
    changes: _Members = {}
    left = rule.keep == "leave"
    if not left and repeats(reasoning, content):
        done["repeat_dropped"] += 1
        reasoning = ""
    if not (left or (reasoning and keeps)) and (split := split_thought(content, rule, keeps=keeps)) is not None:
        thought, content = split
        reasoning = "" if repeats(thought, content) else reasoning or thought
        changes["content"] = encode_string(content)
        done["split"] += 1
    if reasoning and not keeps:
        done["stripped"] += 1
        reasoning = ""
    changes |= _placed(came, reasoning, rule.field, done) if reasoning else dict.fromkeys(came, DROP)
    calls = _calls(message.get("tool_calls"), done, repair=rule.repair_arguments)
    return changes | ({"tool_calls": calls} if calls else {})


def repeats(reasoning: str, content: object) -> bool:
    """True for reasoning that only says the content again."""
    return bool(reasoning) and isinstance(content, str) and reasoning.strip() == content.strip()


def _placed(came: Mapping[str, str], reasoning: str, field: str | None, done: Counter[str]) -> _Members:
    """The reasoning under the engine's name, and under no other; as it is named where the engine is not known."""
    if field is None:
        return {}
    gone: _Members = {name: DROP for name in came if name != field}
    if gone:
        done["renamed"] += 1
    return gone if came.get(field) == reasoning else gone | {field: encode_string(reasoning)}


def split_thought(content: object, rule: HistoryRule, *, keeps: bool) -> tuple[str, str] | None:
    """A turn that begins with a complete thought, as `(reasoning, content)`; None for every other turn.

    Also None where the thought is to be kept and the engine's name for it is not known.
    """
    if not isinstance(content, str) or rule.grammar is None or (keeps and rule.field is None):
        return None
    limits = rule.limits
    reader = RegionReader(
        rule.grammar,
        starts_open=False,
        split=False,
        takes=Takes(),
        limits=limits,
    )
    segments = [*reader.feed(content.lstrip()), *reader.finish(stopped=True)]
    dropped = [item for _, item in segments if isinstance(item, Decision) and item.effect is Effect.DROP]
    channels = {channel for channel, _ in segments}
    leads = bool(dropped) and dropped[0].group in _OPENERS and dropped[0].at == 0
    complete = REPLAY in channels or any(item.group in _CLOSERS for item in dropped[1:])
    if not (leads and complete) or FOREIGN in channels:
        return None
    return _text(segments, REASONING).strip("\n"), _text(segments, CONTENT, TOOL, REPLAY).lstrip("\n")


def _text(segments: list[Segment], *channels: str) -> str:
    return "".join([str(item) for channel, item in segments if channel in channels])


def _calls(calls: object, done: Counter[str], *, repair: bool) -> Changes:
    """Arguments that are no JSON become `{}`: the engine's template would refuse every later request of the session."""
    changes: dict[str | int, Changes] = {}
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str) and not is_json(arguments):
            done["arguments_invalid"] += 1
            if repair:
                changes[place] = {"function": {"arguments": encode_string("{}")}}
    return changes


def is_json(text: str) -> bool:
    """True for the text of a JSON value."""
    try:
        loads(text.encode("utf-8", "backslashreplace"))
    except ValueError:
        return False
    return True
