"""A tokenizer file: which markers are one token, and the text of ids. Ids are those of a recorded answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.rulebook.load import load_rulebook
from gateway.rulebook.marked import atoms_of
from gateway.server.vocabulary import MISSING, Vocabulary
from tests.support.vocabulary import tiny

# r1-raw-chat-stop-token-ids-full
IDS = [4035, 43, 317, 392, 1094, 982, 464, 13, 4036, 926, 744, 301, 939, 17, 13]


def test_the_ids_of_a_recorded_answer_are_its_script() -> None:
    spell = tiny().spelling()
    assert "".join(map(spell, IDS)) == "<think>Let me think about it.</think>The answer is 42."


def test_a_character_comes_with_its_last_id_and_each_output_has_its_own_state() -> None:
    first, second = tiny().spelling(), tiny().spelling()
    assert [first(127), second(127), first(102), second(102)] == ["", "", "é", "é"]


@pytest.mark.parametrize("ident", [-1, 4052, 10**9])
def test_an_id_that_the_file_does_not_have_is_one_replacement(ident: int) -> None:
    assert tiny().spelling()(ident) == MISSING


def test_the_markers_of_a_dialect_that_are_one_token_are_known_by_id_and_text() -> None:
    found = tiny().markers(atoms_of(load_rulebook().dialects["deepseek"]))
    assert {4035: "<think>", 4036: "</think>"}.items() <= found.ids.items()
    assert found.texts == frozenset(found.ids.values())
    assert "<｜User｜>" not in found.texts  # this model's vocabulary has no such token


def test_special_tokens_are_those_that_the_file_calls_so() -> None:
    assert 4002 in tiny().special  # <|im_end|>
    assert not {4035, 4036, 13} & tiny().special  # the think tags are added, and no special tokens


@pytest.mark.parametrize("text", ["", "{}", '{"model": {}}'])
def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"tokenizer\.json is no tokenizer\.json of the `tokenizers` library"):
        Vocabulary(file)


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=r"pip install 'integrity-gateway\[tokens\]'"):
        Vocabulary(tmp_path / "tokenizer.json")
