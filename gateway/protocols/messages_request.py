"""What a Messages request says, and its earlier assistant turns shaped (contract sections 3 and 5, reader_spec 5.4).

Knows where Anthropic's Messages and its vLLM and SGLang dialects (reference/vllm.md 3.6, sglang.md 3.6) have each
member. Never judges text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gateway.protocols.chat_history import is_json, repeats, split_thought
from gateway.protocols.chat_request import thinking
from gateway.protocols.protocol import HistoryRule, RequestFacts, Tools
from gateway.streams.jsonscan import Changes, edit, encode_string, items, loads

_ASKS: Final = ("enabled", "adaptive")  # types of `thinking` that ask to see it
_Choice = Literal["auto", "none", "required", "named"]
_CHOICES: Final[Mapping[object, _Choice]] = {"none": "none", "any": "required", "tool": "named"}

_INVALID: Final = "arguments_invalid"  # counted, replaced or not


def messages_facts(request: dict[str, Any]) -> RequestFacts:
    """The facts of a Messages request; whatever has an unexpected type says nothing."""
    model, asked = request.get("model"), _dict(request.get("thinking"))
    choice, output = _dict(request.get("tool_choice")), _dict(request.get("output_config"))
    decision, why = thinking(request)
    omitted = asked.get("display") == "omitted"
    structured = bool(_dict(output.get("format")) or _dict(request.get("output_format")))
    return RequestFacts(
        model=model if isinstance(model, str) else None,
        stream=request.get("stream") is True,
        thinking=decision,
        thinking_why=why,
        wants_reasoning=asked.get("type") in _ASKS and not omitted,
        hides_reasoning=omitted,
        unsplit=False,
        constrained=structured or choice.get("type") in ("any", "tool"),
        structured=structured,
        stops=tuple(text for text in _list(request.get("stop_sequences")) if isinstance(text, str) and text),
        keeps_stop=False,
        wants_usage=False,  # a stream always ends with it
        tools=_tools(request, choice),
        adds_no_thought=asked.get("type") == "disabled",
    )


def _tools(request: Mapping[str, Any], choice: Mapping[str, Any]) -> Tools | None:
    declared = [tool for tool in _dicts(request.get("tools")) if isinstance(tool.get("name"), str)]
    if not declared:
        return None
    kind, name = _CHOICES.get(choice.get("type"), "auto"), choice.get("name")
    named = name if kind == "named" and isinstance(name, str) else None
    return Tools(
        schemas={tool["name"]: tool.get("input_schema") for tool in declared},
        choice=kind if kind != "named" or named else "required",
        named=named,
        parallel=choice.get("disable_parallel_tool_use") is not True,
        calls_before=sum(map(_calls_in, _dicts(request.get("messages")))),
    )


def _calls_in(turn: Mapping[str, Any]) -> int:
    return sum(block.get("type") == "tool_use" for block in _dicts(turn.get("content"))) if _is_assistant(turn) else 0


def _is_assistant(turn: object) -> bool:
    return isinstance(turn, dict) and turn.get("role") == "assistant"


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in _list(value) if isinstance(each, dict)]


# ---------------------------------------------------------------------- history


def shape_history(body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
    """The request body with its assistant turns shaped, and what was done, by name; the same object when nothing was.

    As for chat, where the thought is a block. A block that is signed is not touched, nor is a redacted one: their
    sender takes them back only as they are. Raises ValueError when `body` is no JSON.
    """
    done: Counter[str] = Counter()
    turns = _list(_dict(loads(body)).get("messages"))
    answers = (place for place, turn in enumerate(turns) if _is_assistant(turn) and not _calls_in(turn))
    last_answer = max(answers, default=-1)
    changes: dict[str | int, Changes] = {}
    for place, turn in enumerate(turns):
        if _is_assistant(turn):
            keeps = rule.keep in ("keep", "leave") or (rule.keep == "tool_loop" and place > last_answer)
            shaped = _Turn(rule, keeps, Counter())
            content = _content(body, place, turn.get("content"), shaped)
            done.update(shaped.done if content else {_INVALID: shaped.done[_INVALID]})
            if content:
                changes[place] = {"content": content}
    return (edit(body, {"messages": changes}), done) if changes else (body, done)


@dataclass(frozen=True, slots=True)
class _Turn:
    """How one turn is shaped. `keeps`: its thought stays. `done`: what was done, by name."""

    rule: HistoryRule
    keeps: bool
    done: Counter[str]

    @property
    def left(self) -> bool:
        """True where no thought is looked at."""
        return self.rule.keep == "leave"


def _content(body: bytes, place: int, content: object, turn: _Turn) -> bytes | None:
    """What the turn's content becomes; None: it stays. Blocks are never all taken away: engines refuse none."""
    if isinstance(content, str):
        thought, text = _divided(content, turn) or ("", content)
        if thought:
            return b'[%b,{"type":"text","text":%b}]' % (_thought(thought), encode_string(text))
        return encode_string(text) if text != content else None
    blocks, written = _list(content), items(body, ("messages", place, "content"))
    changed = _inputs(blocks, written, turn)
    if not turn.left:
        changed |= _thoughts(blocks, written, turn)
    kept = [block for number, own in enumerate(written) if (block := changed.get(number, own))]
    return b"[%b]" % b",".join(kept) if changed and kept else None


