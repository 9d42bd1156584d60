"""What a marker means where it stands: contract rule 3 (guards), 4 (endings), 8 (holds), 11 (another role).

Every row is read at every cutting. The channels of Kimi K3 are in `test_truth_table.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.events import CONTENT, FOREIGN, REASONING, TOOL, Decision, Effect, Group, ToolText
from gateway.rulebook.compile import compile_dialect
from gateway.rulebook.dialect import Dialect, Kind, Reopen, Thought
from gateway.rulebook.load import load_rulebook
from gateway.streams.grammar import Take, Takes
from gateway.streams.verdicts import FAILURES
from tests.support.reader import Setup, answer, cut, cuttings, read, setup, text_of
from tests.support.tagged import EVERYTHING, NOTHING, TAGGED, WATCHED

ANY = (True, False)
YES, NO = (True,), (False,)


def assert_reads(made: Setup, raw: str, wanted: tuple[str, str], endings: tuple[bool, ...] = ANY) -> None:
    for stopped in endings:
        whole, *others = (read(made, pieces, stopped=stopped) for pieces in cuttings(raw, seed=len(raw)))
        assert answer(whole) == wanted, stopped
        assert all(other == whole for other in others), stopped


TAG_OPENERS = [
    ("think", "<think>r</think>a", ("r", "a"), "the first thing"),
    ("think", " \n<think>r</think>a", ("r", " \na"), "only white space was released"),
    ("think", "<think>r</think> <think>s</think>a", ("rs", " a"), "right after a closer, white space between"),
    ("think", "x\n <think>r</think>a", ("r", "x\n a"), "a line start"),
    ("think", "x <think>r</think> a", ("", "x <think>r</think> a"), "the middle of a line"),
    ("think", "x\n```\n<think>\n", ("", "x\n```\n<think>\n"), "inside a fence"),
    ("think", "x\n> <think>r", ("", "x\n> <think>r"), "behind a quotation mark"),
    ("think", "Say `<think>` here", ("", "Say `<think>` here"), "inline code"),
    ("think", "x</think>\n```\n<think>", ("", "x\n```\n<think>"), "a fence after a closer"),
    ("think", "<think>\n<think>r</think>a", ("\nr", "a"), "a thought that is white space so far"),
    ("think", "<think>r\n<think>s</think>a", ("r\n<think>s", "a"), "inside a thought it is text"),
    ("generic", "<think>r</think>\n<think>s</think>a", ("rs", "\na"), "after_closer: right after a closer"),
    ("generic", "x\n<think>r", ("", "x\n<think>r"), "after_closer: not at a line start"),
    ("generic", "<reasoning>not </think> yet</reasoning>a", ("not </think> yet", "a"), "closed by its own closer"),
    ("generic", "<thinking><think>r</thinking>s</think>a", ("r</thinking>s", "a"), "the last opener names the closer"),
]


@pytest.mark.parametrize(("dialect", "raw", "wanted", "place"), TAG_OPENERS)
def test_a_tag_opener_counts_by_its_place(dialect: str, raw: str, wanted: tuple[str, str], place: str) -> None:
    assert_reads(setup(dialect), raw, wanted)


NEVER = Setup(
    grammar=compile_dialect(
        Dialect(
            name="never",
            summary="",
            kind=Kind.TAG,
            aliases={},
            reopen=Reopen.NEVER,
            thoughts=(Thought(open=("<a>",), close=("</a>",)),),
            answer_open=("<r>",),
        )
    )
)


def test_an_answer_of_a_dialect_that_never_reopens_keeps_an_opener_after_a_closer() -> None:
    assert_reads(NEVER, "<a>r</a><a>s", ("r", "<a>s"))


WRAPPERS = [
    ("never", "<a>r</a><r>a", ("r", "a"), "right after a closer"),
    ("never", "<a> <r>a", (" ", "a"), "a thought that is white space so far"),
    ("never", "<a>r\n<r>s", ("r\n<r>s", ""), "inside a thought it is text"),
    ("never", "Say `<r>` or\n<r>", ("", "Say `<r>` or\n<r>"), "in an answer it is text"),
    ("hunyuan_a13b", "<answer>\na\n</answer>", ("", "a"), "the line breaks are part of the markers"),
    ("hunyuan_a13b", "Use </answer> here", ("", "Use </answer> here"), "a closer in the middle of a line"),
    ("hunyuan_a13b", "Say `</answer>` here", ("", "Say `</answer>` here"), "a quoted closer"),
    ("hunyuan_a13b", "a</answer><|eos|>", ("", "a"), "only closers follow"),
    ("hunyuan_a13b", "<think>r </answer> s\n</think>a", ("r </answer> s", "a"), "a closer in a thought is text"),
    ("hunyuan_a13b", "x\n</think>\ny", ("", "xy"), "a think closer with its line breaks stands at a line start"),
    ("hunyuan_a13b", "x</think>\ny", ("", "xy"), "and at a line end"),
    ("hunyuan_a13b", "x\n<think>\nr\n</think>\ny", ("r", "x\ny"), "so does an opener"),
]


@pytest.mark.parametrize(("name", "raw", "wanted", "place"), WRAPPERS)
def test_the_wrapper_of_an_answer_of_tags_counts_by_its_place(
    name: str, raw: str, wanted: tuple[str, str], place: str
) -> None:
    assert_reads(NEVER if name == "never" else setup(name), raw, wanted, YES)


def test_an_answer_opener_among_control_tokens_ends_a_thought() -> None:
    assert_reads(setup("cohere", starts_open=True), "r<|START_TEXT|>a<|END_TEXT|>", ("r", "a"))


def test_a_closer_with_a_line_break_of_its_own_ends_a_thought_that_the_engine_split_off() -> None:
    made = setup("ernie45", starts_open=True, split=True)
    assert_reads(made, "It ends with \n</think>\n\n<response>\na", ("It ends with ", "a"))


TAG_CLOSERS = [
    ("</think>Hi", ANY, "Hi", "the answer's first thing"),
    (" \n</think>Hi", ANY, " \nHi", "behind white space only"),
    ("<think></think> </think>Hi", ANY, " Hi", "right after a closer"),
    ("Hi\n</think>you", ANY, "Hi\nyou", "a line start"),
    ("Hi</think>\nyou", ANY, "Hi\nyou", "a line end"),
    ("Hi</think>\r\nyou", ANY, "Hi\r\nyou", "a line end"),
    ("Hi</think>", ANY, "Hi", "the end of the output"),
    ("Hi</think> you", ANY, "Hi</think> you", "the middle of a line"),
    ("Say `</think>` here", ANY, "Say `</think>` here", "inline code"),
    ("```\n</think>\n```\nx", ANY, "```\n</think>\n```\nx", "a fence"),
    ("Say `</think>", YES, "Say `", "the model stopped, so the quote was none"),
    ("Say `</think>", NO, "Say `</think>", "cut: it may have been a quote"),
    ("Say `</think> \n", YES, "Say ` \n", "only white space follows"),
    ("Say `</think><|im_end|></think>", YES, "Say `", "only closers follow"),
    ("Say `</think><|im_", YES, "Say `</think><|im_", "the start of a closer is none"),
    ("Say `</think>x", YES, "Say `</think>x", "a word follows"),
]


@pytest.mark.parametrize(("raw", "endings", "content", "place"), TAG_CLOSERS)
def test_a_tag_closer_outside_a_thought_counts_by_its_place(
    raw: str, endings: tuple[bool, ...], content: str, place: str
) -> None:
    assert_reads(setup("think"), raw, ("", content), endings)


ENDS_OF_TURN = [
    (False, "Hi<|im_end|>", ANY, ("", "Hi"), "the end of the output"),
    (False, "Hi<|im_end|>\nyou", ANY, ("", "Hi\nyou"), "a line end"),
    (False, "Hi\n<|im_end|>you", ANY, ("", "Hi\nyou"), "a line start"),
    (False, "Hi<|im_end|> <|endoftext|>", YES, ("", "Hi "), "only closers follow"),
    (False, "Hi<|im_end|> you", ANY, ("", "Hi<|im_end|> you"), "the middle of a line"),
    (False, "Say `<|im_end|>` here", ANY, ("", "Say `<|im_end|>` here"), "inline code"),
    (False, "Say `<|im_end|>", YES, ("", "Say `"), "the model stopped, so the quote was none"),
    (True, "r<|im_end|>", YES, ("r", ""), "the end of a thought"),
    (True, "r<|im_end|>", NO, ("r<|im_end|>", ""), "cut inside a thought"),
    (True, "r\n<|im_end|>\ns</think>a", ANY, ("r\n<|im_end|>\ns", "a"), "inside a thought"),
]


@pytest.mark.parametrize(("starts_open", "raw", "endings", "wanted", "place"), ENDS_OF_TURN)
def test_an_end_of_turn_token_of_a_tag_dialect_counts_by_its_place(
    starts_open: bool, raw: str, endings: tuple[bool, ...], wanted: tuple[str, str], place: str
) -> None:
    assert_reads(setup("think", starts_open=starts_open), raw, wanted, endings)


TURNS = [  # contract rule 11
    ("qwen", "a<|im_end|>\n<|im_start|>user\nb<|im_end|>", ("", "a\n"), "user\nb<|im_end|>", "another role"),
    ("qwen", "a<|im_end|>\n<|im_start|>assistant\n<think>r</think>b", ("r", "a\nb"), "", "the assistant again"),
    ("qwen", "<|im_start|>assistant\na", ("", "a"), "", "the assistant's header at the start"),
    ("qwen", "<|im_start|>user\na", ("", "<|im_start|>user\na"), "", "another role's, behind no end of turn"),
    ("qwen", "a <|im_start|>user\nb", ("", "a <|im_start|>user\nb"), "", "a header in an answer"),
    ("qwen", "a<|im_end|>\n<|im_start|><|im_start|>\n", ("", "a\n\n"), "", "openers that say nothing"),
    ("qwen", "a<|im_end|>\n<|im_start|>", ("", "a\n"), "", "the output ends in the header"),
    ("qwen", "Say `<|im_end|>` `<|im_start|>user`", ("", "Say `<|im_end|>` `<|im_start|>user`"), "", "quoted"),
    ("deepseek", "a<｜end▁of▁sentence｜><｜User｜>b", ("", "a"), "<｜User｜>b", "a role token is a whole header"),
    ("deepseek", "a<｜end▁of▁sentence｜>b", ("", "a<｜end▁of▁sentence｜>b"), "", "no role behind the end of turn"),
    ("deepseek", "<｜Assistant｜><think>r</think>a", ("r", "a"), "", "the assistant's role token"),
    ("glm", "a<|user|>\nb", ("", "a"), "\nb", "an end of turn that is the next header"),
    ("glm", "a <|user|> b", ("", "a <|user|> b"), "", "which in the middle of a line is text"),
    ("glm", "<|user|>b", ("", ""), "b", "and at the start ends the turn"),
    ("glm", "a<|endoftext|><|assistant|>b", ("", "ab"), "", "and may be the assistant's"),
    ("glm", "a<|user|>b", ("", "a"), "b", "behind a word it needs no line break (GLM 4.7)"),
    ("glm", "a.<|observation|><tool_response>", ("", "a."), "<tool_response>", "nor behind a sentence"),
    ("glm", "四。<|user|>b", ("", "四。"), "b", "of any script"),
    ("glm", "用<|user|>表示", ("", "用<|user|>表示"), "", "in a script without blanks words tell nothing"),
    ("glm", "Roles:<|user|>,<|system|>", ("", "Roles:<|user|>,<|system|>"), "", "behind a sign that joins"),
    ("glm", "(<|user|>) or [<|user|>]", ("", "(<|user|>) or [<|user|>]"), "", "in brackets"),
    ("glm", "> a<|user|>b", ("", "> a<|user|>b"), "", "in a block quote"),
    ("glm", "```\na<|user|>b\n```\n", ("", "```\na<|user|>b\n```\n"), "", "in a fence"),
    ("mistral", "a</s> [INST]b", ("", "a "), "[INST]b", "blanks before the header"),
    ("mistral", "a</s>\n\n[INST]b", ("", "a\n\n"), "[INST]b", "line breaks before the header"),
    ("mistral", "a </s> [INST] b", ("", "a </s> [INST] b"), "", "both in a sentence"),
    ("mistral", "a </s>[INST]b", ("", "a "), "[INST]b", "at once it is one however the turn ended"),
    ("mistral", f"a</s>{' ' * 63}[INST]b", ("", f"a{' ' * 63}"), "[INST]b", "as many blanks as may be"),
    ("mistral", f"a</s>{' ' * 64}[INST]b", ("", f"a</s>{' ' * 64}[INST]b"), "", "more than the cap"),
    ("generic", "a<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nb", ("", "a"), "\nb", "the first of three"),
    ("generic", "a<|im_end|>\n<|start_of_role|>user<|end_of_role|>b", ("", "a\n"), "b", "the second"),
    ("generic", "a<|im_end|>\n<|start_of_role|>assistant<|end_of_role|>b", ("", "a\nb"), "", "by its own rules"),
    ("generic", "a<|im_end|><|user|>b", ("", "a"), "b", "the third"),
    ("generic", "a<|im_end|>\n<|start_of_role|><|user|>b", ("", "a\n"), "b", "one in another"),
]


@pytest.mark.parametrize(("dialect", "raw", "wanted", "foreign", "case"), TURNS)
def test_the_header_of_a_turn_counts_at_the_start_and_behind_an_end_of_turn(
    dialect: str, raw: str, wanted: tuple[str, str], foreign: str, case: str
) -> None:
    assert_reads(setup(dialect), raw, wanted)
    suppressed = text_of(read(setup(dialect), [raw], stopped=True), FOREIGN)
    assert foreign.endswith(suppressed) and bool(foreign) is bool(suppressed)


SENTENCES = [  # vLLM 0.33 granite
    ("Here's my thought process: r Here is my response: a", (" r ", " a"), "either spelling"),
    (" \nHere is my thought process:r", ("r", " \n"), "behind white space"),
    ("Well. Here is my thought process: a", ("", "Well. Here is my thought process: a"), "not the first thing"),
    ("a Here is my response: b", ("", "a Here is my response: b"), "a closer outside a thought"),
    ("a<|end_of_text|><|start_of_role|>user<|end_of_role|>b", ("", "a"), "another role"),
]


@pytest.mark.parametrize(("raw", "wanted", "case"), SENTENCES)
def test_a_plain_sentence_is_a_marker_at_the_very_start_and_in_its_own_thought(
    raw: str, wanted: tuple[str, str], case: str
) -> None:
    assert_reads(setup("granite"), raw, wanted)


def test_a_sentence_in_the_middle_of_a_line_ends_a_thought_that_the_engine_split_off() -> None:
    made = setup("granite", starts_open=True, split=True)
    assert_reads(made, "r. Here is my response: a", ("r. ", " a"))


TAILS = [  # vLLM 0.33 hy_v3, hy_v4
    ("<think:6124c78e>r</think:6124c78e>a", ("r", "a"), "a suffix"),
    ("<think:opensource>r</think>a", ("r", "a"), "on one tag only"),
    ("<think:>r", ("", "<think:>r"), "an empty suffix"),
    ("<think:no tag>r", ("", "<think:no tag>r"), "words"),
    (f"<think:{'x' * 24}>r", ("r", ""), "as long as it may be"),
    (f"<think:{'x' * 25}>r", ("", f"<think:{'x' * 25}>r"), "longer"),
    ("<think:612", ("", "<think:612"), "cut short"),
]


@pytest.mark.parametrize(("raw", "wanted", "case"), TAILS)
def test_a_tag_may_carry_a_suffix(raw: str, wanted: tuple[str, str], case: str) -> None:
    assert_reads(setup("hunyuan"), raw, wanted)


@pytest.mark.parametrize(
    ("raw", "content"),
    [("a<pad>b<pad>", "ab"), ("Say `<pad>` here", "Say `<pad>` here"), ("<|channel><pad><channel|>a", "a")],
)
def test_a_special_token_is_dropped_wherever_it_is_not_quoted(raw: str, content: str) -> None:
    assert_reads(setup("gemma4"), raw, ("", content))


MUSE_CALL = ' to=f<|message|><atem:invoke name="f"></atem:invoke><|eom|>'
FIRST = [  # vLLM 0.33 muse: the prompt ends in `<|start|>assistant`
    (f"{MUSE_CALL}<|start|>assistant to=user<|message|>a", MUSE_CALL, "a"),
    ("a to=f<|message|>b", "", "a to=f"),
    ("to=user is a header", "", "to=user is a header"),
]


@pytest.mark.parametrize(("raw", "tool", "content"), FIRST)
def test_the_rest_of_a_header_that_the_prompt_began_counts_at_the_start_only(raw: str, tool: str, content: str) -> None:
    for pieces in cuttings(raw, seed=2):
        segments = read(setup("muse"), pieces, stopped=True)
        assert (text_of(segments, TOOL), text_of(segments, CONTENT)) == (tool, content)


START, CHANNEL, MESSAGE, END, CALL = "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>"
ANALYSIS, FINAL = f"{CHANNEL}analysis{MESSAGE}", f"{CHANNEL}final{MESSAGE}"
TO = f"{CHANNEL}commentary to=functions.f <|constrain|>json{MESSAGE}"

HARMONY = [
    (f"{ANALYSIS}r{END}{START}assistant{FINAL}a<|return|>", "r", "a", "", "", "as trained"),
    (f"{ANALYSIS}r{END}{FINAL}a", "r", "a", "", "", "the start of the second message is missing"),
    (f"{ANALYSIS}r{FINAL}a", "r", "a", "", "", "the end of the first is missing"),
    (f"{START}assistant{MESSAGE}a", "", "a", "", "", "no channel"),
    (f"{CHANNEL}commentary{MESSAGE}I look.{END}{FINAL}a", "", "I look.a", "", "", "a preamble is answer"),
    (f"Hello {ANALYSIS}r{END}{FINAL}a", "r", "Hello a", "", "", "a header before the answer counts"),
    (f"{FINAL}a {ANALYSIS}b", "", f"a {ANALYSIS}b", "", "", "in the answer it does not"),
    (f"{ANALYSIS}r{END}{START}assistant{TO}{{}}{CALL}", "r", "", f"{TO}{{}}{CALL}", "assistant", "a call"),
    (f'{TO}{{"a": "{ANALYSIS}"}}{CALL}a', "", "a", f'{TO}{{"a": "{ANALYSIS}"}}{CALL}', "", "nothing is live in a call"),
    (f"{TO}{{}}{ANALYSIS}r{END}{FINAL}a", "r", "a", f"{TO}{{}}", "", "the next header ends a call as well"),
    (f"{FINAL}a{END}{START}user{MESSAGE}b{END}{FINAL}c", "", "a", "", "", "another role speaks"),
    (f"{START}system{MESSAGE}b", "", f"{START}system{MESSAGE}b", "", "", "another role, but no turn has ended"),
    (f"{CHANNEL}other{MESSAGE}b", "", f"{CHANNEL}other{MESSAGE}b", "", "", "an unknown channel"),
    (f"{CHANNEL}final\n{MESSAGE}b", "", f"{CHANNEL}final\n{MESSAGE}b", "", "", "a line break in the header"),
    (f"{CHANNEL}final{END}b", "", f"{CHANNEL}final{END}b", "", "", "another marker in the header"),
    (f"{START}assistant", "", f"{START}assistant", "", "", "the output ends in the header"),
    (f"{START}{START}assistant{FINAL}b", "", f"{START}b", "", "", "the opener twice"),
]


@pytest.mark.parametrize(("raw", "reasoning", "content", "tool", "before_call", "case"), HARMONY)
def test_a_header_says_where_the_body_of_its_message_belongs(
    raw: str, reasoning: str, content: str, tool: str, before_call: str, case: str
) -> None:
    forwarded = tool and (START + before_call if before_call else "") + tool
    assert_reads(setup("harmony"), raw, (reasoning, content + forwarded if before_call else forwarded + content))
    assert text_of(read(setup("harmony"), [raw], stopped=True), TOOL) == forwarded


def test_what_another_role_says_is_suppressed_to_the_end() -> None:
    segments = read(setup("harmony"), [f"{FINAL}a{END}{START}user{MESSAGE}b{END}{FINAL}c"], stopped=True)
    assert text_of(segments, FOREIGN) == f"b{END}{FINAL}c"


@pytest.mark.parametrize(("text", "content"), [("assistant", "b"), ("assistant ", f"{START}assistant {MESSAGE}b")])
def test_a_header_longer_than_the_cap_is_text(text: str, content: str) -> None:
    assert_reads(setup("harmony", header_cap=9), f"{START}{text}{MESSAGE}b", ("", content))


@pytest.mark.parametrize("text", [f"{START}assistant{CHANNEL}analysis to say", CHANNEL * 3])
def test_no_more_than_the_cap_and_the_markers_around_it_waits_for_a_header(text: str) -> None:
    reader = setup("harmony", header_cap=20).reader()
    for character in text * 3:
        reader.feed(character)
        assert len(reader.held) < len(CHANNEL) + 20 + len(MESSAGE)


def test_a_quoted_header_in_a_thought_that_the_engine_split_off_stays() -> None:
    raw = f"I write `{FINAL}` and then `{END}`."
    assert_reads(setup("harmony", starts_open=True, split=True), raw, (raw, ""))


CONTROL = [
    ("<|channel>thought\nr<channel|>a<turn|>", False, ("r", "a"), "as trained"),
    ("a <|channel>thought\nr<channel|>b", False, ("r", "a b"), "an opener before the answer, in text"),
    ("<|channel>r<channel|>a <|channel>b<channel|>c", False, ("r", "a <|channel>b<channel|>c"), "never in the answer"),
    ("<channel|>a", False, ("", "a"), "a closer before anything else"),
    (" <channel|>a", False, ("", " <channel|>a"), "behind a blank it is text"),
    ("<|channel>r<channel|>a<turn|><channel|>", False, ("r", "a<channel|>"), "behind an end of turn it is text"),
    ("<|channel><channel|>a<turn|><channel|>", False, ("", "a<channel|>"), "also when the thought was empty"),
    ("<turn|><channel|>a", False, ("", "<channel|>a"), "also when nothing was said before it"),
    ("<|channel>thought\nr<channel|>\n<|channel>thought\ns<channel|>a", False, ("rs", "\na"), "behind a closer"),
    ("<|channel>r<channel|>a\n<|channel>thought\n", False, ("r", "a\n<|channel>thought\n"), "not behind a word"),
    ("<|channel>r<channel|><|channel>final\na", False, ("r", "<|channel>final\na"), "there not without its label"),
    ("<|channel>r<channel|>\n<channel|>a", False, ("r", "\na"), "a closer twice"),
    ("<|channel>r<channel|>a<channel|>", False, ("r", "a<channel|>"), "a closer behind a word"),
    ("a<|tool_response>b", False, ("", "a"), "another role in the middle of a line"),
    ("a\n<|tool_response>\nb", False, ("", "a\n"), "or alone on its line"),
    ("<|channel>r<|tool_response>b", False, ("r", ""), "or in a thought"),
    ("a<turn|>\n<|tool_response>b", False, ("", "a\n"), "or behind an end of turn"),
    ("Say <|tool_response> now", False, ("", "Say <|tool_response> now"), "talked about"),
    ('"<|tool_response>" it is', False, ("", '"<|tool_response>" it is'), "in quotation marks"),
    ("a `<|channel>` b", False, ("", "a `<|channel>` b"), "quoted before the answer"),
    ("Say `<turn|>` and `<|tool_call>`", False, ("", "Say `<turn|>` and `<|tool_call>`"), "quoted in the answer"),
    ("r<|tool_call>x<tool_call|>a", True, ("r", "<|tool_call>x<tool_call|>a"), "a call ends a thought"),
]


@pytest.mark.parametrize(("raw", "starts_open", "wanted", "place"), CONTROL)
def test_a_control_token_counts_by_its_place(raw: str, starts_open: bool, wanted: tuple[str, str], place: str) -> None:
    assert_reads(setup("gemma4", starts_open=starts_open), raw, wanted)


CONTROL_FIELDS = [
    ("a<|tool_response>b", ("", "a"), "another role"),
    ("Say <|tool_response> now", ("", "Say <|tool_response> now"), "talked about"),
    ("<|channel>thought\nr<channel|><|channel>thought\ns<channel|>a <|channel>thought\n",
     ("rs", "a <|channel>thought\n"), "behind a closer, and no more in the answer"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "wanted", "place"), CONTROL_FIELDS)
def test_a_content_field_may_hold_control_tokens_too(raw: str, wanted: tuple[str, str], place: str) -> None:
    assert_reads(setup("gemma4", split=True), raw, wanted)


INVENTED = [  # vLLM 0.32 minimax_m2_append_think, recorded
    (False, "<think>a", ("", "a"), "the parser's alone"),
    (False, "<think><think>r</think>a", ("r", "a"), "then the model's"),
    (False, "<think>a\n<think>r</think>b", ("r", "a\nb"), "then one at a line start"),
    (False, " <think>r</think>a", ("r", " a"), "behind a blank it is the model's"),
    (False, "<think> <think>r</think>a", ("r", " a"), "the model's behind a blank"),
    (True, "<think>r</think>a", ("r", "a"), "in an open thought"),
    (True, "r<think>s</think>a", ("r<think>s", "a"), "in the middle of one it is text"),
]


@pytest.mark.parametrize(("starts_open", "raw", "wanted", "case"), INVENTED)
def test_what_the_engines_parser_writes_first_says_nothing(
    starts_open: bool, raw: str, wanted: tuple[str, str], case: str
) -> None:
    assert_reads(setup("minimax_append", starts_open=starts_open), raw, wanted)


def test_the_parsers_opener_is_framing_so_that_it_bounds_no_thought() -> None:
    for raw, groups in (("<think>a", ["framing"]), ("<think><think>r", ["framing", "think_open"])):
        segments = read(setup("minimax_append"), [raw], stopped=True)
        assert [item.group for _, item in segments if isinstance(item, Decision)] == groups


def test_a_field_that_the_engine_split_begins_with_no_opener_of_its_parser() -> None:
    assert_reads(setup("minimax_append", split=True), "<think>r</think>a", ("r", "a"))


SPLIT_REASONING = [
    ("think", "The marker `</think>` ends it.", ANY, ("The marker `</think>` ends it.", ""), "inline code"),
    ("think", "```\n</think>\n```\nso", ANY, ("```\n</think>\n```\nso", ""), "a fence"),
    ("think", "The </think> tag", ANY, ("The </think> tag", ""), "the middle of a sentence"),
    ("think", 'The "</think>" tag', ANY, ('The "</think>" tag', ""), "quotation marks"),
    ("think", "done.</think>\n\nHello", ANY, ("done.", "\n\nHello"), "a spelled closer moves the rest"),
    ("think", "it ends with </think>\nHello", ANY, ("it ends with ", "\nHello"), "a line end"),
    ("think", "it ends with </think>", ANY, ("it ends with ", ""), "the end of the output"),
    ("think", " \n</think>Hello", ANY, (" \n", "Hello"), "before the first word"),
    ("think", "<think>r", ANY, ("r", ""), "an opener before the first word"),
    ("think", "r.</think>```\n<think>\n```", ANY, ("r.", "```\n<think>\n```"), "the thought's lines end with it"),
    ("kimi_k3", "r <|close|>think<|sep|> s", ANY, ("r <|close|>think<|sep|> s", ""), "the middle of a sentence"),
    ("kimi_k3", "r.<|close|>think<|sep|><|open|>response<|sep|>a", ANY, ("r.", "a"), "a spelled closer"),
    ("kimi_k3", "A `<|open|>response<|sep|>` b", ANY, ("A `<|open|>response<|sep|>` b", ""), "inline code"),
    ("kimi_k3", "A `<|open|>tools<|sep|>` b", ANY, ("A `<|open|>tools<|sep|>` b", ""), "inline code"),
    ("kimi_k3", "A `<|close|>response<|sep|>` b", ANY, ("A `<|close|>response<|sep|>` b", ""), "inline code"),
    ("kimi_k3", "A `<|end_of_msg|>` b", ANY, ("A `<|end_of_msg|>` b", ""), "inline code"),
    ("kimi_k3", "Hi.<|close|>response<|sep|><|close|>message<|sep|>", YES, ("Hi.", "Hi."), "a skipped channel"),
    ("gemma4", "r <|tool_call>x<tool_call|> s", ANY, ("r <|tool_call>x<tool_call|> s", ""), "a call in the thought"),
]


@pytest.mark.parametrize(("dialect", "raw", "endings", "wanted", "place"), SPLIT_REASONING)
def test_a_reasoning_field_keeps_what_it_quotes_and_ends_at_a_spelled_closer(
    dialect: str, raw: str, endings: tuple[bool, ...], wanted: tuple[str, str], place: str
) -> None:
    assert_reads(setup(dialect, starts_open=True, split=True), raw, wanted, endings)


SPLIT_CONTENT = [
    ("think", "<think>r</think>a", ("r", "a"), "a thought in the content moves"),
    ("think", "So be it.</think>a", ("", "So be it.a"), "a closer glued to a sentence that no opener goes with"),
    ("think", "A <think> b.</think>a", ("", "A <think> b.</think>a"), "an opener goes with it"),
    ("think", "Send </think>a", ("", "Send </think>a"), "no sentence ends before it"),
    ("kimi_k3", "<|open|>think<|sep|>r<|close|>think<|sep|>a", ("r", "a"), "at its start"),
    ("kimi_k3", "a<|open|>think<|sep|>b", ("", "a<|open|>think<|sep|>b"), "an answer is never reopened"),
]


@pytest.mark.parametrize(("dialect", "raw", "wanted", "case"), SPLIT_CONTENT)
def test_a_content_field_gives_up_a_thought_at_its_start(
    dialect: str, raw: str, wanted: tuple[str, str], case: str
) -> None:
    assert_reads(setup(dialect, split=True), raw, wanted)


RE, ME, TE = "<|close|>response<|sep|>", "<|close|>message<|sep|>", "<|close|>think<|sep|>"


@pytest.mark.parametrize("end", ["", ME, f"{ME}\n"])
def test_a_skipped_channel_is_replayed_though_a_quote_in_it_stayed_open(end: str) -> None:  # K1 to K3
    text = f"Run `ls{end.removeprefix(ME)}"
    assert_reads(setup("kimi_k3", starts_open=True, split=True), f"Run `ls{RE}{end}", (text, text), YES)


@pytest.mark.parametrize(
    ("blanks", "content"), [(7, "Say `" + " " * 7), (8, "Say `</think>" + " " * 8), (9, "Say `</think>" + " " * 9)]
)
def test_a_quoted_closer_waits_for_the_end_no_longer_than_the_cap(blanks: int, content: str) -> None:
    assert_reads(setup("think", run_cap=8), "Say `</think>" + " " * blanks, ("", content), YES)


# --- markers that are only talked about: what an attacker found (contract rules 2, 3 and 11)

RAW, CONTENT_FIELD, REASONING_FIELD = (False, False), (False, True), (True, True)
OPEN = (True, False)


def kinds(dialect: object, kind: tuple[bool, bool]) -> Setup:
    found = load_rulebook().resolve(dialect, engine=None).dialect  # type: ignore[arg-type]
    assert found is not None
    return Setup(grammar=compile_dialect(found), starts_open=kind[0], split=kind[1])


UNTOUCHED = [
    ("harmony", REASONING_FIELD, 'The log has "<|start|>user<|message|>Hi". Then I think on.'),
    ("harmony", REASONING_FIELD, "It ends in <|end|> or <|call|> and <|channel|>final<|message|> then more"),
    ("harmony", CONTENT_FIELD, "\n\n<|start|>system<|message|>You are…"),
    ("harmony", CONTENT_FIELD, '{"thought": "<|end|>"}'),
    ("harmony", CONTENT_FIELD, "Harmony uses <|end|> after each message"),
    ("gemma4", REASONING_FIELD, "The template ends with <turn|> so plan"),
    ("gemma4", REASONING_FIELD, 'quotes "<turn|>" here'),
    ("gemma4", CONTENT_FIELD, '{"eos": "<turn|>"}'),
    ("kimi_k3", REASONING_FIELD, "A <|open|>response<|sep|> opens the answer, more"),
    ("kimi_k3", CONTENT_FIELD, '{"k3": "<|end_of_msg|>", "r": "<|close|>response<|sep|>"}'),
    ("kimi_k3", RAW, '{"k3": "<|end_of_msg|>", "r": "<|close|>response<|sep|>"}'),
    ("generic", REASONING_FIELD, "format:\n<reasoning>2+2 is 4</reasoning>\n<answer>4</answer>\nBut then"),
    ("generic", CONTENT_FIELD, "- Before: <s>$99</s>\n- Now: $79"),
    ("mistral", RAW, "- Before: <s>$99</s>\n- Now: $79"),
    ("generic", CONTENT_FIELD, "<response>\n  <reasoning>Because 2+2=4</reasoning>\n  <answer>4</answer>\n</response>"),
]


@pytest.mark.parametrize(("dialect", "kind", "text"), UNTOUCHED)
def test_a_marker_that_is_only_talked_about_stays(dialect: str, kind: tuple[bool, bool], text: str) -> None:
    assert_reads(kinds(dialect, kind), text, (text, "") if kind is REASONING_FIELD else ("", text))


HERMES = {"reasoning": "qwen3", "tools": "hermes"}
REPAIRED = [
    ("gemma4", CONTENT_FIELD, "Hi.<turn|>", ("", "Hi.", "")),
    ("gemma4", CONTENT_FIELD, "ok<turn|>\n<|turn>user\nhi", ("", "ok\n", "hi")),
    ("harmony", CONTENT_FIELD, "The answer is 42.<|return|>", ("", "The answer is 42.", "")),
    ("harmony", REASONING_FIELD, "Let me think.<|end|><|channel|>final<|message|>42.", ("Let me think.", "42.", "")),
    ("kimi_k3", REASONING_FIELD, "Reply.<|close|>response<|sep|><|close|>message<|sep|>", ("Reply.", "Reply.", "")),
    ("generic", CONTENT_FIELD, "I am fine.</s>", ("", "I am fine.", "")),
    ("qwen", CONTENT_FIELD, "Done.<|im_end|><|im_start|>user\nThanks!", ("", "Done.", "Thanks!")),
    ("qwen", RAW, "Done.<|im_end|>\n<|im_start|>user\nMore", ("", "Done.\n", "More")),
    (
        HERMES,
        CONTENT_FIELD,
        "Call with <tool_call> tags.\n<think>a</think>Hi",
        ("a", "Call with <tool_call> tags.\nHi", ""),
    ),
    (
        "harmony",
        RAW,
        '<|channel|>analysis<|message|>It had "<|start|>user<|message|>Hi". 4.<|end|>'
        "<|start|>assistant<|channel|>final<|message|>4<|return|>",
        ('It had "<|start|>user<|message|>Hi". 4.', "4", ""),
    ),
    (
        "gemma4",
        RAW,
        "<|channel>thought\nx<channel|>It ends in <turn|> and opens with <|channel>thought\nas said.",
        ("x", "It ends in <turn|> and opens with <|channel>thought\nas said.", ""),
    ),
]


@pytest.mark.parametrize(("dialect", "kind", "text", "said"), REPAIRED)
def test_a_marker_that_does_its_work_is_still_read(
    dialect: object, kind: tuple[bool, bool], text: str, said: tuple[str, str, str]
) -> None:
    assert_reads(kinds(dialect, kind), text, said[:2], YES)
    assert text_of(read(kinds(dialect, kind), [text], stopped=True), FOREIGN) == said[2]


@pytest.mark.parametrize("size", [1, 4, 100])
def test_ends_of_turn_at_the_end_go_however_the_output_ended(size: int) -> None:
    made = kinds("qwen", CONTENT_FIELD)
    assert answer(read(made, cut("Done.<|im_end|><|im_end|>", size), stopped=False)) == ("", "Done.")


def test_white_space_past_the_cap_behind_a_mention_decides_for_the_mention() -> None:
    made = Setup(grammar=kinds("gemma4", CONTENT_FIELD).grammar, split=True, run_cap=4)
    assert_reads(made, 'a "x <turn|>' + " " * 4 + "<turn|>", ("", 'a "x <turn|>    '))


def test_a_message_after_another_one_may_open_a_thought() -> None:  # SGLang 0.5.23 inkling: typed blocks
    raw = "<|content_text|>a<|end_message|><|content_thinking|>r<|end_message|><|content_text|>b<|end_message|>"
    assert_reads(setup("inkling"), raw, ("r", "ab"))


DANGLING = [  # SGLang 0.5.23 minimax-m3: every tag of a call begins with it
    ("a]<]minimax[>[", "a", "markup that never came"),
    ("a ]<]minimax[>[ \n", "a  \n", "white space behind it"),
    ("a ]<]minimax[>[ b", "a ]<]minimax[>[ b", "something follows it"),
    ("Say `]<]minimax[>[", "Say `]<]minimax[>[", "quoted"),
    ("a ]<]minimax[>[" + " " * 64, "a ]<]minimax[>[" + " " * 64, "white space up to the cap"),
]


@pytest.mark.parametrize(("raw", "content", "case"), DANGLING)
def test_a_beginning_of_markup_with_nothing_behind_it_goes(raw: str, content: str, case: str) -> None:
    assert_reads(setup("minimax_m3"), raw, ("", content))


# --- where a call may begin (contract rule 5)

FORWARD, TEXT = Effect.FORWARD, Effect.TEXT
F = '{"name": "f"}'
TOOL_OPENERS = [
    ("<tool_call>", RAW, NOTHING, FORWARD, "opens a tool region"),
    (f"Sure.\n<tool_call>{F}", RAW, EVERYTHING, FORWARD, "opens a tool region"),
    (f"Now call <tool_call>{F}", RAW, EVERYTHING, FORWARD, "opens a tool region"),
    ("Now call <tool_call>", RAW, EVERYTHING, TEXT, "only mentioned"),
    ("Say <tool_call> now", RAW, WATCHED, TEXT, "only mentioned"),
    ("Say <tool_call> now", RAW, EVERYTHING, FORWARD, "opens a tool region"),  # what is held is told from it later
    ("Say <tool_call>, now", RAW, EVERYTHING, TEXT, "only mentioned"),
    (f'He said "<tool_call>{F}', RAW, EVERYTHING, TEXT, "quoted"),
    (f"> <tool_call>{F}", CONTENT_FIELD, EVERYTHING, TEXT, "quoted"),
    (f"Say <|call|> {F}", RAW, replace(NOTHING, control=Take.HOLD), FORWARD, "opens a tool region"),
    (f"Say <|call|> {F}", RAW, replace(EVERYTHING, control=Take.WATCH), TEXT, "only mentioned"),
    ("Say <tool_call>.", CONTENT_FIELD, NOTHING, TEXT, "only mentioned"),
    (f"Say `<tool_call>{F}", RAW, EVERYTHING, TEXT, "quoted"),
    (f"```\n<tool_call>{F}", CONTENT_FIELD, EVERYTHING, TEXT, "quoted"),
    (f"He wrote:\n> <tool_call>{F}", CONTENT_FIELD, EVERYTHING, TEXT, "quoted"),
    (f"The string “<tool_call>{F}", RAW, EVERYTHING, TEXT, "quoted"),
    (f'"text": "a <tool_call>{F}', RAW, EVERYTHING, TEXT, "quoted"),
    (F, RAW, EVERYTHING, FORWARD, "opens a tool region"),
    (F, RAW, WATCHED, FORWARD, "opens a tool region"),
    (F, RAW, NOTHING, TEXT, "no call begins here"),
    (f"x {F}", RAW, EVERYTHING, TEXT, "no call begins here"),
    (f"r <tool_call>{F}", OPEN, EVERYTHING, FORWARD, "may be a call, if the output ends with it"),
    (f"r <tool_call>{F}", OPEN, WATCHED, TEXT, "may be a call, if the output ends with it: only watched"),
    (f"r <tool_call>{F}", OPEN, NOTHING, TEXT, "still the thought"),
    (f"r <|call|>{F}", OPEN, NOTHING, FORWARD, "opens a tool region"),
    (f"r <|call|>{F}", REASONING_FIELD, EVERYTHING, FORWARD, "may be a call, if the output ends with it"),
    (f"r `<|call|>{F}", REASONING_FIELD, EVERYTHING, TEXT, "quoted"),
    (f"r `<|call|>{F}", OPEN, EVERYTHING, FORWARD, "opens a tool region"),
]


@pytest.mark.parametrize(("text", "kind", "takes", "effect", "reason"), TOOL_OPENERS)
def test_a_calls_opener_counts_by_its_place_and_by_what_is_taken(
    text: str, kind: tuple[bool, bool], takes: Takes, effect: Effect, reason: str
) -> None:
    made = Setup(grammar=compile_dialect(TAGGED), starts_open=kind[0], split=kind[1], takes=takes)
    for pieces in cuttings(text, seed=3):
        decisions = [item for _, item in read(made, pieces, stopped=True) if isinstance(item, Decision)]
        found = next(item for item in decisions if item.group is Group.TOOL_OPEN)
        assert (found.effect, found.reason) == (effect, reason)


def test_what_looked_like_calls_too_often_is_text_from_then_on() -> None:
    made = Setup(grammar=compile_dialect(TAGGED), takes=EVERYTHING)
    segments = read(made, ["<tool_call>x" * (FAILURES + 1)], stopped=True)
    reasons = [item.reason for _, item in segments if isinstance(item, Decision)]
    assert reasons == ["opens a tool region"] * FAILURES + ["too much that looked like calls was none"]


def test_a_message_to_a_tool_in_a_block_quote_is_text() -> None:
    text = f"{FINAL}He wrote:\n> {TO}{{}}"
    segments = read(setup("harmony", takes=EVERYTHING), [text], stopped=True)
    assert text_of(segments, CONTENT) == text.removeprefix(FINAL)


def test_a_message_to_a_tool_in_a_thought_that_the_engine_split_off_is_a_candidate_like_any_call() -> None:
    text = f"{TO}{{}}"
    taken = setup("harmony", starts_open=True, split=True, takes=EVERYTHING)
    assert text_of(read(taken, [text, "x"], stopped=True), REASONING) == f"{text}x"
    (found,) = [item for _, item in read(taken, [text], stopped=True) if isinstance(item, ToolText)]
    assert (found.thought, found.text) == (True, text)
    left = replace(taken, takes=replace(EVERYTHING, thought=Take.NO))
    assert text_of(read(left, [text], stopped=True), REASONING) == text


def test_a_message_to_a_tool_in_a_reasoning_field_is_a_candidate() -> None:
    for takes, effect in ((EVERYTHING, FORWARD), (WATCHED, TEXT), (NOTHING, TEXT)):
        made = setup("harmony", starts_open=True, split=True, takes=takes)
        segments = read(made, [f"I call it.\n{TO}{{}}"], stopped=True)
        assert [item.effect for _, item in segments if isinstance(item, Decision)][-1] is effect


def test_a_message_to_a_tool_follows_an_answer_only_where_calls_are_taken() -> None:
    rows = (("a", NOTHING, False), ("a", WATCHED, True), ('say "', WATCHED, False), ("\n> a", WATCHED, False))
    for before, takes, opens in rows:
        segments = read(setup("harmony", takes=takes), [f"{FINAL}{before}{TO}{{}}"], stopped=True)
        assert text_of(segments, TOOL) == (f"{TO}{{}}" if opens else ""), before
        assert text_of(segments, CONTENT, TOOL) == f"{before}{TO}{{}}"
