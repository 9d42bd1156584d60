"""Plain bodies of the Responses API, as vLLM and SGLang send them (reference/vllm.md 3.5, sglang.md 3.5).

Owns what an `output` list says, and the list that says something else: items that stay keep their bytes. Never judges
text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from gateway.errors import IntegrityError
from gateway.events import REASONING
from gateway.protocols.frames import parsed, parsed_object
from gateway.protocols.protocol import (
    NOTHING,
    UNSAID,
    CallChange,
    CallChanges,
    Fragment,
    Framed,
    HistoryRule,
    Message,
    NotThisProtocol,
    Part,
    RequestFacts,
    Said,
)
from gateway.protocols.responses_items import CALL, MESSAGE, check_item, inside, list_of, parts_of, texts_of
from gateway.protocols.responses_output import is_commentary, rewritten
from gateway.protocols.responses_request import responses_facts, shape_history
from gateway.protocols.responses_tokens import only_own
from gateway.streams.jsonscan import DROP, Changes, Drop, edit, encode_string, items

BROKEN: Final = "error"  # the exchange's word for an answer whose call never came right
_STATUS: Final = {"completed": "stop", "cancelled": "abort", "failed": "error"}
_CUT: Final = {"max_output_tokens": "length", "max_tokens": "length"}
_RAW: Final = "output_messages"  # vLLM, with `enable_response_messages`: the output as the model wrote it
_NO_CALL: Final = (REASONING, MESSAGE, CALL)
SHOWN: Final = ("reasoning",)  # how a part says that it has reasoning, which has one name only
Members = dict[str | int, "bytes | Drop | Changes"]


def finish_of(response: Mapping[str, Any], *, calls: bool) -> str:
    """How a response ended, in the words of chat. `calls`: it calls functions."""
    status = response.get("status")
    if status == "incomplete":
        details = response.get("incomplete_details") or {}
        why = str(details.get("reason") or "max_output_tokens")
        return _CUT.get(why, why)
    finish = _STATUS.get(str(status), str(status))
    return "tool_calls" if calls and finish == "stop" else finish


def broken_status() -> Members:
    """The members of a response that did not come right."""
    return {
        "status": encode_string("failed"),
        "error": orjson.dumps({"code": "server_error", "message": "a tool call was not finished"}),
    }


def output_part(output: Sequence[dict[str, Any]], response: Mapping[str, Any]) -> Part:
    """What a whole response says."""
    shown = [item for item in output if not is_commentary(item)]
    texts = {kind: "".join([t for i in shown if i.get("type") == kind for t in texts_of(i)]) for kind in _NO_CALL[:2]}
    refused = any(p.get("type") == "refusal" for i in shown if i.get("type") == MESSAGE for p in parts_of(i, "content"))
    thinks = any(item.get("type") == REASONING for item in shown)
    called = any(item.get("type") == CALL for item in shown)
    tools = any(item.get("type") not in _NO_CALL[:2] for item in shown)
    finish = finish_of(response, calls=called)
    reasoning, content = texts[REASONING], texts[MESSAGE]
    names = SHOWN if thinks else ()
    value: dict[str, Any] = {"output": output}
    return Part(0, 0, reasoning, content, names, tools, False, refused, finish, UNSAID, value, value)


class PlainResponses(Framed):
    """`POST /v1/responses` without its streams. `drops`: progress messages are left out."""

    name = "responses"
    done = b"[DONE]"  # not of this protocol, but sent behind it by servers in between

    def __init__(self, *, drops: bool = False) -> None:
        self.drops = drops

    def facts(self, request: dict[str, Any]) -> RequestFacts:
        """What a request says."""
        return responses_facts(request)

    def shape_history(self, body: bytes, rule: HistoryRule) -> tuple[bytes, Counter[str]]:
        """The request with its assistant turns shaped, and what was done; the same object when nothing was."""
        return shape_history(body, rule)

    # ------------------------------------------------------------------ in

    def decode_body(self, body: bytes) -> Message:
        """A whole plain body. Raises NotThisProtocol."""
        value, odd = parsed_object(body, what="response")
        output = value.get("output")
        if value.get("object") != "response" and not isinstance(output, list):
            raise NotThisProtocol("no response")
        listed = output or []
        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            raise NotThisProtocol("no response")
        if self.drops and any(map(is_commentary, listed)):
            gone: Changes = {place: DROP for place, item in enumerate(listed) if is_commentary(item)}
            return self.decode_body(edit(body, {"output": gone}))
        try:
            for item in listed:
                check_item(item)
            part = output_part(listed, value)
        except (AttributeError, KeyError, TypeError) as error:
            raise NotThisProtocol("no response") from error
        return Message(body, value, [part], value.get("status") == "failed", odd, takes_report=True)

    def fragments(self, message: Message, part: Part) -> list[Fragment]:
        """The function calls of a whole response."""
        calls = [(place, item) for place, item in enumerate(_output(message)) if item.get("type") == CALL]
        return [
            call_fragment(number, item, inside(message.data, *_root(message), "output", place, "arguments"))
            for number, (place, item) in enumerate(calls)
        ]

    def names_shown(self, part: Part) -> tuple[str, ...]:
        """Reasoning has one name."""
        return part.names

    def answer_id(self, message: Message) -> str:
        """The id of the answer; empty where the frame names none."""
        return _answer(message)

    def has_usage(self, message: Message) -> bool:
        """True when the frame tells the usage."""
        return bool((message.value.get("response") or message.value).get("usage"))

    # ------------------------------------------------------------------ the same body, changed

    def rename(self, message: Message, names: tuple[str, ...] | None) -> bytes | None:
        """The body without its reasoning where it has no name; None when nothing changes."""
        if names != () or not any(item.get("type") == REASONING for item in _output(message)):
            return None
        gone: Changes = {n: DROP for n, item in enumerate(_output(message)) if item.get("type") == REASONING}
        return _edited(message, {"output": gone})

    def without_tokens(self, message: Message, places: Collection[int], *, whole: bool) -> tuple[Message, Counter[str]]:
        """Without the raw messages of the whole answer, and without its other tokens beside a whole text.

        vLLM puts those of all its output there, in plain bodies and in what ends a stream. Beside a piece of text only
        tokens go out whose text does.
        """
        if not whole:
            return message, Counter()
        out: Counter[str] = Counter()
        data, response = message.data, message.value.get("response", message.value)
        if changes := only_own(message.value, data):
            data = edit(data, changes)
            out["logprobs"] += 1
        if isinstance(response, dict) and response.get(_RAW):
            data = edit(data, {"response": {_RAW: DROP}} if _root(message) else {_RAW: DROP})
            out[_RAW] += 1
        return (replace(message, data=data, value=parsed(data)[0]), out) if out else (message, out)

    def spells(self, part: Part, text: str) -> bool:
        """True: only tokens go out whose text does."""
        return True

    def rewrite_body(
        self,
        message: Message,
        pieces: Mapping[int, Sequence[Said]],
        names: tuple[str, ...],
        finishes: Mapping[int, str] = NOTHING,
    ) -> bytes:
        """The plain body that says `pieces` in stead of its own text; calls stand behind the engine's own."""
        changes: Members = {}
        if 0 in pieces:
            raw = items(message.data, (*_root(message), "output"))
            listed = list(zip(_output(message), raw, strict=True))
            changes["output"] = list_of(rewritten(listed, pieces[0], hides=not names, answer=_answer(message)))
        if finishes.get(0) == BROKEN:
            changes |= broken_status()
        return _edited(message, changes)

    def change_calls(self, message: Message, changes: CallChanges) -> bytes:
        """The body with its function calls changed."""
        calls = [place for place, item in enumerate(_output(message)) if item.get("type") == CALL]
        edits: Changes = {calls[number]: call_change(change) for number, change in changes.get(0, {}).items()}
        return _edited(message, {"output": edits})

    def report_event(self, like: Message | None, report: object) -> bytes:
        """None: the report stands in the response, and a stream without one has no place for it."""
        return b""

    def add_report(self, body: bytes, report: object) -> bytes:
        """A plain body with the report at its top level, or a terminal event with it in its response."""
        changes: Changes = {"integrity": orjson.dumps(report)}
        return edit(body, {"response": changes} if "response" in parsed(body)[0] else changes)

    def error_body(self, error: IntegrityError) -> bytes:
        """A gateway error as a plain body: both engines nest it."""
        return orjson.dumps({"error": error_object(error)})


