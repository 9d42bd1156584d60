"""The echo guard: does a text stand in the request, so that the answer only repeats it (contract rule 5)?

Owns what of a request counts as said to the model: every string but the arguments of earlier calls, which a model may
well call again. Knows no protocol beyond the shapes that such arguments have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from gateway.streams.jsonscan import encode_string, loads
from gateway.streams.tokens import plain

_CRLF: Final = "\r\n"  # a model writes line feeds, whatever it has read
_ASSISTANT_CALLS: Final = ("tool_calls", "function_call")
_ITEM_ARGUMENTS: Final = {"function_call": "arguments", "custom_tool_call": "input", "tool_use": "input"}
"""Types of items (Responses) and of parts (Messages) that are a call, and where its arguments are."""
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_GO: Final = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})
_NET: Final = str.maketrans({each: f"\\u{ord(each):04X}" for each in "<>&'+`"})


class Echo:
    """One request. It is parsed at the first question, once."""

    __slots__ = ("_escaped", "_request", "_strings")

    def __init__(self, request: bytes) -> None:
        self._request: bytes | None = request  # None once it has been parsed
        self._strings: list[str] | None = None  # None where it cannot be parsed
        self._escaped: list[str] = []  # those that may hold escapes

    def said(self, text: str) -> bool:
        """Does `text` stand in a string of the request, or escaped in JSON in one?

        White space at its ends, the kind of line breaks, and the marks of tokens do not matter.

        A request that cannot be parsed may have said anything: True. Linear in the request, whatever the text.
        """
        bare = plain(text).strip().replace(_CRLF, "\n")
        if not bare:
            return False
        if self._request is not None:
            self._strings, self._request = _parsed(self._request), None
            self._escaped = [string for string in self._strings or () if "\\" in string]
        if self._strings is None:
            return True
        if any(bare in string for string in self._strings):
            return True
        return bool(self._escaped) and any(each in string for each in _spellings(bare) for string in self._escaped)


def _spellings(text: str) -> set[str]:
    """How the usual writers of JSON spell `text` inside a string, where that is not `text` itself.

    JavaScript and most others; Python and the like, that write ASCII only; PHP, that escapes slashes too; Go, that
    escapes HTML; .NET, that escapes both, with capital digits.
    """
    plain = encode_string(text).decode()[1:-1]
    narrow = json.dumps(text)[1:-1]
    capital = _ESCAPE.sub(lambda found: f"\\u{found[0][2:].upper()}" if len(found[0]) == 6 else found[0], narrow)
    net = capital.translate(_NET).replace('\\"', "\\u0022")
    return {plain, narrow, narrow.replace("/", "\\/"), plain.translate(_GO), net} - {text}


def _parsed(request: bytes) -> list[str] | None:
    try:
        return list(_strings(loads(request)))
    except ValueError:
        return None


def _strings(request: object) -> Iterator[str]:
    """Every string that is a value, but for the arguments of earlier calls."""
    todo = [request]
    for value in todo:  # grows while it is walked
        if isinstance(value, str):
            yield value.replace(_CRLF, "\n")
        elif isinstance(value, list):
            todo += value
        elif isinstance(value, dict):
            todo += [inner for name, inner in value.items() if not _is_call(value, name)]


def _is_call(holder: dict[str, object], name: str) -> bool:
    """True for the member of a turn, an item or a part that holds a call's arguments."""
    if name in _ASSISTANT_CALLS:
        return holder.get("role") == "assistant"
    kind = holder.get("type")
    return isinstance(kind, str) and _ITEM_ARGUMENTS.get(kind) == name
