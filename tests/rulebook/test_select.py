"""What a route's `dialect` key means (contract section 3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import ConfigError
from gateway.rulebook.dialect import CallFormat, Dialect, Kind, Thought, ToolRegion
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.select import Resolved, Rulebook, UnknownDialect, with_calls

SHIPPED = load_rulebook()


def reasoning_half(name: str) -> Dialect:
    """What a reasoning parser's name alone means: without a fixed grammar, it is `auto`."""
    return replace(SHIPPED.dialects[name], reads_calls=name == "generic")


def regions_of(name: str) -> tuple[ToolRegion, ...]:
    return SHIPPED.calls[name].regions


def test_a_plain_name_is_a_family_of_ours() -> None:
    found = SHIPPED.resolve("kimi_k3", engine="vllm")
    assert (found.dialect, found.name, found.why, found.warnings) == (
        SHIPPED.dialects["kimi_k3"], "kimi_k3", "the family kimi_k3", ()
    )  # fmt: skip


def test_none_reads_nothing_and_auto_without_evidence_is_generic() -> None:
    assert SHIPPED.resolve("none", engine=None).dialect is None
    assert SHIPPED.resolve("none", engine=None).name == "none"
    found = SHIPPED.resolve("auto", engine=None)
    assert (found.dialect, found.name, found.warnings) == (SHIPPED.dialects["generic"], "generic", ())


@pytest.mark.parametrize("name", ["hf", "beam", "response_template"])
@pytest.mark.parametrize("form", ["plain", "reasoning", "both", "forced"])
def test_names_without_a_fixed_grammar_are_auto_with_one_warning(name: str, form: str) -> None:
    spec: str | dict[str, str] = {
        "plain": name, "reasoning": {"reasoning": name}, "both": {"reasoning": name, "tools": name},
        "forced": {"tools": f"sglang/{name}"},
    }[form]  # fmt: skip
    found = SHIPPED.resolve(spec, engine="vllm")
    assert found.dialect == SHIPPED.dialects["generic"]
    assert len(found.warnings) == 1
    assert "takes its grammar from the checkpoint" in found.warnings[0]


def checkpoint() -> Resolved:
    """A grammar that came with a model."""
    region = ToolRegion(open=("<call>",), close=("</call>",))
    thought = Thought(open=("<a>",), close=("</a>",))
    dialect = Dialect(
        name="own", summary="", kind=Kind.TAG, aliases={}, thoughts=(thought,), regions=(region,), reads_calls=False
    )
    return Resolved(dialect, "own", "its file", ("told",))


@pytest.mark.parametrize("name", ["auto", "hf", "beam", "response_template"])
def test_a_checkpoints_grammar_is_read_where_the_dialect_is_left_to_it(name: str) -> None:
    own = checkpoint()
    for spec in (name, {"reasoning": name}, {"reasoning": f"sglang/{name}", "tools": "hf"}, {"tools": "vllm/beam"}):
        assert SHIPPED.resolve(spec, engine="vllm", checkpoint=own) is own


def test_a_named_call_format_stands_for_the_checkpoints_own() -> None:
    own = checkpoint()
    for spec in ({"reasoning": "hf", "tools": "hermes"}, {"tools": "hermes"}):
        found = SHIPPED.resolve(spec, engine="vllm", checkpoint=own)
        assert found.dialect is not None and own.dialect is not None
        assert found.dialect.regions == regions_of("hermes")
        assert (found.dialect.thoughts, found.dialect.reads_calls) == (own.dialect.thoughts, True)
        why = "its file; --tool-call-parser hermes of vllm is hermes"
        assert (found.name, found.why, found.warnings) == ("own+hermes", why, ("told",))


@pytest.mark.parametrize("spec", ["qwen", "none", {"reasoning": "qwen3"}, {"reasoning": "vllm/qwen3", "tools": "hf"}])
def test_a_checkpoints_grammar_beside_a_dialect_that_is_named_is_refused(spec: str | dict[str, str]) -> None:
    name = spec if isinstance(spec, str) else spec["reasoning"]
    with pytest.raises(ConfigError) as caught:
        SHIPPED.resolve(spec, engine="vllm", checkpoint=checkpoint())
    assert str(caught.value) == (
        f"{name!r} leaves nothing to the checkpoint, so no response template is read; "
        "leave `dialect` out, or write {reasoning: response_template}"
    )


