"""What chunks with choices have in common, in chat and in text completions: one head, one end for each choice.

From OpenAI's references "The chat completion chunk object" and "The completion object" and the description of
`stream_options`: every chunk has the same `id`, `created` and `model`; the chunk with the usage comes last, has no
choices and is one; `data: [DONE]` ends the stream.

Beyond that documentation, because engines do so (reference/vllm.md 3.1, reference/sglang.md 3.2): an event with an
`error` ends the stream, with `[DONE]` behind it or without; `continuous_usage_stats` puts a usage into every chunk; a
chunk without choices may carry something else than usage (`sglext`, our report); `reasoning` and `reasoning_content`
stand beside the text; a choice may end with a word of `ENGINE_REASONS`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from gateway.protocols.legal.flow import Flow, entries, shown

REASONS: Final = ("stop", "length", "tool_calls", "content_filter", "function_call")
ENGINE_REASONS: Final = ("abort", "error", "repetition")
"""What vLLM and SGLang say beside OpenAI's words of an answer that was not finished."""

HEAD: Final = ("id", "created", "model")
EXTENSIONS: Final = ("reasoning", "reasoning_content")


class ChoiceFlow(Flow):
    """A stream of chunks with choices. `object`: what each says it is."""

    done = b"[DONE]"
    goodbye = ("error",)
    object: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._head: dict[str, Any] = {}
        self._finished: dict[int, bool] = {}
        self._usage = False  # the chunk with the usage has come
        self._continuous: bool | None = None  # each chunk has a usage; None: no chunk yet

    def kind(self, value: dict[str, Any]) -> str:
        """An error, or what the object says it is."""
        return "error" if value.get("error") else ""

    def take(self, number: int, name: str, kind: str, value: dict[str, Any]) -> None:
        """One chunk, or an error."""
        self.say(not name, f"its frame has a name, {shown(name)}")
        if kind:
            self.over = kind
            return
        self.say(value.get("object") == self.object, f"its object is {shown(value.get('object'))}")
        for part in HEAD:
            known = self._head.setdefault(part, value.get(part))
            self.say(known is not None and value.get(part) == known, f"its {part} is missing, or another one")
        choices = value.get("choices")
        self.say(isinstance(choices, list), "it has no list of choices")
        if choices:
            self._counted(value.get("usage") is not None)
        elif value.get("usage") is not None:
            self.say(not self._usage, "a second chunk has the usage")
            self.say(all(self._finished.values()), "the usage comes before the end of a choice")
            self._usage = True
        for choice in entries(choices):
            self._choice(choice)

    def _counted(self, usage: bool) -> None:
        """A chunk with choices, with usage or without."""
        self.say(not self._usage, "it comes behind the usage")
        if self._continuous is None:
            self._continuous = usage
        self.say(usage is self._continuous, "it has no usage" if self._continuous else "it has a usage")

    def _choice(self, choice: Any) -> None:
        index = choice.get("index") if isinstance(choice, dict) else None
        if not self.say(type(index) is int and index >= 0, f"the index of a choice is {shown(index)}"):
            return
        assert isinstance(index, int)
        over = self._finished.setdefault(index, False)
        reason = choice.get("finish_reason")
        self.say(not (over and reason is not None), f"choice {index} ends twice")
        known = reason is None or (isinstance(reason, str) and reason in REASONS + ENGINE_REASONS)
        self.say(known, f"choice {index} ends with {shown(reason)}")
        said = self.says(index, choice)
        self.say(not (over and said), f"choice {index} says more behind its end")
        self._finished[index] = over or reason is not None

    def says(self, index: int, choice: dict[str, Any]) -> bool:
        """Is there anything in the piece of a choice? Notes what is wrong with it."""
        raise NotImplementedError

    def last(self) -> None:
        """`[DONE]`: there was a choice, and each has ended, unless an error ended them."""
        if self.over not in self.goodbye:
            self.say(self._finished, "there was no choice")
            for index, over in sorted(self._finished.items()):
                self.say(over, f"choice {index} has not ended")

    def texts(self, index: int, piece: dict[str, Any], *names: str) -> bool:
        """Is there text under one of these names? Each is a string, or nothing."""
        for name in names:
            value = piece.get(name)
            self.say(value is None or isinstance(value, str), f"{name} of choice {index} is {shown(value)}")
        return any(piece.get(name) for name in names)
