"""Chat answers read from their tokens: the text that the tokens are stands where the engine's own split stood.

Engines tell a chat answer's tokens beside its text, as ids (`token_ids`, vLLM >= 0.10.2) or as `logprobs` with the
bytes of each (vLLM, SGLang; reference/vllm.md 5, sglang.md 6). They are complete and in order where the text is not
(vLLM #51641). Owns the members that are asked for, how a frame tells tokens, and what of it the client did not ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.streams.jsonscan import DROP, Changes, Drop, edit, encode_string, swap
from gateway.streams.tokens import Markers, Run, Spell, Token, TokenText, are_ids, plain, runs_of, spelled, told

IDS: Final = "ids"
LOGPROBS: Final = "logprobs"
RUNS_ASKED: Final = 32
"""Runs of ids of one plain answer that the engine is asked to spell; each is a question."""
_MEMBERS: Final = {IDS: ("return_token_ids", b"true"), LOGPROBS: ("logprobs", b"true")}
_SPLIT: Final = ("reasoning", "reasoning_content", "tool_calls", "function_call")  # what an engine makes of the text
_IN_CHOICE: Final = {IDS: "token_ids", LOGPROBS: "logprobs"}
_TEXT: Final = frozenset({"reasoning", "reasoning_content", "content"})  # nothing else is in an ordinary delta
_NULL: Final = b"null"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensAsked:
    """`ours`: what is asked for that the client did not ask for, `theirs`: what it asked for itself; `IDS`, `LOGPROBS`.

    `markers`: what of the dialect's literals is one token. `spelling`: makes text of ids; None: nothing does.
    `ends_in_token`: an answer that a token ended ends with that token (vLLM).
    """

    ours: frozenset[str]
    theirs: frozenset[str]
    markers: Markers
    spelling: Callable[[], Spell] | None
    ends_in_token: bool

    def changes(self) -> dict[str | int, bytes | Drop | Changes]:
        """The request's members that ask for it. A request that hides the reasoning would hide its tokens."""
        asked: dict[str | int, bytes | Drop | Changes] = {_MEMBERS[name][0]: _MEMBERS[name][1] for name in self.ours}
        return asked | {"include_reasoning": DROP}


def unspelled(data: bytes, asked: TokensAsked) -> list[Run]:
    """What of a plain answer is told by ids alone, which nothing here can spell: each run once, without lone markers.

    Empty too where that is more than `RUNS_ASKED`, or what is no answer.
    """
    if asked.spelling or not asked.markers.ids:
        return []
    try:
        value = orjson.loads(data)
    except ValueError:
        return []
    choices = value.get("choices") if isinstance(value, dict) else None
    runs: dict[Run, None] = {}
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not _logged(choice):
            runs |= dict.fromkeys(runs_of(_ids(choice, ended=_ended_by_token(choice, asked)), asked.markers))
    asks = [run for run in runs if len(run) > 1 or run[0] not in asked.markers.ids]
    return asks if len(asks) <= RUNS_ASKED else []


