"""The mutants of reader_spec 4.1a and 5.3, of the scanner's one rule, and of the faults once found in these modules.

A mutant is one change of one source fragment. `tests`: the pinned suite that must notice it; of several, each must.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLE = "tests/streams/test_truth_table.py"
REGIONS = "tests/streams/test_regions.py"
MARKERS = "tests/streams/test_markers.py"
DEDUP = "tests/integrity/test_dedup.py"
ENDPOINTS = "tests/properties/test_endpoints.py"
WORK = "tests/properties/test_work.py"
VERDICTS = "tests/streams/test_verdicts.py"
REGION = "tests/streams/calls/test_region.py"
TOOLS = "tests/integrity/test_tools.py"
TOOLING = "tests/exchange/test_tooling.py"
ENDING = "tests/server/test_endings.py::test_only_an_answer_that_ended_by_itself_is_sent_again[{}]"
STOP_TEXT = "tests/integrity/test_stop_text.py"
STOP_PIPELINE = "tests/integrity/test_stop_pipeline.py"
RESYNC = "tests/integrity/test_resync.py"


@dataclass(frozen=True, slots=True)
class Mutant:
    """`file` is relative to the package. `old` stands in it exactly once."""

    name: str
    file: str
    old: str
    new: str
    tests: str | tuple[str, ...]


ENTERS = "            return\n        if state is not None:\n            self._enter(state, index)\n"
REPLAYS = "if rule.group is Group.{} and self._state in THINKING:\n                self._replay(out)\n"

READER = (
    Mutant(
        "a cut channel is replayed",
        "streams/regions.py",
        "if self._state in THINKING and stopped:",
        "if self._state in THINKING:",
        TABLE,
    ),
    Mutant(
        "a channel that ended at the think closer is replayed",
        "streams/regions.py",
        ENTERS,
        ENTERS.replace(
            "            self._enter", f"            {REPLAYS.format('THINK_CLOSE')}            self._enter"
        ),
        TABLE,
    ),
    Mutant(
        "a channel that ended at the answer's opener is replayed",
        "streams/regions.py",
        ENTERS,
        ENTERS.replace(
            "            self._enter", f"            {REPLAYS.format('ANSWER_OPEN')}            self._enter"
        ),
        TABLE,
    ),
    Mutant(
        "the exit to the tools needs a stop",
        "streams/regions.py",
        "            if self._state in THINKING:\n                self._replay(out)\n",
        "            if self._state in THINKING and self._stopped:\n                self._replay(out)\n",
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
        "streams/verdicts.py",
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
        "streams/verdicts.py",
        'return Effect.FORWARD, "opens a tool region", State.TOOLS, rule.index',
        "return (Effect.DROP if self._pristine else Effect.FORWARD), '', State.TOOLS, rule.index",
        TABLE,
    ),
    Mutant(
        "dropped framing ends the start of the output",
        "streams/verdicts.py",
        '        return self._unless_mentioned((Effect.DROP, "framing", None, ANY), text, end, final)\n',
        "        self._pristine = False\n"
        '        return self._unless_mentioned((Effect.DROP, "framing", None, ANY), text, end, final)\n',
        TABLE,
    ),
    Mutant(
        "released white space does not end the start of the output",
        "streams/regions.py",
        "        out.append((_CHANNEL[state], text))\n        self._pristine = False\n",
        "        out.append((_CHANNEL[state], text))\n        self._pristine = self._pristine and blank\n",
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
)

# An endpoint's words for how an answer ended: the file, a fragment, and one that takes any word for a stop.
WORDS = {
    "chat": ("chat.py", 'choice.get("finish_reason"), get(', 'choice.get("finish_reason") and "stop", get('),
    "completions": ("completions.py", 'get("finish_reason"), stop', 'get("finish_reason") and "stop", stop'),
    "messages": ("messages_events.py", "_FINISHES.get(reason, reason) if", '"stop" if'),
    "responses": (
        "responses_body.py",
        'response.get("status")\n    if',
        'response.get("status") and "completed"\n    if',
    ),
    "generate": ("generate.py", 'finish = said.get("type")\n', 'finish = said.get("type") and "stop"\n'),
}

# `stopped` always true, behind every endpoint: the rows of each endpoint have to notice it.
ENDINGS = (
    Mutant(
        "the exchange says of any answer that the model stopped",
        "exchange/reading.py",
        '"stopped": part.finish in _STOPPED,',
        '"stopped": True,',
        tuple(ENDING.format(f"{endpoint}-{how}-length") for endpoint in WORDS for how in ("stream", "plain")),
    ),
    Mutant(
        "a stream that does not say how it ended has stopped",
        "exchange/stream.py",
        "finish(**_UNSAID_ENDING)",
        'finish(**_UNSAID_ENDING | {"stopped": True})',
        tuple(ENDING.format(f"{endpoint}-stream-missing") for endpoint in WORDS),
    ),
    *(
        Mutant(
            f"any word for the end is a stop: {endpoint}",
            f"protocols/{file}",
            old,
            new,
            tuple(ENDING.format(f"{endpoint}-{how}-length") for how in ("stream", "plain")),
        )
        for endpoint, (file, old, new) in WORDS.items()
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
        VERDICTS,
    ),
    Mutant(
        "a run of closers is looked through to its end",
        "streams/lookahead.py",
        "            if at - end >= self._cap:\n                return False\n            if text[at].isspace()",
        "            if text[at].isspace()",
        WORK,
    ),
    Mutant(
        "a header is looked for in the whole rest",
        "streams/verdicts.py",
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
        "exchange/settings.py",
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

QUOTED = """{}:
            return Effect.TEXT, "quoted", None, ANY
        if self._failed"""

# Rules of contract rule 5 that keep a text from becoming a call, and a call from getting lost.
CALLS = (
    Mutant(
        "a call counts although text follows it",
        "integrity/tools.py",
        '        self._behind = False\n        self._left(out, rule="not_last")\n',
        "        self._behind = False\n",
        TOOLS,
    ),
    Mutant(
        "nobody asks whether the request says the same",
        "integrity/tools.py",
        "if any(map(tooling.said, _verbatim(found, whole))):",
        "if False:",
        TOOLS,
    ),
    Mutant(
        "only a whole region is compared with the request",
        "integrity/tools.py",
        "    bodies = [body for call in calls if",
        "    bodies = [body for call in () if",
        TOOLS,
    ),
    Mutant(
        "a name need not be declared",
        "integrity/tools.py",
        "return name if name in tooling.schemas and not denied and not other else None",
        "return name if not denied and not other else None",
        TOOLS,
    ),
    Mutant(
        "a denied tool is called",
        "integrity/tools.py",
        "return name if name in tooling.schemas and not denied and not other else None",
        "return name if name in tooling.schemas and not other else None",
        TOOLS,
    ),
    Mutant(
        "another tool than the named one is called",
        "integrity/tools.py",
        "return name if name in tooling.schemas and not denied and not other else None",
        "return name if name in tooling.schemas and not denied else None",
        TOOLS,
    ),
    Mutant(
        "a cut call is made",
        "integrity/tools.py",
        "whole = [call for call in found.calls if call.closed]",
        "whole = list(found.calls)",
        TOOLS,
    ),
    Mutant(
        "tool_choice none is ignored",
        "integrity/tools.py",
        'if tooling is None or tooling.choice == "none":',
        "if tooling is None:",
        TOOLS,
    ),
    Mutant(
        "several calls are made where one may be",
        "integrity/tools.py",
        "        if tooling.parallel:\n            return None\n",
        "        return None\n",
        TOOLS,
    ),
    Mutant(
        "the engine's own call is made twice",
        "integrity/tools.py",
        "if (each.name, _value(each.arguments.text)) != told]",
        "if each]",
        TOOLS,
    ),
    Mutant(
        "what is held for the end of the answer has no cap",
        "integrity/tools.py",
        "if self._size > self._setting.limits.tool_region:",
        "if False:",
        TOOLS,
    ),
    Mutant(
        "an answer that was stopped from outside makes calls",
        "integrity/tools.py",
        '        if not ended:\n            self._left(out, rule="broken_off")\n',
        "",
        TOOLS,
    ),
    Mutant(
        "the rest of a call goes out with every piece behind it",
        "integrity/tools.py",
        "            elif not live.over:\n",
        "            else:\n",
        TOOLS,
    ),
    Mutant(
        "a call that went out is text as well",
        "integrity/tools.py",
        "if grown and not calls:",
        "if grown and not found.calls:",
        TOOLS,
    ),
    Mutant(
        "a candidate in a thought counts although text follows it",
        "streams/regions.py",
        "        if self._parked:\n            if blank:\n",
        "        if self._parked:\n            if text:\n",
        REGIONS,
    ),
    Mutant(
        "a candidate in a thought counts although the thought ends",
        "streams/regions.py",
        "            self._unpark(out)\n            self._unwatch()\n        out.append((MARKER,",
        "            self._unwatch()\n        out.append((MARKER,",
        REGIONS,
    ),
    Mutant(
        "a candidate in a thought counts although the output was cut",
        "streams/regions.py",
        "        if stopped:\n            parked, self._parked",
        "        if True:\n            parked, self._parked",
        REGIONS,
    ),
    Mutant(
        "a region's closer is live inside a value",
        "streams/calls/region.py",
        "                at = body.read(text, at, final=final)\n",
        "                ends = [text.find(end, at) for end in self._until if end in text[at:]]\n"
        "                at = body.read(text[: min(ends, default=len(text))], at, final=final or bool(ends))\n",
        REGION,
    ),
    Mutant(
        "the cap of a region is one character less",
        "streams/regions.py",
        "capped = len(text) - at > self._region_cap - region.size",
        "capped = len(text) - at >= self._region_cap - region.size",
        REGIONS,
    ),
    Mutant(
        "calls that may end a thought have no cap",
        "streams/regions.py",
        "if self._parked_size > self._region_cap:",
        "if False:",
        REGIONS,
    ),
    Mutant(
        "regions that were none are not counted",
        "streams/regions.py",
        "        self._failed += 1\n",
        "",
        VERDICTS,
    ),
    Mutant(
        "what may join a body is looked for behind any white space",
        "streams/calls/region.py",
        "        near = at - start <= GAP and (not found or behind - found <= GAP)\n",
        "        near = True\n",
        REGION,
    ),
    Mutant(
        "what is no call is read on behind a good one to no closer",
        "streams/calls/region.py",
        "                self.rest = True\n                return self._skip(text, at, final=final)\n",
        "                self.rest = True\n                return at\n",
        REGION,
    ),
    Mutant(
        "a quoted call is one",
        "streams/verdicts.py",
        QUOTED.format("(self._quoting.quoted or self._quoting.cited)"),
        QUOTED.format("self._quoting.cited"),
        VERDICTS,
    ),
    Mutant(
        "a cited call is one",
        "streams/verdicts.py",
        QUOTED.format("(self._quoting.quoted or self._quoting.cited)"),
        QUOTED.format("self._quoting.quoted"),
        VERDICTS,
    ),
    Mutant(
        "a call without a marker begins in the middle of a line",
        "streams/verdicts.py",
        "if region.markerless and (self._takes.markerless is Take.NO or not self._line_start(text)):",
        "if region.markerless and self._takes.markerless is Take.NO:",
        VERDICTS,
    ),
    Mutant(
        "an ordinary tag ends a thought",
        "streams/verdicts.py",
        "if self._state in THINKING and (self._guards_thought or not region.ends_thought):",
        "if self._state in THINKING and self._guards_thought:",
        VERDICTS,
    ),
    Mutant(
        "without tools the client's own tags go",
        "exchange/tooling.py",
        "        return Takes(control=away)\n",
        "        return Takes(content=away, control=away)\n",
        TOOLING,
    ),
    Mutant(
        "an observed answer is held back",
        "exchange/tooling.py",
        "away = Take.WATCH if policy.profile is Profile.OBSERVE else Take.HOLD",
        "away = Take.HOLD",
        TOOLING,
    ),
)

STOPS = (
    Mutant(
        "a stop string that more text followed has fired",
        "integrity/stop_text.py",
        "found = text.find(stop, max(0, old - len(stop) + 1))\n            at = at",
        "found = text.find(stop)\n            at = at",
        STOP_TEXT,
    ),
    Mutant(
        "the stop string that begins first has matched",
        "integrity/stop_text.py",
        "if at != -1 and at + len(stop) < first:\n            best, first = (stop, at), at + len(stop)",
        "if at != -1 and at < first:\n            best, first = (stop, at), at",
        STOP_TEXT,
    ),
    Mutant(
        "a stop string spans a change of field",
        "integrity/stop_pipeline.py",
        'thought += self._tail.release() if self._spoke == REASONING else ""',
        'thought += ""',
        STOP_PIPELINE,
    ),
    Mutant(
        "a stop string that the client asked for is cut",
        "integrity/stop_pipeline.py",
        "keep=self._keep)",
        "keep=False)",
        STOP_PIPELINE,
    ),
    Mutant(
        "a call behind the stop string goes out",
        "integrity/stop_pipeline.py",
        "            if self.fired is not None:\n                self._dropped += len(said)",
        "            if self.fired is not None and isinstance(said, str):\n                self._dropped += len(said)",
        STOP_PIPELINE,
    ),
    Mutant(
        "a replayed answer is not matched",
        "integrity/stop_pipeline.py",
        "elif channel in (CONTENT, REPLAY) and",
        "elif channel == CONTENT and",
        STOP_PIPELINE,
    ),
    Mutant(
        "a block quote is the end of a closer",
        "integrity/resync.py",
        "if window.desync and (self._thought or back >= SURE):",
        "if self._thought or back >= SURE:",
        RESYNC,
    ),
    Mutant(
        "a quoted closer ends the thought",
        "integrity/resync.py",
        "or not _quoted(text[:begin])",
        "or True",
        RESYNC,
    ),
    Mutant(
        "the window behind the reasoning has no end",
        "integrity/resync.py",
        "if begin > window.longest or text",
        "if text",
        RESYNC,
    ),
)

MUTANTS = (*READER, *ENDINGS, *SCANNER, *FOUND, *REPEATS, *CALLS, *STOPS)
