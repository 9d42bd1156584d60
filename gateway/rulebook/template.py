"""A checkpoint's own output grammar, `response_template`, as a `Dialect` (contract section 3: `hf`, `beam`, …).

Found in transformers 5.24.0, `utils/chat_parsing/` (since 5.13; described in its `docs/en/chat_response_parsing.md`),
and with serving limits in SGLang 0.5.23, `srt/parser/response_template.py` and `beam.py`; vLLM has a copy,
`vllm/parser/chat_parsing/`. It stands in `tokenizer_config.json`. A field has an opener (`open`: one literal or a list;
`open_pattern`: a regular expression) and a closer; one without an opener is the text between the others. In a field
only its closer is live. SGLang serves `thinking`, `content` and `tool_calls` and refuses other fields, as this does;
TRL 1.16 writes `reasoning_content`. `start_anchor`: how the prompt's last message begins; models write it in between.

The older `response_schema` (transformers 5.0 to 5.12, `utils/chat_parsing_utils.py`; read by no engine) is one regular
expression over all of the output. Only a thought between literals at the start and the answer behind it map exactly.

Owns what of a template a dialect can say, and what is told about the rest. Knows no route and no reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.errors import ConfigError
from gateway.rulebook.checks import clashes, markers_of
from gateway.rulebook.dialect import Dialect, Header, HeaderRule, Kind, Reopen, Target, Thought, ToolRegion
from gateway.rulebook.literals import literals
from gateway.rulebook.schema import schema_problems
from gateway.rulebook.select import Resolved

NAME: Final = "response_template"
"""What the dialect of a template is called, in metrics and reports."""

_OLDER: Final = "response_schema"
_SCHEMA: Final[Mapping[str, Any]] = json.loads((Path(__file__).parent / "schema_template.json").read_bytes())
_THOUGHTS: Final = ("thinking", "reasoning_content", "reasoning")
_CONTROL: Final = re.compile(r"<[|｜]|[|｜]>")
_THOUGHT_THEN_ANSWER: Final = re.compile(
    r"\^?\(\?:(?P<open>.+?)\(\?P<(?:thinking|reasoning_content|reasoning)>\.[*+]\?\)(?P<close>.+?)\)\?"
    r"\(\?P<content>\.\*(?P<lazy>\??)\)(?P<end>.*)",
    re.DOTALL,
)


def load_template(path: Path) -> Resolved:
    """The dialect of the template in the JSON file at `path`: a template, or a file with a member `response_template`
    (`tokenizer_config.json`); the older `response_schema` where it maps exactly.

    Raises ConfigError, one `FILE: MEMBER: reason` a line, for what no dialect can say. `warnings`, in the same form:
    what is not taken from it at the cost of white space and calls alone.
    """
    try:
        member, data = _grammar(json.loads(path.read_bytes()), path)
        told = _Told(f"{path}: {member}" if member else str(path))
        dialect = (_from_schema if member == _OLDER or "x-regex" in data else _from_template)(data, told)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: no JSON: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error
    for _, reason in clashes((group, text, ()) for group, text in markers_of(dialect)):
        told.wrong("fields", reason)
    told.refuse()
    if told.blanks:
        told.warn(", ".join(told.blanks), "white space beside the marker is left in the text")
    return Resolved(dialect, NAME, f"the response template of {path}", tuple(told.warnings))


@dataclass(frozen=True, slots=True)
class _Told:
    """What is wrong in `source`, what is not taken from it, and which of its patterns take white space (`blanks`)."""

    source: str
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    blanks: list[str] = field(default_factory=list)

    def wrong(self, where: str, reason: str) -> None:
        self.problems.append(f"{self.source}: {where}: {reason}")

    def warn(self, where: str, reason: str) -> None:
        self.warnings.append(f"{self.source}: {where}: {reason}")

    def refuse(self) -> None:
        if self.problems:
            raise ConfigError("\n".join(self.problems))

    def markers(self, where: str, data: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
        """The literals of `key` or `key_pattern`, () where neither is there; None for a pattern that is no list."""
        if f"{key}_pattern" in data:
            return self.listed(f"{where}{key}_pattern", data[f"{key}_pattern"])
        given = data.get(key, ())
        return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))

    def listed(self, where: str, pattern: str) -> tuple[str, ...] | None:
        found = literals(pattern)
        if found is None or not found.texts or not all(text.strip() for text in found.texts):
            return None
        self.blanks.extend([where] if found.blanks else [])
        return found.texts

    def needed(self, fields: Mapping[str, Any], name: str, key: str) -> tuple[str, ...]:
        """The literals of a field that cannot be read without them."""
        found = self.markers(f"fields.{name}.", fields.get(name, {}), key)
        if found is None:
            reason = "is no plain list of literals, so no dialect can say it; name the model's family instead"
            self.wrong(f"fields.{name}.{key}_pattern", reason)
        return found or ()


def _grammar(data: Any, path: Path) -> tuple[str, Mapping[str, Any]]:
    """Which member holds the grammar, empty for the file itself, and the grammar."""
    top = data if isinstance(data, dict) else {}
    if "fields" in top or "x-regex" in top:
        return "", top
    for member in (NAME, _OLDER):
        if isinstance(top.get(member), dict):
            return member, top[member]
    raise ConfigError(f"{path}: no {NAME}, neither as a member nor as the file itself, which has no `fields`")


def _from_template(data: Mapping[str, Any], told: _Told) -> Dialect:
    told.problems.extend(schema_problems(data, schema=_SCHEMA, source=told.source, lines=None))
    told.refuse()
    fields = data["fields"]
    thoughts = [name for name in _THOUGHTS if name in fields]
    for name in thoughts[1:]:
        told.wrong(f"fields.{name}", f"means the same as {thoughts[0]}, expected one of the two")
    name = thoughts[0] if thoughts else "thinking"
    opens, closes = told.needed(fields, name, "open"), told.needed(fields, name, "close")
    wraps, ends = told.needed(fields, "content", "open"), told.needed(fields, "content", "close")
    kind = _kind(opens)
    # Channels, one behind the other: each closer ends a message, and any channel may come next.
    channels = kind is Kind.CONTROL and bool(wraps)
    anchors = told.markers("", data, "start_anchor") or ()
    return _dialect(
        kind,
        [Thought(open=opens, close=closes)] if thoughts else [],
        promote=not channels,  # the answer has a channel of its own, so a thought without one is no answer
        reopen=Reopen.LINE_START if kind is Kind.TAG else Reopen.NEVER,
        answer_open=wraps,
        answer_close=ends if wraps and not channels else (),
        message_close=tuple(dict.fromkeys((*closes, *ends))) if channels else (),
        end_of_turn=() if wraps else ends,
        regions=_regions(fields.get("tool_calls"), told),
        **_anchored(kind, [text for text in anchors if _is_token(text, {*opens, *closes, *wraps, *ends})]),
    )


def _dialect(kind: Kind, thoughts: Iterable[Thought], **more: Any) -> Dialect:
    about = "what a checkpoint's response template says"
    return Dialect(name=NAME, summary=about, kind=kind, aliases={}, thoughts=tuple(thoughts), reads_calls=False, **more)


def _kind(openers: tuple[str, ...]) -> Kind:
    """Which guards the openers of a thought need."""
    if openers and all(_CONTROL.search(text) for text in openers):
        return Kind.CONTROL
    return Kind.TEXT if openers and all(text.lstrip()[0].isalnum() for text in openers) else Kind.TAG


def _is_token(anchor: str, markers: set[str]) -> bool:
    """Whether the beginning of a message is no words of an answer, and swallows no marker of a field."""
    return anchor.lstrip()[0] in "<[" and not any(marker in anchor for marker in markers)


def _anchored(kind: Kind, anchors: list[str]) -> dict[str, Any]:
    """How the beginning of a message is dropped where the model writes it again."""
    if not anchors or kind is Kind.CONTROL:
        return {"framing": tuple(anchors)}
    behind = "|".join(f"(?<={re.escape(anchor)})" for anchor in anchors)
    return {"headers": (Header(open=tuple(anchors), close="", rules=(HeaderRule(text=behind, to=Target.ANSWER),)),)}


def _regions(call: Mapping[str, Any] | None, told: _Told) -> tuple[ToolRegion, ...]:
    if call is None:
        return ()
    opens, closes = (told.markers("fields.tool_calls.", call, key) for key in ("open", "close"))
    if opens is None or closes is None:
        reason = "is no plain list of literals, so a call is no region of its own unless the route names `tools`"
        told.warn(f"fields.tool_calls.{'open' if opens is None else 'close'}_pattern", reason)
        return ()
    if "transform" in call or call.get("content", "text") != "text":
        told.warn("fields.tool_calls", "where a call begins and ends is read, not what it says: in text it stays text")
    return (ToolRegion(open=opens, close=closes),)


def _from_schema(data: Mapping[str, Any], told: _Told) -> Dialect:
    found = _THOUGHT_THEN_ANSWER.fullmatch(str(data.get("x-regex")))
    end = literals(found["end"] or "$") if found else None
    opens, closes = (told.listed("x-regex", found[side]) if found else None for side in ("open", "close"))
    # A greedy answer reaches to the end of the output, a lazy one to the first of what it lists.
    exact = end is not None and end.at_end and (not end.texts or bool(found and found["lazy"]))
    if not (opens and closes and end and exact) or json.dumps(data).count('"x-') > 1:
        raise ConfigError(f"{told.source}: x-regex: says more than a thought between literals and the answer behind it")
    return _dialect(_kind(opens), [Thought(open=opens, close=closes)], end_of_turn=end.texts)