@pytest.mark.parametrize(
    ("name", "halves", "forced"),
    [
        ("deepseek_v3", "{reasoning: deepseek_v3, tools: deepseek_v3}", "vllm/deepseek_v3"),
        ("qwen3", "{reasoning: qwen3}", "vllm/qwen3"),
        ("deepseek-r1", "{reasoning: deepseek-r1}", "sglang/deepseek-r1"),
        ("pythonic", "{tools: pythonic}", ""),
        ("vllm/pythonic", "{tools: vllm/pythonic}", ""),
    ],
)
def test_a_parser_name_written_as_a_family_is_refused_with_what_to_write(name: str, halves: str, forced: str) -> None:
    with pytest.raises(UnknownDialect) as caught:
        SHIPPED.resolve(name, engine="vllm")
    assert (caught.value.name, caught.value.near) == (name, (halves,))
    flag = f"on a command line write --dialect {forced}, " if forced else ""
    assert str(caught.value).endswith(f"not a family; {flag}behind `dialect:` in YAML write {halves}")
    if forced:
        advised = SHIPPED.resolve(forced, engine="vllm")
        assert advised.dialect == SHIPPED.resolve({"reasoning": name}, engine="vllm").dialect


@pytest.mark.parametrize(
    ("name", "family", "warns"),
    [("vllm/qwen3", "qwen", False), ("sglang/gpt-oss", "harmony", False), ("sglang/hf", "generic", True)],
)
def test_the_parser_name_of_one_engine_as_a_plain_text_is_the_reasoning_half(
    name: str, family: str, warns: bool
) -> None:
    found = SHIPPED.resolve(name, engine=None)
    assert (found.dialect, bool(found.warnings)) == (reasoning_half(family), warns)
    assert found == SHIPPED.resolve({"reasoning": name}, engine=None)


@pytest.mark.parametrize(
    ("spec", "name", "near", "words"),
    [
        ("harmoni", "harmoni", ("harmony",), "did you mean harmony?"),
        ("vllm/qwen4", "vllm/qwen4", ("qwen3",), "no rules for --reasoning-parser 'vllm/qwen4'; did you mean"),
        ("tgi/qwen3", "tgi/qwen3", ("qwen",), "no family 'tgi/qwen3'; did you mean"),
        ("zzz", "zzz", (), "expected one of apertus, cohere, deepseek, dots, ernie45, gemma4, generic, "),
        ({"reasoning": "zzz"}, "zzz", (), "dialects list"),
        ({"reasoning": "deepsek_r1"}, "deepsek_r1", ("deepseek_r1", "deepseek-r1"), "did you mean"),
        ({"tools": "hermess"}, "hermess", ("hermes",), "--tool-call-parser 'hermess'"),
        ({"reasoning": "sglang/deepseek_r1"}, "sglang/deepseek_r1", ("deepseek_r1",), "--reasoning-parser"),
        ({"reasoning": "tgi/qwen3"}, "tgi/qwen3", ("qwen3",), "--reasoning-parser"),
    ],
)
def test_an_unknown_name_is_refused_with_what_comes_near(
    spec: str | dict[str, str], name: str, near: tuple[str, ...], words: str
) -> None:
    with pytest.raises(UnknownDialect) as caught:
        SHIPPED.resolve(spec, engine=None)
    assert caught.value.name == name
    assert caught.value.near[: len(near)] == near
    assert bool(caught.value.near) is bool(near)
    assert words in str(caught.value)
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize("spec", [{}, {"reasoning": "qwen3", "tool": "hermes"}])
def test_only_the_two_halves_are_keys(spec: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="expected reasoning and tools, or one of the two"):
        SHIPPED.resolve(spec, engine=None)


