"""Floor 6: `dialects list | show NAME | test FILE`, the rulebook for people. Knows no route and no engine."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gateway.errors import ConfigError
from gateway.reading import Reader, Reading, reading_of
from gateway.rulebook.call_corpus import generated_calls, unshown
from gateway.rulebook.checks import markers_of
from gateway.rulebook.corpus import generated_samples
from gateway.rulebook.dialect import CallFormat, CallSample, Dialect, Kind, Reopen, Sample, ToolRegion
from gateway.rulebook.formats import written_out
from gateway.rulebook.load import Rulebook, kind_of, load_rulebook
from gateway.rulebook.schema import nearest, shown
from gateway.rulebook.select import ENGINES, HALVES

_WIDTH = 100
_SHOWN_FAILURES = 10
_CUTS = (1, 2, 3, 5, 7, 11, 23, 1 << 20)  # characters of a piece, in the outputs with calls
_REGION_FLAGS = {
    "ends_thought": "ends a thought at once",
    "bare": "the opener is part of the call",
    "markerless": "counts at a line start only",
    "control": "never a client's text",
}

_OPENERS = {
    Kind.TAG: "while only white space was released; right after a closer; at a line start outside fences",
    Kind.CONTROL: "anywhere until the answer, never in it",
    Kind.TEXT: "as the very first thing of the output",
}
_CLOSERS = {
    Kind.TAG: "inside a thought; else as the answer's first thing, right after a closer, at a line's start or end",
    Kind.CONTROL: "inside a thought; else only as the very first thing",
    Kind.TEXT: "inside a thought only",
}
_REOPENS = {
    Reopen.NEVER: "the answer never goes back to thinking",
    Reopen.AFTER_CLOSER: "an opener right after a closer goes back to thinking",
    Reopen.LINE_START: "an opener right after a closer, or at a line start of the answer, goes back to thinking",
}


def main(argv: Sequence[str]) -> int:
    """Run the command. Returns 0, or 1 when `test` found readings that differ. Raises ConfigError for bad rules."""
    options = _options(argv)
    rules = [Path(path) for path in options.rules + options.more_rules]
    if options.action == "test":
        return _test(Path(options.file), rules)
    rulebook = load_rulebook(rules)
    for line in _list(rulebook) if options.action == "list" else _wrapped(_show(rulebook, options.name)):
        print(line)
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    """`--rules` counts before and behind the action: `rules` and `more_rules`."""
    parser = argparse.ArgumentParser(prog="integrity-gateway dialects", description="Show and test the rulebook.")
    more = argparse.ArgumentParser(add_help=False)
    for where, name in ((parser, "rules"), (more, "more_rules")):
        where.add_argument(
            "--rules", action="append", default=[], dest=name, metavar="DIR", help="more rules; may be repeated"
        )
    parser.set_defaults(action="list", more_rules=[])
    actions = parser.add_subparsers(metavar="list | show NAME | test FILE")
    listed = actions.add_parser("list", parents=[more], help="every family and call format")
    listed.set_defaults(action="list")
    show = actions.add_parser("show", parents=[more], help="markers, guards and samples of one")
    show.add_argument("name", metavar="NAME", help="a family, a call format, or vllm/NAME or sglang/NAME of a parser")
    show.set_defaults(action="show")
    test = actions.add_parser(
        "test", parents=[more], help="read a rule file's samples and a corpus made from its markers at every cut"
    )
    test.add_argument("file", metavar="FILE", help="a dialect; in a directory named `calls`, a call format")
    test.set_defaults(action="test")
    return parser.parse_args(argv)


# ---------------------------------------------------------------- list and show


def _list(rulebook: Rulebook) -> Iterator[str]:
    yield f"rules {rulebook.digest}"
    yield from _table("FAMILY", "--reasoning-parser", [(d.name, d.kind, d) for d in rulebook.dialects.values()])
    yield from _table("CALL FORMAT", "--tool-call-parser", [(c.name, "calls", c) for c in rulebook.calls.values()])


def _table(title: str, flag: str, rows: Sequence[tuple[str, str, Dialect | CallFormat]]) -> Iterator[str]:
    yield ""
    yield f"{title:<17}{'KIND':<9}{'ENGINE':<8}{flag} NAMES"
    for name, kind, entry in rows:
        first = f"{name:<17}{kind:<9}"
        for engine in ENGINES:
            names = ", ".join(entry.aliases.get(engine, ()))
            if names:
                yield from textwrap.wrap(f"{engine:<8}{names}", _WIDTH, initial_indent=first, break_on_hyphens=False,
                                         subsequent_indent=" " * 34, drop_whitespace=True)  # fmt: skip
                first = " " * 26
        if first.strip():
            yield first + "-"


def _show(rulebook: Rulebook, name: str) -> Iterator[str]:
    if "/" in name:
        dialects, calls = ({entry.name for entry in rulebook.meanings(half, name).values()} for half in HALVES)
    else:
        dialects, calls = {name} & rulebook.dialects.keys(), {name} & rulebook.calls.keys()
    if not dialects and not calls:
        raise ConfigError(f"no family or call format {name!r}; {_hint(rulebook, name)}")
    for family in dialects:
        yield from _show_dialect(rulebook.dialects[family])
    for call in (rulebook.calls[found] for found in calls):
        yield from _show_call_format(call)


def _hint(rulebook: Rulebook, name: str) -> str:
    engines = dict.fromkeys(engine for half in HALVES for engine in rulebook.meanings(half, name))
    near = [f"{engine}/{name}" for engine in engines]
    near = near or list(nearest(name, [*rulebook.dialects, *rulebook.calls]))[:1]
    return f"did you mean {' or '.join(near)}?" if near else "`dialects list` shows them"


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Lines of at most `_WIDTH` columns. What is continued is indented below its first line."""
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        yield from textwrap.wrap(line, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _show_dialect(dialect: Dialect) -> Iterator[str]:
    yield f"family {dialect.name} ({dialect.kind} markers): {dialect.summary}"
    yield from _show_aliases(dialect, "--reasoning-parser")
    yield f"  models: {', '.join(dialect.models) or 'none by name'}"
    yield f"  raw text starts in {dialect.starts_in}; tool calls: {', '.join(dialect.calls) or 'none'}"
    yield "  markers"
    for group, literal in dict.fromkeys(markers_of(dialect)):
        yield f"    {group:<26}{literal!r}"
    for header in dialect.headers:
        yield from (f"    {'header text':<26}{rule.text}  ->  {rule.to}" for rule in header.rules)
    yield "  guards"
    yield f"    an opener counts {_OPENERS[dialect.kind]}"
    yield f"    a closer counts {_CLOSERS[dialect.kind]}"
    yield f"    {_REOPENS[dialect.reopen]}"
    yield "    in inline code, a fence or a tool region every one of them is text"
    if dialect.suffixed:
        yield "    every tag may carry a suffix: `:NAME` before its last character"
    if dialect.spaced:
        yield "    every marker may have a blank before or behind the word between its tokens"
    if dialect.replay:
        yield "    an answer closer as a thought's last words: the channel was skipped, its text is sent as content too"
    if not dialect.promote:
        yield "    a thought is never the answer, even with thinking off"
    yield "  samples"
    for sample in dialect.samples:
        yield f"    {sample.raw!r} from {sample.starts_in}"
        yield f"      reasoning {sample.reasoning!r}, content {sample.content!r}"


def _show_aliases(entry: Dialect | CallFormat, flag: str) -> Iterator[str]:
    for engine in ENGINES:
        if entry.aliases.get(engine):
            yield f"  {engine} {flag}: {', '.join(entry.aliases[engine])}"


def _show_call_format(call: CallFormat) -> Iterator[str]:
    yield f"call format {call.name}: {call.summary}"
    yield from _show_aliases(call, "--tool-call-parser")
    for region in call.regions:
        if not written_out(call, region):
            yield from _show_region(region)
    for piece, others in call.variants.items():
        yield f"  each also with {', '.join(map(repr, others))} for {piece!r}"
    if call.ident:
        yield f"  the family counts its ids: {call.ident}"
    if not call.regions:
        yield "  no region: the checkpoint's own template says how calls are written"
    for sample in call.samples:
        yield f"  sample {sample.raw!r}"
        yield from (f"    {name} {json.dumps(dict(given), ensure_ascii=False)}" for name, given in sample.calls)


def _show_region(region: ToolRegion) -> Iterator[str]:
    opens = ", ".join(map(repr, region.open)) or "the dialect's header"
    ends = ", ".join(map(repr, region.close)) or "the end of the last call"
    yield f"  region: {opens} to {ends}"
    kinds = " or ".join(dict.fromkeys(type(body).__name__.removesuffix("Body").lower() for body in region.bodies))
    flags = [text for key, text in _REGION_FLAGS.items() if getattr(region, key)]
    yield f"    {'; '.join([f'calls as {kinds}' if kinds else 'no call is read', *flags])}"


# ---------------------------------------------------------------- test


def _test(file: Path, rules: Sequence[Path]) -> int:
    rulebook = load_rulebook(rules, extra=file)
    if kind_of(file) in ("leaks", "engines"):
        print(f"{file}: valid, and there is nothing to read in it")
        return 0
    if kind_of(file) == "calls":
        forms = [rulebook.calls[file.stem]]
        dialect = rulebook.reading(forms[0])
    else:
        dialect = rulebook.dialects[file.stem]
        forms = [rulebook.calls[name] for name in dialect.calls]
    generated = list(generated_samples(dialect))
    failures, readings = _failures(dialect, [*dialect.samples, *generated])
    outputs = [sample for form in forms for sample in (*form.samples, *generated_calls(form, dialect))]
    failed, read = _call_failures(dialect, outputs)
    failures += failed
    for failure in failures[:_SHOWN_FAILURES]:
        print(failure)
    for name in [form.name for form in forms if unshown(form)]:
        print(f"no sample of {name} shows how some of its calls are written: those were not tried")
    counts = f"{len(dialect.samples)} samples and {len(generated)} outputs made from the markers, "
    counts += f"{len(outputs)} outputs with calls, {readings + read} readings"
    print(f"{file}: {counts}: {f'{len(failures)} outputs FAILED' if failures else 'all as declared'}")
    return 1 if failures else 0


def _call_failures(dialect: Dialect, samples: Iterable[CallSample]) -> tuple[list[str], int]:
    """As `_failures`, of outputs with calls: cut into pieces of each of `_CUTS` characters."""
    failures, readings = [], 0
    for sample in samples:
        wanted = [(name, dict(given)) for name, given in sample.calls]
        for size in _CUTS:
            readings += 1
            pieces = (sample.raw[at : at + size] for at in range(0, len(sample.raw), size))
            got = _read(dialect, "content", pieces)
            calls = [(call.name, json.loads(call.arguments)) for call in got.calls]
            if (got.content, calls) != (sample.content, wanted):
                differing = (("content", got.content, sample.content), ("calls", calls, wanted))
                lines = [f"  {name}: got {one!r}, expected {other!r}" for name, one, other in differing if one != other]
                failures.append("\n".join([f"FAILED {shown(sample.raw)} in pieces of {size}", *lines]))
                break
    return failures, readings


def _failures(dialect: Dialect, samples: Iterable[Sample]) -> tuple[list[str], int]:
    """One text for each sample that reads otherwise at some chunking, and how many readings there were."""
    failures, readings = [], 0
    for sample in samples:
        for pieces in _chunkings(sample.raw):
            readings += 1
            got = _read(dialect, sample.starts_in, pieces)
            if (got.reasoning, got.content) != (sample.reasoning, sample.content):
                differing = (("reasoning", got.reasoning, sample.reasoning), ("content", got.content, sample.content))
                lines = [f"  {name}: got {one!r}, expected {other!r}" for name, one, other in differing if one != other]
                failures.append("\n".join([f"FAILED {pieces!r} from {sample.starts_in}", *lines]))
                break
    return failures, readings


def _chunkings(text: str) -> Iterator[list[str]]:
    """Whole, every cut in two, and one character at a time."""
    yield [text]
    for cut in range(1, len(text)):
        yield [text[:cut], text[cut:]]
    yield list(text)


def _read(dialect: Dialect, starts_in: str, pieces: Iterable[str]) -> Reading:
    reader = Reader(dialect=dialect, starts_in=starts_in)
    segments = [segment for piece in pieces for segment in reader.feed(piece)]
    return reading_of([*segments, *reader.finish(stopped=True)])
