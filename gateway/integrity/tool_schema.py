"""What the JSON schema of a tool says of its arguments: the types of a property, and what is wrong with a value.

Owns the reading of schemas, which come with requests and are nobody's promise: a bad one has no opinion, and none can
make the gateway fetch anything, run an expression, or work without bound. Knows nothing of calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NoReturn

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend, validator_for

from gateway.streams.jsonscan import loads

NO_OBJECT: Final = "the arguments are no JSON object"

_BEYOND_JSON: Final = (b"NaN", b"Infinity")  # numbers that `loads` takes and that are none
_ALIASES: Final = {
    "str": "string", "text": "string", "varchar": "string", "char": "string", "enum": "string",
    "int": "integer", "int32": "integer", "int64": "integer", "uint": "integer", "uint32": "integer",
    "uint64": "integer", "long": "integer", "short": "integer", "unsigned": "integer",
    "float": "number", "float32": "number", "float64": "number", "double": "number", "bool": "boolean",
    "dict": "object", "arr": "array", "list": "array", "sequence": "array",
}  # fmt: skip
"""Names of types that are no JSON schema and that vLLM 0.33 reads all the same (`vllm/tool_parsers/utils.py`)."""

_ONE_OF: Final = ("allOf", "anyOf", "oneOf")
_TOLD: Final = 16  # problems told of one value
_WORK: Final = 50_000  # keywords looked at for one value, each counted once more for every so many characters of it
_CHARACTERS: Final = 16_384
# An expression of the client's can take for ever, and so can comparing every item with every other.
_NOT_JUDGED: Final = ("pattern", "format", "uniqueItems", "unevaluatedItems", "unevaluatedProperties")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED: Final = ("$schema", "$id", "id")

_left: ContextVar[tuple[int, int]] = ContextVar("work left, and what a keyword costs")


def kinds(value: object) -> frozenset[str]:
    """The JSON schema types of a JSON value: of 1.0, as of 1, both `number` and `integer`."""
    if value is None:
        return frozenset({"null"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int | float):
        whole = isinstance(value, int) or value.is_integer()
        return frozenset({"number", "integer"} if whole else {"number"})
    return frozenset({"string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"})


def value_of(raw: bytes) -> object:
    """The value of JSON text that every parser takes: `loads`, without NaN and Infinity. Raises ValueError."""
    value = loads(raw)
    if any(name in raw for name in _BEYOND_JSON):
        try:
            json.loads(raw, parse_constant=_refuse)
        except RecursionError:
            raise ValueError("JSON is nested too deep to be looked at") from None
    return value


class Declared:
    """What is declared of one value: every schema that may hold for it, all inside the document `root`.

    What is asked for twice is found once, so that a long value costs no more than its length and the schema's.
    """

    __slots__ = ("_item", "_made", "_nodes", "_others", "_own", "_root", "_types")

    def __init__(self, root: object, schemas: Iterable[object]) -> None:
        self._root = root
        self._nodes = list(_reached(schemas, root))
        self._own: dict[str, list[object]] | None = None
        self._made: dict[str, Declared] = {}
        self._others: Declared | None = None
        self._item: Declared | None = None
        self._types: frozenset[str] | None = None

    def member(self, name: str) -> Declared:
        """What is declared of a member of this value: its own schemas, else those of additional properties."""
        if self._own is None:
            self._own = {}
            for node in self._nodes:
                for each, schema in _mapping(node.get("properties")).items():
                    self._own.setdefault(each, []).append(schema)
        if name not in self._own:
            if self._others is None:
                self._others = self._each("additionalProperties")
            return self._others
        if name not in self._made:
            self._made[name] = Declared(self._root, self._own[name])
        return self._made[name]

    def item(self) -> Declared:
        """What is declared of the items of this value."""
        if self._item is None:
            self._item = self._each("items")
        return self._item

    def types(self) -> frozenset[str]:
        """The types that this value may have, the alternatives' together; empty where nothing is said."""
        if self._types is None:
            self._types = frozenset(kind for node in self._nodes for kind in _stated(node))
        return self._types

    def _each(self, keyword: str) -> Declared:
        return Declared(self._root, [node.get(keyword) for node in self._nodes])


