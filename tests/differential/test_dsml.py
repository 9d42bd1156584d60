"""DSML against DeepSeek's own implementation, PyPI `deepseek-recipe` 0.2.0: it writes turns, and both read them.

Where the two differ is written down below, each with the reason. The reference serves one model whose output it trusts:
it has no declared names, no quotes and no finish to ask for.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import Case, Got, plain, recut, streamed, value

recipe = pytest.importorskip("deepseek_recipe", reason="the extra `differential` is not installed")

MODELS = {"deepseek_v4": "DeepSeek-V4-Pro", "deepseek_v41": "DeepSeek-V4.1-Flash"}
ENCODINGS = {"deepseek_v4": recipe.DeepseekV4Encoding, "deepseek_v41": recipe.DeepseekV41Encoding}
NAMES = ("get_weather", "search", "f")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in NAMES]
Read = tuple[str, str, list[tuple[str, Any]]]
"""Reasoning and content without white space around them, and the calls."""


def written(parser: str, thought: str, content: str, calls: list[tuple[str, dict[str, Any]]]) -> str:
    """The turn as the reference writes it, behind the `<think>` that ends the prompt."""
    made = [recipe.ToolCall(f"c{n}", name, json.dumps(given)) for n, (name, given) in enumerate(calls)]
    turn = recipe.AssistantMessage(content, reasoning_content=thought, tool_calls=made or None)
    results = [recipe.ToolMessage("r", tool_call_id=call.id) for call in made]
    definitions = [recipe.ToolDefinition(name, parameters={"type": "object"}) for name in NAMES]
    conversation = recipe.Conversation([recipe.UserMessage("hi"), turn, *results], tools=definitions)
    prompt = ENCODINGS[parser]().render_conversation(conversation).prompt
    return prompt.partition("<｜Assistant｜><think>")[2].partition("<｜end▁of▁sentence｜>")[0]


def theirs(parser: str, text: str, pieces: list[str], *, thinking: bool = True) -> Read:
    """What the reference reads, sent in pieces. Arguments that are no JSON stay text."""
    model = MODELS[parser]
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS}
    request = recipe.ChatCompletionRequest(body).convert(recipe.ConversionOptions())
    stage = recipe.ThinkingInitialStage.ReasoningStart if thinking else None
    reader = recipe.StreamProcessor(
        recipe.ChatCompletionRequest.chunk_generator(request, "id", model),
        recipe.ParsingOptions(thinking_initial_stage=stage),
    )
    sent = [recipe.InferenceChunk.ready(), *(recipe.InferenceChunk.text(piece, 1) for piece in pieces)]
    sent.append(recipe.InferenceChunk.finish(recipe.InferenceFinishReason.Stop))
    chunks = [chunk for each in sent for chunk in reader.push(each)] + reader.finish()
    response = recipe.ChatCompletionResponse("id", model, 0, 1, 0)
    for chunk in chunks:
        response.accumulate(chunk)
    message = json.loads(response.to_json())["choices"][0]["message"]
    calls = [call["function"] for call in message.get("tool_calls") or []]
    told = [(call["name"], value(call["arguments"])) for call in calls]
    return (message.get("reasoning_content") or "").strip(), (message.get("content") or "").strip(), told


def ours(parser: str, text: str, size: int, *, thinking: bool = True) -> Read:
    """What we read, sent in pieces of `size` characters; 0: in a plain answer."""
    made: Case = {
        "dialect": {"reasoning": parser, "tools": parser},
        "engine": "vllm",
        "source": "text",
        "starts_in": "reasoning" if thinking else "content",
        "request": {"messages": [], "tools": TOOLS},
        "finish": "stop",
    }
    got: Got = streamed(made, list(recut([{"content": text}], size))) if size else plain(made, {"content": text})
    assert got.wrong == []
    return got.reasoning.strip(), got.content.strip(), got.told


WORDS = st.text("ab 京\n.,", max_size=30).map(str.strip).filter(bool)
MARKUP = (
    "<｜DSML｜",
    '<｜DSML｜invoke name="f">',
    "<tool_calls>",
    "<think>",
    "</think>",
    "&lt;",
    "\\n",
    "`",
    "{",
    "]",
    '"',
)
STRINGS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.lists(st.sampled_from((*MARKUP, " ", "\n", "x", "1", "true", "null")), max_size=5).map("".join),
)
VALUES = st.recursive(
    st.one_of(STRINGS, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(NAMES), st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=3)
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("parser", MODELS)
@given(thought=WORDS, content=st.just("") | WORDS, calls=CALLS, size=st.sampled_from([0, 1, 2, 3, 7]))
def test_what_the_reference_writes_is_read_as_it_was_meant_by_both(
    parser: str, thought: str, content: str, calls: list[tuple[str, dict[str, Any]]], size: int
) -> None:
    text = written(parser, thought, content, calls)
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    assert ours(parser, text, size) == (thought, content, calls)
    assert theirs(parser, text, pieces) == (thought, content, calls)


def block(inner: str, name: str = "f") -> str:
    return f'<｜DSML｜tool_calls>\n<｜DSML｜invoke name="{name}">\n{inner}\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'


def argument(text: str, attributes: str = 'name="a" string="true"') -> str:
    return f"<｜DSML｜parameter {attributes}>{text}</｜DSML｜parameter>"


X = [("f", {"a": "x"})]
CUT = block(argument("x")).partition("x</")[0] + "x"
KNOWN: dict[str, tuple[str, Read, Read]] = {  # what differs, and why: a text, what the reference reads, what we do
    "the closer of a call in a value ends the call: the rest is lost (rule 5: only the value's own closer is live)": (
        block(argument("</｜DSML｜invoke>")),
        ("", "", [("f", {"a": ""})]),
        ("", "", [("f", {"a": "</｜DSML｜invoke>"})]),
    ),
    "so does the closer of the section": (
        block(argument("</｜DSML｜tool_calls>")),
        ("", "", [("f", {"a": ""})]),
        ("", "", [("f", {"a": "</｜DSML｜tool_calls>"})]),
    ),
    "a name that nobody declared is called (rule 5: a declared name)": (
        block(argument("x"), name="g"),
        ("", "", [("g", {"a": "x"})]),
        ("", block(argument("x"), name="g"), []),
    ),
    "a call in a fence is called, its fence is cut (rule 3: quoted is data)": (
        f"```\n{block(argument('x'))}\n```",
        ("", "```", X),
        ("", f"```\n{block(argument('x'))}\n```", []),
    ),
    "words behind the section are lost (rule 2: nothing is lost)": (
        f"{block(argument('x'))} after",
        ("", "", X),
        ("", "after", X),
    ),
    "a second section is lost (rule 2)": (
        f"{block(argument('x'))}\n{block(argument('y'))}",
        ("", "", X),
        ("", "", [*X, ("f", {"a": "y"})]),
    ),
    "a call that broke off is called with half a text (rule 5: complete arguments)": (
        CUT,
        ("", "", [("f", '{"a": "x')]),
        ("", CUT, []),
    ),
    "a value of no JSON is sent as if it were (rule 5: what does not parse stays a string)": (
        block(argument("x", 'name="a" string="false"')),
        ("", "", [("f", '{"a": x}')]),
        ("", "", X),
    ),
    "plain bars are no markup (seen in the field: lsdefine/GenericAgent #804)": (
        block(argument("x")).replace("｜", "|"),
        ("", block(argument("x")).replace("｜", "|"), []),
        ("", "", X),
    ),
}


@pytest.mark.parametrize("why", KNOWN)
def test_where_we_differ_from_the_reference_is_known_divergence(why: str) -> None:
    text, reference, gateway = KNOWN[why]
    assert theirs("deepseek_v4", text, list(text), thinking=False) == reference
    for size in (0, 1, 7):
        assert ours("deepseek_v4", text, size, thinking=False) == gateway
