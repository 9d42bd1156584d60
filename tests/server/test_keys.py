"""Which key a request carries, and that nothing else of it is kept."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from multidict import CIMultiDict

from gateway.errors import ConfigError
from gateway.server.config import config_from_mapping
from gateway.server.keys import Keys
from tests.server.test_inspected import LEAK, STREAM, texts
from tests.support.gateways import gateway
from tests.support.http import fetch, get
from tests.support.upstream import engine


def digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


KEYS = {"team-a": digest("sk-a"), "team-b": digest("sk-b\udcff")}


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"Authorization": "Bearer sk-a"}, "team-a"),
        ({"authorization": "bearer  sk-a "}, "team-a"),
        ({"Authorization": "Bearer sk-b\udcff"}, "team-b"),
        ({"X-Api-Key": "sk-a"}, "team-a"),
        ({"Authorization": "Basic sk-a", "X-Api-Key": "sk-a"}, "team-a"),
        ({"Authorization": "Bearer nobody", "X-Api-Key": "sk-a"}, None),
        ({"Authorization": "sk-a"}, None),
        ({"Authorization": "Bearer"}, None),
        ({"Authorization": f"Bearer {digest('sk-a')}"}, None),
        ({}, None),
    ],
)
def test_a_key_is_known_by_its_digest(headers: dict[str, str], name: str | None) -> None:
    assert Keys(KEYS).name_of(CIMultiDict(headers)) == name


@pytest.mark.parametrize(("key", "leaked"), [("sk-a", True), ("sk-x", False), (None, False)])
async def test_a_key_chooses_its_route_and_reaches_the_engine_but_no_log(
    key: str | None, leaked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """C18"""
    caplog.set_level("INFO", "gateway")
    ask = STREAM if key is None else STREAM.replace(b"Host:", f"Authorization: Bearer {key}\r\nHost:".encode())
    async with engine(LEAK) as upstream:
        routes: list[dict[str, Any]] = [
            {"match": {"keys": ["team-b", "team-a"]}, "upstream": upstream.url, "dialect": "none"},
            {"upstream": upstream.url, "dialect": "think"},
        ]
        async with gateway("", routes=routes, auth={"keys": KEYS}) as front:
            answer = await fetch(front.url, ask)
            assert ("<think>" in texts(answer.body, "content")) is leaked
            assert upstream.last.get("authorization") == (f"Bearer {key}" if key else None)
            shown = (await fetch(front.admin, get("/rules"))).body + (await fetch(front.admin, get("/metrics"))).body
    logged = str([record.__dict__ for record in caplog.records])
    routes_seen = {record.fields["route"] for record in caplog.records if record.msg == "exchange"}
    assert routes_seen == {"team-b,team-a" if leaked else "*"}
    for secret in ("sk-a", *KEYS.values()):
        assert secret not in logged
        assert secret.encode() not in shown


@pytest.mark.parametrize(
    ("auth", "keys", "key", "text"),
    [
        ({}, ["a"], "routes[0].match.keys[0]", 'got "a", expected a name of auth.keys'),
        ({"keys": {"a": "sk-plain"}}, ["a"], "auth.keys.a", "got something else, expected 64 hex digits"),
        ({"keys": {"a": digest("k").upper()}}, ["a"], "auth.keys.a", "got something else, expected 64 hex digits"),
        ({"keys": {"a b": digest("k")}}, ["a b"], "auth.keys", "expected a name of letters, digits"),
        ({"key": {}}, [], "auth.key", "unknown key"),
    ],
)
def test_a_wrong_key_block_is_told_without_the_key(auth: dict[str, Any], keys: list[str], key: str, text: str) -> None:
    routes = [{"upstream": "http://127.0.0.1:1", **({"match": {"keys": keys}} if keys else {})}]
    with pytest.raises(ConfigError) as error:
        config_from_mapping({"routes": routes, "auth": auth}, source="f")
    assert f"f: {key}" in str(error.value)
    assert text in str(error.value)
    assert "sk-plain" not in str(error.value)
