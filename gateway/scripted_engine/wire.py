"""vLLM 0.32 chat completions on the wire: how a script's deltas become frames or one body.

Shapes and key order as recorded (`data/recordings`); tool calls and `n` as vLLM's response models. Knows no socket.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.scripted_engine.cases import TEXT_FIELDS, Delta

DONE = b"data: [DONE]\n\n"
FINGERPRINT = "vllm-0.32.0-scripted"
CREATED = 1_796_054_046  # fixed, so that two runs give the same bytes
PROMPT_TOKENS = 11
CHARACTERS_PER_TOKEN = 4

_DELTA_ORDER = ("content", "reasoning", "reasoning_content", "tool_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What every frame of one answer repeats."""

    id: str
    model: str

    def opening(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": CREATED, "model": self.model}


def encode(value: object) -> bytes:
    """JSON as vLLM writes it: compact, non-ASCII as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _frame(value: object) -> bytes:
    return b"data: " + encode(value) + b"\n\n"


def _tokens(deltas: Iterable[Delta], names: Sequence[str]) -> int:
    """A token count that does not depend on how the answer is cut."""
    characters = sum(len(delta.get(name) or "") for delta in deltas for name in names)
    return -(-characters // CHARACTERS_PER_TOKEN)


def usage(deltas: Sequence[Delta], n: int) -> dict[str, Any]:
    """The usage of `n` choices of the same answer."""
    reasoning = n * _tokens(deltas, ("reasoning", "reasoning_content"))
    completion = reasoning + n * _tokens(deltas, ("content",))
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "total_tokens": PROMPT_TOKENS + completion,
        "completion_tokens": completion,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def _chunk(head: Head, index: int, delta: Delta, finish_reason: str | None) -> dict[str, Any]:
    ordered = {name: delta[name] for name in _DELTA_ORDER if name in delta}
    choice: dict[str, Any] = {"index": index, "delta": ordered, "logprobs": None, "finish_reason": finish_reason}
    if finish_reason:
        choice["stop_reason"] = None
    choice["token_ids"] = None
    return {**head.opening("chat.completion.chunk"), "choices": [choice]}


def _role_chunk(head: Head, index: int) -> dict[str, Any]:
    delta = {"role": "assistant", "content": ""}
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
    return {**head.opening("chat.completion.chunk"), "choices": [choice], "prompt_token_ids": None, "prompt_text": None}


def stream_frames(
    head: Head, deltas: Sequence[Delta], finish_reason: str, *, n: int, with_usage: bool, finish_with_last: bool
) -> list[bytes]:
    """The frames of a streamed answer, the choices interleaved delta by delta, `[DONE]` last."""
    steps: list[tuple[Delta, str | None]] = [(delta, None) for delta in deltas]
    if finish_with_last and steps:
        steps[-1] = (steps[-1][0], finish_reason)
    else:
        steps.append(({}, finish_reason))
    chunks = [_role_chunk(head, index) for index in range(n)]
    chunks += [_chunk(head, index, delta, finish) for delta, finish in steps for index in range(n)]
    if with_usage:
        tail: dict[str, Any] = {"choices": [], "usage": usage(deltas, n)}
        chunks.append({**head.opening("chat.completion.chunk"), **tail, "system_fingerprint": FINGERPRINT})
    else:
        chunks[-1]["system_fingerprint"] = FINGERPRINT
    return [*map(_frame, chunks), DONE]


def _tool_calls(deltas: Iterable[Delta]) -> list[dict[str, Any]]:
    """Streamed call fragments joined by their index."""
    calls: dict[int, dict[str, Any]] = {}
    for part in (part for delta in deltas for part in delta.get("tool_calls", ())):
        new = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = calls.setdefault(part["index"], new)
        call["id"] = part.get("id", call["id"])
        call["function"]["name"] += part["function"].get("name", "")
        call["function"]["arguments"] += part["function"].get("arguments", "")
    return [calls[index] for index in sorted(calls)]


def _message(deltas: Sequence[Delta]) -> dict[str, Any]:
    texts = {name: "".join(delta.get(name) or "" for delta in deltas) or None for name in TEXT_FIELDS}
    unused = {"refusal": None, "annotations": None, "audio": None, "function_call": None}
    message: dict[str, Any] = {"role": "assistant", "content": texts["content"], **unused}
    if calls := _tool_calls(deltas):
        message["tool_calls"] = calls
    message["reasoning"] = texts["reasoning"]
    if texts["reasoning_content"] is not None:
        message["reasoning_content"] = texts["reasoning_content"]
    return message


def whole_body(head: Head, deltas: Sequence[Delta], finish_reason: str, *, n: int) -> bytes:
    """The body of an answer asked for without `stream`."""
    end = {"logprobs": None, "finish_reason": finish_reason, "stop_reason": None, "token_ids": None}
    message = _message(deltas)
    choices = [{"index": index, "message": message, **end, "routed_experts": None} for index in range(n)]
    counts = usage(deltas, n)
    details = counts.pop("completion_tokens_details")
    body = {
        **head.opening("chat.completion"),
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": {**counts, "prompt_tokens_details": None, "completion_tokens_details": details},
        **dict.fromkeys(("prompt_logprobs", "prompt_token_ids", "prompt_text", "kv_transfer_params")),
        **dict.fromkeys(("ec_transfer_params", "metrics")),
    }
    return encode(body)


def error_body(message: str, kind: str, param: str | None, code: int) -> bytes:
    """vLLM's error object."""
    return encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def model_list(names: Iterable[str]) -> bytes:
    """The body of `/v1/models`, without the permission objects nobody reads."""
    entry = {"object": "model", "created": CREATED, "owned_by": "vllm"}
    return encode({"object": "list", "data": [{"id": name, **entry, "root": name, "parent": None} for name in names]})
