"""integrity-gateway: makes the output of reasoning models arrive whole and in the right field.

The nouns, one spelling everywhere:

exchange   one client request and its one answer, however many attempts it takes
attempt    one call of the upstream engine
frame      one SSE message or one whole JSON body, with its original bytes
channel    reasoning, content, tool (see `gateway.events`)
region     where the reader stands: answer, thought, tool call, framing
dialect    the markers of one model family, a YAML file in `rules/dialects`
marker     an opener, closer, framing or end-of-turn string of a dialect
hold-back  text kept because it may become a marker; `release` lets it go
leak       a marker or thought found where a client would see it
finding    one named thing that was wrong with an answer (`gateway.findings`)
rulebook   the immutable, compiled rules
tally      the counters of one exchange
stopped    the model ended by itself: not cut by length, abort or a broken connection

`read_whole` and `Reader` are the public Python interface; nothing reachable from here imports aiohttp.
"""

__version__ = "0.1.0"

__all__ = ["Reader", "Reading", "__version__", "read_whole"]


def __getattr__(name: str) -> object:
    """The reading API is imported on first use, so that `gateway.limits` and friends load alone."""
    if name in {"Reader", "Reading", "read_whole"}:
        from gateway import reading

        return getattr(reading, name)
    raise AttributeError(f"module 'gateway' has no attribute {name!r}")
