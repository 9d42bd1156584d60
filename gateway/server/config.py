"""The configuration: a YAML file, a mapping or command line flags to one frozen `Config`.

Owns the values every part of the server is started with, and how they follow from the keys of `config_schema.json`:
defaults, units, the environment. Must not know how any value is used. Routes and policies: `config_routes`; texts of
errors: `config_check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.errors import ConfigError
from gateway.limits import KIB, MIB, Limits
from gateway.policy import Profile
from gateway.rulebook.load import Rulebook, load_rulebook
from gateway.rulebook.yamlpos import KeyPath, load_yaml_with_lines
from gateway.server.config_check import SCHEMA, Places, Problem, schema_problems, shown, without_effect
from gateway.server.config_routes import (
    Match,
    Route,
    find_dialects,
    find_vocabularies,
    is_host,
    make_routes,
    observe_notes,
    route_notes,
    template_file,
    token_problems,
    tokenizer_file,
    upstreams,
)

__all__ = [
    "Address",
    "Config",
    "Drain",
    "Match",
    "Route",
    "Timeouts",
    "config_from_flags",
    "config_from_mapping",
    "load_config",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a listener binds. Port 0 takes a free one. An IPv6 `host` has no brackets."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """All in seconds. What each one is for stands in `config_schema.json`."""

    connect: float = 5.0
    first_byte: float = 600.0
    idle: float = 300.0
    keepalive_upstream: float = 4.0
    header: float = 10.0
    request_body: float = 60.0
    write_stall: float = 60.0
    heartbeat: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The pause before new requests are refused, and the time that running answers get after it."""

    settle_seconds: float = 5.0
    timeout_seconds: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a gateway is started with.

    `passthrough`: `all`, `serving` or paths. `keys`: name of an API key to its SHA-256 in hexadecimal. `rulebook`: the
    rules in force. `source`: the file, None for flags. `files`: that file, the folders of extra rules and the response
    templates, where a change is a change of the configuration. `warnings`: what `check` tells about a usable
    configuration, each with its place.
    """

    listen: Address
    admin_listen: Address
    routes: tuple[Route, ...]
    passthrough: str | tuple[str, ...]
    enforce_percent: float
    request_overrides: frozenset[str]
    limits: Limits
    timeouts: Timeouts
    drain: Drain
    drain_token: str | None
    keys: Mapping[str, str]
    rulebook: Rulebook
    source: str | None
    files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Of the rules in force."""
        return self.rulebook.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """The data of one configuration and what surrounds it. `folder`: what the files it names are relative to."""

    data: Any
    places: Places
    environ: Mapping[str, str]
    source: str | None
    folder: Path = Path()
    rules: Sequence[Path] = ()

    def key(self, name: str) -> Any:
        """The value of a top key, or its default."""
        return self.data.get(name, SCHEMA["properties"][name].get("default", {}))


