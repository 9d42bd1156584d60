"""Reads the configuration again when its files change or a signal asks: the kill switch that needs no restart.

Files are looked at once a second, since a mounted ConfigMap tells no watcher. Whatever is wrong with the new
configuration, the old one stays. Must not know what a configuration means, or who follows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from gateway.errors import ConfigError
from gateway.server import logs
from gateway.server.config import Config

POLL_SECONDS = 1.0

Marks = tuple[tuple[str, int, int, int], ...]


class Reload:
    """`load` reads the configuration; `adopt` puts it in force, or raises ConfigError.

    `told` hears how each try ended: `success` or `failure`.
    """

    def __init__(
        self,
        config: Config,
        *,
        load: Callable[[], Config],
        adopt: Callable[[Config], None],
        told: Callable[[str], None],
    ) -> None:
        self._load, self._adopt, self._told = load, adopt, told
        self._files = config.files
        self._seen = marks(self._files)
        self._asked = asyncio.Event()

    async def run(self) -> None:
        """Looks without an end."""
        while True:
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._asked.wait()
            except TimeoutError:
                pass
            asked = self._asked.is_set()
            self._asked.clear()
            # Before the files are read: what changes while they are is seen the next time.
            now = await asyncio.to_thread(marks, self._files)
            if asked or now != self._seen:
                self._seen = now
                await self._reload()

    def ask(self) -> None:
        """Read it again at once, changed or not."""
        self._asked.set()

    async def _reload(self) -> None:
        try:
            config = await asyncio.to_thread(self._load)
            self._adopt(config)
        except Exception as error:
            # The text of a ConfigError is written for the operator; of a bug only its place is told.
            text = str(error) if isinstance(error, ConfigError) else logs.where(error)
            logs.say("reload_failed", level=logging.ERROR, error=text)
            self._told("failure")
            return
        if config.files != self._files:
            self._files = config.files
            self._seen = await asyncio.to_thread(marks, self._files)
        logs.say("reloaded", rules_digest=config.rulebook.digest)
        for warning in config.warnings:
            logs.say("warning", message=warning)
        self._told("success")


def marks(paths: Iterable[Path]) -> Marks:
    """What changes when a file does: of each file, and of each file below a folder; a missing one is left out."""
    return tuple(mark for path in paths for file in _files(path) for mark in _mark(file))


def _files(path: Path) -> Iterable[Path]:
    try:
        return sorted(path.rglob("*")) if path.is_dir() else [path]
    except OSError:  # a folder that goes away while it is read: the next look sees what it has become
        return []


def _mark(file: Path) -> Iterable[tuple[str, int, int, int]]:
    try:
        state = file.stat()
    except OSError:
        return
    yield str(file), state.st_ino, state.st_size, state.st_mtime_ns
