"""Writes the generated pages: `python -m gateway.cli.docs [FOLDER]`. A test fails when the committed ones differ.

Owns how the pages about the configuration and about holding look; every fact in them comes from `config_schema.json`,
`gateway.limits` and `gateway.integrity.holds`. The page about engines is `gateway.cli.engines_page`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from gateway.cli.engines_page import engines_page
from gateway.cli.tables import NOTICE, table
from gateway.integrity.holds import HOLDS
from gateway.limits import Limits
from gateway.server.config_check import SCHEMA, Schema, expected, resolved

_MOST = 0.8  # of the keys of a block: what they take is said once
_CAPS = {cap.name: cap for cap in fields(Limits)}

_CONFIG_HEAD = """# Configuration

```yaml
routes:
  - upstream: http://127.0.0.1:8000
    engine: vllm
    dialect: {reasoning: qwen3, tools: hermes}
```

This is a whole configuration: everything else has a default. Two deployments behind one address; the first route that
matches takes the request, and one without `match` takes the rest:

```yaml
routes:
  - match: {models: ["qwen3*", "team-a/*"]}
    upstream: [http://10.0.0.1:8000, http://10.0.0.2:8000]
    engine: vllm
    dialect: {reasoning: qwen3, tools: hermes}
  - upstream: http://10.0.0.3:30000
    engine: sglang
    dialect: harmony
    policy: {reasoning_field: as_upstream}   # laid over the top-level policy, for this route
policy:
  findings: {preamble: observe}
```

`integrity-gateway check --config FILE` tells every error with its line, and warns of what has no effect. The JSON
Schema is `gateway/server/config_schema.json`.

* **Durations** are seconds (`5`, `0.5`) or text (`500ms`, `5s`, `2m`, `1h`). **Sizes** are numbers or text (`64KiB`,
  `1MiB`, `1GiB`).
* **YAML** is read by the rules of YAML 1.2: only `true` and `false` are booleans, `on` and `off` are words. A key given
  twice is an error.
* **Precedence**: `INTEGRITY_PROFILE` and `enforce_percent` beat `policy.findings`, which beats the feature's own key,
  which beats the profile. A route's `policy` beats the top one, key by key.
* **Environment**: `INTEGRITY_PROFILE=observe` puts every route into `observe`, whatever the file says; no other value
  is accepted. `INTEGRITY_DRAIN_TOKEN` is the drain token.
* **Observe** changes no byte, so in it `policy.reasoning_field` acts as `as_upstream`, `policy.on_internal_error` as
  `pass`, and `enforce` as `observe`, whatever is written: `profile: observe` is the one edit that switches everything
  off.
* ***No effect yet*** stands at keys that are accepted, so that one file serves later versions too; `check` warns when
  they ask for something.
"""

_HOLDING_HEAD = """# What may be held back, and nothing else

Text leaves the gateway as soon as it arrives, except in the windows below. Each ends at its cap at the latest. Whatever
is held goes out before any error: a failure of the upstream, a timeout or a broken connection releases it.
"""


def main(argv: list[str]) -> int:
    """Writes the pages into a folder (default `docs` of the checkout). Returns 0."""
    what = f"Writes {', '.join(pages())}."
    parser = argparse.ArgumentParser(prog="python -m gateway.cli.docs", description=what)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parents[2] / "docs", metavar="FOLDER")
    folder = parser.parse_args(argv).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")
    return 0


def pages() -> dict[str, str]:
    """The generated pages by file name."""
    return {"config.md": _config_page(), "holding.md": _holding_page(), "engines.md": engines_page()}


def known_keys(schema: Schema = SCHEMA, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every key of the schema with its own schema, as `routes[].match.models`; a block stands before its keys."""
    for name, raw in schema["properties"].items():
        key, below = f"{path}{name}", resolved(raw)
        yield key, below
        item = resolved(below.get("items", {}))
        if key == "routes[].policy":  # the keys of the top `policy`
            continue
        if "properties" in below:
            yield from known_keys(below, f"{key}.")
        elif "properties" in item:
            yield from known_keys(item, f"{key}[].")


def _config_page() -> str:
    blocks: dict[str, list[tuple[str, Schema]]] = {}
    for key, schema in known_keys():
        blocks.setdefault(key.rpartition(".")[0], []).append((key, schema))
    about = {key: schema.get("description", "") for key, schema in known_keys()}
    parts = [_CONFIG_HEAD]
    for block, keys in blocks.items():
        parts.append(f"## `{block}`\n\n{about[block.removesuffix('[]')]}\n" if block else "## Top keys\n")
        parts.append("\n".join(_block(block, keys)) + "\n")
    parts.append("## Refused in this version\n\nThey would promise something that is not done yet.\n")
    parts.append("\n".join(_refusals()) + "\n")
    return NOTICE + "\n" + "\n".join(parts)


