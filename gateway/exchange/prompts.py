"""What the prompts of a request tell of its answers: where each begins, and what it repeats.

A prompt whose last words are an opener has opened the thought: a fact (contract rule 9). Nothing else in it is one: a
thought further up may be quoted, or belong to another turn.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.integrity.setting import Setting
from gateway.protocols.protocol import RequestFacts
from gateway.rulebook.dialect import Dialect


def ends_in_opener(prompt: str, dialect: Dialect) -> bool:
    """True where the last words of a prompt open a thought."""
    return prompt.rstrip().endswith(tuple(opener.rstrip() for each in dialect.thoughts for opener in each.open))


class Prompts:
    """`setting`: that of the exchange. `asks`: the route leaves it to the prompt where an answer starts."""

    def __init__(self, facts: RequestFacts, setting: Setting, dialect: Dialect | None, *, asks: bool) -> None:
        self._facts = facts
        self._setting = setting
        self._asks = asks
        self._dialect = dialect
        self._opened: dict[int, bool] = {}

    def setting(self, index: object) -> Setting:
        """The setting of choice `index`. A prompt that is no text tells nothing."""
        place = self._place(index)
        prompt = self._facts.prompts[place] if self._asks and place is not None else None
        if prompt is None or place is None:
            return self._setting
        if place not in self._opened:
            self._opened[place] = self._dialect is not None and ends_in_opener(prompt, self._dialect)
        return replace(self._setting, starts_open=self._opened[place])

    def echo(self, index: object) -> str | None:
        """What the answer begins with of its prompt; None where that is not known."""
        if not self._facts.echo:
            return ""
        place = self._place(index)
        return None if place is None else self._facts.prompts[place]

    def _place(self, index: object) -> int | None:
        """Which prompt choice `index` answers; None where there is none of that number."""
        if type(index) is not int or not 0 <= index < len(self._facts.prompts) * self._facts.samples:
            return None
        return index // self._facts.samples
