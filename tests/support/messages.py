"""One exchange of Anthropic Messages without a socket: the engine's events in, what its client has out.

`events` writes a stream as vLLM 0.33 does (reference/vllm.md 3.6), from pieces that stand in no protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.exchange import Exchange, Overrides, RouteRules, open_exchange, peek_request
from gateway.protocols import protocol_for
from gateway.protocols.legal.messages import violations
from gateway.protocols.protocol import WireProtocol
from tests.exchange import driver
from tests.support.legal import body_stays_legal

SIGNATURE = "c431235be2614966a4dc05be5524a1d4"
STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
"""Finish reasons of chat in the words of Messages."""
WANTED = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
OFF = {"thinking": {"type": "disabled"}}

Piece = tuple[str, Any]
"""`("thinking" | "text", text)`, `("tool_use", (id, name, pieces of its input))`, or `("raw", event)`: as it is."""


def messages() -> WireProtocol:
    """The protocol."""
    found = protocol_for("/v1/messages")
    assert found is not None
    return found


# ---------------------------------------------------------------------- the engine


def event(value: dict[str, Any]) -> bytes:
    """One frame."""
    return f"event: {value['type']}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def start(index: int, block: dict[str, Any]) -> bytes:
    """The start of a block."""
    return event({"type": "content_block_start", "content_block": block, "index": index})


def delta(index: int, **said: str) -> bytes:
    """A delta that says one member: `text`, `thinking`, `partial_json` or `signature`."""
    [member] = said
    kind = {"partial_json": "input_json"}.get(member, member)
    return event({"type": "content_block_delta", "delta": {"type": f"{kind}_delta", **said}, "index": index})


def stop(index: int) -> bytes:
    """The end of a block."""
    return event({"type": "content_block_stop", "index": index})


HEAD = event(
    {
        "type": "message_start",
        "message": {
            **{"id": "chatcmpl-1", "type": "message", "role": "assistant", "content": [], "model": "m"},
            **{"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 0}},
        },
    }
)
END = event({"type": "message_stop"})
PING = event({"type": "ping"})
ERROR = event({"type": "error", "error": {"type": "api_error", "message": "Internal server error"}})


def tail(reason: str | None = "end_turn", string: str | None = None) -> bytes:
    """How the answer ended."""
    said = {"stop_reason": reason, "stop_sequence": string}
    return event({"type": "message_delta", "delta": said, "usage": {"input_tokens": 3, "output_tokens": 7}})


def blocks(pieces: Iterable[Piece], *, signed: bool = True) -> Iterator[bytes]:
    """Pieces as blocks: neighbours of one kind in one block, each call in its own."""
    index, last = -1, ""
    for kind, said in pieces:
        if kind == "raw":
            yield event(said)
            continue
        if kind != last or kind == "tool_use":
            yield from _ended(index, last, signed=signed)
            index, last = index + 1, kind
            made = {"id": said[0], "name": said[1], "input": {}} if kind == "tool_use" else {kind: ""}
            yield start(index, {"type": kind, **made})
        for text in said[2] if kind == "tool_use" else [said]:
            yield delta(index, **{"partial_json" if kind == "tool_use" else kind: text})
    yield from _ended(index, last, signed=signed)


def _ended(index: int, kind: str, *, signed: bool) -> Iterator[bytes]:
    if kind == "thinking" and signed:
        yield delta(index, signature=SIGNATURE)
    if kind:
        yield stop(index)


def events(
    pieces: Iterable[Piece], *, reason: str | None = "end_turn", string: str | None = None, signed: bool = True
) -> list[bytes]:
    """A whole stream."""
    return [HEAD, *blocks(pieces, signed=signed), tail(reason, string), END]


def body(pieces: Iterable[Piece], *, reason: str = "end_turn", string: str | None = None, signed: bool = True) -> bytes:
    """The same answer as a plain body; members that are null are left out, as vLLM does."""
    content: list[dict[str, Any]] = []
    for kind, said in pieces:
        if kind == "tool_use":
            made = "".join(said[2]) or "{}"
            content.append({"type": kind, "id": said[0], "name": said[1], "input": _value(made)})
        elif content and content[-1]["type"] == kind:
            content[-1][kind] += said
        else:
            content.append({"type": kind, kind: said})
    for block in content:
        if signed and block["type"] == "thinking":
            block["signature"] = SIGNATURE
    ends = {"stop_reason": reason} | ({"stop_sequence": string} if string is not None else {})
    head = {"id": "chatcmpl-1", "type": "message", "role": "assistant", "content": content, "model": "m"}
    value = {**head, **ends, "usage": {"input_tokens": 3, "output_tokens": 7}}
    return json.dumps(value, separators=(",", ":")).encode()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# ---------------------------------------------------------------------- the client


def frames(body: bytes) -> Iterator[tuple[str, Any]]:
    """Event name and parsed data of every frame. Comments are left out, and data that is no object."""
    for frame in body.replace(b"\r\n", b"\n").decode("utf-8", "surrogatepass").split("\n\n"):
        lines = [line.partition(":") for line in frame.split("\n") if line and not line.startswith(":")]
        fields = {name: value.removeprefix(" ") for name, _, value in lines}
        if fields.get("data", "").startswith("{"):
            yield fields.get("event", ""), json.loads(fields["data"])


@dataclass(slots=True)
class Answer:
    """What the client has. `content`: its blocks, joined as an SDK joins them; `raw`: the bytes."""

    raw: bytes
    complete: bool
    exchange: Exchange
    content: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    string: str | None = None
    report: dict[str, Any] | None = None

    @property
    def kinds(self) -> list[str]:
        """The types of its blocks."""
        return [block["type"] for block in self.content]

    @property
    def said(self) -> tuple[str, str]:
        """Thought and text."""
        return _joined(self.content, "thinking"), _joined(self.content, "text")

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """Name and input of every call."""
        return [(block["name"], block["input"]) for block in self.content if block["type"] == "tool_use"]

    @property
    def findings(self) -> dict[str, int]:
        """`finding/action` to its count."""
        return driver.findings(self.exchange)


def _joined(content: Sequence[dict[str, Any]], kind: str) -> str:
    return "".join([block[kind] for block in content if block["type"] == kind])


def opened(request: dict[str, Any], rules: RouteRules, *, report: bool = False) -> Exchange:
    """An exchange for a request."""
    sent = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **request})
    facts = peek_request(messages(), sent.encode())
    overrides = Overrides(report=report)
    return open_exchange(protocol=messages(), body=sent.encode(), facts=facts, rules=rules, overrides=overrides)


def streamed(
    reads: Iterable[bytes],
    rules: RouteRules | None = None,
    *,
    request: dict[str, Any] | None = None,
    report: bool = False,
    legal: bool = True,
) -> Answer:
    """A streamed answer that ends cleanly after `reads`. It must be legal, unless the engine's own is not."""
    exchange = opened({"stream": True, **(request or {})}, rules or driver.route(), report=report)
    exchange.head(status=200, content_type="text/event-stream; charset=utf-8", content_encoding=None)
    out = b"".join([exchange.data(read) for read in reads])
    ending = exchange.end()
    assert exchange.fault is None, exchange.fault
    answer = Answer(out + ending.data, ending.complete, exchange)
    if legal:
        assert violations(answer.raw) == [], answer.raw.decode()
    made: dict[int, str] = {}
    for _, value in frames(answer.raw):
        _join(answer, made, value)
    for index, text in made.items():
        answer.content[index]["input"] = _value(text) if text else {}
    return answer


