"""What may change while the gateway runs, and what only a restart changes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import ConfigError
from gateway.server.auto import EngineFacts, Served
from gateway.server.config import Config, config_from_mapping
from gateway.server.connection import target_of
from gateway.server.inforce import InForce, Standing

A = "http://a:1"


def config(**keys: Any) -> Config:
    return config_from_mapping({"routes": [{"upstream": A}], **keys}, source="f.yaml")


def facts(*names: str) -> EngineFacts:
    models = tuple(Served(id=name, names=(name,)) for name in names)
    return EngineFacts(engine="vllm", version="0.32.0", models=models)


def test_an_adopted_configuration_stands_and_is_heard_of() -> None:
    heard: list[Standing] = []
    in_force = InForce(config(), changed=heard.append)
    was = in_force.now
    in_force.adopt(config(profile="observe"))
    assert heard == [in_force.now]
    assert in_force.now.config.routes[0].rules.policy.profile == "observe"
    assert was.config.routes[0].rules.policy.profile == "repair"


@pytest.mark.parametrize("key", ["listen", "admin_listen"])
def test_another_address_needs_a_restart_and_changes_nothing(key: str) -> None:
    heard: list[Standing] = []
    in_force = InForce(config(), changed=heard.append)
    was = in_force.now
    with pytest.raises(ConfigError, match=rf"^f\.yaml: {key}: got 127\.0\.0\.1:7, .*restart"):
        in_force.adopt(config(**{key: "127.0.0.1:7"}, profile="observe"))
    assert (in_force.now, heard) == (was, [])


def test_what_engines_say_outlasts_a_reload() -> None:
    in_force = InForce(config(), changed=lambda _: None)
    in_force.learn({target_of(A): facts("openai/gpt-oss-20b")})
    in_force.adopt(config(profile="observe"))
    assert in_force.now.config.routes[0].dialect_name == "harmony"
    assert in_force.facts == [facts("openai/gpt-oss-20b")]


def test_the_same_facts_again_replace_nothing() -> None:
    heard: list[Standing] = []
    in_force = InForce(config(), changed=heard.append)
    in_force.learn({target_of(A): facts("m")})
    in_force.learn({target_of(A): facts("m")})
    in_force.learn({})
    assert len(heard) == 1


def test_facts_of_an_engine_that_no_route_names_any_more_are_not_shown() -> None:
    in_force = InForce(config(), changed=lambda _: None)
    in_force.learn({target_of(A): facts("m")})
    in_force.adopt(config(routes=[{"upstream": "http://b:1"}]))
    assert (in_force.facts, in_force.now.models) == ([], frozenset())


def test_model_names_are_those_served_and_those_spelt_out() -> None:
    routes = [{"match": {"models": ["spelt", "glob-*"]}, "upstream": A}]
    in_force = InForce(config(routes=routes), changed=lambda _: None)
    in_force.learn({target_of(A): facts("served")})
    assert in_force.now.models == {"spelt", "served"}
