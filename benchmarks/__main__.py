"""`make bench`: measures, prints, writes `benchmarks/out.json`; exit code 1 when a ratio limit is missed.

python -m benchmarks [--only reader|tokens|proxy] [--quick] [--targets passthrough,gateway,nginx]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import proxy, reader, tokens
from benchmarks.report import Figure, table, write
from benchmarks.targets import TARGETS, DidNotStart


def main() -> int:
    """0: within every limit. 1: a limit missed, or a target that did not start or lost events."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Costs of the reader, of reading tokens, and of the proxy."
    )
    parser.add_argument("--only", choices=["reader", "tokens", "proxy"])
    parser.add_argument("--quick", action="store_true", help="only see that it runs: limits are not judged")
    parser.add_argument("--targets", default=",".join(TARGETS), help="proxies to measure (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out.json")
    chosen = parser.parse_args()
    parts: dict[str, list[Figure]] = {}
    try:
        for name, part in (("reader", reader), ("tokens", tokens)):
            if chosen.only in (None, name):
                parts[name] = part.measure(quick=chosen.quick)
                print(table(name, parts[name]), flush=True)
        if chosen.only in (None, "proxy"):
            parts["proxy"] = proxy.measure(quick=chosen.quick, targets=chosen.targets.split(","))
            print(table("proxy", parts["proxy"]), flush=True)
    except (DidNotStart, proxy.Broken) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    write(chosen.out, parts)
    return int(not chosen.quick and any(figure.missed for part in parts.values() for figure in part))


if __name__ == "__main__":
    raise SystemExit(main())
