"""What a client should get from the text that the model emitted: the families' documented grammars, put plainly.

Made to be compared with, so it shares nothing with the reader: it sees the whole text, splits it with string methods
and knows no chunk, field or finding. Valid for the scripts of the recordings, which quote no marker inside a thought.
Sources: reference/vllm.md sections 1 and 2 (markers), contract rules 3 to 5 and 11, reader_spec section 4 (Kimi K3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.traces.answers import value

K3_OPEN, K3_CLOSE = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
K3_FRAMING = re.compile(r"<\|(?:open|close)\|>(?:response|message)<\|sep\|>")
K3_SKIPPED = re.compile(r"<\|close\|>response<\|sep\|>(?:\s|<\|close\|>message<\|sep\|>)*\Z")

MESSAGE = re.compile(
    r"<\|channel\|>(?P<channel>[a-z]+)(?: to=functions\.(?P<tool>\w+))?[^<]*(?:<\|constrain\|>\w+)?"
    r"<\|message\|>(?P<body>.*?)(?:<\|end\|>|<\|call\|>|<\|return\|>|\Z)",
    re.DOTALL,
)
PAIRS = {
    "seed_oss": ("<seed:think>", "</seed:think>"),
    "granite": ("Here is my thought process:", "Here is my response:"),
}
THINK = ("<think>", "</think>")
CALL = re.compile(r"<tool_call>(?P<inside>.*?)(?:</tool_call>|\Z)", re.DOTALL)
FUNCTION = re.compile(r"\s*<function=(\w+)>(.*)</function>\s*", re.DOTALL)
PARAMETER = re.compile(r"<parameter=(\w+)>\n(.*?)\n</parameter>", re.DOTALL)
END_OF_TURN = re.compile(r"<\|im_end\|>(?=\n|\Z)(?:\s*<\|im_start\|>(?!assistant)\w+\n.*\Z)?", re.DOTALL)
SPECIAL_TOKEN = re.compile(r"<\|[a-z]+\|>")


@dataclass(frozen=True, slots=True)
class Answer:
    """Reasoning, content and tool calls of one choice: a call's name, and its arguments' value or their broken text."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, object], ...] = ()


def expected(text: str, *, dialect: str, opens: bool, stopped: bool, tools: str) -> Answer:
    """The answer in `text`. `opens`: the thought is open where the text begins. `stopped`: the model ended by itself.

    `tools`: `offered` (calls are taken out), `none` (`tool_choice: none`: the markup goes and makes no call) or
    `absent` (the markup is the client's).
    """
    match dialect:
        case "harmony":
            return harmony(text)
        case "kimi_k3":
            return kimi_k3(text, opens=opens, stopped=stopped)
    reasoning, content = tags(text, *PAIRS.get(dialect, THINK), opens=opens)
    content = END_OF_TURN.sub("", content)
    if tools == "absent":
        return Answer(reasoning, content)
    calls = tuple(read for call in CALL.finditer(reasoning + content) for read in called(call["inside"]))
    return Answer(CALL.sub("", reasoning), CALL.sub("", content), calls if tools == "offered" else ())


def tags(text: str, opener: str, closer: str, *, opens: bool) -> tuple[str, str]:
    """`<think>…</think>` at the start, or a thought that is open already; markers behind it are text."""
    begins = re.match(rf"\s*{re.escape(opener)}", text)
    if not (opens or begins):
        return "", text
    reasoning, _, content = text[begins.end() if begins else 0 :].partition(closer)
    return reasoning, content


def kimi_k3(text: str, *, opens: bool, stopped: bool) -> Answer:
    """Channels. A reply written into the thought and closed as an answer is both (reader_spec section 4, row 1)."""
    if not (opens or text.startswith(K3_OPEN)):
        return Answer("", K3_FRAMING.sub("", text))
    channel, closed, content = text.removeprefix(K3_OPEN).partition(K3_CLOSE)
    reasoning = K3_FRAMING.sub("", channel)
    if not closed and stopped and K3_SKIPPED.search(channel):
        return Answer(reasoning, reasoning)
    return Answer(reasoning, K3_FRAMING.sub("", content))


def harmony(text: str) -> Answer:
    """Messages by channel: analysis is reasoning, one with a recipient is a call; without any message all is answer."""
    messages = list(MESSAGE.finditer(text))
    calls = tuple((message["tool"], value(message["body"])) for message in messages if message["tool"])
    bodies = [(message["channel"] == "analysis", message["body"]) for message in messages if not message["tool"]]
    reasoning, content = ("".join(body for thought, body in bodies if thought is wanted) for wanted in (True, False))
    return Answer(reasoning, content if messages else text, calls)


def called(inside: str) -> list[tuple[str, object]]:
    """The call that stands inside a block, in the two syntaxes of the recordings; empty where it is none.

    Of the tools of the recordings, what looks like a number is one.
    """
    if element := FUNCTION.fullmatch(inside):
        return [(element[1], {key: value(text) for key, text in PARAMETER.findall(element[2])})]
    whole = value(inside)
    return [(whole["name"], whole["arguments"])] if isinstance(whole, dict) else []


def visible(text: str, *, stop: Iterable[str], specials: bool) -> str:
    """What the engine's detokenizer shows of `text`: up to the first stop string, special tokens only if `specials`."""
    shown = text if specials else SPECIAL_TOKEN.sub("", text)
    return shown[: min((at for at in map(shown.find, stop) if at >= 0), default=len(shown))]
