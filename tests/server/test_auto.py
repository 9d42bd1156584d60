"""What `dialect: auto` and `engine: auto` come to: which statement of an engine is a fact."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server.auto import EngineFacts, Served, informed
from gateway.server.config import Config, Route, config_from_mapping


def config(**route: Any) -> Config:
    return config_from_mapping({"routes": [{"upstream": "http://a:1", **route}]}, source="test")


def facts(*models: Served, **said: Any) -> EngineFacts:
    return EngineFacts(**{"engine": "vllm", "version": "0.32.0", "models": models, **said})


def model(*names: str) -> Served:
    return Served(id=names[0], names=names)


def told(*engines: EngineFacts, **route: Any) -> Route:
    configured = config(**route)
    return informed(configured.routes[0], engines, configured.rulebook)


QWEN, GPT_OSS, OWN = model("Qwen/Qwen3-8B"), model("openai/gpt-oss-20b"), model("assistant")


def test_without_facts_a_route_is_as_configured() -> None:
    configured = config()
    assert informed(configured.routes[0], [], configured.rulebook) == configured.routes[0]
    assert configured.routes[0].dialect_name == "generic"


def test_the_served_name_decides_for_every_request_of_the_route() -> None:
    route = told(facts(GPT_OSS))
    assert (route.dialect_name, route.rules.dialect and route.rules.dialect.name) == ("harmony", "harmony")
    assert "openai/gpt-oss-20b" in route.dialect_why
    assert route.by_model == {}


def test_what_the_model_was_loaded_from_decides_where_its_name_says_nothing() -> None:
    route = told(facts(model("assistant", "openai/gpt-oss-20b")))
    assert route.dialect_name == "harmony"
    assert "assistant from openai/gpt-oss-20b" in route.dialect_why


def test_the_version_of_a_route_s_engines_is_known_where_they_agree() -> None:
    assert told(facts(OWN)).rules.engine_version == "0.32.0"
    assert told(facts(OWN), facts(OWN), engine="vllm", dialect="think").rules.engine_version == "0.32.0"
    assert told(facts(OWN), facts(OWN, version="0.33.0")).rules.engine_version == ""
    assert told().rules.engine_version == ""
    assert told(facts(OWN), engine_version="0.28").rules.engine_version == "0.28"


def test_a_name_of_no_family_stays_generic_and_says_so() -> None:
    route = told(facts(OWN))
    assert route.dialect_name == "generic"
    assert "assistant" in route.dialect_why


def test_models_of_different_families_are_read_each_in_its_own_way() -> None:
    route = told(facts(GPT_OSS, OWN))
    assert {name: variant.dialect_name for name, variant in route.by_model.items()} == {
        "openai/gpt-oss-20b": "harmony",
        "assistant": "generic",
    }
    assert route.dialect_name == "generic"
    assert "different families" in route.dialect_why


def test_two_engines_of_one_route_are_taken_together() -> None:
    assert told(facts(GPT_OSS), facts(GPT_OSS)).dialect_name == "harmony"
    assert set(told(facts(GPT_OSS), facts(QWEN)).by_model) == {"openai/gpt-oss-20b", "Qwen/Qwen3-8B"}


def test_the_parser_an_engine_runs_beats_the_name_of_its_model() -> None:
    route = told(facts(QWEN, engine="sglang", parsers=(("reasoning", "gpt-oss"),)))
    assert route.dialect_name == "harmony"
    assert "gpt-oss" in route.dialect_why
    assert (route.rules.parser, route.rules.tools_parser) == ("gpt-oss", "")
    both = told(facts(QWEN, engine="sglang", parsers=(("reasoning", "qwen3"), ("tools", "qwen25"))))
    assert (both.rules.parser, both.rules.tools_parser) == ("qwen3", "qwen25")


def test_a_parser_without_rules_leaves_the_decision_to_the_name() -> None:
    assert told(facts(GPT_OSS, engine="sglang", parsers=(("reasoning", "no-such"),))).dialect_name == "harmony"
    assert told(facts(GPT_OSS, engine="sglang", parsers=(("tools", "no-such"),))).dialect_name == "harmony"


@pytest.mark.parametrize("dialect", ["think", "none", "generic", {"reasoning": "qwen3"}])
def test_a_configured_dialect_is_never_overruled(dialect: Any) -> None:
    configured = config(dialect=dialect).routes[0]
    route = told(facts(GPT_OSS), dialect=dialect)
    assert (route.dialect_name, route.rules.dialect) == (configured.dialect_name, configured.rules.dialect)


@pytest.mark.parametrize(
    ("kinds", "configured", "engine"),
    [
        (["sglang"], "auto", "sglang"),
        (["vllm", "vllm"], "auto", "vllm"),
        (["vllm", "sglang"], "auto", "auto"),
        (["other"], "auto", "auto"),
        (["vllm"], "sglang", "sglang"),
    ],
)
def test_the_engine_is_what_all_engines_of_a_route_say_they_are(kinds: list[str], configured: str, engine: str) -> None:
    route = told(*(facts(OWN, engine=kind) for kind in kinds), engine=configured, dialect="think")
    assert route.rules.engine == engine