def error_object(error: IntegrityError) -> dict[str, Any]:
    """The members of an error, in either place."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    return {"message": str(error), "type": kind, "param": None, "code": error.code}


def call_fragment(number: int, item: Mapping[str, Any], raw: bytes) -> Fragment:
    """A whole call of the engine's. `raw`: its arguments as they are written, which are a string in every right one."""
    arguments = item.get("arguments")
    text = arguments is None or isinstance(arguments, str)
    return Fragment(
        place=number,
        index=number,
        ident=word(item.get("call_id")),
        name=word(item.get("name")),
        arguments=(arguments or "") if text else raw.decode(),
        text=text,
    )


def word(value: object) -> str | None:
    """A string that says something."""
    return value if isinstance(value, str) and value else None


def call_change(change: CallChange) -> Members | Drop:
    """What to do to the item of a call."""
    if change.gone:
        return DROP
    said = {"name": change.name, "arguments": change.arguments}
    return {name: encode_string(text) for name, text in said.items() if text is not None}


def _root(message: Message) -> tuple[str, ...]:
    """Where the response is: a terminal event has it in a member."""
    return ("response",) if "response" in message.value else ()


def _edited(message: Message, changes: Changes) -> bytes:
    """The message with these changes of its response."""
    for name in _root(message):
        changes = {name: changes}
    return edit(message.data, changes)


def _answer(message: Message) -> str:
    return str((message.value.get("response") or message.value).get("id") or "")


def _output(message: Message) -> list[dict[str, Any]]:
    response = message.value.get("response", message.value)
    return response.get("output") or []