class ChatTokens:
    """The frames of one answer. `missing`: choices whose text came without tokens: they stay as the engine has them.

    `texts`: what the `unspelled` runs of a plain answer are; None for a stream, of which nothing is asked later.
    """

    def __init__(self, asked: TokensAsked, *, texts: Mapping[Run, str] | None = None) -> None:
        self._asked = asked
        self._told = texts
        self._texts: dict[object, TokenText] = {}
        self._spells: dict[object, Spell] = {}
        self.missing: set[object] = set()

    def event(self, data: bytes) -> tuple[bytes, dict[int, str]]:
        """A stream event with the text of its tokens as content, and that text by place, as the reader takes it.

        What is no chunk with choices comes back as it is.
        """
        return self._read(data, "delta")

    def body(self, data: bytes) -> tuple[bytes, dict[int, str]]:
        """As `event`, of a plain answer."""
        return self._read(data, "message")

    def _read(self, data: bytes, holder: str) -> tuple[bytes, dict[int, str]]:
        try:
            value = orjson.loads(data)
        except ValueError:
            return data, {}
        choices = value.get("choices") if isinstance(value, dict) else None
        if not isinstance(choices, list):
            return data, {}
        texts: dict[int, str] = {}
        changed: dict[str | int, bytes | Drop | Changes] = {}
        for place, choice in enumerate(choices):
            if isinstance(choice, dict) and isinstance(fields := choice.get(holder) or {}, dict):
                change = self._choice(choice, fields, holder, texts, place)
                if change:
                    changed[place] = change
        changes: dict[str | int, bytes | Drop | Changes] = {"choices": changed} if changed else {}
        if IDS in self._asked.ours and value.get("prompt_token_ids") is not None:
            changes["prompt_token_ids"] = _NULL
        elif len(choices) == 1 and changed and (quick := _quickly(data, changed[0], choices[0].get(holder), holder)):
            return quick, texts
        return (edit(data, changes) if changes else data), texts

    def _choice(
        self, choice: Mapping[str, Any], fields: Mapping[str, Any], holder: str, texts: dict[int, str], place: int
    ) -> dict[str | int, bytes | Drop | Changes]:
        index = choice.get("index", place)
        if type(index) is not int:
            return {}
        tokens = _logged(choice) or self._spelled(index, choice)
        split = [name for name in _SPLIT if fields.get(name)]
        if not (tokens or index in self._texts) and (split or fields.get("content")):
            self.missing.add(index)
        if index in self.missing:
            return self._unasked(choice)
        if tokens and _ended_by_token(choice, self._asked):
            tokens.pop()
        text = self._texts.setdefault(index, TokenText(self._asked.markers)) if tokens else self._texts.get(index)
        said = text.feed(tokens) if text else ""
        if text and choice.get("finish_reason"):
            said += text.end()
        texts[place] = said
        members: dict[str | int, bytes | Drop | Changes] = dict.fromkeys(split, DROP)
        if said or fields.get("content"):
            members["content"] = encode_string(plain(said))
        change = self._unasked(choice)
        if members and isinstance(choice.get(holder), dict):
            change[holder] = members
        elif said:
            change[holder] = b'{"content":%b}' % encode_string(plain(said))
        if choice.get("finish_reason") == "tool_calls":
            change["finish_reason"] = b'"stop"'  # of the engine's own calls nothing is left
        return change

    def _spelled(self, index: object, choice: Mapping[str, Any]) -> list[Token]:
        """The tokens of a choice that are told by their ids alone."""
        asked, ids = self._asked, _ids(choice, ended=False)
        if asked.spelling:
            spell = self._spells.get(index) or self._spells.setdefault(index, asked.spelling())
            return list(spelled(ids, spell, asked.markers))
        if self._told is None:
            return []
        ended = _ended_by_token(choice, asked)
        tokens = told(_ids(choice, ended=ended), self._told, asked.markers)
        return [*tokens, Token(None, b"")] if tokens and ended else tokens

    def _unasked(self, choice: Mapping[str, Any]) -> dict[str | int, bytes | Drop | Changes]:
        """What the client did not ask for is as empty as engines leave it."""
        names = (_IN_CHOICE[name] for name in self._asked.ours)
        return {name: _NULL for name in names if choice.get(name) is not None}


def _quickly(data: bytes, change: Any, fields: Any, holder: str) -> bytes | None:
    """What `edit` makes of the one choice of a frame that says nothing but text; None: it may say more."""
    members = change.get(holder, {})
    said = fields if isinstance(fields, dict) else {"": None}
    if not isinstance(members, dict) or not _TEXT.issuperset(said) or None in said.values():
        return None
    values = {name.encode(): value for name, value in change.items() if name != holder}
    if members:
        text = members.get("content")
        values[holder.encode()] = b'{"content":%b}' % text if isinstance(text, bytes) else b"{}"
    return swap(data, values)


def _ended_by_token(choice: Mapping[str, Any], asked: TokensAsked) -> bool:
    """True where the last token ended the answer, so that it is no text of it."""
    ended = choice.get("finish_reason") in ("stop", "tool_calls")
    return ended and asked.ends_in_token and not isinstance(choice.get("stop_reason"), str)


def _ids(choice: Mapping[str, Any], *, ended: bool) -> list[int]:
    """The ids of a choice, without the one that `ended` it."""
    ids = choice.get("token_ids")
    if not are_ids(ids):
        return []
    return ids[:-1] if ended else ids


def _logged(choice: Mapping[str, Any]) -> list[Token]:
    """The tokens of a choice whose text is told."""
    logprobs, ids = choice.get("logprobs"), choice.get("token_ids")
    entries = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(entries, list):
        return []
    numbered = ids if isinstance(ids, list) and len(ids) == len(entries) else [None] * len(entries)
    pairs = zip(entries, numbered, strict=True)
    return [Token(ident if isinstance(ident, int) else None, _bytes(entry)) for entry, ident in pairs]


def _bytes(entry: Any) -> bytes:
    """The bytes of one entry; of one without, its text."""
    told = entry.get("bytes") if isinstance(entry, dict) else None
    if isinstance(told, list) and all(type(each) is int and 0 <= each < 256 for each in told):
        return bytes(told)
    text = entry.get("token") if isinstance(entry, dict) else None
    return text.encode("utf-8", "replace") if isinstance(text, str) else b""