def _join(answer: Answer, made: dict[int, str], value: dict[str, Any]) -> None:
    kind, index = value.get("type"), value.get("index", 0)
    if kind == "content_block_start":
        answer.content.append(dict(value["content_block"]))
    elif kind == "content_block_delta" and index < len(answer.content):
        said = value["delta"]
        if said["type"] == "input_json_delta":
            made[index] = made.get(index, "") + said["partial_json"]
        elif said["type"] == "citations_delta":
            answer.content[index]["citations"] = [*answer.content[index]["citations"], said["citation"]]
        elif said["type"] == "signature_delta":
            answer.content[index]["signature"] = said["signature"]
        else:
            member = said["type"].removesuffix("_delta")
            answer.content[index][member] = answer.content[index].get(member, "") + said[member]
    elif kind == "message_delta":
        answer.reason, answer.string = value["delta"]["stop_reason"], value["delta"]["stop_sequence"]
        answer.report = value.get("integrity")


def plain(
    raw: bytes, rules: RouteRules | None = None, *, request: dict[str, Any] | None = None, report: bool = False
) -> Answer:
    """A plain answer."""
    exchange = opened(request or {}, rules or driver.route(), report=report)
    exchange.head(status=200, content_type="application/json", content_encoding=None)
    out = exchange.data(raw)
    ending = exchange.end()
    assert exchange.fault is None, exchange.fault
    body_stays_legal("messages", raw, out + ending.data)
    value = json.loads(out + ending.data)
    answer = Answer(out + ending.data, ending.complete, exchange, value["content"], value["stop_reason"])
    answer.string, answer.report = value.get("stop_sequence"), value.get("integrity")
    return answer


