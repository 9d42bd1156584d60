"""One of the engine's own calls while it comes, fragment by fragment: what is known of it, and what becomes of each.

Judges nothing: whether a whole call is right is asked elsewhere.
"""

from __future__ import annotations

from gateway.protocols.protocol import CallChange, Fragment
from gateway.streams.calls.call import Status
from gateway.streams.calls.json_value import JsonValue


class OwnCall:
    """One of the engine's own calls while it comes. `index`: as it goes out; `moved`: not as it was sent; `displaced`:
    because a call that the gateway wrote has its number.

    `sent`: how many fragments went out as they came, because they are a whole and clean call; `extra`: more came behind
    them. `over`: nothing of it waits any more.
    """

    __slots__ = (
        "_as_sent", "_named_at", "_out", "_pieces", "_value", "displaced", "extra", "fragments", "ident", "index",
        "length", "moved", "name", "over", "sent", "text", "tried",
    )  # fmt: skip

    def __init__(self, index: int, *, displaced: bool = False) -> None:
        self.index = index
        self.displaced = displaced
        self.ident: str | None = None
        self.moved = False
        self.name = ""
        self.text = True  # the arguments came as strings
        self.fragments = 0
        self.length = 0
        self.tried = False
        self.sent: int | None = None
        self.extra = False
        self.over = False
        self._named_at = 0  # the fragment with the id
        self._pieces: list[str] = []
        self._value = JsonValue()
        self._as_sent = ""
        self._out: tuple[str, str] | None = None  # name and arguments to be written in stead

    def take(self, fragment: Fragment) -> int:
        """The next fragment; returns its number."""
        number, self.fragments = self.fragments, self.fragments + 1
        if fragment.ident and not self.ident:
            self.ident, self._named_at = fragment.ident, number
        if not self.over:
            self.name += fragment.name or ""
            self.text = self.text and fragment.text
            self.length += len(fragment.arguments)
            self._pieces.append(fragment.arguments)
            self.extra = self.extra or (self.sent is not None and bool(fragment.arguments.strip()))
            if self._value.status is Status.OPEN:
                self._value.read(fragment.arguments, 0, final=False)
        return number

    @property
    def arguments(self) -> str:
        """What came of them, with the halves of a character joined that were cut apart."""
        text = "".join(self._pieces)
        try:
            text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return text

    @property
    def as_came(self) -> bool:
        """True where no character of the arguments was cut in two."""
        return self.arguments == "".join(self._pieces)

    @property
    def whole(self) -> bool:
        """True where the arguments are one JSON value, whatever follows it."""
        return self._value.status is Status.DONE

    @property
    def undecided(self) -> bool:
        """True where it is not known what becomes of all that came."""
        return not self.over and (self.sent is None or self.extra)

    def send(self) -> None:
        """What came so far goes out as it is."""
        self.sent = self.fragments
        self._as_sent = self.arguments

    def settle(self, name: str, arguments: str) -> None:
        """It is over. `name`, `arguments`: what it says, in stead of what came and has not gone out."""
        self._out = (name, arguments)
        self.give_up()

    def give_up(self) -> None:
        """It is over, and goes out as it came."""
        self.over = True
        self._pieces = []

    def went_out_as(self, arguments: str) -> bool:
        """True unless it went out already, saying something else than `arguments`."""
        return self.sent is None or arguments == self._as_sent

    def waits(self, number: int) -> bool:
        """True while fragment `number` cannot go out."""
        return self.undecided and number >= (self.sent or 0)

    def change(self, number: int) -> CallChange | None:
        """What becomes of fragment `number`; None: it goes out as it came."""
        if self._out is None or number < (self.sent or 0):
            return None
        if number == 0:
            return CallChange(name=self._out[0] or None, arguments=self._out[1])
        return CallChange(name="", arguments="") if number == self._named_at else CallChange(gone=True)
