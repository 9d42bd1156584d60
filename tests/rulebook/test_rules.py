"""The shipped rule files: every tool parser name of the engines has its place, and every file reads as it says.

The registries are those of vLLM 0.33.0 and SGLang 0.5.23. Reasoning parsers: `test_shipped_dialects.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.reading import Reader, reading_of
from gateway.rulebook.call_corpus import generated_calls, unshown
from gateway.rulebook.corpus import generated_samples
from gateway.rulebook.dialect import Dialect, Sample
from gateway.rulebook.load import load_rulebook
from tests.support.calls import CUTS, read_calls
from tests.support.reader import cut

RULES = load_rulebook()


def words(text: str) -> list[str]:
    return text.split()


VLLM_TOOLS = words(
    """
    hermes qwen3_json qwen3_coder qwen3_xml mimo step3p5 step5 seed_oss glm45 glm47 ling3 poolside_v1 hy_v3 hy_v4
    deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41 kimi_k2 kimi_k3 gemma4 functiongemma minimax_m2
    minimax_m3 minicpm5 dots step3 longcat ernie45 granite granite4 granite-20b-fc llama3_json llama4_json
    llama4_pythonic pythonic lfm2 olmo3 mistral hunyuan_a13b jamba apertus cohere_command3 cohere_command4
    phi4_mini_json xlam internlm gigachat3 k2_horizon inkling plamo3 muse musespark1x muse_glimmer openai hf beam
    """
)
SGLANG_TOOLS = words(
    """
    apertus2509 beam cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 deepseekv41 dots gemma4 gigachat3
    gigachat35 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 iquest_q1 k2_horizon kimi_k2 kimi_k3 lfm2
    ling3 llama3 mimo minicpm5 minimax-m2 minimax-m3 mistral muse nanbeige qwen3_coder step3p5 poolside_v1 pythonic
    qwen qwen25 response_template spark25 step3 trinity
    """
)


def test_the_registries_are_complete() -> None:
    assert [len(set(names)) for names in (VLLM_TOOLS, SGLANG_TOOLS)] == [58, 44]


@pytest.mark.parametrize(("engine", "names"), [("vllm", VLLM_TOOLS), ("sglang", SGLANG_TOOLS)])
def test_every_tool_parser_name_is_in_exactly_one_call_format(engine: str, names: list[str]) -> None:
    listed = [alias for call in RULES.calls.values() for alias in call.aliases.get(engine, ())]
    assert sorted(listed) == sorted(names)


def test_every_format_but_the_checkpoints_own_can_be_read_and_written() -> None:
    assert {name for name, call in RULES.calls.items() if not call.regions} == {"template"}
    assert {name for name, call in RULES.calls.items() if unshown(call)} == set()
    regions = [region for call in RULES.calls.values() for region in call.regions]
    assert [region.open for region in regions if not region.bodies] == [
        ("<|message_model|><|content_invoke_tool_text|>", "<|content_invoke_tool_text|>")
    ]


def test_markup_that_no_client_asks_for_is_told_from_tags_and_json() -> None:
    """Contract rule 5: without `tools` the first is removed, the second is the client's."""
    mixed = {"dsml", "granite", "llama_json", "pythonic", "seed", "xlam"}
    control = {name for name, call in RULES.calls.items() if all(region.control for region in call.regions)}
    assert control - {"template"} == {
        "apertus", "cohere", "deepseek_v3", "deepseek_v31", "functiongemma", "gcml", "gemma4", "gigachat3", "harmony",
        "inkling", "internlm", "k2_horizon", "kimi_k2", "kimi_k3", "lfm2", "minimax_m3", "mistral", "muse", "plamo3",
        "step3",
    }  # fmt: skip
    plain = {name for name, call in RULES.calls.items() if not any(region.control for region in call.regions)}
    assert plain == set(RULES.calls) - control - mixed | {"template"}


def test_only_ordinary_text_is_markerless() -> None:
    markerless = [region for call in RULES.calls.values() for region in call.regions if region.markerless]
    assert {text for region in markerless for text in region.open} == {"{", "[", "functools", "```json"}


def test_the_families_that_count_their_ids() -> None:
    assert {name: call.ident for name, call in RULES.calls.items() if call.ident} == {
        "kimi_k2": "functions.{name}:{number}", "kimi_k3": "{name}:{number}",
    }  # fmt: skip


def test_control_token_openers_end_a_thought() -> None:
    ends = {name for name, call in RULES.calls.items() if any(region.ends_thought for region in call.regions)}
    assert ends == {"kimi_k3", "kimi_k2", "k2_horizon", "dsml", "gemma4", "seed"}


def chunkings(text: str) -> Iterator[list[str]]:
    yield [text]
    for place in range(1, len(text)):
        yield [text[:place], text[place:]]
    yield list(text)


def check(dialect: Dialect, sample: Sample) -> None:
    for pieces in chunkings(sample.raw):
        reader = Reader(dialect=dialect, starts_in=sample.starts_in)
        segments = [segment for piece in pieces for segment in reader.feed(piece)]
        reading = reading_of([*segments, *reader.finish(stopped=True)])
        assert (reading.reasoning, reading.content) == (sample.reasoning, sample.content), pieces


@pytest.mark.parametrize("name", sorted(RULES.dialects))
def test_samples_and_generated_outputs_read_as_declared_at_every_cut(name: str) -> None:
    dialect = RULES.dialects[name]
    for sample in (*dialect.samples, *generated_samples(dialect)):
        check(dialect, sample)


@pytest.mark.parametrize("name", sorted(RULES.calls))
def test_the_calls_of_a_format_read_as_declared_in_pieces_of_every_size(name: str) -> None:
    form = RULES.calls[name]
    dialect = RULES.reading(form)
    samples = [*form.samples, *generated_calls(form, dialect)]
    assert bool(samples) is bool(form.regions)
    for sample in samples:
        for size in CUTS:
            assert read_calls(dialect, cut(sample.raw, size)) == ("", sample.content, [*sample.calls]), sample.raw[:500]


# Rows of the engines' own tests (vLLM 0.33.0 tests/parser/mistral, tests/reasoning; SGLang test_reasoning_parser.py).
@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("mistral", Sample(raw="[THINK]r", reasoning="r", content="")),
        ("mistral", Sample(raw="[/THINK]This is the rest", reasoning="", content="This is the rest")),
        ("mistral", Sample(raw="Before\n[THINK]r[/THINK]\nAfter", reasoning="r", content="Before\n\nAfter")),
        ("minimax_m3", Sample(raw="XXX</mm:think>YYY", reasoning="", content="XXX</mm:think>YYY")),
        ("minimax_m3", Sample(raw="plan</mm:think>answer", reasoning="plan", content="answer", starts_in="reasoning")),
        ("gemma4", Sample(raw="<|channel>This is a reasoning section<channel|>This is the rest",
                          reasoning="This is a reasoning section", content="This is the rest")),
        ("gemma4", Sample(raw="<|channel>thought\n<channel|>", reasoning="", content="")),
        ("gemma4", Sample(raw="<|channel>thousand reasons<channel|>Done", reasoning="thousand reasons",
                          content="Done")),
        ("generic", Sample(raw="Direct answer without thinking tokens.", reasoning="",
                           content="Direct answer without thinking tokens.")),
    ],
)  # fmt: skip
def test_rows_of_the_engines_own_tests(name: str, sample: Sample) -> None:
    check(RULES.dialects[name], sample)