def problems(arguments: str, schema: object) -> list[str]:
    """Where the JSON text `arguments` breaks `schema`, in the schema's words: never a name or value of the text's own.

    Empty where nothing is wrong, and where the schema cannot be judged: it is malformed, refers outside itself, selects
    properties by expressions, or takes more than `_WORK`. What `_NOT_JUDGED` lists is not judged.
    """
    try:
        value = value_of(arguments.encode("utf-8", "backslashreplace"))
    except ValueError:
        return [NO_OBJECT]
    if not isinstance(value, dict):
        return [NO_OBJECT]
    if not isinstance(schema, Mapping):
        return []
    _left.set((_WORK, 1 + len(arguments) // _CHARACTERS))
    try:
        draft = validator_for(schema, default=Draft202012Validator)
        if not _safe(schema, draft):
            return []
        own = {name: each for name, each in schema.items() if name not in _NAMED}
        errors = islice(_bounded(draft)(own).iter_errors(value), _TOLD)
        return list(dict.fromkeys(map(_told, errors)))
    except Exception:  # whatever a malformed schema makes of the validator
        return []


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _reached(schemas: Iterable[object], root: object) -> Iterator[Mapping[str, Any]]:
    """The schemas, and those that they refer to or are made of; each once."""
    todo = list(schemas)
    seen = set()
    for node in todo:  # grows while it is walked
        if isinstance(node, Mapping) and id(node) not in seen:
            seen.add(id(node))
            yield node
            todo += [_target(root, node.get("$ref")), *(each for name in _ONE_OF for each in _list(node.get(name)))]


def _target(root: object, reference: object) -> object:
    """What a reference inside the document leads to; None for any other."""
    if not isinstance(reference, str) or reference[:2] not in ("#", "#/"):
        return None
    for step in reference.split("/")[1:]:
        root = _mapping(root).get(step.replace("~1", "/").replace("~0", "~"))
    return root


def _stated(node: Mapping[str, Any]) -> frozenset[str]:
    """The types that one schema itself states, or that its keywords are for."""
    declared = node.get("type")
    names = [name for name in (declared if isinstance(declared, list) else [declared]) if isinstance(name, str)]
    if names:
        return frozenset(_ALIASES.get(name.strip().lower(), name.strip().lower()) for name in names)
    values = [*_list(node.get("enum")), *([node["const"]] if "const" in node else [])]
    if values:
        return frozenset(kind for value in values for kind in kinds(value))
    if "properties" in node or "additionalProperties" in node:
        return frozenset({"object"})
    return frozenset({"array"} if "items" in node or "prefixItems" in node else ())


def _safe(schema: Mapping[str, Any], draft: Any) -> bool:
    """False for a schema that leads outside itself, or that no bound of ours would hold for."""
    renames = [name for name in _NAMED if name == "$schema" or draft.ID_OF({name: "x"})]
    todo: list[object] = [schema]
    for node in todo:  # grows while it is walked
        if isinstance(node, list):
            todo += node
        elif isinstance(node, Mapping):
            leads_out = any(not node[name].startswith("#") for name in _REFERENCES if _is_text(node, name))
            renamed = node is not schema and any(_is_text(node, name) for name in renames)
            if leads_out or renamed or node.get("patternProperties"):
                return False
            todo += node.values()
    return True


def _is_text(node: Mapping[str, Any], name: str) -> bool:
    return isinstance(node.get(name), str)


@lru_cache(maxsize=16)
def _bounded(draft: Any) -> Any:
    """A validator class of `jsonschema` that counts its work and leaves out what cannot be bounded."""
    judged = {name: _counted(judge) for name, judge in draft.VALIDATORS.items()}
    return extend(draft, {**judged, **dict.fromkeys(_NOT_JUDGED, _no_judge)})  # type: ignore[no-untyped-call]


_Judge = Callable[[Any, Any, Any, Any], "Iterable[ValidationError] | None"]


def _counted(judge: _Judge) -> _Judge:
    def counting(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        left, cost = _left.get()
        if left < 0:
            raise RuntimeError("the work for one value is used up")
        _left.set((left - cost, cost))
        yield from judge(validator, value, instance, schema) or ()

    return counting


def _no_judge(validator: Any, value: Any, instance: Any, schema: Any) -> tuple[()]:
    return ()


def _told(error: Any) -> str:
    """The place in the schema; with a missing property its name, with a wrong type the right one."""
    told = "/".join(map(str, error.absolute_schema_path))
    if error.validator == "required":
        return f"{told}: {', '.join(str(name) for name in error.validator_value if name not in error.instance)}"
    return f"{told}: {error.validator_value}" if error.validator == "type" else told
