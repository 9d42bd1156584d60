"""The rows of `known.yaml`: recorded answers that do not come out as their script says, and why."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from tests.traces.recordings import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row. `match`: globs over names of recordings. `server`: glob over the server's name and version."""

    match: list[str]
    why: str
    server: str = "*"

    def covers(self, recording: Recording) -> bool:
        """True where the recording is known to come out otherwise."""
        names = any(fnmatchcase(str(recording), name) for name in self.match)
        return names and fnmatchcase(recording.server, self.server)


KNOWN = [Difference(**row) for row in yaml.safe_load((Path(__file__).parent / "known.yaml").read_text("utf-8"))]
