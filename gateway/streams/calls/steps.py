"""A body that is read step by step: the loop over its steps, and how it ends.

A step reads on from a place and returns where it came to; it names the next step in `_step`. One that stays where it
is, and the next one, needs more text. Knows no format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from gateway.streams.calls.call import Call, Status

Step: TypeAlias = Callable[[Any, str, int, bool], int]


class Steps:
    """The state of one body. `first`: the step that reads its first character, as a function of the class."""

    __slots__ = ("_step", "calls", "status")

    def __init__(self, first: Step) -> None:
        self._step = first
        self.calls: list[Call] = []
        self.status = Status.OPEN

    def read(self, text: str, at: int, *, final: bool) -> int:
        """See `BodyReader`."""
        while self.status is Status.OPEN:
            begun, step = at, self._step
            at = step(self, text, at, final)
            if at == begun and self._step is step:
                break
        return at

    def _done(self, at: int) -> int:
        """The body, which is one call, ends at `at`."""
        self.calls[0].closed = True
        self.status = Status.DONE
        return at

    def _broken(self, at: int) -> int:
        """The body stopped being one at `at`."""
        self.status = Status.BROKEN
        return at


class ArgumentSteps(Steps, ABC):
    """The state of a body that writes its arguments one by one.

    `_whole`: nothing but closers may be missing, if the text ends between arguments.
    """

    __slots__ = ("_whole",)

    def __init__(self, first: Step) -> None:
        super().__init__(first)
        self._whole = False

    @property
    def complete(self) -> bool:
        """See `BodyReader`. A name alone is not: nobody knows whether arguments were to come."""
        if self.status is Status.OPEN:
            return self._whole and self._step is type(self)._between
        return self.status is Status.DONE

    @abstractmethod
    def _between(self, text: str, at: int, final: bool) -> int:
        """The step behind the name, or an argument: what may follow it, or a closer."""