@pytest.mark.parametrize(
    ("engine", "spec", "family", "engine_asked"),
    [
        ("vllm", {"reasoning": "qwen3"}, "qwen", "vllm"),
        ("sglang", {"reasoning": "qwen3"}, "qwen", "sglang"),
        ("vllm", {"reasoning": "gpt-oss"}, "harmony", "sglang"),
        ("sglang", {"reasoning": "openai_gptoss"}, "harmony", "vllm"),
        ("sglang", {"reasoning": "vllm/kimi_k3"}, "kimi_k3", "vllm"),
        ("openai", {"reasoning": "mistral"}, "mistral", "vllm"),
        (None, {"reasoning": "kimi"}, "kimi_unicode", "sglang"),
    ],
)
def test_reasoning_names_are_looked_up_in_the_routes_engine_then_the_others(
    engine: str | None, spec: dict[str, str], family: str, engine_asked: str
) -> None:
    found = SHIPPED.resolve(spec, engine=engine)
    assert found.dialect == reasoning_half(family)
    assert f"of {engine_asked} is {family}" in found.why
    assert found.warnings == ()


def test_the_tools_half_adds_its_regions_to_the_familys_own() -> None:
    found = SHIPPED.resolve({"reasoning": "gemma4", "tools": "hermes"}, engine="vllm").dialect
    assert found is not None
    assert found.regions == (*regions_of("gemma4"), *regions_of("hermes"))
    assert (found.name, found.calls) == ("gemma4+hermes", ("gemma4", "hermes"))
    assert found.thoughts == SHIPPED.dialects["gemma4"].thoughts


def test_tool_regions_are_calls_unless_only_the_reasoning_parser_is_named() -> None:
    for spec in ("qwen", "auto", {"tools": "hermes"}, {"reasoning": "qwen3", "tools": "hermes"}, {"reasoning": "hf"}):
        found = SHIPPED.resolve(spec, engine="vllm").dialect
        assert found is not None and found.reads_calls, spec
    only = SHIPPED.resolve({"reasoning": "qwen3"}, engine="vllm").dialect
    assert only is not None and not only.reads_calls


def test_the_familys_own_call_format_changes_nothing() -> None:
    found = SHIPPED.resolve({"reasoning": "kimi_k3", "tools": "kimi_k3"}, engine="sglang")
    assert found.dialect is SHIPPED.dialects["kimi_k3"]


def test_only_a_tools_half_is_the_generic_reading_with_its_regions() -> None:
    found = SHIPPED.resolve({"tools": "longcat"}, engine="vllm")
    assert found.dialect is not None
    assert found.dialect.thoughts == SHIPPED.dialects["generic"].thoughts
    assert found.dialect.regions == regions_of("longcat")
    assert found.why == "no reasoning parser is named, so generic; --tool-call-parser longcat of vllm is longcat"


def test_only_a_tools_half_is_the_one_family_that_writes_its_calls_so() -> None:
    found = SHIPPED.resolve({"tools": "deepseekv4"}, engine="sglang")
    assert found.dialect is SHIPPED.dialects["deepseek"]
    assert found.why == "no reasoning parser is named, so deepseek; --tool-call-parser deepseekv4 of sglang is dsml"


def test_the_generic_reading_has_calls_of_its_own_unless_a_route_names_a_tool_parser() -> None:
    generic = SHIPPED.resolve("auto", engine="vllm").dialect
    assert generic is not None
    assert generic.regions == (*regions_of("tool_calls_json"), *regions_of("invoke_xml"))
    for spec in ({"tools": "hermes"}, {"reasoning": "hf", "tools": "hermes"}):
        named = SHIPPED.resolve(spec, engine="vllm").dialect
        assert named is not None
        assert (named.calls, named.regions) == (("hermes",), regions_of("hermes"))


def test_a_format_is_read_by_a_family_that_writes_it_or_by_the_generic_reading_with_it() -> None:
    assert SHIPPED.reading(SHIPPED.calls["kimi_k3"]) is SHIPPED.dialects["kimi_k3"]
    other = SHIPPED.reading(SHIPPED.calls["longcat"])
    assert (other.name, other.regions) == ("generic+longcat", regions_of("longcat"))


def two_meanings() -> Rulebook:
    one = CallFormat(name="one", summary="", aliases={"vllm": ("same",)}, regions=())
    two = CallFormat(name="two", summary="", aliases={"sglang": ("same",)}, regions=())
    return replace(SHIPPED, calls={"one": one, "two": two})