def _thoughts(blocks: list[Any], written: list[bytes], turn: _Turn) -> dict[int, bytes]:
    """What stands in stead of the blocks with thought and text in them, by place; nothing: the block goes."""
    kinds = {place: block.get("type") for place, block in enumerate(blocks) if isinstance(block, dict)}
    thoughts = [place for place, kind in kinds.items() if kind in ("thinking", "redacted_thinking")]
    texts = [place for place, kind in kinds.items() if kind == "text" and isinstance(blocks[place].get("text"), str)]
    unsigned = [place for place in thoughts if kinds[place] == "thinking" and not blocks[place].get("signature")]
    reasoning = "".join([str(blocks[place].get("thinking") or "") for place in unsigned])
    repeated = repeats(reasoning, "".join([blocks[place]["text"] for place in texts]))
    changed: dict[int, bytes] = {}
    if unsigned and (repeated or not turn.keeps):
        turn.done["repeat_dropped" if repeated else "stripped"] += 1
        changed = dict.fromkeys(unsigned, b"")
    first = texts[0] if texts and not (thoughts and turn.keeps) else None
    if first is not None and (divided := _divided(blocks[first]["text"], turn)):
        thought, text = divided
        own = edit(written[first], {"text": encode_string(text)}) if text else b""
        changed[first] = b",".join(filter(None, [_thought(thought), own]))
    return changed


def _divided(text: str, turn: _Turn) -> tuple[str, str] | None:
    """A text that begins with a complete thought: what stays of the thought, and the rest; None for any other."""
    found = None if turn.left else split_thought(text, turn.rule, keeps=turn.keeps)
    if found is None:
        return None
    turn.done["split"] += 1
    thought, rest = found
    if repeats(thought, rest):
        return "", rest
    turn.done["stripped"] += bool(thought) and not turn.keeps
    return thought if turn.keeps else "", rest


def _inputs(blocks: list[Any], written: list[bytes], turn: _Turn) -> dict[int, bytes]:
    """Input that is text and no JSON becomes `{}`: the engine would refuse every later request of the session."""
    changed: dict[int, bytes] = {}
    for place, block in enumerate(blocks):
        made = _dict(block).get("input") if _dict(block).get("type") == "tool_use" else None
        if isinstance(made, str) and not is_json(made):
            turn.done[_INVALID] += 1
            if turn.rule.repair_arguments:
                changed[place] = edit(written[place], {"input": b"{}"})
    return changed


def _thought(text: str) -> bytes:
    return b'{"type":"thinking","thinking":%b}' % encode_string(text) if text else b""
