"""Is a stream of SGLang's `/generate` legal? From SGLang's "Native APIs" and reference/sglang.md 3.4.

Every event of an answer has its `meta_info`: the same id throughout, a count of tokens that does not fall, and in the
last one how it ended. Answers of a batch are told apart by `index`. `data: [DONE]` ends the stream, an event with an
`error` does too. Texts are all so far, or only what is new; that a text says all so far is certain only where an event
behind the first has as many ids as there are tokens: then it goes on from the text and the ids before it.

Beyond that documentation: our report stands in the `meta_info` of an event that tells the last one again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from gateway.protocols.legal.flow import Flow, entries, member, shown, text

ENDS: Final = ("stop", "length", "abort")


@dataclass(slots=True)
class _Answer:
    """One answer as its last event told it."""

    ident: Any
    over: bool = False
    tokens: int = 0
    text: str = ""
    ids: list[Any] = field(default_factory=list)


def violations(body: bytes, *, ended: bool = True) -> list[str]:
    """What is not legal in a stream of `/generate`; empty: nothing. `ended`: nothing of it is missing."""
    return Events().read(body, ended=ended)


class Events(Flow):
    """One stream."""

    done = b"[DONE]"
    goodbye = ("error",)

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[int, _Answer] = {}

    def kind(self, value: dict[str, Any]) -> str:
        """An error; the other events have no name."""
        return "error" if value.get("error") else ""

    def take(self, number: int, name: str, kind: str, value: dict[str, Any]) -> None:
        """One event."""
        self.say(not name, f"its frame has a name, {shown(name)}")
        if kind:
            self.over = kind
        elif self.say("meta_info" in value, "it has no meta_info"):
            self._event(value)

    def _event(self, value: dict[str, Any]) -> None:
        index, meta = value.get("index", 0), value["meta_info"]
        if not self.say(type(index) is int and isinstance(meta, dict), "its index or meta_info is none"):
            return
        answer = self._answers.setdefault(index, _Answer(meta.get("id")))
        self.say(not answer.over or "integrity" in meta, f"answer {index} goes on behind its end")
        self.say(meta.get("id") == answer.ident, f"answer {index} has another id")
        self.say(isinstance(value.get("text"), str), f"the text of answer {index} is {shown(value.get('text'))}")
        self._grown(index, answer, value, meta.get("completion_tokens"))
        reason = meta.get("finish_reason")
        if reason is not None:
            self.say(member(reason, "type") in ENDS, f"answer {index} ends with {shown(member(reason, 'type'))}")
            answer.over = True

    def _grown(self, index: int, answer: _Answer, value: dict[str, Any], tokens: Any) -> None:
        """What an event tells beyond the one before it."""
        if type(tokens) is not int:
            return
        now, ids = text(value.get("text")), entries(value.get("output_ids"))
        self.say(tokens >= answer.tokens, f"answer {index} has {tokens} tokens behind {answer.tokens}")
        if answer.ids and len(ids) == tokens:
            self.say(now.startswith(answer.text), f"the text of answer {index} is not what it was, and more")
            self.say(
                ids[: len(answer.ids)] == answer.ids, f"the ids of answer {index} are not what they were, and more"
            )
        answer.tokens, answer.text, answer.ids = tokens, now, ids

    def last(self) -> None:
        """`[DONE]`: there was an answer, and each has ended, unless an error ended them."""
        if self.over not in self.goodbye:
            self.say(self._answers, "there was no answer")
            for index, answer in sorted(self._answers.items()):
                self.say(answer.over, f"answer {index} has not ended")
