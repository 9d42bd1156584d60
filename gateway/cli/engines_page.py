"""The page `docs/engines.md`: what goes wrong in the engines themselves, and what they can be asked for instead.

The faults are those of `rules/engines`. The means are written here: no code has them yet as data.
"""

from __future__ import annotations

from typing import Final

from gateway.cli.tables import NOTICE, table
from gateway.rulebook.faults import KnownFault, Version
from gateway.rulebook.load import load_rulebook

_HEAD: Final = """# What goes wrong in the engines themselves

The known faults, row by row as the files of `rules/engines` have them. Each row there also names its source, what can
be lost, and on which day it was tried; [rules/README.md](../rules/README.md) explains the keys. Which of them count
for a route follows from its engine, the engine's version and its parsers; `/rules` on the admin listener names them
(`faults`), and those of them for which `profile: full` asks the engine otherwise, with what it asks for (`asks`).

Where the engine does not tell its version, a fault that some version has fixed does not count, and the others do. Of
a version newer than the newest that was tried nothing is known, and nothing is listed.

* **versions**: *all* are those up to the newest that was tried; *below* a version is the first known to be without
  it.
* **parsers**: reasoning parsers; *asked* are those that split only where the request asks to think; *tools* are tool
  parsers; none named: whichever.
* **remedy**: `in_step` leaves the stop string in the engine's text, which then goes in step with its tokens;
  `gateway` takes the stop strings over; `tokens` reads the model's tokens, because the text has no trace left;
  `repair` is what the gateway does with the text as it arrives; `regenerate` asks the model again; `upgrade` is for
  who runs the engine.
* **status**: `reproduced` on the engine or its own code; `read` in its source; `reported` by a thread only, even
  where it was tried; `fixed`.
"""

_NO, _OPEN = "no", "not looked"
_IDS, _STOP, _TRIM = "`return_token_ids`, 0.10.2", "`include_stop_str_in_output`", "`no_stop_trim`"
_USAGE = "`stream_options`: `continuous_usage_stats`"
_MEANS: Final = (
    ("ids of the tokens, as they come", "vLLM", _IDS, _IDS, _NO, _NO, _NO),
    ("", "SGLang", "no: 400", "`return_token_ids`", _OPEN, _OPEN, "`output_ids`, always"),
    ("ids of a whole answer", "vLLM", _IDS, _IDS, "`enable_response_messages`", _NO, _NO),
    ("", "SGLang", "`return_token_ids`", "`return_token_ids`", _OPEN, _OPEN, "`output_ids`, always"),
    (
        "text of each token",
        "vLLM",
        "`logprobs`, bytes",
        "`logprobs`",
        "`include`: `message.output_text.logprobs`",
        _NO,
        _NO,
    ),
    ("", "SGLang", "`logprobs`, bytes", "`logprobs`", _OPEN, _OPEN, "`return_logprob`, `return_text_in_logprobs`"),
    ("stop string left in", "vLLM", _STOP, _STOP, _STOP, _OPEN, _NO),
    ("", "SGLang", _TRIM, _TRIM, _OPEN, _OPEN, _TRIM),
    ("usage in every event", "vLLM", _USAGE, _USAGE, _OPEN, _OPEN, _NO),
    ("", "SGLang", _USAGE, _USAGE, _OPEN, _OPEN, "`meta_info`, always"),
)
_ROUTES: Final = (
    ("text to ids", "`/tokenize`, 0.8, open without the API key", "`/tokenize`, `/v1/tokenize` (renders chats too)"),
    ("ids to text", "`/detokenize`, 0.8, right for whole sequences", "`/detokenize`, `/v1/detokenize`"),
)
_MEANS_HEAD: Final = """## Where each means exists

What can be asked of an engine instead of guessing from its text: the member of the request, and the first version
with it where that is known. *no*: there is no such member, or no such endpoint.
"""
_MEANS_FOOT: Final = """\
* Sources: vLLM 0.33.0 read and run (Python frontend; 0.32.0 recorded on a CPU), first versions from its archives;
  SGLang 0.5.23 read, no server was run. `include_stop_str_in_output` of Responses: vLLM's source at commit 010a69c.
* vLLM: `include_reasoning: false` hides ids and `logprobs` of the thought with its text. With stop strings the ids
  run ahead of the text by up to the longest stop string less one character. With the stop string left in, streams of
  parsers that keep special tokens, and have no tool parser of the same kind beside them, show the end-of-turn token.
* SGLang: a chat stream has ids at its end only (`return_output_ids_in_sglext`). `output_ids` are cumulative, or
  deltas with `--incremental-streaming-output`. DeepSeek V4 and Inkling are split by ids: `separate_reasoning: false`
  leaves no marker.
"""


def engines_page() -> str:
    """The whole page."""
    faults = table(
        ["fault", "issue", "engine and versions", "parsers", "symptom", "remedy", "status"],
        (
            [f"`{f.ident}`", _issues(f), _versions(f), _parsers(f), f.symptom, f"`{f.remedy}`", _status(f)]
            for f in load_rulebook().faults
        ),
    )
    means = table(["means", "engine", "chat", "completions", "Responses", "Messages", "`/generate`"], _MEANS)
    routes = table(["route beside them", "vLLM", "SGLang"], _ROUTES)
    return NOTICE + "\n" + "\n".join([_HEAD, faults, _MEANS_HEAD, means, routes, _MEANS_FOOT])


def _issues(fault: KnownFault) -> str:
    links = []
    for issue in fault.issues:
        repository, _, number = issue.partition("#")
        name = repository.rpartition("/")[2]
        links.append(f"[{name}#{number}](https://github.com/{repository}/issues/{number})")
    return " ".join(links)


def _versions(fault: KnownFault) -> str:
    bounds = (("from", fault.since), ("below", fault.until))
    return f"{fault.engine} {' '.join(f'{word} {_dotted(version)}' for word, version in bounds if version) or 'all'}"


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _parsers(fault: KnownFault) -> str:
    groups = {"": fault.parsers, "asked: ": fault.asked, "tools: ": fault.tools}
    return "; ".join(
        label + ", ".join(f"`{name}`" for name in sorted(names)) for label, names in groups.items() if names
    )


def _status(fault: KnownFault) -> str:
    return f"`{fault.status}`" + (f", tried on {fault.checked[1]}" if fault.checked else "")
