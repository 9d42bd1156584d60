"""The shipped families against the engines: whose parser name is whose, and what the engines' own tests read.

Names: section 1 of the two engine references (vLLM 0.33.0, SGLang 0.5.23). Rows: the reasoning rows of both parser
suites and the inputs on which SGLang's parsers disagree with themselves, copied from the shared corpus.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.dialects import main
from gateway.policy import Profile
from gateway.reading import Reader, Reading, reading_of
from gateway.rulebook.dialect import Dialect
from gateway.rulebook.load import load_rulebook, shipped_rules
from tests.exchange.driver import DONE, delta, message, plain, route, streamed
from tests.support.reader import cut

RULES = load_rulebook()
CORPUS = Path(__file__).parents[1] / "corpus"
CUTS = (1, 2, 3, 7)

# family: (names of vLLM's registry, names of SGLang's registry)
FAMILIES: dict[str, tuple[str, str]] = {
    "apertus": ("", "apertus2509"),
    "cohere": ("cohere_command3 cohere_command4", "cohere_command4"),
    "deepseek": (
        "deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41",
        "deepseek-r1 deepseek-v3 deepseek-v4 deepseek-v41",
    ),
    "dots": ("", "dots"),
    "ernie45": ("ernie45", ""),
    "gemma4": ("gemma4", "gemma4"),
    "generic": ("hf beam", "beam response_template"),
    "gigachat": ("", "gigachat35"),
    "glm": ("glm45 glm47", "glm45"),
    "granite": ("granite", ""),
    "granite_thinking": ("granite_thinking_parser", "granite_thinking_parser"),
    "harmony": ("openai_gptoss", "gpt-oss"),
    "hunyuan": ("hy_v3 hy_v4", "hunyuan"),
    "hunyuan_a13b": ("hunyuan_a13b", ""),
    "inkling": ("inkling", "inkling"),
    "interns1": ("", "interns1"),
    "iquest": ("", "iquest_q1"),
    "k2_horizon": ("k2_horizon", "k2_horizon"),
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "kimi_unicode": ("", "kimi"),
    "ling": ("ling3", "ling3"),
    "mimo": ("mimo", "mimo"),
    "minicpmv": ("minicpmv", ""),
    "minimax_append": ("minimax_m2_append_think", "minimax-append-think"),
    "minimax_m2": ("minimax_m2", "minimax"),
    "minimax_m3": ("minimax_m3", "minimax-m3"),
    "mistral": ("mistral", "mistral"),
    "muse": ("muse musespark1x muse_glimmer", "muse"),
    "nanbeige": ("", "nanbeige"),
    "nemotron": ("nemotron_v3", "nemotron_3"),
    "olmo3": ("olmo3", ""),
    "plamo3": ("plamo3", ""),
    "poolside": ("poolside_v1", "poolside_v1"),
    "qwen": ("qwen3 holo2", "qwen3 qwen3-thinking"),
    "seed_oss": ("seed_oss", ""),
    "step": ("step3p5 step5", "step3p5"),
    "step3": ("step3", "step3"),
    "think": ("", ""),
}


def test_the_table_is_all_families_and_all_of_both_registries() -> None:
    assert set(FAMILIES) == set(RULES.dialects)
    for registry, size in ((0, 42), (1, 36)):
        names = [name for row in FAMILIES.values() for name in row[registry].split()]
        assert (len(names), len(set(names))) == (size, size)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parser_name_of_either_engine_is_its_familys(family: str) -> None:
    for engine, names in zip(("vllm", "sglang"), FAMILIES[family], strict=True):
        for name in names.split():
            found = RULES.resolve({"reasoning": name}, engine=engine)
            expected = replace(RULES.dialects[family], reads_calls=family == "generic")
            assert (found.dialect, bool(found.warnings)) == (expected, family == "generic")


def rows(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPUS / file).read_text("utf-8").splitlines()]


def one_reading(dialect: Dialect, text: str, starts_in: str) -> Reading:
    """The reading of `text`, which is the same at every cutting."""
    whole, *others = (_read(dialect, pieces, starts_in) for pieces in ([text], *(cut(text, size) for size in CUTS)))
    for other in others:
        assert (other.reasoning, other.content) == (whole.reasoning, whole.content), text
    return whole


def _read(dialect: Dialect, pieces: list[str], starts_in: str) -> Reading:
    reader = Reader(dialect=dialect, starts_in=starts_in)
    segments = [segment for piece in pieces for segment in reader.feed(piece)]
    return reading_of([*segments, *reader.finish(stopped=True)])


def family_of(row: dict[str, Any], engine: str) -> Dialect:
    found = RULES.resolve(row["bb_dialect"], engine=engine).dialect
    assert found is not None
    return found


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_engines_own_tests_read_alike_here(engine: str) -> None:
    """Compared without the white space around each half, which the parsers trim each in its own way."""
    for row in rows(f"{engine}_reasoning.jsonl"):
        got = one_reading(family_of(row, engine), row["raw_text"], "reasoning" if row["bb_start"] else "content")
        wanted = {"reasoning": row["expected_reasoning"] or "", "content": row["expected_content"] or ""}
        accepted = [wanted | other for other in ({}, *row.get("alt", []))]
        trimmed = [{key: text.strip() for key, text in either.items()} for either in accepted]
        assert {"reasoning": got.reasoning.strip(), "content": got.content.strip()} in trimmed, row["id"]


@pytest.mark.parametrize("kind", ["reasoning", "reasoning_preopened"])
def test_an_input_that_an_engine_reads_in_two_ways_is_read_in_one(kind: str) -> None:
    for row in rows("hostile_reasoning.jsonl"):
        if row["kind"] == kind:
            names = dict(zip(("reasoning", "tools"), row["parser"].split("+"), strict=False))
            found = RULES.resolve(names, engine="sglang").dialect
            assert found is not None
            one_reading(found, row["raw_text"], "reasoning" if kind == "reasoning_preopened" else "content")


# ---------------------------------------------------------------------- the model goes on in another role

# What a chat template puts behind an answer, `4`, when another role follows; the sources are named in each file.
RUN_ONS = [
    ("apertus", "4<|assistant_end|><|user_start|>B"),
    ("cohere", "4<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|><|START_TEXT|>B"),
    ("deepseek", "4<｜end▁of▁sentence｜><｜User｜>B"),
    ("deepseek", "4<｜end▁of▁sentence｜><｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>B"),
    ("deepseek", "4<｜end▁of▁sentence｜><｜System｜>B"),
    ("dots", "4<|endofresponse|><|userprompt|>B<|endofuserprompt|>"),
    ("ernie45", "4<|im_end|>\n\n<|im_start|>user\nB"),
    ("ernie45", "4<|end_of_sentence|>User: B"),
    ("gemma4", "4<turn|>\n<|turn>user\nB"),
    ("gemma4", "4<|tool_response>response:f{}<tool_response|>B"),
    ("generic", "4<|im_end|>\n<|im_start|>tool\nB"),
    ("generic", "4<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nB"),
    ("generic", "4<|eot|><|header_start|>user<|header_end|>\n\nB"),
    ("generic", "4<end_of_turn>\n<start_of_turn>user\nB"),
    ("generic", "4</s>[INST] B [/INST]"),
    ("generic", "4</s> [INST] B [/INST]"),
    ("generic", "4<｜end▁of▁sentence｜><｜User｜>B"),
    ("generic", "4<|endoftext|><|user|>\nB"),
    ("generic", "4<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>B"),
    ("gigachat", "4<|message_sep|>\n\nuser<|role_sep|>\nB"),
    ("gigachat", "4<|message_sep|>\n\nfunction result<|role_sep|>\nB"),
    ("glm", "4<|user|>\nB"),
    ("glm", "4<|user|>B"),
    ("glm", "4<|observation|><tool_response>B</tool_response>"),
    ("glm", "4<|observation|>\n<tool_response>\nB"),
    ("granite", "4<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>B"),
    ("granite_thinking", "4<|im_end|>\n<|im_start|>user\n<tool_response>\nB"),
    ("harmony", "<|channel|>final<|message|>4<|end|><|start|>user<|message|>B"),
    ("hunyuan", "4<｜hy_eos｜><｜hy_User｜>B"),
    ("hunyuan", "4<｜hy_eos:opensource｜><｜hy_User:opensource｜>B"),
    ("hunyuan", "4<｜hy_end:opensource｜><｜hy_start:opensource｜>tool<｜hy_middle:opensource｜>B"),
    ("hunyuan_a13b", "4<|eos|><|startoftext|>B<|extra_0|>"),
    ("inkling", "<|content_text|>4<|end_message|><|message_user|><|content_text|>B"),
    ("inkling", "<|content_text|>4<|end_message|><|message_tool|><|content_text|>B"),
    ("interns1", "4<|im_end|>\n<|im_start|>environment name=<|plugin|>\nB"),
    ("iquest", "4<|iquest_end|><|iquest_user|>B"),
    ("k2_horizon", "4<|ifm|im_end|><|ifm|im_start|>user\nB"),
    ("kimi_k2", "4<|im_end|><|im_user|>user<|im_middle|>B"),
    ("kimi_unicode", "4<|im_end|><|im_user|>user<|im_middle|>B"),
    ("ling", "4<|role_end|><role>OBSERVATION</role>\n<tool_response>\nB"),
    ("mimo", "4<|im_end|><|im_start|>user\nB"),
    ("minicpmv", "4<|im_end|>\n<|im_start|>user\nB"),
    ("minimax_append", "4[e~[\n]~b]user\nB"),
    ("minimax_m2", "4[e~[\n]~b]user\nB"),
    ("minimax_m3", "4[e~[\n]~b]developer\nB"),
    ("mistral", "4</s>[INST]B[/INST]"),
    ("mistral", "4</s> [INST]B[/INST]"),
    ("mistral", "4</s>[TOOL_RESULTS]B[/TOOL_RESULTS]"),
    ("muse", " to=user<|message|>4<|eot|><|start|>user<|message|>B"),
    ("nanbeige", "4<|im_end|>\n<|im_start|>user\nB"),
    ("nemotron", "4<|im_end|>\n<|im_start|>user\nB"),
    ("olmo3", "4<|im_end|>\n<|im_start|>environment\nB"),
    ("plamo3", "4<|plamo:tag|>user<|plamo:msg|>B"),
    ("poolside", "4</assistant>\n<user>B</user>"),
    ("poolside", "4</assistant>\n<tool_response>B</tool_response>"),
    ("qwen", "4<|im_end|>\n<|im_start|>user\nB"),
    ("seed_oss", "4<seed:eos><seed:bos>user\nB"),
    ("step", "4<|im_end|>\n<|im_start|>tool_response\nB"),
    ("step3", "4<|EOT|><|BOT|>user\n B"),
    ("think", "4<|im_end|>\n<|im_start|>user\nB"),
    ("think", "4<｜end▁of▁sentence｜><｜User｜>B"),
    ("think", "4<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nB"),
]
OWN_TURNS_ONLY = {"kimi_k3"}  # another role's turn begins as one of its own does


def test_every_family_says_how_another_roles_turn_begins() -> None:
    assert {family for family, _ in RUN_ONS} == set(FAMILIES) - OWN_TURNS_ONLY


@pytest.mark.parametrize(("family", "raw"), RUN_ONS)
def test_another_roles_turn_behind_the_end_of_turn_is_suppressed(family: str, raw: str) -> None:  # contract rule 11
    got = one_reading(RULES.dialects[family], raw, "content")
    assert (got.reasoning, got.content.strip()) == ("", "4")


# ---------------------------------------------------------------------- reasoning of earlier turns

LEFT = "apertus cohere dots ernie45 generic granite hunyuan_a13b interns1 kimi_unicode minicpmv minimax_m3 mistral"
LEFT += " nanbeige olmo3 plamo3 step3 think"


@pytest.mark.parametrize("family", FAMILIES)
def test_what_becomes_of_old_reasoning_is_the_templates_business_but_for_harmony(family: str) -> None:
    wanted = "tool_loop" if family == "harmony" else "leave" if family in LEFT.split() else "keep"
    assert RULES.dialects[family].history == wanted


# ---------------------------------------------------------------------- a family of the user's own

ACME = """\
name: acme
summary: a family nobody has heard of
kind: control
aliases: {vllm: [acme_parser]}
models: ["*acme*"]
replay: true
thoughts:
  - {open: ["<<mull>>"], close: ["<</mull>>"]}