def _block(block: str, keys: Sequence[tuple[str, Schema]]) -> Iterator[str]:
    """An item for each key. What all keys of a block take, or nearly all, is said once, before them."""
    if block == "limits":
        yield from (f"* `{key}`: {_default(schema)}{_cap(key, schema)}" for key, schema in keys)
        return
    facts = [_facts(key, schema) for key, schema in keys]
    common, count = Counter(facts).most_common(1)[0]
    if count < 2 or count < _MOST * len(keys):
        common = ""
    if common:
        yield f"Each takes {common if count == len(keys) else common[:-1] + ', unless it says otherwise.'}\n"
    for (key, schema), fact in zip(keys, facts, strict=True):
        yield f"* `{key}`: {'' if fact == common else fact + ' '}{_meaning(schema)}"


def _cap(key: str, schema: Schema) -> str:
    cap = _CAPS.get(key.removeprefix("limits."))
    if cap is None:
        return f". {_meaning(schema)}"
    return f" {cap.metadata['unit']}, {cap.metadata['why']}. At the cap: {cap.metadata['at_cap']}."


def _facts(key: str, schema: Schema) -> str:
    """Values and defaults of a key, by profile where it belongs to the policy."""
    if _is_block(schema):
        return "a block, see below."
    if key.startswith("policy."):
        observe, repair, full = _by_profile(schema)
        others = [f"in {name} {value}" for name, value in (("observe", observe), ("full", full)) if value != repair]
        return f"{_values(schema)}; default {', '.join([repair, *others])}."
    default = _default(schema)
    return f"{_values(schema)}{default and '; default ' + default}."


def _holding_page() -> str:
    windows = table(
        ["window", "what is held", "why", "until", "cap", "at the cap"],
        ([f"`{h.cause}`", h.what, h.why, h.until, _cap_text(h.cap), _at_cap(h.cap)] for h in HOLDS),
    )
    windowed = {hold.cap for hold in HOLDS}
    others = table(
        ["cap", "value", "what", "at the cap"],
        (
            [f"`limits.{name}`", _amount(name), cap.metadata["why"], cap.metadata["at_cap"]]
            for name, cap in _CAPS.items()
            if name not in windowed
        ),
    )
    more = "## Other caps\n\nNo windows of a stream; they bound what is read whole, kept or parsed.\n"
    return NOTICE + "\n" + "\n".join([_HOLDING_HEAD, windows, more, others])


def _cap_text(cap: str) -> str:
    return f"`limits.{cap}`: {_amount(cap)}" if cap in _CAPS else cap


def _at_cap(cap: str) -> str:
    return str(_CAPS[cap].metadata["at_cap"]) if cap in _CAPS else "cannot be passed"


def _amount(name: str) -> str:
    return f"{_CAPS[name].default:,} {_CAPS[name].metadata['unit']}"


def _refusals() -> Iterator[str]:
    for key, schema in known_keys():
        if "x-not-yet" in schema:
            refused = schema.get("not", {})
            values = refused.get("enum") or ([refused["const"]] if "const" in refused else [])
            what = ", ".join(f"`{value}`" for value in values) or f"anything but {_default(schema)}"
            yield f"* `{key}`: {what}; remove it or {schema['x-not-yet']}"


def _is_block(schema: Schema) -> bool:
    return schema.get("type") == "object" and "properties" in schema


def _values(schema: Schema) -> str:
    return ", ".join(map(_code, schema["enum"])) if "enum" in schema else expected(schema)


def _default(schema: Schema) -> str:
    return _code(schema["default"]) if "default" in schema else ""


def _by_profile(schema: Schema) -> list[str]:
    """The default in observe, repair and full. Observe carries nothing out, so there `enforce` is `observe`."""
    repair = schema["default"]
    observe = schema.get("x-observe", "observe" if repair == "enforce" else repair)
    return [_code(value) for value in (observe, repair, schema.get("x-full", repair))]


def _meaning(schema: Schema) -> str:
    return str(schema["description"]) + (" *No effect yet.*" if schema.get("x-no-effect") else "")


def _code(value: object) -> str:
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
