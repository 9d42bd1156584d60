"""Rule files as text, for tests that write a family of their own."""

from __future__ import annotations

MINE = """\
name: mine
summary: a family
kind: tag
aliases: {}
thoughts:
  - {open: ["<a>"], close: ["</a>"]}
samples:
  - {raw: "<a>x</a>y", reasoning: x, content: y}
"""