@pytest.mark.parametrize(
    ("engine", "name", "format_", "warns"),
    [
        (None, "same", "one", True), ("other", "same", "one", True), ("vllm", "same", "one", False),
        ("sglang", "same", "two", False), (None, "sglang/same", "two", False), ("vllm", "sglang/same", "two", False),
    ],
)  # fmt: skip
def test_a_name_with_two_meanings_takes_vllms_and_warns_where_the_engine_is_not_known(
    engine: str | None, name: str, format_: str, warns: bool
) -> None:
    found = two_meanings().resolve({"tools": name}, engine=engine)
    assert found.name == f"generic+{format_}"
    expected = ("'same' means different formats: vllm/same is one, sglang/same is two; read as vllm/same",)
    assert found.warnings == (expected if warns else ())


def test_no_shipped_name_means_two_things() -> None:
    for half, entries in (("reasoning", SHIPPED.dialects), ("tools", SHIPPED.calls)):
        names = {alias for entry in entries.values() for aliases in entry.aliases.values() for alias in aliases}
        warned = {name for name in names if SHIPPED.resolve({half: name}, engine=None).warnings}
        assert warned <= {"hf", "beam", "response_template"}


def test_an_opener_that_both_halves_have_is_the_tools_halfs() -> None:
    found = SHIPPED.resolve({"reasoning": "mistral", "tools": "xlam"}, engine="vllm").dialect
    assert found is not None
    assert found.regions == regions_of("xlam")


def test_the_other_openers_of_a_region_stay() -> None:
    region = ToolRegion(open=("<a>", "<b>"), close=("</a>",))
    own = Dialect(name="d", summary="", kind=Kind.TAG, aliases={}, regions=(region,))
    call = CallFormat(name="c", summary="", aliases={}, regions=(ToolRegion(open=("<a>",)),))
    assert with_calls(own, call).regions == (ToolRegion(open=("<b>",), close=("</a>",)), ToolRegion(open=("<a>",)))


def test_halves_in_which_a_literal_would_mean_two_things_are_refused() -> None:
    own = Dialect(name="d", summary="", kind=Kind.TAG, aliases={}, thoughts=(Thought(open=("<a>",), close=("</a>",)),))
    call = CallFormat(name="c", summary="", aliases={}, regions=(ToolRegion(open=("<a>",)),))
    with pytest.raises(ConfigError, match="d and c do not go together: '<a>' is tool opener here and think opener"):
        with_calls(own, call)


def test_every_shipped_family_goes_with_every_shipped_call_format() -> None:
    for dialect in SHIPPED.dialects.values():
        for call in SHIPPED.calls.values():
            assert {text for r in call.regions for text in r.open} <= {
                text for r in with_calls(dialect, call).regions for text in r.open
            }


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Qwen/Qwen3-8B", "qwen"),
        ("openai/gpt-oss-120b", "harmony"),
        ("MiniMaxAI/MiniMax-M2.1", "minimax_m2"),
        ("MiniMaxAI/MiniMax-M3", "minimax_m3"),
        ("google/gemma-4-27b-it", "gemma4"),
        ("stepfun-ai/Step-3.5-Flash", "step"),
        ("stepfun-ai/step3", "step3"),
        ("tencent/Hy3", "hunyuan"),
        ("moonshotai/Kimi-K2-Thinking", "kimi_k2"),
        ("moonshotai/Kimi-VL-A3B-Thinking", "kimi_unicode"),
    ],
)
def test_a_model_name_is_matched_by_glob_whatever_its_case(model: str, family: str) -> None:
    assert SHIPPED.match_model(model) is SHIPPED.dialects[family]


def test_a_model_nobody_lists_has_no_family() -> None:
    assert SHIPPED.match_model("acme/unknown-1") is None


def test_the_longest_glob_decides() -> None:
    short = replace(SHIPPED.dialects["think"], models=("*acme*",))
    long = replace(SHIPPED.dialects["harmony"], models=("*acme-oss*",))
    for order in ({"think": short, "harmony": long}, {"harmony": long, "think": short}):
        assert replace(SHIPPED, dialects=order).match_model("acme-oss-1") is long
