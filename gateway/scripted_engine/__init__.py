"""Floor 5: an engine that plays scripted leaks at any chunking and replays recordings of real engines byte for byte.

`cases` the values, `wire` vLLM's shapes, `engine` the server, `shipped` what comes with the package.
"""

from gateway.scripted_engine.cases import Case, Delta, Exchange, Playback, Recording, Script
from gateway.scripted_engine.engine import ScriptedEngine
from gateway.scripted_engine.shipped import load_recordings, load_scripts, read_trace

__all__ = [
    "Case",
    "Delta",
    "Exchange",
    "Playback",
    "Recording",
    "Script",
    "ScriptedEngine",
    "load_recordings",
    "load_scripts",
    "read_trace",
]