answer: {open: ["<<say>>"], close: ["<</say>>"]}
framing: ["<<over>>"]
special: ["<<pad>>"]
samples:
  - {raw: "<<mull>>two and two<</mull>><<say>>4<</say>><<over>>", reasoning: two and two, content: "4"}
"""


@pytest.fixture
def acme(tmp_path: Path) -> Dialect:
    file = tmp_path / "dialects" / "acme.yaml"
    file.parent.mkdir()
    file.write_text(ACME, "utf-8")
    found = load_rulebook([tmp_path]).resolve({"reasoning": "acme_parser"}, engine="vllm").dialect
    assert found is not None
    return found


def answers(acme: Dialect, raw: str, **settings: str) -> Iterator[tuple[tuple[str, str], dict[str, int]]]:
    """What the client is told, and findings, with `raw` as the engine's content: whole, and streamed at every cut."""
    rules = partial(route, read_as=acme, profile=Profile.FULL, **settings)
    whole = plain(message(content=raw), rules())
    yield whole.said, whole.findings
    for size in (*CUTS, len(raw)):
        deltas = [delta(content=piece) for piece in cut(raw, size)]
        told = streamed([*deltas, delta(finish="stop"), DONE], rules())
        yield told.said, told.findings


RAW = {"source": "text", "starts_in": "reasoning"}
FIELDS = {"source": "fields", "starts_in": "content"}