def load_config(path: Path, *, environ: Mapping[str, str], rules: Sequence[Path] = ()) -> Config:
    """The configuration in the YAML file at `path`. `rules`: folders of rules beside the file's `rules_dir`.

    Raises ConfigError with every error of the file, one a line: `FILE:LINE: key.path: what is wrong, what is expected`.
    """
    source = str(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    data, lines = load_yaml_with_lines(text, source=source)
    places = Places(source=source, lines=lines)
    return _build(_Input(data=data, places=places, environ=environ, source=source, folder=path.parent, rules=rules))


def config_from_mapping(data: Mapping[str, Any], *, source: str, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in `data`: the keys of the file. `source` stands for the file in errors (ConfigError)."""
    return _build(_Input(data=data, places=Places(source=source), environ=environ or {}, source=source))


def config_from_flags(
    *,
    upstream: str,
    listen: str | None = None,
    admin_listen: str | None = None,
    dialect: str | None = None,
    reasoning_field: str | None = None,
    profile: str | None = None,
    environ: Mapping[str, str],
) -> Config:
    """The configuration of `serve --upstream URL …`: one route for everything. Errors (ConfigError) name the flag."""
    data = {
        **_given(listen=listen, admin_listen=admin_listen, profile=profile),
        "routes": [_given(upstream=upstream, dialect=dialect)],
        "policy": _given(reasoning_field=reasoning_field),
    }
    return _build(_Input(data=data, places=Places(source="command line", names=_FLAGS), environ=environ, source=None))


_FLAGS: Mapping[KeyPath, str] = {
    ("routes", 0, "upstream"): "--upstream",
    ("routes", 0, "dialect"): "--dialect",
    ("listen",): "--listen",
    ("admin_listen",): "--admin-listen",
    ("profile",): "--profile",
    ("policy", "reasoning_field"): "--reasoning-field",
}
_CAPS = frozenset(cap.name for cap in fields(Limits))
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS = {"KiB": KIB, "MiB": MIB, "GiB": 1024 * MIB}


def _given(**flags: str | None) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None}


def _build(given: _Input) -> Config:
    given.places.refuse(schema_problems(given.data))
    profile = _profile(given)
    given.places.refuse(_contradictions(given))
    rulebook = load_rulebook(_rule_folders(given))
    dialects, problems = find_dialects(given.data["routes"], rulebook, given.folder)
    vocabularies, unread = find_vocabularies(given.data["routes"], given.folder)
    given.places.refuse([*problems, *unread])
    limits = Limits(**{name: _size(value) for name, value in given.key("limits").items() if name in _CAPS})
    routes = make_routes(
        given.data,
        dialects=dialects,
        vocabularies=vocabularies,
        profile=profile,
        limits=limits,
        rulebook=rulebook,
    )
    given.places.refuse(token_problems(routes))
    passthrough = given.key("passthrough")
    drain = dict(given.key("drain"))
    token = drain.pop("token", None)
    return Config(
        listen=_address(given.key("listen")),
        admin_listen=_address(given.key("admin_listen")),
        routes=routes,
        passthrough=passthrough if isinstance(passthrough, str) else tuple(passthrough),
        enforce_percent=float(given.key("enforce_percent")),
        request_overrides=frozenset(given.key("request_overrides")),
        limits=limits,
        timeouts=Timeouts(**{name: _seconds(value) for name, value in given.key("timeouts").items()}),
        drain=Drain(**{name: _seconds(value) for name, value in drain.items()}),
        drain_token=given.environ.get("INTEGRITY_DRAIN_TOKEN") or token,
        keys=given.key("auth").get("keys", {}),
        rulebook=rulebook,
        source=given.source,
        files=_files(given),
        warnings=given.places.all_at([*_notes(given, profile), *route_notes(routes, dialects)]),
    )


def _profile(given: _Input) -> Profile:
    """The profile in force. The environment is an off-switch (contract section 3): it can only ask for `observe`."""
    wanted = given.environ.get("INTEGRITY_PROFILE")
    if wanted not in (None, "", Profile.OBSERVE):
        raise ConfigError(f"environment: INTEGRITY_PROFILE: got {shown(wanted)}, expected observe or nothing")
    return Profile(wanted or given.key("profile"))


def _contradictions(given: _Input) -> Iterator[Problem]:
    listen, admin_listen, rules_dir = (given.key(name) for name in ("listen", "admin_listen", "rules_dir"))
    if listen == admin_listen and _address(listen).port:
        yield ("admin_listen",), f"got {shown(admin_listen)}, the address of listen, expected another one"
    for key, address in (("listen", listen), ("admin_listen", admin_listen)):
        if not is_host(_address(address).host):
            yield (key,), f"got {shown(address)}, expected a host name or an address, and a port"
    known = given.key("auth").get("keys", {})
    for index, route in enumerate(given.data["routes"]):
        for place, url in enumerate(urls := upstreams(route["upstream"])):
            if not is_host(urlsplit(url).hostname or ""):
                path: KeyPath = ("routes", index, "upstream", *([place] if len(urls) > 1 else []))
                yield path, f"got {shown(url)}, expected a host name or an address"
        for place, name in enumerate(route.get("match", {}).get("keys", ())):
            if name not in known:
                yield ("routes", index, "match", "keys", place), f"got {shown(name)}, expected a name of auth.keys"
    if rules_dir and not (given.folder / rules_dir).is_dir():
        yield ("rules_dir",), f"got {shown(rules_dir)}, expected a folder; {given.folder / rules_dir} is none"


def _rule_folders(given: _Input) -> list[Path]:
    rules_dir = given.key("rules_dir")
    return [*([given.folder / rules_dir] if rules_dir else []), *given.rules]


def _files(given: _Input) -> tuple[Path, ...]:
    """Each file and folder that is read, once."""
    own = [Path(given.source)] if given.source else []
    named = [read(route, given.folder) for route in given.data["routes"] for read in (template_file, tokenizer_file)]
    return tuple(dict.fromkeys([*own, *_rule_folders(given), *filter(None, named)]))


def _notes(given: _Input, profile: Profile) -> Iterator[Problem]:
    """What the configuration asks for and does not get."""
    for path in without_effect(given.data):
        yield path, "has no effect in this version"
    if profile is Profile.FULL:
        yield (
            ("profile",),
            "adds to repair, in this version, requests that are changed and a finish reason that is missing",
        )
    if profile is Profile.OBSERVE:
        yield from observe_notes(given.data)


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host=host.strip("[]"), port=int(port))


def _seconds(value: float | str) -> float:
    """A duration of the schema (`5`, `0.5`, `500ms`, `5s`, `2m`, `1h`) in seconds."""
    if not isinstance(value, str):
        return float(value)
    number = value.rstrip("msh")
    return float(number) * _SECONDS[value.removeprefix(number)]


def _size(value: int | str) -> int:
    """A size of the schema (`512`, `64KiB`, `1MiB`, `1GiB`) as a number."""
    return int(value[:-3]) * _UNITS[value[-3:]] if isinstance(value, str) else int(value)