def pieces_of(deltas: Iterable[dict[str, Any] | str]) -> list[Piece]:
    """Deltas of chat as pieces; a call's fragments in one."""
    pieces: list[Piece] = []
    calls: dict[int, list[str]] = {}
    for each in deltas:
        said = {"content": each} if isinstance(each, str) else each
        if thought := said.get("reasoning") or said.get("reasoning_content"):
            pieces.append(("thinking", thought))
        if said.get("content"):
            pieces.append(("text", said["content"]))
        for place, part in enumerate(said.get("tool_calls") or ()):
            function, index = part.get("function") or {}, part.get("index", place)
            if index not in calls:
                calls[index] = []
                pieces.append(("tool_use", (part.get("id") or f"toolu_{index}", function.get("name"), calls[index])))
            calls[index].append(function.get("arguments") or "")
    return pieces


def recut(pieces: Iterable[Piece], size: int) -> list[Piece]:
    """Neighbouring text of one kind joined and cut into pieces of `size` characters."""
    runs: list[list[Any]] = []
    for kind, said in pieces:
        if runs and runs[-1][0] == kind and isinstance(said, str):
            runs[-1][1] += said
        else:
            runs.append([kind, said])
    return [
        (kind, said[at : at + size] if isinstance(said, str) else said)
        for kind, said in runs
        for at in (range(0, len(said), size) if isinstance(said, str) else (0,))
    ]


def as_request(request: dict[str, Any]) -> dict[str, Any]:
    """A chat request in the words of Messages: tools, the choice of one, stop strings, the conversation."""
    said = {name: request[name] for name in ("chat_template_kwargs", "stream") if name in request}
    tools = [tool["function"] for tool in request.get("tools", ())]
    if tools:
        said["tools"] = [{"name": tool["name"], "input_schema": tool.get("parameters")} for tool in tools]
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        said["tool_choice"] = {"type": "tool", "name": choice["function"]["name"]}
    elif choice:
        said["tool_choice"] = {"type": {"required": "any"}.get(choice, choice)}
    stops = request.get("stop")
    said |= {"stop_sequences": [stops] if isinstance(stops, str) else stops} if stops else {}
    said |= WANTED if request.get("include_reasoning") else {}
    thinks = request.get("chat_template_kwargs", {}).get("enable_thinking")
    said |= {"thinking": {"type": "disabled"}} if thinks is False else {}
    turns = request.get("messages", ())
    told = "\n".join([turn["content"] for turn in turns if turn["role"] == "system"])
    said |= {"system": told} if told else {}
    spoken = [_turn(turn) for turn in turns if turn["role"] != "system"]
    return {**said, "messages": spoken} if spoken else said


def _turn(turn: dict[str, Any]) -> dict[str, Any]:
    if turn["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": turn["tool_call_id"], "content": turn["content"]}
        return {"role": "user", "content": [result]}
    uses = [
        {"type": "tool_use", "id": c["id"], "name": c["function"]["name"], "input": _value(c["function"]["arguments"])}
        for c in turn.get("tool_calls", ())
    ]
    return {"role": turn["role"], "content": uses or turn["content"]}
