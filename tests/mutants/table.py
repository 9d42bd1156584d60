"""The mutants of reader_spec 4.1a and 5.3, of the scanner's one rule, and of the faults once found in these modules.

A mutant is one change of one source fragment. `tests`: the pinned suites that must notice it.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLE = "tests/streams/test_truth_table.py"
REGIONS = "tests/streams/test_regions.py"
MARKERS = "tests/streams/test_markers.py"
DEDUP = "tests/integrity/test_dedup.py"
ENDPOINTS = "tests/properties/test_endpoints.py"
WORK = "tests/properties/test_work.py"


@dataclass(frozen=True, slots=True)
class Mutant:
    """`file` is relative to the package. `old` stands in it exactly once."""

    name: str
    file: str
    old: str
    new: str
    tests: str


READER = (
    Mutant(
        "a cut channel is replayed",
        "streams/regions.py",
        "if self._state in _THINKING and stopped:",
        "if self._state in _THINKING:",
        TABLE,
    ),
    Mutant(
        "the exchange does not say whether the model stopped",
        "exchange/reading.py",
        '"stopped": part.finish in _STOPPED,',
        '"stopped": True,',
        ENDPOINTS,
    ),
    Mutant(
        "a channel that ended at the think closer is replayed",
        "streams/regions.py",
        "if state is State.TOOLS and self._state in _THINKING:",
        "if (state is State.TOOLS or group is Group.THINK_CLOSE) and self._state in _THINKING:",
        TABLE,
    ),
    Mutant(
        "a channel that ended at the answer's opener is replayed",
        "streams/regions.py",
        "if state is State.TOOLS and self._state in _THINKING:",
        "if (state is State.TOOLS or group is Group.ANSWER_OPEN) and self._state in _THINKING:",
        TABLE,
    ),
    Mutant(
        "the exit to the tools needs a stop",
        "streams/regions.py",
        "if state is State.TOOLS and self._state in _THINKING:",
        "if state is State.TOOLS and self._state in _THINKING and self._stopped:",
        TABLE,
    ),
    Mutant(
        "white space clears the note",
        "streams/regions.py",
        "self._noted = self._noted and text.isspace()",
        "self._noted = False",
        TABLE,
    ),
    Mutant(
        "a held partial clears the note",
        "streams/regions.py",
        "            if self._grammar.replays and not partial:\n",
        "            self._noted &= not partial\n            if self._grammar.replays and not partial:\n",
        TABLE,
    ),
    Mutant(
        "a held partial enters the replay",
        "streams/regions.py",
        "            if self._grammar.replays and not partial:\n",
        "            if partial:\n                self._kept.append(text)\n            elif self._grammar.replays:\n",
        TABLE,
    ),
    Mutant(
        "an answer closer anywhere counts",
        "streams/regions.py",
        "self._noted = self._noted and text.isspace()",
        "pass",
        TABLE,
    ),
    Mutant(
        "an answer closer behind white space does not count",
        "streams/regions.py",
        "            self._noted = True\n",
        '            self._noted = not "".join(self._kept)[-1:].isspace()\n',
        TABLE,
    ),
    Mutant(
        "the search takes the shortest marker first",
        "streams/markers.py",
        "key=lambda marker: (-len(marker), marker)",
        "key=lambda marker: (len(marker), marker)",
        MARKERS,
    ),
    Mutant(
        "the opener of the tools is dropped at the start of the output",
        "streams/regions.py",
        'return Effect.FORWARD, "opens a tool region", State.TOOLS, rule.index',
        "return (Effect.DROP if self._pristine else Effect.FORWARD), '', State.TOOLS, rule.index",
        TABLE,
    ),
    Mutant(
        "dropped framing ends the start of the output",
        "streams/regions.py",
        '        return self._unless_mentioned((Effect.DROP, "framing", None, ANY), text, end, final)\n',
        "        self._pristine = False\n"
        '        return self._unless_mentioned((Effect.DROP, "framing", None, ANY), text, end, final)\n',
        TABLE,
    ),
    Mutant(
        "released white space does not end the start of the output",
        "streams/regions.py",
        "        self._pristine = False\n        blank = text.isspace()\n",
        "        blank = text.isspace()\n        self._pristine = self._pristine and blank\n",
        TABLE,
    ),
    Mutant(
        "adjacent reasoning is not joined by the reader",
        "streams/regions.py",
        "    if len(segments) < 2:\n",
        "    if segments:\n",
        REGIONS,
    ),
    Mutant(
        "adjacent reasoning is not joined for the client",
        "integrity/pipeline.py",
        "    if len(pieces) < 2:\n",
        "    if pieces:\n",
        ENDPOINTS,
    ),
    Mutant(
        "a replay is compared with the reasoning",
        "integrity/outlet.py",
        "        self.dedup.off()\n        self.said = True\n        out.append((REPLAY, text))\n",
        "        self._send_content(text, out)\n",
        ENDPOINTS,
    ),
    Mutant(
        "the text of a channel is kept after the channel closed",
        "streams/regions.py",
        "        if was_thinking and not thinks:\n            self._kept.clear()\n",
        "        if was_thinking and not thinks:\n",
        TABLE,
    ),
    Mutant(
        "the note outlives its channel",
        "streams/regions.py",
        "self._noted, self._kept_size, self.replay_capped = False, 0, False",
        "self._kept_size, self.replay_capped = 0, False",
        TABLE,
    ),
    Mutant(
        "framing is live inside an argument",
        "rulebook/compile.py",
        "plans[State.ARGUMENT, index] = Plan(closer)",
        "plans[State.ARGUMENT, index] = Plan(closer | dict(_in_region(region, index)))",
        TABLE,
    ),
)

SCANNER = (
    Mutant(
        "a hit at the cut is accepted",
        "streams/markers.py",
        "hit.start() >= cut",
        "hit.start() > cut",
        MARKERS,
    ),
    Mutant(
        "the end of the output decides nothing",
        "streams/markers.py",
        "cut = size if final else self.cut(text, start)",
        "cut = self.cut(text, start)",
        MARKERS,
    ),
    Mutant(
        "the shortest start of a marker is held",
        "streams/markers.py",
        "        for lead in self.leads:\n            at = text.find(lead, floor, best)\n",
        "        for lead in self.leads:\n            at = text.rfind(lead, floor, best)\n",
        MARKERS,
    ),
    Mutant(
        "every hit looks for the cut in the whole text",
        "streams/markers.py",
        "floor = max(start, best - self.span)",
        "floor = start",
        MARKERS,
    ),
)

FOUND = (
    Mutant(
        "an empty delta clears the note",
        "streams/regions.py",
        "        if not text:\n            return []\n",
        "",
        REGIONS,
    ),
    Mutant(
        "an empty thought leaves the start of the output",
        "streams/regions.py",
        "        self._pristine = self._pristine and state is State.START\n",
        "",
        REGIONS,
    ),
    Mutant(
        "a run of closers is looked through to its end",
        "streams/regions.py",
        "            if at - end >= self._run_cap:\n                return False\n            if text[at].isspace()",
        "            if text[at].isspace()",
        WORK,
    ),
    Mutant(
        "a header is looked for in the whole rest",
        "streams/regions.py",
        "words = text[end : close if close >= 0 else limit]",
        "words = text[end : close if close >= 0 else None]",
        WORK,
    ),
    Mutant(
        "words behind a closing fence are forgotten between two pieces",
        "streams/quoting.py",
        '                self._take_plain(text[: text.index("\\n")])  # a closing fence is alone on its line\n',
        "",
        "tests/streams/test_quoting.py",
    ),
)

REPEATS = (
    Mutant(
        "every content continues the reasoning",
        "integrity/dedup.py",
        "if not core.startswith(text[:size], self._cursor):",
        "if False:",
        DEDUP,
    ),
    Mutant(
        "only the last piece is held",
        "integrity/dedup.py",
        "        self._held.append(text)\n",
        "        self._held = [text]\n",
        DEDUP,
    ),
    Mutant(
        "a difference does not end the stage",
        "integrity/dedup.py",
        "        self._held = []\n        self._off()\n        return held\n",
        "        self._held = []\n        return held\n",
        DEDUP,
    ),
    Mutant(
        "a prefix is a repeat",
        "integrity/dedup.py",
        'return self._compared("".join(self._held)) == core',
        'return core.startswith(self._compared("".join(self._held)))',
        DEDUP,
    ),
    Mutant(
        "the stage suppresses what it must not hold",
        "integrity/dedup.py",
        "if equal and stopped and self.hold:",
        "if equal and stopped:",
        DEDUP,
    ),
    Mutant(
        "nobody asks whether the reasoning was wanted",
        "integrity/stages.py",
        "setting.wanted and not setting.hidden",
        "not setting.hidden",
        ENDPOINTS,
    ),
    Mutant(
        "a constrained answer may be suppressed",
        "exchange/reading.py",
        "facts.wants_reasoning and not facts.constrained",
        "facts.wants_reasoning",
        ENDPOINTS,
    ),
    Mutant(
        "the cap is doubled",
        "integrity/dedup.py",
        "if self._held_size > self._cap:",
        "if self._held_size > 2 * self._cap:",
        DEDUP,
    ),
    Mutant(
        "a release gives nothing back",
        "integrity/dedup.py",
        "        held, self._held = self._held, []\n        return held\n",
        "        held, self._held = self._held, []\n        return []\n",
        DEDUP,
    ),
    Mutant(
        "a cut answer is suppressed",
        "integrity/dedup.py",
        "if equal and stopped and self.hold:",
        "if equal and self.hold:",
        DEDUP,
    ),
    Mutant(
        "content before any reasoning does not end the stage",
        "integrity/dedup.py",
        "                self._off()  # D6: content before any reasoning\n",
        "",
        DEDUP,
    ),
)

MUTANTS = (*READER, *SCANNER, *FOUND, *REPEATS)