@pytest.mark.parametrize(
    ("settings", "raw", "said", "findings"),
    [
        (RAW, "plan<</mull>><<say>>4<</say>><<over>>", ("plan", "4"), {}),
        (RAW, "It is 4.<</say>><<over>>", ("It is 4.", "It is 4."), {"answer_in_reasoning/replayed": 1}),
        (FIELDS, "<<mull>>plan<</mull>>4", ("plan", "4"), {"boundary_token/stripped": 2, "reasoning_leak/moved": 1}),
        (FIELDS, "<<pad>>4<<over>>", ("", "4"), {"special_token/stripped": 1, "boundary_token/stripped": 1}),
        (FIELDS, "Write `<<over>>` to end.", ("", "Write `<<over>>` to end."), {}),
    ],
)
def test_one_file_makes_a_family_with_one_reading_replay_and_findings(
    acme: Dialect, settings: dict[str, str], raw: str, said: tuple[str, str], findings: dict[str, int]
) -> None:
    for told in answers(acme, raw, **settings):
        assert told == (said, findings)


def test_the_file_is_tested_by_existing(acme: Dialect, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(tmp_path / "dialects" / "acme.yaml")]) == 0
    assert "all as declared" in capsys.readouterr().out
    broken = ACME.replace('content: "4"}', 'content: "5"}')
    (tmp_path / "acme.yaml").write_text(broken, "utf-8")
    assert main(["test", str(tmp_path / "acme.yaml")]) == 1


def test_the_worked_examples_of_the_readme_are_files_that_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fences = re.findall(r"^```yaml\n(.*?)^```", (shipped_rules() / "README.md").read_text("utf-8"), re.M | re.S)
    examples = [text for text in fences if text.startswith("name: ")]
    for path, text in zip(("dialects/acme.yaml", "calls/acme.yaml", "engines/vllm.yaml"), examples, strict=True):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text, "utf-8")
        assert main(["test", str(tmp_path / path)]) == 0
        assert "not tried" not in capsys.readouterr().out
